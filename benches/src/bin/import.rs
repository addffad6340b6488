//! Prints how fast a trace becomes tables, in MB of the trace a second, and how much memory that takes, as a multiple of the
//! trace; beside upstream's Trace Processor, which is run in turn in one sitting if `FERRETTO_TRACE_QUERY` names it (`.ci/peers`). Its
//! build for browsers is what people get who open a trace there.
//!
//! ```sh
//! eval "$(.ci/peers)"
//! cargo run --release -p ferretto-benches --bin import -- [--mb 48] [--rounds 3] [--memory MB] [--threads 1] [TRACE…]
//! ```
//!
//! Without traces it writes four, of so many MB each: switches of a kernel, spans of a program with arguments, counters of a program, and all
//! of these together. Each import is a process of its own. What such a process takes for a trace of nearly nothing is taken off its time
//! and memory; for the peer that is node, and the engine that has to be compiled. First the rows are compared, then the time is taken, of
//! imports alone: nothing is asked of the rows then.
//! With `--memory` ours has so many MB, and what has no room in them lies in a file. With `--threads` more than one makes the tables.

#[path = "import/traces.rs"]
mod traces;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_benches::median;
use ferretto_import::{Options, import};
use ferretto_trace_tables::{Blocks, Tables};

/// The arguments by which this program starts itself to import one trace, and to say of which rows it is.
const IMPORT: &str = "--import";
const IMPORT_AND_ASK: &str = "--import-and-ask";
/// Between two looks at the memory of a process.
const LOOK: Duration = Duration::from_millis(2);
/// The tables whose rows are compared: how many there are, and the sum of their times, less the first.
const COMPARED: [&str; 5] = ["slice", "counter", "sched", "thread_state", "ftrace_event"];

struct Args {
    mb: usize,
    rounds: usize,
    /// What our imports may have.
    memory_mb: Option<u64>,
    /// And on how many threads.
    threads: usize,
    traces: Vec<PathBuf>,
}

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let mut wanted = Args { mb: 48, rounds: 3, memory_mb: None, threads: 1, traces: Vec::new() };
    while let Some(arg) = args.next() {
        let mut number =
            || args.next().and_then(|value| value.parse().ok()).ok_or(format!("{arg} needs a number"));
        match arg.as_str() {
            IMPORT | IMPORT_AND_ASK => {
                let trace = args.next().ok_or("no trace")?;
                let threads = args.next().and_then(|threads| threads.parse().ok()).unwrap_or(1);
                let memory_mb = args.next().and_then(|mb| mb.parse().ok());
                let ask = if arg == IMPORT { Ask::Nothing } else { Ask::Rows };
                return import_one(Path::new(&trace), threads, memory_mb, ask);
            }
            "--mb" => wanted.mb = number()?,
            "--rounds" => wanted.rounds = number()?.max(1),
            "--threads" => wanted.threads = number()?.max(1),
            "--memory" => wanted.memory_mb = Some(number()? as u64),
            _ => wanted.traces.push(arg.into()),
        }
    }
    let folder = std::env::temp_dir().join(format!("ferretto-import-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let result = compare(&folder, wanted);
    // It is in the folder for temporary files anyway.
    let _ = fs::remove_dir_all(&folder);
    result
}

fn compare(folder: &Path, wanted: Args) -> Result<(), String> {
    let empty = folder.join("empty.pftrace");
    fs::write(&empty, traces::nearly_nothing()).map_err(|error| error.to_string())?;
    let mut all = wanted.traces;
    if all.is_empty() {
        for (name, trace) in traces::all(wanted.mb << 20) {
            let path = folder.join(name).with_extension("pftrace");
            fs::write(&path, trace).map_err(|error| error.to_string())?;
            all.push(path);
        }
    }
    let peer = std::env::var("FERRETTO_TRACE_QUERY").ok();
    if peer.is_none() {
        println!("Trace Processor is skipped: FERRETTO_TRACE_QUERY does not name it (.ci/peers)");
    }
    let makers: Vec<Maker> = [Some(Maker::Ours(wanted.threads, wanted.memory_mb)), peer.map(Maker::Peer)]
        .into_iter()
        .flatten()
        .collect();
    println!(
        "{:<14}{:>6}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "trace", "MB", "rows", "MB/s", "theirs", "ratio", "memory", "theirs"
    );
    for trace in &all {
        let rows: Vec<String> = makers
            .iter()
            .map(|maker| maker.run(trace, Ask::Rows).map(|run| run.rows))
            .collect::<Result<_, _>>()?;
        if rows.windows(2).any(|two| matches!(two, [ours, theirs] if ours != theirs)) {
            println!("{}: the rows differ\n  ours   {}\n  theirs {}", name(trace), rows[0], rows[1]);
        }
        let mut figures: Vec<Figures> = makers.iter().map(|_| Figures::default()).collect();
        for _ in 0..wanted.rounds {
            for (maker, figures) in makers.iter().zip(&mut figures) {
                figures.add(&maker.run(&empty, Ask::Nothing)?, &maker.run(trace, Ask::Nothing)?);
            }
        }
        print_line(trace, &rows, &figures)?;
    }
    Ok(())
}

fn print_line(trace: &Path, rows: &[String], figures: &[Figures]) -> Result<(), String> {
    let bytes = fs::metadata(trace).map_err(|error| error.to_string())?.len();
    let count: u64 = rows
        .first()
        .into_iter()
        .flat_map(|rows| rows.split(' ').step_by(2))
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    let speed = |figures: &Figures| bytes as f64 * 1e3 / median(figures.ns.clone()).max(1) as f64;
    let memory = |figures: &Figures| median(figures.kib.clone()) as f64 * 1024.0 / bytes.max(1) as f64;
    let ours = figures.first().ok_or("nobody was measured")?;
    let mut theirs = ["-"; 3].map(str::to_owned);
    if let Some(peer) = figures.get(1) {
        theirs = [
            format!("{:.1}", speed(peer)),
            format!("{:.1}", speed(ours) / speed(peer)),
            format!("{:.1}", memory(peer)),
        ];
    }
    let [their_speed, ratio, their_memory] = theirs;
    println!(
        "{:<14}{:>6.0}{count:>12}{:>10.1}{their_speed:>10}{ratio:>10}{:>10.1}{their_memory:>10}",
        name(trace),
        bytes as f64 / 1e6,
        speed(ours),
        memory(ours),
    );
    Ok(())
}

fn name(trace: &Path) -> String {
    trace.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Who imports.
enum Maker {
    /// Ours, on so many threads, in so many MB.
    Ours(usize, Option<u64>),
    /// The command that takes a trace and queries.
    Peer(String),
}

/// What is asked when a trace is imported.
#[derive(Clone, Copy, PartialEq)]
enum Ask {
    /// Which rows there are.
    Rows,
    Nothing,
}

/// One import.
struct Run {
    ns: u64,
    peak_kib: u64,
    rows: String,
}

/// What imports took beyond those of nearly nothing.
#[derive(Default)]
struct Figures {
    ns: Vec<u64>,
    kib: Vec<u64>,
}

impl Figures {
    fn add(&mut self, nothing: &Run, trace: &Run) {
        self.ns.push(trace.ns.saturating_sub(nothing.ns));
        self.kib.push(trace.peak_kib.saturating_sub(nothing.peak_kib));
    }
}

impl Maker {
    fn run(&self, trace: &Path, ask: Ask) -> Result<Run, String> {
        let mut command = match self {
            Self::Ours(threads, memory_mb) => {
                let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
                let import = if ask == Ask::Rows { IMPORT_AND_ASK } else { IMPORT };
                command.arg(import).arg(trace).arg(threads.to_string());
                command.args(memory_mb.map(|mb| mb.to_string()));
                command
            }
            Self::Peer(words) => {
                let mut words = words.split_whitespace();
                let mut command = Command::new(words.next().ok_or("FERRETTO_TRACE_QUERY is empty")?);
                command.args(words).arg(trace).arg(if ask == Ask::Rows {
                    query()
                } else {
                    "select 1".to_owned()
                });
                command
            }
        };
        let begun = Instant::now();
        let mut child =
            command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let mut peak_kib = 0;
        let status = loop {
            peak_kib = peak_kib.max(peak_of(child.id()));
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break status,
                None => std::thread::sleep(LOOK),
            }
        };
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut text = String::new();
        if let Some(mut stdout) = child.stdout.take() {
            std::io::Read::read_to_string(&mut stdout, &mut text).map_err(|error| error.to_string())?;
        }
        if !status.success() {
            return Err(format!("{command:?} failed"));
        }
        let rows = text.trim().lines().last().unwrap_or_default().replace('\t', " ");
        Ok(Run { ns, peak_kib, rows })
    }
}

fn peak_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Asks Trace Processor for what [`summary`] says of our tables.
fn query() -> String {
    let columns = COMPARED.map(|table| {
        format!("(select count(*) from {table}), (select ifnull(sum(ts - (select min(ts) from {table})), 0) from {table})")
    });
    format!("select {}", columns.join(", "))
}

/// In the process of its own: imports, and says which rows came of it if that is asked.
fn import_one(trace: &Path, threads: usize, memory_mb: Option<u64>, ask: Ask) -> Result<(), String> {
    let file = File::open(trace).map_err(|error| format!("{}: {error}", trace.display()))?;
    let memory_bytes = memory_mb.map_or(u64::MAX, |mb| mb << 20);
    let again = file.try_clone().map_err(|error| error.to_string())?;
    let options = Options { threads, memory_bytes, file: Some(Arc::new(again)), ..Options::default() };
    let (tables, _) = import(file, &options, &mut |_| true).map_err(|error| error.to_string())?;
    if ask == Ask::Rows {
        println!("{}", summary(&tables));
    }
    // The memory goes with the process.
    std::mem::forget(tables);
    Ok(())
}

fn summary(tables: &Tables) -> String {
    let times = [
        &tables.slice.ts,
        &tables.counter.ts,
        &tables.sched.ts,
        &tables.thread_state.ts,
        &tables.ftrace_event.ts,
    ];
    let part = |times: &Blocks<i64>| {
        let first = times.iter().min().unwrap_or(0);
        let sum: i128 = times.iter().map(|ts| i128::from(ts) - i128::from(first)).sum();
        format!("{} {sum}", times.len())
    };
    times.map(part).join(" ")
}
