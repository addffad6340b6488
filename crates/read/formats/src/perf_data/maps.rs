//! Which file is at an address: of the kernel, and of each process.

use std::collections::BTreeMap;
use std::rc::Rc;

use ferretto_trace_tables::{MappingId, Upid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Mappings of one process. Ours: some programs have ten thousand.
const MAX_MAPPINGS: usize = 1 << 17;

/// Mappings that are copied, for a child changes what it shares with its parent: beyond, such a child begins with none. Ours: one that runs
/// another program copies nothing.
const MAX_COPIED: usize = 1 << 23;

/// A file at some addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) end: u64,
    pub(super) mapping: MappingId,
    /// What is added to an address to have that in the file.
    pub(super) bias: u64,
}

/// By first address; none overlap.
type Map = BTreeMap<u64, Place>;

/// All mappings as they are now.
#[derive(Debug, Default)]
pub(super) struct Maps {
    kernel: Map,
    /// A child shares its parent's until one of them changes.
    processes: HashMap<Upid, Rc<Map>, RandomState>,
    copied: usize,
}

impl Maps {
    /// Something is mapped; what was there before is not any more.
    pub(super) fn add(&mut self, process: Option<Upid>, start: u64, place: Place) {
        let map = match process {
            None => &mut self.kernel,
            Some(upid) => {
                let map = self.processes.entry(upid).or_default();
                if Rc::strong_count(map) > 1 {
                    self.copied = self.copied.saturating_add(map.len());
                    if self.copied > MAX_COPIED {
                        *map = Rc::default();
                    }
                }
                Rc::make_mut(map)
            }
        };
        if start >= place.end || map.len() >= MAX_MAPPINGS {
            return;
        }
        make_room(map, start, place.end);
        map.insert(start, place);
    }

    /// The mapping at an address, and what that is in the file.
    pub(super) fn find(&self, process: Option<Upid>, address: u64) -> Option<(MappingId, u64)> {
        let map = match process {
            None => &self.kernel,
            Some(upid) => self.processes.get(&upid)?,
        };
        let (_, place) = map.range(..=address).next_back().filter(|(_, place)| address < place.end)?;
        Some((place.mapping, address.wrapping_add(place.bias)))
    }

    /// A process was started by another.
    pub(super) fn inherit(&mut self, child: Upid, parent: Upid) {
        if let Some(map) = self.processes.get(&parent).cloned() {
            self.processes.insert(child, map);
        }
    }

    /// A process has started another program.
    pub(super) fn forget(&mut self, process: Upid) {
        self.processes.remove(&process);
    }
}

/// What lies in a range is cut off there.
fn make_room(map: &mut Map, start: u64, end: u64) {
    if let Some((_, before)) = map.range_mut(..start).next_back()
        && before.end > start
    {
        let rest = *before;
        before.end = start;
        if rest.end > end {
            map.insert(end, rest);
        }
    }
    let within: Vec<u64> = map.range(start..end).map(|(start, _)| *start).collect();
    for at in within {
        if let Some(place) = map.remove(&at)
            && place.end > end
        {
            map.insert(end, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_of(maps: &Maps, upid: Upid, address: u64) -> Option<u32> {
        maps.find(Some(upid), address).map(|(mapping, _)| mapping.0)
    }

    #[test]
    fn what_is_mapped_later_covers_what_was_there() {
        let mut maps = Maps::default();
        let place = |end, number| Place { end, mapping: MappingId(number), bias: 0 };
        let (parent, child) = (Upid(1), Upid(2));
        maps.add(Some(parent), 10, place(100, 0));
        maps.add(Some(parent), 40, place(60, 1));
        maps.inherit(child, parent);
        maps.add(Some(child), 5, place(45, 2));
        let found = |upid| [5, 10, 39, 40, 45, 60, 99, 100].map(|address| at_of(&maps, upid, address));
        assert_eq!(found(parent), [None, Some(0), Some(0), Some(1), Some(1), Some(0), Some(0), None]);
        assert_eq!(found(child), [Some(2), Some(2), Some(2), Some(2), Some(1), Some(0), Some(0), None]);
        maps.forget(child);
        assert_eq!(maps.find(Some(child), 40), None);
        // There is an end to what is copied.
        maps.copied = MAX_COPIED;
        maps.inherit(child, parent);
        maps.add(Some(child), 200, place(300, 4));
        assert_eq!((at_of(&maps, child, 10), at_of(&maps, child, 200)), (None, Some(4)));
        maps.add(None, u64::MAX - 10, Place { end: u64::MAX, mapping: MappingId(3), bias: u64::MAX });
        assert_eq!(maps.find(None, u64::MAX - 10), Some((MappingId(3), u64::MAX - 11)));
    }
}
