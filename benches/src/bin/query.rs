//! Prints how long questions take that people ask of a trace, on tables that are imported already; beside upstream's Trace Processor, which is
//! run in turn in one sitting if `FERRETTO_TRACE_QUERY` names it (`.ci/peers`). Then a join of spans of a million rows with a million.
//!
//! ```sh
//! eval "$(.ci/peers)"
//! cargo build --release -p ferretto-query
//! cargo run --release -p ferretto-benches --bin query -- [--mb 48] [--rounds 5] [--rows 1000000] [TRACE]
//! ```
//!
//! Without a trace it writes one of so many MB: switches of a kernel, spans and counters of a program. Each round is a process that reads the
//! trace and is asked everything; a question's time is from asking to its last row, as the process itself says. The rows are compared
//! first. Ours has the threads that it takes by itself; theirs is one.

#[path = "import/traces.rs"]
mod traces;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ferretto_benches::median;

/// Questions, and what they are called.
const QUESTIONS: [(&str, &str); 20] = [
    (
        "slices by name",
        "select name, count(*) n, sum(dur) dur from slice group by name order by dur desc, name limit 10",
    ),
    ("longest slices", "select name, ts, dur from slice order by dur desc, id limit 10"),
    ("slices of a name", "select count(*), avg(dur), min(dur), max(dur) from slice where name glob '*1*'"),
    (
        "slices by thread",
        "select t.tid, count(*) n, sum(s.dur) from slice s join thread_track k on s.track_id = k.id join thread t using(utid) group by t.tid order by t.tid",
    ),
    ("slices deep down", "select depth, count(*), sum(dur) from slice group by depth order by depth"),
    (
        "self time",
        "select s.name, sum(s.dur - ifnull(c.dur, 0)) self from slice s left join (select parent_id, sum(dur) dur from slice group by parent_id) c on c.parent_id = s.id group by s.name order by self desc, s.name limit 10",
    ),
    (
        "parents of slices",
        "select p.name, c.name, count(*) n from slice c join slice p on c.parent_id = p.id group by 1, 2 order by n desc, 1, 2 limit 10",
    ),
    (
        "slices at a time",
        "select count(*) from slice where ts <= (select min(ts) + 1000000000 from slice) and ts + dur > (select min(ts) + 500000000 from slice)",
    ),
    (
        "slices each second",
        "select ts / 1000000000 as second, count(*), sum(dur) from slice group by 1 order by 1",
    ),
    (
        "percentiles of durations",
        "select name, dur from (select name, dur, row_number() over (partition by name order by dur) r, count(*) over (partition by name) n from slice) where r = cast(n * 0.99 as int) + 1 order by dur desc, name limit 10",
    ),
    (
        "arguments",
        "select count(*), count(distinct extract_arg(arg_set_id, 'debug.bytes')) from slice where arg_set_id is not null",
    ),
    (
        "CPU by thread",
        "select t.tid, t.name, sum(s.dur) dur from sched s join thread t using(utid) group by t.tid, t.name order by dur desc, t.tid limit 10",
    ),
    ("CPU by processor", "select cpu, count(*), sum(dur) from sched group by cpu order by cpu"),
    (
        "waits for a processor",
        "select t.tid, count(*), sum(s.dur) waits from thread_state s join thread t using(utid) where s.state in ('R', 'R+') group by t.tid order by waits desc, t.tid limit 10",
    ),
    ("states of threads", "select state, count(*), sum(dur) from thread_state group by state order by state"),
    ("longest runs", "select utid, ts, dur from sched order by dur desc, ts, utid limit 20"),
    (
        "who ran before whom",
        "select count(*) from (select utid, lead(utid) over (partition by cpu order by ts) next from sched) where utid = next",
    ),
    (
        "counters",
        "select t.name, count(*), min(c.value), max(c.value), avg(c.value) from counter c join counter_track t on c.track_id = t.id group by t.name order by t.name",
    ),
    (
        "steps of counters",
        "select track_id, max(value - before) from (select track_id, value, lag(value) over (partition by track_id order by ts) before from counter) group by track_id order by track_id",
    ),
    (
        "counters each second",
        "select track_id, ts / 1000000000 as second, max(value) from counter group by 1, 2 order by 1, 2 limit 100",
    ),
];

struct Args {
    mb: usize,
    rounds: usize,
    rows: usize,
    trace: Option<PathBuf>,
}

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let mut wanted = Args { mb: 48, rounds: 5, rows: 1_000_000, trace: None };
    while let Some(arg) = args.next() {
        let mut number =
            || args.next().and_then(|value| value.parse().ok()).ok_or(format!("{arg} needs a number"));
        match arg.as_str() {
            "--mb" => wanted.mb = number()?,
            "--rounds" => wanted.rounds = number()?.max(1),
            "--rows" => wanted.rows = number()?.max(1000),
            _ => wanted.trace = Some(arg.into()),
        }
    }
    let folder = std::env::temp_dir().join(format!("ferretto-query-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let result = compare(&folder, wanted);
    // It is in the folder for temporary files anyway.
    let _ = fs::remove_dir_all(&folder);
    result
}

fn compare(folder: &Path, wanted: Args) -> Result<(), String> {
    let trace = match wanted.trace {
        Some(trace) => trace,
        None => {
            let [.., (_, mixed)] = traces::all(wanted.mb << 20);
            let path = folder.join("mixed.pftrace");
            fs::write(&path, mixed).map_err(|error| error.to_string())?;
            path
        }
    };
    let empty = folder.join("empty.pftrace");
    fs::write(&empty, traces::nearly_nothing()).map_err(|error| error.to_string())?;
    let peer = std::env::var("FERRETTO_TRACE_QUERY").ok();
    if peer.is_none() {
        println!("Trace Processor is skipped: FERRETTO_TRACE_QUERY does not name it (.ci/peers)");
    }
    let makers: Vec<Maker> = [Some(Maker::Ours), peer.map(Maker::Peer)].into_iter().flatten().collect();
    println!("{:<28}{:>10}{:>12}{:>10}", "question", "ms", "theirs, ms", "ratio");
    let questions = QUESTIONS.map(|(_, sql)| sql.to_owned());
    let names = QUESTIONS.map(|(name, _)| name);
    ask_all(&makers, &trace, &names, &questions, wanted.rounds)?;
    let [make, join] = million(wanted.rows);
    ask_all(&makers, &empty, &["making the tables", "joining their spans"], &[make, join], wanted.rounds)?;
    small(&empty, wanted.rounds)
}

/// Two tables of spans, and the sums of their join.
fn million(rows: usize) -> [String; 2] {
    let side = rows / 1000;
    let numbers = "with recursive n(x) as (select 0 union all select x + 1 from n where x < 999)";
    let make = format!(
        "create perfetto table a as {numbers} select (i.x * 1000 + j.x) * 10 as ts, 10 as dur, (i.x * 1000 + j.x) % 7 as p from n i, n j where i.x < {side};
        create perfetto table b as {numbers} select (i.x * 1000 + j.x) * 10 + 4 as ts, 10 as dur, (i.x * 1000 + j.x) % 11 as q from n i, n j where i.x < {side};
        create virtual table both_of_them using span_join(a, b); select count(*) from a"
    );
    [make, "select count(*), sum(dur), sum(p * q) from both_of_them".to_owned()]
}

fn ask_all(
    makers: &[Maker],
    trace: &Path,
    names: &[&str],
    questions: &[String],
    rounds: usize,
) -> Result<(), String> {
    let mut times: Vec<Vec<Vec<u64>>> = makers.iter().map(|_| vec![Vec::new(); questions.len()]).collect();
    let mut peaks: Vec<u64> = makers.iter().map(|_| 0).collect();
    for round in 0..rounds {
        let mut answers = Vec::new();
        for ((maker, times), peak) in makers.iter().zip(&mut times).zip(&mut peaks) {
            let asked = maker.ask(trace, questions)?;
            for (all, time) in times.iter_mut().zip(asked.ns) {
                all.push(time);
            }
            *peak = (*peak).max(asked.peak_kib);
            answers.push(asked.rows);
        }
        if let ([ours, theirs], 0) = (answers.as_slice(), round) {
            for ((name, ours), theirs) in names.iter().zip(ours).zip(theirs) {
                if ours != theirs {
                    println!("{name}: the rows differ\n--- ours\n{ours}\n--- theirs\n{theirs}");
                }
            }
        }
    }
    let mut ratios = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let of = |maker: usize| times.get(maker).and_then(|all| all.get(at)).map(|all| median(all.clone()));
        let ours = of(0).ok_or("nobody was asked")?;
        let (theirs, ratio) = match of(1) {
            Some(theirs) => {
                ratios.push(theirs * 100 / ours.max(1));
                (format!("{:.2}", theirs as f64 / 1e6), format!("{:.1}", theirs as f64 / ours.max(1) as f64))
            }
            None => ("-".to_owned(), "-".to_owned()),
        };
        println!("{name:<28}{:>10.2}{theirs:>12}{ratio:>10}", ours as f64 / 1e6);
    }
    if !ratios.is_empty() {
        println!("{:<50}{:>10.1}", "the median of the ratios", median(ratios) as f64 / 100.0);
    }
    let peaks: Vec<String> = peaks.iter().map(|kib| format!("{:.0}", *kib as f64 / 1024.0)).collect();
    println!("memory at the most, MB, the trace's tables included: {}", peaks.join(", theirs "));
    Ok(())
}

/// How long the whole command takes for `select 1` on a small trace.
fn small(trace: &Path, rounds: usize) -> Result<(), String> {
    let mut all = Vec::new();
    for _ in 0..rounds.max(11) {
        let begun = std::time::Instant::now();
        let output = Command::new(ours()?).args(["query"]).arg(trace).arg("select 1").output();
        let output = output.map_err(|error| error.to_string())?;
        all.push(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    println!("the command for select 1 on a small trace: {:.1} ms", median(all) as f64 / 1e6);
    Ok(())
}

/// Who is asked.
enum Maker {
    Ours,
    /// The command that takes a trace and queries.
    Peer(String),
}

/// What came of it, of each question.
struct Asked {
    ns: Vec<u64>,
    rows: Vec<String>,
    peak_kib: u64,
}

impl Maker {
    fn ask(&self, trace: &Path, questions: &[String]) -> Result<Asked, String> {
        let (mut command, script) = match self {
            Self::Ours => {
                let mut command = Command::new(ours()?);
                command.arg("query").arg(trace).args(["-i", "--quiet", "--format", "csv", "--memory", "8G"]);
                let lines: String = questions.iter().map(|sql| format!("{sql};\n")).collect();
                (command, format!("\\timing\n{lines}"))
            }
            Self::Peer(words) => {
                let mut words = words.split_whitespace();
                let mut command = Command::new(words.next().ok_or("FERRETTO_TRACE_QUERY is empty")?);
                command.args(words).arg(trace).arg("--times").args(questions);
                (command, String::new())
            }
        };
        let fail = |error: std::io::Error| error.to_string();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(fail)?;
        let pid = child.id();
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(script.as_bytes()).map_err(fail)?;
        }
        let mut text = String::new();
        let mut peak_kib = 0;
        if let Some(stdout) = child.stdout.take() {
            for line in std::io::BufRead::lines(std::io::BufReader::new(stdout)) {
                text += &(line.map_err(fail)? + "\n");
                peak_kib = peak_kib.max(peak_of(pid));
            }
        }
        if !child.wait().map_err(fail)?.success() {
            return Err(format!("{command:?} failed"));
        }
        // Ours says a time for each statement.
        let statements =
            |sql: &String| if matches!(self, Self::Ours) { sql.matches(';').count() + 1 } else { 1 };
        let mut left = questions.iter().map(statements);
        let (mut ns, mut rows, mut part) = (Vec::new(), Vec::new(), String::new());
        let (mut of_question, mut statements_left) = (0, left.next().unwrap_or(1));
        for line in text.lines().filter(|line| !line.is_empty() && *line != "Timing is on.") {
            match line.strip_prefix("Time: ").and_then(|rest| rest.strip_suffix(" ms")?.parse::<f64>().ok()) {
                Some(ms) => {
                    of_question += (ms * 1e6) as u64;
                    statements_left -= 1;
                    if statements_left == 0 {
                        ns.push(std::mem::take(&mut of_question));
                        rows.push(plain(&std::mem::take(&mut part)));
                        statements_left = left.next().unwrap_or(1);
                    }
                }
                None => part += &format!("{line}\n"),
            }
        }
        Ok(Asked { ns, rows, peak_kib })
    }
}

/// Rows as both have them: without names of columns, and numbers of seven digits.
fn plain(table: &str) -> String {
    // Theirs shows doubles without a fraction as integers.
    let cell = |cell: &str| match cell.parse::<f64>() {
        Ok(value) => format!("{value:.6e}"),
        _ if cell == "\\N" => String::new(),
        _ => cell.to_owned(),
    };
    let lines = table.lines().skip(1);
    lines
        .map(|line| line.split(['\t', ',']).map(cell).collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n")
}

fn ours() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = here.with_file_name("ferretto-query");
    match path.exists() {
        true => Ok(path),
        false => Err("build it first: cargo build --release -p ferretto-query".to_owned()),
    }
}

fn peak_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
