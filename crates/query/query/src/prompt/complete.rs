//! What a line at the prompt may go on with: names of tables, columns, functions and modules, by what stands before.

use std::collections::BTreeSet;

use ferretto_analysis::{Names, Trace, trace::split};
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

/// Names that are shown at once.
const MAX_SHOWN: usize = 200;

const COMMANDS: [&str; 6] = ["\\d", "\\h", "\\i", "\\q", "\\timing", "\\?"];
const WORDS: [&str; 44] = [
    "and",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "create",
    "cross join",
    "desc",
    "distinct",
    "drop",
    "else",
    "end",
    "exists",
    "from",
    "function",
    "glob",
    "group by",
    "having",
    "in",
    "include perfetto module",
    "inner join",
    "is",
    "join",
    "left join",
    "like",
    "limit",
    "macro",
    "not",
    "null",
    "on",
    "or",
    "order by",
    "over",
    "partition by",
    "perfetto",
    "replace",
    "select",
    "table",
    "then",
    "union all",
    "when",
    "where",
];

/// Knows when a line is whole, and what it may go on with.
pub(crate) struct Typing<'t> {
    trace: &'t Trace,
}

impl<'t> Typing<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Self {
        Self { trace }
    }

    fn candidates(&self, before: &str, word: &str) -> BTreeSet<String> {
        let Ok(names) = self.trace.names() else { return BTreeSet::new() };
        let columns = |table: &str| self.trace.columns(table).unwrap_or_default();
        candidates(&names, columns, before, word)
    }
}

/// All that a word may become behind what stands before it, in the order of letters.
fn candidates(
    names: &Names,
    columns: impl Fn(&str) -> Vec<String>,
    before: &str,
    word: &str,
) -> BTreeSet<String> {
    let lower = word.to_lowercase();
    let begins = |name: &&str| name.len() >= lower.len() && name.to_lowercase().starts_with(&lower);
    let tables = || names.tables.iter().map(String::as_str);
    let of_all = |names: &mut dyn Iterator<Item = &str>| names.filter(begins).map(str::to_owned).collect();
    if before.trim().is_empty() && word.starts_with('\\') {
        return of_all(&mut COMMANDS.into_iter());
    }
    let words: Vec<String> =
        before.split(|it| !is_of_word(it)).filter(|it| !it.is_empty()).map(str::to_lowercase).collect();
    let behind =
        |at: &[&str]| words.last().is_some_and(|last| at.contains(&last.as_str())) && !ends_value(before);
    if behind(&["module"]) {
        return of_all(&mut names.modules.iter().map(String::as_str));
    }
    if before.trim_start().starts_with("\\d")
        || behind(&["from", "join", "into", "table", "view", "on"]) && !behind(&["on"])
    {
        return of_all(&mut tables());
    }
    if let Some((of, part)) = word.rsplit_once('.') {
        let found = columns(&table_of(&words, &of.to_lowercase()));
        let part = part.to_lowercase();
        let found = found.into_iter().filter(|name| name.to_lowercase().starts_with(&part));
        return found.map(|name| format!("{of}.{name}")).collect();
    }
    let named = tables_in(&words).into_iter().flat_map(columns);
    let mut all: BTreeSet<String> = named.filter(|name| begins(&name.as_str())).collect();
    if !lower.is_empty() {
        all.extend(names.functions.iter().map(String::as_str).filter(begins).map(|name| format!("{name}(")));
        all.extend(names.macros.iter().map(String::as_str).filter(begins).map(|name| format!("{name}!(")));
        all.extend(tables().filter(begins).map(str::to_owned));
        all.extend(WORDS.into_iter().filter(begins).map(str::to_owned));
    }
    all
}

fn is_of_word(it: char) -> bool {
    it.is_alphanumeric() || matches!(it, '_' | '.' | '\\')
}

/// Whether a bracket or so stands behind the last word.
fn ends_value(before: &str) -> bool {
    before.trim_end().chars().next_back().is_some_and(|it| !is_of_word(it))
}

/// Tables that stand behind `from` and `join`.
fn tables_in(words: &[String]) -> BTreeSet<&str> {
    let pairs = words.iter().zip(words.iter().skip(1));
    let named = pairs.filter(|(word, _)| matches!(word.as_str(), "from" | "join"));
    named.map(|(_, table)| table.as_str()).collect()
}

/// The table that is called so: `from slice s`, `join thread as t`.
fn table_of(words: &[String], name: &str) -> String {
    let at = |at: usize| words.get(at).map(String::as_str);
    let is_named = |place: &usize| matches!(at(*place), Some("from" | "join"));
    let found = (0..words.len()).filter(is_named).find_map(|place| {
        let alias = if at(place + 2) == Some("as") { at(place + 3) } else { at(place + 2) };
        at(place + 1).filter(|_| alias == Some(name))
    });
    found.unwrap_or(name).to_owned()
}

impl Completer for Typing<'_> {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let typed = line.get(..pos).unwrap_or(line);
        let start = typed
            .char_indices()
            .rev()
            .find(|(_, it)| !is_of_word(*it))
            .map_or(0, |(at, it)| at + it.len_utf8());
        let (_, behind) = line.split_at(start);
        let word = behind.get(..pos - start).unwrap_or_default();
        // Names may stand behind: `select na| from slice`.
        let before = line.get(..start).unwrap_or_default();
        let mut found = self.candidates(before, word);
        if found.is_empty() || !before.to_lowercase().contains("from") {
            found.extend(self.columns_behind(line, word));
        }
        let pair = |name: String| Pair { display: name.clone(), replacement: name };
        Ok((start, found.into_iter().take(MAX_SHOWN).map(pair).collect()))
    }
}

impl Typing<'_> {
    /// Columns of tables that are named behind the place.
    fn columns_behind(&self, line: &str, word: &str) -> Vec<String> {
        let words: Vec<String> =
            line.split(|it| !is_of_word(it)).map(str::to_lowercase).filter(|it| !it.is_empty()).collect();
        let lower = word.to_lowercase();
        let columns =
            tables_in(&words).into_iter().flat_map(|table| self.trace.columns(table).unwrap_or_default());
        columns.filter(|name| name.starts_with(&lower)).collect()
    }
}

impl Validator for Typing<'_> {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let text = context.input();
        let is_whole = text.trim_start().starts_with('\\') || split(text).1.is_empty();
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for Typing<'_> {
    type Hint = String;
}

impl Highlighter for Typing<'_> {}

impl Helper for Typing<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(typed: &str) -> Vec<String> {
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let known = Names {
            tables: names(&["sched", "slice", "thread"]),
            functions: names(&["sum", "substr"]),
            macros: names(&["cast_int"]),
            modules: names(&["sched.states", "slices.with_context"]),
        };
        let columns = |table: &str| match table {
            "slice" => names(&["dur", "name", "ts"]),
            "thread" => names(&["name", "tid"]),
            _ => Vec::new(),
        };
        let start = typed.rfind(|it| !is_of_word(it)).map_or(0, |at| at + 1);
        candidates(&known, columns, &typed[..start], &typed[start..]).into_iter().collect()
    }

    #[test]
    fn names_are_completed_by_what_stands_before() {
        assert_eq!(of("select * from s"), ["sched", "slice"]);
        assert_eq!(of("include perfetto module sl"), ["slices.with_context"]);
        assert_eq!(of("select * from slice where D"), ["desc", "distinct", "drop", "dur"]);
        assert_eq!(of("select * from slice s join thread as t on t.t"), ["t.tid"]);
        assert_eq!(of("select * from slice s where s."), ["s.dur", "s.name", "s.ts"]);
        assert_eq!(of("select su"), ["substr(", "sum("]);
        assert_eq!(of("\\d th"), ["thread"]);
        assert_eq!(of("\\t"), ["\\timing"]);
    }
}
