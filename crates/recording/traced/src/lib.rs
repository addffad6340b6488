//! Gives the tracing service its sockets, timers, files and signals.
//!
//! [`daemon`] runs it as the system's service, [`in_process`] on a thread of this process. How a session works is the business of
//! `ferretto-service`; this crate carries bytes, descriptors and the time to it, and writes what it says.
//!
//! | module | what it does |
//! |---|---|
//! | `server` | the loop: waits, hands inputs to the service, carries out its outputs |
//! | `poller` | what the loop waits for, with or without producers |
//! | `turns` | who is served next |
//! | `connection` | one client: its socket, its frames, its requests |
//! | `files` | trace files, written as they take it |
//! | `alarm` | waking up at a time, however long the machine slept |
//! | `system` | clocks, memory, randomness, facts about the machine |
//! | [`daemon`], [`in_process`] | the two ways to run it |
//! | [`own_driver`] | what it takes to run it in a third way |
#![forbid(unsafe_code)]

mod alarm;
mod background;
mod connection;
pub mod daemon;
mod files;
pub mod in_process;
mod inbox;
mod notify;
pub mod own_driver;
mod poller;
mod server;
mod system;
mod turns;
mod users;

pub use system::system_info;

/// What the service calls itself in `--query` and in traces.
pub const VERSION: &str = concat!("Ferretto v", env!("CARGO_PKG_VERSION"));
