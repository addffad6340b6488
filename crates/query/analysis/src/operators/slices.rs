//! Pairs of slices and what lies above them, for functions that are asked of many slices at once: `ancestor_slice`, `descendant_slice`.

use std::collections::HashMap;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::{Result, exec_err};

use crate::limits::Held;
use crate::operators::keys::boxed;
use crate::operators::whole::{Operator, input, int_column, int_field};

/// Rows by which memory is asked for.
const STEP: usize = 1 << 16;
/// Parents of parents: a chain that has more goes round.
const MAX_DEPTH: usize = 1 << 20;

/// The operator: of `id` and `parent_id`, `id` and `ancestor_id` for each that lies above it, the nearest first.
#[derive(Debug)]
pub(crate) struct Ancestors;

impl Operator for Ancestors {
    fn fields(&self, _: &[SchemaRef]) -> Result<Vec<Field>> {
        Ok(["id", "ancestor_id"].map(int_field).into())
    }

    fn run(&self, inputs: &[RecordBatch], held: &Held) -> Result<Vec<ArrayRef>> {
        let batch = input(inputs, 0)?;
        held.try_grow(batch.num_rows() * 32)?;
        let (id, parent) = (int_column(batch, "id")?, int_column(batch, "parent_id")?);
        let parents: HashMap<i64, i64> =
            id.iter().zip(&parent).filter_map(|(id, parent)| Some((id?, parent?))).collect();
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for start in id.iter().flatten() {
            let mut next = parents.get(&start);
            let before = from.len();
            while let Some(above) = next {
                from.push(start);
                to.push(*above);
                if from.len() % STEP == 0 {
                    held.try_grow(STEP * 2 * size_of::<[i64; 2]>())?;
                }
                if from.len() - before > MAX_DEPTH {
                    return exec_err!("what lies above {start} lies below it, too");
                }
                next = parents.get(above);
            }
        }
        Ok(vec![boxed(Int64Array::from(from)), boxed(Int64Array::from(to))])
    }
}
