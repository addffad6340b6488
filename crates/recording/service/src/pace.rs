//! How long a driver may leave producers alone, so that it takes several commits in with one wake-up.
//!
//! Clients commit a chunk as soon as it is full: a busy one wakes the service up thousands of times a second, and waking up costs more than
//! taking a chunk in. A driver that looks away for a moment, as that of a network card does, wakes up for several chunks at a time. It must
//! not look away when a commit is waited for, nor for so long that a producer's memory fills up: what producers commit says how fast they
//! write, and their memory itself how far the one of them that sends the commits is behind.

use crate::calls::ProducerCall;
use crate::ids::ProducerId;
use crate::limits;
use crate::now::Now;
use crate::service::Service;
use crate::session::State;

/// What came from producers since the last look at them, and when that was.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// On the monotonic clock.
    last_look_ns: u64,
    /// Which look it is: what [`Intake`] says about others is over.
    look: u64,
    commits: u64,
    /// The largest part of its memory that a producer handed over.
    share: Share,
    /// Who handed something over.
    busy: Vec<ProducerId>,
    /// Somebody did more than to commit, and may go on with it.
    is_hurried: bool,
}

/// What one producer handed over.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    look: u64,
    bytes: usize,
}

/// A part of a producer's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Share(u64);

impl Share {
    const WHOLE: u64 = 1 << 16;
    const MAX_IN_REST: Self = Self(Self::WHOLE / limits::MEMORY_PARTS_IN_REST);
    const MAX_BEFORE_REST: Self = Self(Self::WHOLE / limits::MEMORY_PARTS_BEFORE_REST);

    fn of(bytes: usize, memory: usize) -> Self {
        Self((bytes as u64).saturating_mul(Self::WHOLE) / memory.max(1) as u64)
    }
}

impl Pace {
    /// As long as producers, going on as they did since the last look, stay within the bounds; 0 if that is too short to save anything.
    fn rest_ns(&self, since_ns: u64, in_use: Share) -> u64 {
        let (min, max) = (limits::MIN_REST.as_nanos() as u64, limits::MAX_REST.as_nanos() as u64);
        // With one commit in a rest nothing would be saved.
        let are_busy = self.commits.saturating_mul(max) >= since_ns.saturating_mul(2);
        if self.is_hurried || !are_busy || self.share > Share::MAX_IN_REST || in_use > Share::MAX_BEFORE_REST
        {
            return 0;
        }
        let until_full = since_ns.saturating_mul(Share::MAX_IN_REST.0) / self.share.0.max(1);
        if until_full < min { 0 } else { until_full.min(max) }
    }
}

impl Service {
    /// For how long a driver may leave all producers alone that it can leave alone together, beginning now; 0 for not at all. To be asked
    /// after each look at them. Whatever else happens ends the rest.
    pub fn poll_rest_ns(&mut self, now: &Now) -> u64 {
        if self.pace.commits == 0 && !self.pace.is_hurried {
            return 0;
        }
        let next = Pace { last_look_ns: now.clocks.monotonic, look: self.pace.look + 1, ..Pace::default() };
        let pace = std::mem::replace(&mut self.pace, next);
        match self.is_awaiting_producers() {
            true => 0,
            false => {
                let in_use = pace.busy.iter().filter_map(|id| self.memory_in_use(*id)).max();
                pace.rest_ns(
                    now.clocks.monotonic.saturating_sub(pace.last_look_ns),
                    in_use.unwrap_or_default(),
                )
            }
        }
    }

    /// The part of a producer's memory that is not free, whether the service has been told of it or not.
    fn memory_in_use(&self, id: ProducerId) -> Option<Share> {
        let memory = self.producers.get(&id)?.memory.as_ref()?;
        Some(Share::of(memory.pages_in_use() as usize, memory.view.page_count() as usize))
    }

    /// Do sessions wait for what producers have to say, or relays for how fast they are answered?
    fn is_awaiting_producers(&self) -> bool {
        let mut sessions = self.sessions.values();
        let waits = |state: &State| matches!(state, State::Stopping { .. });
        !self.relays.is_empty()
            || sessions.any(|session| !session.flushes.is_empty() || waits(&session.state))
    }

    pub(crate) fn note_call(&mut self, call: &ProducerCall) {
        self.pace.is_hurried |= match call {
            ProducerCall::CommitData(request) => request.flush_request_id() != 0,
            _ => true,
        };
    }

    pub(crate) fn note_commit(&mut self, id: ProducerId, bytes: usize) {
        let Some(producer) = self.producers.get_mut(&id) else { return };
        let look = self.pace.look;
        let is_known = producer.intake.look == look;
        let before = if is_known { producer.intake.bytes } else { 0 };
        if !is_known {
            self.pace.busy.push(id);
        }
        producer.intake = Intake { look, bytes: before.saturating_add(bytes) };
        // A socket holds about as much of chunks that come by value.
        let memory =
            producer.memory.as_ref().map_or(limits::DEFAULT_SHARED_MEMORY_SIZE, |own| own.memory.len());
        self.pace.share = self.pace.share.max(Share::of(producer.intake.bytes, memory));
        self.pace.commits += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MEMORY: usize = 256 * 1024;
    const CHUNK: usize = 4096;

    fn rest_us(commits: u64, bytes: usize, since_us: u64) -> u64 {
        let pace = Pace { commits, share: Share::of(bytes, MEMORY), ..Pace::default() };
        pace.rest_ns(since_us * US, Share::of(4 * CHUNK, MEMORY)) / US
    }

    #[test]
    fn who_commits_fast_is_left_alone_until_a_sixteenth_more_of_its_memory_may_be_full() {
        let cases = [
            ("a commit now and then", (1, CHUNK, 1_000_000), 0),
            ("one commit in the longest rest", (1, CHUNK, 2_000), 0),
            ("two", (2, 2 * CHUNK, 2_000), 2_000),
            ("the second commit of a burst, 80 µs after the first", (1, CHUNK, 80), 320),
            ("8 MB/s", (4, 4 * CHUNK, 2_000), 2_000),
            ("50 MB/s", (4, 4 * CHUNK, 320), 320),
            ("160 MB/s", (4, 4 * CHUNK, 100), 100),
            ("a GB/s", (1, CHUNK, 4), 0),
            ("after something else has taken long, with much to take in", (16, 16 * CHUNK, 10_000), 0),
            ("chunks too small to matter", (100, 0, 1_000), 2_000),
        ];
        for (what, (commits, bytes, since_us), expected) in cases {
            assert_eq!(rest_us(commits, bytes, since_us), expected, "{what}");
        }
    }

    #[test]
    fn nobody_who_does_more_than_to_commit_is_left_alone() {
        let pace = Pace { commits: 10, is_hurried: true, ..Pace::default() };
        assert_eq!(pace.rest_ns(1_000 * US, Share(0)), 0);
    }

    #[test]
    fn nobody_is_left_alone_whose_memory_has_little_room() {
        let pace = Pace { commits: 10, ..Pace::default() };
        let rest_us = |pages| pace.rest_ns(1_000 * US, Share::of(pages * CHUNK, MEMORY)) / US;
        assert_eq!([0, 16, 17, 64].map(rest_us), [2_000, 2_000, 0, 0]);
    }
}
