//! Bundles of kernel events: each event has a time of its own, and what was before it on its CPU says what it means.
//!
//! | module | what it does |
//! |---|---|
//! | [`bundle`], [`compact`], [`payload`] | takes a bundle apart |
//! | [`look`] | gives each event to those who follow it |
//! | [`sched`], [`run`], [`thread`], [`threads`] | who ran where, and which states are open at the ends of a range |
//! | [`at_once`] | the same for a bundle in columns as a whole |
//! | [`overlap`], [`lives`], [`doubts`] | threads that two CPUs run at once, or whose number another gets: a further pass follows their states |
//! | [`stacks`] | system calls and interrupts of which ends were lost: the same pass follows them |
//! | [`pairs`] | other events that open something, that close it, or whose last one counts |
//! | [`recut`] | a bundle with less in it |
//! | [`tail`] | bundles of what is needed from outside of the range |

pub(crate) mod at_once;
pub(crate) mod bundle;
pub(crate) mod compact;
pub(crate) mod doubts;
pub(crate) mod lives;
pub(crate) mod look;
pub(crate) mod overlap;
pub(crate) mod pairs;
pub(crate) mod payload;
pub(crate) mod recut;
pub(crate) mod run;
pub(crate) mod sched;
pub(crate) mod stacks;
pub(crate) mod tail;
pub(crate) mod thread;
pub(crate) mod threads;
