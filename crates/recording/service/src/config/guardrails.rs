//! How long a trace may last, and the narrower limits of `enable_extra_guardrails`, for traces that nobody watches.

use std::time::Duration;

use ferretto_protos::TraceConfig;

use super::ConfigError;
use crate::limits;

pub(super) fn max_duration(config: &TraceConfig) -> Duration {
    match config.enable_extra_guardrails() {
        true => limits::MAX_DURATION_WITH_GUARDRAILS,
        false => limits::MAX_DURATION,
    }
}

pub(super) fn check_duration(config: &TraceConfig) -> Result<(), ConfigError> {
    let max = max_duration(config);
    let duration_ms = u64::from(config.duration_ms());
    if u128::from(duration_ms) > max.as_millis() {
        return Err(ConfigError::TooLong { duration_ms, max_ms: max.as_millis() });
    }
    Ok(())
}

pub(super) fn check_guardrails(config: &TraceConfig) -> Result<(), ConfigError> {
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
