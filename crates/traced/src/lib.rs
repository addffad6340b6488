//! Gives the tracing service its sockets, timers, files and signals.
//!
//! [`daemon`] runs it as the system's service, [`in_process`] on a thread of this process. How a session works is the business of
//! `ferretto-service`; this crate carries bytes, descriptors and the time to it, and writes what it says.
#![forbid(unsafe_code)]

pub mod daemon;
pub mod in_process;
