//! What a writer does when the shared memory is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_protos::data_source_config::BufferExhaustedPolicy;

/// What a writer does when it needs a chunk and there is none (upstream: `buffer_exhausted_policy.h`).
///
/// Nothing here ever aborts the process: where upstream's stalling writers abort after their 300th wait (about half a minute), these
/// drop data and count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExhaustedPolicy {
    /// Drop packets until a chunk is free again. Never waits: for trace points of an app.
    #[default]
    Drop,
    /// Wait for the service, about half a minute at most and no longer than the session lasts, then drop. For threads whose only work is
    /// tracing. A writer that waits sends the pending commits itself, so waiting on the client's own thread does not deadlock. Where all
    /// memory is in the hands of writers there is no wait, or a tenth of a second if other threads write.
    Stall,
    /// As [`Stall`](Self::Stall); while packets are being dropped there is no further wait.
    StallThenDrop,
}

/// Whether writers of one session, or of several, may still wait for memory; they share it. A new one lets them.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    are_over: Arc<AtomicBool>,
}

impl Waits {
    /// The session has ended: writers that wait for memory drop their packets at once, and none waits from now on.
    pub fn end(&self) {
        self.are_over.store(true, Ordering::Relaxed);
    }

    /// Waits that are over once this is true: a signal's handler may set it.
    pub fn until(are_over: Arc<AtomicBool>) -> Self {
        Self { are_over }
    }

    pub(crate) fn are_over(&self) -> bool {
        self.are_over.load(Ordering::Relaxed)
    }
}

impl ExhaustedPolicy {
    /// What a session's config asks for (`DataSourceConfig.buffer_exhausted_policy`); `default` if it does not say.
    pub fn from_config(config: &ferretto_protos::DataSourceConfig, default: Self) -> Self {
        Self::wanted(config.buffer_exhausted_policy(), default)
    }

    pub(crate) fn wanted(policy: BufferExhaustedPolicy, default: Self) -> Self {
        match policy {
            BufferExhaustedPolicy::BufferExhaustedUnspecified => default,
            BufferExhaustedPolicy::BufferExhaustedDrop => Self::Drop,
            BufferExhaustedPolicy::BufferExhaustedStallThenAbort => Self::Stall,
            BufferExhaustedPolicy::BufferExhaustedStallThenDrop => Self::StallThenDrop,
        }
    }

    pub(crate) fn stalls(self) -> bool {
        self != Self::Drop
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protos::DataSourceConfig;

    use super::*;

    #[test]
    fn a_config_chooses_what_writers_do() {
        let cases = [
            (None, ExhaustedPolicy::Stall),
            (Some(BufferExhaustedPolicy::BufferExhaustedUnspecified), ExhaustedPolicy::Stall),
            (Some(BufferExhaustedPolicy::BufferExhaustedDrop), ExhaustedPolicy::Drop),
            (Some(BufferExhaustedPolicy::BufferExhaustedStallThenAbort), ExhaustedPolicy::Stall),
            (Some(BufferExhaustedPolicy::BufferExhaustedStallThenDrop), ExhaustedPolicy::StallThenDrop),
        ];
        for (wanted, expected) in cases {
            let buffer_exhausted_policy = wanted.map(|policy| policy as i32);
            let config = DataSourceConfig { buffer_exhausted_policy, ..Default::default() };
            assert_eq!(ExhaustedPolicy::from_config(&config, ExhaustedPolicy::Stall), expected, "{wanted:?}");
        }
    }
}
