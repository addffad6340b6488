//! Reads the fields of an encoded message the way upstream does, leniently.
//!
//! `ferretto_protozero::read` tells a malformed message from a whole one. A VM may not: whatever follows a
//! malformed field is not there, for the program as for the packet, and what comes before it counts
//! (upstream: proto_decoder.cc, `ParseOneField`).

use ferretto_protozero::varint;

/// Fields with higher numbers are skipped (upstream: field.h, `Field::kMaxId`).
const MAX_FIELD_ID: u32 = (1 << 24) - 1;

/// Longer fields are skipped (upstream: proto_utils.h, `kMaxMessageLength`).
const MAX_FIELD_LEN: u64 = (1 << 28) - 1;

/// A field's value by its wire type. Also what the source cursor points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Scalar(Scalar),
    Bytes(&'a [u8]),
}

/// A number and how it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) encoding: Encoding,
    pub(crate) value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Varint,
    Fixed32,
    Fixed64,
}

impl Value<'_> {
    /// The number, whatever its encoding.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Self::Scalar(scalar) => Some(scalar.value),
            Self::Bytes(_) => None,
        }
    }
}

/// The fields of one message, up to the first malformed one.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    looked_at: u64,
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(message: &'a [u8]) -> Self {
        Self { rest: message, looked_at: 0 }
    }

    /// How many fields were parsed since this was asked last, also those that were skipped. It measures the work.
    pub(crate) fn take_looked_at(&mut self) -> u64 {
        std::mem::take(&mut self.looked_at)
    }

    /// The fields with the number `field` only.
    pub(crate) const fn only(self, field: u32) -> Elements<'a> {
        Elements { fields: self, field }
    }

    /// The next field's number and value, without regard to the limits, and what follows it.
    #[inline]
    fn parse(&self) -> Option<(u32, Value<'a>, &'a [u8])> {
        let (tag, rest) = take_varint(self.rest)?;
        // Numbers beyond 32 bits wrap around, as upstream's do.
        let id = (tag >> 3) as u32;
        if id == 0 {
            return None;
        }
        let scalar = |encoding, value| Value::Scalar(Scalar { encoding, value });
        let (value, rest) = match tag & 7 {
            0 => {
                let (value, rest) = take_varint(rest)?;
                (scalar(Encoding::Varint, value), rest)
            }
            1 => {
                let (bytes, rest) = rest.split_first_chunk()?;
                (scalar(Encoding::Fixed64, u64::from_le_bytes(*bytes)), rest)
            }
            2 => {
                let (len, rest) = take_varint(rest)?;
                let (bytes, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
                (Value::Bytes(bytes), rest)
            }
            5 => {
                let (bytes, rest) = rest.split_first_chunk()?;
                (scalar(Encoding::Fixed32, u64::from(u32::from_le_bytes(*bytes))), rest)
            }
            _ => return None,
        };
        Some((id, value, rest))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((id, value, rest)) = self.parse() else {
                self.rest = &[];
                return None;
            };
            self.rest = rest;
            self.looked_at += 1;
            let fits = match value {
                Value::Bytes(bytes) => bytes.len() as u64 <= MAX_FIELD_LEN,
                Value::Scalar(_) => true,
            };
            if id <= MAX_FIELD_ID && fits {
                return Some((id, value));
            }
        }
    }
}

/// The values of one field, each with the count of fields looked at to find it.
pub(crate) struct Elements<'a> {
    fields: Fields<'a>,
    field: u32,
}

impl Elements<'_> {
    /// The fields looked at since the last value.
    pub(crate) const fn looked_at(&self) -> u64 {
        self.fields.looked_at
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u64, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (id, value) = self.fields.next()?;
            if id == self.field {
                return Some((self.fields.take_looked_at(), value));
            }
        }
    }
}

#[inline]
fn take_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (value, len) = varint::decode(bytes)?;
    Some((value, bytes.get(len..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_before_a_malformed_one_count() {
        let cases: &[(&[u8], &[u32])] = &[
            (&[], &[]),
            (&[0x08, 1, 0x10, 2], &[1, 2]),
            (&[0x08, 1, 0x10], &[1]),
            (&[0x08, 1, 0x00, 7, 0x10, 2], &[1]),
            (&[0x08, 1, 0x0b, 0x10, 2], &[1]),
            (&[0x08, 1, 0x12, 3, 0, 0], &[1]),
            (&[0x08, 1, 0x15, 0, 0, 0], &[1]),
            (&[0x08, 1, 0x11, 0, 0, 0, 0, 0, 0, 0], &[1]),
            // The number 2^24 is one too high: skipped.
            (&[0x80, 0x80, 0x80, 0x40, 1, 0x10, 2], &[2]),
            // The number 2^32 + 1 wraps around to 1.
            (&[0x88, 0x80, 0x80, 0x80, 0x80, 0x01, 1, 0x10, 2], &[1, 2]),
            // An endless varint.
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0x10, 2], &[]),
        ];
        for (message, expected) in cases {
            let ids: Vec<u32> = Fields::new(message).map(|(id, _)| id).collect();
            assert_eq!(&ids, expected, "{message:x?}");
        }
    }
}
