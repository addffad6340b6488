//! When to try to connect again: ever longer pauses, cut short when a socket appears.
//!
//! Upstream: `probes_producer.cc` (100 ms doubling to 30 s) and the watch on the socket's folder of `client_impl.cc`.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify;

/// The first pause: a restarted service is back within this.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// The longest pause: a machine without a service pays two system calls for each.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The longest pause if there is a service which is busy: that passes.
const MAX_DELAY_IF_BUSY: Duration = Duration::from_secs(1);

/// The pauses between attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { next: FIRST_DELAY }
    }

    /// The pause before the next attempt.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = delay.saturating_mul(2).min(MAX_DELAY);
        delay
    }

    /// There is a service, which has too much to do to take another connection.
    pub(crate) fn note_busy(&mut self) {
        self.next = self.next.min(MAX_DELAY_IF_BUSY);
    }

    /// Something changed: short pauses again.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST_DELAY;
    }
}

/// Tells when a socket, or a folder on the way to it, appears. A folder that cannot be watched is not an error: the pauses remain.
#[derive(Debug)]
pub(crate) struct SocketWatch {
    inotify: OwnedFd,
    /// What is to appear in the watched folder; everything else that happens there (in /tmp, say) is no reason to try again.
    wanted: OsString,
}

impl SocketWatch {
    /// Watches the folder of this socket, or the nearest folder above it that exists.
    pub(crate) fn new(socket: &Path) -> Option<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).ok()?;
        // A socket is created by bind(), and may be given its permissions (ATTRIB) a moment later.
        let events =
            inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ATTRIB;
        for path in socket.ancestors() {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
                break;
            };
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            if inotify::add_watch(&inotify, folder, events).is_ok() {
                return Some(Self { inotify, wanted: name.to_owned() });
            }
        }
        None
    }

    /// Whether it appeared, or changed, since the last call.
    pub(crate) fn take_changes(&mut self) -> bool {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut changed = false;
        while let Ok(event) = reader.next() {
            changed |=
                event.file_name().is_some_and(|name| OsStr::from_bytes(name.to_bytes()) == self.wanted);
        }
        changed
    }
}

impl AsFd for SocketWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new();
        let delays: Vec<u64> = (0..11).map(|_| backoff.next_delay().as_millis() as u64).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        backoff.reset();
        assert_eq!(backoff.next_delay(), FIRST_DELAY);
    }

    #[test]
    fn a_service_that_is_busy_is_not_left_for_long() {
        let mut backoff = Backoff::new();
        (0..11).for_each(|_| _ = backoff.next_delay());
        backoff.note_busy();
        assert_eq!(backoff.next_delay(), MAX_DELAY_IF_BUSY);
    }

    #[test]
    fn a_socket_that_appears_is_noticed() {
        let folder = std::env::temp_dir().join(format!("ferretto-watch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut watch = SocketWatch::new(&folder.join("socket")).unwrap();
        std::fs::write(folder.join("other"), b"").unwrap();
        assert!(!watch.take_changes());
        std::fs::write(folder.join("socket"), b"").unwrap();
        assert!(watch.take_changes());
        assert!(!watch.take_changes());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
