//! `internal_layout(ts, dur) over (order by ts rows between unbounded preceding and current row)`: the first line in which a span has room, if
//! spans are drawn one behind the other.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};

use super::text::ints;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    signature: Signature,
}

impl Layout {
    pub(crate) fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Layout {
    fn name(&self) -> &str {
        "internal_layout"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Lines::default()))
    }
}

/// Lines of the picture, and where the last span of each ends.
#[derive(Debug, Default)]
struct Lines {
    ends: Vec<i64>,
    last: Option<i64>,
}

impl Lines {
    /// The line of a span; one of the duration -1 does not end.
    fn line(&mut self, ts: i64, dur: i64) -> usize {
        let end = if dur == -1 { i64::MAX } else { ts.saturating_add(dur) };
        match self.ends.iter().position(|end| *end <= ts) {
            Some(line) => {
                self.ends.iter_mut().skip(line).take(1).for_each(|it| *it = end);
                line
            }
            None => {
                self.ends.push(end);
                self.ends.len() - 1
            }
        }
    }
}

impl Accumulator for Lines {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let columns = values.iter().map(ints).collect::<Result<Vec<_>>>()?;
        let [ts, dur] = columns.as_slice() else { return Ok(()) };
        for (ts, dur) in ts.iter().zip(dur) {
            self.last = match (ts, dur) {
                (Some(ts), Some(dur)) => i64::try_from(self.line(ts, dur)).ok(),
                _ => None,
            };
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(self.last))
    }

    fn size(&self) -> usize {
        size_of_val(self) + size_of_val(self.ends.as_slice())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        not_impl_err!("internal_layout wants a window")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        not_impl_err!("internal_layout wants a window")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_the_first_line_with_room() {
        let mut lines = Lines::default();
        let spans = [(1, 4), (2, 2), (3, 5), (6, 1), (6, 1), (6, 1), (7, 0), (9, -1), (99, 1)];
        let found: Vec<_> = spans.iter().map(|(ts, dur)| lines.line(*ts, *dur)).collect();
        assert_eq!(found, [0, 1, 2, 0, 1, 3, 0, 0, 1]);
    }
}
