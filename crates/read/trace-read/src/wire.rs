//! Small helpers for reading messages of rare packets: whole fields of a known number, numbers in the width that they are declared with.

use ferretto_protozero::read::{Field, Fields, PackedVarints, Value};

/// The fields of a message up to the first that is malformed.
pub fn fields(message: &[u8]) -> impl Iterator<Item = Field<'_>> + Clone {
    Fields::new(message).map_while(Result::ok)
}

/// All values of a field that is a message, a text or bytes.
pub fn all_bytes(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    fields(message).filter(move |field| field.number == number).filter_map(|field| field.value.as_bytes())
}

/// The last value of a field that is a message, a text or bytes.
#[must_use]
pub fn bytes(message: &[u8], number: u32) -> Option<&[u8]> {
    all_bytes(message, number).last()
}

/// The last value of a field that is a number.
#[must_use]
pub fn number(message: &[u8], number: u32) -> Option<u64> {
    fields(message).filter(|field| field.number == number).filter_map(|field| field.value.as_u64()).last()
}

/// The same, of a signed number: negative ones are written with 64 bits.
#[must_use]
pub fn int(message: &[u8], field: u32) -> Option<i64> {
    number(message, field).map(|value| value as i64)
}

/// All numbers of a repeated field, whether they were packed or not.
pub fn all_numbers(message: &[u8], number: u32) -> impl Iterator<Item = u64> {
    fields(message).filter(move |field| field.number == number).flat_map(|field| numbers_of(field.value))
}

/// The numbers in one value of a repeated field: one, or those that are packed into it.
pub fn numbers_of(value: Value<'_>) -> impl Iterator<Item = u64> {
    let packed = value.as_bytes().unwrap_or_default();
    value.as_u64().into_iter().chain(PackedVarints::new(packed).map_while(|number| number))
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;

    use super::*;

    #[test]
    fn the_last_value_counts_and_repeated_ones_may_be_packed() {
        let mut packet = Vec::new();
        let mut message = Message::new(&mut packet);
        message.varint(1, 5);
        message.bytes(2, b"one");
        message.varint(1, 6);
        message.bytes(1, &[7, 8]);
        message.varint(3, u64::MAX);
        message.bytes(2, b"two");
        drop(message);
        assert_eq!((number(&packet, 1), int(&packet, 3), number(&packet, 4)), (Some(6), Some(-1), None));
        assert_eq!(all_numbers(&packet, 1).collect::<Vec<_>>(), [5, 6, 7, 8]);
        assert_eq!(bytes(&packet, 2), Some(&b"two"[..]));
        assert_eq!(all_bytes(&packet, 2).count(), 2);
        packet.push(0x08);
        assert_eq!(number(&packet, 1), Some(6));
    }
}
