//! The file that a trace is: the table `trace_file`, and what metadata say of it (upstream: trace_file_tracker.cc).

use ferretto_trace_tables::MachineId;
use ferretto_trace_tables::tables::TraceFileRow;

use crate::metadata::{Key, Metadatum};
use crate::model::Model;

/// How many bytes of a file make its uuid, if it has none. Upstream's.
pub const HEAD_BYTES: usize = 4096;
/// The format of packets.
const TRACE_TYPE: &str = "proto";

/// What is known of a file beside its packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct File<'a> {
    /// Its name, if it is one of several.
    pub name: Option<&'a str>,
    /// Its size, packed or not.
    pub bytes: u64,
    /// What it begins with, packed or not: [`HEAD_BYTES`] of it. A trace without a uuid gets one of them.
    pub head: &'a [u8],
}

impl Model {
    /// A file begins.
    pub(crate) fn begin_file(&mut self) {
        // Its row comes first, though it is known last.
        self.set_uuid_of_bytes(&[]);
        let trace_type = self.tables.strings.intern(TRACE_TYPE);
        let row = TraceFileRow {
            trace_type: Some(trace_type),
            processing_order: Some(0),
            ..TraceFileRow::default()
        };
        self.tables.trace_file.push(row);
        self.set_metadata(Key::TraceType, MachineId(0), Metadatum::Text(trace_type));
    }

    /// A file of another format is over.
    pub fn end_file_of(&mut self, format: &str, file: File<'_>) {
        if self.tables.trace_file.is_empty() {
            self.begin_file();
        }
        let format = self.tables.strings.intern(format);
        if let Some(cell) = self.tables.trace_file.trace_type.last_mut() {
            *cell = Some(format);
        }
        self.set_metadata(Key::TraceType, MachineId(0), Metadatum::Text(format));
        self.end_file(file);
    }

    /// The file is over.
    pub(crate) fn end_file(&mut self, file: File<'_>) {
        self.set_uuid_of_bytes(file.head);
        let bytes = i64::try_from(file.bytes).unwrap_or(i64::MAX);
        let name = file.name.map(|name| self.tables.strings.intern(name));
        let table = &mut self.tables.trace_file;
        if let (Some(size), Some(cell)) = (table.size.last_mut(), table.name.last_mut()) {
            (*size, *cell) = (bytes, name);
        }
        self.end_of_file = Some(bytes);
    }
}
