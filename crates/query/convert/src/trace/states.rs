//! States that programs say that something is in, as events on tracks of states: each lasts until the next of its track.

use ferretto_protos::fields::trace_packet::TRACK_EVENT;
use ferretto_protos::fields::{interned_data, track_event as field};
use ferretto_protozero::Message;
use ferretto_trace_tables::Tables;

use super::kept::Kept;
use super::sequence::Sequence;
use super::{annotations, number, tracks};
use crate::Error;
use crate::packets::Sink;

/// `TrackEvent.Type`.
const STATE: u64 = 5;

pub(super) fn write(tables: &Tables, kept: Kept, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut sequence = Sequence::new(number::STATES);
    let states = &tables.state;
    // When each row begins, and when it ends: an event without a name.
    let begins = (0..states.len()).map(|row| (states.ts.at(row), row, false));
    let ends = (0..states.len()).filter(|row| states.dur.at(*row) >= 0);
    let ends = ends.map(|row| (states.ts.at(row).saturating_add(states.dur.at(row)), row, true));
    let mut events: Vec<(i64, usize, bool)> = begins.chain(ends).collect();
    events.sort_unstable();
    let mut bytes = Vec::new();
    for (ts, row, is_end) in events {
        bytes.clear();
        let mut event = Message::new(&mut bytes);
        event.varint(field::TYPE, STATE);
        event.varint(field::TRACK_UUID, tracks::uuid(tables, states.track_id.at(row)));
        if !is_end {
            write_state(tables, kept, row, &mut sequence, &mut event);
        }
        drop(event);
        sequence.put(Some(ts), TRACK_EVENT, &bytes, sink)?;
    }
    Ok(())
}

fn write_state(
    tables: &Tables,
    kept: Kept,
    row: usize,
    sequence: &mut Sequence,
    event: &mut Message<'_, Vec<u8>>,
) {
    let (states, strings) = (&tables.state, &tables.strings);
    if let Some(category) = states.category.at(row) {
        event.varint(field::CATEGORY_IIDS, sequence.text(interned_data::EVENT_CATEGORIES, category, strings));
    }
    if let Some(value) = states.value.at(row) {
        event.varint(field::NAME_IID, sequence.text(interned_data::EVENT_NAMES, value, strings));
    }
    if let Some(set) = states.arg_set_id.get(row) {
        annotations::write(tables, set, kept, sequence, event);
    }
}
