//! What a trace must look like: the packets that honest producers write say who wrote them, for whom, and how many came before.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use ferretto_protos::fields::trace_packet as trace_packet_fields;
use ferretto_protos::trace_packet::{Data, OptionalTrustedPacketSequenceId, OptionalTrustedUid, proto_vms};
use ferretto_protos::trace_stats::{BufferStats, FinalFlushOutcome};
use ferretto_protos::tracing_service_event::EventType;
use ferretto_protos::{TestEvent, TracePacket, TraceStats, VmProgram};
use ferretto_protozero::read::{Fields, Value};
use prost::Message;

use crate::fate::Fate;
use crate::interned::{self, Known, Meant, Said, Sense};

/// The sequence of the service's own packets.
const SERVICE_SEQUENCE: u32 = 1;
/// All bits of `previous_packet_dropped` that have a name.
const KNOWN_LOSSES: u32 = 0x1ff;
/// The field of `Trace` that a packet is.
const TRACE_PACKET: u32 = 1;

/// Names a stream of packets: what one writer of one data source instance writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stream {
    pub(crate) uid: u32,
    /// The session that it is for.
    pub(crate) session: u32,
    pub(crate) instance: u64,
}

/// The packet number `count` of a stream, of roughly `len` bytes.
pub(crate) fn packet(
    stream: Stream,
    count: u64,
    len: usize,
    said: &mut Said,
    fate: &mut Fate,
) -> TracePacket {
    let mut packet = TracePacket::default();
    let meant = said.use_in(&mut packet, fate);
    packet.data = Some(test_event(stream, meant, count, len));
    packet
}

fn test_event(stream: Stream, meant: Meant, count: u64, len: usize) -> Data {
    let str = Some(text(stream, meant, count, len));
    // What filters leave out.
    Data::ForTesting(TestEvent { str, counter: Some(count), is_last: Some(true), ..Default::default() })
}

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

fn text(stream: Stream, meant: Meant, count: u64, len: usize) -> String {
    let letter = usize::try_from(count % 26).unwrap_or(0);
    let filler = LETTERS[letter..=letter].repeat(len);
    let (Stream { uid, session, instance }, Meant { epoch, iid, ticks }) = (stream, meant);
    format!("{uid}/{session}/{instance}/{epoch}/{iid}/{ticks}/{len}/{filler}")
}

fn parse(text: &str) -> Option<(Stream, Meant, usize)> {
    let mut parts = text.splitn(8, '/');
    let stream = Stream {
        uid: parts.next()?.parse().ok()?,
        session: parts.next()?.parse().ok()?,
        instance: parts.next()?.parse().ok()?,
    };
    let meant = Meant {
        epoch: parts.next()?.parse().ok()?,
        iid: parts.next()?.parse().ok()?,
        ticks: parts.next()?.parse().ok()?,
    };
    Some((stream, meant, parts.next()?.parse().ok()?))
}

/// Who is known in the world, for the packets that claim to be somebody's.
#[derive(Debug, Default)]
pub(crate) struct People {
    /// The process of each user; every producer has a user of its own.
    pub(crate) pids: BTreeMap<u32, i32>,
    /// The machine of each user; 0 is the service's own.
    pub(crate) machines: BTreeMap<u32, u32>,
    pub(crate) hostile: BTreeSet<u32>,
    /// Those whose chunks may be taken before they are complete, and then come a second time.
    pub(crate) scraped: BTreeSet<u32>,
    /// Which users have had a data source in which session.
    pub(crate) granted: BTreeSet<(u32, u32)>,
}

/// What came back of one stream.
#[derive(Debug, Default)]
struct Found {
    next: u64,
    /// How many came before the first gap.
    until_gap: Option<u64>,
    /// How often it left something out and nobody said so, or began again.
    breaks: u64,
}

/// Reads a trace packet by packet and checks it.
#[derive(Debug)]
pub(crate) struct Checker {
    /// The session whose data it holds.
    session: u32,
    streams: BTreeMap<Stream, Found>,
    owners: BTreeMap<u32, u32>,
    sequences: BTreeMap<u32, Stream>,
    /// What a reader knows of each sequence.
    known: BTreeMap<u32, Known>,
    /// Sequences of which a loss was announced in a packet that has no number.
    announced: BTreeSet<u32>,
    /// It begins in the middle of the sequences.
    pub(crate) is_copy: bool,
    /// What is overwritten in the session's buffers is folded.
    folds: bool,
    /// A filter leaves a field of each event out; not known if it does so with a part of them.
    pub(crate) is_filtered: Option<bool>,
    /// How the clocks of other machines go, so often.
    pub(crate) clock_syncs: u64,
    /// A ProtoVM has a state.
    pub(crate) has_vm_state: bool,
    /// The packet that the state of a ProtoVM holds: what was overwritten last.
    vm_states: BTreeMap<Stream, u64>,
    /// Packets that cannot be read because what they rely on was overwritten.
    pub(crate) overwritten_names: u64,
    /// States of sequences that the service said once more.
    pub(crate) states: u64,
    pub(crate) packets: u64,
    pub(crate) gaps: u64,
    /// How often a stream's buffer may have been emptied for a clone. Each time the stream may break once: what was in the buffer is
    /// left out, or, where it was scraped and read before, comes once more from the chunk that is committed afterwards. The empty
    /// buffer remembers nothing of it.
    pub(crate) emptied: u64,
    stats: Option<TraceStats>,
    /// Packets of producers behind these.
    after_stats: u64,
    has_slow_flush: bool,
    /// The session's events are all in the trace.
    pub(crate) has_names: bool,
}

impl Checker {
    pub(crate) fn new(session: u32, has_events: bool, folds: bool, is_filtered: bool) -> Self {
        Self {
            session,
            streams: BTreeMap::new(),
            owners: BTreeMap::new(),
            sequences: BTreeMap::new(),
            known: BTreeMap::new(),
            announced: BTreeSet::new(),
            is_copy: false,
            folds,
            is_filtered: Some(is_filtered),
            clock_syncs: 0,
            has_vm_state: false,
            vm_states: BTreeMap::new(),
            overwritten_names: 0,
            states: 0,
            packets: 0,
            gaps: 0,
            emptied: 0,
            stats: None,
            after_stats: 0,
            has_slow_flush: false,
            has_names: has_events,
        }
    }

    /// A trace file. One that could not be written to its end may break off in the middle of a packet.
    pub(crate) fn file(&mut self, bytes: &[u8], may_break_off: bool, people: &People) {
        for field in Fields::new(bytes) {
            let Ok(field) = field else {
                assert!(may_break_off, "a file breaks off");
                return;
            };
            let Value::Bytes(packet) = field.value else { panic!("{field:?} in a trace file") };
            assert_eq!(field.number, TRACE_PACKET, "a file has packets only");
            self.packet(packet, people);
        }
    }

    /// The next packet of the trace.
    pub(crate) fn packet(&mut self, bytes: &[u8], people: &People) {
        if let Some(inner) = compressed(bytes) {
            return self.file(&inner, false, people);
        }
        self.packets += 1;
        // What cannot be filtered leaves this. An honest packet that did would be missing from its stream.
        if bytes.is_empty() && self.is_filtered != Some(false) {
            return;
        }
        let uid = trusted_uid(bytes);
        if people.pids.contains_key(&uid) {
            assert!(
                people.granted.contains(&(uid, self.session)),
                "{uid} has no data source in this session"
            );
            // What the others write is looked at only for whose it is.
            if people.hostile.contains(&uid) {
                return;
            }
        }
        let packet = TracePacket::decode(bytes).expect("a trace has packets only");
        if uid == crate::world::SERVICE_UID && packet.machine_id.is_some() {
            return self.machine_packet(&packet, people);
        }
        let sequence = sequence_of(&packet);
        let Some(&pid) = people.pids.get(&uid) else {
            return self.service_packet(uid, sequence, &packet, people);
        };
        assert!(sequence > SERVICE_SEQUENCE, "{uid} speaks as the service");
        assert_eq!(packet.trusted_pid, Some(pid), "the process of {uid}");
        assert_eq!(people.machines.get(&uid), Some(&packet.machine_id()), "the machine of {uid}");
        let owner = *self.owners.entry(sequence).or_insert(uid);
        assert_eq!(owner, uid, "two users on the sequence {sequence}");
        self.producer_packet(uid, sequence, &packet);
    }

    fn service_packet(&mut self, uid: u32, sequence: u32, packet: &TracePacket, people: &People) {
        assert_eq!((uid, sequence), (crate::world::SERVICE_UID, SERVICE_SEQUENCE), "whose is it? {packet:?}");
        match &packet.data {
            Some(Data::TraceStats(stats)) => (self.stats, self.after_stats) = (Some(stats.clone()), 0),
            Some(Data::ServiceEvent(event)) => {
                self.has_slow_flush |=
                    matches!(event.event_type, Some(EventType::LastFlushSlowDataSources(_)));
            }
            Some(Data::ForTesting(event)) => panic!("the service wrote {event:?}"),
            Some(Data::Protovms(vms)) => vms.instance.iter().for_each(|vm| self.vm_state(vm, people)),
            _ => {}
        }
    }

    /// What a machine is, and how its clocks go, is said only where a data source of that machine takes part. It is on no sequence.
    fn machine_packet(&mut self, packet: &TracePacket, people: &People) {
        let machine = packet.machine_id();
        let is_from_there = |(uid, session): &(u32, u32)| {
            *session == self.session && people.machines.get(uid) == Some(&machine)
        };
        assert!(
            machine != 0 && people.granted.iter().any(is_from_there),
            "why is {machine} here? {packet:?}"
        );
        match &packet.data {
            Some(Data::RemoteClockSync(_)) => self.clock_syncs += 1,
            Some(Data::SystemInfo(_)) => {}
            other => panic!("the service wrote {other:?} about a machine"),
        }
    }

    /// The state of an honest producer's ProtoVM is the last packet that was overwritten, as it was written.
    fn vm_state(&mut self, vm: &proto_vms::Instance, people: &People) {
        let program = VmProgram::decode(vm.program.clone().unwrap_or_default());
        let uid = program.ok().and_then(|program| program.version).unwrap_or(0);
        if people.hostile.contains(&uid) || !people.pids.contains_key(&uid) {
            return;
        }
        assert!(people.granted.contains(&(uid, self.session)), "a ProtoVM of {uid}, who takes no part");
        let state = TracePacket::decode(vm.state.clone().unwrap_or_default()).expect("a state is a packet");
        let Some(Data::ForTesting(event)) = state.data else { return };
        let (stream, meant, len) = parse(event.str()).unwrap_or_else(|| panic!("nobody wrote {event:?}"));
        assert_eq!(
            event.str(),
            text(stream, meant, event.counter(), len),
            "a state of {stream:?} was damaged"
        );
        assert_eq!((stream.uid, stream.session), (uid, self.session), "the state of another");
        self.has_vm_state = true;
        if !people.scraped.contains(&uid) {
            self.vm_states.insert(stream, event.counter());
        }
    }

    fn producer_packet(&mut self, uid: u32, sequence: u32, packet: &TracePacket) {
        self.after_stats += 1;
        let loss = packet.previous_packet_dropped();
        assert!(
            loss & !KNOWN_LOSSES == 0 && (loss == 0 || loss & 1 == 1),
            "the sequence {sequence}: the loss {loss:#x}"
        );
        let is_copy = self.is_copy;
        let first = || if is_copy { Known::from_the_middle() } else { Known::default() };
        self.known.entry(sequence).or_insert_with(first).take(packet);
        if loss != 0 {
            self.announced.insert(sequence);
        }
        let Some(Data::ForTesting(event)) = &packet.data else {
            return self.state_packet(packet);
        };
        let (stream, meant, len) = parse(event.str()).unwrap_or_else(|| panic!("nobody wrote {event:?}"));
        let count = event.counter();
        assert_eq!(event.str(), text(stream, meant, count, len), "a packet of {stream:?} was damaged");
        let is_filtered = event.is_last.is_none();
        assert_eq!(
            is_filtered,
            self.is_filtered.unwrap_or(is_filtered),
            "the filter of {stream:?}: {event:?}"
        );
        assert_eq!(uid, stream.uid, "a packet of {stream:?} under another user");
        assert_eq!(self.session, stream.session, "a packet of {stream:?} in another session");
        let owner = *self.sequences.entry(sequence).or_insert(stream);
        assert_eq!(owner, stream, "two streams on the sequence {sequence}");
        let is_loss_announced = self.announced.remove(&sequence);
        if !self.check_order(stream, count, is_loss_announced)
            && let Some(known) = self.known.get_mut(&sequence)
        {
            known.tear();
        }
        self.check_sense(sequence, meant);
    }

    /// A packet on which others rely: of the writer, or of the service, which says again what it has folded.
    fn state_packet(&mut self, packet: &TracePacket) {
        assert!(interned::is_state_only(packet), "a packet that nobody wrote: {packet:?}");
        if packet.interned_data.is_some() {
            assert!(self.folds, "a state is said where nobody asked for it: {packet:?}");
            self.states += 1;
        }
    }

    fn check_sense(&mut self, sequence: u32, meant: Meant) {
        let sense = self.known.get(&sequence).map(|known| known.sense(meant));
        if sense == Some(Sense::Overwritten) && self.folds {
            self.overwritten_names += 1;
        }
    }

    /// The next packet in order. False if it does not follow on the last one, and nobody said so.
    fn check_order(&mut self, stream: Stream, count: u64, is_loss_announced: bool) -> bool {
        let emptied = self.emptied;
        let overwritten = self.vm_states.get(&stream).is_some_and(|last| count <= *last);
        assert!(!overwritten, "{stream:?}: {count} is in a state that packets later than it went into");
        let found = self.streams.entry(stream).or_default();
        if count < found.next {
            found.breaks += 1;
            assert!(
                found.breaks <= emptied,
                "{stream:?} came back out of order: {count}, {} was expected",
                found.next
            );
        }
        if count > found.next {
            found.breaks += u64::from(!is_loss_announced);
            assert!(
                found.breaks <= emptied,
                "{stream:?}: nobody says that {} to {count} are lost",
                found.next
            );
            found.until_gap.get_or_insert(found.next);
            self.gaps += 1;
        }
        let follows = count == found.next || count > found.next && is_loss_announced;
        found.next = count + 1;
        follows
    }

    /// The stream must be there without a gap, at least up to (not with) `count`; unless the buffer says that it was too small.
    pub(crate) fn check_complete(&self, stream: Stream, count: u64) {
        let found = self.streams.get(&stream);
        let there = found.map_or(0, |found| found.until_gap.unwrap_or(found.next));
        assert!(
            there >= count || self.has_overflown(),
            "{stream:?}: {found:?}, not {count}: {:?}",
            self.stats
        );
    }

    fn has_overflown(&self) -> bool {
        let buffers = self.stats.iter().flat_map(|stats| &stats.buffer_stats);
        let lost = |buffer: &BufferStats| {
            buffer.chunks_overwritten() + buffer.chunks_discarded() - buffer.chunks_discarded_without_loss()
        };
        buffers.into_iter().any(|buffer| lost(buffer) > 0)
    }

    /// At the end of a trace from a buffer that folds: whatever is left can be read, unless the statistics say why not. True if it
    /// was put to the test.
    pub(crate) fn check_folding(&self) -> bool {
        // The last ones of a small file that is full have no room for buffers.
        let has_buffers = |stats: &&TraceStats| !stats.buffer_stats.is_empty();
        let Some(stats) = self.stats.as_ref().filter(has_buffers).filter(|_| self.folds) else {
            return false;
        };
        let no_room = stats.buffer_stats.iter().map(BufferStats::sequence_states_lost).sum::<u64>();
        assert!(
            self.overwritten_names == 0 || no_room > 0,
            "{} packets rely on what was overwritten and not folded: {stats:?}",
            self.overwritten_names
        );
        self.states > 0 && no_room == 0
    }

    /// A file ends with statistics, a full one too. True if they say that it is full.
    pub(crate) fn check_end_of_file(&self) -> bool {
        assert_eq!(self.after_stats, 0, "packets of which no statistics know: {:?}", self.stats);
        let losses = self.stats.as_ref().and_then(|stats| stats.losses.as_ref());
        losses.is_some_and(|losses| losses.file_is_full())
    }

    /// At the end of a trace: a failed last flush names whom it waited for, and no more flushes ended than began.
    pub(crate) fn check_flushes(&self) -> bool {
        let Some(stats) = &self.stats else { return false };
        let ended = stats.flushes_succeeded() + stats.flushes_failed();
        assert!(ended <= stats.flushes_requested(), "more flushes ended than began: {stats:?}");
        let has_failed = stats.final_flush_outcome() == FinalFlushOutcome::FinalFlushFailed;
        // For the event that says it, a file that is full may have no room.
        let is_full = stats.losses.as_ref().is_some_and(|losses| losses.file_is_full());
        assert!(
            !has_failed || self.has_slow_flush || is_full || !self.has_names,
            "a flush failed and nobody says whose: {stats:?}"
        );
        has_failed
    }
}

/// The packets in a packet, if it holds such.
fn compressed(packet: &[u8]) -> Option<Vec<u8>> {
    let field = Fields::new(packet).next()?.ok()?;
    let (trace_packet_fields::COMPRESSED_PACKETS, Value::Bytes(bytes)) = (field.number, field.value) else {
        return None;
    };
    let mut inner = Vec::new();
    flate2::read::ZlibDecoder::new(bytes)
        .read_to_end(&mut inner)
        .expect("compressed packets can be unpacked");
    Some(inner)
}

/// The user that the service has put on a packet, whatever else is in it. Nobody else may put one on it.
fn trusted_uid(packet: &[u8]) -> u32 {
    let fields = Fields::new(packet).map(|field| field.expect("a trace has packets only"));
    let mut uids =
        fields.filter(|field| field.number == trace_packet_fields::TRUSTED_UID).map(|field| field.value);
    let (Some(Value::Varint(uid)), None) = (uids.next(), uids.next()) else {
        panic!("a packet has one trusted user: {packet:x?}");
    };
    u32::try_from(uid).expect("a user has 32 bits")
}

fn sequence_of(packet: &TracePacket) -> u32 {
    match packet.optional_trusted_packet_sequence_id {
        Some(OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(sequence)) => sequence,
        None => panic!("a packet without its sequence: {packet:?}"),
    }
}

/// A packet that says of itself what only the service may say.
pub(crate) fn forged_packet(stream: Stream, count: u64, uid: i32, sequence: u32) -> Vec<u8> {
    let meant = Meant { epoch: 1, iid: 1, ticks: 0 };
    let packet = TracePacket {
        data: Some(test_event(stream, meant, count, 3)),
        optional_trusted_uid: Some(OptionalTrustedUid::TrustedUid(uid)),
        optional_trusted_packet_sequence_id: Some(OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(
            sequence,
        )),
        ..Default::default()
    };
    packet.encode_to_vec()
}
