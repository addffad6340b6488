//! The tracing service as a state machine without I/O.
//!
//! [`Service`] holds the registry of producers, the sessions of consumers and their buffers, and moves data from shared memory into
//! buffers and from buffers to consumers and files. Sockets, files, clocks and threads belong to its driver: see [`Service`] for the
//! order of calls.
//!
//! | module | behaviour |
//! |---|---|
//! | `service` | inputs, outputs, dispatch |
//! | `calls` | the ports' methods, decoded |
//! | `config` | a trace config, parsed and checked |
//! | `producers`, `memory`, `instances` | registering, shared memory, where configured meets registered |
//! | `commands` | what producers are told, and what waits until they have read that |
//! | `strangers` | what a session may want of another user's program |
//! | `machines` | producers on other machines, and their clocks |
//! | `enable`, `start_stop`, `detach`, `cloning`, `clone_steps` | the life of a session |
//! | `flush`, `scrape`, `commit` | the way of the data in |
//! | `pace` | how long producers may be left alone meanwhile |
//! | `buffers`, `protovms` | where it stays, and what becomes of that which is overwritten |
//! | `ring_upkeep` | what is done lest a ring overwrites what is not in the file yet, or names that nobody repeats |
//! | `read_back`, `filtering`, `clock_snapshots`, `service_events`, `stats` | the way out, what is kept and what the service adds |
//! | `ipc_output`, `file_output`, `file_copy`, `prefix`, `compression` | where it goes, and in what form |
//! | `triggers` | what producers call out for sessions to start, stop or be cloned |
//! | `user_book`, `source_bytes`, `sequence_account` | what one user or session may have of the memory |
//! | `concurrent`, `scheduling` | what sessions do to one another and to the service's thread |
//! | `observe`, `query` | what consumers can ask |
//! | [`limits`] | every bound |
//!
//! Upstream: src/tracing/service/tracing_service_impl.cc.
#![forbid(unsafe_code)]

mod buffers;
mod calls;
mod clock_snapshots;
mod clone_steps;
mod cloning;
mod commands;
mod commit;
mod compression;
mod concurrent;
mod config;
mod detach;
mod enable;
mod environment;
mod file_copy;
mod file_output;
mod file_turns;
mod filtering;
mod flush;
mod ids;
mod instance_set;
mod instances;
mod ipc_output;
pub mod limits;
mod losses;
mod machines;
mod memory;
mod now;
mod observe;
mod output;
mod pace;
mod patience;
mod prefix;
mod producer_set;
mod producers;
mod protovms;
mod query;
mod read_back;
mod registry;
mod ring_upkeep;
mod scheduling;
mod scrape;
mod sequence_account;
mod service;
mod service_events;
mod session;
mod shares;
mod source_bytes;
mod start_stop;
mod stats;
mod stopping;
mod strangers;
mod telling;
mod triggers;
mod user_book;
mod work;
mod work_queue;

pub use calls::{CallError, ConsumerCall, ProducerCall, ProvidedMemory, RelayCall};
pub use config::{ConfigError, RuleProblem};
pub use environment::{Environment, ServiceOptions};
pub use ids::{BufferId, ConsumerConn, FileHandle, InstanceId, ProducerConn, ProducerId, SessionId, Token};
pub use machines::Machine;
pub use now::{ClockReadings, Now};
pub use output::{FileContent, FileWrite, Output, Reply};
pub use registry::Peer;
pub use scheduling::Boost;
pub use service::Service;
