//! Spans made of times at which they begin and times at which they end: `_interval_create!`.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::Result;

use crate::limits::Held;
use crate::operators::keys::boxed;
use crate::operators::whole::{Operator, input, int_column, int_field};

/// The operator: of two tables with `ts`, a span from each of the first to the next one of the second that is later, if there is one.
#[derive(Debug)]
pub(crate) struct Pairs;

impl Operator for Pairs {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok(vec![int_field("ts"), int_field("dur")])
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let sorted = |at: usize| {
            let mut times: Vec<i64> = int_column(input(inputs, at)?, "ts")?.iter().flatten().collect();
            held.try_grow(2 * times.len() * size_of::<i64>())?;
            times.sort_unstable();
            Ok::<_, datafusion::error::DataFusionError>(times)
        };
        let (starts, ends) = (sorted(0)?, sorted(1)?);
        let mut ends = ends.into_iter().peekable();
        let mut found = Vec::new();
        for start in starts {
            while ends.next_if(|end| *end <= start).is_some() {}
            let Some(end) = ends.peek() else { break };
            found.push((start, end.saturating_sub(start)));
        }
        Ok(vec![
            boxed(found.iter().map(|(ts, _)| Some(*ts)).collect::<Int64Array>()),
            boxed(found.iter().map(|(_, dur)| Some(*dur)).collect::<Int64Array>()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::whole::testing::{rows, table};

    #[test]
    fn a_span_ends_at_the_next_later_end() {
        let (starts, ends) = (table(&["ts"], &[&[30], &[10], &[20], &[90]]), table(&["ts"], &[&[20], &[45]]));
        assert_eq!(rows(&Pairs, &[starts, ends]), [[10, 10], [20, 25], [30, 15]].map(|row| row.map(Some)));
    }
}
