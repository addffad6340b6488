//! The fields of a message, for those who read every packet: a number and a value, and no more.
//!
//! [`ferretto_protozero::read::Fields`] also keeps each field's bytes and says what is wrong with a malformed one. That is most of its time,
//! and it lives in a crate of which programs that are traced want little code. Here the fields that traces consist of (numbers of one or two
//! bytes, varints, short messages) are read where the loop stands, so that number and value stay in registers. All others are read by the
//! other reader, so that both agree on what a field is.

use ferretto_protozero::read;
pub use ferretto_protozero::read::Value;
use ferretto_protozero::varint::MAX_SIZE;

/// Iterates over the fields of one message in the order of their bytes.
///
/// What is whole before a malformed field comes out, then one error, then nothing.
///
/// ```
/// use ferretto_trace_read::fields::{Field, Fields, Malformed, Value};
///
/// let mut fields = Fields::new(&[0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x08]);
/// assert_eq!(fields.next(), Some(Ok(Field { number: 1, value: Value::Varint(150) })));
/// assert_eq!(fields.next(), Some(Ok(Field { number: 2, value: Value::Bytes(b"hi") })));
/// assert_eq!(fields.next(), Some(Err(Malformed { offset: 7 })));
/// assert_eq!(fields.next(), None);
/// ```
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    len: usize,
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its number, 1..=[`read::MAX_FIELD_NUMBER`].
    pub number: u32,
    /// Its value, as far as it is known without a schema.
    pub value: Value<'a>,
}

/// A message cannot be read on. [`read::Fields`] says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where the field begins, in bytes from the start of the message.
    pub offset: usize,
}

impl<'a> Fields<'a> {
    /// Starts at the first field of `message`.
    #[inline(always)]
    #[must_use]
    pub const fn new(message: &'a [u8]) -> Self {
        Self { rest: message, len: message.len() }
    }

    /// The offset of the next field from the start of the message.
    #[inline(always)]
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.len - self.rest.len()
    }

    /// The first byte of the next field: its tag, if that is one byte.
    #[inline(always)]
    #[must_use]
    pub const fn first_byte(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Takes the next field, whose tag is one byte and says that it is a number. Nothing is taken if it is malformed.
    #[inline(always)]
    pub fn take_number(&mut self) -> Option<u64> {
        let (value, rest) = match self.rest {
            [_, one @ 0..0x80, rest @ ..] => (u64::from(*one), rest),
            [_, one, two @ 0..0x80, rest @ ..] => (u64::from(*one & 0x7f) | u64::from(*two) << 7, rest),
            [_, rest @ ..] => longer(rest)?,
            [] => return None,
        };
        self.rest = rest;
        Some(value)
    }

    /// Takes the next field if its tag is these two bytes, which say that it is a number. Nothing is taken if it is malformed.
    #[inline(always)]
    pub fn number_of_two(&mut self, tag: [u8; 2]) -> Option<u64> {
        let (first, rest) = self.rest.split_first_chunk()?;
        if *first != tag {
            return None;
        }
        let (value, rest) = varint(rest)?;
        self.rest = rest;
        Some(value)
    }

    /// Takes the next field if its tag is these two bytes, which say that it has eight bytes.
    #[inline(always)]
    pub fn fixed64_of_two(&mut self, tag: [u8; 2]) -> Option<u64> {
        let (first, rest) = self.rest.split_first_chunk()?;
        if *first != tag {
            return None;
        }
        let (value, rest) = rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*value))
    }

    /// Takes the next field, whose tag is one byte and says that it has eight bytes. Nothing is taken if it is malformed.
    #[inline(always)]
    pub fn take_fixed64(&mut self) -> Option<u64> {
        let (_, rest) = self.rest.split_first()?;
        let (value, rest) = rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*value))
    }

    /// Takes the next field, whose tag is one byte and says that it is a message. Nothing is taken if it is malformed or long.
    #[inline(always)]
    pub fn take_message(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = match self.rest {
            [_, one @ 0..0x80, rest @ ..] => (u32::from(*one), rest),
            [_, rest @ ..] => short(rest)?,
            [] => return None,
        };
        let (value, rest) = rest.split_at_checked(length as usize)?;
        self.rest = rest;
        Some(value)
    }

    /// Takes the next field if its tag is this byte, which says that it is a number.
    #[inline(always)]
    pub fn number_of(&mut self, tag: u8) -> Option<u64> {
        if self.first_byte()? == tag { self.take_number() } else { None }
    }

    /// Takes the next field if its tag is this byte, which says that it is a message, and not a long one.
    #[inline(always)]
    pub fn message_of(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.first_byte()? == tag { self.take_message() } else { None }
    }

    /// The fields that are whole: up to the first that is malformed.
    #[inline(always)]
    #[must_use]
    pub const fn whole(self) -> Whole<'a> {
        Whole(self)
    }
}

/// Iterates over numbers that are packed into one value, up to the first that has no end, as [`read::PackedVarints`] does: for columns of
/// thousands.
#[derive(Clone, Debug)]
pub struct Packed<'a>(&'a [u8]);

impl<'a> Packed<'a> {
    /// Starts at the first number.
    #[inline(always)]
    #[must_use]
    pub const fn new(value: &'a [u8]) -> Self {
        Self(value)
    }
}

impl Iterator for Packed<'_> {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        let (number, rest) = varint(self.0)?;
        self.0 = rest;
        Some(number)
    }
}

/// Iterates over the fields of one message up to the first that is malformed. See [`Fields::whole`].
#[derive(Clone, Debug)]
pub struct Whole<'a>(Fields<'a>);

impl<'a> Iterator for Whole<'a> {
    type Item = Field<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()?.ok()
    }
}

impl std::iter::FusedIterator for Whole<'_> {}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    // The state goes to no other function by reference: it would have to be in memory.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let taken = match usual(self.rest) {
            None => unusual(self.rest),
            taken => taken,
        };
        Some(match taken {
            Some((field, rest)) => {
                self.rest = rest;
                Ok(field)
            }
            None => {
                let offset = self.offset();
                (self.rest, self.len) = (&[], 0);
                Err(Malformed { offset })
            }
        })
    }
}

impl std::iter::FusedIterator for Fields<'_> {}

/// A field and what follows it.
type Taken<'a> = Option<(Field<'a>, &'a [u8])>;

/// The first field, if it is of the kinds that traces consist of.
#[inline(always)]
fn usual(bytes: &[u8]) -> Taken<'_> {
    let (tag, rest) = short(bytes)?;
    let (value, rest) = match tag & 7 {
        0 => {
            let (value, rest) = varint(rest)?;
            (Value::Varint(value), rest)
        }
        2 => {
            let (length, rest) = short(rest)?;
            let (value, rest) = rest.split_at_checked(length as usize)?;
            (Value::Bytes(value), rest)
        }
        1 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Value::Fixed64(u64::from_le_bytes(*value)), rest)
        }
        5 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Value::Fixed32(u32::from_le_bytes(*value)), rest)
        }
        _ => return None,
    };
    match tag >> 3 {
        0 => None,
        number => Some((Field { number, value }, rest)),
    }
}

/// The first field, whatever it is; nothing if it is malformed.
#[cold]
#[inline(never)]
fn unusual(bytes: &[u8]) -> Taken<'_> {
    let mut fields = read::Fields::new(bytes);
    let read::Field { number, value, .. } = fields.next()?.ok()?;
    Some((Field { number, value }, fields.remaining()))
}

/// A varint of one or two bytes.
#[inline(always)]
fn short(bytes: &[u8]) -> Option<(u32, &[u8])> {
    match bytes {
        [one @ 0..0x80, rest @ ..] => Some((u32::from(*one), rest)),
        [one, two @ 0..0x80, rest @ ..] => Some((u32::from(*one & 0x7f) | u32::from(*two) << 7, rest)),
        _ => None,
    }
}

#[inline(always)]
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    if let Some((value, rest)) = short(bytes) {
        return Some((u64::from(value), rest));
    }
    longer(bytes)
}

/// The same of more than two bytes.
#[inline(always)]
fn longer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (value, len) = long(bytes);
    match len {
        0 => None,
        len => Some((value, bytes.get(len..)?)),
    }
}

/// The high bit of each byte: set where a varint goes on.
const GOES_ON: u64 = 0x8080_8080_8080_8080;

/// A varint and its length, which is 0 if it has no end: a pair of numbers comes back in registers, an `Option` of it would not.
#[inline(never)]
fn long(bytes: &[u8]) -> (u64, usize) {
    // Timestamps have 7 to 9 bytes: take 8 at once.
    let Some((first, rest)) = bytes.split_first_chunk() else { return at_end(bytes) };
    let word = u64::from_le_bytes(*first);
    let end = !word & GOES_ON;
    if end != 0 {
        // All bits up to the last byte's high one, which is 0.
        return (gather(word & (end ^ (end - 1))), end.trailing_zeros() as usize / 8 + 1);
    }
    // Uuids have 9 or 10.
    let low = gather(word);
    match rest {
        [nine @ 0..0x80, ..] => (low | u64::from(*nine) << 56, 9),
        [nine, ten @ 0..0x80, ..] => (low | u64::from(*nine & 0x7f) << 56 | u64::from(*ten) << 63, MAX_SIZE),
        _ => (0, 0),
    }
}

/// The same where a message ends: of fewer than eight bytes, four from either end are all of them.
#[inline]
fn at_end(bytes: &[u8]) -> (u64, usize) {
    let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else { return plain(bytes) };
    let [first, last] = [*first, *last].map(|four| u64::from(u32::from_le_bytes(four)));
    let word = first | last << (8 * (bytes.len() - 4));
    // The eighth byte is 0, and ends it at the latest.
    let end = !word & GOES_ON;
    match end.trailing_zeros() as usize / 8 + 1 {
        len if len > bytes.len() => (0, 0),
        len => (gather(word & (end ^ (end - 1))), len),
    }
}

/// The same of fewer than four bytes.
#[inline]
fn plain(bytes: &[u8]) -> (u64, usize) {
    let bits = |byte: u8| u64::from(byte & 0x7f);
    match *bytes {
        [one @ 0..0x80, ..] => (bits(one), 1),
        [one, two @ 0..0x80, ..] => (bits(one) | bits(two) << 7, 2),
        [one, two, three @ 0..0x80] => (bits(one) | bits(two) << 7 | bits(three) << 14, 3),
        _ => (0, 0),
    }
}

/// The lower seven bits of each byte, side by side.
#[inline(always)]
const fn gather(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
    (word & 0x0000_0000_0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;
    use ferretto_protozero::read::ReadError;
    use proptest::prelude::*;

    use super::*;

    /// What the other reader says.
    fn thorough(message: &[u8]) -> Vec<Result<Field<'_>, Malformed>> {
        let malformed = |error| match error {
            ReadError::Truncated { offset }
            | ReadError::LengthBeyondEnd { offset, .. }
            | ReadError::BadFieldNumber { offset, .. }
            | ReadError::BadWireType { offset, .. } => Malformed { offset },
        };
        let fields = read::Fields::new(message);
        fields
            .map(|field| match field {
                Ok(read::Field { number, value, .. }) => Ok(Field { number, value }),
                Err(error) => Err(malformed(error)),
            })
            .collect()
    }

    fn agrees(message: &[u8]) {
        assert_eq!(Fields::new(message).collect::<Vec<_>>(), thorough(message), "{message:x?}");
        let whole: Vec<_> = thorough(message).into_iter().flatten().collect();
        assert_eq!(Fields::new(message).whole().collect::<Vec<_>>(), whole, "{message:x?}");
    }

    #[test]
    fn each_way_to_be_malformed_is_an_error_that_says_where() {
        let malformed: &[&[u8]] = &[
            &[0x08],
            &[0x88],
            &[0x08, 0x80],
            &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
            &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
            &[0x09, 1, 2, 3, 4, 5, 6, 7],
            &[0x0d, 1, 2, 3],
            &[0x12, 3, 1, 2],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 7],
            &[0x00, 1],
            &[0x80, 0x00, 1],
            &[0x82, 0x00, 1, 1],
            &[0x80, 0x80, 0x80, 0x80, 0x10, 1],
            &[0x0b],
            &[0x0c],
            &[0x0e],
            &[0x0f],
        ];
        for tail in malformed {
            let message = [&[0x08, 1, 0x12, 1, 7], *tail].concat();
            agrees(&message);
            let mut fields = Fields::new(&message).skip(2);
            assert_eq!(fields.next(), Some(Err(Malformed { offset: 5 })), "{tail:x?}");
            assert_eq!((fields.next(), fields.next()), (None, None));
        }
    }

    #[test]
    fn numbers_of_each_length_are_read_whatever_follows() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                for padding in 0..12 {
                    let mut message = Vec::new();
                    Message::new(&mut message).varint(11, value);
                    message.extend([0x08, 0x01].repeat(padding));
                    agrees(&message);
                    let first = Fields::new(&message).next();
                    assert_eq!(first, Some(Ok(Field { number: 11, value: Value::Varint(value) })));
                }
            }
        }
    }

    #[test]
    fn a_number_behind_a_tag_of_two_bytes_is_taken_if_it_is_that_one() {
        let message = [0xf8, 0x04, 0x96, 0x01, 0x08, 0x01, 0xf8, 0x04, 0x80];
        let mut fields = Fields::new(&message);
        assert_eq!(fields.number_of_two([0xf8, 0x05]), None);
        assert_eq!(fields.number_of_two([0xf8, 0x04]), Some(150));
        assert_eq!((fields.number_of_two([0xf8, 0x04]), fields.offset()), (None, 4));
        fields.next();
        assert_eq!((fields.number_of_two([0xf8, 0x04]), fields.offset()), (None, 6));
    }

    #[test]
    fn the_offset_is_that_of_the_next_field() {
        let mut fields = Fields::new(&[0x08, 0x96, 0x01, 0x12, 0x01, 7]);
        let offsets = [(); 4].map(|()| {
            let offset = fields.offset();
            fields.next();
            offset
        });
        assert_eq!(offsets, [0, 3, 6, 6]);
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_other_reader_on_any_bytes(
            message in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..24, Just(0x80)], 0..200),
        ) {
            agrees(&message);
        }

        #[test]
        fn and_on_messages_that_are_cut_off(
            fields in proptest::collection::vec((1u32..5000, any::<u64>(), 0u32..64, 0usize..300), 0..20),
            cut in 0usize..100,
        ) {
            let mut bytes = Vec::new();
            let mut message = Message::new(&mut bytes);
            for (number, value, shift, len) in fields {
                match value % 3 {
                    0 => message.bytes(number, &vec![0x80; len]),
                    _ => message.varint(number, value >> shift),
                }
            }
            drop(message);
            agrees(&bytes);
            agrees(&bytes[..bytes.len().saturating_sub(cut)]);
        }
    }
}
