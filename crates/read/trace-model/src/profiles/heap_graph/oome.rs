//! `ArtProcessMetadata`: why a Java heap was dumped, and where the thread was that found no memory (upstream:
//! art_process_metadata_module.cc).

use ferretto_trace_tables::tables::{HeapGraphJavaOomeDetailsRow, HeapGraphRow, HeapGraphThreadCallsiteRow};
use ferretto_trace_tables::{CallsiteId, HeapGraphId, MachineId};

use crate::model::Model;
use crate::processes::ProcessName;
use crate::profiles::stacks::Source;
use crate::wire;

/// `TracePacket.art_process_metadata`, which the messages here do without.
pub(crate) const ART_PROCESS_METADATA: u32 = 131;

/// Its field numbers, and those of what is in it.
mod field {
    pub(super) const PID: u32 = 1;
    pub(super) const UID: u32 = 2;
    pub(super) const PROCESS_NAME: u32 = 3;
    pub(super) const PACKAGE_NAME: u32 = 4;
    pub(super) const ALLOCATION_SIZE: u32 = 5;
    pub(super) const TOTAL_BYTES_FREE: u32 = 6;
    pub(super) const FREE_BYTES_UNTIL_OOM: u32 = 7;
    pub(super) const STACK: u32 = 8;
    pub(super) const ERROR: u32 = 9;
    pub(super) const FRAMES: u32 = 1;
    pub(super) const METHOD: u32 = 1;
    pub(super) const FILE: u32 = 2;
    pub(super) const LINE: u32 = 3;
}

impl Model {
    /// Reads such a packet, in the order of time.
    pub(in crate::profiles) fn apply_art_process(&mut self, ts: i64, machine: MachineId, message: &[u8]) {
        let pid = i64::from(wire::number(message, field::PID).unwrap_or(0) as u32);
        let (tables, processes) = self.processes(machine);
        let utid = processes.thread(tables, pid);
        let upid = processes.process(tables, pid);
        if let Some(name) = wire::bytes(message, field::PROCESS_NAME) {
            let name = tables.strings.intern_bytes(name);
            processes.name_process(tables, upid, name, ProcessName::TrackDescriptor);
        }
        if let Some(uid) = wire::number(message, field::UID) {
            let uid = i64::from(uid as u32);
            tables.process.uid.set(upid.index(), Some(uid));
            tables.process.android_appid.set(upid.index(), Some(uid % 100_000));
            tables.process.android_user_id.set(upid.index(), Some(uid / 100_000));
            if let Some(package) = wire::bytes(message, field::PACKAGE_NAME) {
                let Self { tables, profiles, .. } = &mut *self;
                profiles.deobfuscation.add_package(uid, package, &mut tables.strings);
            }
        }
        let Self { tables, profiles, .. } = self;
        let row = HeapGraphRow { ts, upid, ..HeapGraphRow::default() };
        let new = || HeapGraphId(tables.heap_graph.push(row));
        let heap_graph_id = *profiles.heap_graphs.rows.entry((upid, ts)).or_insert_with(new);
        let Some(size) = wire::int(message, field::ALLOCATION_SIZE) else { return };
        let reason = tables.strings.intern("OOME");
        if let Some(cell) = tables.heap_graph.dump_reason.get_mut(heap_graph_id.index()) {
            *cell = Some(reason);
        }
        let number = |number| wire::int(message, number).unwrap_or(0);
        let details = HeapGraphJavaOomeDetailsRow {
            heap_graph_id,
            allocation_size_bytes: size,
            total_bytes_free: number(field::TOTAL_BYTES_FREE),
            free_bytes_until_oom: number(field::FREE_BYTES_UNTIL_OOM),
            error_msg: wire::bytes(message, field::ERROR).map(|text| tables.strings.intern_bytes(text)),
        };
        tables.heap_graph_java_oome_details.push(details);
        if let Some(stack) = wire::bytes(message, field::STACK) {
            let callsite_id = self.java_stack(stack);
            let row = HeapGraphThreadCallsiteRow { heap_graph_id, utid: Some(utid), callsite_id };
            self.tables.heap_graph_thread_callsite.push(row);
        }
    }

    /// Its frames stand in it from the innermost on.
    fn java_stack(&mut self, message: &[u8]) -> Option<CallsiteId> {
        let Self { tables, profiles, .. } = self;
        let stacks = &mut profiles.stacks;
        let mapping = *profiles
            .heap_graphs
            .art_mapping
            .get_or_insert_with(|| stacks.invented_mapping(tables, "art_process_metadata"));
        let frames: Vec<&[u8]> = wire::all_bytes(message, field::FRAMES).collect();
        let named = frames.iter().rev().filter_map(|frame| Some((frame, wire::bytes(frame, field::METHOD)?)));
        let mut callsite = None;
        for (depth, (frame, method)) in (0..).zip(named) {
            let method = String::from_utf8_lossy(method);
            let name = Some(tables.strings.intern(method_name(&method)));
            let file = wire::bytes(frame, field::FILE).map(|file| tables.strings.intern_bytes(file));
            let line = wire::number(frame, field::LINE).map(|line| line as u32);
            let frame = stacks.frame_without_address(tables, mapping, name, Source { file, line });
            callsite = Some(stacks.callsite(tables, callsite, frame, depth));
        }
        callsite
    }
}

/// Of `void a.B.c(int)` the `a.B.c`.
fn method_name(method: &str) -> &str {
    let name = method.split('(').next().unwrap_or(method);
    name.rsplit(' ').next().unwrap_or(name)
}
