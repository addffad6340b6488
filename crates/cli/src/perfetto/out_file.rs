//! The output of `perfetto`: written in place under its own name, as upstream does and scripts expect.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::Result;

use crate::record::output::plain;
use crate::report::UserError;

/// Upstream's mode (perfetto_cmd.cc).
const MODE: u32 = 0o600;

/// An opened output.
pub(crate) struct OutFile {
    /// What messages call it.
    name: String,
    /// Absent for stdout.
    path: Option<PathBuf>,
    file: File,
    written: u64,
}

impl OutFile {
    /// Opens `path`; `-` is stdout.
    pub(crate) fn open(path: &str, no_clobber: bool) -> Result<Self> {
        if path == "-" {
            let file = rustix::io::dup(io::stdout()).map_err(io::Error::from)?.into();
            return Ok(Self { name: "stdout".to_owned(), path: None, file, written: 0 });
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(MODE);
        if no_clobber {
            options.create_new(true)
        } else {
            options.create(true).truncate(true)
        };
        let file = options.open(path).map_err(|error| refuse(path, &error, no_clobber))?;
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        Ok(Self { name: path.display().to_string(), path: Some(path), file, written: 0 })
    }

    /// The file's name; None for stdout.
    pub(crate) fn path(&self) -> Option<&str> {
        self.path.as_ref().map(|_| self.name.as_str())
    }

    /// What is written, to be read again; None for stdout.
    pub(crate) fn to_read(&self) -> Option<&File> {
        self.path.as_ref().map(|_| &self.file)
    }

    /// A descriptor for the service to write to.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.try_clone().map(Into::into)
    }

    /// Appends one packet.
    pub(crate) fn write_packet(&mut self, packet: &[u8]) -> io::Result<()> {
        // Counted here because a pipe has no length.
        let mut counter = Counter { file: &mut self.file, written: &mut self.written };
        ferretto_consumer::write_packet(&mut counter, packet)
    }

    /// Says how much was written, to stderr as upstream does.
    pub(crate) fn announce(&self) {
        eprintln!("Wrote {} bytes into {}", self.len(), self.name);
    }

    /// Removes the file if nothing was written to it.
    pub(crate) fn remove_if_empty(&self) {
        if let Some(path) = self.path.as_ref().filter(|_| self.len() == 0) {
            // An empty file that stays does no harm.
            let _ = fs::remove_file(path);
        }
    }

    fn len(&self) -> u64 {
        let on_disk = self.path.as_ref().and_then(|_| self.file.metadata().ok()).map(|meta| meta.len());
        on_disk.unwrap_or(self.written).max(self.written)
    }
}

struct Counter<'a> {
    file: &'a mut File,
    written: &'a mut u64,
}

impl Write for Counter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.file.write(bytes)?;
        *self.written += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn refuse(path: &str, error: &io::Error, no_clobber: bool) -> anyhow::Error {
    if no_clobber && error.kind() == io::ErrorKind::AlreadyExists {
        return UserError::new(format!("{path} exists, and --no-clobber forbids to overwrite it")).into();
    }
    UserError::new(format!("cannot write {path}: {}", plain(error))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // NoClobber of upstream's cmdline_integrationtest.cc.
    #[test]
    fn no_clobber_keeps_the_old_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let path = path.to_str().unwrap();
        OutFile::open(path, true).unwrap().write_packet(b"old").unwrap();
        assert!(OutFile::open(path, true).is_err());
        assert_eq!(fs::read(path).unwrap(), b"\x0a\x03old");
        OutFile::open(path, false).unwrap().remove_if_empty();
        assert!(!fs::exists(path).unwrap());
    }
}
