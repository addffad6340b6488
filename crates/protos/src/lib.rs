//! The messages of the Perfetto tracing system: generated types, field numbers, text format.
