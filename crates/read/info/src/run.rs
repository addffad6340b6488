//! Events that one writer has written one after the other: most of a program's trace.
//!
//! Of such packets the service says the same, and their sequence is known, what it has interned, its clock and its process. What is done with
//! each is the same as with any packet ([`Info::push`]), but that all of this is looked up once, and that what is counted by packet is counted
//! for all of them in sum. Whatever else comes ends the run, and is looked at like any packet.

use ferretto_protos::fields::trace_packet;
use ferretto_trace_read::clocks::Steady;
use ferretto_trace_read::head::INCREMENTAL_STATE_CLEARED;
use ferretto_trace_read::{Head, Written};

use crate::info::Info;
use crate::names::Weight;
use crate::readable::Arrival;

/// The run that the next packet may belong to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The number of the sequence.
    sequence: usize,
    times: Steady,
    /// What was counted.
    weight: Weight,
}

impl Info {
    /// Takes a packet if it belongs to the run.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, packet: &[u8], bytes: usize) -> bool {
        let Some(run) = &mut self.run else { return false };
        let Some(Written { timestamp: Some(timestamp), flags, event: Some(event) }) =
            self.heads.written(packet)
        else {
            return false;
        };
        if flags & INCREMENTAL_STATE_CLEARED != 0 {
            return false;
        }
        let value = i64::try_from(timestamp).unwrap_or(i64::MAX);
        let Some(time_ns) = run.times.time(value) else { return false };
        run.weight.add(bytes);
        self.span.add(time_ns);
        self.events.event(Some(run.sequence), self.heads.said().machine_id, Some(time_ns), event, bytes);
        true
    }

    /// A run may begin with a packet that has been looked at.
    #[inline]
    pub(crate) fn begin_run(&mut self, head: &Head<'_>, arrival: &Arrival) {
        let said = self.heads.said();
        let is_all_said = (said.sequence_id, said.machine_id, said.trusted_pid, said.trusted_uid)
            == (head.sequence_id, head.machine_id, head.trusted_pid, head.trusted_uid);
        let is_timed = arrival.time_ns.is_some() && head.clock_id.is_none();
        let Some(sequence) = arrival.sequence else { return };
        if is_all_said && is_timed && arrival.has_state && arrival.is_readable {
            let times = self.tally.readable.steady(sequence, head);
            self.run = times.map(|times| Run { sequence, times, weight: Weight::default() });
        }
    }

    /// Counts what the run has come to. Nothing else may be done with a packet before.
    #[inline]
    pub(crate) fn end_run(&mut self) {
        let Some(Run { times, weight, .. }) = self.run.take() else { return };
        let said = self.heads.said();
        self.people.wrote(said.machine_id, said.trusted_pid, weight);
        self.tally.readable.put_back(times);
        self.tally.packets += weight.count;
        self.tally.track_events += weight.count;
        self.weigh(trace_packet::TRACK_EVENT as usize, weight);
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protos::fields::{clock_snapshot, interned_data, trace_packet_defaults, track_event};
    use ferretto_protozero::Message;
    use ferretto_trace_read::{End, Place};
    use proptest::prelude::*;

    use super::*;
    use crate::Report;

    /// What a packet says, in small numbers.
    type Said = (u64, u64, u64, u64);

    fn packet((kind, writer, time, of): Said) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut packet = Message::new(&mut bytes);
        match kind {
            0 => begin(&mut packet, of),
            1 => {
                let mut snapshot = packet.nested(trace_packet::CLOCK_SNAPSHOT);
                for (id, value) in [(6, 1000 * time), (64, 500 * time)] {
                    let mut clock = snapshot.nested(clock_snapshot::CLOCKS);
                    clock.varint(clock_snapshot::clock::CLOCK_ID, id);
                    clock.varint(clock_snapshot::clock::TIMESTAMP, value);
                    clock.bool(clock_snapshot::clock::IS_INCREMENTAL, id == 64 && of == 0);
                }
            }
            2 => packet.varint(trace_packet::PREVIOUS_PACKET_DROPPED, 1),
            3 => packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, 6),
            _ => {}
        }
        if kind >= 2 {
            packet.varint(trace_packet::TIMESTAMP, time);
            packet.varint(trace_packet::SEQUENCE_FLAGS, 2);
            let mut event = packet.nested(trace_packet::TRACK_EVENT);
            event.varint(track_event::TYPE, 1 + of % 2);
            event.varint(track_event::NAME_IID, 1);
            event.string(track_event::CATEGORIES, "category");
        }
        packet.varint(trace_packet::TRUSTED_UID, 1000);
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, writer);
        packet.varint(trace_packet::TRUSTED_PID, 300 + writer / 2);
        drop(packet);
        bytes
    }

    fn begin(packet: &mut Message<'_, Vec<u8>>, of: u64) {
        packet.varint(trace_packet::SEQUENCE_FLAGS, 1);
        packet
            .nested(trace_packet::TRACE_PACKET_DEFAULTS)
            .varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, if of == 0 { 6 } else { 64 });
        let mut interned = packet.nested(trace_packet::INTERNED_DATA);
        let mut name = interned.nested(interned_data::EVENT_NAMES);
        name.varint(1, 1);
        name.string(2, if of == 0 { "name" } else { "another" });
    }

    fn told(packets: &[Vec<u8>], in_runs: bool) -> String {
        let mut info = Info::default();
        for packet in packets {
            if !in_runs {
                info.end_run();
            }
            info.push(packet, Place::default());
        }
        let Report {
            span, sequences, kinds, writers, categories, events, longest, incomplete, tally, ..
        } = info.finish(End::default());
        let counts = (tally.packets, tally.track_events, tally.app_sequences(), &tally.losses.packets);
        let readable = (tally.readable.without_names, tally.readable.without_time);
        format!(
            "{:?}",
            (span, sequences, kinds, writers, categories, events, longest, incomplete, counts, readable)
        )
    }

    proptest! {
        #[test]
        fn in_runs_packets_are_what_each_is(
            packets in proptest::collection::vec((0u64..9, 1u64..4, 0u64..40, 0u64..3), 0..60),
        ) {
            let packets: Vec<_> = packets.into_iter().map(packet).collect();
            prop_assert_eq!(told(&packets, true), told(&packets, false));
        }
    }

    #[test]
    fn most_packets_of_a_program_are_in_a_run() {
        let said = [(1, 1, 1, 1), (0, 1, 0, 1), (4, 1, 2, 0), (4, 1, 3, 1), (4, 1, 3, 0), (4, 2, 3, 0)];
        let mut info = Info::default();
        let mut in_run = Vec::new();
        for packet in said.map(packet) {
            info.push(&packet, Place::default());
            in_run.push(info.run.map(|run| run.weight.count));
        }
        assert_eq!(in_run, [None, None, Some(0), Some(1), Some(2), None]);
    }
}
