//! Dumps of heaps: each row of what was allocated, or given back, is a sample that counts from the begin, as recorders count.
//!
//! A sequence for each heap of a process, so that what one says is not taken for another's.

use ferretto_protos::fields::profile_packet::{self as packet, heap_sample, process_heap_samples as dump};
use ferretto_protos::fields::trace_packet::PROFILE_PACKET;
use ferretto_protozero::Message;
use ferretto_trace_tables::{CallsiteId, Str, Tables, Upid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::sequence::Sequence;
use super::{clocks, number, stacks};
use crate::Error;
use crate::owners::pid;
use crate::packets::Sink;

/// What rows say of allocations by a heap that has no name.
const UNKNOWN: &str = "unknown";

/// A heap of a process.
type Heap = (Upid, Option<Str>);

/// What a stack has allocated, and given back.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    allocated: (u64, u64),
    freed: (u64, u64),
}

/// What a heap has said.
struct Said {
    sequence: Sequence,
    sums: HashMap<CallsiteId, Sums, RandomState>,
    packets: u64,
}

pub(super) fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    let allocations = &tables.heap_profile_allocation;
    let unknown = tables.strings.find(UNKNOWN);
    let name = |name: Option<Str>| name.filter(|name| Some(*name) != unknown);
    let mut rows = HashMap::<(Heap, i64), Vec<usize>, RandomState>::default();
    for row in 0..allocations.len() {
        let heap = (allocations.upid.at(row), name(allocations.heap_name.at(row)));
        rows.entry((heap, allocations.ts.at(row))).or_default().push(row);
    }
    let mut heaps = HashMap::<Heap, Said, RandomState>::default();
    let dumps = &tables.heap_profile;
    for row in 0..dumps.len() {
        let (Some(upid), Some(end)) = (dumps.upid.get(row), dumps.ts_end.get(row)) else { continue };
        let heap = (*upid, name(dumps.heap_name.get(row).copied().flatten()));
        let next = number::FIRST_OF_HEAPS + heaps.len() as u32;
        let said = heaps.entry(heap).or_insert_with(|| Said {
            sequence: Sequence::new(next),
            sums: HashMap::default(),
            packets: 0,
        });
        let rows = rows.remove(&(heap, *end)).unwrap_or_default();
        said.write(tables, row, &rows, sink)?;
    }
    Ok(())
}

impl Said {
    fn write(
        &mut self,
        tables: &Tables,
        row: usize,
        rows: &[usize],
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let dumps = &tables.heap_profile;
        let at = |times: &Vec<i64>| times.get(row).copied().unwrap_or(0);
        let (begin, end) = (at(&dumps.ts), at(&dumps.ts_end));
        let mut bytes = Vec::new();
        let mut profile = Message::new(&mut bytes);
        profile.varint(packet::INDEX, self.packets);
        let mut message = profile.nested(packet::PROCESS_DUMPS);
        if let Some(upid) = dumps.upid.get(row) {
            message.varint(dump::PID, pid(tables, *upid).cast_unsigned());
        }
        let time = |ts| clocks::monotonic_coarse(tables, ts).cast_unsigned();
        message.varint(dump::TIMESTAMP, time(end));
        message.varint(dump::START_TIMESTAMP, time(begin));
        if let Some(name) = dumps.heap_name.get(row).copied().flatten() {
            message.string(dump::HEAP_NAME, tables.strings.get(name));
        }
        for row in rows {
            self.write_sample(tables, *row, &mut message.nested(dump::SAMPLES));
        }
        drop(message);
        drop(profile);
        self.packets += 1;
        self.sequence.put(Some(end), PROFILE_PACKET, &bytes, sink)
    }

    fn write_sample(&mut self, tables: &Tables, row: usize, sample: &mut Message<'_, Vec<u8>>) {
        let allocations = &tables.heap_profile_allocation;
        let callsite = allocations.callsite_id.at(row);
        let (count, size) = (allocations.count.at(row), allocations.size.at(row));
        let sums = self.sums.entry(callsite).or_default();
        let sum = if count < 0 || size < 0 { &mut sums.freed } else { &mut sums.allocated };
        *sum = (sum.0.wrapping_add(count.unsigned_abs()), sum.1.wrapping_add(size.unsigned_abs()));
        sample.varint(heap_sample::CALLSTACK_ID, stacks::intern(tables, callsite, &mut self.sequence));
        sample.varint(heap_sample::SELF_ALLOCATED, sums.allocated.1);
        sample.varint(heap_sample::ALLOC_COUNT, sums.allocated.0);
        sample.varint(heap_sample::SELF_FREED, sums.freed.1);
        sample.varint(heap_sample::FREE_COUNT, sums.freed.0);
    }
}
