//! What the commands wait for: the service, signals, the end of a child process, time.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ferretto_consumer::{Consumer, Event};
use rustix::event::{PollFd, PollFlags, Timespec};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

/// Exit status after the last Ctrl-C: what shells report for a process that SIGINT killed.
const STATUS_INTERRUPTED: i32 = 130;

/// Signals as something to poll.
pub(crate) struct Signals {
    stop: UnixStream,
    child: UnixStream,
    /// The next signal ends the process.
    deadly: Arc<AtomicBool>,
}

impl Signals {
    /// From now on SIGINT, SIGTERM and SIGHUP are a [`Wake::Stop`].
    pub(crate) fn install() -> Result<Self> {
        let deadly = Arc::new(AtomicBool::new(false));
        let (stop, stop_sender) = pipe()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_shutdown(signal, STATUS_INTERRUPTED, Arc::clone(&deadly))
                .and_then(|_| signal_hook::low_level::pipe::register(signal, stop_sender.try_clone()?))
                .context("cannot handle signals")?;
        }
        let (child, child_sender) = pipe()?;
        signal_hook::low_level::pipe::register(SIGCHLD, child_sender).context("cannot handle SIGCHLD")?;
        Ok(Self { stop, child, deadly })
    }

    /// Becomes readable when SIGINT, SIGTERM or SIGHUP comes, and stays so until [`wait`] says it.
    pub(crate) fn stop(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    /// Lets the next signal end the process at once: for work that does not wait for signals.
    pub(crate) fn make_deadly(&self) {
        self.deadly.store(true, Ordering::Relaxed);
    }
}

fn pipe() -> Result<(UnixStream, UnixStream)> {
    let (receiver, sender) = UnixStream::pair().context("cannot make a socket pair for signals")?;
    receiver.set_nonblocking(true).context("cannot make a socket non-blocking")?;
    Ok((receiver, sender))
}

/// Why a wait ended.
#[derive(Debug)]
pub(crate) enum Wake {
    Service(Event),
    /// SIGINT, SIGTERM or SIGHUP.
    Stop,
    /// Some child of this process may have ended.
    Child,
    Timeout,
}

/// Waits for the next of them, at most until `deadline`.
pub(crate) fn wait(consumer: &mut Consumer, signals: &mut Signals, deadline: Instant) -> Wake {
    loop {
        if drained(&mut signals.stop) {
            return Wake::Stop;
        }
        if drained(&mut signals.child) {
            return Wake::Child;
        }
        consumer.handle_ready();
        if let Some(event) = consumer.next_event() {
            return Wake::Service(event);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Wake::Timeout;
        }
        poll(consumer, signals, left);
    }
}

/// Sleeps until something happens. Failures show when the sources are read next.
fn poll(consumer: &Consumer, signals: &Signals, timeout: Duration) {
    let consumer_flags = if consumer.wants_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let fd = consumer.fd();
    let (stop, child) = (signals.stop.as_fd(), signals.child.as_fd());
    let mut fds = [
        PollFd::new(&stop, PollFlags::IN),
        PollFd::new(&child, PollFlags::IN),
        PollFd::new(&fd, consumer_flags),
    ];
    // The socket of an ended connection is always ready and would keep us from sleeping.
    let watched = if consumer.is_disconnected() { &mut fds[..2] } else { &mut fds[..] };
    let timeout = Timespec::try_from(timeout).ok();
    let _ = rustix::event::poll(watched, timeout.as_ref());
}

/// Whether a signal had come; its bytes are gone afterwards.
fn drained(pipe: &mut UnixStream) -> bool {
    let mut bytes = [0; 64];
    let mut any = false;
    while pipe.read(&mut bytes).is_ok_and(|len| len > 0) {
        any = true;
    }
    any
}
