//! Counters at a glance.

use super::with_unit;
use crate::document::{Section, Table, Value};
use crate::facts::{Counter, Facts};
use crate::pictures::{Chart, Picture};

const ABSENT: &str = "no counters: record linux.sys_stats and linux.process_stats with periods, or `ferretto::counter!` in a program";
/// Charts of a page: each is a picture of some kilobytes.
const MAX_CHARTS: usize = 16;

pub(super) fn glance(facts: &Facts, rows: usize, has_pictures: bool) -> Section {
    const KEY: &str = "counters";
    const TITLE: &str = "Counters at a glance";
    if facts.counters.is_empty() {
        return Section::absent(KEY, TITLE, ABSENT);
    }
    let columns = [
        ("counter", "Counters"),
        ("values", "values"),
        ("min", "lowest"),
        ("mean", "mean"),
        ("max", "highest"),
        ("last", "last"),
        ("course", "over time"),
    ];
    let row = |counter: &Counter| {
        let value = |value: f64| match counter.unit.as_deref() {
            unit if super::is_bytes(unit) => Value::Bytes(value as i64),
            Some("time_ns" | "ns") => Value::Time(value as i64),
            _ => Value::Number(value),
        };
        vec![
            Value::text(title(counter)),
            Value::Count(counter.times),
            value(counter.lowest),
            value(counter.mean),
            value(counter.highest),
            value(counter.latest),
            Value::Course(counter.course.clone()),
        ]
    };
    let mut section = Section::of(KEY, TITLE, Table::first(&columns, &facts.counters, rows, row));
    if has_pictures {
        let charts = facts.counters.iter().filter(|counter| !counter.course.is_empty()).take(MAX_CHARTS);
        section.pictures.extend(charts.map(|counter| Picture::Chart(chart(counter, facts))));
    }
    section
}

fn chart(counter: &Counter, facts: &Facts) -> Chart {
    let unit = counter.unit.as_deref();
    Chart {
        title: title(counter),
        lowest: with_unit(counter.lowest, unit),
        highest: with_unit(counter.highest, unit),
        span_ns: facts.overview.ends - facts.overview.begins,
        course: counter.course.clone(),
    }
}

/// What a counter is called, and whose it is.
pub(crate) fn title(counter: &Counter) -> String {
    match &counter.owner {
        Some(owner) => format!("{} ({owner})", counter.name),
        None => counter.name.clone(),
    }
}
