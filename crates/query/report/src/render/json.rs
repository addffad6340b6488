//! For programs: an object with a member for each section. Times are in nanoseconds, shares parts of 1.

use std::fmt::Write as _;

use ferretto_analysis::json::quoted;

use crate::document::{Document, Section, Table, Value};
use crate::pictures::Picture;

pub(super) fn render(document: &Document) -> String {
    let mut out = format!("{{\"trace\":{}", quoted(&document.title));
    out.push_str(",\"glance\":{");
    let facts: Vec<_> =
        document.glance.iter().map(|(label, text)| format!("{}:{}", quoted(label), quoted(text))).collect();
    out.push_str(&facts.join(","));
    out.push('}');
    for section in &document.sections {
        let _ = write!(out, ",{}:", quoted(section.key));
        show(section, &mut out);
    }
    out.push_str("}\n");
    out
}

fn show(section: &Section, out: &mut String) {
    if let Some(why) = &section.absent {
        let _ = write!(out, "{{\"absent\":{}}}", quoted(why));
        return;
    }
    let mut members = vec![format!("\"title\":{}", quoted(&section.title))];
    if !section.notes.is_empty() {
        members.push(format!("\"notes\":[{}]", list(&section.notes, |note| quoted(note))));
    }
    if let Some(table) = &section.table {
        members.push(format!("\"rows\":[{}]", list(&table.rows, |row| object(table, row))));
        members.push(format!("\"left_out\":{}", table.left_out));
    }
    members.extend(section.pictures.iter().filter_map(picture));
    let _ = write!(out, "{{{}}}", members.join(","));
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(",")
}

fn object(table: &Table, row: &[Value]) -> String {
    let members =
        table.columns.iter().zip(row).map(|((key, _), value)| format!("{}:{}", quoted(key), cell(value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Nothing => "null".to_owned(),
        Value::Text(text) => quoted(text),
        Value::Count(value) | Value::Time(value) | Value::When(value) | Value::Bytes(value) => {
            value.to_string()
        }
        Value::Share(value) | Value::Number(value) => number(*value),
        Value::Course(course) => format!("[{}]", list(course, |value| number(*value))),
        Value::Both(_, first, second) => format!("[{},{}]", maybe(*first), maybe(*second)),
        Value::Change(_, None, Some(_)) => "\"new\"".to_owned(),
        Value::Change(_, Some(_), None) => "\"gone\"".to_owned(),
        Value::Change(_, first, second) => maybe(first.zip(*second).map(|(first, second)| second - first)),
    }
}

fn maybe(value: Option<f64>) -> String {
    value.map_or("null".to_owned(), number)
}

fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { "null".to_owned() }
}

/// What is in a picture and in no table.
fn picture(picture: &Picture) -> Option<String> {
    match picture {
        Picture::Areas(areas) => {
            let series = list(&areas.series, |(name, bins)| {
                format!("{{\"name\":{},\"ns\":[{}]}}", quoted(name), list(bins, |ran| number(ran.round())))
            });
            Some(format!(
                "\"over_time\":{{\"bin_ns\":{},\"cpus\":{},\"series\":[{series}]}}",
                number(areas.bin_ns),
                areas.cpus
            ))
        }
        Picture::Bars(bars) => {
            let bars =
                list(&bars.bars, |(label, n)| format!("{{\"waits\":{},\"count\":{n}}}", quoted(label)));
            Some(format!("\"histogram\":[{bars}]"))
        }
        Picture::Chart(_) | Picture::Flame(_) => None,
    }
}
