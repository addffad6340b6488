//! Values of counters, as events of programs. Frequencies and idling of processors are the kernel's events (`sched`).

use ferretto_protos::fields::trace_packet::TRACK_EVENT;
use ferretto_protos::fields::track_event as field;
use ferretto_protozero::Message;
use ferretto_trace_tables::Tables;

use super::sequence::Sequence;
use super::{annotations, number, sched, tracks};
use crate::Error;
use crate::packets::Sink;

/// `TrackEvent.Type`.
const COUNTER: u64 = 4;
/// Whole numbers below are the same as floating-point numbers.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

pub(super) fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut sequence = Sequence::new(number::COUNTERS);
    let counters = &tables.counter;
    let mut bytes = Vec::new();
    for row in 0..counters.len() {
        let track = counters.track_id.at(row);
        if sched::is_of_processor(tables, track).is_some() {
            continue;
        }
        bytes.clear();
        let mut event = Message::new(&mut bytes);
        event.varint(field::TYPE, COUNTER);
        event.varint(field::TRACK_UUID, tracks::uuid(tables, track));
        let value = counters.value.at(row);
        let is_whole =
            value.fract() == 0.0 && value.abs() < MAX_WHOLE && !(value == 0.0 && value.is_sign_negative());
        match is_whole {
            true => event.int(field::COUNTER_VALUE, value as i64),
            false => event.double(field::DOUBLE_COUNTER_VALUE, value),
        }
        if let Some(set) = counters.arg_set_id.get(row) {
            annotations::write(tables, set, &mut sequence, &mut event, field::DEBUG_ANNOTATIONS);
        }
        drop(event);
        sequence.put(Some(counters.ts.at(row)), TRACK_EVENT, &bytes, sink)?;
    }
    Ok(())
}
