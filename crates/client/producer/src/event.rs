//! What happens to a producer.

use crate::config::InstanceConfig;
use crate::startup::{StartupEnd, StartupId};

/// Names an instance of a data source: one config of one session. From the service; unique for the life of a connection.
pub type InstanceId = u64;

/// What [`ProducerClient::next_event`](crate::ProducerClient::next_event) gives.
#[derive(Debug, Clone)]
pub enum ProducerEvent {
    /// The service knows this producer now.
    Connected,
    /// The connection ended. A [`Stop`](Self::Stop) for each instance came before this; there is nobody to acknowledge them to. The
    /// writers of the old connection write into the void from now on.
    Disconnected {
        /// Why, in words.
        reason: String,
    },
    /// A session wants data from this source. Get ready; writers can be created from now on. A [`Start`](Self::Start) follows.
    Setup {
        /// The instance.
        instance: InstanceId,
        /// Its config.
        config: InstanceConfig,
    },
    /// Write now. Answer with [`notify_started`](crate::ProducerClient::notify_started).
    Start {
        /// The instance.
        instance: InstanceId,
        /// Its config.
        config: InstanceConfig,
    },
    /// Write what is left, flush and drop the writers, then answer with [`notify_stopped`](crate::ProducerClient::notify_stopped).
    Stop {
        /// The instance.
        instance: InstanceId,
    },
    /// Flush the writers of these instances, then answer with [`notify_flush_complete`](crate::ProducerClient::notify_flush_complete).
    Flush {
        /// For the answer.
        request_id: u64,
        /// The instances.
        instances: Vec<InstanceId>,
        /// Why and by whom (upstream: `flush_flags.h`).
        flags: u64,
    },
    /// Forget what the sequences of these instances have interned: a reader may not have the packets that said it.
    ClearIncrementalState {
        /// The instances.
        instances: Vec<InstanceId>,
    },
    /// Writers that were to write before their session write into the void from now on: see
    /// [`StartupWriters`](crate::StartupWriters).
    StartupEnded {
        /// Which ones.
        id: StartupId,
        /// Why.
        reason: StartupEnd,
        /// Chunks that were full and are lost; what the writers hold is lost, too.
        lost_chunks: usize,
    },
    /// All calls before [`sync`](crate::ProducerClient::sync) have been served; commits among them.
    Synced,
}
