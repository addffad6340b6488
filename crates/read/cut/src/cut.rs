//! One range of one trace.

use std::collections::BTreeSet;
use std::io::{self, Write};

use ferretto_protos::fields::trace_attributes::{ATTRIBUTE, attribute};
use ferretto_protos::fields::trace_packet;
use ferretto_protozero::Message;
use ferretto_trace_read::{End, Reader};
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::around::Search;
use crate::bounds::Bounds;
use crate::event::TrackEvent;
use crate::filter::{Filter, Processes};
use crate::index::{Index, edge_of, place, track_key};
use crate::kind::Kind;
use crate::links::Links;
use crate::plan::{Need, Plan};
use crate::range::{Moment, Range};
use crate::sizes::Sizes;
use crate::source::Source;
use crate::tracks::{Disordered, MAX_RECORDS, TrackKey, Tracks, needs};
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
    let mut first = First::of(source, options, false)?;
    let range = first.range(options)?;
    let reports = first.write(source, name, options, &[range], vec![out])?;
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
        reports.extend(first.write(source, name, options, ranges, outs)?);
    }
    Ok(reports)
}

/// What the first pass has found.
#[derive(Debug)]
struct First {
    walk: Walk,
    read: End,
    bounds: Bounds,
    span: (i64, i64),
    sizes: Sizes,
    search: Option<Search>,
    pids: Option<BTreeSet<i32>>,
}

impl First {
    fn of<S: Source + ?Sized>(source: &S, options: &Options, with_sizes: bool) -> Result<Self, Error> {
        let mut bounds = Bounds::default();
        let mut sizes = Sizes::new();
        let mut search = options.around.as_ref().map(|around| Search::new(&around.name));
        let mut processes = options.process.as_deref().map(Processes::new);
        let (walk, read) = pass(source, Walk::default(), |walk, seen| {
            let ts = bounds.take(walk, seen);
            if with_sizes {
                sizes.take(ts, seen.bytes.len());
            }
            if let Some(search) = &mut search {
                search.take(walk, seen);
            }
            if let Some(processes) = &mut processes {
                processes.arrive(seen);
            }
            Ok(())
        })?;
        if read.packets == 0 && (read.broken_at.is_some() || read.torn_at.is_some()) {
            return Err(Error::NotATrace { offset: read.broken_at.or(read.torn_at).unwrap_or(0) });
        }
        let span = bounds.span.ok_or(Error::NoTimes)?;
        let pids = processes.map(|processes| processes.pids);
        if let (Some(name), true) = (&options.process, pids.as_ref().is_some_and(BTreeSet::is_empty)) {
            return Err(Error::NoProcess { name: name.clone() });
        }
        Ok(Self { walk, read, bounds, span, sizes, search, pids })
    }

    fn range(&self, options: &Options) -> Result<Range, Error> {
        let in_trace = |moment: Option<Moment>| moment.map(|moment| moment.in_trace(self.span.0));
        let mut range = Range {
            from: in_trace(options.from).unwrap_or(i64::MIN),
            to: in_trace(options.to).unwrap_or(i64::MAX),
        };
        if let Some(Around { name, margin_ns }) = &options.around {
            let found = self.search.as_ref().and_then(Search::found);
            let (begin, end) = found.ok_or_else(|| Error::NoSlice { name: name.clone() })?;
            range.from = begin.saturating_sub(*margin_ns);
            range.to = end.map_or(i64::MAX, |end| end.saturating_add(*margin_ns).saturating_add(1));
        }
        if range.from > range.to {
            return Err(Error::Backwards { from: range.from, to: range.to });
        }
        Ok(range)
    }

    /// The passes that look, and the one that writes.
    fn write<S: Source + ?Sized, W: Write>(
        &mut self,
        source: &S,
        name: &str,
        options: &Options,
        ranges: &[Range],
        outs: Vec<W>,
    ) -> Result<Vec<Report>, Error> {
        let mut indexes: Vec<Index> = ranges.iter().map(|range| Index::new(*range, &self.bounds)).collect();
        let (mut walk, _) = pass(source, std::mem::take(&mut self.walk).again(), |walk, seen| {
            indexes.iter_mut().for_each(|index| index.take(walk, seen));
            Ok(())
        })?;
        let mut writers = Vec::new();
        for (index, out) in indexes.into_iter().zip(outs) {
            let (mut plan, tracks, touched) = index.finish();
            walk = put_in_order(source, walk, &mut plan, &tracks)?;
            drop(tracks);
            if let Some(mut links) = Links::new(plan.range, touched) {
                (walk, _) = pass(source, walk.again(), |walk, seen| {
                    links.take(walk, seen);
                    Ok(())
                })?;
                links.finish(&mut plan);
            }
            let filter = Filter::new(self.pids.clone(), options.category.as_deref());
            writers.push(Writer::new(plan, filter, io::BufWriter::with_capacity(OUT_BYTES, out)));
        }
        let (walk, _) = pass(source, walk.again(), |walk, seen| {
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
                left_out: walk.left_out,
                beyond,
                packets,
                bytes,
            });
        }
        self.walk = walk;
        Ok(reports)
    }
}

/// Written at once.
const OUT_BYTES: usize = 1 << 18;

/// Reads all of a trace.
fn pass<S: Source + ?Sized>(
    source: &S,
    mut walk: Walk,
    mut each: impl FnMut(&mut Walk, &Seen<'_>) -> io::Result<()>,
) -> Result<(Walk, End), Error> {
    let mut result = Ok(());
    let reader = Reader::new(source.open().map_err(Error::Read)?);
    let end = reader.for_each(|packet, _| {
        if result.is_ok()
            && let Some(seen) = walk.take(packet)
        {
            result = each(&mut walk, &seen);
        }
    });
    result.map_err(Error::Write)?;
    Ok((walk, end.map_err(Error::Read)?))
}

/// Tells what disordered tracks need, in as many passes as their events are many.
fn put_in_order<S: Source + ?Sized>(
    source: &S,
    mut walk: Walk,
    plan: &mut Plan,
    tracks: &Tracks,
) -> Result<Walk, Error> {
    let (mut keys, events) = tracks.disordered();
    keys.sort_unstable();
    let passes = events.div_ceil(MAX_RECORDS).max(1);
    let share = keys.len().div_ceil(passes as usize).max(1);
    let range = tracks.range();
    for keys in keys.chunks(share) {
        let keys: HashSet<TrackKey, RandomState> = keys.iter().copied().collect();
        let mut disordered = Disordered::default();
        (walk, _) = pass(source, walk.again(), |walk, seen| {
            if let Some((key, edge)) = edge(walk, seen).filter(|(key, _)| keys.contains(key)) {
                disordered.take(key, edge);
            }
            Ok(())
        })?;
        plan.beyond += disordered.beyond;
        disordered.finish(|begin, end| {
            let [needs_begin, needs_end] = needs(range, begin, end);
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

fn edge(walk: &Walk, seen: &Seen<'_>) -> Option<(TrackKey, crate::tracks::Edge)> {
    if Kind::of(&seen.head) != Kind::TrackEvent || !seen.is_readable {
        return None;
    }
    let event = TrackEvent::of(seen.head.data?.1);
    let defaults = walk.sequences.get(seen.sequence)?;
    let uuid = event.track_uuid.or(defaults.track_uuid);
    let key = track_key(seen.head.machine_id, uuid, seen.sequence);
    edge_of(&event, key, seen.ts?, place(walk, seen))
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
