//! One range of one trace.

use std::io::{self, Write};

use ferretto_protos::fields::trace_attributes::{ATTRIBUTE, attribute};
use ferretto_protos::fields::trace_packet;
use ferretto_protozero::Message;
use ferretto_trace_read::{End, Reader};
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::bounds::Bounds;
use crate::event::TrackEvent;
use crate::index::{Index, edge_of, place, track_key};
use crate::kind::Kind;
use crate::plan::{Need, Plan};
use crate::range::{Moment, Range};
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

/// Cuts what is between two moments, and writes it; `name` is the trace's, for the note.
///
/// # Errors
///
/// If it cannot be read or written, or is no trace. What is wrong within is told by [`Report::read`].
pub fn cut<S: Source + ?Sized>(
    source: &S,
    name: &str,
    from: Option<Moment>,
    to: Option<Moment>,
    out: impl Write,
) -> Result<Report, Error> {
    let mut bounds = Bounds::default();
    let (walk, read) = pass(source, Walk::default(), |walk, seen| {
        bounds.take(walk, seen);
        Ok(())
    })?;
    if read.packets == 0 && (read.broken_at.is_some() || read.torn_at.is_some()) {
        return Err(Error::NotATrace { offset: read.broken_at.or(read.torn_at).unwrap_or(0) });
    }
    let span = bounds.span.ok_or(Error::NoTimes)?;
    let range = Range {
        from: from.map_or(i64::MIN, |from| from.in_trace(span.0)),
        to: to.map_or(i64::MAX, |to| to.in_trace(span.0)),
    };
    if range.from > range.to {
        return Err(Error::Backwards { from: range.from, to: range.to });
    }
    let mut index = Index::new(range, &bounds);
    let (walk, _) = pass(source, walk.again(), |walk, seen| {
        index.take(walk, seen);
        Ok(())
    })?;
    let (mut plan, tracks) = index.finish();
    let walk = put_in_order(source, walk, &mut plan, &tracks)?;
    drop(tracks);
    let beyond = plan.beyond;
    let mut writer = Writer::new(plan, io::BufWriter::with_capacity(1 << 20, out));
    let (walk, _) = pass(source, walk.again(), |walk, seen| writer.take(walk, seen))?;
    let (packets, bytes) = writer.finish(&note(name, span, range)).map_err(Error::Write)?;
    Ok(Report { span, range, read, left_out: walk.left_out, beyond, packets, bytes })
}

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
