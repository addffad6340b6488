//! The rules of a trace: packets in, rows of tables out.
//!
//! Reading is a fold. [`Import`] takes the packets of a trace one by one in the order of its file, and at the end gives the
//! [`Tables`](ferretto_trace_tables::Tables). There is no I/O here, no thread, and no format but Perfetto's: whoever drives it decides where
//! packets come from.
//!
//! Each packet goes through two halves:
//!
//! 1. It *arrives*, in the order of the file ([`import`]): what its sequence has said before is applied to it ([`sequence`]: names behind
//!    numbers, defaults, what is missing), and its time becomes the trace's ([`ferretto_trace_read::clocks`]). What comes out is an [`event::Event`].
//! 2. All events, in the order of their times ([`order`]), are *applied* to the [`model::Model`]: the state machines below, which write rows.
//!
//! | module | which rule |
//! |---|---|
//! | [`sequence`] | interned data, defaults, generations, packets that are missing |
//! | [`clock_snapshots`], [`remote_clocks`] | what packets say of clocks |
//! | `lanes` | packets with nothing but a usual event, quickly |
//! | [`order`] | events by time; which of two at the same time is first |
//! | [`again`] | what waits where the trace lies |
//! | [`processes`] | threads and processes: which is who, their names, their ends |
//! | [`process_tree`], [`namespaces`] | the list of processes, and what they are called within their namespaces |
//! | [`ftrace`] | the kernel's events |
//! | [`generic_kernel`] | the same of kernels that are not Linux |
//! | [`sched`], [`thread_states`], [`task_state`] | which thread ran where, and what each did all the time |
//! | [`tracks`] | which tracks there are, and which row each is |
//! | [`track_sets`] | tracks that one set of events is spread over |
//! | [`counters`] | tracks by their dimensions, and values of counters |
//! | [`machines`], [`cpus`], [`system_info`], [`cpu_info`] | which machines and processors there are, and what they are |
//! | [`system_stats`], [`process_stats`] | samples of machines and processes |
//! | [`power`] | batteries, and the display |
//! | [`logs`] | lines of logs |
//! | [`chrome`] | what Chrome says of itself |
//! | [`metadata`], [`config`], [`trace_files`], [`bounds`] | what is known of the trace as a whole |
//! | [`service_events`], [`triggers`], [`concurrent_sessions`], [`trace_stats`] | what the service says of its recordings |
//! | [`track_event`] | events of programs: descriptors, slices, counters, flows |
//! | [`profiles`] | call stacks, samples, heaps, memory |
//! | [`flows`] | arrows between slices |
//! | [`states`] | states that programs say |
//! | [`slices`] | what lies within what on a track |
//! | [`args`] | arguments, each set once |
//! | [`translation`] | names that a trace has as hashes, or shortened |
//! | [`stats`], [`import_logs`] | what is counted because it was lost or wrong, and where |
//!
//! The names and the order of rows are those of upstream's Trace Processor, as are its rules, odd ones too; where a rule is odd, it says so.

pub mod again;
pub mod args;
pub mod bounds;
pub mod chrome;
pub mod clock_snapshots;
pub mod concurrent_sessions;
pub mod config;
pub mod counters;
pub mod cpu_info;
pub mod cpus;
mod diagnostics;
pub mod event;
pub mod flows;
pub mod ftrace;
pub mod generic_kernel;
pub mod import;
pub mod import_logs;
mod lanes;
pub mod logs;
pub mod machines;
pub mod metadata;
pub mod model;
pub mod namespaces;
pub mod order;
mod packages;
pub mod power;
pub mod process_stats;
pub mod process_tree;
pub mod processes;
pub mod profiles;
pub mod remote_clocks;
pub mod sched;
pub mod sequence;
pub mod service_events;
pub mod slices;
pub mod states;
pub mod stats;
pub mod system_info;
pub mod system_stats;
pub mod task_state;
pub mod thread_states;
pub mod trace_files;
pub mod trace_stats;
pub mod track_event;
pub mod track_sets;
pub mod tracks;
pub mod translation;
pub mod triggers;

use ferretto_trace_read::{clocks, wire};
pub use ftrace::bundle::BundleOutline;
pub use import::Import;
pub use lanes::Outline;
