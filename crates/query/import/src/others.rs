//! Files of other formats: recognized by their first bytes, and read on the caller's thread.

use std::io::{self, BufReader, Cursor, Read};
use std::sync::atomic::Ordering;

use ferretto_trace_formats::recognize::{Format, HEAD_BYTES, Use, recognize};
use ferretto_trace_formats::{self as formats};
use ferretto_trace_model::model::Model;
use ferretto_trace_model::trace_files::File;
use ferretto_trace_read::End;
use ferretto_trace_read::container::unpacked;
use ferretto_trace_tables::Tables;

use crate::Error;
use crate::drive::{Imported, Options, Progress, look};
use crate::source::{Shared, Tap};

/// Read at once. The bound on memory is looked at so often.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// The first bytes of a file, as they are on the disk.
pub(crate) fn peek(file: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// The format of what begins like this, if it has a reader and is not Perfetto's own. What it is packed into is taken off.
pub(crate) fn format_of(head: &[u8]) -> Option<Format> {
    let mut inner = Vec::new();
    // A head may end within what is packed: what came out of it is enough.
    _ = unpacked(head).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut inner));
    recognize(&inner).filter(|format| formats::has_reader(*format))
}

/// Whether a file that begins so seems to be a trace, or an archive that may hold some; `head` has [`HEAD_BYTES`] of it, or all.
#[must_use]
pub fn is_trace(head: &[u8]) -> bool {
    let mut inner = Vec::new();
    _ = unpacked(head).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut inner));
    let has = |words: &[u8]| inner.windows(words.len()).any(|window| window == words);
    match recognize(&inner) {
        // Most files of JSON are something else.
        Some(Format::Json) => has(b"\"traceEvents\"") || has(b"\"ph\""),
        // They are put behind a trace.
        Some(Format::Symbols) | None => crate::archive::format_of(head).is_some(),
        Some(format) => {
            matches!(format.use_(), Use::Own | Use::Imported) || crate::archive::format_of(head).is_some()
        }
    }
}

/// Refuses what is no trace of Perfetto's, by what it seems to be.
pub(crate) fn must_be_own(head: &[u8]) -> Result<(), Error> {
    match recognize(head) {
        Some(format) if format.use_() == Use::Own => Ok(()),
        Some(format) => Err(Error::Refused(format)),
        None if head.is_empty() => Err(Error::NotATrace("it is empty")),
        None => Err(Error::NotATrace("it is of no format that is known here")),
    }
}

/// Reads a file of such a format through to its end.
pub(crate) fn import(
    format: Format,
    file: impl Read,
    options: &Options,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<(Tables, Imported), Error> {
    let shared = Shared::default();
    let mut tap = Tap::new(file, &shared, options, None);
    let mut model = Model::default();
    let end = read(format, unpacked(&mut tap)?, &mut model, options.memory_bytes, watch, &shared)?;
    let broken_at = match end {
        Ok(()) => None,
        Err(formats::Error::Io(error)) => return Err(error.into()),
        Err(formats::Error::Broken { offset, .. }) if rows(&model.tables) > 0 => Some(offset),
        Err(error) => return Err(Error::Unreadable { format, error }),
    };
    let source = tap.finish()?;
    model.end_file_of(format.name(), File { name: None, bytes: source.bytes, head: &source.head });
    let end = End { bytes: source.bytes, broken_at, ..End::default() };
    Ok((model.finish(), Imported { source, end, members: Vec::new() }))
}

/// Reads a file, unpacked, into a model. The outer error is that reading was stopped.
pub(crate) fn read(
    format: Format,
    file: Box<dyn Read + '_>,
    model: &mut Model,
    limit_bytes: u64,
    watch: &mut dyn FnMut(Progress) -> bool,
    shared: &Shared,
) -> Result<Result<(), formats::Error>, Error> {
    let mut wrong = None;
    let mut watched = Watched {
        file,
        since: 0,
        look: &mut || {
            let progress = Progress::Reading { bytes: shared.bytes.load(Ordering::Relaxed) };
            look(limit_bytes, watch, progress)
        },
        wrong: &mut wrong,
    };
    let end = formats::read(format, BufReader::with_capacity(PIECE_BYTES, &mut watched), model);
    drop(watched);
    wrong.map_or(Ok(end), Err)
}

/// How much of what was read before a file broke is worth to be had.
pub(crate) fn rows(tables: &Tables) -> usize {
    [
        tables.slice.len(),
        tables.sched.len(),
        tables.counter.len(),
        tables.profiler_sample.len(),
        tables.aggregate_sample.len(),
    ]
    .iter()
    .sum()
}

/// A file that somebody watches.
struct Watched<'a> {
    file: Box<dyn Read + 'a>,
    since: usize,
    look: &'a mut dyn FnMut() -> Result<(), Error>,
    wrong: &'a mut Option<Error>,
}

impl Read for Watched<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.since >= PIECE_BYTES {
            self.since = 0;
            if let Err(error) = (self.look)() {
                *self.wrong = Some(error);
                return Err(io::Error::other("it is not read on"));
            }
        }
        let len = self.file.read(to)?;
        self.since += len;
        Ok(len)
    }
}

/// The whole file again, when its head was looked at.
pub(crate) fn whole<R: Read>(head: Vec<u8>, rest: R) -> io::Chain<Cursor<Vec<u8>>, R> {
    Cursor::new(head).chain(rest)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ferretto_trace_tables::{Table, Value};

    use super::*;
    use crate::import;

    #[test]
    fn other_formats_are_read_packed_or_not() {
        let json = b"[{\"ph\":\"X\",\"pid\":1,\"ts\":1,\"dur\":1,\"name\":\"x\"}]";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(json).unwrap();
        let gzip = gzip.finish().unwrap();
        for file in [&json[..], &gzip] {
            let (tables, imported) = import(file, &Options::default(), &mut |_| true).unwrap();
            assert_eq!((tables.slice.len(), imported.source.bytes), (1, file.len() as u64));
            let facts = &tables.metadata;
            let is_type = |row: &usize| facts.name[*row] == tables.strings.find("trace_type");
            let row = (0..facts.len()).find(is_type).unwrap();
            assert_eq!(facts.cell("str_value", row), Value::Str(tables.strings.find("json").unwrap()));
        }
        let (tables, _) = import(&b"main;work 3\n"[..], &Options::default(), &mut |_| true).unwrap();
        assert_eq!(tables.aggregate_sample.len(), 1);
    }

    #[test]
    fn what_comes_before_a_break_is_kept_and_the_break_is_told() {
        let json = b"[{\"ph\":\"X\",\"pid\":1,\"ts\":1,\"dur\":1,\"name\":\"x\"} nonsense";
        let (tables, imported) = import(&json[..], &Options::default(), &mut |_| true).unwrap();
        assert_eq!((tables.slice.len(), imported.end.broken_at.is_some()), (1, true));
        let error = import(&b"[{\"ph\" nonsense"[..], &Options::default(), &mut |_| true).unwrap_err();
        assert!(error.to_string().contains("JSON"), "{error}");
    }
}
