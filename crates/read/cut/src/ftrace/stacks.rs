//! Stacks of system calls and interrupts of which ends were lost: a further pass follows them as readers do (upstream: slice_tracker.cc).
//!
//! What does not end stays on its track's stack for ever, and everything after it lies within it. A system call ends by its name: the topmost
//! one of that name. What ended below another that did not stays until something comes later, which ends all above it.
//!
//! Memory: [`MAX_EVENTS`].

use std::collections::BTreeSet;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::ftrace::bundle::{Event, When};
use crate::ftrace::lives::ThreadKey;
use crate::ftrace::pairs::{Home, Kept};
use crate::range::Range;

/// Events that wait to be put in order. Ours, some 200 bytes each: if they are more, the first half of each track's is taken to be complete.
const MAX_EVENTS: usize = 1 << 17;
/// Fewer of one track are left waiting.
const FEW_EVENTS: usize = 64;
/// Longer events are not followed: the kernel's have some numbers and a name.
const MAX_EVENT_BYTES: usize = 512;
/// Deeper ones make no slices (upstream: slice_tracker.cc).
const MAX_DEPTH: usize = 512;
/// What is open of those who had a number before. Ours: each has one or two.
const MAX_OTHERS: usize = 64;
/// System calls have lower numbers (upstream: syscall_table.h).
const MAX_CALLS: u64 = 550;
/// `rt_sigreturn` of x86-64, AArch64 and Arm: it does not return, and is an instant.
const SIGRETURN: [u32; 3] = [15, 139, 173];
/// `write` of x86-64 and AArch64: its end counts only after its begin.
const WRITE: [u32; 2] = [1, 64];

const IRQ_HANDLER_ENTRY: u32 = 36;
const IRQ_HANDLER_EXIT: u32 = 37;
const SOFTIRQ_ENTRY: u32 = 24;
const SOFTIRQ_EXIT: u32 = 25;
const SYS_ENTER: u32 = 329;
const SYS_EXIT: u32 = 330;
/// Tracks of threads.
const OF_THREADS: u32 = SYS_ENTER;

/// A machine, what the track is for, and of which thread or CPU.
pub(super) type Track = (u32, u32, i32);

/// What an event does to a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// What begins is called so.
    Begin(u32),
    End(u32),
    Instant,
    /// The thread's number is another's from now on.
    Bound,
}

/// What an event does, and to which track's stack.
#[inline]
pub(super) fn step_of(event: &Event<'_>, home: Home) -> Option<(Track, Step)> {
    let call = || event.number(1).filter(|id| *id < MAX_CALLS).map(|id| id as u32);
    let of_cpu = |class| (home.machine, class, home.cpu as i32);
    Some(match event.kind {
        SYS_ENTER => {
            let call = call()?;
            let step = if SIGRETURN.contains(&call) { Step::Instant } else { Step::Begin(call) };
            ((home.machine, OF_THREADS, event.pid), step)
        }
        SYS_EXIT => ((home.machine, OF_THREADS, event.pid), Step::End(call()?)),
        IRQ_HANDLER_ENTRY => (of_cpu(IRQ_HANDLER_ENTRY), Step::Begin(0)),
        IRQ_HANDLER_EXIT => (of_cpu(IRQ_HANDLER_ENTRY), Step::End(0)),
        SOFTIRQ_ENTRY => (of_cpu(SOFTIRQ_ENTRY), Step::Begin(0)),
        SOFTIRQ_EXIT => (of_cpu(SOFTIRQ_ENTRY), Step::End(0)),
        _ => return None,
    })
}

#[derive(Debug)]
struct Waiting {
    when: When,
    step: Step,
    event: Outside,
}

/// The event if it is outside of the range: within it all are kept.
type Outside = Option<(Home, Box<[u8]>)>;

/// Follows the stacks of some tracks.
#[derive(Debug)]
pub(super) struct Stacks {
    range: Range,
    tracks: HashMap<Track, Stack, RandomState>,
    waiting: usize,
    kept: Vec<Kept>,
}

#[derive(Debug, Default)]
struct Stack {
    waiting: Vec<Waiting>,
    open: Vec<Slice>,
    /// What was open when the number became another's, or so some readers see it: to others it may still end.
    others: Vec<Slice>,
    has_come_to_range: bool,
    in_write: bool,
}

#[derive(Debug)]
struct Slice {
    begin: When,
    name: u32,
    event: Outside,
    end: Option<(When, Outside)>,
    /// Its end is needed, though it is not in the range.
    is_needed: bool,
}

impl Stacks {
    /// `bounds` says since when a thread's number was another's.
    pub(super) fn new<'a>(
        range: Range,
        tracks: BTreeSet<Track>,
        bounds: impl Fn(ThreadKey) -> &'a [i64],
    ) -> Self {
        let bound = |ts: &i64| Waiting { when: When { ts: *ts, raw: 0 }, step: Step::Bound, event: None };
        let stack = |(machine, class, number): Track| {
            let bounds = if class == OF_THREADS { bounds((machine, number)) } else { &[] };
            Stack { waiting: bounds.iter().map(bound).collect(), ..Stack::default() }
        };
        let tracks = tracks.into_iter().map(|track| (track, stack(track))).collect();
        Self { range, tracks, waiting: 0, kept: Vec::new() }
    }

    pub(super) fn take(&mut self, event: &Event<'_>, when: When, home: Home) {
        let Some((track, step)) = step_of(event, home) else { return };
        let Some(stack) = self.tracks.get_mut(&track) else { return };
        if event.bytes.len() > MAX_EVENT_BYTES {
            return;
        }
        let event = (!self.range.has(when.ts)).then(|| (home, event.bytes.into()));
        stack.waiting.push(Waiting { when, step, event });
        self.waiting += 1;
        if self.waiting > MAX_EVENTS {
            self.settle_half();
        }
    }

    /// What the slices need that reach into the range.
    pub(super) fn finish(mut self) -> Vec<Kept> {
        for stack in self.tracks.values_mut() {
            stack.settle_all(self.range, &mut self.kept);
            stack.come_to_range(&mut self.kept);
        }
        self.kept
    }

    /// If all tracks have few that wait, none is left waiting.
    #[cold]
    fn settle_half(&mut self) {
        for is_half in [true, false] {
            self.waiting = 0;
            for stack in self.tracks.values_mut() {
                let rest = if is_half { FEW_EVENTS.max(stack.waiting.len() / 2) } else { 0 };
                stack.settle(rest, self.range, &mut self.kept);
                self.waiting += stack.waiting.len();
            }
            if self.waiting <= MAX_EVENTS / 2 {
                return;
            }
        }
        // The rest are bounds, which were not counted.
        self.waiting = 0;
    }
}

impl Stack {
    /// Takes all events but the last ones, in the order of time.
    fn settle(&mut self, rest: usize, range: Range, kept: &mut Vec<Kept>) {
        self.waiting.sort_by_key(|waiting| waiting.when.ts);
        // Bounds are all known, but not what happens before them.
        let last = self.waiting.iter().rposition(|waiting| waiting.step != Step::Bound);
        let count = self.waiting.len().saturating_sub(rest).min(last.map_or(0, |last| last + 1));
        self.take(count, range, kept);
    }

    fn settle_all(&mut self, range: Range, kept: &mut Vec<Kept>) {
        self.waiting.sort_by_key(|waiting| waiting.when.ts);
        self.take(self.waiting.len(), range, kept);
    }

    /// Takes so many events.
    fn take(&mut self, count: usize, range: Range, kept: &mut Vec<Kept>) {
        let rest = self.waiting.split_off(count);
        for waiting in std::mem::replace(&mut self.waiting, rest) {
            if waiting.when.ts >= range.from {
                self.come_to_range(kept);
            }
            self.step(waiting, range, kept);
        }
    }

    /// What is on the stack when the range begins is all needed.
    fn come_to_range(&mut self, kept: &mut Vec<Kept>) {
        if std::mem::replace(&mut self.has_come_to_range, true) {
            return;
        }
        self.open.iter_mut().for_each(|slice| slice.keep(kept));
    }

    fn step(&mut self, mut waiting: Waiting, range: Range, kept: &mut Vec<Kept>) {
        let is_needed = self.close(&mut waiting, kept);
        let Waiting { when, step, event } = waiting;
        match step {
            Step::Instant => {}
            Step::Bound => {
                self.open.iter_mut().for_each(|slice| slice.keep(kept));
                self.others.append(&mut self.open);
                let beyond = self.others.len().saturating_sub(MAX_OTHERS);
                self.others.drain(..beyond);
            }
            Step::Begin(name) => {
                self.in_write |= WRITE.contains(&name);
                if self.open.len() < MAX_DEPTH {
                    self.open.push(Slice { begin: when, name, event, end: None, is_needed });
                }
            }
            Step::End(name) => {
                if WRITE.contains(&name) && !std::mem::take(&mut self.in_write) {
                    return;
                }
                let is_it = |slice: &Slice| slice.end.is_none() && slice.name == name;
                let Some(at) = self.open.iter().rposition(is_it) else {
                    if let Some(at) = self.others.iter().rposition(is_it) {
                        let mut slice = self.others.remove(at);
                        slice.end = Some((when, event));
                        slice.keep(kept);
                    }
                    return;
                };
                let is_top = at + 1 == self.open.len();
                let Some(slice) = self.open.get_mut(at) else { return };
                slice.end = Some((when, event));
                let reaches_in = slice.begin.ts < range.to && when.ts >= range.to;
                if slice.is_needed || is_needed || reaches_in {
                    slice.keep(kept);
                }
                if is_top {
                    self.open.pop();
                }
            }
        }
    }

    /// Takes away what has ended before an event; says whether that ended others.
    fn close(&mut self, now: &mut Waiting, kept: &mut Vec<Kept>) -> bool {
        let (mut has_unfinished, mut ends_others) = (false, false);
        for at in (0..self.open.len()).rev() {
            let Some(end) = self.open.get(at).map(|slice| slice.end.as_ref().map(|(end, _)| end.ts)) else {
                continue;
            };
            match end {
                None => has_unfinished = true,
                Some(end) if has_unfinished => {
                    if now.when.ts > end {
                        self.end_others(at, now, kept);
                        (has_unfinished, ends_others) = (false, true);
                    }
                }
                Some(end) if end <= now.when.ts => self.open.truncate(at),
                Some(_) => {}
            }
        }
        ends_others
    }

    /// What is above a slice that has ended ends with it. Readers count that, wherever it is.
    #[cold]
    fn end_others(&mut self, at: usize, now: &mut Waiting, kept: &mut Vec<Kept>) {
        let mut ended = self.open.split_off(at);
        ended.iter_mut().for_each(|slice| slice.keep(kept));
        keep(now.when, &mut now.event, kept);
    }
}

impl Slice {
    /// Its events are needed, as far as they are known.
    fn keep(&mut self, kept: &mut Vec<Kept>) {
        self.is_needed = true;
        keep(self.begin, &mut self.event, kept);
        if let Some((when, event)) = &mut self.end {
            keep(*when, event, kept);
        }
    }
}

fn keep(when: When, event: &mut Outside, kept: &mut Vec<Kept>) {
    if let Some((home, bytes)) = event.take() {
        kept.push(Kept { when, home, bytes: bytes.into() });
    }
}
