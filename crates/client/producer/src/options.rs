//! What a producer says about itself, and where it connects.

use std::time::Duration;

use ferretto_ipc::address::Address;
use ferretto_ipc::socket::Stream;

/// Where the service is.
#[derive(Debug, Default)]
pub enum Connector {
    /// The system's producer socket: `PERFETTO_PRODUCER_SOCK_NAME`, else the default path; looked up at every attempt.
    #[default]
    Default,
    /// This socket.
    Address(Address),
    /// A connection that exists already, such as one to a service in the same process. Once it ends there is no other.
    Stream(Stream),
}

/// Who allocates the shared memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SharedMemorySource {
    /// The service, when the first session starts: a producer that is never traced costs no memory.
    #[default]
    Service,
    /// This process, when it connects. A service that refuses it allocates its own.
    Producer,
}

/// What a producer tells the service when it connects.
#[derive(Debug)]
pub struct ProducerOptions {
    /// The name under which sessions select and list this producer.
    pub name: String,
    /// Where the service is.
    pub connector: Connector,
    /// The wish for the shared memory's size in bytes; 0 leaves it to the service (256 KiB). At most 32 MiB.
    pub shm_size_hint_bytes: u32,
    /// The wish for the size of its pages in bytes: 4096, 8192, 16384 or 32768; 0 leaves it to the service (4096).
    pub page_size_hint_bytes: u32,
    /// Who allocates it.
    pub shared_memory: SharedMemorySource,
    /// Lets the service copy chunks that are still being written, at a flush and when this process dies.
    pub scraping: bool,
    /// How long finished chunks may wait for others, so that one message announces many. Zero announces them at once, but for those that
    /// follow within a millisecond. Chunks that fill half of the shared memory never wait, and without a duration an eighth does not.
    pub batch_commits_duration: Duration,
    /// Shown in the service's state.
    pub sdk_version: String,
}

impl ProducerOptions {
    /// A producer of this name on the system's service, with scraping and the service's default sizes.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            connector: Connector::Default,
            shm_size_hint_bytes: 0,
            page_size_hint_bytes: 0,
            shared_memory: SharedMemorySource::Service,
            scraping: true,
            batch_commits_duration: Duration::ZERO,
            sdk_version: concat!("ferretto ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}
