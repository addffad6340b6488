//! Arrows from slice to slice: numbers at the slices that they go through, or, where an arrow has a name of its own, events of the old kind.

use std::ops::RangeFrom;

use ferretto_trace_tables::{SliceId, Str, Tables};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::args::{ArgValue, args_of};

/// The numbers of flows at slices, and whether they end there.
pub(super) struct Flows {
    /// In the order of slices.
    ends: Vec<(SliceId, u64, bool)>,
    /// In the order of slices.
    old: Vec<Old>,
}

/// A flow with a name and a category of its own, at a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Old {
    slice: SliceId,
    pub(super) flow: u64,
    pub(super) phase: Phase,
    pub(super) name: Option<Str>,
    pub(super) category: Option<Str>,
}

/// What becomes of a flow of the old kind at a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Begins,
    GoesOn,
    Ends,
}

impl Phase {
    /// As Chrome calls it.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Begins => 's',
            Self::GoesOn => 't',
            Self::Ends => 'f',
        }
    }
}

/// Numbers that are made here begin with this.
const MADE: u64 = 1 << 63;

impl Flows {
    /// A flow that goes from slice to slice keeps its number; of others each part has one of its own.
    pub(super) fn of(tables: &Tables) -> Self {
        let table = &tables.flow;
        let part = |row: usize| (table.slice_out.at(row), table.slice_in.at(row));
        let mut by_number = HashMap::<i64, Vec<usize>, RandomState>::default();
        let mut single = Vec::new();
        for row in (0..table.len()).filter(|row| OldRow::of(tables, *row).is_none()) {
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
        Self { ends, old: old(tables) }
    }

    pub(super) fn of_slice(&self, slice: SliceId) -> impl Iterator<Item = (u64, bool)> + '_ {
        let from = self.ends.partition_point(|(its, ..)| *its < slice);
        let rest = self.ends.get(from..).unwrap_or_default();
        rest.iter().take_while(move |(its, ..)| *its == slice).map(|(_, number, ends)| (*number, *ends))
    }
}

impl Flows {
    /// Those of the old kind.
    pub(super) fn old_of_slice(&self, slice: SliceId) -> &[Old] {
        let from = self.old.partition_point(|old| old.slice < slice);
        let to = self.old.partition_point(|old| old.slice <= slice);
        self.old.get(from..to).unwrap_or_default()
    }
}

/// A part of a flow of the old kind.
struct OldRow {
    number: Option<i64>,
    from: SliceId,
    to: SliceId,
    name: Option<Str>,
    category: Option<Str>,
}

impl OldRow {
    /// Nothing if it has no arguments but a name and a category, or if an end of it is where such a flow has none: at an instant.
    fn of(tables: &Tables, row: usize) -> Option<Self> {
        let (flows, slices) = (&tables.flow, &tables.slice);
        let set = flows.arg_set_id.get(row)?;
        let (from, to) = (flows.slice_out.at(row), flows.slice_in.at(row));
        let [begin, end] = [from, to].map(|slice| (slices.ts.at(slice.index()), slice));
        let is_instant = |slice: SliceId| slices.dur.at(slice.index()) == 0;
        if begin >= end || from >= to || is_instant(from) || is_instant(to) {
            return None;
        }
        let mut part = Self { number: flows.trace_id.get(row), from, to, name: None, category: None };
        for arg in args_of(tables, set) {
            let text = match arg.value {
                ArgValue::Text(text) => Some(tables.strings.find(text)?),
                ArgValue::Null => None,
                _ => return None,
            };
            match arg.key {
                "name" => part.name = text,
                "cat" => part.category = text,
                _ => return None,
            }
        }
        Some(part)
    }
}

/// How many flows have arguments that no packet says.
pub(super) fn without_words(tables: &Tables) -> usize {
    let has = |row: &usize| tables.flow.arg_set_id.get(*row).is_some();
    (0..tables.flow.len()).filter(has).filter(|row| OldRow::of(tables, *row).is_none()).count()
}

/// Flows of the old kind at slices, in the order of these.
fn old(tables: &Tables) -> Vec<Old> {
    let mut parts: Vec<OldRow> = (0..tables.flow.len()).filter_map(|row| OldRow::of(tables, row)).collect();
    parts.sort_by_key(|part| (part.number, part.name, part.category, part.to, part.from));
    let mut old = Vec::with_capacity(2 * parts.len());
    let mut flows = 0..;
    for parts in parts.chunk_by(|one, other| {
        one.number.is_some()
            && (one.number, one.name, one.category) == (other.number, other.name, other.category)
    }) {
        match is_chain(parts.iter().map(|part| (part.from, part.to))) {
            true => old_chain(parts, &mut flows, &mut old),
            false => parts.chunks(1).for_each(|part| old_chain(part, &mut flows, &mut old)),
        }
    }
    old.sort_unstable();
    old
}

/// One flow through all parts.
fn old_chain(parts: &[OldRow], flows: &mut RangeFrom<u64>, old: &mut Vec<Old>) {
    let Some((first, flow)) = parts.first().zip(flows.next()) else { return };
    let (name, category) = (first.name, first.category);
    old.push(Old { slice: first.from, flow, phase: Phase::Begins, name, category });
    let last = parts.len() - 1;
    old.extend(parts.iter().enumerate().map(|(at, part)| {
        let phase = if at == last { Phase::Ends } else { Phase::GoesOn };
        Old { slice: part.to, flow, phase, name, category }
    }));
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
