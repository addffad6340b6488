//! Lines of bounded length.

use std::io::{self, BufRead, Read};

/// Bytes of a line: a longer one is cut there, and its rest is a line of its own. Ours: a stack of a thousand C++ names is a tenth of it.
pub const MAX_LINE_BYTES: u64 = 4 << 20;

/// Reads lines one after the other, and knows where each begins.
#[derive(Debug)]
pub struct Lines<R> {
    file: R,
    line: Vec<u8>,
    offset: u64,
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its bytes, without its end.
    pub bytes: &'a [u8],
    /// Where it begins.
    pub offset: u64,
    /// Whether it had an end: the last one may have none.
    pub is_ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// Those of a file.
    pub const fn new(file: R) -> Self {
        Self { file, line: Vec::new(), offset: 0 }
    }

    /// The next one; nothing at the end of the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let offset = self.offset;
        let len = self.file.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line)?;
        if len == 0 {
            return Ok(None);
        }
        self.offset = self.offset.saturating_add(len as u64);
        let is_ended = self.line.last() == Some(&b'\n');
        let bytes = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok(Some(Line { bytes, offset, is_ended }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_places_and_the_last_may_have_no_end() {
        let mut lines = Lines::new(&b"ab\n\nc"[..]);
        let mut found = Vec::new();
        while let Some(line) = lines.read().unwrap() {
            found.push((line.bytes.to_vec(), line.offset, line.is_ended));
        }
        assert_eq!(found, [(b"ab".to_vec(), 0, true), (vec![], 3, true), (b"c".to_vec(), 4, false)]);
    }
}
