//! What programs say of their memory (upstream: memory_tracker_snapshot_parser.cc).
//!
//! Packets of one time are one dump; its rows are written when the next time comes.

use std::collections::BTreeMap;

use ferretto_trace_tables::tables::{
    MemorySnapshotEdgeRow, MemorySnapshotNodeRow, MemorySnapshotRow, ProcessMemorySnapshotRow,
};
use ferretto_trace_tables::{MachineId, MemoryNodeId, MemorySnapshotId, ProcessMemorySnapshotId, TrackId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::memory_graph::{EFFECTIVE_SIZE, Entry, Graph, SIZE, Unit};
use crate::args::{Arg, ArgValue};
use crate::counters::TrackType;
use crate::event::WholePacket;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// The fields of memory_graph.proto.
mod field {
    pub(super) const LEVEL_OF_DETAIL: u32 = 2;
    pub(super) const PROCESSES: u32 = 3;
    pub(super) mod process {
        pub(crate) const PID: u32 = 1;
        pub(crate) const NODES: u32 = 2;
        pub(crate) const EDGES: u32 = 3;
    }
    pub(super) mod node {
        pub(crate) const ID: u32 = 1;
        pub(crate) const NAME: u32 = 2;
        pub(crate) const SIZE_BYTES: u32 = 4;
        pub(crate) const ENTRIES: u32 = 5;
    }
    pub(super) mod entry {
        pub(crate) const NAME: u32 = 1;
        pub(crate) const UNITS: u32 = 2;
        pub(crate) const NUMBER: u32 = 3;
        pub(crate) const TEXT: u32 = 4;
    }
    pub(super) mod edge {
        pub(crate) const SOURCE: u32 = 1;
        pub(crate) const TARGET: u32 = 2;
        pub(crate) const IMPORTANCE: u32 = 3;
    }
}

/// The dump that is being read.
#[derive(Debug, Default)]
pub struct Snapshots {
    ts: i64,
    machine: MachineId,
    level: u64,
    /// By pid; of two that say the same process the first counts.
    processes: BTreeMap<i32, Box<[u8]>>,
}

impl Model {
    pub(super) fn apply_memory_snapshot(&mut self, ts: i64, packet: &WholePacket) {
        if ts != self.profiles.snapshots.ts {
            self.finish_memory_snapshots();
        }
        let open = &mut self.profiles.snapshots;
        open.ts = ts;
        open.machine = packet.origin.machine;
        open.level = wire::number(&packet.data, field::LEVEL_OF_DETAIL).unwrap_or(0);
        for process in wire::all_bytes(&packet.data, field::PROCESSES) {
            let pid = wire::number(process, field::process::PID).unwrap_or(0) as i32;
            open.processes.entry(pid).or_insert_with(|| process.into());
        }
    }

    /// Writes the dump that is being read, if there is one.
    pub(super) fn finish_memory_snapshots(&mut self) {
        let dump = std::mem::take(&mut self.profiles.snapshots);
        if dump.processes.is_empty() {
            return;
        }
        let mut graph = Graph::default();
        for (pid, message) in &dump.processes {
            self.read_memory_nodes(*pid, message, &mut graph);
        }
        for message in dump.processes.values() {
            read_edges(message, &mut graph);
        }
        graph.work_out_sizes();
        self.write_memory_graph(&dump, &graph);
    }

    /// By name: of two of one name the first counts.
    fn read_memory_nodes(&mut self, pid: i32, message: &[u8], graph: &mut Graph) {
        let root = graph.process(pid);
        let mut nodes = BTreeMap::new();
        for node in wire::all_bytes(message, field::process::NODES) {
            let name = wire::bytes(node, field::node::NAME).unwrap_or_default();
            nodes.entry(name).or_insert(node);
        }
        for (name, message) in nodes {
            let name = String::from_utf8_lossy(name);
            let root = if name.starts_with("global/") { graph.shared } else { root };
            let id = wire::number(message, field::node::ID).unwrap_or(0);
            let Some(node) = graph.part(root, &name, id) else {
                self.stats.count(Stat::MemorySnapshotParserFailure);
                continue;
            };
            if let Some(size) = wire::number(message, field::node::SIZE_BYTES) {
                graph.say(node, SIZE.to_owned(), Entry::Number(size, Unit::Bytes));
            }
            for entry in wire::all_bytes(message, field::node::ENTRIES) {
                match read_entry(entry) {
                    Some((name, entry)) => graph.say(node, name, entry),
                    None => self.stats.count(Stat::MemorySnapshotParserFailure),
                }
            }
        }
    }

    fn write_memory_graph(&mut self, dump: &Snapshots, graph: &Graph) {
        const LEVELS: [&str; 3] = ["detailed", "light", "background"];
        let level = usize::try_from(dump.level).ok().and_then(|level| LEVELS.get(level));
        let detail_level = Some(self.tables.strings.intern(level.unwrap_or(&LEVELS[0])));
        let track_id = self.memory_track(dump.machine);
        let row = MemorySnapshotRow { timestamp: dump.ts, track_id, detail_level };
        let snapshot_id = MemorySnapshotId(self.tables.memory_snapshot.push(row));
        // What is shared is that of a process of no number.
        let roots = graph.processes.iter().map(|(pid, root)| (*pid, *root)).chain([(0, graph.shared)]);
        let mut rows = HashMap::<u64, MemoryNodeId, RandomState>::default();
        for (pid, root) in roots {
            let (tables, processes) = self.processes(dump.machine);
            let upid = processes.process(tables, i64::from(pid as u32));
            let row = ProcessMemorySnapshotRow { snapshot_id, upid };
            let process = ProcessMemorySnapshotId(self.tables.process_memory_snapshot.push(row));
            self.write_memory_nodes(process, root, graph, &mut rows);
        }
        // Upstream has the last one first.
        for edge in graph.edges.iter().rev() {
            let row_of = |node: usize| graph.nodes.get(node).and_then(|node| rows.get(&node.id)).copied();
            if let (Some(source_node_id), Some(target_node_id)) = (row_of(edge.source), row_of(edge.target)) {
                let importance = edge.importance as u32;
                let row = MemorySnapshotEdgeRow { source_node_id, target_node_id, importance };
                self.tables.memory_snapshot_edge.push(row);
            }
        }
    }

    /// A tree from its root down, which has no row itself. Trees have a bounded depth.
    fn write_memory_nodes(
        &mut self,
        process_snapshot_id: ProcessMemorySnapshotId,
        root: usize,
        graph: &Graph,
        rows: &mut HashMap<u64, MemoryNodeId, RandomState>,
    ) {
        let mut path = String::new();
        let mut waiting = Vec::new();
        wait_for_children(graph, root, None, 0, &mut waiting);
        while let Some((at, name, parent_node_id, length)) = waiting.pop() {
            path.truncate(length);
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(name);
            let Some(node) = graph.nodes.get(at) else { continue };
            let number = |name: &str| match node.entries.get(name) {
                Some(Entry::Number(value, _)) => *value as i64,
                _ => 0,
            };
            let row = MemorySnapshotNodeRow {
                process_snapshot_id,
                parent_node_id,
                path: Some(self.tables.strings.intern(&path)),
                size: number(SIZE),
                effective_size: number(EFFECTIVE_SIZE),
                arg_set_id: self.memory_args(&node.entries),
            };
            let row = MemoryNodeId(self.tables.memory_snapshot_node.push(row));
            rows.entry(node.id).or_insert(row);
            wait_for_children(graph, at, Some(row), path.len(), &mut waiting);
        }
    }

    fn memory_args(&mut self, entries: &BTreeMap<String, Entry>) -> Option<ferretto_trace_tables::ArgSetId> {
        let mut args = Vec::new();
        let strings = &mut self.tables.strings;
        for (name, entry) in entries {
            let value = match entry {
                Entry::Number(..) if name == SIZE || name == EFFECTIVE_SIZE => continue,
                Entry::Number(value, _) => ArgValue::Int(*value as i64),
                Entry::Text(text) => ArgValue::Text(strings.intern_bytes(text)),
            };
            let key = strings.intern(&format!("{name}.value"));
            args.push(Arg { flat_key: key, key, value });
            if let Entry::Number(_, unit) = entry {
                let key = strings.intern(&format!("{name}.unit"));
                let unit = strings.intern(match unit {
                    Unit::Objects => "objects",
                    Unit::Bytes => "bytes",
                });
                args.push(Arg { flat_key: key, key, value: ArgValue::Text(unit) });
            }
        }
        let list = self.args.intern(&args);
        self.args.write(list, &mut self.tables)
    }

    /// Where Chrome's events that belong to nothing are shown.
    fn memory_track(&mut self, machine: MachineId) -> TrackId {
        let tracks = self.tables.track.len();
        let track = TrackType::slices("legacy_chrome_global_instants", &[]);
        let id = self.track(machine, track, |strings| strings.intern("legacy_chrome_global_instants"));
        if self.tables.track.len() != tracks {
            let key = self.tables.strings.intern("source");
            let value = ArgValue::Text(self.tables.strings.intern("chrome"));
            let args = self.args.intern(&[Arg { flat_key: key, key, value }]);
            let set = self.args.write(args, &mut self.tables);
            self.tables.track.source_arg_set_id.set(id.index(), set);
            // It has no name.
            if let Some(name) = self.tables.track.name.get_mut(id.index()) {
                *name = None;
            }
        }
        id
    }
}

/// A part that has no row yet: its name, the row of its parent, and how long the path of that is.
type Waiting<'a> = (usize, &'a str, Option<MemoryNodeId>, usize);

fn wait_for_children<'a>(
    graph: &'a Graph,
    node: usize,
    row: Option<MemoryNodeId>,
    path_length: usize,
    waiting: &mut Vec<Waiting<'a>>,
) {
    let children = graph.nodes.get(node).into_iter().flat_map(|node| node.children.iter().rev());
    waiting.extend(children.map(|(name, child)| (*child, name.as_str(), row, path_length)));
}

/// Of two edges of one owner the first counts; owners are in the order of their numbers.
fn read_edges(message: &[u8], graph: &mut Graph) {
    let mut edges = BTreeMap::new();
    for edge in wire::all_bytes(message, field::process::EDGES) {
        let number = |field| wire::number(edge, field).unwrap_or(0);
        let importance = number(field::edge::IMPORTANCE) as i32;
        edges.entry(number(field::edge::SOURCE)).or_insert((number(field::edge::TARGET), importance));
    }
    for (source, (target, importance)) in edges {
        graph.add_edge(source, target, importance);
    }
}

fn read_entry(message: &[u8]) -> Option<(String, Entry)> {
    const BYTES: u64 = 1;
    let name = String::from_utf8_lossy(wire::bytes(message, field::entry::NAME).unwrap_or_default());
    let unit = match wire::number(message, field::entry::UNITS) {
        Some(BYTES) => Unit::Bytes,
        _ => Unit::Objects,
    };
    let entry = match wire::number(message, field::entry::NUMBER) {
        Some(value) => Entry::Number(value, unit),
        None => Entry::Text(wire::bytes(message, field::entry::TEXT)?.to_vec()),
    };
    Some((name.into_owned(), entry))
}
