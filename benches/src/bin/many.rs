//! Prints what a query over many traces takes: wall time and processor time with one thread and with more, and how many times as fast more are.
//!
//! ```sh
//! cargo build --release -p ferretto-query
//! cargo run --release -p ferretto-benches --bin many -- [--traces 64] [--mb 20] [--rounds 3] [--threads 2] [SQL]
//! ```
//!
//! The traces are links to four, of so many MB each: switches of a kernel, spans of a program with arguments, counters, and all of these together.
//! They lie in memory, as a file does that was just written: what is measured is reading, importing and asking, not the disk. Rows must be the
//! same with any number of threads.

#[path = "import/traces.rs"]
#[allow(dead_code, reason = "`import` uses the rest of it")]
mod traces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ferretto_benches::median;

const SQL: &str = "select name, count(*), sum(dur) from slice group by name order by 3 desc limit 10";
/// The columns of `/proc/self/stat` behind the name of the program: time of children that were waited for, in ticks.
const CHILDREN_USER: usize = 13;
const CHILDREN_SYSTEM: usize = 14;
const MS_PER_TICK: u64 = 10;

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let (mut count, mut mb, mut rounds, mut threads, mut sql) = (64, 20, 3, 2, SQL.to_owned());
    while let Some(arg) = args.next() {
        let mut number = || {
            args.next().and_then(|value| value.parse::<usize>().ok()).ok_or(format!("{arg} needs a number"))
        };
        match arg.as_str() {
            "--traces" => count = number()?,
            "--mb" => mb = number()?,
            "--rounds" => rounds = number()?.max(1),
            "--threads" => threads = number()?.max(2),
            _ => sql = arg,
        }
    }
    let folder = std::env::temp_dir().join(format!("ferretto-many-{}", std::process::id()));
    let measured = make(&folder, count, mb << 20)
        .map_err(|error| format!("{}: {error}", folder.display()))
        .and_then(|bytes| measure(&folder, &sql, &[1, threads], rounds, bytes));
    // It is in the folder for temporary files anyway.
    let _ = fs::remove_dir_all(&folder);
    measured
}

/// Makes the traces. Gives the bytes of all.
fn make(folder: &Path, count: usize, bytes: usize) -> std::io::Result<u64> {
    let made = folder.join("made");
    let asked = folder.join("asked");
    fs::create_dir_all(&made)?;
    fs::create_dir_all(&asked)?;
    let mut all = Vec::new();
    for (name, trace) in traces::all(bytes) {
        let path = made.join(name);
        fs::write(&path, &trace)?;
        all.push((path, trace.len() as u64));
    }
    let mut sum = 0;
    for (at, (path, len)) in all.iter().cycle().take(count).enumerate() {
        fs::hard_link(path, asked.join(format!("{at:06}.pftrace")))?;
        sum += len;
    }
    Ok(sum)
}

fn measure(folder: &Path, sql: &str, threads: &[usize], rounds: usize, bytes: u64) -> Result<(), String> {
    let asked = folder.join("asked");
    let mut taken: Vec<(Vec<u64>, Vec<u64>)> = vec![Default::default(); threads.len()];
    let mut rows: Option<Vec<u8>> = None;
    for _ in 0..rounds {
        for (count, (wall, processor)) in threads.iter().zip(&mut taken) {
            let (begun, before) = (Instant::now(), children_ms()?);
            let found = ask(&asked, sql, *count)?;
            wall.push(begun.elapsed().as_millis() as u64);
            processor.push(children_ms()? - before);
            if rows.get_or_insert_with(|| found.clone()) != &found {
                return Err(format!("the rows are others with {count} threads"));
            }
        }
    }
    println!("{:>8}{:>10}{:>14}{:>10}{:>10}", "threads", "wall s", "processor s", "MB/s", "times");
    let first = taken.first().map(|(wall, _)| median(wall.clone())).unwrap_or_default();
    for (count, (wall, processor)) in threads.iter().zip(taken) {
        let (wall, processor) = (median(wall).max(1), median(processor));
        println!(
            "{count:>8}{:>10.2}{:>14.2}{:>10.0}{:>10.2}",
            wall as f64 / 1e3,
            processor as f64 / 1e3,
            bytes as f64 / 1e3 / wall as f64,
            first as f64 / wall as f64
        );
    }
    Ok(())
}

fn ask(folder: &Path, sql: &str, threads: usize) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program()?);
    command.arg("query").arg(folder).arg(sql).args(["--threads", &threads.to_string(), "--format", "csv"]);
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// `ferretto-query`, beside this program.
fn program() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = here.with_file_name("ferretto-query");
    match program.exists() {
        true => Ok(program),
        false => Err("build it first: cargo build --release -p ferretto-query".to_owned()),
    }
}

/// Processor time of children that have ended.
fn children_ms() -> Result<u64, String> {
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| error.to_string())?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let sum = ticks(CHILDREN_USER).zip(ticks(CHILDREN_SYSTEM)).map(|(user, system)| user + system);
    sum.map(|ticks| ticks * MS_PER_TICK).ok_or_else(|| "/proc/self/stat is not as it was".to_owned())
}
