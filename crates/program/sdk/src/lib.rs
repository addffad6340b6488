//! Tracing SDK: makes a Rust program visible in Perfetto traces.
//!
//! ```
//! // Once, at the start. Works without a tracing service, too, and finds it when it appears.
//! ferretto::init("org.example.server")?;
//!
//! // Anywhere, on any thread.
//! fn serve(request: &str) {
//!     let _slice = ferretto::slice!("net", "serve", request = request, bytes = request.len());
//!     ferretto::instant!("net", "parsed");
//!     ferretto::counter!("net", "open connections", 3);
//! }
//! # serve("/");
//! # Ok::<(), ferretto::InitError>(())
//! ```
//!
//! A session selects events by category, with the data source `track_event`. A trace point whose category nobody records costs one
//! relaxed load. One that is recorded takes no lock and makes no system call, except when it is new or its chunk of shared memory is full;
//! it never waits, unless the session's config asks for that.
//!
//! Events are in the trace once their chunk has been handed over: when it is full, at a flush, at the end of their thread and of the
//! program. What a thread holds at a flush, or when the process dies, the service copies from the shared memory.
#![forbid(unsafe_code)]

mod async_span;
mod backends;
mod builder;
mod clock;
mod data_source;
#[cfg(feature = "heap")]
pub mod heap;
mod identity;
#[cfg(feature = "in-process")]
mod in_process;
mod observers;
mod panic_hook;
#[cfg(all(feature = "derive", feature = "in-process"))]
mod record;
mod runtime;
#[cfg(feature = "sessions")]
pub mod tracing_session;
mod track_event;

use std::time::Duration;

pub use async_span::{AsyncSpan, Instrument, Instrumented, SpanDetails};
#[doc(hidden)]
pub use async_span::{Moment, SpanId};
pub use backends::Backends;
pub use builder::{AfterFork, Builder, InitError, builder, init};
pub use data_source::{
    DataSource, DataSourceHandle, FlushFlags, FlushInitiator, FlushReason, InstanceGuard, Packets, Parts,
    RegisterError, SetupArgs, TraceContext, TracePacket,
};
#[cfg(all(feature = "derive", feature = "in-process"))]
pub use ferretto_derive::record;
#[cfg(feature = "derive")]
pub use ferretto_derive::trace;
pub use ferretto_producer::{Connector, ExhaustedPolicy, InstanceConfig};
/// Messages and field numbers of the tracing system, for [custom data sources](DataSource).
pub use ferretto_protos as protos;
/// What [`Details::fields`] and packets of [custom data sources](DataSource) are written with.
pub use ferretto_protozero as protozero;
pub use observers::{ObserverGuard, SessionObserver, observe_sessions};
pub use panic_hook::install_panic_hook;
pub use runtime::Ack;
#[cfg(feature = "sessions")]
pub use tracing_session::TracingSession;
pub use track_event::category::{Category, on_categories_change};
pub use track_event::details::{Correlation, Details, Severity, WriteFields};
pub use track_event::event::{SliceGuard, snapshot_clocks};
pub use track_event::flow::Flow;
pub use track_event::location::{Callstack, Frame, Location};
#[doc(hidden)]
pub use track_event::open::{SessionStart, session_starts, thread_id};
pub use track_event::point::{ArgumentName, ConstantArgument, TracePoint};
#[cfg(feature = "serde")]
pub use track_event::serialized::Serialized;
pub use track_event::startup::StartupConfig;
pub use track_event::timestamp::Timestamp;
pub use track_event::track::{ChildOrder, CounterTrack, Merge, StateTrack, Track, Unit};
pub use track_event::value::{
    CounterValue, ListWriter, Nested, ProtoValue, TableWriter, ToValue, Value, ValueWriter,
};

/// The clock of [`now`] and of packets that name no other: `BUILTIN_CLOCK_BOOTTIME`, for `timestamp_clock_id`.
pub const DEFAULT_CLOCK: u32 = 6;

/// Now, in nanoseconds of the trace's clock ([`DEFAULT_CLOCK`]).
pub fn now() -> u64 {
    track_event::event::exclusively_in(|thread| thread.clock().now()).unwrap_or_else(clock::boot_time)
}

#[cfg(all(feature = "derive", feature = "in-process"))]
#[doc(hidden)]
pub mod __record {
    pub use crate::record::{RecordConfig, Recorder, Recording};
}

/// Whether [`init`] has succeeded in this process.
pub fn is_initialized() -> bool {
    runtime::is_started()
}

/// Hands over what this thread has traced and waits, at most for `timeout`, until the service has that and everything that other
/// threads have handed over. `false` if there is no service, or it did not answer in time.
///
/// For those who want to read it now: what a program has traced is handed over at its end, too, and what one that dies has left the
/// service copies.
pub fn flush(timeout: Duration) -> bool {
    track_event::event::flush_thread();
    data_source::flush_thread();
    runtime::drain(timeout)
}

/// Tells sessions that wait for one of these triggers that it has happened. `false` before [`init`].
pub fn activate_triggers(names: &[&str]) -> bool {
    runtime::activate_triggers(names.iter().map(|name| (*name).to_owned()).collect())
}

/// Ends tracing: sessions end for this program, what its threads have handed over goes to the services, the thread `ferretto` ends.
/// Afterwards [`init`] can begin anew, with other choices; data sources stay registered. `false` if there is nothing to end, or this is
/// called from a callback.
///
/// Takes as long as callbacks and services do, some seconds at most.
pub fn shutdown() -> bool {
    track_event::event::flush_thread();
    data_source::flush_thread();
    runtime::shut_down()
}
