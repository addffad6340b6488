//! The parts of a plan one behind the other, while those behind are being made.
//!
//! Parts are begun in their order, as many at once as there may be, and their rows are given in that order: so what comes of them is the same
//! whatever the number of threads. A part that is done waits with its last rows; one that has more waits for its turn.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::common::{Result, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _, Partitioning, PlanProperties};
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::fleet::pass::Pass;
use crate::over::{Over, Passing};

/// Batches of a part that wait to be taken: what a group gives of a trace most often is one.
const BATCHES: usize = 4;
/// Parts that are done, or wait, behind the one whose turn it is: a large trace holds up this many small ones.
const PARTS: usize = 64;

/// Puts it wherever parts become one. It comes before [`crate::in_order::KeepOrder`], and leaves that nothing of this kind.
#[derive(Debug)]
pub(crate) struct RunAhead;

impl PhysicalOptimizerRule for RunAhead {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            Ok(match plan.downcast_ref::<CoalescePartitionsExec>() {
                Some(parts) => Transformed::yes(Ahead::over(parts.input().clone(), parts.fetch())),
                None => Transformed::no(plan),
            })
        });
        let plan = plan.data()?;
        Ok(match plan.output_partitioning().partition_count() {
            1 => plan,
            _ => Ahead::over(plan, None),
        })
    }

    fn name(&self) -> &str {
        "run_ahead"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What is done with the parts of a plan.
#[derive(Clone, Debug)]
struct Ahead {
    /// Rows that are wanted, if not all are.
    fetch: Option<usize>,
}

impl Ahead {
    fn over(input: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Arc<dyn ExecutionPlan> {
        Over::plan(Self { fetch }, input)
    }
}

impl Passing for Ahead {
    const NAME: &'static str = "Ahead";

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            input.boundedness(),
        ))
    }

    fn rows(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _: usize,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let (to, parts) = mpsc::channel(PARTS);
        let mut driver = JoinSet::new();
        driver.spawn(begin(input, context, to));
        let taken = Taken { parts, part: None, left: self.fetch.unwrap_or(usize::MAX), _driver: driver };
        let batches = stream::unfold(Some(taken), |taken| async {
            let mut taken = taken?;
            match taken.next().await {
                Ok(Some(batch)) => Some((Ok(batch), Some(taken))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(batches.boxed())
    }
}

/// What comes of a part; nothing when that was all.
type Message = Result<Option<RecordBatch>>;

/// Begins parts, in their order, when there is room for one more. If this is dropped, so are all.
async fn begin(
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    to: mpsc::Sender<mpsc::Receiver<Message>>,
) {
    let threads = Pass::of(&context).map_or(1, |pass| pass.threads());
    let room = Arc::new(Semaphore::new(threads));
    let mut tasks = JoinSet::new();
    for part in 0..input.output_partitioning().partition_count() {
        // The one whose turn it is has room always: all that came before it are done, or in its way to be taken.
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        while tasks.try_join_next().is_some() {}
        let (batches, come) = mpsc::channel(BATCHES);
        if to.send(come).await.is_err() {
            return;
        }
        tasks.spawn(make(input.clone(), part, context.clone(), batches, permit));
    }
    drop(to);
    while tasks.join_next().await.is_some() {}
}

/// Makes the rows of a part. Who does not take them wants no more.
async fn make(
    input: Arc<dyn ExecutionPlan>,
    part: usize,
    context: Arc<TaskContext>,
    to: mpsc::Sender<Message>,
    _permit: OwnedSemaphorePermit,
) {
    match input.execute(part, context) {
        Err(error) => _ = to.send(Err(error)).await,
        Ok(mut batches) => {
            while let Some(batch) = batches.next().await {
                if to.send(batch.map(Some)).await.is_err() {
                    return;
                }
            }
            // A trace's tables are gone before the next one is read.
            drop(batches);
            _ = to.send(Ok(None)).await;
        }
    }
}

/// What is taken of the parts.
struct Taken {
    parts: mpsc::Receiver<mpsc::Receiver<Message>>,
    part: Option<mpsc::Receiver<Message>>,
    left: usize,
    _driver: JoinSet<()>,
}

impl Taken {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.left > 0 {
            if self.part.is_none() {
                self.part = self.parts.recv().await;
            }
            let Some(part) = &mut self.part else { break };
            match part.recv().await {
                Some(Ok(Some(batch))) => {
                    let batch = if batch.num_rows() > self.left { batch.slice(0, self.left) } else { batch };
                    self.left -= batch.num_rows();
                    return Ok(Some(batch));
                }
                Some(Ok(None)) => self.part = None,
                Some(Err(error)) => return Err(error),
                None => return exec_err!("what was asked of a trace broke off"),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, AsArray as _, Int64Array};
    use arrow::datatypes::Int64Type;
    use datafusion::datasource::memory::MemorySourceConfig;

    fn parts(count: i64) -> Arc<dyn ExecutionPlan> {
        let batch = |value| {
            let array: ArrayRef = Arc::new(Int64Array::from(vec![value; 3]));
            RecordBatch::try_from_iter([("a", array)]).unwrap()
        };
        let parts: Vec<_> = (0..count).map(|part| vec![batch(part); 10]).collect();
        MemorySourceConfig::try_new_exec(&parts, batch(0).schema(), None).unwrap()
    }

    fn values(fetch: Option<usize>) -> Vec<i64> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let mut batches = Ahead::over(parts(100), fetch).execute(0, Arc::default()).unwrap();
            let mut values = Vec::new();
            while let Some(batch) = batches.next().await {
                values.extend_from_slice(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
            }
            values
        })
    }

    #[test]
    fn rows_come_in_the_order_of_the_parts() {
        let expected: Vec<i64> = (0..100).flat_map(|part| [part; 30]).collect();
        assert_eq!(values(None), expected);
        assert_eq!(values(Some(100)), expected[..100]);
        assert!(values(Some(0)).is_empty());
    }
}
