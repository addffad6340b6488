//! The kernel's events as a text says them: tracefs' `trace`, systrace, `trace-cmd report` (upstream: systrace_line_parser.cc).
//!
//! Whoever reads the text takes its lines apart and sorts them by time. Here an event does what its binary form does, with what a text knows
//! of it: there are no windows, no interned names, and no rows in `ftrace_event` but those of switches.

use ferretto_trace_tables::Str;

use super::Cpu;
use super::apply::At;
use crate::model::Model;
use crate::processes::ThreadName;
use crate::sched::FullSwitch;
use crate::sequence::Generation;
use crate::task_state::TaskState;

/// Whose a line is.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// When, in nanoseconds.
    pub ts: i64,
    /// The processor.
    pub cpu: Cpu,
    /// The thread.
    pub tid: u32,
    /// Its process, where the kernel knew it.
    pub tgid: Option<u32>,
    /// Its name, where the kernel knew it.
    pub comm: Option<Str>,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TextEvent<'a> {
    /// `sched_switch`
    Switch {
        /// Who ran.
        prev: Task<'a>,
        /// What it does now, in letters.
        prev_state: &'a str,
        /// Who runs.
        next: Task<'a>,
    },
    /// `sched_waking`: who is woken; its priority is not looked at.
    Waking(Task<'a>),
    /// `sched_blocked_reason`
    BlockedReason {
        /// The thread.
        tid: u32,
        /// Whether it waits for a disk or the like.
        io_wait: bool,
        /// The kernel's function that it waits in.
        function: &'a str,
    },
    /// `tracing_mark_write`: what a program wrote.
    Marker(&'a str),
    /// `cpu_frequency`
    CpuFrequency {
        /// The processor.
        cpu: u32,
        /// In kHz.
        khz: f64,
    },
    /// `cpu_idle`
    CpuIdle {
        /// The processor.
        cpu: u32,
        /// How deep it sleeps.
        state: f64,
    },
    /// `cpu_frequency_limits`
    CpuFrequencyLimits {
        /// The processor.
        cpu: u32,
        /// The highest, in kHz.
        max: Option<f64>,
        /// The lowest, in kHz.
        min: Option<f64>,
    },
    /// `clock_set_rate`
    ClockRate {
        /// Its name.
        clock: &'a str,
        /// In Hz.
        rate: u32,
    },
    /// `clock_enable`, `clock_disable`
    ClockState {
        /// Its name.
        clock: &'a str,
        /// Whether it runs.
        state: u32,
    },
    /// `thermal_temperature`
    Temperature {
        /// Where.
        zone: &'a str,
        /// In thousandths of a degree.
        value: i32,
    },
    /// `cdev_update`
    Cooling {
        /// The device that cools.
        device: &'a str,
        /// How much it shall.
        target: f64,
    },
    /// `rss_stat`
    Rss {
        /// Which kind of memory.
        member: u32,
        /// In bytes.
        size: i64,
    },
    /// `workqueue_execute_start`
    WorkBegins {
        /// The kernel's function.
        function: &'a str,
    },
    /// `workqueue_execute_end`
    WorkEnds,
}

/// A thread that is switched or woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task<'a> {
    /// Its name; a text that lacks it names it so.
    pub comm: &'a str,
    /// Its number.
    pub tid: u32,
    /// Its priority.
    pub prio: i32,
}

/// Brings events of a text into a model.
#[derive(Debug, Default)]
pub struct TextFeed {
    /// A text has nothing interned.
    interned: Generation,
}

impl TextFeed {
    /// Applies a line, which is not before the last one. An event that is not known only says who its thread is.
    pub fn apply(&self, model: &mut Model, origin: Origin, event: Option<TextEvent<'_>>) {
        let Origin { ts, cpu, tid, tgid, comm } = origin;
        model.stats.set_machine(cpu.machine);
        let (tables, processes) = model.processes(cpu.machine);
        let utid = processes.thread(tables, tid.into());
        if let Some(comm) = comm {
            processes.name_thread(tables, utid, comm, ThreadName::Ftrace);
        }
        if let Some(tgid) = tgid {
            processes.thread_of(tables, tid.into(), tgid.into());
        }
        let at = At { ts, cpu, tid, state: &self.interned };
        if let Some(event) = event {
            model.apply_text_event(at, event);
        }
    }
}

impl Model {
    fn apply_text_event(&mut self, at: At<'_>, event: TextEvent<'_>) {
        let At { ts, cpu, tid, .. } = at;
        let machine = cpu.machine;
        match event {
            TextEvent::Switch { prev, prev_state, next } => self.text_switch(at, prev, prev_state, next),
            TextEvent::Waking(task) => {
                let comm = self.name_of_task(task);
                self.sched_waking(ts, cpu, tid, task.tid.into(), comm);
            }
            TextEvent::BlockedReason { tid, io_wait, function } => {
                let function = self.tables.strings.intern(function);
                self.blocked(cpu, tid.into(), io_wait, Some(function));
            }
            TextEvent::Marker(text) => self.print(at, text),
            TextEvent::CpuFrequency { cpu, khz } => self.cpu_frequency(ts, machine, cpu, khz),
            TextEvent::CpuIdle { cpu, state } => self.cpu_idle(ts, machine, cpu, state),
            TextEvent::CpuFrequencyLimits { cpu, max, min } => {
                if let Some(max) = max {
                    self.cpu_max_limit(ts, machine, cpu, max);
                }
                if let Some(min) = min {
                    self.cpu_min_limit(ts, machine, cpu, min);
                }
            }
            TextEvent::ClockRate { clock, rate } => self.clock_rate(ts, machine, clock, rate.into()),
            TextEvent::ClockState { clock, state } => self.clock_state(ts, machine, clock, state.into()),
            TextEvent::Temperature { zone, value } => self.temperature(ts, machine, zone, value.into()),
            TextEvent::Cooling { device, target } => self.cooling(ts, machine, device, target),
            // Whose memory it is cannot be told by a text: upstream loses `curr`.
            TextEvent::Rss { member, size } => self.rss_stat(at, member, size, None),
            TextEvent::WorkBegins { function } => {
                let name = self.tables.strings.intern(function);
                let track = self.track_of_tid(machine, tid);
                self.begin_slice(ts, track, Some("workqueue"), Some(name), &[]);
            }
            TextEvent::WorkEnds => {
                let track = self.track_of_tid(machine, tid);
                self.end_slice(ts, track, Some("workqueue"), None, &[]);
            }
        }
    }

    fn text_switch(&mut self, at: At<'_>, prev: Task<'_>, prev_state: &str, next: Task<'_>) {
        // Of letters only the first counts if it is `R`.
        let state = match prev_state.starts_with('R') && prev_state != "R+" {
            true => "R",
            false => prev_state,
        };
        let switch = FullSwitch {
            prev_comm: self.name_of_task(prev),
            prev_tid: prev.tid.into(),
            prev_prio: prev.prio,
            prev_state: TaskState::parse(state).to_raw().into(),
            next_comm: self.name_of_task(next),
            next_tid: next.tid.into(),
            next_prio: next.prio,
        };
        self.sched_switch(at.ts, at.cpu, &switch);
    }

    fn name_of_task(&mut self, task: Task<'_>) -> Option<Str> {
        Some(self.tables.strings.intern(task.comm))
    }
}
