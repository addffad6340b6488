//! Trace files.
//!
//! Regular files are written at once: the disk is waited for, as upstream does. Pipes, terminals and sockets are written as they take
//! it, so that a reader that stops reading stops its own session only.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::{Buf, Bytes};
use ferretto_service::{FileContent, FileHandle, FileWrite};

/// A pipe that is writable takes this many bytes without waiting (`PIPE_BUF`).
const PIPE_WRITE_BYTES: usize = 4096;

/// The mode of files that the service creates (upstream: 0644).
const CREATE_MODE: u32 = 0o644;

/// The open files. Shared with the service's environment, which creates some.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileTable(Arc<Mutex<Files>>);

#[derive(Debug, Default)]
struct Files {
    last: u64,
    files: BTreeMap<FileHandle, Entry>,
}

#[derive(Debug)]
struct Entry {
    file: File,
    waits: Option<Waiting>,
    /// Where in a regular file the first write began.
    start: Option<u64>,
}

#[derive(Debug)]
struct Waiting {
    bytes: Bytes,
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Written {
    Done(io::Result<()>),
    /// Call [`FileTable::resume`] when the file takes more.
    Waits,
}

impl FileTable {
    /// Creates a file that must not exist.
    pub(crate) fn create(&self, path: &str) -> io::Result<FileHandle> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(CREATE_MODE).open(path)?;
        Ok(self.add(file.into()))
    }

    pub(crate) fn add(&self, file: OwnedFd) -> FileHandle {
        let mut files = self.lock();
        files.last += 1;
        let handle = FileHandle(files.last);
        files.files.insert(handle, Entry { file: file.into(), waits: None, start: None });
        handle
    }

    pub(crate) fn close(&self, handle: FileHandle) {
        self.lock().files.remove(&handle);
    }

    /// Writes all, or as much as can be had without waiting for a reader.
    pub(crate) fn write(&self, write: FileWrite) -> Written {
        let mut files = self.lock();
        let bytes = match write.content {
            FileContent::Bytes(bytes) => bytes,
            FileContent::Copy { from, offset, len } => match files.read(from, offset, len) {
                Ok(bytes) => bytes,
                Err(error) => return Written::Done(Err(error)),
            },
        };
        let Some(entry) = files.files.get_mut(&write.file) else {
            return Written::Done(Err(io::ErrorKind::NotFound.into()));
        };
        let is_regular = entry.file.metadata().is_ok_and(|metadata| metadata.is_file());
        if is_regular {
            return Written::Done(entry.write_regular(&bytes, write.sync));
        }
        entry.waits = Some(Waiting { bytes });
        entry.resume()
    }

    /// Goes on with a write that waits.
    pub(crate) fn resume(&self, handle: FileHandle) -> Written {
        match self.lock().files.get_mut(&handle) {
            Some(entry) => entry.resume(),
            None => Written::Done(Err(io::ErrorKind::NotFound.into())),
        }
    }

    /// Lends a file's descriptor.
    pub(crate) fn with_fd<T>(&self, handle: FileHandle, f: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        self.lock().files.get(&handle).map(|entry| f(entry.file.as_fd()))
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        // No code under the lock leaves the table half changed.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Files {
    /// What was written to a file before; the offset counts from the first byte of that.
    fn read(&self, handle: FileHandle, offset: u64, len: usize) -> io::Result<Bytes> {
        let entry = self.files.get(&handle).ok_or(io::ErrorKind::NotFound)?;
        let start = entry.start.ok_or_else(|| io::Error::other("the source is no regular file"))?;
        let mut bytes = vec![0; len];
        let read = entry.file.read_exact_at(&mut bytes, start.saturating_add(offset));
        read.map_err(|error| io::Error::new(error.kind(), format!("reading the source's file: {error}")))?;
        Ok(bytes.into())
    }
}

impl Entry {
    fn write_regular(&mut self, bytes: &[u8], sync: bool) -> io::Result<()> {
        self.file.write_all(bytes)?;
        if self.start.is_none() {
            // Known only now: a file that is appended to may have been anywhere before.
            self.start = self.file.stream_position()?.checked_sub(bytes.len() as u64);
        }
        if sync {
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn resume(&mut self) -> Written {
        let Some(waiting) = &mut self.waits else { return Written::Done(Ok(())) };
        while !waiting.bytes.is_empty() {
            match is_writable(&self.file) {
                Ok(true) => {}
                Ok(false) => return Written::Waits,
                Err(error) => return Written::Done(Err(error)),
            }
            let part = waiting.bytes.get(..PIPE_WRITE_BYTES).unwrap_or(&waiting.bytes);
            match self.file.write(part) {
                Ok(0) => return Written::Done(Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => waiting.bytes.advance(written.min(waiting.bytes.len())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Written::Waits,
                Err(error) => return Written::Done(Err(error)),
            }
        }
        self.waits = None;
        Written::Done(Ok(()))
    }
}

/// Whether a small write would not wait, even if the descriptor is a blocking one. An error of the other end is a writable state: the
/// write then says what it is.
fn is_writable(file: &File) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(file, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let ready = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&at_once)))?;
    Ok(ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pipe_does_not_stop_the_writer() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let files = FileTable::default();
        let handle = files.add(writer);
        let bytes = vec![7; 1024 * 1024];
        let content = FileContent::Bytes(bytes.clone().into());
        let mut written = files.write(FileWrite { file: handle, content, sync: true });
        let mut read = Vec::new();
        while let Written::Waits = written {
            let mut part = vec![0; 64 * 1024];
            let len = rustix::io::read(&reader, &mut part).unwrap();
            read.extend_from_slice(&part[..len]);
            written = files.resume(handle);
        }
        assert!(matches!(written, Written::Done(Ok(()))));
        files.close(handle);
        let mut rest = Vec::new();
        io::Read::read_to_end(&mut File::from(reader), &mut rest).unwrap();
        assert_eq!(read.len() + rest.len(), bytes.len());
    }

    #[test]
    fn an_output_path_must_not_exist() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let files = FileTable::default();
        let handle = files.create(path.to_str().unwrap()).unwrap();
        let content = FileContent::Bytes(Bytes::from_static(b"abc"));
        let write = FileWrite { file: handle, content, sync: true };
        assert!(matches!(files.write(write), Written::Done(Ok(()))));
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
        assert_eq!(files.create(path.to_str().unwrap()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_copy_is_of_what_was_written_and_leaves_the_source_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name| {
            OpenOptions::new().read(true).append(true).create(true).open(dir.path().join(name)).unwrap()
        };
        let mut source = open("source");
        source.write_all(b"not ours ").unwrap();
        let files = FileTable::default();
        let (from, to) = (files.add(source.into()), files.add(open("copy").into()));
        let write = |file, content| files.write(FileWrite { file, content, sync: false });
        let bytes = |bytes| FileContent::Bytes(Bytes::from_static(bytes));
        let copy = |offset, len| FileContent::Copy { from, offset, len };
        assert!(matches!(write(to, copy(0, 1)), Written::Done(Err(_))), "nothing was written");
        assert!(matches!(write(from, bytes(b"abcdef")), Written::Done(Ok(()))));
        for content in [copy(0, 2), copy(2, 3)] {
            assert!(matches!(write(to, content), Written::Done(Ok(()))));
        }
        assert!(matches!(write(from, bytes(b"ghi")), Written::Done(Ok(()))));
        assert!(matches!(write(to, copy(5, 5)), Written::Done(Err(_))), "more than there is");
        assert_eq!(std::fs::read(dir.path().join("source")).unwrap(), b"not ours abcdefghi");
        assert_eq!(std::fs::read(dir.path().join("copy")).unwrap(), b"abcde");
    }
}
