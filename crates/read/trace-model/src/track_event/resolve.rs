//! Whose a track is, and which row (upstream: track_event_tracker.cc).
//!
//! A track is a thread's, a process's, or nobody's. It is so by its own descriptor, or by that of the first track above it that says so. This
//! is found out when something first happens on it, or when its descriptor's turn comes, and may start a thread or a process; its row is made
//! when something first happens on it or below it.
//!
//! Siblings of the same name are one: which row an event is on depends then on what else is open (`track_sets`).

use ferretto_trace_tables::{MachineId, Str, TrackId, Upid, Utid};

use super::descriptor::{DEFAULT_UUID, Descriptor, Merge, TrackRef};
use crate::args::ArgValue;
use crate::model::Model;
use crate::processes::ThreadName;
use crate::stats::Stat;
use crate::track_sets::{Nesting, Place, SetId, SetKey};
use crate::tracks::TrackType;

/// Tracks above each other, and the one itself. Upstream's.
const MAX_DEPTH: usize = 100;

/// Whose a track is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scope {
    pub whose: Whose,
    /// By its own descriptor.
    pub is_root: bool,
}

/// Somebody, or nobody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Whose {
    Thread(Utid),
    Process(Upid),
    Nobody,
}

/// Which row a track is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Row {
    /// This one.
    Track(TrackId),
    /// One of a set's.
    Set(SetRow),
}

/// A set, and what its rows are made with by this track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SetRow {
    set: SetId,
    key: SetKey,
    name: Option<Str>,
    parent: Option<TrackId>,
    has_first_packet: Option<bool>,
}

/// What an event does on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Begin,
    End,
    Instant,
    /// A counter, or a slice of the old kind whose length is known: not on a set.
    Plain,
}

/// Who asks for a track: the event's name, and whether the first packet of its sequence is in the trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub name: Option<Str>,
    pub has_first_packet: Option<bool>,
}

/// The type of a row on its own.
fn row_type(whose: Whose, descriptor: &Descriptor) -> (&'static str, &'static str) {
    let [slice, counter, state] = match whose {
        Whose::Thread(_) => ["thread_track_event", "thread_counter_track_event", "thread_state_track_event"],
        Whose::Process(_) => {
            ["process_track_event", "process_counter_track_event", "process_state_track_event"]
        }
        Whose::Nobody => ["global_track_event", "global_counter_track_event", "global_state_track_event"],
    };
    match (descriptor.counter.is_some(), descriptor.is_state) {
        (true, _) => ("counter", counter),
        (_, true) => ("state", state),
        _ => ("slice", slice),
    }
}

impl Model {
    /// Whose a track is. Nothing, and a count of why, if it has no place.
    pub(super) fn scope_of(&mut self, track: TrackRef) -> Option<Scope> {
        if let Some(scope) = self.descriptors.slots.get(track.0 as usize)?.scope {
            return Some(scope);
        }
        self.find_scope(track)
    }

    fn find_scope(&mut self, track: TrackRef) -> Option<Scope> {
        let implied = self.descriptors.implied;
        let slot = self.descriptors.slots.get_mut(track.0 as usize)?;
        if let Some((stat, at)) = slot.failure
            && at == implied
        {
            self.stats.count(stat);
            return None;
        }
        let (machine, uuid) = (slot.machine, slot.uuid);
        if slot.descriptor.is_none() {
            let name = (uuid == DEFAULT_UUID).then(|| self.tables.strings.intern("Default Track"));
            slot.descriptor = Some(Box::new(Descriptor { name, ..Descriptor::default() }));
            self.descriptors.implied += 1;
        }
        let above = match self.above(track) {
            Ok(above) => above,
            Err(stat) => {
                self.stats.count(stat);
                let implied = self.descriptors.implied;
                if let Some(slot) = self.descriptors.slots.get_mut(track.0 as usize) {
                    slot.failure = Some((stat, implied));
                }
                return None;
            }
        };
        // From the topmost down: what is above is somebody's first.
        let mut scope = None;
        for track in above.into_iter().rev() {
            let known = self.descriptors.slots.get(track.0 as usize)?.scope;
            scope = match known {
                Some(known) => Some(known),
                None => Some(self.own_scope(machine, track, scope)?),
            };
            if let Some(slot) = self.descriptors.slots.get_mut(track.0 as usize) {
                slot.scope = scope;
            }
        }
        scope
    }

    /// A track and those above it.
    fn above(&self, track: TrackRef) -> Result<Vec<TrackRef>, Stat> {
        let mut path: Vec<TrackRef> = Vec::new();
        let mut at = track;
        for _ in 0..MAX_DEPTH {
            if path.contains(&at) {
                return Err(Stat::TrackEventTrackHierarchyLoop);
            }
            let slot = self.descriptors.slots.get(at.0 as usize);
            let parent = slot.and_then(|slot| Some((slot.machine, slot.descriptor.as_ref()?.parent_uuid)));
            let Some((machine, parent)) = parent else { return Err(Stat::TrackHierarchyMissingUuid) };
            path.push(at);
            if parent == DEFAULT_UUID {
                return Ok(path);
            }
            let parent = self.descriptors.find(machine, parent);
            at = parent.ok_or(Stat::TrackHierarchyMissingUuid)?;
        }
        Err(Stat::TrackEventTrackHierarchyTooDeep)
    }

    fn own_scope(&mut self, machine: MachineId, track: TrackRef, parent: Option<Scope>) -> Option<Scope> {
        self.use_outer_numbers(machine, track);
        let slot = self.descriptors.slots.get(track.0 as usize)?;
        let uuid = slot.uuid;
        let descriptor = slot.descriptor.as_deref()?;
        let default = self.descriptors.of_uuid(machine, DEFAULT_UUID);
        let rank = descriptor.sibling_order_rank.map(i64::from);
        let thread_rank = rank.filter(|_| default.is_some_and(|it| it.are_threads_ordered));
        let process_rank = rank.filter(|_| default.is_some_and(|it| it.are_processes_ordered));
        let whose = match (descriptor.pid, descriptor.tid) {
            (Some(pid), Some(tid)) => {
                let utid = self.thread_by(machine, uuid, pid, tid);
                if let Some(rank) = thread_rank {
                    let (tables, processes) = self.processes(machine);
                    processes.add_thread_arg(tables, utid, "thread_sort_index_hint", ArgValue::Int(rank));
                }
                Whose::Thread(utid)
            }
            (Some(pid), None) => {
                let upid = self.process_by(machine, uuid, pid);
                if let Some(rank) = process_rank {
                    let (tables, processes) = self.processes(machine);
                    processes.add_process_arg(tables, upid, "process_sort_index_hint", ArgValue::Int(rank));
                }
                Whose::Process(upid)
            }
            _ => {
                let whose = parent.map_or(Whose::Nobody, |parent| parent.whose);
                return Some(Scope { whose, is_root: false });
            }
        };
        Some(Scope { whose, is_root: true })
    }

    /// A program in a namespace knows numbers that are not the machine's.
    fn use_outer_numbers(&mut self, machine: MachineId, track: TrackRef) {
        let Some(slot) = self.descriptors.slots.get(track.0 as usize) else { return };
        let Some(descriptor) = slot.descriptor.as_deref() else { return };
        let (pid, tid, is_sandboxed) = (descriptor.pid, descriptor.tid, descriptor.is_sandboxed_tid);
        let trusted = slot.trusted_pid;
        let outer =
            |model: &Self, number: Option<i64>| model.namespaces.outer_tid(machine, trusted?, number?);
        let pid = outer(self, pid).or(pid);
        let tid = match (outer(self, tid), tid, pid) {
            (Some(outer), _, _) => Some(outer),
            (None, Some(tid), Some(pid)) if is_sandboxed => Some(synthetic_tid(tid, pid)),
            (None, tid, _) => tid,
        };
        let slot = self.descriptors.slots.get_mut(track.0 as usize);
        if let Some(descriptor) = slot.and_then(|slot| slot.descriptor.as_deref_mut()) {
            (descriptor.pid, descriptor.tid) = (pid, tid);
        }
    }

    /// A thread that was met by another uuid is another thread with the same number.
    fn thread_by(&mut self, machine: MachineId, uuid: u64, pid: i64, tid: i64) -> Utid {
        let (tables, processes) = self.processes(machine);
        let mut utid = processes.thread_of(tables, tid, pid);
        if self.descriptors.by_utid.contains_key(&utid) {
            // Upstream leaves the uuid with the old thread, so that a third uuid is taken for the second's thread.
            self.descriptors.by_utid.insert(utid, uuid);
            let (tables, processes) = self.processes(machine);
            processes.start_thread(tables, tid, None);
            utid = processes.thread_of(tables, tid, pid);
        } else {
            self.descriptors.by_utid.insert(utid, uuid);
        }
        utid
    }

    fn process_by(&mut self, machine: MachineId, uuid: u64, pid: i64) -> Upid {
        let (tables, processes) = self.processes(machine);
        let upid = processes.process(tables, pid);
        if self.descriptors.by_upid.insert(upid, uuid).is_none() {
            return upid;
        }
        let (tables, processes) = self.processes(machine);
        processes.start_process(tables, pid, None, None, ThreadName::TrackDescriptor)
    }

    /// The row for what an event does on a track.
    pub(super) fn row_for(&mut self, track: TrackRef, asker: Asker, what: Use) -> Option<TrackId> {
        let row = match self.descriptors.slots.get(track.0 as usize)?.row {
            Some(row) => row,
            None => self.make_row(track, asker)?,
        };
        let set = match row {
            Row::Track(id) => return Some(id),
            Row::Set(set) => set,
        };
        let cookie = self.descriptors.slots.get(track.0 as usize)?.uuid as i64;
        let place = match what {
            Use::Begin => self.track_sets.begin(set.set, cookie, Nesting::Counted),
            Use::End => self.track_sets.end(set.set, cookie),
            Use::Instant => self.track_sets.instant(set.set, cookie),
            Use::Plain => None,
        }?;
        Some(place.row.unwrap_or_else(|| self.add_row_of_set(track, set, place)))
    }

    /// Makes the row, after those above it.
    fn make_row(&mut self, track: TrackRef, asker: Asker) -> Option<Row> {
        self.scope_of(track)?;
        let above = self.above(track).ok()?;
        let mut parent = None;
        let mut made = None;
        for (depth, at) in above.into_iter().enumerate().rev() {
            let row = match self.descriptors.slots.get(at.0 as usize)?.row {
                Some(row) => row,
                None => {
                    let name = asker.name.filter(|_| depth == 0);
                    let row = self.new_row(at, Asker { name, ..asker }, parent)?;
                    if let Some(slot) = self.descriptors.slots.get_mut(at.0 as usize) {
                        slot.row = Some(row);
                    }
                    row
                }
            };
            if depth != 0 {
                let scope = self.scope_of(at)?;
                parent = Some((scope, self.first_row(at, row)?));
            }
            made = Some(row);
        }
        made
    }

    /// The row that others are shown below.
    fn first_row(&mut self, track: TrackRef, row: Row) -> Option<TrackId> {
        match row {
            Row::Track(id) => Some(id),
            Row::Set(set) => {
                let place = self.track_sets.first(set.set)?;
                Some(place.row.unwrap_or_else(|| self.add_row_of_set(track, set, place)))
            }
        }
    }

    fn new_row(&mut self, track: TrackRef, asker: Asker, parent: Option<(Scope, TrackId)>) -> Option<Row> {
        let scope = self.scope_of(track)?;
        let slot = self.descriptors.slots.get(track.0 as usize)?;
        let (uuid, machine) = (slot.uuid, slot.machine);
        let descriptor = slot.descriptor.as_deref()?.clone();
        let is_plain_thread = descriptor.counter.is_none() && !descriptor.is_separate;
        if let (Whose::Thread(utid), true, true) = (scope.whose, scope.is_root, is_plain_thread) {
            return Some(Row::Track(self.thread_track(machine, utid)));
        }
        // What is right below a thread or a process has no parent: so it always was.
        let parent_row = parent.filter(|(parent, _)| !parent.is_root).map(|(_, row)| row);
        let name = match descriptor.counter.is_some() || scope.is_root {
            true => descriptor.name,
            false => descriptor.name.or(asker.name),
        };
        let name = match scope.whose {
            Whose::Process(_) => {
                name.map(|name| self.process_track_renames.get(&name).copied().unwrap_or(name))
            }
            _ => name,
        };
        let is_alone =
            descriptor.counter.is_some() || descriptor.is_state || descriptor.merge == Merge::Never;
        if !is_alone && !scope.is_root {
            return Some(Row::Set(self.new_set(scope, &descriptor, machine, name, parent_row, asker)));
        }
        let (event_type, type_) = row_type(scope.whose, &descriptor);
        let mut dimensions = of_whom(scope.whose);
        dimensions.push(("track_uuid", ArgValue::Int(uuid as i64)));
        let track = TrackType { event_type, type_, dimensions: &dimensions, unit: None };
        let (row, _) = self.intern_track(machine, track, |_| name);
        if let Some(cell) = self.tables.track.counter_unit.get_mut(row.index()) {
            *cell = descriptor.counter.and_then(|counter| counter.unit);
        }
        if let Some(parent) = parent_row.filter(|_| !scope.is_root) {
            self.tables.track.parent_id.set(row.index(), Some(parent));
        }
        let is_root = scope.is_root || (uuid == DEFAULT_UUID && scope.whose == Whose::Nobody);
        self.say_of_row(row, uuid, &descriptor, is_root, asker.has_first_packet);
        Some(Row::Track(row))
    }

    fn new_set(
        &mut self,
        scope: Scope,
        descriptor: &Descriptor,
        machine: MachineId,
        name: Option<Str>,
        parent: Option<TrackId>,
        asker: Asker,
    ) -> SetRow {
        let type_ = match scope.whose {
            Whose::Thread(_) => "thread_merged_track_event",
            Whose::Process(_) => "process_merged_track_event",
            Whose::Nobody => "global_merged_track_event",
        };
        let (merge_type, merge_key) = match descriptor.merge {
            Merge::ByKey(key) => (2, key),
            Merge::ByName | Merge::Never => (0, name),
        };
        let (utid, upid) = match scope.whose {
            Whose::Thread(utid) => (Some(utid), None),
            Whose::Process(upid) => (None, Some(upid)),
            Whose::Nobody => (None, None),
        };
        let numbers = [descriptor.parent_uuid as i64, merge_type];
        let key = SetKey { type_, machine, utid, upid, numbers, texts: [merge_key, None] };
        let set = self.track_sets.get(key);
        SetRow { set, key, name, parent, has_first_packet: asker.has_first_packet }
    }

    fn add_row_of_set(&mut self, track: TrackRef, set: SetRow, place: Place) -> TrackId {
        let key = set.key;
        let mut dimensions = of_set(key);
        dimensions.extend([
            ("parent_track_uuid", ArgValue::Int(key.numbers[0])),
            ("merge_key_type", ArgValue::Int(key.numbers[1])),
            ("merge_key_value", ArgValue::of_text(key.texts[0])),
            ("track_compressor_idx", ArgValue::Int(place.index.into())),
        ]);
        let row = self.add_track_of_set(key, place, set.name, &dimensions);
        if let Some(parent) = set.parent {
            self.tables.track.parent_id.set(row.index(), Some(parent));
        }
        let slot = self.descriptors.slots.get(track.0 as usize);
        let said = slot.and_then(|slot| Some((slot.uuid, slot.descriptor.as_deref()?.clone())));
        if let Some((uuid, descriptor)) = said {
            let is_root = uuid == DEFAULT_UUID;
            self.say_of_row(row, uuid, &descriptor, is_root, set.has_first_packet);
        }
        row
    }

    /// A row for a place of a set that has none.
    pub(crate) fn add_track_of_set(
        &mut self,
        key: SetKey,
        place: Place,
        name: Option<Str>,
        dimensions: &[(&'static str, ArgValue)],
    ) -> TrackId {
        let list = self.arg_list(dimensions);
        let row = self.add_track(key.machine, TrackType::slices(key.type_, dimensions), list, name);
        self.tables.track.track_group_id.set(row.index(), Some(place.set.0));
        self.track_sets.set_row(place, row);
        row
    }

    /// `source_arg_set_id` of a track by descriptor.
    fn say_of_row(
        &mut self,
        row: TrackId,
        uuid: u64,
        descriptor: &Descriptor,
        is_root: bool,
        has_first_packet: Option<bool>,
    ) {
        let strings = &mut self.tables.strings;
        let word =
            |text: &str, strings: &mut ferretto_trace_tables::Strings| ArgValue::Text(strings.intern(text));
        let counter = descriptor.counter.unwrap_or_default();
        let list = [
            ("source", Some(word("descriptor", strings))),
            ("trace_id", Some(ArgValue::Int(uuid as i64))),
            ("is_root_in_scope", Some(ArgValue::Bool(is_root))),
            ("category", counter.category.map(ArgValue::Text)),
            ("builtin_counter_type", counter.builtin.map(ArgValue::Text)),
            ("y_axis_share_key", counter.y_axis_share_key.map(ArgValue::Text)),
            ("has_first_packet_on_sequence", has_first_packet.filter(|has| *has).map(ArgValue::Bool)),
            ("child_ordering", descriptor.child_ordering.map(|order| word(order, strings))),
            ("sibling_order_rank", descriptor.sibling_order_rank.map(|rank| ArgValue::Int(rank.into()))),
            ("description", descriptor.description.map(ArgValue::Text)),
        ];
        let said: Vec<_> = list.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        self.say_of_track(row, &said);
    }
}

/// The first dimension of a track that is somebody's.
fn of_whom(whose: Whose) -> Vec<(&'static str, ArgValue)> {
    match whose {
        Whose::Thread(utid) => vec![("utid", ArgValue::Int(utid.0.into()))],
        Whose::Process(upid) => vec![("upid", ArgValue::Int(upid.0.into()))],
        Whose::Nobody => Vec::new(),
    }
}

/// The same of a set.
pub(super) fn of_set(key: SetKey) -> Vec<(&'static str, ArgValue)> {
    let of_thread = key.utid.map(|utid| ("utid", ArgValue::Int(utid.0.into())));
    let of_process = key.upid.map(|upid| ("upid", ArgValue::Int(upid.0.into())));
    of_thread.into_iter().chain(of_process).collect()
}

/// The number of a thread whose own says little: not the kernel's.
pub(super) const fn synthetic_tid(tid: i64, pid: i64) -> i64 {
    pid.wrapping_shl(32) | tid
}

/// Whether it is such a number.
pub(super) const fn is_synthetic_tid(tid: i64) -> bool {
    tid >> 32 != 0
}
