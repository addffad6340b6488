//! Repeated numbers, packed or one by one.

use ferretto_protozero::varint;
use ferretto_trace_read::fields::Value;

/// The numbers of a packed field.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed<'a>(pub(crate) &'a [u8]);

impl Iterator for Packed<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        // One byte or two are the rule in the columns of scheduling.
        match self.0 {
            [byte @ 0..0x80, rest @ ..] => {
                self.0 = rest;
                return Some(u64::from(*byte));
            }
            [low, high @ 0..0x80, rest @ ..] => {
                self.0 = rest;
                return Some(u64::from(low & 0x7f) | u64::from(*high) << 7);
            }
            // Times between two events of a CPU.
            [low, middle, high @ 0..0x80, rest @ ..] => {
                self.0 = rest;
                let low = u64::from(low & 0x7f) | u64::from(middle & 0x7f) << 7;
                return Some(low | u64::from(*high) << 14);
            }
            _ => {}
        }
        let (value, len) = varint::decode(self.0)?;
        self.0 = self.0.get(len..).unwrap_or_default();
        Some(value)
    }
}

/// Calls `f` with each number of a field, written either way.
#[inline]
pub(crate) fn each(value: Value<'_>, f: impl FnMut(u64)) {
    match value {
        Value::Bytes(packed) => Packed(packed).for_each(f),
        value => value.as_u64().into_iter().for_each(f),
    }
}
