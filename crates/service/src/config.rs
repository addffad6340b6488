//! A trace config, parsed once into types that cannot be wrong.
//!
//! Fields that this schema does not know stay in the raw bytes, which go to producers and into the trace. What the service would have
//! to do but cannot is an error that names it; fields that mean nothing on Linux are accepted (upstream: tracing_service_impl.cc,
//! `EnableTracing`).

use bytes::Bytes;
use ferretto_protos::trace_config::{
    BufferConfig, ProducerConfig, TraceFilter, TriggerConfig, WriteFlushMode,
};
use ferretto_protos::{DataSourceConfig, TraceConfig, trace_config};
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_buffer::FillPolicy;
use prost::Message;
use regex_lite::Regex;

use crate::limits;

/// Why a config is refused. The text reaches the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ConfigError {
    #[error("the trace config is no valid protobuf message: {0}")]
    Undecodable(String),
    #[error("duration_ms is {duration_ms}: a trace lasts at most {max_ms} ms; use a shorter duration_ms")]
    TooLong { duration_ms: u64, max_ms: u128 },
    #[error("{feature} is not supported by this service yet; remove it from the trace config")]
    Unsupported { feature: &'static str },
    #[error("bugreport_filename {0:?} may contain only letters, digits, '-', '_' and '.'")]
    BugreportFilename(String),
    #[error("enable_extra_guardrails does not allow deferred_start")]
    GuardrailDeferredStart,
    #[error(
        "enable_extra_guardrails wants buffer sizes that are multiples of 4 KiB; buffers[{index}].size_kb is {size_kb}"
    )]
    GuardrailBufferMultiple { index: usize, size_kb: u64 },
    #[error("enable_extra_guardrails allows {max_kb} KiB of buffers; the config asks for {sum_kb} KiB")]
    GuardrailBufferSum { sum_kb: u64, max_kb: u64 },
    #[error("the config has {count} buffers; a session has at most {max}", max = limits::MAX_BUFFERS_PER_SESSION)]
    TooManyBuffers { count: usize },
    #[error("two buffers are named {0:?}; names must be unique in a config")]
    DuplicateBufferName(String),
    #[error("data source {source_name:?} wants buffer {wanted:?}, but no buffer of the config has this name")]
    NoSuchBufferName { source_name: String, wanted: String },
    #[error(
        "data source {source_name:?}: target_buffer_name {wanted:?} is buffer {named}, but target_buffer is {index}"
    )]
    BufferMismatch { source_name: String, wanted: String, named: usize, index: usize },
    #[error(
        "data source {source_name:?} wants target_buffer {index}, but the config has {count} buffer(s), counted from 0"
    )]
    NoSuchBuffer { source_name: String, index: u32, count: usize },
    #[error(
        "data source {source_name:?}: the producer filter {pattern:?} is no valid regular expression: {reason}"
    )]
    Regex { source_name: String, pattern: String, reason: String },
    #[error("buffers[{index}].size_kb is {size_kb}; a buffer has 1 to 4194303 KiB")]
    BufferSize { index: usize, size_kb: u64 },
    #[error("buffers[{index}].experimental_mode {mode} is unknown")]
    BufferMode { index: usize, mode: i32 },
    #[error("buffers[{index}].fill_policy {policy} is unknown; RING_BUFFER or DISCARD is expected")]
    FillPolicy { index: usize, policy: i32 },
    #[error("output_path without write_into_file would leave the file empty; set write_into_file: true")]
    OutputPathWithoutWrite,
    #[error(
        "data source {source_name:?}: protovm_config.memory_limit_kb is {memory_limit_kb}; {max} is the most for a session",
        max = limits::MAX_PROTOVM_MEMORY_KB
    )]
    ProtoVmMemory { source_name: String, memory_limit_kb: u32 },
    #[error("data source {source_name:?}: {problem}")]
    TracingV2 { source_name: String, problem: &'static str },
}

/// A buffer to make.
#[derive(Debug, Clone)]
pub(crate) struct BufferSpec {
    pub(crate) size_kb: u32,
    pub(crate) policy: FillPolicy,
    pub(crate) transfer_on_clone: bool,
    pub(crate) clear_before_clone: bool,
}

/// A data source to match with what producers register.
#[derive(Debug, Clone)]
pub(crate) struct DataSourceSpec {
    pub(crate) name: String,
    /// The DataSourceConfig as the consumer wrote it.
    pub(crate) raw: Bytes,
    /// Index in [`SessionConfig::buffers`].
    pub(crate) buffer: usize,
    pub(crate) producers: ProducerFilter,
    pub(crate) machine_names: Vec<String>,
    /// The consumer has set `supports_tracing_v2`, which is the service's to set.
    pub(crate) claims_tracing_v2: bool,
    /// Its ProtoVM is to run, with so much memory for the state.
    pub(crate) protovm_memory_kb: Option<u32>,
}

/// Which producers may take part: those with one of the names, or whose whole name one of the expressions matches; all if there is neither.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProducerFilter {
    names: Vec<String>,
    patterns: Vec<Regex>,
}

/// How a session's file is written.
#[derive(Debug, Clone)]
pub(crate) struct FileSpec {
    pub(crate) output_path: Option<String>,
    pub(crate) period_ms: u32,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) flush_first: bool,
    pub(crate) sync: bool,
}

/// What the service itself adds to a trace.
#[derive(Debug, Clone)]
pub(crate) struct BuiltinSpec {
    pub(crate) clock_snapshots: bool,
    pub(crate) trace_config: bool,
    pub(crate) system_info: bool,
    pub(crate) service_events: bool,
    pub(crate) primary_clock: i32,
    pub(crate) snapshot_interval_ms: u32,
    pub(crate) histograms: bool,
}

/// A config that the service can serve.
#[derive(Debug, Clone)]
pub(crate) struct SessionConfig {
    /// As it came from the consumer.
    pub(crate) raw: Bytes,
    pub(crate) buffers: Vec<BufferSpec>,
    pub(crate) data_sources: Vec<DataSourceSpec>,
    pub(crate) producers: Vec<ProducerConfig>,
    pub(crate) duration_ms: u32,
    pub(crate) duration_with_suspend: bool,
    pub(crate) guardrails: bool,
    pub(crate) lockdown: Option<bool>,
    pub(crate) deferred_start: bool,
    pub(crate) flush_period_ms: Option<u32>,
    pub(crate) flush_timeout_ms: u32,
    pub(crate) stop_timeout_ms: u32,
    pub(crate) clear_period_ms: Option<u32>,
    pub(crate) unique_name: String,
    pub(crate) uuid: Option<(i64, i64)>,
    pub(crate) bugreport_score: i32,
    pub(crate) bugreport_filename: String,
    pub(crate) semaphores: Vec<(String, u64)>,
    pub(crate) exclusive_priority: u32,
    pub(crate) file: Option<FileSpec>,
    pub(crate) builtin: BuiltinSpec,
    /// With deflate.
    pub(crate) compress: bool,
}

impl SessionConfig {
    /// Checks in upstream's order, so that a config with two mistakes gives the same one first.
    pub(crate) fn parse(raw: Bytes) -> Result<Self, ConfigError> {
        let config =
            TraceConfig::decode(raw.clone()).map_err(|error| ConfigError::Undecodable(error.to_string()))?;
        check_duration(&config)?;
        check_supported(&config)?;
        check_bugreport_filename(config.bugreport_filename())?;
        check_guardrails(&config)?;
        let buffers = parse_buffers(&config.buffers)?;
        let data_sources = parse_data_sources(&config, &raw)?;
        if config.output_path.is_some() && !config.write_into_file() {
            return Err(ConfigError::OutputPathWithoutWrite);
        }
        let (file, flush_period_ms) = parse_file(&config);
        say_what_has_no_effect(&config);
        Ok(Self {
            buffers,
            data_sources,
            duration_ms: config.duration_ms(),
            duration_with_suspend: config.prefer_suspend_clock_for_duration(),
            guardrails: config.enable_extra_guardrails(),
            lockdown: match config.lockdown_mode() {
                trace_config::LockdownModeOperation::LockdownUnchanged => None,
                trace_config::LockdownModeOperation::LockdownClear => Some(false),
                trace_config::LockdownModeOperation::LockdownSet => Some(true),
            },
            deferred_start: config.deferred_start(),
            flush_period_ms,
            flush_timeout_ms: or_default(config.flush_timeout_ms(), limits::DEFAULT_FLUSH_TIMEOUT_MS),
            stop_timeout_ms: or_default(
                config.data_source_stop_timeout_ms(),
                limits::DEFAULT_STOP_TIMEOUT_MS,
            ),
            clear_period_ms: config
                .incremental_state_config
                .as_ref()
                .and_then(|clear| period(clear.clear_period_ms())),
            unique_name: config.unique_session_name().to_owned(),
            uuid: uuid(&config),
            bugreport_score: config.bugreport_score(),
            bugreport_filename: config.bugreport_filename().to_owned(),
            semaphores: parse_semaphores(&config),
            exclusive_priority: config.exclusive_prio(),
            file,
            builtin: parse_builtin(&config),
            compress: wants_deflate(&config),
            producers: config.producers,
            raw,
        })
    }

    /// The memory sizes that the config gives to a producer, in bytes: whole and page.
    pub(crate) fn memory_sizes_of(&self, producer: &str) -> Option<(usize, usize)> {
        let bytes = |kb: u32| usize::try_from(kb).unwrap_or(usize::MAX).saturating_mul(1024);
        let found = self.producers.iter().find(|config| config.producer_name() == producer)?;
        Some((bytes(found.shm_size_kb()), bytes(found.page_size_kb())))
    }

    /// Takes over additional producer filters from an updated config; says whether it had any.
    pub(crate) fn add_filters(&mut self, raw: &Bytes) -> Result<bool, ConfigError> {
        let update =
            TraceConfig::decode(raw.clone()).map_err(|error| ConfigError::Undecodable(error.to_string()))?;
        let mut changed = false;
        for (current, new) in self.data_sources.iter_mut().zip(&update.data_sources) {
            let new = parse_filter(&current.name, new)?;
            changed |= current.producers.add(new);
        }
        Ok(changed)
    }
}

impl DataSourceSpec {
    /// Whether this machine is one of those asked for (upstream: `MachineNameMatchesFilter`; no filter means the service's machine).
    pub(crate) fn matches_machine(&self, machine_name: &str) -> bool {
        self.machine_names.is_empty()
            || self.machine_names.iter().any(|name| name == machine_name || name == "host")
    }
}

impl ProducerFilter {
    pub(crate) fn matches(&self, producer: &str) -> bool {
        let everyone = self.names.is_empty() && self.patterns.is_empty();
        everyone
            || self.names.iter().any(|name| name == producer)
            || self.patterns.iter().any(|pattern| pattern.is_match(producer))
    }

    /// Filters can be widened only: those that match now go on to match. A filter that lets everyone pass stays so.
    fn add(&mut self, other: Self) -> bool {
        if self.names.is_empty() && self.patterns.is_empty() {
            return false;
        }
        let before = self.names.len() + self.patterns.len();
        for name in other.names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        for pattern in other.patterns {
            if !self.patterns.iter().any(|known| known.as_str() == pattern.as_str()) {
                self.patterns.push(pattern);
            }
        }
        before != self.names.len() + self.patterns.len()
    }
}

fn or_default(value: u32, default: u32) -> u32 {
    if value == 0 { default } else { value }
}

fn period(value: u32) -> Option<u32> {
    (value != 0).then(|| value.max(limits::MIN_PERIOD_MS))
}

fn uuid(config: &TraceConfig) -> Option<(i64, i64)> {
    let uuid = (config.trace_uuid_msb(), config.trace_uuid_lsb());
    (uuid != (0, 0)).then_some(uuid)
}

fn check_duration(config: &TraceConfig) -> Result<(), ConfigError> {
    let max = match config.enable_extra_guardrails() {
        true => limits::MAX_DURATION_WITH_GUARDRAILS,
        false => limits::MAX_DURATION,
    };
    let duration_ms = u64::from(config.duration_ms());
    if u128::from(duration_ms) > max.as_millis() {
        return Err(ConfigError::TooLong { duration_ms, max_ms: max.as_millis() });
    }
    Ok(())
}

/// What the trace would silently lack, or leak, if it were ignored.
fn check_supported(config: &TraceConfig) -> Result<(), ConfigError> {
    let unsupported = [
        (config.trigger_config.as_ref().is_some_and(has_triggers), "trigger_config"),
        (config.trace_filter.as_ref().is_some_and(filters), "trace_filter"),
        (config.priority_boost.is_some(), "priority_boost"),
        (
            builtin_of(config).enable_concurrent_session_events(),
            "builtin_data_sources.enable_concurrent_session_events",
        ),
    ];
    match unsupported.into_iter().find(|(is_used, _)| *is_used) {
        Some((_, feature)) => Err(ConfigError::Unsupported { feature }),
        None => Ok(()),
    }
}

fn has_triggers(config: &TriggerConfig) -> bool {
    config.trigger_mode() as i32 != 0 || !config.triggers.is_empty()
}

fn filters(filter: &TraceFilter) -> bool {
    *filter != TraceFilter::default()
}

fn builtin_of(config: &TraceConfig) -> trace_config::BuiltinDataSource {
    config.builtin_data_sources.unwrap_or_default()
}

fn check_bugreport_filename(name: &str) -> Result<(), ConfigError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match name.chars().all(allowed) {
        true => Ok(()),
        false => Err(ConfigError::BugreportFilename(name.to_owned())),
    }
}

fn check_guardrails(config: &TraceConfig) -> Result<(), ConfigError> {
    if !config.enable_extra_guardrails() {
        return Ok(());
    }
    if config.deferred_start() {
        return Err(ConfigError::GuardrailDeferredStart);
    }
    let sizes = || config.buffers.iter().map(|buffer| u64::from(buffer.size_kb()));
    if let Some((index, size_kb)) = sizes().enumerate().find(|(_, size_kb)| !size_kb.is_multiple_of(4)) {
        return Err(ConfigError::GuardrailBufferMultiple { index, size_kb });
    }
    let sum_kb = sizes().sum();
    let raised =
        config.guardrail_overrides.as_ref().map_or(0, |raise| u64::from(raise.max_tracing_buffer_size_kb()));
    let max_kb = limits::MAX_BUFFERS_KB_WITH_GUARDRAILS.max(raised);
    if sum_kb > max_kb {
        return Err(ConfigError::GuardrailBufferSum { sum_kb, max_kb });
    }
    Ok(())
}

/// What may be asked for and is harmless to go without.
fn say_what_has_no_effect(config: &TraceConfig) {
    let asked_for = config.compression.is_some()
        || config.compression_type() != trace_config::CompressionType::Unspecified;
    if asked_for && !wants_deflate(config) {
        tracing::warn!(
            "the only compression is deflate: the trace is not compressed (add `compression_type: COMPRESSION_TYPE_DEFLATE`)"
        );
    }
    if config.experimental_trace_buffer_v2_compaction() {
        tracing::warn!("experimental_trace_buffer_v2_compaction has no effect yet");
    }
}

/// A config may name deflate beside a newer way to compress, for services that lack it.
fn wants_deflate(config: &TraceConfig) -> bool {
    config.compression.as_ref().is_some_and(|compression| compression.deflate.is_some())
        || config.compression_type() == trace_config::CompressionType::Deflate
}

fn parse_buffers(buffers: &[BufferConfig]) -> Result<Vec<BufferSpec>, ConfigError> {
    if buffers.len() > limits::MAX_BUFFERS_PER_SESSION {
        return Err(ConfigError::TooManyBuffers { count: buffers.len() });
    }
    for (index, buffer) in buffers.iter().enumerate() {
        let is_again = |other: &BufferConfig| !other.name().is_empty() && other.name() == buffer.name();
        if buffers.iter().take(index).any(is_again) {
            return Err(ConfigError::DuplicateBufferName(buffer.name().to_owned()));
        }
    }
    buffers.iter().enumerate().map(|(index, buffer)| parse_buffer(index, buffer)).collect()
}

fn parse_buffer(index: usize, buffer: &BufferConfig) -> Result<BufferSpec, ConfigError> {
    /// A buffer's offsets have 32 bits.
    const MAX_SIZE_KB: u32 = u32::MAX / 1024;
    let size_kb = buffer.size_kb();
    if size_kb == 0 || size_kb > MAX_SIZE_KB {
        return Err(ConfigError::BufferSize { index, size_kb: size_kb.into() });
    }
    let policy = match buffer.fill_policy {
        None | Some(0 | 1) => FillPolicy::Ring,
        Some(2) => FillPolicy::Discard,
        Some(policy) => return Err(ConfigError::FillPolicy { index, policy }),
    };
    // Mode 0 asks for the first version of the trace buffer: the second one serves it as well.
    let mode = buffer.experimental_mode.unwrap_or_default();
    if !(0..=1).contains(&mode) {
        return Err(ConfigError::BufferMode { index, mode });
    }
    Ok(BufferSpec {
        size_kb,
        policy,
        transfer_on_clone: buffer.transfer_on_clone(),
        clear_before_clone: buffer.clear_before_clone(),
    })
}

fn parse_data_sources(config: &TraceConfig, raw: &Bytes) -> Result<Vec<DataSourceSpec>, ConfigError> {
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
        machine_names: source.machine_name_filter.clone(),
        claims_tracing_v2: inner.supports_tracing_v2.is_some(),
        protovm_memory_kb: protovm_memory_kb(&inner)?,
        name: inner.name().to_owned(),
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

/// A name and an index may both be given if they mean the same; index 0 beside a name counts as not given.
fn target_buffer(buffers: &[BufferConfig], config: &DataSourceConfig) -> Result<usize, ConfigError> {
    let source_name = || config.name().to_owned();
    let index = config.target_buffer();
    let wanted = config.target_buffer_name();
    if !wanted.is_empty() {
        let named = buffers.iter().position(|buffer| buffer.name() == wanted);
        let Some(named) = named else {
            return Err(ConfigError::NoSuchBufferName {
                source_name: source_name(),
                wanted: wanted.to_owned(),
            });
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if index != 0 && index != named {
            return Err(ConfigError::BufferMismatch {
                source_name: source_name(),
                wanted: wanted.to_owned(),
                named,
                index,
            });
        }
        return Ok(named);
    }
    match usize::try_from(index) {
        Ok(found) if found < buffers.len() => Ok(found),
        _ => Err(ConfigError::NoSuchBuffer { source_name: source_name(), index, count: buffers.len() }),
    }
}

fn parse_filter(source_name: &str, source: &trace_config::DataSource) -> Result<ProducerFilter, ConfigError> {
    let patterns = source.producer_name_regex_filter.iter().map(|pattern| full_match(source_name, pattern));
    Ok(ProducerFilter {
        names: source.producer_name_filter.clone(),
        patterns: patterns.collect::<Result<_, _>>()?,
    })
}

fn full_match(source_name: &str, pattern: &str) -> Result<Regex, ConfigError> {
    let error = |reason: String| ConfigError::Regex {
        source_name: source_name.to_owned(),
        pattern: pattern.chars().take(limits::MAX_NAME_BYTES).collect(),
        reason,
    };
    if pattern.len() > limits::MAX_REGEX_BYTES {
        return Err(error(format!("it is longer than {} bytes", limits::MAX_REGEX_BYTES)));
    }
    Regex::new(&format!("^(?:{pattern})$")).map_err(|reason| error(reason.to_string()))
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

/// What the file wants, and the flush period that follows from it (upstream: `write_flush_mode`).
fn parse_file(config: &TraceConfig) -> (Option<FileSpec>, Option<u32>) {
    let flush_period_ms = period(config.flush_period_ms());
    if !config.write_into_file() {
        return (None, flush_period_ms);
    }
    let period_ms = or_default(config.file_write_period_ms(), limits::DEFAULT_FILE_WRITE_PERIOD_MS)
        .max(limits::MIN_FILE_WRITE_PERIOD_MS);
    let (flush_first, flush_period_ms) = match config.write_flush_mode() {
        WriteFlushMode::WriteFlushDisabled => (false, flush_period_ms),
        WriteFlushMode::WriteFlushEnabled => (true, None),
        _ if period_ms <= limits::AUTO_FLUSH_PERIOD_MS => (false, Some(limits::AUTO_FLUSH_PERIOD_MS)),
        _ => (true, None),
    };
    let file = FileSpec {
        output_path: config.output_path.clone(),
        period_ms,
        max_bytes: (config.max_file_size_bytes() != 0).then(|| config.max_file_size_bytes()),
        flush_first,
        sync: config.fflush_post_write() == trace_config::FFlushMode::FflushEnabled,
    };
    (Some(file), flush_period_ms)
}

fn parse_semaphores(config: &TraceConfig) -> Vec<(String, u64)> {
    let semaphores = config.session_semaphores.iter();
    semaphores.map(|semaphore| (semaphore.name().to_owned(), semaphore.max_other_session_count())).collect()
}

fn parse_builtin(config: &TraceConfig) -> BuiltinSpec {
    let builtin = builtin_of(config);
    let interval = or_default(builtin.snapshot_interval_ms(), limits::DEFAULT_SNAPSHOT_INTERVAL_MS);
    BuiltinSpec {
        clock_snapshots: !builtin.disable_clock_snapshotting(),
        trace_config: !builtin.disable_trace_config(),
        system_info: !builtin.disable_system_info(),
        service_events: !builtin.disable_service_events(),
        primary_clock: match builtin.primary_trace_clock.unwrap_or_default() {
            0 => ferretto_protos::BuiltinClock::Boottime as i32,
            clock => clock,
        },
        snapshot_interval_ms: interval.max(limits::MIN_SNAPSHOT_INTERVAL_MS),
        histograms: !builtin.disable_chunk_usage_histograms(),
    }
}
