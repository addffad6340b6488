//! Walks folders in small steps, looking for files by their numbers.

use std::fs::ReadDir;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::ftrace::metadata::FileId;

/// Paths of folders that wait for their turn. A million folders beside each other would be more; those left out are counted.
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// `InodeFileMap.Entry.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unknown = 0,
    File = 1,
    Directory = 2,
}

/// A file that was looked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) file: FileId,
    pub(crate) kind: Kind,
    pub(crate) path: PathBuf,
}

/// A walk through the folders below some roots.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    queue: Vec<PathBuf>,
    queued_bytes: usize,
    current: Option<Directory>,
    /// Folders that could not be read, and why the first could not.
    unreadable: u64,
    first_unreadable: Option<(PathBuf, io::Error)>,
    /// Folders for which there was no room in the queue.
    left_out: u64,
}

#[derive(Debug)]
struct Directory {
    device: u64,
    path: PathBuf,
    entries: ReadDir,
}

impl Scanner {
    pub(crate) fn new(roots: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut scanner = Self::default();
        roots.into_iter().for_each(|root| scanner.enqueue(root));
        scanner
    }

    pub(crate) fn is_done(&self) -> bool {
        self.current.is_none() && self.queue.is_empty()
    }

    /// Opens a folder or looks at one entry of it. Folders on devices that are not `wanted` are left alone: what is sought is not in them, and
    /// the device's own mount points are roots.
    pub(crate) fn step(
        &mut self,
        is_device_wanted: impl Fn(u64) -> bool,
        is_wanted: impl Fn(FileId) -> bool,
    ) -> Option<Found> {
        let Some(directory) = &mut self.current else {
            let path = self.queue.pop()?;
            self.queued_bytes -= path.as_os_str().len();
            self.open(path, is_device_wanted);
            return None;
        };
        let Some(entry) = directory.entries.next() else {
            self.current = None;
            return None;
        };
        let entry = entry.ok()?;
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_dir() => Kind::Directory,
            Ok(kind) if kind.is_file() => Kind::File,
            _ => Kind::Unknown,
        };
        let file = FileId { device: directory.device, inode: entry.ino() };
        let is_wanted = is_wanted(file);
        if !is_wanted && kind != Kind::Directory {
            return None;
        }
        let path = directory.path.join(entry.file_name());
        let found = is_wanted.then(|| Found { file, kind, path: path.clone() });
        if kind == Kind::Directory {
            self.enqueue(path);
        }
        found
    }

    /// What could not be looked into, for people; `None` if all could.
    pub(crate) fn complaint(&self) -> Option<String> {
        let unreadable = self.first_unreadable.as_ref().map(|(path, error)| {
            format!(
                "folders that could not be read: {}, the first is {}: {error}",
                self.unreadable,
                path.display()
            )
        });
        let left_out =
            (self.left_out > 0).then(|| format!("folders for which there was no room: {}", self.left_out));
        let parts: Vec<String> = unreadable.into_iter().chain(left_out).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn enqueue(&mut self, path: PathBuf) {
        let bytes = path.as_os_str().as_bytes().len();
        if self.queued_bytes + bytes > MAX_QUEUED_BYTES {
            self.left_out += 1;
        } else {
            self.queued_bytes += bytes;
            self.queue.push(path);
        }
    }

    fn open(&mut self, path: PathBuf, is_device_wanted: impl Fn(u64) -> bool) {
        match Directory::open(&path, is_device_wanted) {
            Ok(directory) => self.current = directory,
            // Folders come and go.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                self.unreadable += 1;
                self.first_unreadable.get_or_insert((path, error));
            }
        }
    }
}

impl Directory {
    fn open(path: &Path, is_device_wanted: impl Fn(u64) -> bool) -> io::Result<Option<Self>> {
        let device = std::fs::metadata(path)?.dev();
        if !is_device_wanted(device) {
            return Ok(None);
        }
        Ok(Some(Self { device, path: path.to_owned(), entries: std::fs::read_dir(path)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(root: &Path, device: u64, is_wanted: impl Fn(FileId) -> bool) -> (Vec<Found>, Option<String>) {
        let mut scanner = Scanner::new([root.to_owned()]);
        let mut found = Vec::new();
        while !scanner.is_done() {
            found.extend(scanner.step(|of| of == device, &is_wanted));
        }
        (found, scanner.complaint())
    }

    #[test]
    fn files_are_found_by_number_and_links_are_not_followed() {
        let root = std::env::temp_dir().join(format!("ferretto-scan-{}", std::process::id()));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink(&root, root.join("a/up")).unwrap();
        let metadata = std::fs::metadata(root.join("a/b/file")).unwrap();
        let (device, inode) = (metadata.dev(), metadata.ino());

        let (found, complaint) = walk(&root, device, |file| file.inode == inode);
        let file = FileId { device, inode };
        assert_eq!(found, [Found { file, kind: Kind::File, path: root.join("a/b/file") }]);
        assert_eq!(complaint, None);
        let (all, _) = walk(&root, device, |_| true);
        let kinds: Vec<_> = all.iter().map(|found| found.kind).collect();
        assert_eq!(all.len(), 4, "{all:?}");
        for kind in [Kind::Unknown, Kind::File, Kind::Directory] {
            assert!(kinds.contains(&kind), "{kind:?}");
        }
        assert_eq!(walk(&root, device + 1, |_| true).0, []);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_told_and_what_is_gone_is_not() {
        let (found, complaint) = walk(Path::new("/proc/self/status"), 0, |_| true);
        assert_eq!((found, complaint), (Vec::new(), None), "not the device that is wanted");
        assert_eq!(walk(Path::new("/nonexistent"), 0, |_| true).1, None);
        let mut scanner = Scanner::new([PathBuf::from("/proc/self/status")]);
        while !scanner.is_done() {
            scanner.step(|_| true, |_| true);
        }
        assert!(
            scanner
                .complaint()
                .unwrap()
                .starts_with("folders that could not be read: 1, the first is /proc/self/status")
        );
    }
}
