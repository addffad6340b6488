//! Reading what was recorded.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ferretto_consumer::{ReadSummary, write_packet};
use ferretto_protos::TraceStats;

use super::channel::{Channel, Deadline, ReadGuard, block_on};
use super::driver;
use super::error::SessionError;
use super::file;
use super::session::{About, Connection, Storage};

/// Buffers may be read from a service that waits for its own disk or compresses; this is for silence, not for the whole.
const SILENCE: Duration = Duration::from_secs(60);

/// A session that has ended, with its trace.
#[derive(Debug)]
#[must_use = "the trace is gone when this is dropped"]
pub struct RecordedTrace {
    connection: Connection,
    about: About,
    /// Where the service wrote it.
    path: Option<PathBuf>,
    uuid: Option<u128>,
}

impl RecordedTrace {
    /// The trace of a session that has ended. A file gets its good name.
    pub(super) fn new(connection: Connection, about: About) -> Result<Self, SessionError> {
        let About { place, timeout, unique_name, storage } = about;
        let (storage, path) = match storage {
            Storage::File(file) => {
                let path = file.path().to_owned();
                file.finish()?;
                (Storage::Elsewhere, Some(path))
            }
            other => (other, None),
        };
        Ok(Self { connection, about: About { place, timeout, unique_name, storage }, path, uuid: None })
    }

    pub(super) fn with_uuid(self, uuid: u128) -> Self {
        Self { uuid: Some(uuid), ..self }
    }

    /// Writes the trace into a file, which has its name only when it is whole. Says how much that was.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the service has written one already.
    pub fn save(mut self, path: impl AsRef<Path>) -> Result<ReadSummary, SessionError> {
        self.read()?.save(path)
    }

    /// The trace as bytes, as a file would hold it.
    ///
    /// # Errors
    ///
    /// If the service does not give it, or has written a file.
    pub fn into_vec(mut self) -> Result<Vec<u8>, SessionError> {
        self.read()?.into_vec()
    }

    /// Reads the trace, once.
    ///
    /// # Errors
    ///
    /// If the service has written it into a file.
    pub fn read(&mut self) -> Result<ReadTrace<'_>, SessionError> {
        match &self.path {
            Some(path) => Err(SessionError::InFile { path: Some(path.clone()) }),
            None => ReadTrace::new(&self.connection, &self.about),
        }
    }

    /// The file that the service wrote, see [`SessionSetup::write_into_file`](super::SessionSetup::write_into_file).
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The number by which services tell copies of sessions apart; only copies have one.
    pub fn uuid(&self) -> Option<u128> {
        self.uuid
    }

    /// Statistics of the recording: what its buffers took, what was lost and why.
    ///
    /// # Errors
    ///
    /// If the service does not answer.
    pub fn stats(&mut self) -> Result<TraceStats, SessionError> {
        block_on(&self.connection.0, self.connection.stats(self.about.timeout))
    }
}

/// A read of a session's buffers, which takes out what it reads: choose a form.
#[derive(Debug)]
#[must_use = "nothing is read yet"]
pub struct ReadTrace<'a> {
    channel: &'a Arc<Channel>,
    timeout: Duration,
}

impl<'a> ReadTrace<'a> {
    pub(super) fn new(connection: &'a Connection, about: &About) -> Result<Self, SessionError> {
        match &about.storage {
            Storage::Memory => Ok(Self { channel: &connection.0, timeout: about.timeout }),
            Storage::File(file) => Err(SessionError::InFile { path: Some(file.path().to_owned()) }),
            Storage::Elsewhere => Err(SessionError::InFile { path: None }),
        }
    }

    /// Packets one by one, each a serialised `TracePacket`. What is not taken before the iterator is dropped is lost.
    pub fn packets(self) -> Packets<'a> {
        Packets { read: self, guard: None, batch: Vec::new().into_iter(), summary: None, ended: false }
    }

    /// Hands out packets as they come, some at a time.
    ///
    /// # Errors
    ///
    /// If the service does not give them.
    pub fn for_each_batch(self, on_batch: impl FnMut(&[Bytes])) -> Result<ReadSummary, SessionError> {
        block_on(self.channel, read(self.channel, self.timeout, infallible(on_batch)))
    }

    /// As [`for_each_batch`](Self::for_each_batch). Dropping the future loses what was not yet read.
    ///
    /// # Errors
    ///
    /// As [`for_each_batch`](Self::for_each_batch).
    pub async fn for_each_batch_async(
        self,
        on_batch: impl FnMut(&[Bytes]),
    ) -> Result<ReadSummary, SessionError> {
        read(self.channel, self.timeout, infallible(on_batch)).await
    }

    /// As [`for_each_batch`](Self::for_each_batch), on a thread of this library; calls `on_end` last. Returns at once. If the session is
    /// dropped before, what was not yet read is lost.
    ///
    /// # Errors
    ///
    /// If the thread for callbacks cannot be started.
    pub fn for_each_batch_with(
        self,
        on_batch: impl FnMut(&[Bytes]) + Send + 'static,
        on_end: impl FnOnce(Result<ReadSummary, SessionError>) + Send + 'static,
    ) -> Result<(), SessionError> {
        let (channel, timeout) = (self.channel.clone(), self.timeout);
        driver::spawn(async move { on_end(read(&channel, timeout, infallible(on_batch)).await) })
    }

    /// The trace as bytes, as a file would hold it.
    ///
    /// # Errors
    ///
    /// If the service does not give it.
    pub fn into_vec(self) -> Result<Vec<u8>, SessionError> {
        block_on(self.channel, self.into_vec_async())
    }

    /// As [`into_vec`](Self::into_vec).
    ///
    /// # Errors
    ///
    /// As [`into_vec`](Self::into_vec).
    pub async fn into_vec_async(self) -> Result<Vec<u8>, SessionError> {
        let mut trace = Vec::new();
        read(self.channel, self.timeout, |packets| write_all(&mut trace, packets)).await?;
        Ok(trace)
    }

    /// Writes the trace to anything.
    ///
    /// # Errors
    ///
    /// If the service does not give it, or it cannot be written: what was not yet read is lost then.
    pub fn write_to(self, mut out: impl Write) -> Result<ReadSummary, SessionError> {
        block_on(self.channel, read(self.channel, self.timeout, |packets| write_all(&mut out, packets)))
    }

    /// Writes the trace into a file, which has its name only when it is whole.
    ///
    /// # Errors
    ///
    /// As [`write_to`](Self::write_to), and if the file cannot be made.
    pub fn save(self, path: impl AsRef<Path>) -> Result<ReadSummary, SessionError> {
        file::write_whole(path.as_ref(), |out| self.write_to(out))
    }
}

/// Takes all packets out of the buffers.
pub(super) async fn read(
    channel: &Arc<Channel>,
    timeout: Duration,
    mut take: impl FnMut(&[Bytes]) -> Result<(), SessionError>,
) -> Result<ReadSummary, SessionError> {
    let mut reading = channel.begin_read(Deadline::after(timeout)).await?;
    loop {
        match reading.next(SILENCE).await? {
            Ok(packets) => take(&packets)?,
            Err(summary) => return Ok(summary),
        }
    }
}

fn infallible(mut take: impl FnMut(&[Bytes])) -> impl FnMut(&[Bytes]) -> Result<(), SessionError> {
    move |packets| {
        take(packets);
        Ok(())
    }
}

/// As a trace file holds them.
pub(super) fn write_all(mut out: impl Write, packets: &[Bytes]) -> Result<(), SessionError> {
    packets.iter().try_for_each(|packet| write_packet(&mut out, packet)).map_err(SessionError::Sink)
}

/// The packets of a trace, in order. See [`ReadTrace::packets`].
#[derive(Debug)]
pub struct Packets<'a> {
    read: ReadTrace<'a>,
    guard: Option<ReadGuard<'a>>,
    batch: std::vec::IntoIter<Bytes>,
    summary: Option<ReadSummary>,
    ended: bool,
}

impl Packets<'_> {
    /// How much it was, once there is no more.
    pub fn summary(&self) -> Option<ReadSummary> {
        self.summary
    }

    fn next_batch(&mut self) -> Result<Option<Vec<Bytes>>, SessionError> {
        let ReadTrace { channel, timeout } = &self.read;
        let guard = match &mut self.guard {
            Some(guard) => guard,
            None => self.guard.insert(block_on(channel, channel.begin_read(Deadline::after(*timeout)))?),
        };
        match block_on(channel, guard.next(SILENCE))? {
            Ok(packets) => Ok(Some(packets)),
            Err(summary) => {
                self.summary = Some(summary);
                Ok(None)
            }
        }
    }
}

impl Iterator for Packets<'_> {
    type Item = Result<Bytes, SessionError>;

    /// The next packet; after an error there are none.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(packet) = self.batch.next() {
                return Some(Ok(packet));
            }
            if self.ended {
                return None;
            }
            match self.next_batch() {
                Ok(Some(packets)) => self.batch = packets.into_iter(),
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
