//! What clocks showed.

use std::collections::BTreeMap;

use ferretto_protos::fields::clock_snapshot::{CLOCKS, PRIMARY_TRACE_CLOCK, clock};
use ferretto_protos::fields::trace_packet::CLOCK_SNAPSHOT;
use ferretto_protozero::Message;
use ferretto_trace_tables::Tables;

use super::number;
use super::sequence::{BOOTTIME, Sequence};
use crate::Error;
use crate::packets::Sink;

/// `MONOTONIC_COARSE`: what heap profilers go by, without another choice.
const MONOTONIC_COARSE: u64 = 4;
/// Clocks of one sequence, which mean nothing on another (upstream: builtin_clock.proto).
const OF_SEQUENCES: std::ops::Range<i64> = 64..128;

/// Each snapshot with the trace's own clock, which is `BOOTTIME` here whatever it was.
pub(super) fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    let table = &tables.clock_snapshot;
    let mut snapshots = BTreeMap::<u32, Vec<usize>>::new();
    for row in 0..table.len() {
        let id = table.clock_id.at(row);
        let is_own = table.machine_id.get(row).is_none_or(|machine| machine.0 == 0);
        if is_own && id != BOOTTIME as i64 && !OF_SEQUENCES.contains(&id) {
            snapshots.entry(table.snapshot_id.at(row)).or_default().push(row);
        }
    }
    let mut sequence = Sequence::new(number::CLOCKS);
    let mut bytes = Vec::new();
    if needs_monotonic_coarse(tables) {
        write_snapshot(&mut bytes, [(BOOTTIME, 0), (MONOTONIC_COARSE, 0)].into_iter());
        sequence.put(Some(0), CLOCK_SNAPSHOT, &bytes, sink)?;
    }
    for rows in snapshots.values() {
        let ts = rows.first().map_or(0, |row| table.ts.at(*row));
        let clocks =
            rows.iter().map(|row| (table.clock_id.at(*row).cast_unsigned(), table.clock_value.at(*row)));
        write_snapshot(&mut bytes, std::iter::once((BOOTTIME, ts)).chain(clocks));
        sequence.put(Some(ts), CLOCK_SNAPSHOT, &bytes, sink)?;
    }
    Ok(())
}

fn write_snapshot(bytes: &mut Vec<u8>, clocks: impl Iterator<Item = (u64, i64)>) {
    bytes.clear();
    let mut snapshot = Message::new(bytes);
    for (id, value) in clocks {
        let mut message = snapshot.nested(CLOCKS);
        message.varint(clock::CLOCK_ID, id);
        message.varint(clock::TIMESTAMP, value.cast_unsigned());
    }
    snapshot.varint(PRIMARY_TRACE_CLOCK, BOOTTIME);
}

/// Whether something goes by that clock, and nothing says what it showed.
fn needs_monotonic_coarse(tables: &Tables) -> bool {
    !tables.heap_profile.is_empty() && readings(tables).next().is_none()
}

/// What the clock of heap profilers showed, and when.
fn readings(tables: &Tables) -> impl Iterator<Item = (i64, i64)> + '_ {
    let table = &tables.clock_snapshot;
    let is_it = |row: &usize| {
        let is_own = table.machine_id.get(*row).is_none_or(|machine| machine.0 == 0);
        is_own && table.clock_id.at(*row) == MONOTONIC_COARSE as i64
    };
    (0..table.len()).filter(is_it).map(|row| (table.ts.at(row), table.clock_value.at(row)))
}

/// What the clock of heap profilers showed at a time of the trace: by its last reading before, or else its first.
pub(super) fn monotonic_coarse(tables: &Tables, ts: i64) -> i64 {
    let mut reading = None;
    for (at, value) in readings(tables) {
        if reading.is_none() || at <= ts {
            reading = Some((at, value));
        }
    }
    reading.map_or(ts, |(at, value)| ts.saturating_sub(at).saturating_add(value))
}
