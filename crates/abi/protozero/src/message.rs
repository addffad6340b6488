//! Encodes the fields of one message into a sink.

use crate::sink::{LenSlot, SMALL_LEN, Sink};
use crate::varint;

/// A message being written: fields go straight to the sink.
///
/// The thing itself is a reference and a slot; nothing is buffered. [`nested`](Self::nested) starts a child,
/// which borrows its parent until it is dropped; dropping it fills its length in. A message made by
/// [`new`](Self::new) has no length of its own: whoever made it frames it.
///
/// Field numbers are best given as constants: the tag then costs nothing at run time. They must be within
/// protobuf's 1..=2^29-1.
///
/// ```
/// # use ferretto_protozero::Message;
/// let mut bytes = Vec::new();
/// let mut event = Message::new(&mut bytes);
/// event.varint(1, 3);
/// event.nested(2).bool(7, true); // the child ends with the statement
/// drop(event);
/// assert_eq!(bytes, [0x08, 3, 0x12, 2, 0x38, 1]);
/// ```
#[derive(Debug)]
pub struct Message<'s, S: Sink> {
    sink: &'s mut S,
    slot: Option<LenSlot>,
}

/// How a field's value is encoded (protobuf encoding, "Message Structure").
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

impl<'s, S: Sink> Message<'s, S> {
    /// Starts a root message: its fields follow one another in `sink`, with no length in front.
    #[inline(always)]
    pub fn new(sink: &'s mut S) -> Self {
        Self { sink, slot: None }
    }

    /// Writes an unsigned integer or an enum's value (`uint32`, `uint64`, `enum`).
    #[inline(always)]
    pub fn varint(&mut self, field: u32, value: u64) {
        if value < 0x80 {
            self.small(field, WireType::Varint, u128::from(value), 1);
        } else {
            self.long_varint(field, value);
        }
    }

    /// Apart from [`varint`](Self::varint), to keep trace points small.
    #[inline(never)]
    fn long_varint(&mut self, field: u32, value: u64) {
        let (word, len) = varint::word(value);
        self.small(field, WireType::Varint, word, len);
    }

    /// Writes a signed integer (`int32`, `int64`). Negative ones take ten bytes.
    #[inline(always)]
    pub fn int(&mut self, field: u32, value: i64) {
        self.varint(field, value as u64);
    }

    /// Writes a signed integer of the zigzag kind (`sint32`, `sint64`).
    #[inline(always)]
    pub fn sint(&mut self, field: u32, value: i64) {
        self.varint(field, varint::zigzag(value));
    }

    /// Writes a truth value.
    #[inline(always)]
    pub fn bool(&mut self, field: u32, value: bool) {
        self.small(field, WireType::Varint, u128::from(value), 1);
    }

    /// Writes a four-byte integer (`fixed32`, `sfixed32`).
    #[inline(always)]
    pub fn fixed32(&mut self, field: u32, value: u32) {
        self.small(field, WireType::Fixed32, u128::from(value), 4);
    }

    /// Writes an eight-byte integer (`fixed64`, `sfixed64`).
    #[inline(always)]
    pub fn fixed64(&mut self, field: u32, value: u64) {
        self.small(field, WireType::Fixed64, u128::from(value), 8);
    }

    /// Writes a 64-bit floating point number.
    #[inline(always)]
    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    /// Writes a 32-bit floating point number.
    #[inline(always)]
    pub fn float(&mut self, field: u32, value: f32) {
        self.fixed32(field, value.to_bits());
    }

    /// Writes bytes, or an already encoded nested message.
    #[inline(always)]
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        self.len_prefix(field, value.len());
        self.sink.write(value);
    }

    /// Writes a string.
    #[inline(always)]
    pub fn string(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// Writes a repeated integer field in its packed form. The iterator is walked twice, first for the size.
    ///
    /// Nothing is written for an empty iterator.
    ///
    /// ```
    /// # use ferretto_protozero::Message;
    /// let mut bytes = Vec::new();
    /// Message::new(&mut bytes).packed_varints(4, [3u64, 270, 86942].into_iter());
    /// assert_eq!(bytes, [0x22, 6, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
    /// ```
    #[inline]
    pub fn packed_varints(&mut self, field: u32, values: impl Iterator<Item = u64> + Clone) {
        let size: usize = values.clone().map(varint::size).sum();
        if size == 0 {
            return;
        }
        self.len_prefix(field, size);
        for value in values {
            let (word, len) = varint::word(value);
            self.sink.write_small(word.to_le_bytes(), len);
        }
    }

    /// Starts a nested message. It ends, and gets its length, when the returned message is dropped.
    #[inline(always)]
    pub fn nested(&mut self, field: u32) -> Message<'_, S> {
        self.small(field, WireType::Bytes, 0, 0);
        let slot = self.sink.reserve_len();
        Message { sink: self.sink, slot: Some(slot) }
    }

    /// Appends fields that are already encoded.
    #[inline]
    pub fn raw(&mut self, fields: &[u8]) {
        self.sink.write(fields);
    }

    /// The sink this message writes to, for what a sink can do beyond taking bytes. Bytes written through it
    /// must be whole fields.
    #[inline]
    pub fn sink(&mut self) -> &mut S {
        self.sink
    }

    /// Ends the message; the same as dropping it.
    #[inline]
    pub fn finish(self) {
        drop(self);
    }

    /// Ends the message without filling in its length, for a sink that has given the message up.
    #[inline]
    pub fn forget(mut self) {
        self.slot = None;
        drop(self);
    }

    #[inline(always)]
    fn len_prefix(&mut self, field: u32, len: usize) {
        if len < 0x80 {
            self.small(field, WireType::Bytes, len as u128, 1);
        } else {
            self.long_len_prefix(field, len);
        }
    }

    #[inline(never)]
    fn long_len_prefix(&mut self, field: u32, len: usize) {
        let (word, word_len) = varint::word(len as u64);
        self.small(field, WireType::Bytes, word, word_len);
    }

    /// Writes a tag and a value of up to ten bytes as one piece.
    #[inline(always)]
    fn small(&mut self, field: u32, wire_type: WireType, value: u128, value_len: usize) {
        debug_assert!(field != 0 && field < 1 << 29, "field number {field} is not protobuf's");
        let (tag, tag_len) = varint::word(u64::from(field << 3 | wire_type as u32));
        let word = tag | value << (8 * tag_len);
        const { assert!(SMALL_LEN >= 5 + varint::MAX_SIZE) };
        self.sink.write_small(word.to_le_bytes(), tag_len + value_len);
    }
}

impl<S: Sink> Drop for Message<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.sink.close_len(slot);
        }
    }
}
