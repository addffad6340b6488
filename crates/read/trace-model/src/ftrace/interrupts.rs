//! Interrupts, timers and functions: slices on tracks of processors (upstream: ftrace_parser.cc).

use ferretto_protos::fields::interned_data::KERNEL_SYMBOLS;
use ferretto_trace_tables::{Str, TrackId};

use super::Cpu;
use super::apply::At;
use super::numbers as event;
use super::on_tracks::{OF_CPU, OF_THREAD, cut};
use super::payload::Payload;
use crate::args::ArgValue;
use crate::model::Model;
use crate::stats::Stat;
use crate::tracks::{Blueprint, Dimensions};

const IRQ: Blueprint = Blueprint::slice("cpu_irq", OF_CPU);
const SOFTIRQ: Blueprint = Blueprint::slice("cpu_softirq", OF_CPU);
const HRTIMER: Blueprint = Blueprint::slice("cpu_hrtimer", OF_CPU);
const NAPI_GRO: Blueprint = Blueprint::slice("cpu_napi_gro", OF_CPU);
const THREAD_FUNCTIONS: Blueprint = Blueprint::slice("thread_funcgraph", OF_THREAD);
const IDLE_FUNCTIONS: Blueprint = Blueprint::slice("cpu_funcgraph", OF_CPU);

/// By their numbers in the kernel (`enum` in include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "BLOCK_IOPOLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

impl Model {
    /// Whether an event is of these; if so, it has its slice.
    pub(super) fn interrupt(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>) -> bool {
        let ts = at.ts;
        match number {
            event::irq_handler_entry::NUMBER => {
                let name = payload.text(event::irq_handler_entry::NAME);
                let name = self.tables.strings.intern(&cut(format!("IRQ ({name})"), 255));
                let track = self.of_cpu(&IRQ, at.cpu, "Irq Cpu");
                self.begin_slice(ts, track, Some("irq"), Some(name), &[]);
            }
            event::irq_handler_exit::NUMBER => {
                let handled = payload.i32(event::irq_handler_exit::RET) == 1;
                let ret = self.text_arg(if handled { "handled" } else { "unhandled" });
                let track = self.of_cpu(&IRQ, at.cpu, "Irq Cpu");
                self.end_slice(ts, track, Some("irq"), None, &[("ret", ret)]);
            }
            event::local_timer_entry::NUMBER => {
                let name = self.tables.strings.intern("IRQ (LocalTimer)");
                let track = self.of_cpu(&IRQ, at.cpu, "Irq Cpu");
                self.begin_slice(ts, track, Some("irq"), Some(name), &[]);
            }
            event::local_timer_exit::NUMBER => {
                let track = self.of_cpu(&IRQ, at.cpu, "Irq Cpu");
                self.end_slice(ts, track, Some("irq"), None, &[]);
            }
            event::softirq_entry::NUMBER => {
                let vec = payload.u32(event::softirq_entry::VEC);
                let Some(name) = SOFTIRQS.get(vec as usize) else { return true };
                let name = self.tables.strings.intern(name);
                let track = self.of_cpu(&SOFTIRQ, at.cpu, "SoftIrq Cpu");
                self.begin_slice(ts, track, Some("irq"), Some(name), &[]);
            }
            event::softirq_exit::NUMBER => {
                let vec = ArgValue::Int(payload.u32(event::softirq_exit::VEC).into());
                let track = self.of_cpu(&SOFTIRQ, at.cpu, "SoftIrq Cpu");
                self.end_slice(ts, track, Some("irq"), None, &[("vec", vec)]);
            }
            event::hrtimer_expire_entry::NUMBER => {
                let name = self.function(at, payload.u64(event::hrtimer_expire_entry::FUNCTION));
                let track = self.of_cpu(&HRTIMER, at.cpu, "Hrtimer Cpu");
                self.begin_slice(ts, track, Some("hrtimer"), Some(name), &[]);
            }
            event::hrtimer_expire_exit::NUMBER => {
                let track = self.of_cpu(&HRTIMER, at.cpu, "Hrtimer Cpu");
                self.end_slice(ts, track, Some("hrtimer"), None, &[]);
            }
            event::napi_gro_receive_entry::NUMBER => {
                use event::napi_gro_receive_entry as field;
                let name = payload.name(field::NAME, &mut self.tables.strings);
                let len = ArgValue::Int(payload.u32(field::LEN).into());
                let track = self.of_cpu(&NAPI_GRO, at.cpu, "Napi Gro Cpu");
                self.begin_slice(ts, track, Some("napi_gro"), name, &[("len", len)]);
            }
            event::napi_gro_receive_exit::NUMBER => {
                let ret = ArgValue::Int(payload.i32(event::napi_gro_receive_exit::RET).into());
                let track = self.of_cpu(&NAPI_GRO, at.cpu, "Napi Gro Cpu");
                self.end_slice(ts, track, Some("napi_gro"), None, &[("ret", ret)]);
            }
            event::funcgraph_entry::NUMBER => {
                let name = self.function(at, payload.u64(event::funcgraph_entry::FUNC));
                let track = self.functions_track(at);
                self.begin_slice(ts, track, None, Some(name), &[]);
            }
            event::funcgraph_exit::NUMBER => {
                let name = self.function(at, payload.u64(event::funcgraph_exit::FUNC));
                let track = self.functions_track(at);
                self.end_slice(ts, track, None, Some(name), &[]);
            }
            _ => return false,
        }
        true
    }

    /// The name of a kernel's function, or its number where names were not recorded.
    pub(super) fn function(&mut self, at: At<'_>, number: u64) -> Str {
        if let Some(name) = at.state.text(KERNEL_SYMBOLS, number) {
            return name;
        }
        self.stats.count(Stat::InternedDataTokenizerErrors);
        // As C's `%#x` has it: no prefix before 0.
        let name = if number == 0 { "0".to_owned() } else { format!("{number:#x}") };
        self.tables.strings.intern(&name)
    }

    fn of_cpu(&mut self, blueprint: &Blueprint, cpu: Cpu, name: &str) -> TrackId {
        self.cpu_track(blueprint, cpu.machine, cpu.cpu, |strings| {
            strings.intern(&format!("{name} {}", cpu.cpu))
        })
    }

    /// Threads have tracks of their own for functions, but the idle task runs on many processors at once.
    fn functions_track(&mut self, at: At<'_>) -> TrackId {
        if at.tid == 0 {
            return self.cpu_track(&IDLE_FUNCTIONS, at.cpu.machine, at.cpu.cpu, |strings| {
                strings.intern(&format!("swapper{} -funcgraph", at.cpu.cpu))
            });
        }
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let dimensions = Dimensions { utid: Some(utid), ..Dimensions::default() };
        self.kernel_track(&THREAD_FUNCTIONS, at.cpu.machine, dimensions, |strings| {
            strings.intern("Funcgraph")
        })
    }
}
