//! What a sequence of dumps of heaps has said before (upstream: profile_packet_sequence_state.cc).
//!
//! Dumps count from the start of the recording; rows are differences. A recorder forgets a stack all of whose memory was given back, and
//! begins it anew, under a new number, with zero: what it had said before is then added to what it says.

use ferretto_protos::fields::{callstack, frame, interned_string, mapping, profile_packet as field};
use ferretto_trace_tables::tables::{HeapProfileAllocationRow, Tables};
use ferretto_trace_tables::{CallsiteId, FrameId, MappingId, Str, Upid};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use super::resolve::{MAX_FRAMES, read_mapping};
use super::stacks::{self, Source, Stacks};
use crate::stats::{Stat, Stats};
use crate::wire;

/// Numbers and bytes of allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: i64,
    /// How many bytes.
    pub size: i64,
}

impl Sum {
    fn plus(self, other: Self) -> Self {
        Self { count: self.count.wrapping_add(other.count), size: self.size.wrapping_add(other.size) }
    }

    fn minus(self, other: Self) -> Self {
        Self { count: self.count.wrapping_sub(other.count), size: self.size.wrapping_sub(other.size) }
    }

    fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// What a dump says of a stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocation {
    /// The process.
    pub upid: Upid,
    /// When it was dumped.
    pub ts: i64,
    /// The allocator.
    pub heap_name: Option<Str>,
    /// The number of the stack.
    pub callstack_id: u64,
    /// All that was allocated so far.
    pub allocated: Sum,
    /// All that was given back so far, as negative numbers.
    pub freed: Sum,
}

/// What was allocated and given back.
type Both = (Sum, Sum);

/// The state of a sequence.
#[derive(Debug, Default)]
pub struct HeapSequence {
    /// Samples that wait for the last packet of their dump.
    pub pending: Vec<Allocation>,
    last_index: Option<u64>,
    before: HashMap<(Upid, CallsiteId), Both, RandomState>,
    seen: HashSet<(Upid, u64, Option<Str>, CallsiteId), RandomState>,
    corrections: HashMap<u64, Both, RandomState>,
    own: OwnTables,
}

/// Recorders of Android 10 put texts, mappings, frames and stacks into the packets themselves.
#[derive(Debug, Default)]
struct OwnTables {
    strings: HashMap<u64, Box<[u8]>, RandomState>,
    mappings: HashMap<u64, MappingId, RandomState>,
    frames: HashMap<u64, FrameId, RandomState>,
    callsites: HashMap<u64, CallsiteId, RandomState>,
}

impl HeapSequence {
    /// Whether a packet of this index follows the last one.
    pub fn follows(&mut self, index: u64) -> bool {
        let expected = self.last_index.map_or(0, |last| last.wrapping_add(1));
        self.last_index = Some(index);
        index == expected
    }

    /// Takes note of what a packet of an old recorder brings.
    pub fn read_own_tables(
        &mut self,
        packet: &[u8],
        stacks: &mut Stacks,
        tables: &mut Tables,
        stats: &mut Stats,
    ) {
        let own = &mut self.own;
        for entry in wire::all_bytes(packet, field::STRINGS) {
            let text = wire::bytes(entry, interned_string::STR).unwrap_or_default();
            own.strings.entry(iid(entry)).or_insert_with(|| text.into());
        }
        for entry in wire::all_bytes(packet, field::MAPPINGS) {
            own.add_mapping(entry, stacks, tables, stats);
        }
        for entry in wire::all_bytes(packet, field::FRAMES) {
            own.add_frame(entry, stacks, tables, stats);
        }
        for entry in wire::all_bytes(packet, field::CALLSTACKS) {
            own.add_callstack(entry, stacks, tables, stats);
        }
    }

    /// A stack that the packets themselves brought.
    #[must_use]
    pub fn own_callsite(&self, iid: u64) -> Option<CallsiteId> {
        self.own.callsites.get(&iid).copied()
    }

    /// What packets brought holds for one dump.
    pub fn forget_own_tables(&mut self) {
        self.own = OwnTables::default();
    }

    /// Writes what has changed since the last dump; false if it became less, which cannot be.
    pub fn write(&mut self, tables: &mut Tables, said: &Allocation, callsite: CallsiteId) -> bool {
        let before = self.before.entry((said.upid, callsite)).or_default();
        if self.seen.insert((said.upid, said.callstack_id, said.heap_name, callsite)) {
            self.corrections.insert(said.callstack_id, *before);
        }
        let correction = self.corrections.get(&said.callstack_id).copied().unwrap_or_default();
        let allocated = said.allocated.plus(correction.0);
        let freed = said.freed.plus(correction.1);
        let new = (allocated.minus(before.0), freed.minus(before.1));
        if new.0.count < 0 || new.0.size < 0 || new.1.count > 0 || new.1.size > 0 {
            return false;
        }
        for sum in [new.0, new.1] {
            if !sum.is_zero() {
                tables.heap_profile_allocation.push(HeapProfileAllocationRow {
                    ts: said.ts,
                    upid: said.upid,
                    heap_name: said.heap_name,
                    callsite_id: callsite,
                    count: sum.count,
                    size: sum.size,
                });
            }
        }
        *before = (allocated, freed);
        true
    }
}

impl OwnTables {
    fn add_mapping(&mut self, entry: &[u8], stacks: &mut Stacks, tables: &mut Tables, stats: &mut Stats) {
        let mut params = read_mapping(entry);
        let build_id_iid = wire::number(entry, mapping::BUILD_ID).unwrap_or(0);
        let Some(build_id) = self.text(build_id_iid) else {
            return stats.count(Stat::StackprofileInvalidStringId);
        };
        params.build_id = Some(stacks::build_id(tables, build_id));
        let mut parts = Vec::new();
        for part in wire::all_numbers(entry, mapping::PATH_STRING_IDS) {
            // What is known of a path counts, if it is not all of it.
            let Some(part) = self.text(part) else {
                stats.count(Stat::StackprofileInvalidStringId);
                break;
            };
            parts.push(tables.strings.intern_bytes(part));
        }
        params.name = Some(stacks::path(tables, &parts));
        let id = stacks.mapping(tables, params);
        self.mappings.entry(iid(entry)).or_insert(id);
    }

    fn add_frame(&mut self, entry: &[u8], stacks: &mut Stacks, tables: &mut Tables, stats: &mut Stats) {
        let number = |field| wire::number(entry, field).unwrap_or(0);
        let Some(mapping) = self.mappings.get(&number(frame::MAPPING_ID)) else {
            return stats.count(Stat::StackprofileInvalidMappingId);
        };
        let Some(name) = self.text(number(frame::FUNCTION_NAME_ID)) else {
            return stats.count(Stat::StackprofileInvalidStringId);
        };
        let name = tables.strings.intern_bytes(name);
        let id = stacks.frame(tables, *mapping, number(frame::REL_PC), Some(name), Source::default());
        self.frames.entry(iid(entry)).or_insert(id);
    }

    fn add_callstack(&mut self, entry: &[u8], stacks: &mut Stacks, tables: &mut Tables, stats: &mut Stats) {
        let mut callsite = None;
        for (frame, depth) in wire::all_numbers(entry, callstack::FRAME_IDS).take(MAX_FRAMES).zip(0..) {
            let Some(frame) = self.frames.get(&frame) else {
                return stats.count(Stat::StackprofileInvalidFrameId);
            };
            callsite = Some(stacks.callsite(tables, callsite, *frame, depth));
        }
        match callsite {
            Some(callsite) => {
                self.callsites.entry(iid(entry)).or_insert(callsite);
            }
            None => stats.count(Stat::StackprofileEmptyCallstack),
        }
    }

    fn text(&self, iid: u64) -> Option<&[u8]> {
        match iid {
            0 => Some(&[]),
            iid => self.strings.get(&iid).map(|text| &**text),
        }
    }
}

/// In all entries the number is field 1.
fn iid(entry: &[u8]) -> u64 {
    wire::number(entry, callstack::IID).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of the stack, what was allocated and given back so far; what is new of it.
    #[test]
    fn a_stack_that_begins_anew_counts_on() {
        let (mut tables, mut heap) = (Tables::default(), HeapSequence::default());
        let mut write = |callstack_id, allocated: i64, freed: i64| {
            let both = |size| Sum { count: size, size };
            let said = Allocation {
                callstack_id,
                allocated: both(allocated),
                freed: both(-freed),
                ..Allocation::default()
            };
            let from = tables.heap_profile_allocation.len();
            let is_well = heap.write(&mut tables, &said, CallsiteId(0));
            (is_well, tables.heap_profile_allocation.size.iter().skip(from).collect::<Vec<_>>())
        };
        assert_eq!(write(1, 10, 0), (true, vec![10]));
        assert_eq!(write(1, 15, 15), (true, vec![5, -15]));
        assert_eq!(write(1, 14, 15), (false, vec![]));
        assert_eq!(write(2, 3, 0), (true, vec![3]));
        assert_eq!(write(2, 4, 1), (true, vec![1, -1]));
    }
}
