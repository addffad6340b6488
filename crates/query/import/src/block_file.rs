//! Blocks in a file: of what memory has no room for, and of tables that are kept for another time.
//!
//! A block is written once, and read where it was written. Behind it stands the checksum of its bytes: what a disk has not kept, or somebody has
//! cut, is no block.

use std::env;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_trace_tables::Store;
use ferretto_trace_tables::store::Place;
use flate2::Crc;

pub(crate) const WORD_BYTES: usize = size_of::<u64>();

/// Such a file.
#[derive(Debug)]
pub(crate) struct BlockFile {
    file: File,
    /// Words that were written.
    words: Mutex<u64>,
    /// It takes no more: it could not be written.
    is_full: AtomicBool,
    /// Some of it could not be read.
    has_failed: AtomicBool,
}

impl BlockFile {
    /// One without a name: when the last that has blocks in it is gone, however that ends, so is the file.
    pub(crate) fn temporary() -> io::Result<Self> {
        Ok(Self::of(tempfile::tempfile_in(folder())?, 0))
    }

    /// One of so many words, which takes no more.
    pub(crate) fn written(file: File, words: u64) -> Self {
        Self { is_full: true.into(), ..Self::of(file, words) }
    }

    fn of(file: File, words: u64) -> Self {
        Self { file, words: words.into(), is_full: false.into(), has_failed: false.into() }
    }

    fn read(&self, place: Place) -> Option<Box<[u64]>> {
        let end = place.at.checked_add(u64::from(place.words))?.checked_add(1)?;
        if end > *self.words.lock().unwrap_or_else(PoisonError::into_inner) {
            return None;
        }
        let mut bytes = vec![0; (place.words as usize + 1) * WORD_BYTES];
        self.file.read_exact_at(&mut bytes, place.at.checked_mul(WORD_BYTES as u64)?).ok()?;
        let (bytes, sum) = bytes.split_last_chunk()?;
        (u64::from_le_bytes(*sum) == checksum(bytes)).then(|| words(bytes))
    }
}

impl Store for BlockFile {
    fn put(&self, words: &[u64]) -> Option<Place> {
        if self.is_full.load(Ordering::Relaxed) {
            return None;
        }
        let count = u32::try_from(words.len()).ok()?;
        let bytes = with_checksum(words);
        let mut written = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place { at: *written, words: count };
        if self.file.write_all_at(&bytes, place.at * WORD_BYTES as u64).is_err() {
            self.is_full.store(true, Ordering::Relaxed);
            return None;
        }
        *written += u64::from(count) + 1;
        Some(place)
    }

    fn get(&self, place: Place) -> Box<[u64]> {
        let block = self.read(place);
        self.has_failed.fetch_or(block.is_none(), Ordering::Relaxed);
        block.unwrap_or_default()
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}

/// A block as it lies in a file.
pub(crate) fn with_checksum(words: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((words.len() + 1) * WORD_BYTES);
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let sum = checksum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Its words.
pub(crate) fn words(bytes: &[u8]) -> Box<[u64]> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut crc = Crc::new();
    crc.update(bytes);
    u64::from(crc.sum())
}

/// `TMPDIR`, if it is set; otherwise where large files may lie: `/tmp` is often memory.
pub(crate) fn folder() -> PathBuf {
    const LARGE: &str = "/var/tmp";
    match env::var_os("TMPDIR") {
        None if PathBuf::from(LARGE).is_dir() => LARGE.into(),
        _ => env::temp_dir(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> (BlockFile, Vec<(Vec<u64>, Place)>) {
        let file = BlockFile::temporary().unwrap();
        let blocks = (0..20).map(|n| (0..n * 100).map(|word| word * n).collect::<Vec<u64>>());
        let blocks = blocks.map(|block| (block.clone(), file.put(&block).unwrap())).collect();
        (file, blocks)
    }

    #[test]
    fn what_is_put_is_there() {
        let (file, blocks) = filled();
        for (block, place) in blocks.iter().rev() {
            assert_eq!(*file.get(*place), **block);
        }
        assert!(!file.has_failed());
        let beyond = file.get(Place { at: 1 << 40, words: 1 });
        assert!(beyond.is_empty() && file.has_failed());
    }

    #[test]
    fn what_was_changed_is_no_block() {
        let (file, blocks) = filled();
        let (_, place) = blocks[7];
        file.file.write_all_at(&[1], place.at * WORD_BYTES as u64).unwrap();
        assert_eq!(*file.get(blocks[6].1), *blocks[6].0);
        assert!(!file.has_failed());
        assert!(file.get(place).is_empty() && file.has_failed());
    }
}
