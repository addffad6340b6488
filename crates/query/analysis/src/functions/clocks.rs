//! `to_realtime(ts)` and its like: times of the trace on other clocks (upstream: clock_converter.cc).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewBuilder};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use ferretto_trace_tables::{Tables, Value};

use crate::functions::conversions::one;
use crate::functions::of_tables::{OfTables, Returns, cell};
use crate::functions::text::ints;

/// Clocks by the numbers of builtin_clock.proto.
const REALTIME: i64 = 1;
const MONOTONIC: i64 = 3;
const NS_PER_S: i64 = 1_000_000_000;
const S_PER_DAY: i64 = 86_400;

pub(crate) fn all(tables: &Arc<Tables>) -> Vec<OfTables> {
    let (int, text) = (Returns::Always(&DataType::Int64), Returns::Always(&DataType::Utf8View));
    vec![
        OfTables::new(tables, "to_realtime", 1, int, |tables, args, _| on_clock(tables, args, REALTIME)),
        OfTables::new(tables, "to_monotonic", 1, int, |tables, args, _| on_clock(tables, args, MONOTONIC)),
        OfTables::new(tables, "abs_time_str", 1, text, |tables, args, _| dates(tables, args)),
    ]
}

fn on_clock(tables: &Tables, args: &[ArrayRef], clock: i64) -> Result<ArrayRef> {
    let (times, snapshots) = (ints(one(args)?)?, Snapshots::of(tables, clock));
    Ok(Arc::new(times.iter().map(|ts| snapshots.at(ts?)).collect::<Int64Array>()))
}

fn dates(tables: &Tables, args: &[ArrayRef]) -> Result<ArrayRef> {
    let (times, snapshots) = (ints(one(args)?)?, Snapshots::of(tables, REALTIME));
    let mut out = StringViewBuilder::with_capacity(times.len());
    times.iter().for_each(|ts| out.append_option(ts.and_then(|ts| snapshots.at(ts)).map(date)));
    Ok(Arc::new(out.finish()))
}

/// What a clock showed at times of the trace.
struct Snapshots(BTreeMap<i64, i64>);

impl Snapshots {
    fn of(tables: &Tables, clock: i64) -> Self {
        let table = &tables.clock_snapshot;
        let mut all = BTreeMap::new();
        for row in (0..table.len()).filter(|row| cell(table, "clock_id", *row) == Value::Int(clock)) {
            if let (Value::Int(ts), Value::Int(value)) =
                (cell(table, "ts", row), cell(table, "clock_value", row))
            {
                all.entry(ts).or_insert(value);
            }
        }
        Self(all)
    }

    /// What it shows at a time: the clock goes on from the snapshot before, but not past the one that follows.
    fn at(&self, ts: i64) -> Option<i64> {
        let next = self.0.range(ts..).next();
        match (next, self.0.range(..ts).next_back()) {
            (Some((at, value)), _) if *at == ts => Some(*value),
            (None, Some((at, value))) => Some(value.saturating_add(ts.saturating_sub(*at))),
            (Some((_, next)), Some((at, value))) => {
                Some(value.saturating_add(ts.saturating_sub(*at)).min(*next))
            }
            (next, None) => next.map(|(_, value)| *value),
        }
    }
}

/// A time of the clock on the wall, in UTC.
fn date(ns: i64) -> String {
    let (s, ns) = (ns.div_euclid(NS_PER_S), ns.rem_euclid(NS_PER_S));
    let (days, s) = (s.div_euclid(S_PER_DAY), s.rem_euclid(S_PER_DAY));
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ns:09}", s / 3600, s / 60 % 60, s % 60)
}

/// The date of a day since 1970 (days_from_civil backwards: years begin in March, so that the day that is added is the last).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_on_from_the_snapshot_before() {
        let snapshots = Snapshots(BTreeMap::from([(100, 1000), (200, 1050)]));
        let at = |ts| snapshots.at(ts).unwrap();
        assert_eq!((at(50), at(100), at(140), at(190), at(300)), (1000, 1000, 1040, 1050, 1150));
        assert_eq!(Snapshots(BTreeMap::new()).at(1), None);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00.000000000");
        assert_eq!(date(1_709_210_096_000_000_001), "2024-02-29T12:34:56.000000001");
        assert_eq!(date(-1), "1969-12-31T23:59:59.999999999");
    }
}
