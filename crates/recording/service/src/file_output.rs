//! Sessions that write into a file: when, how much, and the end (upstream: `ReadBuffersIntoFile`).

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::cloning::CloneRequest;
use crate::config::FileSpec;
use crate::file_copy::FileCopy;
use crate::file_turns::Ready;
use crate::filtering::Filtering;
use crate::flush::{AfterFlush, FlushReason};
use crate::ids::{FileHandle, SessionId};
use crate::ipc_output::Reading;
use crate::limits;
use crate::now::{Deadline, Now, take_if_over};
use crate::output::{FileContent, FileWrite};
use crate::prefix::Prefix;
use crate::read_back::{PacketSink, Progress, ReadPlace};
use crate::service::Service;
use crate::session::{Session, State};

/// The file of a session.
#[derive(Debug)]
pub(crate) struct FileOutput {
    pub(crate) handle: FileHandle,
    pub(crate) spec: FileSpec,
    /// When to write next.
    pub(crate) next_write: Option<Deadline>,
    bytes_written: u64,
    pass: Option<Pass>,
    /// How large the writes are that were handed out and whose results are not yet told, the oldest first.
    in_flight: VecDeque<usize>,
    /// A large packet that is to be written behind those.
    large: Option<Bytes>,
    /// Of the first write that failed. No more is written.
    error: Option<String>,
    /// Nothing fits any more.
    is_full: bool,
    /// It cannot be written, or nobody wants it any more.
    has_failed: bool,
    /// What comes before all else: the file of the session that this one is a clone of.
    pub(crate) copy: Option<FileCopy>,
    /// Whoever asked for the clone is told when all is written.
    pub(crate) clone: Option<CloneRequest>,
}

/// Everything that can be read goes to the file, in as many writes as it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Periodic,
    /// The last one: then the file is closed and the consumer told.
    Final,
    /// The last one has handed out its last bytes.
    FinalWritten,
}

impl FileOutput {
    pub(crate) fn new(handle: FileHandle, spec: FileSpec) -> Self {
        Self {
            handle,
            spec,
            next_write: None,
            bytes_written: 0,
            pass: None,
            in_flight: VecDeque::new(),
            large: None,
            error: None,
            is_full: false,
            has_failed: false,
            copy: None,
            clone: None,
        }
    }

    /// All that was handed out for writing.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Something did not fit, or could not be written.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// All that was written before the first write that is under way.
    pub(crate) fn bytes_done(&self) -> u64 {
        self.bytes_written.saturating_sub(self.bytes_in_flight() as u64)
    }

    /// What was handed out and is not written yet, and what is to be next.
    fn bytes_in_flight(&self) -> usize {
        let handed_out: usize = self.in_flight.iter().sum();
        handed_out + self.large.as_ref().map_or(0, Bytes::len)
    }

    /// Is another write due, and may it begin before those that are under way end?
    pub(crate) fn takes_a_write(&self) -> bool {
        let at_once = match self.copy.is_some() || self.error.is_some() {
            true => 1,
            false => limits::MAX_FILE_WRITES_IN_FLIGHT,
        };
        let is_due = !matches!(self.pass, None | Some(Pass::FinalWritten))
            && self.bytes_in_flight() < limits::MAX_FILE_BYTES_IN_FLIGHT;
        (is_due || self.large.is_some()) && self.in_flight.len() < at_once
    }

    /// No more is to be written.
    pub(crate) fn abandon(&mut self) {
        self.fail();
        if let Some(copy) = &mut self.copy {
            copy.stop();
        }
    }

    /// The next piece of the copy.
    fn next_copy(&mut self) -> Option<FileWrite> {
        let content = self.copy.as_mut()?.next_piece()?;
        self.in_flight.push_back(0);
        Some(FileWrite { file: self.handle, content, sync: false })
    }

    fn fail(&mut self) {
        (self.is_full, self.has_failed) = (true, true);
        self.large = None;
    }

    /// The large packet whose beginning was handed out before.
    fn next_large(&mut self) -> Option<FileWrite> {
        let bytes = self.large.take()?;
        self.in_flight.push_back(bytes.len());
        Some(FileWrite { file: self.handle, content: FileContent::Bytes(bytes), sync: false })
    }

    /// For the trace, so that a full one can still end with what is not in it.
    fn room(&self) -> u64 {
        let kept = |max: u64| (max / LAST_STATS_PART).min(limits::LAST_STATS_BYTES);
        self.spec.max_bytes.map_or(u64::MAX, |max| (max - kept(max)).saturating_sub(self.bytes_written))
    }

    /// To the very end.
    fn last_room(&self) -> u64 {
        self.spec.max_bytes.map_or(u64::MAX, |max| max.saturating_sub(self.bytes_written))
    }

    /// All was read that had room, and the file ends.
    fn ends_full(&self) -> bool {
        self.is_full && !self.has_failed && self.spec.max_bytes.is_some() && self.pass == Some(Pass::Final)
    }
}

/// Of a small file so much is kept for its last statistics.
const LAST_STATS_PART: u64 = 16;

/// Memory for what is on its way to files, used again once it is written.
#[derive(Debug, Default)]
pub(crate) struct WriteMemory(VecDeque<BytesMut>);

impl WriteMemory {
    /// The oldest, whose bytes have most likely been written.
    fn take(&mut self) -> BytesMut {
        let enough = self.0.len() > limits::MAX_FILE_WRITES_IN_FLIGHT;
        let mut bytes = if enough { self.0.pop_front().unwrap_or_default() } else { BytesMut::new() };
        bytes.reserve(FILE_WRITE_CAPACITY);
        bytes
    }

    /// What so many bytes were written from. That of a packet of many megabytes is not kept.
    fn give_back(&mut self, bytes: BytesMut, written: usize) {
        if written <= FILE_WRITE_CAPACITY {
            self.0.push_back(bytes);
        }
    }

    /// Nothing is to be written for a while.
    fn release(&mut self) {
        self.0.clear();
    }
}

/// The form of a trace file: packets as fields of a `Trace` message.
struct FileSink {
    bytes: BytesMut,
    /// A large packet behind these, which ends the batch; what stands before it is in them.
    large: Option<Bytes>,
    room: u64,
    largest_packet: usize,
}

/// `Trace.packet`: field 1, length-delimited.
const PACKET_TAG: u8 = 0x0a;

/// A write ends with the packet that makes it large enough; most packets are smaller than what is left here.
const FILE_WRITE_CAPACITY: usize = limits::FILE_WRITE_BYTES + 64 * 1024;

/// What stands before a packet, at most: the tag and a length below 4 GiB.
pub(crate) const PREAMBLE_BYTES: usize = 6;

/// What stands before a packet of this size.
#[inline]
pub(crate) fn preamble(len: usize) -> Prefix {
    Prefix::default().byte(PACKET_TAG).varint(len)
}

impl PacketSink for FileSink {
    #[inline]
    fn packet<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, len: usize) {
        if len > FILE_WRITE_CAPACITY {
            // At once, and not in ever larger pieces that are copied.
            self.bytes.reserve(PREAMBLE_BYTES + len);
        }
        if let Some(large) = self.large.take() {
            // Not where batches end at their limit.
            self.bytes.extend_from_slice(&large);
        }
        preamble(len).append_to(&mut self.bytes);
        slices.for_each(|slice| self.bytes.extend_from_slice(slice));
    }

    /// What is large is not copied once more.
    fn owned_packet(&mut self, packet: &mut Vec<u8>) {
        if packet.len() <= FILE_WRITE_CAPACITY || self.large.is_some() {
            return self.packet(std::iter::once(packet.as_slice()), packet.len());
        }
        preamble(packet.len()).append_to(&mut self.bytes);
        self.large = Some(std::mem::take(packet).into());
    }

    fn len(&self) -> usize {
        self.bytes.len() + self.large.as_ref().map_or(0, Bytes::len)
    }

    fn make_room(&mut self, len: usize) -> bool {
        (self.len() + PREAMBLE_BYTES).saturating_add(len) as u64 <= self.room
    }

    fn largest_packet(&self) -> usize {
        self.largest_packet
    }
}

impl Service {
    /// Bytes to write to a file; say what became of them with [`handle_file_written`](Self::handle_file_written). Of one file there may be
    /// [`MAX_FILE_WRITES_IN_FLIGHT`](limits::MAX_FILE_WRITES_IN_FLIGHT) under way: they are done, and their results told, in this order.
    pub fn poll_file_write(&mut self, now: &Now) -> Option<FileWrite> {
        let due = |file: &FileOutput| file.takes_a_write() && !self.waits_for_source(file);
        let sessions = self.sessions.values().filter(|session| session.file.as_ref().is_some_and(due));
        let (ready, waiting): (Vec<_>, Vec<_>) = sessions.partition(|session| self.has_room(session));
        let (user, now_ns) = (|session: &&Session| session.owner_uid, now.clocks.monotonic);
        self.patience.note(&waiting.iter().map(user).collect(), now_ns);
        let of = |session: &Session, largest_packet| Ready {
            session: session.id,
            user: session.owner_uid,
            largest_packet,
        };
        let mut ready: Vec<Ready> = ready.into_iter().map(|session| of(session, usize::MAX)).collect();
        let beside_stuck = waiting.iter().filter(|session| self.patience.is_over(session.owner_uid, now_ns));
        ready.extend(beside_stuck.map(|session| of(session, limits::MAX_PACKET_BYTES_BESIDE_STUCK)));
        self.file_turns.keep(|user| self.sessions.values().any(|session| session.owner_uid == user));
        let next = self.file_turns.next(&ready)?;
        let start = self.environment.stopwatch_ns();
        let write = self.next_file_write(next.session, next.largest_packet, now);
        let taken = self.environment.stopwatch_ns().saturating_sub(start);
        self.file_turns.charge(next.user, taken);
        self.clone_behind_packet(next.session, now);
        write
    }

    /// Whether more of a session's packets may be on their way. One that is being filtered is so already, and one that was.
    fn has_room(&self, session: &Session) -> bool {
        session.filtering.as_ref().is_some_and(Filtering::is_within_packet)
            || session.file.as_ref().is_some_and(|file| file.large.is_some())
            || self.bytes_on_their_way(session.owner_uid) < limits::MAX_BYTES_ON_THEIR_WAY_PER_UID
    }

    /// What was read from a user's sessions and is not written, or not taken by who reads.
    fn bytes_on_their_way(&self, user: u32) -> usize {
        let of_session = |session: &Session| {
            let file = session.file.as_ref().map_or(0, FileOutput::bytes_in_flight);
            let filtering = session.filtering.as_ref().map_or(0, Filtering::held_bytes);
            let reader = session.owner.and_then(|owner| self.consumers.get(&owner));
            let reading = reader.and_then(|reader| reader.reading.as_ref()).map_or(0, Reading::held_bytes);
            file + filtering + reading
        };
        self.sessions.values().filter(|session| session.owner_uid == user).map(of_session).sum()
    }

    /// What a session's file gets next, without packets that are larger than this.
    fn next_file_write(
        &mut self,
        session_id: SessionId,
        largest_packet: usize,
        now: &Now,
    ) -> Option<FileWrite> {
        let file = self.sessions.get_mut(&session_id)?.file.as_mut()?;
        if let Some(write) = file.next_copy().or_else(|| file.next_large()) {
            return Some(write);
        }
        let bytes = self.write_memory.take();
        let mut sink = FileSink { bytes, large: None, room: file.room(), largest_packet };
        let progress = match file.is_full {
            true => Progress::NoRoom,
            false => self.read_batch(session_id, &mut sink, limits::FILE_WRITE_BYTES, now),
        };
        let session = self.sessions.get_mut(&session_id)?;
        let file = session.file.as_mut()?;
        file.is_full |= progress == Progress::NoRoom;
        session.losses.file_is_full |= file.is_full && !file.has_failed && file.spec.max_bytes.is_some();
        if file.ends_full() {
            sink.room = file.last_room();
            self.put_last_stats(session_id, &mut sink);
        }
        let file = self.sessions.get_mut(&session_id)?.file.as_mut()?;
        let goes_on = progress == Progress::Drained && file.pass == Some(Pass::Periodic);
        if progress != Progress::More {
            file.pass = match file.pass {
                Some(Pass::Final | Pass::FinalWritten) => Some(Pass::FinalWritten),
                Some(Pass::Periodic) | None => None,
            };
        }
        let bytes = sink.bytes.split().freeze();
        match progress {
            Progress::More => self.write_memory.give_back(sink.bytes, bytes.len()),
            Progress::Drained | Progress::NoRoom => self.write_memory.release(),
        }
        file.in_flight.push_back(bytes.len());
        // A copy of the file ends with a packet.
        file.bytes_written += sink.large.as_ref().map_or(0, Bytes::len) as u64 + bytes.len() as u64;
        file.large = sink.large;
        let sync = file.spec.sync && progress != Progress::More;
        let write = FileWrite { file: file.handle, content: FileContent::Bytes(bytes), sync };
        if goes_on {
            self.note_buffers_read(session_id);
            self.compact_buffers(session_id);
        }
        Some(write)
    }

    /// The driver has written what [`poll_file_write`](Self::poll_file_write) gave, all of it, or could not; the error is for people.
    pub fn handle_file_written(&mut self, file: FileHandle, result: Result<(), String>, now: &Now) {
        let is_it = |session: &&mut Session| session.file.as_ref().is_some_and(|found| found.handle == file);
        let Some(session) = self.sessions.values_mut().find(is_it) else { return };
        let session_id = session.id;
        let Some(output) = &mut session.file else { return };
        output.in_flight.pop_front();
        if let Err(error) = result
            && output.error.is_none()
        {
            tracing::error!(%session_id, "the trace file cannot be written: {error}");
            output.fail();
            output.error = Some(error);
            session.filtering.as_mut().into_iter().for_each(Filtering::give_up);
        }
        if output.error.is_some() && !output.in_flight.is_empty() {
            return self.resume_waiting(session_id, now);
        }
        if output.copy.as_ref().is_some_and(FileCopy::is_done) {
            output.copy = None;
        }
        self.go_on_with_file(session_id, now);
        self.resume_waiting(session_id, now);
        self.close_copied_files();
        self.flush_observed_events();
    }

    /// A write is over, or all of them if one has failed.
    fn go_on_with_file(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(output) = &mut session.file else { return };
        if let Some(error) = output.error.take() {
            if output.clone.is_some() {
                return self.fail_clone_into_file(session_id, &error, now);
            }
            // The first one says why: what follows on it is refused for its sake.
            if session.error.is_empty() {
                session.error = format!("the trace file cannot be written: {error}; tracing was stopped");
            }
        }
        match output.pass {
            Some(Pass::FinalWritten) if output.bytes_in_flight() == 0 && output.in_flight.is_empty() => {
                self.finish_file(session_id, now);
            }
            Some(Pass::FinalWritten) => {}
            Some(Pass::Periodic | Pass::Final) | None if output.is_full => {
                self.disable_tracing(session_id, false, now);
            }
            Some(Pass::Periodic | Pass::Final) | None => {}
        }
    }

    /// All is written: the file is closed before anybody hears of the end.
    fn finish_file(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(file) = session.file.take() else { return };
        self.close_files([file.handle]);
        match file.clone {
            Some(clone) => self.hand_over_clone(session_id, clone, true, now),
            None => self.notify_disabled(session_id),
        }
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.wrote_into_file = true;
        if session.free_when_written {
            self.erase_session(session_id, now);
        }
    }

    pub(crate) fn start_final_write(&mut self, session_id: SessionId) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if let Some(file) = &mut session.file {
            file.next_write = None;
            file.pass = Some(Pass::Final);
            session.read_place = ReadPlace::default();
        }
    }

    pub(crate) fn start_periodic_write(&mut self, session_id: SessionId) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if let Some(file) = &mut session.file
            && file.pass.is_none()
        {
            file.pass = Some(Pass::Periodic);
            session.read_place = ReadPlace::default();
        }
    }

    pub(crate) fn expire_file_write(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(file) = &mut session.file else { return };
        if !take_if_over(&mut file.next_write, now) || session.state == State::Disabled {
            return;
        }
        file.next_write = Some(now.next_multiple_ms(file.spec.period_ms));
        match file.spec.flush_first && session.state == State::Started {
            true => {
                self.flush(session_id, None, FlushReason::Periodic.by_service(), AfterFlush::WriteFile, now)
            }
            false => self.start_periodic_write(session_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_packet_that_the_sink_may_keep_is_not_copied() {
        let large = || vec![7; FILE_WRITE_CAPACITY + 1];
        let mut packet = large();
        let at = packet.as_ptr();
        let mut sink =
            FileSink { bytes: BytesMut::new(), large: None, room: u64::MAX, largest_packet: usize::MAX };
        sink.packet(std::iter::once(&[1, 2][..]), 2);
        sink.owned_packet(&mut packet);
        let len = sink.len();
        assert_eq!(sink.large.as_ref().map(|bytes| bytes.as_ptr()), Some(at));
        // What comes behind it all the same stands behind it.
        sink.owned_packet(&mut vec![3]);
        let mut expected = BytesMut::from(&[PACKET_TAG, 2, 1, 2][..]);
        preamble(large().len()).append_to(&mut expected);
        expected.extend_from_slice(&large());
        assert_eq!(len, expected.len());
        expected.extend_from_slice(&[PACKET_TAG, 1, 3]);
        assert!(sink.large.is_none() && sink.bytes == expected);
    }

    #[test]
    fn memory_of_usual_writes_is_kept_and_that_of_large_packets_is_not() {
        let mut memory = WriteMemory::default();
        memory.give_back(BytesMut::new(), FILE_WRITE_CAPACITY);
        memory.give_back(BytesMut::new(), FILE_WRITE_CAPACITY + 1);
        assert_eq!(memory.0.len(), 1);
    }
}
