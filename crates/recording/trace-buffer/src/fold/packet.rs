//! Finds in one pass over a packet what the rest of its sequence may rely on.
//!
//! It is done for every packet that is overwritten, and most have a time and flags only: no field is looked into here.

use crate::validator;

/// Fields of TracePacket, and of messages in it (upstream: trace_packet.proto and what it imports).
pub(crate) mod field {
    pub(crate) const CLOCK_SNAPSHOT: u32 = 6;
    pub(crate) const TIMESTAMP: u32 = 8;
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const INTERNED_DATA: u32 = 12;
    pub(crate) const SEQUENCE_FLAGS: u32 = 13;
    pub(crate) const INCREMENTAL_STATE_CLEARED: u32 = 41;
    pub(crate) const PREVIOUS_PACKET_DROPPED: u32 = 42;
    pub(crate) const PROCESS_DESCRIPTOR: u32 = 43;
    pub(crate) const THREAD_DESCRIPTOR: u32 = 44;
    pub(crate) const TIMESTAMP_CLOCK_ID: u32 = 58;
    pub(crate) const TRACE_PACKET_DEFAULTS: u32 = 59;
    pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
}

/// Of `SequenceFlags`.
pub(crate) const STATE_CLEARED: u64 = 1;

/// What was found. Of a field that is there twice, the last.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Scan<'a> {
    pub(crate) timestamp: Option<u64>,
    pub(crate) clock_id: Option<u64>,
    pub(crate) sequence_flags: u64,
    pub(crate) is_cleared: bool,
    /// Not 0: the writer itself has lost something before this packet.
    pub(crate) dropped: u64,
    pub(crate) track_event: Option<&'a [u8]>,
    /// Is any of the following there?
    pub(crate) has_state: bool,
    pub(crate) interned_data: Option<&'a [u8]>,
    pub(crate) defaults: Option<&'a [u8]>,
    pub(crate) clock_snapshot: Option<&'a [u8]>,
    pub(crate) track_descriptor: Option<&'a [u8]>,
    pub(crate) process_descriptor: Option<&'a [u8]>,
    pub(crate) thread_descriptor: Option<&'a [u8]>,
}

/// Looks through a packet. `None` if it is one that the [validator] keeps out of traces.
#[inline]
pub(crate) fn scan(packet: &[u8]) -> Option<Scan<'_>> {
    let mut scan = Scan::default();
    let mut rest = packet;
    while let Some((&first, behind)) = rest.split_first() {
        let tag;
        (tag, rest) = if first < 0x80 { (u64::from(first), behind) } else { varint(rest)? };
        let number = u32::try_from(tag >> 3).ok()?;
        if !validator::is_allowed(number) {
            return None;
        }
        match tag & 7 {
            0 => {
                let value;
                (value, rest) = varint(rest)?;
                scan.number(number, value);
            }
            1 => rest = rest.get(8..)?,
            2 => {
                let (len, behind) = varint(rest)?;
                if len > validator::MAX_FIELD_BYTES {
                    return None;
                }
                let body;
                (body, rest) = behind.split_at_checked(len as usize)?;
                scan.bytes(number, body);
            }
            5 => rest = rest.get(4..)?,
            _ => return None,
        }
    }
    Some(scan)
}

impl<'a> Scan<'a> {
    /// Does the packet say that the sequence says all again?
    #[inline]
    pub(crate) fn clears_state(&self) -> bool {
        self.is_cleared || self.sequence_flags & STATE_CLEARED != 0
    }

    #[inline]
    fn number(&mut self, number: u32, value: u64) {
        match number {
            field::TIMESTAMP => self.timestamp = Some(value),
            field::SEQUENCE_FLAGS => self.sequence_flags = value,
            field::TIMESTAMP_CLOCK_ID => self.clock_id = Some(value),
            field::INCREMENTAL_STATE_CLEARED => self.is_cleared = value != 0,
            field::PREVIOUS_PACKET_DROPPED => self.dropped = value,
            _ => {}
        }
    }

    #[inline]
    fn bytes(&mut self, number: u32, body: &'a [u8]) {
        let place = match number {
            field::TRACK_EVENT => {
                self.track_event = Some(body);
                return;
            }
            field::INTERNED_DATA => &mut self.interned_data,
            field::TRACE_PACKET_DEFAULTS => &mut self.defaults,
            field::CLOCK_SNAPSHOT => &mut self.clock_snapshot,
            field::TRACK_DESCRIPTOR => &mut self.track_descriptor,
            field::PROCESS_DESCRIPTOR => &mut self.process_descriptor,
            field::THREAD_DESCRIPTOR => &mut self.thread_descriptor,
            _ => return,
        };
        *place = Some(body);
        self.has_state = true;
    }
}

/// A varint of at most ten bytes, and what is behind it. Bits beyond the 64th are dropped.
#[inline]
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes {
        [low @ 0..0x80, rest @ ..] => Some((u64::from(*low), rest)),
        [low, high @ 0..0x80, rest @ ..] => Some((u64::from(low & 0x7f) | u64::from(*high) << 7, rest)),
        _ => long_varint(bytes),
    }
}

fn long_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}
