//! Prints the processor time that the data sources of each maker spend on the same config under the same load, run in turn with the
//! same service (upstream's): for each context switch recorded, with what could have paid for it beside it.
//!
//! `probes_cpu [LOAD [RUNS]]`: `pairs` (two pairs of threads that wake each other as fast as they can, on all cores of a small machine),
//! `pair` (one of them), or `processes` (processes that end as soon as they have begun, one after another, on two cores, as `make` would).

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ferretto_benches::{MAKERS, PingPong, cpu_ns, median, voluntary_switches};
use ferretto_interop::{Maker, Peers, Program, World, both, tracefs};
use ferretto_protos::fields::{ftrace_event_bundle, trace_packet};
use ferretto_protos::{FtraceStats, TracePacket, ftrace_stats, trace_packet::Data};
use ferretto_protozero::read::{Fields, Value};
use prost::Message as _;

const RUNS: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
    buffers { size_kb: 262144 }
    data_sources { config { name: "linux.ftrace" ftrace_config {
        ftrace_events: "sched/*" ftrace_events: "task/*"
    } } }
    data_sources { config { name: "linux.process_stats" process_stats_config {
        scan_all_processes_on_start: true record_thread_names: true proc_stats_poll_ms: 1000
    } } }
    data_sources { config { name: "linux.sys_stats" sys_stats_config {
        meminfo_period_ms: 1000 vmstat_period_ms: 1000 stat_period_ms: 1000
    } } }
    duration_ms: 5000
"#;

/// What one recording cost and holds.
#[derive(Debug, Default, Clone, Copy)]
#[expect(dead_code, reason = "some of it is only printed, run by run")]
struct Run {
    cpu_ns: u64,
    user_ms: u64,
    system_ms: u64,
    wakings: u64,
    peak_kib: u64,
    trace_bytes: u64,
    switches: u64,
    /// How often the threads of the load woke each other. Few of both: they spun instead of sleeping.
    rounds: u64,
    /// Events that the kernel overwrote or dropped.
    kernel_lost: u64,
    /// Packets that found no shared memory, and chunks that the service's buffer had no room for.
    packets_lost: u64,
}

impl Run {
    fn ns_a_switch(&self) -> u64 {
        self.cpu_ns / self.switches.max(1)
    }
}

fn main() -> Result<(), String> {
    tracefs()?;
    let peers = both()?;
    let mut args = std::env::args().skip(1);
    let load = args.next().unwrap_or_else(|| "pairs".to_owned());
    let count = args.next().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let mut runs: [Vec<Run>; 2] = Default::default();
    for _ in 0..count {
        for (maker, runs) in MAKERS.into_iter().zip(&mut runs) {
            let run = run(&peers, maker, &load)?;
            eprintln!("{maker:?}: {run:?}");
            runs.push(run);
        }
    }
    println!("load: {load}, medians of {count}; losses are sums");
    println!(
        "{:<10} {:>8} {:>8} {:>8} {:>10} {:>11} {:>8} {:>9} {:>9} {:>12} {:>13}",
        "probes",
        "CPU ms",
        "user",
        "system",
        "switches",
        "ns a switch",
        "wakings",
        "peak KiB",
        "trace MB",
        "kernel lost",
        "packets lost"
    );
    for (maker, runs) in MAKERS.into_iter().zip(&runs) {
        let of = |value: fn(&Run) -> u64| median(runs.iter().map(value).collect());
        let sum = |value: fn(&Run) -> u64| runs.iter().map(value).sum::<u64>();
        println!(
            "{:<10} {:>8} {:>8} {:>8} {:>10} {:>11} {:>8} {:>9} {:>9} {:>12} {:>13}",
            format!("{maker:?}").to_lowercase(),
            of(|run| run.cpu_ns / 1_000_000),
            of(|run| run.user_ms),
            of(|run| run.system_ms),
            of(|run| run.switches),
            of(Run::ns_a_switch),
            of(|run| run.wakings),
            of(|run| run.peak_kib),
            of(|run| run.trace_bytes / 1_000_000),
            sum(|run| run.kernel_lost),
            sum(|run| run.packets_lost),
        );
    }
    let [ours, upstream] = &runs;
    let each = |runs: &[Run]| median(runs.iter().map(Run::ns_a_switch).collect()) as f64;
    let mut ratios: Vec<f64> =
        ours.iter().zip(upstream).map(|(a, b)| a.ns_a_switch() as f64 / b.ns_a_switch() as f64).collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "ratio {:.2} (ns a switch, ours to upstream's), pairs {ratios:.2?}",
        each(ours) / each(upstream)
    );
    Ok(())
}

/// One recording.
fn run(peers: &Peers, maker: Maker, load: &str) -> Result<Run, String> {
    let mut world = World::with_traced(peers, Maker::Upstream);
    world.start_probes(peers, maker);
    let (config, trace) = (world.path("config.txtpb"), world.path("trace"));
    std::fs::write(&config, CONFIG).map_err(|error| error.to_string())?;
    let pid = world.daemons().last().ok_or("no daemon")?.pid();
    let load = Load::start(load)?;
    let before = (cpu_ns(pid), ticks_ms(pid), voluntary_switches(pid));
    let mut command = peers.command(Maker::Upstream, Program::Perfetto);
    command.arg("--txt").arg("-c").arg(&config).arg("-o").arg(&trace);
    let done = world.run(command, TIMEOUT);
    let after = (cpu_ns(pid), ticks_ms(pid), voluntary_switches(pid));
    let peak_kib = peak_kib(pid);
    let rounds = load.stop();
    if !done.status.success() {
        return Err(done.stderr);
    }
    let bytes = std::fs::read(&trace).map_err(|error| error.to_string())?;
    let mut run = Run {
        cpu_ns: after.0 - before.0,
        user_ms: after.1.0 - before.1.0,
        system_ms: after.1.1 - before.1.1,
        wakings: after.2 - before.2,
        peak_kib,
        rounds,
        trace_bytes: bytes.len() as u64,
        ..Run::default()
    };
    count(&bytes, &mut run).ok_or("a trace that cannot be read")?;
    Ok(run)
}

/// What keeps the machine busy.
enum Load {
    Pairs(Vec<PingPong>),
    Processes(Arc<AtomicBool>, Vec<JoinHandle<()>>),
}

impl Load {
    fn start(name: &str) -> Result<Self, String> {
        match name {
            "pairs" => Ok(Self::Pairs(vec![PingPong::start()])),
            "pair" => Ok(Self::Pairs(vec![PingPong::start_one()])),
            "processes" => {
                let stop = Arc::new(AtomicBool::new(false));
                let threads = [stop.clone(), stop.clone()].map(|stop| {
                    std::thread::spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            let _ = Command::new("/bin/true").status();
                        }
                    })
                });
                Ok(Self::Processes(stop, threads.into()))
            }
            _ => Err(format!("no load is called {name}; there are pairs, pair and processes")),
        }
    }

    fn stop(self) -> u64 {
        match self {
            Self::Pairs(pairs) => pairs.into_iter().map(PingPong::stop).sum(),
            Self::Processes(stop, threads) => {
                stop.store(true, Ordering::Relaxed);
                threads.into_iter().for_each(|thread| drop(thread.join()));
                0
            }
        }
    }
}

/// The time in user mode and in the kernel, in ms, as the ticks of the clock found it.
fn ticks_ms(pid: u32) -> (u64, u64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut words = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    let mut next = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    let ms_a_tick = 1000 / rustix::param::clock_ticks_per_second().max(1);
    (next() * ms_a_tick, next() * ms_a_tick)
}

fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Counts context switches and losses. `None` if the trace is damaged.
fn count(trace: &[u8], run: &mut Run) -> Option<()> {
    for packet in Fields::new(trace) {
        let Value::Bytes(packet) = packet.ok()?.value else { continue };
        for field in Fields::new(packet) {
            let field = field.ok()?;
            match (field.number, field.value) {
                (trace_packet::FTRACE_EVENTS, Value::Bytes(bundle)) => run.switches += switches(bundle)?,
                (trace_packet::FTRACE_STATS | trace_packet::TRACE_STATS, _) => {
                    lost(&TracePacket::decode(packet).ok()?, run);
                }
                _ => {}
            }
        }
    }
    Some(())
}

/// The switches of a bundle, which both makers write column by column: one varint each.
fn switches(bundle: &[u8]) -> Option<u64> {
    let mut count = 0;
    for field in Fields::new(bundle) {
        let field = field.ok()?;
        let (ftrace_event_bundle::COMPACT_SCHED, Value::Bytes(compact)) = (field.number, field.value) else {
            continue;
        };
        for field in Fields::new(compact) {
            let field = field.ok()?;
            if let (ftrace_event_bundle::compact_sched::SWITCH_TIMESTAMP, Value::Bytes(times)) =
                (field.number, field.value)
            {
                count += times.iter().filter(|&&byte| byte < 0x80).count() as u64;
            }
        }
    }
    Some(count)
}

fn lost(packet: &TracePacket, run: &mut Run) {
    match &packet.data {
        Some(Data::FtraceStats(stats)) if stats.phase() == ftrace_stats::Phase::EndOfTrace => {
            run.kernel_lost += of_kernel(stats);
        }
        Some(Data::TraceStats(stats)) => {
            let of_buffers = stats.buffer_stats.iter();
            run.packets_lost += of_buffers
                .map(|b| b.chunks_overwritten() + b.chunks_discarded() + b.trace_writer_packet_loss())
                .sum::<u64>();
        }
        _ => {}
    }
}

fn of_kernel(stats: &FtraceStats) -> u64 {
    stats.cpu_stats.iter().map(|cpu| cpu.overrun() + cpu.dropped_events()).sum()
}
