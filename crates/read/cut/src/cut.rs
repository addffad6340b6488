//! One range of one trace.

use std::io::{self, Write};

use ferretto_protos::fields::trace_attributes::{ATTRIBUTE, attribute};
use ferretto_protos::fields::trace_packet;
use ferretto_protozero::Message;
use ferretto_trace_read::End;
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::event::TrackEvent;
use crate::filter::Filter;
use crate::index::{Index, edge_of, event_of, place};
use crate::kind::Kind;
use crate::links::{Links, Touched};
use crate::look::{First, GRAIN, Grain, Look};
use crate::passes::{parts_of, pass, pass_over};
use crate::plan::{Need, Plan};
use crate::range::{Moment, Range};
use crate::source::Source;
use crate::tracks::{Disordered, Edge, MAX_RECORDS, TrackKey, Tracks, needs};
use crate::walk::{Seen, Walk};
use crate::write::Writer;

/// Why there is no cut.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trace cannot be read.
    #[error("cannot read the trace")]
    Read(#[source] io::Error),
    /// The cut cannot be written.
    #[error("cannot write the cut")]
    Write(#[source] io::Error),
    /// There is no packet in it.
    #[error("it is no trace: no packet begins at offset {offset}")]
    NotATrace {
        /// In bytes.
        offset: u64,
    },
    /// Nothing in it has a time.
    #[error("nothing in the trace has a time")]
    NoTimes,
    /// No program has recorded a slice of this name.
    #[error("no program has recorded a slice named '{name}'")]
    NoSlice {
        /// The name.
        name: String,
    },
    /// No process has this name.
    #[error("no process in the trace is named '{name}'")]
    NoProcess {
        /// The name.
        name: String,
    },
    /// The range ends before it begins.
    #[error("the range ends at {to}, before it begins at {from}, in nanoseconds of the trace's clock")]
    Backwards {
        /// Its begin.
        from: i64,
        /// Its end.
        to: i64,
    },
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The trace's first event and its last, in nanoseconds of its clock.
    pub span: (i64, i64),
    /// What was kept.
    pub range: Range,
    /// What was met on the way to the end of the trace.
    pub read: End,
    /// Packets that cannot be read, or are of more sequences than are followed.
    pub left_out: u64,
    /// How often a bound was met, so that something from outside of the range may be missing.
    pub beyond: u64,
    /// Packets of the cut.
    pub packets: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// What to cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The first moment; without one, the trace's begin.
    pub from: Option<Moment>,
    /// The first moment after it; without one, the trace's end.
    pub to: Option<Moment>,
    /// Instead of both.
    pub around: Option<Around>,
    /// Of programs' events and samples only those of the processes of this name.
    pub process: Option<String>,
    /// Of programs' events only those of this category.
    pub category: Option<String>,
}

/// As long as a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Around {
    /// The slice's name: the first one in the file counts.
    pub name: String,
    /// How much before and after it.
    pub margin_ns: i64,
}

/// Pieces that are made in one pass. Ours: each needs memory of its own.
const PIECES_AT_ONCE: usize = 8;
/// Pieces of one trace. Ours: a folder of more is of no use.
const MAX_PIECES: usize = 10_000;
/// Passes over a file that put events in order. Ours: there are events on tracks of several threads for so many million; further ones are not
/// followed, which is counted.
const MAX_PASSES: u64 = 64;
/// Written at once.
const OUT_BYTES: usize = 1 << 18;

/// Cuts a part out of a trace, and writes it; `name` is the trace's, for the note.
///
/// # Errors
///
/// If it cannot be read or written, or is no trace. What is wrong within is told by [`Report::read`].
pub fn cut<S: Source + ?Sized>(
    source: &S,
    name: &str,
    options: &Options,
    out: impl Write,
) -> Result<Report, Error> {
    cut_by(source, name, options, out, GRAIN)
}

fn cut_by<S: Source + ?Sized>(
    source: &S,
    name: &str,
    options: &Options,
    out: impl Write,
    grain: Grain,
) -> Result<Report, Error> {
    let (mut first, look) = First::with_look(source, options, grain)?;
    let ranges = [first.range(options)?];
    let look = look.map_or_else(|| first.look(source, &ranges, grain), Ok)?;
    let reports = first.write(source, name, options, look, &ranges, vec![out])?;
    reports.into_iter().next().ok_or(Error::NoTimes)
}

/// Cuts a trace, or a part of it, into pieces of about so many bytes, one after the other in time; `open` gives each its file by its number
/// from 0 on.
///
/// # Errors
///
/// As [`cut`], and what `open` says.
pub fn split<S: Source + ?Sized, W: Write>(
    source: &S,
    name: &str,
    options: &Options,
    bytes: u64,
    mut open: impl FnMut(usize) -> io::Result<W>,
) -> Result<Vec<Report>, Error> {
    let mut first = First::of(source, options, true)?;
    let ranges = first.sizes.ranges(first.range(options)?, bytes, MAX_PIECES);
    let mut reports = Vec::new();
    for ranges in ranges.chunks(PIECES_AT_ONCE) {
        let outs = (0..ranges.len()).map(|number| open(reports.len() + number));
        let outs = outs.collect::<io::Result<Vec<W>>>().map_err(Error::Write)?;
        let look = first.look(source, ranges, GRAIN)?;
        reports.extend(first.write(source, name, options, look, ranges, outs)?);
    }
    Ok(reports)
}

impl First {
    /// Further passes that look, where they are needed, and the one that writes.
    fn write<S: Source + ?Sized, W: Write>(
        &mut self,
        source: &S,
        name: &str,
        options: &Options,
        look: Look,
        ranges: &[Range],
        outs: Vec<W>,
    ) -> Result<Vec<Report>, Error> {
        let Look { mut indexes, mut blocks } = look;
        let mut walk = std::mem::take(&mut self.walk);
        let left_out = walk.left_out;
        walk = settle_doubts(source, walk, &mut indexes)?;
        let mut writers = Vec::new();
        for (index, out) in indexes.into_iter().zip(outs) {
            let (mut plan, tracks, mut touched) = index.finish();
            walk = put_in_order(source, walk, &mut plan, &tracks, &mut touched)?;
            let links = Links::new(plan.range, touched, &tracks);
            drop(tracks);
            if let Some(mut links) = links {
                (walk, _) = pass(source, walk.again(), |walk, seen| {
                    links.take(walk, seen);
                    Ok(())
                })?;
                links.finish(&mut plan);
            }
            blocks.need(&plan);
            let filter = Filter::new(self.pids.clone(), options.category.as_deref());
            writers.push(Writer::new(plan, filter, io::BufWriter::with_capacity(OUT_BYTES, out)));
        }
        if options.category.is_some() {
            // Which slices are open, and of which category, all events say.
            blocks.want_all();
        }
        let walk = pass_over(source, walk.again(), &blocks, |walk, seen| {
            writers.iter_mut().try_for_each(|writer| writer.take(walk, seen))
        })?;
        let mut reports = Vec::new();
        for (writer, range) in writers.into_iter().zip(ranges) {
            let beyond = writer.beyond();
            let (packets, bytes) = writer.finish(&note(name, self.span, *range)).map_err(Error::Write)?;
            reports.push(Report {
                span: self.span,
                range: *range,
                read: self.read.clone(),
                left_out,
                beyond,
                packets,
                bytes,
            });
        }
        self.walk = walk;
        Ok(reports)
    }
}

/// Tells what threads need of which the first pass cannot tell it.
fn settle_doubts<S: Source + ?Sized>(
    source: &S,
    mut walk: Walk,
    indexes: &mut [Index],
) -> Result<Walk, Error> {
    let mut doubts: Vec<_> = indexes.iter_mut().map(Index::doubts).collect();
    if doubts.iter().all(Option::is_none) {
        return Ok(walk);
    }
    (walk, _) = pass(source, walk.again(), |walk, seen| {
        if let Some(parts) = parts_of(seen) {
            for doubts in doubts.iter_mut().flatten() {
                doubts.take(walk, seen, &parts);
            }
        }
        Ok(())
    })?;
    for (index, doubts) in indexes.iter_mut().zip(doubts) {
        if let Some(doubts) = doubts {
            index.settle(doubts);
        }
    }
    Ok(walk)
}

/// Tells what disordered tracks need, in as many passes as their events are many.
fn put_in_order<S: Source + ?Sized>(
    source: &S,
    mut walk: Walk,
    plan: &mut Plan,
    tracks: &Tracks,
    touched: &mut Touched,
) -> Result<Walk, Error> {
    let (mut keys, events) = tracks.disordered();
    keys.sort_unstable();
    let passes = events.div_ceil(MAX_RECORDS).clamp(1, MAX_PASSES);
    let share = keys.len().div_ceil(passes as usize).max(1);
    let range = tracks.range();
    for keys in keys.chunks(share) {
        let keys: HashSet<TrackKey, RandomState> = keys.iter().copied().collect();
        let mut disordered = Disordered::default();
        (walk, _) = pass(source, walk.again(), |walk, seen| {
            if let Some((event, key, edge)) = edge(walk, seen).filter(|(_, key, _)| keys.contains(key)) {
                if edge.is_begin && event.has_flows {
                    touched.take(&event.flows(), edge.place.ordinal, false);
                }
                disordered.take(key, edge);
            }
            Ok(())
        })?;
        plan.beyond += disordered.beyond;
        disordered.finish(|begin, end| {
            let [needs_begin, needs_end] = needs(range, begin, end);
            touched.ended(begin.place.ordinal, needs_begin || needs_end);
            if needs_begin {
                plan.need(begin.place, Need::Whole);
            }
            if let Some(end) = end.filter(|_| needs_end) {
                plan.need(end.place, Need::Whole);
            }
        });
    }
    Ok(walk)
}

fn edge<'a>(walk: &Walk, seen: &Seen<'a>) -> Option<(TrackEvent<'a>, TrackKey, Edge)> {
    if seen.kind != Kind::TrackEvent || !seen.is_readable {
        return None;
    }
    let (event, key) = event_of(walk, seen)?;
    let (key, edge) = edge_of(&event, key, seen.ts?, place(walk, seen))?;
    Some((event, key, edge))
}

/// Says what was cut from what.
fn note(name: &str, span: (i64, i64), range: Range) -> Vec<u8> {
    let mut packet = Vec::new();
    let mut message = Message::new(&mut packet);
    let mut attributes = message.nested(trace_packet::TRACE_ATTRIBUTES);
    let mut text = attributes.nested(ATTRIBUTE);
    text.string(attribute::KEY, "cut_of");
    text.string(attribute::STRING_VALUE, name);
    drop(text);
    let (from, to) = (range.from.max(span.0), range.to.min(span.1.saturating_add(1)));
    for (key, value) in
        [("cut_from_ns", from), ("cut_to_ns", to), ("cut_of_from_ns", span.0), ("cut_of_to_ns", span.1)]
    {
        let mut number = attributes.nested(ATTRIBUTE);
        number.string(attribute::KEY, key);
        number.int(attribute::LONG_VALUE, value);
    }
    drop(attributes);
    drop(message);
    packet
}

#[cfg(test)]
mod tests;
