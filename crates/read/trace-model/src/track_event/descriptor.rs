//! What programs say of their tracks, in the order of the file (upstream: track_event_tokenizer.cc, track_event_tracker.cc).
//!
//! A descriptor is kept by its uuid, for all of a machine's sequences. One that comes again must say the same; it may give a name to a track
//! that had none. Which row a track is turns out when something happens on it: [`super::resolve`].
//!
//! Memory: some 200 bytes for each uuid of the trace.

use ferretto_protos::fields::{
    counter_descriptor, process_descriptor, thread_descriptor, track_descriptor as field,
};
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_read::recent::Recent;
use ferretto_trace_tables::{MachineId, Str, Strings, Tables, TrackId, Upid, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::resolve::{Row, Scope, Whose};
use crate::stats::{Stat, Stats};
use crate::wire::number as number_of;

/// The uuid of the track of events that name none.
pub const DEFAULT_UUID: u64 = 0;

/// What was said of a track.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Descriptor {
    /// The track that it is below; 0 is none.
    pub parent_uuid: u64,
    /// Its name.
    pub name: Option<Str>,
    /// A sentence about it.
    pub description: Option<Str>,
    /// It is of a process.
    pub pid: Option<i64>,
    /// It is of a thread of that process.
    pub tid: Option<i64>,
    /// The thread's number may be another's, too: it is only that of its process's sandbox.
    pub is_sandboxed_tid: bool,
    /// The track of a thread is not the one of what the system says of it.
    pub is_separate: bool,
    /// It has a counter's values.
    pub counter: Option<CounterDescriptor>,
    /// It has states.
    pub is_state: bool,
    /// How tracks below it are sorted, by the word of `source_arg_set_id`.
    pub child_ordering: Option<&'static str>,
    /// Where it stands among its siblings.
    pub sibling_order_rank: Option<i32>,
    /// Processes are sorted by their ranks. Of the default track.
    pub are_processes_ordered: bool,
    /// Threads are sorted by their ranks. Of the default track.
    pub are_threads_ordered: bool,
    /// Which siblings it is one with.
    pub merge: Merge,
}

/// Which siblings are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// Those of the same name.
    #[default]
    ByName,
    /// None.
    Never,
    /// Those of the same key.
    ByKey(Option<Str>),
}

/// What was said of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CounterDescriptor {
    /// The categories, joined by commas.
    pub category: Option<Str>,
    /// What the values are multiplied with, if it is more than 0.
    pub unit_multiplier: i64,
    /// Values are differences.
    pub is_incremental: bool,
    /// The unit.
    pub unit: Option<Str>,
    /// Which of the well-known ones it is.
    pub builtin: Option<Str>,
    /// Counters with the same key share the scale that they are drawn by.
    pub y_axis_share_key: Option<Str>,
}

/// A track by its uuid: a place among those of all machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrackRef(pub u32);

/// All uuids of a trace, what was said of them, and the rows of those that were used.
#[derive(Debug, Default)]
pub struct Descriptors {
    by_uuid: HashMap<(MachineId, u64), TrackRef, RandomState>,
    recent: Recent<(MachineId, u64), TrackRef>,
    pub(super) slots: Vec<Slot>,
    /// The track that a thread or a process was met by: by another one it is another thread.
    pub(super) by_utid: HashMap<Utid, u64, RandomState>,
    pub(super) by_upid: HashMap<Upid, u64, RandomState>,
    /// How often a track was used of which nothing had been said.
    pub(super) implied: u32,
}

/// A uuid.
#[derive(Debug)]
pub(super) struct Slot {
    pub uuid: u64,
    pub machine: MachineId,
    pub descriptor: Option<Box<Descriptor>>,
    /// The process that sent the descriptor, by the service's word.
    pub trusted_pid: Option<i64>,
    pub scope: Option<Scope>,
    /// Why it has no scope, and how many tracks were implied then.
    pub failure: Option<(Stat, u32)>,
    pub row: Option<Row>,
}

impl Descriptors {
    /// The place of a uuid.
    #[inline]
    pub fn slot(&mut self, machine: MachineId, uuid: u64) -> TrackRef {
        match self.recent.get(uuid, (machine, uuid)) {
            Some(track) => track,
            None => self.find_or_add(machine, uuid),
        }
    }

    fn find_or_add(&mut self, machine: MachineId, uuid: u64) -> TrackRef {
        let track = *self.by_uuid.entry((machine, uuid)).or_insert_with(|| {
            self.slots.push(Slot {
                uuid,
                machine,
                descriptor: None,
                trusted_pid: None,
                scope: None,
                failure: None,
                row: None,
            });
            TrackRef(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
        });
        self.recent.put(uuid, (machine, uuid), track);
        track
    }

    /// The place of a uuid that was met.
    pub(super) fn find(&self, machine: MachineId, uuid: u64) -> Option<TrackRef> {
        self.by_uuid.get(&(machine, uuid)).copied()
    }

    /// The machine of a track, and its row if that is its own, and a thread's.
    #[inline]
    pub(super) fn row_of_thread(&self, track: TrackRef) -> (MachineId, Option<TrackId>) {
        let Some(slot) = self.slots.get(track.0 as usize) else { return (MachineId(0), None) };
        let row = match (&slot.scope, &slot.row) {
            (Some(Scope { whose: Whose::Thread(_), .. }), Some(Row::Track(row))) => Some(*row),
            _ => None,
        };
        (slot.machine, row)
    }

    /// The row of a track, if it has one of its own.
    #[inline]
    pub(super) fn plain_row(&self, track: TrackRef) -> Option<TrackId> {
        match self.slots.get(track.0 as usize)?.row? {
            Row::Track(row) => Some(row),
            Row::Set(_) => None,
        }
    }

    pub(super) fn machine_of(&self, track: TrackRef) -> MachineId {
        self.slots.get(track.0 as usize).map_or(MachineId(0), |slot| slot.machine)
    }

    pub(super) fn uuid_of(&self, track: TrackRef) -> u64 {
        self.slots.get(track.0 as usize).map_or(DEFAULT_UUID, |slot| slot.uuid)
    }

    pub(super) fn set_trusted_pid(&mut self, machine: MachineId, uuid: u64, pid: i64) {
        let track = self.slot(machine, uuid);
        if let Some(slot) = self.slots.get_mut(track.0 as usize) {
            slot.trusted_pid = Some(pid);
        }
    }

    /// What was said of a track.
    #[must_use]
    pub fn get(&self, track: TrackRef) -> Option<&Descriptor> {
        self.slots.get(track.0 as usize)?.descriptor.as_deref()
    }

    /// What was said of the track of a uuid.
    #[must_use]
    pub fn of_uuid(&self, machine: MachineId, uuid: u64) -> Option<&Descriptor> {
        self.get(self.find(machine, uuid)?)
    }

    /// Takes note of what is said of a track.
    pub(super) fn reserve(
        &mut self,
        (machine, uuid): (MachineId, u64),
        new: Descriptor,
        (tables, stats): (&mut Tables, &mut Stats),
    ) {
        if uuid == DEFAULT_UUID && new.parent_uuid != 0 {
            return stats.count(Stat::TrackDescriptorDefaultTrackWithParent);
        }
        let track = self.slot(machine, uuid);
        let Some(slot) = self.slots.get_mut(track.0 as usize) else { return };
        let Some(known) = &mut slot.descriptor else {
            slot.descriptor = Some(Box::new(new));
            return;
        };
        if !known.is_of_same_track(&new) {
            return stats.count(Stat::TrackDescriptorConflictingReservation);
        }
        let Some(name) = new.name else { return };
        let is_own = new.merge == Merge::Never;
        if known.name.is_none() || is_own {
            known.name = Some(name);
        }
        if let (true, Some(Row::Track(row))) = (is_own, slot.row) {
            rename(tables, row, name);
        }
    }
}

fn rename(tables: &mut Tables, row: TrackId, name: Str) {
    if let Some(cell) = tables.track.name.get_mut(row.index()) {
        *cell = Some(name);
    }
}

impl Descriptor {
    fn is_of_same_track(&self, other: &Self) -> bool {
        // The unit may be another.
        let counter = |it: &Self| it.counter.map(|counter| CounterDescriptor { unit: None, ..counter });
        counter(self) == counter(other)
            && (self.parent_uuid, self.pid, self.tid, self.is_state, self.merge)
                == (other.parent_uuid, other.pid, other.tid, other.is_state, other.merge)
    }
}

/// A `TrackDescriptor` as it was written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message<'a> {
    pub uuid: Option<u64>,
    pub thread: Option<&'a [u8]>,
    pub process: Option<&'a [u8]>,
    pub chrome_thread: Option<&'a [u8]>,
    pub chrome_process: Option<&'a [u8]>,
    parent_uuid: u64,
    names: [Option<&'a [u8]>; 3],
    description: Option<&'a [u8]>,
    counter: Option<&'a [u8]>,
    is_state: bool,
    is_separate: bool,
    child_ordering: u64,
    sibling_order_rank: Option<i32>,
    orderings: [bool; 2],
    merge_behavior: u64,
    merge_key: Option<&'a [u8]>,
    merge_key_int: Option<u64>,
}

/// `TrackDescriptor.chrome_process` and `.chrome_thread`, which our schema does not have.
const CHROME_PROCESS: u32 = 6;
const CHROME_THREAD: u32 = 7;

impl<'a> Message<'a> {
    pub(super) fn read(message: &'a [u8]) -> Self {
        let mut it = Self::default();
        for part in Fields::new(message).map_while(Result::ok) {
            match part.value {
                Value::Bytes(bytes) => it.take_bytes(part.number, bytes),
                value => it.take_number(part.number, value.as_u64().unwrap_or(0)),
            }
        }
        it
    }

    fn take_bytes(&mut self, number: u32, bytes: &'a [u8]) {
        match number {
            field::NAME => self.names[0] = Some(bytes),
            field::STATIC_NAME => self.names[1] = Some(bytes),
            field::ATRACE_NAME => self.names[2] = Some(bytes),
            field::DESCRIPTION => self.description = Some(bytes),
            field::THREAD => self.thread = Some(bytes),
            field::PROCESS => self.process = Some(bytes),
            field::COUNTER => self.counter = Some(bytes),
            field::STATE => self.is_state = true,
            field::SIBLING_MERGE_KEY => self.merge_key = Some(bytes),
            CHROME_PROCESS => self.chrome_process = Some(bytes),
            CHROME_THREAD => self.chrome_thread = Some(bytes),
            _ => {}
        }
    }

    fn take_number(&mut self, number: u32, value: u64) {
        match number {
            field::UUID => self.uuid = Some(value),
            field::PARENT_UUID => self.parent_uuid = value,
            field::DISALLOW_MERGING_WITH_SYSTEM_TRACKS => self.is_separate = value != 0,
            field::CHILD_ORDERING => self.child_ordering = value,
            field::SIBLING_ORDER_RANK => self.sibling_order_rank = Some(value as i32),
            field::SIBLING_MERGE_BEHAVIOR => self.merge_behavior = value,
            field::SIBLING_MERGE_KEY_INT => self.merge_key_int = Some(value),
            field::PROCESS_ORDERING => self.orderings[0] = value == 1,
            field::THREAD_ORDERING => self.orderings[1] = value == 1,
            _ => {}
        }
    }

    /// What it says, or why it says nothing.
    pub(super) fn descriptor(&self, strings: &mut Strings) -> Result<Descriptor, Stat> {
        let child_ordering = match self.child_ordering {
            0 => None,
            1 => Some("lexicographic"),
            2 => Some("chronological"),
            3 => Some("explicit"),
            _ => return Err(Stat::TrackDescriptorInvalidChildOrdering),
        };
        let [name, static_name, atrace_name] = self.names;
        let mut descriptor = Descriptor {
            parent_uuid: self.parent_uuid,
            name: name.or(static_name).or(atrace_name).map(|name| strings.intern_bytes(name)),
            description: self.description.map(|text| strings.intern_bytes(text)),
            child_ordering,
            sibling_order_rank: self.sibling_order_rank,
            are_processes_ordered: self.orderings[0],
            are_threads_ordered: self.orderings[1],
            merge: self.merge(strings),
            ..Descriptor::default()
        };
        if let Some(thread) = self.thread {
            let (pid, tid) = thread_of(thread).ok_or(Stat::TrackDescriptorThreadMissingPidTid)?;
            (descriptor.pid, descriptor.tid) = (Some(pid), Some(tid));
            descriptor.is_separate = self.is_separate;
            descriptor.is_sandboxed_tid = self.is_sandboxed_tid();
        } else if let Some(process) = self.process {
            descriptor.pid = Some(pid_of(process).ok_or(Stat::TrackDescriptorProcessMissingPid)?);
        } else if let Some(counter) = self.counter {
            let (counter, name) = read_counter(counter, strings);
            descriptor.counter = Some(counter);
            descriptor.name = descriptor.name.or(name);
        } else {
            descriptor.is_state = self.is_state;
        }
        Ok(descriptor)
    }

    /// `ChromeThreadDescriptor.is_sandboxed_tid`.
    pub(super) fn is_sandboxed_tid(&self) -> bool {
        const IS_SANDBOXED_TID: u32 = 3;
        number_of(self.chrome_thread.unwrap_or_default(), IS_SANDBOXED_TID).is_some_and(|is| is != 0)
    }

    fn merge(&self, strings: &mut Strings) -> Merge {
        match (self.merge_behavior, self.merge_key, self.merge_key_int) {
            (2, _, _) => Merge::Never,
            (3, Some(key), _) => Merge::ByKey(Some(strings.intern_bytes(key))),
            (3, None, Some(key)) => {
                Merge::ByKey(Some(strings.intern(&format!("sibling_merge_key_int:{key}"))))
            }
            (3, None, None) => Merge::ByKey(None),
            _ => Merge::ByName,
        }
    }
}

/// Both numbers of a `ThreadDescriptor`: of the process, 32 bits wide, and of the thread.
pub(super) fn thread_of(message: &[u8]) -> Option<(i64, i64)> {
    let pid = number_of(message, thread_descriptor::PID)? as i32;
    Some((i64::from(pid), number_of(message, thread_descriptor::TID)? as i64))
}

/// The number of a `ProcessDescriptor`.
pub(super) fn pid_of(message: &[u8]) -> Option<i64> {
    Some(i64::from(number_of(message, process_descriptor::PID)? as u32))
}

/// The counter, and its name if it is a well-known one.
fn read_counter(message: &[u8], strings: &mut Strings) -> (CounterDescriptor, Option<Str>) {
    let mut counter = CounterDescriptor { unit_multiplier: 0, ..CounterDescriptor::default() };
    let (mut kind, mut unit, mut unit_name) = (0, 0, None);
    let mut categories = String::new();
    for part in Fields::new(message).map_while(Result::ok) {
        let number = part.value.as_u64().unwrap_or(0);
        match (part.number, part.value) {
            (counter_descriptor::TYPE, _) => kind = number,
            (counter_descriptor::CATEGORIES, Value::Bytes(name)) => {
                if !categories.is_empty() {
                    categories.push(',');
                }
                categories.push_str(&String::from_utf8_lossy(name));
            }
            (counter_descriptor::UNIT, _) => unit = number,
            (counter_descriptor::UNIT_NAME, Value::Bytes(name)) => unit_name = Some(name),
            (counter_descriptor::UNIT_MULTIPLIER, _) => counter.unit_multiplier = number as i64,
            (counter_descriptor::IS_INCREMENTAL, _) => counter.is_incremental = number != 0,
            (counter_descriptor::Y_AXIS_SHARE_KEY, Value::Bytes(key)) => {
                counter.y_axis_share_key = Some(strings.intern_bytes(key));
            }
            _ => {}
        }
    }
    counter.category = (!categories.is_empty()).then(|| strings.intern(&categories));
    let builtin = match kind {
        1 => Some(("thread_time", "ns")),
        2 => Some(("thread_instruction_count", "count")),
        _ => None,
    };
    counter.unit = match (builtin, unit) {
        (Some((_, unit)), _) => Some(strings.intern(unit)),
        (None, 1) => Some(strings.intern("ns")),
        (None, 2) => Some(strings.intern("count")),
        (None, 3) => Some(strings.intern("bytes")),
        (None, _) => unit_name.map(|name| strings.intern_bytes(name)),
    };
    counter.builtin = builtin.map(|(name, _)| strings.intern(name));
    (counter, counter.builtin)
}
