//! The rules of a sequence: what a reader knows after some of its packets, and how to say it in few packets.
//!
//! They are Trace Processor's (`proto_trace_reader.cc`, `packet_sequence_state_*.h`, `clock_tracker.cc`, `track_event_tracker.cc`):
//!
//! | what | rule |
//! |---|---|
//! | `SEQ_INCREMENTAL_STATE_CLEARED` | the state is valid from here on; interned data and defaults begin anew, incremental counters at 0. Clocks, tracks and the old descriptors of thread and process stay |
//! | a loss | the state is not valid, unless the same packet clears it |
//! | interned data | by field and `iid`; the first counts. Left out while the state is not valid |
//! | `TracePacketDefaults` | the last counts, as a whole |
//! | `SEQ_NEEDS_INCREMENTAL_STATE` | left out while the state is not valid: its time does not count either |
//! | clocks 64 to 127 | the sequence's own. Of incremental ones a time counts from the time before; a snapshot sets it |
//! | packets with a clock snapshot | have no time |
//!
//! A packet has room for one description or one snapshot, so a state is said in several.

use ferretto_protozero::Message;
use ferretto_protozero::read::{Field, Fields, Value};

use super::packet::{STATE_CLEARED, Scan, field};
use super::records::{Records, number_of};

/// Of `SequenceFlags`.
const NEEDS_STATE: u64 = 2;

/// Clocks of a sequence's own (upstream: builtin_clock.proto).
const SEQUENCE_CLOCKS: std::ops::Range<u64> = 64..128;

/// A state has no more snapshots than a sequence has clocks; older ones go.
const MAX_SNAPSHOTS: usize = 64;
/// Clocks in a snapshot: more than there are in any that means something.
const MAX_CLOCKS: usize = 64;
/// Clocks in all snapshots of a state, each of which a new snapshot is compared with; older snapshots go.
const MAX_CLOCKS_OF_ALL: usize = 256;
/// Incremental counters in a sequence. Beyond, what they show after a loss is wrong by what was before it. Each event is compared with
/// them one by one.
const MAX_COUNTERS: usize = 64;
/// Values of an event beyond its first, and tracks for them, of each kind: no more than there are counters.
const MAX_EXTRA: usize = MAX_COUNTERS;
/// What costs as much as to look at a packet.
const VALUES_OF_LOOK: u32 = 4;
const BYTES_OF_LOOK: u32 = 32;
const NEW_CLOCKS_OF_LOOK: u32 = 2;
const OLD_CLOCKS_OF_LOOK: u32 = 64;

/// `ClockSnapshot.Clock`.
#[derive(Debug, Clone, Copy)]
struct Clock {
    id: u64,
    timestamp: u64,
    unit_ns: u64,
    is_incremental: bool,
    /// What has been added to the timestamp since.
    advance: u64,
}

/// What an incremental counter shows.
#[derive(Debug, Clone, Copy)]
struct Counter {
    track: u64,
    int: i64,
    double: f64,
}

/// What a reader knows of a sequence.
#[derive(Debug, Clone, Default)]
pub(crate) struct SequenceState {
    is_valid: bool,
    interned: Records,
    defaults: Box<[u8]>,
    /// What the defaults say of counters, once there was an event that had to know.
    default_counts: Option<Box<Counts>>,
    /// What packets cost beside a look at each, in looks, until somebody asks.
    extra_looks: u32,
    /// From the defaults.
    default_clock: Option<u64>,
    /// That clock is incremental.
    has_running_default: bool,
    /// What its clock has to be put forward by.
    not_yet_added: u64,
    snapshots: Vec<Box<[Clock]>>,
    tracks: Records,
    /// Described before the state was cleared; those that matter are described again as a rule.
    older_tracks: Records,
    counters: Vec<Counter>,
    /// Of the last packet that had a time, with its clock.
    time: (u64, Option<u64>),
    process: Box<[u8]>,
    thread: Box<[u8]>,
}

/// Packets, one behind the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(crate) bytes: Vec<u8>,
    /// Where each one ends.
    pub(crate) ends: Vec<usize>,
}

impl SequenceState {
    /// Something of the sequence is missing here.
    pub(crate) fn lose(&mut self) {
        self.is_valid = false;
        self.interned.clear();
    }

    /// Can packets that rely on it be read?
    pub(crate) fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Takes the next packet of the sequence. True if the state may have become larger.
    #[inline]
    pub(crate) fn take(&mut self, packet: &Scan<'_>) -> bool {
        if packet.dropped != 0 {
            self.lose();
        }
        if packet.clears_state() {
            self.clear();
        }
        if packet.has_state && self.take_state(packet) {
            return true;
        }
        if packet.sequence_flags & NEEDS_STATE != 0 && !self.is_valid {
            return packet.has_state;
        }
        if let Some(timestamp) = packet.timestamp {
            self.take_time(timestamp, packet.clock_id);
        }
        let mut grew = packet.has_state;
        if let Some(event) = packet.track_event
            && !self.counters.is_empty()
        {
            grew |= self.default_counts.is_none();
            self.take_event(event);
        }
        let Some(track) = packet.track_descriptor else { return grew };
        self.describe(track);
        true
    }

    /// Takes packets that bring nothing but events and times by the default clock, which add up to this. False if more has to be known of
    /// them.
    #[inline]
    pub(crate) fn take_usual(&mut self, sum: u64) -> bool {
        if !self.counters.is_empty() {
            return false;
        }
        if self.is_valid && self.has_running_default {
            self.not_yet_added = self.not_yet_added.wrapping_add(sum);
        }
        true
    }

    fn clear(&mut self) {
        self.settle();
        self.is_valid = true;
        self.interned.clear();
        self.defaults = Box::default();
        self.default_counts = None;
        self.default_clock = None;
        self.has_running_default = false;
        let tracks = std::mem::take(&mut self.tracks);
        if self.older_tracks.is_empty() {
            self.older_tracks = tracks;
        } else {
            tracks.iter().for_each(|track| self.older_tracks.replace(track));
        }
        for counter in &mut self.counters {
            (counter.int, counter.double) = (0, 0.0);
        }
    }

    /// What comes before a packet's time. True if it has none.
    fn take_state(&mut self, packet: &Scan<'_>) -> bool {
        if let Some(defaults) = packet.defaults {
            self.settle();
            self.defaults = defaults.into();
            self.default_counts = None;
            self.default_clock = number_in(defaults, field::TIMESTAMP_CLOCK_ID);
            self.find_running_default();
        }
        if let Some(interned) = packet.interned_data
            && self.is_valid
        {
            for entry in Fields::new(interned).map_while(Result::ok) {
                self.interned.add(entry.raw);
            }
        }
        if let Some(snapshot) = packet.clock_snapshot {
            self.settle();
            self.take_snapshot(snapshot);
            self.find_running_default();
            return true;
        }
        if packet.sequence_flags & NEEDS_STATE == 0 || self.is_valid {
            if let Some(process) = packet.process_descriptor {
                self.process = process.into();
            }
            if let Some(thread) = packet.thread_descriptor {
                self.thread = thread.into();
            }
        }
        false
    }

    fn take_snapshot(&mut self, snapshot: &[u8]) {
        let clocks = Fields::new(snapshot).map_while(Result::ok).filter_map(|field| clock_of(&field));
        let clocks: Box<[Clock]> = clocks.take(MAX_CLOCKS).collect();
        // The system's clocks are the service's to tell of.
        let matters = |clock: &Clock| clock.id >= SEQUENCE_CLOCKS.start;
        if !clocks.iter().any(matters) {
            return;
        }
        let mut ids: Vec<u64> = clocks.iter().map(|clock| clock.id).collect();
        ids.sort_unstable();
        self.snapshots.retain(|older| {
            !older.iter().filter(|clock| matters(clock)).all(|old| ids.binary_search(&old.id).is_ok())
        });
        self.snapshots.push(clocks);
        let (mut snapshots, mut all) = (0, 0);
        let kept = self.snapshots.iter().rev().take_while(|clocks| {
            snapshots += 1;
            all += clocks.len();
            snapshots <= MAX_SNAPSHOTS && all <= MAX_CLOCKS_OF_ALL
        });
        let dropped = self.snapshots.len() - kept.count();
        self.snapshots.drain(..dropped);
        let looks = ids.len() as u32 / NEW_CLOCKS_OF_LOOK + all as u32 / OLD_CLOCKS_OF_LOOK;
        self.extra_looks = self.extra_looks.saturating_add(looks);
    }

    /// What packets have cost since the last time, beside a look at each.
    pub(crate) fn take_extra_looks(&mut self) -> usize {
        std::mem::take(&mut self.extra_looks) as usize
    }

    #[inline]
    fn take_time(&mut self, timestamp: u64, clock_id: Option<u64>) {
        let clock = clock_id.or(self.default_clock);
        if clock == self.default_clock && self.has_running_default {
            self.not_yet_added = self.not_yet_added.wrapping_add(timestamp);
            self.time = (0, clock);
        } else if let Some(running) = clock.and_then(|id| self.running_clock(id)) {
            running.advance = running.advance.wrapping_add(timestamp);
            self.time = (0, clock);
        } else {
            self.time = (timestamp, clock);
        }
    }

    /// The clock with this number, if it is an incremental one of the sequence.
    fn running_clock(&mut self, id: u64) -> Option<&mut Clock> {
        if !SEQUENCE_CLOCKS.contains(&id) {
            return None;
        }
        // The newest says how the clock goes.
        let mut clocks = self.snapshots.iter_mut().rev().flat_map(|clocks| clocks.iter_mut());
        clocks.find(|clock| clock.id == id).filter(|clock| clock.is_incremental)
    }

    /// Adds what there is to add to the clock that it belongs to.
    fn settle(&mut self) {
        let advance = std::mem::take(&mut self.not_yet_added);
        if let Some(clock) = self.default_clock.and_then(|id| self.running_clock(id)) {
            clock.advance = clock.advance.wrapping_add(advance);
        }
    }

    fn find_running_default(&mut self) {
        self.has_running_default = self.default_clock.is_some_and(|id| self.running_clock(id).is_some());
    }

    fn describe(&mut self, track: &[u8]) {
        let mut record = Vec::with_capacity(track.len() + 8);
        Message::new(&mut record).bytes(field::TRACK_DESCRIPTOR, track);
        self.tracks.replace(&record);
        let (Some(uuid), Some(counter)) = (number_of(track), bytes_in(track, 8)) else { return };
        let is_incremental = number_in(counter, 5) == Some(1);
        let is_new = !self.counters.iter().any(|counter| counter.track == uuid);
        if is_incremental && is_new && self.counters.len() < MAX_COUNTERS {
            self.counters.push(Counter { track: uuid, int: 0, double: 0.0 });
        }
    }

    /// Adds up what the event says of incremental counters.
    #[cold]
    fn take_event(&mut self, event: &[u8]) {
        let of_event = Counts::of(event);
        let of_defaults = self.default_counts.take().unwrap_or_else(|| {
            Box::new(Counts::of(bytes_in(&self.defaults, field::TRACK_EVENT).unwrap_or_default()))
        });
        let track = of_event.track.or(of_defaults.track);
        self.count(track, of_event.int, of_event.double);
        let tracks = or_else(&of_event.extra_tracks, &of_defaults.extra_tracks);
        for (track, int) in tracks.iter().zip(&of_event.extra) {
            self.count(Some(*track), int.cast_signed(), 0.0);
        }
        let tracks = or_else(&of_event.extra_double_tracks, &of_defaults.extra_double_tracks);
        for (track, bits) in tracks.iter().zip(&of_event.extra_double) {
            self.count(Some(*track), 0, f64::from_bits(*bits));
        }
        let values = of_event.extra.len() + of_event.extra_double.len();
        let looks = values as u32 / VALUES_OF_LOOK + event.len() as u32 / BYTES_OF_LOOK;
        self.extra_looks = self.extra_looks.saturating_add(looks);
        self.default_counts = Some(of_defaults);
    }

    fn count(&mut self, track: Option<u64>, int: i64, double: f64) {
        if let Some(counter) = self.counters.iter_mut().find(|counter| Some(counter.track) == track) {
            counter.int = counter.int.wrapping_add(int);
            counter.double += double;
        }
    }

    /// Memory beside the struct itself, in bytes.
    pub(crate) fn size(&self) -> usize {
        let snapshots = self.snapshots.capacity() * size_of::<Box<[Clock]>>()
            + self.snapshots.iter().map(|clocks| size_of_val::<[Clock]>(clocks)).sum::<usize>();
        let records = self.interned.size() + self.tracks.size() + self.older_tracks.size();
        let plain = self.defaults.len() + self.process.len() + self.thread.len();
        let counts = self.default_counts.as_ref().map_or(0, |counts| counts.size());
        records + snapshots + plain + counts + self.counters.capacity() * size_of::<Counter>()
    }

    /// Drops the descriptions of tracks that were made before the state was cleared. False if there are none.
    pub(crate) fn drop_older_tracks(&mut self) -> bool {
        let had_any = !self.older_tracks.is_empty();
        self.older_tracks.clear();
        had_any
    }

    /// Drops the older half of the descriptions, but for those of processes, threads and counters, which live long. How many it were.
    pub(crate) fn drop_older_half(&mut self) -> u64 {
        let (half, mut dropped) = (self.tracks.len_bytes() / 2, 0);
        self.tracks.keep(|before, record| {
            let track = bytes_in(record, field::TRACK_DESCRIPTOR).unwrap_or_default();
            let stays = before >= half || [3, 4, 8].iter().any(|part| bytes_in(track, *part).is_some());
            dropped += u64::from(!stays);
            stays
        });
        dropped
    }

    /// Is there anything to say?
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_valid
            && self.defaults.is_empty()
            && self.snapshots.is_empty()
            && self.tracks.is_empty()
            && self.older_tracks.is_empty()
            && self.process.is_empty()
            && self.thread.is_empty()
    }

    /// Says it in packets, after which a reader knows as much.
    pub(crate) fn say(&mut self, said: &mut Said) {
        self.settle();
        let snapshots: Vec<Vec<u8>> = self.snapshots.iter().flat_map(|clocks| now_of(clocks)).collect();
        let mut snapshots = snapshots.iter();
        said.packet(|packet| {
            if self.is_valid {
                packet.varint(field::SEQUENCE_FLAGS, STATE_CLEARED);
                if !self.interned.is_empty() {
                    packet.bytes(field::INTERNED_DATA, &self.interned.iter().collect::<Vec<_>>().concat());
                }
            }
            if !self.defaults.is_empty() {
                packet.bytes(field::TRACE_PACKET_DEFAULTS, &self.defaults);
            }
            if let Some(snapshot) = snapshots.next() {
                packet.bytes(field::CLOCK_SNAPSHOT, snapshot);
            }
        });
        for snapshot in snapshots {
            said.packet(|packet| packet.bytes(field::CLOCK_SNAPSHOT, snapshot));
        }
        for (number, message) in
            [(field::PROCESS_DESCRIPTOR, &self.process), (field::THREAD_DESCRIPTOR, &self.thread)]
        {
            said.packet(|packet| {
                if !message.is_empty() {
                    packet.bytes(number, message);
                }
            });
        }
        for track in self.older_tracks.iter().chain(self.tracks.iter()) {
            said.packet(|packet| packet.raw(track));
        }
        for counter in &self.counters {
            said.packet(|packet| self.say_counter(packet, counter));
        }
    }

    /// An event that brings a counter to where it is, at the time of the last packet.
    fn say_counter(&self, packet: &mut Message<'_, Vec<u8>>, counter: &Counter) {
        const TYPE_COUNTER: u64 = 4;
        if !self.is_valid || (counter.int == 0 && counter.double == 0.0) {
            return;
        }
        let (timestamp, clock) = self.time;
        packet.varint(field::TIMESTAMP, timestamp);
        if let Some(clock) = clock {
            packet.varint(field::TIMESTAMP_CLOCK_ID, clock);
        }
        packet.varint(field::SEQUENCE_FLAGS, NEEDS_STATE);
        let mut event = packet.nested(field::TRACK_EVENT);
        event.varint(9, TYPE_COUNTER);
        event.varint(11, counter.track);
        match counter.double {
            0.0 => event.int(30, counter.int),
            double => event.double(44, double + counter.int as f64),
        }
    }
}

impl Said {
    /// Adds a packet, unless it remains empty.
    fn packet(&mut self, write: impl FnOnce(&mut Message<'_, Vec<u8>>)) {
        let start = self.bytes.len();
        write(&mut Message::new(&mut self.bytes));
        if self.bytes.len() > start {
            self.ends.push(self.bytes.len());
        }
    }
}

/// `TrackEvent` and `TrackEventDefaults`, as far as they are about counters.
#[derive(Debug, Clone, Default)]
struct Counts {
    track: Option<u64>,
    int: i64,
    double: f64,
    extra_tracks: Vec<u64>,
    extra: Vec<u64>,
    extra_double_tracks: Vec<u64>,
    extra_double: Vec<u64>,
}

impl Counts {
    fn of(message: &[u8]) -> Self {
        let mut counts = Self::default();
        counts.read(message);
        counts
    }

    /// Memory, in bytes.
    fn size(&self) -> usize {
        let lists = [&self.extra_tracks, &self.extra, &self.extra_double_tracks, &self.extra_double];
        size_of::<Self>() + lists.map(|list| list.capacity() * size_of::<u64>()).iter().sum::<usize>()
    }

    fn read(&mut self, message: &[u8]) {
        let add = |list: &mut Vec<u64>, value| {
            if list.len() < MAX_EXTRA {
                list.push(value);
            }
        };
        for field in Fields::new(message).map_while(Result::ok) {
            match (field.number, field.value) {
                (11, Value::Varint(uuid)) => self.track = Some(uuid),
                (30, Value::Varint(value)) => self.int = value.cast_signed(),
                (44, Value::Fixed64(bits)) => self.double = f64::from_bits(bits),
                (31, Value::Varint(uuid)) => add(&mut self.extra_tracks, uuid),
                (12, Value::Varint(value)) => add(&mut self.extra, value),
                (45, Value::Varint(uuid)) => add(&mut self.extra_double_tracks, uuid),
                (46, Value::Fixed64(bits)) => add(&mut self.extra_double, bits),
                _ => {}
            }
        }
    }
}

/// The first list, or the second if the first is empty.
fn or_else<'a>(own: &'a [u64], default: &'a [u64]) -> &'a [u64] {
    if own.is_empty() { default } else { own }
}

/// The snapshot for now, once for each incremental clock in it: the others have gone on as far as that.
fn now_of(clocks: &[Clock]) -> Vec<Vec<u8>> {
    let incremental: Vec<&Clock> = clocks.iter().filter(|clock| clock.is_incremental).collect();
    if incremental.is_empty() {
        return vec![encode_snapshot(clocks.iter().copied())];
    }
    let encode = |running: &&Clock| {
        let passed_ns = running.advance.wrapping_mul(running.unit_ns);
        encode_snapshot(clocks.iter().filter(|clock| !clock.is_incremental || clock.id == running.id).map(
            |clock| {
                let advance =
                    if clock.id == running.id { running.advance } else { passed_ns / clock.unit_ns };
                Clock { timestamp: clock.timestamp.wrapping_add(advance), ..*clock }
            },
        ))
    };
    incremental.iter().map(encode).collect()
}

fn encode_snapshot(clocks: impl Iterator<Item = Clock>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut snapshot = Message::new(&mut bytes);
    for clock in clocks {
        let mut message = snapshot.nested(1);
        message.varint(1, clock.id);
        message.varint(2, clock.timestamp);
        if clock.is_incremental {
            message.bool(3, true);
        }
        if clock.unit_ns != 1 {
            message.varint(4, clock.unit_ns);
        }
    }
    drop(snapshot);
    bytes
}

/// A clock of a `ClockSnapshot`.
fn clock_of(field: &Field<'_>) -> Option<Clock> {
    let (1, Value::Bytes(clock)) = (field.number, field.value) else { return None };
    let id = number_in(clock, 1)?;
    Some(Clock {
        id,
        timestamp: number_in(clock, 2)?,
        unit_ns: number_in(clock, 4).unwrap_or(1).max(1),
        is_incremental: number_in(clock, 3) == Some(1) && SEQUENCE_CLOCKS.contains(&id),
        advance: 0,
    })
}

fn number_in(message: &[u8], number: u32) -> Option<u64> {
    let fields = Fields::new(message).map_while(Result::ok);
    fields.filter(|field| field.number == number).fold(None, |last, field| match field.value {
        Value::Varint(value) => Some(value),
        _ => last,
    })
}

fn bytes_in(message: &[u8], number: u32) -> Option<&[u8]> {
    let fields = Fields::new(message).map_while(Result::ok);
    fields.filter(|field| field.number == number).fold(None, |last, field| match field.value {
        Value::Bytes(bytes) => Some(bytes),
        _ => last,
    })
}

#[cfg(test)]
mod tests {
    use super::super::packet::scan;
    use super::*;

    /// A message in a field.
    fn field_of(number: u32, message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Message::new(&mut bytes).bytes(number, message);
        bytes
    }

    fn take(state: &mut SequenceState, packet: &[u8]) {
        state.take(&scan(packet).unwrap());
    }

    #[test]
    fn snapshots_of_many_clocks_are_few_and_cost_more() {
        let mut state = SequenceState::default();
        for own in 0..100 {
            let ids = (0..63).map(|id| 1000 + id).chain([2000 + own]);
            let clocks: Vec<u8> = ids
                .flat_map(|id| {
                    let mut clock = Vec::new();
                    let mut message = Message::new(&mut clock);
                    message.varint(1, id);
                    message.varint(2, 1);
                    drop(message);
                    field_of(1, &clock)
                })
                .collect();
            take(&mut state, &field_of(field::CLOCK_SNAPSHOT, &clocks));
            assert!(state.take_extra_looks() >= 32);
        }
        assert_eq!(state.snapshots.iter().map(|clocks| clocks.len()).sum::<usize>(), MAX_CLOCKS_OF_ALL);
        let last = state.snapshots.last().and_then(|clocks| clocks.last());
        assert_eq!(last.map(|clock| clock.id), Some(2099));
    }

    #[test]
    fn of_defaults_for_thousands_of_counters_as_many_count_as_there_may_be() {
        let mut state = SequenceState::default();
        take(&mut state, &[0x68, 1]);
        for uuid in 1..=2 {
            let track = [&[8, uuid][..], &field_of(8, &[0x28, 1])].concat();
            take(&mut state, &field_of(field::TRACK_DESCRIPTOR, &track));
        }
        // The second is one of the first tracks for values beyond the first, and once more far behind.
        let tracks = [&[0xf8, 1, 9, 0xf8, 1, 2][..], &[0xf8, 1, 9].repeat(10_000), &[0xf8, 1, 2]].concat();
        take(&mut state, &field_of(field::TRACE_PACKET_DEFAULTS, &field_of(field::TRACK_EVENT, &tracks)));
        let event = field_of(field::TRACK_EVENT, &[0x60, 5, 0x60, 7]);
        (0..3).for_each(|_| take(&mut state, &event));
        assert_eq!(state.counters.iter().map(|counter| counter.int).collect::<Vec<_>>(), [0, 21]);
        assert_eq!(state.default_counts.as_ref().map(|counts| counts.extra_tracks.len()), Some(MAX_EXTRA));
        assert_eq!(state.take_extra_looks(), 0);
        take(&mut state, &field_of(field::TRACK_EVENT, &[0x60, 1].repeat(1000)));
        assert!(state.take_extra_looks() >= MAX_EXTRA / 4 + 2000 / 32);
    }
}
