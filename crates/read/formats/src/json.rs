//! JSON as it comes: read piece by piece, with the place where it breaks.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use serde_json::error::Category;

use crate::Error;

/// How far a file was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offset(Rc<Cell<u64>>);

impl Offset {
    /// What went wrong there.
    pub(crate) fn broken(&self, error: &serde_json::Error) -> Error {
        let what = match error.classify() {
            Category::Io => {
                return Error::Io(io::Error::from(error.io_error_kind().unwrap_or(io::ErrorKind::Other)));
            }
            Category::Eof => "the file ends within this JSON",
            Category::Syntax => "this is no JSON, or lies deeper than is read",
            Category::Data => "this is not what such a file has here",
        };
        Error::Broken { offset: self.0.get(), what }
    }
}

/// A file whose bytes are counted.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    file: R,
    offset: Offset,
}

impl<R: BufRead> Counted<R> {
    pub(crate) fn new(file: R) -> (Self, Offset) {
        let offset = Offset::default();
        (Self { file, offset: offset.clone() }, offset)
    }
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read(to)?;
        self.offset.0.set(self.offset.0.get() + len as u64);
        Ok(len)
    }
}
