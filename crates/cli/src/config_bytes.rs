//! A TraceConfig as the bytes it came in, so that fields which our schema has not heard of survive.
//!
//! Changes are appended: of a scalar field the last one wins, and a repeated one grows (protobuf's merge rule).

use ferretto_protos::TraceConfig;
use ferretto_protozero::read::Fields;
use prost::Message;

/// The config of a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ConfigBytes(Vec<u8>);

impl ConfigBytes {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(crate) fn from_message(config: &TraceConfig) -> Self {
        Self(config.encode_to_vec())
    }

    /// Merges the fields that are set in `change`.
    pub(crate) fn merge(&mut self, change: &TraceConfig) {
        self.0.extend(change.encode_to_vec());
    }

    /// Drops every occurrence of a top-level field.
    pub(crate) fn remove(&mut self, number: u32) {
        let kept = Fields::new(&self.0).map_while(Result::ok).filter(|field| field.number != number);
        self.0 = kept.flat_map(|field| field.raw.iter().copied()).collect();
    }

    /// What our schema knows of it. Bytes that were checked once decode again; if not, nothing is known of them.
    pub(crate) fn decoded(&self) -> TraceConfig {
        TraceConfig::decode(self.0.as_slice()).unwrap_or_default()
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION_MS: u32 = 3;

    fn with_duration(ms: u32) -> TraceConfig {
        TraceConfig { duration_ms: Some(ms), ..TraceConfig::default() }
    }

    #[test]
    fn unknown_fields_survive_every_change() {
        // Field 1000, a varint: 8000 << 0 | 7.
        let unknown = [0xc0, 0x3e, 0x07];
        let mut config = ConfigBytes::new(unknown.to_vec());
        config.merge(&with_duration(5));
        config.merge(&with_duration(6));
        assert_eq!(config.decoded().duration_ms(), 6);
        config.remove(DURATION_MS);
        assert_eq!(config.into_vec(), unknown);
    }
}
