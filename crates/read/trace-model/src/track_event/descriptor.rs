//! What programs say of their tracks, and which row each is (upstream: track_event_tracker.cc).

use ferretto_protos::fields::{
    counter_descriptor, process_descriptor, thread_descriptor, track_descriptor as field,
};
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_tables::{MachineId, Str, Strings, TrackId, Upid, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::model::Model;
use crate::processes::{ProcessName, ThreadName};
use crate::tracks::{Dimensions, TrackKey};

/// Tracks above each other. Upstream's.
const MAX_DEPTH: usize = 100;

/// What was said of a track.
#[derive(Clone, Copy, Debug, Default)]
pub struct Descriptor {
    /// The track that it is below.
    pub parent_uuid: Option<u64>,
    /// Its name.
    pub name: Option<Str>,
    /// It is of a process.
    pub pid: Option<i64>,
    /// It is of a thread of that process.
    pub tid: Option<i64>,
    /// What the program calls its thread.
    pub thread_name: Option<Str>,
    /// What the program calls itself.
    pub process_name: Option<Str>,
    /// It has a counter's values.
    pub counter: Option<CounterDescriptor>,
}

/// What was said of a counter.
#[derive(Clone, Copy, Debug)]
pub struct CounterDescriptor {
    /// What the values are multiplied with.
    pub unit_multiplier: i64,
    /// Values are differences.
    pub is_incremental: bool,
}

/// All descriptors of a trace, and the rows of those that were used.
#[derive(Debug, Default)]
pub struct Descriptors {
    by_uuid: HashMap<u64, Descriptor, RandomState>,
    rows: HashMap<u64, Option<TrackId>, RandomState>,
}

/// Whose a track is.
#[derive(Clone, Copy, Debug)]
enum Scope {
    Thread(Utid),
    Process(Upid),
    Global,
}

impl Descriptors {
    /// What was said of a track.
    #[must_use]
    pub fn get(&self, uuid: u64) -> Option<&Descriptor> {
        self.by_uuid.get(&uuid)
    }

    /// Takes note of a descriptor, in the order of the file.
    pub fn arrive(&mut self, message: &[u8], strings: &mut Strings) {
        let mut uuid = None;
        let mut descriptor = Descriptor::default();
        for part in Fields::new(message).map_while(Result::ok) {
            match (part.number, part.value) {
                (field::UUID, value) => uuid = value.as_u64(),
                (field::PARENT_UUID, value) => {
                    descriptor.parent_uuid = value.as_u64().filter(|uuid| *uuid != 0)
                }
                (field::NAME | field::STATIC_NAME | field::ATRACE_NAME, Value::Bytes(name)) => {
                    descriptor.name = Some(strings.intern_bytes(name));
                }
                (field::PROCESS, Value::Bytes(process)) => descriptor.take_process(process, strings),
                (field::THREAD, Value::Bytes(thread)) => descriptor.take_thread(thread, strings),
                (field::COUNTER, Value::Bytes(counter)) => descriptor.counter = Some(read_counter(counter)),
                _ => {}
            }
        }
        if let Some(uuid) = uuid {
            self.by_uuid.entry(uuid).or_insert(descriptor);
        }
    }
}

impl Descriptor {
    fn take_process(&mut self, message: &[u8], strings: &mut Strings) {
        for part in Fields::new(message).map_while(Result::ok) {
            match (part.number, part.value) {
                (process_descriptor::PID, value) => self.pid = value.as_u64().map(|pid| pid as i64),
                (process_descriptor::PROCESS_NAME, Value::Bytes(name)) => {
                    self.process_name = Some(strings.intern_bytes(name));
                }
                _ => {}
            }
        }
    }

    fn take_thread(&mut self, message: &[u8], strings: &mut Strings) {
        for part in Fields::new(message).map_while(Result::ok) {
            match (part.number, part.value) {
                (thread_descriptor::PID, value) => self.pid = value.as_u64().map(|pid| pid as i64),
                (thread_descriptor::TID, value) => self.tid = value.as_u64().map(|tid| tid as i64),
                (thread_descriptor::THREAD_NAME, Value::Bytes(name)) => {
                    self.thread_name = Some(strings.intern_bytes(name));
                }
                _ => {}
            }
        }
    }
}

fn read_counter(message: &[u8]) -> CounterDescriptor {
    let mut counter = CounterDescriptor { unit_multiplier: 1, is_incremental: false };
    for part in Fields::new(message).map_while(Result::ok) {
        match (part.number, part.value.as_u64()) {
            (counter_descriptor::UNIT_MULTIPLIER, Some(value)) => counter.unit_multiplier = value as i64,
            (counter_descriptor::IS_INCREMENTAL, Some(value)) => counter.is_incremental = value != 0,
            _ => {}
        }
    }
    counter
}

impl Model {
    /// The row of a track by its uuid; nothing if it has no place.
    pub fn track_of(&mut self, uuid: u64, machine: MachineId) -> Option<TrackId> {
        if let Some(known) = self.descriptors.rows.get(&uuid) {
            return *known;
        }
        let row = self.resolve(uuid, machine);
        self.descriptors.rows.insert(uuid, row);
        row
    }

    fn resolve(&mut self, uuid: u64, machine: MachineId) -> Option<TrackId> {
        let descriptor = *self.descriptors.get(uuid)?;
        let scope = self.scope_of(uuid, machine)?;
        if let (Scope::Thread(utid), true, None) = (scope, descriptor.tid.is_some(), descriptor.counter) {
            let dimensions = Dimensions { utid: Some(utid), ..Dimensions::default() };
            let key = TrackKey { event_type: "slice", type_: "thread_execution", machine, dimensions };
            return Some(self.tracks.get(&mut self.tables, key, None));
        }
        let is_counter = descriptor.counter.is_some();
        let (type_, dimensions) = match scope {
            Scope::Thread(utid) => (
                if is_counter { "thread_counter_track_event" } else { "thread_track_event" },
                Dimensions { utid: Some(utid), ..Dimensions::default() },
            ),
            Scope::Process(upid) => (
                if is_counter { "process_counter_track_event" } else { "process_track_event" },
                Dimensions { upid: Some(upid), ..Dimensions::default() },
            ),
            Scope::Global => (
                if is_counter { "global_counter_track_event" } else { "global_track_event" },
                Dimensions::default(),
            ),
        };
        let dimensions = Dimensions { number: Some(uuid as i64), ..dimensions };
        let event_type = if is_counter { "counter" } else { "slice" };
        let key = TrackKey { event_type, type_, machine, dimensions };
        Some(self.tracks.get(&mut self.tables, key, descriptor.name))
    }

    fn scope_of(&mut self, uuid: u64, machine: MachineId) -> Option<Scope> {
        let mut at = uuid;
        for _ in 0..MAX_DEPTH {
            let descriptor = *self.descriptors.get(at)?;
            match (descriptor.pid, descriptor.tid, descriptor.parent_uuid) {
                (Some(pid), Some(tid), _) => {
                    return Some(Scope::Thread(self.named_thread(&descriptor, pid, tid, machine)));
                }
                (Some(pid), None, _) => {
                    return Some(Scope::Process(self.named_process(&descriptor, pid, machine)));
                }
                (None, _, Some(parent)) => at = parent,
                (None, _, None) => return Some(Scope::Global),
            }
        }
        None
    }

    fn named_thread(&mut self, descriptor: &Descriptor, pid: i64, tid: i64, machine: MachineId) -> Utid {
        let (tables, processes) = self.processes(machine);
        let utid = processes.thread_of(tables, tid, pid);
        if let Some(name) = descriptor.thread_name {
            processes.name_thread(tables, utid, name, ThreadName::TrackDescriptor);
        }
        utid
    }

    fn named_process(&mut self, descriptor: &Descriptor, pid: i64, machine: MachineId) -> Upid {
        let (tables, processes) = self.processes(machine);
        let upid = processes.process(tables, pid);
        if let Some(name) = descriptor.process_name {
            processes.name_process(tables, upid, name, ProcessName::TrackDescriptor);
        }
        upid
    }
}
