//! Decides whether a packet from a producer may go into a trace.
//!
//! Source: upstream's packet_stream_validator.cc. Only the top level is looked at: fields must be complete and
//! of a known wire type, and none may be one that only the service writes. Beyond upstream, numbers that no field
//! can have are refused: readers stop at them, and would not see the fields that the service appends.

/// Why a packet is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A field that only the service may write.
    #[error("field {0} of TracePacket is reserved for the service")]
    ReservedField(u32),
    /// No field has this number: 0, or more than 29 bits.
    #[error("{0} is no field number; they are 1 to 536870911")]
    FieldNumber(u64),
    /// Groups, and the two wire types that do not exist.
    #[error("wire type {0} is not allowed in a TracePacket")]
    WireType(u8),
    /// A varint of more than 64 bits.
    #[error("a varint is longer than 64 bits")]
    LongVarint,
    /// A length beyond 256 MiB.
    #[error("a field of {0} bytes is longer than a message may be (268435455)")]
    LongField(u64),
    /// The packet ends in the middle of a field.
    #[error("the packet ends in the middle of a field")]
    Truncated,
    /// To look at them all would take too long.
    #[error("a packet may have a million fields at its top level, and this one has more")]
    TooManyFields,
}

/// Fields of TracePacket that only the service writes (upstream: trace_packet.proto).
const RESERVED_FIELDS: [u32; 12] = [
    3,   // trusted_uid
    10,  // trusted_packet_sequence_id
    33,  // trace_config
    35,  // trace_stats
    36,  // synchronization_marker
    50,  // compressed_packets
    69,  // service_event
    79,  // trusted_pid
    98,  // machine_id
    124, // trace_provenance
    125, // protovms
    133, // zstd_compressed_packets
];

/// The reserved fields as bits, for numbers of which the tag has one or two bytes.
const RESERVED_BITS: [u64; 4] = {
    let mut bits = [0; 4];
    let mut index = 0;
    while index < RESERVED_FIELDS.len() {
        let field = RESERVED_FIELDS[index];
        bits[(field / 64) as usize] |= 1 << (field % 64);
        index += 1;
    }
    bits
};

/// May a packet have a field with this number?
#[inline]
pub(crate) fn is_allowed(number: u32) -> bool {
    let is_reserved =
        if number < 256 { is_reserved_small(number) } else { RESERVED_FIELDS.contains(&number) };
    !is_reserved && (1..=MAX_FIELD_NUMBER).contains(&number)
}

#[inline]
fn is_reserved_small(number: u32) -> bool {
    RESERVED_BITS.get((number / 64) as usize).is_some_and(|bits| bits >> (number % 64) & 1 != 0)
}

/// The longest length that trace writers can write: a varint of four bytes.
pub(crate) const MAX_FIELD_BYTES: u64 = 0x0fff_ffff;

/// Protobuf's limit: 29 bits.
const MAX_FIELD_NUMBER: u32 = (1 << 29) - 1;

/// Fields at the top level of a packet. Those of producers have ten or twenty, and whoever has more is out to make the service count.
pub(crate) const MAX_FIELDS: usize = 1_000_000;

/// A 64-bit varint has at most ten bytes.
const MAX_VARINT_BYTES: u32 = 10;

/// Checks a packet given as slices, which may cut fields anywhere. An empty packet is valid.
///
/// ```
/// use ferretto_trace_buffer::validator::{Invalid, is_valid_untrusted_packet};
///
/// let timestamp_in_two_slices: [&[u8]; 2] = [&[0x40, 0x80], &[0x01]]; // field 8, a varint
/// assert_eq!(is_valid_untrusted_packet(timestamp_in_two_slices), Ok(()));
/// let trusted_uid: [&[u8]; 1] = [&[0x18, 0x00]];
/// assert_eq!(is_valid_untrusted_packet(trusted_uid), Err(Invalid::ReservedField(3)));
/// ```
///
/// # Errors
/// The first thing that is wrong with it.
pub fn is_valid_untrusted_packet<'a>(slices: impl IntoIterator<Item = &'a [u8]>) -> Result<(), Invalid> {
    let mut bytes = Bytes { current: &[], slices: slices.into_iter() };
    let mut fields_left = MAX_FIELDS;
    while bytes.fill() {
        fields_left = fields_left.checked_sub(1).ok_or(Invalid::TooManyFields)?;
        match skip_small_field(bytes.current) {
            Some(rest) => bytes.current = rest,
            None => skip_field(&mut bytes)?,
        }
    }
    Ok(())
}

/// The same for a packet in one slice, which most are: fields of the usual kind are passed over without looking for others.
///
/// # Errors
/// The first thing that is wrong with it.
#[inline]
pub fn is_valid_untrusted_piece(mut packet: &[u8]) -> Result<(), Invalid> {
    while let Some(rest) = skip_small_field(packet) {
        packet = rest;
    }
    if packet.is_empty() { Ok(()) } else { is_valid_untrusted_packet([packet]) }
}

/// What follows a field of the usual kind: a tag of one or two bytes that is allowed, and a value that lies in this slice as a whole,
/// with a length of one byte if it has one. Of others [`skip_field`] says more.
#[inline]
fn skip_small_field(bytes: &[u8]) -> Option<&[u8]> {
    let (tag, rest) = match *bytes {
        [tag @ 0..0x80, ref rest @ ..] => (u32::from(tag), rest),
        [low, high @ 0..0x80, ref rest @ ..] => (u32::from(low & 0x7f) | u32::from(high) << 7, rest),
        _ => return None,
    };
    let number = tag >> 3;
    if number == 0 || is_reserved_small(number) {
        return None;
    }
    match tag & 7 {
        0 => rest.get(small_varint_len(rest)?..),
        1 => rest.get(8..),
        2 => match *rest {
            [length @ 0..0x80, ref rest @ ..] => rest.get(usize::from(length)..),
            _ => None,
        },
        5 => rest.get(4..),
        _ => None,
    }
}

/// How many bytes the varint takes that the bytes begin with, if it has at most ten.
#[inline]
fn small_varint_len(bytes: &[u8]) -> Option<usize> {
    // Eight at once: guessing where it ends, the processor would guess wrong too often.
    if let Some(word) = bytes.first_chunk() {
        let ends = !u64::from_le_bytes(*word) & 0x8080_8080_8080_8080;
        if ends != 0 {
            return Some(ends.trailing_zeros() as usize / 8 + 1);
        }
    }
    let end = bytes.iter().take(MAX_VARINT_BYTES as usize).position(|byte| *byte < 0x80)?;
    Some(end + 1)
}

fn skip_field<'a>(bytes: &mut Bytes<'a, impl Iterator<Item = &'a [u8]>>) -> Result<(), Invalid> {
    let tag = bytes.varint()?;
    let Ok(number @ 1..=MAX_FIELD_NUMBER) = u32::try_from(tag >> 3) else {
        return Err(Invalid::FieldNumber(tag >> 3));
    };
    if RESERVED_FIELDS.contains(&number) {
        return Err(Invalid::ReservedField(number));
    }
    match tag & 7 {
        0 => bytes.varint().map(drop),
        1 => bytes.skip(8),
        2 => match bytes.varint()? {
            length @ 0..=MAX_FIELD_BYTES => bytes.skip(length as usize),
            length => Err(Invalid::LongField(length)),
        },
        5 => bytes.skip(4),
        wire_type => Err(Invalid::WireType(wire_type as u8)),
    }
}

/// The packet's bytes from where the check has come to.
struct Bytes<'a, I> {
    current: &'a [u8],
    slices: I,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Bytes<'a, I> {
    /// Goes on to the next slice if this one is used up. False at the end of the packet.
    fn fill(&mut self) -> bool {
        while self.current.is_empty() {
            match self.slices.next() {
                Some(slice) => self.current = slice,
                None => return false,
            }
        }
        true
    }

    fn byte(&mut self) -> Result<u8, Invalid> {
        self.fill();
        let (&byte, rest) = self.current.split_first().ok_or(Invalid::Truncated)?;
        self.current = rest;
        Ok(byte)
    }

    /// The lower 64 bits of a varint.
    fn varint(&mut self) -> Result<u64, Invalid> {
        let mut value = 0;
        for index in 0..MAX_VARINT_BYTES {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Invalid::LongVarint)
    }

    fn skip(&mut self, mut count: usize) -> Result<(), Invalid> {
        while count > 0 {
            if !self.fill() {
                return Err(Invalid::Truncated);
            }
            let here = count.min(self.current.len());
            self.current = &self.current[here..];
            count -= here;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(packet: &[u8], expected: Result<(), Invalid>) {
        assert_eq!(is_valid_untrusted_packet([packet]), expected, "in one slice");
        assert_eq!(is_valid_untrusted_piece(packet), expected, "as a piece");
        for at in 0..packet.len() {
            let (head, tail) = packet.split_at(at);
            assert_eq!(is_valid_untrusted_packet([head, &[], tail]), expected, "cut at {at}");
        }
        assert_eq!(is_valid_untrusted_packet(packet.chunks(1)), expected, "byte by byte");
    }

    #[test]
    fn empty_packets_are_valid() {
        check(&[], Ok(()));
        assert_eq!(is_valid_untrusted_packet([]), Ok(()));
    }

    #[test]
    fn a_packet_of_many_slices_has_a_million_fields_at_most() {
        let fields = |count: usize| [0x40, 1].repeat(count);
        let check = |packet: &[u8]| is_valid_untrusted_packet(packet.chunks(60_001));
        assert_eq!(check(&fields(MAX_FIELDS)), Ok(()));
        assert_eq!(check(&fields(MAX_FIELDS + 1)), Err(Invalid::TooManyFields));
    }

    #[test]
    fn all_four_wire_types_are_valid_wherever_slices_cut_them() {
        check(
            &[0x40, 0xff, 0xff, 0x03, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x0a, 2, 9, 9, 0x0d, 1, 2, 3, 4],
            Ok(()),
        );
        check(&[0x0a, 0x83, 0x00, 1, 2, 3], Ok(())); // a length that is longer than it need be
    }

    #[test]
    fn fields_of_the_service_are_refused() {
        for field in RESERVED_FIELDS {
            let tag = u64::from(field) << 3;
            check(&[0x80 | tag as u8, (tag >> 7) as u8, 0], Err(Invalid::ReservedField(field)));
        }
        check(&[0x40, 0x01, 0x18, 0x01], Err(Invalid::ReservedField(3)));
    }

    #[test]
    fn numbers_that_no_field_has_are_refused() {
        check(&[0x00, 0x01], Err(Invalid::FieldNumber(0)));
        check(&[0xf8, 0xff, 0xff, 0xff, 0x0f, 0x01], Ok(()));
        // Parsers that drop upper bits would take these for the trusted uid.
        check(&[0x98, 0x80, 0x80, 0x80, 0x40, 0x01], Err(Invalid::FieldNumber((1 << 31) + 3)));
        check(&[0x98, 0x80, 0x80, 0x80, 0x80, 0x01, 0x01], Err(Invalid::FieldNumber((1 << 32) + 3)));
    }

    #[test]
    fn reserved_numbers_inside_of_messages_are_no_concern() {
        check(&[0x0a, 2, 0x18, 0x01], Ok(()));
    }

    #[test]
    fn groups_and_unknown_wire_types_are_refused() {
        for wire_type in [3, 4, 6, 7] {
            check(&[0x08 | wire_type], Err(Invalid::WireType(wire_type)));
        }
    }

    #[test]
    fn packets_that_end_in_a_field_are_refused() {
        for packet in
            [&[0x40][..], &[0x40, 0x80], &[0xc0], &[0x0a], &[0x0a, 3, 1, 2], &[0x11, 1, 2, 3], &[0x0d, 1]]
        {
            check(packet, Err(Invalid::Truncated));
        }
    }

    #[test]
    fn varints_of_every_length_are_passed_over() {
        for len in 1..=MAX_VARINT_BYTES as usize {
            for behind in [&[][..], &[0x0a, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]] {
                let mut packet = vec![0x40];
                packet.resize(len, 0x80);
                packet.push(0x01);
                packet.extend_from_slice(behind);
                check(&packet, Ok(()));
            }
        }
    }

    #[test]
    fn varints_have_at_most_ten_bytes() {
        let mut packet = [0x80; 12];
        packet[0] = 0x40;
        check(&packet, Err(Invalid::LongVarint));
        check(&[0x40, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], Ok(()));
    }

    #[test]
    fn fields_have_at_most_256_mib() {
        check(&[0x0a, 0x80, 0x80, 0x80, 0x80, 0x01], Err(Invalid::LongField(0x1000_0000)));
        check(&[0x0a, 0xff, 0xff, 0xff, 0x7f], Err(Invalid::Truncated));
    }
}
