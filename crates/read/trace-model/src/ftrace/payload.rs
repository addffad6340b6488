//! The fields of an event, by number.

use ferretto_trace_read::fields::{Fields, Value};
use ferretto_trace_tables::{Str, Strings};

/// Fields of higher numbers are not looked at here: no event that is read by its fields has them.
const MAX_FIELDS: usize = 16;

/// An event's fields. Of one that comes twice the last one counts; one that is missing is 0.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    numbers: [u64; MAX_FIELDS],
    texts: [&'a [u8]; MAX_FIELDS],
    is_there: u16,
}

impl<'a> Payload<'a> {
    /// Reads them.
    #[must_use]
    pub fn of(message: &'a [u8]) -> Self {
        let mut payload = Self { numbers: [0; MAX_FIELDS], texts: [&[]; MAX_FIELDS], is_there: 0 };
        for part in Fields::new(message).whole() {
            let number = part.number as usize;
            if number >= MAX_FIELDS {
                continue;
            }
            payload.is_there |= 1 << number;
            match part.value {
                Value::Bytes(bytes) => payload.texts[number] = bytes,
                value => payload.numbers[number] = value.as_u64().unwrap_or(0),
            }
        }
        payload
    }

    /// Whether a field is there.
    #[must_use]
    pub fn has(&self, field: u32) -> bool {
        field < MAX_FIELDS as u32 && self.is_there >> field & 1 != 0
    }

    /// A number.
    #[must_use]
    pub fn u64(&self, field: u32) -> u64 {
        self.numbers.get(field as usize).copied().unwrap_or(0)
    }

    /// A signed number.
    #[must_use]
    pub fn i64(&self, field: u32) -> i64 {
        self.u64(field) as i64
    }

    /// A number of 32 bits.
    #[must_use]
    pub fn u32(&self, field: u32) -> u32 {
        self.u64(field) as u32
    }

    /// A signed number of 32 bits.
    #[must_use]
    pub fn i32(&self, field: u32) -> i32 {
        self.u64(field) as i32
    }

    /// A thread's or process's number: the kernel's are not negative.
    #[must_use]
    pub fn tid(&self, field: u32) -> i64 {
        i64::from(self.u32(field))
    }

    /// A text's bytes.
    #[must_use]
    pub fn bytes(&self, field: u32) -> &'a [u8] {
        self.texts.get(field as usize).copied().unwrap_or_default()
    }

    /// A text, for what is made of it.
    #[must_use]
    pub fn text(&self, field: u32) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.bytes(field))
    }

    /// A text; nothing if the field is missing.
    #[must_use]
    pub fn name(&self, field: u32, strings: &mut Strings) -> Option<Str> {
        self.has(field).then(|| strings.intern_bytes(self.bytes(field)))
    }
}
