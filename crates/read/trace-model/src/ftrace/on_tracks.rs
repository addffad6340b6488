//! Slices and values of counters that events of the kernel make: what all of the modules beside this one need.

use ferretto_trace_tables::tables::CounterRow;
use ferretto_trace_tables::{MachineId, SliceId, Str, Strings, TrackId, Utid};

use crate::args::{Arg, ArgList, ArgValue};
use crate::model::Model;
use crate::slices::Label;
use crate::track_sets::{Nesting, Place, SetKey};
use crate::tracks::{Blueprint, Dimension, Dimensions};

const EXECUTION: Blueprint = Blueprint::slice("thread_execution", OF_THREAD);

/// The dimensions of tracks that nothing tells apart.
pub(super) const NONE: &[Dimension] = &[];
/// Those of tracks of threads.
pub(super) const OF_THREAD: &[Dimension] = &[Dimension::Utid];
/// Those of tracks of processes.
pub(super) const OF_PROCESS: &[Dimension] = &[Dimension::Upid];
/// Those of tracks of processors.
pub(super) const OF_CPU: &[Dimension] = &[Dimension::Cpu];

/// Named arguments.
pub(super) type Named = [(&'static str, ArgValue)];

impl Model {
    /// A track of the kernel's, or a new one of this name.
    pub(super) fn kernel_track(
        &mut self,
        blueprint: &Blueprint,
        machine: MachineId,
        dimensions: Dimensions,
        name: impl FnOnce(&mut Strings) -> Str,
    ) -> TrackId {
        if let Some(cpu) = dimensions.cpu {
            self.cpus.get(machine, cpu);
        }
        let to = (&mut self.tables, &mut self.args);
        self.tracks.intern(to, blueprint, machine, dimensions, |strings| Some(name(strings)))
    }

    /// A track of a processor.
    pub(super) fn cpu_track(
        &mut self,
        blueprint: &Blueprint,
        machine: MachineId,
        cpu: u32,
        name: impl FnOnce(&mut Strings) -> Str,
    ) -> TrackId {
        let dimensions = Dimensions { cpu: Some(cpu), ..Dimensions::default() };
        self.kernel_track(blueprint, machine, dimensions, name)
    }

    /// A track that a text tells apart, and is named after it.
    pub(super) fn text_track(
        &mut self,
        blueprint: &Blueprint,
        machine: MachineId,
        text: &str,
        name: impl FnOnce(&str) -> String,
    ) -> TrackId {
        let dimension = self.tables.strings.intern(text);
        let dimensions = Dimensions { text: Some(dimension), ..Dimensions::default() };
        self.kernel_track(blueprint, machine, dimensions, |strings| strings.intern(&name(text)))
    }

    /// The thread of a number.
    pub(super) fn kernel_thread(&mut self, machine: MachineId, tid: u32) -> Utid {
        let (tables, processes) = self.processes(machine);
        processes.thread(tables, i64::from(tid))
    }

    /// The main track of a thread.
    pub(super) fn main_track(&mut self, machine: MachineId, utid: Utid) -> TrackId {
        let dimensions = Dimensions { utid: Some(utid), ..Dimensions::default() };
        let to = (&mut self.tables, &mut self.args);
        self.tracks.intern(to, &EXECUTION, machine, dimensions, |_| None)
    }

    /// The main track of the thread of a number.
    pub(super) fn track_of_tid(&mut self, machine: MachineId, tid: u32) -> TrackId {
        let utid = self.kernel_thread(machine, tid);
        self.main_track(machine, utid)
    }

    /// A list of arguments.
    pub(super) fn named_args(&mut self, named: &Named) -> ArgList {
        let mut list = std::mem::take(&mut self.raw.list);
        list.clear();
        for (key, value) in named {
            let key = self.tables.strings.intern(key);
            list.push(Arg { flat_key: key, key, value: *value });
        }
        let args = self.args.intern(&list);
        self.raw.list = list;
        args
    }

    /// A text as a value of an argument.
    pub(super) fn text_arg(&mut self, text: &str) -> ArgValue {
        ArgValue::Text(self.tables.strings.intern(text))
    }

    /// Begins a slice.
    pub(super) fn begin_slice(
        &mut self,
        ts: i64,
        track: TrackId,
        category: Option<&'static str>,
        name: Option<Str>,
        args: &Named,
    ) -> Option<SliceId> {
        let label = self.label(category, name, args);
        let (slices, mut out) = self.slices();
        slices.begin(&mut out, ts, track, label)
    }

    /// Ends a slice.
    pub(super) fn end_slice(
        &mut self,
        ts: i64,
        track: TrackId,
        category: Option<&'static str>,
        name: Option<Str>,
        args: &Named,
    ) -> Option<SliceId> {
        let label = self.label(category, name, args);
        let (slices, mut out) = self.slices();
        slices.end(&mut out, ts, track, label)
    }

    /// Something happens at once.
    pub(super) fn instant(
        &mut self,
        ts: i64,
        track: TrackId,
        category: Option<&'static str>,
        name: Option<Str>,
        args: &Named,
    ) -> Option<SliceId> {
        let label = self.label(category, name, args);
        let (slices, mut out) = self.slices();
        slices.complete(&mut out, ts, 0, track, label)
    }

    /// A counter has a value, with arguments.
    pub(super) fn counter_with(&mut self, ts: i64, track_id: TrackId, value: f64, args: &Named) {
        let list = self.named_args(args);
        let arg_set_id = self.args.write(list, &mut self.tables);
        self.tables.counter.push(CounterRow { ts, track_id, value, arg_set_id });
    }

    fn label(&mut self, category: Option<&'static str>, name: Option<Str>, args: &Named) -> Label {
        let args = if args.is_empty() { ArgList::EMPTY } else { self.named_args(args) };
        let category = category.map(|category| self.tables.strings.intern(category));
        Label { category, name, args }
    }
}

/// What upstream's fixed buffer of so many bytes, one of which is a zero, leaves of a text.
pub(super) fn cut(mut text: String, size: usize) -> String {
    let mut end = text.len().min(size.saturating_sub(1));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

impl Model {
    /// The key of a set of tracks that nothing tells apart.
    pub(super) fn global_set(&self, type_: &'static str, machine: MachineId) -> SetKey {
        SetKey { type_, machine, utid: None, upid: None, numbers: [0; 2], texts: [None; 2] }
    }

    /// The track of a set where something begins.
    pub(super) fn begin_on_set(
        &mut self,
        key: SetKey,
        cookie: i64,
        name: Option<Str>,
        dimensions: &Named,
    ) -> Option<TrackId> {
        let set = self.track_sets.get(key);
        // Only those may begin twice and end once.
        let nesting = match key.type_ {
            "atrace_async_slice" => Nesting::Saturating,
            _ => Nesting::Counted,
        };
        let place = self.track_sets.begin(set, cookie, nesting)?;
        Some(self.track_of_place(key, place, name, dimensions))
    }

    /// The track of a set where something ends.
    pub(super) fn end_on_set(
        &mut self,
        key: SetKey,
        cookie: i64,
        name: Option<Str>,
        dimensions: &Named,
    ) -> Option<TrackId> {
        let set = self.track_sets.get(key);
        let place = self.track_sets.end(set, cookie)?;
        Some(self.track_of_place(key, place, name, dimensions))
    }

    /// The track of a set where something happens at once.
    pub(super) fn instant_on_set(
        &mut self,
        key: SetKey,
        ts: i64,
        name: Option<Str>,
        dimensions: &Named,
    ) -> Option<TrackId> {
        self.scoped_on_set(key, ts, 0, name, dimensions)
    }

    /// The track of a set where something of a known length goes.
    pub(super) fn scoped_on_set(
        &mut self,
        key: SetKey,
        ts: i64,
        dur: i64,
        name: Option<Str>,
        dimensions: &Named,
    ) -> Option<TrackId> {
        let set = self.track_sets.get(key);
        let place = self.track_sets.scoped(set, ts, dur)?;
        Some(self.track_of_place(key, place, name, dimensions))
    }

    fn track_of_place(
        &mut self,
        key: SetKey,
        place: Place,
        name: Option<Str>,
        dimensions: &Named,
    ) -> TrackId {
        if let Some(row) = place.row {
            return row;
        }
        let index = [("track_compressor_idx", ArgValue::Int(place.index.into()))];
        let dimensions = [dimensions, &index].concat();
        self.add_track_of_set(key, place, name, &dimensions)
    }
}
