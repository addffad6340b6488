//! What a cut needs from outside of its range, as the passes that look tell it to the one that writes.

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::ftrace::tail::Tail;
use crate::range::Range;
use crate::tracks::TrackKey;
use crate::walk::NO_GENERATION;

/// Packets that are needed from outside. Ours: a range has some for each track, counter and process; further ones are left out, and counted.
const MAX_NEEDED: usize = 1 << 20;

/// A packet, and what it relies on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) ordinal: u64,
    pub(crate) sequence: usize,
    /// The packet that last cleared its sequence.
    pub(crate) generation: u64,
}

/// How much of a packet is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// That it relies on what is interned, without its data.
    Flags,
    /// The further counters of an event, without the event.
    Counters,
    /// All of it.
    Whole,
}

/// How much, and whether only because of a track's slices.
#[derive(Clone, Copy, Debug)]
struct Needed {
    need: Need,
    track: Option<TrackKey>,
}

/// What is needed.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) range: Range,
    /// Packets outside of the range.
    needed: HashMap<u64, Needed, RandomState>,
    /// Of each sequence and generation that is relied on the last packet that does.
    until: HashMap<(usize, u64), u64, RandomState>,
    /// Events of the kernel from outside of the range.
    pub(crate) tail: Tail,
    /// What was left out because of bounds.
    pub(crate) beyond: u64,
}

impl Plan {
    pub(crate) fn new(range: Range) -> Self {
        Self {
            range,
            needed: HashMap::default(),
            until: HashMap::default(),
            tail: Tail::default(),
            beyond: 0,
        }
    }

    pub(crate) fn need(&mut self, place: Place, need: Need) {
        self.add(place, Needed { need, track: None });
    }

    /// A slice of this track needs all of the packet.
    pub(crate) fn need_of(&mut self, track: TrackKey, place: Place) {
        self.add(place, Needed { need: Need::Whole, track: Some(track) });
    }

    /// What is only needed because of these tracks is not.
    pub(crate) fn forget(&mut self, tracks: &HashSet<TrackKey, RandomState>) {
        self.needed.retain(|_, needed| needed.track.is_none_or(|track| !tracks.contains(&track)));
    }

    fn add(&mut self, place: Place, needed: Needed) {
        if self.needed.len() >= MAX_NEEDED && !self.needed.contains_key(&place.ordinal) {
            self.beyond += 1;
            return;
        }
        let so_far = self.needed.entry(place.ordinal).or_insert(needed);
        so_far.need = needed.need.max(so_far.need);
        so_far.track = so_far.track.filter(|_| needed.track.is_some());
        self.rely(place);
    }

    /// What was interned before this packet is needed.
    pub(crate) fn rely(&mut self, place: Place) {
        if place.generation != NO_GENERATION {
            let until = self.until.entry((place.sequence, place.generation)).or_default();
            *until = place.ordinal.max(*until);
        }
    }

    pub(crate) fn needs(&self, ordinal: u64) -> Option<Need> {
        self.needed.get(&ordinal).map(|needed| needed.need)
    }

    /// The packets that are needed.
    pub(crate) fn all_needed(&self) -> impl Iterator<Item = u64> {
        self.needed.keys().copied()
    }

    /// Up to which packet what is interned is needed.
    pub(crate) fn until(&self, sequence: usize, generation: u64) -> Option<u64> {
        self.until.get(&(sequence, generation)).copied()
    }
}
