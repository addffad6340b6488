//! Flows: arrows from one event to the next that has the same number.

use std::sync::atomic::{AtomicU64, Ordering};

use ferretto_protozero::fnv::fnv1a;

use crate::identity::process;

/// What happens in several places one after the other: events with the same flow are joined by arrows.
///
/// ```
/// use ferretto::Flow;
///
/// let flow = Flow::new(42);
/// ferretto::instant!("net", "sent", flow: flow);
/// ferretto::instant!("net", "received", flow_end: flow);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow(u64);

impl Flow {
    /// A flow within this process.
    pub fn new(id: u64) -> Self {
        Self(id ^ process().uuid)
    }

    /// A flow within this process that does not meet those of other names.
    pub fn named(name: &str, id: u64) -> Self {
        Self(id ^ fnv1a(name.as_bytes()).rotate_left(1) ^ process().uuid)
    }

    /// A flow that other processes of the trace know by the same number.
    pub const fn global(id: u64) -> Self {
        Self(id)
    }

    /// A flow of what lives at this address, as long as it does.
    pub fn of<T>(owner: &T) -> Self {
        Self::new(std::ptr::from_ref(owner).addr() as u64)
    }

    /// A flow that is like no other of this process, up to 2^64 of them.
    pub fn unique() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Turned, so that it stays apart from the small numbers and addresses that programs choose.
        Self::new(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).reverse_bits())
    }

    /// Its number in the trace.
    pub const fn id(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_a_process_differ_from_those_of_others_and_of_other_names() {
        assert_eq!(Flow::global(7).id(), 7);
        assert_eq!(Flow::new(7).id(), 7 ^ process().uuid);
        assert_ne!(Flow::named("a", 7), Flow::named("b", 7));
        assert_ne!(Flow::unique(), Flow::unique());
        let owner = 1_u8;
        assert_eq!(Flow::of(&owner), Flow::of(&owner));
    }
}
