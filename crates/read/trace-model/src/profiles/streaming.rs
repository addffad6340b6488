//! Samples of Chrome's own profiler (upstream: profile_module.cc, `TokenizeStreamingProfilePacket`).
//!
//! A packet has several samples, each with its time since the one before; the first time is that of the sequence's thread, which the reader of
//! programs' events keeps. Times are resolved when the packet arrives, stacks when each sample's turn comes.

use std::rc::Rc;

use ferretto_protos::fields::streaming_profile_packet as field;
use ferretto_trace_tables::tables::{ChromeStackSampleExtrasRow, ProfilerSampleRow};
use ferretto_trace_tables::{MachineId, SampleId};

use crate::model::Model;
use crate::sequence::Generation;
use crate::stats::Stat;
use crate::wire;

/// A sample.
#[derive(Clone, Debug)]
pub struct StreamingSample {
    /// The number of its stack.
    pub callstack_iid: u64,
    /// The process's priority; 0 is none in particular.
    pub priority: i32,
    /// The process and the thread, by the sequence's descriptor.
    pub thread: (i64, i64),
    /// The machine.
    pub machine: MachineId,
    /// What the sequence has interned.
    pub state: Rc<Generation>,
}

/// The samples of a packet: the number of the stack, and the nanoseconds since the sample before.
///
/// `is_even` hears whether each stack has a time.
pub fn read(message: &[u8], mut is_even: impl FnMut(bool)) -> Vec<(u64, i64)> {
    let stacks: Vec<u64> = wire::all_numbers(message, field::CALLSTACK_IID).collect();
    let deltas: Vec<u64> = wire::all_numbers(message, field::TIMESTAMP_DELTA_US).collect();
    is_even(stacks.len() <= deltas.len());
    let ns = |us: u64| (us as i64).saturating_mul(1000);
    stacks.into_iter().zip(deltas.into_iter().map(ns)).collect()
}

/// The priority that a packet says.
#[must_use]
pub fn priority(message: &[u8]) -> i32 {
    wire::number(message, field::PROCESS_PRIORITY).unwrap_or(0) as i32
}

impl Model {
    /// Applies a sample.
    pub fn apply_streaming_sample(&mut self, ts: i64, sample: &StreamingSample) {
        let (pid, tid) = sample.thread;
        let (tables, processes) = self.processes(sample.machine);
        let utid = processes.thread_of(tables, tid, pid);
        let upid = processes.process(tables, pid);
        let Some(callsite) = self.interned_callsite(&sample.state, Some(upid), sample.callstack_iid) else {
            return self.stats.count(Stat::StackprofileParserError);
        };
        let Self { tables, profiles, .. } = self;
        let row = ProfilerSampleRow {
            ts,
            source: Some(tables.strings.intern("chrome")),
            task_context_id: Some(profiles.contexts.task(tables, Some(upid), Some(utid), None)),
            callsite_id: Some(callsite),
            ..ProfilerSampleRow::default()
        };
        let profiler_sample_id = SampleId(tables.profiler_sample.push(row));
        if sample.priority != 0 {
            let process_priority = sample.priority;
            tables
                .chrome_stack_sample_extras
                .push(ChromeStackSampleExtrasRow { profiler_sample_id, process_priority });
        }
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;

    use super::*;

    #[test]
    fn samples_have_stacks_and_times_since_the_one_before() {
        for (stacks, deltas, expected, even) in [
            (&[3u64, 4][..], &[10u64, u64::MAX][..], vec![(3, 10_000), (4, -1000)], true),
            (&[3, 4], &[10], vec![(3, 10_000)], false),
            (&[], &[1], vec![], true),
        ] {
            let mut bytes = Vec::new();
            let mut message = Message::new(&mut bytes);
            stacks.iter().for_each(|stack| message.varint(field::CALLSTACK_IID, *stack));
            deltas.iter().for_each(|delta| message.varint(field::TIMESTAMP_DELTA_US, *delta));
            drop(message);
            let mut is_even = None;
            assert_eq!(read(&bytes, |even| is_even = Some(even)), expected);
            assert_eq!(is_even, Some(even));
        }
    }
}
