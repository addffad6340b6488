//! The service on a thread of this process.

use ferretto_ipc::address::Address;
use ferretto_ipc::socket::Stream;

use crate::daemon::Error;

/// How to run a service in this process.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// Where else producers may connect, beside [`Host::connect_producer`].
    pub producer_addresses: Vec<Address>,
    /// Where else consumers may connect, beside [`Host::connect_consumer`].
    pub consumer_address: Option<Address>,
}

/// A running service; it stops, with all its sessions, when this is dropped.
#[derive(Debug)]
pub struct Host {
    _private: (),
}

impl Host {
    /// Starts the service's thread.
    pub fn spawn(options: HostOptions) -> Result<Self, Error> {
        let _ = options;
        todo!()
    }

    /// A socket that is connected to the service's producer side.
    pub fn connect_producer(&self) -> Result<Stream, Error> {
        todo!()
    }

    /// A socket that is connected to the service's consumer side.
    pub fn connect_consumer(&self) -> Result<Stream, Error> {
        todo!()
    }
}
