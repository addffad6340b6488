//! The config that `perfetto -t 5s -b 32mb sched/sched_switch` stands for (upstream: src/perfetto_cmd/config.cc).

use ferretto_protos::trace_config::{BufferConfig, DataSource};
use ferretto_protos::{DataSourceConfig, FtraceConfig, SysStatsConfig, TraceConfig};

use super::args::Light;
use crate::units;

const DEFAULT_TIME: &str = "10s";
const DEFAULT_BUFFER: &str = "32mb";
const FLUSH_PERIOD_MS: u32 = 30_000;
const DISKSTAT_PERIOD_MS: u32 = 1_000;

/// Builds the config, or says which flag is wrong.
pub(crate) fn build(light: &Light) -> Result<TraceConfig, String> {
    let time = light.time.as_deref().unwrap_or(DEFAULT_TIME);
    let duration_ms =
        units::parse_time_ms(time).ok_or("--time argument is invalid: use N with ms, s, m or h")?;
    let buffer_kb = size_flag("--buffer", light.buffer.as_deref().unwrap_or(DEFAULT_BUFFER))?;
    let max_file_kb = size_flag("--size", light.size.as_deref().unwrap_or_default())?;

    let mut config = TraceConfig {
        duration_ms: Some(u32::try_from(duration_ms).map_err(|_| "--time is too long")?),
        max_file_size_bytes: Some(max_file_kb.saturating_mul(1024)),
        flush_period_ms: Some(FLUSH_PERIOD_MS),
        write_into_file: (max_file_kb > 0).then_some(true),
        ..TraceConfig::default()
    };
    config.buffers.push(BufferConfig {
        size_kb: Some(u32::try_from(buffer_kb).map_err(|_| "--buffer is too large")?),
        ..BufferConfig::default()
    });
    config.data_sources = data_sources(light);
    Ok(config)
}

fn size_flag(flag: &str, text: &str) -> Result<u64, String> {
    units::parse_size_kb(text).ok_or_else(|| format!("{flag} argument is invalid: use N with kb, mb or gb"))
}

/// The categories sorted into what they mean.
#[derive(Default)]
struct Categories<'a> {
    ftrace_events: Vec<&'a str>,
    atrace: Vec<&'a str>,
    hypervisor: Option<&'a str>,
}

fn sort_categories(light: &Light) -> Categories<'_> {
    let mut sorted = Categories::default();
    for category in &light.categories {
        match category.as_str() {
            "hyp" | "hypervisor" => sorted.hypervisor = Some(category),
            event if event.contains('/') => sorted.ftrace_events.push(event),
            atrace => sorted.atrace.push(atrace),
        }
    }
    sorted
}

fn data_sources(light: &Light) -> Vec<DataSource> {
    let categories = sort_categories(light);
    let mut sources = Vec::new();
    for category in &light.categories {
        match category.as_str() {
            "gfx" => sources.push(named("android.surfaceflinger.frametimeline")),
            "disk" => sources
                .push(DataSourceConfig { sys_stats_config: Some(diskstat()), ..named("linux.sys_stats") }),
            _ => {}
        }
    }
    if !categories.ftrace_events.is_empty() || !categories.atrace.is_empty() || !light.apps.is_empty() {
        sources.push(ftrace(FtraceConfig {
            ftrace_events: owned(&categories.ftrace_events),
            atrace_categories: owned(&categories.atrace),
            atrace_apps: light.apps.clone(),
            symbolize_ksyms: Some(true),
            ..FtraceConfig::default()
        }));
    }
    if let Some(instance) = categories.hypervisor {
        sources.push(ftrace(FtraceConfig {
            ftrace_events: vec![format!("{instance}/*")],
            instance_name: Some(instance.to_owned()),
            ..FtraceConfig::default()
        }));
    }
    sources.push(DataSourceConfig { target_buffer: Some(0), ..named("linux.process_stats") });
    sources.push(DataSourceConfig { target_buffer: Some(0), ..named("linux.system_info") });
    sources.into_iter().map(|config| DataSource { config: Some(config), ..DataSource::default() }).collect()
}

fn named(name: &str) -> DataSourceConfig {
    DataSourceConfig { name: Some(name.to_owned()), ..DataSourceConfig::default() }
}

fn ftrace(config: FtraceConfig) -> DataSourceConfig {
    DataSourceConfig { ftrace_config: Some(config), ..named("linux.ftrace") }
}

fn diskstat() -> SysStatsConfig {
    SysStatsConfig { diskstat_period_ms: Some(DISKSTAT_PERIOD_MS), ..SysStatsConfig::default() }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// What `-c :test` means: two seconds of scheduling and CPU power (upstream: perfetto_cmd.cc).
pub(crate) fn test_config() -> TraceConfig {
    const EVENTS: [&str; 4] =
        ["sched/sched_switch", "power/cpu_idle", "power/cpu_frequency", "power/gpu_frequency"];
    let events = FtraceConfig { ftrace_events: owned(&EVENTS), ..FtraceConfig::default() };
    let source = DataSource { config: Some(ftrace(events)), ..DataSource::default() };
    TraceConfig {
        duration_ms: Some(2_000),
        buffers: vec![BufferConfig { size_kb: Some(4096), ..BufferConfig::default() }],
        data_sources: vec![source],
        ..TraceConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn light(time: &str, buffer: &str, size: &str, categories: &[&str]) -> Light {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Light {
            time: some(time),
            size: some(size),
            buffer: some(buffer),
            apps: Vec::new(),
            categories: owned(categories),
        }
    }

    fn names(config: &TraceConfig) -> Vec<&str> {
        config
            .data_sources
            .iter()
            .filter_map(|source| source.config.as_ref())
            .map(|config| config.name())
            .collect()
    }

    // Default, MilliSeconds … Gigabyte and the Bad… cases of upstream's config_unittest.cc.
    #[test]
    fn time_and_sizes_reach_the_config() {
        let cases = [
            ("", "", "", Some((10_000, 32 * 1024, 0))),
            ("2ms", "", "", Some((2, 32 * 1024, 0))),
            ("0", "", "", Some((0, 32 * 1024, 0))),
            ("100s", "2kb", "", Some((100_000, 2, 0))),
            ("2m", "2mb", "20mb", Some((120_000, 2048, 20 << 20))),
            ("2h", "2gb", "1g", Some((7_200_000, 2 << 20, 1 << 30))),
            ("2s ", "", "", None),
            ("2ly", "", "", None),
            ("2", "", "", None),
            ("s", "", "", None),
            ("", "2", "", None),
            ("", "", "5light-years", None),
        ];
        for (time, buffer, size, expected) in cases {
            let built = build(&light(time, buffer, size, &[]));
            let figures =
                built.ok().map(|c| (c.duration_ms(), c.buffers[0].size_kb(), c.max_file_size_bytes()));
            assert_eq!(figures, expected, "-t {time:?} -b {buffer:?} -s {size:?}");
        }
    }

    #[test]
    fn a_size_means_writing_into_the_file() {
        assert!(build(&light("", "", "1mb", &[])).unwrap().write_into_file());
        assert!(!build(&light("", "", "", &[])).unwrap().write_into_file());
    }

    // FullConfig and the hypervisor cases of upstream's config_unittest.cc.
    #[test]
    fn categories_become_data_sources() {
        let always = ["linux.process_stats", "linux.system_info"];
        let cases: [(&[&str], &[&str]); 5] = [
            (&[], &[]),
            (&["sched/sched_switch"], &["linux.ftrace"]),
            (&["wm", "gfx"], &["android.surfaceflinger.frametimeline", "linux.ftrace"]),
            (&["hyp"], &["linux.ftrace"]),
            (&["disk", "a/b", "hypervisor"], &["linux.sys_stats", "linux.ftrace", "linux.ftrace"]),
        ];
        for (categories, expected) in cases {
            let config = build(&light("", "", "", categories)).unwrap();
            assert_eq!(names(&config), [expected, &always].concat(), "{categories:?}");
        }
    }

    #[test]
    fn the_hypervisor_is_an_ftrace_instance() {
        let config = build(&light("", "", "", &["hypervisor"])).unwrap();
        let ftrace = config.data_sources[0].config.as_ref().and_then(|c| c.ftrace_config.as_ref()).unwrap();
        assert_eq!(ftrace.instance_name(), "hypervisor");
        assert_eq!(ftrace.ftrace_events, ["hypervisor/*"]);
    }
}
