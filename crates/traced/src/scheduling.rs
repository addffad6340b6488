//! How the kernel schedules the calling thread (upstream: scoped_sched_boost.cc).
#![allow(unsafe_code)]

use std::io;

use ferretto_service::Boost;
use rustix::process::{getpriority_process, setpriority_process};

/// What the kernel knows of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scheduling {
    policy: i32,
    /// Of the real-time policies; 0 for the others.
    priority: i32,
    /// Of the other policies.
    nice: i32,
}

impl From<Boost> for Scheduling {
    fn from(boost: Boost) -> Self {
        match boost {
            Boost::Other(priority) => {
                Self { policy: libc::SCHED_OTHER, priority: 0, nice: -i32::from(priority) }
            }
            Boost::Fifo(priority) => Self { policy: libc::SCHED_FIFO, priority: priority.into(), nice: 0 },
        }
    }
}

impl Scheduling {
    /// That of the calling thread.
    pub(crate) fn current() -> io::Result<Self> {
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: the first call takes no memory; the second one writes to `param`, which is ours and of its type.
        // JUSTIFICATION: the scheduling policy has no safe interface: neither std nor rustix has these calls.
        let (policy, got) = unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &raw mut param)) };
        if policy < 0 || got < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { policy, priority: param.sched_priority, nice: getpriority_process(None)? })
    }

    /// Has the calling thread scheduled like this.
    pub(crate) fn apply(self) -> io::Result<()> {
        let param = libc::sched_param { sched_priority: self.priority };
        // SAFETY: the call reads `param`, which lives until it returns.
        // JUSTIFICATION: as above.
        if unsafe { libc::sched_setscheduler(0, self.policy, &raw const param) } < 0 {
            return Err(io::Error::last_os_error());
        }
        match self.priority {
            0 => Ok(setpriority_process(None, self.nice)?),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SystemEnvironment;
    use ferretto_service::Environment as _;

    /// In a thread of its own: tests that run beside it keep their priority.
    #[test]
    fn a_boost_holds_until_it_is_taken_back() {
        std::thread::spawn(|| {
            let before = Scheduling::current().unwrap();
            let mut environment = SystemEnvironment::default();
            for boost in [Boost::Other(5), Boost::Fifo(1)] {
                if let Err(error) = environment.set_scheduling(Some(boost)) {
                    println!("skipped: {boost:?} is not granted here: {error}");
                    continue;
                }
                let now = Scheduling::current().unwrap();
                let expected = Scheduling::from(boost);
                assert_eq!((now.policy, now.priority), (expected.policy, expected.priority));
                assert!(now.priority > 0 || now.nice == expected.nice, "{now:?}");
            }
            environment.set_scheduling(None).unwrap();
            assert_eq!(Scheduling::current().unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
