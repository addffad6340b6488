//! An event out of its packet, in the order of the file (upstream: track_event_tokenizer.cc).

use ferretto_protos::fields::{thread_descriptor, trace_packet_defaults, track_event as field};
use ferretto_trace_read::Head;
use ferretto_trace_tables::MachineId;

use super::descriptor::{self, Message, TrackRef};
use super::fields::{EventFields, OldTime, event_type, extra_uuids, numbers, repeated};
use super::names::{self, Found, LabelId};
use super::running::Thread;
use super::said::Reader;
use super::{Kind, Said, TrackEvent, WholeEvent, Writer, WriterId};
use crate::clocks::{Clock, Machine};
use crate::model::Model;
use crate::sequence::{Generation, Sequence};
use crate::stats::Stat;
use crate::wire;

/// Values of other counters that an event may bring. Upstream's.
const MAX_EXTRA_COUNTERS: usize = 8;

/// `BUILTIN_CLOCK_MONOTONIC`: what old events say their times by.
const MONOTONIC: u32 = 3;

impl Model {
    /// Reads `TracePacket.track_event`, and says when it happened. `ts` is the packet's time if it says one.
    pub fn arrive_track_event(
        &mut self,
        message: &[u8],
        head: &Head<'_>,
        ts: Option<i64>,
        sequence: &mut Sequence,
        machine: MachineId,
    ) -> Option<(i64, TrackEvent)> {
        if !head.is_on_sequence {
            self.stats.count(Stat::TrackEventMissingSequenceId);
            return None;
        }
        let mut fields = EventFields::default();
        fields.fill(message);
        let (ts, is_monotonic) = self.check(event_time(&fields, ts, sequence))?;
        let ts = match is_monotonic {
            true => self.to_trace_time(Clock::of_machine(MONOTONIC, Machine(machine.0)), ts).unwrap_or(ts),
            false => ts,
        };
        let thread_ts = match fields.thread_time {
            None => None,
            Some(OldTime::Absolute(us)) => Some(us.saturating_mul(1000)),
            Some(OldTime::Delta(us)) => {
                let ts = sequence.running.thread_ts_after(us.saturating_mul(1000));
                Some(self.check(ts.ok_or(Stat::TrackEventSkippedThreadTimeDeltaWithoutValidState))?)
            }
        };
        let instructions = match fields.instructions {
            None => None,
            Some(OldTime::Absolute(count)) => Some(count),
            Some(OldTime::Delta(count)) => {
                let count = sequence.running.instructions_after(count);
                Some(self.check(count.ok_or(Stat::TrackEventSkippedThreadInstructionDeltaWithoutValidState))?)
            }
        };
        let default = sequence.generation().defaults().track_uuid;
        let uuid = fields.track_uuid.or(default);
        let counter = match fields.kind {
            Some(event_type::COUNTER) => self.counter_value(&fields, uuid, sequence, machine)?,
            Some(event_type::STATE) if uuid.is_none() => {
                self.stats.count(Stat::TrackEventStateMissingTrackUuid);
                return None;
            }
            _ => 0.0,
        };
        let extra_counters = match fields.has_extra_counters {
            true => self.extra_counters(message, sequence, machine)?,
            false => Vec::new(),
        };
        let uuid = uuid.unwrap_or(descriptor::DEFAULT_UUID);
        let track = self.descriptors.slot(machine, uuid);
        let writer = self.writer(sequence);
        let is_plain = !fields.is_rare
            && uuid != descriptor::DEFAULT_UUID
            && !sequence.generation().is_doubtful
            && thread_ts.is_none()
            && instructions.is_none();
        let state = sequence.generation();
        let plain = if is_plain { self.plain(&fields, writer, state, counter) } else { None };
        let kind = plain.unwrap_or_else(|| {
            self.keep_whole(WholeEvent {
                message: message.into(),
                state: state.clone(),
                machine,
                thread_ts,
                instructions,
                counter,
                extra_counters,
            })
        });
        Some((ts, TrackEvent::new(track, writer, kind)))
    }

    /// Reads `TracePacket.track_descriptor`. Whether its turn is to come, too.
    pub fn arrive_track_descriptor(
        &mut self,
        message: &[u8],
        head: &Head<'_>,
        sequence: &mut Sequence,
        machine: MachineId,
    ) -> bool {
        let message = Message::read(message);
        let Some(uuid) = message.uuid else {
            self.stats.count(Stat::TrackDescriptorMissingUuid);
            return false;
        };
        let descriptor = match message.descriptor(&mut self.tables.strings) {
            Ok(descriptor) => descriptor,
            Err(stat) => {
                self.stats.count(stat);
                return false;
            }
        };
        self.descriptors.reserve((machine, uuid), descriptor, (&mut self.tables, &mut self.stats));
        if let Some(pid) = head.trusted_pid {
            self.descriptors.set_trusted_pid(machine, uuid, i64::from(pid));
        }
        if let Some(thread) = message.thread.filter(|_| sequence.is_valid()) {
            set_thread(thread, message.is_sandboxed_tid(), sequence);
        }
        true
    }

    /// Reads `TracePacket.thread_descriptor`, which sequences said of themselves before there were tracks. Whether its turn is to come, too.
    pub fn arrive_thread_descriptor(
        &mut self,
        message: &[u8],
        head: &Head<'_>,
        sequence: &mut Sequence,
    ) -> bool {
        if !head.is_on_sequence {
            self.stats.count(Stat::ThreadDescriptorMissingSequenceId);
            return false;
        }
        if !sequence.is_valid() {
            self.stats.count(Stat::ThreadDescriptorSkippedIncrementalStateInvalid);
            return false;
        }
        set_thread(message, false, sequence);
        true
    }

    fn check<T>(&mut self, it: Result<T, Stat>) -> Option<T> {
        it.inspect_err(|stat| self.stats.count(*stat)).ok()
    }

    /// What of a plain event waits for its turn. Nothing if it is not as plain as that.
    #[inline]
    fn plain(
        &mut self,
        fields: &EventFields<'_>,
        writer: WriterId,
        state: &Generation,
        counter: f64,
    ) -> Option<Kind> {
        if fields.kind == Some(event_type::COUNTER) {
            return (!fields.has_annotations && !fields.has_typed).then_some(Kind::Counter(counter));
        }
        let label = self.plain_label(fields, writer, state)?;
        let is_end = fields.kind == Some(event_type::SLICE_END);
        let mut args = Default::default();
        if fields.has_annotations || fields.has_typed {
            let strings = &mut self.tables.strings;
            let mut reader = Reader::new(strings, state, &mut self.said, &mut self.pool);
            match fields.has_typed {
                true => reader.read_event(fields.message, None),
                false => reader.read_annotations(fields.message, Some(writer).filter(|it| !it.is_last())),
            }
            // What goes on from the begin's arguments is read when those are known.
            if reader.has_failed() || reader.needs_turn() || (is_end && reader.has_arrays()) {
                return None;
            }
            args = self.args.intern(reader.args());
        }
        let said = Said { label, args };
        match fields.kind {
            Some(event_type::SLICE_BEGIN) => Some(Kind::Begin(said)),
            Some(event_type::SLICE_END) => Some(Kind::End(said)),
            Some(event_type::INSTANT) => Some(Kind::Instant(said)),
            _ => None,
        }
    }

    /// The name and the categories, if all of it is known.
    #[inline]
    fn plain_label(
        &mut self,
        fields: &EventFields<'_>,
        writer: WriterId,
        state: &Generation,
    ) -> Option<LabelId> {
        let categories = &fields.categories;
        let is_by_number = categories.count <= 1 && categories.text.is_none() && fields.name.is_none();
        let (category_iid, name_iid) = (categories.iid.unwrap_or(0), fields.name_iid);
        if is_by_number && let Some(label) = self.labels.recent(writer.0, category_iid, name_iid) {
            return Some(label);
        }
        let strings = &mut self.tables.strings;
        let Found::Known(name) = names::name(fields, name_iid, state, strings) else { return None };
        let Found::Known(category) = names::category(fields, state, strings) else { return None };
        let label = self.labels.intern(category, name);
        if is_by_number && (categories.count == 0) == (category_iid == 0) && !writer.is_last() {
            self.labels.remember(writer.0, category_iid, name_iid, label);
        }
        Some(label)
    }

    #[cold]
    fn keep_whole(&mut self, event: WholeEvent) -> Kind {
        self.waiting.whole.push(Some(Box::new(event)));
        Kind::Whole(u32::try_from(self.waiting.whole.len() - 1).unwrap_or(u32::MAX))
    }

    /// Who writes this sequence's events now.
    #[inline]
    fn writer(&mut self, sequence: &Sequence) -> WriterId {
        let state = sequence.generation();
        if let Some(writer) = state.writer.get() {
            return writer;
        }
        let writer = Writer { thread: state.thread.clone(), has_first_packet: sequence.has_first_packet };
        let next = self.waiting.writers.len();
        self.waiting.writers.push(writer);
        let writer = WriterId(u32::try_from(next).unwrap_or(WriterId::MAX).min(WriterId::MAX));
        state.writer.set(Some(writer));
        writer
    }

    /// The value of the event's counter, in its unit, and as a sum if the program says differences.
    fn counter_value(
        &mut self,
        fields: &EventFields<'_>,
        uuid: Option<u64>,
        sequence: &mut Sequence,
        machine: MachineId,
    ) -> Option<f64> {
        let uuid = self.check(uuid.ok_or(Stat::TrackEventCounterMissingTrackUuid))?;
        let value = fields.counter_value.map(|value| value as f64).or(fields.double_counter_value);
        let value = self.check(value.ok_or(Stat::TrackEventCounterMissingValue))?;
        let track = self.descriptors.slot(machine, uuid);
        let value = self.absolute(track, uuid, value, sequence);
        self.check(value.ok_or(Stat::TrackEventCounterInvalidTrackUuid))
    }

    fn extra_counters(
        &mut self,
        event: &[u8],
        sequence: &mut Sequence,
        machine: MachineId,
    ) -> Option<Vec<f64>> {
        let state = sequence.generation().clone();
        let defaults = state.defaults().message.as_deref().unwrap_or_default();
        let defaults = wire::bytes(defaults, trace_packet_defaults::TRACK_EVENT_DEFAULTS);
        let mut out = Vec::new();
        for is_double in [false, true] {
            let values: Vec<f64> = match is_double {
                false => {
                    numbers(event, field::EXTRA_COUNTER_VALUES).map(|value| value as i64 as f64).collect()
                }
                true => repeated(event, field::EXTRA_DOUBLE_COUNTER_VALUES)
                    .filter_map(|value| value.as_u64().map(f64::from_bits))
                    .collect(),
            };
            if values.is_empty() {
                continue;
            }
            let uuids = extra_uuids(event, defaults.unwrap_or_default(), is_double);
            if uuids.is_empty() {
                self.stats.count(Stat::TrackEventExtraCounterMissingTrackUuids);
                return None;
            }
            for (at, value) in values.into_iter().enumerate() {
                let uuid = uuids.get(at).copied().filter(|uuid| *uuid != 0);
                let uuid = self.check(uuid.ok_or(Stat::TrackEventExtraCounterTrackUuidMismatch))?;
                if out.len() >= MAX_EXTRA_COUNTERS {
                    self.stats.count(Stat::TrackEventExtraCounterExceedsMax);
                    return None;
                }
                let track = self.descriptors.slot(machine, uuid);
                let value = self.absolute(track, uuid, value, sequence);
                out.push(self.check(value.ok_or(Stat::TrackEventExtraCounterInvalidTrack))?);
            }
        }
        Some(out)
    }

    pub(super) fn absolute(
        &self,
        track: TrackRef,
        uuid: u64,
        value: f64,
        sequence: &mut Sequence,
    ) -> Option<f64> {
        let counter = self.descriptors.get(track)?.counter?;
        let value = match counter.unit_multiplier {
            ..=0 => value,
            by => value * by as f64,
        };
        Some(match counter.is_incremental {
            true => sequence.running.counter_after(uuid, value),
            false => value,
        })
    }
}

/// When an event happened, and whether by the monotonic clock.
fn event_time(
    fields: &EventFields<'_>,
    of_packet: Option<i64>,
    sequence: &mut Sequence,
) -> Result<(i64, bool), Stat> {
    let (ts, is_monotonic) = match fields.timestamp {
        Some(OldTime::Delta(us)) => {
            let ts = sequence.running.ts_after(us.saturating_mul(1000));
            (ts.ok_or(Stat::TrackEventSkippedTimestampDeltaWithoutValidState)?, true)
        }
        Some(OldTime::Absolute(us)) => (us.saturating_mul(1000), true),
        None => (of_packet.ok_or(Stat::TrackEventMissingTimestamp)?, false),
    };
    if ts < 0 { Err(Stat::TrackEventInvalidTimestamp) } else { Ok((ts, is_monotonic)) }
}

/// The sequence's events are of this thread, and old times count from those that it says.
fn set_thread(message: &[u8], is_sandboxed: bool, sequence: &mut Sequence) {
    let number = |field| wire::number(message, field).unwrap_or(0) as i64;
    let thread = Thread {
        pid: number(thread_descriptor::PID) as i32,
        tid: number(thread_descriptor::TID),
        is_sandboxed,
    };
    sequence.generation().thread.set(Some(thread));
    sequence.running.begin(
        number(thread_descriptor::REFERENCE_TIMESTAMP_US).saturating_mul(1000),
        number(thread_descriptor::REFERENCE_THREAD_TIME_US).saturating_mul(1000),
        number(thread_descriptor::REFERENCE_THREAD_INSTRUCTION_COUNT),
    );
}
