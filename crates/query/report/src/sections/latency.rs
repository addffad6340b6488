//! How long threads that could run had to wait for a CPU.

use crate::document::{Section, Table, Value};
use crate::facts::{Facts, Wait, Waits};
use crate::pictures::{Bars, Picture};
use crate::units::time;

/// Said where nobody is known to have waited.
const NO_WAITS: &str =
    "no wake-ups, so nobody knows who waited for a CPU: record sched/sched_waking beside sched/sched_switch";
/// Where lengths of waits part, in nanoseconds: as `latency_bins.sql` has them.
const BORDERS: [i64; 21] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
];

/// Why nobody is known to have waited.
pub(super) fn absent(facts: &Facts) -> &'static str {
    if facts.overview.switches == 0 { super::cpu::ABSENT } else { NO_WAITS }
}

pub(super) fn by_thread(facts: &Facts, rows: usize) -> Section {
    const KEY: &str = "latency_by_thread";
    const TITLE: &str = "Run queue latency";
    if facts.waits.is_empty() {
        return Section::absent(KEY, TITLE, absent(facts));
    }
    let columns = [
        ("thread", "Run queue latency"),
        ("process", "process"),
        ("waits", "waits"),
        ("total_ns", "in all"),
        ("p50_ns", "median"),
        ("p90_ns", "90 %"),
        ("p99_ns", "99 %"),
        ("longest_ns", "longest"),
    ];
    let row = |waits: &Waits| {
        vec![
            Value::text(&waits.thread),
            Value::text(&waits.process),
            Value::Count(waits.times),
            Value::Time(waits.total),
            Value::Time(waits.p50),
            Value::Time(waits.p90),
            Value::Time(waits.p99),
            Value::Time(waits.longest),
        ]
    };
    let mut section = Section::of(KEY, TITLE, Table::first(&columns, &facts.waits, rows, row));
    section.pictures.push(Picture::Bars(histogram(facts)));
    section
}

fn histogram(facts: &Facts) -> Bars {
    let label = |bin: usize| match (bin.checked_sub(1).and_then(|below| BORDERS.get(below)), BORDERS.get(bin))
    {
        (None, Some(border)) => format!("less than {}", time(*border)),
        (Some(from), Some(to)) => format!("{} to {}", time(*from), time(*to)),
        (Some(from), None) => format!("{} or more", time(*from)),
        (None, None) => String::new(),
    };
    let bars = facts.wait_bins.iter().enumerate().map(|(bin, times)| (label(bin), *times));
    let bars: Vec<_> = bars.skip_while(|(_, times)| *times == 0).collect();
    let used = bars.iter().rposition(|(_, times)| *times > 0).map_or(0, |last| last + 1);
    Bars { title: "Waits by how long they were".to_owned(), bars: bars.into_iter().take(used).collect() }
}

pub(super) fn worst(facts: &Facts, rows: usize) -> Section {
    const KEY: &str = "latency_worst";
    const TITLE: &str = "Longest waits for a CPU";
    if facts.worst_waits.is_empty() {
        return Section::absent(KEY, TITLE, absent(facts));
    }
    let columns = [
        ("thread", "Longest waits for a CPU"),
        ("process", "process"),
        ("at_ns", "at"),
        ("waited_ns", "waited"),
        ("cpu", "on CPU"),
        ("woken_by", "woken by"),
        ("meanwhile", "there ran meanwhile"),
        ("meanwhile_ns", "for"),
    ];
    let row = |wait: &Wait| {
        vec![
            Value::text(&wait.thread),
            Value::text(&wait.process),
            Value::When(wait.at),
            Value::Time(wait.dur),
            wait.cpu.map_or(Value::Nothing, Value::Count),
            wait.woken_by.as_ref().map_or(Value::Nothing, Value::text),
            wait.meanwhile.as_ref().map_or(Value::Nothing, Value::text),
            wait.meanwhile_dur.map_or(Value::Nothing, Value::Time),
        ]
    };
    Section::of(KEY, TITLE, Table::first(&columns, &facts.worst_waits, rows, row))
}
