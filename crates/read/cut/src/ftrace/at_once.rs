//! A bundle of scheduling in columns, taken at once.
//!
//! Most bundles lie as a whole before the range, in it or after it. Then most of their rows do not matter, as others of the same bundle count
//! in their place: before the range each thread's last run and the wakings after it, after the range its first run, its first waking and its
//! new names, and in between only who was there. [`Sched::switch`] and [`Sched::wake`] would come to the same, row by row.

use crate::ftrace::bundle::{Parts, When};
use crate::ftrace::compact::{CompactSwitch, CompactWaking};
use crate::ftrace::overlap::UNKNOWN;
use crate::ftrace::run::{Run, Wake, WakeSource, Who};
use crate::ftrace::sched::{Cpu, CpuKey, MAX_WOKEN, Sched};
use crate::names::Name;

/// The thread that runs on a CPU when no other does.
const IDLE: i32 = 0;

/// The rows of a bundle, in the order of time, on the trace's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    cpu: u32,
    switches: &'a [CompactSwitch],
    wakings: &'a [CompactWaking],
    names: &'a [Name],
    /// Who runs when the bundle begins.
    current: Run,
}

/// Where all rows of a bundle lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    Within,
    After,
}

impl Sched {
    /// Takes the rows of a bundle on the trace's clock, and says where they lie; takes nothing if they have to be taken one by one.
    pub(super) fn take_at_once(
        &mut self,
        key: CpuKey,
        switches: &[CompactSwitch],
        wakings: &[CompactWaking],
        names: &[Name],
    ) -> Option<Side> {
        if self.doubts.is_some() {
            return None;
        }
        let side = self.side(switches, wakings)?;
        let current = self.cpus.get_mut(&key)?.current?;
        let rows = Rows::new(current, switches, wakings, names);
        self.bundles += 1;
        if !switches.is_empty() {
            self.resolve_woken(key, rows.ended(0));
        }
        match side {
            Side::Before => self.all_before(key, &rows),
            Side::Within => self.all_within(key.0, &rows),
            Side::After => self.all_after(key, &rows),
        }
        self.cpus.get_mut(&key)?.current = Some(rows.run(switches.len()));
        Some(side)
    }

    fn side(&self, switches: &[CompactSwitch], wakings: &[CompactWaking]) -> Option<Side> {
        let is_in_order = switches.is_sorted_by_key(|switch| switch.raw_ts)
            && wakings.is_sorted_by_key(|waking| waking.raw_ts);
        let ends = [
            switches.first().map(|switch| switch.raw_ts),
            switches.last().map(|switch| switch.raw_ts),
            wakings.first().map(|waking| waking.raw_ts),
            wakings.last().map(|waking| waking.raw_ts),
        ];
        let ends = || ends.iter().flatten().copied();
        let first = i64::try_from(ends().min()?).ok()?;
        let last = i64::try_from(ends().max()?).ok()?;
        if !is_in_order || first < self.orderly_from {
            return None;
        }
        match self.range {
            range if last < range.from => Some(Side::Before),
            range if first >= range.to => Some(Side::After),
            range if range.has(first) && range.has(last) => Some(Side::Within),
            _ => None,
        }
    }

    fn all_before(&mut self, key: CpuKey, rows: &Rows<'_>) {
        let (machine, count) = (key.0, rows.switches.len());
        if let Some(end) = rows.end(0)
            && let Some(thread) = self.threads.entry(machine, rows.tid(0), self.range)
        {
            thread.leave(rows.ended(0), end, self.range);
        }
        self.note_runs(machine, rows);
        for thread in 0.. {
            let Some((number, at)) = self.overlaps.in_bundle(thread) else { break };
            self.take_run(number, rows, at);
        }
        let mut at = 0;
        for waking in rows.wakings {
            let Some(number) = self.number_of(machine, waking.pid) else { continue };
            let last = self.overlaps.last_in_bundle(number).and_then(|at| rows.start(at));
            if last.is_some_and(|start| waking.raw_ts < start.raw) {
                continue;
            }
            at = rows.number_from(at, waking.raw_ts);
            let wake = self.waking(key, rows, waking, at);
            self.threads.wake(number, wake, self.range);
        }
        if let (Some(cpu), Some(last)) = (self.cpus.get_mut(&key), count.checked_sub(1)) {
            cpu.last_before = Some([rows.ended(last), rows.run(count)]);
        }
    }

    /// Notes which threads the bundle runs, and when.
    fn note_runs(&mut self, machine: u32, rows: &Rows<'_>) {
        if rows.switches.is_empty() {
            return;
        }
        let mut tid = rows.current.tid;
        let mut start = rows.current.start().map_or(UNKNOWN, |start| start.ts);
        for switch in rows.switches {
            let end = switch.raw_ts as i64;
            self.note_run(machine, tid, start, if start == UNKNOWN { UNKNOWN } else { end });
            (tid, start) = (switch.next_pid, end);
        }
        self.note_run(machine, tid, UNKNOWN, UNKNOWN);
    }

    #[inline(always)]
    fn note_run(&mut self, machine: u32, tid: i32, start: i64, end: i64) {
        match self.number_of(machine, tid) {
            Some(number) => self.overlaps.push(number, start, end),
            None => self.overlaps.skip(),
        }
    }

    fn all_within(&mut self, machine: u32, rows: &Rows<'_>) {
        let (count, range) = (rows.switches.len(), self.range);
        for at in usize::from(count == 0)..=count {
            match self.threads.entry(machine, rows.tid(at), range) {
                Some(thread) if at == 0 => thread.was_there = true,
                Some(thread) => (thread.was_there, thread.comm) = (true, rows.comm(at)),
                None => self.beyond += 1,
            }
        }
        for waking in rows.wakings {
            match self.threads.entry(machine, waking.pid, range) {
                Some(thread) => thread.was_there = true,
                None => self.beyond += 1,
            }
        }
    }

    fn all_after(&mut self, key: CpuKey, rows: &Rows<'_>) {
        let (machine, count, range, bundle) = (key.0, rows.switches.len(), self.range, self.bundles);
        if let Some(cpu) = self.cpus.get_mut(&key) {
            // Only the first two switches can be the first after the range, and the end of that.
            (0..count.min(2)).for_each(|at| cpu.left_after(rows.ended(at), rows.run(at + 1)));
        }
        if let Some(end) = rows.end(0)
            && let Some(thread) = self.threads.entry(machine, rows.tid(0), range)
        {
            thread.leave(rows.ended(0), end, range);
        }
        for at in 1..=count {
            let Some(number) = self.number_of(machine, rows.tid(at)) else { continue };
            let last = self.threads.meet(number, bundle, at);
            // Whatever the idle thread is called, nothing is needed of it.
            if last.is_some_and(|last| rows.tid(at) == IDLE || rows.comm(last) == rows.comm(at)) {
                continue;
            }
            self.take_run(number, rows, at);
        }
        for waking in rows.wakings {
            let Some(number) = self.number_of(machine, waking.pid) else { continue };
            let after = self.threads.by_number(number).and_then(|thread| thread.after());
            let first = after.and_then(|after| after.wake.as_ref());
            if first.is_some_and(|first| first.when <= when(waking.raw_ts)) {
                continue;
            }
            let wake = self.waking(key, rows, waking, rows.number_at(waking.raw_ts));
            self.threads.wake(number, wake, range);
        }
    }

    /// A thread's number; one that there is no room for is counted.
    #[inline]
    fn number_of(&mut self, machine: u32, tid: i32) -> Option<usize> {
        let number = self.threads.number(machine, tid, self.range);
        self.beyond += u64::from(number.is_none());
        number
    }

    /// A run begins and ends, as far as the bundle says so.
    fn take_run(&mut self, number: usize, rows: &Rows<'_>, at: usize) {
        let Some(thread) = self.threads.by_number(number) else { return };
        if let Some(start) = rows.start(at) {
            thread.enter(rows.run(at), start, self.range);
        }
        if let Some(end) = rows.end(at) {
            thread.leave(rows.ended(at), end, self.range);
        }
    }

    /// A waking, with the run that it happened in.
    fn waking(&mut self, key: CpuKey, rows: &Rows<'_>, waking: &CompactWaking, at: usize) -> Wake {
        let when = when(waking.raw_ts);
        if at == rows.switches.len()
            && let Some(cpu) = self.cpus.get_mut(&key).filter(|cpu| cpu.woken.len() < MAX_WOKEN)
        {
            cpu.woken.push((waking.pid, when));
        }
        Wake {
            when,
            cpu: key.1,
            waker: rows.tid(at),
            tid: waking.pid,
            target_cpu: waking.target_cpu,
            prio: waking.prio,
            comm: rows.name(waking.comm),
            common_flags: waking.common_flags.map(|flags| flags as u32),
            source: WakeSource::Compact,
            waker_run: Some(rows.ended(at)),
        }
    }
}

impl Cpu {
    /// A switch after the range.
    pub(super) fn left_after(&mut self, ended: Run, next: Run) {
        match &mut self.first_after {
            None => self.first_after = Some([ended, next]),
            Some([_, first]) if first.start() == ended.start() => *first = ended,
            Some(_) => {}
        }
    }
}

/// The runs of a CPU are numbered by the switches that begin them, from 1 on; number 0 was there before.
impl<'a> Rows<'a> {
    /// Those of the CPU that `current` runs on.
    pub(super) fn new(
        current: Run,
        switches: &'a [CompactSwitch],
        wakings: &'a [CompactWaking],
        names: &'a [Name],
    ) -> Self {
        Self { cpu: current.cpu(), switches, wakings, names, current }
    }

    /// The same; if that is not known, those of whom the first switch begins to run. That it does so makes no row.
    pub(super) fn from_first(
        current: Option<Run>,
        cpu: u32,
        parts: &'a Parts<'_>,
        names: &'a [Name],
    ) -> Option<Self> {
        if let Some(current) = current {
            return Some(Self::new(current, &parts.switches, &parts.wakings, names));
        }
        let (first, rest) = parts.switches.split_first()?;
        let comm = names.get(first.next_comm).copied().unwrap_or(0);
        let who = Who { tid: first.next_pid, prio: first.next_prio, comm };
        Some(Self::new(Run::new(who, cpu, None), rest, &parts.wakings, names))
    }

    /// Who ran at a time.
    pub(super) fn run_at(&self, raw_ts: u64) -> Run {
        self.ended(self.number_at(raw_ts))
    }

    fn number_at(&self, raw_ts: u64) -> usize {
        self.switches.partition_point(|switch| switch.raw_ts <= raw_ts)
    }

    /// The same of a time that is not before the run of this number.
    #[inline]
    fn number_from(&self, at: usize, raw_ts: u64) -> usize {
        let later = self.switches.get(at..).unwrap_or_default();
        at + later.iter().take_while(|switch| switch.raw_ts <= raw_ts).count()
    }

    #[inline]
    fn begin(&self, at: usize) -> Option<&CompactSwitch> {
        self.switches.get(at.checked_sub(1)?)
    }

    #[inline]
    fn tid(&self, at: usize) -> i32 {
        self.begin(at).map_or(self.current.tid, |switch| switch.next_pid)
    }

    #[inline]
    fn comm(&self, at: usize) -> Name {
        self.begin(at).map_or(self.current.comm, |switch| self.name(switch.next_comm))
    }

    #[inline]
    fn start(&self, at: usize) -> Option<When> {
        self.begin(at).map(|switch| when(switch.raw_ts))
    }

    #[inline]
    fn end(&self, at: usize) -> Option<When> {
        self.switches.get(at).map(|switch| when(switch.raw_ts))
    }

    fn run(&self, at: usize) -> Run {
        let Some(switch) = self.begin(at) else { return self.current };
        let who = Who { tid: switch.next_pid, prio: switch.next_prio, comm: self.name(switch.next_comm) };
        Run::new(who, self.cpu, Some(when(switch.raw_ts)))
    }

    /// A run with its end, if the bundle has that.
    fn ended(&self, at: usize) -> Run {
        let run = self.run(at);
        match self.switches.get(at) {
            Some(switch) => run.with_end(when(switch.raw_ts), switch.prev_state),
            None => run,
        }
    }

    #[inline]
    fn name(&self, at: usize) -> Name {
        self.names.get(at).copied().unwrap_or(0)
    }
}

/// On the trace's clock times are as they are written.
#[inline]
fn when(raw: u64) -> When {
    When { ts: raw as i64, raw }
}
