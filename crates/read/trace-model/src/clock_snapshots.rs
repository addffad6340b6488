//! Snapshots of clocks out of packets, and their rows (upstream: proto_trace_reader.cc, clock_tracker.cc).
//!
//! Each snapshot that counts has a row for each of its clocks whose time on the trace's clock can be told. A machine other than the first
//! whose clock nothing relates to the trace's gets a relation when its first time is converted: by `REALTIME`, if both have it, or else its
//! `BOOTTIME` is taken for the first machine's.

use ferretto_trace_tables::MachineId;
use ferretto_trace_tables::tables::ClockSnapshotRow;

use crate::args::ArgValue;
use crate::clocks::{BOOTTIME, Clock, Machine, REALTIME, Reading, Snapshot, TRACE_FILE, Unknown};
use crate::import_logs::Where;
use crate::metadata::{Key, Metadatum};
use crate::model::Model;
use crate::stats::Stat;

/// How the times of a file of another format lie to the trace's, if the archive that it is in says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTimes {
    /// The clock that its times are of, once they are moved; that of the trace if it is none.
    pub clock: Option<Clock>,
    /// What that clock shows when the file's shows 0.
    pub ahead_ns: i64,
}

impl Model {
    /// Reads `TracePacket.clock_snapshot`, when it arrives.
    pub fn read_clock_snapshot(&mut self, machine: MachineId, sequence_id: u32, message: &[u8]) {
        if self.file_times.is_some() {
            self.machines.set_wrong("its packets have several clocks, and clocks names none of them");
        }
        let Snapshot { readings, trace_clock } = Snapshot::read(message, sequence_id, Machine(machine.0));
        if readings.iter().any(|reading| reading.clock.lacks_sequence()) {
            return self.stats.count(Stat::InvalidClockSnapshots);
        }
        if let Some(clock) = trace_clock.filter(|clock| self.clocks.set_trace_clock(*clock)) {
            self.set_metadata(Key::TraceTimeClockId, machine, Metadatum::Int(i64::from(clock.id)));
        }
        self.add_snapshot(&readings);
    }

    /// Adds a snapshot, and its rows.
    pub fn add_snapshot(&mut self, readings: &[Reading]) {
        let Ok(snapshot_id) = self.clocks.add_snapshot(readings) else {
            return self.stats.count(Stat::InvalidClockSnapshots);
        };
        let trace_clock = self.clocks.trace_clock();
        let shown = readings.iter().find(|reading| reading.clock == trace_clock).map(|reading| reading.value);
        for reading in readings {
            // What says differences has just been told where it stands.
            let value = if reading.is_incremental { 0 } else { reading.value };
            let ts = self.clocks.convert(reading.clock, value, trace_clock).ok().or(shown);
            let Some(ts) = ts else { continue };
            let clock_name = name_of(reading.clock.id).map(|name| self.tables.strings.intern(name));
            self.tables.clock_snapshot.push(ClockSnapshotRow {
                ts,
                clock_id: i64::from(reading.clock.id),
                clock_name,
                clock_value: reading.value.wrapping_mul(reading.unit_multiplier_ns),
                snapshot_id,
                machine_id: Some(MachineId(reading.clock.machine.0)),
            });
        }
    }

    /// The trace's time of a clock's.
    ///
    /// # Errors
    ///
    /// If nothing leads from that clock to the trace's.
    #[inline]
    pub fn to_trace_time(&mut self, clock: Clock, value: i64) -> Result<i64, Unknown> {
        if clock.machine != self.clocks.trace_clock().machine {
            self.relate(MachineId(clock.machine.0));
        }
        self.clocks.to_trace_time(clock, value)
    }

    /// The trace's time of what a file of another format says by a clock of the machine that recorded. Where nothing relates that clock to the
    /// trace's, as in a file by itself, its times are those of the trace.
    #[inline]
    pub fn time_of_file(&mut self, clock_id: u32, value: i64) -> i64 {
        let (clock, value) = match self.file_times {
            Some(times) => (times.clock, value.saturating_add(times.ahead_ns)),
            // Nobody else has that clock.
            None if clock_id == TRACE_FILE => (None, value),
            None => (Some(Clock::of_machine(clock_id, Machine(self.file_machine.0))), value),
        };
        clock.map_or(value, |clock| self.to_trace_time(clock, value).unwrap_or(value))
    }

    /// Counts and logs that a time could not be converted.
    pub fn log_unknown(&mut self, unknown: Unknown, clock: Clock, value: i64, place: Option<Where>) {
        let stat = match unknown {
            Unknown::Clock => Stat::ClockSyncFailureUnknownSourceClock,
            Unknown::TraceClock => Stat::ClockSyncFailureUnknownTargetClock,
            Unknown::Way => Stat::ClockSyncFailureNoPath,
        };
        let sequence = ArgValue::Uint(u64::from(clock.sequence_id()));
        let args = [
            ("source_sequence_id", sequence),
            ("source_clock_id", ArgValue::Int(i64::from(clock.id))),
            ("source_timestamp", ArgValue::Int(value)),
            ("target_clock_id", ArgValue::Int(i64::from(self.clocks.trace_clock().id))),
        ];
        let has_sequence = clock.sequence_id() != 0;
        self.log(stat, place, args.get(usize::from(!has_sequence)..).unwrap_or_default());
    }

    /// Sees to it once that a machine's clock is related to the trace's.
    fn relate(&mut self, machine: MachineId) {
        if self.related.get(machine.index()).copied().unwrap_or(false) {
            return;
        }
        if self.related.len() <= machine.index() {
            self.related.resize(machine.index() + 1, false);
        }
        if let Some(is_related) = self.related.get_mut(machine.index()) {
            *is_related = true;
        }
        let trace_clock = self.clocks.trace_clock();
        let machine = Machine(machine.0);
        let boot = Clock::of_machine(BOOTTIME, machine);
        if self.clocks.convert(boot, 0, trace_clock).is_ok() {
            return;
        }
        let theirs = Clock::of_machine(REALTIME, machine);
        let ours = Clock::of_machine(REALTIME, trace_clock.machine);
        if self.clocks.convert(boot, 0, theirs).is_ok() && self.clocks.convert(ours, 0, trace_clock).is_ok() {
            if self.clocks.convert(theirs, 0, ours).is_err() {
                self.add_snapshot(&[Reading::new(theirs, 0), Reading::new(ours, 0)]);
            }
        } else if trace_clock.id == BOOTTIME || trace_clock.id == TRACE_FILE {
            self.add_snapshot(&[Reading::new(boot, 0), Reading::new(trace_clock, 0)]);
        } else {
            let args = [
                ("source_clock_id", ArgValue::Int(i64::from(BOOTTIME))),
                ("target_clock_id", ArgValue::Int(i64::from(trace_clock.id))),
            ];
            self.log(Stat::ClockSyncUnrelatableClockDomains, None, &args);
        }
    }
}

/// Of builtin_clock.proto, those of Linux.
fn name_of(clock_id: u32) -> Option<&'static str> {
    Some(match clock_id {
        1 => "REALTIME",
        2 => "REALTIME_COARSE",
        3 => "MONOTONIC",
        4 => "MONOTONIC_COARSE",
        5 => "MONOTONIC_RAW",
        6 => "BOOTTIME",
        _ => return None,
    })
}
