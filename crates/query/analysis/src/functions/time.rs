//! When the trace begins and ends, and units of time.

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use ferretto_trace_tables::{Tables, Value};

use crate::functions::conversions::one;
use crate::functions::text::ints;
use crate::functions::{Returns, Simple};

/// Tables whose times are the trace's: their names, and the columns of times and of lengths.
const TIMES: [(&str, &str, &str); 12] = [
    ("ftrace_event", "ts", ""),
    ("sched", "ts", "dur"),
    ("counter", "ts", ""),
    ("slice", "ts", "dur"),
    ("heap_profile_allocation", "ts", ""),
    ("profiler_smaps", "ts", ""),
    ("thread_state", "ts", "dur"),
    ("logs", "ts", ""),
    ("heap_graph_object", "graph_sample_ts", ""),
    ("heap_graph", "ts", ""),
    ("state", "ts", "dur"),
    ("__intrinsic_profiler_sample", "ts", ""),
];

macro_rules! units {
    ($($name:literal, $of_ns:literal;)*) => { vec![ $(
        Simple::of(1, concat!("time_from_", $name), Returns::Int, |args| scaled(args, |value| value.saturating_mul($of_ns))),
        Simple::of(1, concat!("time_to_", $name), Returns::Int, |args| scaled(args, |value| value / $of_ns)),
    )* ] };
}

pub(crate) fn all() -> Vec<Simple> {
    let mut all = vec![Simple::of(1, "to_timecode", Returns::Text, |args| {
        let values = ints(one(args)?)?;
        Ok(Arc::new(values.iter().map(|ns| ns.map(timecode)).collect::<StringViewArray>()))
    })];
    all.extend(units! {
        "ns", 1;
        "us", 1_000;
        "ms", 1_000_000;
        "s", 1_000_000_000;
        "min", 60_000_000_000;
        "hours", 3_600_000_000_000;
        "days", 86_400_000_000_000;
    });
    all
}

/// `HH:MM:SS` and thousandths, millionths and billionths of a second.
fn timecode(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    let (s, below) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let (ms, us, ns) = (below / 1_000_000, below / 1000 % 1000, below % 1000);
    format!("{sign}{:02}:{:02}:{:02} {ms:03} {us:03} {ns:03}", s / 3600, s / 60 % 60, s % 60)
}

fn scaled(args: &[ArrayRef], scale: fn(i64) -> i64) -> Result<ArrayRef> {
    let values = ints(one(args)?)?;
    Ok(Arc::new(values.iter().map(|value| value.map(scale)).collect::<Int64Array>()))
}

/// `trace_start()` and its like.
pub(crate) struct Bound {
    name: &'static str,
    of: fn((i64, i64)) -> i64,
    bounds: Arc<Bounds>,
    signature: Signature,
}

/// When a trace begins and ends; looked for when somebody asks.
pub(crate) struct Bounds {
    tables: Arc<Tables>,
    found: OnceLock<(i64, i64)>,
}

pub(crate) fn bounds(tables: &Arc<Tables>) -> [Bound; 3] {
    let bounds = Arc::new(Bounds { tables: tables.clone(), found: OnceLock::new() });
    let make = |name, of| Bound {
        name,
        of,
        bounds: bounds.clone(),
        signature: Signature::nullary(Volatility::Immutable),
    };
    [
        make("trace_start", |(start, _)| start),
        make("trace_end", |(_, end)| end),
        make("trace_dur", |(start, end)| end.saturating_sub(start)),
    ]
}

/// Start and end; an end is at least a nanosecond later.
fn find(tables: &Tables) -> (i64, i64) {
    let (mut start, mut end) = (i64::MAX, 0);
    for (name, ts, dur) in TIMES {
        let Some(table) = tables.find(name) else { continue };
        let columns = table.columns();
        let column = |name: &str| columns.iter().find(|column| column.name == name);
        let (Some(ts), dur) = (column(ts), column(dur)) else { continue };
        for row in 0..table.len() {
            let Value::Int(ts) = ts.data.get(row) else { continue };
            let dur = match dur.map(|dur| dur.data.get(row)) {
                Some(Value::Int(dur)) => dur.max(0),
                _ => 0,
            };
            start = start.min(ts);
            end = end.max(ts.saturating_add(dur));
        }
    }
    match start {
        i64::MAX => (0, 0),
        start if start == end => (start, end + 1),
        start => (start, end),
    }
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Bound {}

impl std::hash::Hash for Bound {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Bound {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bounds = self.bounds.found.get_or_init(|| find(&self.bounds.tables));
        Ok(ColumnarValue::Scalar(ScalarValue::Int64(Some((self.of)(*bounds)))))
    }
}
