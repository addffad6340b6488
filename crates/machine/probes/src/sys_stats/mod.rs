//! `linux.sys_stats`: counters of the whole system, read at fixed intervals.

mod parse;

use ferretto_protos::SysStatsConfig;
use ferretto_protos::fields::{sys_stats as field, trace_packet};
use ferretto_protos::sys_stats::psi_sample::PsiResource;
use ferretto_protos::sys_stats_config::StatCounters;
use ferretto_protozero::{Message, Sink};

use crate::clock::{boottime_ns, ns_per_tick};
use crate::packets::{Packets, stamp};
use crate::proc_fs::{PolledFile, leading_u64, read_at};
use parse::{Counters, StatParts};
use rustix::fs::CWD;

/// Shorter periods cost more than they show (upstream: sys_stats_data_source.cc).
const MIN_PERIOD_MS: u32 = 10;

/// One session's system statistics.
#[derive(Debug)]
pub(crate) struct SysStats {
    /// The smallest of the periods: that of the ticks.
    period_ms: u32,
    /// Counts ticks, and says which sources are due.
    tick: u32,
    sources: Vec<Polled>,
    buffer: Vec<u8>,
    /// An encoded `SysStats`.
    body: Vec<u8>,
}

#[derive(Debug)]
struct Polled {
    /// Due on every tick that this divides.
    ticks: u32,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Meminfo(PolledFile, Counters),
    Vmstat(PolledFile, Counters),
    Stat { file: PolledFile, parts: StatParts, ns_per_tick: u64 },
    Devfreq,
    Cpufreq { cpus: u32 },
    Buddyinfo(PolledFile),
    Diskstat(PolledFile),
    Pressure([(PolledFile, PsiResource, PsiResource); 3]),
    Thermal,
    Cpuidle { cpus: u32 },
    Gpufreq,
    Slab(PolledFile),
}

impl SysStats {
    pub(crate) fn new(config: &SysStatsConfig) -> Self {
        let wanted = wanted_sources(config);
        let period_ms = wanted.iter().map(|(period_ms, _)| *period_ms).min().unwrap_or(0);
        let mut sources = Vec::new();
        // Periods that do not fit together stop everything, in upstream too: half of what was asked for would look like all of it.
        if wanted.iter().any(|(ms, _)| ms % period_ms.max(1) != 0) {
            tracing::error!(
                "linux.sys_stats records nothing: its periods must be multiples of the shortest one ({period_ms} ms)"
            );
        } else {
            sources = wanted
                .into_iter()
                .map(|(ms, make)| Polled { ticks: ms / period_ms, source: make(config) })
                .collect();
        }
        Self { period_ms, tick: 0, sources, buffer: Vec::new(), body: Vec::new() }
    }

    /// How often [`poll`](Self::poll) wants to be called; `None` for never.
    pub(crate) fn poll_period_ms(&self) -> Option<u32> {
        (!self.sources.is_empty()).then_some(self.period_ms)
    }

    /// Reads what is due and writes it as one packet.
    pub(crate) fn poll(&mut self, out: &mut impl Packets) {
        let started = boottime_ns();
        self.body.clear();
        let mut body = Message::new(&mut self.body);
        for polled in &mut self.sources {
            if self.tick.is_multiple_of(polled.ticks) {
                polled.source.read(&mut self.buffer, &mut body);
            }
        }
        body.varint(field::COLLECTION_END_TIMESTAMP, boottime_ns());
        drop(body);
        self.tick = self.tick.wrapping_add(1);
        let body = &self.body;
        out.packet(|packet| {
            stamp(packet, started);
            packet.bytes(trace_packet::SYS_STATS, body);
        });
    }
}

type MakeSource = fn(&SysStatsConfig) -> Source;

/// The sources with a period, in the order of upstream's reading.
fn wanted_sources(config: &SysStatsConfig) -> Vec<(u32, MakeSource)> {
    let all: [(&str, u32, MakeSource); 12] = [
        ("meminfo_period_ms", config.meminfo_period_ms(), |c| {
            Source::Meminfo(PolledFile::open("/proc/meminfo"), parse::meminfo_counters(&c.meminfo_counters))
        }),
        ("vmstat_period_ms", config.vmstat_period_ms(), |c| {
            Source::Vmstat(PolledFile::open("/proc/vmstat"), parse::vmstat_counters(&c.vmstat_counters))
        }),
        ("stat_period_ms", config.stat_period_ms(), |c| Source::Stat {
            file: PolledFile::open("/proc/stat"),
            parts: stat_parts(c),
            ns_per_tick: ns_per_tick(),
        }),
        ("devfreq_period_ms", config.devfreq_period_ms(), |_| Source::Devfreq),
        ("cpufreq_period_ms", config.cpufreq_period_ms(), |_| Source::Cpufreq { cpus: configured_cpus() }),
        ("buddyinfo_period_ms", config.buddyinfo_period_ms(), |_| {
            Source::Buddyinfo(PolledFile::open("/proc/buddyinfo"))
        }),
        ("diskstat_period_ms", config.diskstat_period_ms(), |_| {
            Source::Diskstat(PolledFile::open("/proc/diskstats"))
        }),
        ("psi_period_ms", config.psi_period_ms(), |_| Source::pressure()),
        ("thermal_period_ms", config.thermal_period_ms(), |_| Source::Thermal),
        ("cpuidle_period_ms", config.cpuidle_period_ms(), |_| Source::Cpuidle { cpus: configured_cpus() }),
        ("gpufreq_period_ms", config.gpufreq_period_ms(), |_| Source::Gpufreq),
        ("slab_period_ms", config.slab_period_ms(), |_| Source::Slab(PolledFile::open("/proc/slabinfo"))),
    ];
    let mut wanted = Vec::new();
    for (name, period_ms, make) in all {
        if (1..MIN_PERIOD_MS).contains(&period_ms) {
            tracing::info!("{name} {period_ms} is raised to the minimum of {MIN_PERIOD_MS}");
        }
        if period_ms > 0 {
            wanted.push((period_ms.max(MIN_PERIOD_MS), make));
        }
    }
    wanted
}

fn stat_parts(config: &SysStatsConfig) -> StatParts {
    let wants = |counter: StatCounters| {
        config.stat_counters.is_empty() || config.stat_counters().any(|c| c == counter)
    };
    StatParts {
        cpu_times: wants(StatCounters::StatCpuTimes),
        irq_counts: wants(StatCounters::StatIrqCounts),
        softirq_counts: wants(StatCounters::StatSoftirqCounts),
        fork_count: wants(StatCounters::StatForkCount),
    }
}

/// CPUs that this kernel may have, online or not.
fn configured_cpus() -> u32 {
    let possible =
        crate::ftrace::tracefs::parse_cpu_list(&crate::proc_fs::read("/sys/devices/system/cpu/possible"));
    let is_there = |cpu: &u32| std::path::Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}")).exists();
    possible.into_iter().filter(is_there).max().map_or(1, |last| last + 1)
}

impl Source {
    fn pressure() -> Self {
        use PsiResource::*;
        Self::Pressure([
            (PolledFile::open("/proc/pressure/cpu"), CpuSome, CpuFull),
            (PolledFile::open("/proc/pressure/io"), IoSome, IoFull),
            (PolledFile::open("/proc/pressure/memory"), MemorySome, MemoryFull),
        ])
    }

    fn read<S: Sink>(&mut self, buffer: &mut Vec<u8>, out: &mut Message<'_, S>) {
        // A file that cannot be read leaves the buffer empty, and an empty text has no counters.
        match self {
            Self::Meminfo(file, wanted) => parse::meminfo(file.read(buffer), wanted, out),
            Self::Vmstat(file, wanted) => parse::vmstat(file.read(buffer), wanted, out),
            Self::Stat { file, parts, ns_per_tick } => {
                parse::stat(file.read(buffer), *parts, *ns_per_tick, out)
            }
            Self::Buddyinfo(file) => parse::buddyinfo(file.read(buffer), out),
            Self::Diskstat(file) => parse::diskstats(file.read(buffer), out),
            Self::Slab(file) => parse::slabinfo(file.read(buffer), out),
            Self::Pressure(files) => {
                for (file, some, full) in files {
                    parse::pressure(file.read(buffer), *some as u64, *full as u64, out);
                }
            }
            Self::Devfreq => read_devfreq(buffer, out),
            Self::Cpufreq { cpus } => read_cpufreq(*cpus, buffer, out),
            Self::Thermal => read_thermal(buffer, out),
            Self::Cpuidle { cpus } => read_cpuidle(*cpus, buffer, out),
            Self::Gpufreq => read_gpufreq(buffer, out),
        }
    }
}

/// The frequency of every CPU in kHz, by position; 0 for one that is offline or does not say.
fn read_cpufreq<S: Sink>(cpus: u32, buffer: &mut Vec<u8>, out: &mut Message<'_, S>) {
    for cpu in 0..cpus {
        let khz = read_number(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"), buffer);
        out.varint(field::CPUFREQ_KHZ, khz.unwrap_or(0));
    }
}

fn read_devfreq<S: Sink>(buffer: &mut Vec<u8>, out: &mut Message<'_, S>) {
    for name in names_in("/sys/class/devfreq") {
        let hz = read_number(&format!("/sys/class/devfreq/{name}/cur_freq"), buffer);
        let mut entry = out.nested(field::DEVFREQ);
        entry.string(field::devfreq_value::KEY, &name);
        entry.varint(field::devfreq_value::VALUE, hz.unwrap_or(0));
    }
}

fn read_thermal<S: Sink>(buffer: &mut Vec<u8>, out: &mut Message<'_, S>) {
    for name in names_in("/sys/class/thermal").into_iter().filter(|name| name.starts_with("thermal_zone")) {
        let mut zone = out.nested(field::THERMAL_ZONE);
        zone.string(field::thermal_zone::NAME, &name);
        if let Some(millidegrees) = read_number(&format!("/sys/class/thermal/{name}/temp"), buffer) {
            zone.varint(field::thermal_zone::TEMP, millidegrees / 1000);
        }
        if read_at(CWD, format!("/sys/class/thermal/{name}/type"), buffer) {
            zone.bytes(field::thermal_zone::TYPE, buffer.trim_ascii_end());
        }
    }
}

fn read_cpuidle<S: Sink>(cpus: u32, buffer: &mut Vec<u8>, out: &mut Message<'_, S>) {
    for cpu in 0..cpus {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        let states: Vec<_> = names_in(&dir).into_iter().filter(|name| name.starts_with("state")).collect();
        if states.is_empty() {
            continue;
        }
        let mut idle = out.nested(field::CPUIDLE_STATE);
        idle.varint(field::cpu_idle_state::CPU_ID, u64::from(cpu));
        for state in states {
            let Some(time_us) = read_number(&format!("{dir}/{state}/time"), buffer) else { continue };
            if read_at(CWD, format!("{dir}/{state}/name"), buffer) {
                let mut entry = idle.nested(field::cpu_idle_state::CPUIDLE_STATE_ENTRY);
                entry.bytes(field::cpu_idle_state_entry::STATE, buffer.trim_ascii_end());
                entry.varint(field::cpu_idle_state_entry::DURATION_US, time_us);
            }
        }
    }
}

/// The first GPU of the three kinds that say their frequency (upstream: ReadGpuFrequency): Adreno in Hz, Intel, AMD.
fn read_gpufreq<S: Sink>(buffer: &mut Vec<u8>, out: &mut Message<'_, S>) {
    let mhz = read_number("/sys/class/kgsl/kgsl-3d0/devfreq/cur_freq", buffer)
        .map(|hz| hz / 1_000_000)
        .or_else(|| read_number("/sys/class/drm/card0/gt_act_freq_mhz", buffer))
        .or_else(|| {
            read_at(CWD, "/sys/class/drm/card0/device/pp_dpm_sclk", buffer)
                .then(|| parse::amd_gpu_mhz(buffer))?
        });
    if let Some(mhz) = mhz {
        out.varint(field::GPUFREQ_MHZ, mhz);
    }
}

fn read_number(path: &str, buffer: &mut Vec<u8>) -> Option<u64> {
    read_at(CWD, path, buffer).then(|| leading_u64(buffer))?
}

/// The names in a directory of /sys, sorted; none if it is not there.
fn names_in(dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::testing::Recorded;
    use ferretto_protos::trace_packet::Data;

    #[test]
    fn each_source_is_read_when_its_period_is_due() {
        let config =
            SysStatsConfig { meminfo_period_ms: Some(1), stat_period_ms: Some(20), ..Default::default() };
        let mut source = SysStats::new(&config);
        assert_eq!(source.poll_period_ms(), Some(10));
        let mut out = Recorded::default();
        for _ in 0..3 {
            source.poll(&mut out);
        }
        let due: Vec<_> = out
            .decoded()
            .into_iter()
            .map(|packet| {
                let Some(Data::SysStats(stats)) = packet.data else { panic!("no sys_stats") };
                assert!(stats.collection_end_timestamp() >= packet.timestamp.unwrap());
                (!stats.meminfo.is_empty(), !stats.cpu_stat.is_empty())
            })
            .collect();
        assert_eq!(due, [(true, true), (true, false), (true, true)]);
    }

    #[test]
    fn periods_that_are_no_multiples_stop_polling() {
        let config =
            SysStatsConfig { meminfo_period_ms: Some(20), stat_period_ms: Some(30), ..Default::default() };
        assert_eq!(SysStats::new(&config).poll_period_ms(), None);
        assert_eq!(SysStats::new(&SysStatsConfig::default()).poll_period_ms(), None);
    }

    #[test]
    fn every_source_can_be_polled_on_any_machine() {
        let all = Some(10);
        let config = SysStatsConfig {
            vmstat_period_ms: all,
            devfreq_period_ms: all,
            cpufreq_period_ms: all,
            buddyinfo_period_ms: all,
            diskstat_period_ms: all,
            psi_period_ms: all,
            thermal_period_ms: all,
            cpuidle_period_ms: all,
            gpufreq_period_ms: all,
            slab_period_ms: all,
            ..Default::default()
        };
        let mut out = Recorded::default();
        SysStats::new(&config).poll(&mut out);
        let Some(Data::SysStats(stats)) = out.decoded().remove(0).data else { panic!("no sys_stats") };
        assert!(!stats.cpufreq_khz.is_empty());
    }
}
