//! A table for people, as wide as the terminal at most.

use ferretto_analysis::{Rows, Shown};
use ferretto_printable::printable;

use crate::answer::{Error, Out, as_text, names};

/// Rows that say how wide columns are; those behind them are cut to it.
const MEASURED_ROWS: usize = 1000;
/// Of what is no terminal, or does not say.
const DEFAULT_WIDTH: usize = 200;
/// A column is cut to no less.
const MIN_COLUMN: usize = 8;
/// Of a column, if it is the only wide one in a file.
const MAX_COLUMN: usize = 100;

pub(crate) fn table(rows: Rows, out: &mut dyn Out) -> Result<(), Error> {
    let schema = rows.schema();
    let names: Vec<_> = names(&rows).iter().map(|name| printable(name).into_owned()).collect();
    let is_number: Vec<bool> = schema.fields().iter().map(|field| field.data_type().is_numeric()).collect();
    let mut rows = rows.shown();
    let mut first = Vec::new();
    let mut count = 0;
    while count < MEASURED_ROWS {
        let Some(batch) = rows.next() else { break };
        let batch = batch?;
        count += batch.num_rows();
        first.push(batch);
    }
    let mut widths: Vec<usize> = names.iter().map(|name| name.chars().count()).collect();
    for batch in &first {
        for row in 0..batch.num_rows().min(MEASURED_ROWS) {
            for (width, cell) in widths.iter_mut().zip(batch.cells(row)) {
                *width = (*width).max(printable(&as_text(cell)).chars().count()).min(MAX_COLUMN);
            }
        }
    }
    fit(&mut widths, width());
    line(out, names.iter().map(String::as_str), &widths, &is_number)?;
    let rules: Vec<_> = widths.iter().map(|width| "─".repeat(*width)).collect();
    writeln!(out, "{}", rules.join("─┼─"))?;
    let mut total = 0usize;
    let mut show = |out: &mut dyn Out, batch: &Shown| -> Result<(), Error> {
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = batch.cells(row).map(|cell| printable(&as_text(cell)).into_owned()).collect();
            line(out, cells.iter().map(String::as_str), &widths, &is_number)?;
        }
        total += batch.num_rows();
        Ok(())
    };
    for batch in &first {
        show(out, batch)?;
    }
    for batch in rows {
        show(out, &batch?)?;
    }
    writeln!(out, "({total} {})", if total == 1 { "row" } else { "rows" })?;
    Ok(out.flush()?)
}

/// Makes the widest columns narrower until all fit.
fn fit(widths: &mut [usize], all: usize) {
    let between = widths.len().saturating_sub(1) * 3;
    loop {
        let sum: usize = widths.iter().sum::<usize>() + between;
        let Some(widest) = widths.iter_mut().max() else { return };
        if sum <= all || *widest <= MIN_COLUMN {
            return;
        }
        *widest -= 1;
    }
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH)
}

fn line<'a>(
    out: &mut dyn Out,
    cells: impl Iterator<Item = &'a str>,
    widths: &[usize],
    is_number: &[bool],
) -> Result<(), Error> {
    let mut text = String::new();
    for (at, ((cell, width), is_number)) in cells.zip(widths).zip(is_number).enumerate() {
        let count = cell.chars().count();
        let cut: String = match count > *width {
            true => cell.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
            false => cell.to_owned(),
        };
        let missing = width.saturating_sub(count);
        text.push_str(if at > 0 { " │ " } else { "" });
        match is_number {
            true => text.extend(std::iter::repeat_n(' ', missing).chain(cut.chars())),
            false => text.extend(cut.chars().chain(std::iter::repeat_n(' ', missing))),
        }
    }
    writeln!(out, "{}", text.trim_end())?;
    Ok(())
}
