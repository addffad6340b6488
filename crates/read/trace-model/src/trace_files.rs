//! The file that a trace is: the table `trace_file`, and what metadata say of it (upstream: trace_file_tracker.cc).

use ferretto_trace_tables::tables::TraceFileRow;
use ferretto_trace_tables::{MachineId, TraceFileId};

use crate::clock_snapshots::FileTimes;
use crate::flows::Flows;
use crate::metadata::{Key, Metadatum};
use crate::model::Model;
use crate::track_sets::TrackSets;
use crate::tracks::Tracks;

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

/// A file that a trace is made of, among others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed<'a> {
    /// The file that it was in.
    pub parent: Option<TraceFileId>,
    /// Its name there, if it has one.
    pub name: Option<&'a str>,
    /// Its size there.
    pub bytes: u64,
    /// Its format, by upstream's word.
    pub format: &'a str,
    /// As the how manyth it was read; nothing if it was not.
    pub processing_order: Option<i64>,
    /// Whether it holds other files.
    pub is_container: bool,
}

impl Model {
    /// The trace is several files, of which this is the one that holds all others: it is listed first.
    pub fn begin_archive(&mut self, format: &str) {
        self.begin_file();
        self.set_trace_type(format);
        if let Some(cell) = self.tables.trace_file.is_container.first_mut() {
            *cell = true;
        }
    }

    /// Another file of an archive.
    pub fn list_file(&mut self, file: Listed<'_>) -> TraceFileId {
        let row = TraceFileRow {
            parent_id: file.parent,
            name: file.name.map(|name| self.tables.strings.intern(name)),
            size: i64::try_from(file.bytes).unwrap_or(i64::MAX),
            trace_type: Some(self.tables.strings.intern(file.format)),
            processing_order: file.processing_order,
            is_container: file.is_container,
        };
        TraceFileId(self.tables.trace_file.push(row))
    }

    /// Rows that come are of this file. Tracks are a file's own, but for those of Perfetto's own traces: what another file of the archive
    /// has on a thread would overlap with it (upstream: a context for each file). `times` are what the archive says of the file's clock.
    pub(crate) fn begin_file_of_archive(&mut self, file: TraceFileId, times: Option<FileTimes>) {
        self.file = file;
        self.file_times = times;
        self.stats.set_machine(self.file_machine);
        self.tracks = Tracks::default();
        self.track_sets = TrackSets::default();
        self.old_async_names.clear();
        self.flows = Flows::default();
    }

    /// A file begins, if it is the first.
    pub(crate) fn begin_file(&mut self) {
        if !self.tables.trace_file.is_empty() {
            return;
        }
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
        self.begin_file();
        self.set_trace_type(format);
        self.end_file(file);
    }

    fn set_trace_type(&mut self, format: &str) {
        let format = self.tables.strings.intern(format);
        if let Some(cell) = self.tables.trace_file.trace_type.first_mut() {
            *cell = Some(format);
        }
        self.set_metadata(Key::TraceType, MachineId(0), Metadatum::Text(format));
    }

    /// The file is over.
    pub(crate) fn end_file(&mut self, file: File<'_>) {
        self.set_uuid_of_bytes(file.head);
        let bytes = i64::try_from(file.bytes).unwrap_or(i64::MAX);
        let name = file.name.map(|name| self.tables.strings.intern(name));
        let table = &mut self.tables.trace_file;
        if let (Some(size), Some(cell)) = (table.size.first_mut(), table.name.first_mut()) {
            (*size, *cell) = (bytes, name);
        }
        self.end_of_file = Some(bytes);
    }
}
