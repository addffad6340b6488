//! A config is decoded in parts, so that what it takes is known before: an empty data source has two bytes on the wire, and a kilobyte or
//! two once it is decoded. Here each is decoded, looked at and forgotten before the next.

use bytes::Bytes;
use ferretto_protos::fields::trace_config as field;
use ferretto_protos::{TraceConfig, trace_config};
use ferretto_protozero::read::{Fields, Value};
use prost::Message;

use super::ConfigError;
use crate::limits;

/// What a config consists of.
pub(super) struct Parts {
    /// All but the data sources.
    pub(super) config: TraceConfig,
    /// They are valid messages.
    pub(super) data_sources: Vec<Bytes>,
    /// There is more of something than a session may have; the parts above are empty then.
    pub(super) too_many: Option<ConfigError>,
}

/// Fields that are counted before they are decoded.
const COUNTED: [(u32, &str, usize); 3] = [
    (field::DATA_SOURCES, "data_sources", limits::MAX_DATA_SOURCES_PER_CONFIG),
    (field::PRODUCERS, "producers", limits::MAX_PRODUCER_CONFIGS),
    (field::SESSION_SEMAPHORES, "session_semaphores", limits::MAX_SEMAPHORES),
];

impl Parts {
    pub(super) fn decode(raw: &Bytes) -> Result<Self, ConfigError> {
        let mut counts = [0; COUNTED.len()];
        for field in Fields::new(raw).flatten() {
            let counted = COUNTED.iter().zip(&mut counts).find(|((number, ..), _)| *number == field.number);
            counted.into_iter().for_each(|(_, count)| *count += 1);
        }
        let exceeds = |((_, field, max), count): (&(u32, &'static str, usize), usize)| {
            (count > *max).then_some(ConfigError::TooMany { field, count, max: *max })
        };
        let too_many = COUNTED.iter().zip(counts).find_map(exceeds);
        let (rest, data_sources) = split(raw, too_many.is_some());
        let config = TraceConfig::decode(rest).map_err(undecodable)?;
        data_sources.iter().try_for_each(|source| decode_data_source(source).map(|_| ()))?;
        Ok(Self { config, data_sources, too_many })
    }
}

/// The config without its data sources, and these; without all that is counted, if it is not to be looked at.
fn split(raw: &Bytes, leaves_out: bool) -> (Bytes, Vec<Bytes>) {
    let (mut rest, mut data_sources) = (Vec::with_capacity(raw.len()), Vec::new());
    let mut end = 0;
    for field in Fields::new(raw).flatten() {
        end += field.raw.len();
        match field.value {
            Value::Bytes(_) if leaves_out && COUNTED.iter().any(|(number, ..)| *number == field.number) => {}
            Value::Bytes(source) if field.number == field::DATA_SOURCES => {
                data_sources.push(raw.slice_ref(source));
            }
            _ => rest.extend_from_slice(field.raw),
        }
    }
    // What cannot be read is the decoder's to complain of.
    rest.extend_from_slice(raw.get(end..).unwrap_or_default());
    (rest.into(), data_sources)
}

pub(super) fn decode_data_source(encoded: &Bytes) -> Result<trace_config::DataSource, ConfigError> {
    trace_config::DataSource::decode(encoded.clone()).map_err(undecodable)
}

fn undecodable(error: prost::DecodeError) -> ConfigError {
    ConfigError::Undecodable(error.to_string())
}
