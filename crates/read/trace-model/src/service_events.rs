//! `TracingServiceEvent`: when recording began, ended and was cloned, flushes, and data sources that were slow (upstream:
//! proto_trace_reader.cc).

use ferretto_protos::fields::tracing_service_event as field;
use ferretto_trace_tables::MachineId;

use crate::metadata::{Key, Metadatum};
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

impl Model {
    /// Reads `TracePacket.service_event`, when it arrives. `ts` is its time on the trace's clock.
    pub fn read_service_event(&mut self, ts: i64, machine: MachineId, message: &[u8]) {
        let times = [
            (field::TRACING_STARTED, Key::TracingStartedNs),
            (field::TRACING_DISABLED, Key::TracingDisabledNs),
            (field::ALL_DATA_SOURCES_STARTED, Key::AllDataSourceStartedNs),
            (field::ALL_DATA_SOURCES_FLUSHED, Key::AllDataSourceFlushedNs),
        ];
        for (number, key) in times {
            if wire::number(message, number).is_some_and(|is_it| is_it != 0) {
                self.set_metadata(key, machine, Metadatum::Int(ts));
            }
        }
        if let Some(slow) = wire::bytes(message, field::SLOW_STARTING_DATA_SOURCES) {
            use field::data_sources::{self, data_source};
            for source in wire::all_bytes(slow, data_sources::DATA_SOURCE) {
                let part = |number| wire::bytes(source, number).unwrap_or_default();
                let names = [part(data_source::PRODUCER_NAME), part(data_source::DATA_SOURCE_NAME)];
                self.set_text(Key::SlowStartDataSource, machine, &names.join(&b' '));
            }
        }
        if wire::number(message, field::CLONE_STARTED).is_some() {
            self.stats.set(Stat::TracedCloneStartedTimestampNs, None, ts);
        }
        if let Some(buffer) = wire::int(message, field::BUFFER_CLONED) {
            self.stats.set(Stat::TracedBufCloneDoneTimestampNs, Some(buffer), ts);
        }
    }
}
