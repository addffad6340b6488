//! What a cut must know of a program's event (upstream: track_event.proto).

use ferretto_protos::fields::track_event as field;
use ferretto_trace_read::fields::{Fields, Value};

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

/// An event, as far as it matters. What few events have is only noted, and read when it is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrackEvent<'a> {
    bytes: &'a [u8],
    pub(crate) kind: u64,
    pub(crate) track_uuid: Option<u64>,
    pub(crate) name_iid: Option<u64>,
    pub(crate) name_text: Option<&'a [u8]>,
    pub(crate) legacy: Option<&'a [u8]>,
    pub(crate) has_flows: bool,
    pub(crate) has_extra: bool,
    /// A counter's value.
    pub(crate) has_value: bool,
}

/// What an event says of counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CounterValues {
    pub(crate) value: Option<i64>,
    pub(crate) double_value: Option<f64>,
    extra_uuids: Few<MAX_EXTRA>,
    pub(crate) extra_values: Few<MAX_EXTRA>,
}

impl<'a> TrackEvent<'a> {
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let mut event = Self { bytes, ..Self::default() };
        for part in Fields::new(bytes).whole() {
            match (part.number, part.value) {
                (field::TYPE, value) => event.kind = value.as_u64().unwrap_or(0),
                (field::TRACK_UUID, value) => event.track_uuid = value.as_u64(),
                (field::NAME_IID, value) => event.name_iid = value.as_u64(),
                (field::NAME, Value::Bytes(name)) => event.name_text = Some(name),
                (field::LEGACY_EVENT, Value::Bytes(legacy)) => event.legacy = Some(legacy),
                (field::COUNTER_VALUE | field::DOUBLE_COUNTER_VALUE, _) => event.has_value = true,
                (field::EXTRA_COUNTER_VALUES, _) => event.has_extra = true,
                (
                    field::FLOW_IDS
                    | field::FLOW_IDS_OLD
                    | field::TERMINATING_FLOW_IDS
                    | field::TERMINATING_FLOW_IDS_OLD,
                    _,
                ) => event.has_flows = true,
                _ => {}
            }
        }
        event
    }

    /// Something that is the same for the same name, 0 without one.
    #[inline]
    pub(crate) fn name(&self) -> u64 {
        match (self.name_text, self.name_iid) {
            (Some(text), _) => hash(text) | 1,
            (None, Some(iid)) => name_of_iid(iid),
            (None, None) => 0,
        }
    }

    /// Its flows, up to a bound.
    pub(crate) fn flows(&self) -> Few<MAX_FLOWS> {
        let mut flows = Few::default();
        if !self.has_flows {
            return flows;
        }
        for part in Fields::new(self.bytes).whole() {
            if let field::FLOW_IDS
            | field::FLOW_IDS_OLD
            | field::TERMINATING_FLOW_IDS
            | field::TERMINATING_FLOW_IDS_OLD = part.number
            {
                each_flow(part.value, part.number, |flow| flows.push(flow));
            }
        }
        flows
    }

    /// Its counters.
    pub(crate) fn counters(&self) -> CounterValues {
        let mut values = CounterValues::default();
        if !self.has_value && !self.has_extra {
            return values;
        }
        for part in Fields::new(self.bytes).whole() {
            match (part.number, part.value) {
                (field::COUNTER_VALUE, value) => values.value = value.as_u64().map(|value| value as i64),
                (field::DOUBLE_COUNTER_VALUE, Value::Fixed64(bits)) => {
                    values.double_value = Some(f64::from_bits(bits));
                }
                (field::EXTRA_COUNTER_TRACK_UUIDS, value) => {
                    packed::each(value, |uuid| values.extra_uuids.push(uuid));
                }
                (field::EXTRA_COUNTER_VALUES, value) => {
                    packed::each(value, |value| values.extra_values.push(value));
                }
                _ => {}
            }
        }
        values
    }
}

impl CounterValues {
    /// The counters of `extra_values`, by the event or the defaults.
    pub(crate) fn extra<'b>(&'b self, defaults: &'b [u64]) -> impl Iterator<Item = (u64, i64)> + use<'b> {
        let own = self.extra_uuids.as_slice();
        let uuids = if own.is_empty() { defaults } else { own };
        uuids.iter().copied().zip(self.extra_values.as_slice().iter().map(|value| *value as i64))
    }
}

/// What [`TrackEvent::name`] is of a name behind a number.
#[inline]
pub(crate) const fn name_of_iid(iid: u64) -> u64 {
    iid.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
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

/// Eight bytes at a time.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mix = |so_far: u64, word: u64| (so_far ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = bytes.as_chunks();
    let so_far = words.iter().fold(bytes.len() as u64, |so_far, word| mix(so_far, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte));
    mix(so_far, last)
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
        for part in Fields::new(bytes).whole() {
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
