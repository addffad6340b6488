//! Sessions that write into a file: when, how much, and the end (upstream: `ReadBuffersIntoFile`).

use bytes::BytesMut;

use crate::config::FileSpec;
use crate::flush::{AfterFlush, FlushReason};
use crate::ids::{FileHandle, SessionId};
use crate::limits;
use crate::now::{Deadline, Now, take_if_over};
use crate::output::FileWrite;
use crate::prefix::Prefix;
use crate::read_back::{PacketSink, Progress};
use crate::service::Service;
use crate::session::State;

/// The file of a session.
#[derive(Debug)]
pub(crate) struct FileOutput {
    pub(crate) handle: FileHandle,
    pub(crate) spec: FileSpec,
    /// When to write next.
    pub(crate) next_write: Option<Deadline>,
    bytes_written: u64,
    pass: Option<Pass>,
    /// A write was handed out and its result not yet told.
    in_flight: bool,
    /// Nothing fits any more.
    is_full: bool,
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
            in_flight: false,
            is_full: false,
        }
    }

    fn room(&self) -> u64 {
        self.spec.max_bytes.map_or(u64::MAX, |max| max.saturating_sub(self.bytes_written))
    }
}

/// The form of a trace file: packets as fields of a `Trace` message.
struct FileSink {
    bytes: BytesMut,
    room: u64,
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
        preamble(len).append_to(&mut self.bytes);
        slices.for_each(|slice| self.bytes.extend_from_slice(slice));
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn make_room(&mut self, len: usize) -> bool {
        (self.bytes.len() + PREAMBLE_BYTES).saturating_add(len) as u64 <= self.room
    }
}

impl Service {
    /// Bytes to write to a file; say what became of them with [`handle_file_written`](Self::handle_file_written). Of one file there is one
    /// write at a time.
    pub fn poll_file_write(&mut self, now: &Now) -> Option<FileWrite> {
        let sessions = self.sessions.values();
        let due = |file: &FileOutput| file.pass.is_some() && !file.in_flight;
        let ready = sessions
            .filter(|session| session.file.as_ref().is_some_and(due))
            .map(|session| session.id)
            .next()?;
        self.next_file_write(ready, now)
    }

    fn next_file_write(&mut self, session_id: SessionId, now: &Now) -> Option<FileWrite> {
        let file = self.sessions.get(&session_id)?.file.as_ref()?;
        let mut sink = FileSink { bytes: std::mem::take(&mut self.file_write), room: file.room() };
        sink.bytes.reserve(FILE_WRITE_CAPACITY);
        let progress = match file.is_full {
            true => Progress::NoRoom,
            false => self.read_batch(session_id, &mut sink, limits::FILE_WRITE_BYTES, now),
        };
        let file = self.sessions.get_mut(&session_id)?.file.as_mut()?;
        file.is_full |= progress == Progress::NoRoom;
        let goes_on = progress == Progress::Drained && file.pass == Some(Pass::Periodic);
        if progress != Progress::More {
            file.pass = match file.pass {
                Some(Pass::Final | Pass::FinalWritten) => Some(Pass::FinalWritten),
                Some(Pass::Periodic) | None => None,
            };
        }
        file.in_flight = true;
        let bytes = sink.bytes.split().freeze();
        if progress == Progress::More {
            self.file_write = sink.bytes;
        }
        file.bytes_written += bytes.len() as u64;
        let sync = file.spec.sync && progress != Progress::More;
        let write = FileWrite { file: file.handle, bytes, sync };
        if goes_on {
            self.compact_buffers(session_id);
        }
        Some(write)
    }

    /// The driver has written what [`poll_file_write`](Self::poll_file_write) gave, all of it, or could not; the error is for people.
    pub fn handle_file_written(&mut self, file: FileHandle, result: Result<(), String>, now: &Now) {
        let is_it = |session: &&mut crate::session::Session| {
            session.file.as_ref().is_some_and(|found| found.handle == file)
        };
        let Some(session) = self.sessions.values_mut().find(is_it) else { return };
        let session_id = session.id;
        let Some(output) = &mut session.file else { return };
        output.in_flight = false;
        if let Err(error) = result {
            tracing::error!(%session_id, "tracing ends: the file cannot be written: {error}");
            session.error = format!("the trace file cannot be written: {error}; tracing was stopped");
            output.is_full = true;
        }
        let is_full = output.is_full;
        if output.pass == Some(Pass::FinalWritten) {
            self.finish_file(session_id);
        } else if is_full {
            self.disable_tracing(session_id, false, now);
        }
        self.flush_observed_events();
    }

    /// All is written: the file is closed before anybody hears of the end.
    fn finish_file(&mut self, session_id: SessionId) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let file = session.file.take();
        let frees = session.free_when_written;
        self.close_files(file.map(|file| file.handle));
        self.notify_disabled(session_id);
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.wrote_into_file = true;
        if frees {
            self.erase_session(session_id);
        }
    }

    pub(crate) fn start_final_write(&mut self, session_id: SessionId) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        // The stats of the whole recording belong at its end.
        session.stats_armed = true;
        if let Some(file) = &mut session.file {
            file.next_write = None;
            file.pass = Some(Pass::Final);
        }
    }

    pub(crate) fn start_periodic_write(&mut self, session_id: SessionId) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if let Some(file) = &mut session.file
            && file.pass.is_none()
        {
            file.pass = Some(Pass::Periodic);
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
