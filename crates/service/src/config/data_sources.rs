//! The data sources of a config.

use std::sync::Arc;

use bytes::Bytes;
use ferretto_protos::{DataSourceConfig, TraceConfig, trace_config};
use ferretto_protozero::read::{Fields, Value};

use super::ConfigError;
use super::buffers::target_buffer;
use super::machine_filter::MachineFilter;
use super::producer_filter::{ProducerFilter, parse_filter};
use crate::limits;

/// A data source to match with what producers register.
#[derive(Debug, Clone)]
pub(crate) struct DataSourceSpec {
    pub(crate) name: Arc<str>,
    /// The DataSourceConfig as the consumer wrote it.
    pub(crate) raw: Bytes,
    /// Index in [`SessionConfig::buffers`].
    pub(crate) buffer: usize,
    pub(crate) producers: ProducerFilter,
    pub(crate) machines: MachineFilter,
    /// It wants the threads of its producers scheduled before others.
    pub(crate) wants_boost: bool,
    /// The consumer has set `supports_tracing_v2`, which is the service's to set.
    pub(crate) claims_tracing_v2: bool,
    /// Its ProtoVM is to run, with so much memory for the state.
    pub(crate) protovm_memory_kb: Option<u32>,
}

pub(super) fn parse_data_sources(
    config: &TraceConfig,
    raw: &Bytes,
) -> Result<Vec<DataSourceSpec>, ConfigError> {
    let expressions = config.data_sources.iter().map(|source| source.producer_name_regex_filter.len());
    if expressions.sum::<usize>() > limits::MAX_REGEXES_PER_CONFIG {
        let of = "data_sources: producer_name_regex_filter".to_owned();
        return Err(ConfigError::TooManyRegexes { of, max: limits::MAX_REGEXES_PER_CONFIG });
    }
    let raw_configs = raw_data_source_configs(raw);
    let sources = config.data_sources.iter().zip(raw_configs);
    sources.map(|(source, raw)| parse_data_source(config, source, raw)).collect()
}

fn parse_data_source(
    config: &TraceConfig,
    source: &trace_config::DataSource,
    raw: Bytes,
) -> Result<DataSourceSpec, ConfigError> {
    let inner = source.config.clone().unwrap_or_default();
    check_tracing_v2(&inner)?;
    Ok(DataSourceSpec {
        buffer: target_buffer(&config.buffers, &inner)?,
        producers: parse_filter(inner.name(), source)?,
        machines: MachineFilter::new(config, source),
        wants_boost: inner.priority_boost.is_some(),
        claims_tracing_v2: inner.supports_tracing_v2.is_some(),
        protovm_memory_kb: protovm_memory_kb(&inner)?,
        name: inner.name().into(),
        raw,
    })
}

/// The knobs of the second transport are checked even though producers are not offered it (upstream v59: `EnableTracing`).
fn check_tracing_v2(config: &DataSourceConfig) -> Result<(), ConfigError> {
    let Some(options) = &config.experimental_tracing_v2 else {
        return Ok(());
    };
    let is_chunk_size = |size: u32| (256..=65_536).contains(&size) && size.is_multiple_of(4);
    let problem = if options.use_v2_probability_percent() > 100 {
        "use_v2_probability_percent is above 100"
    } else if !(-1..=100).contains(&options.drain_occupancy_percent()) {
        "drain_occupancy_percent is outside -1 to 100"
    } else if !options.chunk_size_options.iter().all(|option| is_chunk_size(option.size_bytes())) {
        "chunk_size_options.size_bytes must be 256 to 65536 and a multiple of 4"
    } else {
        return Ok(());
    };
    Err(ConfigError::TracingV2 { source_name: config.name().to_owned(), problem })
}

/// The limit, if there is to be a ProtoVM. Without a limit there is none, as upstream has it.
fn protovm_memory_kb(config: &DataSourceConfig) -> Result<Option<u32>, ConfigError> {
    let Some(protovm) = &config.protovm_config else { return Ok(None) };
    let Some(memory_limit_kb) = protovm.memory_limit_kb else {
        tracing::warn!(
            data_source = config.name(),
            "protovm_config has no effect without memory_limit_kb: set it to what the state may take"
        );
        return Ok(None);
    };
    if memory_limit_kb > limits::MAX_PROTOVM_MEMORY_KB {
        return Err(ConfigError::ProtoVmMemory { source_name: config.name().to_owned(), memory_limit_kb });
    }
    Ok(Some(memory_limit_kb))
}

/// The bytes of `data_sources[i].config`, with all that this schema does not know. A field that comes in parts is their concatenation.
fn raw_data_source_configs(raw: &Bytes) -> Vec<Bytes> {
    let fields = ferretto_protos::fields::trace_config::DATA_SOURCES;
    let sources = Fields::new(raw).flatten().filter(|field| field.number == fields);
    sources
        .map(|source| match source.value {
            Value::Bytes(source) => raw_config(source),
            _ => Bytes::new(),
        })
        .collect()
}

fn raw_config(source: &[u8]) -> Bytes {
    let mut raw = Vec::new();
    for field in Fields::new(source).flatten() {
        if let (ferretto_protos::fields::trace_config::data_source::CONFIG, Value::Bytes(part)) =
            (field.number, field.value)
        {
            raw.extend_from_slice(part);
        }
    }
    raw.into()
}
