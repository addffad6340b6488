//! The parts of a file, in the order in which they come.

use std::io::{self, BufRead, Read as _};

use super::attr::Attr;
use super::bytes::Bytes;
use super::records::{Events, Head, kind};
use super::session::{MAX_ATTRS, Session, feature::TRACING_DATA};
use crate::Error;

/// Bytes before the records: the attributes and their ids. Ours: those of all tracepoints of a large machine are some megabytes.
const MAX_START_BYTES: u64 = 64 << 20;
/// Bytes behind the records. Ours: formats of tracepoints and build ids are some megabytes.
const MAX_FEATURE_BYTES: u64 = 256 << 20;
/// Bytes of frames and records that wait. Ours: what is beyond is left out, and said.
const MAX_EVENTS: usize = 1 << 27;

/// The header of a file, and of a pipe, in bytes.
const FILE_HEADER: u64 = 104;
const PIPE_HEADER: u64 = 16;

/// A part of the file.
#[derive(Clone, Copy, Debug, Default)]
struct Section {
    offset: u64,
    bytes: u64,
}

impl Section {
    fn read(at: &mut Bytes<'_>) -> Option<Self> {
        Some(Self { offset: at.u64()?, bytes: at.u64()? })
    }

    fn of<'a>(&self, bytes: &'a [u8], base: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offset.checked_sub(base)?).ok()?;
        let end = start.checked_add(usize::try_from(self.bytes).ok()?)?;
        bytes.get(start..end)
    }
}

/// A file, and how far it was read.
struct File<R> {
    file: R,
    offset: u64,
}

impl<R: BufRead> File<R> {
    /// So many bytes; fewer if the file ends.
    fn take(&mut self, bytes: u64, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        let read = self.file.by_ref().take(bytes).read_to_end(into)?;
        self.offset += read as u64;
        Ok(())
    }

    fn skip(&mut self, bytes: u64) -> io::Result<bool> {
        let skipped = io::copy(&mut self.file.by_ref().take(bytes), &mut io::sink())?;
        self.offset += skipped;
        Ok(skipped == bytes)
    }
}

/// Reads a file through to its end.
pub(super) fn read(file: impl BufRead, session: &mut Session, events: &mut Events) -> Result<(), Error> {
    let mut file = File { file, offset: 0 };
    let mut start = Vec::new();
    file.take(PIPE_HEADER, &mut start)?;
    let mut at = Bytes(&start);
    let magic = at.take(8);
    let broken = |offset, what| Error::Broken { offset, what };
    if magic != Some(b"PERFILE2") {
        return Err(broken(0, "this is no perf.data"));
    }
    let end = match at.u64().ok_or(broken(8, "the file ends within its header"))? {
        PIPE_HEADER => read_records(&mut file, None, session, events),
        FILE_HEADER => read_file(&mut file, session, events),
        _ => return Err(broken(8, "this header has a size that no perf writes")),
    };
    let (unpacked, is_all) = events.packed.unpack();
    events.packed = Default::default();
    let whole = take_unpacked(&unpacked, session, events);
    end?;
    if !is_all || !whole {
        return Err(broken(file.offset, "packed records end early, or more comes out of them than may"));
    }
    Ok(())
}

/// A file that says where its parts are.
fn read_file<R: BufRead>(
    file: &mut File<R>,
    session: &mut Session,
    events: &mut Events,
) -> Result<(), Error> {
    let mut header = Vec::new();
    file.take(FILE_HEADER - PIPE_HEADER, &mut header)?;
    let broken = |offset, what| Error::Broken { offset, what };
    let short = || broken(PIPE_HEADER, "the file ends within its header");
    let mut at = Bytes(&header);
    let attr_bytes = at.u64().ok_or_else(short)?;
    let (attrs, data) =
        (Section::read(&mut at).ok_or_else(short)?, Section::read(&mut at).ok_or_else(short)?);
    let _event_types = Section::read(&mut at);
    let flags = at.0.to_vec();
    let start_bytes = data.offset.checked_sub(FILE_HEADER).filter(|bytes| *bytes <= MAX_START_BYTES);
    let start_bytes = start_bytes.ok_or(broken(40, "the records are not where they can be"))?;
    let mut start = Vec::new();
    file.take(start_bytes, &mut start)?;
    if (start.len() as u64) < start_bytes {
        return Err(broken(file.offset, "the file ends before its records"));
    }
    read_attrs(&start, attr_bytes, attrs, session)
        .ok_or(broken(FILE_HEADER, "what was sampled is not where it is said to be"))?;
    // Of a recording that was not finished the size is not known, and nothing is behind its records.
    let bytes = (data.bytes > 0).then_some(data.bytes);
    read_records(file, bytes, session, events)?;
    match bytes {
        Some(_) => read_features(file, &flags, session),
        None => Ok(()),
    }
}

fn read_attrs(start: &[u8], attr_bytes: u64, attrs: Section, session: &mut Session) -> Option<()> {
    /// Behind each attribute: where its ids are.
    const SECTION: usize = 16;
    let attr_bytes = usize::try_from(attr_bytes).ok().filter(|bytes| *bytes >= Attr::MIN_BYTES + SECTION)?;
    let all = attrs.of(start, FILE_HEADER)?;
    for entry in all.chunks_exact(attr_bytes).take(MAX_ATTRS) {
        let (attr, ids) = entry.split_at_checked(attr_bytes - SECTION)?;
        let ids = Section::read(&mut Bytes(ids))?;
        // Ids of a file that was cut off may be missing.
        let ids = if ids.bytes == 0 { &[] } else { ids.of(start, FILE_HEADER).unwrap_or_default() };
        session.add_attr(Attr::read(attr)?, ids);
    }
    (!session.attrs.is_empty()).then_some(())
}

/// So many bytes of records; all that come, if it is not said.
fn read_records<R: BufRead>(
    file: &mut File<R>,
    bytes: Option<u64>,
    session: &mut Session,
    events: &mut Events,
) -> Result<(), Error> {
    let end = bytes.map_or(u64::MAX, |bytes| file.offset.saturating_add(bytes));
    let (mut head, mut record) = (Vec::new(), Vec::new());
    while file.offset < end {
        let offset = file.offset;
        let broken = |what| Err(Error::Broken { offset, what });
        file.take(Head::BYTES as u64, &mut head)?;
        if head.is_empty() && bytes.is_none() {
            return Ok(());
        }
        if head.len() < Head::BYTES {
            return broken("the file ends within this record");
        }
        let Some(head) = Head::read(&head) else {
            return broken("this record has no size that it could have");
        };
        let len = head.bytes - Head::BYTES;
        file.take(len as u64, &mut record)?;
        if record.len() < len {
            return broken("the file ends within this record");
        }
        if events.all.len() >= MAX_EVENTS {
            return broken("there are more records than are read");
        }
        events.take(head, &record, session);
        let behind = head.behind(&record);
        let is_whole = if head.kind == kind::TRACING_DATA && behind <= MAX_FEATURE_BYTES {
            file.take(behind, &mut record)?;
            session.feature(TRACING_DATA, &record);
            record.len() as u64 == behind
        } else {
            file.skip(behind)?
        };
        if !is_whole {
            return broken("the file ends within what belongs to this record");
        }
    }
    Ok(())
}

/// Records that were packed. Whether they end where a record does.
fn take_unpacked(bytes: &[u8], session: &mut Session, events: &mut Events) -> bool {
    let mut at = Bytes(bytes);
    while at.len() > 0 {
        let head = at.take(Head::BYTES).and_then(Head::read);
        let record = head.and_then(|head| Some((head, at.take(head.bytes - Head::BYTES)?)));
        let Some((head, record)) = record else { return false };
        if events.all.len() >= MAX_EVENTS {
            return false;
        }
        events.take(head, record, session);
    }
    true
}

/// What is behind the records: where each feature is, for those that there are, and the features.
fn read_features<R: BufRead>(file: &mut File<R>, flags: &[u8], session: &mut Session) -> Result<(), Error> {
    let base = file.offset;
    let mut rest = Vec::new();
    file.take(MAX_FEATURE_BYTES, &mut rest)?;
    let numbers = (0u32..256).filter(|number| {
        let byte = flags.get(*number as usize / 8).copied().unwrap_or(0);
        byte >> (number % 8) & 1 != 0
    });
    let mut sections = Bytes(&rest);
    for number in numbers {
        let section = Section::read(&mut sections);
        let bytes = section.and_then(|section| section.of(&rest, base));
        let Some(bytes) = bytes else {
            return Err(Error::Broken {
                offset: base,
                what: "the file ends before what is said of the recording",
            });
        };
        session.feature(number, bytes);
    }
    Ok(())
}
