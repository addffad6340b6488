//! What a cut needs from outside of its range, as the passes that look tell it to the one that writes.

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::ftrace::tail::Tail;
use crate::range::Range;
use crate::tracks::TrackKey;
use crate::walk::NO_GENERATION;

/// Packets that are needed from outside. Ours: a range has some for each track, counter and process; further ones are left out, and counted.
const MAX_NEEDED: usize = 1 << 20;

/// States of sequences that are relied on. Ours: a thousand threads that say theirs anew every five seconds have as many in an hour and a half;
/// with more, all states are kept.
const MAX_RELIED_ON: usize = 1 << 20;

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
    /// These are too many to be told apart.
    keeps_all_states: bool,
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
            keeps_all_states: false,
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
        let key = (place.sequence, place.generation);
        if place.generation == NO_GENERATION || self.keeps_all_states {
            return;
        }
        if self.until.len() >= MAX_RELIED_ON && !self.until.contains_key(&key) {
            self.keeps_all_states = true;
            self.until = HashMap::default();
            return;
        }
        let until = self.until.entry(key).or_default();
        *until = place.ordinal.max(*until);
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
        match self.keeps_all_states {
            true => Some(u64::MAX),
            false => self.until.get(&(sequence, generation)).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_are_relied_on_are_bounded_and_with_more_all_are_kept() {
        let mut plan = Plan::new(Range::ALL);
        let place = |generation| Place { ordinal: generation + 1, sequence: 0, generation };
        (0..MAX_RELIED_ON as u64).for_each(|generation| plan.rely(place(generation)));
        assert_eq!((plan.until(0, 7), plan.until(0, u64::MAX - 1)), (Some(8), None));
        (0..10).for_each(|more| plan.rely(place(u64::MAX - 2 - more)));
        assert_eq!((plan.until(0, 7), plan.until.len()), (Some(u64::MAX), 0));
    }
}
