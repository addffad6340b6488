//! When the first slice of a name was open.

use ferretto_protos::fields::interned_data;

use crate::event::{SLICE_BEGIN, SLICE_END, TrackEvent};
use crate::filter::Numbers;
use crate::index::track_key;
use crate::kind::Kind;
use crate::tracks::TrackKey;
use crate::walk::{Seen, Walk};

/// Looks for the first slice of a name, in the order of the file.
#[derive(Debug)]
pub(crate) struct Search {
    numbers: Numbers,
    found: Option<Found>,
}

#[derive(Debug)]
struct Found {
    track: TrackKey,
    begin: i64,
    end: Option<i64>,
    /// Slices that are open within it.
    depth: u64,
}

impl Search {
    pub(crate) fn new(name: &str) -> Self {
        Self { numbers: Numbers::new(interned_data::EVENT_NAMES, name), found: None }
    }

    pub(crate) fn take(&mut self, walk: &Walk, seen: &Seen<'_>) {
        if self.found.as_ref().is_some_and(|found| found.end.is_some()) {
            return;
        }
        self.numbers.arrive(walk, seen);
        if seen.kind != Kind::TrackEvent || !seen.is_readable {
            return;
        }
        let (Some((_, data)), Some(ts)) = (seen.head.data, seen.ts) else { return };
        let event = TrackEvent::of(data);
        let defaults = walk.sequences.get(seen.sequence).and_then(|sequence| sequence.track_uuid);
        let track = track_key(seen.head.machine_id, event.track_uuid.or(defaults), seen.sequence);
        if let Some(found) = &mut self.found {
            match event.kind {
                SLICE_BEGIN if found.track == track => found.depth += 1,
                SLICE_END if found.track == track => match found.depth.checked_sub(1) {
                    Some(depth) => found.depth = depth,
                    None => found.end = Some(ts),
                },
                _ => {}
            }
            return;
        }
        let is_it = event.name_text.is_some_and(|text| self.numbers.is(text))
            || event.name_iid.is_some_and(|iid| self.numbers.has(walk, seen, iid));
        if is_it {
            let end = (event.kind != SLICE_BEGIN).then_some(ts);
            self.found = Some(Found { track, begin: ts, end, depth: 0 });
        }
    }

    /// Its begin, and its end if it has one.
    pub(crate) fn found(&self) -> Option<(i64, Option<i64>)> {
        self.found.as_ref().map(|found| (found.begin, found.end))
    }
}
