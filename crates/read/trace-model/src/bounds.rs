//! From when to when a trace is (upstream: storage_tables.cc).

use ferretto_trace_tables::Tables;

/// The first and the last time that any event, value, slice, state, line or sample has; a slice or state with an end counts to its end.
/// (0, 0) if there is nothing, and never empty otherwise.
#[must_use]
pub fn trace_bounds(tables: &Tables) -> (i64, i64) {
    let mut bounds = Bounds { start: i64::MAX, end: 0 };
    for times in [
        &tables.ftrace_event.ts,
        &tables.counter.ts,
        &tables.logs.ts,
        &tables.heap_profile_allocation.ts,
        &tables.profiler_sample.ts,
    ] {
        times.iter().for_each(|ts| bounds.take(ts, 0));
    }
    tables.profiler_smaps.ts.iter().for_each(|ts| bounds.take(*ts, 0));
    for (times, durations) in [
        (&tables.slice.ts, &tables.slice.dur),
        (&tables.sched.ts, &tables.sched.dur),
        (&tables.thread_state.ts, &tables.thread_state.dur),
        (&tables.state.ts, &tables.state.dur),
    ] {
        times.iter().zip(durations.iter()).for_each(|(ts, dur)| bounds.take(ts, dur));
    }
    match bounds {
        Bounds { start: i64::MAX, .. } => (0, 0),
        Bounds { start, end } if start == end => (start, end.saturating_add(1)),
        Bounds { start, end } => (start, end),
    }
}

/// When a trace begins: the function `trace_start()` of SQL.
#[must_use]
pub fn trace_start(tables: &Tables) -> i64 {
    trace_bounds(tables).0
}

/// When a trace ends: the function `trace_end()` of SQL.
#[must_use]
pub fn trace_end(tables: &Tables) -> i64 {
    trace_bounds(tables).1
}

struct Bounds {
    start: i64,
    end: i64,
}

impl Bounds {
    fn take(&mut self, ts: i64, dur: i64) {
        self.start = self.start.min(ts);
        self.end = self.end.max(ts.saturating_add(dur.max(0)));
    }
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::tables::{CounterRow, SliceRow};

    use super::*;

    #[test]
    fn bounds_reach_to_the_end_of_what_has_one() {
        let mut tables = Tables::default();
        assert_eq!(trace_bounds(&tables), (0, 0));
        tables.counter.push(CounterRow { ts: 50, ..CounterRow::default() });
        assert_eq!(trace_bounds(&tables), (50, 51));
        tables.slice.push(SliceRow { ts: 60, dur: 40, ..SliceRow::default() });
        tables.slice.push(SliceRow { ts: 70, dur: -1, ..SliceRow::default() });
        assert_eq!((trace_start(&tables), trace_end(&tables)), (50, 100));
    }
}
