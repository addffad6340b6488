//! What gets lost in a session and upstream's services do not count: `TraceStats.losses`, a field of ours.
//!
//! Each is noted where it happens; `stats` says it together with what else was counted.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_protos::trace_stats::{self, losses};

use crate::buffers::Buffer;
use crate::ids::{BufferId, ProducerId, SessionId};
use crate::instance_set::Instance;
use crate::limits;
use crate::registry::{Peer, Producer};
use crate::service::{Service, Totals};
use crate::session::{Session, State};

/// Of one session.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionLosses {
    /// The service's counters when the session began.
    pub(crate) at_start: Totals,
    pub(crate) file_is_full: bool,
    pub(crate) slow_to_start: Vec<String>,
    pub(crate) slow_to_stop: Vec<String>,
    pub(crate) slow_to_flush: Vec<String>,
    pub(crate) sources_left_out: u64,
    pub(crate) producers_without_memory: u64,
    pub(crate) unseen_ends: u64,
    /// Packets that were left out, for others of the user's were on their way and nobody took them.
    pub(crate) large_packets: u64,
    /// Which producers had which data source. Clones share it, for there may be hundreds of thousands, and go on to see what was there first.
    sources: Arc<Mutex<SeenSources>>,
    /// How many of these are this session's.
    seen_sources: usize,
}

/// Which producers have had which data source, one after the other.
#[derive(Debug, Default)]
struct SeenSources {
    names: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, usize>,
    known: HashSet<(usize, ProducerId)>,
    /// Of each that was seen, in their order, where its name is.
    seen: Vec<usize>,
}

impl SeenSources {
    fn add(&mut self, name: &Arc<str>, id: ProducerId) {
        let at = match self.by_name.get(name) {
            Some(at) => *at,
            None => {
                self.names.push(name.clone());
                *self.by_name.entry(name.clone()).or_insert(self.names.len() - 1)
            }
        };
        if self.known.insert((at, id)) {
            self.seen.push(at);
        }
    }

    /// By name, how many producers have had it, of so many that were seen first.
    fn counts(&self, first: usize) -> BTreeMap<Arc<str>, u64> {
        let mut counts = vec![0; self.names.len()];
        for at in self.seen.iter().take(first) {
            counts.get_mut(*at).into_iter().for_each(|count| *count += 1);
        }
        let counted = self.names.iter().cloned().zip(counts);
        counted.filter(|(_, count)| *count > 0).collect()
    }
}

impl SessionLosses {
    /// How many data sources it remembers.
    pub(crate) fn seen_sources(&self) -> usize {
        self.seen_sources
    }

    /// A producer has a data source of this name. Of more than anybody counts only the first are remembered.
    pub(crate) fn note_source(&mut self, name: &Arc<str>, id: ProducerId) {
        let mut sources = lock(&self.sources);
        // Only the session that it began with sees all, and goes on to: a clone has no data sources of its own.
        if self.seen_sources < limits::MAX_SEEN_SOURCES && sources.seen.len() == self.seen_sources {
            sources.add(name, id);
            self.seen_sources = sources.seen.len();
        }
    }

    /// A data source has not said that it started before it is stopped.
    pub(crate) fn note_slow_to_start(&mut self, instance: &Instance) {
        if self.slow_to_start.len() < limits::MAX_SLOW_DATA_SOURCES {
            self.slow_to_start.push(name_of(instance));
        }
    }

    /// By name, how many producers have had it.
    fn source_counts(&self) -> BTreeMap<Arc<str>, u64> {
        lock(&self.sources).counts(self.seen_sources)
    }
}

fn lock(sources: &Mutex<SeenSources>) -> MutexGuard<'_, SeenSources> {
    // No code under the lock leaves it half changed.
    sources.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Producers that were not let in: the latest, and a number for each.
#[derive(Debug, Default)]
pub(crate) struct RefusedProducers {
    latest: VecDeque<(u64, losses::Refused)>,
}

/// Data sources that did not do in time what they were told to, with who has them.
pub(crate) fn names<'a>(instances: impl Iterator<Item = &'a Instance>) -> Vec<String> {
    instances.take(limits::MAX_SLOW_DATA_SOURCES).map(name_of).collect()
}

fn name_of(instance: &Instance) -> String {
    format!("{} of {}", instance.source_name, instance.producer_name)
}

impl Service {
    /// A producer is not let in, for a reason in words.
    pub(crate) fn refuse_producer(&mut self, peer: Peer, name: &str, reason: &str) {
        tracing::warn!(uid = peer.uid, pid = peer.pid, name, "a producer is refused: {reason}");
        self.totals.producers_refused = self.totals.producers_refused.saturating_add(1);
        let refused = losses::Refused {
            producer_name: Some(name.to_owned()),
            pid: Some(peer.pid),
            uid: Some(peer.uid.cast_signed()),
            reason: Some(reason.to_owned()),
        };
        let latest = &mut self.refused_producers.latest;
        if latest.len() >= limits::MAX_REFUSED_PRODUCERS {
            latest.pop_front();
        }
        latest.push_back((self.totals.producers_refused, refused));
    }

    /// A producer goes, and what it had not handed over goes with it, unless it was scraped.
    pub(crate) fn note_unseen_end(&mut self, session_id: SessionId, id: ProducerId) {
        let Some(producer) = self.producers.get(&id) else { return };
        let is_seen = producer.scraping && !producer.peer.emulated;
        let Some(session) = self.sessions.get_mut(&session_id).filter(|_| !is_seen) else { return };
        // Of a session that is over nothing is lost any more.
        let is_missed = session.is_active() && session.instances.has_at_work(id);
        session.losses.unseen_ends += u64::from(is_missed);
    }

    /// What a session that begins now is not to count: all that was lost before. Not what producers lack that are still here.
    pub(crate) fn totals_before(&self) -> Totals {
        let of_present: u64 = self.producers.values().map(|producer| producer.sources_ignored).sum();
        let out_of_writers =
            self.producers.values().filter(|producer| has_all_writers(producer)).count() as u64;
        Totals {
            sources_ignored: self.totals.sources_ignored.saturating_sub(of_present),
            producers_out_of_writers: self.totals.producers_out_of_writers.saturating_sub(out_of_writers),
            ..self.totals
        }
    }
}

/// There is no id for another one.
pub(crate) fn has_all_writers(producer: &Producer) -> bool {
    producer.writers.len() >= usize::from(limits::MAX_WRITER_ID)
}

/// What is to be said of a session's losses.
pub(crate) fn of_session(
    session: &Session,
    buffers: &BTreeMap<BufferId, Buffer>,
    totals: Totals,
    refused: &RefusedProducers,
) -> trace_stats::Losses {
    let SessionLosses { at_start, .. } = session.losses;
    let since = |now: u64, before: u64| counted(now.saturating_sub(before));
    let own = &session.losses;
    let source = |(name, producers): (Arc<str>, u64)| losses::Source {
        name: Some(name.to_string()),
        producers: Some(producers),
    };
    let is_over = matches!(session.state, State::Disabled | State::ClonedReadOnly);
    // What is unread is still to be read while the session goes on.
    let looks = if is_over { limits::UNREAD_CHUNKS / session.buffers.len().max(1) } else { 0 };
    let of_buffer =
        |id: &BufferId| buffers.get(id).map(|buffer| of_buffer(buffer, looks)).unwrap_or_default();
    let refused = refused.latest.iter().filter(|(number, _)| *number > at_start.producers_refused);
    trace_stats::Losses {
        buffers: session.buffers.iter().map(of_buffer).collect(),
        file_is_full: own.file_is_full.then_some(true),
        slow_to_start: own.slow_to_start.clone(),
        slow_to_stop: own.slow_to_stop.clone(),
        slow_to_flush: own.slow_to_flush.clone(),
        refused: refused.map(|(_, refused)| refused.clone()).collect(),
        producers_refused: since(totals.producers_refused, at_start.producers_refused),
        sources_left_out: counted(
            own.sources_left_out + totals.sources_ignored.saturating_sub(at_start.sources_ignored),
        ),
        producers_without_memory: counted(own.producers_without_memory),
        producers_out_of_writers: since(totals.producers_out_of_writers, at_start.producers_out_of_writers),
        sources: own.source_counts().into_iter().map(source).collect(),
        chunks_discarded: since(totals.chunks_discarded, at_start.chunks_discarded),
        patches_discarded: since(totals.patches_discarded, at_start.patches_discarded),
        unseen_ends: counted(own.unseen_ends),
        large_packets: counted(own.large_packets),
    }
}

fn of_buffer(buffer: &Buffer, looks: usize) -> losses::Buffer {
    let unread = buffer.trace.unread(looks);
    losses::Buffer {
        unread_chunks: counted(unread.chunks),
        unread_bytes: counted(unread.bytes),
        unpatched_chunks: counted(unread.unpatched),
        protovm_packets: counted(buffer.vms.packets_not_taken()),
        protovms_off: counted(buffer.vms.switched_off()),
    }
}

/// What never happened is left out.
fn counted(count: u64) -> Option<u64> {
    (count != 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producers_that_come_and_go_are_remembered_within_bounds() {
        let mut losses = SessionLosses::default();
        let names: Vec<Arc<str>> = (0..8).map(|number| format!("source {number}").into()).collect();
        for id in 1..=u16::MAX {
            names.iter().for_each(|name| losses.note_source(name, ProducerId(id)));
        }
        let remembered = losses.source_counts().values().sum::<u64>() as usize;
        assert_eq!((remembered, losses.seen_sources), (limits::MAX_SEEN_SOURCES, limits::MAX_SEEN_SOURCES));
        losses.note_source(&names[0], ProducerId(1));
        assert_eq!(losses.seen_sources, limits::MAX_SEEN_SOURCES);
    }

    #[test]
    fn a_clone_remembers_what_was_there_when_it_was_made() {
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let mut losses = SessionLosses::default();
        [1, 2, 1].into_iter().for_each(|id| losses.note_source(&one, ProducerId(id)));
        let mut clone = losses.clone();
        losses.note_source(&one, ProducerId(3));
        losses.note_source(&other, ProducerId(3));
        clone.note_source(&other, ProducerId(4));
        assert_eq!(clone.source_counts(), BTreeMap::from([(one.clone(), 2)]));
        assert_eq!(losses.source_counts(), BTreeMap::from([(one, 3), (other, 1)]));
    }
}
