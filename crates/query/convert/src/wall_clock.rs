//! The trace's time as that of the wall.

use ferretto_trace_tables::tables::Tables;

/// `REALTIME` of builtin_clock.proto.
const REALTIME: i64 = 1;

/// What a clock on the wall showed at times of the trace.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    /// The trace's time, and the wall's in nanoseconds since 1970; in order.
    readings: Vec<(i64, i64)>,
}

impl WallClock {
    pub(crate) fn of(tables: &Tables) -> Self {
        let snapshots = &tables.clock_snapshot;
        let mut readings: Vec<(i64, i64)> = (0..snapshots.len())
            .filter(|row| {
                snapshots.clock_id.at(*row) == REALTIME
                    && snapshots.machine_id.get(*row).is_none_or(|id| id.0 == 0)
            })
            .map(|row| (snapshots.ts.at(row), snapshots.clock_value.at(row)))
            .collect();
        readings.sort_unstable();
        Self { readings }
    }

    /// Whether the trace has told it.
    pub(crate) fn is_known(&self) -> bool {
        !self.readings.is_empty()
    }

    /// The wall's time by the latest reading before; without any the trace's own.
    pub(crate) fn at(&self, ts: i64) -> i64 {
        let after = self.readings.partition_point(|(trace, _)| *trace <= ts);
        match self.readings.get(after.saturating_sub(1)) {
            Some((trace, wall)) => wall.saturating_add(ts.saturating_sub(*trace)),
            None => ts,
        }
    }
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::tables::ClockSnapshotRow;

    use super::*;

    #[test]
    fn the_latest_reading_counts() {
        let mut tables = Tables::default();
        assert_eq!((WallClock::of(&tables).is_known(), WallClock::of(&tables).at(7)), (false, 7));
        for (ts, clock_id, clock_value) in [(100, 1, 1_000_000), (100, 3, 5), (200, 1, 1_000_150)] {
            tables.clock_snapshot.push(ClockSnapshotRow {
                ts,
                clock_id,
                clock_value,
                ..ClockSnapshotRow::default()
            });
        }
        let clock = WallClock::of(&tables);
        for (ts, wall) in [(90, 999_990), (150, 1_000_050), (200, 1_000_150), (300, 1_000_250)] {
            assert_eq!(clock.at(ts), wall);
        }
    }
}
