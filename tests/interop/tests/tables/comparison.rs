//! Each of our tables beside Trace Processor's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use ferretto_import::{Options, import};
use ferretto_interop::{Table as Answer, TraceQuery};
use ferretto_trace_tables::{Table, Tables, Value};

use crate::differences;

/// One of our tables, and a query whose columns have the names of ours. Its rows are in the order of ours.
const BESIDE: &[(&str, &str)] = &[
    (
        "slice",
        "select ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur, \
         thread_instruction_count, thread_instruction_delta from slice order by id",
    ),
    ("track", "select name, parent_id, type, source_arg_set_id from track order by id"),
    ("thread", "select tid, name, start_ts, end_ts, upid, is_main_thread from thread order by utid"),
    (
        "process",
        "select pid, name, start_ts, end_ts, parent_upid, uid, android_appid, cmdline, arg_set_id from process order by upid",
    ),
    ("sched", "select ts, dur, utid, end_state, priority, ucpu from sched order by id"),
    (
        "thread_state",
        "select ts, dur, utid, state, io_wait, blocked_function, waker_utid, waker_id, irq_context, ucpu \
         from thread_state order by id",
    ),
    (
        "spurious_sched_wakeup",
        "select ts, thread_state_id, irq_context, utid, waker_utid from spurious_sched_wakeup order by id",
    ),
    ("flow", "select slice_out, slice_in, arg_set_id from flow order by id"),
    ("ftrace_event", "select ts, name, utid, arg_set_id, common_flags, ucpu from ftrace_event order by id"),
    ("cpu", "select ucpu, cpu, cluster_id, processor, capacity from cpu order by ucpu"),
    ("cpu_freq", "select ucpu, freq from cpu_available_frequencies order by id"),
    (
        "clock_snapshot",
        "select ts, clock_id, clock_name, clock_value, snapshot_id from clock_snapshot order by id",
    ),
    ("stack_profile_callsite", "select depth, parent_id, frame_id from stack_profile_callsite order by id"),
    (
        "stack_profile_frame",
        "select name, mapping, rel_pc, symbol_set_id, deobfuscated_name from stack_profile_frame order by id",
    ),
    (
        "stack_profile_mapping",
        "select build_id, exact_offset, start_offset, start, end, load_bias, name from stack_profile_mapping order by id",
    ),
    (
        "__intrinsic_profiler_sample",
        "select ts, callsite_id, unwind_error, perf_session_id as session_id from perf_sample order by id",
    ),
    (
        "heap_profile_allocation",
        "select ts, upid, heap_name, callsite_id, count, size from heap_profile_allocation order by id",
    ),
];

/// Facts, which have no order.
const METADATA: &str =
    "select name, coalesce(cast(int_value as text), str_value) from metadata order by 1, 2";
/// Counters by their names: v52 leaves out values of `rss_stat` whose thread it does not know by its memory's number, so rows and tracks have other
/// numbers.
const COUNTERS: &str = "select coalesce(t.name, ''), c.ts, c.value from counter c join track t on t.id = c.track_id \
     where coalesce(t.name, '') not glob 'mem.*' order by 1, 2, 3";
const STATS: &str = "select name, coalesce(idx, -1), value from stats where value != 0 order by 1, 2";
const ARGS: &str =
    "select arg_set_id, flat_key, key, int_value, string_value, real_value, value_type from args order by id";

/// Cells that differ are listed up to so many a column.
const EXAMPLES: usize = 3;

/// Panics with what differs.
pub(crate) fn compare(sql: &TraceQuery, trace: &Path) {
    let ours = tables_of(trace);
    if our_stats(&ours).iter().any(|row| row[0] == "process_tracker_parent_pid_changed") {
        // It happens, where a program ends while the list of processes is read.
        eprintln!(
            "not compared: v52 makes a new process of one whose parent has changed, so that rows have other numbers"
        );
        return;
    }
    let mut queries: Vec<&str> = BESIDE.iter().map(|(_, query)| *query).collect();
    queries.extend([ARGS, METADATA, STATS, COUNTERS]);
    let mut answers = sql.query(trace, &queries);
    let counters = answers.pop().unwrap();
    let stats = answers.pop().unwrap();
    let metadata = answers.pop().unwrap();
    let their_args = sets_of(&answers.pop().unwrap());
    let our_args = our_sets(&ours);
    let track = BESIDE.iter().position(|(name, _)| *name == "track").unwrap();
    let left_out = LeftOut::of(&ours, &answers[track]);
    let mut report = Vec::new();
    for ((name, _), theirs) in BESIDE.iter().zip(&answers) {
        let table = ours.find(name).unwrap_or_else(|| panic!("there is no table {name}"));
        compare_table(table, &ours, theirs, (&our_args, &their_args), &left_out, &mut report);
    }
    compare_counters(our_counters(&ours), &counters, &mut report);
    compare_facts("metadata", our_metadata(&ours), &metadata, &mut report);
    compare_facts("stats", our_stats(&ours), &stats, &mut report);
    assert!(report.is_empty(), "{} differences:\n{}", report.len(), report.join("\n"));
}

fn tables_of(trace: &Path) -> Tables {
    let options = Options { config_printer: Some(print_config), ..Options::default() };
    import(File::open(trace).unwrap(), &options, &mut |_| true).unwrap().0
}

fn print_config(config: &[u8]) -> Option<String> {
    ferretto_protos::text::format("perfetto.protos.TraceConfig", config).ok()
}

type Sets = BTreeMap<String, String>;

fn compare_table(
    table: &dyn Table,
    ours: &Tables,
    theirs: &Answer,
    (our_args, their_args): (&Sets, &Sets),
    left_out: &LeftOut,
    report: &mut Vec<String>,
) {
    let name = table.name();
    if theirs.rows.is_empty() && differences::may_be_missing(name) {
        return;
    }
    let is_in = |row: &usize, out: &BTreeSet<usize>| name != "track" || !out.contains(row);
    let rows: Vec<usize> = (0..table.len()).filter(|row| is_in(row, &left_out.ours)).collect();
    let their_rows: Vec<&Vec<String>> = theirs
        .rows
        .iter()
        .enumerate()
        .filter(|(row, _)| is_in(row, &left_out.theirs))
        .map(|(_, row)| row)
        .collect();
    if rows.len() != their_rows.len() {
        report.push(format!("{name}: {} rows, Trace Processor has {}", rows.len(), their_rows.len()));
    }
    let columns = table.columns();
    for (at, column) in theirs.columns.iter().enumerate() {
        let Some(mine) = columns.iter().find(|mine| mine.name == column) else {
            report.push(format!("{name}: there is no column {column}"));
            continue;
        };
        let mut shown = 0;
        let is_track = column == "track_id" || name == "track" && column == "parent_id";
        for (row, cells) in rows.iter().zip(&their_rows) {
            let (mut mine, mut other) = (text(mine.data.get(*row), ours), cells[at].clone());
            if is_track {
                mine = renumbered(&mine, &left_out.ours);
                other = renumbered(&other, &left_out.theirs);
            }
            if column.ends_with("arg_set_id") {
                mine = our_args.get(&mine).cloned().unwrap_or_default();
                other = their_args.get(&other).cloned().unwrap_or_default();
            }
            if !same(&mine, &other) && !differences::may_differ(name, column, &mine, &other) {
                report.push(format!("{name}.{column} row {row}: {mine}, Trace Processor has {other}"));
                shown += 1;
                if shown == EXAMPLES {
                    break;
                }
            }
        }
    }
}

/// Tracks that are left out, so that all others have lower numbers: those of states, which v52 does not know, and of the memory of processes,
/// for which it has other values.
struct LeftOut {
    ours: BTreeSet<usize>,
    theirs: BTreeSet<usize>,
}

impl LeftOut {
    fn of(ours: &Tables, their_tracks: &Answer) -> Self {
        let state = ours.strings.find("state");
        let is_state = |row: usize| state.is_some() && ours.track.event_type[row] == state;
        let is_memory = |name: &str| name.starts_with("mem.");
        let name = |row: usize| ours.track.name[row].map_or("", |name| ours.strings.get(name));
        Self {
            ours: (0..ours.track.len()).filter(|row| is_state(*row) || is_memory(name(*row))).collect(),
            theirs: their_tracks
                .rows
                .iter()
                .enumerate()
                .filter(|(_, row)| is_memory(&row[0]))
                .map(|(at, _)| at)
                .collect(),
        }
    }
}

/// The number that a track has without those that are left out.
fn renumbered(track: &str, left_out: &BTreeSet<usize>) -> String {
    match track.parse::<usize>() {
        Ok(track) => (track - left_out.range(..track).count()).to_string(),
        Err(_) => track.to_owned(),
    }
}

fn text(value: Value, tables: &Tables) -> String {
    match value {
        Value::Null => "\\N".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Bool(value) => i32::from(value).to_string(),
        Value::Str(text) => tables.strings.get(text).to_owned(),
    }
}

/// As texts, or as numbers up to what the printing of real ones and of those above 2^53 loses.
fn same(mine: &str, other: &str) -> bool {
    mine == other
        || match (mine.parse::<f64>(), other.parse::<f64>()) {
            (Ok(mine), Ok(other)) => (mine - other).abs() <= 1e-9 * mine.abs().max(1e-300),
            _ => false,
        }
}

/// Each set as a text, by its number.
fn sets_of(args: &Answer) -> Sets {
    let mut sets = Sets::new();
    for row in &args.rows {
        let set = sets.entry(row[0].clone()).or_default();
        set.push_str(&one_arg(&row[1..]));
    }
    sets
}

fn our_sets(tables: &Tables) -> Sets {
    let columns = tables.args.columns();
    let mut sets = Sets::new();
    for row in 0..tables.args.len() {
        let cells: Vec<String> = columns.iter().map(|column| text(column.data.get(row), tables)).collect();
        sets.entry(cells[0].clone()).or_default().push_str(&one_arg(&cells[1..]));
    }
    sets
}

/// Keys, values and type. Numbers go through `f64`, as Trace Processor's printer has them.
fn one_arg(cells: &[String]) -> String {
    let number =
        |cell: &String| cell.parse::<f64>().map_or_else(|_| cell.clone(), |number| format!("{number:e}"));
    let (int, real) = (number(&cells[2]), number(&cells[4]));
    format!("{}|{}|{int}|{}|{real}|{}; ", cells[0], cells[1], cells[3], cells[5])
}

fn our_metadata(tables: &Tables) -> Vec<Vec<String>> {
    let cell = |column: &str, row| text(tables.metadata.cell(column, row), tables);
    let value = |row| match cell("int_value", row).as_str() {
        "\\N" => cell("str_value", row),
        number => number.to_owned(),
    };
    (0..tables.metadata.len()).map(|row| vec![cell("name", row), value(row)]).collect()
}

fn our_stats(tables: &Tables) -> Vec<Vec<String>> {
    let cell = |column: &str, row| text(tables.stats.cell(column, row), tables);
    let index = |row| match cell("idx", row).as_str() {
        "\\N" => "-1".to_owned(),
        index => index.to_owned(),
    };
    let rows = (0..tables.stats.len()).map(|row| vec![cell("name", row), index(row), cell("value", row)]);
    rows.filter(|row| row[2] != "0").collect()
}

fn our_counters(tables: &Tables) -> Vec<(String, i64, f64)> {
    let columns = &tables.counter;
    let name = |row: usize| {
        let track = columns.track_id.at(row).index();
        tables.track.name[track].map_or(String::new(), |name| tables.strings.get(name).to_owned())
    };
    let rows = (0..columns.len()).map(|row| (name(row), columns.ts.at(row), columns.value.at(row)));
    let mut rows: Vec<_> = rows.filter(|(name, ..)| !name.starts_with("mem.")).collect();
    rows.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)).then(a.2.total_cmp(&b.2)));
    rows
}

fn compare_counters(ours: Vec<(String, i64, f64)>, theirs: &Answer, report: &mut Vec<String>) {
    if ours.len() != theirs.rows.len() {
        report.push(format!("counter: {} rows, Trace Processor has {}", ours.len(), theirs.rows.len()));
    }
    let differ = |((name, ts, value), other): &(&(String, i64, f64), &Vec<String>)| {
        *name != other[0] || ts.to_string() != other[1] || !same(&value.to_string(), &other[2])
    };
    for (mine, other) in ours.iter().zip(&theirs.rows).filter(differ).take(EXAMPLES) {
        report.push(format!("counter: {mine:?}, Trace Processor has {other:?}"));
    }
}

/// Facts that only one of the two has, or has otherwise.
fn compare_facts(table: &str, mut ours: Vec<Vec<String>>, theirs: &Answer, report: &mut Vec<String>) {
    ours.sort();
    for row in &ours {
        if !theirs.rows.contains(row) && !differences::fact_may_differ(table, &row[0]) {
            report.push(format!("{table}: only ours has {row:?}"));
        }
    }
    for row in &theirs.rows {
        if !ours.contains(row) && !differences::fact_may_differ(table, &row[0]) {
            report.push(format!("{table}: only Trace Processor has {row:?}"));
        }
    }
}
