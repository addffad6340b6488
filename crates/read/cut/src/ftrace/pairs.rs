//! Kernel events that open something, that close it, or whose last one counts.
//!
//! | what | rule |
//! |---|---|
//! | who is who: `task_newtask`, `task_rename`, `sched_process_free` | all of the trace are kept |
//! | states: frequencies, idle states, clocks, memory of processes | the last before the range, each CPU, clock, process |
//! | pairs that do not nest: system calls, interrupts, work items, … | the begin, if it was not ended before the range, and the end |
//! | pairs that nest: prints of atrace, kprobes, the function graph | the same, with a stack for each thread |
//!
//! Pairs that do not nest may come in any order (their halves may be on two CPUs, whose bundles come one after the other). For those that
//! nest, [`REORDERED`] events are put in order.
//!
//! Memory: [`MAX_KEYS`], [`MAX_OPEN`], [`REORDERED`], each an event of some 100 bytes; and of pairs [`MAX_NAMES`], 8 bytes each.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use ferretto_protos::fields::ftrace_event as field;
use ferretto_protozero::read::{Fields, Value};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::ftrace::bundle::{Event, When};
use crate::ftrace::stacks::{Step, Track, step_of};
use crate::range::Range;

/// States and pairs that are followed. Ours: a thread has one or two.
const MAX_KEYS: usize = 1 << 18;
/// What is open at once on all stacks. Ours.
const MAX_OPEN: usize = 1 << 18;
/// Events put in order before they go to their stacks. Ours: more than CPUs hand over at once.
const REORDERED: usize = 1 << 16;
/// Names of which a pair is counted. Ours: a thread has some.
const MAX_NAMES: usize = 32;
/// Longer events are not followed: it bounds the memory. The kernel's have less than a page.
const MAX_EVENT_BYTES: usize = 4096;
/// Bytes of all events that are held. Ours: most have less than a hundred.
const MAX_HELD_BYTES: usize = 128 << 20;

// Field numbers of `FtraceEvent` (upstream: ftrace_event.proto).
const SOFTIRQ_ENTRY: u32 = 24;
const SOFTIRQ_EXIT: u32 = 25;
const IRQ_HANDLER_ENTRY: u32 = 36;
const IRQ_HANDLER_EXIT: u32 = 37;
const DIRECT_RECLAIM_BEGIN: u32 = 46;
const DIRECT_RECLAIM_END: u32 = 47;
const WORKQUEUE_EXECUTE_END: u32 = 57;
const WORKQUEUE_EXECUTE_START: u32 = 58;
const RSS_STAT: u32 = 313;
const OOM_SCORE_ADJ_UPDATE: u32 = 326;
const SYS_ENTER: u32 = 329;
const SYS_EXIT: u32 = 330;
const GPU_MEM_TOTAL: u32 = 340;
const THERMAL_TEMPERATURE: u32 = 341;
const CDEV_UPDATE: u32 = 342;
const CPUHP_EXIT: u32 = 343;
const CPUHP_ENTER: u32 = 345;
const RSS_STAT_THROTTLED: u32 = 359;
const SHRINK_SLAB_START: u32 = 443;
const SHRINK_SLAB_END: u32 = 444;
const DEVFREQ_FREQUENCY: u32 = 541;
const BLOCK_IO_START: u32 = 546;
const BLOCK_IO_DONE: u32 = 547;
const HRTIMER_EXPIRE_ENTRY: u32 = 553;
const HRTIMER_EXPIRE_EXIT: u32 = 554;
const LOCAL_TIMER_ENTRY: u32 = 559;
const LOCAL_TIMER_EXIT: u32 = 560;
const MEMCG_RECLAIM_BEGIN: u32 = 607;
const MEMCG_RECLAIM_END: u32 = 608;

/// Whether all of a trace are kept, as they say who is who.
#[inline]
pub(crate) fn is_always_kept(kind: u32) -> bool {
    matches!(kind, field::TASK_NEWTASK | field::TASK_RENAME | field::SCHED_PROCESS_FREE)
}

/// Where events are, so that they can be written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Home {
    pub(crate) machine: u32,
    pub(crate) sequence_id: u32,
    pub(crate) cpu: u32,
    pub(crate) ftrace_clock: u64,
    /// The packet that had last cleared the sequence, if the event may name a symbol of the kernel's by its number.
    pub(crate) generation: Option<u64>,
}

/// An event that must be in the cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kept {
    pub(crate) when: When,
    pub(crate) home: Home,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Pair {
    /// The last begin before the range, and the last end.
    begin: Option<Kept>,
    end: i64,
    /// The same before the end of the range.
    begin_until: i64,
    end_until: i64,
    /// The first end after it.
    end_after: Option<Kept>,
    /// The track, and how many more begins than ends there are of each name before the end of the range.
    track: Option<Track>,
    unended: Vec<(u32, i32)>,
    /// The first of them and the last.
    ends: Option<[(i64, Step); 2]>,
}

impl Pair {
    /// Some begins or ends were lost: more than the begin of what the first one ends, and the end of what the last one begins.
    fn is_doubtful(&self) -> bool {
        let Some([(_, first), (_, last)]) = self.ends else { return false };
        self.unended.iter().any(|(name, count)| {
            let before = i32::from(first == Step::End(*name));
            let after = i32::from(last == Step::Begin(*name));
            count + before - after != 0
        })
    }

    #[inline]
    fn count(&mut self, ts: i64, (track, step): (Track, Step)) {
        let (name, by) = match step {
            Step::Begin(name) => (name, 1),
            Step::End(name) => (name, -1),
            Step::Instant | Step::Bound => return,
        };
        self.track = Some(track);
        let [first, last] = self.ends.get_or_insert([(ts, step); 2]);
        if ts < first.0 {
            *first = (ts, step);
        }
        if ts >= last.0 {
            *last = (ts, step);
        }
        if let Some((_, count)) = self.unended.iter_mut().find(|(other, _)| *other == name) {
            *count += by;
        } else if self.unended.len() < MAX_NAMES {
            self.unended.push((name, by));
        }
    }
}

#[derive(Debug)]
struct Nested {
    when: When,
    home: Home,
    /// Absent for what is of no matter but to be ended.
    bytes: Option<Box<[u8]>>,
    is_begin: bool,
    key: (u32, u32, i32),
}

/// Follows all events but those of scheduling.
#[derive(Debug)]
pub(crate) struct Pairs {
    range: Range,
    states: HashMap<u64, Kept, RandomState>,
    pairs: HashMap<u64, Pair, RandomState>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    arrived: u64,
    stacks: HashMap<(u32, u32, i32), Vec<Nested>, RandomState>,
    open: usize,
    kept: Vec<Kept>,
    /// Bytes of all events here.
    held: usize,
    /// The tracks that a further pass has followed, and what they need.
    settled: Option<(BTreeSet<Track>, Vec<Kept>)>,
    /// Events beyond the bounds.
    pub(crate) beyond: u64,
}

#[derive(Debug)]
struct Waiting(u64, Nested);

/// What an event is to its key.
enum Role {
    State(u64),
    Begin(u64),
    End(u64),
    Push(u32),
    Pop(u32),
    None,
}

impl Pairs {
    pub(crate) fn new(range: Range) -> Self {
        Self {
            range,
            states: HashMap::default(),
            pairs: HashMap::default(),
            waiting: BinaryHeap::new(),
            arrived: 0,
            stacks: HashMap::default(),
            open: 0,
            kept: Vec::new(),
            held: 0,
            settled: None,
            beyond: 0,
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, event: &Event<'_>, when: When, home: Home) {
        match role(event, home) {
            Role::None => {}
            _ if event.bytes.len() > MAX_EVENT_BYTES => self.beyond += 1,
            Role::State(key) => self.state(key, event, when, home),
            Role::Begin(key) => self.pair(key, event, when, home, true),
            Role::End(key) => self.pair(key, event, when, home, false),
            Role::Push(class) => self.nest(class, event, when, home, true),
            Role::Pop(class) => self.nest(class, event, when, home, false),
        }
    }

    /// The tracks that a further pass has to follow: where events were lost, all.
    pub(super) fn doubtful(&self, has_losses: bool) -> BTreeSet<Track> {
        let doubtful = self.pairs.values().filter(|pair| has_losses || pair.is_doubtful());
        doubtful.filter_map(|pair| pair.track).collect()
    }

    /// What it has found they need.
    pub(super) fn settle(&mut self, tracks: BTreeSet<Track>, kept: Vec<Kept>) {
        self.settled = Some((tracks, kept));
    }

    /// What must be kept from before the range and from after it.
    pub(crate) fn needed(mut self) -> Vec<Kept> {
        while let Some(Reverse(Waiting(_, nested))) = self.waiting.pop() {
            self.apply(nested);
        }
        for nested in std::mem::take(&mut self.stacks).into_values().flatten() {
            self.keep(nested, |when, range| when.ts < range.from);
        }
        let Self { mut kept, states, pairs, mut settled, .. } = self;
        kept.extend(states.into_values());
        if let Some((_, settled)) = &mut settled {
            kept.append(settled);
        }
        for pair in pairs.into_values() {
            let is_settled = |track| settled.as_ref().is_some_and(|(settled, _)| settled.contains(track));
            if pair.track.as_ref().is_some_and(is_settled) {
                continue;
            }
            kept.extend(pair.begin.filter(|begin| begin.when.ts > pair.end));
            kept.extend(pair.end_after.filter(|_| pair.begin_until > pair.end_until));
        }
        kept
    }

    fn state(&mut self, key: u64, event: &Event<'_>, when: When, home: Home) {
        if when.ts >= self.range.from {
            return;
        }
        if self.states.len() >= MAX_KEYS && !self.states.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        let last = self.states.entry(key).or_default();
        if last.bytes.is_empty() || last.when <= when {
            self.beyond += u64::from(!last.set(event, when, home, &mut self.held));
        }
    }

    fn pair(&mut self, key: u64, event: &Event<'_>, when: When, home: Home, is_begin: bool) {
        if self.pairs.len() >= MAX_KEYS && !self.pairs.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        let none = || Pair { end: i64::MIN, begin_until: i64::MIN, end_until: i64::MIN, ..Pair::default() };
        let pair = self.pairs.entry(key).or_insert_with(none);
        let until = if is_begin { &mut pair.begin_until } else { &mut pair.end_until };
        if when.ts < self.range.to {
            *until = when.ts.max(*until);
            if let Some(step) = step_of(event, home) {
                pair.count(when.ts, step);
            }
        }
        match is_begin {
            true if when.ts < self.range.from => {
                let begin = pair.begin.get_or_insert_default();
                if begin.bytes.is_empty() || begin.when <= when {
                    self.beyond += u64::from(!begin.set(event, when, home, &mut self.held));
                }
            }
            false if when.ts < self.range.from => pair.end = pair.end.max(when.ts),
            false if when.ts >= self.range.to => {
                let first = pair.end_after.get_or_insert_default();
                if first.bytes.is_empty() || when < first.when {
                    self.beyond += u64::from(!first.set(event, when, home, &mut self.held));
                }
            }
            _ => {}
        }
    }

    fn nest(&mut self, class: u32, event: &Event<'_>, when: When, home: Home, is_begin: bool) {
        // Within the range all is kept anyway.
        let bytes: Option<Box<[u8]>> = (!self.range.has(when.ts)).then(|| event.bytes.into());
        let len = bytes.as_ref().map_or(0, |bytes| bytes.len());
        if self.held + len > MAX_HELD_BYTES {
            self.beyond += 1;
            return;
        }
        self.held += len;
        let nested = Nested { when, home, bytes, is_begin, key: (home.machine, class, event.pid) };
        self.arrived += 1;
        self.waiting.push(Reverse(Waiting(self.arrived, nested)));
        if self.waiting.len() > REORDERED
            && let Some(Reverse(Waiting(_, first))) = self.waiting.pop()
        {
            self.apply(first);
        }
    }

    fn apply(&mut self, nested: Nested) {
        if nested.is_begin {
            if self.open >= MAX_OPEN {
                self.beyond += 1;
                return self.let_go(&nested);
            }
            self.open += 1;
            self.stacks.entry(nested.key).or_default().push(nested);
            return;
        }
        let Some(stack) = self.stacks.get_mut(&nested.key) else { return self.let_go(&nested) };
        let Some(begin) = stack.pop() else { return self.let_go(&nested) };
        if stack.is_empty() {
            self.stacks.remove(&nested.key);
        }
        self.open -= 1;
        let (from, to) = (begin.when.ts, nested.when.ts);
        self.keep(begin, |when, range| when.ts < range.from && to >= range.from);
        self.keep(nested, |when, range| when.ts >= range.to && from < range.to);
    }

    fn keep(&mut self, nested: Nested, is_needed: impl Fn(When, Range) -> bool) {
        if !is_needed(nested.when, self.range) {
            return self.let_go(&nested);
        }
        if let Some(bytes) = nested.bytes {
            self.kept.push(Kept { when: nested.when, home: nested.home, bytes: bytes.into() });
        }
    }

    fn let_go(&mut self, nested: &Nested) {
        self.held -= nested.bytes.as_ref().map_or(0, |bytes| bytes.len());
    }
}

impl Kept {
    /// Takes the place of what was there, if there is room; says whether there was.
    fn set(&mut self, event: &Event<'_>, when: When, home: Home, held: &mut usize) -> bool {
        let before = self.bytes.capacity();
        if *held + event.bytes.len().saturating_sub(before) > MAX_HELD_BYTES {
            return false;
        }
        (self.when, self.home) = (when, home);
        self.bytes.clear();
        self.bytes.reserve_exact(event.bytes.len());
        self.bytes.extend_from_slice(event.bytes);
        *held += self.bytes.capacity() - before;
        true
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.1.when, self.0).cmp(&(other.1.when, other.0))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

// Classes of stacks.
const PRINTS: u32 = 0;
const KPROBES: u32 = 1;
const FUNCTIONS: u32 = 2;
/// `KprobeEvent.KprobeType` (upstream: ftrace_event.proto).
const KPROBE_TYPE: u32 = 2;
const KPROBE_BEGIN: u64 = 1;
const KPROBE_END: u64 = 2;

/// Which fields say what a state is of; and whether the thread does, too.
fn state_key(kind: u32) -> Option<(&'static [u32], bool)> {
    Some(match kind {
        field::CPU_FREQUENCY | field::CPU_IDLE => (&[2], false),
        field::CPU_FREQUENCY_LIMITS => (&[3], false),
        field::CLOCK_SET_RATE | field::CLOCK_ENABLE | field::CLOCK_DISABLE => (&[1], false),
        RSS_STAT | RSS_STAT_THROTTLED => (&[1, 3, 4], true),
        OOM_SCORE_ADJ_UPDATE => (&[3], false),
        field::GPU_FREQUENCY => (&[1], false),
        GPU_MEM_TOTAL => (&[1, 2], false),
        THERMAL_TEMPERATURE => (&[4], false),
        CDEV_UPDATE | DEVFREQ_FREQUENCY => (&[2], false),
        _ => return None,
    })
}

#[inline]
fn role(event: &Event<'_>, home: Home) -> Role {
    let by_thread = |class: u32| hash(&[u64::from(class), u64::from(home.machine), event.pid as u64]);
    let by_cpu = |class: u32| hash(&[u64::from(class), u64::from(home.machine), u64::from(home.cpu)]);
    let by_field = |class: u32, number| {
        hash(&[u64::from(class), u64::from(home.machine), event.number(number).unwrap_or(0)])
    };
    match event.kind {
        SYS_ENTER => Role::Begin(by_thread(SYS_ENTER)),
        SYS_EXIT => Role::End(by_thread(SYS_ENTER)),
        IRQ_HANDLER_ENTRY => Role::Begin(by_cpu(IRQ_HANDLER_ENTRY)),
        IRQ_HANDLER_EXIT => Role::End(by_cpu(IRQ_HANDLER_ENTRY)),
        SOFTIRQ_ENTRY => Role::Begin(by_cpu(SOFTIRQ_ENTRY)),
        SOFTIRQ_EXIT => Role::End(by_cpu(SOFTIRQ_ENTRY)),
        LOCAL_TIMER_ENTRY => Role::Begin(by_cpu(LOCAL_TIMER_ENTRY)),
        LOCAL_TIMER_EXIT => Role::End(by_cpu(LOCAL_TIMER_ENTRY)),
        HRTIMER_EXPIRE_ENTRY => Role::Begin(by_cpu(HRTIMER_EXPIRE_ENTRY)),
        HRTIMER_EXPIRE_EXIT => Role::End(by_cpu(HRTIMER_EXPIRE_ENTRY)),
        WORKQUEUE_EXECUTE_START => Role::Begin(by_thread(WORKQUEUE_EXECUTE_START)),
        WORKQUEUE_EXECUTE_END => Role::End(by_thread(WORKQUEUE_EXECUTE_START)),
        DIRECT_RECLAIM_BEGIN => Role::Begin(by_thread(DIRECT_RECLAIM_BEGIN)),
        DIRECT_RECLAIM_END => Role::End(by_thread(DIRECT_RECLAIM_BEGIN)),
        MEMCG_RECLAIM_BEGIN => Role::Begin(by_thread(MEMCG_RECLAIM_BEGIN)),
        MEMCG_RECLAIM_END => Role::End(by_thread(MEMCG_RECLAIM_BEGIN)),
        SHRINK_SLAB_START => Role::Begin(by_thread(SHRINK_SLAB_START)),
        SHRINK_SLAB_END => Role::End(by_thread(SHRINK_SLAB_START)),
        CPUHP_ENTER => Role::Begin(by_field(CPUHP_ENTER, 1)),
        CPUHP_EXIT => Role::End(by_field(CPUHP_ENTER, 1)),
        BLOCK_IO_START => Role::Begin(by_field(BLOCK_IO_START, 2)),
        BLOCK_IO_DONE => Role::End(by_field(BLOCK_IO_START, 2)),
        field::FUNCGRAPH_ENTRY => Role::Push(FUNCTIONS),
        field::FUNCGRAPH_EXIT => Role::Pop(FUNCTIONS),
        field::KPROBE_EVENT => match event.number(KPROBE_TYPE) {
            Some(KPROBE_BEGIN) => Role::Push(KPROBES),
            Some(KPROBE_END) => Role::Pop(KPROBES),
            _ => Role::None,
        },
        field::PRINT => print_role(event, home),
        kind => match state_key(kind) {
            Some((fields, of_thread)) => {
                Role::State(fields_hash(event, fields, of_thread.then_some(event.pid), home.machine))
            }
            None => Role::None,
        },
    }
}

/// Lines of atrace (upstream: systrace_parser.h): `B|pid|name`, `E`, `S|pid|name|cookie`, `F|…`, `C|pid|name|value`.
fn print_role(event: &Event<'_>, home: Home) -> Role {
    let text = Fields::new(event.payload).map_while(Result::ok).find(|part| part.number == 2);
    let Some(Value::Bytes(text)) = text.map(|part| part.value) else { return Role::None };
    let without_value = || text.iter().rposition(|byte| *byte == b'|').and_then(|end| text.get(1..end));
    let of = |class: u8, key: &[u8]| {
        let parts = [u64::from(field::PRINT), u64::from(class), u64::from(home.machine)];
        key.iter().fold(hash(&parts), |so_far, byte| mix(so_far, u64::from(*byte)))
    };
    match text {
        [b'B', b'|', ..] => Role::Push(PRINTS),
        [b'E'] | [b'E', b'|' | b'\n', ..] => Role::Pop(PRINTS),
        [b'S', b'|', ..] => Role::Begin(of(b'S', text.get(1..).unwrap_or_default().trim_ascii_end())),
        [b'F', b'|', ..] => Role::End(of(b'S', text.get(1..).unwrap_or_default().trim_ascii_end())),
        [b'C', b'|', ..] => without_value().map_or(Role::None, |key| Role::State(of(b'C', key))),
        _ => Role::None,
    }
}

fn fields_hash(event: &Event<'_>, fields: &[u32], pid: Option<i32>, machine: u32) -> u64 {
    let parts = Fields::new(event.payload).map_while(Result::ok);
    let chosen = parts.filter(|part| fields.contains(&part.number));
    let of = hash(&[u64::from(event.kind), u64::from(machine), pid.map_or(0, |pid| pid as u64)]);
    chosen.fold(of, |so_far, part| part.raw.iter().fold(so_far, |so_far, byte| mix(so_far, u64::from(*byte))))
}

fn hash(parts: &[u64]) -> u64 {
    parts.iter().fold(0xcbf2_9ce4_8422_2325, |so_far, part| mix(so_far, *part))
}

fn mix(so_far: u64, part: u64) -> u64 {
    (so_far ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_are_held_are_bounded_in_bytes() {
        let long = vec![0; MAX_EVENT_BYTES];
        let home = |cpu| Home { cpu, ..Home::default() };
        let event = |kind, pid, payload| Event { bytes: &long, raw_ts: 0, pid, kind, payload };
        let mut pairs = Pairs::new(Range { from: 1_000_000, to: 2_000_000 });
        for number in 0..100_000 {
            let when = When { ts: i64::from(number), raw: 0 };
            pairs.take(&event(SYS_ENTER, number, b"\x08\x07"), when, home(0));
            pairs.take(&event(field::FUNCGRAPH_ENTRY, number, b""), when, home(0));
            assert!(pairs.held <= MAX_HELD_BYTES);
        }
        assert!(pairs.beyond > 0);
        let kept = pairs.needed();
        assert!(kept.iter().map(|kept| kept.bytes.len()).sum::<usize>() <= MAX_HELD_BYTES);
    }

    #[test]
    fn what_is_over_is_let_go() {
        let long = vec![0; MAX_EVENT_BYTES];
        let event = |kind| Event { bytes: &long, raw_ts: 0, pid: 7, kind, payload: b"" };
        let mut pairs = Pairs::new(Range { from: 1_000_000, to: 2_000_000 });
        for ts in 0..50_000 {
            let kind = if ts % 2 == 0 { field::FUNCGRAPH_ENTRY } else { field::FUNCGRAPH_EXIT };
            pairs.take(&event(kind), When { ts, raw: 0 }, Home::default());
            while let Some(Reverse(Waiting(_, first))) = pairs.waiting.pop() {
                pairs.apply(first);
            }
        }
        assert_eq!((pairs.held, pairs.beyond, pairs.kept.len()), (0, 0, 0));
    }
}
