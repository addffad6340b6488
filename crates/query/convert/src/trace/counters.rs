//! Values of counters, as events of programs. Frequencies and idling of processors are the kernel's events (`sched`).

use ferretto_protos::fields::trace_packet::TRACK_EVENT;
use ferretto_protos::fields::track_event as field;
use ferretto_protozero::Message;
use ferretto_trace_tables::{Tables, TrackId};

use super::kept::Kept;
use super::sequence::Sequence;
use super::{annotations, number, sched, tracks};
use crate::Error;
use crate::packets::Sink;

/// `TrackEvent.Type`.
const COUNTER: u64 = 4;
/// Whole numbers below are the same as floating-point numbers.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

/// Counters that a reader makes of slices' times.
const OF_SLICES: [&str; 2] = ["thread_time", "thread_instructions"];

fn is_of_slices(tables: &Tables, track: TrackId) -> bool {
    let type_ = tables.track.type_.get(track.index()).copied().flatten();
    type_.is_some_and(|type_| OF_SLICES.contains(&tables.strings.get(type_)))
}

pub(super) fn write(tables: &Tables, kept: Kept, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut sequence = Sequence::new(number::COUNTERS);
    let counters = &tables.counter;
    let mut bytes = Vec::new();
    for row in 0..counters.len() {
        let track = counters.track_id.at(row);
        if sched::is_of_processor(tables, track).is_some() || is_of_slices(tables, track) {
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
            annotations::write(tables, set, kept, &mut sequence, &mut event);
        }
        drop(event);
        sequence.put(Some(counters.ts.at(row)), TRACK_EVENT, &bytes, sink)?;
    }
    Ok(())
}
