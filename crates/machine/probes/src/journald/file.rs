//! Reads the journal's files: entries in the order in which they were written, and what each says. Every offset and length is checked, since
//! a file may be damaged, and may be written to meanwhile.
//!
//! A file is a header and objects. Entries are listed in a chain of arrays, each further behind than the one before; an entry lists the
//! objects that hold its fields, as `NAME=value`. Numbers are little endian. Source: systemd's "Journal File Format", and journal-def.h
//! where the two differ.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::unpack::{Packing, unpack};

/// What a journal file is read from, at any place: a file, or bytes.
pub trait Storage {
    /// Fills `buffer` from `offset` on; an error if there is less.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Storage for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

impl Storage for [u8] {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.get(start..)?.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl<S: Storage + ?Sized> Storage for &S {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buffer, offset)
    }
}

/// Why a file, or the rest of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refuses, or the file ends too early.
    #[error("could not read {what}: {source}")]
    Io {
        /// What was to be read.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The first bytes are others.
    #[error("it is no journal file")]
    NotAJournal,
    /// A newer systemd has written it.
    #[error("it uses features that are not known here (incompatible_flags {0:#x})")]
    UnknownFeatures(u32),
    /// Something in it makes no sense.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

/// The part of the header that every version has.
pub(super) const MIN_HEADER_BYTES: usize = 208;
const SIGNATURE: &[u8] = b"LPKSHHRH";
/// Compression (three kinds), keyed hashes, and the compact layout.
const KNOWN_FEATURES: u32 = 0b1_1111;
const COMPACT: u32 = 0b1_0000;
const STATE_ARCHIVED: u8 = 2;

const TYPE_DATA: u8 = 1;
const TYPE_ENTRY: u8 = 3;
const TYPE_ENTRY_ARRAY: u8 = 6;
const OBJECT_HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 64;
const ARRAY_BYTES: usize = 24;
const DATA_BYTES: usize = 64;
const COMPACT_DATA_BYTES: usize = 72;

/// Fields of one entry: as many as journald takes (ENTRY_FIELD_COUNT_MAX).
const MAX_FIELDS: usize = 1024;
/// Bytes of one field; the rest of longer ones is left out, as libsystemd does by default.
const MAX_FIELD_BYTES: usize = 64 << 10;
/// Arrays in a row, each of which doubles the number of entries: more are damage.
const MAX_ARRAYS: usize = 128;

/// A journal file, and how far it has been read.
#[derive(Debug)]
pub struct JournalFile<S> {
    storage: S,
    is_compact: bool,
    is_archived: bool,
    entries: u64,
    first_array: u64,
    position: Position,
}

/// Of the next entry.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    /// The array that it is in or behind; 0 before the first.
    array: u64,
    /// In this array.
    index: u64,
    /// In all arrays.
    total: u64,
}

/// An entry without its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// In µs of the boot that `boot_id` says.
    pub monotonic_us: u64,
    /// Of the system that wrote it.
    pub boot_id: [u8; 16],
    /// Where its fields are.
    pub fields: Vec<u64>,
}

/// What the object of a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    /// `NAME=value`, cut if it is very long.
    Text(&'a [u8]),
    /// Packed in a way that cannot be undone here.
    Packed(Packing),
}

impl<S: Storage> JournalFile<S> {
    /// Reads the header. The first entry is the next one.
    pub fn open(storage: S) -> Result<Self, FileError> {
        let mut file = Self {
            storage,
            is_compact: false,
            is_archived: false,
            entries: 0,
            first_array: 0,
            position: Position::default(),
        };
        file.refresh()?;
        Ok(file)
    }

    /// Whether nobody writes to it any more.
    pub fn is_archived(&self) -> bool {
        self.is_archived
    }

    /// Reads the header again, which tells of new entries.
    pub fn refresh(&mut self) -> Result<(), FileError> {
        let mut header = [0; MIN_HEADER_BYTES];
        read(&self.storage, "its header", &mut header, 0)?;
        if !header.starts_with(SIGNATURE) {
            return Err(FileError::NotAJournal);
        }
        let features = u32_at(&header, 12);
        if features & !KNOWN_FEATURES != 0 {
            return Err(FileError::UnknownFeatures(features));
        }
        self.is_compact = features & COMPACT != 0;
        self.is_archived = header.get(16) == Some(&STATE_ARCHIVED);
        self.entries = u64_at(&header, 152);
        self.first_array = u64_at(&header, 176);
        Ok(())
    }

    /// Leaves out the entries that there are.
    pub fn skip_to_end(&mut self) -> Result<(), FileError> {
        while self.position.total < self.entries {
            let Some((_, items)) = self.array_with_next()? else { break };
            let left = self.entries - self.position.total;
            let skipped = (items - self.position.index).min(left);
            self.position.index += skipped;
            self.position.total += skipped;
        }
        Ok(())
    }

    /// Where the next entry is; `None` if there is none yet.
    pub fn next_entry(&mut self) -> Result<Option<u64>, FileError> {
        if self.position.total >= self.entries {
            return Ok(None);
        }
        let Some((array, _)) = self.array_with_next()? else { return Ok(None) };
        let width = if self.is_compact { 4 } else { 8 };
        let mut item = [0; 8];
        let offset =
            self.position.index.checked_mul(width).and_then(|at| at.checked_add(array + ARRAY_BYTES as u64));
        let offset = offset.ok_or(FileError::Damaged("an array is too long"))?;
        let item_bytes = item.get_mut(..width as usize).unwrap_or_default();
        read(&self.storage, "a list of entries", item_bytes, offset)?;
        let entry = u64::from_le_bytes(item);
        // The writer counts an entry last, but a file that was cut off may count more than it has.
        if entry == 0 {
            return Ok(None);
        }
        self.position.index += 1;
        self.position.total += 1;
        Ok(Some(entry))
    }

    /// The array that holds the next entry, and how many it can hold; `None` if it has not been made yet.
    fn array_with_next(&mut self) -> Result<Option<(u64, u64)>, FileError> {
        for _ in 0..MAX_ARRAYS {
            let next = if self.position.array == 0 {
                self.first_array
            } else {
                let (items, next) = self.array(self.position.array)?;
                if self.position.index < items {
                    return Ok(Some((self.position.array, items)));
                }
                next
            };
            if next == 0 {
                return Ok(None);
            }
            // Objects are only ever added at the end, so a chain that leads back is a ring.
            if next <= self.position.array {
                return Err(FileError::Damaged("the lists of entries lead back"));
            }
            self.position = Position { array: next, index: 0, ..self.position };
        }
        Err(FileError::Damaged("too many lists of entries"))
    }

    /// How many items an array can hold, and where the next one is.
    fn array(&self, offset: u64) -> Result<(u64, u64), FileError> {
        let mut array = [0; ARRAY_BYTES];
        read(&self.storage, "a list of entries", &mut array, offset)?;
        let size = object_size(&array, TYPE_ENTRY_ARRAY, ARRAY_BYTES, "a list of entries is something else")?;
        let width = if self.is_compact { 4 } else { 8 };
        Ok(((size - ARRAY_BYTES as u64) / width, u64_at(&array, 16)))
    }

    /// Reads the entry that [`next_entry`](Self::next_entry) has told of.
    pub fn entry(&self, offset: u64) -> Result<Entry, FileError> {
        let mut head = [0; ENTRY_BYTES];
        read(&self.storage, "an entry", &mut head, offset)?;
        let size = object_size(&head, TYPE_ENTRY, ENTRY_BYTES, "an entry is something else")?;
        let width = if self.is_compact { 4 } else { 16 };
        let fields = usize::try_from((size - ENTRY_BYTES as u64) / width as u64).unwrap_or(usize::MAX);
        let mut items = vec![0; fields.min(MAX_FIELDS) * width];
        // The first read has shown that this does not overflow, by far.
        read(&self.storage, "an entry", &mut items, offset.saturating_add(ENTRY_BYTES as u64))?;
        let offset_of =
            |item: &[u8]| if self.is_compact { u64::from(u32_at(item, 0)) } else { u64_at(item, 0) };
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(head.get(40..56).unwrap_or_default());
        Ok(Entry {
            monotonic_us: u64_at(&head, 32),
            boot_id,
            fields: items.chunks_exact(width).map(offset_of).collect(),
        })
    }

    /// Reads one of an entry's fields. `buffer` holds it, and room for unpacking.
    pub fn field<'b>(&self, offset: u64, buffer: &'b mut FieldBuffer) -> Result<Field<'b>, FileError> {
        let head_bytes = if self.is_compact { COMPACT_DATA_BYTES } else { DATA_BYTES };
        let raw = &mut buffer.raw;
        raw.resize(OBJECT_HEADER_BYTES, 0);
        read(&self.storage, "a field", raw, offset)?;
        let size = object_size(raw, TYPE_DATA, head_bytes, "a field is something else")?;
        let flags = raw.get(1).copied().unwrap_or(0);
        let payload = usize::try_from(size).unwrap_or(usize::MAX) - head_bytes;
        raw.resize(payload.min(MAX_FIELD_BYTES), 0);
        read(&self.storage, "a field", raw, offset.saturating_add(head_bytes as u64))?;
        match Packing::of_flags(flags) {
            None => Ok(Field::Text(raw)),
            Some(packing) if unpack(packing, raw, MAX_FIELD_BYTES, &mut buffer.plain) => {
                Ok(Field::Text(&buffer.plain))
            }
            Some(packing) => Ok(Field::Packed(packing)),
        }
    }
}

/// Memory that is used again for every field.
#[derive(Debug, Default)]
pub struct FieldBuffer {
    raw: Vec<u8>,
    plain: Vec<u8>,
}

fn read(storage: &impl Storage, what: &'static str, buffer: &mut [u8], offset: u64) -> Result<(), FileError> {
    storage.read_exact_at(buffer, offset).map_err(|source| FileError::Io { what, source })
}

/// The size of an object that is to have this type and at least so many bytes.
fn object_size(object: &[u8], kind: u8, least: usize, otherwise: &'static str) -> Result<u64, FileError> {
    let size = u64_at(object, 8);
    let is_so = object.first() == Some(&kind) && size >= least as u64;
    if is_so { Ok(size) } else { Err(FileError::Damaged(otherwise)) }
}

/// 0 where there are no 4 bytes; callers have made sure that there are.
fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// As [`u32_at`].
fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BOOT, Builder, XZ, ZSTD};
    use super::*;

    /// Every entry, as time and fields.
    fn entries(file: &mut JournalFile<&[u8]>) -> Result<Vec<(u64, Vec<String>)>, FileError> {
        let mut buffer = FieldBuffer::default();
        let mut entries = Vec::new();
        while let Some(offset) = file.next_entry()? {
            let entry = file.entry(offset)?;
            assert_eq!(entry.boot_id, BOOT);
            let mut fields = Vec::new();
            for &field in &entry.fields {
                fields.push(match file.field(field, &mut buffer)? {
                    Field::Text(text) => String::from_utf8_lossy(text).into_owned(),
                    Field::Packed(packing) => format!("packed with {packing}"),
                });
            }
            entries.push((entry.monotonic_us, fields));
        }
        Ok(entries)
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<(u64, Vec<String>)>, FileError> {
        entries(&mut JournalFile::open(bytes)?)
    }

    #[test]
    fn entries_of_both_layouts_are_read_in_order_with_their_fields() {
        for is_compact in [false, true] {
            let mut journal = Builder::new(is_compact, 2);
            for number in 0..5 {
                journal.message(number, &["PRIORITY=6", &format!("MESSAGE=number {number}")]);
            }
            let expected =
                |number: u64| (number, vec!["PRIORITY=6".to_owned(), format!("MESSAGE=number {number}")]);
            assert_eq!(
                read_all(&journal.bytes).unwrap(),
                (0..5).map(expected).collect::<Vec<_>>(),
                "{is_compact}"
            );

            // From the end on, as whoever follows a file does.
            let before = journal.clone();
            journal.message(9, &["A=b"]);
            let mut file = JournalFile::open(&*before.bytes).unwrap();
            file.skip_to_end().unwrap();
            assert_eq!(file.next_entry().unwrap(), None);
            let mut file = JournalFile { storage: &*journal.bytes, ..file };
            file.refresh().unwrap();
            assert_eq!(entries(&mut file).unwrap(), [(9, vec!["A=b".to_owned()])]);
        }
    }

    #[test]
    fn packed_fields_are_unpacked_or_named_and_long_ones_cut() {
        let long = format!("MESSAGE={}", "x".repeat(100_000));
        let zstd =
            ruzstd::encoding::compress_to_vec(long.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
        let mut journal = Builder::new(false, 4);
        let fields = [journal.field(ZSTD, &zstd), journal.field(0, long.as_bytes()), journal.field(XZ, b"?")];
        journal.entry(1, BOOT, &fields);
        let read = read_all(&journal.bytes).unwrap();
        let cut = long[..MAX_FIELD_BYTES].to_owned();
        assert_eq!(read, [(1, vec![cut.clone(), cut, "packed with xz".to_owned()])]);
    }

    #[test]
    fn what_is_no_journal_or_a_newer_one_says_so() {
        let journal = Builder::new(false, 4);
        let with = |at: usize, byte: u8| {
            let mut journal = journal.clone();
            journal.patch(at, &[byte]);
            read_all(&journal.bytes).unwrap_err().to_string()
        };
        assert_eq!(with(0, b'l'), "it is no journal file");
        assert!(with(12, 0b10_0100).contains("incompatible_flags 0x24"));
        assert!(
            read_all(&journal.bytes[..100]).unwrap_err().to_string().contains("could not read its header")
        );
        assert_eq!(read_all(&journal.bytes).unwrap(), []);
    }

    #[test]
    fn lists_that_lead_back_are_damage_and_not_read_forever() {
        let mut journal = Builder::new(false, 1);
        journal.message(1, &["A=b"]);
        let array = u64_at(&journal.bytes, 176);
        journal.patch(152, &u64::MAX.to_le_bytes());
        journal.patch(array as usize + 16, &array.to_le_bytes());
        assert!(read_all(&journal.bytes).unwrap_err().to_string().contains("lead back"));
        let mut file = JournalFile::open(&*journal.bytes).unwrap();
        assert!(file.skip_to_end().is_err());
        // A list is promised that is not there, or something else.
        journal.patch(array as usize + 16, &(1u64 << 60).to_le_bytes());
        assert!(read_all(&journal.bytes).unwrap_err().to_string().contains("could not read a list"));
        journal.patch(176, &8u64.to_le_bytes());
        assert!(read_all(&journal.bytes).unwrap_err().to_string().contains("something else"));
    }

    proptest::proptest! {
        #[test]
        fn damaged_files_are_read_to_an_end(
            hits in proptest::collection::vec((0usize..2000, proptest::num::u8::ANY), 1..20), is_compact: bool,
        ) {
            let mut journal = Builder::new(is_compact, 2);
            for number in 0..5 {
                journal.message(number, &["PRIORITY=6", "MESSAGE=x"]);
            }
            for (at, byte) in hits {
                let len = journal.bytes.len();
                journal.bytes[at % len] = byte;
            }
            let Ok(mut file) = JournalFile::open(&*journal.bytes) else { return Ok(()) };
            let mut buffer = FieldBuffer::default();
            let mut entries = 0;
            while let Ok(Some(offset)) = file.next_entry() {
                entries += 1;
                // As many items as there are bytes would be too many.
                proptest::prop_assert!(entries < 2000);
                let Ok(entry) = file.entry(offset) else { continue };
                for field in entry.fields {
                    let _ = file.field(field, &mut buffer);
                }
            }
        }
    }
}
