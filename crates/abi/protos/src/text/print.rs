//! Prints a serialized message as text.

use std::fmt::Write as _;

use prost::encoding::{WireType, decode_key, decode_varint};
use prost_reflect::{DynamicMessage, Kind, UnknownField, Value};

/// Prints the serialized message `bytes` of the type `full_name` (`perfetto.protos.TraceStats`): one field a line in the order of
/// their numbers, nested messages indented by two. Fields that the descriptors do not know come last, by number, as protobuf's own
/// printers show them; the parser does not take those back.
///
/// # Errors
/// If the bytes are no such message.
///
/// # Panics
/// If there is no message of that name: it is the caller's constant, not input.
pub fn format(full_name: &str, bytes: &[u8]) -> Result<String, prost::DecodeError> {
    let message = DynamicMessage::decode(super::message_descriptor(full_name), bytes)?;
    let mut out = String::new();
    print_message(&message, 0, &mut out);
    Ok(out)
}

// Decoding has bounded the depth (prost allows 100 levels).
fn print_message(message: &DynamicMessage, indent: usize, out: &mut String) {
    for (field, value) in message.fields() {
        match value {
            Value::List(values) => {
                for value in values {
                    print_field(field.name(), &field.kind(), value, indent, out);
                }
            }
            value => print_field(field.name(), &field.kind(), value, indent, out),
        }
    }
    for field in message.unknown_fields() {
        print_unknown(field, indent, out);
    }
}

fn print_unknown(field: &UnknownField, indent: usize, out: &mut String) {
    let mut tag_and_value = Vec::with_capacity(field.encoded_len());
    field.encode(&mut tag_and_value);
    let mut rest = tag_and_value.as_slice();
    let value = decode_key(&mut rest).ok().and_then(|(_, wire_type)| match wire_type {
        WireType::Varint => Some(decode_varint(&mut rest).ok()?.to_string()),
        WireType::ThirtyTwoBit => Some(format!("0x{:08x}", u32::from_le_bytes(rest.try_into().ok()?))),
        WireType::SixtyFourBit => Some(format!("0x{:016x}", u64::from_le_bytes(rest.try_into().ok()?))),
        WireType::LengthDelimited => {
            decode_varint(&mut rest).ok()?;
            Some(format!("\"{}\"", escaped(rest, false)))
        }
        // Groups, which no Perfetto message uses.
        WireType::StartGroup | WireType::EndGroup => None,
    });
    if let Some(value) = value {
        out.extend(std::iter::repeat_n(' ', indent));
        // Writing to a string does not fail.
        let _ = writeln!(out, "{}: {value}", field.number());
    }
}

fn print_field(name: &str, kind: &Kind, value: &Value, indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
    if let Value::Message(message) = value {
        out.push_str(name);
        out.push_str(" {\n");
        print_message(message, indent + 2, out);
        out.extend(std::iter::repeat_n(' ', indent));
        out.push_str("}\n");
        return;
    }
    // Writing to a string does not fail.
    let _ = write!(out, "{name}: ");
    print_scalar(kind, value, out);
    out.push('\n');
}

fn print_scalar(kind: &Kind, value: &Value, out: &mut String) {
    let _ = match value {
        Value::String(text) => write!(out, "\"{}\"", escaped(text.as_bytes(), true)),
        Value::Bytes(bytes) => write!(out, "\"{}\"", escaped(bytes, false)),
        Value::EnumNumber(number) => match enum_name(kind, *number) {
            Some(name) => out.write_str(&name),
            None => write!(out, "{number}"),
        },
        Value::Bool(value) => write!(out, "{value}"),
        Value::I32(value) => write!(out, "{value}"),
        Value::I64(value) => write!(out, "{value}"),
        Value::U32(value) => write!(out, "{value}"),
        Value::U64(value) => write!(out, "{value}"),
        Value::F32(value) => out.write_str(whole(&format!("{value:?}"))),
        Value::F64(value) => out.write_str(whole(&format!("{value:?}"))),
        // Maps are not used by these messages.
        Value::Message(_) | Value::List(_) | Value::Map(_) => Ok(()),
    };
}

/// Numbers with an exponent where it is shorter, whole ones without a fraction.
fn whole(number: &str) -> &str {
    number.strip_suffix(".0").unwrap_or(number)
}

fn enum_name(kind: &Kind, number: i32) -> Option<String> {
    match kind {
        Kind::Enum(descriptor) => descriptor.get_value(number).map(|value| value.name().to_owned()),
        _ => None,
    }
}

/// The inside of a quoted string; bytes that are no text, and in `bytes` fields all that are not ASCII, in octal.
fn escaped(bytes: &[u8], keep_unicode: bool) -> String {
    if keep_unicode && let Ok(text) = std::str::from_utf8(bytes) {
        return text.chars().fold(String::new(), |mut out, c| {
            match u8::try_from(c) {
                Ok(byte) if c.is_ascii() => escape_byte(byte, &mut out),
                _ => out.push(c),
            }
            out
        });
    }
    bytes.iter().fold(String::new(), |mut out, &byte| {
        escape_byte(byte, &mut out);
        out
    })
}

fn escape_byte(byte: u8, out: &mut String) {
    match byte {
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        b'"' | b'\\' => {
            out.push('\\');
            out.push(char::from(byte));
        }
        0x20..=0x7e => out.push(char::from(byte)),
        _ => {
            let _ = write!(out, "\\{byte:03o}");
        }
    }
}
