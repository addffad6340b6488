//! Packets of one writer. What they name again and again is interned: its text comes with the first packet that needs it, then only its number.

use ferretto_protos::fields::{interned_string, trace_packet, trace_packet_defaults};
use ferretto_protozero::Message;
use ferretto_trace_read::head::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_trace_tables::{Str, Strings};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::Error;
use crate::packets::Sink;

/// `BOOTTIME` of builtin_clock.proto: the trace's clock, if nothing says otherwise.
pub(super) const BOOTTIME: u64 = 6;

/// A sequence.
#[derive(Debug)]
pub(super) struct Sequence {
    id: u32,
    has_begun: bool,
    /// `TracePacketDefaults` beside the clock.
    defaults: Vec<u8>,
    /// What is interned with the next packet.
    interned: Vec<u8>,
    texts: HashMap<(u32, Str), u64, RandomState>,
    known: HashSet<(u32, u64), RandomState>,
    packet: Vec<u8>,
}

impl Sequence {
    pub(super) fn new(id: u32) -> Self {
        Self {
            id,
            has_begun: false,
            defaults: Vec::new(),
            interned: Vec::new(),
            texts: HashMap::default(),
            known: HashSet::default(),
            packet: Vec::new(),
        }
    }

    /// What its packets leave out: fields of `TracePacketDefaults`.
    pub(super) fn with_defaults(id: u32, defaults: Vec<u8>) -> Self {
        Self { defaults, ..Self::new(id) }
    }

    /// The number of a text in a field of `InternedData`, whose messages are all numbers (1) and texts (2).
    pub(super) fn text(&mut self, field: u32, text: Str, strings: &Strings) -> u64 {
        if let Some(known) = self.texts.get(&(field, text)) {
            return *known;
        }
        // Numbers are the sequence's: that they are no field's own costs a byte at most.
        let iid = self.texts.len() as u64 + 1;
        self.texts.insert((field, text), iid);
        let mut interned = Message::new(&mut self.interned);
        let mut entry = interned.nested(field);
        entry.varint(interned_string::IID, iid);
        entry.string(interned_string::STR, strings.get(text));
        iid
    }

    /// Whether something with this number is yet to be interned, which is up to the caller then.
    pub(super) fn is_new(&mut self, field: u32, iid: u64) -> bool {
        self.known.insert((field, iid))
    }

    /// Interns a message.
    pub(super) fn intern(&mut self, field: u32, message: &[u8]) {
        Message::new(&mut self.interned).bytes(field, message);
    }

    /// Writes a packet.
    pub(super) fn put(
        &mut self,
        ts: Option<i64>,
        field: u32,
        data: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        self.packet.clear();
        let mut packet = Message::new(&mut self.packet);
        if let Some(ts) = ts {
            packet.varint(trace_packet::TIMESTAMP, ts.cast_unsigned());
        }
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, self.id.into());
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let cleared = if is_first { INCREMENTAL_STATE_CLEARED } else { 0 };
        packet.varint(trace_packet::SEQUENCE_FLAGS, u64::from(cleared | NEEDS_INCREMENTAL_STATE));
        if is_first {
            packet.bool(trace_packet::FIRST_PACKET_ON_SEQUENCE, true);
            let mut defaults = packet.nested(trace_packet::TRACE_PACKET_DEFAULTS);
            defaults.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, BOOTTIME);
            defaults.raw(&self.defaults);
        }
        if !self.interned.is_empty() {
            packet.bytes(trace_packet::INTERNED_DATA, &self.interned);
            self.interned.clear();
        }
        packet.bytes(field, data);
        drop(packet);
        sink.packet(&self.packet)
    }
}
