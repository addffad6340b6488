//! What was odd about how a trace was recorded: the table `trace_diagnostics` (upstream: trace_diagnostics_tracker.cc, whose keys, bounds and
//! confidences these are).
//!
//! A rule looks at the config and at what was lost, once all is known.

use ferretto_protos::fields::trace_config as field;
use ferretto_protos::fields::{data_source_config, ftrace_config, heapprofd_config};
use ferretto_trace_read::clocks::{BOOTTIME, Clock, Machine};
use ferretto_trace_tables::MachineId;
use ferretto_trace_tables::tables::TraceDiagnosticRow;

use crate::config::{DISCARD, is_streamed};
use crate::metadata::Key;
use crate::model::Model;
use crate::stats::{Severity, Stat};
use crate::wire;

/// Rows of the table. Ours: a config may name any number of data sources.
const MAX_ROWS: usize = 10_000;
/// What the kernel had kept from before is odd if recording began later after booting.
const LATE_START_NS: i64 = 5 * 60 * 1_000_000_000;
/// Buffers of the kernel's events of this size are well, and those of the other certainly too small.
const BUFFER_KB: (u64, u64) = (1024, 64);
/// Emptied so fast they are well, and certainly too slowly, in MiB a second.
const DRAIN_MIB_PER_S: (f64, f64) = (5.0, 1.0);
/// How often they should be emptied.
const DRAIN_PERIODS_MS: std::ops::RangeInclusive<u64> = 100..=60_000;
/// Names of the kernel's functions are in these.
const EVENTS_WITH_SYMBOLS: [&[u8]; 2] = [b"workqueue/workqueue_execute_start", b"sched/sched_blocked_reason"];
const SYSTEM_CALLS: [&[u8]; 2] = [b"raw_syscalls/sys_enter", b"raw_syscalls/sys_exit"];
/// A file that is written so rarely, every seven days, is written once.
const ONE_WRITE_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// Sources that never end, so that a buffer which keeps the first of what it gets is none for them.
const ENDLESS: [&[u8]; 2] = [b"linux.ftrace", b"track_event"];
/// Heap profiles need no samples that are more frequent.
const HEAP_INTERVAL_BYTES: u64 = 100 << 10;

/// A finding.
struct Finding {
    key: &'static str,
    title: &'static str,
    description: String,
    remediation: &'static str,
    confidence: f64,
}

impl Model {
    /// Looks at how the trace was recorded. The last thing that is done before counters are written.
    pub(crate) fn diagnose(&mut self, config: &[u8]) {
        self.stats.set_machine(MachineId(0));
        let sources: Vec<&[u8]> = wire::all_bytes(config, field::DATA_SOURCES)
            .filter_map(|source| wire::bytes(source, field::data_source::CONFIG))
            .collect();
        let of = |number| sources.iter().filter_map(move |source| wire::bytes(source, number));
        let kernel: Vec<&[u8]> = of(data_source_config::FTRACE_CONFIG).collect();
        let heaps: Vec<&[u8]> = of(data_source_config::HEAPPROFD_CONFIG).collect();
        let has_lost = self.stats.any(|stat| {
            let losses =
                [Stat::FtraceCpuHasDataLoss, Stat::FtraceCpuOverrunDelta, Stat::FtraceCpuCommitOverrunDelta];
            losses.contains(&stat)
        });
        let is_late = self.began_after_boot_ns().is_some_and(|ns| ns > LATE_START_NS);
        let heap_errors =
            self.stats.any(|stat| stat.severity() == Severity::Error && stat.name().starts_with("heapprofd"));
        let rules = [
            kernel.iter().filter_map(|it| is_late.then(|| old_events(it))?).collect(),
            kernel.iter().filter_map(|it| small_buffer(it, has_lost)).collect(),
            kernel.iter().filter_map(|it| slow_drain(it, has_lost)).collect(),
            kernel.iter().filter_map(|it| odd_period(it)).collect(),
            kernel.iter().filter_map(|it| all_system_calls(it, has_lost)).collect(),
            kernel.iter().flat_map(|it| missing_symbols(it)).collect::<Vec<_>>(),
            first_of_stream(config, &sources),
            heaps.iter().filter_map(|it| frequent_samples(it, heap_errors)).collect(),
            self.missing_video(&sources).into_iter().collect(),
        ];
        for finding in rules.into_iter().flatten().take(MAX_ROWS) {
            self.write_finding(finding);
        }
    }

    fn write_finding(&mut self, finding: Finding) {
        let strings = &mut self.tables.strings;
        let row = TraceDiagnosticRow {
            key: Some(strings.intern(finding.key)),
            title: Some(strings.intern(finding.title)),
            description: Some(strings.intern(&finding.description)),
            remediation: Some(strings.intern(finding.remediation)),
            confidence: finding.confidence,
            trace_id: Some(self.file),
        };
        self.tables.trace_diagnostics.push(row);
    }

    /// How long after booting recording began. A trace whose clocks are not related has, most likely, the time since booting.
    fn began_after_boot_ns(&mut self) -> Option<i64> {
        let began = self.metadata_int(Key::TracingStartedNs, MachineId(0))?;
        let (trace, boot) = (self.clocks.trace_clock(), Clock::new(BOOTTIME, 0, Machine(0)));
        Some(self.clocks.convert(trace, began, boot).unwrap_or(began))
    }

    fn missing_video(&self, sources: &[&[u8]]) -> Option<Finding> {
        let is_video =
            |it: &&[u8]| wire::bytes(it, data_source_config::NAME) == Some(b"android.display.video");
        let print = self.metadata_text(Key::AndroidBuildFingerprint, MachineId(0)).unwrap_or_default();
        let (_, build) = print.rsplit_once(':').unwrap_or_default();
        let is_of_users = build.split('/').next() == Some("user");
        let is_found = sources.iter().any(is_video) && is_of_users;
        is_found.then(|| Finding {
            key: "display_video_not_enabled",
            title: "No video of the display",
            description: "android.display.video was asked for on a build for users, which gives none unless the property \
                debug.tracing_video_allowed is set"
                .to_owned(),
            remediation: "adb shell setprop debug.tracing_video_allowed true, again after each start of the device",
            confidence: 0.7,
        })
    }
}

fn has(config: &[u8], number: u32) -> bool {
    wire::number(config, number).is_some_and(|value| value != 0)
}

fn old_events(config: &[u8]) -> Option<Finding> {
    has(config, ftrace_config::PRESERVE_FTRACE_BUFFER).then(|| Finding {
        key: "preserve_ftrace_buffer_late_start",
        title: "Needless preserve_ftrace_buffer",
        description: "recording began minutes after booting, so that the events that the kernel had kept may be very old"
            .to_owned(),
        remediation: "leave preserve_ftrace_buffer out, or record soon after booting",
        confidence: 0.7,
    })
}

fn small_buffer(config: &[u8], has_lost: bool) -> Option<Finding> {
    let kb = wire::number(config, ftrace_config::BUFFER_SIZE_KB)?;
    let (well, severe) = BUFFER_KB;
    if kb == 0 || kb >= well {
        return None;
    }
    let part = kb.saturating_sub(severe) as f64 / (well - severe) as f64;
    Some(Finding {
        key: "tiny_ftrace_buffer",
        title: "Small buffer for the kernel's events",
        description: format!("buffer_size_kb is {kb}: below 1024 events get lost when there are many"),
        remediation: "leave buffer_size_kb out: its default fits most",
        confidence: if has_lost { 0.9 } else { 0.9 + part * (0.2 - 0.9) },
    })
}

fn slow_drain(config: &[u8], has_lost: bool) -> Option<Finding> {
    let kb = wire::number(config, ftrace_config::BUFFER_SIZE_KB)?;
    let period_ms = wire::number(config, ftrace_config::DRAIN_PERIOD_MS)?;
    if kb == 0 || period_ms == 0 {
        return None;
    }
    let speed = (kb as f64 / 1024.0) / (period_ms as f64 / 1000.0);
    let (well, severe) = DRAIN_MIB_PER_S;
    (speed < well).then(|| Finding {
        key: "low_ftrace_drain_bandwidth",
        title: "The kernel's events are taken too slowly",
        description: format!(
            "buffer_size_kb = {kb} every drain_period_ms = {period_ms} is less than 5 MiB a second: events get lost when \
             there are many"
        ),
        remediation: "leave both out, or make the buffer larger or the period shorter",
        confidence: if has_lost { 0.9 } else { 0.9 * ((well - speed) / (well - severe)).min(1.0) },
    })
}

fn odd_period(config: &[u8]) -> Option<Finding> {
    let period_ms = wire::number(config, ftrace_config::DRAIN_PERIOD_MS)?;
    (!DRAIN_PERIODS_MS.contains(&period_ms)).then(|| Finding {
        key: "extreme_ftrace_drain_period",
        title: "Odd drain_period_ms",
        description: format!(
            "drain_period_ms is {period_ms}: below 100 it costs much processor time, above 60000 events get lost"
        ),
        remediation: "leave drain_period_ms out: its default fits most",
        confidence: 0.6,
    })
}

fn all_system_calls(config: &[u8], has_lost: bool) -> Option<Finding> {
    let has_calls =
        wire::all_bytes(config, ftrace_config::FTRACE_EVENTS).any(|it| SYSTEM_CALLS.contains(&it));
    let is_filtered = wire::all_bytes(config, ftrace_config::SYSCALL_EVENTS).next().is_some();
    (has_calls && !is_filtered).then(|| Finding {
        key: "syscalls_without_filter",
        title: "All system calls are recorded",
        description:
            "raw_syscalls without syscall_events records each system call: large traces, that cost much"
                .to_owned(),
        remediation: "name in syscall_events those that matter",
        confidence: if has_lost { 0.9 } else { 0.3 },
    })
}

fn missing_symbols(config: &[u8]) -> Vec<Finding> {
    if has(config, ftrace_config::SYMBOLIZE_KSYMS) {
        return Vec::new();
    }
    let remediation = "set symbolize_ksyms: true";
    let graph = has(config, ftrace_config::ENABLE_FUNCTION_GRAPH).then(|| Finding {
        key: "function_graph_requires_symbolize_ksyms",
        title: "Functions without names",
        description: "enable_function_graph without symbolize_ksyms records addresses, whose names nobody can find later"
            .to_owned(),
        remediation,
        confidence: 1.0,
    });
    let event = wire::all_bytes(config, ftrace_config::FTRACE_EVENTS)
        .find(|event| EVENTS_WITH_SYMBOLS.contains(event))
        .map(|event| Finding {
            key: "events_require_symbolize_ksyms",
            title: "Functions in events without names",
            description: format!(
                "{} without symbolize_ksyms has addresses of functions, whose names nobody can find later",
                String::from_utf8_lossy(event)
            ),
            remediation,
            confidence: 0.6,
        });
    graph.into_iter().chain(event).collect()
}

fn first_of_stream(config: &[u8], sources: &[&[u8]]) -> Vec<Finding> {
    let period_ms = wire::number(config, field::FILE_WRITE_PERIOD_MS).unwrap_or(0);
    if !is_streamed(config) || period_ms >= ONE_WRITE_MS {
        return Vec::new();
    }
    let keeps_first: Vec<bool> = wire::all_bytes(config, field::BUFFERS)
        .map(|buffer| wire::number(buffer, field::buffer_config::FILL_POLICY) == Some(DISCARD))
        .collect();
    let found = sources.iter().filter_map(|source| {
        let name = wire::bytes(source, data_source_config::NAME).filter(|name| ENDLESS.contains(name))?;
        let target = wire::number(source, data_source_config::TARGET_BUFFER).unwrap_or(0);
        keeps_first.get(usize::try_from(target).ok()?)?.then(|| Finding {
            key: "discard_buffer_for_streaming",
            title: "A buffer that is full for good",
            description: format!(
                "{} goes into a DISCARD buffer while a file is written: what comes once it is full is missing",
                String::from_utf8_lossy(name)
            ),
            remediation: "leave fill_policy out, which makes it a RING_BUFFER",
            confidence: 0.8,
        })
    });
    found.collect()
}

fn frequent_samples(config: &[u8], has_errors: bool) -> Option<Finding> {
    let bytes = wire::number(config, heapprofd_config::SAMPLING_INTERVAL_BYTES)?;
    (1..HEAP_INTERVAL_BYTES).contains(&bytes).then(|| Finding {
        key: "heapprofd_sampling_interval_too_low",
        title: "Heap samples that are too frequent",
        description: format!(
            "sampling_interval_bytes is {bytes}: below 100 KiB profiles cost more and are hardly more exact"
        ),
        remediation: "set sampling_interval_bytes to 102400 or more",
        confidence: if has_errors { 0.9 } else { 0.3 },
    })
}
