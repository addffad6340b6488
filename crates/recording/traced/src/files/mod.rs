//! Trace files: opened or passed, written by a thread each, closed.

mod made;
mod passed;
mod writer;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use ferretto_peers::{Elsewhere, Whose};
use ferretto_service::{FileContent, FileHandle, FileWrite};

pub(crate) use writer::Reports;
use writer::{Content, Job, Target, Writer};

/// The open files. Shared with the service's environment, which creates some.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileTable {
    files: Arc<Mutex<Files>>,
    elsewhere: Elsewhere,
}

#[derive(Debug, Default)]
struct Files {
    last: u64,
    files: BTreeMap<FileHandle, Entry>,
    /// Where files can be made, if not everywhere.
    output_dirs: Option<Vec<PathBuf>>,
}

#[derive(Debug)]
struct Entry {
    /// Who has passed it, and waits for it to be closed.
    user: u32,
    target: Arc<Target>,
    /// From the first write on.
    writer: Option<Writer>,
}

impl FileTable {
    pub(crate) fn new(elsewhere: Elsewhere) -> Self {
        Self { elsewhere, ..Self::default() }
    }

    /// Creates a file that must not exist.
    pub(crate) fn create(&self, path: &str) -> io::Result<FileHandle> {
        let file = made::make(Path::new(path)).map_err(|error| self.explain(error))?;
        Ok(self.add(file, rustix::process::geteuid().as_raw()))
    }

    /// Files can be made below these folders only: whoever is refused for that is told.
    pub(crate) fn note_output_dirs(&self, folders: Vec<PathBuf>) {
        self.lock().output_dirs = Some(folders);
    }

    fn explain(&self, error: io::Error) -> io::Error {
        match &self.lock().output_dirs {
            Some(folders) if error.kind() == io::ErrorKind::PermissionDenied => {
                let folders: Vec<_> = folders.iter().map(|path| path.display().to_string()).collect();
                let text = format!(
                    "{error}; this service makes files below {} only: start it with --output-dir for others",
                    folders.join(", ")
                );
                io::Error::new(error.kind(), text)
            }
            _ => error,
        }
    }

    /// A file that a user has passed.
    pub(crate) fn add(&self, file: OwnedFd, user: u32) -> FileHandle {
        let mut files = self.lock();
        files.last += 1;
        let handle = FileHandle(files.last);
        files
            .files
            .insert(handle, Entry { user, target: Arc::new(Target::new(file.into(), user)), writer: None });
        handle
    }

    /// Whether it may be written to for the user who has passed it.
    pub(crate) fn check(&self, handle: FileHandle) -> io::Result<()> {
        let files = self.lock();
        let entry = files.files.get(&handle).ok_or(io::ErrorKind::NotFound)?;
        passed::check_kind(&*entry.target, entry.user)
    }

    /// The file is closed when what it has been given is written.
    pub(crate) fn close(&self, handle: FileHandle) {
        let entry = self.lock().files.remove(&handle);
        if let Some(entry) = entry {
            self.elsewhere.end(Whose::User(entry.user), entry);
        }
    }

    /// Begins to write; `reports` will say how it went. The writes of a file are done one after another.
    pub(crate) fn write(&self, write: FileWrite, reports: &Arc<Reports>) {
        let handle = write.file;
        reports.expect();
        if let Err(error) = self.lock().write(write, reports) {
            reports.tell(handle, Err(error));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        // No code under the lock leaves the table half changed.
        self.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Files {
    fn write(&mut self, write: FileWrite, reports: &Arc<Reports>) -> io::Result<()> {
        let content = match write.content {
            FileContent::Bytes(bytes) => Content::Bytes(bytes),
            FileContent::Copy { from, offset, len } => {
                let source = self.files.get(&from).ok_or(io::ErrorKind::NotFound)?;
                Content::Copy { from: Arc::clone(&source.target), offset, len }
            }
        };
        let entry = self.files.get_mut(&write.file).ok_or(io::ErrorKind::NotFound)?;
        let writer = match &entry.writer {
            Some(writer) => writer,
            None => entry.writer.insert(Writer::start(write.file, Arc::clone(&entry.target), reports)?),
        };
        writer.write(Job { content, sync: write.sync })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{Read, Write};

    use bytes::Bytes;
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    struct World {
        files: FileTable,
        reports: Arc<Reports>,
    }

    impl World {
        fn new() -> Self {
            Self { files: FileTable::default(), reports: Arc::new(Reports::new().unwrap()) }
        }

        fn write(&self, file: FileHandle, bytes: &[u8]) {
            let content = FileContent::Bytes(Bytes::copy_from_slice(bytes));
            self.files.write(FileWrite { file, content, sync: true }, &self.reports);
        }

        fn copy(&self, from: FileHandle, to: FileHandle, offset: u64, len: usize) {
            let content = FileContent::Copy { from, offset, len };
            self.files.write(FileWrite { file: to, content, sync: false }, &self.reports);
        }

        /// Waits for the next report.
        fn report(&self) -> io::Result<()> {
            loop {
                if let Some((_, result)) = self.reports.next() {
                    return result;
                }
                poll(&mut [PollFd::new(&self.reports, PollFlags::IN)], None).unwrap();
            }
        }
    }

    #[test]
    fn a_full_pipe_stops_nobody_but_its_own_writer() {
        let (mut reader, writer) = io::pipe().unwrap();
        let world = World::new();
        let (pipe, other) = (world.files.add(writer.into(), 0), tempfile::tempfile().unwrap());
        let bytes = vec![7; 1024 * 1024];
        world.write(pipe, &bytes);
        let other = world.files.add(other.into(), 0);
        world.write(other, b"abc");
        world.report().unwrap();
        assert!(world.reports.next().is_none(), "the pipe is full");
        let mut read = vec![0; bytes.len()];
        reader.read_exact(&mut read).unwrap();
        assert!(read == bytes);
        world.report().unwrap();
        world.files.close(pipe);
        assert_eq!(reader.read(&mut read).unwrap(), 0, "closed");
    }

    #[test]
    fn the_end_waits_for_disks_but_not_for_readers() {
        let dir = tempfile::tempdir().unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        let world = World::new();
        let file = world.files.create(dir.path().join("trace").to_str().unwrap()).unwrap();
        let pipe = world.files.add(writer.into(), 0);
        world.write(pipe, &vec![7; 1024 * 1024]);
        (0..100).for_each(|_| world.write(file, &[1; 10_000]));
        world.reports.end();
        assert_eq!(std::fs::metadata(dir.path().join("trace")).unwrap().len(), 1_000_000);
        let results: Vec<bool> =
            std::iter::from_fn(|| world.reports.next()).map(|(_, result)| result.is_ok()).collect();
        assert_eq!(results.iter().filter(|is_ok| !**is_ok).count(), 1, "the pipe's");
        assert_eq!(results.len(), 101);
    }

    #[test]
    fn nothing_follows_a_write_that_failed() {
        let world = World::new();
        let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
            return println!("skipped: there is no /dev/full");
        };
        let full = world.files.add(full.into(), 0);
        world.write(full, b"abc");
        assert_eq!(world.report().unwrap_err().kind(), io::ErrorKind::StorageFull);
        world.write(full, b"def");
        assert!(world.report().unwrap_err().to_string().contains("before"));
    }

    #[test]
    fn an_output_path_must_not_exist() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let world = World::new();
        let handle = world.files.create(path.to_str().unwrap()).unwrap();
        world.write(handle, b"abc");
        world.report().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
        let again = world.files.create(path.to_str().unwrap());
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_copy_is_of_what_was_written_and_leaves_the_source_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name| -> File {
            OpenOptions::new().read(true).append(true).create(true).open(dir.path().join(name)).unwrap()
        };
        let mut source = open("source");
        source.write_all(b"not ours ").unwrap();
        let world = World::new();
        let (from, to) = (world.files.add(source.into(), 0), world.files.add(open("copy").into(), 0));
        let spoilt = world.files.add(open("spoilt").into(), 0);
        world.copy(from, spoilt, 0, 1);
        world.report().unwrap_err();
        world.write(from, b"abcdef");
        world.report().unwrap();
        for (offset, len) in [(0, 2), (2, 3)] {
            world.copy(from, to, offset, len);
            world.report().unwrap();
        }
        world.write(from, b"ghi");
        world.report().unwrap();
        world.copy(from, to, 5, 5);
        assert!(world.report().is_err(), "more than there is");
        assert_eq!(std::fs::read(dir.path().join("source")).unwrap(), b"not ours abcdefghi");
        assert_eq!(std::fs::read(dir.path().join("copy")).unwrap(), b"abcde");
    }
}
