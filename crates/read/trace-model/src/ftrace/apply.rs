//! Which event does what, in its turn (upstream: ftrace_parser.cc, ParseFtraceEvent).

use super::generic;
use super::numbers as event;
use super::payload::Payload;
use super::windows::Window;
use super::{Cpu, KernelEvent};
use crate::model::Model;
use crate::sched::FullSwitch;
use crate::sequence::Generation;
use crate::stats::Stat;

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
        let window = self.window(cpu, ts);
        // No event of the kernel's own is without a thread.
        let (Some(tid), false) = (event.tid, window == Window::Before) else { return };
        let Some(bundle) = self.bundles.get(event.bundle).cloned() else { return };
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
        use event::sched_switch as field;
        let payload = Payload::of(message);
        let strings = &mut self.tables.strings;
        let switch = FullSwitch {
            prev_comm: payload.name(field::PREV_COMM, strings),
            prev_tid: payload.tid(field::PREV_PID),
            prev_prio: payload.i32(field::PREV_PRIO),
            prev_state: payload.i64(field::PREV_STATE),
            next_comm: payload.name(field::NEXT_COMM, strings),
            next_tid: payload.tid(field::NEXT_PID),
            next_prio: payload.i32(field::NEXT_PRIO),
        };
        self.sched_switch(at.ts, at.cpu, &switch);
    }

    fn apply_known(&mut self, at: At<'_>, number: u32, message: &[u8]) {
        let At { ts, cpu, tid, state } = at;
        let payload = Payload::of(message);
        match number {
            event::sched_waking::NUMBER => {
                let comm = payload.name(event::sched_waking::COMM, &mut self.tables.strings);
                self.sched_waking(ts, cpu, tid, payload.tid(event::sched_waking::PID), comm);
            }
            event::sched_process_free::NUMBER => {
                self.sched_process_free(ts, cpu, payload.tid(event::sched_process_free::PID));
            }
            event::sched_blocked_reason::NUMBER => self.sched_blocked_reason(cpu, &payload, state),
            event::task_newtask::NUMBER => self.task_newtask(ts, cpu, tid, &payload),
            event::task_rename::NUMBER => self.task_rename(cpu, &payload),
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
                    || self.drm(at, number, &payload);
            }
        }
    }
}
