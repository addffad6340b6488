//! What a config says of the file that the service writes.

use ferretto_protos::TraceConfig;
use ferretto_protos::trace_config;
use ferretto_protos::trace_config::WriteFlushMode;

use super::{or_default, period};
use crate::limits;

/// How a session's file is written.
#[derive(Debug, Clone)]
pub(crate) struct FileSpec {
    pub(crate) output_path: Option<String>,
    pub(crate) period_ms: u32,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) flush_first: bool,
    pub(crate) sync: bool,
}

/// What the file wants, and the flush period that follows from it (upstream: `write_flush_mode`).
pub(super) fn parse_file(config: &TraceConfig) -> (Option<FileSpec>, Option<u32>) {
    let flush_period_ms = period(config.flush_period_ms());
    if !config.write_into_file() {
        return (None, flush_period_ms);
    }
    let period_ms = or_default(config.file_write_period_ms(), limits::DEFAULT_FILE_WRITE_PERIOD_MS)
        .max(limits::MIN_FILE_WRITE_PERIOD_MS);
    let (flush_first, flush_period_ms) = match config.write_flush_mode() {
        WriteFlushMode::WriteFlushDisabled => (false, flush_period_ms),
        WriteFlushMode::WriteFlushEnabled => (true, None),
        _ if period_ms <= limits::AUTO_FLUSH_PERIOD_MS => (false, Some(limits::AUTO_FLUSH_PERIOD_MS)),
        _ => (true, None),
    };
    let file = FileSpec {
        output_path: config.output_path.clone(),
        period_ms,
        max_bytes: (config.max_file_size_bytes() != 0).then(|| config.max_file_size_bytes()),
        flush_first,
        sync: config.fflush_post_write() == trace_config::FFlushMode::FflushEnabled,
    };
    (Some(file), flush_period_ms)
}
