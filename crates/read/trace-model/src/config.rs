//! `TraceConfig`: what was to be recorded (upstream: proto_trace_reader.cc, metadata_module.cc).
//!
//! Its text (`trace_config_pbtxt`) needs descriptions of its messages, which are not here: whoever has them gives a [`Printer`].

use ferretto_protos::fields::trace_config as field;
use ferretto_protos::fields::trace_config::buffer_config;
use ferretto_trace_tables::MachineId;

use crate::metadata::Key;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// Makes text of a `TraceConfig`'s bytes; nothing if they are none.
pub type Printer = fn(&[u8]) -> Option<String>;

/// `BufferConfig.FillPolicy`.
pub(crate) const DISCARD: u64 = 2;
/// A file that is written so rarely is meant as a ring. Upstream's.
const RING_PERIOD_MS: u64 = 24 * 60 * 60 * 1000;
/// Since this version the service flushes before it writes into a file.
const FIRST_VERSION_THAT_FLUSHES: u32 = 54;

impl Model {
    /// Reads `TracePacket.trace_config`, when it arrives.
    pub fn read_config(&mut self, machine: MachineId, message: &[u8]) {
        if is_streamed(message) {
            for (buffer, config) in (0..).zip(wire::all_bytes(message, field::BUFFERS)) {
                if wire::number(config, buffer_config::FILL_POLICY) == Some(DISCARD) {
                    self.stats.add(Stat::ConfigWriteIntoFileDiscard, Some(buffer), 1);
                }
            }
        }
        if let Some(attributes) = wire::bytes(message, field::TRACE_ATTRIBUTES) {
            self.read_attributes(machine, attributes);
        }
        self.config = message.into();
    }

    /// The same, in the order of time.
    pub fn apply_config(&mut self, machine: MachineId, message: &[u8]) {
        if !self.metadata.has_uuid {
            let half = |number| wire::number(message, number).unwrap_or(0);
            self.set_uuid(half(field::TRACE_UUID_MSB), half(field::TRACE_UUID_LSB));
        }
        if let Some(name) = wire::bytes(message, field::UNIQUE_SESSION_NAME) {
            self.set_text(Key::UniqueSessionName, machine, name);
        }
        if let Some(text) = self.config_printer.and_then(|print| print(message)) {
            self.set_text(Key::TraceConfigPbtxt, machine, text.trim_end().as_bytes());
        }
    }

    /// What a config means for what was lost, once all is known. Gives the config.
    pub(crate) fn judge_config(&mut self) -> Box<[u8]> {
        let config = std::mem::take(&mut self.config);
        if is_streamed(&config) {
            self.judge_stream(&config);
        }
        config
    }

    fn judge_stream(&mut self, config: &[u8]) {
        self.stats.set_machine(MachineId(0));
        let period_ms = wire::number(config, field::FILE_WRITE_PERIOD_MS).unwrap_or(0);
        if period_ms < RING_PERIOD_MS {
            let buffers = wire::all_bytes(config, field::BUFFERS).count();
            for buffer in (0..).take(buffers) {
                let overwritten = self.stats.get(Stat::TracedBufBytesOverwritten, Some(buffer));
                if overwritten > 0 {
                    self.stats.set(Stat::LongTraceModeBytesOverwritten, Some(buffer), overwritten);
                }
            }
        }
        let flushes = wire::number(config, field::FLUSH_PERIOD_MS).unwrap_or(0) != 0;
        let version = self.metadata_text(Key::TracingServiceVersion, MachineId(0)).and_then(major_version);
        if !flushes && version.is_none_or(|version| version < FIRST_VERSION_THAT_FLUSHES) {
            self.stats.count(Stat::ConfigWriteIntoFileNoFlush);
        }
    }
}

pub(crate) fn is_streamed(config: &[u8]) -> bool {
    wire::number(config, field::WRITE_INTO_FILE).is_some_and(|is_it| is_it != 0)
}

/// The first number of upstream's versions, such as `Perfetto v54.0 (…)`.
fn major_version(text: &str) -> Option<u32> {
    let (major, _) = text.strip_prefix("Perfetto v")?.split_once(['.', '-'])?;
    major.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_begin_with_a_number() {
        assert_eq!(major_version("Perfetto v54.0-abc (N/A)"), Some(54));
        assert_eq!(major_version("Perfetto v7-rc"), Some(7));
        assert_eq!((major_version("Ferretto 1.0"), major_version("Perfetto v54")), (None, None));
    }
}
