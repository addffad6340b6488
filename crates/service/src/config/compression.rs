//! How a config wants its trace compressed.

use ferretto_protos::{TraceConfig, trace_config};

/// A config may name deflate beside a newer way to compress, for services that lack it.
pub(super) fn wants_deflate(config: &TraceConfig) -> bool {
    config.compression.as_ref().is_some_and(|compression| compression.deflate.is_some())
        || config.compression_type() == trace_config::CompressionType::Deflate
}
