//! The buffers of a config, and which of them a data source writes to.

use ferretto_protos::DataSourceConfig;
use ferretto_protos::trace_config::BufferConfig;
use ferretto_trace_buffer::FillPolicy;

use super::ConfigError;
use crate::limits;

/// A buffer to make.
#[derive(Debug, Clone)]
pub(crate) struct BufferSpec {
    pub(crate) size_kb: u32,
    pub(crate) policy: FillPolicy,
    pub(crate) transfer_on_clone: bool,
    pub(crate) clear_before_clone: bool,
    pub(crate) folds_overwritten: bool,
}

/// How many there are, and that each name is one buffer's.
pub(super) fn check_buffer_names(buffers: &[BufferConfig]) -> Result<(), ConfigError> {
    if buffers.len() > limits::MAX_BUFFERS_PER_SESSION {
        return Err(ConfigError::TooManyBuffers { count: buffers.len() });
    }
    for (index, buffer) in buffers.iter().enumerate() {
        let is_again = |other: &BufferConfig| !other.name().is_empty() && other.name() == buffer.name();
        if buffers.iter().take(index).any(is_again) {
            return Err(ConfigError::DuplicateBufferName(buffer.name().to_owned()));
        }
    }
    Ok(())
}

pub(super) fn parse_buffers(buffers: &[BufferConfig]) -> Result<Vec<BufferSpec>, ConfigError> {
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
        folds_overwritten: buffer.fold_overwritten() && policy == FillPolicy::Ring,
    })
}

/// A name and an index may both be given if they mean the same; index 0 beside a name counts as not given.
pub(super) fn target_buffer(
    buffers: &[BufferConfig],
    config: &DataSourceConfig,
) -> Result<usize, ConfigError> {
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
