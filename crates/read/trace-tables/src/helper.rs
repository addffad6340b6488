//! Work that another thread may do.
//!
//! What has a place in the order of a trace is done by the thread that makes the tables. Packing and unpacking blocks has none: a [`Later`] is
//! made by whoever comes to it first, the helper or who needs it, and is the same either way.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A piece of work. It says nothing; who asked for it knows where its result is.
pub type Job = Box<dyn FnOnce() + Send>;

/// Who works beside the thread that makes the tables.
pub trait Helper: Send + Sync + fmt::Debug {
    /// Takes a job.
    ///
    /// # Errors
    ///
    /// The job, if it has enough to do: what waits holds memory.
    fn help(&self, job: Job) -> Result<(), Job>;
}

/// Something that is made once, by the helper or by the first who needs it.
pub struct Later<T>(Arc<Made<T>>);

struct Made<T> {
    it: OnceLock<T>,
    make: Mutex<Option<Make<T>>>,
}

type Make<T> = Box<dyn FnOnce() -> T + Send>;

impl<T> Clone for Later<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later").field("is_made", &self.0.it.get().is_some()).finish()
    }
}

impl<T: Default> Later<T> {
    /// Lets the helper make it; if that has enough to do, it is made here and now.
    pub fn new(helper: &dyn Helper, make: impl FnOnce() -> T + Send + 'static) -> Self
    where
        T: Send + Sync + 'static,
    {
        let make: Make<T> = Box::new(make);
        let later = Self(Arc::new(Made { it: OnceLock::new(), make: Mutex::new(Some(make)) }));
        let its = later.clone();
        if let Err(job) = helper.help(Box::new(move || _ = its.get())) {
            job();
        }
        later
    }

    /// Nobody makes it before somebody needs it.
    pub fn lazily(make: impl FnOnce() -> T + Send + 'static) -> Self {
        let make: Make<T> = Box::new(make);
        Self(Arc::new(Made { it: OnceLock::new(), make: Mutex::new(Some(make)) }))
    }

    /// It, if it is made.
    #[must_use]
    pub fn made(&self) -> Option<&T> {
        self.0.it.get()
    }

    /// It, as soon as it is made.
    pub fn get(&self) -> &T {
        self.0.it.get_or_init(|| {
            let make = self.0.make.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Only what has panicked comes here again.
            make.map(|make| make()).unwrap_or_default()
        })
    }

    /// It, for the last who needs it.
    #[must_use]
    pub fn take(self) -> T
    where
        T: Clone,
    {
        self.get();
        match Arc::try_unwrap(self.0) {
            Ok(made) => made.it.into_inner().unwrap_or_default(),
            // The helper has made it just now.
            Err(shared) => shared.it.get().cloned().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One who takes some jobs, and does them when told to.
    #[derive(Default)]
    pub(crate) struct Slow(Mutex<Vec<Job>>);

    const MOST: usize = 3;

    impl fmt::Debug for Slow {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Slow")
        }
    }

    impl Helper for Slow {
        fn help(&self, job: Job) -> Result<(), Job> {
            let mut jobs = self.0.lock().unwrap();
            if jobs.len() >= MOST {
                return Err(job);
            }
            jobs.push(job);
            Ok(())
        }
    }

    impl Slow {
        pub(crate) fn work(&self) {
            let jobs = std::mem::take(&mut *self.0.lock().unwrap());
            jobs.into_iter().for_each(|job| job());
        }
    }

    #[test]
    fn what_nobody_has_made_yet_is_made_by_who_needs_it() {
        let helper = Slow::default();
        let all: Vec<Later<Vec<usize>>> = (0..10).map(|n| Later::new(&helper, move || vec![n])).collect();
        assert_eq!(all[1].get(), &[1]);
        assert!(all[0].0.it.get().is_none() && all[5].0.it.get().is_some());
        assert_eq!(all[2].clone().take(), [2]);
        helper.work();
        let made: Vec<usize> = all.into_iter().flat_map(Later::take).collect();
        assert_eq!(made, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn threads_that_need_it_at_once_have_the_same() {
        let helper = Slow::default();
        let later = Later::new(&helper, || vec![1]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(later.get(), &[1]));
            }
            helper.work();
        });
    }
}
