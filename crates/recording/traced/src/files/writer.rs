//! The thread of a file. A disk, a network or a pipe's reader that takes its time holds nobody up but the session whose file it is.
//!
//! Upstream writes on the service's own thread. A disk that stalls then costs every producer what it writes meanwhile, and to copy a
//! fast trace into the page cache alone is a third of all the work.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use ferretto_service::FileHandle;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::passed;

/// A pipe that is writable takes this many bytes without waiting (`PIPE_BUF`).
const PIPE_WRITE_BYTES: usize = 4096;

/// Enough for a write and the words of an error.
const STACK_BYTES: usize = 128 * 1024;

/// How long the end of the service waits for writes that are under way.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// An open file.
#[derive(Debug)]
pub(super) struct Target {
    file: File,
    /// Who has passed it.
    user: u32,
    /// Where in a regular file the first write began.
    start: OnceLock<u64>,
}

/// What is to be written.
#[derive(Debug)]
pub(super) enum Content {
    Bytes(Bytes),
    /// What was written to another file before; the offset counts from the first byte of that.
    Copy {
        from: Arc<Target>,
        offset: u64,
        len: usize,
    },
}

/// One write.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) content: Content,
    pub(super) sync: bool,
}

/// What became of writes, and a descriptor that is readable while there is something to say.
#[derive(Debug)]
pub(crate) struct Reports {
    state: Mutex<State>,
    /// There is a report.
    has_news: Condvar,
    news: OwnedFd,
    /// Readable when pipes are not to be waited for any more.
    end: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    done: VecDeque<(FileHandle, io::Result<()>)>,
    /// Writes that nothing was reported of yet.
    pending: usize,
}

/// The way to a file's thread, which ends with it.
#[derive(Debug)]
pub(super) struct Writer(Sender<Job>);

impl Reports {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            state: Mutex::default(),
            has_news: Condvar::new(),
            news: eventfd(0, flags)?,
            end: eventfd(0, flags)?,
        })
    }

    /// The next write that is over, and how it went.
    pub(crate) fn next(&self) -> Option<(FileHandle, io::Result<()>)> {
        let mut state = self.lock();
        let next = state.done.pop_front();
        if next.is_none() {
            // Under the lock: news that come later are signalled later. There is nothing to read if there were none.
            let _ = rustix::io::read(&self.news, &mut [0; 8]);
        }
        next
    }

    /// A write begins.
    pub(super) fn expect(&self) {
        self.lock().pending += 1;
    }

    pub(super) fn tell(&self, file: FileHandle, result: io::Result<()>) {
        let mut state = self.lock();
        state.pending = state.pending.saturating_sub(1);
        state.done.push_back((file, result));
        signal(&self.news);
        self.has_news.notify_all();
    }

    /// Waits until all that was to be written is; not for readers of pipes, nor for ever.
    pub(crate) fn end(&self) {
        signal(&self.end);
        let state = self.lock();
        let waited = self.has_news.wait_timeout_while(state, END_TIMEOUT, |state| state.pending > 0);
        if waited.is_ok_and(|(state, _)| state.pending > 0) {
            tracing::error!("a trace file takes no bytes: it may end in the middle of a packet");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under the lock leaves the state half changed.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

/// Makes an event's descriptor readable. It cannot fail but by 2^64 signals that nobody reads.
fn signal(event: &OwnedFd) {
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(handle: FileHandle, target: Arc<Target>, reports: &Arc<Reports>) -> io::Result<Self> {
        let (sender, jobs) = channel();
        let reports = Arc::clone(reports);
        let run = move || carry_out(handle, &target, &jobs, &reports);
        std::thread::Builder::new().name("ferretto-file".to_owned()).stack_size(STACK_BYTES).spawn(run)?;
        Ok(Self(sender))
    }

    pub(super) fn write(&self, job: Job) -> io::Result<()> {
        self.0.send(job).map_err(|_| io::Error::other("the file's thread has ended"))
    }
}

/// Does all writes in turn. After one that failed nothing is written: the file would go on behind a gap that nobody can see.
fn carry_out(handle: FileHandle, target: &Target, jobs: &Receiver<Job>, reports: &Reports) {
    let mut has_failed = false;
    for job in jobs {
        let result = match has_failed {
            true => Err(io::Error::other("a write before has failed")),
            false => target.write(job, reports),
        };
        has_failed |= result.is_err();
        reports.tell(handle, result);
    }
}

impl AsFd for Target {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Target {
    pub(super) fn new(file: File, user: u32) -> Self {
        Self { file, user, start: OnceLock::new() }
    }

    fn write(&self, job: Job, reports: &Reports) -> io::Result<()> {
        let bytes = match job.content {
            Content::Bytes(bytes) => bytes,
            Content::Copy { from, offset, len } => from.read(offset, len)?,
        };
        match self.file.metadata()?.is_file() {
            true => self.write_regular(&bytes, job.sync),
            false => self.write_as_taken(&bytes, reports),
        }
    }

    fn write_regular(&self, bytes: &[u8], sync: bool) -> io::Result<()> {
        let mut file = &self.file;
        if self.start.get().is_none() {
            passed::check_place(file, self.user)?;
        }
        passed::check_room(file, bytes.len(), self.user)?;
        file.write_all(bytes)?;
        if self.start.get().is_none() {
            // Known only now: a file that is appended to may have been anywhere before.
            let start = file.stream_position()?.saturating_sub(bytes.len() as u64);
            self.start.get_or_init(|| start);
        }
        if sync { file.sync_data() } else { Ok(()) }
    }

    /// Writes to a pipe, a terminal or a socket, which may take bytes when it likes.
    fn write_as_taken(&self, mut bytes: &[u8], reports: &Reports) -> io::Result<()> {
        let mut file = &self.file;
        while !bytes.is_empty() {
            await_room(file, &reports.end)?;
            let part = bytes.get(..PIPE_WRITE_BYTES).unwrap_or(bytes);
            match file.write(part) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        let start = self.start.get().ok_or_else(|| io::Error::other("the source is no regular file"))?;
        let mut bytes = vec![0; len];
        let read = self.file.read_exact_at(&mut bytes, start.saturating_add(offset));
        read.map_err(|error| io::Error::new(error.kind(), format!("reading the source's file: {error}")))?;
        Ok(bytes.into())
    }
}

/// Until a small write would not wait, even if the descriptor is a blocking one. An error of the other end is a writable state: the
/// write then says what it is.
fn await_room(file: &File, end: &OwnedFd) -> io::Result<()> {
    let mut fds = [PollFd::new(file, PollFlags::OUT), PollFd::new(end, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
    match fds {
        [file, _] if !file.revents().is_empty() => Ok(()),
        _ => Err(io::Error::other("the service ends before the file was read")),
    }
}
