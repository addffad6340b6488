//! Which thread ran on which processor (upstream: ftrace_sched_event_tracker.cc).
//!
//! Each switch ends what ran on its processor and begins what runs now. The compact form does not say whom it ends: that was the last switch
//! of the processor, so the first one ends nobody and begins nothing.

use ferretto_trace_tables::{SchedId, Str, Utid};

use crate::args::ArgValue;
use crate::ftrace::kept::RowArgs;
use crate::ftrace::windows::Window;
use crate::ftrace::{Cpu, Switch, Waking};
use crate::model::Model;
use crate::processes::ThreadName;
use crate::stats::Stat;
use crate::thread_states::{Switched, Wake, close};

/// What runs on a processor, by its last switch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Running {
    /// Its row, if it has one.
    slice: Option<SchedId>,
    thread: Option<RunningThread>,
}

#[derive(Clone, Copy, Debug)]
struct RunningThread {
    tid: i64,
    utid: Utid,
    prio: i32,
}

/// Who is switched out, into which state, and who in; and what ends.
#[derive(Clone, Copy, Debug)]
struct Sides {
    prev: Utid,
    state: Option<Str>,
    next: Utid,
    ended: Option<SchedId>,
}

/// A switch, with both sides of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FullSwitch {
    pub(crate) prev_comm: Option<Str>,
    pub(crate) prev_tid: i64,
    pub(crate) prev_prio: i32,
    pub(crate) prev_state: i64,
    pub(crate) next_comm: Option<Str>,
    pub(crate) next_tid: i64,
    pub(crate) next_prio: i32,
}

impl Model {
    /// `sched_switch`. Its row in `ftrace_event` belongs to the thread that is switched out.
    pub(crate) fn sched_switch(&mut self, ts: i64, cpu: Cpu, event: &FullSwitch) {
        let next = self.switched_thread(cpu, event.next_tid, event.next_comm);
        let state = self.end_state(cpu, event.prev_state);
        let running = self.running(cpu);
        let mut ended = None;
        if let (Some(slice), Some(thread)) = (running.slice, running.thread) {
            if thread.tid == event.prev_tid {
                ended = Some(slice);
            } else {
                self.stats.count(Stat::MismatchedSchedSwitchTids);
            }
        }
        let prev = self.switched_thread(cpu, event.prev_tid, event.prev_comm);
        self.switch_row(ts, cpu, prev, event);
        self.switch_threads(ts, cpu, event, Sides { prev, state, next, ended });
    }

    /// A switch in its compact form.
    pub(crate) fn compact_switch(&mut self, ts: i64, cpu: Cpu, event: &Switch) {
        let window = self.window(cpu, ts);
        if window == Window::Before {
            return;
        }
        let next_tid = i64::from(event.next_pid as u32);
        let next = self.switched_thread(cpu, next_tid, event.next_comm);
        let running = self.running(cpu);
        let Some(before) = running.thread else {
            self.stats.count(Stat::CompactSchedSwitchSkipped);
            let thread = RunningThread { tid: next_tid, utid: next, prio: event.next_prio };
            *self.running_mut(cpu) = Running { slice: None, thread: Some(thread) };
            return;
        };
        let state = self.end_state(cpu, event.prev_state);
        let event = FullSwitch {
            // It may have been renamed while it ran.
            prev_comm: self.tables.thread.name.get(before.utid.index()).copied().flatten(),
            prev_tid: before.tid,
            prev_prio: before.prio,
            prev_state: event.prev_state,
            next_comm: event.next_comm,
            next_tid,
            next_prio: event.next_prio,
        };
        self.switch_row(ts, cpu, before.utid, &event);
        if window == Window::RowOnly {
            if let Some(slice) = running.slice {
                self.thread_states.with_sched(&mut self.tables, |sched| close(sched, slice, ts, state));
            }
            let thread = RunningThread { tid: next_tid, utid: next, prio: event.next_prio };
            self.running_mut(cpu).thread = Some(thread);
            return;
        }
        self.switch_threads(ts, cpu, &event, Sides { prev: before.utid, state, next, ended: running.slice });
    }

    /// A wake-up in its compact form: it happened in what runs on the processor, so those before the first switch are skipped.
    pub(crate) fn compact_waking(&mut self, ts: i64, cpu: Cpu, event: &Waking) {
        let window = self.window(cpu, ts);
        if window == Window::Before {
            return;
        }
        let Some(waker) = self.running(cpu).thread else {
            return self.stats.count(Stat::CompactSchedWakingSkipped);
        };
        let wakee = i64::from(event.pid as u32);
        self.waking_row(ts, cpu, waker.utid, event);
        if window == Window::RowOnly {
            return;
        }
        let (tables, processes) = self.processes(cpu.machine);
        let wakee = processes.thread(tables, wakee);
        let wake = Wake { waker: waker.utid, common_flags: Some(event.common_flags) };
        self.thread_states.wake(&mut self.tables, ts, wakee, wake);
    }

    /// `sched_waking`.
    pub(crate) fn sched_waking(&mut self, ts: i64, cpu: Cpu, waker: u32, wakee: i64, comm: Option<Str>) {
        let wakee = self.switched_thread(cpu, wakee, comm);
        let (tables, processes) = self.processes(cpu.machine);
        let waker = processes.thread(tables, i64::from(waker));
        self.thread_states.wake(&mut self.tables, ts, wakee, Wake { waker, common_flags: None });
    }

    #[inline]
    fn switched_thread(&mut self, cpu: Cpu, tid: i64, comm: Option<Str>) -> Utid {
        let (tables, processes) = self.processes(cpu.machine);
        let utid = processes.thread(tables, tid);
        if let Some(comm) = comm {
            processes.name_thread(tables, utid, comm, ThreadName::Ftrace);
        }
        utid
    }

    #[inline]
    fn end_state(&mut self, cpu: Cpu, prev_state: i64) -> Option<Str> {
        let version = self.kernel(cpu.machine).version;
        let text = self.thread_states.text(prev_state as u16, version, &mut self.tables.strings);
        if text.is_none() {
            self.stats.count(Stat::TaskStateInvalid);
        }
        text
    }

    #[inline]
    fn running(&mut self, cpu: Cpu) -> Running {
        *self.running_mut(cpu)
    }

    #[inline]
    fn running_mut(&mut self, cpu: Cpu) -> &mut Running {
        let running = &mut self.kernel(cpu.machine).running;
        let index = cpu.cpu as usize;
        if running.len() <= index {
            running.resize(index + 1, Running::default());
        }
        &mut running[index]
    }

    #[inline]
    fn switch_threads(&mut self, ts: i64, cpu: Cpu, event: &FullSwitch, sides: Sides) {
        let Sides { prev, state, next, ended } = sides;
        let ucpu = self.cpus.get(cpu.machine, cpu.cpu);
        let switched = Switched { ts, ucpu, prev, state, next, next_priority: event.next_prio, ended };
        let slice = self.thread_states.switch(&mut self.tables, &switched);
        let thread = RunningThread { tid: event.next_tid, utid: next, prio: event.next_prio };
        *self.running_mut(cpu) = Running { slice: Some(slice), thread: Some(thread) };
    }

    #[inline]
    fn switch_row(&mut self, ts: i64, cpu: Cpu, prev: Utid, event: &FullSwitch) {
        let name = self.raw.switch(&mut self.tables.strings);
        let id = self.raw_row_of(ts, cpu, prev, Some(name));
        match self.raw.row_args {
            RowArgs::Left => {}
            RowArgs::Kept => self.raw.kept.push_switch(*event),
            RowArgs::Written => self.switch_args_of_row(id, event),
        }
    }

    #[inline]
    fn waking_row(&mut self, ts: i64, cpu: Cpu, waker: Utid, event: &Waking) {
        let name = self.raw.waking(&mut self.tables.strings);
        let id = self.raw_row_of(ts, cpu, waker, Some(name));
        self.tables.ftrace_event.common_flags.set(id as usize, u32::from(event.common_flags));
        match self.raw.row_args {
            RowArgs::Left => {}
            RowArgs::Kept => self.raw.kept.push_waking(*event),
            RowArgs::Written => {
                self.list_of_row(id, |raw, list| list.extend(raw.waking_args(event.values())));
            }
        }
    }
}

impl FullSwitch {
    /// Its arguments, in the order of its fields.
    pub(crate) fn values(&self) -> [ArgValue; 7] {
        [
            text(self.prev_comm),
            ArgValue::Int(self.prev_tid),
            ArgValue::Int(i64::from(self.prev_prio)),
            ArgValue::Int(self.prev_state),
            text(self.next_comm),
            ArgValue::Int(self.next_tid),
            ArgValue::Int(i64::from(self.next_prio)),
        ]
    }
}

impl Waking {
    /// Its arguments: name, number, priority, processor.
    pub(crate) fn values(&self) -> [ArgValue; 4] {
        [
            text(self.comm),
            ArgValue::Int(i64::from(self.pid as u32)),
            ArgValue::Int(i64::from(self.prio)),
            ArgValue::Int(i64::from(self.target_cpu)),
        ]
    }
}

fn text(text: Option<Str>) -> ArgValue {
    text.map_or(ArgValue::NoText, ArgValue::Text)
}
