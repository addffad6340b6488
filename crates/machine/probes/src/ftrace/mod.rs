//! `linux.ftrace`: the kernel's events, read from its raw per-CPU pages.
//!
//! `controller` reads on time and knows the sessions; `instance` merges what sessions want into one state of tracefs, and `claim` keeps
//! recorders apart; `reader` gets pages, [`page`] takes them apart, `plan` says how each event becomes a message, and `encode` writes
//! them, by way of `words`, and `short` those of a few small fields. `frozen` reads, once, what an instance holds that nobody records
//! into.

mod categories;
mod claim;
mod clock_pair;
mod compact;
pub(crate) mod controller;
mod cpu_stats;
mod encode;
pub mod format;
pub(crate) mod frozen;
mod instance;
pub(crate) mod metadata;
pub mod page;
mod plan;
mod print_filter;
mod reader;
pub mod reset;
mod short;
mod stats;
mod symbols;
mod syscalls;
pub(crate) mod tracefs;
mod words;
