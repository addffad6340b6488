//! Which track a slice lies on, of slices that may overlap: on each track what overlaps lies one within the other.
//!
//! A slice lies within its parent if that is the innermost that is open on its track, and lasts as long. Otherwise it has the first track of its
//! owner on which nothing is open, or a new one. Of an owner that does one thing after the other, such as a thread, any that encloses it on the
//! first track may be the outer one.
//!
//! A slice costs `log n` steps, whatever overlaps.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::hash::Hash;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Slices that lie one within the other on one track: a deeper one has another track. Slices have a bound, too, beyond which they are left out.
const MAX_DEPTH: usize = 256;

/// All tracks of all owners.
#[derive(Debug)]
pub(crate) struct Lanes<K> {
    numbers: HashMap<K, usize, RandomState>,
    sets: Vec<Set>,
}

impl<K> Default for Lanes<K> {
    fn default() -> Self {
        Self { numbers: HashMap::default(), sets: Vec::new() }
    }
}

/// The tracks of an owner.
#[derive(Debug, Default)]
struct Set {
    /// What is open on each: the slice, and when it ends.
    stacks: Vec<Vec<(usize, i64)>>,
    idle: BTreeSet<usize>,
    /// When the outermost of each ends.
    busy: BinaryHeap<Reverse<(i64, usize)>>,
}

/// A place: the owner's number, and the track's among that owner's.
pub(crate) type Place = (usize, usize);

/// A slice that looks for its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lying {
    /// What tells it apart.
    pub(crate) number: usize,
    /// When it begins.
    pub(crate) start: i64,
    /// When it ends; the latest time there is, if it does not.
    pub(crate) end: i64,
    /// Its parent, and where that lies.
    pub(crate) parent: Option<(usize, Place)>,
    /// Its owner does one thing after the other.
    pub(crate) nests: bool,
}

impl<K: Eq + Hash> Lanes<K> {
    /// The place of a slice, which does not begin before the last one did.
    pub(crate) fn place(&mut self, owner: K, slice: Lying) -> Place {
        let next = self.sets.len();
        let set_number = *self.numbers.entry(owner).or_insert(next);
        if set_number == next {
            self.sets.push(Set::default());
        }
        let Some(set) = self.sets.get_mut(set_number) else { return (0, 0) };
        set.release(slice.start);
        let lane = slice
            .parent
            .filter(|(_, (of_set, _))| *of_set == set_number)
            .and_then(|(parent, (_, lane))| set.within(lane, slice, |outer| outer == parent))
            .or_else(|| set.within(0, slice, |_| slice.nests));
        let lane = lane.unwrap_or_else(|| set.take_idle(slice.end));
        if let Some(stack) = set.stacks.get_mut(lane) {
            stack.push((slice.number, slice.end));
        }
        (set_number, lane)
    }
}

impl Set {
    fn release(&mut self, now: i64) {
        while let Some(Reverse((end, lane))) = self.busy.peek().copied()
            && end <= now
        {
            self.busy.pop();
            if let Some(stack) = self.stacks.get_mut(lane) {
                stack.clear();
            }
            self.idle.insert(lane);
        }
    }

    /// A track, if the innermost that is open there may have this slice within it.
    fn within(&mut self, lane: usize, slice: Lying, may: impl Fn(usize) -> bool) -> Option<usize> {
        let stack = self.stacks.get_mut(lane)?;
        while stack.last().is_some_and(|(_, end)| *end <= slice.start) {
            stack.pop();
        }
        let (outer, end) = *stack.last()?;
        (may(outer) && end >= slice.end && stack.len() < MAX_DEPTH).then_some(lane)
    }

    fn take_idle(&mut self, until: i64) -> usize {
        let lane = self.idle.pop_first().unwrap_or_else(|| {
            self.stacks.push(Vec::new());
            self.stacks.len() - 1
        });
        self.busy.push(Reverse((until, lane)));
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_has_tracks_of_its_own_and_children_lie_within_parents() {
        let mut lanes = Lanes::default();
        let mut place =
            |number, start, end, parent, nests| lanes.place((), Lying { number, start, end, parent, nests });
        let outer = place(0, 0, 100, None, false);
        assert_eq!(outer, (0, 0));
        assert_eq!(place(1, 10, 50, Some((0, outer)), false), (0, 0));
        // The parent has another child open; then it has none.
        assert_eq!(place(2, 20, 60, Some((0, outer)), false), (0, 1));
        assert_eq!(place(3, 60, 70, Some((0, outer)), false), (0, 0));
        assert_eq!(place(4, 65, 69, None, false), (0, 1));
        assert_eq!(place(5, 66, 69, None, true), (0, 0));
        assert_eq!(place(6, 67, 101, None, true), (0, 2));
        assert_eq!(place(7, 200, i64::MAX, None, false), (0, 0));
        assert_eq!(place(8, 201, 202, None, false), (0, 1));
    }
}
