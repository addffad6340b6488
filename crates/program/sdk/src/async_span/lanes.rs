//! Which span is on which lane.
//!
//! Slices of one track nest: an end ends the slice that was begun last. Spans of tasks overlap as they like, so each is put on a lane, a
//! track on which it nests. Lanes are used again when they are free: readers are told about each once, however many spans there are.
//!
//! The rules, which hold whatever threads are involved:
//!
//! * A span begins on its parent's lane if the parent is the innermost slice there, else on a free lane.
//! * The times on a lane grow strictly. Clocks of threads differ by some nanoseconds, and readers sort by time: a later event that seems
//!   to be earlier gets the next nanosecond.
//! * A span that ends below others (children that outlive it) takes them with it for a nanosecond: they end, it ends, and they go on, on
//!   a lane of their own.
//!
//! Nothing here knows of sessions or packets: what is to be written is returned.

/// Lanes, that is spans that overlap. Far more than anybody can look at; a program that leaks spans stops here.
const MAX_LANES: usize = 16_384;
/// Free lanes that are looked at for one that was free at a time in the past.
const MAX_TRIES: usize = 16;
/// Tracks that are given away in all, as readers and sequences keep each. After that they are used again even if one of their slices was
/// left open.
const MAX_TRACKS: u32 = 65_536;

/// An open span's number.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanId {
    index: u32,
    /// Tells it apart from those that had its place before.
    generation: u32,
}

/// A slice begins or ends on a track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change<T> {
    pub(crate) span: T,
    pub(crate) place: Place,
}

/// Where and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    lane: u32,
    /// The number of the track that the lane has now.
    pub(crate) track: u32,
    pub(crate) at_ns: u64,
}

/// When a span begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// By the clock of this thread.
    Now(u64),
    /// At a time in the past, which is not to be changed.
    Exactly(u64),
}

/// What is to be written at the end of a span, in this order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended<T> {
    /// Ends of the spans above it, from the top down.
    pub(crate) interrupted: Vec<Change<T>>,
    pub(crate) end: Place,
    /// Those spans again.
    pub(crate) resumed: Vec<Change<T>>,
}

/// All lanes of a process. `T` is what the caller knows a span by.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    lanes: Vec<Lane>,
    /// Lanes without slices; the last one was in use last.
    free: Vec<u32>,
    spans: Vec<Entry<T>>,
    free_spans: Vec<u32>,
    tracks: u32,
}

#[derive(Debug)]
struct Lane {
    track: u32,
    /// Of the last event.
    last_ns: u64,
    /// Spans, the innermost last.
    stack: Vec<u32>,
    /// A slice was left open in some trace: the track is not to be used again.
    is_spoilt: bool,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    open: Option<Open<T>>,
}

#[derive(Debug)]
struct Open<T> {
    span: T,
    /// `None`: there was no lane left for it.
    lane: Option<u32>,
}

impl<T: Clone> Lanes<T> {
    pub(crate) const fn new() -> Self {
        Self { lanes: Vec::new(), free: Vec::new(), spans: Vec::new(), free_spans: Vec::new(), tracks: 0 }
    }

    /// Begins a span: its number, where its slice begins, and whether that is on its parent's lane. `None` if there is no lane left.
    pub(crate) fn begin(
        &mut self,
        parent: Option<SpanId>,
        start: Start,
        span: T,
    ) -> Option<(SpanId, Place, bool)> {
        let parents = parent.and_then(|parent| self.lane_under(parent, start));
        let lane = match parents {
            Some(lane) => lane,
            None => self.take_free(start)?,
        };
        let id = self.add(Open { span, lane: Some(lane) });
        let place = self.push(lane, id.index, start);
        Some((id, place, parents.is_some()))
    }

    /// Ends a span. `None` if it was ended before, or its slice was given up for want of a lane.
    pub(crate) fn end(&mut self, id: SpanId, now_ns: u64) -> Option<Ended<T>> {
        let lane = self.remove(id)?.lane?;
        let stack = &self.lane(lane)?.stack;
        let at = stack.iter().rposition(|span| *span == id.index)?;
        if at + 1 == stack.len() {
            let end = self.pop(lane, now_ns)?;
            return Some(Ended { interrupted: Vec::new(), end, resumed: Vec::new() });
        }
        let above = stack.get(at + 1..).unwrap_or_default().to_vec();
        let interrupted = above
            .iter()
            .rev()
            .filter_map(|span| self.change(*span, |lanes| lanes.pop(lane, now_ns)))
            .collect();
        let end = self.pop(lane, now_ns)?;
        let start = Start::Now(end.at_ns);
        let other = self.take_free(start);
        let resumed = above.iter().filter_map(|span| {
            if let Some(open) = self.open_mut(*span) {
                open.lane = other;
            }
            self.change(*span, |lanes| Some(lanes.push(other?, *span, start)))
        });
        let resumed = resumed.collect();
        Some(Ended { interrupted, end, resumed })
    }

    /// A slice on this place's track was left open, as its end was lost.
    pub(crate) fn spoil(&mut self, place: Place) {
        if let Some(lane) = self.lanes.get_mut(place.lane as usize)
            && lane.track == place.track
        {
            lane.is_spoilt = true;
        }
    }

    /// What this number stands for, as long as the span is open.
    pub(crate) fn get(&self, id: SpanId) -> Option<&T> {
        let entry = self.spans.get(id.index as usize)?;
        entry.open.as_ref().filter(|_| entry.generation == id.generation).map(|open| &open.span)
    }

    /// Its lane, if it is the innermost slice there, and the start fits.
    fn lane_under(&self, parent: SpanId, start: Start) -> Option<u32> {
        self.get(parent)?;
        let index = self.spans.get(parent.index as usize)?.open.as_ref()?.lane?;
        let lane = self.lane(index)?;
        (lane.stack.last() == Some(&parent.index) && lane.accepts(start)).then_some(index)
    }

    fn take_free(&mut self, start: Start) -> Option<u32> {
        // The one that was in use last for now, to have few; the one that is free for longest for the past.
        let fits = |lane: &u32| self.lane(*lane).is_some_and(|lane| lane.accepts(start));
        let found = match start {
            Start::Now(_) => self.free.len().checked_sub(1),
            Start::Exactly(_) => self.free.iter().take(MAX_TRIES).position(fits),
        };
        let index = match found {
            Some(at) => self.free.remove(at),
            None => self.add_lane()?,
        };
        let track = self.next_track();
        let lane = self.lanes.get_mut(index as usize)?;
        if std::mem::take(&mut lane.is_spoilt) {
            lane.track = track;
            self.tracks += 1;
        }
        Some(index)
    }

    fn add_lane(&mut self) -> Option<u32> {
        if self.lanes.len() >= MAX_LANES {
            return None;
        }
        let track = self.next_track();
        self.tracks += 1;
        self.lanes.push(Lane { track, last_ns: 0, stack: Vec::new(), is_spoilt: false });
        Some(self.lanes.len() as u32 - 1)
    }

    fn next_track(&self) -> u32 {
        self.tracks % MAX_TRACKS
    }

    fn lane(&self, index: u32) -> Option<&Lane> {
        self.lanes.get(index as usize)
    }

    fn push(&mut self, index: u32, span: u32, start: Start) -> Place {
        let mut place = Place { lane: index, track: 0, at_ns: 0 };
        if let Some(lane) = self.lanes.get_mut(index as usize) {
            let (Start::Now(at_ns) | Start::Exactly(at_ns)) = start;
            (place.track, place.at_ns) = (lane.track, lane.next(at_ns));
            lane.stack.push(span);
        }
        place
    }

    fn pop(&mut self, index: u32, now_ns: u64) -> Option<Place> {
        let lane = self.lanes.get_mut(index as usize)?;
        lane.stack.pop();
        let place = Place { lane: index, track: lane.track, at_ns: lane.next(now_ns) };
        if lane.stack.is_empty() {
            self.free.push(index);
        }
        Some(place)
    }

    fn change(&mut self, span: u32, change: impl FnOnce(&mut Self) -> Option<Place>) -> Option<Change<T>> {
        let place = change(self)?;
        let span = self.open_mut(span)?.span.clone();
        Some(Change { span, place })
    }

    fn open_mut(&mut self, span: u32) -> Option<&mut Open<T>> {
        self.spans.get_mut(span as usize)?.open.as_mut()
    }

    fn add(&mut self, open: Open<T>) -> SpanId {
        let index = self.free_spans.pop().unwrap_or(self.spans.len() as u32);
        if index as usize == self.spans.len() {
            self.spans.push(Entry { generation: 0, open: None });
        }
        let mut id = SpanId { index, generation: 0 };
        if let Some(entry) = self.spans.get_mut(index as usize) {
            entry.open = Some(open);
            id.generation = entry.generation;
        }
        id
    }

    fn remove(&mut self, id: SpanId) -> Option<Open<T>> {
        let entry = self.spans.get_mut(id.index as usize)?;
        if entry.generation != id.generation {
            return None;
        }
        let open = entry.open.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free_spans.push(id.index);
        Some(open)
    }
}

impl Lane {
    /// Whether an event can have this time, or one near it.
    fn accepts(&self, start: Start) -> bool {
        matches!(start, Start::Now(_)) || matches!(start, Start::Exactly(at_ns) if at_ns > self.last_ns)
    }

    /// The time of the next event.
    fn next(&mut self, now_ns: u64) -> u64 {
        self.last_ns = now_ns.max(self.last_ns.saturating_add(1));
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Slices as Trace Processor finds them.
    #[derive(Debug, Default)]
    struct Reader {
        /// Track, time, span, whether it begins.
        events: Vec<(u32, u64, usize, bool)>,
    }

    impl Reader {
        fn begin(&mut self, span: usize, place: Place) {
            self.events.push((place.track, place.at_ns, span, true));
        }

        fn end(&mut self, span: usize, place: Place) {
            self.events.push((place.track, place.at_ns, span, false));
        }

        fn ended(&mut self, span: usize, ended: &Ended<usize>) {
            ended.interrupted.iter().for_each(|change| self.end(change.span, change.place));
            self.end(span, ended.end);
            ended.resumed.iter().for_each(|change| self.begin(change.span, change.place));
        }

        /// For each span its slices: track, depth, begin and end.
        fn slices(mut self) -> HashMap<usize, Vec<(u32, usize, u64, u64)>> {
            self.events.sort();
            let times: Vec<_> = self.events.iter().map(|(track, at_ns, ..)| (*track, *at_ns)).collect();
            assert!(times.windows(2).all(|pair| pair[0] != pair[1]), "two events of a track have one time");
            let mut slices: HashMap<usize, Vec<_>> = HashMap::new();
            let mut stacks: HashMap<u32, Vec<(usize, u64)>> = HashMap::new();
            for (track, at_ns, span, begins) in self.events {
                let stack = stacks.entry(track).or_default();
                if begins {
                    stack.push((span, at_ns));
                    continue;
                }
                let (innermost, from_ns) = stack.pop().expect("an end has a beginning");
                assert_eq!(innermost, span, "an end ends its own slice");
                slices.entry(span).or_default().push((track, stack.len(), from_ns, at_ns));
            }
            assert!(stacks.values().all(Vec::is_empty), "every slice has an end");
            slices
        }
    }

    /// Spans over time, on threads whose clocks differ.
    #[derive(Debug, Default)]
    struct World {
        lanes: Lanes<usize>,
        reader: Reader,
        /// By number; what they began and ended at by the clock of that thread, and how far lanes could shift that.
        spans: Vec<(SpanId, u64, Option<u64>)>,
        time_ns: u64,
        changes: u64,
    }

    const SKEW_NS: u64 = 50;

    impl Default for Lanes<usize> {
        fn default() -> Self {
            Self::new()
        }
    }

    impl World {
        fn begin(&mut self, parent: Option<usize>, start: Start) {
            let parent = parent.and_then(|parent| self.spans.get(parent)).map(|(id, ..)| *id);
            let number = self.spans.len();
            let (id, place, nests) = self.lanes.begin(parent, start, number).unwrap();
            assert!(!nests || parent.is_some());
            let (Start::Now(at_ns) | Start::Exactly(at_ns)) = start;
            if matches!(start, Start::Exactly(_)) {
                assert_eq!(place.at_ns, at_ns);
            }
            self.reader.begin(number, place);
            self.spans.push((id, at_ns, None));
            self.changes += 1;
        }

        fn end(&mut self, number: usize, now_ns: u64) {
            let Some((id, _, end)) = self.spans.get_mut(number) else { return };
            let ended = self.lanes.end(*id, now_ns);
            assert_eq!(ended.is_some(), end.is_none(), "a span ends once");
            if let Some(ended) = ended {
                *end = Some(now_ns);
                self.changes += 1 + 2 * ended.resumed.len() as u64;
                self.reader.ended(number, &ended);
            }
        }

        fn check(mut self) {
            for number in 0..self.spans.len() {
                self.end(number, self.time_ns + SKEW_NS);
            }
            assert_eq!(self.lanes.free.len(), self.lanes.lanes.len(), "all lanes are free");
            // What clocks differ by, and a nanosecond for each change.
            let tolerance_ns = 2 * SKEW_NS + self.changes;
            let slices = self.reader.slices();
            for (number, (_, from_ns, to_ns)) in self.spans.iter().enumerate() {
                let slices = &slices[&number];
                let (first, last) =
                    (slices.iter().min_by_key(|slice| slice.2), slices.iter().max_by_key(|slice| slice.3));
                assert!(first.unwrap().2.abs_diff(*from_ns) <= tolerance_ns);
                assert!(last.unwrap().3.abs_diff(to_ns.unwrap()) <= tolerance_ns);
                // Parts follow one another without a gap.
                let mut parts = slices.clone();
                parts.sort_by_key(|slice| slice.2);
                assert!(parts.windows(2).all(|pair| pair[1].2.wrapping_sub(pair[0].3) <= tolerance_ns));
            }
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Begin { parent: Option<usize>, ago_ns: Option<u64> },
        End(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (proptest::option::weighted(0.8, 0..40_usize), proptest::option::weighted(0.2, 0..200_u64))
                .prop_map(|(parent, ago_ns)| Step::Begin { parent, ago_ns }),
            (0..40_usize).prop_map(Step::End),
        ]
    }

    proptest! {
        #[test]
        fn every_span_has_its_own_beginning_and_end(
            steps in proptest::collection::vec((step(), 0..60_u64, 0..2 * SKEW_NS), 0..120),
        ) {
            let mut world = World { time_ns: 1000, ..World::default() };
            for (step, after_ns, skew_ns) in steps {
                world.time_ns += after_ns;
                let now_ns = world.time_ns + skew_ns - SKEW_NS;
                // Spans that were begun last are the likelier ones to be parents or to end.
                let recent = |back: usize| world.spans.len().checked_sub(back + 1);
                match step {
                    Step::Begin { parent, ago_ns: None } => world.begin(parent.and_then(recent), Start::Now(now_ns)),
                    Step::Begin { parent, ago_ns: Some(ago_ns) } => {
                        world.begin(parent.and_then(recent), Start::Exactly(now_ns - ago_ns.min(900)));
                    }
                    Step::End(back) => if let Some(number) = recent(back) { world.end(number, now_ns) },
                }
            }
            world.check();
        }
    }

    fn slices(world: World) -> Vec<Vec<(u32, usize, u64, u64)>> {
        let count = world.spans.len();
        let mut slices = world.reader.slices();
        (0..count).map(|number| slices.remove(&number).unwrap()).collect()
    }

    #[test]
    fn children_nest_and_a_second_one_has_its_own_lane() {
        let mut world = World::default();
        world.begin(None, Start::Now(10));
        world.begin(Some(0), Start::Now(20));
        world.begin(Some(0), Start::Now(30));
        world.begin(Some(2), Start::Now(40));
        for (span, at) in [(1, 50), (3, 60), (2, 70), (0, 80)] {
            world.end(span, at);
        }
        // A lane is used again.
        world.begin(None, Start::Now(90));
        world.end(4, 100);
        assert_eq!(
            slices(world),
            [
                vec![(0, 0, 10, 80)],
                vec![(0, 1, 20, 50)],
                vec![(1, 0, 30, 70)],
                vec![(1, 1, 40, 60)],
                vec![(0, 0, 90, 100)]
            ]
        );
    }

    #[test]
    fn children_outlive_their_parent() {
        let mut world = World::default();
        world.begin(None, Start::Now(10));
        world.begin(Some(0), Start::Now(20));
        world.begin(Some(1), Start::Now(30));
        world.end(0, 40);
        world.end(1, 60);
        world.end(2, 70);
        assert_eq!(
            slices(world),
            [
                vec![(0, 0, 10, 42)],
                // The lane has become free by that.
                vec![(0, 1, 20, 41), (0, 0, 43, 61)],
                vec![(0, 2, 30, 40), (0, 1, 44, 60), (0, 0, 62, 70)],
            ]
        );
    }

    #[test]
    fn a_clock_that_is_behind_cannot_confuse_a_lane() {
        let mut world = World::default();
        world.begin(None, Start::Now(100));
        world.end(0, 90);
        world.begin(None, Start::Now(80));
        world.end(1, 200);
        assert_eq!(slices(world), [[(0, 0, 100, 101)], [(0, 0, 102, 200)]]);
    }

    #[test]
    fn a_track_with_a_slice_left_open_is_not_used_again() {
        let mut lanes = Lanes::new();
        let (id, place, _) = lanes.begin(None, Start::Now(1), 0).unwrap();
        let ended = lanes.end(id, 2).unwrap();
        assert_eq!((ended.end.track, lanes.end(id, 3)), (place.track, None));
        lanes.spoil(ended.end);
        let (_, place, _) = lanes.begin(Some(id), Start::Now(4), 1).unwrap();
        assert_eq!((place.lane, place.track), (0, 1));
    }

    #[test]
    fn lanes_run_out_without_harm() {
        let mut lanes = Lanes::new();
        let ids: Vec<SpanId> =
            (0..MAX_LANES).map(|at| lanes.begin(None, Start::Now(at as u64), at).unwrap().0).collect();
        assert_eq!(lanes.begin(None, Start::Now(9), 0), None);
        // A child needs no lane until it outlives its parent.
        let (child, ..) = lanes.begin(Some(ids[0]), Start::Now(9), 0).unwrap();
        let ended = lanes.end(ids[0], 10).unwrap();
        // The parent's own has become free.
        assert_eq!((ended.interrupted.len(), ended.resumed.len()), (1, 1));
        assert!(lanes.end(child, 11).is_some());
    }
}
