//! Samples of any profiler (upstream: stack_sample_importer/module.cc; since v59).

use ferretto_protos::fields::stack_sample::{async_context_descriptor, execution_context, task_context};
use ferretto_protos::fields::{
    interned_data, stack_sample as field, stack_sample_defaults as defaults, trace_packet_defaults,
};
use ferretto_trace_tables::tables::{ProfilerAsyncContextRow, ProfilerSampleRow, ProfilerSessionRow};
use ferretto_trace_tables::{
    AsyncContextId, ExecutionContextId, MachineId, SessionId, Str, TaskContextId, Upid,
};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use super::inline::{Bringer, Callstack};
use crate::event::WholePacket;
use crate::model::Model;
use crate::sequence::Generation;
use crate::wire;

/// Sessions, by sequence.
#[derive(Debug, Default)]
pub struct Sessions {
    ids: HashMap<(MachineId, u32), SessionId, RandomState>,
}

/// Rows of tasks, by their numbers.
pub type FoundTasks = HashMap<u64, AsyncContextId, RandomState>;

/// `StackSample.Mode`, from 1.
const MODES: [&str; 5] = ["user", "kernel", "hypervisor", "guest_user", "guest_kernel"];

impl Model {
    pub(super) fn apply_stack_sample(&mut self, ts: i64, packet: &WholePacket) {
        let machine = packet.origin.machine;
        let said_before = packet.state.defaults().message.clone();
        let said_before = said_before
            .as_deref()
            .and_then(|all| wire::bytes(all, trace_packet_defaults::STACK_SAMPLE_DEFAULTS));
        let source = said_before
            .and_then(|it| wire::bytes(it, defaults::SOURCE))
            .filter(|source| !source.is_empty())
            .map(|source| self.tables.strings.intern_bytes(source));
        let sample = Parts::read(&packet.data, &packet.state);
        let (task_context_id, upid) = match &sample.task {
            Some(task) => {
                let (task, upid) = self.task_of(task, machine, &packet.state);
                (Some(task), upid)
            }
            None => (None, None),
        };
        let (execution_context_id, cpu) = match &sample.execution {
            Some(context) => {
                let (context, cpu) = self.execution_of(context, machine);
                (Some(context), cpu)
            }
            None => (None, None),
        };
        let session = self.stack_sample_session(machine, packet.origin.sequence_id, source);
        let counter_set_id = self.push_stack_sample_counters(ts, packet, said_before, (session, source), cpu);
        let callsite_id = sample
            .callstack
            .and_then(|stack| self.callsite_of(stack, Bringer::StackSample, upid, &packet.state));
        self.tables.profiler_sample.push(ProfilerSampleRow {
            ts,
            source,
            task_context_id,
            execution_context_id,
            callsite_id,
            unwind_error: None,
            session_id: Some(session),
            counter_set_id,
        });
    }

    fn stack_sample_session(&mut self, machine: MachineId, sequence: u32, source: Option<Str>) -> SessionId {
        let Self { tables, profiles, .. } = self;
        *profiles.stack_samples.ids.entry((machine, sequence)).or_insert_with(|| {
            let row = ProfilerSessionRow { source, ..ProfilerSessionRow::default() };
            SessionId(tables.profiler_session.push(row))
        })
    }

    fn task_of(
        &mut self,
        message: &[u8],
        machine: MachineId,
        state: &Generation,
    ) -> (TaskContextId, Option<Upid>) {
        let number = |field| wire::number(message, field);
        let pid = number(task_context::PID).map(|pid| i64::from(pid as u32));
        let tid = number(task_context::TID).map(|tid| i64::from(tid as u32));
        let (tables, processes) = self.processes(machine);
        let upid = pid.map(|pid| processes.process(tables, pid));
        let utid = tid.map(|tid| match pid {
            Some(pid) => processes.thread_of(tables, tid, pid),
            None => processes.thread(tables, tid),
        });
        let task = number(task_context::ASYNC_ID).and_then(|iid| self.async_context(state, iid));
        (self.profiles.contexts.task(&mut self.tables, upid, utid, task), upid)
    }

    /// A task and those that it belongs to, the outermost first; a circle ends where it closes.
    fn async_context(&mut self, state: &Generation, mut iid: u64) -> Option<AsyncContextId> {
        let mut kept = state.profiles.borrow_mut();
        let (mut chain, mut seen) = (Vec::new(), HashSet::<u64, RandomState>::default());
        let mut parent = None;
        while iid != 0 {
            if let Some(known) = kept.tasks.get(&iid) {
                parent = Some(*known);
                break;
            }
            if !seen.insert(iid) {
                break;
            }
            let Some(message) = state.message(interned_data::STACK_SAMPLE_ASYNC_CONTEXT_DESCRIPTORS, iid)
            else {
                break;
            };
            let above = wire::number(&message, async_context_descriptor::PARENT_IID).unwrap_or(0);
            chain.push((iid, message));
            iid = above;
        }
        for (iid, message) in chain.into_iter().rev() {
            let mut text = |field| {
                let text = wire::bytes(&message, field).filter(|text| !text.is_empty());
                text.map(|text| self.tables.strings.intern_bytes(text))
            };
            let row = ProfilerAsyncContextRow {
                name: text(async_context_descriptor::NAME),
                kind: text(async_context_descriptor::KIND),
                parent_id: parent,
            };
            let id = AsyncContextId(self.tables.profiler_async_context.push(row));
            kept.tasks.insert(iid, id);
            parent = Some(id);
        }
        parent
    }

    fn execution_of(&mut self, message: &[u8], machine: MachineId) -> (ExecutionContextId, Option<u32>) {
        let cpu = wire::number(message, execution_context::CPU).map(|cpu| cpu as u32);
        let mode = wire::number(message, execution_context::MODE)
            .and_then(|mode| MODES.get(usize::try_from(mode).ok()?.checked_sub(1)?))
            .map(|mode| self.tables.strings.intern(mode));
        let ucpu = cpu.map(|cpu| self.cpus.get(machine, cpu));
        (self.profiles.contexts.execution(&mut self.tables, ucpu, mode), cpu)
    }
}

/// What a sample says of its circumstances: itself, or by the numbers of what is interned.
struct Parts<'a> {
    task: Option<Box<[u8]>>,
    execution: Option<Box<[u8]>>,
    callstack: Option<Callstack<'a>>,
}

impl<'a> Parts<'a> {
    fn read(message: &'a [u8], state: &Generation) -> Self {
        let part = |inline, iid, interned| match wire::bytes(message, inline) {
            Some(message) => Some(Box::from(message)),
            None => {
                let message = state.message(interned, wire::number(message, iid)?)?;
                Some(Box::from(&*message))
            }
        };
        let iid = wire::number(message, field::CALLSTACK_IID).map(Callstack::Interned);
        let inline = || wire::bytes(message, field::CALLSTACK).map(Callstack::Inline);
        Self {
            task: part(
                field::TASK_CONTEXT,
                field::TASK_CONTEXT_IID,
                interned_data::STACK_SAMPLE_TASK_CONTEXTS,
            ),
            execution: part(
                field::EXECUTION_CONTEXT,
                field::EXECUTION_CONTEXT_IID,
                interned_data::STACK_SAMPLE_EXECUTION_CONTEXTS,
            ),
            callstack: iid.or_else(inline),
        }
    }
}
