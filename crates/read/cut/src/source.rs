//! A trace that can be read several times.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use ferretto_trace_read::container;

/// A trace that can be read from its begin again.
pub trait Source {
    /// Its bytes from the first, without gzip or zstd around them.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn open(&self) -> io::Result<Box<dyn Read + '_>>;
}

/// A file that can be sought in, packed as a whole or not.
#[derive(Debug)]
pub struct UnpackedFile(File);

impl UnpackedFile {
    /// Reads `file` from its begin, wherever it stands.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self(file)
    }
}

impl Source for UnpackedFile {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        let mut file = &self.0;
        file.seek(SeekFrom::Start(0))?;
        container::unpacked(BufReader::with_capacity(1 << 16, file))
    }
}

impl Source for [u8] {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        container::unpacked(self)
    }
}
