//! Tracing SDK: makes a Rust program visible in Perfetto traces.
