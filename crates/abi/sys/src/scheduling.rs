//! How the kernel schedules a thread (upstream: scoped_sched_boost.cc).

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

/// What the kernel knows of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduling {
    policy: i32,
    /// Of the real-time policies; 0 for the others.
    priority: i32,
    /// Of the other policies.
    nice: i32,
}

impl Scheduling {
    /// As nearly all threads are (`SCHED_OTHER`), with this niceness below 0: 0 is the usual one, 20 the best.
    pub fn other(boost: u8) -> Self {
        Self { policy: libc::SCHED_OTHER, priority: 0, nice: -i32::from(boost) }
    }

    /// After all others, when they leave a processor something (`SCHED_IDLE`).
    pub fn idle() -> Self {
        Self { policy: libc::SCHED_IDLE, priority: 0, nice: 0 }
    }

    /// Before all of those, and until it waits (`SCHED_FIFO`); priority 1 to 99.
    pub fn fifo(priority: u8) -> Self {
        Self { policy: libc::SCHED_FIFO, priority: priority.into(), nice: 0 }
    }

    /// That of the calling thread.
    pub fn current() -> io::Result<Self> {
        let mut param = Param { priority: 0 };
        // SAFETY: the first call takes no memory; the second one writes to `param`, which is ours and of its type.
        // JUSTIFICATION: the scheduling policy has no safe interface: neither std nor rustix has these calls.
        let (policy, got) = unsafe {
            (
                libc::syscall(libc::SYS_sched_getscheduler, 0),
                libc::syscall(libc::SYS_sched_getparam, 0, &raw mut param),
            )
        };
        let policy = i32::try_from(policy).unwrap_or(-1);
        if policy < 0 || got < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { policy, priority: param.priority, nice: getpriority_process(None)? })
    }

    /// Has the calling thread scheduled like this.
    pub fn apply(self) -> io::Result<()> {
        let param = Param { priority: self.priority };
        // SAFETY: the call reads `param`, which lives until it returns.
        // JUSTIFICATION: as above.
        if unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, self.policy, &raw const param) } < 0 {
            return Err(io::Error::last_os_error());
        }
        match self.priority {
            0 => Ok(setpriority_process(None, self.nice)?),
            _ => Ok(()),
        }
    }
}

/// The kernel's `struct sched_param`. The system calls are made without the C library, as musl refuses these: POSIX means them for processes, and
/// Linux for threads.
#[repr(C)]
struct Param {
    priority: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own: tests that run beside it keep their priority.
    #[test]
    fn what_is_applied_is_what_the_kernel_says() {
        std::thread::spawn(|| {
            let before = Scheduling::current().unwrap();
            for wanted in [Scheduling::other(5), Scheduling::fifo(1)] {
                if let Err(error) = wanted.apply() {
                    println!("skipped: {wanted:?} is not granted here: {error}");
                    continue;
                }
                let now = Scheduling::current().unwrap();
                assert_eq!((now.policy, now.priority), (wanted.policy, wanted.priority));
                assert!(now.priority > 0 || now.nice == wanted.nice, "{now:?}");
            }
            before.apply().unwrap();
            assert_eq!(Scheduling::current().unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
