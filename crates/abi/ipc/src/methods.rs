//! The services and their methods, in the order that gives them their ids.
//!
//! A host numbers services and methods from 1 in the order of these tables, which is the order of declaration in upstream's
//! `producer_port.proto`, `consumer_port.proto` and `relay_port.proto`. Clients look ids up by name in the reply to their bind.

/// A service that a host exposes: its name on the wire and the names of its methods in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceDef {
    /// The name that clients bind, such as `ProducerPort`.
    pub name: &'static str,
    /// The method with the id `n` is at index `n - 1`.
    pub methods: &'static [&'static str],
}

impl ServiceDef {
    /// The index of a method in [`methods`](Self::methods).
    pub fn method_index(&self, name: &str) -> Option<usize> {
        self.methods.iter().position(|method| *method == name)
    }
}

/// What producers call (upstream: producer_port.proto).
pub const PRODUCER_PORT: ServiceDef = ServiceDef {
    name: "ProducerPort",
    methods: &[
        "InitializeConnection",
        "RegisterDataSource",
        "UnregisterDataSource",
        "CommitData",
        "GetAsyncCommand",
        "RegisterTraceWriter",
        "UnregisterTraceWriter",
        "NotifyDataSourceStarted",
        "NotifyDataSourceStopped",
        "ActivateTriggers",
        "Sync",
        "UpdateDataSource",
    ],
};

/// What consumers call (upstream: consumer_port.proto).
pub const CONSUMER_PORT: ServiceDef = ServiceDef {
    name: "ConsumerPort",
    methods: &[
        "EnableTracing",
        "DisableTracing",
        "ReadBuffers",
        "FreeBuffers",
        "Flush",
        "StartTracing",
        "ChangeTraceConfig",
        "Detach",
        "Attach",
        "GetTraceStats",
        "ObserveEvents",
        "QueryServiceState",
        "QueryCapabilities",
        "SaveTraceForBugreport",
        "CloneSession",
    ],
};

/// What relays call, on producer sockets that allow it (upstream: relay_port.proto).
pub const RELAY_PORT: ServiceDef = ServiceDef { name: "RelayPort", methods: &["InitRelay", "SyncClock"] };
