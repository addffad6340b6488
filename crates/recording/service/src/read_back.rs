//! Reading a session: the service's own packets around those of the buffers, with the trusted fields (upstream: `ReadBuffers`).

use std::collections::{BTreeMap, VecDeque};

use ferretto_protos::fields::trace_packet as field;
use ferretto_protos::trace_packet::{Data, ProtoVms, proto_vms};
use ferretto_protos::{
    BuiltinClock, RemoteClockSync, TracePacket, TraceProvenance, TraceStats, TraceUuid, TracingServiceEvent,
    trace_provenance, trace_stats, tracing_service_event::EventType,
};
use ferretto_protozero::Message as Writer;
use ferretto_trace_buffer::{ClientIdentity, CompactionBudget, Packet, TraceBuffer, validator};
use prost::Message;

use crate::buffers::Buffer;
use crate::compression::Compressing;
use crate::filtering::{Outlet, Put};
use crate::ids::{BufferId, ProducerId, SessionId};
use crate::now::{ClockReadings, Now};
use crate::producer_set::ProducerSet;
use crate::registry::Producer;
use crate::service::Service;
use crate::session::{SequenceIds, Session, State};
use crate::{clock_snapshots, limits};

/// The sequence of the service's own packets; producers' begin after it.
pub(crate) const SERVICE_SEQUENCE_ID: u32 = 1;

/// Marks a place where a reader of a damaged trace can go on (upstream: `kSyncMarker`).
const SYNC_MARKER: [u8; 16] =
    [0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba, 0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79];

/// What a refused packet counts in a batch beside its size: as many bytes as are copied in the time that it takes to look at it.
const REFUSED_PACKET_COST: usize = 64;

/// Takes packets in the form that its medium wants.
pub(crate) trait PacketSink {
    /// One packet: its slices one after another. `len` is their sum.
    fn packet<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, len: usize);
    /// The same, of a packet that the sink may keep.
    fn owned_packet(&mut self, packet: &mut Vec<u8>) {
        self.packet(std::iter::once(packet.as_slice()), packet.len());
    }
    /// Bytes taken so far.
    fn len(&self) -> usize;
    /// Is there room for a packet of this size, or can it be made? Where a file has a limit.
    fn make_room(&mut self, len: usize) -> bool;
    /// Larger packets are left out, and those behind them go on.
    fn largest_packet(&self) -> usize {
        usize::MAX
    }
}

/// Where the next batch of what is read goes on.
#[derive(Debug, Default)]
pub(crate) struct ReadPlace {
    /// The buffer, by its index in the session.
    buffer: usize,
    /// Some of it has been read.
    is_within: bool,
    /// Another batch came before this one.
    goes_on: bool,
    /// The buffers are gone through again, for what came meanwhile to those that were read first.
    again: bool,
    /// Of each buffer that was come to, how far writing may get until it is left: others may write without end.
    ends: Vec<u64>,
    /// All of the buffers was read; what is left are the service's own packets behind them.
    is_behind_buffers: bool,
}

impl ReadPlace {
    /// The next buffer of so many. False if that was all.
    fn next_buffer(&mut self, buffers: usize) -> bool {
        self.buffer += 1;
        self.is_within = false;
        if self.buffer >= buffers && self.goes_on && !self.again {
            (self.buffer, self.again) = (0, true);
        }
        self.buffer < buffers
    }

    /// Whether what was in the buffer when it was first come to is gone for sure, read or overwritten.
    fn is_left(&mut self, buffer: &TraceBuffer) -> bool {
        let stats = buffer.stats();
        let written = stats.bytes_written.saturating_add(stats.padding_bytes_written);
        if self.ends.len() <= self.buffer {
            let at_most = (buffer.size() as u64).saturating_mul(limits::READ_BUFFERS_TIMES);
            self.ends.resize(self.buffer + 1, written.saturating_add(at_most));
        }
        self.ends.get(self.buffer).is_some_and(|end| written >= *end)
    }
}

/// How far one read went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The sink has enough; there may be more.
    More,
    /// All that can be read was.
    Drained,
    /// The sink has no room for the next packet, which is lost with all after it.
    NoRoom,
}

impl Service {
    /// Reads packets until the sink has `limit` bytes or there are no more.
    pub(crate) fn read_batch(
        &mut self,
        session_id: SessionId,
        sink: &mut impl PacketSink,
        limit: usize,
        now: &Now,
    ) -> Progress {
        let Some(session) = self.sessions.get_mut(&session_id) else { return Progress::Drained };
        if session.waits_for_trigger() {
            return Progress::Drained;
        }
        if let Some(filtering) = &mut session.filtering {
            filtering.begin_batch();
        }
        match Outlet::new(sink, &mut session.filtering, &mut *self.environment).put_unfinished() {
            Put::Done => {}
            Put::Unfinished => return Progress::More,
            Put::NoRoom => return Progress::NoRoom,
        }
        if session.own_packets.is_empty() {
            session.own_packets = session.leading_packets(&self.options, &self.buffers, &self.producers, now);
        }
        match self.put_own(session_id, sink, limit, |own| &mut own.never_compressed) {
            Progress::Drained => {}
            unfinished => return unfinished,
        }
        let Some(codec) = self.sessions.get(&session_id).and_then(|session| session.config.compression)
        else {
            return self.read_data(session_id, sink, limit, now);
        };
        let limit = limit.min(limits::COMPRESSED_BATCH_BYTES);
        let mut compressing = Compressing::new(sink, codec);
        let progress = self.read_data(session_id, &mut compressing, limit, now);
        compressing.finish();
        progress
    }

    /// Lets the buffers give back memory, if the config asks for it. Call it when all that can be read was: then the least is left to move
    /// (upstream: `MaybeCompactBuffers`).
    pub(crate) fn compact_buffers(&mut self, session_id: SessionId) {
        let Some(session) = self.sessions.get(&session_id) else { return };
        if !session.config.compacts_buffers || session.waits_for_trigger() {
            return;
        }
        let mut budget = CompactionBudget::default();
        for id in &session.buffers {
            let buffer = self.buffers.get_mut(id);
            if let Some(released) = buffer.and_then(|buffer| buffer.trace.compact(&mut budget)) {
                self.environment.dispose(Box::new(released));
            }
        }
    }

    /// Everything but the service's very first packets.
    fn read_data(
        &mut self,
        session_id: SessionId,
        sink: &mut impl PacketSink,
        limit: usize,
        now: &Now,
    ) -> Progress {
        match self.put_own(session_id, sink, limit, |own| &mut own.others) {
            Progress::Drained => {}
            unfinished => return unfinished,
        }
        let Some(session) = self.sessions.get_mut(&session_id) else { return Progress::Drained };
        if let Some((buffer, packet)) = session.carried.take() {
            let mut outlet = Outlet::new(sink, &mut session.filtering, &mut *self.environment);
            match outlet.put(buffer, std::iter::once(packet.as_slice()), packet.len()) {
                Put::Done => {}
                Put::Unfinished => return Progress::More,
                Put::NoRoom => return Progress::NoRoom,
            }
        }
        if !session.read_place.is_behind_buffers {
            match self.read_buffers(session_id, sink, limit) {
                Progress::Drained => self.leave_buffers(session_id, now),
                unfinished => return unfinished,
            }
        }
        match self.put_own(session_id, sink, limit, |own| &mut own.others) {
            Progress::Drained => {}
            unfinished => return unfinished,
        }
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.read_place = ReadPlace::default();
        }
        if self.put_stats(session_id, sink) { Progress::Drained } else { Progress::NoRoom }
    }

    /// All of the buffers was read: the service's packets behind them are next.
    fn leave_buffers(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.read_place.is_behind_buffers = true;
        session.sequences.forget_gone(|producer| self.producers.contains_key(&producer));
        session.record_event(EventType::ReadTracingBuffersCompleted(true), now);
        let mut packets = Vec::new();
        session.push_event_packets(self.options.uid, &mut packets);
        session.own_packets.others.extend(packets);
    }

    /// The service's own packets are filtered like those of producers, and as many at a time go out.
    fn put_own(
        &mut self,
        session_id: SessionId,
        sink: &mut impl PacketSink,
        limit: usize,
        which: impl FnOnce(&mut OwnPackets) -> &mut VecDeque<Vec<u8>>,
    ) -> Progress {
        let Some(session) = self.sessions.get_mut(&session_id) else { return Progress::Drained };
        let packets = which(&mut session.own_packets);
        let mut outlet = Outlet::new(sink, &mut session.filtering, &mut *self.environment);
        while !packets.is_empty() {
            if outlet.len() >= limit || outlet.is_spent() {
                return Progress::More;
            }
            let Some(packet) = packets.pop_front() else { break };
            match outlet.put(None, std::iter::once(packet.as_slice()), packet.len()) {
                Put::Done => {}
                Put::Unfinished => return Progress::More,
                Put::NoRoom => return Progress::NoRoom,
            }
        }
        Progress::Drained
    }

    /// What the filter did with all packets before is in them; they themselves are not filtered.
    fn put_stats(&mut self, session_id: SessionId, sink: &mut impl PacketSink) -> bool {
        let Some(session) = self.sessions.get_mut(&session_id) else { return true };
        if !std::mem::take(&mut session.stats_armed) {
            return true;
        }
        let Some(stats) = self.trace_stats(session_id, limits::STATS_PACKET_BYTES) else { return true };
        let packet = own_packet(self.options.uid, None, Data::TraceStats(stats));
        let Some(session) = self.sessions.get_mut(&session_id) else { return true };
        Outlet::new(sink, &mut session.filtering, &mut *self.environment).put_unfiltered(&packet) == Put::Done
    }

    /// A file that is full ends with what is not in it: with as much of the statistics as there is room for, and at least that it is full.
    pub(crate) fn put_last_stats(&mut self, session_id: SessionId, sink: &mut impl PacketSink) {
        let Some(stats) = self.trace_stats(session_id, 0) else { return };
        let losses = stats.losses.clone();
        let shortest = trace_stats::Losses { file_is_full: Some(true), ..Default::default() };
        let of_losses = |losses| TraceStats { losses, ..Default::default() };
        for stats in [stats, of_losses(losses), of_losses(Some(shortest))] {
            let packet = own_packet(self.options.uid, None, Data::TraceStats(stats));
            if sink.make_room(packet.len()) {
                return sink.packet(std::iter::once(packet.as_slice()), packet.len());
            }
        }
    }

    fn read_buffers(&mut self, session_id: SessionId, sink: &mut impl PacketSink, limit: usize) -> Progress {
        let progress = self.read_some(session_id, sink, limit);
        if let Some(session) = self.sessions.get_mut(&session_id) {
            match progress {
                Progress::More => session.read_place.goes_on = true,
                Progress::Drained | Progress::NoRoom => session.read_place = ReadPlace::default(),
            }
        }
        progress
    }

    /// Reads on from where the session's reading is.
    fn read_some(&mut self, session_id: SessionId, sink: &mut impl PacketSink, limit: usize) -> Progress {
        let Some(session) = self.sessions.get_mut(&session_id) else { return Progress::Drained };
        let largest = sink.largest_packet();
        let mut outlet = Outlet::new(sink, &mut session.filtering, &mut *self.environment);
        let mut trusted = TrustedFields::default();
        let place = &mut session.read_place;
        // What comes after the end, from those who are slow to stop, is in no stats yet.
        let is_over = session.state == State::Disabled;
        // They take time, too: what is refused, and chunks in which there is nothing to read.
        let (mut refused_bytes, mut looks) = (0, limits::READ_CHUNKS);
        let mut goes_on = !session.buffers.is_empty();
        while goes_on {
            let index = place.buffer;
            if outlet.len() + refused_bytes >= limit {
                return Progress::More;
            }
            let buffer = session.buffers.get(index).and_then(|id| self.buffers.get_mut(id));
            let Some(buffer) = buffer else {
                goes_on = place.next_buffer(session.buffers.len());
                continue;
            };
            if place.is_left(&buffer.trace) {
                buffer.note_left();
                goes_on = place.next_buffer(session.buffers.len());
                continue;
            }
            let buffer = &mut buffer.trace;
            match std::mem::replace(&mut place.is_within, true) {
                true => buffer.resume_read(),
                false => buffer.begin_read(),
            }
            buffer.look_at_most(looks);
            while let Some(packet) = buffer.read_next() {
                // Most packets lie in one piece, and all that is done for each of them is worth doing fast.
                let piece = packet.in_one_piece();
                let is_too_large = piece.is_none() && packet.len() > largest;
                let is_valid = match piece {
                    Some(bytes) => validator::is_valid_untrusted_piece(bytes).is_ok(),
                    None => {
                        packet.len() <= limits::MAX_PACKET_BYTES
                            && validator::is_valid_untrusted_packet(packet.slices()).is_ok()
                    }
                };
                if !is_valid || is_too_large {
                    let count = match is_valid {
                        true => &mut session.losses.large_packets,
                        false => &mut session.counters.invalid_packets,
                    };
                    *count = count.saturating_add(1);
                    refused_bytes += packet.len() + REFUSED_PACKET_COST;
                    if outlet.len() + refused_bytes >= limit {
                        return Progress::More;
                    }
                    continue;
                }
                let suffix = trusted.of(&packet, &mut session.sequences);
                let len = piece.map_or_else(|| packet.len(), <[u8]>::len) + suffix.len();
                let put = match piece {
                    Some(bytes) => outlet.put(Some(index), [bytes, suffix].into_iter(), len),
                    None => outlet.put(Some(index), packet.slices().chain([suffix]), len),
                };
                match put {
                    Put::Done => session.stats_armed |= is_over,
                    Put::Unfinished => return Progress::More,
                    Put::NoRoom => return Progress::NoRoom,
                }
                if outlet.len() + refused_bytes >= limit || outlet.is_spent() {
                    return Progress::More;
                }
            }
            if buffer.is_reading() {
                return Progress::More;
            }
            looks = buffer.looks_left().max(1);
            goes_on = place.next_buffer(session.buffers.len());
        }
        Progress::Drained
    }
}

/// What only the service can know. It stands last, so it counts whatever the packet says; the validator has let nothing like it pass.
///
/// Kept from one packet to the next, for most packets have the same as the one before.
#[derive(Default)]
struct TrustedFields {
    key: Option<(ferretto_trace_buffer::ProducerId, u16, ClientIdentity, u32)>,
    bytes: Vec<u8>,
}

impl TrustedFields {
    #[inline]
    fn of(&mut self, packet: &Packet<'_>, sequences: &mut SequenceIds) -> &[u8] {
        let key = Some((packet.producer, packet.writer, packet.client, packet.loss));
        if self.key != key {
            self.key = key;
            self.bytes.clear();
            self.write(packet, sequences.get(ProducerId(packet.producer.0), packet.writer));
        }
        &self.bytes
    }

    fn write(&mut self, packet: &Packet<'_>, sequence: u32) {
        let mut writer = Writer::new(&mut self.bytes);
        // The field is signed, and so upstream's uid is.
        writer.int(field::TRUSTED_UID, i64::from(packet.client.uid as i32));
        writer.varint(field::TRUSTED_PACKET_SEQUENCE_ID, sequence.into());
        if packet.client.pid != 0 {
            writer.int(field::TRUSTED_PID, packet.client.pid.into());
        }
        if packet.client.machine_id != 0 {
            writer.varint(field::MACHINE_ID, packet.client.machine_id.into());
        }
        if packet.loss != 0 {
            writer.varint(field::PREVIOUS_PACKET_DROPPED, packet.loss.into());
        }
    }
}

/// The VMs of a buffer with those of their producers that there are, or of whom there may be something in it: thousands may have come and
/// gone.
fn instances(buffer: &Buffer, producers: &BTreeMap<ProducerId, Producer>) -> Vec<proto_vms::Instance> {
    let written = buffer.trace.writer_stats().map(|(producer, ..)| ProducerId(producer.0));
    let known: ProducerSet = producers.keys().copied().chain(written).collect();
    buffer.vms.instances(&known).collect()
}

/// A packet of the service itself.
fn own_packet(uid: u32, boottime_ns: Option<u64>, data: Data) -> Vec<u8> {
    let packet = TracePacket { data: Some(data), ..own_packet_base(uid, boottime_ns) };
    packet.encode_to_vec()
}

fn own_packet_base(uid: u32, boottime_ns: Option<u64>) -> TracePacket {
    TracePacket {
        timestamp: boottime_ns,
        timestamp_clock_id: boottime_ns.map(|_| BuiltinClock::Boottime as u32),
        optional_trusted_uid: Some(ferretto_protos::trace_packet::OptionalTrustedUid::TrustedUid(uid as i32)),
        optional_trusted_packet_sequence_id: Some(
            ferretto_protos::trace_packet::OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(
                SERVICE_SEQUENCE_ID,
            ),
        ),
        ..Default::default()
    }
}

/// The marker stands last in its packet, so that a reader that finds its bytes knows where the next packet begins.
fn sync_marker_packet(uid: u32) -> Vec<u8> {
    let mut packet = own_packet_base(uid, None).encode_to_vec();
    Writer::new(&mut packet).bytes(field::SYNCHRONIZATION_MARKER, &SYNC_MARKER);
    packet
}

/// What another machine is.
fn system_info_packet(uid: u32, machine_id: u32, info: &[u8]) -> Vec<u8> {
    let base = TracePacket { machine_id: Some(machine_id), ..own_packet_base(uid, None) };
    let mut packet = base.encode_to_vec();
    Writer::new(&mut packet).bytes(field::SYSTEM_INFO, info);
    packet
}

/// How another machine's clocks go. As upstream's it is of no sequence.
fn clock_sync_packet(uid: u32, machine_id: u32, sync: RemoteClockSync) -> Vec<u8> {
    let packet = TracePacket {
        machine_id: Some(machine_id),
        optional_trusted_packet_sequence_id: None,
        data: Some(Data::RemoteClockSync(sync)),
        ..own_packet_base(uid, None)
    };
    packet.encode_to_vec()
}

/// The service's packets that are next, before all of the buffers or behind it.
#[derive(Debug, Default)]
pub(crate) struct OwnPackets {
    never_compressed: VecDeque<Vec<u8>>,
    others: VecDeque<Vec<u8>>,
}

impl OwnPackets {
    fn is_empty(&self) -> bool {
        self.never_compressed.is_empty() && self.others.is_empty()
    }
}

impl Session {
    /// What comes before the buffers' packets, in upstream's order (v59). Each is written once, or once for each new reason.
    fn leading_packets(
        &mut self,
        options: &crate::ServiceOptions,
        buffers: &BTreeMap<BufferId, Buffer>,
        producers: &BTreeMap<ProducerId, Producer>,
        now: &Now,
    ) -> OwnPackets {
        let uid = options.uid;
        let never_compressed = self.first_packets(uid);
        let mut packets = Vec::new();
        for readings in std::mem::take(&mut self.clocks.ring) {
            packets.push(self.clock_packet(uid, &readings));
        }
        if std::mem::take(&mut self.sync_marker_armed) {
            packets.push(sync_marker_packet(uid));
        }
        if self.config.builtin.trace_config {
            let triggers = self.triggers.take_packets();
            packets.extend(triggers.map(|(boottime_ns, data)| own_packet(uid, Some(boottime_ns), data)));
        }
        if !std::mem::replace(&mut self.emitted.provenance, true) {
            let provenance = Data::TraceProvenance(self.provenance(buffers));
            packets.push(own_packet(uid, Some(now.clocks.boottime), provenance));
        }
        if self.config.builtin.system_info && !std::mem::replace(&mut self.emitted.system_info, true) {
            packets.push(own_packet(uid, None, Data::SystemInfo(options.system_info.clone())));
        }
        if self.config.builtin.system_info {
            let infos = self.machines.take_system_infos().into_iter();
            packets.extend(infos.map(|(machine, info)| system_info_packet(uid, machine, &info)));
        }
        self.push_event_packets(uid, &mut packets);
        let events = self.concurrent.take().into_iter();
        packets.extend(events.map(|other| {
            own_packet(uid, Some(other.boottime_ns), Data::ConcurrentSessionEvent(other.event))
        }));
        if self.config.builtin.clock_snapshots {
            let syncs = self.machines.take_clock_syncs().into_iter();
            packets.extend(syncs.map(|(machine, sync)| clock_sync_packet(uid, machine, sync)));
        }
        if !std::mem::replace(&mut self.emitted.protovms, true) {
            let vms = self.buffers.iter().filter_map(|id| buffers.get(id)).filter(|it| !it.vms.is_empty());
            let instance: Vec<_> = vms.flat_map(|buffer| instances(buffer, producers)).collect();
            if !instance.is_empty() {
                packets.push(own_packet(uid, None, Data::Protovms(ProtoVms { instance })));
            }
        }
        OwnPackets { never_compressed: never_compressed.into(), others: packets.into() }
    }

    /// What a reader can decide by, without unpacking a trace.
    fn first_packets(&mut self, uid: u32) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let initial = self.clocks.initial.take();
        packets.extend(initial.map(|readings| self.clock_packet(uid, &readings)));
        if self.config.builtin.trace_config && !std::mem::replace(&mut self.emitted.trace_config, true) {
            packets.push(own_packet(uid, None, Data::TraceConfig(self.config.raw.clone())));
        }
        if !std::mem::replace(&mut self.emitted.uuid, true) {
            let (msb, lsb) = self.uuid;
            let uuid = TraceUuid { msb: Some(msb), lsb: Some(lsb) };
            packets.push(own_packet(uid, None, Data::TraceUuid(uuid)));
        }
        packets
    }

    /// Which sequences came from which producer. Readers need it to know whose packets go on from the state of a ProtoVM.
    ///
    /// Of so many that nobody has, some are left out.
    fn provenance(&mut self, buffers: &BTreeMap<BufferId, Buffer>) -> TraceProvenance {
        let mut left = limits::MAX_PROVENANCE_SEQUENCES;
        let sequences_of = |id: &BufferId| {
            let writers = buffers.get(id).into_iter().flat_map(|buffer| buffer.trace.writer_stats());
            let writers = writers.take_while(|_| {
                let is_left = left > 0;
                left = left.saturating_sub(1);
                is_left
            });
            let sequences = writers.map(|(producer, writer, _)| trace_provenance::Sequence {
                id: Some(self.sequences.get(ProducerId(producer.0), writer)),
                producer_id: Some(i32::from(producer.0)),
            });
            trace_provenance::Buffer { sequences: sequences.collect() }
        };
        TraceProvenance { buffers: self.buffers.iter().map(sequences_of).collect() }
    }

    fn clock_packet(&self, uid: u32, readings: &ClockReadings) -> Vec<u8> {
        let snapshot = clock_snapshots::encode(readings, self.config.builtin.primary_clock);
        own_packet(uid, None, Data::ClockSnapshot(snapshot))
    }

    fn push_event_packets(&mut self, uid: u32, packets: &mut Vec<Vec<u8>>) {
        while let Some(event) = self.events.pop() {
            let data = Data::ServiceEvent(TracingServiceEvent { event_type: Some(event.event) });
            packets.push(own_packet(uid, Some(event.boottime_ns), data));
        }
    }
}
