//! Rings that fold what they overwrite: whoever reads what is left knows all names and times, as if nothing had been overwritten.
//!
//! Writers say each name once and times as differences. The reader here knows the rules of a sequence and nothing of the buffer; it
//! skips what it could not make sense of, and then the test fails.

use std::collections::BTreeMap;

use ferretto_protozero::Message;
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_buffer::{Chunk, ClientIdentity, FillPolicy, ProducerId, TraceBuffer, chunk_flags};
use proptest::prelude::*;

const NAMES: u64 = 10;
const UNIT_NS: u64 = 10;
const CHUNK_BYTES: usize = 4080;
/// Of a packet that is larger.
const PIECE_BYTES: usize = 16_000;
/// A field that means nothing here.
const SMALL_FIELD: [u8; 2] = [0x10, 1];

/// Writes packets into chunks, one fragment a packet.
#[derive(Default)]
struct Writer {
    id: u16,
    chunk_id: u32,
    ticks: u64,
    events: u64,
    /// Its events say nothing of a counter, as most do.
    has_no_counter: bool,
    count: i64,
    payload: Vec<u8>,
    num_fragments: u16,
    /// Where the last packet begins.
    last_at: usize,
    /// The first fragment continues a packet.
    continues: bool,
    /// The rest of the last packet, for the next chunk.
    rest: Vec<u8>,
}

impl Writer {
    fn packet(&mut self, write: impl FnOnce(&mut Message<'_, Vec<u8>>)) {
        let mut bytes = Vec::new();
        write(&mut Message::new(&mut bytes));
        self.fragment(&bytes);
    }

    fn fragment(&mut self, bytes: &[u8]) {
        let len = bytes.len();
        self.last_at = self.payload.len();
        self.payload.extend([len as u8 | 0x80, (len >> 7) as u8]);
        self.payload.extend(bytes);
        self.num_fragments += 1;
    }

    /// The last packet goes on in the next chunk.
    fn cut(&mut self) {
        let last = self.payload.split_off(self.last_at);
        self.num_fragments -= 1;
        let (begin, rest) = last[2..].split_at((last.len() - 2) / 2);
        self.rest = rest.to_vec();
        self.fragment(begin);
    }

    /// Cleared state, defaults, clock, a track of a counter, all names.
    fn begin(&mut self) {
        let ticks = self.ticks;
        self.count = 0;
        self.packet(|packet| {
            packet.varint(13, 1);
            packet.nested(59).varint(58, 64);
            let mut snapshot = packet.nested(6);
            let mut own = snapshot.nested(1);
            own.varint(1, 64);
            own.varint(2, ticks);
            own.bool(3, true);
            own.varint(4, UNIT_NS);
            drop(own);
            let mut boot = snapshot.nested(1);
            boot.varint(1, 6);
            boot.varint(2, ticks * UNIT_NS);
        });
        let uuid = 100 + u64::from(self.id);
        if !self.has_no_counter {
            self.packet(|packet| {
                let mut track = packet.nested(60);
                track.varint(1, uuid);
                track.nested(8).bool(5, true);
            });
        }
        for iid in 1..=NAMES {
            let name = format!("name {iid} of {}", self.id);
            self.packet(|packet| {
                packet.varint(13, 2);
                packet.varint(8, 0);
                let mut interned = packet.nested(12);
                let mut entry = interned.nested(2);
                entry.varint(1, iid);
                entry.string(2, &name);
            });
        }
    }

    /// An event that says itself what the reader must make of it: its number in `flow_ids`, here a plain number.
    fn event(&mut self, delta: u64) {
        self.ticks += delta;
        self.events += 1;
        self.count += 3;
        let (number, iid, uuid) = (self.events, self.events % NAMES + 1, 100 + u64::from(self.id));
        let (ticks, count, has_no_counter) = (self.ticks, self.count, self.has_no_counter);
        self.packet(|packet| {
            packet.varint(8, delta);
            packet.varint(13, 2);
            let mut event = packet.nested(11);
            event.varint(9, 4);
            event.varint(10, iid);
            event.varint(200, number);
            event.varint(201, ticks * UNIT_NS);
            if !has_no_counter {
                event.varint(11, uuid);
                event.int(30, 3);
                event.int(202, count);
            }
        });
    }

    /// Copies the chunk as it is now; the writer goes on writing to it.
    fn scrape(&self, buffer: &mut TraceBuffer) {
        self.copy(buffer, false);
    }

    fn copy(&self, buffer: &mut TraceBuffer, complete: bool) {
        let room = if complete { 0 } else { CHUNK_BYTES - self.payload.len() };
        buffer.copy_chunk(&Chunk {
            producer: ProducerId(1),
            client: ClientIdentity::default(),
            writer: self.id,
            chunk_id: self.chunk_id,
            num_fragments: self.num_fragments,
            flags: (u8::from(self.continues) * chunk_flags::FIRST_CONTINUES_FROM_PREVIOUS)
                | (u8::from(!self.rest.is_empty()) * chunk_flags::LAST_CONTINUES_ON_NEXT),
            complete,
            payload: &[&self.payload[..], &vec![0; room]].concat(),
        });
    }

    fn commit(&mut self, buffer: &mut TraceBuffer) {
        self.copy(buffer, true);
        self.chunk_id += 1;
        self.payload.clear();
        self.num_fragments = 0;
        let rest = std::mem::take(&mut self.rest);
        self.continues = !rest.is_empty();
        if self.continues {
            self.fragment(&rest);
        }
    }

    /// A packet of small fields in so many chunks.
    fn large(&mut self, buffer: &mut TraceBuffer, pieces: usize) {
        let piece = SMALL_FIELD.repeat(PIECE_BYTES / SMALL_FIELD.len());
        self.fragment(&piece);
        for pieces_left in (0..pieces).rev() {
            self.rest = if pieces_left > 0 { piece.clone() } else { Vec::new() };
            self.commit(buffer);
        }
    }

    /// Its first few bytes, in a chunk of their own.
    fn begin_large(&mut self, buffer: &mut TraceBuffer) {
        self.fragment(&SMALL_FIELD);
        self.rest = SMALL_FIELD.to_vec();
        self.commit(buffer);
        (self.payload, self.num_fragments) = (Vec::new(), 0);
    }

    /// Fills the buffer this often.
    fn go_round(&mut self, buffer: &mut TraceBuffer, laps: f64) {
        let end = buffer.stats().bytes_written + (buffer.size() as f64 * laps) as u64;
        while buffer.stats().bytes_written < end {
            (0..20).for_each(|delta| self.event(delta));
            self.commit(buffer);
        }
    }
}

/// What a reader knows of one sequence.
#[derive(Default)]
struct Known {
    is_valid: bool,
    names: BTreeMap<u64, Vec<u8>>,
    default_clock: u64,
    ticks: u64,
    /// Boot time at tick 0.
    base_ns: u64,
    counters: BTreeMap<u64, i64>,
}

#[derive(Default)]
struct Reader {
    sequences: BTreeMap<u16, Known>,
    events: BTreeMap<u16, Vec<u64>>,
    skipped: usize,
    losses: usize,
}

fn number(message: &[u8], number: u32) -> Option<u64> {
    Fields::new(message).map(Result::unwrap).find_map(|field| match field.value {
        Value::Varint(value) if field.number == number => Some(value),
        _ => None,
    })
}

fn bytes(message: &[u8], number: u32) -> Option<&[u8]> {
    Fields::new(message).map(Result::unwrap).find_map(|field| match field.value {
        Value::Bytes(value) if field.number == number => Some(value),
        _ => None,
    })
}

impl Reader {
    fn read_all(&mut self, buffer: &mut TraceBuffer) {
        buffer.begin_read();
        while let Some(packet) = buffer.read_next() {
            self.take(packet.writer, packet.loss, &packet.to_vec());
        }
    }

    fn take(&mut self, writer: u16, loss: u32, packet: &[u8]) {
        let known = self.sequences.entry(writer).or_default();
        let flags = number(packet, 13).unwrap_or(0);
        self.losses += usize::from(loss != 0);
        if flags & 1 != 0 {
            known.is_valid = true;
            known.names.clear();
            known.counters.values_mut().for_each(|count| *count = 0);
        } else if loss != 0 {
            known.is_valid = false;
        }
        if let Some(defaults) = bytes(packet, 59) {
            known.default_clock = number(defaults, 58).unwrap();
        }
        let interned = bytes(packet, 12).unwrap_or_default();
        for entry in Fields::new(interned).map(Result::unwrap) {
            let Value::Bytes(entry) = entry.value else { panic!() };
            known.names.insert(number(entry, 1).unwrap(), bytes(entry, 2).unwrap().to_vec());
        }
        if let Some(snapshot) = bytes(packet, 6) {
            let clocks: Vec<u64> = Fields::new(snapshot)
                .map(Result::unwrap)
                .map(|field| {
                    let Value::Bytes(clock) = field.value else { panic!() };
                    number(clock, 2).unwrap()
                })
                .collect();
            known.ticks = clocks[0];
            known.base_ns = clocks[1] - clocks[0] * UNIT_NS;
            return;
        }
        if flags & 2 != 0 && !known.is_valid {
            self.skipped += 1;
            return;
        }
        if let Some(delta) = number(packet, 8) {
            assert_eq!(known.default_clock, 64);
            known.ticks += delta;
        }
        if let Some(track) = bytes(packet, 60) {
            known.counters.entry(number(track, 1).unwrap()).or_default();
        }
        let Some(event) = bytes(packet, 11) else { return };
        if let Some(track) = number(event, 11) {
            let count = known.counters.get_mut(&track).expect("the track is described");
            *count += number(event, 30).unwrap() as i64;
            assert!(number(event, 202).is_none_or(|expected| *count == expected as i64));
        }
        let Some(own_number) = number(event, 200) else { return };
        assert_eq!(known.base_ns + known.ticks * UNIT_NS, number(event, 201).unwrap());
        let iid = number(event, 10).unwrap();
        assert_eq!(known.names[&iid], format!("name {iid} of {writer}").into_bytes());
        self.events.entry(writer).or_default().push(own_number);
    }
}

fn ring(size: usize) -> TraceBuffer {
    TraceBuffer::new(size, FillPolicy::Ring).unwrap().fold_overwritten()
}

fn writers(count: u16) -> Vec<Writer> {
    let writer = |id: u16| Writer { id, has_no_counter: id.is_multiple_of(2), ..Writer::default() };
    let mut writers: Vec<Writer> = (1..=count).map(writer).collect();
    writers.iter_mut().for_each(Writer::begin);
    writers
}

#[test]
fn a_ring_that_went_round_a_hundred_times_can_be_read() {
    const SIZE: usize = 1 << 20;
    let mut buffer = ring(SIZE);
    let mut writers = writers(50);
    while buffer.stats().bytes_written < 100 * SIZE as u64 {
        for writer in &mut writers {
            (0..100).for_each(|delta| writer.event(delta));
            writer.commit(&mut buffer);
        }
    }
    assert_eq!(buffer.stats().sequence_states_lost, 0);
    let mut of_clone = Reader::default();
    of_clone.read_all(&mut buffer.clone_read_only().unwrap());
    let mut reader = Reader::default();
    reader.read_all(&mut buffer);
    for reader in [of_clone, reader] {
        assert_eq!((reader.skipped, reader.events.len(), reader.losses), (0, 50, 50));
        for (writer, events) in reader.events {
            assert_eq!(events.last(), Some(&writers[usize::from(writer) - 1].events));
            assert!(events.windows(2).all(|two| two[0] + 1 == two[1]), "none is missing in between");
        }
    }
}

#[test]
fn what_was_given_up_is_missed_by_those_who_write_again() {
    let mut buffer = ring(64 << 10);
    let mut first = writers(2000);
    first.iter_mut().for_each(|writer| writer.commit(&mut buffer));
    // All of them are overwritten, and there is no room for so many states. Nobody misses them.
    let mut other = Writer { id: 3000, ..Writer::default() };
    for _ in 0..100 {
        other.begin();
        other.commit(&mut buffer);
    }
    assert_eq!(buffer.stats().sequence_states_lost, 0);
    assert!(buffer.stats().bytes_overwritten > 256 << 10);
    // Two that the buffer has forgotten, and two that it knows.
    for writer in [0, 1, 1498, 1499] {
        let says_all_again = writer % 2 == 0;
        if says_all_again {
            first[writer].begin();
        }
        first[writer].event(1);
        first[writer].commit(&mut buffer);
    }
    assert_eq!(buffer.stats().sequence_states_lost, 2);
}

/// The first time that states have no room is when it is made for a chunk of a writer of whom there is nothing but the state.
#[test]
fn the_state_of_whoever_comes_back_is_kept_while_room_is_made() {
    for num_others in 30..120 {
        let mut buffer = ring(16 << 10);
        let mut all = writers(num_others);
        all.iter_mut().for_each(|writer| writer.commit(&mut buffer));
        (0..20).for_each(|delta| all[0].event(delta));
        all[0].commit(&mut buffer);
        let mut reader = Reader::default();
        reader.read_all(&mut buffer);
        assert_eq!(reader.skipped > 0, buffer.stats().sequence_states_lost > 0, "{num_others} others");
    }
}

#[test]
fn whoever_has_read_a_packet_knows_what_it_said() {
    let mut buffer = ring(64 << 10);
    let mut all = writers(100);
    all.iter_mut().for_each(|writer| writer.commit(&mut buffer));
    let mut reader = Reader::default();
    reader.read_all(&mut buffer);
    assert_eq!((reader.skipped, buffer.stats().sequence_states_lost), (0, 0));
}

#[test]
fn a_state_that_does_not_fit_is_counted_and_the_loss_is_told() {
    let mut buffer = ring(4096); // a state may take some 200 bytes
    let mut writers = writers(1);
    for _ in 0..100 {
        (0..20).for_each(|delta| writers[0].event(delta));
        writers[0].commit(&mut buffer);
    }
    assert_eq!(buffer.stats().sequence_states_lost, 1);
    let mut reader = Reader::default();
    reader.read_all(&mut buffer);
    assert!(reader.skipped > 0 && reader.losses == 1 && reader.events.is_empty());
}

/// A clone copies the states of all rings of a session at once.
#[test]
fn rings_that_are_cloned_together_share_the_room_for_states() {
    // Some 240 KiB of them.
    const WRITERS: u16 = 400;
    for (parts, is_room) in [(1, true), (16, true), (64, false)] {
        let mut buffer = ring(64 << 20).one_of(parts);
        for mut writer in writers(WRITERS) {
            writer.commit(&mut buffer);
        }
        let mut reader = Reader::default();
        reader.read_all(&mut buffer);
        let mut other = Writer { id: 3000, ..Writer::default() };
        other.begin();
        other.commit(&mut buffer);
        let mut first = Writer { id: 1, chunk_id: 1, ..Writer::default() };
        first.event(1);
        first.commit(&mut buffer);
        assert_eq!(buffer.stats().sequence_states_lost == 0, is_room, "one of {parts}");
    }
}

#[test]
fn a_chunk_that_never_came_ends_the_state_until_the_writer_begins_anew() {
    let mut buffer = ring(64 * 1024);
    let mut writer = Writer { id: 1, ..Writer::default() };
    writer.begin();
    writer.commit(&mut buffer);
    writer.chunk_id += 1;
    let rounds = |buffer: &mut TraceBuffer, writer: &mut Writer| {
        for _ in 0..400 {
            (0..20).for_each(|delta| writer.event(delta));
            writer.commit(buffer);
        }
    };
    rounds(&mut buffer, &mut writer);
    let mut reader = Reader::default();
    reader.read_all(&mut buffer.clone_read_only().unwrap());
    assert!(reader.skipped > 0 && reader.events.is_empty());
    writer.begin();
    rounds(&mut buffer, &mut writer);
    let mut reader = Reader::default();
    reader.read_all(&mut buffer);
    assert!(reader.skipped == 0 && !reader.events.is_empty());
}

#[test]
fn chunks_as_large_as_may_be_are_kept() {
    for (ring_bytes, payload_bytes) in [(4096, 4080), (1 << 20, 65_535)] {
        let mut buffer = ring(ring_bytes);
        let mut writer = Writer { id: 1, has_no_counter: true, ..Writer::default() };
        while payload_bytes - writer.payload.len() > 100 {
            writer.event(1);
        }
        // The last packet takes all that is left: an event of so many bytes that are of no meaning.
        let mut last = vec![0x40, 1, 0x68, 2, 0x5a, 0x80, 0];
        let filler = payload_bytes - writer.payload.len() - 2 - last.len();
        last[5] |= filler as u8;
        last.resize(last.len() + filler, 0);
        writer.fragment(&last);
        assert_eq!(writer.payload.len(), payload_bytes);
        writer.commit(&mut buffer);
        assert_eq!((buffer.stats().chunks_written, buffer.stats().abi_violations), (1, 0));
    }
}

#[test]
fn who_goes_on_after_another_buffer_has_what_is_new_and_all_names() {
    let mut buffer = ring(64 * 1024);
    let mut writer = Writer { id: 1, ..Writer::default() };
    writer.begin();
    writer.commit(&mut buffer);
    (0..10).for_each(|delta| writer.event(delta));
    let mut expected = 0..0;
    for _ in 0..3 {
        // Of a chunk that was scraped the last packet does not count yet.
        writer.scrape(&mut buffer);
        expected = expected.end..writer.events - 1;
        let mut next = ring(64 * 1024);
        let mut looks_left = usize::MAX;
        assert!(next.fold_all_of(buffer.clone_read_only().unwrap(), &mut looks_left));
        let mut of_clone = Reader::default();
        of_clone.read_all(&mut buffer.clone_read_only().unwrap());
        assert_eq!(of_clone.skipped, 0);
        assert_eq!(of_clone.events[&1], expected.clone().map(|event| event + 1).collect::<Vec<_>>());
        (0..10).for_each(|delta| writer.event(delta));
        buffer = next;
    }
    writer.commit(&mut buffer);
    let mut reader = Reader::default();
    reader.read_all(&mut buffer);
    assert_eq!((reader.skipped, reader.losses), (0, 0));
    assert_eq!(reader.events[&1], (expected.end + 1..=writer.events).collect::<Vec<_>>());
}

#[test]
fn a_state_that_was_lost_in_another_buffer_is_missed_in_the_one_that_goes_on() {
    let mut buffer = ring(64 * 1024);
    let mut writer = Writer { id: 1, ..Writer::default() };
    writer.begin();
    writer.commit(&mut buffer);
    writer.chunk_id += 1;
    writer.event(1);
    writer.commit(&mut buffer);
    for _ in 0..2 {
        let mut next = ring(64 * 1024);
        assert!(next.fold_all_of(buffer.clone_read_only().unwrap(), &mut usize::MAX.clone()));
        buffer = next;
    }
    writer.event(1);
    writer.commit(&mut buffer);
    let mut reader = Reader::default();
    reader.read_all(&mut buffer);
    assert_eq!((reader.skipped, reader.losses, buffer.stats().sequence_states_lost), (1, 1, 1));
}

#[test]
fn a_state_that_was_given_up_and_missed_in_another_buffer_is_missed_in_the_one_that_goes_on() {
    let mut buffer = ring(64 << 10);
    let mut writers = writers(2000);
    writers.iter_mut().for_each(|writer| writer.commit(&mut buffer));
    let writer = &mut writers[1499];
    let mut other = Writer { id: 3000, ..Writer::default() };
    for _ in 0..100 {
        other.begin();
        other.commit(&mut buffer);
    }
    writer.event(1);
    writer.commit(&mut buffer);
    assert_eq!(buffer.stats().sequence_states_lost, 1);
    let mut next = ring(64 << 10);
    assert!(next.fold_all_of(buffer.clone_read_only().unwrap(), &mut usize::MAX.clone()));
    writer.event(1);
    writer.commit(&mut next);
    assert_eq!(next.stats().sequence_states_lost, 1);
}

#[test]
fn what_is_more_than_may_be_looked_at_is_not_folded() {
    let mut buffer = ring(1 << 20);
    let mut writers = writers(20);
    for writer in &mut writers {
        (0..100).for_each(|delta| writer.event(delta));
        writer.commit(&mut buffer);
    }
    let fold_all = |mut looks_left: usize| {
        let mut next = TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap();
        let is_whole = next.fold_all_of(buffer.clone_read_only().unwrap(), &mut looks_left);
        assert_eq!(next.folds_overwritten(), is_whole);
        is_whole.then_some(looks_left)
    };
    let taken = 10_000 - fold_all(10_000).unwrap();
    assert!(taken > 20 * 100);
    assert_eq!(fold_all(taken), Some(0));
    assert_eq!((fold_all(taken - 1), fold_all(0)), (None, None));
}

/// It would be put together at once, and gone through.
#[test]
fn what_a_packet_of_half_a_megabyte_says_is_lost_and_counted() {
    const MOST_BYTES: usize = 512 << 10;
    for (pieces, is_lost) in [(MOST_BYTES / PIECE_BYTES, false), (MOST_BYTES / PIECE_BYTES + 1, true)] {
        let mut buffer = ring(4 << 20);
        let mut writer = writers(1).remove(0);
        writer.commit(&mut buffer);
        writer.large(&mut buffer, pieces);
        writer.go_round(&mut buffer, 1.5);
        assert_eq!(buffer.stats().sequence_states_lost, u64::from(is_lost), "{pieces} pieces");
        let mut reader = Reader::default();
        reader.read_all(&mut buffer);
        assert_eq!(reader.skipped > 0, is_lost, "events that rely on it say so");
    }
}

#[test]
fn of_large_packets_that_begin_in_one_place_the_first_is_folded() {
    let mut buffer = ring(4 << 20);
    let mut all = writers(7);
    for writer in &mut all {
        writer.commit(&mut buffer);
        writer.begin_large(&mut buffer);
    }
    all.iter_mut().for_each(|writer| writer.large(&mut buffer, 500_000 / PIECE_BYTES));
    let mut other = Writer { id: 3000, ..Writer::default() };
    other.begin();
    other.go_round(&mut buffer, 0.3);
    for writer in &mut all {
        writer.event(1);
        writer.commit(&mut buffer);
    }
    assert_eq!(buffer.stats().sequence_states_lost, 6);
}

#[test]
fn a_packet_whose_end_comes_laps_later_is_whole() {
    check_late_end(|_, _| ());
}

#[test]
fn a_packet_whose_end_was_begun_when_it_was_scraped_is_whole() {
    check_late_end(|slow, buffer| slow.scrape(buffer));
}

#[test]
fn a_packet_whose_middle_has_come_is_whole() {
    check_late_end(|slow, buffer| {
        slow.cut();
        slow.commit(buffer);
        slow.scrape(buffer);
    });
}

#[test]
fn packets_of_many_writers_that_stop_together_are_whole() {
    let mut buffer = ring(1 << 20);
    let mut writers = writers(101);
    let (fast, slow) = writers.split_first_mut().unwrap();
    for writer in &mut *slow {
        writer.begin();
        (0..5).for_each(|delta| writer.event(delta));
        writer.cut();
        writer.commit(&mut buffer);
    }
    fast.go_round(&mut buffer, 60.0);
    for writer in &mut *slow {
        (0..5).for_each(|delta| writer.event(delta));
        writer.commit(&mut buffer);
    }
    let mut reader = Reader::default();
    reader.read_all(&mut buffer);
    assert_eq!(reader.skipped, 0);
    for writer in slow {
        assert_eq!(reader.events[&writer.id], (5..=10).collect::<Vec<_>>());
    }
    assert_eq!(buffer.stats().sequence_states_lost, 0);
}

/// What is scraped of a packet's end may be in the way of its own beginning, which then comes again behind it.
#[test]
fn a_packet_whose_end_was_stored_over_its_beginning_is_whole() {
    for commits_between in 200..280 {
        let mut buffer = ring(128 * 1024);
        let [mut slow, mut fast] = <[Writer; 2]>::try_from(writers(2)).ok().unwrap();
        let mut others = |buffer: &mut TraceBuffer, commits: usize| {
            for _ in 0..commits {
                (0..24).for_each(|delta| fast.event(delta));
                fast.commit(buffer);
            }
        };
        slow.begin();
        (0..5).for_each(|delta| slow.event(delta));
        slow.cut();
        slow.commit(&mut buffer);
        others(&mut buffer, commits_between);
        slow.scrape(&mut buffer);
        others(&mut buffer, 600);
        (0..5).for_each(|delta| slow.event(delta));
        slow.commit(&mut buffer);
        let mut reader = Reader::default();
        reader.read_all(&mut buffer);
        let lost = buffer.stats().sequence_states_lost;
        assert_eq!((reader.skipped, lost), (0, 0), "{commits_between} commits between");
        assert!(reader.events[&slow.id].ends_with(&[6, 7, 8, 9, 10]), "{commits_between} commits between");
    }
}

/// In a small ring a beginning that comes again can be in the way of what came after it, and comes too late then. What is lost with it was
/// before that, which may say all again.
#[test]
fn what_comes_again_too_late_takes_nothing_with_it_that_was_said_later() {
    for says_all_again in [true, false] {
        let mut buffer = ring(36 * 1024);
        let mut writer = Writer { id: 1, ..Writer::default() };
        writer.begin();
        writer.commit(&mut buffer);
        let fill = |writer: &mut Writer, bytes: usize| {
            while writer.payload.len() < bytes {
                writer.event(1);
            }
        };
        fill(&mut writer, 14_000);
        writer.cut();
        writer.commit(&mut buffer);
        // The packet is given up.
        (writer.payload, writer.num_fragments, writer.continues) = (Vec::new(), 0, false);
        if says_all_again {
            writer.begin();
        }
        fill(&mut writer, 24_000);
        writer.commit(&mut buffer);
        assert_eq!(buffer.stats().chunks_discarded, 1, "it came too late");
        writer.event(1);
        writer.commit(&mut buffer);
        let mut reader = Reader::default();
        reader.read_all(&mut buffer);
        let lost = buffer.stats().sequence_states_lost;
        assert_eq!((reader.skipped, lost), if says_all_again { (0, 0) } else { (1, 1) });
        assert_eq!(reader.losses, 1);
    }
}

/// What a slow writer leaves after the beginning of a packet comes again as that does.
fn check_late_end(then: impl Fn(&mut Writer, &mut TraceBuffer)) {
    let mut buffer = ring(128 * 1024);
    let [mut slow, mut fast] = <[Writer; 2]>::try_from(writers(2)).ok().unwrap();
    for (laps, is_whole) in [(0.5, true), (1.5, true), (2.8, true), (60.0, true), (130.0, false)] {
        slow.begin();
        (0..5).for_each(|delta| slow.event(delta));
        slow.cut();
        slow.commit(&mut buffer);
        then(&mut slow, &mut buffer);
        fast.go_round(&mut buffer, laps);
        (0..5).for_each(|delta| slow.event(delta));
        slow.commit(&mut buffer);
        let mut reader = Reader::default();
        reader.read_all(&mut buffer.clone_read_only().unwrap());
        let events = reader.events.get(&slow.id).cloned().unwrap_or_default();
        assert_eq!(reader.skipped == 0, is_whole, "{laps} laps: {events:?}");
        if is_whole {
            let expected: Vec<u64> = (slow.events - 5..=slow.events).collect();
            assert!(events.ends_with(&expected), "{laps} laps: {events:?}");
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Events(u16, u8, u8),
    /// An event whose end comes with the next ones.
    Cut(u16),
    /// The chunk is copied while its writer is at work on its last packet, perhaps the end of one from the chunk before.
    Scrape(u16),
    Begin(u16),
    /// Packets read, then nothing more.
    Read(u8),
    Clone,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0u16..4, 1u8..30, any::<u8>()).prop_map(|(writer, count, delta)| Step::Events(writer, count, delta)),
        1 => (0u16..4).prop_map(Step::Begin),
        3 => (0u16..4).prop_map(Step::Cut),
        3 => (0u16..4).prop_map(Step::Scrape),
        2 => any::<u8>().prop_map(Step::Read),
        1 => Just(Step::Clone),
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn through_reads_and_clones_nothing_is_skipped(steps in steps()) {
        let mut buffer = ring(128 * 1024);
        let mut writers = writers(4);
        let mut reader = Reader::default();
        for step in steps {
            match step {
                Step::Events(writer, count, delta) => {
                    let writer = &mut writers[usize::from(writer)];
                    for _ in 0..40 {
                        (0..count).for_each(|_| writer.event(delta.into()));
                        writer.commit(&mut buffer);
                    }
                }
                Step::Cut(writer) => {
                    let writer = &mut writers[usize::from(writer)];
                    writer.event(1);
                    writer.cut();
                    writer.commit(&mut buffer);
                }
                Step::Scrape(writer) => writers[usize::from(writer)].scrape(&mut buffer),
                Step::Begin(writer) => writers[usize::from(writer)].begin(),
                Step::Read(count) => {
                    buffer.begin_read();
                    for _ in 0..count {
                        let Some(packet) = buffer.read_next() else { break };
                        reader.take(packet.writer, packet.loss, &packet.to_vec());
                    }
                }
                Step::Clone => {
                    let mut of_clone = Reader::default();
                    of_clone.read_all(&mut buffer.clone_read_only().unwrap());
                    prop_assert_eq!(of_clone.skipped, 0);
                }
            }
        }
        reader.read_all(&mut buffer);
        prop_assert_eq!(reader.skipped, 0);
        prop_assert_eq!(buffer.stats().sequence_states_lost, 0);
    }
}
