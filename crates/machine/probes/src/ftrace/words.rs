//! Bytes that are put down a word at a time: what encoded events gather in before they go into shared memory.
//!
//! Fields of events take one to eight bytes. Copying so few costs more than encoding them: a call for each run of unknown length, or a
//! load of what has just been stored in halves. Here a whole word is stored, and the next one begins where the first one's bytes end.

use ferretto_protozero::{LenSlot, MAX_LEN, SMALL_LEN, Sink, varint};

/// Protobuf's wire types of varints and of anything with a length.
pub(crate) const VARINT: u32 = 0;
pub(crate) const BYTES: u32 = 2;
/// Values below this take one byte.
const ONE_BYTE_LIMIT: u64 = 0x80;
/// Values below this take at most eight.
const WORD_LIMIT: u64 = 1 << 56;
/// The least that the memory grows by.
const MIN_GROWTH: usize = 256;
/// A nested message's length is reserved as so many bytes.
const SLOT_LEN: usize = 4;

/// A vector of bytes with room behind its end.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// What lies behind `len` is of no meaning.
    bytes: Vec<u8>,
    len: usize,
}

impl Words {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Forgets the bytes and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends the lowest `len` bytes of a word, eight at most.
    #[inline(always)]
    pub(crate) fn put(&mut self, word: u64, len: usize) {
        if let Some(room) = self.room() {
            *room = word.to_le_bytes();
            self.len += len.min(8);
        }
    }

    /// Appends the lowest `len` bytes of two words, sixteen at most.
    #[inline(always)]
    pub(crate) fn put_wide(&mut self, word: u128, len: usize) {
        if let Some(room) = self.room() {
            *room = word.to_le_bytes();
            self.len += len.min(16);
        }
    }

    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if self.bytes.len() < end {
            self.grow(end);
        }
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.copy_from_slice(bytes);
            self.len = end;
        }
    }

    /// Appends a varint.
    #[inline(always)]
    pub(crate) fn put_varint(&mut self, value: u64) {
        match word(value) {
            Some((word, len)) => self.put(word, len),
            None => self.put_long_varint(value),
        }
    }

    #[inline(never)]
    fn put_long_varint(&mut self, value: u64) {
        let (word, len) = varint::word(value);
        self.put_wide(word, len);
    }

    /// Appends a field that is a number.
    #[inline(always)]
    pub(crate) fn varint(&mut self, field: u32, value: u64) {
        let tag = tag(field, VARINT);
        match word(value) {
            Some((word, len)) if tag < ONE_BYTE_LIMIT && len < 8 => self.put(tag | word << 8, 1 + len),
            _ => {
                self.put_varint(tag);
                self.put_varint(value);
            }
        }
    }

    /// Appends a field that is a number with a sign, `int32` or `int64`.
    #[inline(always)]
    pub(crate) fn int(&mut self, field: u32, value: i64) {
        self.varint(field, value.cast_unsigned());
    }

    /// Appends a field of bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.put_varint(tag(field, BYTES));
        self.put_varint(bytes.len() as u64);
        self.put_bytes(bytes);
    }

    /// Appends a field of at most sixteen bytes, the lowest `len` of two words.
    #[inline(always)]
    pub(crate) fn short_bytes(&mut self, field: u32, word: u128, len: usize) {
        let tag = tag(field, BYTES);
        if tag < ONE_BYTE_LIMIT {
            self.put(tag | (len as u64) << 8, 2);
        } else {
            self.put_varint(tag);
            self.put(len as u64, 1);
        }
        self.put_wide(word, len);
    }

    /// Begins a nested message, with one byte for its length; gives where its first field is.
    #[inline(always)]
    pub(crate) fn begin(&mut self, field: u32) -> usize {
        let tag = tag(field, BYTES);
        if tag < ONE_BYTE_LIMIT {
            self.put(tag, 2);
        } else {
            self.put_varint(tag);
            self.put(0, 1);
        }
        self.len
    }

    /// Ends the nested message that [`begin`](Self::begin) gave the start of. Those within it have ended before.
    #[inline(always)]
    pub(crate) fn end(&mut self, start: usize) {
        let len = self.len.saturating_sub(start);
        match start.checked_sub(1).and_then(|place| self.bytes.get_mut(place)) {
            Some(place) if len < ONE_BYTE_LIMIT as usize => *place = len as u8,
            _ => self.end_long(start, len),
        }
    }

    /// The length takes more than the one byte that it was given.
    #[cold]
    fn end_long(&mut self, start: usize, len: usize) {
        let (word, size) = varint::word(len as u64);
        let more = size.saturating_sub(1);
        self.put_wide(0, more);
        let place = start.saturating_sub(1);
        if start + len + more <= self.bytes.len() {
            self.bytes.copy_within(start..start + len, start + more);
        }
        let word = word.to_le_bytes();
        if let (Some(place), Some(word)) = (self.bytes.get_mut(place..place + size), word.get(..size)) {
            place.copy_from_slice(word);
        }
    }

    /// Appends what was written into [`room`](Self::room).
    #[inline(always)]
    pub(crate) fn advance(&mut self, len: usize) {
        self.len = (self.len + len).min(self.bytes.len());
    }

    /// The bytes behind the end: always there.
    #[inline(always)]
    pub(crate) fn room<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        if self.bytes.len() < self.len + N {
            self.grow(self.len + N);
        }
        self.bytes.get_mut(self.len..)?.first_chunk_mut()
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, to: usize) {
        self.bytes.resize(to.max(2 * self.bytes.len()) + MIN_GROWTH, 0);
    }
}

/// A varint of up to eight bytes, the others zero, and its length. Most numbers are small, and have a shorter way than through all of the
/// word; `None` for the few that are longer.
#[inline(always)]
pub(crate) fn word(value: u64) -> Option<(u64, usize)> {
    if value < ONE_BYTE_LIMIT {
        return Some((value, 1));
    }
    let low = (value & 0x7f) | (value << 1 & 0x7f00);
    if value < 1 << 14 {
        return Some((low | 0x80, 2));
    }
    if value < 1 << 21 {
        return Some((low | (value << 2 & 0x7f_0000) | 0x8080, 3));
    }
    let (word, len) = varint::word(value);
    (value < WORD_LIMIT).then_some((word as u64, len))
}

/// What precedes a field's value.
#[inline(always)]
pub(crate) fn tag(field: u32, wire_type: u32) -> u64 {
    u64::from(field << 3 | wire_type)
}

impl Sink for Words {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.put_bytes(bytes);
    }

    #[inline(always)]
    fn write_small(&mut self, bytes: [u8; SMALL_LEN], len: usize) {
        self.put_wide(u128::from_le_bytes(bytes), len);
    }

    fn reserve_len(&mut self) -> LenSlot {
        self.put(0, SLOT_LEN);
        LenSlot { range: 0, offset: 0, start: self.len as u64 }
    }

    fn close_len(&mut self, slot: LenSlot) {
        let start = slot.start as usize;
        let len = self.len.saturating_sub(start).min(MAX_LEN as usize);
        let Some(place) = start.checked_sub(SLOT_LEN) else { return };
        if let Some(place) = self.bytes.get_mut(place..start) {
            place.copy_from_slice(&varint::redundant4(len as u32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_protozero::Message;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Field {
        Varint(u32, u64),
        Bytes(u32, Vec<u8>),
        Short(u32, u128, usize),
        Nested(u32, Vec<Self>),
    }

    fn field() -> impl Strategy<Value = Field> {
        let number = prop_oneof![1u32..40, Just(65_536u32)];
        let value = (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift);
        let leaf = prop_oneof![
            (number.clone(), value).prop_map(|(n, value)| Field::Varint(n, value)),
            (number.clone(), proptest::collection::vec(any::<u8>(), 0..200))
                .prop_map(|(n, bytes)| Field::Bytes(n, bytes)),
            (number.clone(), any::<u128>(), 0usize..=16)
                .prop_map(|(n, word, len)| Field::Short(n, word, len)),
        ];
        leaf.prop_recursive(3, 40, 8, move |inner| {
            (number.clone(), proptest::collection::vec(inner, 0..8))
                .prop_map(|(n, fields)| Field::Nested(n, fields))
        })
    }

    fn write(out: &mut Words, fields: &[Field]) {
        for field in fields {
            match field {
                Field::Varint(number, value) => out.varint(*number, *value),
                Field::Bytes(number, bytes) => out.bytes(*number, bytes),
                Field::Short(number, word, len) => out.short_bytes(*number, *word, *len),
                Field::Nested(number, fields) => {
                    let start = out.begin(*number);
                    write(out, fields);
                    out.end(start);
                }
            }
        }
    }

    fn model(fields: &[Field]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Message::new(&mut bytes);
        for field in fields {
            match field {
                Field::Varint(number, value) => out.varint(*number, *value),
                Field::Bytes(number, bytes) => out.bytes(*number, bytes),
                Field::Short(number, word, len) => out.bytes(*number, &word.to_le_bytes()[..*len]),
                Field::Nested(number, fields) => out.bytes(*number, &model(fields)),
            }
        }
        drop(out);
        bytes
    }

    proptest! {
        #[test]
        fn fields_are_those_of_a_message(fields in proptest::collection::vec(field(), 0..12)) {
            let mut out = Words::default();
            write(&mut out, &fields);
            prop_assert_eq!(out.as_slice(), model(&fields));
            prop_assert_eq!(out.is_empty(), out.as_slice().is_empty());
        }

        #[test]
        fn it_is_a_sink_like_any_other(values in proptest::collection::vec(any::<u64>(), 0..40)) {
            let mut out = Words::default();
            for _ in 0..2 {
                let mut message = Message::new(&mut out);
                values.iter().for_each(|&value| message.nested(1).varint(2, value));
            }
            let nested = ferretto_protozero::read::Fields::new(out.as_slice()).count();
            prop_assert_eq!(nested, 2 * values.len());
        }
    }
}
