//! Other columns of frames that become one.

use std::collections::HashSet;

use arrow::array::{Array as _, ArrayRef, Float64Array, Int64Array, StringViewArray, new_null_array};
use datafusion::common::{DataFusionError, Result, exec_err};

use super::config::Aggregate;
use super::halves::Halves;
use super::paths::Paths;
use crate::functions::text::{ints, reals, texts};
use crate::operators::keys::boxed;

/// The column of all nodes.
pub(crate) fn made(
    aggregate: Aggregate,
    array: &ArrayRef,
    paths: &Paths,
    halves: &Halves,
) -> Result<ArrayRef> {
    let rows = rows(paths, halves);
    match (aggregate, array.data_type()) {
        (_, it) if it.is_null() => Ok(new_null_array(it, halves.len())),
        (Aggregate::Sum, it) if it.is_floating() => {
            let values = reals(array)?;
            let sum = |rows: &Vec<usize>| {
                rows.iter()
                    .filter(|row| !values.is_null(**row))
                    .map(|row| values.value(*row))
                    .reduce(|a, b| a + b)
            };
            Ok(boxed(rows.iter().map(sum).collect::<Float64Array>()))
        }
        (Aggregate::Sum, it) if it.is_integer() => {
            let values = ints(array)?;
            let sum = |rows: &Vec<usize>| {
                let mut values =
                    rows.iter().filter(|row| !values.is_null(**row)).map(|row| values.value(*row));
                let Some(first) = values.next() else { return Ok(None) };
                let sum = values.try_fold(first, i64::checked_add);
                let overflow =
                    || DataFusionError::Execution("flamegraph: integer aggregate overflow".to_owned());
                sum.ok_or_else(overflow).map(Some)
            };
            Ok(boxed(rows.iter().map(sum).collect::<Result<Int64Array>>()?))
        }
        (Aggregate::Sum, _) => exec_err!("flamegraph: SUM aggregate columns must be numeric"),
        (kind, _) => {
            let texts = texts(array)?;
            let text = |rows: &Vec<usize>| {
                let of = rows.iter().filter(|row| !texts.is_null(**row)).map(|row| texts.value(*row));
                if kind == Aggregate::Concat { concat(of) } else { one_or_summary(of) }
            };
            Ok(boxed(rows.iter().map(text).collect::<StringViewArray>()))
        }
    }
}

/// Rows of all frames of each node, those that were left out below them included.
fn rows(paths: &Paths, halves: &Halves) -> Vec<Vec<usize>> {
    let mut of_frame: Vec<Vec<usize>> = vec![Vec::new(); paths.len()];
    for row in (0..paths.len()).filter(|row| !paths.is_hidden(*row)) {
        let frame = paths.kept_of(row).and_then(|frame| of_frame.get_mut(frame));
        frame.into_iter().for_each(|rows| rows.push(row));
    }
    let first = halves.down.parents.len();
    let down = halves.node.iter().enumerate();
    let down = down.filter(|(frame, _)| paths.is_kept(*frame) && paths.counts(*frame));
    let down = down.filter_map(|(frame, node)| Some((frame, (*node)?)));
    let up = halves.parts.iter().map(|(frame, node)| (*frame, node + first));
    let mut of_node: Vec<Vec<usize>> = vec![Vec::new(); halves.len()];
    for (frame, node) in down.chain(up) {
        if let (Some(rows), Some(node)) = (of_frame.get(frame), of_node.get_mut(node)) {
            node.extend_from_slice(rows);
        }
    }
    of_node
}

fn concat<'t>(texts: impl Iterator<Item = &'t str>) -> Option<String> {
    let all = texts.collect::<Vec<_>>().join(",");
    Some(all).filter(|all| !all.is_empty())
}

fn one_or_summary<'t>(mut texts: impl Iterator<Item = &'t str>) -> Option<String> {
    let first = texts.next()?;
    let others: HashSet<&str> = texts.chain([first]).collect();
    Some(match others.len() {
        1 => first.to_owned(),
        count => format!("{first} and {count} others"),
    })
}
