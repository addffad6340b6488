//! Cuts at random ranges of traces of all kinds: what Trace Processor answers about a cut is what it answers about the whole, restricted to
//! the range.
//!
//! `FERRETTO_CUTS` says how many ranges of each trace; without it they are a few. The ranges are the same each time, as shares of the trace, but
//! for another `FERRETTO_CUTS_SEED`.

mod questions;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ferretto_cut::{Moment, Options, Report, UnpackedFile, cut};
use ferretto_interop::{TraceQuery, need, trace_query};

use self::questions::{Answers, QUERIES, Rows};
use crate::kinds::{Kind, folder};
use crate::made::Numbers;

/// Ranges of each trace, if nothing else is said.
const FEW: u64 = 3;
const SEED: u64 = 7;
/// Cuts that one process is asked about, one after the other.
const AT_ONCE: usize = 10;
/// Rows that differ are listed up to so many a question.
const EXAMPLES: usize = 2;
/// Shares of a trace are in millionths.
const MILLION: u64 = 1_000_000;

fn check(kind: Kind) {
    let sql = need!(trace_query());
    let trace = need!(kind.trace());
    let number = |name, usual| std::env::var(name).map_or(usual, |number| number.parse().expect("a number"));
    let (ranges, seed) = (number("FERRETTO_CUTS", FEW), number("FERRETTO_CUTS_SEED", SEED));
    let start = Instant::now();
    // All of it: what the first event is, and the last.
    let span = write_cut(&trace, Options::default(), std::io::sink()).span;
    let ranges = shares(ranges, seed).map(|(from, to)| (within(span, from), within(span, to)));
    let mut bad = Vec::new();
    let mut sums = Vec::new();
    for ranges in ranges.collect::<Vec<_>>().chunks(AT_ONCE) {
        compare(&sql, &trace, kind, ranges, &mut sums, &mut bad);
    }
    eprintln!("{kind:?}: rows compared {sums:?} in {:.1} s", start.elapsed().as_secs_f64());
    assert!(bad.is_empty(), "{} ranges are not as in the whole:\n{}", bad.len(), bad.join("\n"));
}

/// Any from and to, and every third time a twentieth of the trace, in millionths.
fn shares(count: u64, seed: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut numbers = Numbers::of(seed);
    (0..count).map(move |at| {
        let (a, b) = (numbers.below(MILLION), numbers.below(MILLION));
        match at % 3 {
            1 => (a, (a + MILLION / 20).min(MILLION)),
            _ => (a.min(b), a.max(b)),
        }
    })
}

fn within((start, end): (i64, i64), share: u64) -> i64 {
    start + (i128::from(end - start) * i128::from(share) / i128::from(MILLION)) as i64
}

/// Adds what was compared to the sums, and each range that is not as in the whole to the bad ones.
fn compare(
    sql: &TraceQuery,
    trace: &Path,
    kind: Kind,
    ranges: &[(i64, i64)],
    sums: &mut Vec<(&'static str, usize)>,
    bad: &mut Vec<String>,
) {
    let file = |at: usize| folder().join(format!("{kind:?}.cut{at}"));
    let cuts: Vec<PathBuf> = (0..ranges.len()).map(file).collect();
    for ((from, to), path) in ranges.iter().zip(&cuts) {
        let (from, to) = (Some(Moment::Absolute(*from)), Some(Moment::Absolute(*to)));
        let out = std::io::BufWriter::new(File::create(path).expect("a file"));
        write_cut(trace, Options { from, to, ..Options::default() }, out);
    }
    let paths: Vec<&Path> = std::iter::once(trace).chain(cuts.iter().map(PathBuf::as_path)).collect();
    let mut answers = sql.query_each(&paths, &QUERIES).into_iter();
    let whole = Answers::of(answers.next().expect("the whole's answers"));
    for (answers, (from, to)) in answers.zip(ranges) {
        let (of_whole, of_cut) = (whole.within(*from, *to), Answers::of(answers).within(*from, *to));
        let mut differences = String::new();
        for (at, ((question, expected), (_, found))) in of_whole.iter().zip(&of_cut).enumerate() {
            if sums.len() <= at {
                sums.push((question, 0));
            }
            sums[at].1 += expected.values().sum::<usize>();
            differences.push_str(&difference(question, expected, found));
        }
        if !differences.is_empty() {
            bad.push(format!("from {from} to {to}:{differences}"));
        }
    }
}

fn write_cut(trace: &Path, options: Options, out: impl std::io::Write) -> Report {
    let source = UnpackedFile::new(File::open(trace).expect("the trace"));
    let report = cut(&source, "whole", &options, out).expect("a cut");
    assert_eq!((report.left_out, report.beyond), (0, 0));
    report
}

fn difference(question: &str, expected: &Rows, found: &Rows) -> String {
    let less = |a: &Rows, b: &Rows| -> Vec<String> {
        a.iter()
            .filter(|(row, count)| b.get(*row).unwrap_or(&0) < count)
            .map(|(row, _)| row.clone())
            .collect()
    };
    let mut text = String::new();
    for (what, rows) in [("lacks", less(expected, found)), ("has also", less(found, expected))] {
        for row in rows.iter().take(EXAMPLES) {
            text.push_str(&format!("\n  of {} {question} it {what} {row}", rows.len()));
        }
    }
    text
}

/// A test for each kind of trace.
macro_rules! check {
    ($($name:ident: $kind:ident,)*) => {$(
        #[test]
        fn $name() {
            check(Kind::$kind);
        }
    )*};
}

check! {
    of_events_of_our_library: OurLibrary,
    of_events_through_upstreams_service: OurLibraryAtUpstreams,
    of_tasks: Tasks,
    of_events_of_upstreams_library: UpstreamsLibrary,
    of_a_machine_by_our_probes: Probes,
    of_a_machine_with_compact_scheduling: ProbesCompact,
    of_a_machine_by_upstreams_probes: UpstreamsProbes,
    of_two_machines: Machines,
    of_two_machines_through_upstreams_service: MachinesAtUpstreams,
    of_rings_that_have_gone_round: Ring,
    of_dumps_of_heaps: Heaps,
    of_samples_of_processors: Samples,
    of_snapshots_of_memory: Memory,
}
