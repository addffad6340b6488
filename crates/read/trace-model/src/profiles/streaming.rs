//! Samples of Chrome's own profiler (upstream: profile_module.cc, `TokenizeStreamingProfilePacket`).
//!
//! A packet has several samples, each with its time since the one before; the first time is that of the sequence's thread, which the reader of
//! programs' events keeps. Times are resolved when the packet arrives, stacks when each sample's turn comes.

use ferretto_protos::fields::streaming_profile_packet as field;
use ferretto_protozero::Message;
use ferretto_trace_tables::SampleId;
use ferretto_trace_tables::tables::{ChromeStackSampleExtrasRow, ProfilerSampleRow};

use crate::event::WholePacket;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// When a packet's samples begin, and each as a packet of its own, with the nanoseconds since then.
type Samples = Option<(i64, Vec<(i64, Vec<u8>)>)>;

/// The samples of a packet, up to the first without a time. `ts_after` counts the time of the sequence on.
pub fn read(message: &[u8], mut ts_after: impl FnMut(i64) -> Option<i64>) -> (Samples, Result<(), Stat>) {
    let Some(begin) = ts_after(0).filter(|ts| *ts >= 0) else {
        return (None, Err(Stat::StreamingProfileInvalidTimestamp));
    };
    let priority = wire::number(message, field::PROCESS_PRIORITY);
    let mut stacks = wire::all_numbers(message, field::CALLSTACK_IID);
    let mut samples = Vec::new();
    let mut since = 0i64;
    for us in wire::all_numbers(message, field::TIMESTAMP_DELTA_US) {
        let delta = (us as i64).saturating_mul(1000);
        if ts_after(delta).is_none_or(|ts| ts < 0) {
            return (Some((begin, samples)), Err(Stat::StreamingProfileInvalidTimestamp));
        }
        // Times without a stack count, too.
        if let Some(stack) = stacks.next() {
            since = since.saturating_add(delta);
            samples.push((since, sample(stack, priority)));
        }
    }
    let end = if stacks.next().is_some() { Err(Stat::StackprofileParserError) } else { Ok(()) };
    (Some((begin, samples)), end)
}

fn sample(stack: u64, priority: Option<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.varint(field::CALLSTACK_IID, stack);
    if let Some(priority) = priority {
        message.varint(field::PROCESS_PRIORITY, priority);
    }
    drop(message);
    bytes
}

impl Model {
    /// Applies a sample.
    pub(super) fn apply_streaming_sample(&mut self, ts: i64, packet: &WholePacket) {
        let number = |field| wire::number(&packet.data, field).unwrap_or(0);
        let thread = packet.state.thread.get();
        let pid = thread.map_or(0, |thread| i64::from(thread.pid as u32));
        let tid = thread.map_or(0, |thread| i64::from(thread.tid as u32));
        let (tables, processes) = self.processes(packet.origin.machine);
        let utid = processes.thread_of(tables, tid, pid);
        let upid = processes.process(tables, pid);
        let stack = number(field::CALLSTACK_IID);
        let Some(callsite) = self.interned_callsite(&packet.state, Some(upid), stack) else {
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
        let process_priority = number(field::PROCESS_PRIORITY) as i32;
        if process_priority != 0 {
            tables
                .chrome_stack_sample_extras
                .push(ChromeStackSampleExtrasRow { profiler_sample_id, process_priority });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_stacks_and_times_since_the_begin() {
        for (stacks, deltas, expected, end) in [
            (&[3u64, 4][..], &[10u64, 20][..], vec![10_000, 30_000], Ok(())),
            (&[3, 4], &[10], vec![10_000], Err(Stat::StackprofileParserError)),
            (&[], &[1], vec![], Ok(())),
            (&[3], &[u64::MAX], vec![], Err(Stat::StreamingProfileInvalidTimestamp)),
        ] {
            let mut bytes = Vec::new();
            let mut message = Message::new(&mut bytes);
            stacks.iter().for_each(|stack| message.varint(field::CALLSTACK_IID, *stack));
            deltas.iter().for_each(|delta| message.varint(field::TIMESTAMP_DELTA_US, *delta));
            drop(message);
            let mut ts = 500;
            let (samples, its_end) = read(&bytes, |delta| {
                ts += delta;
                Some(ts)
            });
            let (begin, samples) = samples.unwrap();
            assert_eq!((begin, its_end), (500, end));
            assert_eq!(samples.into_iter().map(|(since, _)| since).collect::<Vec<_>>(), expected);
        }
    }
}
