//! The profiler of what programs allocate: the data source `android.heapprofd`, for programs that have `libferretto_preload.so` before their allocator.
//!
//! ```text
//! program: library ─▶ ring ─▶ records ─▶ stacks ─▶ account: which blocks live, and who has asked for them ─▶ dumps
//!   └─ asks at a socket for its ring; so does each child, and each program that takes the place of one
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `config` | what a session asks for |
//! | [`Listener`] | where programs ask for rings |
//! | `rings` | gives them out and empties them, on a thread of its own |
//! | `stacks` | stacks, each kept once |
//! | `account` | what lives, was allocated, and was there at the most |
//! | `dump` | accounts as packets |
//! | [`Summary`] | the same for the terminal |
//!
//! What comes out of a ring is a stranger's: a record that is none ends that program's account, and whatever it says, memory and time are bounded.

mod account;
mod config;
mod dump;
mod library;
mod listener;
mod profiler;
mod rings;
mod stacks;
mod summary;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use ferretto_producer::{Connector, ExhaustedPolicy, InstanceConfig, ProducerClient, ProducerError};
use ferretto_shm::MemoryError;
use ferretto_shm::heap::SessionPage;

use self::config::Wanted;
pub use self::library::{LIBRARY, has_client, is_static};
pub use self::listener::Listener;
use self::profiler::Profiler;
use self::rings::{Programs, Rings};
pub use self::summary::{Lost, ProcessLine, Site, Summary};
use crate::producer::{Instance, Offer, Source, offer, target_buffer};

/// The data source, as upstream calls it.
pub const DATA_SOURCE: &str = "android.heapprofd";

/// How to run.
#[derive(Debug)]
pub struct HeapOptions {
    /// Where the tracing service is.
    pub connector: Connector,
    /// Where programs ask for rings.
    pub listener: Listener,
    /// Of any that may wait for a session, how large each one's ring is, a power of two from 4 MiB on. None if all were started to be profiled: their rings are
    /// as large as their session says.
    pub waiting_ring_bytes: Option<usize>,
    /// Becomes readable when it shall end.
    pub stop: OwnedFd,
    /// Gets the byte `1` and is closed once the data source is registered.
    pub notify: Option<OwnedFd>,
    /// What was allocated: at a session's end.
    pub summary: Arc<Mutex<Summary>>,
}

struct Heap {
    rings: Arc<Rings>,
    summary: Arc<Mutex<Summary>>,
}

/// Profiles for a service's sessions, on this thread, until told to stop.
///
/// # Errors
///
/// If the connection cannot be prepared, or there is no thread or memory to be had.
pub fn run(options: HeapOptions) -> Result<(), HeapError> {
    let HeapOptions { connector, listener, waiting_ring_bytes, stop, notify, summary } = options;
    let programs = match waiting_ring_bytes {
        None => Programs::Started,
        Some(ring_bytes) => {
            Programs::Waiting { ring_bytes, page: SessionPage::create().map_err(HeapError::Memory)? }
        }
    };
    let rings = Arc::new(Rings::start(listener, programs).map_err(HeapError::Thread)?);
    offer(Heap { rings, summary }, Offer { connector, stop, notify }).map_err(HeapError::Producer)
}

/// Why there is no profiler.
#[derive(Debug, thiserror::Error)]
pub enum HeapError {
    /// No memory to tell programs of sessions.
    #[error("cannot make the memory by which programs are told of sessions: {0}")]
    Memory(MemoryError),
    /// No thread to empty rings.
    #[error("cannot start the thread that gives rings out: {0}")]
    Thread(std::io::Error),
    /// What there is at the service's side.
    #[error(transparent)]
    Producer(ProducerError),
}

impl Source for Heap {
    type Instance = Profiler;
    const NAME: &'static str = DATA_SOURCE;
    /// As upstream's (heapprofd_producer.cc).
    const PRODUCER_NAME: &'static str = "android.heapprofd";

    fn start(
        &self,
        client: &ProducerClient,
        config: &InstanceConfig,
        running: usize,
    ) -> Result<Profiler, String> {
        if running > 0 {
            return Err("another session profiles already: a program has one ring".to_owned());
        }
        let decoded = config.decode().map_err(|error| error.to_string())?;
        let config_of_heap = decoded.heapprofd_config.unwrap_or_default();
        let wanted = Wanted::of(&config_of_heap, self.rings.fixed_ring_bytes)?;
        let writer =
            client.create_writer(target_buffer(config), config.exhausted_policy(ExhaustedPolicy::Stall));
        Ok(Profiler::start(wanted, self.rings.clone(), writer, self.summary.clone()))
    }
}

impl Instance for Profiler {
    fn turn(&mut self) {
        Self::turn(self);
    }

    fn flush(&mut self) {
        // As upstream's, it dumps at its end and when it is time, not at a flush.
        Self::flush(self);
    }

    fn clear(&mut self) {
        Self::clear(self);
    }

    fn finish(&mut self) {
        Self::finish(self);
    }
}
