//! A packet with less in it, or with other numbers.

use ferretto_protos::fields::{trace_packet as field, track_event};
use ferretto_protozero::Message;
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_read::head::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};

use crate::event::COUNTER;

/// What remains of a packet without its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    /// What later packets rely on.
    pub(crate) state: bool,
    /// That it relies on earlier ones.
    pub(crate) needs_state: bool,
}

impl Rest {
    pub(crate) fn is_nothing(self) -> bool {
        !self.state && !self.needs_state
    }

    fn flags(self) -> u64 {
        let flag = |is_kept: bool, flag: u32| if is_kept { u64::from(flag) } else { 0 };
        flag(self.state, INCREMENTAL_STATE_CLEARED) | flag(self.needs_state, NEEDS_INCREMENTAL_STATE)
    }
}

/// Writes this of a packet, and what says that packets before it are missing.
pub(crate) fn strip(packet: &[u8], rest: Rest, out: &mut Vec<u8>) {
    let mut message = Message::new(out);
    for part in Fields::new(packet).map_while(Result::ok) {
        match part.number {
            field::TRUSTED_PACKET_SEQUENCE_ID
            | field::MACHINE_ID
            | field::TRUSTED_UID
            | field::TRUSTED_PID
            | field::PREVIOUS_PACKET_DROPPED
            | field::FIRST_PACKET_ON_SEQUENCE => message.raw(part.raw),
            field::INTERNED_DATA | field::TRACE_PACKET_DEFAULTS | field::INCREMENTAL_STATE_CLEARED
                if rest.state =>
            {
                message.raw(part.raw);
            }
            field::SEQUENCE_FLAGS if !rest.is_nothing() => {
                let flags = part.value.as_u64().unwrap_or(0) & rest.flags();
                message.varint(field::SEQUENCE_FLAGS, flags);
            }
            _ => {}
        }
    }
}

/// Writes a track's descriptor, and what [`strip`] writes.
pub(crate) fn descriptor(packet: &[u8], rest: Rest, out: &mut Vec<u8>) {
    strip(packet, rest, out);
    let mut message = Message::new(out);
    let parts = Fields::new(packet).map_while(Result::ok);
    parts.filter(|part| part.number == field::TRACK_DESCRIPTOR).for_each(|part| message.raw(part.raw));
}

/// Writes a packet with another time, or other data.
pub(crate) fn replace(packet: &[u8], timestamp: Option<u64>, data: Option<(u32, &[u8])>, out: &mut Vec<u8>) {
    let mut message = Message::new(out);
    for part in Fields::new(packet).map_while(Result::ok) {
        match (part.number, timestamp, data) {
            (field::TIMESTAMP, Some(_), _) => {}
            (number, _, Some((replaced, _))) if number == replaced => {}
            _ => message.raw(part.raw),
        }
    }
    if let Some(timestamp) = timestamp {
        message.varint(field::TIMESTAMP, timestamp);
    }
    if let Some((number, data)) = data {
        message.bytes(number, data);
    }
}

/// Other values of an event's counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    pub(crate) value: Option<i64>,
    pub(crate) double_value: Option<f64>,
    pub(crate) extra: Option<Vec<i64>>,
}

/// Writes an event with other values of its counters.
pub(crate) fn with_values(event: &[u8], values: &Values, out: &mut Vec<u8>) {
    let mut message = Message::new(out);
    for part in Fields::new(event).map_while(Result::ok) {
        match part.number {
            track_event::COUNTER_VALUE if values.value.is_some() => {}
            track_event::DOUBLE_COUNTER_VALUE if values.double_value.is_some() => {}
            track_event::EXTRA_COUNTER_VALUES if values.extra.is_some() => {}
            _ => message.raw(part.raw),
        }
    }
    if let Some(value) = values.value {
        message.int(track_event::COUNTER_VALUE, value);
    }
    if let Some(value) = values.double_value {
        message.double(track_event::DOUBLE_COUNTER_VALUE, value);
    }
    for value in values.extra.iter().flatten() {
        message.int(track_event::EXTRA_COUNTER_VALUES, *value);
    }
}

/// Writes an event that is one value of a counter.
pub(crate) fn counter(uuid: u64, value: i64, out: &mut Vec<u8>) {
    let mut message = Message::new(out);
    message.varint(track_event::TYPE, COUNTER);
    message.varint(track_event::TRACK_UUID, uuid);
    message.int(track_event::COUNTER_VALUE, value);
}

/// A packet of a counter's value, for one packet of an event with further counters.
pub(crate) fn counter_packet(
    packet: &[u8],
    timestamp: Option<u64>,
    uuid: u64,
    value: i64,
    out: &mut Vec<u8>,
) {
    let mut event = Vec::new();
    counter(uuid, value, &mut event);
    let mut stripped = Vec::new();
    let mut message = Message::new(&mut stripped);
    for part in Fields::new(packet).map_while(Result::ok) {
        let is_head = !matches!(part.value, Value::Bytes(_)) && part.number != field::SEQUENCE_FLAGS;
        if is_head && !matches!(part.number, field::PREVIOUS_PACKET_DROPPED | field::FIRST_PACKET_ON_SEQUENCE)
        {
            message.raw(part.raw);
        }
    }
    drop(message);
    replace(&stripped, timestamp, Some((field::TRACK_EVENT, &event)), out);
}
