//! Samples of `linux.perf`, and the counters that were read with them (upstream: profile_module.cc, perf_sample_tracker.cc).
//!
//! Each sequence of packets is a session. What is sampled is a counter of each processor: its track, and those of the counters that are read
//! with it, are made at the first sample of that processor.

use std::rc::Rc;

use ferretto_protos::fields::{perf_sample as field, perf_sample_defaults, trace_packet_defaults};
use ferretto_trace_tables::tables::{ProfilerSampleRow, ProfilerSessionRow};
use ferretto_trace_tables::{MachineId, SessionId, Str, TrackId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::perf_counters;
use super::samples::CounterSet;
use crate::args::{Arg, ArgValue};
use crate::counters::TrackType;
use crate::event::WholePacket;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// Sessions, by sequence.
#[derive(Debug, Default)]
pub struct Sessions {
    sessions: HashMap<(MachineId, u32), Session, RandomState>,
}

#[derive(Debug)]
struct Session {
    id: SessionId,
    /// The tracks of each processor's counters, the one that is sampled by first.
    tracks: HashMap<u32, Rc<[TrackId]>, RandomState>,
}

/// Why a sample has no stack: `PerfSample.SampleSkipReason`.
mod skipped {
    pub(super) const READ_STAGE: u64 = 1;
    pub(super) const UNWIND_STAGE: u64 = 2;
    pub(super) const UNWIND_ENQUEUE: u64 = 3;
}

/// `PerfSample.ProducerEvent.DataSourceStopReason`.
const STOPPED_BY_GUARDRAIL: u64 = 1;

/// `Profiling.CpuMode`, from 1.
const MODES: [&str; 5] = ["kernel", "user", "hypervisor", "guest_kernel", "guest_user"];

/// `Profiling.StackUnwindError`.
const UNWIND_ERRORS: [&str; 16] = [
    "unknown",
    "none",
    "memory_invalid",
    "unwind_info",
    "unsupported",
    "invalid_map",
    "max_frames_exceeded",
    "repeated_frame",
    "invalid_elf",
    "system_call",
    "thread_timeout",
    "thread_does_not_exist",
    "bad_arch",
    "maps_parse",
    "invalid_parameter",
    "ptrace_call",
];

/// `PerfSample`.
#[derive(Default)]
struct Sample {
    cpu: Option<u32>,
    pid: u32,
    tid: u32,
    mode: u64,
    callstack_iid: Option<u64>,
    unwind_error: Option<u64>,
    timebase_count: Option<u64>,
    records_lost: u64,
    skipped: Option<u64>,
    stopped: Option<u64>,
}

impl Model {
    pub(super) fn apply_perf_sample(&mut self, ts: i64, packet: &WholePacket) {
        let sample = Sample::read(&packet.data);
        let cpu = sample.cpu.unwrap_or(0);
        let session = self.perf_tracks(packet, cpu);
        if sample.records_lost > 0 {
            let lost = i64::try_from(sample.records_lost).unwrap_or(i64::MAX);
            return self.stats.add(Stat::PerfCpuLostRecords, Some(i64::from(cpu)), lost);
        }
        if let Some(reason) = sample.stopped {
            if reason == STOPPED_BY_GUARDRAIL {
                self.stats.set(Stat::PerfGuardrailStopTs, Some(i64::from(session.0)), ts);
            }
            return;
        }
        match sample.skipped {
            Some(skipped::READ_STAGE | skipped::UNWIND_STAGE) => self.stats.count(Stat::PerfSamplesSkipped),
            Some(skipped::UNWIND_ENQUEUE) => self.stats.count(Stat::PerfSamplesSkippedDataloss),
            // Of a process that was not asked for: its counters count.
            _ => {}
        }
        let counter_set_id = self.push_perf_counters(ts, packet, cpu, &sample);
        let machine = packet.origin.machine;
        let (tables, processes) = self.processes(machine);
        let (tid, pid) = (i64::from(sample.tid), i64::from(sample.pid));
        let utid = processes.thread_of(tables, tid, pid);
        let upid = processes.process(tables, pid);
        let callsite_id =
            sample.callstack_iid.and_then(|iid| self.interned_callsite(&packet.state, Some(upid), iid));
        let Self { tables, profiles, cpus, .. } = self;
        let mode = named(tables, &MODES, sample.mode.checked_sub(1));
        let ucpu = sample.cpu.map(|cpu| cpus.get(machine, cpu));
        let has_context = ucpu.is_some() || mode.is_some();
        let row = ProfilerSampleRow {
            ts,
            source: Some(tables.strings.intern("linux.perf")),
            task_context_id: Some(profiles.contexts.task(tables, Some(upid), Some(utid), None)),
            execution_context_id: has_context.then(|| profiles.contexts.execution(tables, ucpu, mode)),
            callsite_id,
            unwind_error: sample.unwind_error.and_then(|it| {
                named(tables, &UNWIND_ERRORS, Some(it)).or(named(tables, &UNWIND_ERRORS, Some(0)))
            }),
            session_id: Some(session),
            counter_set_id,
        };
        tables.profiler_sample.push(row);
    }

    fn push_perf_counters(
        &mut self,
        ts: i64,
        packet: &WholePacket,
        cpu: u32,
        sample: &Sample,
    ) -> Option<u32> {
        let sessions = &self.profiles.perf.sessions;
        let session = sessions.get(&(packet.origin.machine, packet.origin.sequence_id))?;
        let tracks = session.tracks.get(&cpu)?.clone();
        let (timebase, followers) = tracks.split_first()?;
        let mut set = CounterSet::default();
        if let Some(count) = sample.timebase_count {
            let counter = self.push_counter(ts, *timebase, count as f64);
            set.push(&mut self.tables, counter);
        }
        let counts = wire::all_numbers(&packet.data, field::FOLLOWER_COUNTS);
        for (track, count) in followers.iter().zip(counts) {
            let counter = self.push_counter(ts, *track, count as f64);
            set.push(&mut self.tables, counter);
        }
        set.number()
    }

    /// The session of a packet, with tracks for this processor.
    fn perf_tracks(&mut self, packet: &WholePacket, cpu: u32) -> SessionId {
        let origin = &packet.origin;
        let tables = &mut self.tables;
        let session =
            self.profiles.perf.sessions.entry((origin.machine, origin.sequence_id)).or_insert_with(|| {
                let source = Some(tables.strings.intern("linux.perf"));
                let row = ProfilerSessionRow { source, ..ProfilerSessionRow::default() };
                let id = SessionId(tables.profiler_session.push(row));
                Session { id, tracks: HashMap::default() }
            });
        let id = session.id;
        if session.tracks.contains_key(&cpu) {
            return id;
        }
        let defaults = packet.state.defaults().message.clone();
        let said =
            defaults.as_deref().and_then(|all| wire::bytes(all, trace_packet_defaults::PERF_SAMPLE_DEFAULTS));
        let counters = perf_counters::of_stream(said, &mut self.tables);
        if let Some(unit) = counters.first().and_then(|timebase| timebase.unit)
            && let Some(cell) = self.tables.profiler_session.timebase_unit.get_mut(id.index())
        {
            cell.get_or_insert(unit);
        }
        let tracks: Rc<[TrackId]> = counters
            .iter()
            .enumerate()
            .map(|(at, counter)| self.perf_track(origin.machine, cpu, id, counter.name, at == 0))
            .collect();
        if let Some(session) = self.profiles.perf.sessions.get_mut(&(origin.machine, origin.sequence_id)) {
            session.tracks.insert(cpu, tracks);
        }
        self.count_shards(said, id);
        id
    }

    fn perf_track(
        &mut self,
        machine: MachineId,
        cpu: u32,
        session: SessionId,
        name: Str,
        is_timebase: bool,
    ) -> TrackId {
        let dimensions = [
            ("cpu", ArgValue::Int(i64::from(cpu))),
            ("perf_session_id", ArgValue::Int(i64::from(session.0))),
            ("name", ArgValue::Text(name)),
        ];
        let tracks = self.tables.track.len();
        let id = self.track(machine, TrackType::counter("perf_cpu_counter", &dimensions), |_| name);
        if self.tables.track.len() != tracks {
            let key = self.tables.strings.intern("is_timebase");
            let args = self.args.intern(&[Arg { flat_key: key, key, value: ArgValue::Bool(is_timebase) }]);
            let set = self.args.write(args, &mut self.tables);
            self.tables.track.source_arg_set_id.set(id.index(), set);
        }
        id
    }

    /// Of a recording that takes one process in so many.
    fn count_shards(&mut self, said: Option<&[u8]>, session: SessionId) {
        let number = |field| said.and_then(|said| wire::number(said, field)).unwrap_or(0) as i64;
        let shards = number(perf_sample_defaults::PROCESS_SHARD_COUNT);
        if shards > 0 {
            let index = Some(i64::from(session.0));
            self.stats.set(Stat::PerfProcessShardCount, index, shards);
            let chosen = number(perf_sample_defaults::CHOSEN_PROCESS_SHARD);
            self.stats.set(Stat::PerfChosenProcessShard, index, chosen);
        }
    }
}

fn named(
    tables: &mut ferretto_trace_tables::Tables,
    names: &[&'static str],
    number: Option<u64>,
) -> Option<Str> {
    let name = names.get(usize::try_from(number?).ok()?)?;
    Some(tables.strings.intern(name))
}

impl Sample {
    fn read(message: &[u8]) -> Self {
        let mut sample = Self::default();
        for part in wire::fields(message) {
            if part.number == field::PRODUCER_EVENT {
                let event = part.value.as_bytes().unwrap_or_default();
                sample.stopped =
                    Some(wire::number(event, field::producer_event::SOURCE_STOP_REASON).unwrap_or(0));
            }
            let Some(number) = part.value.as_u64() else { continue };
            match part.number {
                field::CPU => sample.cpu = Some(number as u32),
                field::PID => sample.pid = number as u32,
                field::TID => sample.tid = number as u32,
                field::CPU_MODE => sample.mode = number,
                field::CALLSTACK_IID => sample.callstack_iid = Some(number),
                field::UNWIND_ERROR => sample.unwind_error = Some(number),
                field::TIMEBASE_COUNT => sample.timebase_count = Some(number),
                field::KERNEL_RECORDS_LOST => sample.records_lost = number,
                field::SAMPLE_SKIPPED_REASON => sample.skipped = Some(number),
                _ => {}
            }
        }
        sample
    }
}
