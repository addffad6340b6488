//! The kernel's part of the pass that looks: each event goes to those who follow it.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_protos::fields::ftrace_event;
use ferretto_trace_read::fields::{Fields, Value};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::bounds::Bounds;
use crate::ftrace::at_once::{Rows, Side};
use crate::ftrace::bundle::{Event, Parts, When};
use crate::ftrace::doubts::{Doubtful, Doubts};
use crate::ftrace::lives::{Lives, ThreadKey};
use crate::ftrace::pairs::{Home, Kept, Pairs, is_always_kept};
use crate::ftrace::payload::{Switch, Waking, common_flags};
use crate::ftrace::run::{Run, Wake, WakeSource, Who};
use crate::ftrace::sched::{CpuKey, Sched};
use crate::ftrace::stacks::{Stacks, Track};
use crate::ftrace::tail::Tail;
use crate::index::place;
use crate::names::Name;
use crate::range::Range;
use crate::walk::{Seen, Walk};

/// Threads whose first reason to be blocked after the range is kept. Ours, as for other last values.
const MAX_BLOCKED: usize = 1 << 18;
/// Of longer ones none is: the kernel's have some numbers.
const MAX_BLOCKED_BYTES: usize = 256;

/// What one range needs of the kernel's events.
#[derive(Debug)]
pub(crate) struct Kernel {
    range: Range,
    counts_from: i64,
    sched: Sched,
    lives: Lives,
    pairs: Pairs,
    /// Events were lost.
    has_losses: bool,
    /// In the further pass.
    stacks: Option<(BTreeSet<Track>, Stacks)>,
    blocked: HashMap<(u32, i32), Kept, RandomState>,
    homes: HashMap<CpuKey, Home, RandomState>,
}

impl Kernel {
    pub(crate) fn new(range: Range, bounds: &Bounds) -> Self {
        let counts_from = bounds.sched_counts_from.unwrap_or(i64::MIN);
        Self {
            range,
            counts_from,
            sched: Sched::new(range, counts_from, &bounds.first_leaves, bounds.cpus.iter().copied()),
            lives: Lives::new(range.from),
            pairs: Pairs::new(range),
            has_losses: false,
            stacks: None,
            blocked: HashMap::default(),
            homes: HashMap::default(),
        }
    }

    /// Takes a list of processes.
    pub(crate) fn process_tree(&mut self, machine: u32, tree: &[u8], ts: i64) {
        self.lives.listed(machine, tree, ts);
    }

    /// For a further pass over all bundles, if there is a thread of which this one cannot tell what it needs. It takes the names along.
    pub(crate) fn doubts(&mut self) -> Option<Self> {
        let mut doubtful: Doubtful = BTreeMap::new();
        let overlapping = self.sched.take_doubtful(self.has_losses);
        let bounds = self.lives.bounds();
        let tracks = self.pairs.doubtful(self.has_losses);
        let bounds_of = |thread: ThreadKey| bounds.get(&thread).map_or(&[][..], |bounds| &bounds.times);
        let stacks = Stacks::new(self.range, tracks.clone(), bounds_of);
        for (thread, bounds) in bounds {
            let last = self.sched.last_before(thread);
            if overlapping.contains(&thread) || bounds.are_of_several(last) {
                doubtful.insert(thread, bounds.times);
            }
        }
        for thread in overlapping {
            doubtful.entry(thread).or_default();
        }
        if doubtful.is_empty() && tracks.is_empty() {
            return None;
        }
        let mut sched = Sched::new(self.range, self.counts_from, &[], []);
        sched.names = std::mem::take(&mut self.sched.names);
        sched.doubts = Some(Doubts::new(self.range.from, doubtful));
        Some(Self {
            range: self.range,
            counts_from: self.counts_from,
            sched,
            lives: Lives::new(i64::MIN),
            pairs: Pairs::new(self.range),
            has_losses: false,
            stacks: Some((tracks, stacks)),
            blocked: HashMap::default(),
            homes: HashMap::default(),
        })
    }

    /// The further pass is over.
    pub(crate) fn settle(&mut self, further: Self) {
        let mut sched = further.sched;
        self.sched.names = std::mem::take(&mut sched.names);
        self.sched.beyond += sched.beyond;
        if let Some(doubts) = sched.doubts {
            let (threads, needed) = doubts.finish();
            self.sched.settle(threads, needed);
        }
        if let Some((tracks, stacks)) = further.stacks {
            self.pairs.settle(tracks, stacks.finish());
        }
    }

    /// Takes the next bundle of the file; says whether something of it will be written.
    pub(crate) fn take(&mut self, walk: &mut Walk, seen: &Seen<'_>, parts: &Parts<'_>) -> bool {
        let bundle = &parts.bundle;
        if let Some(pair) = bundle.pair() {
            walk.add_pair(seen, pair);
        }
        self.has_losses |= bundle.has_lost;
        let machine = seen.head.machine_id;
        let home = Home {
            machine,
            sequence_id: seen.head.sequence_id,
            cpu: bundle.cpu,
            ftrace_clock: bundle.ftrace_clock,
            generation: None,
        };
        let is_first = self.homes.insert((machine, bundle.cpu), home).is_none();
        let home = Home { generation: Some(place(walk, seen).generation), ..home };
        let mut writes = is_first || bundle.says_more || parts.has_unreadable;
        let (mut names, mut rows) = (Vec::new(), None);
        if bundle.compact.is_some() {
            let current = self.sched.current((machine, bundle.cpu));
            names.extend(parts.names.iter().map(|name| self.sched.names.intern(name)));
            writes |= self.compact(walk, seen, parts, &names);
            if bundle.is_on_trace_clock(walk, seen) {
                rows = Rows::from_first(current, bundle.cpu, parts, &names);
            }
        }
        let is_as_written = !parts.events.is_empty() && bundle.is_on_trace_clock(walk, seen);
        for event in &parts.events {
            let when = match is_as_written {
                true => Some(When::as_written(event.raw_ts)),
                false => bundle.when(walk, seen, event.raw_ts),
            };
            match when {
                Some(when) => {
                    writes |= self.range.has(when.ts) || is_always_kept(event.kind);
                    self.event(event, when, home, rows.as_ref());
                }
                None => writes = true,
            }
        }
        self.sched.end_bundle((machine, bundle.cpu));
        writes
    }

    /// Tells what must be kept from before the range and from after it; returns how often a bound was met.
    pub(crate) fn finish(self, tail: &mut Tail) -> u64 {
        let Self { range, sched, lives, pairs, blocked, homes, .. } = self;
        let beyond = pairs.beyond + sched.beyond + lives.beyond;
        tail.extend(pairs.needed());
        let blocked = blocked.into_iter().filter(|((machine, tid), _)| sched.was_there(*machine, *tid));
        tail.extend(blocked.map(|(_, kept)| kept));
        let needed = sched.needed();
        // Of a machine with many threads, what is needed of them takes as much memory as they do.
        let names = sched.into_names();
        tail.add_sched(needed, range, &names, &homes);
        beyond
    }

    /// `rows` are those of its bundle, which are known already.
    fn event(&mut self, event: &Event<'_>, when: When, home: Home, rows: Option<&Rows<'_>>) {
        let Home { machine, cpu, .. } = home;
        match event.kind {
            ftrace_event::SCHED_SWITCH => self.switch(event, when, (machine, cpu)),
            ftrace_event::SCHED_WAKING => self.waking(event, when, (machine, cpu)),
            ftrace_event::TASK_RENAME => {
                let ([tid], [comm]) = (numbers(event.payload, [1]), texts(event.payload, [3]));
                let comm = self.sched.names.intern(comm);
                self.sched.renamed((machine, cpu), tid as i32, when, comm);
            }
            ftrace_event::TASK_NEWTASK => {
                let [tid, flags] = numbers(event.payload, [1, 3]);
                self.lives.made((machine, tid as i32), when.ts, event.pid, flags as u64);
                let run = rows.map(|rows| rows.run_at(event.raw_ts));
                self.sched.wake(machine, Wake { waker_run: run, ..created(event, when, cpu) });
            }
            _ if self.stacks.is_some() => {
                if let Some((_, stacks)) = &mut self.stacks {
                    stacks.take(event, when, home);
                }
            }
            ftrace_event::SCHED_PROCESS_FREE => {
                let [tid] = numbers(event.payload, [2]);
                self.lives.ended((machine, tid as i32), when.ts);
                self.sched.did(machine, event.pid, when);
            }
            ftrace_event::SCHED_BLOCKED_REASON if when.ts >= self.range.to => {
                let [tid] = numbers(event.payload, [1]);
                let key = (machine, tid as i32);
                let is_first = self.blocked.get(&key).is_none_or(|first| when < first.when);
                let has_room = self.blocked.len() < MAX_BLOCKED || self.blocked.contains_key(&key);
                if is_first && has_room && event.bytes.len() <= MAX_BLOCKED_BYTES {
                    self.blocked.insert(key, Kept { when, home, bytes: event.bytes.to_vec() });
                }
            }
            _ => {
                self.sched.did(machine, event.pid, when);
                self.pairs.take(event, when, home);
            }
        }
    }

    fn switch(&mut self, event: &Event<'_>, when: When, (machine, cpu): CpuKey) {
        let said = Switch::of(event.payload);
        let names = &mut self.sched.names;
        let prev_comm = names.intern(said.prev_comm);
        let prev = Who { tid: said.prev_pid, prio: said.prev_prio, comm: prev_comm };
        let comm = names.intern(said.next_comm);
        let next = Who { tid: said.next_pid, prio: said.next_prio, comm };
        self.sched.switch((machine, cpu), when, Some(prev), said.prev_state, Run::new(next, cpu, Some(when)));
    }

    fn waking(&mut self, event: &Event<'_>, when: When, (machine, cpu): CpuKey) {
        let said = Waking::of(event.payload);
        let wake = Wake {
            when,
            cpu,
            waker: event.pid,
            tid: said.pid,
            target_cpu: said.target_cpu,
            prio: said.prio,
            comm: self.sched.names.intern(said.comm),
            common_flags: common_flags(event.bytes),
            source: WakeSource::Event,
            waker_run: None,
        };
        self.sched.wake(machine, wake);
    }

    /// Both rows of columns, in the order of time; says whether something of it will be written.
    fn compact(&mut self, walk: &mut Walk, seen: &Seen<'_>, parts: &Parts<'_>, names: &[Name]) -> bool {
        let (machine, cpu) = (seen.head.machine_id, parts.bundle.cpu);
        let name = |at: usize| names.get(at).copied().unwrap_or(0);
        let range = self.range;
        // What is empty stays as it is.
        let mut writes = parts.switches.is_empty() && parts.wakings.is_empty();
        if parts.bundle.is_on_trace_clock(walk, seen)
            && let Some(side) =
                self.sched.take_at_once((machine, cpu), &parts.switches, &parts.wakings, names)
        {
            return side == Side::Within;
        }
        let mut wakings = parts.wakings.iter().peekable();
        let mut wake = |sched: &mut Sched, walk: &mut Walk, until: u64| {
            let mut writes = false;
            while let Some(waking) = wakings.next_if(|waking| waking.raw_ts < until) {
                let when = parts.bundle.when(walk, seen, waking.raw_ts);
                writes |= when.is_none_or(|when| range.has(when.ts));
                let Some(when) = when else { continue };
                let wake = Wake {
                    when,
                    cpu,
                    waker: 0,
                    tid: waking.pid,
                    target_cpu: waking.target_cpu,
                    prio: waking.prio,
                    comm: name(waking.comm),
                    common_flags: waking.common_flags.map(|flags| flags as u32),
                    source: WakeSource::Compact,
                    waker_run: None,
                };
                sched.wake(machine, wake);
            }
            writes
        };
        for switch in &parts.switches {
            writes |= wake(&mut self.sched, walk, switch.raw_ts);
            let when = parts.bundle.when(walk, seen, switch.raw_ts);
            writes |= when.is_none_or(|when| range.has(when.ts));
            let Some(when) = when else { continue };
            let next = Who { tid: switch.next_pid, prio: switch.next_prio, comm: name(switch.next_comm) };
            let next = Run::new(next, cpu, Some(when));
            self.sched.switch((machine, cpu), when, None, switch.prev_state, next);
        }
        writes | wake(&mut self.sched, walk, u64::MAX)
    }
}

/// A new thread can run at once: its maker has woken it.
fn created(event: &Event<'_>, when: When, cpu: u32) -> Wake {
    let [tid] = numbers(event.payload, [1]);
    Wake {
        when,
        waker_run: None,
        cpu,
        waker: event.pid,
        tid: tid as i32,
        target_cpu: 0,
        prio: 0,
        comm: 0,
        common_flags: None,
        source: WakeSource::Creation,
    }
}

fn texts<const N: usize>(message: &[u8], fields: [u32; N]) -> [&[u8]; N] {
    let mut found = [&b""[..]; N];
    for part in Fields::new(message).whole() {
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
    for part in Fields::new(message).whole() {
        if let (Some(at), Some(number)) =
            (fields.iter().position(|field| *field == part.number), part.value.as_u64())
            && let Some(slot) = found.get_mut(at)
        {
            *slot = number as i64;
        }
    }
    found
}
