//! The rules of a trace: packets in, rows of tables out.
//!
//! Reading is a fold. [`Import`] takes the packets of a trace one by one in the order of its file, and at the end gives the
//! [`Tables`](ferretto_trace_tables::Tables). There is no I/O here, no thread, and no format but Perfetto's: whoever drives it decides where
//! packets come from.
//!
//! Each packet goes through two halves:
//!
//! 1. It *arrives*, in the order of the file ([`import`]): what its sequence has said before is applied to it ([`sequence`]: names behind
//!    numbers, defaults, what is missing), and its time becomes the trace's ([`clocks`]). What comes out is an [`event::Event`].
//! 2. All events, in the order of their times ([`order`]), are *applied* to the [`model::Model`]: the state machines below, which write rows.
//!
//! | module | which rule |
//! |---|---|
//! | [`sequence`] | interned data, defaults, generations, packets that are missing |
//! | [`clocks`] | every clock's time to the trace's |
//! | [`order`] | events by time; which of two at the same time is first |
//! | [`processes`] | threads and processes: which is who, their names, their ends |
//! | [`process_tree`], [`namespaces`] | the list of processes, and what they are called within their namespaces |
//! | [`ftrace`] | the kernel's events |
//! | [`sched`], [`thread_states`], [`task_state`] | which thread ran where, and what each did all the time |
//! | [`tracks`] | which tracks there are, and which row each is |
//! | [`counters`] | tracks by their dimensions, and values of counters |
//! | [`cpus`] | which processors there are |
//! | [`track_event`] | events of programs: descriptors, slices, counters, flows |
//! | [`profiles`] | call stacks, samples, heaps, memory |
//! | [`slices`] | what lies within what on a track |
//! | [`args`] | arguments, each set once |
//! | [`wire`] | helpers for reading messages |
//! | [`stats`] | what is counted because it was lost or wrong |
//!
//! The names and the order of rows are those of upstream's Trace Processor, as are its rules, odd ones too; where a rule is odd, it says so.

pub mod args;
pub mod clocks;
pub mod counters;
pub mod cpus;
pub mod event;
pub mod ftrace;
pub mod import;
pub mod model;
pub mod namespaces;
pub mod order;
pub mod process_tree;
pub mod processes;
pub mod profiles;
pub mod sched;
pub mod sequence;
pub mod slices;
pub mod stats;
pub mod task_state;
pub mod thread_states;
pub mod track_event;
pub mod tracks;
pub mod wire;

pub use import::Import;
