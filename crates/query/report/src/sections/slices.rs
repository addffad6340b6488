//! What programs say that they did.

use crate::document::{Section, Table, Value};
use crate::facts::{Facts, Slice, Slices};
use crate::units::count;

const ABSENT: &str = "no slices: record track_event, with a program that uses the crate `ferretto`, `ferretto-tracing` or Perfetto's SDK";

pub(super) fn by_name(facts: &Facts, rows: usize) -> Section {
    const KEY: &str = "slices";
    const TITLE: &str = "Slices by self time";
    if facts.slices.is_empty() {
        return Section::absent(KEY, TITLE, ABSENT);
    }
    let columns = [
        ("name", "Slices by self time"),
        ("count", "count"),
        ("self_ns", "self"),
        ("total_ns", "in all"),
        ("p50_ns", "median"),
        ("p99_ns", "99 %"),
        ("longest_ns", "longest"),
    ];
    let row = |slices: &Slices| {
        vec![
            Value::text(&slices.name),
            Value::Count(slices.times),
            Value::Time(slices.own),
            Value::Time(slices.total),
            Value::Time(slices.p50),
            Value::Time(slices.p99),
            Value::Time(slices.longest),
        ]
    };
    let mut section = Section::of(KEY, TITLE, Table::first(&columns, &facts.slices, rows, row));
    if facts.overview.slices_without_end > 0 {
        let open = count(facts.overview.slices_without_end);
        section.notes.push(format!("{open} without an end are not counted here."));
    }
    section
}

pub(super) fn longest(facts: &Facts, rows: usize) -> Section {
    const KEY: &str = "longest_slices";
    const TITLE: &str = "Longest slices";
    if facts.longest_slices.is_empty() {
        return Section::absent(KEY, TITLE, ABSENT);
    }
    let columns = [
        ("name", "Longest slices"),
        ("owner", "on"),
        ("process", "process"),
        ("at_ns", "at"),
        ("dur_ns", "took"),
    ];
    let row = |slice: &Slice| {
        vec![
            Value::text(&slice.name),
            slice.owner.as_ref().map_or(Value::Nothing, Value::text),
            slice.process.as_ref().map_or(Value::Nothing, Value::text),
            Value::When(slice.at),
            Value::Time(slice.dur),
        ]
    };
    Section::of(KEY, TITLE, Table::first(&columns, &facts.longest_slices, rows, row))
}
