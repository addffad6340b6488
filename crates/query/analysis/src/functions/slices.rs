//! `slice_is_ancestor(a, b)`: whether a slice lies above another one.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use ferretto_trace_tables::{Table as _, Tables, Value};

use super::invoke;
use super::text::ints;

/// The function, on a trace's slices.
#[derive(Clone, Debug)]
pub(crate) struct IsAncestor {
    tables: Arc<Tables>,
    signature: Signature,
}

impl IsAncestor {
    pub(crate) fn new(tables: Arc<Tables>) -> Self {
        Self { tables, signature: Signature::any(2, Volatility::Stable) }
    }

    fn is_ancestor(&self, above: i64, below: i64) -> Option<bool> {
        let columns = self.tables.slice.columns();
        let row = |id: i64| usize::try_from(id).ok().filter(|row| *row < self.tables.slice.len());
        let (above, below) = (row(above)?, row(below)?);
        let cell =
            |name: &str, row: usize| match columns.iter().find(|column| column.name == name)?.data.get(row) {
                Value::Int(value) => Some(value),
                _ => None,
            };
        let both = |name| Some((cell(name, above)?, cell(name, below)?));
        let ((track, other), (depth, deeper)) = (both("track_id")?, both("depth")?);
        let ((ts, later), (dur, shorter)) = (both("ts")?, both("dur")?);
        let covers = dur == -1 || ts.saturating_add(dur) >= later.saturating_add(shorter);
        Some(track == other && depth < deeper && ts <= later && covers)
    }
}

impl PartialEq for IsAncestor {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tables, &other.tables)
    }
}

impl Eq for IsAncestor {}

impl Hash for IsAncestor {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.tables).hash(state);
    }
}

impl ScalarUDFImpl for IsAncestor {
    fn name(&self) -> &str {
        "slice_is_ancestor"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&args, |args| {
            let ids = args.iter().map(ints).collect::<Result<Vec<_>>>()?;
            let pairs = ids.first().into_iter().flatten().zip(ids.get(1).into_iter().flatten());
            let found = pairs.map(|(above, below)| self.is_ancestor(above?, below?));
            Ok(Arc::new(found.collect::<BooleanArray>()) as ArrayRef)
        })
    }
}
