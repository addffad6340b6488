//! The messages (github.com/open-telemetry/opentelemetry-proto: trace/v1, common/v1, resource/v1).
//!
//! A file may end anywhere: messages that hold spans are read as far as they go, spans only whole.

use std::io::{BufRead, Read as _};

use ferretto_protozero::read::{Fields, ReadError, Value};
use ferretto_protozero::varint;
use ferretto_trace_read::wire;

use super::span::{Any, Attributes, Said, SaidEvent, SaidLink, Spans};
use crate::Error;

/// Bytes of a file of messages. Ours: they are in memory.
const MAX_BYTES: u64 = 2 << 30;
/// Values within values. Ours: it bounds the stack.
const MAX_DEPTH: u32 = 32;
/// Events, or links, of one span. Ours: exporters keep 128.
const MAX_PARTS: usize = 1 << 16;

mod span {
    pub(super) const TRACE_ID: u32 = 1;
    pub(super) const SPAN_ID: u32 = 2;
    pub(super) const TRACE_STATE: u32 = 3;
    pub(super) const PARENT_SPAN_ID: u32 = 4;
    pub(super) const NAME: u32 = 5;
    pub(super) const KIND: u32 = 6;
    pub(super) const START_TIME_UNIX_NANO: u32 = 7;
    pub(super) const END_TIME_UNIX_NANO: u32 = 8;
    pub(super) const ATTRIBUTES: u32 = 9;
    pub(super) const EVENTS: u32 = 11;
    pub(super) const LINKS: u32 = 13;
    pub(super) const STATUS: u32 = 15;
}

/// Of `ResourceSpans`, and of `ScopeSpans`.
mod group {
    pub(super) const RESOURCE_OR_SCOPE: u32 = 1;
    pub(super) const ITEMS: u32 = 2;
    /// What scopes were called until 2022.
    pub(super) const INSTRUMENTATION_LIBRARY_SPANS: u32 = 1000;
}

/// Reads a file into `spans`.
pub(super) fn read(file: impl BufRead, spans: &mut Spans<'_>) -> Result<(), Error> {
    /// `TracesData.resource_spans`.
    const RESOURCE_SPANS: u32 = 1;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::TooLarge { bytes: MAX_BYTES });
    }
    let mut end = None;
    parts(&bytes, 0, &mut end, &mut |part, end| {
        if part.number == RESOURCE_SPANS {
            read_resource(&part, spans, end);
        }
    });
    match end {
        None => Ok(()),
        Some((offset, what)) => Err(Error::Broken { offset, what }),
    }
}

/// Where the first thing is wrong, and what.
type End = Option<(u64, &'static str)>;

/// A field that is a message, as far as it goes.
struct Part<'a> {
    number: u32,
    bytes: &'a [u8],
    /// Where `bytes` are in the file.
    offset: u64,
    is_whole: bool,
}

fn parts(message: &[u8], offset: u64, end: &mut End, each: &mut dyn FnMut(Part<'_>, &mut End)) {
    for field in Fields::new(message) {
        match field {
            Ok(field) => {
                let Value::Bytes(bytes) = field.value else { continue };
                let at = bytes.as_ptr() as usize - message.as_ptr() as usize;
                each(Part { number: field.number, bytes, offset: offset + at as u64, is_whole: true }, end);
            }
            Err(error) => {
                let (at, what) = match error {
                    ReadError::LengthBeyondEnd { offset: at, number, .. } => {
                        let rest = message.get(at..).unwrap_or_default();
                        let head = varint_bytes(rest, 0).and_then(|tag| Some(tag + varint_bytes(rest, tag)?));
                        let head = head.unwrap_or(rest.len());
                        let bytes = rest.get(head..).unwrap_or_default();
                        let inner = offset + (at + head) as u64;
                        each(Part { number, bytes, offset: inner, is_whole: false }, end);
                        (at, "what begins here goes beyond the end")
                    }
                    ReadError::Truncated { offset } => (offset, "the file ends within this field"),
                    ReadError::BadFieldNumber { offset, .. } | ReadError::BadWireType { offset, .. } => {
                        (offset, "this is no field of a message")
                    }
                };
                end.get_or_insert((offset + at as u64, what));
                return;
            }
        }
    }
}

fn varint_bytes(bytes: &[u8], at: usize) -> Option<usize> {
    varint::decode(bytes.get(at..)?).map(|(_, size)| size)
}

fn read_resource(of: &Part<'_>, spans: &mut Spans<'_>, end: &mut End) {
    let place = spans.begin();
    let mut attributes = Attributes::new();
    parts(of.bytes, of.offset, end, &mut |part, end| match part.number {
        group::RESOURCE_OR_SCOPE => attributes = attributes_of(part.bytes, 1),
        group::ITEMS | group::INSTRUMENTATION_LIBRARY_SPANS => read_scope(&part, spans, end),
        _ => {}
    });
    spans.end_resource(place, &attributes);
}

fn read_scope(of: &Part<'_>, spans: &mut Spans<'_>, end: &mut End) {
    /// `InstrumentationScope.name`.
    const NAME: u32 = 1;
    let place = spans.begin();
    let mut name = String::new();
    parts(of.bytes, of.offset, end, &mut |part, end| match part.number {
        group::RESOURCE_OR_SCOPE => name = text(wire::bytes(part.bytes, NAME)),
        group::ITEMS if part.is_whole => match read_span(part.bytes) {
            Ok(said) => spans.push(said),
            Err(at) => _ = end.get_or_insert((part.offset + at as u64, "this is no field of a span")),
        },
        _ => {}
    });
    spans.end_scope(place, &name);
}

fn read_span(bytes: &[u8]) -> Result<Said, usize> {
    let mut said = Said::default();
    let mut at = 0;
    for field in Fields::new(bytes) {
        let field = field.map_err(|_| at)?;
        at += field.raw.len();
        let inner = field.value.as_bytes().unwrap_or_default();
        let number = field.value.as_u64().unwrap_or(0);
        match field.number {
            span::TRACE_ID => said.key.0 = id(inner),
            span::SPAN_ID => said.key.1 = id(inner) as u64,
            span::TRACE_STATE => said.trace_state = text(Some(inner)),
            span::PARENT_SPAN_ID => said.parent = id(inner) as u64,
            span::NAME => said.name = text(Some(inner)),
            span::KIND => said.kind = number,
            span::START_TIME_UNIX_NANO => said.start = fixed(field.value),
            span::END_TIME_UNIX_NANO => said.end = fixed(field.value),
            span::ATTRIBUTES => said.attributes.extend(attribute(inner)),
            span::EVENTS if said.events.len() < MAX_PARTS => said.events.push(SaidEvent {
                ts: wire::fields(inner).filter(|it| it.number == 1).last().map_or(0, |it| fixed(it.value)),
                name: text(wire::bytes(inner, 2)),
                attributes: attributes_of(inner, 3),
            }),
            span::LINKS if said.links.len() < MAX_PARTS => said.links.push(SaidLink {
                key: (
                    id(wire::bytes(inner, 1).unwrap_or_default()),
                    id(wire::bytes(inner, 2).unwrap_or_default()) as u64,
                ),
                attributes: attributes_of(inner, 4),
            }),
            span::STATUS => {
                said.status_message = text(wire::bytes(inner, 2));
                said.status = wire::number(inner, 3).unwrap_or(0);
            }
            _ => {}
        }
    }
    Ok(said)
}

/// Bytes as a number, the first the highest.
fn id(bytes: &[u8]) -> u128 {
    bytes.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

fn fixed(value: Value<'_>) -> u64 {
    match value {
        Value::Fixed64(value) | Value::Varint(value) => value,
        _ => 0,
    }
}

fn attributes_of(message: &[u8], field: u32) -> Attributes {
    wire::all_bytes(message, field).filter_map(attribute).collect()
}

/// `KeyValue`
fn attribute(message: &[u8]) -> Option<(String, Any)> {
    key_value(message, MAX_DEPTH)
}

fn key_value(message: &[u8], depth: u32) -> Option<(String, Any)> {
    let key = wire::bytes(message, 1)?;
    let value = wire::bytes(message, 2).map_or(Any::Null, |value| any(value, depth));
    Some((text(Some(key)), value))
}

/// `AnyValue`
fn any(message: &[u8], depth: u32) -> Any {
    let Some(depth) = depth.checked_sub(1) else { return Any::Null };
    let Some(field) = wire::fields(message).last() else { return Any::Null };
    match (field.number, field.value) {
        (1, Value::Bytes(bytes)) => Any::Text(text(Some(bytes))),
        (2, Value::Varint(value)) => Any::Bool(value != 0),
        (3, Value::Varint(value)) => Any::Int(value.cast_signed()),
        (4, Value::Fixed64(bits)) => Any::Real(f64::from_bits(bits)),
        (5, Value::Bytes(list)) => {
            Any::List(wire::all_bytes(list, 1).map(|value| any(value, depth)).collect())
        }
        (6, Value::Bytes(map)) => {
            Any::Map(wire::all_bytes(map, 1).filter_map(|member| key_value(member, depth)).collect())
        }
        (7, Value::Bytes(bytes)) => Any::Bytes(bytes.to_vec()),
        _ => Any::Null,
    }
}
