//! The messages of the Perfetto tracing system: generated types, field numbers, the table of known ftrace events, and (feature
//! `reflect`) the text format.
//!
//! Names and numbers are the ABI that every peer shares. The Rust code is generated from `proto/` and checked in, so that a build needs
//! neither `protoc` nor a build script; `tests/generated.rs` holds the two together.

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
    include!("generated/perfetto.protos.rs");
}
pub use generated::*;

pub mod fields {
    //! Field numbers by message, for code that encodes by hand.
    include!("generated/fields.rs");
}

pub mod ftrace;

#[cfg(feature = "reflect")]
pub mod text;
