//! What a config asks for, as far as `record` speaks about it.

use std::path::PathBuf;
use std::time::Duration;

use ferretto_protos::TraceConfig;
use ferretto_protos::trace_config::BufferConfig;
use ferretto_protos::trace_config::buffer_config::FillPolicy;

/// The plan of a recording.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Names of data sources, each once, in the config's order.
    pub(crate) sources: Vec<String>,
    pub(crate) buffers: Vec<Buffer>,
    /// The service writes the file while it records.
    pub(crate) write_into_file: bool,
    /// Where the config itself wants the file.
    pub(crate) output_path: Option<PathBuf>,
    pub(crate) duration: Option<Duration>,
    /// The user wrote the config, so advice is about its fields and not about our flags.
    pub(crate) from_file: bool,
    /// The buffers are to forget the oldest: a flight recorder's.
    pub(crate) is_ring: bool,
    /// Sources that are to give their data to an interceptor in the program, by its name, and not to the trace.
    pub(crate) intercepted: Vec<(String, String)>,
    /// `max_file_size_bytes`, 0 for none.
    pub(crate) max_file_bytes: u64,
    /// The most that a producer of the config is given, 0 if it does not say.
    pub(crate) shared_memory_kb: u64,
    /// Names of triggers without one of which there will be nothing.
    pub(crate) triggers: Vec<String>,
}

/// One buffer of the service.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) size_kb: u64,
    /// Keeps the oldest data instead of the newest.
    pub(crate) discard: bool,
    pub(crate) sources: Vec<String>,
}

impl Plan {
    pub(crate) fn of(config: &TraceConfig, from_file: bool) -> Self {
        let mut plan = Self {
            buffers: config.buffers.iter().map(Buffer::of).collect(),
            write_into_file: config.write_into_file(),
            output_path: config.output_path.clone().filter(|path| !path.is_empty()).map(PathBuf::from),
            duration: Some(config.duration_ms())
                .filter(|&ms| ms > 0)
                .map(|ms| Duration::from_millis(ms.into())),
            from_file,
            max_file_bytes: config.max_file_size_bytes(),
            shared_memory_kb: config.producers.iter().map(|p| p.shm_size_kb().into()).max().unwrap_or(0),
            triggers: config
                .trigger_config
                .iter()
                .flat_map(|triggers| &triggers.triggers)
                .map(|trigger| trigger.name().to_owned())
                .collect(),
            ..Self::default()
        };
        for source in config.data_sources.iter().filter_map(|source| source.config.as_ref()) {
            let buffer = plan.buffer_index(source.target_buffer(), source.target_buffer_name());
            if let Some(buffer) = plan.buffers.get_mut(buffer) {
                push_once(&mut buffer.sources, source.name());
            }
            push_once(&mut plan.sources, source.name());
            let interceptor = source.interceptor_config.as_ref().map(|config| config.name());
            if let Some(interceptor) = interceptor.filter(|name| !name.is_empty()) {
                plan.intercepted.push((source.name().to_owned(), interceptor.to_owned()));
            }
        }
        plan
    }

    fn buffer_index(&self, index: u32, name: &str) -> usize {
        let by_name = self.buffers.iter().position(|buffer| !name.is_empty() && buffer.name == name);
        by_name.unwrap_or(index as usize)
    }
}

impl Buffer {
    fn of(config: &BufferConfig) -> Self {
        Self {
            name: config.name().to_owned(),
            size_kb: config.size_kb().into(),
            discard: config.fill_policy() == FillPolicy::Discard,
            sources: Vec::new(),
        }
    }
}

fn push_once(names: &mut Vec<String>, name: &str) {
    if !name.is_empty() && !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_file::parse_text;
    use prost::Message;

    fn plan(text: &str) -> Plan {
        let bytes = parse_text(std::path::Path::new("test"), text).unwrap();
        Plan::of(&TraceConfig::decode(bytes.as_slice()).unwrap(), true)
    }

    #[test]
    fn sources_belong_to_the_buffer_they_name() {
        let plan = plan(
            r#"buffers { size_kb: 64 } buffers { size_kb: 32 fill_policy: DISCARD name: "late" }
               data_sources { config { name: "a" } }
               data_sources { config { name: "b" target_buffer: 1 } }
               data_sources { config { name: "c" target_buffer_name: "late" } }
               data_sources { config { name: "a" target_buffer: 7 } }
               duration_ms: 1500 write_into_file: true output_path: "/tmp/x""#,
        );
        assert_eq!(plan.sources, ["a", "b", "c"]);
        assert_eq!(plan.buffers[0].sources, ["a"]);
        assert_eq!(plan.buffers[1].sources, ["b", "c"]);
        assert!(plan.buffers[1].discard && !plan.buffers[0].discard);
        assert_eq!(plan.duration, Some(Duration::from_millis(1500)));
        assert_eq!(plan.output_path, Some("/tmp/x".into()));
    }
}
