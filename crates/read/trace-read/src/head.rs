//! What every packet may say beside its data.
//!
//! Source of the fields: upstream's trace_packet.proto, whose words for them these are.

use ferretto_protos::fields::trace_packet as field;
use ferretto_protozero::read::{self, ReadError};

use crate::fields::{Field, Fields, Value};

/// `sequence_flags`: what is interned was forgotten before this packet.
pub const INCREMENTAL_STATE_CLEARED: u32 = 1;
/// `sequence_flags`: this packet relies on what earlier ones of its sequence have interned.
pub const NEEDS_INCREMENTAL_STATE: u32 = 2;

/// What a service adds at the end of every packet: the user, the sequence, the process, with three bytes each in the usual case.
const MAX_TAIL_BYTES: usize = size_of::<u128>();

const TIMESTAMP_TAG: u8 = (field::TIMESTAMP << 3) as u8;
const SEQUENCE_ID_TAG: u8 = (field::TRUSTED_PACKET_SEQUENCE_ID << 3) as u8;
const SEQUENCE_FLAGS_TAG: u8 = (field::SEQUENCE_FLAGS << 3) as u8;
const TRACK_EVENT_TAG: u8 = (field::TRACK_EVENT << 3 | 2) as u8;

/// The fields of a packet that are not its data. Where one comes twice, the last one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// When, on the clock of [`clock_id`](Self::clock_id).
    pub timestamp: Option<u64>,
    /// The clock of `timestamp`; without it that of the sequence's defaults, then the trace's own.
    pub clock_id: Option<u32>,
    /// The sequence of packets that it belongs to; 0 if it does not say.
    pub sequence_id: u32,
    /// Whether it says which sequence it belongs to: 0 is one if it does.
    pub is_on_sequence: bool,
    /// [`INCREMENTAL_STATE_CLEARED`] and [`NEEDS_INCREMENTAL_STATE`]. The older field `incremental_state_cleared` counts as the first.
    pub flags: u32,
    /// Why packets before it on its sequence are missing; 0 if none are.
    pub previous_packet_dropped: u32,
    /// Whether it is the first of its sequence.
    pub is_first_on_sequence: bool,
    /// Whose packet it is, by the service's word.
    pub trusted_uid: Option<i32>,
    /// The process that it came from, by the service's word.
    pub trusted_pid: Option<i32>,
    /// The machine that it comes from; 0 is the service's own.
    pub machine_id: u32,
    /// `InternedData`.
    pub interned_data: Option<&'a [u8]>,
    /// `TracePacketDefaults`.
    pub defaults: Option<&'a [u8]>,
    /// The field number of its data, and that message. Strings and numbers at this level are no data.
    pub data: Option<(u32, &'a [u8])>,
}

impl<'a> Head<'a> {
    /// Reads the top level of a packet.
    ///
    /// # Errors
    ///
    /// If a field is malformed. Its offset is that from the packet's first byte.
    #[inline]
    pub fn of(packet: &'a [u8]) -> Result<Self, ReadError> {
        let mut head = Self::default();
        let mut fields = Fields::new(packet);
        while let Some(tag) = fields.first_byte() {
            if head.take_usual(tag, &mut fields) {
                continue;
            }
            match fields.next() {
                Some(Ok(Field { number, value: Value::Bytes(bytes) })) => head.take_message(number, bytes),
                Some(Ok(Field { number, value })) => head.take_number(number, value.as_u64().unwrap_or(0)),
                _ => return explain(packet).map_or(Ok(head), Err),
            }
        }
        Ok(head)
    }

    /// Takes the next field if it is one that nearly every packet of a program has: its tag alone says which it is.
    #[inline(always)]
    fn take_usual(&mut self, tag: u8, fields: &mut Fields<'a>) -> bool {
        match tag {
            SEQUENCE_ID_TAG => fields.take_number().map(|id| self.take_sequence(id)).is_some(),
            TIMESTAMP_TAG => fields.take_number().map(|time| self.timestamp = Some(time)).is_some(),
            SEQUENCE_FLAGS_TAG => fields.take_number().map(|flags| self.flags |= flags as u32).is_some(),
            TRACK_EVENT_TAG => {
                let event = fields.take_message();
                event.map(|event| self.data = Some((field::TRACK_EVENT, event))).is_some()
            }
            _ => false,
        }
    }

    /// Whether what is interned was forgotten before this packet.
    #[must_use]
    pub const fn clears_state(&self) -> bool {
        self.flags & INCREMENTAL_STATE_CLEARED != 0
    }

    /// Whether it relies on what is interned.
    #[must_use]
    pub const fn needs_state(&self) -> bool {
        self.flags & NEEDS_INCREMENTAL_STATE != 0
    }

    #[inline]
    fn take_message(&mut self, number: u32, bytes: &'a [u8]) {
        match number {
            field::INTERNED_DATA => self.interned_data = Some(bytes),
            field::TRACE_PACKET_DEFAULTS => self.defaults = Some(bytes),
            _ => self.data = Some((number, bytes)),
        }
    }

    #[inline(always)]
    fn take_sequence(&mut self, id: u64) {
        self.sequence_id = id as u32;
        self.is_on_sequence = true;
    }

    // Narrow fields are cut like any protobuf reader does.
    #[inline]
    fn take_number(&mut self, number: u32, value: u64) {
        match number {
            field::TIMESTAMP => self.timestamp = Some(value),
            field::TIMESTAMP_CLOCK_ID => self.clock_id = Some(value as u32),
            field::TRUSTED_PACKET_SEQUENCE_ID => self.take_sequence(value),
            field::SEQUENCE_FLAGS => self.flags |= value as u32,
            field::INCREMENTAL_STATE_CLEARED if value != 0 => self.flags |= INCREMENTAL_STATE_CLEARED,
            field::PREVIOUS_PACKET_DROPPED => self.previous_packet_dropped = value as u32,
            field::FIRST_PACKET_ON_SEQUENCE => self.is_first_on_sequence = value != 0,
            field::TRUSTED_UID => self.trusted_uid = Some(value as i32),
            field::TRUSTED_PID => self.trusted_pid = Some(value as i32),
            field::MACHINE_ID => self.machine_id = value as u32,
            _ => {}
        }
    }
}

/// Reads heads, one after the other, quickly where packets of one writer follow each other.
///
/// What the service says of a writer stands at the end of all its packets, in the same bytes. The last such end is kept, with what it says: a
/// packet with the same bytes there, whose other fields end where they begin, says the same.
///
/// ```
/// use ferretto_trace_read::{Head, Heads};
///
/// let mut heads = Heads::default();
/// let [first, second] = [b"\x40\x07\x5a\x08an event\x18\x03\x50\x09", b"\x40\x08\x5a\x08an event\x18\x03\x50\x09"];
/// assert!(heads.written(second).is_none(), "nothing is known yet");
/// assert_eq!(heads.of(first).unwrap().sequence_id, 9);
/// let written = heads.written(second).unwrap();
/// assert_eq!((written.timestamp, heads.said().sequence_id), (Some(8), 9));
/// assert_eq!(heads.of(second), Head::of(second));
/// ```
#[derive(Debug, Default)]
pub struct Heads {
    /// The last bytes of a packet, at the upper end of a number.
    tail: u128,
    /// Where they are in it.
    mask: u128,
    /// How many; 0 if none are known.
    tail_len: usize,
    /// What they say.
    said: Head<'static>,
}

/// What a program itself has written of a packet with an event, where the service says the same as before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written<'a> {
    /// As in [`Head`].
    pub timestamp: Option<u64>,
    /// As in [`Head`].
    pub flags: u32,
    /// `TrackEvent`, if it is there.
    pub event: Option<&'a [u8]>,
}

impl Heads {
    /// Reads the top level of the next packet, as [`Head::of`] does.
    ///
    /// # Errors
    ///
    /// If a field is malformed.
    #[inline]
    pub fn of<'a>(&mut self, packet: &'a [u8]) -> Result<Head<'a>, ReadError> {
        let Some(Written { timestamp, flags, event }) = self.written(packet) else {
            return self.unusual(packet);
        };
        Ok(Head { timestamp, flags, data: event.map(|event| (field::TRACK_EVENT, event)), ..self.said })
    }

    /// What the service has said of the last packet that [`of`](Self::of) read with an event, as far as it stands at its end.
    #[inline]
    #[must_use]
    pub const fn said(&self) -> &Head<'static> {
        &self.said
    }

    /// Reads the next packet if the service says the same of it as [`said`](Self::said), and there is nothing but an event in it.
    #[inline(always)]
    #[must_use]
    pub fn written<'a>(&self, packet: &'a [u8]) -> Option<Written<'a>> {
        let last = u128::from_le_bytes(*packet.last_chunk()?);
        if (last ^ self.tail) & self.mask != 0 || self.tail_len == 0 {
            return None;
        }
        let mut fields = Fields::new(packet.get(..packet.len() - self.tail_len)?);
        // First in the order in which programs write them, which needs no search; then whatever there is.
        let mut written = Written {
            timestamp: fields.number_of(TIMESTAMP_TAG),
            flags: fields.number_of(SEQUENCE_FLAGS_TAG).unwrap_or(0) as u32,
            event: fields.message_of(TRACK_EVENT_TAG),
        };
        while let Some(tag) = fields.first_byte() {
            match tag {
                TIMESTAMP_TAG => written.timestamp = Some(fields.take_number()?),
                SEQUENCE_FLAGS_TAG => written.flags |= fields.take_number()? as u32,
                TRACK_EVENT_TAG => written.event = Some(fields.take_message()?),
                _ => return None,
            }
        }
        Some(written)
    }

    #[inline(never)]
    fn unusual<'a>(&mut self, packet: &'a [u8]) -> Result<Head<'a>, ReadError> {
        let head = Head::of(packet)?;
        if matches!(head.data, Some((field::TRACK_EVENT, _))) {
            self.learn(packet);
        }
        Ok(head)
    }

    fn learn(&mut self, packet: &[u8]) {
        let mut fields = Fields::new(packet);
        let (mut begin, mut said) = (packet.len(), Head::default());
        loop {
            let at = fields.offset();
            let Some(Ok(Field { number, value })) = fields.next() else { break };
            match (number, value.as_u64()) {
                (
                    field::TRUSTED_UID
                    | field::TRUSTED_PACKET_SEQUENCE_ID
                    | field::TRUSTED_PID
                    | field::MACHINE_ID,
                    Some(value),
                ) => {
                    begin = begin.min(at);
                    said.take_number(number, value);
                }
                _ => (begin, said) = (packet.len(), Head::default()),
            }
        }
        let tail = packet.get(begin..).filter(|tail| tail.len() <= MAX_TAIL_BYTES).unwrap_or_default();
        let upper = |byte: u8| tail.iter().fold(0, |number, _| number >> 8 | u128::from(byte) << 120);
        self.tail = tail.iter().fold(0, |number, byte| number >> 8 | u128::from(*byte) << 120);
        (self.mask, self.tail_len, self.said) = (upper(u8::MAX), tail.len(), said);
    }
}

/// What is wrong with a packet.
#[cold]
#[inline(never)]
fn explain(packet: &[u8]) -> Option<ReadError> {
    read::Fields::new(packet).find_map(Result::err)
}

/// Whether nothing is missing of what a sequence has interned: from when it says that it begins anew, to where something before a packet is
/// missing (upstream: proto_trace_reader.cc).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Continuity {
    is_valid: bool,
}

/// What a packet does to what its sequence has interned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// All of it is forgotten, and begins anew.
    Cleared,
    /// Some of it is missing.
    Lost,
}

impl Continuity {
    /// Takes note of the sequence's next packet.
    #[inline]
    pub fn arrive(&mut self, head: &Head<'_>) -> Change {
        if head.clears_state() {
            self.is_valid = true;
            Change::Cleared
        } else if head.previous_packet_dropped != 0 {
            self.is_valid = false;
            Change::Lost
        } else {
            Change::None
        }
    }

    /// Whether what is interned can be taken at its word.
    #[inline]
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.is_valid
    }

    /// Whether a packet, which has arrived, can be read.
    #[inline]
    #[must_use]
    pub const fn can_read(self, head: &Head<'_>) -> bool {
        self.is_valid || !head.needs_state()
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_field_is_found_in_any_order() {
        let mut packet = Vec::new();
        let mut message = Message::new(&mut packet);
        message.bytes(field::TRACK_EVENT, b"event");
        message.varint(field::TIMESTAMP, 1000);
        message.varint(field::TIMESTAMP_CLOCK_ID, 64);
        message.varint(field::TRUSTED_PACKET_SEQUENCE_ID, 7);
        message.varint(field::SEQUENCE_FLAGS, 2);
        message.varint(field::INCREMENTAL_STATE_CLEARED, 1);
        message.varint(field::PREVIOUS_PACKET_DROPPED, 5);
        message.varint(field::FIRST_PACKET_ON_SEQUENCE, 1);
        message.varint(field::TRUSTED_UID, 1000);
        message.varint(field::TRUSTED_PID, 42);
        message.varint(field::MACHINE_ID, 9);
        message.bytes(field::INTERNED_DATA, b"interned");
        message.bytes(field::TRACE_PACKET_DEFAULTS, b"defaults");
        drop(message);
        let head = Head::of(&packet).unwrap();
        let expected = Head {
            timestamp: Some(1000),
            clock_id: Some(64),
            sequence_id: 7,
            is_on_sequence: true,
            flags: 3,
            previous_packet_dropped: 5,
            is_first_on_sequence: true,
            trusted_uid: Some(1000),
            trusted_pid: Some(42),
            machine_id: 9,
            interned_data: Some(b"interned"),
            defaults: Some(b"defaults"),
            data: Some((field::TRACK_EVENT, b"event")),
        };
        assert_eq!(head, expected);
        assert!(head.clears_state() && head.needs_state());
    }

    #[test]
    fn a_malformed_field_is_an_error_with_its_offset() {
        let error = Head::of(&[0x40, 0x01, 0x5a, 0x09]).unwrap_err();
        assert!(matches!(error, ReadError::LengthBeyondEnd { offset: 2, .. }), "{error}");
        assert_eq!(Head::of(&[]).unwrap(), Head::default());
    }

    /// Field by field, with no way of its own for usual ones.
    fn plainly(packet: &[u8]) -> Result<Head<'_>, ReadError> {
        let mut head = Head::default();
        for field in read::Fields::new(packet) {
            let field = field?;
            match field.value {
                Value::Bytes(bytes) => head.take_message(field.number, bytes),
                value => head.take_number(field.number, value.as_u64().unwrap_or(0)),
            }
        }
        Ok(head)
    }

    proptest! {
        #[test]
        fn usual_fields_are_read_as_all_others(
            packet in proptest::collection::vec(
                prop_oneof![any::<u8>(), 0u8..4, Just(0x40), Just(0x50), Just(0x68), Just(0x5a), Just(0x80)],
                0..40,
            ),
        ) {
            prop_assert_eq!(Head::of(&packet), plainly(&packet));
        }

        #[test]
        fn one_after_the_other_heads_are_what_each_is(
            packets in proptest::collection::vec(
                (
                    proptest::collection::vec(
                        prop_oneof![
                            Just(&b"\x40\x07"[..]),
                            Just(&b"\x68\x02"[..]),
                            Just(&b"\x50\x09"[..]),
                            Just(&b"\x5a\x08\x18\x03\x50\x09\xf8\x04\x05\x18"[..]),
                            Just(&b"\x5a\x0f\x18\x03\x50\x09\xf8\x04\x05"[..]),
                            Just(&b"\x5a\x00"[..]),
                            Just(&b"\xff"[..]),
                        ],
                        0..5,
                    ),
                    prop_oneof![
                        Just(&b"\x18\x03\x50\x09\xf8\x04\x05"[..]),
                        Just(&b"\x18\x03\x50\x08\xf8\x04\x05\x90\x06\x02"[..]),
                        Just(&b"\x50\x09"[..]),
                        Just(&b""[..]),
                    ],
                ),
                0..30,
            ),
        ) {
            let mut heads = Heads::default();
            for (fields, tail) in packets {
                let packet = [&fields.concat(), tail].concat();
                prop_assert_eq!(heads.of(&packet), Head::of(&packet), "{:?}", packet);
            }
        }
    }

    #[test]
    fn what_is_interned_holds_from_a_clearing_to_a_gap() {
        let mut continuity = Continuity::default();
        let needs = Head { flags: NEEDS_INCREMENTAL_STATE, ..Head::default() };
        let gap = Head { previous_packet_dropped: 1, ..needs };
        let clears = Head { flags: 3, previous_packet_dropped: 1, ..Head::default() };
        let steps = [
            (needs, Change::None, false),
            (Head::default(), Change::None, true),
            (clears, Change::Cleared, true),
            (needs, Change::None, true),
            (gap, Change::Lost, false),
            (needs, Change::None, false),
        ];
        for (head, change, can_read) in steps {
            assert_eq!(
                (continuity.arrive(&head), continuity.can_read(&head)),
                (change, can_read),
                "{head:?}"
            );
        }
    }
}
