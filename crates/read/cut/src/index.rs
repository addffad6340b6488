//! The pass that looks: what a cut needs from outside of its range.

use ferretto_protos::fields::{ftrace_event, trace_packet};
use ferretto_protozero::read::{Fields, Value};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::bounds::Bounds;
use crate::event::{self, Legacy, TrackEvent};
use crate::ftrace::bundle::When;
use crate::ftrace::bundle::{Bundle, Compact, Event};
use crate::ftrace::pairs::{Home, Kept, Pairs};
use crate::ftrace::sched::{CpuKey, Prev, Run, Sched, Wake};
use crate::kind::Kind;
use crate::links::Touched;
use crate::plan::{Need, Place, Plan};
use crate::range::Range;
use crate::tracks::{Edge, TrackKey, Tracks, needs};
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
    sched: Sched,
    pairs: Pairs,
    blocked: HashMap<(u32, i32), Kept, RandomState>,
    homes: HashMap<CpuKey, Home, RandomState>,
    /// Of each sequence the last packet in the range, and its generation.
    kept: Vec<Option<Place>>,
    touched: Touched,
    beyond: u64,
}

impl Index {
    pub(crate) fn new(range: Range, bounds: &Bounds) -> Self {
        let counts_from = bounds.sched_counts_from.unwrap_or(i64::MIN);
        Self {
            range,
            plan: Plan::new(range),
            tracks: Tracks::new(range),
            last: HashMap::default(),
            after: HashMap::default(),
            sched: Sched::new(range, counts_from, &bounds.first_leaves),
            pairs: Pairs::new(range),
            blocked: HashMap::default(),
            homes: HashMap::default(),
            kept: Vec::new(),
            touched: Touched::default(),
            beyond: 0,
        }
    }

    /// Takes the next packet of the file.
    #[inline]
    pub(crate) fn take(&mut self, walk: &mut Walk, seen: &Seen<'_>) {
        let kind = Kind::of(&seen.head);
        let place = place(walk, seen);
        match kind {
            Kind::State | Kind::Descriptor | Kind::Progress => {}
            Kind::Whole => {
                if seen.head.needs_state() || is_state_told(seen) {
                    self.keep(place);
                }
            }
            _ if !seen.is_readable => {}
            Kind::TrackEvent => self.track_event(walk, seen, place),
            Kind::Ftrace => self.ftrace(walk, seen, place),
            _ => self.timed(kind, seen, place),
        }
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
        let pairs = self.pairs_needed();
        self.plan.tail.extend(pairs);
        let needed = self.sched.needed();
        self.plan.tail.add_sched(needed, self.range, &self.sched.names, &self.homes);
        self.plan.beyond += self.beyond + self.tracks.beyond + self.sched.beyond;
        self.plan.beyond += self.touched.beyond;
        (self.plan, self.tracks, self.touched)
    }

    fn pairs_needed(&mut self) -> Vec<Kept> {
        let pairs = std::mem::replace(&mut self.pairs, Pairs::new(self.range));
        self.beyond += pairs.beyond;
        let mut kept = pairs.needed();
        let blocked = std::mem::take(&mut self.blocked).into_iter();
        kept.extend(
            blocked.filter(|((machine, tid), _)| self.sched.was_there(*machine, *tid)).map(|(_, kept)| kept),
        );
        kept
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
                for part in Fields::new(data).map_while(Result::ok) {
                    if std::mem::replace(&mut last, part.number) == part.number {
                        continue;
                    }
                    self.last_value(LastKey::System(machine, part.number), ts, place, Need::Whole);
                }
            }
            Kind::ProcessStats => self.process_stats(data, machine, ts, place),
            Kind::PerfSample => {
                let cpu = Fields::new(data).map_while(Result::ok).find(|part| part.number == 1);
                let cpu = cpu.and_then(|cpu| cpu.value.as_u64()).unwrap_or(0);
                self.last_value(LastKey::Sample(place.sequence, cpu), ts, place, Need::Whole);
            }
            _ => {}
        }
    }

    /// Processes say only what has changed: each value has a last packet of its own.
    fn process_stats(&mut self, data: &[u8], machine: u32, ts: i64, place: Place) {
        for part in Fields::new(data).map_while(Result::ok) {
            let (1, Value::Bytes(process)) = (part.number, part.value) else { continue };
            let fields = || Fields::new(process).map_while(Result::ok);
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
    fn track_event(&mut self, walk: &Walk, seen: &Seen<'_>, place: Place) {
        let Some(ts) = seen.ts else { return self.keep(place) };
        let Some((_, data)) = seen.head.data else { return };
        if self.range.has(ts) {
            self.keep(place);
        }
        let event = TrackEvent::of(data);
        let defaults = walk.sequences.get(seen.sequence);
        let machine = seen.head.machine_id;
        let uuid = event.track_uuid.or_else(|| defaults.and_then(|sequence| sequence.track_uuid));
        let key = track_key(machine, uuid, seen.sequence);
        if !event.flows.as_slice().is_empty() && ts < self.range.to {
            self.touched.take(&event.flows, seen.ordinal, self.range.has(ts));
        }
        if let Some(edge) = edge_of(&event, key, ts, place) {
            let (key, edge) = edge;
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
        self.other_kinds(&event, key, ts, place);
        if ts < self.range.from {
            let extra = defaults.map_or(&[][..], |sequence| &sequence.extra_counters);
            for (uuid, _) in event.extra(extra) {
                self.last_value(LastKey::Counter((machine, uuid)), ts, place, Need::Counters);
            }
        }
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

    fn ftrace(&mut self, walk: &mut Walk, seen: &Seen<'_>, place: Place) {
        let Some((_, data)) = seen.head.data else { return };
        let Some(bundle) = Bundle::of(data) else { return };
        if let Some(pair) = bundle.pair() {
            walk.add_pair(seen, pair);
        }
        let machine = seen.head.machine_id;
        let home = Home {
            machine,
            sequence_id: seen.head.sequence_id,
            cpu: bundle.cpu,
            ftrace_clock: bundle.ftrace_clock,
        };
        self.homes.insert((machine, bundle.cpu), home);
        self.keep(place);
        if let Some(compact) = bundle.compact {
            self.compact(walk, seen, &bundle, &Compact::of(compact));
        }
        for event in bundle.events() {
            if let Some(when) = bundle.when(walk, seen, event.raw_ts) {
                self.kernel_event(&event, when, home);
            }
        }
    }

    fn kernel_event(&mut self, event: &Event<'_>, when: When, home: Home) {
        let Home { machine, cpu, .. } = home;
        match event.kind {
            ftrace_event::SCHED_SWITCH => {
                let [prev_comm, next_comm] = texts(event.payload, [1, 5]);
                let [prev_pid, prev_prio, state, next_pid, next_prio] =
                    numbers(event.payload, [2, 3, 4, 6, 7]);
                let names = &mut self.sched.names;
                let prev =
                    Prev { tid: prev_pid as i32, prio: prev_prio as i32, comm: names.intern(prev_comm) };
                let comm = names.intern(next_comm);
                let next = Run {
                    tid: next_pid as i32,
                    cpu,
                    prio: next_prio as i32,
                    comm,
                    end_comm: comm,
                    start: Some(when),
                    end: None,
                };
                self.sched.switch((machine, cpu), when, Some(prev), state, next);
            }
            ftrace_event::SCHED_WAKING => {
                let [comm] = texts(event.payload, [1]);
                let [tid, prio, target_cpu] = numbers(event.payload, [2, 3, 5]);
                let flags = Fields::new(event.bytes).map_while(Result::ok);
                let flags = flags.filter(|part| part.number == ftrace_event::COMMON_FLAGS).last();
                let wake = Wake {
                    when,
                    cpu,
                    waker: event.pid,
                    tid: tid as i32,
                    target_cpu: target_cpu as i32,
                    prio: prio as i32,
                    comm: self.sched.names.intern(comm),
                    common_flags: flags.and_then(|part| part.value.as_u64()),
                    is_compact: false,
                    waker_run: None,
                };
                self.sched.wake(machine, wake);
            }
            ftrace_event::TASK_RENAME => {
                let ([tid], [comm]) = (numbers(event.payload, [1]), texts(event.payload, [3]));
                let comm = self.sched.names.intern(comm);
                self.sched.renamed((machine, cpu), tid as i32, comm);
            }
            ftrace_event::TASK_NEWTASK => {
                let [tid] = numbers(event.payload, [1]);
                self.sched.created(machine, tid as i32, when);
            }
            ftrace_event::SCHED_BLOCKED_REASON if when.ts >= self.range.to => {
                let [tid] = numbers(event.payload, [1]);
                let key = (machine, tid as i32);
                let is_first = self.blocked.get(&key).is_none_or(|first| when < first.when);
                if is_first && (self.blocked.len() < MAX_LAST || self.blocked.contains_key(&key)) {
                    self.blocked.insert(key, Kept { when, home, bytes: event.bytes.to_vec() });
                }
            }
            _ => self.pairs.take(event, when, home),
        }
    }

    /// Both rows of columns, in the order of time.
    fn compact(&mut self, walk: &mut Walk, seen: &Seen<'_>, bundle: &Bundle<'_>, compact: &Compact<'_>) {
        let machine = seen.head.machine_id;
        let cpu = bundle.cpu;
        let names: Vec<_> = compact.names.iter().map(|name| self.sched.names.intern(name)).collect();
        let name = |at: usize| names.get(at).copied().unwrap_or(0);
        let mut wakings = compact.wakings().peekable();
        let mut wake = |sched: &mut Sched, walk: &mut Walk, until: u64| {
            while let Some(waking) = wakings.next_if(|waking| waking.raw_ts < until) {
                let Some(when) = bundle.when(walk, seen, waking.raw_ts) else { continue };
                let wake = Wake {
                    when,
                    cpu,
                    waker: 0,
                    tid: waking.pid,
                    target_cpu: waking.target_cpu,
                    prio: waking.prio,
                    comm: name(waking.comm),
                    common_flags: waking.common_flags,
                    is_compact: true,
                    waker_run: None,
                };
                sched.wake(machine, wake);
            }
        };
        for switch in compact.switches() {
            wake(&mut self.sched, walk, switch.raw_ts);
            let Some(when) = bundle.when(walk, seen, switch.raw_ts) else { continue };
            let next = Run {
                tid: switch.next_pid,
                cpu,
                prio: switch.next_prio,
                comm: name(switch.next_comm),
                end_comm: name(switch.next_comm),
                start: Some(when),
                end: None,
            };
            self.sched.switch((machine, cpu), when, None, switch.prev_state, next);
        }
        wake(&mut self.sched, walk, u64::MAX);
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

/// The begin or the end that an event is, and of which track.
#[inline]
pub(crate) fn edge_of(
    event: &TrackEvent<'_>,
    key: TrackKey,
    ts: i64,
    place: Place,
) -> Option<(TrackKey, Edge)> {
    let edge = |is_begin| Edge { ts, place, name: event.name, is_begin };
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

/// Packets whose data refer to what is interned, though they do not say so.
fn is_state_told(seen: &Seen<'_>) -> bool {
    seen.head.data.is_some_and(|(number, _)| number == trace_packet::PROFILE_PACKET)
}

fn texts<const N: usize>(message: &[u8], fields: [u32; N]) -> [&[u8]; N] {
    let mut found = [&b""[..]; N];
    for part in Fields::new(message).map_while(Result::ok) {
        if let (Some(at), Value::Bytes(text)) =
            (fields.iter().position(|field| *field == part.number), part.value)
            && let Some(slot) = found.get_mut(at)
        {
            *slot = text;
        }
    }
    found
}

fn numbers<const N: usize>(message: &[u8], fields: [u32; N]) -> [i64; N] {
    let mut found = [0; N];
    for part in Fields::new(message).map_while(Result::ok) {
        if let (Some(at), Some(number)) =
            (fields.iter().position(|field| *field == part.number), part.value.as_u64())
            && let Some(slot) = found.get_mut(at)
        {
            *slot = number as i64;
        }
    }
    found
}
