//! Arrows from slice to slice (upstream: flow_tracker.cc).
//!
//! A flow is a number, and the slice that it came by last. Numbers are the whole trace's; those of the old kind are told apart by category and
//! name, too.
//!
//! Memory: some 30 bytes for each flow that has not ended, at most one for each event of the trace.

use ferretto_trace_tables::tables::{FlowRow, Tables};
use ferretto_trace_tables::{SliceId, Str, TrackId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::args::{Arg, ArgLists, ArgValue};
use crate::slices::Out;
use crate::stats::Stat;

/// A flow's number.
pub type FlowId = u64;

/// A flow of the old kind: its number, category and name.
type OldFlow = (u64, Option<Str>, Option<Str>);

/// All flows that were met.
#[derive(Debug, Default)]
pub struct Flows {
    active: HashMap<FlowId, SliceId, RandomState>,
    /// Flows that go to whatever slice begins next on a track.
    pending: HashMap<TrackId, Vec<FlowId>, RandomState>,
    old_ids: HashMap<OldFlow, FlowId, RandomState>,
    /// By their number, which counts up from 0 and may be that of a flow of the new kind, too: so it is upstream.
    old_flows: Vec<OldFlow>,
}

impl Flows {
    /// Whether it has begun and not ended.
    #[must_use]
    pub fn is_active(&self, flow: FlowId) -> bool {
        self.active.contains_key(&flow)
    }

    /// A flow begins at a slice.
    pub fn begin(&mut self, out: &mut Out<'_>, slice: SliceId, flow: FlowId) {
        match self.active.entry(flow) {
            hashbrown::hash_map::Entry::Occupied(_) => out.stats.count(Stat::FlowDuplicateId),
            hashbrown::hash_map::Entry::Vacant(entry) => {
                entry.insert(slice);
            }
        }
    }

    /// It goes on to a slice, and from there.
    pub fn step(&mut self, out: &mut Out<'_>, slice: SliceId, flow: FlowId) {
        let Some(last) = self.active.get_mut(&flow) else {
            return out.stats.count(Stat::FlowStepWithoutStart);
        };
        let from = std::mem::replace(last, slice);
        self.join(out, flow, from, slice);
    }

    /// It goes to a slice, and no further if `close`.
    pub fn end(&mut self, out: &mut Out<'_>, slice: SliceId, flow: FlowId, close: bool) {
        let Some(from) = self.active.get(&flow).copied() else {
            return out.stats.count(Stat::FlowEndWithoutStart);
        };
        if close {
            self.active.remove(&flow);
        }
        self.join(out, flow, from, slice);
    }

    /// It goes to the slice that begins next on a track.
    pub fn end_at_next(&mut self, track: TrackId, flow: FlowId) {
        self.pending.entry(track).or_default().push(flow);
    }

    /// A slice has begun on a track.
    #[inline]
    pub fn on_begin(&mut self, out: &mut Out<'_>, track: TrackId, slice: SliceId) {
        if !self.pending.is_empty() {
            self.close_pending(out, track, slice);
        }
    }

    /// The number of a flow of the old kind.
    pub fn of_old(&mut self, id: u64, category: Option<Str>, name: Option<Str>) -> FlowId {
        *self.old_ids.entry((id, category, name)).or_insert_with(|| {
            self.old_flows.push((id, category, name));
            self.old_flows.len() as u64 - 1
        })
    }

    fn close_pending(&mut self, out: &mut Out<'_>, track: TrackId, slice: SliceId) {
        for flow in self.pending.remove(&track).unwrap_or_default() {
            // One that never began comes from the first slice of the trace: so it is upstream.
            let from = *self.active.entry(flow).or_default();
            self.write(out, flow, from, slice);
        }
    }

    /// An arrow between two slices, from the earlier one.
    fn join(&self, out: &mut Out<'_>, flow: FlowId, last: SliceId, new: SliceId) {
        let ts = |slice: SliceId| out.tables.slice.ts.get(slice.index());
        let (from, to) = if ts(last) > ts(new) { (new, last) } else { (last, new) };
        self.write(out, flow, from, to);
    }

    fn write(&self, out: &mut Out<'_>, flow: FlowId, slice_out: SliceId, slice_in: SliceId) {
        let old = usize::try_from(flow).ok().and_then(|at| self.old_flows.get(at));
        let arg_set_id = old.and_then(|(_, category, name)| {
            let list = said_of_old(out.tables, out.args, *name, *category);
            out.args.write(list, out.tables)
        });
        out.tables.flow.push(FlowRow { slice_out, slice_in, trace_id: Some(flow as i64), arg_set_id });
    }
}

fn said_of_old(
    tables: &mut Tables,
    args: &mut ArgLists,
    name: Option<Str>,
    category: Option<Str>,
) -> crate::args::ArgList {
    let list = [("name", name), ("cat", category)].map(|(key, text)| {
        let key = tables.strings.intern(key);
        Arg { flat_key: key, key, value: ArgValue::of_text(text) }
    });
    args.intern(&list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Stats;
    use ferretto_trace_tables::tables::SliceRow;

    #[test]
    fn an_arrow_goes_from_the_earlier_slice_and_an_ended_flow_may_begin_anew() {
        let (mut tables, mut args, mut stats) = (Tables::default(), ArgLists::default(), Stats::default());
        for ts in [10, 30, 20] {
            tables.slice.push(SliceRow { ts, ..SliceRow::default() });
        }
        let mut out = Out { tables: &mut tables, args: &mut args, stats: &mut stats };
        let mut flows = Flows::default();
        flows.step(&mut out, SliceId(0), 7);
        flows.begin(&mut out, SliceId(0), 7);
        flows.begin(&mut out, SliceId(0), 7);
        flows.step(&mut out, SliceId(1), 7);
        flows.end(&mut out, SliceId(2), 7, true);
        flows.end(&mut out, SliceId(2), 7, true);
        flows.end_at_next(TrackId(4), 9);
        flows.on_begin(&mut out, TrackId(3), SliceId(1));
        flows.on_begin(&mut out, TrackId(4), SliceId(2));
        let rows: Vec<_> =
            tables.flow.slice_out.iter().zip(tables.flow.slice_in.iter()).map(|(a, b)| (a.0, b.0)).collect();
        assert_eq!(rows, [(0, 1), (2, 1), (0, 2)]);
        let counted = [Stat::FlowStepWithoutStart, Stat::FlowDuplicateId, Stat::FlowEndWithoutStart];
        assert_eq!(counted.map(|stat| stats.get(stat, None)), [1, 1, 1]);
    }
}
