//! Slices of programs while they are open, in the order of the file.
//!
//! One stack a track. A thread writes its own track in the order of time, so what it begins and ends is found; where several threads write
//! one track, an end may stand in the file before its beginning, and then neither is counted as a slice (`trace-model` puts events in the
//! order of time first, which takes all of them at once).
//!
//! Memory: what is open, at most `MAX_OPEN` slices of 32 bytes.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::names::Name;

/// Slices that are open at a time.
const MAX_OPEN: usize = 1 << 18;
/// How deep an end is looked for. Upstream's bound of depth.
const MAX_DEPTH: usize = 512;
/// The bottom of a stack.
const NONE: u32 = u32::MAX;
/// Tracks of the last slices: what begins and ends without many others between needs no search. A page.
const RECENT_TRACKS: usize = 256;

/// Those that are open.
#[derive(Debug, Default)]
pub struct Slices {
    pool: Pool,
    tops: Tops,
    /// Ends whose beginning is not known.
    pub stray_ends: u64,
    /// Beginnings for which there was no room.
    pub left_out: u64,
}

/// Those of all tracks.
#[derive(Debug, Default)]
struct Pool {
    slots: Vec<Slot>,
    /// The uppermost of those that are free.
    free: Top,
    open: u64,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// When it began.
    pub time_ns: i64,
    /// What it is called.
    pub name: Name,
    /// Its categories.
    pub category: Name,
}

impl Open {
    /// What one of the two does not say is not asked for.
    #[inline]
    fn is_called(&self, name: Name) -> bool {
        name == Name::NONE || name == self.name || self.name == Name::NONE
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    open: Open,
    below: u32,
}

/// The uppermost slice of a track, by its slot.
#[derive(Clone, Copy, Debug)]
pub struct Top(u32);

/// The uppermost slices of tracks that no sequence keeps by itself.
#[derive(Debug)]
struct Tops {
    /// Tracks modulo the number of places, and theirs.
    recent: Box<[(u64, Top); RECENT_TRACKS]>,
    /// Of tracks that are not there: those that have one.
    others: HashMap<u64, Top, RandomState>,
}

impl Default for Top {
    fn default() -> Self {
        Self(NONE)
    }
}

impl Default for Tops {
    fn default() -> Self {
        Self { recent: Box::new([(0, Top(NONE)); RECENT_TRACKS]), others: HashMap::default() }
    }
}

impl Tops {
    /// That of a track, which becomes a recent one.
    #[inline]
    fn of(&mut self, track: u64) -> &mut Top {
        let place = &mut self.recent[track as usize % RECENT_TRACKS];
        if place.0 != track {
            let top = match self.others.is_empty() {
                true => None,
                false => self.others.remove(&track),
            };
            let (before, its) = std::mem::replace(place, (track, top.unwrap_or_default()));
            if its.0 != NONE {
                self.others.insert(before, its);
            }
        }
        &mut place.1
    }
}

impl Slices {
    /// How many have not ended.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.pool.open
    }

    /// Begins one on a sequence's own track.
    #[inline(always)]
    pub fn begin(&mut self, top: &mut Top, open: Open) {
        self.left_out += u64::from(!self.pool.begin(top, open));
    }

    /// Ends the uppermost one of a sequence's own track; with a name, that of this name.
    #[inline(always)]
    pub fn end(&mut self, top: &mut Top, name: Name) -> Option<Open> {
        self.pool.end(top, name)
    }

    /// Begins one on any track.
    #[inline(never)]
    pub fn begin_on(&mut self, track: u64, open: Open) {
        let has_room = self.pool.begin(self.tops.of(track), open);
        self.left_out += u64::from(!has_room);
    }

    /// Ends one of any track.
    #[inline(never)]
    pub fn end_on(&mut self, track: u64, name: Name) -> Option<Open> {
        self.pool.end(self.tops.of(track), name)
    }
}

impl Pool {
    /// Says whether there was room.
    #[inline(always)]
    fn begin(&mut self, top: &mut Top, open: Open) -> bool {
        let Some(slot) = self.slot(Slot { open, below: top.0 }) else { return false };
        self.open += 1;
        top.0 = slot;
        true
    }

    #[inline(always)]
    fn end(&mut self, top: &mut Top, name: Name) -> Option<Open> {
        let slot = *self.slots.get(top.0 as usize)?;
        if !slot.open.is_called(name) {
            return self.end_below(top.0, name);
        }
        self.release(top.0);
        top.0 = slot.below;
        Some(slot.open)
    }

    /// One that is not the uppermost: the others stay.
    fn end_below(&mut self, top: u32, name: Name) -> Option<Open> {
        let mut above = top;
        for _ in 0..MAX_DEPTH {
            let below = self.slots.get(above as usize)?.below;
            let slot = *self.slots.get(below as usize)?;
            if slot.open.is_called(name) {
                self.slots.get_mut(above as usize)?.below = slot.below;
                self.release(below);
                return Some(slot.open);
            }
            above = below;
        }
        None
    }

    #[inline(always)]
    fn slot(&mut self, slot: Slot) -> Option<u32> {
        if let Some(place) = self.slots.get_mut(self.free.0 as usize) {
            let free = std::mem::replace(&mut self.free.0, place.below);
            *place = slot;
            return Some(free);
        }
        if self.slots.len() >= MAX_OPEN {
            return None;
        }
        self.slots.push(slot);
        Some(self.slots.len() as u32 - 1)
    }

    #[inline]
    fn release(&mut self, slot: u32) {
        if let Some(place) = self.slots.get_mut(slot as usize) {
            place.below = std::mem::replace(&mut self.free.0, slot);
            self.open = self.open.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(time_ns: i64, name: u32) -> Open {
        Open { time_ns, name: Name(name), category: Name::NONE }
    }

    #[test]
    fn ends_find_their_beginnings_on_their_track() {
        let mut slices = Slices::default();
        let mut top = Top::default();
        slices.begin(&mut top, open(1, 5));
        slices.begin(&mut top, open(2, 6));
        slices.begin_on(9, open(3, 7));
        assert_eq!(slices.end(&mut top, Name::NONE), Some(open(2, 6)));
        slices.begin(&mut top, open(4, 8));
        assert_eq!(slices.end(&mut top, Name(5)), Some(open(1, 5)));
        assert_eq!(slices.end(&mut top, Name(5)), None);
        assert_eq!(slices.end(&mut top, Name::NONE), Some(open(4, 8)));
        assert_eq!(slices.end(&mut top, Name::NONE), None);
        assert_eq!((slices.end_on(8, Name::NONE), slices.end_on(9, Name::NONE)), (None, Some(open(3, 7))));
        assert_eq!((slices.end_on(9, Name::NONE), slices.open()), (None, 0));
    }

    #[test]
    fn tracks_that_share_a_place_keep_what_is_theirs() {
        let mut slices = Slices::default();
        let track = |n: u64| 7 + n * RECENT_TRACKS as u64;
        for n in 0..6 {
            slices.begin_on(track(n % 3), open(n as i64, 5));
        }
        for n in [5, 3, 4, 1, 0, 2] {
            assert_eq!(slices.end_on(track(n % 3), Name::NONE), Some(open(n as i64, 5)));
        }
        for n in 0..4 {
            assert_eq!(slices.end_on(track(n), Name::NONE), None);
        }
        assert_eq!((slices.open(), slices.tops.others.len()), (0, 0));
    }

    #[test]
    fn what_is_open_has_a_bound() {
        let mut slices = Slices::default();
        for track in 0..2 * MAX_OPEN as u64 {
            slices.begin_on(track, open(0, 5));
        }
        assert_eq!((slices.open(), slices.left_out), (MAX_OPEN as u64, MAX_OPEN as u64));
        assert_eq!(slices.end_on(3, Name::NONE), Some(open(0, 5)));
        slices.begin_on(1 << 40, open(1, 5));
        assert_eq!(slices.end_on(1 << 40, Name::NONE), Some(open(1, 5)));
    }
}
