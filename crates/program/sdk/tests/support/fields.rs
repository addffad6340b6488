//! Reads fields of a message that is known to be whole, by their numbers.

use ferretto_protozero::read::{Fields, Value};

pub(crate) fn values(message: &[u8], number: u32) -> impl Iterator<Item = Value<'_>> {
    Fields::new(message)
        .map(Result::unwrap)
        .filter(move |field| field.number == number)
        .map(|field| field.value)
}

pub(crate) fn int(message: &[u8], number: u32) -> Option<u64> {
    values(message, number)
        .find_map(|value| if let Value::Varint(value) = value { Some(value) } else { None })
}

pub(crate) fn fixed(message: &[u8], number: u32) -> impl Iterator<Item = u64> {
    values(message, number)
        .filter_map(|value| if let Value::Fixed64(value) = value { Some(value) } else { None })
}

pub(crate) fn float(message: &[u8], number: u32) -> Option<f64> {
    fixed(message, number).next().map(f64::from_bits)
}

pub(crate) fn all_bytes(message: &[u8], number: u32) -> Vec<&[u8]> {
    values(message, number)
        .filter_map(|value| if let Value::Bytes(bytes) = value { Some(bytes) } else { None })
        .collect()
}

pub(crate) fn bytes(message: &[u8], number: u32) -> Option<&[u8]> {
    all_bytes(message, number).first().copied()
}

pub(crate) fn text(message: &[u8], number: u32) -> Option<String> {
    bytes(message, number).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}
