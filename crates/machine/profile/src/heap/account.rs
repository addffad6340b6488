//! What lives of a process's heap, what was ever allocated, and what was there when most was; by stack.
//!
//! ```text
//! alloc ─▶ live: address → stack, bytes ─▶ site of the stack: + bytes, + 1
//! free  ─▶ live: address, gone          ─▶ site of the stack: freed + bytes, + 1
//! ```
//!
//! The moment at which most lives is kept without a copy of everything at each new maximum: maxima are counted, and a site whose figures change notes
//! first what they were at the last maximum, if it has not since.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Sampled blocks of a process that live: as many as its own table has room for.
const MAX_LIVE: usize = 1 << 20;
/// Of all processes together, some 40 bytes each.
pub(crate) const MAX_LIVE_OF_ALL: usize = 4 << 20;
/// Sites of all processes together, some 100 bytes each.
pub(crate) const MAX_SITES_OF_ALL: usize = 2 << 20;

/// Bytes, and the samples that they were in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        // Whatever a program says of itself.
        self.bytes = self.bytes.saturating_add(bytes);
        self.samples += 1;
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), samples: self.samples + other.samples }
    }

    fn without(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            samples: self.samples.saturating_sub(other.samples),
        }
    }
}

/// What one stack has allocated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Site {
    pub(crate) allocated: Amount,
    pub(crate) freed: Amount,
    /// What has lived at the maximum of this number.
    at_maximum: (u64, Amount),
    /// Something has changed since it was last dumped.
    pub(crate) is_new: bool,
}

impl Site {
    pub(crate) fn live(&self) -> Amount {
        self.allocated.without(self.freed)
    }

    fn change(&mut self, maximum: u64, change: impl FnOnce(&mut Self)) {
        if self.at_maximum.0 < maximum {
            self.at_maximum = (maximum, self.live());
        }
        self.is_new = true;
        change(self);
    }
}

#[derive(Clone, Copy, Debug)]
struct Live {
    stack: u32,
    bytes: u64,
}

/// How much room there is, for all processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    pub(crate) live: usize,
    pub(crate) sites: usize,
}

/// One process's.
#[derive(Debug, Default)]
pub(crate) struct Account {
    live: HashMap<u64, Live, RandomState>,
    sites: HashMap<u32, Site, RandomState>,
    pub(crate) live_bytes: u64,
    pub(crate) allocated: Amount,
    /// So much has lived at the most, when it was, and the how manieth maximum that was.
    pub(crate) maximum_bytes: u64,
    pub(crate) maximum_ns: u64,
    maxima: u64,
    /// When something last happened.
    pub(crate) last_ns: u64,
}

impl Account {
    /// A block was sampled that stands for so many bytes. Says whether there was room to keep it.
    pub(crate) fn allocate(
        &mut self,
        address: u64,
        stack: u32,
        bytes: u64,
        now_ns: u64,
        room: &mut Room,
    ) -> bool {
        // It was freed, and that was not to be heard.
        self.free(address, now_ns, room);
        let is_known = self.sites.contains_key(&stack);
        if self.live.len() >= MAX_LIVE
            || room.live >= MAX_LIVE_OF_ALL
            || (!is_known && room.sites >= MAX_SITES_OF_ALL)
        {
            return false;
        }
        room.live += 1;
        room.sites += usize::from(!is_known);
        self.last_ns = now_ns;
        self.live.insert(address, Live { stack, bytes });
        let maxima = self.maxima;
        self.sites.entry(stack).or_default().change(maxima, |site| site.allocated.add(bytes));
        self.allocated.add(bytes);
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        if self.live_bytes > self.maximum_bytes {
            self.maximum_bytes = self.live_bytes;
            self.maximum_ns = now_ns;
            self.maxima += 1;
        }
        true
    }

    /// A block is no more; one that is not known was not kept.
    pub(crate) fn free(&mut self, address: u64, now_ns: u64, room: &mut Room) {
        let Some(Live { stack, bytes }) = self.live.remove(&address) else { return };
        room.live = room.live.saturating_sub(1);
        self.last_ns = now_ns;
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
        let maxima = self.maxima;
        if let Some(site) = self.sites.get_mut(&stack) {
            site.change(maxima, |site| site.freed.add(bytes));
        }
    }

    /// Another program takes the process over: all of its memory is gone.
    pub(crate) fn begin_anew(&mut self, now_ns: u64, room: &mut Room) {
        self.close(room);
        self.last_ns = now_ns;
        self.live_bytes = 0;
        let maxima = self.maxima;
        for site in self.sites.values_mut().filter(|site| site.live() != Amount::default()) {
            site.change(maxima, |site| site.freed = site.allocated);
        }
    }

    /// There are no more records: what lives is what the sites say.
    pub(crate) fn close(&mut self, room: &mut Room) {
        room.live = room.live.saturating_sub(self.live.len());
        self.live = HashMap::default();
    }

    /// All sites by the numbers of their stacks.
    pub(crate) fn sites(&self) -> impl Iterator<Item = (u32, &Site)> {
        self.sites.iter().map(|(stack, site)| (*stack, site))
    }

    /// Those that have changed since the last time.
    pub(crate) fn take_new(&mut self) -> Vec<(u32, Site)> {
        let mut new: Vec<(u32, Site)> = Vec::new();
        for (stack, site) in self.sites.iter_mut().filter(|(_, site)| site.is_new) {
            site.is_new = false;
            new.push((*stack, *site));
        }
        // The same for the same events.
        new.sort_unstable_by_key(|(stack, _)| *stack);
        new
    }

    /// What a site had when most was there.
    pub(crate) fn at_maximum(&self, site: &Site) -> Amount {
        if site.at_maximum.0 < self.maxima { site.live() } else { site.at_maximum.1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(account: &Account) -> Vec<(u32, u64)> {
        let mut live: Vec<_> = account.sites().map(|(stack, site)| (stack, site.live().bytes)).collect();
        live.sort_unstable();
        live
    }

    #[test]
    fn what_lives_is_what_was_allocated_and_not_freed() {
        let (mut account, mut room) = (Account::default(), Room::default());
        assert!(account.allocate(16, 1, 100, 1, &mut room));
        assert!(account.allocate(32, 1, 50, 2, &mut room));
        assert!(account.allocate(48, 2, 7, 3, &mut room));
        account.free(16, 4, &mut room);
        account.free(16, 5, &mut room);
        account.free(99, 6, &mut room);
        assert_eq!((live(&account), account.live_bytes, room.live), (vec![(1, 50), (2, 7)], 57, 2));
        // A block at an address that is taken: that it was freed was lost.
        assert!(account.allocate(32, 2, 1, 7, &mut room));
        assert_eq!((live(&account), room.live), (vec![(1, 0), (2, 8)], 2));
        assert_eq!(account.allocated, Amount { bytes: 158, samples: 4 });
        account.begin_anew(8, &mut room);
        assert_eq!((live(&account), account.live_bytes, room.live), (vec![(1, 0), (2, 0)], 0, 0));
        let freed: u64 = account.sites().map(|(_, site)| site.freed.bytes).sum();
        assert_eq!(freed, 158);
    }

    /// Against copies of everything.
    #[test]
    fn the_maximum_is_that_of_the_moment_at_which_most_has_lived() {
        let (mut account, mut room) = (Account::default(), Room::default());
        let mut blocks: HashMap<u64, (u32, u64), RandomState> = HashMap::default();
        let (mut most, mut at_most) = (0, Vec::new());
        let mut random = 1u64;
        for now in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (address, stack, bytes) =
                (random >> 40 & 0x1ff, (random >> 50) as u32 & 7, random >> 32 & 0xff);
            if random >> 63 == 0 || now < 100 {
                account.allocate(address, stack, bytes, now, &mut room);
                blocks.insert(address, (stack, bytes));
            } else {
                account.free(address, now, &mut room);
                blocks.remove(&address);
            }
            let all: u64 = blocks.values().map(|(_, bytes)| bytes).sum();
            assert_eq!(all, account.live_bytes);
            if all > most {
                most = all;
                at_most = (0..8)
                    .map(|of| blocks.values().filter(|it| it.0 == of).map(|it| it.1).sum::<u64>())
                    .collect();
            }
        }
        let mut found: Vec<_> =
            account.sites().map(|(stack, site)| (stack, account.at_maximum(site).bytes)).collect();
        found.sort_unstable();
        assert_eq!(found.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), at_most);
        assert_eq!(account.maximum_bytes, most);
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let (mut account, mut room) = (Account::default(), Room { live: 0, sites: MAX_SITES_OF_ALL - 1 });
        assert!(account.allocate(16, 1, 1, 1, &mut room) && account.allocate(32, 1, 1, 1, &mut room));
        assert!(!account.allocate(48, 2, 1, 1, &mut room));
        room.live = MAX_LIVE_OF_ALL;
        assert!(!account.allocate(48, 1, 1, 1, &mut room));
        account.close(&mut room);
        assert_eq!(room.live, MAX_LIVE_OF_ALL - 2);
    }
}
