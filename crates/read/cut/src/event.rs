//! What a cut must know of a program's event (upstream: track_event.proto).

use ferretto_protos::fields::track_event as field;
use ferretto_protozero::read::{Fields, Value};

use crate::packed;

/// Further counters of one event (upstream: track_event_tokenizer.h).
pub(crate) const MAX_EXTRA: usize = 8;
/// Flows of one event that are followed. Ours.
pub(crate) const MAX_FLOWS: usize = 16;

/// `TrackEvent.Type`.
pub(crate) const SLICE_BEGIN: u64 = 1;
pub(crate) const SLICE_END: u64 = 2;
pub(crate) const COUNTER: u64 = 4;
pub(crate) const STATE: u64 = 5;

/// Numbers, up to a bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Few<const N: usize> {
    items: [u64; N],
    len: usize,
}

impl<const N: usize> Default for Few<N> {
    fn default() -> Self {
        Self { items: [0; N], len: 0 }
    }
}

impl<const N: usize> Few<N> {
    #[inline]
    pub(crate) fn push(&mut self, item: u64) {
        if let Some(slot) = self.items.get_mut(self.len) {
            *slot = item;
            self.len += 1;
        }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u64] {
        self.items.get(..self.len).unwrap_or_default()
    }
}

/// An event, as far as it matters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrackEvent<'a> {
    pub(crate) kind: u64,
    pub(crate) track_uuid: Option<u64>,
    /// Something that is the same for the same name, 0 without one.
    pub(crate) name: u64,
    pub(crate) name_iid: Option<u64>,
    pub(crate) name_text: Option<&'a [u8]>,
    pub(crate) legacy: Option<&'a [u8]>,
    pub(crate) value: Option<i64>,
    pub(crate) double_value: Option<f64>,
    pub(crate) extra_uuids: Few<MAX_EXTRA>,
    pub(crate) extra_values: Few<MAX_EXTRA>,
    pub(crate) flows: Few<MAX_FLOWS>,
}

impl<'a> TrackEvent<'a> {
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let mut event = Self::default();
        for part in Fields::new(bytes).map_while(Result::ok) {
            match (part.number, part.value) {
                (field::TYPE, value) => event.kind = value.as_u64().unwrap_or(0),
                (field::TRACK_UUID, value) => event.track_uuid = value.as_u64(),
                (field::NAME_IID, value) => {
                    event.name_iid = value.as_u64();
                    event.name = value.as_u64().unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                }
                (field::NAME, Value::Bytes(name)) => {
                    event.name_text = Some(name);
                    event.name = hash(name) | 1;
                }
                (field::LEGACY_EVENT, Value::Bytes(legacy)) => event.legacy = Some(legacy),
                (field::COUNTER_VALUE, value) => event.value = value.as_u64().map(|value| value as i64),
                (field::DOUBLE_COUNTER_VALUE, Value::Fixed64(bits)) => {
                    event.double_value = Some(f64::from_bits(bits));
                }
                (field::EXTRA_COUNTER_TRACK_UUIDS, value) => {
                    packed::each(value, |uuid| event.extra_uuids.push(uuid));
                }
                (field::EXTRA_COUNTER_VALUES, value) => {
                    packed::each(value, |value| event.extra_values.push(value))
                }
                (
                    field::FLOW_IDS
                    | field::FLOW_IDS_OLD
                    | field::TERMINATING_FLOW_IDS
                    | field::TERMINATING_FLOW_IDS_OLD,
                    value,
                ) => each_flow(value, part.number, |flow| event.flows.push(flow)),
                _ => {}
            }
        }
        event
    }

    /// The counters of `extra_values`, by the event or the defaults.
    pub(crate) fn extra<'b>(&'b self, defaults: &'b [u64]) -> impl Iterator<Item = (u64, i64)> + use<'b> {
        let own = self.extra_uuids.as_slice();
        let uuids = if own.is_empty() { defaults } else { own };
        uuids.iter().copied().zip(self.extra_values.as_slice().iter().map(|value| *value as i64))
    }
}

/// `fixed64` in the newer fields, varints in the older ones; both may be packed.
fn each_flow(value: Value<'_>, number: u32, mut f: impl FnMut(u64)) {
    match value {
        Value::Bytes(bytes) if matches!(number, field::FLOW_IDS | field::TERMINATING_FLOW_IDS) => {
            bytes.as_chunks().0.iter().for_each(|chunk| f(u64::from_le_bytes(*chunk)));
        }
        value => packed::each(value, f),
    }
}

pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A legacy event (upstream: track_event.proto, `LegacyEvent`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Legacy {
    pub(crate) phase: u8,
    pub(crate) duration_us: i64,
    /// Which of the asynchronous ones.
    pub(crate) id: u64,
}

impl Legacy {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut legacy = Self::default();
        for part in Fields::new(bytes).map_while(Result::ok) {
            match (part.number, part.value) {
                (2, value) => legacy.phase = value.as_u64().unwrap_or(0) as u8,
                (3, value) => legacy.duration_us = value.as_u64().unwrap_or(0) as i64,
                (6 | 10 | 11, value) => {
                    legacy.id ^= value.as_u64().unwrap_or(0).wrapping_mul(0x9e37_79b9) | 1
                }
                (7, Value::Bytes(scope)) => legacy.id ^= hash(scope),
                _ => {}
            }
        }
        legacy
    }
}
