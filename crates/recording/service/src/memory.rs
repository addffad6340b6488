//! Which shared memory a producer gets.

use std::collections::HashMap;
use std::sync::Arc;

use ferretto_shm::{PageSize, ServiceView, SharedMemory};

use crate::ids::{ProducerId, SessionId};
use crate::limits;
use crate::registry::{MemorySizes, Peer, Producer, ProducerMemory};
use crate::service::Service;

impl MemorySizes {
    /// Fills gaps and replaces what cannot work (upstream: `EnsureValidShmSizes`).
    pub(crate) fn or_valid(self, max_size: usize) -> Self {
        let default = Self { size: limits::DEFAULT_SHARED_MEMORY_SIZE, page: limits::DEFAULT_PAGE_SIZE };
        let size = if self.size == 0 { default.size } else { self.size };
        let page = if self.page == 0 { default.page } else { self.page };
        let chosen = Self { size: size.min(max_size), page: page.min(limits::MAX_PAGE_SIZE) };
        if chosen.is_valid() { chosen } else { default }
    }

    /// Neither smaller, nor with smaller pages or fewer of them.
    fn are_no_less_than(self, other: Self) -> bool {
        let pages = |sizes: Self| sizes.size.checked_div(sizes.page).unwrap_or(0);
        self.size >= other.size && self.page >= other.page && pages(self) >= pages(other)
    }

    fn is_valid(self) -> bool {
        self.page >= limits::DEFAULT_PAGE_SIZE
            && self.page.is_power_of_two()
            && self.size >= self.page
            && self.size.is_multiple_of(self.page)
    }
}

/// How much shared memory each user's producers have, in bytes.
#[derive(Debug, Default)]
pub(crate) struct SharedMemoryByUser(HashMap<u32, usize>);

impl SharedMemoryByUser {
    /// Whether so much more is within the bound.
    fn has_room(&self, uid: u32, bytes: usize) -> bool {
        let held = self.0.get(&uid).copied().unwrap_or(0);
        held.saturating_add(bytes) <= limits::MAX_SHARED_MEMORY_PER_USER
    }

    fn add(&mut self, uid: u32, bytes: usize) {
        let held = self.0.entry(uid).or_default();
        *held = held.saturating_add(bytes);
    }

    /// A producer has left.
    pub(crate) fn remove(&mut self, uid: u32, bytes: usize) {
        let Some(held) = self.0.get_mut(&uid) else { return };
        *held = held.saturating_sub(bytes);
        if *held == 0 {
            self.0.remove(&uid);
        }
    }
}

/// Takes over memory that a producer brought, if its size and the page size asked for fit the rules exactly; otherwise the producer is
/// given memory later, like one that brought none.
fn adopt(memory: Arc<SharedMemory>, page: usize, uid: u32) -> Option<ProducerMemory> {
    let asked = MemorySizes { size: memory.len(), page };
    if asked.or_valid(limits::MAX_SHARED_MEMORY_SIZE) != asked {
        tracing::warn!(
            size = asked.size,
            page,
            "memory of a producer has unusable sizes: it gets other memory"
        );
        return None;
    }
    attach(memory, page, true, uid)
}

fn attach(
    memory: Arc<SharedMemory>,
    page_size: usize,
    is_provided: bool,
    payer: u32,
) -> Option<ProducerMemory> {
    let page = PageSize::new(u64::try_from(page_size).ok()?).ok()?;
    let view = ServiceView::new(memory.clone(), page).ok()?;
    Some(ProducerMemory { memory, view, page_size, seen_pages: 0, is_provided, payer })
}

impl Service {
    /// Takes over memory that a producer brought, as [`adopt`] says, if its user may have so much.
    pub(crate) fn adopt_memory(
        &mut self,
        uid: u32,
        memory: Arc<SharedMemory>,
        page: usize,
    ) -> Option<ProducerMemory> {
        if !self.may_have_memory(uid, memory.len()) {
            tracing::warn!(
                uid,
                bytes = memory.len(),
                "the producers of this user have too much memory already"
            );
            return None;
        }
        let memory = adopt(memory, page, uid)?;
        self.shared_memory.add(uid, memory.memory.len());
        Some(memory)
    }

    fn may_have_memory(&self, uid: u32, bytes: usize) -> bool {
        self.is_privileged(uid) || self.shared_memory.has_room(uid, bytes)
    }

    /// Gives a producer memory at its first data source instance.
    pub(crate) fn ensure_memory(&mut self, session: SessionId, id: ProducerId) {
        let has_some =
            |producer: &Producer| producer.memory.is_some() || producer.emulated_page_size.is_some();
        if self.producers.get(&id).is_none_or(has_some) {
            return;
        }
        let Some((sizes, payer)) = self.memory_sizes(session, id) else { return };
        let sizes = self.or_what_is_left(id, sizes, payer);
        let Some(producer) = self.producers.get_mut(&id) else { return };
        if producer.peer.emulated {
            // Chunks come by value, but the producer waits for SetupTracing all the same, and takes its page size from there. Once:
            // upstream's aborts at a second one.
            producer.emulated_page_size = Some(sizes.page);
        } else {
            let memory = match self.environment.allocate_memory(sizes.size) {
                Ok(memory) => memory,
                Err(error) => {
                    tracing::error!(producer = %id, bytes = sizes.size, "no shared memory for a producer: {error}");
                    if let Some(session) = self.sessions.get_mut(&session) {
                        session.losses.producers_without_memory += 1;
                    }
                    return;
                }
            };
            self.shared_memory.add(payer, memory.len());
            producer.memory = attach(memory, sizes.page, false, payer);
        }
        let conn = producer.conn;
        if let Some(link) = self.links.get_mut(&conn) {
            link.setup_tracing_pending = true;
        }
        self.send_setup_tracing(conn);
    }

    /// Config, then hint, then default decide. The config of a stranger can only give more: with less than it asked for, a producer would
    /// lose what it writes, also for others. Who gives more than a producer asked for has it on the own account, if there is room: otherwise
    /// a stranger could use up what the producers of a user may have.
    fn memory_sizes(&self, session: SessionId, id: ProducerId) -> Option<(MemorySizes, u32)> {
        let producer = self.producers.get(&id)?;
        let hints = producer.hints;
        let own = hints.or_valid(limits::MAX_SHARED_MEMORY_SIZE);
        let session = self.sessions.get(&session)?;
        let Some(sizes) = session.config.producers.sizes_of(&producer.name, hints.size) else {
            return Some((own, producer.peer.uid));
        };
        let or_hint = |value, hint| if value == 0 { hint } else { value };
        let wanted =
            MemorySizes { size: or_hint(sizes.size, hints.size), page: or_hint(sizes.page, hints.page) };
        let max = match sizes.size {
            0 => limits::MAX_SHARED_MEMORY_SIZE,
            _ if !self.is_privileged(session.owner_uid) => limits::MAX_SHARED_MEMORY_SIZE_BY_USERS,
            _ => limits::MAX_CONFIGURED_SHARED_MEMORY_SIZE,
        };
        let wanted = wanted.or_valid(max);
        let decides = producer.peer.emulated || self.may_decide_for(session.owner_uid, producer.peer);
        let larger = MemorySizes { page: own.page, ..wanted };
        let candidates = [wanted, larger].into_iter().filter(|sizes| sizes.is_valid());
        let chosen =
            candidates.into_iter().find(|sizes| decides || sizes.are_no_less_than(own)).unwrap_or(own);
        let is_own = producer.peer.uid == session.owner_uid || chosen.size <= own.size;
        Some(match is_own {
            true => (chosen, producer.peer.uid),
            false if self.may_have_memory(session.owner_uid, chosen.size) => (chosen, session.owner_uid),
            false => (own, producer.peer.uid),
        })
    }

    /// What a producer of a user gets whose producers have very much: not less than makes it work, for who gets nothing is silent.
    fn or_what_is_left(&self, id: ProducerId, sizes: MemorySizes, uid: u32) -> MemorySizes {
        let Some(producer) = self.producers.get(&id) else { return sizes };
        if producer.peer.emulated || self.may_have_memory(uid, sizes.size) {
            return sizes;
        }
        let size = sizes.size.min(limits::SHARED_MEMORY_SIZE_AT_LAST);
        tracing::warn!(
            producer = %id,
            uid,
            wanted_bytes = sizes.size,
            bytes = size,
            "the producers of this user have very much shared memory: this one gets little"
        );
        MemorySizes { size, page: limits::DEFAULT_PAGE_SIZE }
    }

    /// Root, the user of the service, and a producer's own user.
    fn may_decide_for(&self, owner_uid: u32, producer: Peer) -> bool {
        self.is_privileged(owner_uid) || producer.is_user(owner_uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_that_cannot_work_give_the_defaults() {
        const KB: usize = 1024;
        let default = (256 * KB, 4 * KB);
        let cases = [
            ((0, 0), default),
            ((1024 * KB, 0), (1024 * KB, 4 * KB)),
            ((0, 16 * KB), (256 * KB, 16 * KB)),
            ((1024 * KB, 8 * KB), (1024 * KB, 8 * KB)),
            ((1024 * KB, 64 * KB), (1024 * KB, 32 * KB)),
            ((1 << 40, 4 * KB), (32 * 1024 * KB, 4 * KB)),
            ((12 * KB, 8 * KB), default),
            ((4 * KB, 8 * KB), default),
            ((256 * KB, 12 * KB), default),
            ((256 * KB, 5000), default),
            ((256 * KB, 1024), default),
        ];
        for ((size, page), (expected_size, expected_page)) in cases {
            let sizes = MemorySizes { size, page }.or_valid(limits::MAX_SHARED_MEMORY_SIZE);
            assert_eq!((sizes.size, sizes.page), (expected_size, expected_page), "size {size}, page {page}");
        }
    }
}
