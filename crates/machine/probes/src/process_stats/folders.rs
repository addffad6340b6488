//! Folders and files of /proc.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::RawDir;

use crate::proc_fs::{leading_u64, open_at, read_small_at};

/// What one read of a directory takes.
const DIR_BUFFER_BYTES: usize = 32 << 10;

pub(super) fn format_path(path: &mut Vec<u8>, pid: i32, file: &str) {
    path.clear();
    // Writing to a vector cannot fail.
    let _ = write!(path, "{pid}/{file}");
}

/// Reads `PID/file` of a directory of /proc; false if it is gone or hidden.
pub(super) fn read_pid_file(
    dir: &OwnedFd,
    pid: i32,
    file: &str,
    path: &mut Vec<u8>,
    buffer: &mut Vec<u8>,
) -> bool {
    format_path(path, pid, file);
    read_small_at(dir, path.as_slice(), buffer)
}

pub(super) fn open_dir(dir: &OwnedFd, path: &[u8]) -> std::io::Result<OwnedFd> {
    open_at(dir, path)
}

/// The entries of a directory whose names are numbers above 0 (0 too for /proc/PID/fd, where it is a file).
pub(super) fn list_numeric(dir: impl AsFd, buffer: &mut Vec<u8>, numbers: &mut Vec<i32>) {
    list_numeric_up_to(usize::MAX, dir, buffer, numbers);
}

/// The first of these, and whether they are all.
pub(super) fn list_numeric_up_to(
    max: usize,
    dir: impl AsFd,
    buffer: &mut Vec<u8>,
    numbers: &mut Vec<i32>,
) -> bool {
    numbers.clear();
    buffer.clear();
    buffer.reserve(DIR_BUFFER_BYTES);
    // The descriptor of /proc stays open from scan to scan.
    if rustix::fs::seek(&dir, rustix::fs::SeekFrom::Start(0)).is_err() {
        return true;
    }
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        if name.iter().all(u8::is_ascii_digit)
            && let Some(number) = leading_u64(name).and_then(|n| i32::try_from(n).ok())
        {
            if numbers.len() >= max {
                return false;
            }
            numbers.push(number);
        }
    }
    true
}
