//! A trace that can be read several times.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use ferretto_trace_read::container::{self, Container};

/// A trace that can be read from its begin again.
pub trait Source {
    /// Its bytes from the first, without gzip or zstd around them.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn open(&self) -> io::Result<Box<dyn Read + '_>>;

    /// How many bytes it has, packed as it is: what comes out of it is bounded by that.
    ///
    /// # Errors
    ///
    /// If that cannot be told.
    fn file_bytes(&self) -> io::Result<u64>;

    /// The bytes from this one on, if it can be read from anywhere.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn open_at(&self, offset: u64) -> io::Result<Option<Box<dyn Read + '_>>> {
        let _ = offset;
        Ok(None)
    }
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

    fn file_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn open_at(&self, offset: u64) -> io::Result<Option<Box<dyn Read + '_>>> {
        let mut file = &self.0;
        file.seek(SeekFrom::Start(0))?;
        let mut first_bytes = Vec::new();
        file.take(8).read_to_end(&mut first_bytes)?;
        if Container::of(&first_bytes) != Container::None {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(offset))?;
        Ok(Some(Box::new(file)))
    }
}

impl Source for [u8] {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        container::unpacked(self)
    }

    fn file_bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}
