//! Where to connect, again and again.

use std::io::ErrorKind;

use ferretto_ipc::address::{self, Address, AddressError};
use ferretto_ipc::log;
use ferretto_ipc::socket::Stream;

use crate::backoff::SocketWatch;
use crate::options::Connector;

/// What came of one attempt.
#[derive(Debug)]
pub(crate) enum Attempt {
    Connected(Stream),
    /// Nobody there. The watch, if there can be one, tells when another attempt is worthwhile.
    Failed(Option<SocketWatch>),
    /// Somebody is there, and has too many waiting already.
    Busy,
    /// The only connection that there was has been used.
    Nowhere,
}

/// A [`Connector`] in use.
#[derive(Debug)]
pub(crate) enum Endpoint {
    Default,
    Address(Address),
    Stream(Option<Stream>),
}

impl Endpoint {
    pub(crate) fn new(connector: Connector) -> Result<Self, AddressError> {
        match connector {
            Connector::Default => {
                address::default_producer()?;
                Ok(Self::Default)
            }
            Connector::Address(address) => Ok(Self::Address(address)),
            Connector::Stream(stream) => Ok(Self::Stream(Some(stream))),
        }
    }

    pub(crate) fn connect(&mut self) -> Attempt {
        if let Self::Stream(stream) = self {
            return stream.take().map_or(Attempt::Nowhere, Attempt::Connected);
        }
        let Some(address) = self.address() else {
            return Attempt::Failed(None);
        };
        // Watched before the attempt, so that a socket which appears in between is noticed.
        let watch = address.path().and_then(SocketWatch::new);
        match Stream::connect(&address) {
            Ok(stream) => Attempt::Connected(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Attempt::Busy,
            Err(error) => {
                log::debug(format_args!("no tracing service at {address}: {error}"));
                Attempt::Failed(watch)
            }
        }
    }

    /// Tells when another attempt is worthwhile; `None` if it never is.
    #[inline(never)]
    pub(crate) fn watch(&self) -> Option<Option<SocketWatch>> {
        match self {
            Self::Stream(_) => None,
            _ => Some(self.address().and_then(|address| SocketWatch::new(address.path()?))),
        }
    }

    /// The default may change while the process runs: with the run directory of a package that is installed later.
    fn address(&self) -> Option<Address> {
        match self {
            Self::Default => address::default_producer().ok()?.into_iter().next(),
            Self::Address(address) => Some(address.clone()),
            Self::Stream(_) => None,
        }
    }
}
