//! Clones of sessions that write into a file: what the source's file has, then what its buffers have (upstream: `FlushAndCloneSession`).
//!
//! Both are taken at one time, after the flush. What the source writes from then on is not the clone's: the copy ends before it, and the
//! clone's buffers have it. So each packet comes once. What the service itself says is repeated, for the clone is a trace with an id of
//! its own.

use crate::cloning::CloneRequest;
use crate::config::FileSpec;
use crate::file_output::FileOutput;
use crate::filtering::Filtering;
use crate::ids::{ConsumerConn, FileHandle, SessionId};
use crate::limits;
use crate::now::Now;
use crate::output::FileContent;
use crate::service::Service;

/// A copy under way.
#[derive(Debug)]
pub(crate) struct FileCopy {
    from: FileHandle,
    /// So much was handed out.
    done: u64,
    len: u64,
}

impl FileCopy {
    /// Of all that this file has been given so far.
    fn of(source: &FileOutput) -> Self {
        Self { from: source.handle, done: 0, len: source.bytes_written() }
    }

    pub(crate) fn next_piece(&mut self) -> Option<FileContent> {
        if self.is_done() {
            return None;
        }
        let offset = self.done;
        self.done = self.next_end();
        Some(FileContent::Copy { from: self.from, offset, len: (self.done - offset) as usize })
    }

    /// Where the next piece ends.
    fn next_end(&self) -> u64 {
        self.len.min(self.done.saturating_add(limits::FILE_WRITE_BYTES as u64))
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done >= self.len
    }

    pub(crate) fn stop(&mut self) {
        self.len = self.done;
    }
}

impl Service {
    /// A clone that was just made gets a file, for what its source's has until now and for what comes to its buffers. It is the consumer's when
    /// all is written; until then it is nobody's.
    pub(crate) fn copy_file(
        &mut self,
        source: SessionId,
        id: SessionId,
        file: FileHandle,
        clone: CloneRequest,
    ) {
        let source = self.sessions.get(&source).and_then(|session| session.file.as_ref());
        let Some(source) = source else { return self.close_files([file]) };
        // How large the source's file may get is no matter of the clone's, as upstream has it: what the buffers hold is all there.
        let spec = FileSpec { max_bytes: None, ..source.spec.clone() };
        let mut output = FileOutput::new(file, spec);
        output.copy = Some(FileCopy::of(source));
        output.clone = Some(clone);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.file = Some(output);
        }
    }

    /// What is to be copied next may be on its way to the source.
    pub(crate) fn waits_for_source(&self, file: &FileOutput) -> bool {
        let Some(copy) = file.copy.as_ref().filter(|copy| !copy.is_done()) else { return false };
        let mut outputs = self.sessions.values().filter_map(|session| session.file.as_ref());
        outputs.any(|source| source.handle == copy.from && source.bytes_done() < copy.next_end())
    }

    /// Some clone still needs this file.
    pub(crate) fn is_copied(&self, file: FileHandle) -> bool {
        let mut outputs = self.sessions.values().filter_map(|session| session.file.as_ref());
        outputs.any(|output| output.copy.as_ref().is_some_and(|copy| copy.from == file))
    }

    /// Closes what was left open for copies that are over.
    pub(crate) fn close_copied_files(&mut self) {
        let files = std::mem::take(&mut self.close_when_copied);
        self.close_files(files);
    }

    /// The clone is erased, and whoever wanted it told why.
    pub(crate) fn fail_clone_into_file(&mut self, session_id: SessionId, error: &str, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(file) = session.file.take() else { return };
        self.close_files([file.handle]);
        self.free_session(session_id, now);
        if let Some(clone) = file.clone {
            let error = format!("the clone cannot be written into its file: {error}");
            self.refuse_clone(clone, &error);
        }
        self.flush_observed_events();
    }

    /// The consumer that wanted the clone is gone, and with it whoever could use half a file.
    pub(crate) fn abandon_copies_for(&mut self, consumer: ConsumerConn, now: &Now) {
        let mut abandoned = Vec::new();
        for session in self.sessions.values_mut() {
            let Some(output) = &mut session.file else { continue };
            if output.clone.take_if(|clone| clone.is_from(consumer)).is_some() {
                output.abandon();
                session.filtering.as_mut().into_iter().for_each(Filtering::give_up);
                abandoned.push(session.id);
            }
        }
        for session_id in abandoned {
            self.free_session(session_id, now);
        }
    }
}
