//! A plain event in its turn (upstream: track_event_event_importer.h).

use ferretto_trace_tables::tables::CounterRow;
use ferretto_trace_tables::{MachineId, SliceId, TrackId, Utid};

use super::names::LabelId;
use super::resolve::{Asker, Use, Whose};
use super::{Kind, Said, TrackEvent, Writer, WriterId};
use crate::args::{Arg, ArgList, ArgValue};
use crate::model::Model;
use crate::slices::{Label, Out};
use crate::stats::Stat;

/// The event has no place: it is counted, and left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoPlace;

impl Model {
    /// Applies an event of the time `ts`.
    pub fn apply_track_event(&mut self, ts: i64, event: TrackEvent) {
        let (machine, row) = self.descriptors.row_of_thread(event.track);
        self.stats.set_machine(machine);
        if self.crop.since.is_some_and(|since| ts < since) {
            return self.stats.count(Stat::TrackEventDroppedPacketsOutsideOfRangeOfInterest);
        }
        let applied = match event.kind() {
            Kind::Begin(said) => self.apply_begin(ts, &event, row, said),
            Kind::End(said) => self.apply_end(ts, &event, row, said),
            Kind::Instant(said) => self.apply_instant(ts, &event, row, said),
            Kind::Counter(value) => self.apply_counter(ts, &event, row, value),
            Kind::Whole(index) => self.apply_whole(ts, &event, index),
        };
        if applied.is_err() {
            self.stats.count(Stat::TrackEventParserErrors);
        }
    }

    #[inline]
    fn apply_begin(
        &mut self,
        ts: i64,
        event: &TrackEvent,
        row: Option<TrackId>,
        said: Said,
    ) -> Result<(), NoPlace> {
        let (track, args) = self.place(event, row, said, Use::Begin)?;
        let label = self.label_of(said.label, args);
        self.begin_event_slice(ts, track, label);
        Ok(())
    }

    #[inline]
    fn apply_end(
        &mut self,
        ts: i64,
        event: &TrackEvent,
        row: Option<TrackId>,
        said: Said,
    ) -> Result<(), NoPlace> {
        let (track, args) = self.place(event, row, said, Use::End)?;
        let label = self.label_of(said.label, args);
        let (slices, mut out) = self.slices();
        slices.end(&mut out, ts, track, label);
        Ok(())
    }

    #[inline]
    fn apply_instant(
        &mut self,
        ts: i64,
        event: &TrackEvent,
        row: Option<TrackId>,
        said: Said,
    ) -> Result<(), NoPlace> {
        let (track, args) = self.place(event, row, said, Use::Instant)?;
        let label = self.label_of(said.label, args);
        self.complete_event_slice(ts, 0, track, label);
        Ok(())
    }

    #[inline]
    fn apply_counter(
        &mut self,
        ts: i64,
        event: &TrackEvent,
        row: Option<TrackId>,
        value: f64,
    ) -> Result<(), NoPlace> {
        let said = Said { label: LabelId(0), args: ArgList::EMPTY };
        let (track_id, args) = self.place(event, row, said, Use::Plain)?;
        let arg_set_id = self.args.write(args, &mut self.tables);
        self.tables.counter.push(CounterRow { ts, track_id, value, arg_set_id });
        Ok(())
    }

    /// The row of the event's track, and all that is said of what happens there. A thread's own row, where it is known, says both.
    #[inline(always)]
    fn place(
        &mut self,
        event: &TrackEvent,
        row: Option<TrackId>,
        said: Said,
        what: Use,
    ) -> Result<(TrackId, ArgList), NoPlace> {
        match row {
            Some(track) => Ok((track, said.args)),
            None => self.find_place(event, said, what),
        }
    }

    fn find_place(
        &mut self,
        event: &TrackEvent,
        said: Said,
        what: Use,
    ) -> Result<(TrackId, ArgList), NoPlace> {
        let scope = self.scope_of(event.track).ok_or(NoPlace)?;
        let args = match scope.whose {
            Whose::Thread(_) => said.args,
            whose => self.args_beside_thread(event, whose, said.args),
        };
        if let Some(track) = self.descriptors.plain_row(event.track) {
            return Ok((track, args));
        }
        let (_, name) = self.labels.get(said.label);
        let has_first_packet = self.writer_of(event.writer()).map(|writer| writer.has_first_packet);
        let asker = Asker { name, has_first_packet };
        let track = self.row_for(event.track, asker, what).ok_or(NoPlace)?;
        Ok((track, args))
    }

    fn args_beside_thread(&mut self, event: &TrackEvent, whose: Whose, args: ArgList) -> ArgList {
        let machine = self.descriptors.machine_of(event.track);
        let Some(utid) = self.passthrough(machine, event.writer(), whose) else { return args };
        let key = self.tables.strings.intern("legacy_event.passthrough_utid");
        self.args.keep_first(key);
        if args.is_empty() {
            let arg = Arg { flat_key: key, key, value: ArgValue::Uint(u64::from(utid.0)) };
            return self.args.intern(&[arg]);
        }
        if self.args.get(args).iter().any(|arg| arg.key == key) {
            return args;
        }
        let arg = Arg { flat_key: key, key, value: ArgValue::Uint(u64::from(utid.0)) };
        self.args.with(args, arg)
    }

    /// The thread that wrote an event which is not on its track, for programs that read old events of threads.
    pub(super) fn passthrough(&mut self, machine: MachineId, writer: WriterId, whose: Whose) -> Option<Utid> {
        let thread = self.writer_of(writer)?.thread.get()?;
        let (tables, processes) = self.processes(machine);
        // Upstream cuts both numbers.
        let utid = processes.thread_of(tables, i64::from(thread.tid() as u32), i64::from(thread.pid as u32));
        match whose {
            Whose::Thread(_) => None,
            Whose::Process(upid) => (tables.thread.upid.get(utid.index()) == Some(upid)).then_some(utid),
            Whose::Nobody => Some(utid),
        }
    }

    pub(super) fn writer_of(&self, writer: WriterId) -> Option<&Writer> {
        self.waiting.writers.get(writer.0 as usize)
    }

    #[inline]
    fn label_of(&self, label: LabelId, args: ArgList) -> Label {
        let (category, name) = self.labels.get(label);
        Label { category, name, args }
    }

    /// Begins a slice; flows that wait for one go to it.
    #[inline]
    pub(super) fn begin_event_slice(&mut self, ts: i64, track: TrackId, label: Label) -> Option<SliceId> {
        let (slices, mut out) = self.slices();
        let slice = slices.begin(&mut out, ts, track, label)?;
        self.on_slice(track, slice);
        Some(slice)
    }

    /// The same for one whose length is known.
    pub(super) fn complete_event_slice(
        &mut self,
        ts: i64,
        dur: i64,
        track: TrackId,
        label: Label,
    ) -> Option<SliceId> {
        let (slices, mut out) = self.slices();
        let slice = slices.complete(&mut out, ts, dur, track, label)?;
        self.on_slice(track, slice);
        Some(slice)
    }

    #[inline]
    fn on_slice(&mut self, track: TrackId, slice: SliceId) {
        let mut out = Out { tables: &mut self.tables, args: &mut self.args, stats: &mut self.stats };
        self.flows.on_begin(&mut out, track, slice);
    }
}
