//! SQL on traces, with upstream's Trace Processor.

use std::path::Path;
use std::process::Command;

use crate::Reason;

/// A command that takes a trace and queries and prints tables, as trace_query.cjs does.
const TRACE_QUERY_ENV: &str = "FERRETTO_TRACE_QUERY";

/// Trace Processor.
#[derive(Debug, Clone)]
pub struct TraceQuery {
    words: Vec<String>,
}

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Cells as text; NULL is `\N`.
    pub rows: Vec<Vec<String>>,
}

/// Trace Processor, if there is one.
pub fn trace_query() -> Result<TraceQuery, Reason> {
    let command = std::env::var(TRACE_QUERY_ENV).map_err(|_| {
        format!("{TRACE_QUERY_ENV} is not set; run eval \"$(.ci/peers)\" for Trace Processor")
    })?;
    Ok(TraceQuery { words: command.split_whitespace().map(str::to_owned).collect() })
}

impl TraceQuery {
    /// The answers to the queries, in order.
    ///
    /// # Panics
    ///
    /// If the trace cannot be read or a query is wrong.
    pub fn query(&self, trace: &Path, queries: &[&str]) -> Vec<Table> {
        self.query_each(&[trace], queries).remove(0)
    }

    /// The same of several traces, which takes less time than one by one.
    ///
    /// # Panics
    ///
    /// As [`query`](Self::query).
    pub fn query_each(&self, traces: &[&Path], queries: &[&str]) -> Vec<Vec<Table>> {
        let (program, args) = self.words.split_first().expect("a command");
        let mut command = Command::new(program);
        command.args(args);
        for (at, trace) in traces.iter().enumerate() {
            if at > 0 {
                command.arg("--then");
            }
            command.arg(trace);
        }
        let output = command.args(queries).output().expect("the query command runs");
        assert!(output.status.success(), "{queries:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let tables: Vec<Table> = text.split_terminator("\n\n").map(parse_table).collect();
        assert_eq!(tables.len(), traces.len() * queries.len(), "{text}");
        tables.chunks(queries.len()).map(<[Table]>::to_vec).collect()
    }

    /// The one number that each query gives.
    ///
    /// # Panics
    ///
    /// As [`query`](Self::query), and if an answer is no single number.
    pub fn numbers(&self, trace: &Path, queries: &[&str]) -> Vec<i64> {
        let tables = self.query(trace, queries);
        let number = |(table, query): (Table, &&str)| {
            let cell = table.column().first().map(|cell| cell.parse());
            cell.and_then(Result::ok).unwrap_or_else(|| panic!("{query}: {:?}", table.rows))
        };
        tables.into_iter().zip(queries).map(number).collect()
    }

    /// The one number that a query gives.
    ///
    /// # Panics
    ///
    /// As [`numbers`](Self::numbers).
    pub fn number(&self, trace: &Path, query: &str) -> i64 {
        self.numbers(trace, &[query]).remove(0)
    }

    /// The statistics that say that something was lost or is wrong, as `name=value`.
    pub fn losses(&self, trace: &Path) -> Vec<String> {
        let query =
            "select name, idx, value from stats where value > 0 and severity in ('error', 'data_loss')";
        self.query(trace, &[query]).remove(0).rows.iter().map(|row| row.join(" ")).collect()
    }
}

impl Table {
    /// The first column.
    pub fn column(&self) -> Vec<&str> {
        self.rows.iter().filter_map(|row| row.first()).map(String::as_str).collect()
    }
}

fn parse_table(text: &str) -> Table {
    let mut lines =
        text.split_terminator('\n').map(|line| line.split('\t').map(unescape).collect::<Vec<_>>());
    Table { columns: lines.next().unwrap_or_default(), rows: lines.collect() }
}

/// What a cell was before `trace_query.cjs` wrote it; NULL stays `\N`.
fn unescape(cell: &str) -> String {
    if cell == "\\N" {
        return cell.to_owned();
    }
    let mut parts = cell.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        match part.chars().next() {
            Some('t') => text.extend(["\t", &part[1..]]),
            Some('n') => text.extend(["\n", &part[1..]]),
            // A backslash, and what stands before the next one.
            None => text.extend(["\\", parts.next().unwrap_or_default()]),
            Some(_) => text.push_str(part),
        }
    }
    text
}

#[test]
fn cells_are_what_they_were_before_they_were_printed() {
    for (printed, cell) in [
        ("plain", "plain"),
        ("\\N", "\\N"),
        ("a\\tb\\nc", "a\tb\nc"),
        ("v1\\\\noid \\\\t \\\\\\\\ \\\\\\n", "v1\\noid \\t \\\\ \\\n"),
        ("\\\\", "\\"),
    ] {
        assert_eq!(unescape(printed), cell, "{printed}");
    }
}
