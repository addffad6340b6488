//! Names of things: what the driver calls connections and files, and what the protocol calls producers, buffers and sessions.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A connection of a producer; chosen by the driver, never reused.
    ProducerConn(u64)
);
id!(
    /// A connection of a consumer; chosen by the driver, never reused.
    ConsumerConn(u64)
);
id!(
    /// A request that awaits replies; chosen by the driver, unique within its connection.
    Token(u64)
);
id!(
    /// A file that the driver has opened for the service to fill; chosen by the driver, never reused.
    FileHandle(u64)
);
id!(
    /// A producer in trace data; 1 to 65535.
    ProducerId(u16)
);
id!(
    /// A trace buffer of any session; 1 to 65535. What producers see as `target_buffer`.
    BufferId(u16)
);
id!(
    /// A tracing session.
    SessionId(u64)
);
id!(
    /// A data source instance: one data source of one producer in one session.
    InstanceId(u64)
);
