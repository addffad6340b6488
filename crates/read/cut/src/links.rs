//! The other ends of flows: slices outside of the range that an arrow leads to or comes from.
//!
//! An arrow goes from each event of a flow to the next one in time (upstream: flow_tracker.cc). Of each flow that has an event in the range, or
//! on a slice that reaches into it, the nearest events before and after are kept, with the whole of their slices.
//!
//! Memory: [`MAX_FLOWS`], and the slices that are open at once.

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::event::{Few, MAX_FLOWS as MAX_FLOWS_OF_EVENT};
use crate::index::{edge_of, event_of, place};
use crate::kind::Kind;
use crate::plan::{Need, Place, Plan};
use crate::range::Range;
use crate::tracks::{Disordered, TrackKey, Tracks};
use crate::walk::{Seen, Walk};

/// Flows that touch one range. Ours: of further ones the other ends may be missing, which is counted.
const MAX_FLOWS: usize = 1 << 17;
/// Events kept on either side: more than one, as that of a slice that reaches into the range has one before it, too. Ours.
const NEAREST: usize = 4;

/// Flows of one event.
type Flows = Few<MAX_FLOWS_OF_EVENT>;

/// The flows that touch a range, as the pass that looks finds them.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    flows: HashSet<u64, RandomState>,
    /// Of slices that are open, by the packets of their begins.
    open: HashMap<u64, Flows, RandomState>,
    pub(crate) beyond: u64,
}

impl Touched {
    /// An event with flows, in the range or before it.
    pub(crate) fn take(&mut self, flows: &Flows, ordinal: u64, is_in_range: bool) {
        if is_in_range {
            self.add(flows);
        } else if self.open.len() < MAX_FLOWS {
            self.open.insert(ordinal, *flows);
        } else {
            self.beyond += 1;
        }
    }

    /// The slice with this begin has ended, and reaches into the range or does not.
    pub(crate) fn ended(&mut self, begin: u64, reaches_in: bool) {
        if let Some(flows) = self.open.remove(&begin)
            && reaches_in
        {
            self.add(&flows);
        }
    }

    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    fn add(&mut self, flows: &Flows) {
        for flow in flows.as_slice() {
            if self.flows.len() >= MAX_FLOWS && !self.flows.contains(flow) {
                self.beyond += 1;
                return;
            }
            self.flows.insert(*flow);
        }
    }
}

/// An event of a flow, and all of its slice.
#[derive(Clone, Copy, Debug)]
struct End {
    ts: i64,
    begin: Place,
    end: Option<Place>,
}

/// Looks for the other ends.
#[derive(Debug)]
pub(crate) struct Links {
    range: Range,
    ends: HashMap<u64, [Vec<End>; 2], RandomState>,
    tracks: Tracks,
    open: HashMap<u64, (Flows, End), RandomState>,
    /// Tracks whose slices are known only when all of their events are there, and these.
    disordered: HashSet<TrackKey, RandomState>,
    edges: Disordered,
    /// The flows of these tracks' events, by their packets.
    late: HashMap<u64, Flows, RandomState>,
}

impl Links {
    /// For the flows of this range; nothing, if there are none.
    pub(crate) fn new(range: Range, touched: Touched, disordered: &Tracks) -> Option<Self> {
        if touched.flows.is_empty() {
            return None;
        }
        let ends = touched.flows.into_iter().map(|flow| (flow, Default::default())).collect();
        Some(Self {
            range,
            ends,
            tracks: Tracks::new(range),
            open: HashMap::default(),
            disordered: disordered.disordered().0.into_iter().collect(),
            edges: Disordered::default(),
            late: HashMap::default(),
        })
    }

    /// Takes the next packet of the file.
    pub(crate) fn take(&mut self, walk: &Walk, seen: &Seen<'_>) {
        if seen.kind != Kind::TrackEvent || !seen.is_readable {
            return;
        }
        let (Some((event, key)), Some(ts)) = (event_of(walk, seen), seen.ts) else { return };
        let place = place(walk, seen);
        let mut flows = Flows::default();
        let all = event.flows();
        let ours = all.as_slice().iter().filter(|flow| self.ends.contains_key(*flow));
        ours.for_each(|flow| flows.push(*flow));
        let has_flows = !flows.as_slice().is_empty();
        let Some((key, edge)) = edge_of(&event, key, ts, place) else {
            if has_flows {
                self.offer(&flows, End { ts, begin: place, end: None });
            }
            return;
        };
        if self.disordered.contains(&key) {
            if has_flows && self.late.len() < MAX_FLOWS {
                self.late.insert(place.ordinal, flows);
            }
            return self.edges.take(key, edge);
        }
        if edge.is_begin && has_flows && self.open.len() < MAX_FLOWS {
            self.open.insert(place.ordinal, (flows, End { ts, begin: place, end: None }));
        }
        let mut slice = None;
        self.tracks.take(key, edge, |begin, _| slice = Some(begin.place));
        let Some(begin) = slice else { return };
        if let Some((flows, end)) = self.open.remove(&begin.ordinal) {
            self.offer(&flows, End { end: Some(place), ..end });
        }
        self.offer(&flows, End { ts, begin, end: Some(place) });
    }

    /// Tells the plan what is needed.
    pub(crate) fn finish(mut self, plan: &mut Plan) {
        plan.beyond += self.edges.beyond;
        self.offer_late();
        for (flows, end) in std::mem::take(&mut self.open).into_values() {
            self.offer(&flows, end);
        }
        for end in self.ends.values().flatten().flatten() {
            plan.need(end.begin, Need::Whole);
            if let Some(end) = end.end {
                plan.need(end, Need::Whole);
            }
        }
    }

    /// Those of tracks whose events are in order only now.
    fn offer_late(&mut self) {
        let late = std::mem::take(&mut self.late);
        std::mem::take(&mut self.edges).finish(|begin, end| {
            let slice = End { ts: begin.ts, begin: begin.place, end: end.map(|end| end.place) };
            if let Some(flows) = late.get(&begin.place.ordinal) {
                self.offer(flows, slice);
            }
            if let Some(end) = end
                && let Some(flows) = late.get(&end.place.ordinal)
            {
                self.offer(flows, End { ts: end.ts, ..slice });
            }
        });
    }

    fn offer(&mut self, flows: &Flows, end: End) {
        let Range { from, to } = self.range;
        let is_after = end.ts >= to;
        if end.ts >= from && !is_after {
            return;
        }
        for flow in flows.as_slice() {
            let Some([before, after]) = self.ends.get_mut(flow) else { continue };
            let nearest = if is_after { after } else { before };
            let distance = |end: &End| if is_after { end.ts } else { end.ts.saturating_neg() };
            let at = nearest.partition_point(|other| distance(other) <= distance(&end));
            if at < NEAREST {
                nearest.insert(at, end);
                nearest.truncate(NEAREST);
            }
        }
    }
}
