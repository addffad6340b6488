//! Records in the order of time.

use ferretto_trace_model::args::ArgValue;

use ferretto_trace_model::ftrace::Cpu;
use ferretto_trace_model::metadata::{Key, Metadatum};
use ferretto_trace_model::model::Model;
use ferretto_trace_model::processes::ThreadName;
use ferretto_trace_model::profiles::samples::{CounterSet, PerfSample};
use ferretto_trace_model::profiles::stacks::{Mapping, Source};
use ferretto_trace_model::stats::Stat;
use ferretto_trace_model::tracks::TrackType;
use ferretto_trace_read::clocks::{Clock, Machine};
use ferretto_trace_tables::tables::ProfilerSessionRow;
use ferretto_trace_tables::{CallsiteId, MappingId, SessionId, TrackId, Upid, Utid};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use super::attr::Attr;
use super::maps::{Maps, Place};
use super::records::{Events, Mmap, Mode, Sample, Task, What};
use super::session::Session;

/// Makes rows of all records.
pub(super) fn apply(model: &mut Model, session: &Session, mut events: Events) {
    model.processes(model.file_machine());
    let clock = Clock::of_machine(
        session.attr(0).map_or(10, |attr| attr.trace_clock()),
        Machine(model.file_machine().0),
    );
    if model.clocks.set_trace_clock(clock) {
        model.set_metadata(Key::TraceTimeClockId, model.file_machine(), Metadatum::Int(i64::from(clock.id)));
    }
    if let Some(release) = &session.release {
        model.set_text(Key::SystemRelease, model.file_machine(), release.as_bytes());
    }
    for feature in &session.skipped_features {
        model.stats.add(Stat::PerfFeaturesSkipped, Some(i64::from(*feature)), 1);
    }
    let text = |model: &mut Model, text: &str| Some(model.tables.strings.intern(text));
    let row = ProfilerSessionRow {
        source: text(model, "linux.perf"),
        cmdline: session.command.as_ref().and_then(|command| text(model, command)),
        ..ProfilerSessionRow::default()
    };
    let id = SessionId(model.tables.profiler_session.push(row));
    // Stable: of two at one time the first in the file stays first.
    events.all.sort_by_key(|event| event.time);
    let mut turn = Turn {
        model,
        session,
        id,
        clock,
        maps: Maps::default(),
        kernel: None,
        nowhere: None,
        counters: HashMap::default(),
        ends: Vec::new(),
        has_ended: HashSet::default(),
    };
    for event in std::mem::take(&mut events.all) {
        turn.take(event.time, event.what, &events);
    }
    turn.finish();
}

/// A counter: its track, and its value so far.
#[derive(Clone, Copy, Debug)]
struct Counter {
    track: TrackId,
    sum: u64,
}

struct Turn<'a> {
    model: &'a mut Model,
    session: &'a Session,
    id: SessionId,
    clock: Clock,
    maps: Maps,
    /// The kernel's own mapping: that of a guest is taken for it.
    kernel: Option<MappingId>,
    /// What addresses are in that are in nothing.
    nowhere: Option<MappingId>,
    /// By what was sampled, and processor.
    counters: HashMap<(u32, Option<u32>), Counter, RandomState>,
    /// Threads that have ended. They are told at the end: the kernel samples a thread while it is ending, too.
    ends: Vec<(Utid, i64)>,
    has_ended: HashSet<Utid, RandomState>,
}

impl Turn<'_> {
    fn take(&mut self, time: u64, what: What, events: &Events) {
        match what {
            What::Sample(sample) => {
                let Some(ts) = self.ts(time) else { return };
                self.sample(ts, &sample, events);
            }
            What::Comm { pid, tid, name, is_exec } => self.comm(pid, tid, &name, is_exec),
            What::Mmap(mmap) => self.mmap(&mmap),
            What::Fork(task) => self.fork(time, &task),
            What::Exit(task) => self.exit(time, &task),
            What::Lost { cpu, count } => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                self.model.stats.add(Stat::PerfCpuLostRecords, Some(i64::from(cpu.unwrap_or(0))), count);
            }
            What::Unknown(kind) => {
                for stat in [Stat::PerfUnknownRecordType, Stat::PerfRecordSkipped] {
                    self.model.stats.add(stat, Some(i64::from(kind)), 1);
                }
            }
            What::Malformed(kind) => self.model.stats.add(Stat::PerfRecordSkipped, Some(i64::from(kind)), 1),
            What::Incomplete => self.model.stats.count(Stat::PerfSamplesSkipped),
        }
    }

    /// The trace's time, if it is known otherwise; else that of the file.
    fn ts(&mut self, time: u64) -> Option<i64> {
        let Ok(value) = i64::try_from(time) else {
            self.model.stats.count(Stat::TraceSorterNegativeTimestampDropped);
            return None;
        };
        Some(self.model.to_trace_time(self.clock, value).unwrap_or(value))
    }

    fn thread(&mut self, pid: u32, tid: u32) -> (Utid, Upid) {
        let (tables, processes) = self.model.processes(self.model.file_machine());
        let utid = processes.thread_of(tables, i64::from(tid), i64::from(pid));
        (utid, processes.process(tables, i64::from(pid)))
    }

    fn comm(&mut self, pid: u32, tid: u32, name: &[u8], is_exec: bool) {
        let (utid, upid) = self.thread(pid, tid);
        if is_exec {
            self.maps.forget(upid);
        }
        let (tables, processes) = self.model.processes(self.model.file_machine());
        let name = tables.strings.intern_bytes(name);
        processes.name_thread_and_process(tables, utid, name, ThreadName::ProcessTree);
    }

    fn fork(&mut self, time: u64, task: &Task) {
        let (parent_utid, parent) = self.thread(task.parent_pid, task.parent_tid);
        // perf tells of what runs already as if it had been started at no time.
        let start = if time == 0 { None } else { self.ts(time) };
        let is_new = start.is_some() && !self.is_told_late(task, start);
        if is_new {
            let (tables, processes) = self.model.processes(self.model.file_machine());
            if task.pid == task.parent_pid {
                processes.start_thread(tables, i64::from(task.tid), start);
            } else {
                processes.start_process(tables, i64::from(task.pid), start, None, ThreadName::Other);
            }
        }
        let (utid, upid) = self.thread(task.pid, task.tid);
        if upid != parent {
            let (tables, processes, stats) = self.model.processes_and_stats(self.model.file_machine());
            processes.set_parent(tables, stats, upid, parent);
        }
        if is_new {
            if upid != parent {
                self.maps.inherit(upid, parent);
            }
            self.inherit_name(utid, parent_utid);
        }
    }

    /// Whether the thread is known already, for perf looks at what runs while it begins to record. Then it began at this time.
    fn is_told_late(&mut self, task: &Task, start: Option<i64>) -> bool {
        let (tables, processes) = self.model.processes(self.model.file_machine());
        let Some(utid) = processes.find_thread(i64::from(task.tid)) else { return false };
        let pid = tables.thread.upid.get(utid.index()).and_then(|upid| tables.process.pid.get(upid.index()));
        let is_the_same = pid == Some(&i64::from(task.pid))
            && tables.thread.start_ts.get(utid.index()).is_none()
            && !self.has_ended.contains(&utid);
        if is_the_same {
            tables.thread.start_ts.set(utid.index(), start);
        }
        is_the_same
    }

    fn inherit_name(&mut self, child: Utid, parent: Utid) {
        let (tables, processes) = self.model.processes(self.model.file_machine());
        if let Some(name) = tables.thread.name.get(parent.index()).copied().flatten() {
            processes.name_thread_and_process(tables, child, name, ThreadName::Other);
        }
    }

    fn exit(&mut self, time: u64, task: &Task) {
        let Some(ts) = self.ts(time) else { return };
        let (tables, processes) = self.model.processes(self.model.file_machine());
        let Some(utid) = processes.find_thread(i64::from(task.tid)) else { return };
        // Another of the same number may have come meanwhile.
        let upid = tables.thread.upid.get(utid.index());
        if upid.is_none_or(|upid| tables.process.pid.get(upid.index()) == Some(&i64::from(task.pid))) {
            self.has_ended.insert(utid);
            self.ends.push((utid, ts));
        }
    }

    fn mmap(&mut self, mmap: &Mmap) {
        let tables = &mut self.model.tables;
        let name = Some(tables.strings.intern_bytes(&mmap.path));
        let build_id = self.session.build_id_of(tables, mmap.pid, &mmap.path, mmap.build_id.as_deref());
        let end = mmap.start.saturating_add(mmap.len);
        let is_module = mmap.path.starts_with(b"[") && !mmap.path.starts_with(b"[kernel.kallsyms]");
        let is_kernel_itself = mmap.is_kernel && !is_module;
        // That of the kernel itself is an address.
        let exact_offset = if is_kernel_itself { 0 } else { mmap.offset };
        let mapping = Mapping { build_id, exact_offset, start: mmap.start, end, name, ..Mapping::default() };
        let process = if mmap.is_kernel { None } else { Some(self.thread(mmap.pid, mmap.tid).1) };
        let Model { tables, profiles, .. } = &mut *self.model;
        let id = match self.kernel.filter(|_| is_kernel_itself) {
            Some(kernel) => kernel,
            None => profiles.stacks.new_mapping(tables, mapping),
        };
        if is_kernel_itself {
            self.kernel = Some(id);
        }
        let bias = exact_offset.wrapping_sub(mmap.start);
        self.maps.add(process, mmap.start, Place { end, mapping: id, bias });
    }

    fn sample(&mut self, ts: i64, sample: &Sample, events: &Events) {
        if sample.mode == Mode::Unknown {
            self.model.stats.count(Stat::PerfSamplesCpuModeUnknown);
        }
        let (utid, upid) = self.thread(sample.pid, sample.tid);
        self.tracepoint(ts, utid, sample, sample.raw.of(&events.raw));
        let callsite_id = self.callsite(upid, sample, sample.chain.of(&events.addresses));
        let counter_set_id = self.count(ts, sample, sample.reads.of(&events.reads));
        self.model.push_perf_sample(
            self.model.file_machine(),
            PerfSample {
                ts,
                utid,
                upid,
                cpu: sample.cpu,
                mode: sample.mode.name(),
                callsite_id,
                session_id: self.id,
                counter_set_id,
            },
        );
    }

    /// A sample of a tracepoint is an event of the kernel.
    fn tracepoint(&mut self, ts: i64, utid: Utid, sample: &Sample, raw: &[u8]) {
        let attr = self.session.attr(sample.attr as usize);
        let event = attr.and_then(Attr::tracepoint).and_then(|id| self.session.tracepoints.get(id));
        let Some(event) = event else { return };
        let args = event.args(raw, &mut self.model.tables.strings);
        let name = self.model.tables.strings.intern(&event.name);
        let cpu = Cpu { machine: self.model.file_machine(), cpu: sample.cpu.unwrap_or(0) };
        self.model.push_kernel_event(ts, cpu, utid, name, event.flags(raw), &args);
    }

    /// Addresses are the innermost first. Of a caller it is that behind the call: one before is in the call.
    fn callsite(&mut self, upid: Upid, sample: &Sample, chain: &[u64]) -> Option<CallsiteId> {
        let mut mode = sample.mode;
        let mut frames = Vec::with_capacity(chain.len());
        for address in chain {
            match Mode::of_mark(*address) {
                Some(marked) => mode = marked,
                None => frames.push((mode, *address)),
            }
        }
        let mut caller = None;
        for (depth, (at, (mode, address))) in (0..).zip(frames.iter().enumerate().rev()) {
            let is_in_call = at == 0 || *address == 0 || self.session.is_simpleperf;
            let address = if is_in_call { *address } else { *address - 1 };
            let process = (!mode.is_kernel()).then_some(upid);
            let (mapping, rel_pc) = match self.maps.find(process, address) {
                Some(found) => found,
                None => (self.nowhere(), address),
            };
            let Model { tables, profiles, .. } = &mut *self.model;
            let name = Some(tables.strings.intern(""));
            let frame = profiles.stacks.frame(tables, mapping, rel_pc, name, Source::default());
            caller = Some(profiles.stacks.callsite(tables, caller, frame, depth));
        }
        caller
    }

    fn nowhere(&mut self) -> MappingId {
        self.model.stats.count(Stat::PerfDummyMappingUsed);
        let Model { tables, profiles, .. } = &mut *self.model;
        *self.nowhere.get_or_insert_with(|| profiles.stacks.invented_mapping(tables, ""))
    }

    /// Counters that were read have their values; one that was not has counted as much more as the sample says.
    fn count(&mut self, ts: i64, sample: &Sample, reads: &[(Option<u64>, u64)]) -> Option<u32> {
        let mut set = CounterSet::default();
        if reads.is_empty() {
            let counter = self.counter(sample.attr, sample.cpu);
            counter.sum = counter.sum.saturating_add(sample.period?);
            let Counter { track, sum } = *counter;
            let value = self.model.push_counter(ts, track, sum as f64);
            set.push(&mut self.model.tables, value);
        }
        for (id, value) in reads {
            let attr = match id {
                Some(id) => self.session.number_of_id(*id).and_then(|attr| u32::try_from(attr).ok()),
                None => Some(sample.attr),
            };
            let Some(attr) = attr else { continue };
            let track = self.counter(attr, sample.cpu).track;
            let value = self.model.push_counter(ts, track, *value as f64);
            set.push(&mut self.model.tables, value);
        }
        set.number()
    }

    fn counter(&mut self, attr: u32, cpu: Option<u32>) -> &mut Counter {
        let Self { model, session, id, counters, .. } = self;
        counters.entry((attr, cpu)).or_insert_with(|| {
            let attr = session.attr(attr as usize).cloned().unwrap_or_default();
            let name = attr.name.clone().unwrap_or_else(|| attr.words_for_it());
            let name = model.tables.strings.intern(&name);
            let session = ("perf_session_id", ArgValue::Int(i64::from(id.0)));
            let named = ("name", ArgValue::Text(name));
            let (track, is_new) = match cpu {
                Some(cpu) => {
                    let dimensions = [("cpu", ArgValue::Int(i64::from(cpu))), session, named];
                    model.intern_track(
                        model.file_machine(),
                        TrackType::counter("perf_cpu_counter", &dimensions),
                        |_| Some(name),
                    )
                }
                None => {
                    let dimensions = [session, named];
                    model.intern_track(
                        model.file_machine(),
                        TrackType::counter("perf_global_counter", &dimensions),
                        |_| Some(name),
                    )
                }
            };
            if is_new {
                model.say_of_track(track, &[("is_timebase", ArgValue::Bool(attr.is_timebase()))]);
            }
            Counter { track, sum: 0 }
        })
    }

    /// Nothing more comes.
    fn finish(self) {
        let tables = &mut self.model.tables;
        for (utid, ts) in self.ends {
            tables.thread.end_ts.set(utid.index(), Some(ts));
            let Some(upid) = tables.thread.upid.get(utid.index()) else { continue };
            if tables.process.pid.get(upid.index()) == tables.thread.tid.get(utid.index()) {
                tables.process.end_ts.set(upid.index(), Some(ts));
            }
        }
    }
}
