//! What the kernel says in files.

use std::ffi::CStr;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};

/// More than any file of the kernel that describes one thing has; the command line of a process is the longest.
const MAX_LEN: usize = 4 * 1024 * 1024;

/// The content of a file of the kernel's, of which the size is not known before; empty if it cannot be read.
///
/// ```
/// assert!(!ferretto_sys::read_file(c"/proc/self/stat").is_empty());
/// ```
pub fn read_file(path: &CStr) -> Vec<u8> {
    let mut content = Vec::new();
    let Ok(file) = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return content;
    };
    // Not the standard library's way, which knows sizes, seeks and kinds of files: 2 KB in each program that only links the SDK.
    let mut buffer = [0; 4096];
    while content.len() < MAX_LEN {
        match read(&file, &mut buffer) {
            Ok(0) => break,
            Ok(len) => content.extend_from_slice(buffer.get(..len).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(_) => return Vec::new(),
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole() {
        assert_eq!(read_file(c"/proc/self/status").first_chunk(), Some(b"Name:"));
        let cmdline = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(read_file(c"/proc/self/cmdline"), cmdline);
        // Longer than a buffer.
        assert_eq!(read_file(c"/proc/self/maps").last(), Some(&b'\n'));
        assert_eq!(read_file(c"/no/such/file"), b"");
    }
}
