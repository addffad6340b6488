//! Control messages, with little code: there are many kinds of them and few of each, so that what programs carry around of them counts,
//! and not what one costs.

use std::error::Error;
use std::fmt;

use crate::read::{Fields, PackedVarints, Value};
use crate::varint;

/// Why a control message makes no sense. Small, as it is in the way of all results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// It is cut off, or no message.
    Malformed {
        /// Where the field begins that cannot be read, in bytes from the start of the message.
        offset: u32,
    },
    /// A field has another type than this build knows, or its text is not UTF-8.
    Type {
        /// The field's number.
        number: u32,
    },
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { offset } => write!(f, "the message is cut off or corrupt at byte {offset}"),
            Self::Type { number } => {
                write!(f, "field {number} has another type than expected, or its text is not UTF-8")
            }
        }
    }
}

impl Error for ControlError {}

/// Reads a message, field by field.
///
/// ```
/// use ferretto_protozero::control::{ControlError, Reader};
///
/// let (mut id, mut name) = (0, "");
/// let mut field = Reader::new(b"\x08\x96\x01\x12\x02hi");
/// while field.next()? {
///     match field.number {
///         1 => id = field.integer()?,
///         2 => name = field.text()?,
///         _ => {}
///     }
/// }
/// assert_eq!((id, name), (150, "hi"));
/// # Ok::<(), ControlError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    fields: Fields<'a>,
    /// The number of the field that was read last; 0 before the first.
    pub number: u32,
    value: Value<'a>,
}

impl<'a> Reader<'a> {
    /// Starts before the first field.
    pub fn new(message: &'a [u8]) -> Self {
        Self { fields: Fields::new(message), number: 0, value: Value::Varint(0) }
    }

    /// Goes to the next field; `false` at the end.
    #[expect(
        clippy::should_implement_trait,
        reason = "what was read stays here, where it need not be copied"
    )]
    #[inline(never)]
    pub fn next(&mut self) -> Result<bool, ControlError> {
        let offset = self.fields.offset();
        match self.fields.next() {
            Some(Ok(field)) => (self.number, self.value) = (field.number, field.value),
            Some(Err(_)) => {
                return Err(ControlError::Malformed { offset: u32::try_from(offset).unwrap_or(u32::MAX) });
            }
            None => return Ok(false),
        }
        Ok(true)
    }

    /// The value, if the field is an integer, a truth value or an enum.
    #[inline(never)]
    pub fn integer(&self) -> Result<u64, ControlError> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(self.wrong_type()),
        }
    }

    /// The value, if the field is a truth value.
    #[inline(never)]
    pub fn truth(&self) -> Result<bool, ControlError> {
        Ok(self.integer()? != 0)
    }

    /// Adds the values of a repeated integer field, packed or not.
    #[inline(never)]
    pub fn integers(&self, values: &mut Vec<u64>) -> Result<(), ControlError> {
        match self.value {
            Value::Varint(value) => values.push(value),
            Value::Bytes(packed) => {
                for value in PackedVarints::new(packed) {
                    values.push(value.ok_or(self.wrong_type())?);
                }
            }
            _ => return Err(self.wrong_type()),
        }
        Ok(())
    }

    /// The value, if the field is a string, bytes or a message.
    #[inline(never)]
    pub fn bytes(&self) -> Result<&'a [u8], ControlError> {
        self.value.as_bytes().ok_or(self.wrong_type())
    }

    /// The value, if the field is a string.
    #[inline(never)]
    pub fn text(&self) -> Result<&'a str, ControlError> {
        str::from_utf8(self.bytes()?).map_err(|_| self.wrong_type())
    }

    fn wrong_type(&self) -> ControlError {
        ControlError::Type { number: self.number }
    }
}

/// Writes a message.
///
/// ```
/// use ferretto_protozero::control::Writer;
/// let mut child = Writer::new();
/// child.integer(1, 7);
/// let mut message = Writer::new();
/// message.integer(1, 150).text(2, "hi").message(3, &child);
/// assert_eq!(message.into_bytes(), b"\x08\x96\x01\x12\x02hi\x1a\x02\x08\x07");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty message.
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Adds an integer or an enum's value.
    pub fn integer(&mut self, field: u32, value: u64) -> &mut Self {
        self.put(field, 0, value)
    }

    /// Adds a signed integer (`int32`, `int64`).
    pub fn signed(&mut self, field: u32, value: i64) -> &mut Self {
        self.put(field, 0, value as u64)
    }

    /// Adds a truth value.
    pub fn truth(&mut self, field: u32, value: bool) -> &mut Self {
        self.put(field, 0, value.into())
    }

    /// Adds bytes, or an encoded message.
    #[inline(never)]
    pub fn bytes(&mut self, field: u32, value: &[u8]) -> &mut Self {
        self.put(field, 2, value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    /// Adds a string.
    pub fn text(&mut self, field: u32, value: &str) -> &mut Self {
        self.bytes(field, value.as_bytes())
    }

    /// Adds a nested message.
    pub fn message(&mut self, field: u32, value: &Self) -> &mut Self {
        self.bytes(field, &value.bytes)
    }

    /// Adds the beginning of bytes, or of a message: so many bytes are still to come.
    pub fn prefix(&mut self, field: u32, len: usize) -> &mut Self {
        self.put(field, 2, len as u64)
    }

    /// Adds fields that are encoded already.
    pub fn raw(&mut self, fields: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(fields);
        self
    }

    /// The message so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The message.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    #[inline(never)]
    fn put(&mut self, field: u32, wire_type: u32, value: u64) -> &mut Self {
        for part in [u64::from(field << 3 | wire_type), value] {
            varint::encode(part, &mut self.bytes);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        message: &[u8],
        pick: impl Fn(&Reader<'_>) -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        let mut field = Reader::new(message);
        while field.next()? {
            pick(&field)?;
        }
        Ok(())
    }

    #[test]
    fn a_field_of_another_type_is_an_error_that_names_it() {
        let mut message = Writer::new();
        message.integer(3, 1).bytes(4, &[0xff]);
        let message = message.as_bytes();
        assert_eq!(read(message, |field| field.bytes().map(drop)), Err(ControlError::Type { number: 3 }));
        assert_eq!(read(message, |field| field.integer().map(drop)), Err(ControlError::Type { number: 4 }));
        let text = |field: &Reader<'_>| if field.number == 4 { field.text().map(drop) } else { Ok(()) };
        assert_eq!(read(message, text), Err(ControlError::Type { number: 4 }));
    }

    #[test]
    fn repeated_integers_may_be_packed() {
        let mut message = Writer::new();
        message.integer(1, 300).bytes(1, &[0xac, 0x02, 7]);
        let mut values = Vec::new();
        let mut field = Reader::new(message.as_bytes());
        while field.next().unwrap() {
            field.integers(&mut values).unwrap();
        }
        assert_eq!(values, [300, 300, 7]);
        message.bytes(1, &[0x80]);
        let integers = |field: &Reader<'_>| field.integers(&mut Vec::new());
        assert_eq!(read(message.as_bytes(), integers), Err(ControlError::Type { number: 1 }));
    }

    #[test]
    fn a_message_that_is_cut_off_is_an_error_that_says_where() {
        let mut message = Writer::new();
        message.integer(1, 5);
        let start = message.as_bytes().len();
        let message = message.text(2, "hello").as_bytes();
        for end in start + 1..message.len() {
            let expected = ControlError::Malformed { offset: start as u32 };
            assert_eq!(read(&message[..end], |_| Ok(())), Err(expected), "{end}");
        }
    }
}
