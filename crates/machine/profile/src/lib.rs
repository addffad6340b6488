//! The profilers: the CPU sampler, and in [`heap`] that of what programs allocate.
//!
//! The CPU sampler is the data source `linux.perf`, of which each sample says where a thread was, as a stack.
//!
//! ```text
//! kernel's rings, one a processor ─▶ records, in the order of time ─▶ processes: what is mapped where ─▶ stacks ─▶ packets
//!                                                                                       └─ modules: files' symbols and unwinding information
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `producer` | connects, starts and stops with sessions |
//! | `cpu` | the data source, which [`run`] offers |
//! | `config` | what a session asks for |
//! | `counters` | what is sampled by, and what that is called |
//! | `events` | asks the kernel for samples, and takes them out of its rings |
//! | [`Group`] | a control group for a command, whose processes have their events together |
//! | `records` | what the kernel's bytes say |
//! | `processes` | which code each process has mapped, from the kernel's records |
//! | `jit` | names of code that programs make while they run |
//! | `looks` | looks into processes and files of strangers |
//! | `strangers` | what may be spent on these |
//! | `modules` | files of code, each read once |
//! | `threads` | what threads are called |
//! | `waits` | where threads wait |
//! | `packets` | samples as packets, every name said once |
//! | `scope` | whose stacks are wanted |
//! | [`summary`] | where the time went, for the terminal |
//!
//! A stack is a copy of the thread's own, unwound here: nothing runs in the program, which is stopped no longer than the kernel takes for the copy.

#![forbid(unsafe_code)]

mod config;
mod counters;
mod cpu;
mod events;
mod group;
pub mod heap;
mod jit;
mod looks;
mod modules;
mod packets;
mod processes;
mod producer;
mod records;
mod sampler;
mod scope;
mod strangers;
pub mod summary;
mod threads;
mod waits;

pub use config::{MAX_FREQUENCY_HZ, OFF_CPU};
pub use counters::{COUNTERS, KnownCounter};
pub use cpu::{DATA_SOURCE, ProfileOptions, run};
pub use events::{Refused, Target, can_sample};
pub use group::Group;
pub use summary::Summary;
