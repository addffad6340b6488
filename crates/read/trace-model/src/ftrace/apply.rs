//! Which event does what, in its turn (upstream: ftrace_parser.cc, ParseFtraceEvent).

use super::generic;
use super::kept::RowArgs;
use super::numbers as event;
use super::payload::Payload;
use super::raw::FullWaking;
use super::windows::Window;
use super::{Cpu, KernelEvent, own_time};
use crate::model::Model;
use crate::sched::FullSwitch;
use crate::sequence::Generation;
use crate::stats::Stat;
use ferretto_trace_read::fields::{Fields, Value};
use ferretto_trace_tables::Str;

/// Where and when an event happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) ts: i64,
    pub(super) cpu: Cpu,
    /// The thread.
    pub(super) tid: u32,
    /// What its sequence had interned.
    pub(super) state: &'a Generation,
}

impl Model {
    /// Applies an event of the kernel.
    pub fn apply_kernel_event(&mut self, ts: i64, cpu: Cpu, event: KernelEvent) {
        self.stats.set_machine(cpu.machine);
        if event.field == own_time::TURN {
            return self.apply_own_time(ts, cpu, event.at);
        }
        let window = self.window(cpu, ts);
        let bundle = self.bundles.take_turn(event.bundle, self.raw.row_args == RowArgs::Kept);
        // No event of the kernel's own is without a thread.
        let (Some(tid), false) = (event.tid, window == Window::Before) else { return };
        let Some(bundle) = bundle else { return };
        let message = bundle.payload(&event);
        let at = At { ts, cpu, tid, state: &bundle.state };
        if event.field == event::sched_switch::NUMBER {
            if window == Window::Within {
                self.apply_switch(at, message);
            }
            return;
        }
        match event.field {
            generic::LEGACY_NUMBER => return self.legacy_generic(at, event, message),
            generic::FIRST_NUMBER.. => return self.generic(at, event, message, window),
            event::sched_waking::NUMBER if let Some(waking) = UsualWaking::of(message) => {
                return self.apply_usual_waking(at, event, &waking, window);
            }
            _ => {}
        }
        self.raw_row(at, event, message);
        if window == Window::Within {
            self.apply_known(at, event.field, message);
        }
    }

    /// Whether an event is early; those that are too early are counted.
    #[inline]
    pub(crate) fn window(&mut self, cpu: Cpu, ts: i64) -> Window {
        let window = self.kernel(cpu.machine).windows.of(ts);
        if window == Window::Before {
            self.stats.count(Stat::FtracePacketBeforeTracingStart);
        }
        window
    }

    fn apply_switch(&mut self, at: At<'_>, message: &[u8]) {
        let (mut switch, prev_comm, next_comm) = usual_switch(message).unwrap_or_else(|| any_switch(message));
        switch.prev_comm = prev_comm.map(|comm| self.comm(switch.prev_tid, comm));
        switch.next_comm = next_comm.map(|comm| self.comm(switch.next_tid, comm));
        self.sched_switch(at.ts, at.cpu, &switch);
    }

    /// Writes the row of a wake-up, and does what it does.
    fn apply_usual_waking(
        &mut self,
        at: At<'_>,
        event: KernelEvent,
        waking: &UsualWaking<'_>,
        window: Window,
    ) {
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let name = self.raw.waking(&mut self.tables.strings);
        let id = self.raw_row_of(at.ts, at.cpu, utid, Some(name));
        let wakee = i64::from(waking.numbers[0] as u32);
        let comm = self.comm(wakee, waking.comm);
        match self.raw.row_args {
            RowArgs::Left => {}
            RowArgs::Kept => self.raw.kept.push_event(at.cpu, event),
            RowArgs::Written => {
                self.waking_args_of_row(id, &FullWaking { comm, numbers: waking.numbers });
            }
        }
        if window == Window::Within {
            self.sched_waking(at.ts, at.cpu, at.tid, wakee, Some(comm));
        }
    }

    fn apply_waking(&mut self, at: At<'_>, message: &[u8]) {
        use event::sched_waking as field;
        let (mut comm, mut wakee) = (None, 0);
        for part in Fields::new(message).whole() {
            match (part.number, part.value) {
                (field::COMM, Value::Bytes(text)) => comm = Some(text),
                (field::PID, value) => wakee = i64::from(value.as_u64().unwrap_or(0) as u32),
                _ => {}
            }
        }
        let comm = comm.map(|comm| self.comm(wakee, comm));
        self.sched_waking(at.ts, at.cpu, at.tid, wakee, comm);
    }

    /// A thread's name, mostly the one that it had last.
    #[inline]
    fn comm(&mut self, tid: i64, comm: &[u8]) -> Str {
        self.comms.get(tid, comm, &mut self.tables.strings)
    }

    fn apply_known(&mut self, at: At<'_>, number: u32, message: &[u8]) {
        let At { ts, cpu, tid, state } = at;
        if number == event::sched_waking::NUMBER {
            return self.apply_waking(at, message);
        }
        let payload = Payload::of(message);
        match number {
            event::sched_process_free::NUMBER => {
                self.sched_process_free(ts, cpu, payload.tid(event::sched_process_free::PID));
            }
            event::sched_blocked_reason::NUMBER => self.sched_blocked_reason(cpu, &payload, state),
            event::task_newtask::NUMBER => self.task_newtask(ts, cpu, tid, &payload),
            event::task_rename::NUMBER => self.task_rename(cpu, &payload),
            event::kgsl_adreno_cmdbatch_queued::NUMBER => self.batch_queued(cpu.machine, tid, &payload),
            event::sys_enter::NUMBER => self.sys_enter(at, &payload, message),
            event::sys_exit::NUMBER => self.sys_exit(at, &payload),
            event::f2fs_write_checkpoint::NUMBER => self.f2fs_checkpoint(at, &payload),
            _ => {
                let _is_known = self.interrupt(at, number, &payload)
                    || self.kernel_counter(ts, cpu.machine, number, &payload)
                    || self.atrace(at, number, &payload)
                    || self.memory(at, number, &payload)
                    || self.thread_slice(at, number, &payload)
                    || self.power(at, number, &payload)
                    || self.net(at, number, &payload)
                    || self.drm(at, number, &payload)
                    || self.storage(at, number, &payload, message);
            }
        }
    }
}

/// A switch but for its names, and those.
type Named<'a> = (FullSwitch, Option<&'a [u8]>, Option<&'a [u8]>);

const fn number_tag(field: u32) -> u8 {
    (field << 3) as u8
}

const fn text_tag(field: u32) -> u8 {
    (field << 3 | 2) as u8
}

/// A switch as all recorders write it: each field once, in their order.
#[inline]
fn usual_switch(message: &[u8]) -> Option<Named<'_>> {
    use event::sched_switch as field;
    let mut fields = Fields::new(message);
    let prev_comm = fields.message_of(text_tag(field::PREV_COMM))?;
    let prev_tid = fields.number_of(number_tag(field::PREV_PID))?;
    let prev_prio = fields.number_of(number_tag(field::PREV_PRIO))?;
    let prev_state = fields.number_of(number_tag(field::PREV_STATE))?;
    let next_comm = fields.message_of(text_tag(field::NEXT_COMM))?;
    let next_tid = fields.number_of(number_tag(field::NEXT_PID))?;
    let next_prio = fields.number_of(number_tag(field::NEXT_PRIO))?;
    let switch = FullSwitch {
        prev_tid: i64::from(prev_tid as u32),
        prev_prio: prev_prio as i32,
        prev_state: prev_state as i64,
        next_tid: i64::from(next_tid as u32),
        next_prio: next_prio as i32,
        ..FullSwitch::default()
    };
    fields.first_byte().is_none().then_some((switch, Some(prev_comm), Some(next_comm)))
}

/// A switch however it is written.
fn any_switch(message: &[u8]) -> Named<'_> {
    use event::sched_switch as field;
    let (mut prev_comm, mut next_comm) = (None, None);
    let mut switch = FullSwitch::default();
    for part in Fields::new(message).whole() {
        let number = part.value.as_u64().unwrap_or(0);
        match (part.number, part.value) {
            (field::PREV_COMM, Value::Bytes(comm)) => prev_comm = Some(comm),
            (field::PREV_PID, _) => switch.prev_tid = i64::from(number as u32),
            (field::PREV_PRIO, _) => switch.prev_prio = number as i32,
            (field::PREV_STATE, _) => switch.prev_state = number as i64,
            (field::NEXT_COMM, Value::Bytes(comm)) => next_comm = Some(comm),
            (field::NEXT_PID, _) => switch.next_tid = i64::from(number as u32),
            (field::NEXT_PRIO, _) => switch.next_prio = number as i32,
            _ => {}
        }
    }
    (switch, prev_comm, next_comm)
}

/// A wake-up as all recorders write it: each field once, in their order.
struct UsualWaking<'a> {
    comm: &'a [u8],
    /// `pid`, `prio`, `success`, `target_cpu`.
    numbers: [u64; 4],
}

impl<'a> UsualWaking<'a> {
    #[inline]
    fn of(message: &'a [u8]) -> Option<Self> {
        use event::sched_waking as field;
        let mut fields = Fields::new(message);
        let comm = fields.message_of(text_tag(field::COMM))?;
        let numbers = [
            fields.number_of(number_tag(field::PID))?,
            fields.number_of(number_tag(field::PRIO))?,
            fields.number_of(number_tag(field::SUCCESS))?,
            fields.number_of(number_tag(field::TARGET_CPU))?,
        ];
        fields.first_byte().is_none().then_some(Self { comm, numbers })
    }
}
