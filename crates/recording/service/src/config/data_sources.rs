//! The data sources of a config.

use std::sync::Arc;

use bytes::Bytes;
use ferretto_protos::data_source_config::BufferExhaustedPolicy;
use ferretto_protos::{DataSourceConfig, TraceConfig, trace_config};
use ferretto_protozero::read::{Fields, Value};

use super::ConfigError;
use super::buffers::target_buffer;
use super::machine_filter::MachineFilter;
use super::parts::decode_data_source;
use super::producer_filter::{Expressions, FilterSizes, ProducerFilter};
use crate::limits;

/// A data source to match with what producers register.
#[derive(Debug, Clone)]
pub(crate) struct DataSourceSpec {
    pub(crate) name: Arc<str>,
    /// The DataSourceConfig as the consumer wrote it.
    pub(crate) raw: Bytes,
    /// Index in [`SessionConfig::buffers`].
    pub(crate) buffer: usize,
    pub(crate) producers: Arc<ProducerFilter>,
    pub(crate) machines: MachineFilter,
    /// It wants the threads of its producers scheduled before others.
    pub(crate) wants_boost: bool,
    /// The consumer has set `supports_tracing_v2`, which is the service's to set.
    pub(crate) claims_tracing_v2: bool,
    /// Its writers are to wait when their memory is full, or to end their program.
    pub(crate) wants_stall: bool,
    /// Its ProtoVM is to run, with so much memory for the state.
    pub(crate) protovm_memory_kb: Option<u32>,
}

pub(super) fn parse_data_sources(
    config: &TraceConfig,
    encoded: &[Bytes],
) -> Result<Vec<DataSourceSpec>, ConfigError> {
    let (mut specs, mut expressions) = (Vec::with_capacity(encoded.len()), Expressions::default());
    let (mut sizes, mut without_limit) = (FilterSizes::default(), 0);
    for encoded in encoded {
        let source = decode_data_source(encoded)?;
        sizes.add_wire(&source);
        sizes.check()?;
        let protovm = source.config.as_ref().and_then(|config| config.protovm_config.as_ref());
        without_limit += usize::from(protovm.is_some_and(|protovm| protovm.memory_limit_kb.is_none()));
        specs.push(parse_data_source(config, &source, raw_config(encoded), &mut expressions)?);
    }
    if without_limit > 0 {
        let data_sources = without_limit;
        tracing::warn!(
            data_sources,
            "protovm_config has no effect without memory_limit_kb: set it to what the state may take"
        );
    }
    Ok(specs)
}

fn parse_data_source(
    config: &TraceConfig,
    source: &trace_config::DataSource,
    raw: Bytes,
    expressions: &mut Expressions,
) -> Result<DataSourceSpec, ConfigError> {
    let none = DataSourceConfig::default();
    let inner = source.config.as_ref().unwrap_or(&none);
    check_tracing_v2(inner)?;
    let buffer = target_buffer(&config.buffers, inner)?;
    let mut producers = ProducerFilter::default();
    producers.add(inner.name(), source, expressions)?;
    Ok(DataSourceSpec {
        buffer,
        producers: Arc::new(producers),
        machines: MachineFilter::new(config, source),
        wants_boost: inner.priority_boost.is_some(),
        claims_tracing_v2: inner.supports_tracing_v2.is_some(),
        wants_stall: wants_stall(inner),
        protovm_memory_kb: protovm_memory_kb(inner)?,
        name: inner.name().into(),
        raw,
    })
}

/// Policies that come to be may do so, too.
fn wants_stall(config: &DataSourceConfig) -> bool {
    let policy = config.buffer_exhausted_policy.unwrap_or_default();
    let harmless =
        [BufferExhaustedPolicy::BufferExhaustedUnspecified, BufferExhaustedPolicy::BufferExhaustedDrop];
    !harmless.map(|known| known as i32).contains(&policy)
}

/// The filters that an updated config makes wider, by the index of their data source. Filters can be widened only: those that match now go
/// on to match. A filter that lets everyone pass stays so.
pub(super) fn widened_filters(
    specs: &[DataSourceSpec],
    update: &[Bytes],
) -> Result<Vec<(usize, ProducerFilter)>, ConfigError> {
    let mut sizes = FilterSizes::default();
    specs.iter().for_each(|spec| sizes.add_filter(&spec.producers, &spec.machines));
    let (mut widened, mut expressions) = (Vec::new(), Expressions::default());
    for (index, (spec, encoded)) in specs.iter().zip(update).enumerate() {
        let source = decode_data_source(encoded)?;
        if spec.producers.lets_everyone_pass() || !spec.producers.is_widened_by(&source) {
            continue;
        }
        let before = FilterSizes::of(&spec.producers);
        let mut filter = ProducerFilter::clone(&spec.producers);
        filter.add(&spec.name, &source, &mut expressions)?;
        sizes.grow(before, FilterSizes::of(&filter));
        sizes.check()?;
        widened.push((index, filter));
    }
    Ok(widened)
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
    let limit = config.protovm_config.as_ref().and_then(|protovm| protovm.memory_limit_kb);
    let Some(memory_limit_kb) = limit else { return Ok(None) };
    if memory_limit_kb > limits::MAX_PROTOVM_MEMORY_KB {
        return Err(ConfigError::ProtoVmMemory { source_name: config.name().to_owned(), memory_limit_kb });
    }
    Ok(Some(memory_limit_kb))
}

/// The bytes of `data_sources[i].config`, with all that this schema does not know. A field that comes in parts is their concatenation.
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
