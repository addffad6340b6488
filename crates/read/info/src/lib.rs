//! What a trace is, told from one pass over its packets, in the order of the file and in bounded memory.
//!
//! [`Info`] takes the packets one by one and gives a [`Report`]: when and where it was recorded, what fills it, who was busy, what took
//! long, and, with [`Tally`], what says that something is missing. It is quick as it decodes what it needs and keeps no events; what needs
//! all of them, in the order of time, is `trace-model`. The rules that both have are one code: what a packet relies on
//! ([`ferretto_trace_read::Continuity`]), and clocks ([`ferretto_trace_read::clocks`]).
//!
//! | module | what it does |
//! |---|---|
//! | [`info`] | the pass: what is done with a packet |
//! | `run` | the same for events that one writer has written one after the other, which are most |
//! | [`tally`] | counts packets by what they are, and all that says that something was lost |
//! | [`readable`] | which packets a reader can make use of, and when they were |
//! | [`events`] | events of programs by name and category; [`slices`]: those that are open |
//! | [`ftrace`] | a bundle of kernel events, part by part; [`sched`]: who ran on which CPU |
//! | [`people`] | threads and processes |
//! | [`machine`] | what machines say of themselves |
//! | [`names`] | tables of names, and of what is counted by them |
//! | [`report`] | what there is to say, the largest first |
//!
//! A trace is hostile: memory is bounded whatever it says, each bound is a constant in the module, and what does not fit is a row called
//! others.
//!
//! ```
//! use ferretto_trace_info::Info;
//! use ferretto_trace_read::Reader;
//!
//! let mut info = Info::default();
//! let end = Reader::new(&b"\x0a\x02\x40\x05\x0a\x02\x40"[..]).for_each(|packet, place| info.push(packet, place))?;
//! let report = info.finish(end);
//! assert_eq!((report.tally.packets, report.end.torn_at), (1, Some(4)));
//! # Ok::<_, std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod events;
pub mod ftrace;
pub mod info;
pub mod machine;
pub mod names;
pub mod people;
pub mod readable;
pub mod report;
mod run;
pub mod sched;
pub mod slices;
pub mod tally;

pub use info::Info;
pub use report::Report;
pub use tally::Tally;
