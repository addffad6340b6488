//! Rows of samples, and what many of them share (upstream: profiler_sample_tracker.cc).

use ferretto_trace_tables::tables::{
    ProfilerCounterSetRow, ProfilerExecutionContextRow, ProfilerSampleRow, ProfilerTaskContextRow, Tables,
};
use ferretto_trace_tables::{
    AsyncContextId, CallsiteId, CounterId, ExecutionContextId, MachineId, SessionId, Str, TaskContextId,
    Ucpu, Upid, Utid,
};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::model::Model;
use crate::processes::ThreadName;

type Task = (Option<Upid>, Option<Utid>, Option<AsyncContextId>);

/// Rows that samples share, each once.
#[derive(Debug, Default)]
pub struct Contexts {
    tasks: HashMap<Task, TaskContextId, RandomState>,
    executions: HashMap<(Option<Ucpu>, Option<Str>), ExecutionContextId, RandomState>,
}

impl Contexts {
    /// What a sample is of.
    pub fn task(
        &mut self,
        tables: &mut Tables,
        upid: Option<Upid>,
        utid: Option<Utid>,
        async_context_id: Option<AsyncContextId>,
    ) -> TaskContextId {
        *self.tasks.entry((upid, utid, async_context_id)).or_insert_with(|| {
            let row = ProfilerTaskContextRow { upid, utid, async_context_id };
            TaskContextId(tables.profiler_task_context.push(row))
        })
    }

    /// Where and how it ran.
    pub fn execution(
        &mut self,
        tables: &mut Tables,
        ucpu: Option<Ucpu>,
        cpu_mode: Option<Str>,
    ) -> ExecutionContextId {
        *self.executions.entry((ucpu, cpu_mode)).or_insert_with(|| {
            let row = ProfilerExecutionContextRow { ucpu, cpu_mode };
            ExecutionContextId(tables.profiler_execution_context.push(row))
        })
    }
}

/// A sample of a thread, with nothing else known of it.
#[derive(Clone, Copy, Debug)]
pub struct ThreadSample {
    /// When.
    pub ts: i64,
    /// The profiler.
    pub source: &'static str,
    /// The process, if it is known.
    pub pid: Option<i64>,
    /// The thread.
    pub tid: i64,
    /// The thread's name.
    pub name: Option<Str>,
    /// The stack.
    pub callsite: CallsiteId,
}

/// A sample of Linux's perf, out of its own file.
#[derive(Clone, Copy, Debug)]
pub struct PerfSample {
    /// When.
    pub ts: i64,
    /// The thread.
    pub utid: Utid,
    /// Its process.
    pub upid: Upid,
    /// The processor, if it is known.
    pub cpu: Option<u32>,
    /// `user`, `kernel`, …
    pub mode: &'static str,
    /// The stack, if there is one.
    pub callsite_id: Option<CallsiteId>,
    /// The recording.
    pub session_id: SessionId,
    /// The counters that were read with it, if any were.
    pub counter_set_id: Option<u32>,
}

impl Model {
    /// Adds a sample of perf. To be called in the order of time.
    pub fn push_perf_sample(&mut self, machine: MachineId, sample: PerfSample) {
        let Self { tables, profiles, cpus, .. } = self;
        let mode = Some(tables.strings.intern(sample.mode));
        let ucpu = sample.cpu.map(|cpu| cpus.get(machine, cpu));
        let contexts = &mut profiles.contexts;
        let row = ProfilerSampleRow {
            ts: sample.ts,
            source: Some(tables.strings.intern("linux.perf")),
            task_context_id: Some(contexts.task(tables, Some(sample.upid), Some(sample.utid), None)),
            execution_context_id: Some(contexts.execution(tables, ucpu, mode)),
            callsite_id: sample.callsite_id,
            unwind_error: None,
            session_id: Some(sample.session_id),
            counter_set_id: sample.counter_set_id,
        };
        tables.profiler_sample.push(row);
    }

    /// Adds a sample. To be called in the order of time.
    pub fn push_thread_sample(&mut self, machine: MachineId, sample: ThreadSample) {
        let (tables, processes) = self.processes(machine);
        let utid = match sample.pid {
            Some(pid) => processes.thread_of(tables, sample.tid, pid),
            None => processes.thread(tables, sample.tid),
        };
        let upid = sample.pid.map(|pid| processes.process(tables, pid));
        if let Some(name) = sample.name {
            processes.name_thread_and_process(tables, utid, name, ThreadName::Other);
        }
        let Self { tables, profiles, .. } = self;
        let row = ProfilerSampleRow {
            ts: sample.ts,
            source: Some(tables.strings.intern(sample.source)),
            task_context_id: Some(profiles.contexts.task(tables, upid, Some(utid), None)),
            callsite_id: Some(sample.callsite),
            ..ProfilerSampleRow::default()
        };
        tables.profiler_sample.push(row);
    }
}

/// The counters of one sample, while they are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterSet {
    number: Option<u32>,
}

impl CounterSet {
    /// Adds a value.
    pub fn push(&mut self, tables: &mut Tables, counter_id: CounterId) {
        let next = u32::try_from(tables.profiler_counter_set.len()).unwrap_or(u32::MAX);
        let counter_set_id = *self.number.get_or_insert(next);
        tables.profiler_counter_set.push(ProfilerCounterSetRow { counter_set_id, counter_id });
    }

    /// Its number, if there were any.
    #[must_use]
    pub const fn number(self) -> Option<u32> {
        self.number
    }
}
