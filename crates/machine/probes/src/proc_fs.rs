//! Reads small kernel files (/proc, /sys, tracefs) into buffers that are used again and again.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

/// A bound on one file of /proc or /sys that no process decides on: the largest (kallsyms, a `stat` line with thousands of interrupts) stay far below it.
const MAX_FILE_BYTES: usize = 64 << 20;
/// How much a buffer grows at a time; most files fit in the first step.
const READ_STEP: usize = 16 << 10;
/// Room for a file of /proc/PID; longer command lines take a second read.
const SMALL_READ: usize = 4 << 10;

/// Reads a whole file from its start into `buffer`, replacing what was there. The same descriptor serves again next time.
pub(crate) fn read_all(file: impl AsFd, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    loop {
        buffer.reserve(READ_STEP);
        let offset = buffer.len() as u64;
        match rustix::io::pread(&file, rustix::buffer::spare_capacity(buffer), offset) {
            Ok(0) => return Ok(()),
            Ok(_) if buffer.len() > MAX_FILE_BYTES => return Ok(()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                buffer.clear();
                return Err(error.into());
            }
        }
    }
}

/// Reads a file whose content the kernel makes in one piece, as those of /proc/PID are: a read that does not fill the buffer has all of it, and
/// the one that would say so again is saved. False, with `buffer` empty, if it cannot be read.
pub(crate) fn read_small_at(dir: impl AsFd, path: impl rustix::path::Arg, buffer: &mut Vec<u8>) -> bool {
    let Ok(fd) = open_at(dir, path) else {
        buffer.clear();
        return false;
    };
    buffer.clear();
    loop {
        buffer.reserve(SMALL_READ);
        match rustix::io::read(&fd, rustix::buffer::spare_capacity(buffer)) {
            Ok(_) if buffer.len() == buffer.capacity() && buffer.len() < MAX_FILE_BYTES => {}
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                buffer.clear();
                return false;
            }
        }
    }
}

/// As [`read_small_at`], as much of it as fits: how many bytes that is, none if it cannot be read.
pub(crate) fn read_beginning_at(
    dir: impl AsFd,
    path: impl rustix::path::Arg,
    buffer: &mut [u8],
) -> Option<usize> {
    let fd = open_at(dir, path).ok()?;
    loop {
        match rustix::io::read(&fd, &mut *buffer) {
            Ok(count) => return Some(count),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Opens `path` for reading, relative to `dir`.
pub(crate) fn open_at(dir: impl AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Reads a file of `dir`; false, with `buffer` empty, if it cannot be read.
pub(crate) fn read_at(dir: impl AsFd, path: impl rustix::path::Arg, buffer: &mut Vec<u8>) -> bool {
    let read = open_at(dir, path).and_then(|fd| read_all(fd, buffer));
    if read.is_err() {
        buffer.clear();
    }
    read.is_ok()
}

/// Reads a file by its full path; empty if it cannot be read.
pub(crate) fn read(path: impl AsRef<Path>) -> Vec<u8> {
    let mut buffer = Vec::new();
    read_at(CWD, path.as_ref(), &mut buffer);
    buffer
}

/// A file that is read over and over; it is not asked again after an error, as upstream does.
#[derive(Debug)]
pub(crate) struct PolledFile {
    path: &'static str,
    file: Option<File>,
}

impl PolledFile {
    /// Opens it; a file that this kernel or this user does not have stays silent after one line in the log.
    pub(crate) fn open(path: &'static str) -> Self {
        let file = File::open(path);
        if let Err(error) = &file {
            tracing::info!("{path} is left out: {error}");
        }
        Self { path, file: file.ok() }
    }

    /// Reads all of it; empty if there is nothing.
    pub(crate) fn read<'b>(&mut self, buffer: &'b mut Vec<u8>) -> &'b [u8] {
        buffer.clear();
        if let Some(file) = &self.file
            && let Err(error) = read_all(file, buffer)
        {
            tracing::warn!("{} is left out from now on: {error}", self.path);
            self.file = None;
        }
        buffer
    }
}

/// Reads at most `buffer.len()` bytes from the start of a file.
pub(crate) fn read_start(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    file.read_at(buffer, 0)
}

/// The number at the start of `text` after blanks; what follows it does not matter (`92 kB` is 92). None without a digit.
pub(crate) fn leading_u64(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let mut value = 0u64;
    for digit in text.get(..digits).filter(|d| !d.is_empty())? {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
    }
    Some(value)
}

/// As [`leading_u64`], with a sign.
pub(crate) fn leading_i64(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    match text.strip_prefix(b"-") {
        Some(rest) => leading_u64(rest).map(|v| 0i64.wrapping_sub_unsigned(v)),
        None => leading_u64(text).map(u64::cast_signed),
    }
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// The lines of a text, without empty ones.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    text.split(|&b| b == b'\n').filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_their_digits_end() {
        assert_eq!(leading_u64(b"\t  92 kB"), Some(92));
        assert_eq!(leading_u64(b"x"), None);
        assert_eq!(leading_u64(b""), None);
        assert_eq!(leading_i64(b" -17\n"), Some(-17));
        assert_eq!(leading_i64(b"-"), None);
        assert_eq!(
            leading_u64(b"99999999999999999999999"),
            Some(leading_u64(b"99999999999999999999999").unwrap())
        );
    }

    #[test]
    fn a_file_is_read_whole_and_the_buffer_used_again() {
        let mut buffer = vec![7; 10];
        assert!(read_at(CWD, "/proc/self/status", &mut buffer));
        assert!(buffer.starts_with(b"Name:"));
        assert!(!read_at(CWD, "/proc/self/no_such_file", &mut buffer));
        assert!(buffer.is_empty());
    }
}
