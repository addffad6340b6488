//! What messages of protobuf begin with. A trace, a profile of pprof and traces of OpenTelemetry all begin with a message of field 1: what is in
//! it tells them apart.

use ferretto_protozero::read::{Fields, Value};
use ferretto_protozero::varint;

use crate::wire;

/// `TracePacket.module_symbols`.
const MODULE_SYMBOLS: u32 = 61;
/// `Trace.packet`.
const PACKET: u32 = 1;

/// Whether the first packet has symbols.
pub(super) fn is_symbols(head: &[u8]) -> bool {
    match torn_message(head) {
        Some((PACKET, packet)) => first_message(packet).is_some_and(|(number, _)| number == MODULE_SYMBOLS),
        _ => {
            let packet = wire::fields(head).next().filter(|first| first.number == PACKET);
            let packet = packet.and_then(|first| first.value.as_bytes()).unwrap_or_default();
            wire::fields(packet).any(|field| field.number == MODULE_SYMBOLS)
        }
    }
}

/// Whether bytes are the beginning of a profile: only its fields, one of which a profile is made of.
pub(super) fn is_pprof(head: &[u8]) -> bool {
    /// Shorter ones say too little. Upstream's.
    const MIN_BYTES: usize = 10;
    mod profile {
        pub(super) const SAMPLE_TYPE: u32 = 1;
        pub(super) const SAMPLE: u32 = 2;
        pub(super) const STRING_TABLE: u32 = 6;
        pub(super) const DROP_FRAMES: u32 = 7;
        pub(super) const KEEP_FRAMES: u32 = 8;
        pub(super) const TIME_NANOS: u32 = 9;
        pub(super) const DURATION_NANOS: u32 = 10;
        pub(super) const PERIOD_TYPE: u32 = 11;
        pub(super) const PERIOD: u32 = 12;
        pub(super) const COMMENT: u32 = 13;
        pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
    }
    let mut is_made_of = false;
    for field in Fields::new(head).map_while(Result::ok) {
        let is_message = matches!(field.value, Value::Bytes(_));
        let is_number = matches!(field.value, Value::Varint(_));
        let (fits, counts) = match field.number {
            profile::SAMPLE..=profile::STRING_TABLE => (is_message, true),
            profile::SAMPLE_TYPE | profile::PERIOD_TYPE => (is_message, false),
            profile::COMMENT => (is_message || is_number, false),
            profile::DROP_FRAMES | profile::KEEP_FRAMES => (is_number, true),
            profile::TIME_NANOS
            | profile::DURATION_NANOS
            | profile::PERIOD
            | profile::DEFAULT_SAMPLE_TYPE => (is_number, false),
            _ => (false, false),
        };
        if !fits {
            return false;
        }
        is_made_of |= counts;
    }
    is_made_of && head.len() >= MIN_BYTES
}

/// Whether bytes begin with a `ResourceSpans`: a resource whose first attribute has a key, or spans of a scope.
///
/// A packet may begin with the same numbers: 1 are events of the kernel, 2 a list of processes. Both begin with a number, where these messages
/// have a message or a text.
pub(super) fn is_otlp(head: &[u8]) -> bool {
    const RESOURCE: u32 = 1;
    const SCOPE_SPANS: u32 = 2;
    let Some((1, of_resource)) = first_message(head) else { return false };
    match first_message(of_resource) {
        Some((RESOURCE, &[])) => {
            let behind = of_resource.get(2..).unwrap_or_default();
            first_message(behind)
                .is_some_and(|(number, spans)| number == SCOPE_SPANS && is_scope_spans(spans))
        }
        Some((RESOURCE, resource)) => {
            let Some((1, attribute)) = first_message(resource) else { return false };
            first_message(attribute).is_some_and(|(number, key)| number == 1 && is_name(key))
        }
        Some((SCOPE_SPANS, spans)) => is_scope_spans(spans),
        _ => false,
    }
}

fn is_scope_spans(bytes: &[u8]) -> bool {
    const TRACE_ID_BYTES: usize = 16;
    match first_message(bytes) {
        Some((1, &[])) => true,
        Some((1, scope)) => first_message(scope).is_some_and(|(number, name)| number <= 2 && is_name(name)),
        Some((2, span)) => {
            first_message(span).is_some_and(|(number, id)| number == 1 && id.len() == TRACE_ID_BYTES)
        }
        _ => false,
    }
}

fn is_name(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}

/// The first field, if it is a message, as much of it as is there.
fn first_message(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, len, rest) = message_start(bytes)?;
    Some((number, rest.get(..len.min(rest.len()))?))
}

/// The same, if it goes beyond what is there.
fn torn_message(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, len, rest) = message_start(bytes)?;
    (len > rest.len()).then_some((number, rest))
}

/// The number and length of the first field, and what follows.
fn message_start(bytes: &[u8]) -> Option<(u32, usize, &[u8])> {
    /// Wire type of what has a length.
    const LEN: u64 = 2;
    let (tag, size) = varint::decode(bytes)?;
    let rest = bytes.get(size..)?;
    let (len, size) = varint::decode(rest)?;
    let number = u32::try_from(tag >> 3).ok()?;
    (tag & 7 == LEN).then_some((number, usize::try_from(len).ok()?, rest.get(size..)?))
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;

    use crate::recognize::{Format, recognize};

    fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        fields.iter().for_each(|(number, value)| message.bytes(*number, value));
        drop(message);
        bytes
    }

    #[test]
    fn messages_are_told_apart_by_what_is_in_them() {
        let span = message(&[(1, &[7; 16]), (2, &[3; 8])]);
        let spans = message(&[(2, &span)]);
        let attribute = message(&[(1, b"service.name"), (2, &message(&[(1, b"shop")]))]);
        let with_resource = message(&[(1, &message(&[(1, &message(&[(1, &attribute)])), (2, &spans)]))]);
        let without = message(&[(1, &message(&[(1, b""), (2, &spans)]))]);
        let scoped = message(&[(2, &message(&[(1, &message(&[(1, b"lib")])), (2, &span)]))]);
        let scoped = message(&[(1, &scoped)]);
        // Events of the kernel, and a list of processes.
        let kernel = message(&[(1, &message(&[(1, b"\x08\x01\x12\x02\x08\x05")]))]);
        let processes = message(&[(1, &message(&[(2, &message(&[(1, b"\x08\x01")]))]))]);
        for (head, expected) in [
            (with_resource.as_slice(), Format::Otlp),
            (&with_resource[..20], Format::Otlp),
            (&without, Format::Otlp),
            (&scoped, Format::Otlp),
            (&kernel, Format::Proto),
            (&processes, Format::Proto),
            (b"\x0a\x05\xea\x03\x02\x0a\x00", Format::Symbols),
            (b"\x0a\xff\x7f\xea\x03\xff\x7e", Format::Symbols),
            (b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x02ab", Format::Pprof),
            (b"\x0a\x02\x40\x05\x0a\x02\x40\x06", Format::Proto),
            (b"\x0a\x02\x40\x01", Format::Proto),
            (b"\x0a", Format::Proto),
            (b"\x0a\x80\x01\x0a\x04abcd", Format::Proto),
        ] {
            assert_eq!(recognize(head), Some(expected), "{head:?}");
        }
    }
}
