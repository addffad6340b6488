//! The config of `ferretto record` without `-c`: what an ordinary look at a Linux machine needs.

use ferretto_protos::process_stats_config::Quirks;
use ferretto_protos::sys_stats_config::StatCounters;
use ferretto_protos::trace_config::buffer_config::FillPolicy;
use ferretto_protos::trace_config::{BufferConfig, DataSource, ProducerConfig};
use ferretto_protos::{
    DataSourceConfig, FtraceConfig, ProcessStatsConfig, SysStatsConfig, TraceConfig, TrackEventConfig,
};
use std::path::Path;

/// Two places where the kernel shows its tracing files.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// For kernel events and instrumented programs. Emptied once a second, so it holds the worst second: five million
/// scheduling switches of about ten bytes.
pub(crate) const DEFAULT_BUFFER_KB: u32 = 64 << 10;
/// For process names and counters. Apart from the others, so that a storm of events never overwrites the names.
const STATE_BUFFER_KB: u32 = 8 << 10;
/// For what is said once at the start. It keeps that instead of the newest.
const MACHINE_BUFFER_KB: u32 = 256;
/// Of each CPU in the kernel; read ten times a second, so it holds 100 ms of events at 80 MB/s.
pub(crate) const DEFAULT_KERNEL_BUFFER_KB: u32 = 8 << 10;
const DRAIN_PERIOD_MS: u32 = 100;
/// Often enough that `kill -9` costs a second at most.
const FILE_WRITE_PERIOD_MS: u32 = 1_000;
/// What the service does anyway at this write period; readers of traces warn if the config does not say so.
const FLUSH_PERIOD_MS: u32 = 5_000;
const COUNTERS_PERIOD_MS: u32 = 1_000;

pub(crate) const EVENTS_BUFFER: u32 = 0;
const STATE_BUFFER: u32 = 1;
/// Of a flight recorder only, where counters would overwrite the names in time.
const COUNTERS_BUFFER: u32 = 2;
const MACHINE_BUFFER: u32 = 3;

/// Kernel events: who ran when and why, which processes and threads came and went, how fast the CPUs ran, and what
/// people write to trace_marker.
///
/// Chosen instead of `sched/*`: that would add statistics of every wake-up and tick, which the UI does not show and
/// which triple the load.
const KERNEL_EVENTS: [&str; 14] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup_new",
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "sched/sched_process_free",
    "task/task_newtask",
    "task/task_rename",
    "power/cpu_frequency",
    "power/cpu_idle",
    "power/suspend_resume",
    "oom/mark_victim",
    "ftrace/print",
];

/// What the flags may change.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings {
    pub(crate) buffer_kb: u32,
    pub(crate) kernel_buffer_kb: u32,
    /// Of each program with the service; none is as the program asks.
    pub(crate) shared_memory_kb: Option<u32>,
    /// The buffers are rings that nobody empties.
    pub(crate) is_flight: bool,
}

/// All sources for which `works` is true.
pub(crate) fn build(settings: Settings, works: impl Fn(&str) -> bool) -> TraceConfig {
    let buffer = |name: &str, size_kb| BufferConfig {
        size_kb: Some(size_kb),
        name: Some(name.to_owned()),
        // Names must outlive the packets that said them.
        fold_overwritten: settings.is_flight.then_some(true),
        ..BufferConfig::default()
    };
    let sources = sources(settings).into_iter().filter(|source| works(source.name()));
    let data_sources =
        sources.map(|config| DataSource { config: Some(config), ..DataSource::default() }).collect();
    let of_each = settings.shared_memory_kb.map(|size_kb| ProducerConfig {
        producer_name: Some("*".to_owned()),
        shm_size_kb: Some(size_kb),
        ..ProducerConfig::default()
    });
    let producers = of_each.into_iter().collect();
    let mut buffers = vec![buffer("events", settings.buffer_kb), buffer("state", STATE_BUFFER_KB)];
    if settings.is_flight {
        let discard = Some(FillPolicy::Discard as i32);
        buffers.push(buffer("counters", STATE_BUFFER_KB));
        buffers.push(BufferConfig {
            fill_policy: discard,
            fold_overwritten: None,
            ..buffer("machine", MACHINE_BUFFER_KB)
        });
        return TraceConfig { buffers, data_sources, producers, ..TraceConfig::default() };
    }
    TraceConfig {
        buffers,
        data_sources,
        producers,
        write_into_file: Some(true),
        file_write_period_ms: Some(FILE_WRITE_PERIOD_MS),
        flush_period_ms: Some(FLUSH_PERIOD_MS),
        ..TraceConfig::default()
    }
}

/// Whether a config is one of those that `build` makes, as far as its buffers tell: advice is about flags then.
pub(crate) fn is_like(config: &TraceConfig) -> bool {
    let names = |config: &TraceConfig| -> Vec<String> {
        config.buffers.iter().map(|buffer| buffer.name().to_owned()).collect()
    };
    let of = names(config);
    [false, true]
        .into_iter()
        .any(|is_flight| of == names(&build(Settings { is_flight, ..Settings::default() }, |_| true)))
}

/// The names of all sources that `build` can ask for.
pub(crate) fn source_names() -> Vec<String> {
    let settings = Settings::default();
    sources(settings).into_iter().map(|source| source.name().to_owned()).collect()
}

fn sources(settings: Settings) -> Vec<DataSourceConfig> {
    let (counters, machine) = match settings.is_flight {
        true => (COUNTERS_BUFFER, MACHINE_BUFFER),
        false => (STATE_BUFFER, STATE_BUFFER),
    };
    let process_stats = |config, buffer| DataSourceConfig {
        process_stats_config: Some(config),
        ..source("linux.process_stats", buffer)
    };
    let mut sources = vec![
        DataSourceConfig { ftrace_config: Some(ftrace(settings)), ..source("linux.ftrace", EVENTS_BUFFER) },
        DataSourceConfig { sys_stats_config: Some(sys_stats()), ..source("linux.sys_stats", counters) },
        source("linux.system_info", machine),
        DataSourceConfig {
            track_event_config: Some(all_categories()),
            ..source("track_event", EVENTS_BUFFER)
        },
    ];
    match settings.is_flight {
        false => {
            let both = ProcessStatsConfig { proc_stats_poll_ms: Some(COUNTERS_PERIOD_MS), ..process_names() };
            sources.insert(1, process_stats(both, STATE_BUFFER));
        }
        true => {
            sources.insert(1, process_stats(process_names(), STATE_BUFFER));
            sources.insert(2, process_stats(process_counters(), COUNTERS_BUFFER));
        }
    }
    sources
}

fn source(name: &str, target_buffer: u32) -> DataSourceConfig {
    DataSourceConfig {
        name: Some(name.to_owned()),
        target_buffer: Some(target_buffer),
        ..DataSourceConfig::default()
    }
}

fn ftrace(settings: Settings) -> FtraceConfig {
    FtraceConfig {
        ftrace_events: KERNEL_EVENTS
            .into_iter()
            .filter(|event| kernel_has(event))
            .map(str::to_owned)
            .collect(),
        buffer_size_kb: Some(settings.kernel_buffer_kb),
        drain_period_ms: Some(DRAIN_PERIOD_MS),
        ..FtraceConfig::default()
    }
}

/// Kernels differ in their events. Where the files cannot be seen the probes will say which are missing.
fn kernel_has(event: &str) -> bool {
    let mut roots = TRACEFS.iter().map(|root| Path::new(root).join("events")).filter(|root| root.is_dir());
    roots.next().is_none_or(|root| root.join(event).is_dir())
}

fn process_names() -> ProcessStatsConfig {
    ProcessStatsConfig {
        scan_all_processes_on_start: Some(true),
        record_thread_names: Some(true),
        ..ProcessStatsConfig::default()
    }
}

/// Counters without names.
fn process_counters() -> ProcessStatsConfig {
    ProcessStatsConfig {
        quirks: vec![Quirks::DisableOnDemand as i32],
        proc_stats_poll_ms: Some(COUNTERS_PERIOD_MS),
        ..ProcessStatsConfig::default()
    }
}

fn sys_stats() -> SysStatsConfig {
    let exists = |path: &str| Path::new(path).exists().then_some(COUNTERS_PERIOD_MS);
    SysStatsConfig {
        meminfo_period_ms: Some(COUNTERS_PERIOD_MS),
        vmstat_period_ms: Some(COUNTERS_PERIOD_MS),
        stat_period_ms: Some(COUNTERS_PERIOD_MS),
        stat_counters: vec![StatCounters::StatCpuTimes as i32, StatCounters::StatForkCount as i32],
        diskstat_period_ms: Some(COUNTERS_PERIOD_MS),
        psi_period_ms: exists("/proc/pressure/cpu"),
        cpufreq_period_ms: exists("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"),
        ..SysStatsConfig::default()
    }
}

fn all_categories() -> TrackEventConfig {
    TrackEventConfig { enabled_categories: vec!["*".to_owned()], ..TrackEventConfig::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_with(works: impl Fn(&str) -> bool) -> TraceConfig {
        build(Settings { buffer_kb: 1024, kernel_buffer_kb: 512, ..Settings::default() }, works)
    }

    fn names(config: &TraceConfig) -> Vec<&str> {
        config
            .data_sources
            .iter()
            .map(|source| source.config.as_ref().map_or("", |config| config.name()))
            .collect()
    }

    #[test]
    fn the_flags_reach_the_config() {
        let config = build_with(|_| true);
        assert!(config.write_into_file());
        assert_eq!(config.buffers[0].size_kb(), 1024);
        let ftrace =
            config.data_sources[0].config.as_ref().and_then(|source| source.ftrace_config.as_ref()).unwrap();
        assert_eq!(ftrace.buffer_size_kb(), 512);
        assert_eq!(names(&config), source_names());
    }

    #[test]
    fn shared_memory_is_for_all_programs() {
        let with =
            |size| build(Settings { shared_memory_kb: size, ..Settings::default() }, |_| true).producers;
        assert!(with(None).is_empty());
        let producers = with(Some(65536));
        assert_eq!((producers[0].producer_name(), producers[0].shm_size_kb()), ("*", 65536));
    }

    #[test]
    fn sources_that_do_not_work_here_are_not_asked_for() {
        let names = build_with(|name| name != "linux.ftrace");
        assert!(!self::names(&names).contains(&"linux.ftrace"));
    }

    #[test]
    fn every_source_has_a_buffer() {
        let config = build_with(|_| true);
        for source in config.data_sources.iter().filter_map(|source| source.config.as_ref()) {
            assert!((source.target_buffer() as usize) < config.buffers.len(), "{}", source.name());
        }
    }

    #[test]
    fn a_flight_recorder_keeps_names_counters_and_events_apart() {
        let flight =
            Settings { buffer_kb: 1024, kernel_buffer_kb: 512, is_flight: true, ..Settings::default() };
        let config = build(flight, |_| true);
        assert!(!config.write_into_file());
        let targets: Vec<(&str, u32)> = config
            .data_sources
            .iter()
            .filter_map(|source| source.config.as_ref())
            .map(|config| (config.name(), config.target_buffer()))
            .collect();
        let expected = [
            ("linux.ftrace", 0),
            ("linux.process_stats", 1),
            ("linux.process_stats", 2),
            ("linux.sys_stats", 2),
            ("linux.system_info", 3),
            ("track_event", 0),
        ];
        assert_eq!(targets, expected);
        let policies: Vec<_> = config.buffers.iter().map(BufferConfig::fill_policy).collect();
        assert_eq!(policies.iter().filter(|policy| **policy == FillPolicy::Discard).count(), 1);
        assert_eq!(config.buffers[3].fill_policy(), FillPolicy::Discard);
    }
}
