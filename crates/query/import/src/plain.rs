//! A plain file, of which bytes are read again when their turn comes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_trace_model::again::Again;

use crate::Error;

/// Such a file.
#[derive(Debug)]
pub(crate) struct Plain {
    file: Arc<File>,
    /// Some of it could not be read again.
    has_failed: AtomicBool,
}

impl Plain {
    pub(crate) fn new(file: Arc<File>) -> Self {
        Self { file, has_failed: false.into() }
    }

    /// Says if bytes were missing that had been there.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.has_failed.load(Ordering::Relaxed) {
            true => Err(io::Error::other("it could not be read again: it has changed meanwhile").into()),
            false => Ok(()),
        }
    }

    fn read(&self, mut offset: u64, to: &mut [u8]) -> io::Result<usize> {
        let mut there = 0;
        while let Some(rest) = to.get_mut(there..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset) {
                Ok(0) => break,
                Ok(len) => {
                    there += len;
                    offset += len as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(there)
    }
}

impl Again for Plain {
    fn read_at(&self, offset: u64, to: &mut [u8], least: usize) -> usize {
        let there = self.read(offset, to).unwrap_or(0);
        if there < least {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        there
    }
}
