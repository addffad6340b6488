//! What a trace is, told from one pass over its packets.
//!
//! | module | what it does |
//! |---|---|
//! | [`tally`] | counts packets by what they are, and all that says that something was lost |
//! | [`readable`] | which packets a reader can make use of, and when they were |
//! | [`ftrace`] | a bundle of kernel events, part by part |
//!
//! A trace is hostile: memory is bounded whatever it says.
#![forbid(unsafe_code)]

pub mod ftrace;
pub mod readable;
pub mod tally;

pub use tally::Tally;
