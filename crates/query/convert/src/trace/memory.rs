//! What programs say of their memory: a packet for each dump, in which all parts of a process have their names, sizes, what else is said of
//! them, and what they own.
//!
//! Sizes that readers work out are said as they are, and stay so when they are worked out again.

use std::cmp::Ordering;
use std::ops::Range;

use ferretto_protozero::Message;
use ferretto_trace_tables::{MemoryNodeId, Tables};

use super::number;
use super::sequence::Sequence;
use crate::Error;
use crate::args::{Arg, ArgValue, args_of};
use crate::owners::pid;
use crate::packets::Sink;

/// `TracePacket.memory_tracker_snapshot`, and the fields of memory_graph.proto, which the messages here do without.
const MEMORY_TRACKER_SNAPSHOT: u32 = 73;
const LEVEL_OF_DETAIL: u32 = 2;
const PROCESSES: u32 = 3;
mod process {
    pub(super) const PID: u32 = 1;
    pub(super) const NODES: u32 = 2;
    pub(super) const EDGES: u32 = 3;
}
mod node {
    pub(super) const ID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const SIZE_BYTES: u32 = 4;
    pub(super) const ENTRIES: u32 = 5;
}
mod entry {
    pub(super) const NAME: u32 = 1;
    pub(super) const UNITS: u32 = 2;
    pub(super) const NUMBER: u32 = 3;
    pub(super) const TEXT: u32 = 4;
}
mod edge {
    pub(super) const SOURCE: u32 = 1;
    pub(super) const TARGET: u32 = 2;
    pub(super) const IMPORTANCE: u32 = 3;
}

/// By `level_of_detail`.
const LEVELS: [&str; 3] = ["detailed", "light", "background"];
/// What is shared has names that begin so, in any process.
const SHARED: &str = "global/";
/// Units of numbers.
const OBJECTS: u64 = 2;
const BYTES: u64 = 1;

pub(super) fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut sequence = Sequence::new(number::MEMORY);
    let mut bytes = Vec::new();
    for (dump, ts) in tables.memory_snapshot.timestamp.iter().enumerate() {
        bytes.clear();
        write_dump(tables, dump, &mut Message::new(&mut bytes));
        sequence.put(Some(*ts), MEMORY_TRACKER_SNAPSHOT, &bytes, sink)?;
    }
    Ok(())
}

fn write_dump(tables: &Tables, dump: usize, message: &mut Message<'_, Vec<u8>>) {
    let level = tables.memory_snapshot.detail_level.get(dump).copied().flatten();
    let level = level.and_then(|level| LEVELS.iter().position(|it| *it == tables.strings.get(level)));
    message.varint(LEVEL_OF_DETAIL, level.unwrap_or(0) as u64);
    // Rows of tables are in the order of dumps, and nodes in that of processes.
    let processes = &tables.process_memory_snapshot;
    let rows = equal(&processes.snapshot_id, |of| of.index().cmp(&dump));
    // What is shared comes last, and is said by the first.
    let Some(shared) = rows.clone().next_back() else { return };
    let edges = edges_of(tables, dump);
    for row in rows.clone().take_while(|row| *row != shared) {
        let mut message = message.nested(PROCESSES);
        if let Some(upid) = processes.upid.get(row) {
            message.varint(process::PID, pid(tables, *upid).cast_unsigned());
        }
        write_nodes(tables, row, &mut message);
        if row == rows.start {
            write_nodes(tables, shared, &mut message);
            write_edges(tables, edges.clone(), &mut message);
        }
    }
}

/// Where those cells are that are equal to something, in a column that is in order.
fn equal<T>(cells: &[T], compare: impl Fn(&T) -> Ordering) -> Range<usize> {
    cells.partition_point(|cell| compare(cell).is_lt())..cells.partition_point(|cell| compare(cell).is_le())
}

/// Those between parts of a dump.
fn edges_of(tables: &Tables, dump: usize) -> Range<usize> {
    let of = |node: &MemoryNodeId| {
        let process = tables.memory_snapshot_node.process_snapshot_id.get(node.index());
        process.and_then(|process| tables.process_memory_snapshot.snapshot_id.get(process.index()))
    };
    equal(&tables.memory_snapshot_edge.source_node_id, |node| of(node).map(|it| it.index()).cmp(&Some(dump)))
}

/// The number of a part: 0 is none.
fn id(node: MemoryNodeId) -> u64 {
    u64::from(node.0) + 1
}

fn write_nodes(tables: &Tables, process: usize, message: &mut Message<'_, Vec<u8>>) {
    let nodes = &tables.memory_snapshot_node;
    for at in equal(&nodes.process_snapshot_id, |of| of.index().cmp(&process)) {
        let path = nodes.path.get(at).copied().flatten().map_or("", |path| tables.strings.get(path));
        // What all shared parts are below has no name of its own.
        if Some(path) == SHARED.strip_suffix('/') {
            continue;
        }
        let mut message = message.nested(process::NODES);
        message.varint(node::ID, id(MemoryNodeId(at as u32)));
        message.string(node::NAME, path);
        if let Some(size) = nodes.size.get(at) {
            message.varint(node::SIZE_BYTES, size.cast_unsigned());
        }
        let args = nodes.arg_set_id.get(at).into_iter().flat_map(|set| args_of(tables, set));
        let args: Vec<Arg<'_>> = args.collect();
        args.iter().for_each(|arg| write_entry(*arg, &args, &mut message));
    }
}

/// `NAME.value`, beside which a number has `NAME.unit`.
fn write_entry(arg: Arg<'_>, all: &[Arg<'_>], message: &mut Message<'_, Vec<u8>>) {
    let Some(name) = arg.key.strip_suffix(".value") else { return };
    let is_unit = |it: &&Arg<'_>| it.key.strip_suffix(".unit") == Some(name);
    let mut entry = message.nested(node::ENTRIES);
    entry.string(entry::NAME, name);
    match arg.value {
        ArgValue::Int(value) => {
            let is_of_bytes = all.iter().find(is_unit).is_some_and(|it| it.value == ArgValue::Text("bytes"));
            entry.varint(entry::UNITS, if is_of_bytes { BYTES } else { OBJECTS });
            entry.varint(entry::NUMBER, value.cast_unsigned());
        }
        ArgValue::Text(text) => entry.string(entry::TEXT, text),
        _ => {}
    }
}

/// Numbers are the whole dump's: it is the same which process says them.
fn write_edges(tables: &Tables, rows: Range<usize>, message: &mut Message<'_, Vec<u8>>) {
    let edges = &tables.memory_snapshot_edge;
    let ends = edges.source_node_id.iter().zip(&edges.target_node_id).zip(&edges.importance);
    for ((source, target), importance) in ends.skip(rows.start).take(rows.len()) {
        let mut message = message.nested(process::EDGES);
        message.varint(edge::SOURCE, id(*source));
        message.varint(edge::TARGET, id(*target));
        message.varint(edge::IMPORTANCE, u64::from(*importance));
    }
}
