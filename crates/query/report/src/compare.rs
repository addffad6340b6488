//! Two traces beside each other: what both have by name, what only the second has, what only the first had. The largest changes first.

use std::collections::BTreeMap;

use crate::document::{Document, Section, Table, Unit, Value};
use crate::facts::{Counter, Facts, Process, Slices, Thread, Waits};
use crate::sections::{counter_title, losses};
use crate::units::{share, time};
use crate::{Options, names};

/// Rows of a question, which the queries bound: with that many, some may be missing.
const MAX_ROWS: usize = 10_000;
/// Traces that differ more in length are told to.
const SAME_LENGTH: f64 = 0.1;

pub(crate) fn document(first: (&str, &Facts), second: (&str, &Facts), options: &Options) -> Document {
    let ((first_name, first), (second_name, second)) = (first, second);
    let pair = Pair { first, second, rows: options.rows };
    Document {
        title: format!("{} → {}", names::printable(first_name), names::printable(second_name)),
        glance: glance(first, second),
        sections: vec![pair.processes(), pair.threads(), pair.latency(), pair.slices(), pair.counters()],
    }
}

fn glance(first: &Facts, second: &Facts) -> Vec<(&'static str, String)> {
    let length = |facts: &Facts| facts.overview.ends - facts.overview.begins;
    let both = |of: &dyn Fn(&Facts) -> String| format!("{} → {}", of(first), of(second));
    let mut lines = vec![("Recorded", both(&|facts| time(length(facts))))];
    let (a, b) = (length(first) as f64, length(second) as f64);
    if (a - b).abs() > SAME_LENGTH * a.max(b) {
        lines
            .push(("Note", "they are not of the same length: sums are, in part, larger for that".to_owned()));
    }
    if first.overview.switches > 0 || second.overview.switches > 0 {
        let busy = |facts: &Facts| {
            let all = facts.overview.span.saturating_mul(facts.overview.cpus).max(1);
            share(facts.overview.ran as f64 / all as f64)
        };
        lines.push(("CPUs busy", both(&busy)));
        lines.push(("Waiting", format!("{} for a CPU", both(&|facts| time(facts.overview.waited)))));
        lines.push(("Blocked", format!("{} in the kernel", both(&|facts| time(facts.overview.blocked)))));
    }
    let lost = |facts: &Facts| match losses::words(facts) {
        lost if lost.is_empty() => "nothing that is counted".to_owned(),
        lost => lost.join("; "),
    };
    lines.push(("Lost", both(&lost)));
    lines
}

struct Pair<'a> {
    first: &'a Facts,
    second: &'a Facts,
    rows: usize,
}

/// The column of how much a time has changed.
const CHANGE: (&str, &str) = ("change_ns", "change");

/// A name, and what either trace has of it.
type Match<'a, T> = (String, Option<&'a T>, Option<&'a T>);

/// A figure that a trace may have of a name.
struct Figure<T> {
    key: &'static str,
    title: &'static str,
    unit: Unit,
    of: fn(&T) -> f64,
}

const fn figure<T>(key: &'static str, title: &'static str, unit: Unit, of: fn(&T) -> f64) -> Figure<T> {
    Figure { key, title, unit, of }
}

impl<'a> Pair<'a> {
    fn processes(&self) -> Section {
        let figures = [
            figure("cpu_ns", "CPU time", Unit::Time, |of: &Process| of.cpu as f64),
            figure("processes", "processes", Unit::Count, |of| of.processes as f64),
        ];
        let matched = by_name(&self.first.processes, &self.second.processes, |process| process.name.clone());
        let names = ("process", "CPU time by process");
        self.section("cpu_by_process", names, CHANGE, by_change(matched, &figures), &figures)
    }

    fn threads(&self) -> Section {
        let figures = [
            figure("cpu_ns", "CPU time", Unit::Time, |of: &Thread| of.cpu as f64),
            figure("waiting_ns", "wait for CPU", Unit::Time, |of| of.waiting as f64),
            figure("blocked_ns", "blocked", Unit::Time, |of| of.blocked as f64),
        ];
        let key = |of: &Thread| in_process(&of.thread, &of.process);
        let matched = by_name(&self.first.threads, &self.second.threads, key);
        let names = ("thread", "CPU time by thread");
        self.section("cpu_by_thread", names, CHANGE, by_change(matched, &figures), &figures)
    }

    fn latency(&self) -> Section {
        let figures = [
            figure("total_ns", "in all", Unit::Time, |of: &Waits| of.total as f64),
            figure("p50_ns", "median", Unit::Time, |of| of.p50 as f64),
            figure("p99_ns", "99 %", Unit::Time, |of| of.p99 as f64),
            figure("longest_ns", "longest", Unit::Time, |of| of.longest as f64),
        ];
        let key = |of: &Waits| in_process(&of.thread, &of.process);
        let matched = by_name(&self.first.waits, &self.second.waits, key);
        let names = ("thread", "Run queue latency");
        self.section("latency_by_thread", names, CHANGE, by_change(matched, &figures), &figures)
    }

    fn slices(&self) -> Section {
        let figures = [
            figure("self_ns", "self", Unit::Time, |of: &Slices| of.own as f64),
            figure("count", "count", Unit::Count, |of| of.times as f64),
            figure("p50_ns", "median", Unit::Time, |of| of.p50 as f64),
            figure("p99_ns", "99 %", Unit::Time, |of| of.p99 as f64),
        ];
        let matched = by_name(&self.first.slices, &self.second.slices, |slices| slices.name.clone());
        let names = ("name", "Slices by self time");
        self.section("slices", names, CHANGE, by_change(matched, &figures), &figures)
    }

    fn counters(&self) -> Section {
        let figures = [
            figure("mean", "mean", Unit::Number, |of: &Counter| of.mean),
            figure("max", "highest", Unit::Number, |of| of.highest),
            figure("last", "last", Unit::Number, |of| of.latest),
        ];
        let mut matched = by_name(&self.first.counters, &self.second.counters, counter_title);
        // Counters count different things: what has changed by the largest part comes first, and what only one has behind all that.
        let part = |(_, a, b): &Match<'_, Counter>| match (a, b) {
            (Some(a), Some(b)) => {
                (b.mean - a.mean).abs() / a.mean.abs().max(b.mean.abs()).max(f64::MIN_POSITIVE)
            }
            _ => -1.0,
        };
        matched.sort_by(|one, other| part(other).total_cmp(&part(one)));
        let names = ("counter", "Counters");
        self.section("counters", names, ("change", "change of mean"), matched, &figures)
    }

    /// The first rows: by how much the first figure has changed, and each figure before and after; and how many things are new and gone in
    /// all, and which.
    fn section<T>(
        &self,
        key: &'static str,
        names: (&'static str, &'static str),
        changes: (&'static str, &'static str),
        matched: Vec<Match<'a, T>>,
        figures: &[Figure<T>],
    ) -> Section {
        let (_, title) = names;
        if matched.is_empty() {
            return Section::absent(key, title, format!("{}: neither trace has any", title.to_lowercase()));
        }
        let columns: Vec<_> =
            [names, changes].into_iter().chain(figures.iter().map(|it| (it.key, it.title))).collect();
        let row = |(name, a, b): &Match<'a, T>| {
            let change = figures.iter().take(1).map(|it| Value::Change(it.unit, a.map(it.of), b.map(it.of)));
            let both = figures.iter().map(|it| Value::Both(it.unit, a.map(it.of), b.map(it.of)));
            std::iter::once(Value::text(name)).chain(change).chain(both).collect()
        };
        let mut section = Section::of(key, title, Table::first(&columns, &matched, self.rows, row));
        section.notes.extend(named("New", matched.iter().filter(|(_, a, _)| a.is_none())));
        section.notes.extend(named("Gone", matched.iter().filter(|(_, _, b)| b.is_none())));
        if matched.len() >= MAX_ROWS {
            section.notes.push(
                "There are so many names that some were left out, which may be called new or gone."
                    .to_owned(),
            );
        }
        section
    }
}

/// What only one trace has, by name.
fn named<'a, 'b: 'a, T: 'b>(what: &str, matches: impl Iterator<Item = &'a Match<'b, T>>) -> Option<String> {
    const NAMED: usize = 8;
    let names: Vec<&str> = matches.map(|(name, ..)| name.as_str()).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    let listed = names.get(..NAMED.min(names.len()))?.join(", ");
    (!names.is_empty()).then(|| format!("{what}: {listed}{more}."))
}

fn in_process(thread: &str, process: &str) -> String {
    if thread == process { thread.to_owned() } else { format!("{thread} ({process})") }
}

/// Of several of one name the first one is taken.
fn by_name<'a, T>(first: &'a [T], second: &'a [T], name: impl Fn(&T) -> String) -> Vec<Match<'a, T>> {
    let mut matched: BTreeMap<String, (Option<&T>, Option<&T>)> = BTreeMap::new();
    for it in first {
        matched.entry(name(it)).or_default().0.get_or_insert(it);
    }
    for it in second {
        matched.entry(name(it)).or_default().1.get_or_insert(it);
    }
    matched.into_iter().map(|(name, (first, second))| (name, first, second)).collect()
}

/// The largest change of the first figure first; of what is not there there is nothing.
fn by_change<'a, T>(mut matched: Vec<Match<'a, T>>, figures: &[Figure<T>]) -> Vec<Match<'a, T>> {
    let value = |of: Option<&T>| of.zip(figures.first()).map_or(0.0, |(of, figure)| (figure.of)(of));
    let size = |(_, a, b): &Match<'a, T>| (value(*b) - value(*a)).abs();
    matched.sort_by(|one, other| size(other).total_cmp(&size(one)));
    matched
}
