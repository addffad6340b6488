//! Trace files under a temporary name until they are whole, so that a good name never stands for half a trace.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::error::SessionError;

/// Traces hold command lines and file names: for the user's own eyes (as upstream's command line).
const MODE: u32 = 0o600;
/// Temporary names tried before giving up: leftovers of crashed recordings may occupy some.
const MAX_PARTIAL_NAMES: u32 = 100;
/// Enough to make writes rare, little enough for any stack of sessions.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct TraceFile {
    file: File,
    /// Where it is until it is whole; absent for pipes and devices, which cannot be renamed.
    partial: Option<PathBuf>,
    target: PathBuf,
    /// As the caller wrote it.
    shown: PathBuf,
}

impl TraceFile {
    /// Opens a file beside its good name.
    pub(crate) fn create(path: &Path) -> Result<Self, SessionError> {
        let failed = |source| SessionError::File { what: "write", path: path.to_owned(), source };
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Err(failed(ErrorKind::IsADirectory.into())),
            Ok(meta) if !meta.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
                Ok(Self { file, partial: None, target: path.to_owned(), shown: path.to_owned() })
            }
            Ok(_) => {
                // A rename asks only the folder: a file that its owner has protected is not to be replaced.
                OpenOptions::new().write(true).open(path).map_err(failed)?;
                // What a symbolic link points to is replaced, and the link stays.
                let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
                Self::beside(&target, path).map_err(failed)
            }
            Err(_) => Self::beside(path, path).map_err(failed),
        }
    }

    fn beside(target: &Path, shown: &Path) -> io::Result<Self> {
        for attempt in 0..MAX_PARTIAL_NAMES {
            let partial = partial_name(target, attempt);
            match OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(&partial) {
                Ok(file) => {
                    let (target, shown) = (target.to_owned(), shown.to_owned());
                    return Ok(Self { file, partial: Some(partial), target, shown });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        let first = partial_name(target, 0);
        Err(io::Error::other(format!(
            "too many unfinished recordings: remove the files {}*",
            first.display()
        )))
    }

    /// The name that it will have.
    pub(crate) fn path(&self) -> &Path {
        &self.shown
    }

    /// A descriptor for the service to write to.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd, SessionError> {
        self.file.try_clone().map(OwnedFd::from).map_err(|source| self.error("open", source))
    }

    /// Where to write.
    pub(crate) fn writer(&self) -> BufWriter<&File> {
        BufWriter::with_capacity(BUFFER_BYTES, &self.file)
    }

    /// Gives the whole trace its good name.
    pub(crate) fn finish(mut self) -> Result<(), SessionError> {
        let Some(partial) = &self.partial else { return Ok(()) };
        fs::rename(partial, &self.target).map_err(|source| {
            self.error("give its name to the trace, which is beside it as *.partial:", source)
        })?;
        self.partial = None;
        Ok(())
    }

    fn error(&self, what: &'static str, source: io::Error) -> SessionError {
        SessionError::File { what, path: self.shown.clone(), source }
    }
}

impl Drop for TraceFile {
    /// A recording that never wrote a byte leaves no file behind; any other keeps its temporary name.
    fn drop(&mut self) {
        if let Some(partial) = &self.partial
            && self.file.metadata().is_ok_and(|meta| meta.len() == 0)
        {
            // Nothing is lost if it stays.
            let _ = fs::remove_file(partial);
        }
    }
}

/// Writes a whole file, or leaves what was there as it was.
pub(crate) fn write_whole<T>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let file = TraceFile::create(path)?;
    let mut writer = file.writer();
    let written = write(&mut writer);
    let flushed = writer.flush();
    drop(writer);
    match (written, flushed) {
        (Ok(value), Ok(())) => file.finish().map(|()| value),
        (Err(SessionError::Sink(source)), _) | (Ok(_), Err(source)) => Err(file.discard(source)),
        (Err(error), _) => Err(error),
    }
}

impl TraceFile {
    /// The disk is full, or the like: nothing is gained by half a trace that takes the rest of it.
    fn discard(mut self, source: io::Error) -> SessionError {
        if let Some(partial) = self.partial.take() {
            let _ = fs::remove_file(partial);
        }
        self.error("write", source)
    }
}

fn partial_name(target: &Path, attempt: u32) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".partial");
    if attempt > 0 {
        name.push(format!(".{attempt}"));
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        write_whole(&path, |out| {
            assert_eq!(names(folder.path()), ["t.partial"]);
            out.write_all(b"whole").map_err(SessionError::Sink)
        })
        .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(folder.path()), ["t"]);
    }

    #[test]
    fn a_failure_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        fs::write(&path, "old").unwrap();
        let full = || SessionError::Sink(ErrorKind::StorageFull.into());
        let error = write_whole(&path, |out| {
            out.write_all(b"half").unwrap();
            Err::<(), _>(full())
        });
        assert!(error.unwrap_err().to_string().starts_with("cannot write"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["t"]);
    }

    #[test]
    fn what_was_cut_short_keeps_its_temporary_name_and_the_next_takes_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let first = TraceFile::create(&path).unwrap();
        let second = TraceFile::create(&path).unwrap();
        (&second.file).write_all(b"half").unwrap();
        drop((first, second));
        assert_eq!(names(folder.path()), ["t.partial.1"]);
    }

    #[test]
    fn devices_are_written_directly_and_folders_are_refused() {
        write_whole(Path::new("/dev/null"), |out| out.write_all(b"x").map_err(SessionError::Sink)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let error = TraceFile::create(folder.path()).unwrap_err().to_string();
        assert!(error.contains("directory"), "{error}");
        let missing = folder.path().join("missing/t");
        assert!(matches!(TraceFile::create(&missing), Err(SessionError::File { .. })));
    }
}
