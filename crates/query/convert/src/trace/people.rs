//! What is said of processes and threads beside their names: how they are sorted, labels, whose they are.
//!
//! Packets have words for few keys. Others (attributes of OpenTelemetry's resources, kinds of Chrome's processes) have none.

use ferretto_protos::fields::process_descriptor;
use ferretto_protozero::Message;
use ferretto_trace_tables::{ArgSetId, Tables, Upid, Utid};

use crate::args::{Arg, ArgValue, args_of};

const THREAD_RANK: &str = "thread_sort_index_hint";
const PROCESS_RANK: &str = "process_sort_index_hint";
/// With its number in brackets.
const LABEL: &str = "chrome.process_label[";
const IS_KTHREAD: &str = "is_kthread";

/// Where a thread is to be shown among others.
pub(super) fn rank_of_thread(tables: &Tables, utid: Utid) -> Option<i32> {
    of_thread(tables, utid).find_map(|arg| rank(arg, THREAD_RANK))
}

/// Where a process is to be shown among others.
pub(super) fn rank_of_process(tables: &Tables, upid: Upid) -> Option<i32> {
    of_process(tables, upid).find_map(|arg| rank(arg, PROCESS_RANK))
}

/// Whether it is one of the kernel's, if that was said.
pub(super) fn is_kthread(tables: &Tables, upid: Upid) -> Option<bool> {
    of_process(tables, upid).find_map(|arg| match (arg.key, arg.value) {
        (IS_KTHREAD, ArgValue::Bool(is_kthread)) => Some(is_kthread),
        _ => None,
    })
}

/// What a process calls what it shows.
pub(super) fn write_labels(tables: &Tables, upid: Upid, process: &mut Message<'_, Vec<u8>>) {
    of_process(tables, upid)
        .filter_map(label)
        .for_each(|label| process.string(process_descriptor::PROCESS_LABELS, label));
}

/// Whether a packet says all that is said of a thread.
pub(super) fn has_words_for_thread(tables: &Tables, utid: Utid) -> bool {
    let is_written = tables.thread.upid.get(utid.index()).is_some();
    of_thread(tables, utid).all(|arg| is_written && rank(arg, THREAD_RANK).is_some())
}

/// Whether packets say all that is said of a process.
pub(super) fn has_words_for_process(tables: &Tables, upid: Upid, is_listed: bool) -> bool {
    of_process(tables, upid).all(|arg| {
        let is_of_list = arg.key == IS_KTHREAD && matches!(arg.value, ArgValue::Bool(_));
        rank(arg, PROCESS_RANK).is_some() || label(arg).is_some() || (is_listed && is_of_list)
    })
}

fn of_thread(tables: &Tables, utid: Utid) -> impl Iterator<Item = Arg<'_>> {
    of_set(tables, tables.thread.arg_set_id.get(utid.index()))
}

fn of_process(tables: &Tables, upid: Upid) -> impl Iterator<Item = Arg<'_>> {
    of_set(tables, tables.process.arg_set_id.get(upid.index()))
}

fn of_set(tables: &Tables, set: Option<ArgSetId>) -> impl Iterator<Item = Arg<'_>> {
    set.into_iter().flat_map(|set| args_of(tables, set))
}

/// A descriptor's is of 32 bits.
fn rank(arg: Arg<'_>, key: &str) -> Option<i32> {
    match arg.value {
        ArgValue::Int(rank) if arg.key == key => i32::try_from(rank).ok(),
        _ => None,
    }
}

fn label(arg: Arg<'_>) -> Option<&str> {
    match arg.value {
        ArgValue::Text(label) if arg.key.starts_with(LABEL) => Some(label),
        _ => None,
    }
}
