//! Finds the files of this machine's journal, and follows them: through new entries, and through new files that take the place of full ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::file::{FileError, JournalFile};
use crate::proc_fs;

/// The volatile journal and the one on disk (systemd: sd_journal_open).
const ROOTS: [&str; 2] = ["/run/log/journal", "/var/log/journal"];
const MACHINE_ID: &str = "/etc/machine-id";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Files that are open at a time: one for the system and one for each user that logs, and those that they have just replaced.
const MAX_OPEN_FILES: usize = 256;
/// Files in a folder that are looked at (systemd: JOURNAL_FILES_MAX).
const MAX_FILES: usize = 7168;

/// The journal of one machine.
#[derive(Debug)]
pub(crate) struct Follower {
    folders: Vec<PathBuf>,
    /// Entries of other boots have other clocks.
    pub(crate) boot_id: [u8; 16],
    files: BTreeMap<FileId, Followed>,
    failures: u64,
}

/// Device and inode, which stay when journald renames a full file.
type FileId = (u64, u64);

#[derive(Debug)]
enum Followed {
    Open(Box<JournalFile<File>>),
    /// Read to its end, or not readable.
    Done,
}

/// Why there is no journal for this user; `None` if there is one.
pub(crate) fn what_is_missing() -> Option<String> {
    Follower::of_this_machine().err()
}

impl Follower {
    /// From the present end of each file on.
    pub(crate) fn of_this_machine() -> Result<Self, String> {
        let machine_id = proc_fs::read(MACHINE_ID);
        let machine_id = String::from_utf8_lossy(machine_id.trim_ascii()).into_owned();
        if machine_id.is_empty() {
            return Err(format!("{MACHINE_ID} does not say which journal is this machine's"));
        }
        let boot_id = parse_id(&proc_fs::read(BOOT_ID)).ok_or(format!("{BOOT_ID} cannot be read"))?;
        Self::new(ROOTS.iter().map(|root| Path::new(root).join(&machine_id)).collect(), boot_id)
    }

    fn new(folders: Vec<PathBuf>, boot_id: [u8; 16]) -> Result<Self, String> {
        let mut follower = Self { folders, boot_id, files: BTreeMap::new(), failures: 0 };
        let mut problem = None;
        for (id, path) in follower.list() {
            let opened = open(&path).and_then(|mut file| {
                if !file.is_archived() {
                    file.skip_to_end()?;
                }
                Ok(file)
            });
            let followed = match opened {
                Ok(file) if !file.is_archived() => Followed::Open(Box::new(file)),
                Ok(_) => Followed::Done,
                Err(error) => {
                    problem.get_or_insert(format!("{}: {error}", path.display()));
                    Followed::Done
                }
            };
            follower.files.insert(id, followed);
        }
        match problem {
            Some(problem) if follower.open_files() == 0 => {
                Err(format!("{problem} (run with sudo, or add yourself to the group systemd-journal)"))
            }
            _ if follower.files.is_empty() => {
                let folders: Vec<String> =
                    follower.folders.iter().map(|path| path.display().to_string()).collect();
                Err(format!("there is no journal in {}: systemd-journald does not run", folders.join(" or ")))
            }
            Some(problem) => {
                tracing::info!("linux.systemd_journald: a file of the journal is left out: {problem}");
                Ok(follower)
            }
            None => Ok(follower),
        }
    }

    /// Hands on new entries, `max_entries` at most; true if there may be more.
    pub(crate) fn read(
        &mut self,
        max_entries: usize,
        mut on_entry: impl FnMut(&JournalFile<File>, u64) -> Result<(), FileError>,
    ) -> bool {
        self.find_new_files();
        let mut left = max_entries;
        for followed in self.files.values_mut() {
            let Followed::Open(file) = followed else { continue };
            match read_file(file, &mut left, &mut self.failures, &mut on_entry) {
                Ok(true) => *followed = Followed::Done,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!("linux.systemd_journald: a file of the journal is given up: {error}");
                    self.failures += 1;
                    *followed = Followed::Done;
                }
            }
        }
        left == 0
    }

    /// Entries that could not be read and files given up, since the last time.
    pub(crate) fn take_failures(&mut self) -> u64 {
        std::mem::take(&mut self.failures)
    }

    fn open_files(&self) -> usize {
        self.files.values().filter(|followed| matches!(followed, Followed::Open(_))).count()
    }

    /// Files that have come since the last look are read from their beginning; those that are gone are forgotten.
    fn find_new_files(&mut self) {
        let listed = self.list();
        self.files.retain(|id, followed| matches!(followed, Followed::Open(_)) || listed.contains_key(id));
        for (id, path) in listed {
            if self.files.contains_key(&id) || self.open_files() >= MAX_OPEN_FILES {
                continue;
            }
            match open(&path) {
                Ok(file) => drop(self.files.insert(id, Followed::Open(Box::new(file)))),
                // One that has just been made may have no header yet: looked at again.
                Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(FileError::NotAJournal) => {}
                Err(error) => {
                    tracing::info!("linux.systemd_journald: {} is left out: {error}", path.display());
                    self.files.insert(id, Followed::Done);
                }
            }
        }
    }

    fn list(&self) -> BTreeMap<FileId, PathBuf> {
        let entries = self.folders.iter().flat_map(std::fs::read_dir).flatten().flatten().take(MAX_FILES);
        let journals =
            entries.filter(|entry| Path::new(&entry.file_name()).extension().is_some_and(|e| e == "journal"));
        journals
            .filter_map(|entry| {
                // No pipe, which would have us wait.
                let metadata = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
                Some(((metadata.dev(), metadata.ino()), entry.path()))
            })
            .collect()
    }
}

fn open(path: &Path) -> Result<JournalFile<File>, FileError> {
    let file = File::open(path).map_err(|source| FileError::Io { what: "it", source })?;
    JournalFile::open(file)
}

/// True once nothing more will come.
fn read_file(
    file: &mut JournalFile<File>,
    left: &mut usize,
    failures: &mut u64,
    on_entry: &mut impl FnMut(&JournalFile<File>, u64) -> Result<(), FileError>,
) -> Result<bool, FileError> {
    file.refresh()?;
    while *left > 0 {
        let Some(offset) = file.next_entry()? else { return Ok(file.is_archived()) };
        *left -= 1;
        // What is damaged about one entry says nothing about the next.
        *failures += u64::from(on_entry(file, offset).is_err());
    }
    Ok(false)
}

/// 32 hexadecimal digits, with or without dashes.
fn parse_id(text: &[u8]) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.trim_ascii().iter().copied().filter(|byte| *byte != b'-').collect();
    let value = u128::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?;
    (digits.len() == 32).then(|| value.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BOOT, Builder};
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("ferretto-journal-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, journal: &Builder) {
            std::fs::write(self.0.join(name), &journal.bytes).unwrap();
        }

        fn follower(&self) -> Result<Follower, String> {
            Follower::new(vec![self.0.clone(), self.0.join("missing")], BOOT)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn times(follower: &mut Follower, max_entries: usize) -> (Vec<u64>, bool) {
        let mut times = Vec::new();
        let has_more = follower.read(max_entries, |file, offset| {
            times.push(file.entry(offset)?.monotonic_us);
            Ok(())
        });
        (times, has_more)
    }

    #[test]
    fn new_entries_are_followed_through_files_that_take_over() {
        let folder = Folder::new("rotation");
        let mut system = Builder::new(true, 4);
        system.message(1, &["A=old"]);
        folder.write("system.journal", &system);
        folder.write("system@old.journal", &{
            let mut old = system.clone();
            old.archive();
            old
        });
        std::fs::write(folder.0.join("notes.txt"), "none of ours").unwrap();
        let mut follower = folder.follower().unwrap();
        assert_eq!(times(&mut follower, 100), (vec![], false));

        for time in 2..8 {
            system.message(time, &["A=new"]);
        }
        folder.write("system.journal", &system);
        assert_eq!(times(&mut follower, 4), (vec![2, 3, 4, 5], true));
        // The file is full: it gets its last entry and another name, and a new one its name.
        system.message(8, &["A=last"]);
        system.archive();
        folder.write("system.journal", &system);
        std::fs::rename(folder.0.join("system.journal"), folder.0.join("system@new.journal")).unwrap();
        let mut next = Builder::new(true, 4);
        next.message(9, &["A=first"]);
        folder.write("system.journal", &next);
        let mut all = times(&mut follower, 100).0;
        all.sort_unstable();
        assert_eq!(all, [6, 7, 8, 9]);
        assert_eq!((follower.open_files(), follower.take_failures()), (1, 0));
        std::fs::remove_file(folder.0.join("system@new.journal")).unwrap();
        assert_eq!(times(&mut follower, 100), (vec![], false));
        assert_eq!(follower.files.len(), 2, "what is gone is forgotten");
    }

    #[test]
    fn a_damaged_entry_or_file_is_counted_and_the_rest_is_read() {
        let folder = Folder::new("damaged");
        folder.write("system.journal", &Builder::new(false, 4));
        let mut follower = folder.follower().unwrap();
        let mut system = Builder::new(false, 4);
        system.message(1, &["A=b"]);
        let broken = system.entry(2, BOOT, &[]);
        system.patch(broken, &[9]);
        system.message(3, &["A=b"]);
        folder.write("system.journal", &system);
        let mut broken = system.clone();
        broken.patch(176, &8u64.to_le_bytes());
        folder.write("user-1000.journal", &broken);
        assert_eq!(times(&mut follower, 100), (vec![1, 3], false));
        assert_eq!(follower.take_failures(), 2);
        assert_eq!(times(&mut follower, 100), (vec![], false));
        assert_eq!(follower.take_failures(), 0);
    }

    #[test]
    fn a_missing_journal_says_where_it_was_looked_for() {
        let folder = Folder::new("missing");
        let problem = folder.follower().unwrap_err();
        assert!(
            problem.contains(folder.0.to_str().unwrap()) && problem.contains("systemd-journald does not run")
        );
        std::fs::write(folder.0.join("system.journal"), "").unwrap();
        let problem = folder.follower().unwrap_err();
        assert!(problem.contains("system.journal") && problem.contains("group systemd-journal"), "{problem}");
    }

    #[test]
    fn ids_are_read_with_and_without_dashes() {
        let id = parse_id(b"00112233-4455-6677-8899-aabbccddeeff\n").unwrap();
        assert_eq!((id[1], id[15]), (0x11, 0xff));
        assert_eq!(parse_id(b"00112233445566778899aabbccddeeff"), Some(id));
        assert_eq!(
            [parse_id(b""), parse_id(b"0011"), parse_id(b"x0112233445566778899aabbccddeeff")],
            [None; 3]
        );
    }
}
