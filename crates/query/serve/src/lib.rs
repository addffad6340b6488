//! Answers queries on a trace over HTTP, as Trace Processor's server does: for the Python package `perfetto` and whatever speaks its protocol.
//!
//! | module | what it does |
//! |---|---|
//! | [`server`] | listens, a thread a connection, and lets in who may ask |
//! | `exchange` | requests and answers of one connection |
//! | `guard` | who may ask |
//! | `routes` | what can be asked for |
//! | `rpc` | the protocol in which requests are messages of a stream |
//! | `wire` | messages, to bytes |
//! | [`engine`] | the trace that is asked, and one that comes in pieces |
//!
//! ```no_run
//! use ferretto_serve::{Engine, Server};
//!
//! let trace = ferretto_analysis::Trace::open("trace.pftrace")?;
//! let server = Server::bind("127.0.0.1:9001", Engine::of(trace, "trace.pftrace"), [])?;
//! println!("http://{}", server.address()?);
//! server.run();
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod engine;
mod exchange;
mod guard;
mod routes;
mod rpc;
pub mod server;
mod wire;

pub use crate::engine::Engine;
pub use crate::server::Server;
