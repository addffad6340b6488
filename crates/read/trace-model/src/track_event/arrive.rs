//! An event out of its packet (upstream: track_event_tokenizer.cc, track_event_parser.cc).

use ferretto_protos::fields::{interned_data, track_event as field};
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_tables::{MachineId, Str};

use super::annotation::Annotations;
use super::{Kind, TrackEvent};
use crate::args::Arg;
use crate::model::Model;
use crate::sequence::Sequence;
use crate::stats::Stat;

/// `TrackEvent.Type`.
mod event_type {
    pub(super) const SLICE_BEGIN: u64 = 1;
    pub(super) const SLICE_END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
    pub(super) const COUNTER: u64 = 4;
}

/// Categories that one event names. Ours: it bounds what a hostile one costs.
const MAX_CATEGORIES: usize = 256;

impl Model {
    /// Reads `TracePacket.track_event`.
    pub fn read_track_event(
        &mut self,
        message: &[u8],
        sequence: &mut Sequence,
        machine: MachineId,
    ) -> Option<TrackEvent> {
        let state = sequence.generation().clone();
        let mut event = TrackEvent {
            kind: Kind::Instant,
            track_uuid: state.defaults().track_uuid.unwrap_or(0),
            category: None,
            name: None,
            args: Default::default(),
            machine,
        };
        let mut kind = None;
        let mut value = None;
        let mut categories: Vec<Str> = Vec::new();
        let mut args: Vec<Arg> = Vec::new();
        for part in Fields::new(message) {
            let Ok(part) = part else {
                self.stats.count(Stat::TrackEventTokenizerErrors);
                return None;
            };
            let number = part.value.as_u64();
            match (part.number, part.value, number) {
                (field::TYPE, _, Some(number)) => kind = Some(number),
                (field::TRACK_UUID, _, Some(number)) => event.track_uuid = number,
                (field::NAME_IID, _, Some(iid)) => event.name = state.text(interned_data::EVENT_NAMES, iid),
                (field::NAME, Value::Bytes(name), _) => {
                    event.name = Some(self.tables.strings.intern_bytes(name))
                }
                (field::CATEGORY_IIDS, _, Some(iid)) => {
                    categories.extend(state.text(interned_data::EVENT_CATEGORIES, iid));
                }
                (field::CATEGORIES, Value::Bytes(name), _) => {
                    categories.push(self.tables.strings.intern_bytes(name));
                }
                (field::COUNTER_VALUE, _, Some(number)) => value = Some((number as i64) as f64),
                (field::DOUBLE_COUNTER_VALUE, _, Some(number)) => value = Some(f64::from_bits(number)),
                (field::DEBUG_ANNOTATIONS, Value::Bytes(annotation), _) => {
                    let mut annotations = Annotations {
                        state: &state,
                        strings: &mut self.tables.strings,
                        args: &mut args,
                        key: "debug".to_owned(),
                        flat_key: "debug".to_owned(),
                    };
                    annotations.read(annotation, 0);
                }
                _ => {}
            }
        }
        event.kind = match kind? {
            event_type::SLICE_BEGIN => Kind::Begin,
            event_type::SLICE_END => Kind::End,
            event_type::INSTANT => Kind::Instant,
            event_type::COUNTER => Kind::Counter(self.counter_value(event.track_uuid, value?, sequence)),
            _ => return None,
        };
        event.category = self.joined(&categories);
        event.args = self.args.intern(&args);
        Some(event)
    }

    /// In the unit of the counter, and as a sum if the program says differences.
    fn counter_value(&self, uuid: u64, value: f64, sequence: &mut Sequence) -> f64 {
        let Some(counter) = self.descriptors.get(uuid).and_then(|descriptor| descriptor.counter) else {
            return value;
        };
        let value = value * counter.unit_multiplier as f64;
        if !counter.is_incremental {
            return value;
        }
        let sum = sequence.counters.entry(uuid).or_default();
        *sum += value;
        *sum
    }

    fn joined(&mut self, categories: &[Str]) -> Option<Str> {
        match categories {
            [] => None,
            [one] => Some(*one),
            many => {
                let strings = &mut self.tables.strings;
                let names: Vec<&str> =
                    many.iter().take(MAX_CATEGORIES).map(|name| strings.get(*name)).collect();
                let joined = names.join(",");
                Some(strings.intern(&joined))
            }
        }
    }
}
