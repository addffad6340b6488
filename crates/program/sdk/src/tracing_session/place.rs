//! Where the service of a session is.

use std::time::Duration;

use ferretto_consumer::{ConnectError, Consumer};
use ferretto_ipc::address::Address;
use ferretto_ipc::socket::Stream;

use super::error::SessionError;
use crate::backends::Backends;

/// How long a service may be too busy to take the connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// The service to connect to, once for a session and once for each copy of it.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// On a thread of this process.
    #[cfg(feature = "in-process")]
    InProcess,
    /// Where the environment says, or at the default socket.
    System,
    /// At this socket.
    Address(Address),
}

impl Place {
    pub(crate) fn parse(text: &str) -> Result<Self, SessionError> {
        let address = text.parse();
        address.map(Self::Address).map_err(|source| SessionError::Address { text: text.to_owned(), source })
    }

    pub(crate) fn connect(&self) -> Result<Consumer, SessionError> {
        Ok(match self {
            #[cfg(feature = "in-process")]
            Self::InProcess => Consumer::over(crate::in_process::host()?.connect_consumer()?)?,
            Self::System => Consumer::connect_default()?,
            Self::Address(address) => Consumer::connect(address)?,
        })
    }

    /// The backend with which this process is its producer.
    pub(crate) fn backend(&self) -> Backends {
        match self {
            #[cfg(feature = "in-process")]
            Self::InProcess => Backends::IN_PROCESS,
            Self::System | Self::Address(_) => Backends::SYSTEM,
        }
    }

    /// A connection for a producer; `None` if only the consumers' socket is known.
    pub(crate) fn connect_producer(&self) -> Result<Option<Stream>, SessionError> {
        match self {
            #[cfg(feature = "in-process")]
            Self::InProcess => Ok(Some(crate::in_process::host()?.connect_producer()?)),
            Self::System => {
                let addresses = ferretto_ipc::address::default_producer().map_err(ConnectError::Address)?;
                let Some(address) = addresses.into_iter().next() else { return Ok(None) };
                let stream = Stream::connect_within(&address, PATIENCE);
                Ok(Some(stream.map_err(|source| ConnectError::NoService { address, source })?))
            }
            Self::Address(_) => Ok(None),
        }
    }
}
