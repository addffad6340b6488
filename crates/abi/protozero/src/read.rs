//! Reads the fields of an encoded message without copying.
//!
//! The bytes may come from a hostile process: whatever they are, reading ends, with fields or with an error.
//! Only one level is parsed: a nested message is a [`Value::Bytes`], and a caller who goes deeper bounds the
//! depth.

use std::error::Error;
use std::fmt;

use crate::varint;

/// The highest field number protobuf allows.
pub const MAX_FIELD_NUMBER: u32 = (1 << 29) - 1;

/// Iterates over the fields of one message in the order of their bytes.
///
/// After an error the iterator ends: what follows a malformed field has no meaning.
///
/// ```
/// use ferretto_protozero::read::{Fields, Value};
///
/// let message = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i'];
/// let fields: Vec<_> = Fields::new(&message).map(Result::unwrap).collect();
/// assert_eq!((fields[0].number, fields[0].value), (1, Value::Varint(150)));
/// assert_eq!((fields[1].number, fields[1].value), (2, Value::Bytes(b"hi")));
/// assert_eq!(fields[1].raw, [0x12, 0x02, b'h', b'i']);
/// ```
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    all: &'a [u8],
    rest: &'a [u8],
}

/// One field: its number, its value, and the bytes of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The field number, 1..=[`MAX_FIELD_NUMBER`].
    pub number: u32,
    /// The value, as far as it is known without a schema.
    pub value: Value<'a>,
    /// Tag and value as they were encoded, to be passed on unchanged.
    pub raw: &'a [u8],
}

/// A field's value by its wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Integers, booleans and enums.
    Varint(u64),
    /// `fixed64`, `sfixed64`, `double`.
    Fixed64(u64),
    /// `fixed32`, `sfixed32`, `float`.
    Fixed32(u32),
    /// Strings, bytes, nested messages and packed repeated fields.
    Bytes(&'a [u8]),
}

/// Why a message cannot be read on. `offset` is where the field begins, in bytes from the start of the
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// A tag, a value or a length is cut off, or a varint is longer than ten bytes.
    Truncated {
        /// Where the field begins.
        offset: usize,
    },
    /// A length goes beyond the end of the message.
    LengthBeyondEnd {
        /// Where the field begins.
        offset: usize,
        /// The field's number.
        number: u32,
        /// The length it claims.
        length: u64,
        /// The bytes that are left.
        left: usize,
    },
    /// The field number is 0 or above protobuf's limit.
    BadFieldNumber {
        /// Where the field begins.
        offset: usize,
        /// The whole tag.
        tag: u64,
    },
    /// A group (deprecated, unused in traces) or a wire type that does not exist.
    BadWireType {
        /// Where the field begins.
        offset: usize,
        /// The field's number.
        number: u32,
        /// 3 or 4 for groups, 6 or 7 for nothing at all.
        wire_type: u8,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { offset } => write!(
                f,
                "the field at offset {offset} is cut off or has an endless varint; the message is truncated or corrupt"
            ),
            Self::LengthBeyondEnd { offset, number, length, left } => write!(
                f,
                "field {number} at offset {offset} claims {length} bytes but {left} are left; the message is truncated or corrupt"
            ),
            Self::BadFieldNumber { offset, tag } => write!(
                f,
                "the tag {tag:#x} at offset {offset} has no valid field number; these bytes are no protobuf message"
            ),
            Self::BadWireType { offset, number, wire_type } => write!(
                f,
                "field {number} at offset {offset} has wire type {wire_type}, which traces do not use; these bytes are no trace"
            ),
        }
    }
}

impl Error for ReadError {}

impl<'a> Fields<'a> {
    /// Starts at the first field of `message`.
    #[inline]
    #[must_use]
    pub const fn new(message: &'a [u8]) -> Self {
        Self { all: message, rest: message }
    }

    /// What has not been read yet.
    #[must_use]
    pub const fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// The offset of the next field from the start of the message.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.all.len() - self.rest.len()
    }

    #[inline]
    fn parse(&self) -> Result<(Field<'a>, &'a [u8]), ReadError> {
        let offset = self.offset();
        let truncated = ReadError::Truncated { offset };
        let (tag, rest) = take_varint(self.rest).ok_or(truncated)?;
        let Ok(number @ 1..=MAX_FIELD_NUMBER) = u32::try_from(tag >> 3) else {
            return Err(ReadError::BadFieldNumber { offset, tag });
        };
        let (value, rest) = match (tag & 7) as u8 {
            0 => {
                let (value, rest) = take_varint(rest).ok_or(truncated)?;
                (Value::Varint(value), rest)
            }
            1 => {
                let (value, rest) = rest.split_first_chunk().ok_or(truncated)?;
                (Value::Fixed64(u64::from_le_bytes(*value)), rest)
            }
            2 => {
                let (length, rest) = take_varint(rest).ok_or(truncated)?;
                let (value, rest) = usize::try_from(length)
                    .ok()
                    .and_then(|length| rest.split_at_checked(length))
                    .ok_or(ReadError::LengthBeyondEnd { offset, number, length, left: rest.len() })?;
                (Value::Bytes(value), rest)
            }
            5 => {
                let (value, rest) = rest.split_first_chunk().ok_or(truncated)?;
                (Value::Fixed32(u32::from_le_bytes(*value)), rest)
            }
            wire_type => return Err(ReadError::BadWireType { offset, number, wire_type }),
        };
        let raw = self.rest.get(..self.rest.len() - rest.len()).unwrap_or_default();
        Ok((Field { number, value, raw }, rest))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, ReadError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match self.parse() {
            Ok((field, rest)) => {
                self.rest = rest;
                Some(Ok(field))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

impl std::iter::FusedIterator for Fields<'_> {}

impl<'a> Value<'a> {
    /// The value of an integer field of any width, if it is one.
    #[inline]
    #[must_use]
    pub const fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Varint(value) | Self::Fixed64(value) => Some(value),
            Self::Fixed32(value) => Some(value as u64),
            Self::Bytes(_) => None,
        }
    }

    /// The bytes of a string, bytes or nested message field, if it is one.
    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Bytes(value) => Some(value),
            _ => None,
        }
    }
}

/// Iterates over the values of a packed repeated integer field.
///
/// ```
/// use ferretto_protozero::read::PackedVarints;
/// let values: Option<Vec<u64>> = PackedVarints::new(&[0x03, 0x8e, 0x02]).collect();
/// assert_eq!(values, Some(vec![3, 270]));
/// ```
///
/// A value that is cut off or endless comes out as `None`, and is the last.
#[derive(Clone, Debug)]
pub struct PackedVarints<'a> {
    rest: &'a [u8],
}

impl<'a> PackedVarints<'a> {
    /// Starts at the first value of `packed`, the bytes of the field.
    #[inline]
    #[must_use]
    pub const fn new(packed: &'a [u8]) -> Self {
        Self { rest: packed }
    }
}

impl Iterator for PackedVarints<'_> {
    type Item = Option<u64>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let taken = take_varint(self.rest);
        self.rest = taken.map_or(&[], |(_, rest)| rest);
        Some(taken.map(|(value, _)| value))
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
    use proptest::prelude::*;

    fn first_error(message: &[u8]) -> Option<ReadError> {
        Fields::new(message).find_map(Result::err)
    }

    #[test]
    fn malformed_messages_are_errors_that_say_where() {
        let cases: &[(&[u8], ReadError)] = &[
            (&[0x08], ReadError::Truncated { offset: 0 }),
            (&[0x08, 1, 0x88], ReadError::Truncated { offset: 2 }),
            (&[0x08, 0x80], ReadError::Truncated { offset: 0 }),
            (
                &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
                ReadError::Truncated { offset: 0 },
            ),
            (&[0x09, 1, 2, 3, 4, 5, 6, 7], ReadError::Truncated { offset: 0 }),
            (&[0x0d, 1, 2, 3], ReadError::Truncated { offset: 0 }),
            (&[0x12, 3, 1, 2], ReadError::LengthBeyondEnd { offset: 0, number: 2, length: 3, left: 2 }),
            (
                &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 7],
                ReadError::LengthBeyondEnd { offset: 0, number: 2, length: u64::MAX, left: 1 },
            ),
            (&[0x00, 1], ReadError::BadFieldNumber { offset: 0, tag: 0 }),
            (&[0x80, 0x80, 0x80, 0x80, 0x10, 1], ReadError::BadFieldNumber { offset: 0, tag: 1 << 32 }),
            (&[0x0b], ReadError::BadWireType { offset: 0, number: 1, wire_type: 3 }),
            (&[0x0c], ReadError::BadWireType { offset: 0, number: 1, wire_type: 4 }),
            (&[0x0e], ReadError::BadWireType { offset: 0, number: 1, wire_type: 6 }),
            (&[0x0f], ReadError::BadWireType { offset: 0, number: 1, wire_type: 7 }),
        ];
        for (message, expected) in cases {
            assert_eq!(first_error(message), Some(*expected), "{message:x?}");
        }
    }

    #[test]
    fn nothing_follows_an_error() {
        let mut fields = Fields::new(&[0x0b, 0x08, 1]);
        assert!(fields.next().unwrap().is_err());
        assert_eq!(fields.next(), None);
        assert_eq!(fields.next(), None);
    }

    proptest! {
        #[test]
        fn raw_bytes_of_the_fields_make_up_the_message(
            message in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..24], 0..200),
        ) {
            let mut copy = Vec::new();
            let mut failed = false;
            for field in Fields::new(&message) {
                match field {
                    Ok(field) => copy.extend_from_slice(field.raw),
                    Err(_) => failed = true,
                }
            }
            prop_assert!(message.starts_with(&copy));
            prop_assert!(failed || copy == message);
        }
    }
}
