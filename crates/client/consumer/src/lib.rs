//! The client's half of recording a trace: configuring, starting, reading back.
//!
//! [`Consumer`] speaks to a tracing service over its consumer socket. Its core fits into any poll loop: wait for
//! [`Consumer::fd`], call [`Consumer::handle_ready`], take [`Consumer::next_event`] until there is none. [`Consumer::poll`] does the
//! three for callers that wait for nothing else, and methods such as [`Consumer::flush`] wait for their own answer.
//!
//! ```no_run
//! use ferretto_consumer::{Consumer, Event, write_packet};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config: Vec<u8> = std::fs::read("trace_config.binpb")?;
//! let mut consumer = Consumer::connect_default()?;
//! consumer.enable_tracing(config, None)?;
//! loop {
//!     match consumer.poll(Some(Duration::from_secs(1))) {
//!         Some(Event::TracingDisabled { error: None }) => break,
//!         Some(Event::TracingDisabled { error: Some(error) }) => return Err(error.into()),
//!         Some(Event::Disconnected { reason }) => return Err(reason.into()),
//!         _ => {} // Time to show progress.
//!     }
//! }
//! let mut file = std::fs::File::create("trace.pftrace")?;
//! consumer.read_buffers(|packet| write_packet(&mut file, packet))?;
//! consumer.free()?;
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod consumer;
mod error;
mod packets;

pub use consumer::{Answer, CallId, Consumer, Event, Observe, ReadSummary, flush_flags};
pub use error::{CallError, ConnectError, ReadError};
pub use packets::{MAX_PACKET_SIZE, write_packet};
