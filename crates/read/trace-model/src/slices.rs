//! What lies within what on a track: one stack of slices each.
//!
//! Everything comes in the order of time. What ended stays on its stack until something later comes, for what begins at the same time
//! may lie within it (upstream: slice_tracker.cc).

use ferretto_trace_tables::tables::{SliceRow, Tables};
use ferretto_trace_tables::{SliceId, Str, TrackId};

use crate::args::{ArgList, ArgLists, RowOf};
use crate::stats::{Stat, Stats};
use crate::translation::Renames;

/// Slices below so many others are left out. Upstream's.
const MAX_DEPTH: usize = 512;
/// The length of a slice that has not ended.
const UNFINISHED: i64 = -1;

/// The stacks of all tracks.
#[derive(Debug, Default)]
pub struct Slices {
    /// By number of track.
    stacks: Vec<Vec<Open>>,
    /// What slices are called here that a trace calls otherwise.
    pub renames: Renames,
}

#[derive(Debug)]
struct Open {
    id: SliceId,
    ts: i64,
    dur: i64,
    category: Option<Str>,
    name: Option<Str>,
    args: ArgList,
}

/// What a slice is called, and what is said of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Label {
    /// Its categories.
    pub category: Option<Str>,
    /// Its name.
    pub name: Option<Str>,
    /// Its arguments.
    pub args: ArgList,
}

/// What slices are written into, and counted in.
#[derive(Debug)]
pub struct Out<'a> {
    /// The rows.
    pub tables: &'a mut Tables,
    /// The arguments.
    pub args: &'a mut ArgLists,
    /// The counters.
    pub stats: &'a mut Stats,
}

impl Slices {
    /// Begins a slice.
    pub fn begin(&mut self, out: &mut Out<'_>, ts: i64, track: TrackId, label: Label) -> Option<SliceId> {
        self.push(out, ts, UNFINISHED, track, label)
    }

    /// A slice whose length is known; 0 is an instant.
    pub fn complete(
        &mut self,
        out: &mut Out<'_>,
        ts: i64,
        dur: i64,
        track: TrackId,
        label: Label,
    ) -> Option<SliceId> {
        if dur < 0 {
            out.stats.count(Stat::SliceNegativeDuration);
            return None;
        }
        self.push(out, ts, dur, track, label)
    }

    /// The slice that one of this length would begin within and end behind, so that it would be left out.
    pub fn overlapped(&mut self, out: &mut Out<'_>, ts: i64, dur: i64, track: TrackId) -> Option<SliceId> {
        let stack = self.stacks.get_mut(track.index())?;
        close_before(stack, out, ts, dur);
        let end = ts.saturating_add(dur);
        let open = stack.last()?;
        (open.dur != UNFINISHED && end > open.ts.saturating_add(open.dur)).then_some(open.id)
    }

    /// Ends the topmost slice that has not ended and is called so; what is not said of `label` is not asked for. A slice without a name has
    /// any, one without a category none. The arguments are added to the slice's.
    pub fn end(&mut self, out: &mut Out<'_>, ts: i64, track: TrackId, label: Label) -> Option<SliceId> {
        let label = self.renamed(label);
        let stack = self.stacks.get_mut(track.index())?;
        if !close(stack, out, ts, UNFINISHED) {
            return None;
        }
        let at = stack.iter().rposition(|open| {
            open.dur == UNFINISHED
                && (label.category.is_none() || open.category == label.category)
                && (label.name.is_none() || open.name.is_none() || open.name == label.name)
        })?;
        let open = stack.get_mut(at)?;
        open.dur = ts.saturating_sub(open.ts);
        out.tables.slice.dur.set(open.id.index(), open.dur);
        open.args = out.args.join(open.args, label.args);
        let id = open.id;
        if at + 1 == stack.len() {
            pop(stack, out);
        }
        Some(id)
    }

    /// Adds to the arguments of the slice that [`end`](Self::end) would end.
    pub fn add_args(&mut self, out: &mut Out<'_>, track: TrackId, label: Label) -> Option<SliceId> {
        let open = self.stacks.get_mut(track.index())?.iter_mut().rev().find(|open| {
            open.dur == UNFINISHED
                && (label.category.is_none() || open.category == label.category)
                && (label.name.is_none() || open.name.is_none() || open.name == label.name)
        })?;
        open.args = out.args.join(open.args, label.args);
        Some(open.id)
    }

    /// The arguments so far of the slice that [`end`](Self::end) would end.
    #[must_use]
    pub fn args_to_end(&self, ts: i64, track: TrackId, label: Label) -> Option<ArgList> {
        let label = self.renamed(label);
        let stack = self.stacks.get(track.index())?;
        let open = stack.iter().rev().find(|open| {
            open.dur == UNFINISHED
                && open.ts <= ts
                && (label.category.is_none() || open.category == label.category)
                && (label.name.is_none() || open.name.is_none() || open.name == label.name)
        });
        open.map(|open| open.args)
    }

    /// What is said of the slice that has just begun on a track.
    pub fn set_args(&mut self, track: TrackId, args: ArgList) {
        if let Some(open) = self.stacks.get_mut(track.index()).and_then(|stack| stack.last_mut()) {
            open.args = args;
        }
    }

    /// The topmost slice of a track that has not ended.
    #[must_use]
    pub fn top(&self, track: TrackId) -> Option<SliceId> {
        self.stacks.get(track.index())?.last().map(|open| open.id)
    }

    /// The trace is over: what has not ended has no end.
    pub fn finish(&mut self, out: &mut Out<'_>) {
        for stack in &mut self.stacks {
            while !stack.is_empty() {
                pop(stack, out);
            }
        }
        for (slice, args) in std::mem::take(&mut out.args.later) {
            let set = out.args.write(args, out.tables);
            out.tables.slice.arg_set_id.set(slice.index(), set);
        }
    }

    #[inline]
    fn renamed(&self, label: Label) -> Label {
        match label.name {
            Some(name) if !self.renames.is_empty() => {
                Label { name: Some(self.renames.get(&name).copied().unwrap_or(name)), ..label }
            }
            _ => label,
        }
    }

    fn stack(&mut self, track: TrackId) -> Option<&mut Vec<Open>> {
        if self.stacks.len() <= track.index() {
            self.stacks.resize_with(track.index() + 1, Vec::new);
        }
        self.stacks.get_mut(track.index())
    }

    fn push(
        &mut self,
        out: &mut Out<'_>,
        ts: i64,
        dur: i64,
        track: TrackId,
        label: Label,
    ) -> Option<SliceId> {
        let label = self.renamed(label);
        let stack = self.stack(track)?;
        if !close(stack, out, ts, dur) {
            return None;
        }
        if stack.len() >= MAX_DEPTH {
            out.stats.count(Stat::SliceMaxDepthExceeded);
            return None;
        }
        let row = SliceRow {
            ts,
            dur,
            track_id: track,
            category: label.category,
            name: label.name,
            depth: u32::try_from(stack.len()).unwrap_or(0),
            parent_id: stack.last().map(|parent| parent.id),
            ..SliceRow::default()
        };
        let id = SliceId(out.tables.slice.push(row));
        stack.push(Open { id, ts, dur, category: label.category, name: label.name, args: label.args });
        Some(id)
    }
}

/// Takes from a stack what has ended before `ts`, where something of the length `new_dur` begins or ends. False if that cannot lie within
/// what is left.
fn close(stack: &mut Vec<Open>, out: &mut Out<'_>, ts: i64, new_dur: i64) -> bool {
    let fits = close_before(stack, out, ts, new_dur);
    if !fits {
        out.stats.count(Stat::SliceDropOverlappingCompleteEvent);
    }
    fits
}

/// The same, uncounted.
fn close_before(stack: &mut Vec<Open>, out: &mut Out<'_>, ts: i64, new_dur: i64) -> bool {
    let mut has_unfinished = false;
    for at in (0..stack.len()).rev() {
        let Some(open) = stack.get(at) else { continue };
        if open.dur == UNFINISHED {
            has_unfinished = true;
            continue;
        }
        let end = open.ts.saturating_add(open.dur);
        if has_unfinished {
            if ts > end {
                cut(stack, out, at, end);
                has_unfinished = false;
            }
            continue;
        }
        // What begins where another ends is after it, but instants of one time lie within each other.
        let both_are_instants = new_dur == 0 && open.dur == 0;
        if end < ts || (end == ts && !both_are_instants) {
            pop(stack, out);
            continue;
        }
        if new_dur != UNFINISHED && ts < end && ts.saturating_add(new_dur) > end {
            return false;
        }
    }
    true
}

/// Ends all that lies within the slice at a place of the stack where that ends, and takes all of it away.
#[cold]
fn cut(stack: &mut Vec<Open>, out: &mut Out<'_>, at: usize, end: i64) {
    out.stats.count(Stat::MisplacedEndEvent);
    while stack.len() > at + 1 {
        if let Some(inner) = stack.last() {
            out.tables.slice.dur.set(inner.id.index(), end.saturating_sub(inner.ts));
        }
        pop(stack, out);
    }
    pop(stack, out);
}

fn pop(stack: &mut Vec<Open>, out: &mut Out<'_>) {
    let Some(open) = stack.pop() else { return };
    if out.args.is_to_translate(open.args) {
        out.args.later.push((open.id, open.args));
        return;
    }
    out.args.write_for(RowOf::Slice(open.id), open.args, out.tables);
}
