//! Scheduling and processes of kernels that are not Linux (upstream: generic_kernel_parser.cc).
//!
//! Such a kernel says of one task at a time what it does now, so a switch is two events, in either order:
//!
//! ```text
//! task 1 runs ── task 1 stops ── task 2 runs      the stop ends the row of task 1
//! task 1 runs ── task 2 runs ── task 1 stops      task 2 ends the row of task 1; the stop, at the same time, says how it ended
//! ```
//!
//! States that cannot follow one another are counted and left out.
//!
//! Memory: a few tens of bytes for each processor and each thread that was displaced.

use ferretto_trace_tables::tables::{SchedRow, SchedTable};
use ferretto_trace_tables::{Blocks, MachineId, SchedId, Str, Ucpu, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::counters::TrackType;
use crate::model::Model;
use crate::processes::{ProcessName, ThreadName};
use crate::stats::Stat;
use crate::thread_states::close;
use crate::wire;

/// The numbers of these packets in `TracePacket`. The messages here do without them, as no recorder of Linux writes them.
pub mod kind {
    /// `generic_kernel_task_state_event`.
    pub const TASK_STATE: u32 = 117;
    /// `generic_kernel_cpu_freq_event`.
    pub const CPU_FREQUENCY: u32 = 118;
    /// `generic_kernel_task_rename_event`.
    pub const TASK_RENAME: u32 = 120;
    /// `generic_kernel_process_tree`.
    pub const PROCESS_TREE: u32 = 122;
    /// `generic_gpu_frequency_event`.
    pub const GPU_FREQUENCY: u32 = 129;
}

/// `GenericKernelTaskStateEvent`.
mod task_state {
    pub(super) const CPU: u32 = 1;
    pub(super) const COMM: u32 = 2;
    pub(super) const TID: u32 = 3;
    pub(super) const STATE: u32 = 4;
    pub(super) const PRIO: u32 = 5;
}

/// `GenericKernelProcessTree`, its `Process` and its `Thread`.
mod tree {
    pub(super) const PROCESSES: u32 = 1;
    pub(super) const THREADS: u32 = 2;
    pub(super) const PID: u32 = 1;
    pub(super) const PPID: u32 = 2;
    pub(super) const CMDLINE: u32 = 3;
    pub(super) const TID: u32 = 1;
    pub(super) const TGID: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const IS_MAIN_THREAD: u32 = 4;
    pub(super) const IS_IDLE: u32 = 5;
}

/// The tasks of one machine.
#[derive(Debug, Default)]
pub(crate) struct GenericKernel {
    /// By processor: what runs.
    running: HashMap<u32, Running, RandomState>,
    /// Rows that another task's run has ended.
    displaced: HashMap<Utid, SchedId, RandomState>,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    row: SchedId,
    tid: i64,
    utid: Utid,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Created,
    Runnable,
    Running,
    Interruptible,
    Uninterruptible,
    Stopped,
    Dead,
    Destroyed,
}

/// What a state means for the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    /// Nothing, or the task runs or stops there.
    Plain,
    /// The task runs where this one did, whose own stop has not come.
    Displaces(Utid),
    /// The stop of a task that was displaced.
    Late,
}

/// What a task does, as its packet says.
#[derive(Clone, Copy, Debug)]
struct Task {
    machine: MachineId,
    cpu: u32,
    tid: i64,
    comm: Option<Str>,
    state: State,
    prio: i32,
}

impl State {
    fn of(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Created,
            2 => Self::Runnable,
            3 => Self::Running,
            4 => Self::Interruptible,
            5 => Self::Uninterruptible,
            6 => Self::Stopped,
            7 => Self::Dead,
            8 => Self::Destroyed,
            _ => return None,
        })
    }

    fn text(self) -> &'static str {
        match self {
            Self::Created => "Created",
            Self::Runnable => "R",
            Self::Running => "Running",
            Self::Interruptible => "S",
            Self::Uninterruptible => "D",
            Self::Stopped => "T",
            Self::Dead => "Z",
            Self::Destroyed => "X",
        }
    }
}

impl Model {
    /// Applies a packet of such a kernel; says whether it was one.
    pub(crate) fn apply_generic_kernel(
        &mut self,
        ts: i64,
        machine: MachineId,
        number: u32,
        data: &[u8],
    ) -> bool {
        match number {
            kind::TASK_STATE => self.task_state(ts, machine, data),
            kind::TASK_RENAME => self.rename_task(machine, data),
            kind::PROCESS_TREE => self.generic_process_tree(machine, data),
            kind::CPU_FREQUENCY => {
                let (cpu, hz) = (wire::number(data, 1).unwrap_or(0), wire::int(data, 2).unwrap_or(0));
                self.cpu_frequency(ts, machine, cpu as u32, hz as f64 / 1000.0);
            }
            kind::GPU_FREQUENCY => {
                let dimensions = self.gpu(machine, wire::number(data, 1).unwrap_or(0) as u32);
                let track = TrackType::counter("gpu_frequency", &dimensions).in_unit("kHz");
                let track = self.track(machine, track, |strings| strings.intern("gpufreq"));
                self.push_counter(ts, track, f64::from(wire::number(data, 2).unwrap_or(0) as u32));
            }
            _ => return false,
        }
        true
    }

    fn task_state(&mut self, ts: i64, machine: MachineId, data: &[u8]) {
        let number = |field| wire::number(data, field).unwrap_or(0);
        let Some(state) = State::of(number(task_state::STATE)) else {
            return self.stats.count(Stat::TaskStateInvalid);
        };
        let comm = wire::bytes(data, task_state::COMM).map(|comm| self.tables.strings.intern_bytes(comm));
        let task = Task {
            machine,
            cpu: number(task_state::CPU) as u32,
            tid: number(task_state::TID) as i64,
            comm,
            state,
            prio: number(task_state::PRIO) as i32,
        };
        let Some(utid) = self.thread_in_state(ts, &task) else {
            return self.stats.count(Stat::GenericTaskStateInvalidOrder);
        };
        let text = self.tables.strings.intern(state.text());
        match self.generic_switch(ts, &task, utid, text) {
            Switch::Late => return self.thread_states.restate(&mut self.tables, utid, text),
            Switch::Displaces(before) => self.push_thread_state(ts, before, None, None),
            Switch::Plain => {}
        }
        // A row has the lowest 16 bits of the processor's number.
        let ucpu = (state == State::Running).then(|| self.cpus.get(machine, task.cpu & 0xffff));
        self.push_thread_state(ts, utid, Some(text), ucpu);
    }

    fn push_thread_state(&mut self, ts: i64, utid: Utid, state: Option<Str>, ucpu: Option<Ucpu>) {
        if self.thread_states.push(&mut self.tables, ts, utid, state, ucpu) {
            self.stats.count(Stat::GenericTaskStateInvalidOrder);
        }
    }

    /// The thread that a state is about; nothing if it cannot be in that state now.
    fn thread_in_state(&mut self, ts: i64, task: &Task) -> Option<Utid> {
        let known = self.processes(task.machine).1.find_thread(task.tid);
        if let Some(utid) = known
            && !self.may_follow(utid, task.state)
        {
            return None;
        }
        let (tables, processes) = self.processes(task.machine);
        let utid = match (known, task.state) {
            (Some(utid), _) => utid,
            (None, State::Created) => processes.start_thread(tables, task.tid, Some(ts)),
            (None, _) => processes.start_thread(tables, task.tid, None),
        };
        let is_named = known.is_none() || task.state != State::Destroyed;
        if let Some(comm) = task.comm.filter(|_| is_named) {
            processes.name_thread(tables, utid, comm, ThreadName::Ftrace);
        }
        if task.state == State::Destroyed {
            processes.end_thread(tables, task.tid, ts);
        }
        Some(utid)
    }

    /// Whether a thread that is known may be in this state now: after its death it can only be destroyed.
    fn may_follow(&mut self, utid: Utid, state: State) -> bool {
        let before = self.thread_states.state_of(&mut self.tables, utid);
        let before = before.map(|text| self.tables.strings.get(text)).unwrap_or_default();
        match state {
            State::Created => false,
            State::Destroyed => true,
            State::Running => before != State::Dead.text() && before != State::Running.text(),
            _ => before != State::Dead.text(),
        }
    }

    /// Rows of `sched`.
    fn generic_switch(&mut self, ts: i64, task: &Task, utid: Utid, text: Str) -> Switch {
        let mut generic = std::mem::take(&mut self.kernel(task.machine).not_linux);
        let switch = self.switch_in(&mut generic, ts, task, (utid, text));
        self.kernel(task.machine).not_linux = generic;
        switch
    }

    fn switch_in(
        &mut self,
        generic: &mut GenericKernel,
        ts: i64,
        task: &Task,
        (utid, text): (Utid, Str),
    ) -> Switch {
        let running = generic.running.get(&task.cpu).copied();
        if task.state == State::Running {
            let ucpu = self.cpus.get(task.machine, task.cpu);
            let row = SchedRow { ts, dur: -1, utid, end_state: None, priority: task.prio, ucpu };
            let row = self.with_sched(|sched| SchedId(sched.push(row)));
            generic.running.insert(task.cpu, Running { row, tid: task.tid, utid });
            let Some(before) = running else { return Switch::Plain };
            self.with_sched(|sched| close(sched, before.row, ts, None));
            generic.displaced.insert(before.utid, before.row);
            return Switch::Displaces(before.utid);
        }
        if let Some(before) = running.filter(|before| before.tid == task.tid) {
            self.with_sched(|sched| close(sched, before.row, ts, Some(text)));
            generic.running.remove(&task.cpu);
            return Switch::Plain;
        }
        match generic.displaced.get(&utid).copied() {
            Some(row) if self.sched_end(row) == ts => {
                self.with_sched(|sched| close(sched, row, ts, Some(text)));
                generic.displaced.remove(&utid);
                Switch::Late
            }
            _ => Switch::Plain,
        }
    }

    fn with_sched<R>(&mut self, f: impl FnOnce(&mut SchedTable) -> R) -> R {
        self.thread_states.with_sched(&mut self.tables, f)
    }

    fn sched_end(&mut self, row: SchedId) -> i64 {
        self.with_sched(|sched| {
            let cell = |column: &Blocks<i64>| column.get(row.index()).unwrap_or(-1);
            match cell(&sched.dur) {
                dur if dur < 0 => -1,
                dur => cell(&sched.ts).saturating_add(dur),
            }
        })
    }

    fn rename_task(&mut self, machine: MachineId, data: &[u8]) {
        let tid = wire::int(data, 1).unwrap_or(0);
        let comm = wire::bytes(data, 2).map(|comm| self.tables.strings.intern_bytes(comm));
        let (tables, processes) = self.processes(machine);
        let utid = processes.thread(tables, tid);
        if let Some(comm) = comm {
            processes.name_thread_and_process(tables, utid, comm, ThreadName::Ftrace);
        }
    }

    fn generic_process_tree(&mut self, machine: MachineId, data: &[u8]) {
        for process in wire::all_bytes(data, tree::PROCESSES) {
            self.generic_process(machine, process);
        }
        for thread in wire::all_bytes(data, tree::THREADS) {
            self.generic_thread(machine, thread);
        }
    }

    fn generic_process(&mut self, machine: MachineId, data: &[u8]) {
        let Some(cmdline) = wire::bytes(data, tree::CMDLINE) else { return };
        let number = |field| wire::int(data, field).unwrap_or(0);
        let first = cmdline.split(|byte| *byte == b' ').next().unwrap_or_default();
        let name = self.tables.strings.intern_bytes(first);
        let cmdline = self.tables.strings.intern_bytes(cmdline);
        let (tables, processes, stats) = self.processes_and_stats(machine);
        let parent = processes.process_alone(tables, number(tree::PPID));
        let upid = processes.process_alone(tables, number(tree::PID));
        processes.set_parent(tables, stats, upid, parent);
        processes.name_process(tables, upid, name, ProcessName::System);
        if let Some(cell) = tables.process.cmdline.get_mut(upid.index()) {
            *cell = Some(cmdline);
        }
    }

    fn generic_thread(&mut self, machine: MachineId, data: &[u8]) {
        let says = |field| wire::number(data, field).is_some_and(|says| says != 0);
        let number = |field| wire::int(data, field).unwrap_or(0);
        let comm = wire::bytes(data, tree::COMM).map(|comm| self.tables.strings.intern_bytes(comm));
        let (tables, processes) = self.processes(machine);
        let upid = processes.process_alone(tables, number(tree::TGID));
        let utid = processes.thread_of_process(tables, number(tree::TID), upid);
        tables.thread.is_main_thread.set(utid.index(), Some(says(tree::IS_MAIN_THREAD)));
        if let Some(cell) = tables.thread.is_idle.get_mut(utid.index()) {
            *cell = says(tree::IS_IDLE);
        }
        if let Some(comm) = comm {
            processes.name_thread(tables, utid, comm, ThreadName::ProcessTree);
        }
    }
}
