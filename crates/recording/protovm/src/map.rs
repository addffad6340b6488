//! A map from numbers to nodes, in the order of its keys: a message's fields, a repeated field's elements.

use std::collections::BTreeMap;

use crate::tree::NodeId;

/// Up to here entries live in a sorted vector: less memory than a tree and faster. Beyond, inserting into the
/// middle of it would cost too much.
const FEW: usize = 64;

#[derive(Clone, Debug)]
pub(crate) enum Map {
    Few(Vec<(u64, NodeId)>),
    #[expect(clippy::box_collection, reason = "rare, and every node would be larger without the box")]
    Many(Box<BTreeMap<u64, NodeId>>),
}

impl Default for Map {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Map {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(entries) => entries.len(),
            Self::Many(entries) => entries.len(),
        }
    }

    /// Steps that it takes to find an entry, besides those for what is done with it: what caches do not have takes longest.
    #[inline]
    pub(crate) fn look_up_steps(&self) -> u64 {
        match self {
            Self::Few(_) => 0,
            Self::Many(entries) => u64::from(entries.len().max(1).ilog2() / 2),
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<NodeId> {
        match self {
            Self::Few(entries) => {
                let at = position(entries, key).ok()?;
                entries.get(at).map(|entry| entry.1)
            }
            Self::Many(entries) => entries.get(&key).copied(),
        }
    }

    /// Puts `node` at `key`, unless there is something already: then `false`.
    pub(crate) fn insert(&mut self, key: u64, node: NodeId) -> bool {
        match self {
            Self::Few(entries) => match position(entries, key) {
                Ok(_) => false,
                Err(at) if entries.len() < FEW => {
                    entries.insert(at, (key, node));
                    true
                }
                Err(_) => {
                    let mut many: BTreeMap<_, _> = entries.drain(..).collect();
                    many.insert(key, node);
                    *self = Self::Many(Box::new(many));
                    true
                }
            },
            Self::Many(entries) => {
                let free = !entries.contains_key(&key);
                if free {
                    entries.insert(key, node);
                }
                free
            }
        }
    }

    /// Puts `node` where `key` is; nothing happens if it is not there.
    pub(crate) fn replace(&mut self, key: u64, node: NodeId) {
        let place = match self {
            Self::Few(entries) => {
                position(entries, key).ok().and_then(|at| entries.get_mut(at)).map(|entry| &mut entry.1)
            }
            Self::Many(entries) => entries.get_mut(&key),
        };
        if let Some(place) = place {
            *place = node;
        }
    }

    pub(crate) fn remove(&mut self, key: u64) -> Option<NodeId> {
        match self {
            Self::Few(entries) => position(entries, key).ok().map(|at| entries.remove(at).1),
            Self::Many(entries) => entries.remove(&key),
        }
    }

    pub(crate) fn pop_first(&mut self) -> Option<NodeId> {
        match self {
            Self::Few(entries) if entries.is_empty() => None,
            Self::Few(entries) => Some(entries.remove(0).1),
            Self::Many(entries) => entries.pop_first().map(|entry| entry.1),
        }
    }

    /// The first entry, or the first with a key above `key`.
    pub(crate) fn next_after(&self, key: Option<u64>) -> Option<(u64, NodeId)> {
        use std::ops::Bound::{Excluded, Unbounded};
        match self {
            Self::Few(entries) => {
                let at = key.map_or(0, |key| entries.partition_point(|entry| entry.0 <= key));
                entries.get(at).copied()
            }
            Self::Many(entries) => {
                let after = (key.map_or(Unbounded, Excluded), Unbounded);
                entries.range(after).next().map(|(&key, &node)| (key, node))
            }
        }
    }

    /// Visits all nodes.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(NodeId)) {
        match self {
            Self::Few(entries) => entries.iter().for_each(|entry| visit(entry.1)),
            Self::Many(entries) => entries.values().for_each(|&node| visit(node)),
        }
    }

    /// All entries in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, NodeId)> + '_ {
        let (few, many) = match self {
            Self::Few(entries) => (Some(entries), None),
            Self::Many(entries) => (None, Some(entries)),
        };
        let few = few.into_iter().flatten().copied();
        few.chain(many.into_iter().flat_map(|entries| entries.iter().map(|(&key, &node)| (key, node))))
    }
}

fn position(entries: &[(u64, NodeId)], key: u64) -> Result<usize, usize> {
    // Fields mostly come in the order of their numbers: look at the end first.
    match entries.last() {
        Some(last) if key > last.0 => Err(entries.len()),
        _ => entries.binary_search_by_key(&key, |entry| entry.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_map_is_a_btree_map(operations in proptest::collection::vec((0u8..5, 0u64..200), 0..400)) {
            let (mut map, mut model) = (Map::default(), BTreeMap::new());
            for (index, (operation, key)) in operations.into_iter().enumerate() {
                let node = NodeId::new(index).unwrap();
                match operation {
                    0..=2 => {
                        prop_assert_eq!(map.insert(key, node), !model.contains_key(&key));
                        model.entry(key).or_insert(node);
                    }
                    3 => {
                        map.replace(key, node);
                        model.entry(key).and_modify(|place| *place = node);
                    }
                    _ => prop_assert_eq!(map.remove(key), model.remove(&key)),
                }
                prop_assert_eq!(map.get(key), model.get(&key).copied());
                let after = model.range(key + 1..).next().map(|(&key, &node)| (key, node));
                prop_assert_eq!(map.next_after(Some(key)), after);
            }
            prop_assert_eq!(map.len(), model.len());
            prop_assert!(map.iter().eq(model.iter().map(|(&key, &node)| (key, node))));
            while let Some(node) = map.pop_first() {
                prop_assert_eq!(Some(node), model.pop_first().map(|entry| entry.1));
            }
            prop_assert!(model.is_empty());
        }
    }
}
