//! Custom data sources: packets of a program's own kind, in sessions that ask for them by name.
//!
//! | module | what it does |
//! |---|---|
//! | `handle` | registration, and what sessions ask of the source |
//! | `instance` | the user's object for one session |
//! | `context` | what the code that writes packets gets |
//! | `thread` | what each thread keeps for each session: writer and state |

mod context;
mod handle;
mod instance;
mod thread;

use ferretto_producer::{ExhaustedPolicy, InstanceConfig};

pub use context::{Packets, Parts, TraceContext, TracePacket};
pub use handle::{DataSourceHandle, RegisterError};
pub use instance::InstanceGuard;
pub(crate) use thread::{flush_all as flush_thread, forget as forget_thread};

use crate::backends::Backends;
use crate::runtime::Ack;

/// A kind of data that sessions ask for by its name. There is one value of the type for each session that does.
///
/// Callbacks come on the thread `ferretto`, one at a time, so that they should be brief. Their [`Ack`] may be kept to answer later. All
/// have a default that does nothing.
///
/// ```
/// use ferretto::protos::{DataSourceDescriptor, fields};
/// use ferretto::{Ack, DataSource, DataSourceHandle, SetupArgs};
///
/// /// Temperatures, for sessions with the data source "org.example.temperatures".
/// #[derive(Default)]
/// struct Temperatures {
///     session: u64,
/// }
///
/// impl DataSource for Temperatures {
///     type IncrementalState = ();
///     /// Packets of this thread.
///     type ThreadState = u32;
///
///     fn on_setup(&mut self, args: &SetupArgs<'_>) {
///         self.session = args.config.tracing_session_id();
///     }
///
///     fn on_stop(&mut self, ack: Ack) {
///         TEMPERATURES.trace(|ctx| ctx.new_packet().nested(fields::trace_packet::FOR_TESTING).string(1, "the last"));
///         ack.done();
///     }
/// }
///
/// static TEMPERATURES: DataSourceHandle<Temperatures> = DataSourceHandle::new();
///
/// ferretto::init("org.example.sensors")?;
/// TEMPERATURES.register(DataSourceDescriptor {
///     name: Some("org.example.temperatures".into()),
///     ..Default::default()
/// })?;
///
/// // Anywhere, on any thread. Costs one relaxed load while nobody asks for it; else the closure is called for each session.
/// TEMPERATURES.trace(|ctx| {
///     *ctx.thread_state() += 1;
///     let now = ctx.now();
///     let mut packet = ctx.new_packet();
///     packet.varint(fields::trace_packet::TIMESTAMP, now);
///     packet.nested(fields::trace_packet::FOR_TESTING).string(1, "19.5 °C");
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait DataSource: Send + Sized + 'static {
    /// What a reader of one sequence (a thread's packets for one session) knows from its earlier packets. It is made anew when that is
    /// no longer sure: when the session asks for it, and after a loss. `()` if there is none.
    type IncrementalState: Default + 'static;

    /// What a thread keeps for one session. `()` if there is none.
    type ThreadState: Default + 'static;

    /// What writers do when the shared memory is full.
    const EXHAUSTED_POLICY: ExhaustedPolicy = ExhaustedPolicy::Drop;

    /// Whether a session's config (`buffer_exhausted_policy`) goes before that.
    const POLICY_FROM_CONFIG: bool = false;

    /// Whether several sessions may have it at a time, up to 31. Otherwise all but the first get nothing.
    const MULTIPLE_INSTANCES: bool = true;

    /// Whether sessions may have the incremental state cleared.
    const CLEARS_INCREMENTAL_STATE: bool = true;

    /// Whether flushes of sessions are not for this source: what it has written is handed over when a chunk of memory is full, and at
    /// the end.
    const NO_FLUSH: bool = false;

    /// A session has chosen this source; nothing is to be written yet.
    fn on_setup(&mut self, _args: &SetupArgs<'_>) {}

    /// The session starts: what is traced from here on is its. It waits for the answer if its config says so.
    fn on_start(&mut self, _ack: Ack) {}

    /// The session ends. What is traced until the answer is still its.
    fn on_stop(&mut self, _ack: Ack) {}

    /// The session wants what there is. What this thread has written is handed over with the answer, what other threads have when they
    /// trace the next time; until then the service copies it.
    fn on_flush(&mut self, _flags: FlushFlags, _ack: Ack) {}

    /// The session wants the incremental state cleared. `false` keeps it.
    fn will_clear_incremental_state(&mut self) -> bool {
        true
    }
}

/// What a session says about the data that it wants.
#[derive(Debug, Clone, Copy)]
pub struct SetupArgs<'a> {
    /// Its config.
    pub config: &'a InstanceConfig,
    /// The instance's number, 0 to 30; free for another when this one has stopped.
    pub instance_index: usize,
    /// Whose session it is: one bit.
    pub backend: Backends,
}

/// Why and by whom a flush was asked for (upstream: flush_flags.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlushFlags(pub u64);

/// Why a flush was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushReason {
    /// It was not said, or is one of a newer service.
    Unknown,
    /// It is time again (`flush_period_ms`).
    Periodic,
    /// The session ends.
    TraceStop,
    /// The session is cloned.
    TraceClone,
    /// Somebody wanted it.
    Explicit,
}

/// Who asked for a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushInitiator {
    /// It was not said, or is one of a newer service.
    Unknown,
    /// The service.
    Service,
    /// The command line.
    CommandLine,
    /// A program that records.
    Consumer,
}

impl FlushFlags {
    /// Why.
    pub fn reason(self) -> FlushReason {
        match self.0 & 0xf {
            1 => FlushReason::Periodic,
            2 => FlushReason::TraceStop,
            3 => FlushReason::TraceClone,
            4 => FlushReason::Explicit,
            _ => FlushReason::Unknown,
        }
    }

    /// By whom.
    pub fn initiator(self) -> FlushInitiator {
        match self.0 >> 4 & 0xf {
            1 => FlushInitiator::Service,
            2 => FlushInitiator::CommandLine,
            3 => FlushInitiator::Consumer,
            _ => FlushInitiator::Unknown,
        }
    }

    /// Whether it is for a clone that goes into a bug report.
    pub fn is_for_bugreport(self) -> bool {
        self.0 >> 8 & 0xf == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_flushes_are_upstreams() {
        let flags = FlushFlags(0x123);
        assert_eq!(
            (flags.reason(), flags.initiator()),
            (FlushReason::TraceClone, FlushInitiator::CommandLine)
        );
        assert!(flags.is_for_bugreport());
        let none = FlushFlags::default();
        assert_eq!((none.reason(), none.initiator()), (FlushReason::Unknown, FlushInitiator::Unknown));
    }
}
