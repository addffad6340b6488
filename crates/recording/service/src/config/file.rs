//! What a config says of the file that the service writes.

use ferretto_protos::TraceConfig;
use ferretto_protos::trace_config;
use ferretto_protos::trace_config::WriteFlushMode;

use super::{ConfigError, or_default, period};
use crate::limits;

/// How a session's file is written.
#[derive(Debug, Clone)]
pub(crate) struct FileSpec {
    /// To be created; none if the consumer sent a descriptor.
    pub(crate) output_path: Option<String>,
    pub(crate) period_ms: u32,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) flush_first: bool,
    pub(crate) sync: bool,
}

/// What the file wants; `has_descriptor` says whether the consumer sent one. And the flush period that follows from it (upstream: `write_flush_mode`).
pub(super) fn parse_file(
    config: &TraceConfig,
    has_descriptor: bool,
) -> Result<(Option<FileSpec>, Option<u32>), ConfigError> {
    let flush_period_ms = period(config.flush_period_ms());
    let output_path = config.output_path.clone().filter(|path| !path.is_empty());
    if !config.write_into_file() {
        return match output_path {
            Some(_) => Err(ConfigError::OutputPathWithoutWrite),
            None => Ok((None, flush_period_ms)),
        };
    }
    match (has_descriptor, &output_path) {
        (false, None) => return Err(ConfigError::NoFile),
        (true, Some(_)) => return Err(ConfigError::TwoFiles),
        _ => {}
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
        output_path,
        period_ms,
        max_bytes: (config.max_file_size_bytes() != 0).then(|| config.max_file_size_bytes()),
        flush_first,
        sync: config.fflush_post_write() == trace_config::FFlushMode::FflushEnabled,
    };
    Ok((Some(file), flush_period_ms))
}
