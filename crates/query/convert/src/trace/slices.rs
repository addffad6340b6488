//! Slices, instants and flows, as events of programs in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ferretto_protos::fields::trace_packet::TRACK_EVENT;
use ferretto_protos::fields::{interned_data, track_event as field};
use ferretto_protozero::Message;
use ferretto_trace_tables::{SliceId, Tables, TrackId};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

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

/// The numbers of flows at slices, and whether they end there.
struct Flows {
    /// In the order of slices.
    ends: Vec<(SliceId, u64, bool)>,
}

/// Numbers that are made here begin with this.
const MADE: u64 = 1 << 63;

impl Flows {
    /// A flow that goes from slice to slice keeps its number; of others each part has one of its own.
    fn of(tables: &Tables) -> Self {
        let table = &tables.flow;
        let part = |row: usize| (table.slice_out.at(row), table.slice_in.at(row));
        let mut by_number = HashMap::<i64, Vec<usize>, RandomState>::default();
        let mut single = Vec::new();
        for row in 0..table.len() {
            match table.trace_id.get(row) {
                Some(number) => by_number.entry(number).or_default().push(row),
                None => single.push(row),
            }
        }
        let mut ends = Vec::with_capacity(2 * table.len());
        let mut taken = HashSet::<u64, RandomState>::default();
        for (number, mut rows) in by_number {
            rows.sort_by_key(|row| part(*row).1);
            let number = number.cast_unsigned();
            if !is_chain(rows.iter().map(|row| part(*row))) {
                single.append(&mut rows);
                continue;
            }
            taken.insert(number);
            ends.extend(rows.first().map(|row| (part(*row).0, number, false)));
            let last = rows.len() - 1;
            ends.extend(rows.iter().enumerate().map(|(at, row)| (part(*row).1, number, at == last)));
        }
        single.sort_unstable();
        let numbers = (1..).map(|number| MADE | number).filter(|number| !taken.contains(number));
        for (row, number) in single.into_iter().zip(numbers) {
            let (from, to) = part(row);
            ends.extend([(from, number, false), (to, number, true)]);
        }
        ends.sort_unstable();
        Self { ends }
    }

    fn of_slice(&self, slice: SliceId) -> impl Iterator<Item = (u64, bool)> + '_ {
        let from = self.ends.partition_point(|(its, ..)| *its < slice);
        let rest = self.ends.get(from..).unwrap_or_default();
        rest.iter().take_while(move |(its, ..)| *its == slice).map(|(_, number, ends)| (*number, *ends))
    }
}

/// Whether each part begins where the one before ends.
fn is_chain(parts: impl Iterator<Item = (SliceId, SliceId)>) -> bool {
    let mut last = None;
    for (from, to) in parts {
        if from >= to || last.is_some_and(|last| last != from) {
            return false;
        }
        last = Some(to);
    }
    true
}
