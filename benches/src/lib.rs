//! Programs that print what Ferretto costs, with its peers beside it. Each is a binary in `src/bin`; run them one at a time on a quiet
//! machine, as root, after `cargo build --release` and `eval "$(.ci/peers)"`. Machines differ: the ratios are what to quote.
//!
//! | program | what it prints |
//! |---|---|
//! | `clone_stall` | how long a clone of a full buffer of 256 MiB leaves the service's other clients waiting; needs no root |
//! | `idle_memory` | resident memory of an idle service |
//! | `idle_wakeups` | how often an idle service wakes up; needs no root |
//! | `import` | how fast a trace becomes tables, and the memory that takes, beside Trace Processor; needs no root |
//! | `many` | what a query over many traces takes, with one thread and with more; needs `ferretto-query`, but no root |
//! | `merge` | how fast two traces become one, and the memory that takes; needs no root |
//! | `probes_cpu` | processor time of the data sources on one config, for each context switch recorded, under one of three loads |
//! | `protovm_overwrite` | what a ProtoVM adds to the cost of overwriting a packet; needs neither root nor peers |
//! | `query` | how long queries take on imported tables, beside Trace Processor; needs `ferretto-query`, but no root |
//! | `sched_losses` | what a recording of `sched/*` under load loses with default buffers |
//! | `sdk_cost` | what a trace point costs; needs upstream's client in a release build (`tests/upstream-client`) and the example `cost` of our library, but no root |
//! | `sdk_losses` | what programs lose that configure nothing; needs upstream's client (`tests/upstream-client`) for the figures beside, but no root |
//! | `service_cpu` | processor time of the service for a trace from upstream's client, and what is not in that; needs that (`tests/upstream-client`), but no root |
//! | `service_scale` | memory of the service with 1,000 producers, and the time of a query for 10,000 data sources; needs no root |
//! | `trace_buffer` | speed of the trace buffer, beside bare copies and upstream's buffer; needs neither root nor the peers above |

#![forbid(unsafe_code)]

mod pairs;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use ferretto_interop::Maker;

pub use self::pairs::pairs;

/// Both makers, ours first.
pub const MAKERS: [Maker; 2] = [Maker::Ferretto, Maker::Upstream];

/// An example of our library, built beside this program.
///
/// # Panics
/// If it is not there.
pub fn example(name: &str) -> PathBuf {
    let here = std::env::current_exe().expect("this program is a file");
    let path = here.parent().unwrap_or(Path::new(".")).join("examples").join(name);
    assert!(path.exists(), "build it first: cargo build --release -p ferretto --example {name}");
    path
}

/// What of a process's memory is in RAM, in KiB: all of it, and the part that is not a mapped file.
///
/// # Panics
/// If there is no such process.
pub fn resident_kib(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    (field("VmRSS:"), field("RssAnon:"))
}

/// The processor time that all threads of a process have used, in nanoseconds, from the scheduler's own account.
///
/// # Panics
/// If there is no such process.
pub fn cpu_ns(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/task"))
        .expect("the process lives")
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

/// How often the threads of a process have gone to sleep by themselves.
///
/// # Panics
/// If there is no such process.
pub fn voluntary_switches(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/task"))
        .expect("the process lives")
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok())
        .filter_map(|status| {
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"))?.to_owned();
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
}

/// The middle one.
///
/// # Panics
/// If there is none.
pub fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    *values.get(values.len() / 2).expect("there are values")
}

/// Two pairs of threads that wake each other up as fast as the scheduler can: some hundred thousand switches a second.
#[derive(Debug)]
pub struct PingPong {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl PingPong {
    /// Starts the threads.
    pub fn start() -> Self {
        Self::start_pairs(2)
    }

    /// Starts one pair only.
    pub fn start_one() -> Self {
        Self::start_pairs(1)
    }

    fn start_pairs(count: usize) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..count).flat_map(|_| pair(&stop, &rounds)).collect();
        Self { stop, rounds, threads }
    }

    /// Ends the threads and tells how often they have woken each other.
    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        2 * self.rounds.load(Ordering::Relaxed)
    }
}

fn pair(stop: &Arc<AtomicBool>, rounds: &Arc<AtomicU64>) -> [JoinHandle<()>; 2] {
    let (there, here) = mpsc::sync_channel::<()>(0);
    let (back, answer) = mpsc::sync_channel::<()>(0);
    let (stop, rounds) = (stop.clone(), rounds.clone());
    let ping = move || {
        while !stop.load(Ordering::Relaxed) && there.send(()).is_ok() && answer.recv().is_ok() {
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    };
    let pong = move || while here.recv().is_ok() && back.send(()).is_ok() {};
    [std::thread::spawn(ping), std::thread::spawn(pong)]
}
