//! Samples of call stacks, whoever took them.

use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{CallsiteId, Utid};

/// A stack that a thread was seen in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) ts: i64,
    pub(crate) utid: Utid,
    pub(crate) callsite: Option<CallsiteId>,
}

/// All of them whose thread is known, in their order.
pub(crate) fn samples(tables: &Tables) -> impl Iterator<Item = Sample> {
    let samples = &tables.profiler_sample;
    (0..samples.len()).filter_map(|row| {
        let context = samples.task_context_id.get(row)?;
        let utid = tables.profiler_task_context.utid.get(context.index())?;
        Some(Sample { ts: samples.ts.at(row), utid, callsite: samples.callsite_id.get(row) })
    })
}
