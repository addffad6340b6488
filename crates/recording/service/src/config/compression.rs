//! How a config wants its trace compressed.

use ferretto_protos::{TraceConfig, trace_config};

/// How batches of packets are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// The format of zlib.
    Deflate,
    /// A frame of zstd, with as much effort as the level says.
    Zstd { level: i32 },
}

/// The newest that the config names: it may name an older one beside it, for services that lack the newer.
pub(super) fn parse_compression(config: &TraceConfig) -> Option<Codec> {
    let asked_for = config.compression.as_ref();
    if let Some(zstd) = asked_for.and_then(|compression| compression.zstd.as_ref()) {
        return Some(Codec::Zstd { level: zstd.level() });
    }
    let wants_deflate = asked_for.is_some_and(|compression| compression.deflate.is_some())
        || config.compression_type() == trace_config::CompressionType::Deflate;
    wants_deflate.then_some(Codec::Deflate)
}
