//! What can go wrong for good. A service that is not there is no error: it may come.

use std::error::Error;
use std::fmt;
use std::io;

use ferretto_ipc::address::AddressError;

use crate::connection::ConnectionLost;
use crate::startup::MAX_GROUPS;

/// A producer could not be made or driven.
#[derive(Debug)]
pub enum ProducerError {
    /// The kernel refused an event descriptor.
    Wake(io::Error),
    /// Waiting failed.
    Poll(io::Error),
    /// The environment names no usable socket.
    Address(AddressError),
    /// There is no memory to write to before there is a session.
    StartupMemory(StartupMemoryError),
    /// The service will allocate the memory: startup tracing begins before the first connection.
    StartupTooLate,
    /// There are too many groups of [`StartupWriters`](crate::StartupWriters).
    TooManyStartups,
}

impl fmt::Display for ProducerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wake(error) => write!(
                f,
                "cannot create the producer's wake-up descriptor: {error}; is the limit of open files (ulimit -n) reached?"
            ),
            Self::Poll(error) => write!(f, "cannot wait for the tracing service: {error}"),
            Self::Address(error) => {
                write!(f, "cannot find the producer socket: {error}; check PERFETTO_PRODUCER_SOCK_NAME")
            }
            Self::StartupMemory(error) => write!(f, "cannot make memory for startup tracing: {error}"),
            Self::StartupTooLate => f.write_str(
                "cannot trace the startup: the process is connected already; begin before it connects, or have it allocate the memory",
            ),
            Self::TooManyStartups => {
                write!(f, "cannot trace the startup: there are {MAX_GROUPS} such groups of writers already")
            }
        }
    }
}

impl Error for ProducerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Wake(error) => Some(error),
            Self::Poll(error) => Some(error),
            Self::Address(error) => Some(error),
            Self::StartupMemory(error) => Some(error),
            Self::StartupTooLate | Self::TooManyStartups => None,
        }
    }
}

/// Why this process could not make the memory.
pub struct StartupMemoryError(pub(crate) Box<ConnectionLost>);

impl fmt::Display for StartupMemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for StartupMemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Error for StartupMemoryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl From<AddressError> for ProducerError {
    fn from(error: AddressError) -> Self {
        Self::Address(error)
    }
}
