//! A timer that goes on while the machine sleeps. `epoll` waits by the monotonic clock, which stands still then.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Becomes readable at a time of the boot clock. To be waited for edge-triggered: nobody reads it.
#[derive(Debug)]
pub(crate) struct Alarm {
    fd: OwnedFd,
    at_ns: Option<u64>,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { fd: timerfd_create(TimerfdClockId::Boottime, flags)?, at_ns: None })
    }

    /// Sets the time, or none. The kernel is told changes only.
    pub(crate) fn set(&mut self, at_ns: Option<u64>) -> io::Result<()> {
        if at_ns == self.at_ns {
            return Ok(());
        }
        // A time of 0 would mean none.
        let ns = at_ns.map_or(0, |ns| ns.max(1));
        let it_value = Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (ns % 1_000_000_000) as _,
        };
        let time = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &time)?;
        self.at_ns = at_ns;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn rings(alarm: &Alarm, within_ms: i64) -> bool {
        let timeout = Timespec { tv_sec: within_ms / 1000, tv_nsec: within_ms % 1000 * 1_000_000 };
        poll(&mut [PollFd::new(alarm, PollFlags::IN)], Some(&timeout)).unwrap() == 1
    }

    #[test]
    fn it_rings_at_its_time_and_not_without_one() {
        let now_ns = crate::system::now().clocks.boottime;
        let mut alarm = Alarm::new().unwrap();
        assert!(!rings(&alarm, 0));
        alarm.set(Some(now_ns + 1_000_000)).unwrap();
        assert!(rings(&alarm, 60_000));
        alarm.set(None).unwrap();
        assert!(!rings(&alarm, 0));
        alarm.set(Some(0)).unwrap();
        assert!(rings(&alarm, 60_000), "a time that is over");
    }
}
