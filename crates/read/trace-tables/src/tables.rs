//! The tables, one definition each.
//!
//! All times and durations are nanoseconds of the trace's clock.

mod heap_graph;
mod profiles;

use std::sync::Arc;

use crate::blocks::Blocks;
use crate::column::Gaps;
use crate::helper::Helper;
use crate::ids::{ArgSetId, MachineId, SliceId, ThreadStateId, TraceFileId, TrackId, Ucpu, Upid, Utid};
use crate::saved::{Loading, Saving};
use crate::store::Store;
use crate::strings::{Str, Strings};
use crate::table::{Table, table};

pub use heap_graph::*;
pub use profiles::*;

table! {
    /// What happened for a while, or at once, on a track.
    SliceTable, SliceRow, "slice";
    /// When it began.
    ts: Blocks<i64>,
    /// How long it took; 0 is an instant, -1 had no end in the trace.
    dur: Blocks<i64>,
    /// Its row of `track`.
    track_id: Blocks<TrackId>,
    /// The categories of an event, joined by commas.
    category: Blocks<Option<Str>>,
    /// Its name; nothing if it was lost.
    name: Blocks<Option<Str>>,
    /// How many slices of its track it lies within.
    depth: Blocks<u32>,
    /// The slice that it lies within, a row of `slice`.
    parent_id: Gaps<SliceId>,
    /// Its arguments, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
    /// The processor time that its thread had had when it began.
    thread_ts: Gaps<i64>,
    /// The processor time that its thread had meanwhile.
    thread_dur: Gaps<i64>,
    /// The instructions that its thread had done when it began.
    thread_instruction_count: Gaps<i64>,
    /// The instructions that its thread did meanwhile.
    thread_instruction_delta: Gaps<i64>,
}

table! {
    /// Where slices lie one within another, a counter has its values, or a state its changes.
    TrackTable, TrackRow, "track";
    /// For people; programs go by `type`.
    name: Vec<Option<Str>>,
    /// The track that it is shown below, a row of `track`.
    parent_id: Gaps<TrackId>,
    /// What its source said of it, rows of `args`.
    source_arg_set_id: Gaps<ArgSetId>,
    /// The machine, a row of `machine`.
    machine_id: Gaps<MachineId>,
    /// What is on it, by a word that stays.
    type_: Vec<Option<Str>>,
    /// What tells tracks of one type apart, rows of `args`.
    dimension_arg_set_id: Gaps<ArgSetId>,
    /// The same for all tracks that one set of events was spread over.
    track_group_id: Gaps<u32>,
    /// `slice`, `counter` or `state`.
    event_type: Vec<Option<Str>>,
    /// The unit of a counter.
    counter_unit: Vec<Option<Str>>,
    /// Its thread, a row of `thread`.
    utid: Gaps<Utid>,
    /// Its process, a row of `process`.
    upid: Gaps<Upid>,
    /// The processor of tracks that belong to one.
    cpu: Gaps<u32>,
}

table! {
    /// Threads, each for its own lifetime: a tid that comes again is another row.
    ThreadTable, ThreadRow, "thread";
    /// The kernel's number.
    tid: Vec<i64>,
    /// Its name, the last that was known.
    name: Vec<Option<Str>>,
    /// When it began, if that was seen.
    start_ts: Gaps<i64>,
    /// When it ended, if that was seen.
    end_ts: Gaps<i64>,
    /// Its process, a row of `process`.
    upid: Gaps<Upid>,
    /// Whether its number is that of its process; nothing while that is not known.
    is_main_thread: Gaps<bool>,
    /// Whether it is what a processor runs when nothing else does.
    is_idle: Vec<bool>,
    /// The machine, a row of `machine`.
    machine_id: Gaps<MachineId>,
    /// More about it, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
}

table! {
    /// Processes, each for its own lifetime: a pid that comes again is another row.
    ProcessTable, ProcessRow, "process";
    /// The kernel's number.
    pid: Vec<i64>,
    /// Its name, the best that was known.
    name: Vec<Option<Str>>,
    /// When it began, if that was seen.
    start_ts: Gaps<i64>,
    /// When it ended, if that was seen.
    end_ts: Gaps<i64>,
    /// The process that started it, a row of `process`.
    parent_upid: Gaps<Upid>,
    /// Its user.
    uid: Gaps<i64>,
    /// Its user without Android's number of a person.
    android_appid: Gaps<i64>,
    /// Android's number of a person.
    android_user_id: Gaps<i64>,
    /// Its command line, joined by blanks.
    cmdline: Vec<Option<Str>>,
    /// More about it, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
    /// The machine, a row of `machine`.
    machine_id: Gaps<MachineId>,
}

table! {
    /// Which thread ran on which processor.
    SchedTable, SchedRow, "sched";
    /// When it was switched in.
    ts: Blocks<i64>,
    /// How long it ran; -1 to the end of the trace.
    dur: Blocks<i64>,
    /// The thread, a row of `thread`.
    utid: Blocks<Utid>,
    /// What it did when it was switched out: R, R+, S, D, …
    end_state: Blocks<Option<Str>>,
    /// The kernel's priority.
    priority: Blocks<i32>,
    /// The processor, a row of `cpu`.
    ucpu: Blocks<Ucpu>,
}

table! {
    /// What each thread did all the time.
    ThreadStateTable, ThreadStateRow, "thread_state";
    /// When this began.
    ts: Blocks<i64>,
    /// How long it lasted; -1 to the end of the trace.
    dur: Blocks<i64>,
    /// The thread, a row of `thread`.
    utid: Blocks<Utid>,
    /// `Running`, `R`, `R+`, `S`, `D`, …
    state: Blocks<Option<Str>>,
    /// Whether it waited for I/O.
    io_wait: Gaps<u32>,
    /// The kernel's function that it waited in.
    blocked_function: Blocks<Option<Str>>,
    /// The thread that woke it, a row of `thread`.
    waker_utid: Gaps<Utid>,
    /// What that thread did then, a row of `thread_state`.
    waker_id: Gaps<ThreadStateId>,
    /// Whether it was woken from an interrupt.
    irq_context: Gaps<u32>,
    /// The processor, a row of `cpu`.
    ucpu: Gaps<Ucpu>,
}

table! {
    /// Wake-ups of threads that did not sleep.
    SpuriousSchedWakeupTable, SpuriousSchedWakeupRow, "spurious_sched_wakeup";
    /// When.
    ts: Blocks<i64>,
    /// What the thread did then, a row of `thread_state`.
    thread_state_id: Blocks<ThreadStateId>,
    /// Whether it was woken from an interrupt.
    irq_context: Gaps<u32>,
    /// The thread, a row of `thread`.
    utid: Blocks<Utid>,
    /// The thread that woke it, a row of `thread`.
    waker_utid: Blocks<Utid>,
}

table! {
    /// The values of counters.
    CounterTable, CounterRow, "counter";
    /// When it had the value.
    ts: Blocks<i64>,
    /// The counter, a row of `track`.
    track_id: Blocks<TrackId>,
    /// The value.
    value: Blocks<f64>,
    /// More about it, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
}

table! {
    /// What states were in, while they were.
    StateTable, StateRow, "state";
    /// When it began.
    ts: Blocks<i64>,
    /// How long it lasted; -1 to the end of the trace.
    dur: Blocks<i64>,
    /// Its row of `track`.
    track_id: Blocks<TrackId>,
    /// The categories of the event, joined by commas.
    category: Blocks<Option<Str>>,
    /// The state.
    value: Blocks<Option<Str>>,
    /// More about it, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
}

table! {
    /// What led from one slice to another.
    FlowTable, FlowRow, "flow";
    /// Where it came from, a row of `slice`.
    slice_out: Blocks<SliceId>,
    /// Where it went to, a row of `slice`.
    slice_in: Blocks<SliceId>,
    /// The number that the program gave it.
    trace_id: Gaps<i64>,
    /// More about it, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
}

table! {
    /// Arguments: what is said of a row of another table, in rows that share their `arg_set_id`.
    ArgTable, ArgRow, "args";
    /// The number of the set, that of its first row.
    arg_set_id: Blocks<ArgSetId>,
    /// The key without the numbers in arrays.
    flat_key: Blocks<Option<Str>>,
    /// The key, such as `debug.list[3].x`.
    key: Blocks<Option<Str>>,
    /// A number, or yes (1) or no (0), or an address.
    int_value: Gaps<i64>,
    /// A text, or JSON.
    string_value: Blocks<Option<Str>>,
    /// A floating-point number.
    real_value: Gaps<f64>,
    /// `int`, `uint`, `string`, `real`, `pointer`, `bool`, `json` or `null`.
    value_type: Blocks<Option<Str>>,
}

table! {
    /// The kernel's events, as they were. What each says stands in its arguments.
    FtraceEventTable, FtraceEventRow, "ftrace_event";
    /// When.
    ts: Blocks<i64>,
    /// Which event.
    name: Blocks<Option<Str>>,
    /// The thread that it happened in, a row of `thread`.
    utid: Gaps<Utid>,
    /// What it says, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
    /// The kernel's flags: interrupts, preemption.
    common_flags: Blocks<u32>,
    /// The processor, a row of `cpu`.
    ucpu: Blocks<Ucpu>,
}

table! {
    /// Processors. A machine has 4096 numbers; only those that the trace tells of stand here.
    CpuTable, CpuRow, "cpu";
    /// Its number over all machines.
    ucpu: Vec<Ucpu>,
    /// Its number on its machine.
    cpu: Vec<u32>,
    /// Which of the machine's kinds of processors it is, from 0, the slowest.
    cluster_id: Vec<u32>,
    /// What it calls itself.
    processor: Vec<Option<Str>>,
    /// The machine, a row of `machine`.
    machine_id: Gaps<MachineId>,
    /// What it can do, relative to the fastest, which has 1024.
    capacity: Gaps<u32>,
    /// More about it, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
}

table! {
    /// The frequencies that processors may have.
    CpuFreqTable, CpuFreqRow, "cpu_freq";
    /// The processor, a row of `cpu`.
    ucpu: Vec<Ucpu>,
    /// In kHz.
    freq: Vec<u32>,
}

table! {
    /// Lines of logs.
    LogTable, LogRow, "logs";
    /// When.
    ts: Blocks<i64>,
    /// The thread that wrote it, a row of `thread`.
    utid: Gaps<Utid>,
    /// How important it is, by the scale of its source.
    prio: Blocks<i32>,
    /// `android_logcat` or `systemd_journald`.
    log_source: Blocks<Option<Str>>,
    /// Who says it.
    tag: Blocks<Option<Str>>,
    /// What it says.
    msg: Blocks<Option<Str>>,
    /// More about it, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
}

table! {
    /// Facts about the trace, its machines and its recording.
    MetadataTable, MetadataRow, "metadata";
    /// Which fact.
    name: Vec<Option<Str>>,
    /// Whether there may be several: `single` or `multi`.
    key_type: Vec<Option<Str>>,
    /// If it is a number.
    int_value: Gaps<i64>,
    /// If it is a text.
    str_value: Vec<Option<Str>>,
    /// The machine that it is about, a row of `machine`.
    machine_id: Gaps<MachineId>,
    /// The file that it is about, a row of `trace_file`.
    trace_id: Gaps<TraceFileId>,
}

table! {
    /// What was lost, refused or counted, when the trace was recorded and when it was read.
    StatTable, StatRow, "stats";
    /// Which counter.
    name: Vec<Option<Str>>,
    /// Its number among all counters.
    key: Vec<u32>,
    /// The processor, buffer or other thing that it is about, for counters that have one for each.
    idx: Gaps<i64>,
    /// `info`, `notice`, `data_loss` or `error`.
    severity: Vec<Option<Str>>,
    /// `trace` if it was recorded, `analysis` if it was found while reading.
    source: Vec<Option<Str>>,
    /// How many.
    value: Vec<i64>,
    /// What it means.
    description: Vec<Option<Str>>,
    /// The machine that it is about, a row of `machine`.
    machine_id: Gaps<MachineId>,
    /// The file that it is about, a row of `trace_file`.
    trace_id: Gaps<TraceFileId>,
}

table! {
    /// What several clocks showed at one time.
    ClockSnapshotTable, ClockSnapshotRow, "clock_snapshot";
    /// When, on the trace's clock.
    ts: Blocks<i64>,
    /// Which clock.
    clock_id: Blocks<i64>,
    /// Its name, of those that have one.
    clock_name: Blocks<Option<Str>>,
    /// What it showed, in its own unit.
    clock_value: Blocks<i64>,
    /// The number of the snapshot.
    snapshot_id: Blocks<u32>,
    /// The machine, a row of `machine`.
    machine_id: Gaps<MachineId>,
}

table! {
    /// Machines.
    MachineTable, MachineRow, "machine";
    /// The number that the trace has for it, 0 is where the service ran; from 2^32 on they are those that a manifest names.
    raw_id: Vec<i64>,
    /// Its name.
    name: Vec<Option<Str>>,
    /// Its kernel, as `uname` says.
    sysname: Vec<Option<Str>>,
    /// Its kernel's release.
    release: Vec<Option<Str>>,
    /// Its kernel's version.
    version: Vec<Option<Str>>,
    /// Its architecture.
    arch: Vec<Option<Str>>,
    /// How many processors it has.
    num_cpus: Gaps<u32>,
    /// Its memory, in bytes.
    system_ram_bytes: Gaps<i64>,
    /// Its memory, in gigabytes.
    system_ram_gb: Gaps<i64>,
}

table! {
    /// Files that the trace is made of.
    TraceFileTable, TraceFileRow, "trace_file";
    /// The file that it was in, a row of `trace_file`.
    parent_id: Gaps<TraceFileId>,
    /// Its name.
    name: Vec<Option<Str>>,
    /// In bytes.
    size: Vec<i64>,
    /// Its format.
    trace_type: Vec<Option<Str>>,
    /// As the how manyth it was read.
    processing_order: Gaps<i64>,
    /// Whether it holds other files.
    is_container: Vec<bool>,
}

table! {
    /// What went wrong while reading, each time.
    TraceImportLogTable, TraceImportLogRow, "trace_import_logs";
    /// The file, a row of `trace_file`.
    trace_id: Gaps<TraceFileId>,
    /// The time of the event that it was, if it was found in the order of time.
    ts: Gaps<i64>,
    /// Where in the file it was, if it was found in the order of the file.
    byte_offset: Gaps<i64>,
    /// The counter of such things, `key` of `stats`.
    stat_key: Blocks<u32>,
    /// More about it, rows of `args`.
    arg_set_id: Gaps<ArgSetId>,
}

table! {
    /// What was odd about how the trace was recorded.
    TraceDiagnosticTable, TraceDiagnosticRow, "trace_diagnostics";
    /// What it is, by a word that stays.
    key: Vec<Option<Str>>,
    /// The same for people.
    title: Vec<Option<Str>>,
    /// What is wrong, and what comes of it.
    description: Vec<Option<Str>>,
    /// What to do about it.
    remediation: Vec<Option<Str>>,
    /// How likely it did harm, from 0 to 1.
    confidence: Vec<f64>,
    /// The file, a row of `trace_file`.
    trace_id: Gaps<TraceFileId>,
}

table! {
    /// What interrupts are called.
    InterruptMappingTable, InterruptMappingRow, "interrupt_mapping";
    /// The interrupt's number.
    irq_id: Vec<u32>,
    /// Its name.
    name: Vec<Option<Str>>,
    /// The machine, a row of `machine`.
    machine_id: Gaps<MachineId>,
}

table! {
    /// Android's packages, as its list has them.
    PackageListTable, PackageRow, "package_list";
    /// The package's name.
    package_name: Vec<Option<Str>>,
    /// Its user.
    uid: Vec<i64>,
    /// Whether it may be debugged.
    debuggable: Vec<bool>,
    /// Whether the shell may profile it.
    profileable_from_shell: Vec<bool>,
    /// Its version.
    version_code: Vec<i64>,
}

table! {
    /// Files that processes had open.
    FiledescriptorTable, FiledescriptorRow, "filedescriptor";
    /// The number over all processes.
    ufd: Blocks<i64>,
    /// The number in its process.
    fd: Blocks<i64>,
    /// When it was first seen.
    ts: Gaps<i64>,
    /// The process, a row of `process`.
    upid: Gaps<Upid>,
    /// What it is open on.
    path: Blocks<Option<Str>>,
}

macro_rules! all_tables {
    ($($(#[doc = $doc:literal])? $field:ident: $table:ident),* $(,)?) => {
        /// All that a trace says.
        #[derive(Clone, Debug, Default)]
        pub struct Tables {
            /// The texts of all columns.
            pub strings: Strings,
            store: Option<Arc<dyn Store>>,
            /// What comes from the store stays in memory.
            are_in_memory: bool,
            $(
                #[doc = concat!("See [`", stringify!($table), "`].")]
                pub $field: $table,
            )*
        }

        impl Tables {
            /// All of them, in a fixed order.
            #[must_use]
            pub fn all(&self) -> Vec<&dyn Table> {
                vec![$(&self.$field),*]
            }

            /// Blocks of their columns lie in the store from now on.
            pub fn move_to(&mut self, store: &Arc<dyn Store>) {
                $( self.$field.move_to(store); )*
                self.store = Some(store.clone());
            }

            /// Somebody packs blocks of their columns from now on. Without, all of them are packed.
            pub fn set_helper(&mut self, helper: Option<&Arc<dyn Helper>>) {
                $( self.$field.set_helper(helper); )*
            }

            pub(crate) fn save_all(&self, to: &mut Saving<'_>) -> Option<()> {
                $( self.$field.save(to)?; )*
                Some(())
            }

            /// Whose blocks come from this store.
            pub(crate) fn load_all(from: &mut Loading<'_>, strings: Strings, store: &Arc<dyn Store>) -> Option<Self> {
                let store = Some(store.clone());
                Some(Self { strings, store, are_in_memory: from.store().is_none(), $( $field: $table::load(from)?, )* })
            }

            /// Whether most of them do.
            #[must_use]
            pub fn are_elsewhere(&self) -> bool {
                self.store.is_some() && !self.are_in_memory
            }

            /// Whether all cells that were asked for could be had. It is asked when all was read: see [`Store::has_failed`].
            #[must_use]
            pub fn are_whole(&self) -> bool {
                self.store.as_ref().is_none_or(|store| !store.has_failed())
            }
        }
    };
}

all_tables! {
    slice: SliceTable,
    track: TrackTable,
    thread: ThreadTable,
    process: ProcessTable,
    sched: SchedTable,
    thread_state: ThreadStateTable,
    spurious_sched_wakeup: SpuriousSchedWakeupTable,
    counter: CounterTable,
    state: StateTable,
    flow: FlowTable,
    args: ArgTable,
    ftrace_event: FtraceEventTable,
    cpu: CpuTable,
    cpu_freq: CpuFreqTable,
    logs: LogTable,
    metadata: MetadataTable,
    stats: StatTable,
    clock_snapshot: ClockSnapshotTable,
    machine: MachineTable,
    trace_file: TraceFileTable,
    trace_import_logs: TraceImportLogTable,
    trace_diagnostics: TraceDiagnosticTable,
    interrupt_mapping: InterruptMappingTable,
    package_list: PackageListTable,
    callsite: CallsiteTable,
    frame: FrameTable,
    mapping: MappingTable,
    symbol: SymbolTable,
    profiler_sample: ProfilerSampleTable,
    profiler_session: ProfilerSessionTable,
    profiler_task_context: ProfilerTaskContextTable,
    profiler_execution_context: ProfilerExecutionContextTable,
    profiler_async_context: ProfilerAsyncContextTable,
    profiler_counter_set: ProfilerCounterSetTable,
    chrome_stack_sample_extras: ChromeStackSampleExtrasTable,
    track_event_callstacks: TrackEventCallstacksTable,
    aggregate_profile: AggregateProfileTable,
    aggregate_sample: AggregateSampleTable,
    heap_profile: HeapProfileTable,
    heap_profile_allocation: HeapProfileAllocationTable,
    profiler_smaps: ProfilerSmapsTable,
    memory_snapshot: MemorySnapshotTable,
    process_memory_snapshot: ProcessMemorySnapshotTable,
    memory_snapshot_node: MemorySnapshotNodeTable,
    memory_snapshot_edge: MemorySnapshotEdgeTable,
    filedescriptor: FiledescriptorTable,
    heap_graph: HeapGraphTable,
    heap_graph_class: HeapGraphClassTable,
    heap_graph_object: HeapGraphObjectTable,
    heap_graph_object_data: HeapGraphObjectDataTable,
    heap_graph_reference: HeapGraphReferenceTable,
    heap_graph_primitive: HeapGraphPrimitiveTable,
    heap_graph_thread_callsite: HeapGraphThreadCallsiteTable,
    heap_graph_java_oome_details: HeapGraphJavaOomeDetailsTable,
}

impl Tables {
    /// A table by its name in SQL.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&dyn Table> {
        self.all().into_iter().find(|table| table.name() == name)
    }

    /// Bytes of memory that all of it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.strings.memory_bytes() + self.all().iter().map(|table| table.memory_bytes()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_texts_are_there_and_names_are_different() {
        let tables = Tables::default();
        let mut names = BTreeSet::new();
        for table in tables.all() {
            assert!(names.insert(table.name()), "{} twice", table.name());
            assert!(!table.doc().is_empty());
            let mut columns = BTreeSet::new();
            for column in table.columns() {
                assert!(columns.insert(column.name), "{}.{} twice", table.name(), column.name);
                assert!(!column.doc.is_empty() && !column.name.ends_with('_'));
            }
        }
    }
}
