//! The client's half of producing a trace: arbiter, trace writers, data source instances, reconnection.
//!
//! A [`ProducerClient`] registers data sources with the tracing service and says, as [`ProducerEvent`]s, what sessions want of them.
//! For each instance the app makes [`TraceWriter`]s, on as many threads as it likes, and writes packets with them straight into memory
//! that the service reads. The [`Arbiter`] hands out that memory and tells the service what is finished.
//!
//! ```no_run
//! use ferretto_producer::{ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions};
//! use ferretto_protos::{DataSourceDescriptor, fields::trace_packet};
//!
//! let mut client = ProducerClient::new(ProducerOptions::new("org.example"))?;
//! client.register_data_source(&DataSourceDescriptor {
//!     name: Some("org.example.source".into()),
//!     will_notify_on_stop: Some(true),
//!     ..Default::default()
//! });
//! loop {
//!     client.wait(None, &[])?;
//!     while let Some(event) = client.next_event() {
//!         match event {
//!             ProducerEvent::Start { instance, config, .. } => {
//!                 let mut writer = client.create_writer(config.target_buffer() as u16, ExhaustedPolicy::Drop);
//!                 writer.new_packet().varint(trace_packet::TIMESTAMP, 1);
//!                 client.notify_started(instance);
//!             }
//!             ProducerEvent::Flush { request_id, .. } => client.notify_flush_complete(request_id),
//!             ProducerEvent::Stop { instance } => client.notify_stopped(instance),
//!             _ => {}
//!         }
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), ferretto_producer::ProducerError>(())
//! ```
#![forbid(unsafe_code)]

mod arbiter;
mod backoff;
mod client;
mod commit;
mod config;
mod connection;
mod endpoint;
mod error;
mod event;
mod instances;
mod link;
mod options;
mod patch_list;
mod policy;
mod sink;
mod stall;
mod startup;
mod wake;
mod wire;
mod writer;

pub use arbiter::Arbiter;
pub use client::{ProducerClient, ProducerWaker};
pub use config::InstanceConfig;
pub use error::{ProducerError, StartupMemoryError};
pub use event::{InstanceId, ProducerEvent};
#[doc(hidden)]
pub use ferretto_ipc::{log, recorder};
pub use options::{Connector, ProducerOptions, SharedMemorySource};
pub use policy::{ExhaustedPolicy, Waits};
pub use sink::{ChunkSink, SmallPacket};
pub use startup::{StartupEnd, StartupId, StartupLoss, StartupVolume, StartupWriters};
pub use writer::{Packet, TraceWriter};
