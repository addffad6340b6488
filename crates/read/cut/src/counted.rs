//! Of each sequence what readers count: its packets that rely on what is interned, and those of them that cannot be read.
//!
//! A sequence of which they can read none was dropped, they say (upstream: proto_trace_reader.cc, `incremental_sequences_dropped`). For a cut to
//! say so of the same sequences as the whole, the flags of one packet are enough: of one that can be read, if others cannot, or else of one
//! that cannot be read.

use ferretto_protos::fields::trace_packet as field;

use crate::plan::{Need, Place, Plan};
use crate::walk::{NO_GENERATION, Seen};

/// By the numbers of sequences.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    sequences: Vec<First>,
}

/// The first packet of each sort.
#[derive(Clone, Copy, Debug, Default)]
struct First {
    read: Option<Place>,
    skipped: Option<Place>,
}

impl Counted {
    #[inline]
    pub(crate) fn take(&mut self, seen: &Seen<'_>, place: Place) {
        if !is_counted(seen) {
            return;
        }
        if self.sequences.len() <= place.sequence {
            self.sequences.resize(place.sequence + 1, First::default());
        }
        let Some(first) = self.sequences.get_mut(place.sequence) else { return };
        match seen.is_readable {
            true => first.read.get_or_insert(place),
            false => first.skipped.get_or_insert(Place { generation: NO_GENERATION, ..place }),
        };
    }

    /// Tells whose flags are needed.
    pub(crate) fn finish(self, plan: &mut Plan) {
        for First { read, skipped } in self.sequences {
            if let Some(skipped) = skipped {
                plan.need(read.unwrap_or(skipped), Need::Flags);
            }
        }
    }
}

/// Readers are done with some packets before they count.
fn is_counted(seen: &Seen<'_>) -> bool {
    let data = seen.head.data.map(|(number, _)| number);
    let is_early = matches!(
        data,
        Some(
            field::CLOCK_SNAPSHOT
                | field::REMOTE_CLOCK_SYNC
                | field::SERVICE_EVENT
                | field::EXTENSION_DESCRIPTOR
        )
    );
    seen.head.needs_state() && seen.head.sequence_id != 0 && !is_early
}
