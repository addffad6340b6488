//! Events of programs: how many, how large and how long, by name and by category (upstream: track_event.proto).
//!
//! Memory: the tables of names, which are bounded, what each sequence has interned of them (`MAX_INTERNED`), what is open ([`Slices`]),
//! and the descriptions of tracks (`MAX_TRACKS`).

use ferretto_protos::fields::{
    event_category, interned_data, process_descriptor, thread_descriptor, trace_packet_defaults,
    track_descriptor, track_event, track_event_defaults,
};
use ferretto_trace_read::fields::{Field, Fields, Value};
use ferretto_trace_read::{Change, Head};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::names::{ByNumber, Name, Names, Weight};
use crate::people::{People, Trust};
use crate::readable::Arrival;
use crate::slices::{Open, Slices, Top};

/// Sequences whose names are known.
const MAX_SEQUENCES: usize = 1 << 17;
/// Names that sequences have interned, in sum.
const MAX_INTERNED: usize = 1 << 22;
/// Numbers up to here are places in an array: writers count from 1.
const MAX_DENSE: u64 = 1 << 12;
/// Descriptions of tracks that are kept, for the names of counters and to say where the longest slices were.
const MAX_TRACKS: usize = 1 << 16;
/// The longest slices that are kept.
const MAX_LONGEST: usize = 100;
/// Steps from a track to the process that it belongs to.
const MAX_PARENTS: usize = 100;
/// All names.
const BOUND: usize = 1 << 16;

/// `TrackEvent.Type`.
mod kind {
    pub(super) const SLICE_BEGIN: u64 = 1;
    pub(super) const SLICE_END: u64 = 2;
    pub(super) const COUNTER: u64 = 4;
}

const TYPE_TAG: u8 = (track_event::TYPE << 3) as u8;
const NAME_IID_TAG: u8 = (track_event::NAME_IID << 3) as u8;
const TRACK_UUID_TAG: u8 = (track_event::TRACK_UUID << 3) as u8;
const CATEGORY_IID_TAG: u8 = (track_event::CATEGORY_IIDS << 3) as u8;
const ARGUMENT_TAG: u8 = (track_event::DEBUG_ANNOTATIONS << 3 | 2) as u8;

/// All that was counted.
#[derive(Debug, Default)]
pub struct Events {
    /// The names of events and of categories.
    pub names: Names,
    /// By name.
    pub by_name: ByNumber<Named>,
    /// By category.
    pub by_category: ByNumber<Weight>,
    /// What is open.
    pub slices: Slices,
    /// The longest slices, in no order.
    longest: Vec<Long>,
    /// What a slice must be at least to be one of them.
    floor_ns: u64,
    writers: Vec<Writer>,
    /// Of packets whose sequence is not known.
    nobody: Writer,
    interned: usize,
    tracks: HashMap<u64, Track, RandomState>,
    /// Several categories of one event, in a row.
    joined: Vec<u8>,
}

/// Events of one name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named {
    /// All of them, ends too.
    pub weight: Weight,
    /// Slices that have ended.
    pub slices: u64,
    /// How long they were in sum.
    pub total_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
}

/// One of the longest slices.
#[derive(Clone, Copy, Debug)]
pub struct Long {
    /// How long.
    pub ns: i64,
    /// When it began.
    pub time_ns: i64,
    /// What it is called.
    pub name: Name,
    /// Its categories.
    pub category: Name,
    /// Its track.
    pub track: u64,
    /// The machine.
    pub machine: u32,
}

/// What a sequence has said.
#[derive(Debug, Default)]
struct Writer {
    names: Interned,
    categories: Interned,
    track: u64,
    top: Top,
}

/// Names by the numbers that a sequence gives them.
#[derive(Debug, Default)]
struct Interned {
    /// By number.
    dense: Vec<Name>,
    sparse: HashMap<u64, Name, RandomState>,
}

/// A track, as far as it is said.
#[derive(Clone, Copy, Debug, Default)]
struct Track {
    parent: u64,
    name: Name,
    pid: Option<i32>,
    tid: Option<i32>,
}

/// What an event says.
#[derive(Clone, Copy, Debug)]
struct Event {
    kind: u64,
    track: u64,
    name: Name,
    category: Name,
}

impl Interned {
    #[inline]
    fn get(&self, number: u64) -> Name {
        match number < MAX_DENSE {
            true => self.dense.get(number as usize).copied().unwrap_or(Name::NONE),
            false => self.get_sparse(number),
        }
    }

    #[inline(never)]
    fn get_sparse(&self, number: u64) -> Name {
        self.sparse.get(&number).copied().unwrap_or(Name::NONE)
    }

    fn len(&self) -> usize {
        self.dense.len() + self.sparse.len()
    }

    /// The first one stays (upstream: packet_sequence_state_generation.cc).
    fn insert(&mut self, number: u64, name: Name) {
        if number >= MAX_DENSE {
            self.sparse.entry(number).or_insert(name);
            return;
        }
        let number = number as usize;
        if self.dense.len() <= number {
            self.dense.resize(number + 1, Name::NONE);
        }
        if let Some(place @ &mut Name::NONE) = self.dense.get_mut(number) {
            *place = name;
        }
    }
}

impl Events {
    /// Takes note of what a packet says of its sequence.
    #[inline]
    pub fn arrive(&mut self, head: &Head<'_>, arrival: &Arrival) {
        if arrival.change == Change::None && head.interned_data.is_none() && head.defaults.is_none() {
            return;
        }
        let Some(number) = arrival.sequence.filter(|number| *number < MAX_SEQUENCES) else { return };
        if self.writers.len() <= number {
            self.writers.resize_with(number + 1, Writer::default);
        }
        let Some(writer) = self.writers.get_mut(number) else { return };
        if arrival.change == Change::Cleared {
            self.interned = self.interned.saturating_sub(writer.names.len() + writer.categories.len());
            (writer.names, writer.categories, writer.track) = (Interned::default(), Interned::default(), 0);
        }
        if let Some(defaults) = head.defaults {
            writer.track = track_of(defaults);
        }
        let Some(data) = head.interned_data.filter(|_| arrival.has_state) else { return };
        for field in Fields::new(data).whole() {
            let table = match field.number {
                interned_data::EVENT_NAMES => &mut writer.names,
                interned_data::EVENT_CATEGORIES => &mut writer.categories,
                _ => continue,
            };
            let before = table.len();
            if let (Value::Bytes(entry), true) = (field.value, self.interned < MAX_INTERNED)
                && let Some((number, text)) = entry_of(entry)
            {
                table.insert(number, self.names.number(text));
                self.interned += table.len() - before;
            }
        }
    }

    /// Takes an event that is so large, with its packet; of a sequence that can be read, if it is known.
    #[inline(always)]
    pub fn event(
        &mut self,
        sequence: Option<usize>,
        machine: u32,
        time_ns: Option<i64>,
        message: &[u8],
        bytes: usize,
    ) {
        let number = sequence.unwrap_or(usize::MAX);
        let writer = self.writers.get_mut(number).unwrap_or(&mut self.nobody);
        let event = read(message, writer, &mut self.names, &mut self.joined);
        let track = event.track;
        let own_track = track == writer.track;
        let mut label = (event.name, event.category);
        match (event.kind, time_ns) {
            (kind::SLICE_BEGIN, Some(time_ns)) => {
                let open = Open { time_ns, name: label.0, category: label.1 };
                match own_track {
                    true => self.slices.begin(&mut writer.top, open),
                    false => self.slices.begin_on(track, open),
                }
            }
            (kind::SLICE_END, Some(time_ns)) => {
                let ended = match own_track {
                    true => self.slices.end(&mut writer.top, event.name),
                    false => self.slices.end_on(track, event.name),
                };
                match ended {
                    Some(Open { time_ns: began_ns, name, category }) => {
                        label = (name, category);
                        let ns = time_ns.max(began_ns).abs_diff(began_ns);
                        if ns >= self.floor_ns {
                            let ns = i64::try_from(ns).unwrap_or(i64::MAX);
                            self.keep(Long { ns, time_ns: began_ns, name, category, track, machine });
                        }
                        if let Some(named) = self.by_name.get_mut(name.index(), BOUND) {
                            named.slices += 1;
                            named.total_ns = named.total_ns.saturating_add(ns);
                            named.longest_ns = named.longest_ns.max(ns);
                        }
                    }
                    None => self.slices.stray_ends += 1,
                }
            }
            (kind::COUNTER, _) if event.name == Name::NONE => {
                label.0 = self.tracks.get(&track).map_or(Name::NONE, |track| track.name);
            }
            _ => {}
        }
        if let Some(named) = self.by_name.get_mut(label.0.index(), BOUND) {
            named.weight.add(bytes);
        }
        if let Some(weight) = self.by_category.get_mut(label.1.index(), BOUND) {
            weight.add(bytes);
        }
    }

    /// Takes note of a track, and of the names of threads and processes that it brings.
    pub fn track(&mut self, machine: u32, message: &[u8], people: &mut People) {
        let mut track = Track { name: Name::NONE, ..Track::default() };
        let mut uuid = 0;
        for part in Fields::new(message).whole() {
            match (part.number, part.value) {
                (track_descriptor::UUID, value) => uuid = value.as_u64().unwrap_or(0),
                (track_descriptor::PARENT_UUID, value) => track.parent = value.as_u64().unwrap_or(0),
                (track_descriptor::NAME | track_descriptor::STATIC_NAME, Value::Bytes(name)) => {
                    track.name = self.names.number(name);
                }
                (track_descriptor::PROCESS, Value::Bytes(process)) => {
                    let name = bytes_of(process, process_descriptor::PROCESS_NAME);
                    track.pid = number_of(process, process_descriptor::PID);
                    if let (Some(pid), Some(name)) = (track.pid, name) {
                        let row = people.process(machine, pid);
                        people.name_process(row, name, Trust::Program);
                    }
                }
                (track_descriptor::THREAD, Value::Bytes(thread)) => {
                    track.pid = number_of(thread, thread_descriptor::PID);
                    track.tid = number_of(thread, thread_descriptor::TID);
                    if let (Some(pid), Some(tid)) = (track.pid, track.tid) {
                        let row = people.thread(machine, tid);
                        people.belongs(row, pid);
                        let name = bytes_of(thread, thread_descriptor::THREAD_NAME).unwrap_or_default();
                        people.name_thread(row, name, Trust::ProgramsThread);
                    }
                }
                _ => {}
            }
        }
        if self.tracks.len() < MAX_TRACKS || self.tracks.contains_key(&uuid) {
            self.tracks.insert(uuid, track);
        }
    }

    /// The longest slices, the longest first.
    #[must_use]
    pub fn longest(&self) -> Vec<Long> {
        let mut longest = self.longest.clone();
        longest.sort_by_key(|slice| (std::cmp::Reverse(slice.ns), slice.time_ns));
        longest.truncate(MAX_LONGEST);
        longest
    }

    /// The process and the thread that a track belongs to, and what the track itself is called.
    #[must_use]
    pub fn place_of(&self, track: u64) -> (Option<i32>, Option<i32>, Name) {
        let mut name = Name::NONE;
        let mut at = track;
        for _ in 0..MAX_PARENTS {
            let Some(track) = self.tracks.get(&at) else { break };
            if name == Name::NONE {
                name = track.name;
            }
            if track.pid.is_some() || track.parent == 0 {
                return (track.pid, track.tid, name);
            }
            at = track.parent;
        }
        (None, None, name)
    }

    /// Keeps twice as many as are wanted, then throws the shorter half away: seldom.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, slice: Long) {
        self.longest.push(slice);
        // The first one may have taken no time, others take more than the shortest that is kept.
        self.floor_ns = self.floor_ns.max(1);
        if self.longest.len() >= 2 * MAX_LONGEST {
            self.longest = self.longest();
            self.floor_ns = self.longest.last().map_or(1, |last| last.ns.unsigned_abs().saturating_add(1));
        }
    }
}

#[inline(always)]
fn read(message: &[u8], writer: &Writer, names: &mut Names, joined: &mut Vec<u8>) -> Event {
    let mut fields = Fields::new(message);
    // First in the order in which programs write them, which needs no search; then whatever there is.
    let kind = fields.number_of(TYPE_TAG).unwrap_or(0);
    let category = fields.number_of(CATEGORY_IID_TAG).map_or(Name::NONE, |iid| writer.categories.get(iid));
    let name = fields.number_of(NAME_IID_TAG).map_or(Name::NONE, |iid| writer.names.get(iid));
    let track = fields.number_of(TRACK_UUID_TAG).unwrap_or(writer.track);
    let event = Event { kind, track, name, category };
    match fields.first_byte() {
        None => event,
        Some(_) => read_on(fields, event, writer, names, joined),
    }
}

#[inline]
fn read_on(
    mut fields: Fields<'_>,
    mut event: Event,
    writer: &Writer,
    names: &mut Names,
    joined: &mut Vec<u8>,
) -> Event {
    while let Some(tag) = fields.first_byte() {
        let usual = match tag {
            TYPE_TAG => fields.take_number().map(|kind| event.kind = kind),
            NAME_IID_TAG => fields.take_number().map(|number| event.name = writer.names.get(number)),
            TRACK_UUID_TAG => fields.take_number().map(|track| event.track = track),
            ARGUMENT_TAG => fields.take_message().map(|_| ()),
            CATEGORY_IID_TAG if event.category == Name::NONE => {
                fields.take_number().map(|number| event.category = writer.categories.get(number))
            }
            _ => None,
        };
        if usual.is_none() {
            let Some(Ok(part)) = fields.next() else { break };
            event.take(part, writer, names, joined);
        }
    }
    event
}

impl Event {
    fn take(&mut self, part: Field<'_>, writer: &Writer, names: &mut Names, joined: &mut Vec<u8>) {
        match (part.number, part.value) {
            (track_event::TYPE, Value::Varint(kind)) => self.kind = kind,
            (track_event::NAME_IID, Value::Varint(number)) => self.name = writer.names.get(number),
            (track_event::NAME, Value::Bytes(name)) => self.name = names.number(name),
            (track_event::TRACK_UUID, value) => self.track = value.as_u64().unwrap_or(writer.track),
            (track_event::CATEGORY_IIDS, Value::Varint(number)) => {
                self.is_of(writer.categories.get(number), names, joined);
            }
            (track_event::CATEGORIES, Value::Bytes(name)) => self.is_of(names.number(name), names, joined),
            _ => {}
        }
    }

    fn is_of(&mut self, category: Name, names: &mut Names, joined: &mut Vec<u8>) {
        self.category = match (self.category, category) {
            (category, Name::NONE) | (Name::NONE, category) => category,
            (first, second) => join(first, second, names, joined),
        };
    }
}

/// Several categories are one that is called after all of them, as in Trace Processor.
fn join(first: Name, second: Name, names: &mut Names, joined: &mut Vec<u8>) -> Name {
    joined.clear();
    joined.extend_from_slice(names.get(first));
    joined.push(b',');
    joined.extend_from_slice(names.get(second));
    names.number(joined)
}

fn entry_of(entry: &[u8]) -> Option<(u64, &[u8])> {
    let (mut number, mut text) = (None, &b""[..]);
    for part in Fields::new(entry).whole() {
        match (part.number, part.value) {
            (event_category::IID, value) => number = value.as_u64(),
            (event_category::NAME, Value::Bytes(name)) => text = name,
            _ => {}
        }
    }
    Some((number?, text))
}

fn track_of(defaults: &[u8]) -> u64 {
    let event = bytes_of(defaults, trace_packet_defaults::TRACK_EVENT_DEFAULTS).unwrap_or_default();
    let mut fields = Fields::new(event).whole();
    let track = fields.find(|field| field.number == track_event_defaults::TRACK_UUID);
    track.and_then(|track| track.value.as_u64()).unwrap_or(0)
}

pub(crate) fn bytes_of(message: &[u8], number: u32) -> Option<&[u8]> {
    let fields = Fields::new(message).whole();
    fields.filter(|field| field.number == number).find_map(|field| field.value.as_bytes())
}

pub(crate) fn number_of(message: &[u8], number: u32) -> Option<i32> {
    let mut fields = Fields::new(message).whole();
    let number = fields.find(|field| field.number == number).and_then(|field| field.value.as_u64());
    number.map(|number| number as i32)
}
