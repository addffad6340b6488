//! As a page: one file that needs nothing else, and has no script at all. Its policy forbids a browser to run or load any, whatever names say.

use std::fmt::Write as _;

use super::words::words;
use crate::document::{Document, Section, Table, Value};
use crate::names::escaped;
use crate::pictures::Picture;

const STYLE: &str = include_str!("page.css");
/// Nothing is loaded, and nothing run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub(super) fn render(document: &Document) -> String {
    let title = escaped(&document.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n<dl>"
    );
    for (label, text) in &document.glance {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escaped(label), escaped(text));
    }
    out.push_str("</dl>\n");
    document
        .sections
        .iter()
        .filter(|section| section.absent.is_none())
        .for_each(|section| show(section, &mut out));
    let absent: Vec<_> = document.sections.iter().filter_map(|section| section.absent.as_ref()).collect();
    if !absent.is_empty() {
        out.push_str("<section><h2>Not in it</h2>");
        absent.iter().for_each(|why| _ = write!(out, "<p>{}.</p>", escaped(&capital(why))));
        out.push_str("</section>\n");
    }
    out.push_str("</main></body></html>\n");
    out
}

fn show(section: &Section, out: &mut String) {
    let _ = writeln!(out, "<section id=\"{}\"><h2>{}</h2>", section.key, escaped(&section.title));
    let is_chart = |picture: &&Picture| matches!(picture, Picture::Chart(_));
    section.pictures.iter().filter(|picture| !is_chart(picture)).for_each(|picture| {
        let _ = writeln!(out, "<figure>{}</figure>", picture.draw());
    });
    if section.pictures.iter().any(|picture| is_chart(&picture)) {
        out.push_str("<div class=\"charts\">");
        section.pictures.iter().filter(is_chart).for_each(|picture| out.push_str(&picture.draw()));
        out.push_str("</div>\n");
    }
    if let Some(table) = &section.table {
        show_table(table, out);
    }
    section.notes.iter().for_each(|note| _ = writeln!(out, "<p>{}</p>", escaped(note)));
    out.push_str("</section>\n");
}

fn show_table(table: &Table, out: &mut String) {
    let is_number =
        |column: usize| table.rows.iter().any(|row| row.get(column).is_some_and(Value::is_number));
    let class = |column: usize| if is_number(column) { " class=\"n\"" } else { "" };
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    for (column, (_, title)) in table.columns.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(column), escaped(title));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (column, value) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(column), escaped(&words(value)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if table.left_out > 0 {
        let _ = writeln!(out, "<p>and {} more</p>", table.left_out);
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
