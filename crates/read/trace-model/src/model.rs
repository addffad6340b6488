//! Everything that is known of a trace, as far as it was read.

use std::sync::Arc;

use ferretto_protos::fields::trace_packet as kind;
use ferretto_trace_tables::{MachineId, Store, Str, Tables, TraceFileId, TrackId, Upid};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::args::ArgLists;
use crate::chrome;
use crate::clock_snapshots::FileTimes;
use crate::clocks::Clocks;
use crate::config;
use crate::cpus::Cpus;
use crate::event::{Event, WholePacket};
use crate::flows::Flows;
use crate::ftrace::comms::Comms;
use crate::ftrace::kept::{KeptArgs, RowArgs};
use crate::ftrace::memory::Pending;
use crate::ftrace::raw::Raw;
use crate::ftrace::{Bundles, Kernel};
use crate::logs;
use crate::machines::Machines;
use crate::metadata::{Crop, Key, Metadata, Metadatum};
use crate::namespaces::Namespaces;
use crate::packages::Packages;
use crate::processes::Processes;
use crate::profiles::Profiles;
use crate::slices::{Out, Slices};
use crate::states::States;
use crate::stats::Stats;
use crate::system_stats::Disks;
use crate::thread_states::ThreadStates;
use crate::track_event::Waiting;
use crate::track_event::descriptor::Descriptors;
use crate::track_event::names::Labels;
use crate::track_event::reflect::Pool;
use crate::track_event::said::Scratch;
use crate::track_sets::TrackSets;
use crate::tracks::Tracks;
use crate::translation::Renames;
use crate::triggers::Named;

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
    /// What an archive says of the times of the file that is read.
    pub(crate) file_times: Option<FileTimes>,
    /// The machine that a file of another format is of.
    pub(crate) file_machine: MachineId,
    /// The processors.
    pub cpus: Cpus,
    /// What profilers have said.
    pub profiles: Profiles,
    /// The bundles of the kernel's events.
    pub bundles: Bundles,
    /// What the kernel's events are called.
    pub raw: Raw,
    /// The kernel's names of threads.
    pub comms: Comms,
    /// What threads do.
    pub thread_states: ThreadStates,
    /// Values of counters that wait for their tracks.
    pub pending: Pending,
    /// Numbers of GPUs over all machines.
    pub(crate) gpus: HashMap<(MachineId, u32), u32, RandomState>,
    /// Of each track of asynchronous slices of `trace_marker`: how many have begun, and when the last one did.
    pub(crate) async_begins: HashMap<TrackId, (i64, i64), RandomState>,
    /// Namespaces of processes.
    pub namespaces: Namespaces,
    /// Arrows between slices.
    pub flows: Flows,
    /// Tracks that one set of events is spread over.
    pub track_sets: TrackSets,
    /// Names and categories of events of programs.
    pub labels: Labels,
    /// Events of programs that wait.
    pub waiting: Waiting,
    /// Descriptors of messages.
    pub pool: Pool,
    pub(crate) said: Scratch,
    /// What asynchronous slices of the old kind are called, by their number and their process if it is that's.
    pub(crate) old_async_names: HashMap<(Option<Upid>, i64), Option<Str>, RandomState>,
    slices: Slices,
    /// What tracks of processes are called here that a trace calls otherwise.
    pub(crate) process_track_renames: Renames,
    /// By machine.
    processes: Vec<Processes>,
    /// By machine.
    kernels: Vec<Kernel>,
    /// The machines.
    pub machines: Machines,
    /// Where single facts stand.
    pub metadata: Metadata,
    /// The states of tracks of states.
    pub states: States,
    /// The last samples of disks.
    pub disks: Disks,
    /// Interrupts that have a name.
    pub interrupts: HashSet<(MachineId, u32), RandomState>,
    /// Whether each machine's clocks are related to the trace's.
    pub(crate) related: Vec<bool>,
    /// Which trigger the metadata name.
    pub(crate) named_trigger: Named,
    /// How many Chromes have said what they are.
    pub(crate) chromes: u32,
    /// The file that is read.
    pub(crate) file: TraceFileId,
    /// The size of the file, once it is known.
    pub(crate) end_of_file: Option<i64>,
    /// The last config.
    pub(crate) config: Box<[u8]>,
    /// Packets that rely on what was lost are kept: see [`Import::keep_lost`](crate::Import::keep_lost).
    pub(crate) keeps_lost: bool,
    /// Android's packages.
    pub(crate) packages: Packages,
    /// Events of programs before this time are left out: see [`Import::crop_track_events`](crate::Import::crop_track_events).
    pub(crate) crop: Crop,
    /// Makes text of a config.
    pub config_printer: Option<config::Printer>,
}

impl Model {
    /// Applies an event of the time `ts`, which is not before that of the last one.
    #[inline(always)]
    pub fn apply(&mut self, ts: i64, event: Event) {
        match event {
            Event::Track(event) => self.apply_track_event(ts, event),
            Event::Packet(packet) => self.apply_packet(ts, &packet),
            Event::Kernel(cpu, event) => self.apply_kernel_event(ts, cpu, event),
            Event::Switch(cpu, event) => self.compact_switch(ts, cpu, &event),
            Event::Waking(cpu, event) => self.compact_waking(ts, cpu, &event),
        }
    }

    /// Memory is short: rows and bundles lie in the store from now on. Called again, also the bundles that have come since.
    pub fn move_to(&mut self, store: &Arc<dyn Store>) {
        self.tables.move_to(store);
        self.args.move_to(store);
        self.thread_states.move_to(store);
        // What arguments are made of later is wanted at any time.
        if self.raw.row_args != RowArgs::Kept {
            self.bundles.move_to(store);
        }
    }

    /// Nothing more comes.
    #[must_use]
    pub fn finish(self) -> Tables {
        self.finish_with_args().0
    }

    /// The same, and what makes arguments of the rows of `ftrace_event`.
    #[must_use]
    pub fn finish_with_args(mut self) -> (Tables, KeptArgs) {
        self.args.end_helper(&mut self.tables);
        self.thread_states.end_helper(&mut self.tables);
        self.complete_files_and_machines();
        self.resolve_pending();
        let (slices, mut out) = self.slices();
        slices.finish(&mut out);
        let mut out = Out { tables: &mut self.tables, args: &mut self.args, stats: &mut self.stats };
        self.states.finish(&mut out);
        self.finish_profiles();
        for processes in &mut self.processes {
            processes.finish(&mut self.tables, &mut self.args);
        }
        let config = self.judge_config();
        self.diagnose(&config);
        self.cpus.write(&mut self.tables);
        self.stats.write(&mut self.tables);
        let kept = std::mem::take(&mut self.raw.kept);
        let generic = self.kernels.into_iter().map(|kernel| kernel.generic).collect();
        (self.tables, KeptArgs { kept, bundles: self.bundles, raw: self.raw, generic })
    }

    /// Whatever was read has at least one machine and one file.
    fn complete_files_and_machines(&mut self) {
        self.machines.of_packet(0, true, &mut self.tables);
        self.begin_file();
        if let Some(bytes) = self.end_of_file {
            self.set_metadata(Key::TraceSizeBytes, MachineId(0), Metadatum::Int(bytes));
        }
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

    /// The machine that a file of another format is of: the first, if no manifest says otherwise.
    #[must_use]
    #[inline]
    pub fn file_machine(&self) -> MachineId {
        self.file_machine
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
        let (machine, data) = (packet.origin.machine, &*packet.data);
        self.stats.set_machine(machine);
        match packet.kind {
            kind::SYS_STATS => self.apply_system_stats(ts, machine, data),
            kind::PROCESS_STATS => self.apply_process_stats(ts, machine, data),
            kind::TRACE_CONFIG => self.apply_config(machine, data),
            kind::TRIGGER => self.apply_trigger(ts, machine, data, Named::Trigger),
            kind::CLONE_SNAPSHOT_TRIGGER => self.apply_trigger(ts, machine, data, Named::Clone),
            chrome::kind::TRIGGER => self.apply_chrome_trigger(ts, machine, data),
            kind::JOURNALD_EVENT => self.apply_journal(ts, machine, data),
            logs::android::ANDROID_LOG => self.apply_android_log(ts, machine, data),
            kind::CONCURRENT_SESSION_EVENT => self.apply_concurrent_session(ts, machine, data),
            kind::PROCESS_TREE => self.process_tree(data, machine),
            kind::TRACK_DESCRIPTOR => self.apply_track_descriptor(data, machine),
            kind::THREAD_DESCRIPTOR => _ = self.apply_thread_descriptor(data, machine, false),
            kind::PROCESS_DESCRIPTOR => _ = self.apply_process_descriptor(data, machine),
            other => {
                let _was_known = self.apply_profile(ts, packet)
                    || self.apply_generic_kernel(ts, machine, other, data)
                    || self.apply_power(ts, machine, other, data);
            }
        }
    }
}
