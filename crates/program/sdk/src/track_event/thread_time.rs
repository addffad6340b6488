//! The processor time of the thread beside its events, for sessions that ask for it (`enable_thread_time_sampling`).

use ferretto_protos::fields::{counter_descriptor, track_descriptor, track_event};
use ferretto_protozero::control::Writer;
use ferretto_protozero::fnv::fnv1a;
use ferretto_protozero::{Message, Sink};
use ferretto_sys::{KernelClock, clock_ns};

use crate::identity::thread_uuid;
use crate::track_event::wishes::SessionOptions;

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
pub(crate) fn describe(tid: i32) -> Writer {
    let mut counter = Writer::new();
    counter
        .integer(counter_descriptor::TYPE, COUNTER_THREAD_TIME_NS)
        .integer(counter_descriptor::UNIT, UNIT_TIME_NS)
        .truth(counter_descriptor::IS_INCREMENTAL, true);
    let mut track = Writer::new();
    track
        .integer(track_descriptor::UUID, uuid(tid))
        .integer(track_descriptor::PARENT_UUID, thread_uuid(tid))
        .message(track_descriptor::COUNTER, &counter);
    track
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
        let ns = clock_ns(KernelClock::ThreadCpu) as i64;
        let delta = ns.wrapping_sub(std::mem::replace(&mut self.last_ns, ns));
        event.int(track_event::EXTRA_COUNTER_VALUES, delta);
    }
}
