//! The file that a trace is: the table `trace_file`, and what metadata say of it (upstream: trace_file_tracker.cc).

use ferretto_trace_tables::MachineId;
use ferretto_trace_tables::tables::TraceFileRow;

use crate::metadata::{Key, Metadatum};
use crate::model::Model;

/// The one format that is read here.
const TRACE_TYPE: &str = "proto";

impl Model {
    /// A file begins. `first_bytes` are those that it begins with, packed or not: a trace without a uuid gets one of them.
    pub fn begin_file(&mut self, name: Option<&str>, first_bytes: &[u8]) {
        self.set_uuid_of_bytes(first_bytes);
        let trace_type = self.tables.strings.intern(TRACE_TYPE);
        let row = TraceFileRow {
            name: name.map(|name| self.tables.strings.intern(name)),
            trace_type: Some(trace_type),
            processing_order: Some(0),
            ..TraceFileRow::default()
        };
        self.tables.trace_file.push(row);
        self.set_metadata(Key::TraceType, MachineId(0), Metadatum::Text(trace_type));
    }

    /// The file is over: it had so many bytes.
    pub fn end_file(&mut self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if let Some(size) = self.tables.trace_file.size.last_mut() {
            *size = bytes;
        }
        self.set_metadata(Key::TraceSizeBytes, MachineId(0), Metadatum::Int(bytes));
    }
}
