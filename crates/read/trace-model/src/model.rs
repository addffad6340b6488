//! Everything that is known of a trace, as far as it was read.

use ferretto_protos::fields::trace_packet as kind;
use ferretto_trace_tables::{MachineId, Tables};

use crate::args::ArgLists;
use crate::clocks::Clocks;
use crate::cpus::Cpus;
use crate::event::{Event, WholePacket};
use crate::ftrace::raw::Raw;
use crate::ftrace::{Bundles, Kernel};
use crate::namespaces::Namespaces;
use crate::processes::Processes;
use crate::profiles::Profiles;
use crate::slices::{Out, Slices};
use crate::stats::Stats;
use crate::thread_states::ThreadStates;
use crate::track_event::descriptor::Descriptors;
use crate::tracks::Tracks;

/// The state of all rules, and the rows that came of it. Each module has its part, and the functions that work on it.
#[derive(Debug, Default)]
pub struct Model {
    /// The rows.
    pub tables: Tables,
    /// Lists of arguments.
    pub args: ArgLists,
    /// Counters of what was lost or wrong.
    pub stats: Stats,
    /// Tracks that were met.
    pub tracks: Tracks,
    /// What programs have said of tracks.
    pub descriptors: Descriptors,
    /// The clocks.
    pub clocks: Clocks,
    /// The processors.
    pub cpus: Cpus,
    /// What profilers have said.
    pub profiles: Profiles,
    /// The bundles of the kernel's events.
    pub bundles: Bundles,
    /// What the kernel's events are called.
    pub raw: Raw,
    /// What threads do.
    pub thread_states: ThreadStates,
    /// Namespaces of processes.
    pub namespaces: Namespaces,
    slices: Slices,
    /// By machine.
    processes: Vec<Processes>,
    /// By machine.
    kernels: Vec<Kernel>,
}

impl Model {
    /// Applies an event of the time `ts`, which is not before that of the last one.
    pub fn apply(&mut self, ts: i64, event: Event) {
        match event {
            Event::Track(event) => self.apply_track_event(ts, event),
            Event::Packet(packet) => self.apply_packet(ts, &packet),
            Event::Kernel(cpu, event) => self.apply_kernel_event(ts, cpu, event),
            Event::Switch(cpu, event) => self.compact_switch(ts, cpu, &event),
            Event::Waking(cpu, event) => self.compact_waking(ts, cpu, &event),
        }
    }

    /// Nothing more comes.
    #[must_use]
    pub fn finish(mut self) -> Tables {
        let (slices, mut out) = self.slices();
        slices.finish(&mut out);
        self.finish_profiles();
        for processes in &mut self.processes {
            processes.finish(&mut self.tables, &mut self.args);
        }
        self.cpus.write(&mut self.tables);
        self.stats.write(&mut self.tables);
        self.tables
    }

    /// The threads and processes of a machine, and where their rows are.
    pub fn processes(&mut self, machine: MachineId) -> (&mut Tables, &mut Processes) {
        while self.processes.len() <= machine.index() {
            let next = MachineId(u32::try_from(self.processes.len()).unwrap_or(u32::MAX));
            self.processes.push(Processes::new(next, &mut self.tables));
        }
        let last = self.processes.len() - 1;
        (&mut self.tables, &mut self.processes[machine.index().min(last)])
    }

    /// The same, and what is counted.
    pub fn processes_and_stats(&mut self, machine: MachineId) -> (&mut Tables, &mut Processes, &mut Stats) {
        self.processes(machine);
        let last = self.processes.len().saturating_sub(1);
        (&mut self.tables, &mut self.processes[machine.index().min(last)], &mut self.stats)
    }

    /// What is known of a machine's kernel.
    #[inline]
    pub fn kernel(&mut self, machine: MachineId) -> &mut Kernel {
        if self.kernels.len() <= machine.index() {
            self.kernels.resize_with(machine.index() + 1, Kernel::default);
        }
        &mut self.kernels[machine.index()]
    }

    /// The slices, and what they are written into.
    pub fn slices(&mut self) -> (&mut Slices, Out<'_>) {
        let out = Out { tables: &mut self.tables, args: &mut self.args, stats: &mut self.stats };
        (&mut self.slices, out)
    }

    fn apply_packet(&mut self, ts: i64, packet: &WholePacket) {
        self.stats.set_machine(packet.origin.machine);
        self.apply_profile(ts, packet);
        if packet.kind == kind::PROCESS_TREE {
            self.process_tree(&packet.data, packet.origin.machine);
        }
    }
}
