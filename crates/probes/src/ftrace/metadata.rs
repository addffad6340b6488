//! What a batch of events says to the other data sources: threads seen, threads renamed, kernel addresses to name.

use std::collections::HashMap;

use crate::pids::PidSet;

/// Kernel addresses by the index that stands for them in the trace: addresses themselves would disclose the kernel's layout.
#[derive(Debug, Default)]
pub(crate) struct SymbolIndex {
    by_address: HashMap<u64, u32>,
    addresses: Vec<u64>,
    /// How many of `addresses` have had their names written.
    written: usize,
}

impl SymbolIndex {
    /// The address's index, counted from 1 in order of appearance.
    #[inline]
    pub(crate) fn index(&mut self, address: u64) -> u32 {
        let next = self.addresses.len() as u32 + 1;
        *self.by_address.entry(address).or_insert_with(|| {
            self.addresses.push(address);
            next
        })
    }

    /// Whether no name has been written since the start or the last [`clear`](Self::clear).
    pub(crate) fn is_fresh(&self) -> bool {
        self.written == 0
    }

    /// The addresses whose names have not been written, with their indices.
    pub(crate) fn unwritten(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.addresses.iter().enumerate().skip(self.written).map(|(i, &address)| (i as u32 + 1, address))
    }

    pub(crate) fn mark_written(&mut self) {
        self.written = self.addresses.len();
    }

    pub(crate) fn clear(&mut self) {
        self.by_address.clear();
        self.addresses.clear();
        self.written = 0;
    }
}

/// A thread with a new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Renamed {
    pub(crate) pid: i32,
    /// With zeroes behind it, as the kernel has it.
    pub(crate) comm: [u8; COMM_BYTES],
}

/// The kernel's bound for a thread's name and its final zero (TASK_COMM_LEN).
pub(crate) const COMM_BYTES: usize = 16;

impl Renamed {
    /// Its name, without what lies behind the final zero.
    pub(crate) fn name(&self) -> &[u8] {
        self.comm.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// Gathered for one session, and handed on after each round of reading.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    pub(crate) pids: PidSet,
    /// In the order of the events of each CPU.
    pub(crate) renamed: Vec<Renamed>,
    pub(crate) symbols: SymbolIndex,
}

impl Metadata {
    pub(crate) fn clear(&mut self) {
        self.pids.clear();
        self.renamed.clear();
        self.symbols.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_numbered_from_one_in_order() {
        let mut symbols = SymbolIndex::default();
        assert_eq!([symbols.index(9), symbols.index(4), symbols.index(9)], [1, 2, 1]);
        assert_eq!(symbols.unwritten().collect::<Vec<_>>(), [(1, 9), (2, 4)]);
        symbols.mark_written();
        assert_eq!(symbols.index(5), 3);
        assert_eq!(symbols.unwritten().collect::<Vec<_>>(), [(3, 5)]);
    }
}
