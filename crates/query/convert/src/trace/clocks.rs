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
    for rows in snapshots.values() {
        bytes.clear();
        let mut snapshot = Message::new(&mut bytes);
        let ts = rows.first().map_or(0, |row| table.ts.at(*row));
        let clocks =
            rows.iter().map(|row| (table.clock_id.at(*row).cast_unsigned(), table.clock_value.at(*row)));
        for (id, value) in std::iter::once((BOOTTIME, ts)).chain(clocks) {
            let mut message = snapshot.nested(CLOCKS);
            message.varint(clock::CLOCK_ID, id);
            message.varint(clock::TIMESTAMP, value.cast_unsigned());
        }
        snapshot.varint(PRIMARY_TRACE_CLOCK, BOOTTIME);
        drop(snapshot);
        sequence.put(Some(ts), CLOCK_SNAPSHOT, &bytes, sink)?;
    }
    Ok(())
}
