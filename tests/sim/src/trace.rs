//! What a trace must look like: the packets that simulated producers write say who wrote them and how many came before.

use std::collections::BTreeMap;

use ferretto_protos::fields::trace_packet as trace_packet_fields;
use ferretto_protos::{TestEvent, TracePacket, trace_packet};
use ferretto_protozero::read::{Fields, Value};
use prost::Message;

/// Names a stream of packets: one writer of one data source instance of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stream {
    pub(crate) uid: u32,
    pub(crate) instance: u64,
}

/// The packet number `count` of a stream, of roughly `len` bytes.
pub(crate) fn packet(stream: Stream, count: u64, len: usize) -> Vec<u8> {
    let event = TestEvent {
        str: Some(format!("{}/{}/{}", stream.uid, stream.instance, "x".repeat(len))),
        counter: Some(count),
        ..Default::default()
    };
    TracePacket { data: Some(trace_packet::Data::ForTesting(event)), ..Default::default() }.encode_to_vec()
}

/// What came back of one stream.
#[derive(Debug, Default)]
struct Found {
    next: u64,
    gaps: u64,
}

/// Reads a trace packet by packet and checks it.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    streams: BTreeMap<Stream, Found>,
    sequences: BTreeMap<u32, Stream>,
    pub(crate) packets: u64,
    pub(crate) gaps: u64,
}

impl Checker {
    /// The next packet of the trace. What hostile producers write is only looked at for whose it is.
    pub(crate) fn packet(&mut self, bytes: &[u8], is_hostile: impl Fn(u32) -> bool) {
        self.packets += 1;
        if trusted_uid(bytes).is_some_and(is_hostile) {
            return;
        }
        let packet = TracePacket::decode(bytes).expect("a trace has packets only");
        let Some(trace_packet::Data::ForTesting(event)) = &packet.data else { return };
        let Some(stream) = parse(event.str()) else { panic!("a packet that nobody wrote: {event:?}") };
        let Some(trace_packet::OptionalTrustedUid::TrustedUid(uid)) = packet.optional_trusted_uid else {
            panic!("a packet without its user: {event:?}");
        };
        assert_eq!(u32::try_from(uid), Ok(stream.uid), "a packet of {stream:?} under another user");
        let Some(trace_packet::OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(sequence)) =
            packet.optional_trusted_packet_sequence_id
        else {
            panic!("a packet without its sequence: {event:?}");
        };
        let owner = *self.sequences.entry(sequence).or_insert(stream);
        assert_eq!(owner, stream, "two streams on the sequence {sequence}");
        self.check_order(stream, event.counter(), packet.previous_packet_dropped() != 0);
    }

    fn check_order(&mut self, stream: Stream, count: u64, is_loss_announced: bool) {
        let found = self.streams.entry(stream).or_default();
        assert!(count >= found.next, "{stream:?} came back out of order: {count} after {}", found.next);
        if count > found.next {
            assert!(is_loss_announced, "{stream:?}: nobody says that {} to {count} are lost", found.next);
            found.gaps += 1;
            self.gaps += 1;
        }
        found.next = count + 1;
    }

    /// The stream must be there without a gap, at least up to (not with) `count`.
    pub(crate) fn check_complete(&self, stream: Stream, count: u64) {
        if count == 0 {
            return;
        }
        let found = self.streams.get(&stream);
        assert!(
            found.is_some_and(|found| found.gaps == 0 && found.next >= count),
            "{stream:?}: {found:?}, not {count}"
        );
    }

    /// Whether anything of the stream came back.
    pub(crate) fn has(&self, stream: Stream) -> bool {
        self.streams.contains_key(&stream)
    }
}

/// The user that the service has put on a packet, whatever else is in it.
fn trusted_uid(packet: &[u8]) -> Option<u32> {
    let fields = Fields::new(packet).map(|field| field.expect("a trace has packets only"));
    let value = fields.filter(|field| field.number == trace_packet_fields::TRUSTED_UID).last()?.value;
    match value {
        Value::Varint(uid) => u32::try_from(uid).ok(),
        _ => panic!("the trusted uid is no number"),
    }
}

fn parse(text: &str) -> Option<Stream> {
    let mut parts = text.splitn(3, '/');
    Some(Stream { uid: parts.next()?.parse().ok()?, instance: parts.next()?.parse().ok()? })
}
