//! Recordings that run at the same time: the tests of a program run in parallel, and a service has few sessions.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The service takes five sessions of one user (as upstream). One is left for a test that has a session itself.
const MAX_RECORDINGS: usize = 4;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// The right to record.
#[derive(Debug)]
pub(super) struct Place(());

/// All others go on recording.
#[derive(Debug, thiserror::Error)]
#[error(
    "{MAX_RECORDINGS} other functions of this program have been recorded for {} s, and no more can be at a time: run fewer tests at once (--test-threads)",
    .waited.as_secs()
)]
pub(super) struct NoPlace {
    waited: Duration,
}

impl Place {
    /// Waits until there is one.
    pub(super) fn take(timeout: Duration) -> Result<Self, NoPlace> {
        let is_full = |taken: &mut usize| *taken >= MAX_RECORDINGS;
        let waited = FREED.wait_timeout_while(lock(), timeout, is_full);
        let (mut taken, result) = waited.unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() {
            return Err(NoPlace { waited: timeout });
        }
        *taken += 1;
        Ok(Self(()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *lock() -= 1;
        FREED.notify_one();
    }
}

fn lock() -> MutexGuard<'static, usize> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_last_waits_for_a_place() {
        let mut places: Vec<_> = (0..MAX_RECORDINGS).map(|_| Place::take(Duration::ZERO).unwrap()).collect();
        let error = Place::take(Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("--test-threads"), "{error}");
        let waiting = std::thread::spawn(|| Place::take(Duration::from_secs(30)).is_ok());
        places.pop();
        assert!(waiting.join().unwrap());
    }
}
