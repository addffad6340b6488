//! Slices, instants and flows, as events of programs in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ferretto_protos::fields::trace_packet::TRACK_EVENT;
use ferretto_protos::fields::track_event::legacy_event;
use ferretto_protos::fields::{interned_data, track_event as field};
use ferretto_protozero::Message;
use ferretto_trace_tables::{SliceId, Tables, TrackId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::flows::{Flows, Old};
use super::kept::Kept;
use super::sequence::Sequence;
use super::{annotations, number, tracks};
use crate::Error;
use crate::packets::Sink;

/// `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;

pub(super) fn write(tables: &Tables, kept: Kept, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut events = Events {
        tables,
        kept,
        sequence: Sequence::new(number::EVENTS),
        sink,
        flows: Flows::of(tables),
        open: HashMap::default(),
        ends: BinaryHeap::new(),
        event: Vec::new(),
    };
    let slices = &tables.slice;
    let mut rows: Vec<u32> = (0..slices.len() as u32).collect();
    rows.sort_by_key(|row| (slices.ts.at(*row as usize), *row));
    for row in rows {
        events.end_before(slices.ts.at(row as usize))?;
        events.begin(row)?;
    }
    events.end_before(i64::MAX)
}

struct Events<'a> {
    tables: &'a Tables,
    kept: Kept,
    sequence: Sequence,
    sink: &'a mut dyn Sink,
    flows: Flows,
    /// What has not ended, by track, the innermost last.
    open: HashMap<TrackId, Vec<u32>, RandomState>,
    /// When they end, the earliest first, and of those that end at once the innermost.
    ends: BinaryHeap<Reverse<(i64, Reverse<u32>, u32)>>,
    event: Vec<u8>,
}

impl Events<'_> {
    fn end_before(&mut self, ts: i64) -> Result<(), Error> {
        while let Some(Reverse((end, _, row))) =
            self.ends.peek().copied().filter(|Reverse((end, ..))| *end < ts)
        {
            self.ends.pop();
            let track = self.tables.slice.track_id.at(row as usize);
            if self.open.get(&track).and_then(|open| open.last()) == Some(&row) {
                self.end(row, track, end)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, row: u32) -> Result<(), Error> {
        let slices = &self.tables.slice;
        let at = row as usize;
        let (ts, dur, track) = (slices.ts.at(at), slices.dur.at(at), slices.track_id.at(at));
        self.end_all_but_parents(row, track)?;
        let kind = if dur == 0 { INSTANT } else { SLICE_BEGIN };
        self.event.clear();
        let mut event = Message::new(&mut self.event);
        event.varint(field::TYPE, kind);
        event.varint(field::TRACK_UUID, tracks::uuid(self.tables, track));
        let strings = &self.tables.strings;
        if let Some(category) = slices.category.at(at) {
            let iid = self.sequence.text(interned_data::EVENT_CATEGORIES, category, strings);
            event.varint(field::CATEGORY_IIDS, iid);
        }
        if let Some(name) = slices.name.at(at) {
            event.varint(field::NAME_IID, self.sequence.text(interned_data::EVENT_NAMES, name, strings));
        }
        for (flow, ends) in self.flows.of_slice(SliceId(row)) {
            event.fixed64(if ends { field::TERMINATING_FLOW_IDS } else { field::FLOW_IDS }, flow);
        }
        if let Some(set) = slices.arg_set_id.get(at) {
            annotations::write(self.tables, set, self.kept, &mut self.sequence, &mut event);
        }
        write_thread_time(&mut event, slices.thread_ts.get(at), slices.thread_instruction_count.get(at));
        drop(event);
        self.sequence.put(Some(ts), TRACK_EVENT, &self.event, self.sink)?;
        if dur != 0 {
            self.open.entry(track).or_default().push(row);
        }
        if dur > 0 {
            self.ends.push(Reverse((ts.saturating_add(dur), Reverse(slices.depth.at(at)), row)));
        }
        self.old_flows(SliceId(row), track, ts)
    }

    /// Flows of the old kind are events of their own, at the slice that has just begun.
    fn old_flows(&mut self, slice: SliceId, track: TrackId, ts: i64) -> Result<(), Error> {
        let strings = &self.tables.strings;
        for Old { flow, phase, name, category, .. } in self.flows.old_of_slice(slice) {
            self.event.clear();
            let mut event = Message::new(&mut self.event);
            event.varint(field::TRACK_UUID, tracks::uuid(self.tables, track));
            if let Some(category) = *category {
                let iid = self.sequence.text(interned_data::EVENT_CATEGORIES, category, strings);
                event.varint(field::CATEGORY_IIDS, iid);
            }
            if let Some(name) = *name {
                let iid = self.sequence.text(interned_data::EVENT_NAMES, name, strings);
                event.varint(field::NAME_IID, iid);
            }
            let mut old = event.nested(field::LEGACY_EVENT);
            old.varint(legacy_event::PHASE, u32::from(phase.letter()).into());
            old.varint(legacy_event::UNSCOPED_ID, *flow);
            old.bool(legacy_event::BIND_TO_ENCLOSING, true);
            drop(old);
            drop(event);
            self.sequence.put(Some(ts), TRACK_EVENT, &self.event, self.sink)?;
        }
        Ok(())
    }

    /// What ends when a slice begins, and does not hold it.
    fn end_all_but_parents(&mut self, row: u32, track: TrackId) -> Result<(), Error> {
        let slices = &self.tables.slice;
        let parent = slices.parent_id.get(row as usize).map(|parent| parent.0);
        while let Some(top) = self.open.get(&track).and_then(|open| open.last()).copied() {
            let (ts, dur) = (slices.ts.at(top as usize), slices.dur.at(top as usize));
            if Some(top) == parent || dur < 0 {
                break;
            }
            self.end(top, track, ts.saturating_add(dur))?;
        }
        Ok(())
    }

    fn end(&mut self, row: u32, track: TrackId, ts: i64) -> Result<(), Error> {
        if let Some(open) = self.open.get_mut(&track) {
            open.pop();
        }
        let slices = &self.tables.slice;
        let at = row as usize;
        let sum = |begin: Option<i64>, more: Option<i64>| Some(begin?.saturating_add(more?));
        self.event.clear();
        let mut event = Message::new(&mut self.event);
        event.varint(field::TYPE, SLICE_END);
        event.varint(field::TRACK_UUID, tracks::uuid(self.tables, track));
        write_thread_time(
            &mut event,
            sum(slices.thread_ts.get(at), slices.thread_dur.get(at)),
            sum(slices.thread_instruction_count.get(at), slices.thread_instruction_delta.get(at)),
        );
        drop(event);
        self.sequence.put(Some(ts), TRACK_EVENT, &self.event, self.sink)
    }
}

fn write_thread_time(event: &mut Message<'_, Vec<u8>>, ns: Option<i64>, instructions: Option<i64>) {
    if let Some(ns) = ns {
        event.int(field::THREAD_TIME_ABSOLUTE_US, ns / 1000);
    }
    if let Some(count) = instructions {
        event.int(field::THREAD_INSTRUCTION_COUNT_ABSOLUTE, count);
    }
}
