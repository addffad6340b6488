//! Where our tables may differ from those of Trace Processor v52, and why: mostly because newer versions do as we do.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ferretto_protos::Trace;
use ferretto_protos::trace_packet::Data;
use ferretto_trace_tables::{Table, Tables, Value};
use prost::Message as _;

/// A cell of ours beside one of theirs; sets of arguments are as `cells` prints them.
pub(super) struct Cell<'a> {
    pub(super) ours: &'a str,
    pub(super) theirs: &'a str,
    /// Ours, and the row in its table.
    pub(super) tables: &'a Tables,
    pub(super) row: usize,
    pub(super) nameless: &'a Nameless,
}

/// Processes that were listed when they had no command line yet, so that they are listed by what their main thread was called.
#[derive(Default)]
pub(super) struct Nameless(BTreeSet<(i64, String)>);

impl Nameless {
    /// Of a file, if it is one of packets.
    pub(super) fn of(trace: &Path) -> Self {
        let Ok(trace) = Trace::decode(&*fs::read(trace).unwrap()) else { return Self::default() };
        let trees = trace.packet.into_iter().filter_map(|packet| match packet.data {
            Some(Data::ProcessTree(tree)) => Some(tree),
            _ => None,
        });
        let listed = trees.flat_map(|tree| tree.processes).filter(|process| process.cmdline_is_comm());
        Self(listed.map(|process| (process.pid().into(), process.cmdline.join(" "))).collect())
    }

    fn has(&self, tid: i64, name: &str) -> bool {
        self.0.contains(&(tid, name.to_owned()))
    }
}

/// A column of a table, when a cell may be another one, and the reason.
type Rule = (&'static str, &'static str, fn(&Cell<'_>) -> bool, &'static str);

const COLUMNS: &[Rule] = &[
    ("thread", "name", is_of_its_process, "v59 names main threads by the list of processes, too"),
    (
        "thread",
        "name",
        is_as_listed,
        "v59 takes the name of a main thread from the list, which nothing later changes",
    ),
    ("thread", "name", is_shorter_kworker, "v59 cuts what a worker of the kernel does off its name"),
    ("thread", "tid", is_number_of_text, "the number of a text that stands for a number"),
    ("process", "pid", is_number_of_process, "the same"),
    ("process", "arg_set_id", has_sort_index, "v59 reads the order of processes in Chrome's events"),
    (
        "clock_snapshot",
        "clock_id",
        is_of_sequence,
        "v59 says the number that the trace has, without the sequence's",
    ),
    (
        "ftrace_event",
        "arg_set_id",
        differs_in_work,
        "v59 knows fields of events that v52 does not, and their types",
    ),
    (
        "ftrace_event",
        "arg_set_id",
        has_shorter_kworkers,
        "v59 cuts what a worker of the kernel does off its name",
    ),
    (
        "ftrace_event",
        "arg_set_id",
        was_called_as_listed,
        "v59 takes the name of a main thread from the list, which nothing later changes",
    ),
    ("slice", "arg_set_id", has_renamed_message, "v59 has the whole path of a log's message"),
];

/// Tables that v52 does not fill, and the reason.
const TABLES: &[(&str, &str)] = &[
    ("stack_profile_callsite", "v58 reads call stacks in events of programs"),
    ("stack_profile_frame", "the same"),
    ("stack_profile_mapping", "the same"),
];

/// Whose a fact may be.
#[derive(PartialEq)]
enum Whose {
    /// Only we have it.
    Ours,
    /// Only v52 has it.
    Theirs,
    /// Both have it, with other values.
    Each,
    /// Either has it, or both.
    Any,
}

/// Names of rows of `metadata` and `stats`, or how they begin (`*`), and the reason.
const FACTS: &[(&str, &str, Whose, &str)] = &[
    ("metadata", "tracing_service_version", Whose::Ours, "since v53"),
    ("metadata", "system_ram_*", Whose::Ours, "since v55"),
    ("metadata", "json_metadata.*", Whose::Ours, "v59 reads what is beside Chrome's events"),
    ("metadata", "trace_config_pbtxt", Whose::Each, "texts of configs are printed differently"),
    ("stats", "guess_trace_type_duration_ns", Whose::Any, "how long something took"),
    ("stats", "parse_trace_duration_ns", Whose::Any, "how long something took"),
    ("stats", "clock_sync_cache_miss", Whose::Any, "how a cache did"),
    ("stats", "rss_stat_unknown_thread_for_mm_id", Whose::Any, "v52 forgets which process has which memory"),
    ("stats", "unknown_extension_fields", Whose::Theirs, "v52 does not know call stacks in events"),
    ("stats", "track_event_parser_errors", Whose::Theirs, "v52 does not know states"),
];

/// Statistics that v52 has under another name.
const RENAMED: &[(&str, &str)] = &[
    ("packet_skipped_seq_needs_incremental_state_invalid", "tokenizer_skipped_packets"),
    ("interned_data_skipped_incremental_state_invalid", "tokenizer_skipped_packets"),
];

/// Whether a cell may be another one.
pub(super) fn may_differ(table: &str, column: &str, cell: &Cell<'_>) -> bool {
    COLUMNS.iter().any(|(of, name, may, _)| *of == table && *name == column && may(cell))
}

/// Whether a table may have no rows.
pub(super) fn may_be_missing(table: &str) -> bool {
    TABLES.iter().any(|(of, _)| *of == table)
}

/// Whether a fact may be another one, when we, or they, have one of its name.
pub(super) fn fact_may_differ(table: &str, name: &str, is_ours: bool, is_theirs: bool) -> bool {
    FACTS.iter().any(|(of, pattern, whose, _)| {
        let is_of_name = pattern.strip_suffix('*').map_or(*pattern == name, |begin| name.starts_with(begin));
        *of == table
            && is_of_name
            && match whose {
                Whose::Ours => !is_theirs,
                Whose::Theirs => !is_ours,
                Whose::Each => is_ours && is_theirs,
                Whose::Any => true,
            }
    })
}

/// What v52 calls a statistic.
pub(super) fn v52_name(name: &str) -> &str {
    RENAMED.iter().find(|(ours, _)| *ours == name).map_or(name, |(_, theirs)| theirs)
}

/// A main thread that is called as its process is.
fn is_of_its_process(cell: &Cell<'_>) -> bool {
    let (threads, processes) = (&cell.tables.thread, &cell.tables.process);
    let process = threads.upid.get(cell.row).map(|upid| upid.index());
    threads.is_main_thread.get(cell.row) == Some(true)
        && process.is_some_and(|process| processes.name[process] == threads.name[cell.row])
}

fn is_as_listed(cell: &Cell<'_>) -> bool {
    let threads = &cell.tables.thread;
    threads.is_main_thread.get(cell.row) == Some(true)
        && threads.tid.get(cell.row).is_some_and(|tid| cell.nameless.has(*tid, cell.ours))
}

/// The thread that is switched out, which compact events do not name, has its name of the list; all else is the same.
fn was_called_as_listed(cell: &Cell<'_>) -> bool {
    let value = |key: &str| {
        let parts = cell.ours.split("; ").map(|part| part.split('|').collect::<Vec<_>>());
        parts.into_iter().find(|part| part[0] == key).map(|part| part[2..].to_vec())
    };
    let (Some(pid), Some(comm)) = (value("prev_pid"), value("prev_comm")) else { return false };
    let pid = pid[0].parse::<f64>().map(|pid| pid as i64);
    pid.is_ok_and(|pid| cell.nameless.has(pid, comm[1]))
        && without(cell.ours, &["prev_comm"]) == without(cell.theirs, &["prev_comm"])
}

fn is_number_of_text(cell: &Cell<'_>) -> bool {
    let name = cell.tables.thread.name[cell.row].or_else(|| {
        let process = cell.tables.thread.upid.get(cell.row)?;
        cell.tables.process.name[process.index()]
    });
    name.is_some_and(|name| name.index().to_string() == cell.ours)
}

fn is_number_of_process(cell: &Cell<'_>) -> bool {
    cell.tables.process.name[cell.row].is_some_and(|name| name.index().to_string() == cell.ours)
}

fn has_sort_index(cell: &Cell<'_>) -> bool {
    without(cell.ours, &["process_sort_index_hint"]) == cell.theirs
}

/// Theirs is the sequence's number times 2^32, and ours.
fn is_of_sequence(cell: &Cell<'_>) -> bool {
    matches!(
        (cell.ours.parse::<u64>(), cell.theirs.parse::<u64>()),
        (Ok(ours), Ok(theirs)) if theirs >> 32 != 0 && theirs & 0xffff_ffff == ours
    )
}

/// What a queue of work has to do, and the types of its processors, of events of queues; all else is the same.
fn differs_in_work(cell: &Cell<'_>) -> bool {
    let names = cell.tables.ftrace_event.cell("name", cell.row);
    let Value::Str(name) = names else { return false };
    const OF_WORK: &[&str] = &["work", "workqueue", "function"];
    cell.tables.strings.get(name).starts_with("workqueue_")
        && without(cell.ours, OF_WORK) == without(cell.theirs, OF_WORK).replace("|uint; ", "|int; ")
}

/// A set without the arguments of these keys, which are what is before the first `|` of each part.
fn without(set: &str, keys: &[&str]) -> String {
    let parts = set.split_inclusive("; ");
    parts.filter(|part| part.split_once('|').is_none_or(|(key, _)| !keys.contains(&key))).collect()
}

fn is_shorter_kworker(cell: &Cell<'_>) -> bool {
    cell.ours != cell.theirs && cell.ours == shorter_kworker(cell.theirs)
}

fn has_shorter_kworkers(cell: &Cell<'_>) -> bool {
    let shorter = |set: &str| set.split('|').map(shorter_kworker).collect::<Vec<_>>().join("|");
    shorter(cell.ours) == shorter(cell.theirs)
}

fn shorter_kworker(name: &str) -> &str {
    let work = name.strip_prefix("kworker/").and_then(|rest| rest.find(['+', '-']));
    work.map_or(name, |at| &name[.."kworker/".len() + at])
}

fn has_renamed_message(cell: &Cell<'_>) -> bool {
    let renamed = |set: &str| set.replace("track_event.log_message.message", "track_event.log_message");
    renamed(cell.ours) == cell.theirs || renamed(cell.theirs) == cell.ours
}
