//! Tables in a file, to be asked again without reading their trace.
//!
//! ```text
//! magic │ blocks of columns and texts │ their directory │ what they are of │ where these two are: place, words, place, words │ magic
//! ```
//!
//! All of it are words of 64 bits, the lowest byte first. It is for the build that wrote it, and for nobody who might be lied to: whoever can write
//! it says what is in the tables. See [`Tables::load`].

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, PoisonError};

use ferretto_trace_tables::store::Place;
use ferretto_trace_tables::{Store, Tables};

use crate::block_file::{BlockFile, WORD_BYTES, with_checksum, words};
use crate::drive::Progress;
use crate::error::Error;
use crate::hash::{Hash, PIECE_BYTES};

/// How such a file begins and ends. No trace of any format begins so.
const MAGIC: u64 = u64::from_le_bytes(*b"\0tables\n");
const HEAD_BYTES: u64 = WORD_BYTES as u64;
const TAIL_WORDS: usize = 5;
const TAIL_BYTES: u64 = (TAIL_WORDS * WORD_BYTES) as u64;

/// What tables are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Who made them, and how: other rules make other tables. One line.
    pub maker: String,
    /// The hash of the trace, in hexadecimal digits.
    pub sha256: String,
    /// The trace's file as it was then, if it may be told by this whether it is still so.
    pub file: Option<FileState>,
    /// What was found odd at its end, a line each.
    pub notes: Vec<String>,
}

/// What the kernel says of a file. When this is the same again, nobody has written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Its size.
    pub bytes: u64,
    device: u64,
    inode: u64,
    modified_ns: i128,
    changed_ns: i128,
}

/// Tables in a file.
#[derive(Debug)]
pub struct KeptTables {
    store: Arc<dyn Store>,
    directory: Box<[u64]>,
    about: About,
    bytes: u64,
}

impl FileState {
    /// That of a file now.
    ///
    /// # Errors
    ///
    /// If the kernel does not say.
    pub fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Ok(Self {
            bytes: meta.len(),
            device: meta.dev(),
            inode: meta.ino(),
            modified_ns: ns(meta.mtime(), meta.mtime_nsec()),
            changed_ns: ns(meta.ctime(), meta.ctime_nsec()),
        })
    }

    /// Nanoseconds since 1970 when it last changed.
    #[must_use]
    pub fn changed_ns(&self) -> i128 {
        self.changed_ns
    }

    fn text(self) -> String {
        let Self { bytes, device, inode, modified_ns, changed_ns } = self;
        format!("{bytes} {device} {inode} {modified_ns} {changed_ns}")
    }

    fn read(line: &str) -> Option<Self> {
        let mut parts = line.split(' ');
        Some(Self {
            bytes: parts.next()?.parse().ok()?,
            device: parts.next()?.parse().ok()?,
            inode: parts.next()?.parse().ok()?,
            modified_ns: parts.next()?.parse().ok()?,
            changed_ns: parts.next()?.parse().ok()?,
        })
    }
}

impl About {
    /// Lines, padded to whole words.
    fn words(&self) -> Box<[u64]> {
        let file = self.file.map(FileState::text).unwrap_or_default();
        let lines = [&self.maker, &self.sha256, &file].into_iter().chain(&self.notes);
        let mut text: String = lines.flat_map(|line| [line.as_str(), "\n"]).collect();
        text.extend(std::iter::repeat_n('\0', text.len().next_multiple_of(WORD_BYTES) - text.len()));
        words(text.as_bytes())
    }

    fn read(words: &[u64]) -> Option<Self> {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let text = String::from_utf8(bytes).ok()?;
        let mut lines = text.trim_end_matches('\0').lines().map(str::to_owned);
        let (maker, sha256, file) = (lines.next()?, lines.next()?, lines.next()?);
        Some(Self { maker, sha256, file: FileState::read(&file), notes: lines.collect() })
    }
}

/// The hash of a trace, as [`SourceFile::sha256`](crate::SourceFile) has it.
///
/// # Errors
///
/// If it cannot be read, or `watch` says no.
pub fn sha256(mut trace: impl Read, watch: &mut dyn FnMut(Progress) -> bool) -> Result<String, Error> {
    let mut hash = Hash::new(None);
    let (mut piece, mut bytes) = (vec![0; PIECE_BYTES], 0);
    loop {
        let len = trace.read(&mut piece)?;
        if len == 0 {
            return Ok(hash.finish());
        }
        hash.update(piece.get(..len).unwrap_or_default());
        bytes += len as u64;
        if !watch(Progress::Reading { bytes }) {
            return Err(Error::Stopped);
        }
    }
}

/// Writes tables, and what they are of.
///
/// # Errors
///
/// If `out` cannot be written, or some of the tables cannot be read where they lie.
pub fn write(out: impl Write + Send, tables: &Tables, about: &About) -> io::Result<()> {
    let to = Writer(Mutex::new(Writing { out, words: 0, error: None }));
    to.write(&MAGIC.to_le_bytes());
    let directory = tables.save(&to);
    let directory = directory.and_then(|words| to.put(&words)).zip(to.put(&about.words()));
    if let Some((directory, about)) = directory {
        let tail = [directory, about].map(|place| [place.at, u64::from(place.words)]);
        to.write(
            &tail
                .as_flattened()
                .iter()
                .chain([&MAGIC])
                .flat_map(|word| word.to_le_bytes())
                .collect::<Vec<_>>(),
        );
    }
    let Writing { mut out, error, .. } = to.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (error, directory) {
        (Some(error), _) => Err(error),
        (None, None) => Err(io::Error::other("the tables could not be read")),
        (None, Some(_)) => out.flush(),
    }
}

/// Writes blocks one behind the other.
struct Writer<W>(Mutex<Writing<W>>);

struct Writing<W> {
    out: W,
    words: u64,
    error: Option<io::Error>,
}

impl<W> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Writes words behind what was written; says where.
    fn write(&self, bytes: &[u8]) -> Option<u64> {
        let mut writing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = writing.words;
        if writing.error.is_none() {
            writing.error = writing.out.write_all(bytes).err();
        }
        writing.words += (bytes.len() / WORD_BYTES) as u64;
        writing.error.is_none().then_some(at)
    }
}

impl<W: Write + Send> Store for Writer<W> {
    fn put(&self, words: &[u64]) -> Option<Place> {
        let count = u32::try_from(words.len()).ok()?;
        Some(Place { at: self.write(&with_checksum(words))?, words: count })
    }

    fn get(&self, _: Place) -> Box<[u64]> {
        Box::default()
    }

    fn has_failed(&self) -> bool {
        false
    }
}

impl KeptTables {
    /// Those in a file; nothing if there are none, or not all of them.
    #[must_use]
    pub fn open(file: File) -> Option<Self> {
        let bytes = file.metadata().ok()?.len();
        let tail_at = bytes.checked_sub(TAIL_BYTES).filter(|at| *at >= HEAD_BYTES)?;
        let mut tail = [0; TAIL_BYTES as usize];
        let mut head = [0; HEAD_BYTES as usize];
        file.read_exact_at(&mut head, 0).ok()?;
        file.read_exact_at(&mut tail, tail_at).ok()?;
        let &[directory_at, directory_words, about_at, about_words, MAGIC] = &*words(&tail) else {
            return None;
        };
        if u64::from_le_bytes(head) != MAGIC || !bytes.is_multiple_of(WORD_BYTES as u64) {
            return None;
        }
        let store = BlockFile::written(file, tail_at / WORD_BYTES as u64);
        let block = |at, words| Some(store.get(Place { at, words: u32::try_from(words).ok()? }));
        let about = About::read(&block(about_at, about_words)?)?;
        let directory = block(directory_at, directory_words)?;
        (!store.has_failed()).then(|| Self { store: Arc::new(store), directory, about, bytes })
    }

    /// What they are of.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// They. What was asked for stays in memory if it is not more than `memory_bytes`; else all is read each time.
    ///
    /// Nothing if they are those of another build, or cannot be read.
    #[must_use]
    pub fn tables(&self, memory_bytes: u64) -> Option<Tables> {
        Tables::load(&self.store, &self.directory, self.bytes <= memory_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use ferretto_trace_tables::consistency::check;
    use ferretto_trace_tables::tables::{SliceRow, TrackRow};

    use super::*;

    fn about() -> About {
        let notes = vec!["it is torn".to_owned(), "it is old".to_owned()];
        About { maker: "tests 1".to_owned(), sha256: "ab".repeat(32), file: None, notes }
    }

    fn some() -> Tables {
        let mut tables = Tables::default();
        let name = tables.strings.intern("main");
        tables.track.push(TrackRow { name: Some(name), ..TrackRow::default() });
        (0..17_000).for_each(|ts| _ = tables.slice.push(SliceRow { ts, ..SliceRow::default() }));
        tables
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, &some(), &about()).unwrap();
        bytes
    }

    #[test]
    fn tables_come_back_with_what_they_are_of() {
        let trace = file(b"trace");
        let state = FileState::of(&trace).unwrap();
        for about in [about(), About { file: Some(state), notes: Vec::new(), ..about() }] {
            let mut bytes = Vec::new();
            write(&mut bytes, &some(), &about).unwrap();
            let kept = KeptTables::open(file(&bytes)).unwrap();
            assert_eq!(*kept.about(), about);
            for memory_bytes in [0, u64::MAX] {
                let tables = kept.tables(memory_bytes).unwrap();
                assert_eq!((tables.slice.len(), tables.slice.ts.get(16_999)), (17_000, Some(16_999)));
                check(&tables).unwrap();
                assert!(tables.are_whole());
            }
        }
        assert_eq!(FileState::of(&trace).unwrap(), state);
        (&trace).write_all(b"longer").unwrap();
        assert_ne!(FileState::of(&trace).unwrap(), state);
    }

    #[test]
    fn what_is_cut_or_changed_is_none_or_says_so_when_it_is_read() {
        let bytes = written();
        for len in (0..bytes.len()).step_by(bytes.len() / 97).chain([bytes.len() - 1]) {
            assert!(KeptTables::open(file(&bytes[..len])).is_none(), "{len} bytes");
        }
        for at in (0..bytes.len()).step_by(bytes.len() / 97) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            let Some(tables) = KeptTables::open(file(&changed)).and_then(|kept| kept.tables(u64::MAX)) else {
                continue;
            };
            let _ = check(&tables);
            assert!(!tables.are_whole(), "the byte at {at} of {}", bytes.len());
        }
    }

    #[test]
    fn a_full_disk_is_an_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert_eq!(write(Full, &some(), &about()).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
