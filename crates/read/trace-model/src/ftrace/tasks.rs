//! Threads and processes that begin, end and are renamed (upstream: ftrace_parser.cc).

use super::Cpu;
use super::numbers::{sched_blocked_reason, task_newtask, task_rename};
use super::payload::Payload;
use crate::model::Model;
use crate::processes::ThreadName;
use crate::sequence::Generation;
use crate::stats::Stat;
use ferretto_protos::fields::interned_data::KERNEL_SYMBOLS;
use ferretto_trace_tables::Str;

/// `CLONE_THREAD`: the new task is a thread of the process that makes it.
const CLONE_THREAD: u64 = 0x10000;

impl Model {
    /// `task_newtask`.
    pub(super) fn task_newtask(&mut self, ts: i64, cpu: Cpu, source: u32, event: &Payload<'_>) {
        use task_newtask as field;
        let tid = event.tid(field::PID);
        if tid == 0 {
            // While the kernel starts, the first process makes the idle tasks.
            return;
        }
        let comm = event.name(field::COMM, &mut self.tables.strings);
        let source = i64::from(source);
        let is_thread = event.u64(field::CLONE_FLAGS) & CLONE_THREAD != 0;
        let (tables, processes) = self.processes(cpu.machine);
        if !is_thread {
            let upid = processes.start_process(tables, tid, Some(ts), comm, ThreadName::Ftrace);
            let parent = processes.thread(tables, source);
            let child = processes.thread(tables, tid);
            processes.set_parent_thread(tables, upid, parent);
            self.thread_states.begin(&mut self.tables, ts, child, parent);
            return;
        }
        let parent = processes.thread(tables, source);
        let child = processes.start_thread(tables, tid, Some(ts));
        if let Some(comm) = comm {
            processes.name_thread(tables, child, comm, ThreadName::Ftrace);
        }
        let (tables, processes, stats) = self.processes_and_stats(cpu.machine);
        processes.tie(tables, stats, parent, child);
        self.thread_states.begin(&mut self.tables, ts, child, parent);
    }

    /// `task_rename`.
    pub(super) fn task_rename(&mut self, cpu: Cpu, event: &Payload<'_>) {
        let comm = event.name(task_rename::NEWCOMM, &mut self.tables.strings);
        let (tables, processes) = self.processes(cpu.machine);
        let utid = processes.thread(tables, event.tid(task_rename::PID));
        if let Some(comm) = comm {
            processes.name_thread_and_process(tables, utid, comm, ThreadName::Ftrace);
        }
    }

    /// `sched_process_free`.
    pub(super) fn sched_process_free(&mut self, ts: i64, cpu: Cpu, tid: i64) {
        let (tables, processes) = self.processes(cpu.machine);
        processes.end_thread(tables, tid, ts);
    }

    /// `sched_blocked_reason`.
    pub(super) fn sched_blocked_reason(&mut self, cpu: Cpu, event: &Payload<'_>, state: &Generation) {
        use sched_blocked_reason as field;
        let function = state.text(KERNEL_SYMBOLS, u64::from(event.u32(field::CALLER)));
        if function.is_none() {
            self.stats.count(Stat::InternedDataTokenizerErrors);
        }
        let io_wait = event.u64(field::IO_WAIT) != 0;
        self.blocked(cpu, event.tid(field::PID), io_wait, function);
    }

    /// Why a thread is blocked.
    pub(super) fn blocked(&mut self, cpu: Cpu, tid: i64, io_wait: bool, function: Option<Str>) {
        let (tables, processes) = self.processes(cpu.machine);
        let utid = processes.thread(tables, tid);
        self.thread_states.blocked_reason(&mut self.tables, utid, io_wait, function);
    }
}
