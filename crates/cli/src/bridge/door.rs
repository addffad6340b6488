//! Who has connected and has not said anything yet. Such a connection has no thread, so that hundreds are let in, and go, while one with a
//! thread would be: whoever connects without end is to keep no page waiting.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// So many may be silent; the newest displaces the oldest. A browser speaks at once.
const MAX_SILENT: usize = 256;
/// For so long.
const SILENCE: Duration = Duration::from_secs(5);
/// Accepted at a listener before it is looked who speaks: each is looked at before it is displaced.
const BATCH: usize = 64;
/// How long nobody is accepted after the system refused a descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The listeners, and those who are silent.
#[derive(Debug)]
pub(super) struct Door<'a> {
    listeners: &'a [TcpListener],
    /// Oldest first.
    silent: VecDeque<Silent>,
}

#[derive(Debug)]
struct Silent {
    stream: TcpStream,
    until: Instant,
}

impl<'a> Door<'a> {
    pub(super) fn new(listeners: &'a [TcpListener]) -> Self {
        Self { listeners, silent: VecDeque::new() }
    }

    /// Waits until there is something to do, and does it. Those who speak now; nothing when it is time to stop.
    pub(super) fn next(&mut self, stop: BorrowedFd<'_>) -> io::Result<Option<Vec<TcpStream>>> {
        let mut fds = vec![PollFd::new(&stop, PollFlags::IN)];
        fds.extend(self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        fds.extend(self.silent.iter().map(|silent| PollFd::new(&silent.stream, PollFlags::IN)));
        let left = self.silent.front().map(|oldest| oldest.until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Some(Vec::new())),
            Err(error) => return Err(error.into()),
        }
        let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let mut is_ready = is_ready.into_iter();
        if is_ready.next() == Some(true) {
            return Ok(None);
        }
        let comes: Vec<bool> = is_ready.by_ref().take(self.listeners.len()).collect();
        let speaking = self.take_speaking(is_ready);
        for (listener, _) in self.listeners.iter().zip(comes).filter(|(_, comes)| *comes) {
            self.accept(listener);
        }
        Ok(Some(speaking))
    }

    fn take_speaking(&mut self, is_ready: impl Iterator<Item = bool>) -> Vec<TcpStream> {
        let now = Instant::now();
        let mut speaking = Vec::new();
        for (silent, is_ready) in std::mem::take(&mut self.silent).into_iter().zip(is_ready) {
            match is_ready {
                true if speaks(&silent.stream) => speaking.push(silent.stream),
                false if silent.until > now => self.silent.push_back(silent),
                // It has hung up, or says nothing.
                true | false => {}
            }
        }
        speaking
    }

    fn accept(&mut self, listener: &TcpListener) {
        let until = Instant::now() + SILENCE;
        for _ in 0..BATCH {
            match listener.accept() {
                Ok((stream, _)) => self.silent.push_back(Silent { stream, until }),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    tracing::warn!("cannot take a connection: {error}");
                    std::thread::sleep(ACCEPT_PAUSE);
                    break;
                }
            }
        }
        let too_many = self.silent.len().saturating_sub(MAX_SILENT);
        self.silent.drain(..too_many);
    }
}

fn speaks(stream: &TcpStream) -> bool {
    matches!(recv(stream, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT), Ok((1.., _)))
}
