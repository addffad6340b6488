//! What the descriptors of data sources take of the service's memory, by producer and by user: bounded, each and in sum.

use std::collections::BTreeMap;

use crate::ids::ProducerId;
use crate::limits;
use crate::registry::Producer;
use crate::service::Service;
use crate::user_book::{UserBook, Whose};

/// The sums.
#[derive(Debug)]
pub(crate) struct SourceBytes {
    of_producers: BTreeMap<ProducerId, usize>,
    of_users: UserBook,
}

impl Default for SourceBytes {
    fn default() -> Self {
        Self { of_producers: BTreeMap::new(), of_users: UserBook::new(limits::MAX_DESCRIPTOR_BYTES_PER_UID) }
    }
}

/// A descriptor takes its bytes, and what the service keeps with it.
fn cost(descriptor_bytes: usize) -> usize {
    const OVERHEAD_BYTES: usize = 256;
    descriptor_bytes.saturating_add(OVERHEAD_BYTES)
}

impl SourceBytes {
    /// Takes in a descriptor of so many bytes, if there is room for it.
    fn add(&mut self, id: ProducerId, whose: Whose, bytes: usize) -> bool {
        let of_producer = self.of_producers.entry(id).or_default();
        let has_room = *of_producer + cost(bytes) <= limits::MAX_DESCRIPTOR_BYTES_PER_PRODUCER
            && self.of_users.add(whose, cost(bytes));
        if has_room {
            *of_producer += cost(bytes);
        }
        has_room
    }

    fn remove(&mut self, id: ProducerId, whose: Whose, bytes: usize) {
        if let Some(of_producer) = self.of_producers.get_mut(&id) {
            *of_producer = of_producer.saturating_sub(cost(bytes));
        }
        self.of_users.remove(whose, cost(bytes));
    }

    /// All of a producer, which is gone.
    fn remove_all(&mut self, id: ProducerId, whose: Whose) {
        let bytes = self.of_producers.remove(&id).unwrap_or(0);
        self.of_users.remove(whose, bytes);
    }
}

impl Service {
    /// Whose memory a producer takes.
    pub(crate) fn whose(&self, id: ProducerId) -> Whose {
        let of = |producer: &Producer| Whose::of(producer.peer, producer.machine.as_ref());
        self.producers.get(&id).map_or(Whose::NOBODYS, of)
    }

    pub(crate) fn add_source_bytes(&mut self, id: ProducerId, bytes: usize) -> bool {
        let whose = self.whose(id);
        self.source_bytes.add(id, whose, bytes)
    }

    pub(crate) fn remove_source_bytes(&mut self, id: ProducerId, bytes: usize) {
        let whose = self.whose(id);
        self.source_bytes.remove(id, whose, bytes);
    }

    /// The producer is about to be forgotten.
    pub(crate) fn remove_all_source_bytes(&mut self, id: ProducerId) {
        let whose = self.whose(id);
        self.source_bytes.remove_all(id, whose);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_bounded_in_sum_and_leave_nothing_behind() {
        let mut bytes = SourceBytes::default();
        let large = limits::MAX_DESCRIPTOR_BYTES;
        let fills = |bytes: &mut SourceBytes, user: u32, ids: std::ops::Range<u16>| {
            ids.map(ProducerId)
                .map(|id| {
                    std::iter::repeat_n((), 100)
                        .take_while(|()| bytes.add(id, Whose::Local(user), large))
                        .count()
                })
                .collect::<Vec<_>>()
        };
        let of_one = limits::MAX_DESCRIPTOR_BYTES_PER_PRODUCER / cost(large);
        let of_user = limits::MAX_DESCRIPTOR_BYTES_PER_UID / cost(large);
        let taken = fills(&mut bytes, 1, 1..50);
        assert_eq!((taken[0], taken.iter().sum::<usize>()), (of_one, of_user));
        // Another user has as much.
        assert_eq!(fills(&mut bytes, 2, 50..51), [of_one]);
        bytes.remove(ProducerId(1), Whose::Local(1), large);
        assert!(
            bytes.add(ProducerId(49), Whose::Local(1), large)
                && !bytes.add(ProducerId(49), Whose::Local(1), large)
        );
        (1..51).for_each(|id| bytes.remove_all(ProducerId(id), Whose::Local(if id < 50 { 1 } else { 2 })));
        assert!(bytes.of_producers.is_empty() && bytes.of_users.is_empty(), "{bytes:?}");
    }
}
