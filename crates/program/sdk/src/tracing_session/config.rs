//! The config of a session: a whole one as it was given, or one made for the common case.

use bytes::Bytes;
use ferretto_protos::trace_config::buffer_config::FillPolicy;
use ferretto_protos::trace_config::trigger_config::TriggerMode;
use ferretto_protos::trace_config::{BufferConfig, DataSource};
use ferretto_protos::{DataSourceConfig, TraceConfig, TrackEventConfig};
use prost::Message;

use super::error::ConfigError;

/// The buffer of a session whose size nobody says: some hundred thousand events. Its memory is taken as it fills.
const DEFAULT_BUFFER_KB: u32 = 32 * 1024;

/// How often the service empties its buffers into a file, unless the config says that (upstream's default: 5 s).
const FILE_WRITE_PERIOD_MS: u32 = 1000;

/// How often data sources then hand over what they hold, so that the file has no old holes when the program dies (upstream's command
/// line advises 5 to 30 s).
const FLUSH_PERIOD_MS: u32 = 5000;

/// What was said of a session so far.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// As serialised, so that what this library has not heard of survives.
    whole: Option<Bytes>,
    simple: Simple,
    /// What goes with either; appended, as the last one wins.
    pub(crate) appended: TraceConfig,
}

/// The common case: one buffer, this and other data sources.
#[derive(Debug, Default)]
struct Simple {
    buffer: BufferConfig,
    track_events: TrackEventConfig,
    others: Vec<DataSourceConfig>,
    /// The first method that was called for it.
    called: Option<&'static str>,
}

/// A config that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) bytes: Bytes,
    pub(crate) unique_name: String,
    /// The service writes a file.
    pub(crate) in_file: bool,
    /// It opens that file itself.
    pub(crate) names_file: bool,
    /// All data sources start at once.
    pub(crate) starts_at_once: bool,
    /// Triggers ask for copies.
    pub(crate) has_clone_triggers: bool,
}

impl Parts {
    pub(crate) fn set_whole(&mut self, config: Bytes) {
        self.whole = Some(config);
    }

    pub(crate) fn buffer(&mut self, method: &'static str) -> &mut BufferConfig {
        self.simple.called.get_or_insert(method);
        &mut self.simple.buffer
    }

    pub(crate) fn track_events(&mut self, method: &'static str) -> &mut TrackEventConfig {
        self.simple.called.get_or_insert(method);
        &mut self.simple.track_events
    }

    pub(crate) fn add_data_source(&mut self, config: DataSourceConfig) {
        self.simple.called.get_or_insert("data_source");
        self.simple.others.push(config);
    }

    pub(crate) fn write_into_file(&mut self) {
        self.appended.write_into_file = Some(true);
    }

    /// The whole config; it gets `new_name` if it has none, so that the session can be found among others.
    pub(crate) fn finish(mut self, deferred: bool, new_name: &str) -> Result<Finished, ConfigError> {
        let given = match (self.whole.take(), self.simple.called) {
            (Some(_), Some(method)) => return Err(ConfigError::Mixed { method }),
            (Some(whole), None) => whole,
            (None, _) => self.simple.config().encode_to_vec().into(),
        };
        let parsed = TraceConfig::decode(given.clone())?;
        let appended = &mut self.appended;
        if parsed.unique_session_name().is_empty() && appended.unique_session_name().is_empty() {
            appended.unique_session_name = Some(new_name.to_owned());
        }
        if appended.write_into_file() {
            appended.file_write_period_ms = parsed.file_write_period_ms.or(Some(FILE_WRITE_PERIOD_MS));
            appended.flush_period_ms = parsed.flush_period_ms.or(Some(FLUSH_PERIOD_MS));
        }
        if deferred {
            appended.deferred_start = Some(true);
        }
        let mut bytes = Vec::from(given);
        appended.encode(&mut bytes).unwrap_or_else(|_| unreachable!("a Vec takes any number of bytes"));
        let merged = TraceConfig::decode(bytes.as_slice())?;
        let trigger_mode = merged.trigger_config.as_ref().map(|config| config.trigger_mode());
        Ok(Finished {
            bytes: bytes.into(),
            unique_name: merged.unique_session_name().to_owned(),
            in_file: merged.write_into_file(),
            names_file: merged.output_path.is_some(),
            starts_at_once: !merged.deferred_start() && trigger_mode != Some(TriggerMode::StartTracing),
            has_clone_triggers: trigger_mode == Some(TriggerMode::CloneSnapshot),
        })
    }
}

impl Simple {
    fn config(self) -> TraceConfig {
        let mut buffer = self.buffer;
        buffer.size_kb.get_or_insert(DEFAULT_BUFFER_KB);
        buffer.fill_policy.get_or_insert(FillPolicy::RingBuffer.into());
        let track_events = DataSourceConfig {
            name: Some("track_event".to_owned()),
            track_event_config: Some(self.track_events),
            ..Default::default()
        };
        let configs = std::iter::once(track_events).chain(self.others);
        let source = |config| DataSource { config: Some(config), ..Default::default() };
        TraceConfig {
            buffers: vec![buffer],
            data_sources: configs.map(source).collect(),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(finished: &Finished) -> TraceConfig {
        TraceConfig::decode(finished.bytes.clone()).unwrap()
    }

    #[test]
    fn the_common_case_is_one_ring_with_track_events() {
        let finished = Parts::default().finish(false, "n").unwrap();
        let config = decode(&finished);
        assert_eq!(config.buffers.len(), 1);
        assert_eq!(config.buffers[0].size_kb(), DEFAULT_BUFFER_KB);
        assert_eq!(config.data_sources.len(), 1);
        assert_eq!((config.unique_session_name(), finished.unique_name.as_str()), ("n", "n"));
        assert!(finished.starts_at_once && !finished.in_file && !finished.has_clone_triggers);
    }

    #[test]
    fn a_whole_config_keeps_its_bytes_and_its_name() {
        let mut whole = TraceConfig { unique_session_name: Some("own".into()), ..Default::default() };
        whole.buffers.push(BufferConfig { size_kb: Some(4), ..Default::default() });
        let mut bytes = whole.encode_to_vec();
        // Field 4000, which nobody knows.
        bytes.extend([0x80, 0xfa, 0x01, 0x07]);
        let mut parts = Parts::default();
        parts.set_whole(bytes.clone().into());
        parts.write_into_file();
        let finished = parts.finish(true, "n").unwrap();
        assert!(finished.bytes.starts_with(&bytes));
        let config = decode(&finished);
        assert_eq!(config.unique_session_name(), "own");
        assert!(config.write_into_file() && config.deferred_start() && config.file_write_period_ms() > 0);
        assert!(finished.in_file && !finished.starts_at_once);
    }

    #[test]
    fn mistakes_are_named() {
        let mut parts = Parts::default();
        parts.set_whole(Bytes::new());
        parts.buffer("buffer_size_kb").size_kb = Some(1);
        let error = parts.finish(false, "n").unwrap_err();
        assert!(matches!(error, ConfigError::Mixed { method: "buffer_size_kb" }));
        let mut parts = Parts::default();
        parts.set_whole(Bytes::from_static(b"\x0a\xff"));
        assert!(matches!(parts.finish(false, "n"), Err(ConfigError::Bytes(_))));
    }
}
