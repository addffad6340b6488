//! The messages of the Perfetto tracing system: generated types, field numbers, the table of known ftrace events, and (feature
//! `reflect`) the text format.
//!
//! Names and numbers are the ABI that every peer shares: `proto/` has upstream's paths, names and numbers, and comments of our own,
//! which are the documentation of the types here. The Rust code is generated from it and checked in, so that a build needs neither
//! `protoc` nor a build script; `tests/generated.rs` holds the two together, and says what is left out or changed on the way:
//!
//! - Configs and descriptors that only pass through (such as [`EnableTracingRequest::trace_config`] and the config in
//!   [`trace_packet::Data::TraceConfig`]) are [`bytes::Bytes`] in Rust: parsing them into types would lose the fields that this schema
//!   has not heard of.
//! - Most of the hundreds of ftrace events have no Rust type: they are rows of [`ftrace::KNOWN_EVENTS`].
//! - Without the feature `full` (on by default) there are only the messages that a producer exchanges with the service, and of
//!   [`DataSourceConfig`] only what concerns all data sources, and `track_event`: what programs with the SDK have to build.
//! - Packets that only Android, Chromium or Windows write are not declared. They pass through the service like any other.
//!
//! ```
//! use ferretto_protos::{TraceConfig, fields, trace_config::BufferConfig};
//! use prost::Message as _;
//!
//! let buffer = BufferConfig { size_kb: Some(4096), ..Default::default() };
//! let config = TraceConfig { buffers: vec![buffer], duration_ms: Some(5000), ..Default::default() };
//! assert_eq!(TraceConfig::decode(config.encode_to_vec().as_slice()).unwrap(), config);
//! assert_eq!(fields::trace_config::DURATION_MS, 3);
//! ```
//!
//! The types check that strings are UTF-8, which protobuf itself and upstream do not do here: a message with another string does not
//! decode. Data of producers is therefore never decoded into them by the service, only walked over.

#![forbid(unsafe_code)]

mod generated {
    #![allow(
        missing_docs,
        clippy::all,
        rustdoc::all,
        unreachable_pub,
        unused_qualifications,
        clippy::use_self
    )]
    #[cfg(feature = "full")]
    include!("generated/full.rs");
    #[cfg(not(feature = "full"))]
    include!("generated/producer.rs");
}
pub use generated::*;

pub mod fields {
    //! Field numbers by message, for code that encodes by hand.
    include!("generated/fields.rs");
}

/// The descriptors of all messages here, a `FileDescriptorSet`: for who reads messages by name.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

pub mod ftrace;

#[cfg(feature = "reflect")]
pub mod text;
