//! A plain file, of which bytes are read again when their turn comes.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_trace_model::again::Again;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};

use crate::Error;

/// Such a file.
#[derive(Debug)]
pub(crate) struct Plain {
    file: Arc<File>,
    /// Some of it was not there again.
    has_changed: AtomicBool,
}

impl Plain {
    pub(crate) fn new(file: Arc<File>) -> Self {
        Self { file, has_changed: false.into() }
    }

    /// Says if bytes were missing that had been there.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.has_changed.load(Ordering::Relaxed) {
            true => Err(io::Error::other("it could not be read again: it has changed meanwhile").into()),
            false => Ok(()),
        }
    }
}

impl Again for Plain {
    fn read_at(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let offset = offset + bytes.len() as u64;
            match pread(&*self.file, spare_capacity(&mut bytes), offset) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        bytes
    }

    fn has_changed(&self) {
        self.has_changed.store(true, Ordering::Relaxed);
    }
}
