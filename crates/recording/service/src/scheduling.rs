//! How the service's thread is scheduled (upstream: scoped_sched_boost.cc).

use crate::service::Service;

/// A way to be scheduled that is better than the usual one. The greater one is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boost {
    /// `SCHED_OTHER` with this niceness below 0: 20 is the best.
    Other(u8),
    /// `SCHED_FIFO` with this priority, 1 to 99.
    Fifo(u8),
}

impl Service {
    /// A session with this boost is about to begin.
    pub(crate) fn raise_scheduling(&mut self, boost: Option<Boost>) -> Result<(), String> {
        match boost.filter(|boost| Some(*boost) > self.boost) {
            Some(boost) => self.schedule(Some(boost)),
            None => Ok(()),
        }
    }

    /// A session is gone. What the remaining ones want most and the machine grants is what counts now.
    pub(crate) fn lower_scheduling(&mut self) {
        let mut wanted: Vec<Boost> = self.sessions.values().filter_map(|session| session.boost).collect();
        wanted.sort_by(|a, b| b.cmp(a));
        let candidates = wanted.into_iter().map(Some).chain([None]);
        for candidate in candidates {
            match self.schedule(candidate) {
                Ok(()) => return,
                Err(error) => tracing::warn!(?candidate, "the service's priority cannot be changed: {error}"),
            }
        }
    }

    fn schedule(&mut self, boost: Option<Boost>) -> Result<(), String> {
        if boost != self.boost {
            self.environment.set_scheduling(boost)?;
            self.boost = boost;
        }
        Ok(())
    }
}
