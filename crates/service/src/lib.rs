//! The tracing service as a state machine without I/O.
