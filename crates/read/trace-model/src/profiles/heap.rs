//! Dumps of heaps (upstream: profile_module.cc, `ParseProfilePacket`).
//!
//! A dump may be several packets; its samples count when the last has come, for the stacks that they name may come after them.

use ferretto_protos::fields::profile_packet::{
    self as field, heap_sample, process_heap_samples as dump, process_stats,
};
use ferretto_trace_tables::tables::HeapProfileRow;
use ferretto_trace_tables::{Str, Upid};
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use super::heap_sequence::Allocation;
use crate::clocks::{Clock, Machine};
use crate::event::WholePacket;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// `BUILTIN_CLOCK_MONOTONIC_COARSE`.
const MONOTONIC_COARSE: u32 = 4;

/// `ProcessHeapSamples.ClientError`.
const CLIENT_ERROR_HIT_TIMEOUT: u64 = 1;

/// The dumps that have a row in `heap_profile`.
#[derive(Debug, Default)]
pub struct Dumps {
    seen: HashSet<(Upid, i64, Option<Str>), RandomState>,
}

/// `ProcessHeapSamples`, but for its samples.
#[derive(Default)]
struct Dump<'a> {
    pid: u64,
    timestamp: i64,
    start_timestamp: Option<i64>,
    heap_name: &'a [u8],
    interval: u64,
    original_interval: u64,
    client_error: u64,
    is_disconnected: bool,
    is_corrupted: bool,
    is_overrun: bool,
    is_rejected: bool,
    hit_guardrail: bool,
    stats: &'a [u8],
}

impl Model {
    pub(super) fn apply_heap_packet(&mut self, ts: i64, packet: &WholePacket) {
        let index = wire::number(&packet.data, field::INDEX).unwrap_or(0);
        {
            let mut kept = packet.state.profiles.borrow_mut();
            let heap = &mut kept.heap;
            if !heap.follows(index) {
                self.stats.count(Stat::HeapprofdMissingPacket);
            }
            let Self { tables, profiles, stats, .. } = self;
            heap.read_own_tables(&packet.data, &mut profiles.stacks, tables, stats);
        }
        for message in wire::all_bytes(&packet.data, field::PROCESS_DUMPS) {
            self.apply_heap_dump(ts, message, packet);
        }
        if wire::number(&packet.data, field::CONTINUED).unwrap_or(0) == 0 {
            self.commit_allocations(packet);
        }
    }

    fn apply_heap_dump(&mut self, ts: i64, message: &[u8], packet: &WholePacket) {
        let dump = Dump::read(message);
        let clock = Clock::new(MONOTONIC_COARSE, packet.origin.sequence_id, Machine(packet.origin.machine.0));
        let end = match self.to_trace_time(clock, dump.timestamp) {
            Ok(end) => end,
            Err(unknown) => return self.log_unknown(unknown, clock, dump.timestamp, None),
        };
        let start = dump.start_timestamp.and_then(|start| self.to_trace_time(clock, start).ok());
        self.count_heap_stats(ts, &dump);
        let heap_name = match dump.heap_name {
            b"" => None,
            name => Some(self.tables.strings.intern_bytes(name)),
        };
        let (tables, processes) = self.processes(packet.origin.machine);
        let upid = processes.process(tables, i64::from(dump.pid as u32));
        if self.profiles.heap_dumps.seen.insert((upid, end, heap_name)) {
            let ts = start.unwrap_or(end);
            let dur = end.saturating_sub(ts);
            self.tables.heap_profile.push(HeapProfileRow { ts, ts_end: end, dur, upid, heap_name });
        }
        let heap_name = heap_name.or_else(|| Some(self.tables.strings.intern("unknown")));
        // Recorders that say the interval they began with count well at the maximum, too.
        let counts_at_maximum = dump.original_interval > 0;
        let mut kept = packet.state.profiles.borrow_mut();
        for sample in wire::all_bytes(message, dump::SAMPLES) {
            kept.heap.pending.push(Allocation {
                upid,
                ts: end,
                heap_name,
                ..read_sample(sample, counts_at_maximum)
            });
        }
    }

    fn count_heap_stats(&mut self, ts: i64, dump: &Dump<'_>) {
        let stats = &mut self.stats;
        let pid = Some(i64::from(dump.pid as i32));
        stats.set(Stat::HeapprofdLastProfileTimestamp, pid, ts);
        let is_overrun = dump.is_overrun || dump.client_error == CLIENT_ERROR_HIT_TIMEOUT;
        for (happened, stat) in [
            (dump.is_disconnected, Stat::HeapprofdClientDisconnected),
            (dump.is_corrupted, Stat::HeapprofdBufferCorrupted),
            (is_overrun, Stat::HeapprofdBufferOverran),
            (dump.is_rejected, Stat::HeapprofdRejectedConcurrent),
            (dump.hit_guardrail, Stat::HeapprofdHitGuardrail),
        ] {
            if happened {
                stats.add(stat, pid, 1);
            }
        }
        if dump.client_error != 0 {
            stats.set(Stat::HeapprofdClientError, pid, dump.client_error as i64);
        }
        if dump.original_interval != 0 {
            let by = (dump.interval as i64).wrapping_sub(dump.original_interval as i64);
            stats.set(Stat::HeapprofdSamplingIntervalAdjusted, pid, by);
        }
        for (stat, number) in [
            (Stat::HeapprofdUnwindTimeUs, process_stats::TOTAL_UNWINDING_TIME_US),
            (Stat::HeapprofdUnwindSamples, process_stats::HEAP_SAMPLES),
            (Stat::HeapprofdClientSpinlockBlocked, process_stats::CLIENT_SPINLOCK_BLOCKED_US),
        ] {
            stats.add(stat, pid, wire::number(dump.stats, number).unwrap_or(0) as i64);
        }
    }

    fn commit_allocations(&mut self, packet: &WholePacket) {
        let mut kept = packet.state.profiles.borrow_mut();
        let kept = &mut *kept;
        for allocation in std::mem::take(&mut kept.heap.pending) {
            let iid = allocation.callstack_id;
            let own = kept.heap.own_callsite(iid);
            let Some(callsite) = own.or_else(|| {
                self.profiles
                    .resolver(&packet.state, &mut kept.found, &mut self.tables, &mut self.stats)
                    .callstack(Some(allocation.upid), iid)
            }) else {
                continue;
            };
            if !kept.heap.write(&mut self.tables, &allocation, callsite) {
                self.stats.add(Stat::HeapprofdMalformedPacket, Some(i64::from(allocation.upid.0)), 1);
            }
        }
        kept.heap.forget_own_tables();
    }
}

impl<'a> Dump<'a> {
    fn read(message: &'a [u8]) -> Self {
        let mut dump = Self::default();
        for part in wire::fields(message) {
            let number = part.value.as_u64().unwrap_or(0);
            let bytes = part.value.as_bytes().unwrap_or_default();
            match part.number {
                dump::PID => dump.pid = number,
                dump::TIMESTAMP => dump.timestamp = number as i64,
                dump::START_TIMESTAMP => dump.start_timestamp = Some(number as i64),
                dump::HEAP_NAME => dump.heap_name = bytes,
                dump::SAMPLING_INTERVAL_BYTES => dump.interval = number,
                dump::ORIG_SAMPLING_INTERVAL_BYTES => dump.original_interval = number,
                dump::CLIENT_ERROR => dump.client_error = number,
                dump::DISCONNECTED => dump.is_disconnected = number != 0,
                dump::BUFFER_CORRUPTED => dump.is_corrupted = number != 0,
                dump::BUFFER_OVERRAN => dump.is_overrun = number != 0,
                dump::REJECTED_CONCURRENT => dump.is_rejected = number != 0,
                dump::HIT_GUARDRAIL => dump.hit_guardrail = number != 0,
                dump::STATS => dump.stats = bytes,
                _ => {}
            }
        }
        dump
    }
}

/// A dump of the maximum says only what was allocated then.
fn read_sample(message: &[u8], counts_at_maximum: bool) -> Allocation {
    let mut sample = Allocation::default();
    let (mut max, mut max_count) = (None, 0);
    for part in wire::fields(message) {
        let Some(number) = part.value.as_u64() else { continue };
        let signed = number as i64;
        match part.number {
            heap_sample::CALLSTACK_ID => sample.callstack_id = number,
            heap_sample::SELF_ALLOCATED => sample.allocated.size = signed,
            heap_sample::SELF_FREED => sample.freed.size = signed.wrapping_neg(),
            heap_sample::ALLOC_COUNT => sample.allocated.count = signed,
            heap_sample::FREE_COUNT => sample.freed.count = signed.wrapping_neg(),
            heap_sample::SELF_MAX => max = Some(signed),
            heap_sample::SELF_MAX_COUNT => max_count = signed,
            _ => {}
        }
    }
    if let Some(size) = max {
        sample.freed = Default::default();
        sample.allocated.size = size;
        sample.allocated.count = if counts_at_maximum { max_count } else { 0 };
    }
    sample
}
