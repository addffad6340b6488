//! A file for blocks that memory has no room for.
//!
//! It has no name: when the last that has blocks in it is gone, however that ends, so is the file. Bytes are written once, at its end, and read
//! where they were written.

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

const WORD_BYTES: usize = size_of::<u64>();

/// Such a file.
#[derive(Debug)]
pub(crate) struct Spill {
    file: File,
    /// Words that were written.
    words: Mutex<u64>,
    /// It takes no more: it could not be written.
    is_full: AtomicBool,
    /// Some of it could not be read.
    has_failed: AtomicBool,
}

impl Spill {
    /// Makes one.
    pub(crate) fn new() -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder())?;
        Ok(Self { file, words: Mutex::new(0), is_full: false.into(), has_failed: false.into() })
    }
}

impl Store for Spill {
    fn put(&self, words: &[u64]) -> Option<Place> {
        if self.is_full.load(Ordering::Relaxed) {
            return None;
        }
        let count = u32::try_from(words.len()).ok()?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut written = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place { at: *written, words: count };
        if self.file.write_all_at(&bytes, place.at * WORD_BYTES as u64).is_err() {
            self.is_full.store(true, Ordering::Relaxed);
            return None;
        }
        *written += u64::from(count);
        Some(place)
    }

    fn get(&self, place: Place) -> Box<[u64]> {
        let mut bytes = vec![0; place.words as usize * WORD_BYTES];
        if self.file.read_exact_at(&mut bytes, place.at * WORD_BYTES as u64).is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
            return Box::default();
        }
        let (words, _) = bytes.as_chunks();
        words.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
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

    #[test]
    fn what_is_put_is_there() {
        let spill = Spill::new().unwrap();
        let blocks: Vec<Vec<u64>> = (0..20).map(|n| (0..n * 100).map(|word| word * n).collect()).collect();
        let places: Vec<Place> = blocks.iter().map(|block| spill.put(block).unwrap()).collect();
        for (block, place) in blocks.iter().zip(places).rev() {
            assert_eq!(*spill.get(place), **block);
        }
        assert!(!spill.has_failed());
        let beyond = spill.get(Place { at: 1 << 40, words: 1 });
        assert!(beyond.is_empty() && spill.has_failed());
    }
}
