//! A packet as text.
//!
//! Fields come in the order of their numbers, those that nothing describes last, as protobuf's own printers have it. What cannot be shown by
//! its name, as it is not what its field is described as, is shown by its number, so nothing is lost: text and bytes say the same.

use std::io::Write as _;

use ferretto_protozero::read::{Fields, PackedVarints, Value};
use ferretto_protozero::varint;

use super::float;
use super::schema::{Field, Kind, MessageId, Schema};

/// Messages within messages; deeper ones are shown as bytes. Ours: it bounds the depth of our own calls; traces go some 20 deep.
const MAX_DEPTH: usize = 64;
/// The same of those that nothing describes. Protobuf's own.
const MAX_UNKNOWN_DEPTH: usize = 10;

/// Writes `packet { … }`; one that is no message by its number.
pub(super) fn packet(schema: &Schema, packet: &[u8], out: &mut Vec<u8>) {
    let mut printer = Printer { schema, out, indent: 0 };
    if !printer.braced("packet", |it| it.message(schema.packet(), packet, 0)) {
        printer.bytes_by_number(1, packet);
    }
}

struct Printer<'a> {
    schema: &'a Schema,
    out: &'a mut Vec<u8>,
    indent: usize,
}

/// A field of a message that is shown.
struct Part<'a> {
    number: u32,
    /// Nothing if it is shown by its number.
    field: Option<&'a Field>,
    value: Value<'a>,
}

impl Printer<'_> {
    /// What is in braces behind a name. If that is no message, nothing was written.
    fn braced(&mut self, name: &str, inside: impl FnOnce(&mut Self) -> bool) -> bool {
        let start = self.out.len();
        self.begin(name);
        self.out.extend_from_slice(b" {\n");
        self.indent += 1;
        let is_message = inside(self);
        self.indent -= 1;
        if is_message {
            self.begin("}\n");
        } else {
            self.out.truncate(start);
        }
        is_message
    }

    fn begin(&mut self, name: &str) {
        self.out.extend(std::iter::repeat_n(b' ', 2 * self.indent));
        self.out.extend_from_slice(name.as_bytes());
    }

    /// Whether the bytes are a message.
    fn message(&mut self, id: MessageId, bytes: &[u8], depth: usize) -> bool {
        let schema = self.schema;
        let Some(described) = schema.message(id).filter(|_| depth < MAX_DEPTH) else { return false };
        let mut parts = Vec::new();
        for part in Fields::new(bytes) {
            let Ok(part) = part else { return false };
            let field = described.field(part.number).map(|field| &**field);
            let field = field.filter(|field| fits(field, part.value));
            parts.push(Part { number: part.number, field, value: part.value });
        }
        keep_one_of_each_oneof(&mut parts);
        // Stable: values of a list stay in their order, as does what is not known.
        parts.sort_by_key(|part| part.field.map_or(u32::MAX, |field| field.number));
        let mut rest = parts.as_slice();
        while let Some((first, after)) = rest.split_first() {
            let same = after.iter().take_while(|part| {
                first.field.is_some_and(|field| !field.is_list)
                    && part.field.is_some()
                    && part.number == first.number
            });
            let (same, after) = after.split_at(same.count());
            self.once(first, same, depth);
            rest = after;
        }
        true
    }

    /// A field; of one that is there more than once, but is no list, the last counts, and messages are joined.
    fn once(&mut self, first: &Part<'_>, more: &[Part<'_>], depth: usize) {
        let last = more.last().unwrap_or(first);
        let Some(field) = last.field else { return self.unknown(last.number, last.value, 0) };
        match field.kind {
            Kind::Message(_) if !more.is_empty() => {
                let all = std::iter::once(first).chain(more);
                let joined: Vec<u8> =
                    all.filter_map(|part| part.value.as_bytes()).flatten().copied().collect();
                self.field(field, Value::Bytes(&joined), depth);
            }
            _ => self.field(field, last.value, depth),
        }
    }

    fn field(&mut self, field: &Field, value: Value<'_>, depth: usize) {
        match (field.kind, value) {
            (Kind::Message(id), Value::Bytes(bytes)) => {
                if !self.braced(&field.name, |it| it.message(id, bytes, depth + 1)) {
                    self.bytes_by_number(field.number, bytes);
                }
            }
            (Kind::Text | Kind::Bytes, Value::Bytes(bytes)) => {
                self.begin(&field.name);
                self.out.extend_from_slice(b": ");
                self.quoted(bytes);
            }
            (_, Value::Bytes(packed)) => self.packed(field, packed),
            (_, value) => self.scalar(field, value),
        }
    }

    fn packed(&mut self, field: &Field, packed: &[u8]) {
        match width(field.kind) {
            Some(4) => {
                for bytes in packed.as_chunks().0 {
                    self.scalar(field, Value::Fixed32(u32::from_le_bytes(*bytes)));
                }
            }
            Some(_) => {
                for bytes in packed.as_chunks().0 {
                    self.scalar(field, Value::Fixed64(u64::from_le_bytes(*bytes)));
                }
            }
            None => {
                for number in PackedVarints::new(packed).flatten() {
                    self.scalar(field, Value::Varint(number));
                }
            }
        }
    }

    /// A number.
    fn scalar(&mut self, field: &Field, value: Value<'_>) {
        self.begin(&field.name);
        let out = &mut *self.out;
        let number = value.as_u64().unwrap_or(0);
        // Writing to memory does not fail.
        let _ = match field.kind {
            Kind::Double => write!(out, ": {}", float::double(f64::from_bits(number))),
            Kind::Float => write!(out, ": {}", float::float(f32::from_bits(number as u32))),
            Kind::Bool => write!(out, ": {}", number != 0),
            Kind::Int64 | Kind::Sfixed64 => write!(out, ": {}", number as i64),
            Kind::Int32 | Kind::Sfixed32 => write!(out, ": {}", number as i32),
            Kind::Uint32 => write!(out, ": {}", number as u32),
            Kind::Sint32 => write!(out, ": {}", varint::unzigzag(number) as i32),
            Kind::Sint64 => write!(out, ": {}", varint::unzigzag(number)),
            Kind::Enum(id) => {
                match self.schema.enumeration(id).and_then(|names| names.name_of(number as i32)) {
                    Some(name) => write!(out, ": {name}"),
                    None => write!(out, ": {}", number as i32),
                }
            }
            _ => write!(out, ": {number}"),
        };
        self.out.push(b'\n');
    }

    /// A field that nothing describes, as protobuf shows it; what reads as a message is shown as one.
    fn unknown(&mut self, number: u32, value: Value<'_>, depth: usize) {
        if let Value::Bytes(bytes) = value {
            let name = number.to_string();
            let may_be = !bytes.is_empty() && depth < MAX_UNKNOWN_DEPTH;
            if !may_be || !self.braced(&name, |it| it.unknown_message(bytes, depth + 1)) {
                self.bytes_by_number(number, bytes);
            }
            return;
        }
        self.begin("");
        // Writing to memory does not fail.
        let _ = match value {
            Value::Varint(value) => writeln!(self.out, "{number}: {value}"),
            Value::Fixed64(value) => writeln!(self.out, "{number}: 0x{value:016x}"),
            Value::Fixed32(value) => writeln!(self.out, "{number}: 0x{value:08x}"),
            Value::Bytes(_) => Ok(()),
        };
    }

    /// Only what would be written in the very same bytes.
    fn unknown_message(&mut self, bytes: &[u8], depth: usize) -> bool {
        if !is_canonical(bytes) {
            return false;
        }
        for part in Fields::new(bytes).map_while(Result::ok) {
            self.unknown(part.number, part.value, depth);
        }
        true
    }

    fn bytes_by_number(&mut self, number: u32, bytes: &[u8]) {
        self.begin("");
        // Writing to memory does not fail.
        let _ = write!(self.out, "{number}: ");
        self.quoted(bytes);
    }

    /// As C's escapes: what is not ASCII in octal (protobuf: `CEscape`).
    fn quoted(&mut self, bytes: &[u8]) {
        let out = &mut *self.out;
        out.push(b'"');
        for byte in bytes {
            match byte {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'"' | b'\'' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
                0x20..=0x7e => out.push(*byte),
                _ => out.extend_from_slice(&[
                    b'\\',
                    b'0' + (byte >> 6),
                    b'0' + (byte >> 3 & 7),
                    b'0' + (byte & 7),
                ]),
            }
        }
        out.extend_from_slice(b"\"\n");
    }
}

/// Of a oneof that is set more than once the last member counts.
fn keep_one_of_each_oneof(parts: &mut Vec<Part<'_>>) {
    let mut winners: Vec<(u32, u32)> = Vec::new();
    for part in parts.iter().rev() {
        if let Some(oneof) = part.field.and_then(|field| field.oneof)
            && !winners.iter().any(|(known, _)| *known == oneof)
        {
            winners.push((oneof, part.number));
        }
    }
    if !winners.is_empty() {
        parts.retain(|part| {
            let oneof = part.field.and_then(|field| field.oneof);
            let winner = oneof.and_then(|oneof| winners.iter().find(|(known, _)| *known == oneof));
            winner.is_none_or(|(_, number)| *number == part.number)
        });
    }
}

/// Bytes of a number that is not a varint.
fn width(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => Some(4),
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => Some(8),
        _ => None,
    }
}

/// Whether a value can be one of the field.
fn fits(field: &Field, value: Value<'_>) -> bool {
    match (field.kind, value) {
        (Kind::Unknown, _) => false,
        (Kind::Text | Kind::Bytes | Kind::Message(_), value) => matches!(value, Value::Bytes(_)),
        (kind, Value::Bytes(packed)) => field.is_list && is_packed(kind, packed),
        (kind, value) => match value {
            Value::Fixed32(_) => width(kind) == Some(4),
            Value::Fixed64(_) => width(kind) == Some(8),
            _ => width(kind).is_none(),
        },
    }
}

fn is_packed(kind: Kind, packed: &[u8]) -> bool {
    match width(kind) {
        Some(width) => packed.len().is_multiple_of(width),
        None => PackedVarints::new(packed).all(|number| number.is_some()),
    }
}

/// Whether all tags, numbers and lengths are as short as they can be.
fn is_canonical(bytes: &[u8]) -> bool {
    Fields::new(bytes).all(|part| {
        part.is_ok_and(|part| {
            let tag = varint::size(u64::from(part.number) << 3);
            let value = match part.value {
                Value::Varint(value) => varint::size(value),
                Value::Fixed64(_) => 8,
                Value::Fixed32(_) => 4,
                Value::Bytes(bytes) => varint::size(bytes.len() as u64) + bytes.len(),
            };
            part.raw.len() == tag + value
        })
    })
}
