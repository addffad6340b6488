//! What can go wrong for good. A service that is not there is no error: it may come.

use std::io;

use ferretto_ipc::address::AddressError;

/// A producer could not be made or driven.
#[derive(Debug, thiserror::Error)]
pub enum ProducerError {
    /// The kernel refused an event descriptor.
    #[error(
        "cannot create the producer's wake-up descriptor: {0}; is the limit of open files (ulimit -n) reached?"
    )]
    Wake(#[source] io::Error),
    /// Waiting failed.
    #[error("cannot wait for the tracing service: {0}")]
    Poll(#[source] io::Error),
    /// The environment names no usable socket.
    #[error("cannot find the producer socket: {0}; check PERFETTO_PRODUCER_SOCK_NAME")]
    Address(#[from] AddressError),
}
