//! What of a trace is not in the packets that are made of it, in words.

use std::collections::BTreeMap;

use ferretto_trace_tables::table::Table;
use ferretto_trace_tables::{Tables, Upid, Utid, Value};

use super::kept::Kept;
use super::{facts, flows, people};
use crate::args::args_of;

/// Tables that no packet here is made of.
const TABLES: [&str; 12] = [
    "package_list",
    "filedescriptor",
    "heap_graph",
    "heap_graph_class",
    "heap_graph_object",
    "heap_graph_reference",
    "heap_graph_object_data",
    "heap_graph_primitive",
    "heap_graph_thread_callsite",
    "heap_graph_java_oome_details",
    "__intrinsic_track_event_callstacks",
    "__intrinsic_chrome_stack_sample_extras",
];

/// Events of the kernel that what is in tables is written as.
const EVENTS: [&str; 5] =
    ["sched_switch", "sched_waking", "sched_blocked_reason", "cpu_frequency", "cpu_idle"];

/// Names of which so many are said.
const SHOWN: usize = 5;

/// What packets say nothing of, each in a few words with a number.
///
/// ```
/// use ferretto_convert::trace::left_out;
/// use ferretto_trace_tables::tables::{FiledescriptorRow, Tables};
///
/// let mut tables = Tables::default();
/// assert!(left_out(&tables).is_empty());
/// tables.filedescriptor.push(FiledescriptorRow::default());
/// assert_eq!(left_out(&tables), ["filedescriptor: 1 row"]);
/// ```
#[must_use]
pub fn left_out(tables: &Tables) -> Vec<String> {
    let mut all = Vec::new();
    let mut say = |what: &str, count: usize| match count {
        0 => {}
        1 => all.push(format!("{what}: 1 row")),
        count => all.push(format!("{what}: {count} rows")),
    };
    for name in TABLES {
        say(name, tables.find(name).map_or(0, Table::len));
    }
    say("ftrace_event, but for what its events fill", other_events(tables));
    if tables.sched.is_empty() {
        say("thread_state, for nothing says where threads ran", tables.thread_state.len());
    }
    for (what, table, column) in [
        ("thread, its times of beginning", "thread", "start_ts"),
        ("thread, its times of ending", "thread", "end_ts"),
        ("process, its times of ending", "process", "end_ts"),
        (
            "__intrinsic_profiler_sample, the counters that they belong to",
            "__intrinsic_profiler_sample",
            "counter_set_id",
        ),
        ("__intrinsic_profiler_session, its command lines", "__intrinsic_profiler_session", "cmdline"),
        ("stack_profile_symbol, functions that were inlined", "stack_profile_symbol", "inlined"),
    ] {
        say(what, filled(tables, table, column));
    }
    let threads = (0..tables.thread.len() as u32).map(Utid);
    let processes = (0..tables.process.len() as u32).map(Upid);
    say("thread, its arguments", threads.filter(|utid| !people::has_words_for_thread(tables, *utid)).count());
    say(
        "process, its arguments",
        processes
            .filter(|upid| !people::has_words_for_process(tables, *upid, is_listed(tables, *upid)))
            .count(),
    );
    say("flow, its arguments, at instants", flows::without_words(tables));
    say("__intrinsic_aggregate_sample (each becomes a sample of its weight)", tables.aggregate_sample.len());
    say("process, its parent, where there is no command line", parents(tables));
    say("thread, of no known process (each becomes one)", threads_alone(tables));
    say("machine, beside the one that recorded", tables.machine.len().saturating_sub(1));
    say("arguments that are numbers of rows, which are others now", numbers_of_rows(tables));
    all.extend(list("metadata", &other_facts(tables)));
    all.extend(list("stats, which say what was lost", &losses(tables)));
    all
}

/// How many rows of a table have something in a column.
fn filled(tables: &Tables, table: &str, column: &str) -> usize {
    let Some(table) = tables.find(table) else { return 0 };
    let columns = table.columns();
    let Some(column) = columns.iter().find(|it| it.name == column) else { return 0 };
    (0..table.len()).filter(|row| !matches!(column.data.get(*row), Value::Null | Value::Bool(false))).count()
}

fn other_events(tables: &Tables) -> usize {
    let names = &tables.ftrace_event.name;
    let is_other =
        |row: &usize| names.at(*row).is_none_or(|name| !EVENTS.contains(&tables.strings.get(name)));
    (0..tables.ftrace_event.len()).filter(is_other).count()
}

fn threads_alone(tables: &Tables) -> usize {
    let mut has_tracks = vec![false; tables.thread.len()];
    for utid in (0..tables.track.len()).filter_map(|row| tables.track.utid.get(row)) {
        if let Some(has) = has_tracks.get_mut(utid.index()) {
            *has = true;
        }
    }
    (0..)
        .zip(has_tracks)
        .filter(|(row, has_tracks)| *has_tracks && tables.thread.upid.get(*row).is_none())
        .count()
}

fn numbers_of_rows(tables: &Tables) -> usize {
    if Kept::of(tables).has_all() {
        return 0;
    }
    let sets = |table: &str| {
        let table = tables.find(table);
        let cell = |row| table.map(|table| table.cell("arg_set_id", row));
        let rows = 0..table.map_or(0, Table::len);
        rows.filter_map(cell)
            .filter_map(|value| match value {
                Value::Int(set) => u32::try_from(set).ok(),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let has_number = |set: &u32| {
        args_of(tables, ferretto_trace_tables::ArgSetId(*set)).any(|arg| Kept::is_number(arg.key))
    };
    ["slice", "counter", "state"].map(sets).iter().flatten().filter(|set| has_number(set)).count()
}

/// Whether the list of processes has it (`tracks`).
fn is_listed(tables: &Tables, upid: Upid) -> bool {
    let row = upid.index();
    tables.process.parent_upid.get(row).is_some()
        && tables.process.cmdline.get(row).copied().flatten().is_some()
}

/// Only the list of processes knows parents, and it has command lines.
fn parents(tables: &Tables) -> usize {
    let processes = &tables.process;
    let is_left_out = |row: &usize| {
        processes.parent_upid.get(*row).is_some() && processes.cmdline.get(*row).copied().flatten().is_none()
    };
    (0..processes.pid.len()).filter(is_left_out).count()
}

fn other_facts(tables: &Tables) -> Vec<&str> {
    let metadata = &tables.metadata;
    let names = metadata.name.iter().flatten().map(|name| tables.strings.get(*name));
    names.filter(|name| !facts::is_written(name)).collect()
}

/// Counters of losses that do not stand at 0.
fn losses(tables: &Tables) -> Vec<&str> {
    let stats = &tables.stats;
    let mut sums = BTreeMap::<&str, i64>::new();
    for row in 0..stats.len() {
        let text = |texts: &[Option<_>]| texts.get(row).copied().flatten().map(|it| tables.strings.get(it));
        if let (Some(name), Some("data_loss" | "error")) = (text(&stats.name), text(&stats.severity)) {
            *sums.entry(name).or_default() += stats.value.get(row).copied().unwrap_or(0);
        }
    }
    sums.into_iter().filter(|(_, sum)| *sum != 0).map(|(name, _)| name).collect()
}

/// Some of the names, and how many others there are.
fn list(what: &str, names: &[&str]) -> Option<String> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    let (shown, others) = names.split_at(names.len().min(SHOWN));
    let more = if others.is_empty() { String::new() } else { format!(" and {} others", others.len()) };
    (!shown.is_empty()).then(|| format!("{what}: {}{more}", shown.join(", ")))
}
