//! What a session's triggers do (upstream: `TraceConfig.trigger_config`).

use std::collections::BTreeMap;
use std::sync::Arc;

use ferretto_protos::TraceConfig;
use ferretto_protos::trace_config::trigger_config::{Trigger, TriggerMode as WireMode};
use regex_lite::Regex;

use super::ConfigError;
use super::guardrails::max_duration;
use super::producer_filter::full_match;
use crate::limits;

/// What a trigger brings about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TriggerMode {
    /// The session waits for it and then records for its delay.
    Start,
    /// The session records until its delay is over.
    Stop,
    /// The consumer is told, when its delay is over, to clone the session, which goes on.
    CloneSnapshot,
}

/// A session's triggers.
#[derive(Debug, Clone)]
pub(crate) struct TriggersSpec {
    pub(crate) mode: TriggerMode,
    /// How long the session waits for a trigger. With snapshots: how long it lasts.
    pub(crate) timeout_ms: u32,
    /// By name.
    pub(crate) triggers: BTreeMap<Arc<str>, TriggerSpec>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct TriggerSpec {
    /// Whose activations count; everybody's if none.
    producer: Option<Regex>,
    pub(crate) delay_ms: u32,
    /// Activations that count in any 24 hours; 0 for all.
    pub(crate) max_per_24_h: u32,
    /// The part of activations that is left out by chance; from 1 all of them.
    pub(crate) skip_probability: f64,
}

impl TriggerSpec {
    #[cfg(test)]
    pub(crate) fn of_producers(pattern: &str) -> Self {
        let producer = full_match(pattern).ok();
        Self { producer, delay_ms: 0, max_per_24_h: 0, skip_probability: 0.0 }
    }

    /// From whomever it comes.
    pub(crate) fn accepts_all(&self) -> bool {
        self.producer.is_none()
    }

    pub(crate) fn accepts(&self, producer_name: &str) -> bool {
        self.producer.as_ref().is_none_or(|pattern| pattern.is_match(producer_name))
    }
}

/// What the config's triggers do, if it has any: what can be said without looking at each (upstream: tracing_service_impl.cc,
/// `EnableTracing`).
pub(super) fn trigger_mode(config: &TraceConfig) -> Result<Option<TriggerMode>, ConfigError> {
    let Some(wire) = &config.trigger_config else { return Ok(None) };
    let number = wire.trigger_mode.unwrap_or_default();
    let instead = wire.use_clone_snapshot_if_available();
    let has_mode = number != 0 || instead;
    let max_ms = max_duration(config).as_millis();
    let timeout_ms = wire.trigger_timeout_ms();
    if has_mode && (timeout_ms == 0 || u128::from(timeout_ms) > max_ms) {
        return Err(ConfigError::TriggerTimeout { timeout_ms, max_ms });
    }
    let mode = match WireMode::try_from(number) {
        Ok(WireMode::Unspecified) => None,
        Ok(WireMode::StartTracing) => Some(TriggerMode::Start),
        Ok(WireMode::StopTracing) => Some(TriggerMode::Stop),
        Ok(WireMode::CloneSnapshot) => Some(TriggerMode::CloneSnapshot),
        Err(_) => return Err(ConfigError::TriggerMode(number)),
    };
    if instead && mode != Some(TriggerMode::Stop) {
        return Err(ConfigError::TriggerModeForClone(wire.trigger_mode().as_str_name()));
    }
    // Upstream records, but gives nothing of it to anybody: no trigger can end the wait.
    if mode.is_none() && !wire.triggers.is_empty() {
        return Err(ConfigError::TriggersWithoutMode(wire.triggers.len()));
    }
    if has_mode && config.duration_ms() != 0 {
        return Err(ConfigError::TriggerWithDuration(config.duration_ms()));
    }
    Ok(if instead { Some(TriggerMode::CloneSnapshot) } else { mode })
}

/// The triggers of a config with this mode.
pub(super) fn parse_triggers(config: &TraceConfig, mode: TriggerMode) -> Result<TriggersSpec, ConfigError> {
    if mode != TriggerMode::Start && config.write_into_file() {
        return Err(ConfigError::TriggerWithFile);
    }
    let wire = config.trigger_config.as_ref();
    let has_regex = |trigger: &&Trigger| !trigger.producer_name_regex().is_empty();
    if wire.map_or(0, |wire| wire.triggers.iter().filter(has_regex).count()) > limits::MAX_REGEXES {
        let of = "trigger_config: producer_name_regex".to_owned();
        return Err(ConfigError::TooManyRegexes { of, max: limits::MAX_REGEXES });
    }
    let mut triggers = BTreeMap::new();
    for (index, trigger) in wire.map_or(&[][..], |wire| &wire.triggers).iter().enumerate() {
        let bytes = trigger.name().len();
        if bytes > limits::MAX_NAME_BYTES {
            return Err(ConfigError::LongTriggerName { index, bytes });
        }
        if triggers.insert(Arc::from(trigger.name()), parse_trigger(trigger)?).is_some() {
            return Err(ConfigError::DuplicateTrigger(trigger.name().to_owned()));
        }
    }
    Ok(TriggersSpec { mode, timeout_ms: wire.map_or(0, |wire| wire.trigger_timeout_ms()), triggers })
}

fn parse_trigger(trigger: &Trigger) -> Result<TriggerSpec, ConfigError> {
    let producer = match trigger.producer_name_regex() {
        "" => None,
        pattern => Some(full_match(pattern).map_err(|error| ConfigError::TriggerRegex {
            name: trigger.name().to_owned(),
            pattern: error.pattern,
            reason: error.reason,
        })?),
    };
    Ok(TriggerSpec {
        producer,
        delay_ms: trigger.stop_delay_ms(),
        max_per_24_h: trigger.max_per_24_h(),
        skip_probability: trigger.skip_probability(),
    })
}
