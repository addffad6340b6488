//! `linux.ftrace`: the kernel's events, read from its raw per-CPU pages.

pub mod format;
pub mod page;
pub mod reset;
pub(crate) mod tracefs;
