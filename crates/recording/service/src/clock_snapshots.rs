//! Readings of all clocks, by which a trace processor brings timestamps of different clocks together.

use ferretto_protos::{BuiltinClock, ClockSnapshot, clock_snapshot};

use crate::limits;
use crate::now::{ClockReadings, Now};
use crate::session::{Session, State};

impl Session {
    /// The periodic tick: clocks are read, and the next read-back ends with a marker to resynchronise on and with stats.
    pub(crate) fn snapshot_tick(&mut self, now: &Now) {
        self.sync_marker_armed = true;
        self.stats_armed = true;
        self.snapshot_clocks(now);
        if self.state == State::Started {
            let builtin = &self.config.builtin;
            self.timers.snapshot = Some(match builtin.snapshots_count_suspend {
                true => now.next_multiple_ms_with_suspend(builtin.snapshot_interval_ms),
                false => now.next_multiple_ms(builtin.snapshot_interval_ms),
            });
        }
    }

    /// Keeps the readings if they say something new. An old snapshot serves more of the trace than a new one, so it is not replaced by
    /// one that says the same (upstream: `MaybeSnapshotClocksIntoRingBuffer`).
    pub(crate) fn snapshot_clocks(&mut self, now: &Now) {
        if !self.config.builtin.clock_snapshots {
            return;
        }
        let ring = &mut self.clocks.ring;
        if ring.back().is_some_and(|last| !has_drifted(last, &now.clocks)) {
            return;
        }
        if ring.len() >= limits::MAX_CLOCK_SNAPSHOTS {
            ring.pop_front();
        }
        ring.push_back(now.clocks);
    }
}

/// Has any clock gone faster or slower than the boot clock, or been set?
fn has_drifted(old: &ClockReadings, new: &ClockReadings) -> bool {
    let boot = i128::from(new.boottime) - i128::from(old.boottime);
    let pairs = [
        (old.realtime_coarse, new.realtime_coarse),
        (old.monotonic_coarse, new.monotonic_coarse),
        (old.realtime, new.realtime),
        (old.monotonic, new.monotonic),
        (old.monotonic_raw, new.monotonic_raw),
    ];
    let significant = limits::SIGNIFICANT_DRIFT.as_nanos();
    pairs.iter().any(|(old, new)| (i128::from(*new) - i128::from(*old) - boot).unsigned_abs() > significant)
}

/// The clocks in upstream's order, boot clock first.
pub(crate) fn encode(readings: &ClockReadings, primary_clock: i32) -> ClockSnapshot {
    let mut clocks = vec![
        (BuiltinClock::Boottime, readings.boottime),
        (BuiltinClock::RealtimeCoarse, readings.realtime_coarse),
        (BuiltinClock::MonotonicCoarse, readings.monotonic_coarse),
        (BuiltinClock::Realtime, readings.realtime),
        (BuiltinClock::Monotonic, readings.monotonic),
        (BuiltinClock::MonotonicRaw, readings.monotonic_raw),
    ];
    clocks.extend(readings.tsc.map(|tsc| (BuiltinClock::Tsc, tsc)));
    let clock = |(clock, timestamp): (BuiltinClock, u64)| clock_snapshot::Clock {
        clock_id: Some(clock as u32),
        timestamp: Some(timestamp),
        ..Default::default()
    };
    ClockSnapshot {
        clocks: clocks.into_iter().map(clock).collect(),
        primary_trace_clock: Some(primary_clock),
    }
}
