//! Trace files that break, stall, and must be closed exactly once.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use ferretto_service::{FileContent, FileHandle, FileWrite, limits};

use crate::fate::Fate;
use crate::rng::Rng;

/// What becomes of a file.
#[derive(Debug)]
pub(crate) struct File {
    /// The session that it belongs to; 0 if it goes along with another call than EnableTracing.
    pub(crate) session: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_open: bool,
    /// A write failed; it may have left a part of its bytes.
    pub(crate) has_failed: bool,
    /// So many more writes succeed.
    good_writes: Option<usize>,
    /// The writes that are under way, in their order, and how many more looks at each it takes.
    writing: VecDeque<(FileWrite, usize)>,
    is_slow: bool,
}

/// All files of a world.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) files: BTreeMap<FileHandle, File>,
    last: u64,
}

impl Files {
    /// Opens a file. Some break after a few writes, some take their time.
    pub(crate) fn open(&mut self, session: u32, rng: &mut Rng) -> FileHandle {
        self.last += 1;
        let handle = FileHandle(self.last);
        let good_writes = rng.one_in(4).then(|| rng.below(4));
        let file = File {
            session,
            bytes: Vec::new(),
            is_open: true,
            has_failed: false,
            good_writes,
            writing: VecDeque::new(),
            is_slow: rng.one_in(3),
        };
        self.files.insert(handle, file);
        handle
    }

    /// The service wants this written.
    ///
    /// # Panics
    /// If the file is closed, or too many writes are under way.
    pub(crate) fn write(&mut self, write: FileWrite, fate: &mut Fate) {
        let file = self.files.get_mut(&write.file).expect("the service writes to files that it has");
        assert!(file.is_open, "a write to {}, which is closed", write.file);
        let max = limits::MAX_FILE_WRITES_IN_FLIGHT;
        assert!(file.writing.len() < max, "more than {max} writes to {} at once", write.file);
        let looks = if file.is_slow { fate.below(30) } else { 0 };
        if looks > 0 {
            fate.saw("file stalls");
        }
        if !file.writing.is_empty() {
            fate.saw("file has writes waiting");
        }
        file.writing.push_back((write, looks));
    }

    /// Brings writes on; those that are over, with their results.
    pub(crate) fn progress(
        &mut self,
        at_once: bool,
        fate: &mut Fate,
    ) -> Vec<(FileHandle, Result<(), String>)> {
        let mut due = Vec::new();
        for (handle, file) in &mut self.files {
            match file.writing.front_mut() {
                Some((_, looks)) if *looks > 0 && !at_once => *looks -= 1,
                Some(_) => due.extend(file.writing.pop_front().map(|(write, _)| (*handle, write.content))),
                None => {}
            }
        }
        let write = |(handle, content)| {
            let result = self.bytes_of(content).and_then(|bytes| self.append(handle, &bytes, fate));
            (handle, result)
        };
        due.into_iter().map(write).collect()
    }

    /// What is to be written. A copy is made of what is in the other file by now; where a write to that has failed, not all is there.
    ///
    /// # Panics
    /// If the other file is closed.
    fn bytes_of(&self, content: FileContent) -> Result<Bytes, String> {
        let (from, offset, len) = match content {
            FileContent::Bytes(bytes) => return Ok(bytes),
            FileContent::Copy { from, offset, len } => (from, offset, len),
        };
        let source = self.files.get(&from).expect("the service copies files that it has");
        assert!(source.is_open, "a copy of {from}, which is closed");
        let start = usize::try_from(offset).expect("a small file");
        match source.bytes.get(start..start + len) {
            Some(bytes) => Ok(Bytes::copy_from_slice(bytes)),
            None => {
                assert!(source.has_failed, "{from} has no {len} bytes at {offset}");
                Err("the source is shorter than that".to_owned())
            }
        }
    }

    fn append(&mut self, handle: FileHandle, bytes: &[u8], fate: &mut Fate) -> Result<(), String> {
        self.files.get_mut(&handle).map_or(Ok(()), |file| file.append(bytes, fate))
    }

    pub(crate) fn session_of(&self, handle: FileHandle) -> u32 {
        self.files.get(&handle).map_or(0, |file| file.session)
    }

    /// The service needs the file no longer.
    ///
    /// # Panics
    /// If it was closed before, or bytes are on their way.
    pub(crate) fn close(&mut self, handle: FileHandle) -> &File {
        let file = self.files.get_mut(&handle).expect("the service closes files that it has");
        assert!(file.is_open, "{handle} is closed twice");
        assert!(file.writing.is_empty(), "{handle} is closed while a write is under way");
        file.is_open = false;
        file
    }
}

impl File {
    fn append(&mut self, bytes: &[u8], fate: &mut Fate) -> Result<(), String> {
        if self.has_failed {
            return Err("a write before has failed".to_owned());
        }
        match &mut self.good_writes {
            Some(0) => {
                fate.saw("file fails");
                self.has_failed = true;
                let len = fate.below(bytes.len() + 1);
                self.bytes.extend_from_slice(&bytes[..len]);
                return Err("the disk is full".to_owned());
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}
