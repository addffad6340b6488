//! The output of `perfetto`: written in place under its own name, as upstream does and scripts expect, but into nothing of others.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::Result;
use ferretto_ipc::walk::Place;
use ferretto_printable::printable;

use crate::record::output::{open_in_place, remove_from_place};
use crate::report::UserError;

/// An opened output.
pub(crate) struct OutFile {
    /// What messages call it.
    name: String,
    /// Where it is; absent for stdout.
    place: Option<Place>,
    file: File,
    written: u64,
}

impl OutFile {
    /// Opens `path`; `-` is stdout.
    pub(crate) fn open(path: &str, no_clobber: bool) -> Result<Self> {
        if path == "-" {
            let file = rustix::io::dup(io::stdout()).map_err(io::Error::from)?.into();
            return Ok(Self { name: "stdout".to_owned(), place: None, file, written: 0 });
        }
        let (place, file) =
            open_in_place(Path::new(path), no_clobber).map_err(|error| match no_clobber && exists(path) {
                true => {
                    UserError::new(format!("{path} exists, and --no-clobber forbids to overwrite it")).into()
                }
                false => error,
            })?;
        let name = fs::canonicalize(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string());
        Ok(Self { name, place: Some(place), file, written: 0 })
    }

    /// The file's name; None for stdout.
    pub(crate) fn path(&self) -> Option<&str> {
        self.place.as_ref().map(|_| self.name.as_str())
    }

    /// What is written, to be read again; None for stdout.
    pub(crate) fn to_read(&self) -> Option<&File> {
        self.place.as_ref().map(|_| &self.file)
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
        eprintln!("Wrote {} bytes into {}", self.len(), printable(&self.name));
    }

    /// Removes the file if nothing was written to it.
    pub(crate) fn remove_if_empty(&self) {
        if let Some(place) = self.place.as_ref().filter(|_| self.len() == 0) {
            remove_from_place(place, &self.file);
        }
    }

    fn len(&self) -> u64 {
        let on_disk = self.place.as_ref().and_then(|_| self.file.metadata().ok()).map(|meta| meta.len());
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

fn exists(path: &str) -> bool {
    fs::symlink_metadata(path).is_ok()
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
