//! The data source instances of a session, found by their producer, and counted by their states.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::ids::{InstanceId, ProducerId};
use crate::registry::SourceSerial;
use crate::user_book::Whose;

/// Where an instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstanceState {
    Configured,
    Starting,
    Started,
    Stopping,
    Stopped,
}

const STATES: usize = InstanceState::Stopped as usize + 1;

/// One data source of one producer at work in a session.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) id: InstanceId,
    pub(crate) producer: ProducerId,
    /// The producer's user.
    pub(crate) whose: Whose,
    pub(crate) producer_name: Arc<str>,
    pub(crate) source_name: Arc<str>,
    pub(crate) source: SourceSerial,
    /// The descriptor's id: a producer may register one name several times.
    pub(crate) source_id: u64,
    pub(crate) state: InstanceState,
    /// What the producer got at setup; start repeats it.
    pub(crate) config: Bytes,
    pub(crate) will_notify_on_start: bool,
    pub(crate) will_notify_on_stop: bool,
    pub(crate) handles_clear: bool,
    pub(crate) no_flush: bool,
}

/// Names an instance and its producer, who alone may speak of it.
pub(crate) type InstanceKey = (ProducerId, InstanceId);

/// All of a session: there may be [`MAX_INSTANCES_PER_SESSION`](crate::limits::MAX_INSTANCES_PER_SESSION), and what one producer does
/// to its own is not to take longer for that.
#[derive(Debug, Default)]
pub(crate) struct InstanceSet {
    by_key: BTreeMap<InstanceKey, Instance>,
    counts: [usize; STATES],
    /// How many each data source has.
    of_sources: BTreeMap<SourceSerial, usize>,
    /// How many the producers of each user have.
    of_users: BTreeMap<Whose, usize>,
    /// How many each producer has that were started and have not stopped.
    at_work: BTreeMap<ProducerId, usize>,
    /// Those that are on their way into another state: few, at most times.
    under_way: BTreeSet<InstanceKey>,
    /// Those that a flush is for.
    flushing: BTreeSet<InstanceKey>,
    /// Those that can say their names again.
    clearing: BTreeSet<InstanceKey>,
}

impl Instance {
    pub(crate) fn key(&self) -> InstanceKey {
        (self.producer, self.id)
    }

    fn is_under_way(&self) -> bool {
        matches!(self.state, InstanceState::Configured | InstanceState::Starting | InstanceState::Stopping)
    }

    fn is_at_work(&self) -> bool {
        !matches!(self.state, InstanceState::Configured | InstanceState::Stopped)
    }

    /// One that has not said that it started may write already.
    fn flushes(&self) -> bool {
        !self.no_flush && matches!(self.state, InstanceState::Starting | InstanceState::Started)
    }

    /// Whether it is of this data source; a producer may register one name several times.
    pub(crate) fn is_of(&self, name: &str, source_id: u64) -> bool {
        *self.source_name == *name && self.source_id == source_id
    }
}

impl InstanceSet {
    pub(crate) fn insert(&mut self, instance: Instance) {
        self.counts[instance.state as usize] += 1;
        count(&mut self.of_sources, instance.source, false, true);
        count(&mut self.of_users, instance.whose, false, true);
        let key = instance.key();
        place(&mut self.under_way, key, instance.is_under_way());
        place(&mut self.flushing, key, instance.flushes());
        place(&mut self.clearing, key, instance.handles_clear);
        count(&mut self.at_work, key.0, false, instance.is_at_work());
        if let Some(old) = self.by_key.insert(key, instance) {
            self.uncount(&old);
        }
    }

    fn uncount(&mut self, gone: &Instance) {
        self.counts[gone.state as usize] -= 1;
        count(&mut self.at_work, gone.producer, gone.is_at_work(), false);
        count(&mut self.of_sources, gone.source, true, false);
        count(&mut self.of_users, gone.whose, true, false);
    }

    pub(crate) fn remove(&mut self, key: InstanceKey) -> Option<Instance> {
        let removed = self.by_key.remove(&key)?;
        self.uncount(&removed);
        [&mut self.under_way, &mut self.flushing, &mut self.clearing]
            .into_iter()
            .for_each(|index| place(index, key, false));
        Some(removed)
    }

    /// How many there are of a data source.
    pub(crate) fn count_of(&self, source: SourceSerial) -> usize {
        self.of_sources.get(&source).copied().unwrap_or(0)
    }

    /// How many the producers of a user have.
    pub(crate) fn count_of_user(&self, whose: Whose) -> usize {
        self.of_users.get(&whose).copied().unwrap_or(0)
    }

    pub(crate) fn get(&self, key: InstanceKey) -> Option<&Instance> {
        self.by_key.get(&key)
    }

    /// Moves one on. Says where it was.
    pub(crate) fn set_state(&mut self, key: InstanceKey, state: InstanceState) -> Option<InstanceState> {
        let instance = self.by_key.get_mut(&key)?;
        let was_at_work = instance.is_at_work();
        let before = std::mem::replace(&mut instance.state, state);
        count(&mut self.at_work, key.0, was_at_work, instance.is_at_work());
        self.counts[before as usize] -= 1;
        self.counts[state as usize] += 1;
        place(&mut self.under_way, key, instance.is_under_way());
        place(&mut self.flushing, key, instance.flushes());
        Some(before)
    }

    /// Whether a producer has some that were started and have not stopped.
    pub(crate) fn has_at_work(&self, producer: ProducerId) -> bool {
        self.at_work.contains_key(&producer)
    }

    /// Those that are set up and not started, and those that have been told to start or to stop and have not said that they did.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &Instance> {
        self.under_way.iter().filter_map(|key| self.by_key.get(key))
    }

    /// Those of a producer that a flush is for, after this one.
    pub(crate) fn flushing_of(
        &self,
        producer: ProducerId,
        after: Option<InstanceKey>,
    ) -> impl Iterator<Item = InstanceKey> {
        self.flushing.range(those_of(producer, after)).copied()
    }

    /// The producers of those that a flush is for.
    pub(crate) fn flushing_producers(&self) -> impl Iterator<Item = ProducerId> {
        producers_in(&self.flushing)
    }

    /// Those of a producer that can say their names again, after this one.
    pub(crate) fn clearing_of(
        &self,
        producer: ProducerId,
        after: Option<InstanceKey>,
    ) -> impl Iterator<Item = InstanceKey> {
        self.clearing.range(those_of(producer, after)).copied()
    }

    /// The first producer after this one, or of all, that has some which can say their names again.
    pub(crate) fn next_clearing(&self, after: Option<ProducerId>) -> Option<ProducerId> {
        next_producer(&self.clearing, after)
    }

    /// The one after this, or the first: by producer, and those of one in the order in which they were set up.
    pub(crate) fn next(&self, after: Option<InstanceKey>) -> Option<&Instance> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_key.range((start, Bound::Unbounded)).next().map(|(_, instance)| instance)
    }

    pub(crate) fn of_producer(&self, producer: ProducerId) -> impl Iterator<Item = &Instance> {
        self.by_key.range(those_of(producer, None)).map(|(_, instance)| instance)
    }

    /// Whose there are, without a look at each.
    pub(crate) fn producers(&self) -> impl Iterator<Item = ProducerId> {
        let after = |id: ProducerId| self.next(Some((id, InstanceId(u64::MAX)))).map(|found| found.producer);
        std::iter::successors(self.next(None).map(|found| found.producer), move |id| after(*id))
    }

    pub(crate) fn has_producer(&self, producer: ProducerId) -> bool {
        self.of_producer(producer).next().is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn all_are(&self, state: InstanceState) -> bool {
        self.counts[state as usize] == self.by_key.len()
    }
}

fn place(index: &mut BTreeSet<InstanceKey>, key: InstanceKey, is_in: bool) {
    match is_in {
        true => index.insert(key),
        false => index.remove(&key),
    };
}

/// One was counted, or not, and is to be.
fn count<Of: Ord + Copy>(counts: &mut BTreeMap<Of, usize>, of: Of, was_in: bool, is_in: bool) {
    if was_in == is_in {
        return;
    }
    let count = counts.entry(of).or_default();
    *count = if is_in { *count + 1 } else { count.saturating_sub(1) };
    if *count == 0 {
        counts.remove(&of);
    }
}

fn those_of(producer: ProducerId, after: Option<InstanceKey>) -> (Bound<InstanceKey>, Bound<InstanceKey>) {
    let start = after.map_or(Bound::Included((producer, InstanceId(0))), Bound::Excluded);
    (start, Bound::Included((producer, InstanceId(u64::MAX))))
}

fn next_producer(index: &BTreeSet<InstanceKey>, after: Option<ProducerId>) -> Option<ProducerId> {
    let start = after.map_or(Bound::Unbounded, |id| Bound::Excluded((id, InstanceId(u64::MAX))));
    index.range((start, Bound::Unbounded)).next().map(|(producer, _)| *producer)
}

/// Without a look at each.
fn producers_in(index: &BTreeSet<InstanceKey>) -> impl Iterator<Item = ProducerId> {
    std::iter::successors(next_producer(index, None), |id| next_producer(index, Some(*id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(producer: u16, id: u64, state: InstanceState) -> Instance {
        Instance {
            id: InstanceId(id),
            producer: ProducerId(producer),
            whose: Whose::Local(u32::from(producer)),
            producer_name: "p".into(),
            source_name: "s".into(),
            source: SourceSerial(producer.into()),
            source_id: 0,
            state,
            config: Bytes::new(),
            will_notify_on_start: false,
            will_notify_on_stop: false,
            handles_clear: false,
            no_flush: false,
        }
    }

    #[test]
    fn states_are_counted_through_all_that_happens_to_them() {
        use InstanceState::{Configured, Started, Stopped};
        let mut set = InstanceSet::default();
        assert!(set.all_are(Started) && set.all_are(Stopped));
        set.insert(instance(2, 1, Configured));
        set.insert(instance(1, 2, Configured));
        set.insert(instance(2, 3, Started));
        assert!(!set.all_are(Configured));
        let ids = |set: &InstanceSet, producer| {
            set.of_producer(ProducerId(producer)).map(|found| found.id.0).collect::<Vec<_>>()
        };
        assert_eq!((ids(&set, 1), ids(&set, 2), ids(&set, 3)), (vec![2], vec![1, 3], vec![]));
        assert_eq!(set.set_state((ProducerId(2), InstanceId(1)), Started), Some(Configured));
        assert_eq!(set.set_state((ProducerId(1), InstanceId(1)), Started), None);
        assert!(!set.all_are(Started));
        assert!(set.remove((ProducerId(1), InstanceId(2))).is_some());
        assert!(set.all_are(Started) && set.len() == 2);
        assert_eq!((set.count_of(SourceSerial(1)), set.count_of(SourceSerial(2))), (0, 2));
        // In the place of another one.
        set.insert(instance(2, 3, Stopped));
        assert!(!set.all_are(Started) && set.len() == 2 && set.count_of(SourceSerial(2)) == 2);
        assert_eq!(set.producers().collect::<Vec<_>>(), [ProducerId(2)]);
        set.insert(instance(7, 4, Started));
        assert_eq!(set.producers().collect::<Vec<_>>(), [ProducerId(2), ProducerId(7)]);
    }
}
