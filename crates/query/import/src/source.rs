//! What is known of a file while it is read.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use ferretto_trace_model::trace_files::HEAD_BYTES;
use ferretto_trace_tables::Helper;

use crate::drive::Options;
use crate::hash::Hash;

/// The file that a trace was read from, as it is on the disk: packed, if it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFile {
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256 if that was asked for, in hexadecimal digits.
    pub sha256: Option<String>,
    /// Its first bytes: a trace without a uuid gets one of them.
    pub head: Vec<u8>,
}

/// What two threads say to each other while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Bytes of the file that were read.
    pub(crate) bytes: AtomicU64,
    /// Nobody wants any more.
    pub(crate) is_stopped: AtomicBool,
    /// Parcels that wait, or are taken: with none the taker waits.
    pub(crate) parcels: AtomicUsize,
}

/// A file whose bytes are counted on their way, and hashed if that was asked for.
pub(crate) struct Tap<'a, R> {
    file: R,
    hash: Option<Hash>,
    head: Vec<u8>,
    shared: &'a Shared,
}

impl<'a, R: Read> Tap<'a, R> {
    /// Where there is a helper, it may hash beside.
    pub(crate) fn new(
        file: R,
        shared: &'a Shared,
        options: &Options,
        helper: Option<Arc<dyn Helper>>,
    ) -> Self {
        let hash = options.sha256.then(|| Hash::new(helper));
        Self { file, hash, head: Vec::new(), shared }
    }

    /// Reads what nobody has read, and says what the whole file was.
    pub(crate) fn finish(mut self) -> io::Result<SourceFile> {
        io::copy(&mut self, &mut io::sink())?;
        let bytes = self.shared.bytes.load(Ordering::Relaxed);
        Ok(SourceFile { bytes, sha256: self.hash.map(Hash::finish), head: self.head })
    }
}

impl<R: Read> Read for Tap<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.shared.is_stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("nobody wants the rest"));
        }
        let len = self.file.read(to)?;
        let read = to.get(..len).unwrap_or_default();
        if let Some(hash) = &mut self.hash {
            hash.update(read);
        }
        self.head.extend(read.iter().take(HEAD_BYTES - self.head.len()));
        self.shared.bytes.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_file_is_counted_and_hashed_whoever_read_how_much_of_it() {
        for read in 0..4 {
            let shared = Shared::default();
            let options = Options { sha256: true, ..Options::default() };
            let mut tap = Tap::new(&b"abc"[..], &shared, &options, None);
            tap.read_exact(&mut vec![0; read]).unwrap();
            let source = tap.finish().unwrap();
            // The first example of FIPS 180-2.
            let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
            assert_eq!(source.sha256.as_deref(), Some(sha256));
            assert_eq!((source.bytes, source.head.as_slice()), (3, &b"abc"[..]));
        }
    }
}
