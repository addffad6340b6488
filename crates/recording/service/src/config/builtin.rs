//! What the service itself adds to a trace.

use ferretto_protos::TraceConfig;

use super::or_default;
use crate::limits;

/// What the service itself adds to a trace.
#[derive(Debug, Clone)]
pub(crate) struct BuiltinSpec {
    pub(crate) clock_snapshots: bool,
    pub(crate) trace_config: bool,
    pub(crate) system_info: bool,
    pub(crate) service_events: bool,
    pub(crate) primary_clock: i32,
    pub(crate) snapshot_interval_ms: u32,
    pub(crate) snapshots_count_suspend: bool,
    pub(crate) histograms: bool,
    /// Events about other sessions.
    pub(crate) concurrent_sessions: bool,
}

pub(super) fn parse_builtin(config: &TraceConfig) -> BuiltinSpec {
    let builtin = config.builtin_data_sources.unwrap_or_default();
    let interval = or_default(builtin.snapshot_interval_ms(), limits::DEFAULT_SNAPSHOT_INTERVAL_MS);
    BuiltinSpec {
        clock_snapshots: !builtin.disable_clock_snapshotting(),
        trace_config: !builtin.disable_trace_config(),
        system_info: !builtin.disable_system_info(),
        service_events: !builtin.disable_service_events(),
        primary_clock: match builtin.primary_trace_clock.unwrap_or_default() {
            0 => ferretto_protos::BuiltinClock::Boottime as i32,
            clock => clock,
        },
        snapshot_interval_ms: interval.max(limits::MIN_SNAPSHOT_INTERVAL_MS),
        snapshots_count_suspend: builtin.prefer_suspend_clock_for_snapshot(),
        concurrent_sessions: builtin.enable_concurrent_session_events(),
        histograms: !builtin.disable_chunk_usage_histograms(),
    }
}
