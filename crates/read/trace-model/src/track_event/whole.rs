//! An event that was kept whole, in its turn (upstream: track_event_event_importer.h).

use ferretto_protos::fields::{trace_packet_defaults, track_event as field};
use ferretto_trace_tables::tables::{CounterRow, LogRow, TrackEventCallstacksRow};
use ferretto_trace_tables::{CallsiteId, SliceId, Str, TrackId, Upid, Utid};

use super::apply::NoPlace;
use super::descriptor::{DEFAULT_UUID, TrackRef};
use super::fields::{EventFields, LegacyFields, event_type, extra_uuids, numbers};
use super::names::{self, Found};
use super::resolve::{Asker, Use, Whose, is_synthetic_tid, synthetic_tid};
use super::said::{Log, Native, Reader, Turn};
use super::{TrackEvent, WholeEvent, WriterId};
use crate::args::{Arg, ArgList, ArgValue};
use crate::model::Model;
use crate::profiles::inline::{Bringer, Callstack};
use crate::sequence::Generation;
use crate::slices::{Label, Out};
use crate::stats::Stat;
use crate::tracks::TrackType;
use crate::wire::{bytes as bytes_of, number};

/// An event in its turn, and what was found out of it so far.
#[derive(Debug)]
pub(super) struct InTurn<'a> {
    pub ts: i64,
    pub whole: &'a WholeEvent,
    pub fields: EventFields<'a>,
    pub legacy: LegacyFields<'a>,
    pub track: TrackRef,
    pub uuid: u64,
    pub writer: WriterId,
    pub category: Option<Str>,
    pub name: Option<Str>,
    pub utid: Option<Utid>,
    pub upid: Option<Upid>,
    pub passthrough: Option<Utid>,
    /// It is on the track of its sequence's thread, for it names none.
    pub falls_back: bool,
    pub thread_ts: Option<i64>,
    pub instructions: Option<i64>,
    /// The number of its track of the old kind.
    pub source_id: Option<i64>,
    /// Its call stack, once its arguments were read.
    pub callsite: Option<CallsiteId>,
}

/// What a slice of an event does, by its phase or its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Begin,
    End,
    Instant,
    Complete,
    Flow(char),
    AsyncStep,
    Metadata,
    Other,
}

impl Model {
    pub(super) fn apply_whole(&mut self, ts: i64, event: &TrackEvent, index: u32) -> Result<(), NoPlace> {
        let place = self.waiting.whole.get_mut(index as usize);
        let Some(whole) = place.and_then(Option::take) else { return Ok(()) };
        let fields = EventFields::read(&whole.message);
        let legacy = fields.legacy.map(LegacyFields::read).unwrap_or_default();
        if fields.kind.unwrap_or(0) == 0 && legacy.phase.is_none() {
            return Err(NoPlace);
        }
        let iid = if fields.name_iid != 0 { fields.name_iid } else { legacy.name_iid };
        let strings = &mut self.tables.strings;
        let name = match names::name(&fields, iid, &whole.state, strings) {
            Found::Known(name) => name,
            Found::Missing if whole.state.is_doubtful => Some(strings.intern(&format!("unknown({iid})"))),
            Found::Missing => None,
        };
        let is_missing = matches!(names::category(&fields, &whole.state, strings), Found::Missing);
        let missing = i64::from(is_missing && fields.categories.count == 1)
            + i64::from(matches!(names::name(&fields, iid, &whole.state, strings), Found::Missing));
        if missing != 0 {
            self.stats.add(Stat::InternedDataTokenizerErrors, None, missing);
        }
        let category = names::category_in_turn(&fields, &whole.state, &mut self.tables.strings);
        let it = InTurn {
            ts,
            whole: &whole,
            fields,
            legacy,
            track: event.track,
            uuid: self.descriptors.uuid_of(event.track),
            writer: event.writer(),
            category,
            name,
            utid: None,
            upid: None,
            passthrough: None,
            falls_back: false,
            thread_ts: whole.thread_ts,
            instructions: whole.instructions,
            source_id: None,
            callsite: None,
        };
        self.import(it)
    }

    fn import(&mut self, mut it: InTurn<'_>) -> Result<(), NoPlace> {
        self.find_people(&mut it)?;
        self.scope_by_phase(&mut it)?;
        self.add_thread_counters(&it);
        self.add_extra_counters(&mut it);
        match it.fields.kind {
            Some(event_type::COUNTER) => return self.import_counter(&mut it),
            Some(event_type::STATE) => return self.import_state(&mut it),
            _ => {}
        }
        match it.phase() {
            Phase::Begin => self.import_begin(&mut it),
            Phase::End => self.import_end(&mut it),
            Phase::Instant => self.import_instant(&mut it),
            Phase::Complete => self.import_complete(&mut it),
            Phase::Flow(phase) => self.import_old_flow(&mut it, phase),
            Phase::AsyncStep => self.import_step(&mut it),
            Phase::Metadata => self.import_metadata(&it),
            // Upstream keeps it for those who write Chrome's JSON again.
            Phase::Other => it.utid.map(|_| ()).ok_or(NoPlace),
        }
    }

    /// Whose the event is.
    fn find_people(&mut self, it: &mut InTurn<'_>) -> Result<(), NoPlace> {
        let machine = it.whole.machine;
        if it.uuid != DEFAULT_UUID {
            let scope = self.scope_of(it.track).ok_or(NoPlace)?;
            match scope.whose {
                Whose::Thread(utid) => {
                    it.utid = Some(utid);
                    it.upid = self.tables.thread.upid.get(utid.index());
                }
                Whose::Process(upid) => it.upid = Some(upid),
                Whose::Nobody => {}
            }
            it.passthrough = match scope.whose {
                Whose::Thread(_) => None,
                whose => self.passthrough(machine, it.writer, whose),
            };
            return Ok(());
        }
        let thread = self.writer_of(it.writer).and_then(|writer| writer.thread.get());
        let legacy = &it.legacy;
        it.falls_back = legacy.pid_override.is_some()
            || thread.is_some()
                && (it.fields.track_uuid.is_none()
                    || it.fields.kind.is_none()
                    || legacy.tid_override.is_some());
        if !it.falls_back {
            return Ok(());
        }
        let own_tid = thread.map_or(0, |thread| thread.tid());
        let mut pid = thread.map_or(0, |thread| i64::from(thread.pid as u32));
        let mut tid = own_tid;
        if let Some(other) = legacy.pid_override {
            pid = i64::from(other as u32);
            tid = synthetic_tid(-1, pid);
        }
        if let Some(other) = legacy.tid_override {
            tid = i64::from(other as u32);
            if is_synthetic_tid(own_tid) {
                tid = synthetic_tid(tid, pid);
            }
        }
        if pid == 0 || tid == 0 {
            return Err(NoPlace);
        }
        let (tables, processes) = self.processes(machine);
        let utid = processes.thread_of(tables, tid, pid);
        it.utid = Some(utid);
        it.upid = tables.thread.upid.get(utid.index());
        Ok(())
    }

    /// Counters of the thread itself, which old events bring with them.
    fn add_thread_counters(&mut self, it: &InTurn<'_>) {
        let Some(utid) = it.utid else { return };
        for (value, type_, name) in [
            (it.thread_ts, "thread_time", "thread_time"),
            (it.instructions, "thread_instructions", "thread_instruction_count"),
        ] {
            let Some(value) = value else { continue };
            let dimensions = [("utid", ArgValue::Int(utid.0.into()))];
            let track = TrackType::counter(type_, &dimensions);
            let track = self.track(it.whole.machine, track, |strings| strings.intern(name));
            self.push_counter(it.ts, track, value as f64);
        }
    }

    /// Other counters that the event brings; those of the thread's time and instructions are columns of its slice, too.
    fn add_extra_counters(&mut self, it: &mut InTurn<'_>) {
        if it.whole.extra_counters.is_empty() {
            return;
        }
        let message = it.whole.message.as_ref();
        let defaults = it.whole.state.defaults().message.clone();
        let defaults = defaults.as_deref().unwrap_or_default();
        let defaults = bytes_of(defaults, trace_packet_defaults::TRACK_EVENT_DEFAULTS).unwrap_or_default();
        let ints = numbers(message, field::EXTRA_COUNTER_VALUES).count();
        let uuids = extra_uuids(message, defaults, false).into_iter().take(ints);
        let uuids: Vec<u64> = uuids.chain(extra_uuids(message, defaults, true)).collect();
        let has_first_packet = self.has_first_packet(it);
        for (uuid, value) in uuids.into_iter().zip(it.whole.extra_counters.iter().copied()) {
            let track = self.descriptors.slot(it.whole.machine, uuid);
            let asker = Asker { name: None, has_first_packet };
            let Some(track_id) = self.row_for(track, asker, Use::Plain) else { continue };
            self.push_counter(it.ts, track_id, value);
            let name = self.tables.track.name.get(track_id.index()).copied().flatten();
            match name.map(|name| self.tables.strings.get(name)) {
                Some("thread_time") => it.thread_ts = Some(value as i64),
                Some("thread_instruction_count") => it.instructions = Some(value as i64),
                _ => {}
            }
        }
    }

    fn import_counter(&mut self, it: &mut InTurn<'_>) -> Result<(), NoPlace> {
        let track_id = self.row_in_turn(it, Use::Plain)?;
        let value = it.whole.counter;
        let args = self.said_in_turn(it, ArgList::EMPTY, None);
        let arg_set_id = self.args.write(args, &mut self.tables);
        self.tables.counter.push(CounterRow { ts: it.ts, track_id, value, arg_set_id });
        Ok(())
    }

    fn import_state(&mut self, it: &mut InTurn<'_>) -> Result<(), NoPlace> {
        if it.uuid == DEFAULT_UUID && it.falls_back {
            return Err(NoPlace);
        }
        let is_state = self.descriptors.get(it.track).is_some_and(|descriptor| descriptor.is_state);
        let track = self.row_in_turn(it, Use::Plain)?;
        if !is_state {
            return Err(NoPlace);
        }
        let args = match it.name {
            Some(_) => self.said_in_turn(it, ArgList::EMPTY, None),
            None => ArgList::EMPTY,
        };
        self.set_state(it.ts, track, it.name, it.category, args);
        Ok(())
    }

    fn import_begin(&mut self, it: &mut InTurn<'_>) -> Result<(), NoPlace> {
        let track = self.row_in_turn(it, Use::Begin)?;
        let Some(slice) = self.begin_event_slice(it.ts, track, it.label()) else { return Ok(()) };
        let phase = (it.legacy.phase == Some('S' as i32)).then_some('S');
        self.say(it, track, phase);
        if it.is_on_thread() {
            self.set_thread_columns(it, slice, None);
        }
        self.add_flows(it, slice);
        self.add_callstack(it, slice, track);
        Ok(())
    }

    fn import_end(&mut self, it: &mut InTurn<'_>) -> Result<(), NoPlace> {
        let track = self.row_in_turn(it, Use::End)?;
        let mut label = it.label();
        if let Some(args) = self.slices().0.args_to_end(it.ts, track, label) {
            label.args = self.said_in_turn(it, args, None);
        }
        let (slices, mut out) = self.slices();
        let Some(slice) = slices.end(&mut out, it.ts, track, label) else { return Ok(()) };
        self.add_flows(it, slice);
        self.add_callstack(it, slice, track);
        if !it.is_on_thread() {
            return Ok(());
        }
        let row = slice.index();
        let columns = &mut self.tables.slice;
        if let (Some(begin), Some(end)) = (columns.thread_ts.get(row), it.thread_ts)
            && begin != end
        {
            columns.thread_dur.set(row, Some(end.wrapping_sub(begin)));
        }
        if let (Some(begin), Some(end)) = (columns.thread_instruction_count.get(row), it.instructions) {
            columns.thread_instruction_delta.set(row, Some(end.wrapping_sub(begin)));
        }
        Ok(())
    }

    fn import_instant(&mut self, it: &mut InTurn<'_>) -> Result<(), NoPlace> {
        let track = self.row_in_turn(it, Use::Instant)?;
        let Some(slice) = self.complete_event_slice(it.ts, 0, track, it.label()) else { return Ok(()) };
        let phase = (it.legacy.phase == Some('R' as i32)).then_some('R');
        self.say(it, track, phase);
        if it.is_on_thread() {
            self.set_thread_columns(it, slice, Some((0, 0)));
        }
        self.add_flows(it, slice);
        self.add_callstack(it, slice, track);
        Ok(())
    }

    /// The thread's processor time and instructions when a slice began, and meanwhile if that is known.
    pub(super) fn set_thread_columns(
        &mut self,
        it: &InTurn<'_>,
        slice: SliceId,
        meanwhile: Option<(i64, i64)>,
    ) {
        let (row, columns) = (slice.index(), &mut self.tables.slice);
        if it.thread_ts.is_some() {
            columns.thread_ts.set(row, it.thread_ts);
            if let Some((dur, _)) = meanwhile {
                columns.thread_dur.set(row, Some(dur));
            }
        }
        if it.instructions.is_some() {
            columns.thread_instruction_count.set(row, it.instructions);
            if let Some((_, delta)) = meanwhile {
                columns.thread_instruction_delta.set(row, Some(delta));
            }
        }
    }

    /// Adds the event's arguments to the slice that it has begun.
    pub(super) fn say(&mut self, it: &mut InTurn<'_>, track: TrackId, phase: Option<char>) {
        let args = self.said_in_turn(it, ArgList::EMPTY, phase);
        self.slices().0.set_args(track, args);
    }

    /// The event's arguments, where a slice has `before` already.
    fn said_in_turn(&mut self, it: &mut InTurn<'_>, before: ArgList, phase: Option<char>) -> ArgList {
        if it.fields.has_typed {
            self.args.translations.know_keys(&mut self.tables.strings);
        }
        let strings = &mut self.tables.strings;
        let mut reader = Reader::new(strings, &it.whole.state, &mut self.said, &mut self.pool);
        reader.go_on_from(&self.args.get(before));
        let turn = Turn { has_thread: it.utid.is_some(), source_id: it.source_id };
        reader.read_event(&it.whole.message, Some(turn));
        if let Some(utid) = it.passthrough {
            reader.add_passthrough(utid);
        }
        let (failures, unknown, missing, log) =
            (reader.failures, reader.unknown_fields, reader.missing, reader.log);
        let native = reader.native;
        let mut args = reader.args().to_vec();
        if let Some(native) = native {
            self.find_mapping(&it.whole.state, native, &mut args);
        }
        if it.whole.state.is_doubtful {
            let key = self.tables.strings.intern("ferretto.after_loss");
            args.push(Arg { flat_key: key, key, value: ArgValue::Bool(true) });
        }
        if let Some(phase) = phase {
            let key = self.tables.strings.intern("legacy_event.phase");
            let phase = self.tables.strings.intern(phase.encode_utf8(&mut [0; 4]));
            args.push(Arg { flat_key: key, key, value: ArgValue::Text(phase) });
        }
        let stack = self.callsite_in_turn(it);
        let failures = failures + u32::from(stack.is_err());
        for (stat, count) in [
            (Stat::TrackEventParserErrors, failures),
            (Stat::UnknownExtensionFields, unknown),
            (Stat::InternedDataTokenizerErrors, missing),
        ] {
            if count != 0 {
                self.stats.add(stat, None, count.into());
            }
        }
        if let Some(log) = log {
            self.add_log(it, log);
        }
        self.args.intern(&args)
    }

    /// The row of the mapping that a method lies in; without one its number stands for it.
    fn find_mapping(&mut self, state: &Generation, native: Native, args: &mut Vec<Arg>) {
        let mapping = self.interned_mapping(state, native.mapping_iid);
        let Some(arg) = args.get_mut(native.at) else { return };
        match mapping {
            Some(mapping) => arg.value = ArgValue::Uint(mapping.0.into()),
            None => {
                let key = self.tables.strings.intern("chrome_mojo_event_info.mojo_interface_method_iid");
                *arg = Arg { flat_key: key, key, value: ArgValue::Uint(native.iid) };
                args.remove(native.at + 1);
            }
        }
    }

    /// The event's call stack.
    fn callsite_in_turn(&mut self, it: &mut InTurn<'_>) -> Result<(), NoPlace> {
        let message = it.whole.message.as_ref();
        let stack = match (number(message, field::CALLSTACK_IID), bytes_of(message, field::CALLSTACK)) {
            (Some(iid), _) => Callstack::Interned(iid),
            (None, Some(inline)) => Callstack::Inline(inline),
            (None, None) => return Ok(()),
        };
        it.callsite = self.callsite_of(stack, Bringer::TrackEvent, it.upid, &it.whole.state);
        match (it.callsite, stack) {
            (None, Callstack::Interned(_)) => Err(NoPlace),
            _ => Ok(()),
        }
    }

    /// The row for the event's call stack.
    pub(super) fn add_callstack(&mut self, it: &InTurn<'_>, slice_id: SliceId, track_id: TrackId) {
        if it.callsite.is_none() {
            return;
        }
        let is_end = it.fields.kind == Some(event_type::SLICE_END);
        let weight = number(&it.whole.message, field::CALLSTACK_WEIGHT).map(f64::from_bits);
        self.tables.track_event_callstacks.push(TrackEventCallstacksRow {
            slice_id,
            track_id,
            callsite_id: it.callsite.filter(|_| !is_end),
            end_callsite_id: it.callsite.filter(|_| is_end),
            weight,
        });
    }

    fn add_log(&mut self, it: &InTurn<'_>, log: Log) {
        let row = LogRow {
            ts: it.ts,
            utid: it.utid,
            prio: log.priority,
            log_source: Some(self.tables.strings.intern("android_logcat")),
            tag: log.place,
            msg: Some(log.text),
            ..LogRow::default()
        };
        self.tables.logs.push(row);
    }

    pub(super) fn has_first_packet(&self, it: &InTurn<'_>) -> Option<bool> {
        self.writer_of(it.writer).map(|writer| writer.has_first_packet)
    }

    /// The flows of an event, from or to its slice.
    pub(super) fn add_flows(&mut self, it: &InTurn<'_>, slice: SliceId) {
        let mut out = Out { tables: &mut self.tables, args: &mut self.args, stats: &mut self.stats };
        let flows = &mut self.flows;
        if let Some(id) = it.legacy.bind_id {
            match it.legacy.flow_direction {
                Some(1) => flows.end(&mut out, slice, id, false),
                Some(2) => flows.begin(&mut out, slice, id),
                Some(3) => flows.step(&mut out, slice, id),
                _ => out.stats.count(Stat::FlowWithoutDirection),
            }
        }
        let message = it.whole.message.as_ref();
        let ids = |new: u32, old: u32| {
            let mut ids: Vec<u64> = numbers(message, new).collect();
            if ids.is_empty() {
                ids.extend(numbers(message, old));
            }
            ids
        };
        for id in ids(field::FLOW_IDS, field::FLOW_IDS_OLD) {
            match flows.is_active(id) {
                true => flows.step(&mut out, slice, id),
                false => flows.begin(&mut out, slice, id),
            }
        }
        for id in ids(field::TERMINATING_FLOW_IDS, field::TERMINATING_FLOW_IDS_OLD) {
            if flows.is_active(id) {
                flows.end(&mut out, slice, id, true);
            }
        }
    }
}

impl InTurn<'_> {
    pub(super) fn label(&self) -> Label {
        Label { category: self.category, name: self.name, args: ArgList::EMPTY }
    }

    /// Columns of threads are those of events on threads' tracks, not of the old asynchronous ones.
    fn is_on_thread(&self) -> bool {
        self.utid.is_some() && !self.is_old_async()
    }

    pub(super) fn is_old_async(&self) -> bool {
        matches!(self.old_phase(), Some('b' | 'e' | 'n' | 'S' | 'T' | 'p' | 'F'))
    }

    pub(super) fn old_phase(&self) -> Option<char> {
        self.legacy.phase.map(|phase| char::from(phase as u8))
    }

    fn phase(&self) -> Phase {
        match (self.old_phase(), self.fields.kind) {
            (Some('B' | 'b' | 'S'), _) | (None, Some(event_type::SLICE_BEGIN)) => Phase::Begin,
            (Some('E' | 'e' | 'F'), _) | (None, Some(event_type::SLICE_END)) => Phase::End,
            (Some('i' | 'I' | 'R' | 'n'), _) | (None, Some(event_type::INSTANT)) => Phase::Instant,
            (Some('X'), _) => Phase::Complete,
            (Some(phase @ ('s' | 't' | 'f')), _) => Phase::Flow(phase),
            (Some('T' | 'p'), _) => Phase::AsyncStep,
            (Some('M'), _) => Phase::Metadata,
            _ => Phase::Other,
        }
    }
}
