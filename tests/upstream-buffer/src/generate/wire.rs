//! Just enough of the protobuf encoding to write messages, and to take them apart again.

/// A field of a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) id: u32,
    pub(super) value: Value,
}

/// Its value by its wire type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Fixed32([u8; 4]),
}

pub(super) fn encode(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Field { id, value } in fields {
        let wire_type = match value {
            Value::Varint(_) => 0,
            Value::Fixed64(_) => 1,
            Value::Bytes(_) => 2,
            Value::Fixed32(_) => 5,
        };
        push_varint(&mut bytes, u64::from(*id) << 3 | wire_type);
        match value {
            Value::Varint(number) => push_varint(&mut bytes, *number),
            Value::Fixed64(fixed) => bytes.extend(fixed),
            Value::Fixed32(fixed) => bytes.extend(fixed),
            Value::Bytes(body) => {
                push_varint(&mut bytes, body.len() as u64);
                bytes.extend(body);
            }
        }
    }
    bytes
}

/// The fields up to the first malformed one, as upstream reads them (numbers beyond 32 bits wrap around), and whether there
/// was none.
pub(super) fn decode(mut bytes: &[u8]) -> (Vec<Field>, bool) {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let Some((field, rest)) = take_field(bytes) else { return (fields, false) };
        fields.push(field);
        bytes = rest;
    }
    (fields, true)
}

fn take_field(bytes: &[u8]) -> Option<(Field, &[u8])> {
    let (tag, rest) = take_varint(bytes)?;
    let id = (tag >> 3) as u32;
    let (value, rest) = match tag & 7 {
        0 => take_varint(rest).map(|(number, rest)| (Value::Varint(number), rest))?,
        1 => rest.split_first_chunk().map(|(fixed, rest)| (Value::Fixed64(*fixed), rest))?,
        2 => {
            let (len, rest) = take_varint(rest)?;
            let (body, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            (Value::Bytes(body.to_vec()), rest)
        }
        5 => rest.split_first_chunk().map(|(fixed, rest)| (Value::Fixed32(*fixed), rest))?,
        _ => return None,
    };
    (id != 0).then_some((Field { id, value }, rest))
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[index + 1..]));
        }
    }
    None
}

/// A simpler message, in several ways: without a field, or with a simpler one.
pub(super) fn simpler(message: &[u8]) -> Vec<Vec<u8>> {
    let (fields, whole) = decode(message);
    if !whole || fields.is_empty() {
        return crate::shrink::shorter_bytes(message);
    }
    let mut simpler = Vec::new();
    for index in 0..fields.len() {
        let mut fewer = fields.clone();
        fewer.remove(index);
        simpler.push(encode(&fewer));
    }
    for (index, field) in fields.iter().enumerate() {
        for value in simpler_values(&field.value) {
            let mut other = fields.clone();
            other[index].value = value;
            simpler.push(encode(&other));
        }
    }
    // Varints can be longer than they need be, and must not become so.
    simpler.retain(|candidate| {
        candidate.len() < message.len() || candidate.len() == message.len() && candidate.as_slice() < message
    });
    simpler
}

fn simpler_values(value: &Value) -> Vec<Value> {
    match value {
        Value::Varint(number) => {
            crate::shrink::simpler_numbers(*number, 0).into_iter().map(Value::Varint).collect()
        }
        Value::Fixed64(_) => vec![Value::Fixed64([0; 8])],
        Value::Fixed32(_) => vec![Value::Fixed32([0; 4])],
        Value::Bytes(body) => simpler(body).into_iter().map(Value::Bytes).collect(),
    }
}
