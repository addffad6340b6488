//! Each of our tables beside Trace Processor's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use ferretto_import::{Options, import};
use ferretto_interop::{Table as Answer, TraceQuery};
use ferretto_trace_tables::{Table, Tables};

use super::beside::{ARGS, BESIDE, Beside, COUNTERS, METADATA, STATS};
use super::cells::{Sets, our_sets, same, sets_of, text};
use super::differences::{self, Cell, Nameless};
use super::facts;

/// Cells that differ are listed up to so many a column.
const EXAMPLES: usize = 3;

/// v52 makes a new process of one whose parent has changed, so that all further rows have other numbers. It happens where a program ends while
/// the list of processes is read.
pub(super) struct ParentChanged;

/// Panics with what differs.
pub(super) fn compare(sql: &TraceQuery, trace: &Path) -> Result<(), ParentChanged> {
    let ours = tables_of(trace);
    let our_stats = facts::our_stats(&ours);
    if our_stats.iter().any(|row| row[0] == "process_tracker_parent_pid_changed") {
        return Err(ParentChanged);
    }
    let mut queries: Vec<&str> = BESIDE.iter().map(|beside| beside.query).collect();
    queries.extend([ARGS, METADATA, STATS, COUNTERS]);
    let mut answers = sql.query(trace, &queries);
    let counters = answers.pop().unwrap();
    let stats = answers.pop().unwrap();
    let metadata = answers.pop().unwrap();
    let their_args = sets_of(&answers.pop().unwrap());
    let our_args = our_sets(&ours);
    let mut report = Vec::new();
    let nameless = Nameless::of(trace);
    let sides = Sides { ours: &ours, our_args: &our_args, their_args: &their_args, nameless: &nameless };
    let tracks = LeftOut::tracks(&ours, answer(&answers, "track"));
    for (beside, theirs) in BESIDE.iter().zip(&answers) {
        sides.compare_table(beside, theirs, &tracks, &mut report);
    }
    facts::compare_counters(&facts::our_counters(&ours, &our_args), &counters, &their_args, &mut report);
    facts::compare_facts("metadata", &facts::our_metadata(&ours), &metadata.rows, &mut report);
    facts::compare_facts("stats", &facts::summed(our_stats), &facts::summed(stats.rows), &mut report);
    assert!(report.is_empty(), "{} differences:\n{}", report.len(), report.join("\n"));
    Ok(())
}

fn answer<'a>(answers: &'a [Answer], table: &str) -> &'a Answer {
    &answers[BESIDE.iter().position(|beside| beside.table == table).unwrap()]
}

pub(crate) fn tables_of(trace: &Path) -> Tables {
    let options = Options { config_printer: Some(print_config), ..Options::default() };
    import(File::open(trace).unwrap(), &options, &mut |_| true).unwrap().0
}

fn print_config(config: &[u8]) -> Option<String> {
    ferretto_protos::text::format("perfetto.protos.TraceConfig", config).ok()
}

struct Sides<'a> {
    ours: &'a Tables,
    our_args: &'a Sets,
    their_args: &'a Sets,
    nameless: &'a Nameless,
}

impl Sides<'_> {
    fn compare_table(&self, beside: &Beside, theirs: &Answer, tracks: &LeftOut, report: &mut Vec<String>) {
        let name = beside.table;
        let table = self.ours.find(name).unwrap_or_else(|| panic!("there is no table {name}"));
        if theirs.rows.is_empty() && differences::may_be_missing(name) {
            return;
        }
        let nothing = LeftOut::default();
        let related = LeftOut::related(self.ours);
        let left_out = match name {
            "track" => tracks,
            "clock_snapshot" => &related,
            _ => &nothing,
        };
        let is_asked_for = |row: &usize| {
            beside.only.is_none_or(|(column, value)| text(table.cell(column, *row), self.ours) == value)
        };
        let rows: Vec<usize> =
            (0..table.len()).filter(|row| !left_out.ours.contains(row)).filter(is_asked_for).collect();
        let their_rows: Vec<&Vec<String>> = theirs
            .rows
            .iter()
            .enumerate()
            .filter(|(row, _)| !left_out.theirs.contains(row))
            .map(|(_, row)| row)
            .collect();
        if rows.len() != their_rows.len() {
            report.push(format!("{name}: {} rows, Trace Processor has {}", rows.len(), their_rows.len()));
        }
        for (at, column) in theirs.columns.iter().enumerate() {
            if !table.columns().iter().any(|mine| mine.name == column) {
                report.push(format!("{name}: there is no column {column}"));
                continue;
            }
            let mine = rows.iter().map(|row| text(table.cell(column, *row), self.ours)).collect();
            let other = their_rows.iter().map(|row| row[at].clone()).collect();
            let (mine, other) = self.comparable(name, column, mine, other, tracks);
            let differ = (0..rows.len().min(their_rows.len())).filter(|at| {
                let (ours, theirs) = (&*mine[*at], &*other[*at]);
                let cell = Cell { ours, theirs, tables: self.ours, row: rows[*at], nameless: self.nameless };
                !same(cell.ours, cell.theirs) && !differences::may_differ(name, column, &cell)
            });
            for at in differ.take(EXAMPLES) {
                let (mine, other) = (&mine[at], &other[at]);
                report.push(format!("{name}.{column} row {}: {mine}, Trace Processor has {other}", rows[at]));
            }
        }
    }

    /// Numbers of rows that were left out are taken away, numbers of sets become the sets.
    fn comparable(
        &self,
        table: &str,
        column: &str,
        ours: Vec<String>,
        theirs: Vec<String>,
        tracks: &LeftOut,
    ) -> (Vec<String>, Vec<String>) {
        let each = |cells: Vec<String>, of: &dyn Fn(&String) -> String| cells.iter().map(of).collect();
        let set = |sets: &Sets, set: &String| sets.get(set).cloned().unwrap_or_default();
        match (table, column) {
            (_, "track_id") | ("track", "parent_id") => (
                each(ours, &|cell| renumbered(cell, &tracks.ours)),
                each(theirs, &|cell| renumbered(cell, &tracks.theirs)),
            ),
            (_, "snapshot_id") if table == "clock_snapshot" => (counted(&ours), counted(&theirs)),
            _ if column.ends_with("arg_set_id") => (
                each(ours, &|cell| set(self.our_args, cell)),
                each(theirs, &|cell| set(self.their_args, cell)),
            ),
            _ => (ours, theirs),
        }
    }
}

/// Rows that are left out, so that all others have lower numbers.
#[derive(Default)]
struct LeftOut {
    ours: BTreeSet<usize>,
    theirs: BTreeSet<usize>,
}

impl LeftOut {
    /// Tracks of states, which v52 does not know, and of the memory of processes, for which it has other values.
    fn tracks(ours: &Tables, theirs: &Answer) -> Self {
        let state = ours.strings.find("state");
        let is_state = |row: usize| state.is_some() && ours.track.event_type[row] == state;
        let is_memory = |name: &str| name.starts_with("mem.");
        let name = |row: usize| ours.track.name[row].map_or("", |name| ours.strings.get(name));
        Self {
            ours: (0..ours.track.len()).filter(|row| is_state(*row) || is_memory(name(*row))).collect(),
            theirs: (0..theirs.rows.len()).filter(|row| is_memory(&theirs.rows[*row][0])).collect(),
        }
    }

    /// Snapshots of clocks of two machines: v52 has no rows for how they relate.
    fn related(ours: &Tables) -> Self {
        let table = &ours.clock_snapshot;
        let mut machines = BTreeMap::<u32, BTreeSet<_>>::new();
        for row in 0..table.len() {
            machines
                .entry(table.snapshot_id.at(row))
                .or_default()
                .insert(text(table.cell("machine_id", row), ours));
        }
        let is_of_two = |row: &usize| machines[&table.snapshot_id.at(*row)].len() > 1;
        Self { ours: (0..table.len()).filter(is_of_two).collect(), theirs: BTreeSet::new() }
    }
}

/// The number that a row has without those that are left out.
fn renumbered(row: &str, left_out: &BTreeSet<usize>) -> String {
    match row.parse::<usize>() {
        Ok(row) => (row - left_out.range(..row).count()).to_string(),
        Err(_) => row.to_owned(),
    }
}

/// Numbers that begin at 0 and leave none out.
fn counted(numbers: &[String]) -> Vec<String> {
    let mut counts = BTreeMap::new();
    let mut count = |number| {
        let next = counts.len();
        *counts.entry(number).or_insert(next)
    };
    numbers.iter().map(|number| count(number.clone()).to_string()).collect()
}
