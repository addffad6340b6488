//! On a terminal: tables whose names are cut so that a row is a line.

use std::fmt::Write as _;

use super::words::{histogram, words};
use crate::document::{Document, Section, Table, Value};
use crate::names::cut;
use crate::pictures::Picture;

/// What stands before the facts.
const LABEL: usize = 10;
/// A column of names is cut to no less.
const MIN_NAME: usize = 8;
/// Nobody reads wider lines.
const MAX_WIDTH: usize = 140;

pub(super) fn render(document: &Document, width: usize) -> String {
    let width = width.min(MAX_WIDTH);
    let mut out = format!("{}\n", document.title);
    for (label, text) in &document.glance {
        out.push_str(&wrapped(&format!("{label:LABEL$}"), text, width));
    }
    for section in document.sections.iter().filter(|section| section.absent.is_none()) {
        out.push('\n');
        show(section, width, &mut out);
    }
    let mut absent = document.sections.iter().filter_map(|section| section.absent.as_ref()).peekable();
    if absent.peek().is_some() {
        out.push_str("\nNot in this trace\n");
    }
    for why in absent {
        out.push_str(&wrapped("- ", why, width));
    }
    out
}

fn show(section: &Section, width: usize, out: &mut String) {
    match &section.table {
        Some(table) => show_table(table, width, out),
        None => {
            let _ = writeln!(out, "{}", section.title);
        }
    }
    for picture in &section.pictures {
        if let Picture::Bars(bars) = picture {
            let (first, last) = (bars.bars.first(), bars.bars.last());
            let course: Vec<f64> = bars.bars.iter().map(|(_, n)| *n as f64).collect();
            let label = |bar: Option<&(String, i64)>| bar.map(|(label, _)| label.clone()).unwrap_or_default();
            let _ = writeln!(out, "  {}  {}  {}", label(first), histogram(&course), label(last));
        }
    }
    for note in &section.notes {
        out.push_str(&wrapped("  ", note, width));
    }
}

fn show_table(table: &Table, width: usize, out: &mut String) {
    let cells: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(words).collect()).collect();
    let is_number: Vec<bool> = (0..table.columns.len())
        .map(|column| table.rows.iter().any(|row| row.get(column).is_some_and(Value::is_number)))
        .collect();
    let widths = widths(table, &cells, &is_number, width);
    let heads: Vec<String> = table.columns.iter().map(|(_, title)| (*title).to_owned()).collect();
    line("", &heads, &widths, &is_number, out);
    for row in &cells {
        line("  ", row, &widths, &is_number, out);
    }
    if table.left_out > 0 {
        let _ = writeln!(out, "  and {} more", table.left_out);
    }
}

/// Figures are shown whole; of texts the widest are cut until all fit.
fn widths(table: &Table, cells: &[Vec<String>], is_number: &[bool], width: usize) -> Vec<usize> {
    let of_column = |(column, (_, title)): (usize, &(&str, &str))| {
        let cells = cells
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count() + 2 * usize::from(column == 0));
        cells.chain([title.chars().count()]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = table.columns.iter().enumerate().map(of_column).collect();
    loop {
        let sum: usize = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let texts =
            widths.iter_mut().zip(is_number).filter(|(width, is_number)| !**is_number && **width > MIN_NAME);
        match texts.map(|(width, _)| width).max() {
            Some(widest) if sum > width => *widest -= 1,
            _ => return widths,
        }
    }
}

fn line(indent: &str, cells: &[String], widths: &[usize], is_number: &[bool], out: &mut String) {
    let mut text = String::from(indent);
    for (at, ((cell, width), is_number)) in cells.iter().zip(widths).zip(is_number).enumerate() {
        let room = if at == 0 { width.saturating_sub(indent.len()) } else { *width };
        let cell = cut(cell, room.max(1));
        let blanks = " ".repeat(room.saturating_sub(cell.chars().count()));
        text.push_str(if at > 0 { "  " } else { "" });
        match is_number {
            true => text.extend([blanks, cell]),
            false => text.extend([cell, blanks]),
        }
    }
    out.push_str(text.trim_end());
    out.push('\n');
}

/// Behind a label, at blanks; further lines begin below the first one's text.
fn wrapped(label: &str, text: &str, width: usize) -> String {
    let indent = label.chars().count();
    let mut out = String::from(label);
    let mut at = indent;
    for word in text.split(' ') {
        let letters = word.chars().count();
        if at > indent && at + 1 + letters > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            at = indent;
        } else if at > indent {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += letters;
    }
    out.push('\n');
    out
}
