//! Facts about the trace, its machines and its recording: the table `metadata` (upstream: metadata.h, global_metadata_tracker.cc).
//!
//! A fact belongs to all of the trace, to a file, to a machine, or to a machine in a file, and that is its row's `machine_id` and `trace_id`.
//! A single one that is said again is written over; of the others each is a row. Names that the trace makes up are single.

use ferretto_protos::fields::{trace_attributes as attributes, trace_uuid};
use ferretto_protozero::fnv::fnv1a;
use ferretto_trace_tables::tables::MetadataRow;
use ferretto_trace_tables::{MachineId, Str, TraceFileId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::model::Model;
use crate::stats::Stat;
use crate::trace_files::HEAD_BYTES;
use crate::wire;

/// Facts of one trace. Ours: a trace may make up any number of names.
const MAX_ROWS: usize = 1 << 20;
/// The file that a trace without an archive is.
const FILE: TraceFileId = TraceFileId(0);

/// A fact's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadatum {
    /// A number.
    Int(i64),
    /// A text.
    Text(Str),
    /// It was to be said, and nothing was.
    Nothing,
}

/// What a fact belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    File,
    Machine,
    MachineInFile,
}

macro_rules! keys {
    ($($variant:ident, $name:literal, $kind:literal, $scope:ident;)*) => {
        /// A fact that upstream has a name for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Key {
            $($variant,)*
        }

        impl Key {
            /// Its name, `single` or `multi`, and what it belongs to.
            const fn definition(self) -> (&'static str, &'static str, Scope) {
                match self {
                    $(Self::$variant => ($name, $kind, Scope::$scope),)*
                }
            }
        }
    };
}

keys! {
    TraceTimeClockId, "trace_time_clock_id", "single", All;
    AllDataSourceFlushedNs, "all_data_source_flushed_ns", "multi", MachineInFile;
    AllDataSourceStartedNs, "all_data_source_started_ns", "single", MachineInFile;
    FtraceLatestDataStartNs, "ftrace_latest_data_start_ns", "single", MachineInFile;
    SlowStartDataSource, "slow_start_data_source", "multi", MachineInFile;
    TracingDisabledNs, "tracing_disabled_ns", "single", MachineInFile;
    TracingStartedNs, "tracing_started_ns", "single", MachineInFile;
    RangeOfInterestStartUs, "range_of_interest_start_us", "single", File;
    TraceConfigPbtxt, "trace_config_pbtxt", "single", File;
    TraceSizeBytes, "trace_size_bytes", "single", File;
    TraceTrigger, "trace_trigger", "single", File;
    TraceType, "trace_type", "single", File;
    TraceUuid, "trace_uuid", "single", File;
    UniqueSessionName, "unique_session_name", "single", File;
    UiState, "ui_state", "single", File;
    AndroidBuildFingerprint, "android_build_fingerprint", "single", Machine;
    AndroidDeviceManufacturer, "android_device_manufacturer", "single", Machine;
    AndroidGuestSocModel, "android_guest_soc_model", "single", Machine;
    AndroidHardwareRevision, "android_hardware_revision", "single", Machine;
    AndroidIncrementalBuild, "android_incremental_build", "single", Machine;
    AndroidRamModel, "android_ram_model", "single", Machine;
    AndroidSdkVersion, "android_sdk_version", "single", Machine;
    AndroidSerialConsole, "android_serial_console", "single", Machine;
    AndroidSocModel, "android_soc_model", "single", Machine;
    AndroidStorageModel, "android_storage_model", "single", Machine;
    SystemMachine, "system_machine", "single", Machine;
    SystemName, "system_name", "single", Machine;
    SystemRamBytes, "system_ram_bytes", "single", Machine;
    SystemRamGb, "system_ram_gb", "single", Machine;
    SystemRelease, "system_release", "single", Machine;
    SystemVersion, "system_version", "single", Machine;
    TracingServiceVersion, "tracing_service_version", "single", Machine;
    TimezoneOffMins, "timezone_off_mins", "single", Machine;
}

/// Where single facts stand, and whether the trace has said its uuid.
#[derive(Debug, Default)]
pub struct Metadata {
    rows: HashMap<(Str, Option<MachineId>, Option<TraceFileId>), usize, RandomState>,
    pub(crate) has_uuid: bool,
}

/// Which events of programs are left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crop {
    /// Somebody wants it.
    pub(crate) is_wanted: bool,
    /// Those before this time.
    pub(crate) since: Option<i64>,
}

impl Model {
    /// Says a fact. Of a machine's, `machine` says whose.
    pub fn set_metadata(&mut self, key: Key, machine: MachineId, value: Metadatum) {
        let (name, kind, scope) = key.definition();
        let name = self.tables.strings.intern(name);
        let (machine, file) = match scope {
            Scope::All => (None, None),
            Scope::File => (None, Some(FILE)),
            Scope::Machine => (Some(machine), None),
            Scope::MachineInFile => (Some(machine), Some(FILE)),
        };
        self.write_metadata(name, kind, machine, file, value);
    }

    /// Says a fact that is a text.
    pub fn set_text(&mut self, key: Key, machine: MachineId, text: &[u8]) {
        let text = self.tables.strings.intern_bytes(text);
        self.set_metadata(key, machine, Metadatum::Text(text));
    }

    /// Says a fact whose name the trace makes up.
    pub fn set_dynamic_metadata(&mut self, name: &str, machine: MachineId, value: Metadatum) {
        let name = self.tables.strings.intern(name);
        self.write_metadata(name, "single", Some(machine), Some(FILE), value);
    }

    /// Says a fact about an archive, which its manifest has. The last one of a name counts.
    pub fn set_attribute_of_archive(&mut self, key: &str, value: Metadatum) {
        let name = self.tables.strings.intern(&["manifest_attribute.", key].concat());
        self.write_metadata(name, "single", None, None, value);
    }

    /// The text of a single fact of this machine, if it was said.
    #[must_use]
    pub fn metadata_text(&self, key: Key, machine: MachineId) -> Option<&str> {
        let text = *self.tables.metadata.str_value.get(self.metadata_row(key, machine)?)?;
        Some(self.tables.strings.get(text?))
    }

    /// The number of a single fact of this machine, if it was said.
    #[must_use]
    pub fn metadata_int(&self, key: Key, machine: MachineId) -> Option<i64> {
        self.tables.metadata.int_value.get(self.metadata_row(key, machine)?)
    }

    fn metadata_row(&self, key: Key, machine: MachineId) -> Option<usize> {
        let (name, _, scope) = key.definition();
        let name = self.tables.strings.find(name)?;
        let (machine, file) = match scope {
            Scope::All => (None, None),
            Scope::File => (None, Some(FILE)),
            Scope::Machine => (Some(machine), None),
            Scope::MachineInFile => (Some(machine), Some(FILE)),
        };
        self.metadata.rows.get(&(name, machine, file)).copied()
    }

    /// Reads `TraceAttributes`, of a packet or of a config.
    pub fn read_attributes(&mut self, machine: MachineId, message: &[u8]) {
        use attributes::attribute;
        for part in wire::all_bytes(message, attributes::ATTRIBUTE) {
            let key = String::from_utf8_lossy(wire::bytes(part, attribute::KEY).unwrap_or_default());
            let value = match wire::int(part, attribute::LONG_VALUE) {
                Some(value) => Metadatum::Int(value),
                None => match wire::bytes(part, attribute::STRING_VALUE) {
                    Some(text) => Metadatum::Text(self.tables.strings.intern_bytes(text)),
                    None => continue,
                },
            };
            self.set_dynamic_metadata(&["trace_attribute.", &key].concat(), machine, value);
        }
    }

    /// Reads `TracePacket.track_event_range_of_interest`: when what the trace was recorded for begins. Events before it stay, unless
    /// they are not [wanted](crate::Import::crop_track_events).
    pub fn read_range_of_interest(&mut self, machine: MachineId, message: &[u8]) {
        /// `TrackEventRangeOfInterest.start_us`.
        const START_US: u32 = 1;
        match wire::int(message, START_US) {
            Some(start) => {
                self.crop.since = Some(start.saturating_mul(1000)).filter(|_| self.crop.is_wanted);
                self.set_metadata(Key::RangeOfInterestStartUs, machine, Metadatum::Int(start));
            }
            None => self.stats.count(Stat::TrackEventRangeOfInterestMissingStartUs),
        }
    }

    /// Reads `TracePacket.trace_uuid`. It counts before what a config says.
    pub fn read_uuid(&mut self, message: &[u8]) {
        let msb = wire::number(message, trace_uuid::MSB).unwrap_or(0);
        let lsb = wire::number(message, trace_uuid::LSB).unwrap_or(0);
        self.set_uuid(msb, lsb);
    }

    /// The trace says its uuid; 0 is none.
    pub fn set_uuid(&mut self, msb: u64, lsb: u64) {
        if (msb, lsb) != (0, 0) {
            self.set_text(Key::TraceUuid, MachineId(0), uuid_text(msb, lsb).as_bytes());
            self.metadata.has_uuid = true;
        }
    }

    /// A trace that says no uuid has one of its first bytes.
    pub fn set_uuid_of_bytes(&mut self, first_bytes: &[u8]) {
        if self.metadata.has_uuid {
            return;
        }
        let hash = fnv1a(first_bytes.get(..HEAD_BYTES).unwrap_or(first_bytes));
        self.set_text(Key::TraceUuid, MachineId(0), uuid_text(0, hash).as_bytes());
    }

    fn write_metadata(
        &mut self,
        name: Str,
        kind: &'static str,
        machine: Option<MachineId>,
        file: Option<TraceFileId>,
        value: Metadatum,
    ) {
        let (int_value, str_value) = match value {
            Metadatum::Int(value) => (Some(value), None),
            Metadatum::Text(text) => (None, Some(text)),
            Metadatum::Nothing => (None, None),
        };
        let is_single = kind == "single";
        if is_single && let Some(row) = self.metadata.rows.get(&(name, machine, file)) {
            self.tables.metadata.int_value.set(*row, int_value);
            if let Some(cell) = self.tables.metadata.str_value.get_mut(*row) {
                *cell = str_value;
            }
            return;
        }
        let number = self.tables.metadata.len();
        if number >= MAX_ROWS {
            return;
        }
        if is_single {
            self.metadata.rows.insert((name, machine, file), number);
        }
        let key_type = Some(self.tables.strings.intern(kind));
        self.tables.metadata.push(MetadataRow {
            name: Some(name),
            key_type,
            int_value,
            str_value,
            machine_id: machine,
            trace_id: file,
        });
    }
}

/// In hexadecimal with dashes, the most significant byte first.
fn uuid_text(msb: u64, lsb: u64) -> String {
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        msb >> 32,
        msb >> 16 & 0xffff,
        msb & 0xffff,
        lsb >> 48,
        lsb & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::Value;
    use ferretto_trace_tables::table::Table;

    use super::*;

    #[test]
    fn single_facts_are_written_over_and_others_are_rows() {
        let mut model = Model::default();
        let host = MachineId(0);
        model.set_metadata(Key::TracingStartedNs, host, Metadatum::Int(1));
        model.set_metadata(Key::AllDataSourceFlushedNs, host, Metadatum::Int(2));
        model.set_metadata(Key::AllDataSourceFlushedNs, host, Metadatum::Int(3));
        model.set_metadata(Key::TracingStartedNs, host, Metadatum::Int(4));
        model.set_metadata(Key::TracingStartedNs, MachineId(1), Metadatum::Int(5));
        let table = &model.tables.metadata;
        let values: Vec<_> = (0..table.len()).map(|row| table.cell("int_value", row)).collect();
        assert_eq!(values, [4, 2, 3, 5].map(Value::Int));
        assert_eq!((table.cell("machine_id", 3), table.cell("trace_id", 3)), (Value::Int(1), Value::Int(0)));
    }

    #[test]
    fn a_uuid_of_the_trace_counts_before_one_of_its_bytes() {
        let mut model = Model::default();
        model.set_uuid_of_bytes(b"");
        let text = |model: &Model| model.metadata_text(Key::TraceUuid, MachineId(0)).map(str::to_owned);
        assert_eq!(text(&model).as_deref(), Some("00000000-0000-0000-cbf2-9ce484222325"));
        model.set_uuid(0xce2e_0f7e_891e_730c, 0x5bb7_0962_8c6d_cf18);
        model.set_uuid_of_bytes(b"x");
        assert_eq!(text(&model).as_deref(), Some("ce2e0f7e-891e-730c-5bb7-09628c6dcf18"));
        assert_eq!(model.tables.metadata.len(), 1);
    }
}
