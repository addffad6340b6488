//! Any bytes, read as a message and, where that makes sense, as nested messages: fields or one error, in
//! order, without gaps.
#![no_main]

use ferretto_protozero::read::{Fields, PackedVarints, Value};
use ferretto_protozero::{Message, varint};
use libfuzzer_sys::fuzz_target;

/// As deep as any trace goes; the reader leaves the depth to its caller.
const MAX_DEPTH: u32 = 32;

fuzz_target!(|data: &[u8]| {
    walk(data, MAX_DEPTH);
});

fn walk(message: &[u8], depth: u32) {
    let mut fields = Fields::new(message);
    let mut end = 0;
    while let Some(field) = fields.next() {
        let Ok(field) = field else {
            assert!(fields.next().is_none(), "nothing follows an error");
            return;
        };
        end += field.raw.len();
        assert_eq!(fields.offset(), end);
        assert!(field.number > 0 && field.number < 1 << 29 && !field.raw.is_empty());
        reencode(field.number, field.value);
        if let Value::Bytes(bytes) = field.value {
            assert!(PackedVarints::new(bytes).count() <= bytes.len());
            if depth > 0 {
                walk(bytes, depth - 1);
            }
        }
    }
    assert_eq!(end, message.len());
}

/// What was read, written again, reads the same.
fn reencode(number: u32, value: Value<'_>) {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    match value {
        Value::Varint(value) => message.varint(number, value),
        Value::Fixed64(value) => message.fixed64(number, value),
        Value::Fixed32(value) => message.fixed32(number, value),
        Value::Bytes(value) => message.bytes(number, value),
    }
    drop(message);
    let field = Fields::new(&bytes).next().expect("a field was written").expect("it is well-formed");
    assert_eq!((field.number, field.value), (number, value));
    if let Value::Varint(value) = value {
        assert_eq!(bytes.len(), varint::size(u64::from(number) << 3) + varint::size(value));
    }
}
