//! What a session wants of track events: its `TrackEventConfig`.

use std::sync::Arc;

use ferretto_producer::InstanceConfig;
use ferretto_protos::fields::data_source_config;
use ferretto_protos::fields::track_event_config as fields;
use ferretto_protozero::control::{ControlError, Reader};

use crate::track_event::matching::{Filter, List};

/// A session's wishes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Wishes {
    /// The categories.
    pub(crate) filter: Arc<Filter>,
    pub(crate) options: SessionOptions,
}

/// What they say about the form of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionOptions {
    /// Nanoseconds that one unit of a timestamp's difference stands for; `None` for absolute timestamps.
    pub(crate) delta_unit_ns: Option<u64>,
    pub(crate) without_arguments: bool,
    pub(crate) without_dynamic_names: bool,
    /// Events that are at least so far apart have the processor time of their thread; `None` for no event.
    pub(crate) thread_time_period_ns: Option<u64>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            delta_unit_ns: Some(1),
            without_arguments: false,
            without_dynamic_names: false,
            thread_time_period_ns: None,
        }
    }
}

impl SessionOptions {
    /// Whether events, with or without arguments, may have the form of small packets: whole, and with times in nanoseconds since the last.
    pub(crate) fn has_small_packets(self, has_arguments: bool) -> bool {
        self.delta_unit_ns == Some(1)
            && !(has_arguments && self.without_arguments)
            && self.thread_time_period_ns.is_none()
    }
}

impl Wishes {
    /// Those of an instance.
    pub(crate) fn new(config: &InstanceConfig) -> Result<Self, ControlError> {
        // A message in parts is the same as one of these parts one after another.
        let mut parts = Vec::new();
        let mut field = Reader::new(config.raw());
        while field.next()? {
            if field.number == data_source_config::TRACK_EVENT_CONFIG {
                parts.extend_from_slice(field.bytes()?);
            }
        }
        Self::decode(&parts)
    }

    /// Reads a `TrackEventConfig`.
    pub(crate) fn decode(config: &[u8]) -> Result<Self, ControlError> {
        let (mut filter, mut options) = (Filter::default(), SessionOptions::default());
        let (mut unit_ns, mut has_deltas) = (1, true);
        let (mut thread_time_ns, mut has_thread_time) = (0, false);
        let mut field = Reader::new(config);
        while field.next()? {
            let list = match field.number {
                fields::ENABLED_CATEGORIES => List::EnabledCategories,
                fields::DISABLED_CATEGORIES => List::DisabledCategories,
                fields::ENABLED_TAGS => List::EnabledTags,
                fields::DISABLED_TAGS => List::DisabledTags,
                number => {
                    match number {
                        fields::TIMESTAMP_UNIT_MULTIPLIER => unit_ns = field.integer()?.max(1),
                        fields::DISABLE_INCREMENTAL_TIMESTAMPS => has_deltas = !field.truth()?,
                        fields::FILTER_DEBUG_ANNOTATIONS => options.without_arguments = field.truth()?,
                        fields::FILTER_DYNAMIC_EVENT_NAMES => {
                            options.without_dynamic_names = field.truth()?
                        }
                        fields::ENABLE_THREAD_TIME_SAMPLING => has_thread_time = field.truth()?,
                        fields::THREAD_TIME_SUBSAMPLING_NS => thread_time_ns = field.integer()?,
                        _ => {}
                    }
                    continue;
                }
            };
            filter.push(list, field.text()?.to_owned());
        }
        options.delta_unit_ns = has_deltas.then_some(unit_ns);
        options.thread_time_period_ns = has_thread_time.then_some(thread_time_ns);
        Ok(Self { filter: Arc::new(filter), options })
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protos::TrackEventConfig;
    use prost::Message;

    use super::*;

    fn options(config: &TrackEventConfig) -> SessionOptions {
        Wishes::decode(&config.encode_to_vec()).unwrap().options
    }

    #[test]
    fn options_are_what_the_config_says() {
        assert_eq!(options(&TrackEventConfig::default()), SessionOptions::default());
        let config = TrackEventConfig {
            timestamp_unit_multiplier: Some(1000),
            filter_debug_annotations: Some(true),
            filter_dynamic_event_names: Some(true),
            enable_thread_time_sampling: Some(true),
            thread_time_subsampling_ns: Some(5_000_000),
            ..Default::default()
        };
        let expected = SessionOptions {
            delta_unit_ns: Some(1000),
            without_arguments: true,
            without_dynamic_names: true,
            thread_time_period_ns: Some(5_000_000),
        };
        assert_eq!(options(&config), expected);
        let config = TrackEventConfig {
            disable_incremental_timestamps: Some(true),
            thread_time_subsampling_ns: Some(1),
            ..Default::default()
        };
        let expected = SessionOptions { delta_unit_ns: None, ..SessionOptions::default() };
        assert_eq!(options(&config), expected);
    }
}
