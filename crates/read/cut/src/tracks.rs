//! Which slices reach into the range: one stack a track (upstream: slice_tracker.cc).
//!
//! A slice whose begin lies before the range and whose end does not, and one that ends after the range and begins before that, needs the
//! packet that is outside. Packets come in the order of the file, which is that of time for what one thread writes. A track on which an event
//! comes late (several threads write to it) is *disordered*: what is needed of it is told by a further pass, which puts its events in order
//! ([`Disordered`]).
//!
//! Memory: [`MAX_TRACKS`], [`MAX_OPEN`], some 200 bytes each.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::plan::Place;
use crate::range::Range;

/// Tracks that are followed at once. Beyond, those with nothing open are forgotten, and with them whether they are disordered.
const MAX_TRACKS: usize = 1 << 19;
/// Slices that are open at once on all tracks. Ours: further ones are not followed, which is counted.
const MAX_OPEN: usize = 1 << 20;
/// Slices that are open at once on one track: deeper ones are none for those who read traces, either (upstream: slice_tracker.cc). It bounds
/// how far an end looks for its begin.
const MAX_DEPTH: usize = 512;
/// With more tracks a stack gives back the memory that it does not need. Ours: most traces have fewer, and in those it need not be asked for
/// again.
const FEW_TRACKS: usize = 1024;
/// When few of the tracks can be forgotten all are, or the next one would ask again.
const MAX_KEPT: usize = MAX_TRACKS / 8 * 7;
/// Events of disordered tracks that are put in order at once; with more there are several passes. 48 bytes each.
pub(crate) const MAX_RECORDS: u64 = 1 << 20;

/// Tracks that are found without a search, a power of two. Ours: programs write to some at a time.
const RECENT: usize = 256;
const RECENT_SHIFT: u32 = u64::BITS - RECENT.ilog2();

/// A track: of which machine, and its uuid or what stands for it.
pub(crate) type TrackKey = (u32, u64);

/// A begin or an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) ts: i64,
    pub(crate) place: Place,
    /// The hash of a name. An end with one ends a slice of that name.
    pub(crate) name: u64,
    pub(crate) is_begin: bool,
}

#[derive(Debug)]
struct Track {
    key: TrackKey,
    stack: Vec<Edge>,
    last_ts: i64,
    events: u32,
    is_disordered: bool,
}

/// Follows all tracks.
#[derive(Debug)]
pub(crate) struct Tracks {
    range: Range,
    tracks: Vec<Track>,
    numbers: HashMap<TrackKey, usize, RandomState>,
    /// The numbers of tracks that were met lately, by the end of their hash.
    recent: [usize; RECENT],
    open: usize,
    /// Slices and tracks beyond the bounds.
    pub(crate) beyond: u64,
}

impl Tracks {
    pub(crate) fn new(range: Range) -> Self {
        Self {
            range,
            tracks: Vec::new(),
            numbers: HashMap::default(),
            recent: [0; RECENT],
            open: 0,
            beyond: 0,
        }
    }

    /// Takes the next edge of the file; calls `pair` with each begin and its end, once that is known.
    #[inline]
    pub(crate) fn take(&mut self, key: TrackKey, edge: Edge, pair: impl FnOnce(&Edge, &Edge)) {
        let number = self.number(key);
        let are_few = self.tracks.len() <= FEW_TRACKS;
        let Some(track) = self.tracks.get_mut(number) else { return };
        if edge.ts < track.last_ts && track.events > 0 {
            track.is_disordered = true;
        }
        track.last_ts = edge.ts;
        track.events = track.events.saturating_add(1);
        if edge.is_begin {
            if track.stack.len() >= MAX_DEPTH {
                return;
            }
            if self.open >= MAX_OPEN {
                self.beyond += 1;
                return;
            }
            self.open += 1;
            track.stack.push(edge);
        } else if let Some(begin) = end_of(&mut track.stack, &edge) {
            self.open -= 1;
            if !are_few {
                give_back(&mut track.stack);
            }
            pair(&begin, &edge);
        }
    }

    #[inline]
    fn number(&mut self, key: TrackKey) -> usize {
        let at = (key.1 ^ u64::from(key.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> RECENT_SHIFT;
        let recent = self.recent.get(at as usize).copied().unwrap_or(0);
        if self.tracks.get(recent).is_some_and(|track| track.key == key) {
            return recent;
        }
        let number = self.find(key);
        if let Some(recent) = self.recent.get_mut(at as usize) {
            *recent = number;
        }
        number
    }

    fn find(&mut self, key: TrackKey) -> usize {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        if self.tracks.len() >= MAX_TRACKS {
            self.forget_idle();
        }
        let number = self.tracks.len();
        self.tracks.push(Track { key, stack: Vec::new(), last_ts: 0, events: 0, is_disordered: false });
        self.numbers.insert(key, number);
        number
    }

    /// The slices that were never ended.
    pub(crate) fn open(&self) -> impl Iterator<Item = (TrackKey, &Edge)> {
        self.tracks.iter().flat_map(|track| track.stack.iter().map(|edge| (track.key, edge)))
    }

    /// The tracks on which events came late, and how many events those have.
    pub(crate) fn disordered(&self) -> (Vec<TrackKey>, u64) {
        let disordered = self.tracks.iter().filter(|track| track.is_disordered);
        let events = disordered.clone().map(|track| u64::from(track.events)).sum();
        (disordered.map(|track| track.key).collect(), events)
    }

    fn forget_idle(&mut self) {
        self.tracks.retain(|track| !track.stack.is_empty() || track.is_disordered);
        if self.tracks.len() > MAX_KEPT {
            // Nearly all are in use: start anew with none.
            self.beyond += self.tracks.len() as u64;
            self.tracks.clear();
            self.open = 0;
        }
        let tracks = self.tracks.iter().enumerate();
        self.numbers = tracks.map(|(number, track)| (track.key, number)).collect();
    }

    pub(crate) fn range(&self) -> Range {
        self.range
    }
}

/// Leaves a stack no more memory than some times what it holds.
fn give_back(stack: &mut Vec<Edge>) {
    if stack.capacity() > 4 * (stack.len() + 1) {
        stack.shrink_to(2 * stack.len());
    }
}

/// Takes from the stack what this ends.
fn end_of(stack: &mut Vec<Edge>, end: &Edge) -> Option<Edge> {
    let at = match end.name {
        0 => stack.len().checked_sub(1)?,
        name => stack.iter().rposition(|begin| begin.name == name)?,
    };
    match at + 1 == stack.len() {
        true => stack.pop(),
        false => Some(stack.remove(at)),
    }
}

/// Which outside packets a slice needs: its begin, its end.
pub(crate) fn needs(range: Range, begin: &Edge, end: Option<&Edge>) -> [bool; 2] {
    let ends = end.map_or(i64::MAX, |end| end.ts);
    [begin.ts < range.from && ends >= range.from, end.is_some() && ends >= range.to && begin.ts < range.to]
}

/// The edges of disordered tracks, to be put in order.
#[derive(Debug, Default)]
pub(crate) struct Disordered {
    edges: Vec<(TrackKey, Edge)>,
    /// Edges beyond the bound.
    pub(crate) beyond: u64,
}

impl Disordered {
    pub(crate) fn take(&mut self, key: TrackKey, edge: Edge) {
        // Twice: a pass has a share of the tracks, which may have more events than the average.
        if self.edges.len() as u64 >= 2 * MAX_RECORDS {
            self.beyond += 1;
            return;
        }
        self.edges.push((key, edge));
    }

    /// Calls `pair` with all slices of all tracks.
    pub(crate) fn finish(mut self, mut pair: impl FnMut(&Edge, Option<&Edge>)) {
        self.edges.sort_by_key(|(key, edge)| (*key, edge.ts, edge.place.ordinal));
        for track in self.edges.chunk_by(|(one, _), (other, _)| one == other) {
            let mut stack = Vec::new();
            for (_, edge) in track {
                if edge.is_begin {
                    if stack.len() < MAX_DEPTH {
                        stack.push(*edge);
                    }
                } else if let Some(begin) = end_of(&mut stack, edge) {
                    pair(&begin, Some(edge));
                }
            }
            stack.iter().for_each(|begin| pair(begin, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(ts: i64, name: u64, is_begin: bool) -> Edge {
        let place = Place { ordinal: ts as u64, sequence: 0, generation: 0 };
        Edge { ts, place, name, is_begin }
    }

    #[test]
    fn an_end_looks_at_as_many_slices_as_a_track_may_have() {
        let mut tracks = Tracks::new(Range::ALL);
        (0..10_000).for_each(|ts| tracks.take((0, 7), edge(ts, 1, true), |_, _| panic!("it begins")));
        assert_eq!((tracks.open().count(), tracks.open, tracks.beyond), (MAX_DEPTH, MAX_DEPTH, 0));
        tracks.take((0, 7), edge(10_000, 2, false), |_, _| panic!("nothing is called so"));
        let mut pairs = Vec::new();
        for ts in 10_001..12_000 {
            tracks.take((0, 7), edge(ts, 1, false), |begin, _| pairs.push(begin.ts));
        }
        assert!(pairs.into_iter().eq((0..MAX_DEPTH as i64).rev()));

        let mut disordered = Disordered::default();
        (0..10_000).for_each(|ts| disordered.take((0, 7), edge(ts, 1, true)));
        let mut open = 0;
        disordered.finish(|_, _| open += 1);
        assert_eq!(open, MAX_DEPTH);
    }

    #[test]
    fn tracks_that_nobody_uses_are_looked_for_seldom_and_have_little_memory() {
        let mut tracks = Tracks::new(Range::ALL);
        let busy = MAX_KEPT as u64 + 1;
        (0..busy).for_each(|key| tracks.take((0, key), edge(0, 1, true), |_, _| ()));
        let mut anew = 0;
        for key in busy..busy + MAX_TRACKS as u64 {
            let before = tracks.tracks.len();
            tracks.take((0, key), edge(1, 1, true), |_, _| ());
            tracks.take((0, key), edge(2, 1, false), |_, _| ());
            anew += u64::from(tracks.tracks.len() <= before);
        }
        assert_eq!((anew, tracks.beyond), (1, busy));

        for depth in 0..MAX_DEPTH as i64 {
            tracks.take((0, 1), edge(depth, 1, true), |_, _| ());
        }
        (0..MAX_DEPTH as i64 - 1).for_each(|_| tracks.take((0, 1), edge(1000, 1, false), |_, _| ()));
        assert!(tracks.tracks.iter().all(|track| track.stack.capacity() <= 8));
    }
}
