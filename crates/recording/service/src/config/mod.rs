//! A trace config, parsed once into types that cannot be wrong.
//!
//! Fields that this schema does not know stay in the raw bytes, which go to producers and into the trace. What the service would have
//! to do but cannot is an error that names it; fields that mean nothing on Linux are accepted (upstream: tracing_service_impl.cc,
//! `EnableTracing`).

mod boost;
mod buffers;
mod builtin;
mod compression;
mod data_sources;
mod error;
mod file;
mod guardrails;
mod machine_filter;
mod parts;
mod producer_config;
mod producer_filter;
mod trace_filter;
mod triggers;

use std::sync::Arc;

use bytes::Bytes;
use ferretto_protos::{TraceConfig, trace_config};
use ferretto_trace_filter::MessageFilter;

use self::boost::parse_boost;
pub(crate) use self::buffers::BufferSpec;
use self::buffers::{check_buffer_names, parse_buffers};
use self::builtin::{BuiltinSpec, parse_builtin};
pub(crate) use self::compression::Codec;
use self::compression::parse_compression;
pub(crate) use self::data_sources::DataSourceSpec;
use self::data_sources::{parse_data_sources, widened_filters};
pub use self::error::{ConfigError, RuleProblem};
pub(crate) use self::file::FileSpec;
use self::file::parse_file;
use self::guardrails::{check_duration, check_guardrails};
use self::parts::Parts;
use self::producer_config::ProducerConfigs;
pub(crate) use self::producer_filter::pattern_cost;
use self::trace_filter::parse_trace_filter;
pub(crate) use self::triggers::{TriggerMode, TriggerSpec, TriggersSpec};
use self::triggers::{parse_triggers, trigger_mode};
use crate::limits;
use crate::scheduling::Boost;

/// A config that the service can serve.
#[derive(Debug, Clone)]
pub(crate) struct SessionConfig {
    /// As it came from the consumer.
    pub(crate) raw: Bytes,
    pub(crate) claims: Claims,
    pub(crate) buffers: Vec<BufferSpec>,
    /// Copies of a session share them.
    pub(crate) data_sources: Arc<Vec<DataSourceSpec>>,
    pub(crate) producers: Arc<ProducerConfigs>,
    pub(crate) duration_ms: u32,
    pub(crate) duration_with_suspend: bool,
    pub(crate) deferred_start: bool,
    pub(crate) flush_period_ms: Option<u32>,
    pub(crate) flush_timeout_ms: u32,
    pub(crate) stop_timeout_ms: u32,
    pub(crate) clear_period_ms: Option<u32>,
    pub(crate) uuid: Option<(i64, i64)>,
    pub(crate) bugreport_score: i32,
    pub(crate) bugreport_filename: String,
    pub(crate) file: Option<FileSpec>,
    pub(crate) boost: Option<Boost>,
    pub(crate) builtin: BuiltinSpec,
    pub(crate) compression: Option<Codec>,
    /// The buffers give back memory when all of them was read.
    pub(crate) compacts_buffers: bool,
    pub(crate) triggers: Option<TriggersSpec>,
    pub(crate) trace_filter: Option<Arc<MessageFilter>>,
}

/// What a session shares with others, or keeps from them.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    /// 0 if it is not exclusive.
    pub(crate) exclusive_priority: u32,
    pub(crate) unique_name: String,
    /// By name, and how many others may hold it.
    pub(crate) semaphores: Vec<(String, u64)>,
    pub(crate) guardrails: bool,
}

/// A config that was decoded. Upstream checks the one half of a config before it looks at who else is tracing, and the other half after
/// it; the steps here keep that order, so that a config with two mistakes gives the same one first.
#[derive(Debug)]
pub(crate) struct Draft {
    /// Without the data sources.
    config: TraceConfig,
    /// Those, as they are encoded.
    data_sources: Vec<Bytes>,
    /// It has more of something than a session may have.
    too_many: Option<ConfigError>,
    raw: Bytes,
}

/// A config whose first half was found right.
#[derive(Debug)]
pub(crate) struct Checked {
    draft: Draft,
    triggers: Option<TriggersSpec>,
    data_sources: Vec<DataSourceSpec>,
}

impl Draft {
    pub(crate) fn decode(raw: Bytes) -> Result<Self, ConfigError> {
        let Parts { config, data_sources, too_many } = Parts::decode(&raw)?;
        Ok(Self { config, data_sources, too_many, raw })
    }

    /// Whether producers of other users are to be kept out from now on; `None` for as it is. It counts even if the config is refused.
    pub(crate) fn lockdown(&self) -> Option<bool> {
        match self.config.lockdown_mode() {
            trace_config::LockdownModeOperation::LockdownUnchanged => None,
            trace_config::LockdownModeOperation::LockdownClear => Some(false),
            trace_config::LockdownModeOperation::LockdownSet => Some(true),
        }
    }

    /// What comes before the look at other sessions.
    pub(crate) fn check(self) -> Result<Checked, ConfigError> {
        let config = &self.config;
        check_duration(config)?;
        let trigger_mode = trigger_mode(config)?;
        check_bugreport_filename(config.bugreport_filename())?;
        let triggers = trigger_mode.map(|mode| parse_triggers(config, mode)).transpose()?;
        check_guardrails(config)?;
        check_buffer_names(&config.buffers)?;
        if let Some(error) = self.too_many {
            return Err(error);
        }
        let data_sources = parse_data_sources(config, &self.data_sources)?;
        Ok(Checked { draft: self, triggers, data_sources })
    }
}

impl Checked {
    /// What the session would have to share with others.
    pub(crate) fn claims(&self) -> Claims {
        let config = &self.draft.config;
        Claims {
            exclusive_priority: config.exclusive_prio(),
            unique_name: config.unique_session_name().to_owned(),
            semaphores: parse_semaphores(config),
            guardrails: config.enable_extra_guardrails(),
        }
    }

    /// What comes after the look at other sessions. `has_descriptor`: the consumer sent a file.
    pub(crate) fn into_session_config(self, has_descriptor: bool) -> Result<SessionConfig, ConfigError> {
        let claims = self.claims();
        let Self { draft: Draft { config, raw, .. }, triggers, data_sources } = self;
        let trace_filter = config.trace_filter.as_ref().map(parse_trace_filter).transpose()?;
        let boost = parse_boost(config.priority_boost.as_ref())?;
        let (file, flush_period_ms) = parse_file(&config, has_descriptor)?;
        let buffers = parse_buffers(&config.buffers)?;
        say_what_has_no_effect(&config);
        Ok(SessionConfig {
            claims,
            buffers,
            data_sources: Arc::new(data_sources),
            duration_ms: config.duration_ms(),
            duration_with_suspend: config.prefer_suspend_clock_for_duration(),
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
            uuid: uuid(&config),
            bugreport_score: config.bugreport_score(),
            bugreport_filename: config.bugreport_filename().to_owned(),
            file,
            boost,
            builtin: parse_builtin(&config),
            compression: parse_compression(&config),
            compacts_buffers: config.experimental_trace_buffer_v2_compaction(),
            triggers,
            trace_filter,
            producers: Arc::new(ProducerConfigs::new(&config.producers)),
            raw,
        })
    }
}

impl SessionConfig {
    /// Takes over additional producer filters from an updated config; says whether it had any. All or, with an error, none.
    pub(crate) fn add_filters(&mut self, raw: &Bytes) -> Result<bool, ConfigError> {
        let update = Parts::decode(raw)?;
        if let Some(error) = update.too_many {
            return Err(error);
        }
        let widened = widened_filters(&self.data_sources, &update.data_sources)?;
        if widened.is_empty() {
            return Ok(false);
        }
        let data_sources = Arc::make_mut(&mut self.data_sources);
        for (index, filter) in widened {
            if let Some(spec) = data_sources.get_mut(index) {
                spec.producers = Arc::new(filter);
            }
        }
        Ok(true)
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

fn check_bugreport_filename(name: &str) -> Result<(), ConfigError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match name.chars().all(allowed) {
        true => Ok(()),
        false => Err(ConfigError::BugreportFilename(name.to_owned())),
    }
}

/// What may be asked for and is harmless to go without.
fn say_what_has_no_effect(config: &TraceConfig) {
    let asked_for = config.compression.is_some()
        || config.compression_type() != trace_config::CompressionType::Unspecified;
    if asked_for && parse_compression(config).is_none() {
        tracing::warn!("the trace is not compressed: the config asks for neither deflate nor zstd");
    }
}

fn parse_semaphores(config: &TraceConfig) -> Vec<(String, u64)> {
    let semaphores = config.session_semaphores.iter();
    semaphores.map(|semaphore| (semaphore.name().to_owned(), semaphore.max_other_session_count())).collect()
}
