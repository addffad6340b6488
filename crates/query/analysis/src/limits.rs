//! What ends a query before its end: somebody who wants it no more, or its time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tokio::sync::watch;

use crate::error::Error;

/// Ends queries from elsewhere: each that was asked with it, or with a clone of it, breaks off soon and says so.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// One that ends nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Ends them. Also those that are asked with it later.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    async fn stopped(&self) {
        // There always is a sender: this one.
        let _ = self.0.subscribe().wait_for(|is_stopped| *is_stopped).await;
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

const ENDED: &str = "the query was ended";

/// What one query has.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    stop: Stop,
    time: Duration,
    end: Instant,
}

impl Limits {
    /// From now on.
    pub(crate) fn new(stop: Stop, time: Duration) -> Self {
        let now = Instant::now();
        // Longer than any machine runs is as good as no end.
        let end = now.checked_add(time).unwrap_or(now + Duration::from_secs(u64::from(u32::MAX)));
        Self { stop, time, end }
    }

    /// The query was not working for so long, but waited until somebody took its rows.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.end = self.end.checked_add(time).unwrap_or(self.end);
    }

    /// Why the query ends here, if it does.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        match () {
            () if self.stop.is_stopped() => Err(ENDED.to_owned()),
            () if Instant::now() >= self.end => Err(self.too_long()),
            () => Ok(()),
        }
    }

    /// What made a query fail: that it ends here, if it does, else this.
    pub(crate) fn or_over(&self, error: impl Into<Error>) -> Error {
        match () {
            () if self.stop.is_stopped() => Error::plain(ENDED),
            () if Instant::now() >= self.end => self.time_is_over(),
            () => error.into(),
        }
    }

    /// When the query ends, why.
    pub(crate) async fn over(&self) -> Error {
        tokio::select! {
            () = self.stop.stopped() => Error::plain(ENDED),
            () = tokio::time::sleep_until(self.end.into()) => self.time_is_over(),
        }
    }

    fn time_is_over(&self) -> Error {
        Error::plain(self.too_long()).with_help("more time is allowed by --timeout, or by Options::timeout")
    }

    fn too_long(&self) -> String {
        format!("the query has taken more than its time, {} seconds", self.time.as_secs_f64())
    }
}

/// What an operator holds of memory, and whether it is to go on at all.
#[derive(Debug)]
pub(crate) struct Held {
    reservation: MemoryReservation,
    limits: Option<Arc<Limits>>,
}

impl Held {
    /// Nothing yet, for something of this name.
    pub(crate) fn new(name: &str, pool: &Arc<dyn MemoryPool>, limits: Option<Arc<Limits>>) -> Self {
        Self { reservation: MemoryConsumer::new(name).register(pool), limits }
    }

    /// Together with what another one holds.
    pub(crate) fn with(&self, other: Self) -> Self {
        // Both are counted; whoever asks for memory next is told if there is none.
        other.reservation.grow(self.reservation.size());
        other
    }

    /// So many bytes more.
    pub(crate) fn try_grow(&self, bytes: usize) -> Result<()> {
        self.check()?;
        self.reservation.try_grow(bytes)
    }

    /// So many bytes less.
    pub(crate) fn shrink(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }

    /// Whether the query goes on.
    pub(crate) fn check(&self) -> Result<()> {
        match self.limits.as_ref().map(|limits| limits.check()) {
            Some(Err(why)) => exec_err!("{why}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_ends_when_it_is_told_to_or_when_its_time_is_over() {
        let stop = Stop::new();
        let limits = Limits::new(stop.clone(), Duration::from_secs(1000));
        assert_eq!(limits.check(), Ok(()));
        stop.stop();
        assert!(limits.check().is_err_and(|why| why.contains("was ended")));
        let mut late = Limits::new(Stop::new(), Duration::ZERO);
        assert!(late.check().is_err_and(|why| why.contains("0 seconds")));
        late.waited(Duration::from_secs(1000));
        assert_eq!(late.check(), Ok(()));
        assert_eq!(Limits::new(Stop::new(), Duration::MAX).check(), Ok(()));
    }
}
