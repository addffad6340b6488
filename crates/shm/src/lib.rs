//! The shared-memory ABI of the Perfetto tracing protocol: pages, chunks and their states.
