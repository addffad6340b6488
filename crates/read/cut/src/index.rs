//! The pass that looks: what a cut needs from outside of its range.

use ferretto_protos::fields::trace_packet;
use ferretto_trace_read::fields::{Fields, Value};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::bounds::Bounds;
use crate::counted::Counted;
use crate::event::{self, Legacy, TrackEvent};
use crate::ftrace::bundle::Parts;
use crate::ftrace::look::Kernel;
use crate::kind::Kind;
use crate::links::Touched;
use crate::plan::{Need, Place, Plan};
use crate::range::Range;
use crate::tracks::{Edge, TrackKey, Tracks, needs};
use crate::usual::{SliceEvent, Told};
use crate::walk::{Seen, Walk};

/// Counters, and what else has a last value. Ours: some for each thread and process; those of further ones are not followed, which is counted.
const MAX_LAST: usize = 1 << 20;
/// What stands for the track of a sequence's events that name none.
const OWN_TRACK: u64 = 1 << 63;

/// The packet with a last value.
#[derive(Clone, Copy, Debug)]
struct Last {
    ts: i64,
    place: Place,
    need: Need,
    /// The one before, of values that are differences.
    before: Option<(i64, Place)>,
}

/// Which value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LastKey {
    Counter(TrackKey),
    State(TrackKey),
    System(u32, u32),
    Process(u32, i64, u32),
    Sample(usize, u64),
}

/// What one range needs.
#[derive(Debug)]
pub(crate) struct Index {
    range: Range,
    plan: Plan,
    tracks: Tracks,
    last: HashMap<LastKey, Last, RandomState>,
    /// Events that end states of programs' tracks after the range.
    after: HashMap<TrackKey, (i64, Place), RandomState>,
    kernel: Kernel,
    counted: Counted,
    /// Of each sequence the last packet in the range, and its generation.
    kept: Vec<Option<Place>>,
    touched: Touched,
    beyond: u64,
}

impl Index {
    pub(crate) fn new(range: Range, bounds: &Bounds) -> Self {
        Self {
            range,
            plan: Plan::new(range),
            tracks: Tracks::new(range),
            last: HashMap::default(),
            after: HashMap::default(),
            kernel: Kernel::new(range, bounds),
            counted: Counted::default(),
            kept: Vec::new(),
            touched: Touched::default(),
            beyond: 0,
        }
    }

    /// Takes the next packet of the file; says whether the pass that writes has to see it even if nothing needs it.
    #[inline]
    pub(crate) fn take(&mut self, walk: &mut Walk, seen: &Seen<'_>, parts: Option<&Parts<'_>>) -> bool {
        let place = place(walk, seen);
        self.counted.take(seen, place);
        match seen.kind {
            Kind::State | Kind::Descriptor | Kind::Progress => {}
            Kind::Whole => {
                if let (Some((trace_packet::PROCESS_TREE, tree)), Some(ts)) = (seen.head.data, seen.ts) {
                    self.kernel.process_tree(seen.head.machine_id, tree, ts);
                }
                if seen.head.needs_state() || is_state_told(seen) {
                    self.keep(place);
                }
            }
            _ if !seen.is_readable => {}
            Kind::TrackEvent => self.track_event(walk, seen, place),
            Kind::Ftrace => {
                self.keep(place);
                let writes = parts.is_none_or(|parts| self.kernel.take(walk, seen, parts));
                return writes || is_heard(seen);
            }
            kind => self.timed(kind, seen, place),
        }
        is_heard(seen)
            || match seen.kind {
                Kind::Whole | Kind::Descriptor => true,
                Kind::State | Kind::Progress => false,
                _ => seen.ts.is_none_or(|ts| self.range.has(ts)),
            }
    }

    /// For a further pass over the kernel's events, if one is needed.
    pub(crate) fn doubts(&mut self) -> Option<Kernel> {
        self.kernel.doubts()
    }

    /// That pass is over.
    pub(crate) fn settle(&mut self, doubts: Kernel) {
        self.kernel.settle(doubts);
    }

    /// What is needed, but for disordered tracks: what those need is told by a further pass.
    pub(crate) fn finish(mut self) -> (Plan, Tracks, Touched) {
        for place in std::mem::take(&mut self.kept).into_iter().flatten() {
            self.plan.rely(place);
        }
        let disordered: HashSet<TrackKey, RandomState> = self.tracks.disordered().0.into_iter().collect();
        self.plan.forget(&disordered);
        for (key, edge) in self.tracks.open() {
            self.touched.ended(edge.place.ordinal, true);
            if needs(self.range, edge, None)[0] && !disordered.contains(&key) {
                self.plan.need(edge.place, Need::Whole);
            }
        }
        for last in self.last.values() {
            self.plan.need(last.place, last.need);
            if let Some((_, place)) = last.before {
                self.plan.need(place, last.need);
            }
        }
        for (_, place) in self.after.values() {
            self.plan.need(*place, Need::Whole);
        }
        self.counted.finish(&mut self.plan);
        self.plan.beyond += self.kernel.finish(&mut self.plan.tail);
        self.plan.beyond += self.beyond + self.tracks.beyond;
        self.plan.beyond += self.touched.beyond;
        (self.plan, self.tracks, self.touched)
    }

    /// A packet in the range, or one that is always kept, relies on what is interned.
    #[inline]
    fn keep(&mut self, place: Place) {
        if self.kept.len() <= place.sequence {
            self.kept.resize(place.sequence + 1, None);
        }
        let Some(last) = self.kept.get_mut(place.sequence) else { return };
        if let Some(last) = last.filter(|last| last.generation != place.generation) {
            self.plan.rely(last);
        }
        *last = Some(place);
    }

    fn timed(&mut self, kind: Kind, seen: &Seen<'_>, place: Place) {
        let Some(ts) = seen.ts else { return self.keep(place) };
        if self.range.has(ts) {
            return self.keep(place);
        }
        if ts >= self.range.from {
            return;
        }
        let machine = seen.head.machine_id;
        let Some((_, data)) = seen.head.data else { return };
        match kind {
            Kind::SysStats => {
                let mut last = 0;
                for part in Fields::new(data).whole() {
                    if std::mem::replace(&mut last, part.number) == part.number {
                        continue;
                    }
                    self.last_value(LastKey::System(machine, part.number), ts, place, Need::Whole);
                }
            }
            Kind::ProcessStats => self.process_stats(data, machine, ts, place),
            Kind::PerfSample => {
                let cpu = Fields::new(data).whole().find(|part| part.number == 1);
                let cpu = cpu.and_then(|cpu| cpu.value.as_u64()).unwrap_or(0);
                self.last_value(LastKey::Sample(place.sequence, cpu), ts, place, Need::Whole);
            }
            _ => {}
        }
    }

    /// Processes say only what has changed: each value has a last packet of its own.
    fn process_stats(&mut self, data: &[u8], machine: u32, ts: i64, place: Place) {
        for part in Fields::new(data).whole() {
            let (1, Value::Bytes(process)) = (part.number, part.value) else { continue };
            let fields = || Fields::new(process).whole();
            let pid =
                fields().find(|part| part.number == 1).and_then(|part| part.value.as_u64()).unwrap_or(0);
            for part in fields().filter(|part| part.number != 1 && !matches!(part.value, Value::Bytes(_))) {
                self.last_value(LastKey::Process(machine, pid as i64, part.number), ts, place, Need::Whole);
            }
        }
    }

    fn last_value(&mut self, key: LastKey, ts: i64, place: Place, need: Need) {
        if self.last.len() >= MAX_LAST && !self.last.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        let last = self.last.entry(key).or_insert(Last { ts, place, need, before: None });
        if last.ts <= ts && last.place.ordinal != place.ordinal {
            // Disks' values are differences from those before.
            if matches!(key, LastKey::System(..)) {
                last.before = Some((last.ts, last.place));
            }
            (last.ts, last.place, last.need) = (ts, place, need);
        }
    }

    #[inline]
    fn track_event(&mut self, walk: &mut Walk, seen: &Seen<'_>, place: Place) {
        let Some(ts) = seen.ts else { return self.keep(place) };
        let Some((event, key)) = event_of(walk, seen) else { return };
        if self.range.has(ts) {
            self.keep(place);
        }
        // The writer adds up what counters of differences say.
        walk.has_changed |= (event.has_value || event.has_extra) && !walk.incremental.is_empty();
        if event.has_flows && ts < self.range.to {
            self.touched.take(&event.flows(), seen.ordinal, self.range.has(ts));
        }
        if let Some((key, edge)) = edge_of(&event, key, ts, place) {
            self.edge(key, edge);
        }
        self.other_kinds(&event, key, ts, place);
        if event.has_extra && ts < self.range.from {
            let sequence = walk.sequences.get(seen.sequence);
            let extra = sequence.map_or(&[][..], |sequence| &sequence.extra_counters);
            for (uuid, _) in event.counters().extra(extra) {
                self.last_value(LastKey::Counter((seen.head.machine_id, uuid)), ts, place, Need::Counters);
            }
        }
    }

    /// Takes a slice's begin or end; says whether the pass that writes has to see it even if nothing needs it.
    #[inline(always)]
    pub(crate) fn take_usual(&mut self, event: &SliceEvent, told: &Told) -> bool {
        let Told { ts, ordinal, sequence, generation, track_uuid } = *told;
        let place = Place { ordinal, sequence, generation };
        let is_in_range = self.range.has(ts);
        if is_in_range {
            self.keep(place);
        }
        let key = track_key(0, event.track_uuid.or(track_uuid), sequence);
        self.edge(key, Edge { ts, place, name: event.name, is_begin: event.is_begin });
        is_in_range
    }

    #[inline]
    fn edge(&mut self, key: TrackKey, edge: Edge) {
        let range = self.range;
        let (plan, touched) = (&mut self.plan, &mut self.touched);
        self.tracks.take(key, edge, |begin, end| {
            let [needs_begin, needs_end] = needs(range, begin, Some(end));
            if touched.has_open() {
                touched.ended(begin.place.ordinal, needs_begin);
            }
            if needs_begin {
                plan.need_of(key, begin.place);
            }
            if needs_end {
                plan.need_of(key, end.place);
            }
        });
    }

    fn other_kinds(&mut self, event: &TrackEvent<'_>, key: TrackKey, ts: i64, place: Place) {
        let is_before = ts < self.range.from;
        match event.kind {
            event::COUNTER if is_before => self.last_value(LastKey::Counter(key), ts, place, Need::Whole),
            event::STATE if is_before => self.last_value(LastKey::State(key), ts, place, Need::Whole),
            event::STATE if ts >= self.range.to => {
                let room = self.after.len() < MAX_LAST;
                match self.after.get_mut(&key) {
                    Some(first) if ts < first.0 => *first = (ts, place),
                    Some(_) => {}
                    None if room => {
                        self.after.insert(key, (ts, place));
                    }
                    None => self.beyond += 1,
                }
            }
            _ => {}
        }
        if let Some(legacy) = event.legacy.filter(|_| is_before).map(Legacy::of)
            && legacy.phase == b'X'
            && ts.saturating_add(legacy.duration_us.saturating_mul(1000)) >= self.range.from
        {
            self.plan.need(place, Need::Whole);
        }
    }
}

/// Where a packet is.
#[inline]
pub(crate) fn place(walk: &Walk, seen: &Seen<'_>) -> Place {
    let generation = walk.sequences.get(seen.sequence).map_or(u64::MAX, |sequence| sequence.generation);
    Place { ordinal: seen.ordinal, sequence: seen.sequence, generation }
}

/// The track of an event: by its uuid, or the sequence's own.
#[inline]
pub(crate) fn track_key(machine: u32, uuid: Option<u64>, sequence: usize) -> TrackKey {
    match uuid {
        Some(uuid) if uuid != 0 => (machine, uuid),
        _ => (machine, OWN_TRACK | sequence as u64),
    }
}

/// A program's event, and the track that it is on.
#[inline]
pub(crate) fn event_of<'a>(walk: &Walk, seen: &Seen<'a>) -> Option<(TrackEvent<'a>, TrackKey)> {
    let event = TrackEvent::of(seen.head.data?.1);
    let default = || walk.sequences.get(seen.sequence).and_then(|sequence| sequence.track_uuid);
    let key = track_key(seen.head.machine_id, event.track_uuid.or_else(default), seen.sequence);
    Some((event, key))
}

/// The begin or the end that an event is, and of which track.
#[inline]
pub(crate) fn edge_of(
    event: &TrackEvent<'_>,
    key: TrackKey,
    ts: i64,
    place: Place,
) -> Option<(TrackKey, Edge)> {
    let edge = |is_begin| Edge { ts, place, name: event.name(), is_begin };
    match event.kind {
        event::SLICE_BEGIN => Some((key, edge(true))),
        event::SLICE_END => Some((key, edge(false))),
        0 => {
            let legacy = Legacy::of(event.legacy?);
            let of_id = |class: u64| (key.0, key.1 ^ legacy.id.rotate_left(17) ^ class << 56);
            match legacy.phase {
                b'B' => Some((key, edge(true))),
                b'E' => Some((key, edge(false))),
                b'b' => Some((of_id(1), edge(true))),
                b'e' => Some((of_id(1), edge(false))),
                b'S' => Some((of_id(2), edge(true))),
                b'F' => Some((of_id(2), edge(false))),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Packets that say something about their sequence, or cannot be read.
#[inline]
fn is_heard(seen: &Seen<'_>) -> bool {
    let head = seen.head;
    let says_state = head.clears_state() || head.interned_data.is_some() || head.defaults.is_some();
    says_state || head.previous_packet_dropped != 0 || head.is_first_on_sequence || !seen.is_readable
}

/// Packets whose data refer to what is interned, though they do not say so.
fn is_state_told(seen: &Seen<'_>) -> bool {
    seen.head.data.is_some_and(|(number, _)| number == trace_packet::PROFILE_PACKET)
}
