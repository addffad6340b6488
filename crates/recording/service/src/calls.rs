//! The methods of the ports, decoded.

use std::sync::Arc;

use bytes::Bytes;
use ferretto_protos as protos;
use ferretto_shm::SharedMemory;
use prost::Message;

/// A method whose arguments could not be decoded, or that does not exist. The driver answers it with a rejection.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The arguments are no message of the method's type.
    #[error("the arguments of {method} cannot be decoded: {source}")]
    Arguments {
        /// The method.
        method: &'static str,
        /// What is wrong.
        source: prost::DecodeError,
    },
    /// The port has no such method.
    #[error("there is no method {method}")]
    UnknownMethod {
        /// The name asked for.
        method: String,
    },
}

macro_rules! calls {
    ($(#[$doc:meta])* $name:ident { $($method:ident($message:ident)),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[expect(missing_docs, reason = "each is the method of that name")]
        pub enum $name {
            $($method(protos::$message),)*
        }

        impl $name {
            /// Decodes the arguments of a method of this port.
            pub fn decode(method: &str, args: Bytes) -> Result<Self, CallError> {
                match method {
                    $(stringify!($method) => protos::$message::decode(args)
                        .map(Self::$method)
                        .map_err(|source| CallError::Arguments { method: stringify!($method), source }),)*
                    _ => Err(CallError::UnknownMethod { method: method.to_owned() }),
                }
            }

            /// The method's name.
            pub fn method(&self) -> &'static str {
                match self {
                    $(Self::$method(_) => stringify!($method),)*
                }
            }
        }
    };
}

calls! {
    /// A call of ProducerPort (upstream: producer_port.proto).
    ProducerCall {
        InitializeConnection(InitializeConnectionRequest),
        RegisterDataSource(RegisterDataSourceRequest),
        UnregisterDataSource(UnregisterDataSourceRequest),
        CommitData(CommitDataRequest),
        GetAsyncCommand(GetAsyncCommandRequest),
        RegisterTraceWriter(RegisterTraceWriterRequest),
        UnregisterTraceWriter(UnregisterTraceWriterRequest),
        NotifyDataSourceStarted(NotifyDataSourceStartedRequest),
        NotifyDataSourceStopped(NotifyDataSourceStoppedRequest),
        ActivateTriggers(ActivateTriggersRequest),
        Sync(SyncRequest),
        UpdateDataSource(UpdateDataSourceRequest),
    }
}

calls! {
    /// A call of ConsumerPort (upstream: consumer_port.proto).
    ConsumerCall {
        EnableTracing(EnableTracingRequest),
        DisableTracing(DisableTracingRequest),
        ReadBuffers(ReadBuffersRequest),
        FreeBuffers(FreeBuffersRequest),
        Flush(FlushRequest),
        StartTracing(StartTracingRequest),
        ChangeTraceConfig(ChangeTraceConfigRequest),
        Detach(DetachRequest),
        Attach(AttachRequest),
        GetTraceStats(GetTraceStatsRequest),
        ObserveEvents(ObserveEventsRequest),
        QueryServiceState(QueryServiceStateRequest),
        QueryCapabilities(QueryCapabilitiesRequest),
        SaveTraceForBugreport(SaveTraceForBugreportRequest),
        CloneSession(CloneSessionRequest),
    }
}

calls! {
    /// A call of RelayPort (upstream: relay_port.proto).
    RelayCall {
        InitRelay(InitRelayRequest),
        SyncClock(SyncClockRequest),
    }
}

impl ProducerCall {
    /// Whether a descriptor that came with the call is memory for [`Service::handle_producer_call`](crate::Service::handle_producer_call).
    pub fn takes_memory(&self) -> bool {
        matches!(self, Self::InitializeConnection(_))
    }
}

impl ConsumerCall {
    /// Whether a descriptor that came with the call is a file for [`Service::handle_consumer_call`](crate::Service::handle_consumer_call).
    pub fn takes_file(&self) -> bool {
        matches!(self, Self::EnableTracing(_) | Self::CloneSession(_))
    }
}

/// Memory that a producer brings along: mapped by the driver, which has checked its seals.
pub type ProvidedMemory = Option<Arc<SharedMemory>>;
