//! `to_ftrace(id)`: an event of the kernel as the line that the kernel would print.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewBuilder};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use ferretto_kernel_text::write_event;
use ferretto_trace_tables::Tables;

use crate::functions::conversions::one;
use crate::functions::of_tables::{OfTables, Returns};
use crate::functions::text::ints;

pub(crate) fn all(tables: &Arc<Tables>) -> Vec<OfTables> {
    vec![OfTables::new(tables, "to_ftrace", 1, Returns::Always(&DataType::Utf8View), |tables, args, _| {
        run(tables, args)
    })]
}

/// Of rows of `ftrace_event`; NULL where there is no such row.
fn run(tables: &Tables, args: &[ArrayRef]) -> Result<ArrayRef> {
    let ids = ints(one(args)?)?;
    let mut out = StringViewBuilder::with_capacity(ids.len());
    for id in &ids {
        let row = id.and_then(|id| usize::try_from(id).ok());
        let mut line = String::new();
        let is_there = row.is_some_and(|row| write_event(tables, row, &mut line).unwrap_or(false));
        out.append_option(is_there.then_some(line));
    }
    Ok(Arc::new(out.finish()))
}
