//! Jobs for another thread.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ferretto_trace_tables::Helper;
use ferretto_trace_tables::helper::Job;

/// Jobs that may wait: each holds some hundred kilobytes. Those of two long tables, whose columns may all have a block to pack at once.
const MAX_WAITING: usize = 32;

/// What waits to be done.
#[derive(Default)]
pub(crate) struct Jobs {
    waiting: Mutex<Waiting>,
    is_some: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// No more come.
    are_all: bool,
}

impl Jobs {
    /// Does jobs until no more come.
    pub(crate) fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut waiting = self.lock();
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.are_all {
                return None;
            }
            waiting = self.is_some.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Helper for Jobs {
    fn help(&self, job: Job) -> Result<(), Job> {
        let mut waiting = self.lock();
        if waiting.are_all || waiting.jobs.len() >= MAX_WAITING {
            return Err(job);
        }
        waiting.jobs.push_back(job);
        self.is_some.notify_one();
        Ok(())
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jobs")
    }
}

/// The end of jobs, however it comes.
pub(crate) struct Ending(pub(crate) Arc<Jobs>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.lock().are_all = true;
        self.0.is_some.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn each_job_is_done_or_given_back() {
        let jobs = Arc::new(Jobs::default());
        let done = Arc::new(AtomicUsize::new(0));
        let mut given_back = 0;
        let ending = Ending(jobs.clone());
        let mut ask = || {
            let done = done.clone();
            let job = Box::new(move || _ = done.fetch_add(1, Ordering::Relaxed));
            given_back += usize::from(jobs.help(job).is_err());
        };
        (0..MAX_WAITING + 5).for_each(|_| ask());
        std::thread::scope(|scope| {
            scope.spawn(|| jobs.work());
            (0..100).for_each(|_| ask());
            drop(ending);
        });
        ask();
        assert_eq!(done.load(Ordering::Relaxed) + given_back, MAX_WAITING + 5 + 100 + 1);
        assert!(given_back >= 6);
    }
}
