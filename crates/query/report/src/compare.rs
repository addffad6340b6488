//! Two traces beside each other: what both have by name, what only the second has, what only the first had. The largest changes first.

use std::collections::BTreeMap;

use crate::document::{Document, Section, Table, Unit, Value};
use crate::facts::{Counter, Facts};
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

/// A name, and what either trace has of it.
type Match<'a, T> = (String, Option<&'a T>, Option<&'a T>);

impl<'a> Pair<'a> {
    fn processes(&self) -> Section {
        let columns = [
            ("process", "CPU time by process"),
            ("change_ns", "change"),
            ("cpu_ns", "CPU time"),
            ("processes", "processes"),
        ];
        let matched = by_name(&self.first.processes, &self.second.processes, |process| process.name.clone());
        let cpu = |of: &crate::facts::Process| of.cpu as f64;
        self.section(
            "cpu_by_process",
            "CPU time by process",
            &columns,
            by_change(matched, cpu),
            |(name, a, b)| {
                vec![
                    Value::text(name),
                    change(Unit::Time, *a, *b, cpu),
                    both(Unit::Time, *a, *b, cpu),
                    both(Unit::Count, *a, *b, |of| of.processes as f64),
                ]
            },
        )
    }

    fn threads(&self) -> Section {
        let columns = [
            ("thread", "CPU time by thread"),
            ("change_ns", "change"),
            ("cpu_ns", "CPU time"),
            ("waiting_ns", "wait for CPU"),
            ("blocked_ns", "blocked"),
        ];
        let key = |of: &crate::facts::Thread| in_process(&of.thread, &of.process);
        let matched = by_name(&self.first.threads, &self.second.threads, key);
        let cpu = |of: &crate::facts::Thread| of.cpu as f64;
        self.section(
            "cpu_by_thread",
            "CPU time by thread",
            &columns,
            by_change(matched, cpu),
            |(name, a, b)| {
                vec![
                    Value::text(name),
                    change(Unit::Time, *a, *b, cpu),
                    both(Unit::Time, *a, *b, cpu),
                    both(Unit::Time, *a, *b, |of| of.waiting as f64),
                    both(Unit::Time, *a, *b, |of| of.blocked as f64),
                ]
            },
        )
    }

    fn latency(&self) -> Section {
        let columns = [
            ("thread", "Run queue latency"),
            ("change_ns", "change"),
            ("total_ns", "in all"),
            ("p50_ns", "median"),
            ("p99_ns", "99 %"),
            ("longest_ns", "longest"),
        ];
        let key = |of: &crate::facts::Waits| in_process(&of.thread, &of.process);
        let matched = by_name(&self.first.waits, &self.second.waits, key);
        let total = |of: &crate::facts::Waits| of.total as f64;
        self.section(
            "latency_by_thread",
            "Run queue latency",
            &columns,
            by_change(matched, total),
            |(name, a, b)| {
                vec![
                    Value::text(name),
                    change(Unit::Time, *a, *b, total),
                    both(Unit::Time, *a, *b, total),
                    both(Unit::Time, *a, *b, |of| of.p50 as f64),
                    both(Unit::Time, *a, *b, |of| of.p99 as f64),
                    both(Unit::Time, *a, *b, |of| of.longest as f64),
                ]
            },
        )
    }

    fn slices(&self) -> Section {
        let columns = [
            ("name", "Slices by self time"),
            ("change_ns", "change"),
            ("self_ns", "self"),
            ("count", "count"),
            ("p50_ns", "median"),
            ("p99_ns", "99 %"),
        ];
        let matched = by_name(&self.first.slices, &self.second.slices, |slices| slices.name.clone());
        let own = |of: &crate::facts::Slices| of.own as f64;
        self.section("slices", "Slices by self time", &columns, by_change(matched, own), |(name, a, b)| {
            vec![
                Value::text(name),
                change(Unit::Time, *a, *b, own),
                both(Unit::Time, *a, *b, own),
                both(Unit::Count, *a, *b, |of| of.times as f64),
                both(Unit::Time, *a, *b, |of| of.p50 as f64),
                both(Unit::Time, *a, *b, |of| of.p99 as f64),
            ]
        })
    }

    fn counters(&self) -> Section {
        let columns = [
            ("counter", "Counters"),
            ("change", "change of mean"),
            ("mean", "mean"),
            ("max", "highest"),
            ("last", "last"),
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
        let mean = |of: &Counter| of.mean;
        self.section("counters", "Counters", &columns, matched, |(name, a, b)| {
            vec![
                Value::text(name),
                change(Unit::Number, *a, *b, mean),
                both(Unit::Number, *a, *b, mean),
                both(Unit::Number, *a, *b, |of| of.highest),
                both(Unit::Number, *a, *b, |of| of.latest),
            ]
        })
    }

    /// The first rows, with how many things are new and gone in all, and which.
    fn section<T>(
        &self,
        key: &'static str,
        title: &str,
        columns: &[(&'static str, &'static str)],
        matched: Vec<Match<'a, T>>,
        row: impl Fn(&Match<'a, T>) -> Vec<Value>,
    ) -> Section {
        if matched.is_empty() {
            return Section::absent(key, title, format!("{}: neither trace has any", title.to_lowercase()));
        }
        let mut section = Section::of(key, title, Table::first(columns, &matched, self.rows, row));
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

/// The largest change first; of what is not there there is nothing.
fn by_change<'a, T>(mut matched: Vec<Match<'a, T>>, value: impl Fn(&T) -> f64) -> Vec<Match<'a, T>> {
    let size = |(_, a, b): &Match<'a, T>| (b.map_or(0.0, &value) - a.map_or(0.0, &value)).abs();
    matched.sort_by(|one, other| size(other).total_cmp(&size(one)));
    matched
}

fn change<T>(unit: Unit, first: Option<&T>, second: Option<&T>, value: impl Fn(&T) -> f64) -> Value {
    Value::Change(unit, first.map(&value), second.map(&value))
}

fn both<T>(unit: Unit, first: Option<&T>, second: Option<&T>, value: impl Fn(&T) -> f64) -> Value {
    Value::Both(unit, first.map(&value), second.map(&value))
}
