//! Batches of few rows become batches of many: whatever comes later takes its time for each batch. A recursive query gives a batch for each
//! step, most often of one row, and a join of two such a batch for each pair.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};

use crate::limits::{Held, Limits};
use crate::memory::Buffers;
use crate::over::{EachNode, Over, Passing};
use crate::table::BATCH_ROWS;

/// Batches of at least so many rows stay as they are.
const ENOUGH_ROWS: usize = BATCH_ROWS / 2;

/// Puts batches together, in their order.
#[derive(Debug)]
pub(crate) struct Gather {
    schema: SchemaRef,
    waiting: Vec<RecordBatch>,
    rows: usize,
    /// So many rows do not wait.
    enough_rows: usize,
    /// What waits has of memory.
    bytes: usize,
    buffers: Buffers,
    /// For what waits only.
    held: Held,
}

impl Gather {
    /// Rows of this schema, that wait in this memory.
    pub(crate) fn new(schema: SchemaRef, held: Held) -> Self {
        let (waiting, buffers) = (Vec::new(), Buffers::default());
        Self { schema, waiting, rows: 0, enough_rows: ENOUGH_ROWS, bytes: 0, buffers, held }
    }

    /// As many rows wait as there were before, and not more, so that who wants few has them soon.
    fn soon(schema: SchemaRef, held: Held) -> Self {
        Self { enough_rows: 1, ..Self::new(schema, held) }
    }

    /// Takes a batch, and gives those that are to wait no longer, the first of them first.
    ///
    /// # Errors
    ///
    /// If there is too little memory, or the query is to end.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<impl Iterator<Item = RecordBatch> + use<>> {
        if batch.num_rows() >= self.enough_rows {
            let before = self.finish()?;
            self.grown(batch.num_rows());
            return Ok(before.into_iter().chain(Some(batch)));
        }
        if batch.num_rows() > 0 {
            let bytes = self.buffers.add(&batch);
            self.held.try_grow(bytes)?;
            self.bytes += bytes;
            self.rows += batch.num_rows();
            self.waiting.push(batch);
        }
        let full = match self.rows >= self.enough_rows {
            true => self.finish()?,
            false => None,
        };
        Ok(full.into_iter().chain(None))
    }

    /// What waits.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordBatch>> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(None);
        }
        self.grown(self.rows);
        self.rows = 0;
        self.buffers = Buffers::default();
        let gathered = concat_batches(&self.schema, &waiting)?;
        drop(waiting);
        self.held.shrink(std::mem::take(&mut self.bytes));
        Ok(Some(gathered))
    }

    fn grown(&mut self, rows: usize) {
        self.enough_rows = self.enough_rows.saturating_add(rows).min(ENOUGH_ROWS);
    }
}

/// Gathers what recursive queries give.
pub(crate) const GATHER_RECURSIVE: EachNode = EachNode {
    name: "gather_recursive",
    change: |plan| match plan.downcast_ref::<RecursiveQueryExec>() {
        Some(_) => Ok(Transformed::yes(Over::plan(Gathered, plan))),
        None => Ok(Transformed::no(plan)),
    },
};

/// The same rows in larger batches.
#[derive(Clone, Debug)]
struct Gathered;

impl Passing for Gathered {
    const NAME: &'static str = "Gathered";

    fn rows(
        &self,
        input: Arc<dyn ExecutionPlan>,
        part: usize,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let limits = context.session_config().get_extension::<Limits>();
        let held = Held::new("rows of a recursive query", context.memory_pool(), limits);
        let gather = Gather::soon(input.schema(), held);
        let state = (input.execute(part, context)?, Some(gather), VecDeque::<RecordBatch>::new());
        let gathered = stream::try_unfold(state, async |(mut rows, mut gather, mut ready)| {
            loop {
                if let Some(batch) = ready.pop_front() {
                    return Ok(Some((batch, (rows, gather, ready))));
                }
                let Some(waiting) = &mut gather else { return Ok(None) };
                match rows.next().await {
                    Some(batch) => ready.extend(waiting.push(batch?)?),
                    None => {
                        ready.extend(waiting.finish()?);
                        gather = None;
                    }
                }
            }
        });
        Ok(gathered.boxed())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray as _;
    use arrow::datatypes::Int64Type;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};

    use super::*;
    use crate::operators::whole::testing::table;

    /// What comes of batches of so many rows, each with its number.
    fn sizes(gather: &mut Gather, rows: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut next = 0..;
        let mut out = Vec::new();
        for rows in rows {
            let numbers: Vec<[i64; 1]> = next.by_ref().take(rows).map(|number| [number]).collect();
            let numbers: Vec<&[i64]> = numbers.iter().map(<[i64; 1]>::as_slice).collect();
            out.extend(gather.push(table(&["n"], &numbers)).unwrap());
        }
        out.extend(gather.finish().unwrap());
        let numbers = out.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values());
        assert!(numbers.copied().eq(0..next.start), "rows are in their order, and all there");
        out.iter().map(RecordBatch::num_rows).collect()
    }

    fn gather(make: fn(SchemaRef, Held) -> Gather, pool: &Arc<dyn MemoryPool>) -> Gather {
        make(table(&["n"], &[]).schema(), Held::new("a test", pool, None))
    }

    #[test]
    fn few_rows_wait_and_many_do_not() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let mut all = gather(Gather::new, &pool);
        assert_eq!(sizes(&mut all, [1; 5000]), [ENOUGH_ROWS, 5000 - ENOUGH_ROWS]);
        assert_eq!(sizes(&mut all, [10, 0, 5000, 8192, 3]), [10, 5000, 8192, 3]);
        let mut soon = gather(Gather::soon, &pool);
        assert_eq!(sizes(&mut soon, [1; 20]), [1, 2, 4, 8, 5]);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn what_waits_is_counted() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10_000));
        let mut all = gather(Gather::new, &pool);
        let error = (0..20).find_map(|at| all.push(table(&["n"], &[[at].as_slice(); 100])).err());
        assert!(error.is_some_and(|error| error.to_string().contains("a test")));
    }
}
