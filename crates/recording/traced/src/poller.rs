//! What the loop waits for, in two sets: producers' sockets, and everything else. A rest leaves the producers' out.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Events taken from a set at once, mostly; and all that there can be, so that nobody's stands behind those of a crowd.
const EVENTS: [usize; 2] = [64, 16 * 1024];

/// Where a descriptor belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    Producers,
    Others,
}

/// A key, as it was given with the descriptor, and what that is ready for.
pub(crate) type Ready = (u64, EventFlags);

/// The two sets.
#[derive(Debug)]
pub(crate) struct Poller {
    producers: OwnedFd,
    others: OwnedFd,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let create = || epoll::create(epoll::CreateFlags::CLOEXEC);
        Ok(Self { producers: create()?, others: create()? })
    }

    pub(crate) fn add(&self, set: Set, fd: impl AsFd, key: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(self.set(set), fd, EventData::new_u64(key), flags)?)
    }

    pub(crate) fn modify(&self, set: Set, fd: impl AsFd, key: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(self.set(set), fd, EventData::new_u64(key), flags)?)
    }

    pub(crate) fn remove(&self, set: Set, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(self.set(set), fd)?)
    }

    /// Waits for anything, at most so long.
    pub(crate) fn wait(&self, timeout_ns: Option<u64>) -> io::Result<Vec<Ready>> {
        let mut ready = Vec::new();
        let [others, producers] = await_any([&self.others, &self.producers], timeout_ns)?;
        if others {
            take(&self.others, &mut ready)?;
        }
        if producers {
            take(&self.producers, &mut ready)?;
        }
        Ok(ready)
    }

    /// Waits for anything but producers, at most so long; then looks at the producers, too.
    pub(crate) fn rest(&self, rest_ns: u64) -> io::Result<Vec<Ready>> {
        let mut ready = Vec::new();
        if let [true] = await_any([&self.others], Some(rest_ns))? {
            take(&self.others, &mut ready)?;
        }
        take(&self.producers, &mut ready)?;
        Ok(ready)
    }

    fn set(&self, set: Set) -> &OwnedFd {
        match set {
            Set::Producers => &self.producers,
            Set::Others => &self.others,
        }
    }
}

/// Waits with the precision of `ppoll`: that of `epoll_wait` is a millisecond.
fn await_any<const N: usize>(sets: [&OwnedFd; N], timeout_ns: Option<u64>) -> io::Result<[bool; N]> {
    let mut fds = sets.map(|set| PollFd::new(set, PollFlags::IN));
    match poll(&mut fds, timeout_ns.map(timespec).as_ref()) {
        Ok(_) => Ok(fds.map(|fd| !fd.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
    }
}

fn take(set: &OwnedFd, ready: &mut Vec<Ready>) -> io::Result<()> {
    let mut events = Vec::new();
    for room in EVENTS {
        // Those of a first look that had too little room are there again.
        events = Vec::with_capacity(room);
        match epoll::wait(set, spare_capacity(&mut events), Some(&timespec(0))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if events.len() < room {
            break;
        }
    }
    ready.extend(events.into_iter().map(|event| (event.data.u64(), event.flags)));
    Ok(())
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (ns % 1_000_000_000) as _,
    }
}

#[cfg(test)]
mod tests {
    use ferretto_ipc::socket::Stream;

    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    /// A poller, and the far ends of a socket in each set: the producers' has key 1.
    fn poller() -> (Poller, [Stream; 2], [Stream; 2]) {
        let poller = Poller::new().unwrap();
        let ((producer, far_producer), (other, far_other)) =
            (Stream::pair().unwrap(), Stream::pair().unwrap());
        poller.add(Set::Producers, &producer, 1, EventFlags::IN).unwrap();
        poller.add(Set::Others, &other, 2, EventFlags::IN).unwrap();
        (poller, [far_producer, far_other], [producer, other])
    }

    fn keys(ready: io::Result<Vec<Ready>>) -> Vec<u64> {
        ready.unwrap().iter().map(|(key, _)| *key).collect()
    }

    #[test]
    fn both_sets_are_waited_for() {
        let (poller, [far_producer, far_other], _near) = poller();
        assert!(keys(poller.wait(Some(0))).is_empty());
        far_producer.send(b"x", None).unwrap();
        assert_eq!(keys(poller.wait(None)), [1]);
        far_other.send(b"x", None).unwrap();
        assert_eq!(keys(poller.wait(None)), [2, 1]);
    }

    #[test]
    fn a_rest_lasts_although_producers_have_something_to_say() {
        let (poller, [far_producer, _far_other], _near) = poller();
        far_producer.send(b"x", None).unwrap();
        let start = std::time::Instant::now();
        assert_eq!(keys(poller.rest(2_000_000)), [1]);
        assert!(start.elapsed().as_nanos() >= 2_000_000);
    }

    #[test]
    fn anybody_else_ends_a_rest() {
        let (poller, [far_producer, far_other], _near) = poller();
        far_producer.send(b"x", None).unwrap();
        far_other.send(b"x", None).unwrap();
        assert_eq!(keys(poller.rest(HOUR_NS)), [2, 1]);
    }

    #[test]
    fn nobody_stands_behind_a_crowd() {
        let poller = Poller::new().unwrap();
        let pairs: Vec<_> = (0..200).map(|_| Stream::pair().unwrap()).collect();
        for (key, (near, far)) in (1..).zip(&pairs) {
            poller.add(Set::Others, near, key, EventFlags::IN).unwrap();
            far.send(b"x", None).unwrap();
        }
        let mut found = keys(poller.wait(None));
        found.sort_unstable();
        assert_eq!(found, (1..=200).collect::<Vec<u64>>());
    }
}
