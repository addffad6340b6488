//! Which of the kernel's events are too early (upstream: ftrace_parser.cc, MaybeOnFirstFtraceEvent).
//!
//! Events before the recording began were left in the kernel's buffers by somebody else: they are dropped. A trace out of a ring buffer has
//! the events of each processor from another time on: before all have some, an operation may begin on one processor and seem never to end, so
//! such events have their row in `ftrace_event` and do nothing else.

/// What is known of a machine's windows.
#[derive(Debug, Default)]
pub struct Windows {
    /// When the recording began.
    pub tracing_started: Option<i64>,
    /// The events from before are wanted.
    pub preserve_buffer: bool,
    /// By processor: has had a bundle.
    seen: Vec<bool>,
    /// Since when all processors have events.
    whole_since: Option<i64>,
    /// What was decided when the first event had its turn.
    decided: Option<(i64, i64)>,
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// It is dropped.
    Before,
    /// It has its row in `ftrace_event`, no more.
    RowOnly,
    /// It does all that it does.
    Within,
}

impl Windows {
    /// Whether a processor has had a bundle.
    #[must_use]
    pub fn has_seen(&self, cpu: u32) -> bool {
        self.seen.get(cpu as usize).copied().unwrap_or(false)
    }

    /// A bundle of a processor has come; the first one says since when its events are whole.
    pub fn see(&mut self, cpu: u32, since: Option<i64>) {
        if self.seen.len() <= cpu as usize {
            self.seen.resize(cpu as usize + 1, false);
        }
        if let Some(seen) = self.seen.get_mut(cpu as usize)
            && !std::mem::replace(seen, true)
        {
            self.whole_since = self.whole_since.max(since);
        }
    }

    /// Since when all processors have events, if a bundle said so (metadata `ftrace_latest_data_start_ns`).
    #[must_use]
    pub fn whole_since(&self) -> Option<i64> {
        self.whole_since
    }

    /// What becomes of an event of this time.
    #[inline]
    pub fn of(&mut self, ts: i64) -> Window {
        let (drop_before, rows_before) = match self.decided {
            Some(decided) => decided,
            None => self.decide(),
        };
        if ts < drop_before {
            Window::Before
        } else if ts < rows_before {
            Window::RowOnly
        } else {
            Window::Within
        }
    }

    #[cold]
    fn decide(&mut self) -> (i64, i64) {
        let drop_before = match self.preserve_buffer {
            true => 0,
            false => self.tracing_started.unwrap_or(0),
        };
        let decided = (drop_before, self.whole_since.unwrap_or(0).max(drop_before));
        self.decided = Some(decided);
        decided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_first_bundle_of_all_processors_counts() {
        let mut windows = Windows { tracing_started: Some(10), ..Windows::default() };
        windows.see(0, Some(20));
        windows.see(1, Some(30));
        windows.see(0, Some(90));
        windows.see(2, None);
        assert_eq!(windows.whole_since(), Some(30));
        let found = [9, 10, 29, 30].map(|ts| windows.of(ts));
        assert_eq!(found, [Window::Before, Window::RowOnly, Window::RowOnly, Window::Within]);
    }

    #[test]
    fn what_was_before_can_be_preserved() {
        let mut windows = Windows { tracing_started: Some(10), preserve_buffer: true, ..Windows::default() };
        assert_eq!(windows.of(0), Window::Within);
    }
}
