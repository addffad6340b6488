//! The processor time of the thread beside its events, for sessions that ask for it (`enable_thread_time_sampling`).

use ferretto_protos::fields::{counter_descriptor, trace_packet, track_descriptor, track_event};
use ferretto_protozero::{Message, Sink};
use rustix::time::{ClockId, clock_gettime};

use crate::identity::{fnv1a, thread_uuid};
use crate::wishes::SessionOptions;

/// Tells the counter from other tracks of the thread.
const MAGIC: u64 = fnv1a(b"ferretto thread time");
/// `CounterDescriptor.BuiltinCounterType.COUNTER_THREAD_TIME_NS`, by which readers know it.
const COUNTER_THREAD_TIME_NS: u64 = 1;
/// `CounterDescriptor.Unit.UNIT_TIME_NS`.
const UNIT_TIME_NS: u64 = 1;

/// Decides which events have the time.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    last_sample: Option<u64>,
    last_ns: i64,
}

/// The counter of this thread.
pub(crate) fn uuid(tid: i32) -> u64 {
    thread_uuid(tid) ^ MAGIC
}

/// Says what the counter is.
pub(crate) fn describe<S: Sink>(packet: &mut Message<'_, S>, tid: i32) {
    let mut track = packet.nested(trace_packet::TRACK_DESCRIPTOR);
    track.varint(track_descriptor::UUID, uuid(tid));
    track.varint(track_descriptor::PARENT_UUID, thread_uuid(tid));
    let mut counter = track.nested(track_descriptor::COUNTER);
    counter.varint(counter_descriptor::TYPE, COUNTER_THREAD_TIME_NS);
    counter.varint(counter_descriptor::UNIT, UNIT_TIME_NS);
    counter.bool(counter_descriptor::IS_INCREMENTAL, true);
}

impl Sampler {
    /// Adds the time to an event, if the last one with it is long enough ago. The kernel is asked: some 300 ns.
    pub(crate) fn put<S: Sink>(&mut self, event: &mut Message<'_, S>, options: SessionOptions, now: u64) {
        let Some(period_ns) = options.thread_time_period_ns else {
            return;
        };
        if self.last_sample.is_some_and(|last| now.saturating_sub(last) < period_ns) {
            return;
        }
        self.last_sample = Some(now);
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let ns = time.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec);
        let delta = ns.wrapping_sub(std::mem::replace(&mut self.last_ns, ns));
        event.int(track_event::EXTRA_COUNTER_VALUES, delta);
    }
}
