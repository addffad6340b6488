//! Passes over a file: each packet with what is known when it comes.

use std::io::{self, Read};

use ferretto_trace_read::container::FileBytes;
use ferretto_trace_read::{End, Head, Reader};

use crate::blocks::Blocks;
use crate::cut::Error;
use crate::ftrace::bundle::Parts;
use crate::kind::Kind;
use crate::source::Source;
use crate::walk::{Seen, Walk};

/// Reads all of a trace.
pub(crate) fn pass<S: Source + ?Sized>(
    source: &S,
    walk: Walk,
    mut each: impl FnMut(&mut Walk, &Seen<'_>) -> io::Result<()>,
) -> Result<(Walk, End), Error> {
    let reader = reader(source)?;
    read(reader, walk, None, |_, _| None, |walk, seen| each(walk, seen).map(|()| false))
}

/// Reads all of it, and bounds what comes out.
pub(crate) fn reader<S: Source + ?Sized>(source: &S) -> Result<Reader<impl Read>, Error> {
    reader_of(source, u64::MAX)
}

/// The same of its first so many bytes.
pub(crate) fn reader_of<S: Source + ?Sized>(source: &S, bytes: u64) -> Result<Reader<impl Read>, Error> {
    let file_bytes = source.file_bytes().map_err(Error::Read)?;
    let file = source.open().map_err(Error::Read)?;
    Ok(Reader::new(file.take(bytes)).within(FileBytes::new(file_bytes)))
}

/// Reads the blocks of a trace that are wanted.
pub(crate) fn pass_over<S: Source + ?Sized>(
    source: &S,
    mut walk: Walk,
    blocks: &Blocks,
    mut each: impl FnMut(&mut Walk, &Seen<'_>) -> io::Result<()>,
) -> Result<Walk, Error> {
    let mut file = source.open().map_err(Error::Read)?;
    let mut offset = 0;
    for run in blocks.runs() {
        run.go_on(&mut walk);
        if run.from > offset {
            match source.open_at(run.from).map_err(Error::Read)? {
                Some(there) => file = there,
                None => {
                    let between = (&mut *file).take(run.from - offset);
                    io::copy(&mut { between }, &mut io::sink()).map_err(Error::Read)?;
                }
            }
        }
        offset = run.to.unwrap_or(u64::MAX);
        let part = (&mut *file).take(offset - run.from);
        // The pass that looked has seen it all.
        let part = Reader::new(part).within(FileBytes::new(u64::MAX));
        (walk, _) = read(part, walk, None, |_, _| None, |walk, seen| each(walk, seen).map(|()| false))?;
    }
    Ok(walk)
}

/// Calls `usual` with every packet, which may take it and says of which sequence it was; and `each` with all others. Both say whether the
/// packet's block is wanted.
pub(crate) fn read(
    reader: Reader<impl Read>,
    mut walk: Walk,
    mut blocks: Option<&mut Blocks>,
    mut usual: impl FnMut(&mut Walk, &[u8]) -> Option<(usize, bool)>,
    mut each: impl FnMut(&mut Walk, &Seen<'_>) -> io::Result<bool>,
) -> Result<(Walk, End), Error> {
    let mut result = Ok(());
    let end = reader.for_each(|packet, place| {
        if result.is_err() {
            return;
        }
        if let Some(blocks) = &mut blocks {
            blocks.begin(place, &walk);
        }
        let taken = match usual(&mut walk, packet) {
            None => other(&mut walk, packet, &mut each),
            taken => Ok(taken),
        };
        match taken {
            Ok(Some((sequence, is_wanted))) => {
                if let Some(blocks) = &mut blocks {
                    blocks.take(&mut walk, sequence, is_wanted);
                }
            }
            Ok(None) => {}
            Err(error) => result = Err(error),
        }
    });
    if let Some(blocks) = blocks {
        blocks.close(&walk);
    }
    result.map_err(Error::Write)?;
    Ok((walk, end.map_err(Error::Read)?))
}

/// Out of the way of the usual ones.
#[inline(never)]
fn other(
    walk: &mut Walk,
    packet: &[u8],
    each: &mut impl FnMut(&mut Walk, &Seen<'_>) -> io::Result<bool>,
) -> io::Result<Option<(usize, bool)>> {
    let Ok(head) = Head::of(packet) else {
        walk.leave_out();
        return Ok(None);
    };
    let Some(seen) = walk.take(packet, &head) else { return Ok(None) };
    let is_wanted = each(walk, &seen)?;
    Ok(Some((seen.sequence, is_wanted || walk.has_changed)))
}

/// A bundle of the kernel's events, if it is one that can be read.
#[inline]
pub(crate) fn parts_of<'a>(seen: &Seen<'a>) -> Option<Parts<'a>> {
    if seen.kind != Kind::Ftrace || !seen.is_readable {
        return None;
    }
    Parts::of(seen.head.data?.1)
}
