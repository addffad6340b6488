//! Runs scripts: ours and upstream's objects behind the script languages of the crates' own tests.

use ferretto_trace_buffer::{Chunk, FillPolicy, Patch, Stats};

use crate::cpp::{self, Applied, Version};
use crate::{Kind, filter_script};

#[path = "../../../crates/recording/trace-buffer/tests/script/mod.rs"]
mod buffer_script;
#[path = "../../../crates/recording/protovm/tests/script/mod.rs"]
mod vm_script;

use buffer_script::{ChunkName, Found, Gone, ScriptError};
use vm_script::Outcome;

/// What ours prints.
pub(crate) fn ours(kind: Kind, script: &str) -> Result<String, ScriptError> {
    match kind {
        Kind::TraceBuffer => buffer_script::run(script),
        Kind::Protovm => vm_script::run(script),
        Kind::Filter => filter_script::run_on::<filter_script::Ours>(script),
    }
}

/// What upstream's prints. May end the process.
pub(crate) fn theirs(kind: Kind, script: &str) -> Result<String, ScriptError> {
    match kind {
        Kind::TraceBuffer => buffer_script::run_on::<TheirBuffer>(script),
        Kind::Protovm => vm_script::run_on::<cpp::Vm>(script),
        Kind::Filter => filter_script::run_on::<cpp::Filter>(script),
    }
}

struct TheirBuffer {
    buffer: cpp::Buffer,
    /// Whose overwritten packets it records.
    wanted: Vec<u16>,
    /// The read pass has come to its end.
    ///
    /// Ours stays there. Upstream, which does not expect to be asked again, looks at the last chunk once more, and counts a
    /// gap before it as one more loss.
    pass_over: bool,
}

impl TheirBuffer {
    fn around(buffer: Option<cpp::Buffer>) -> Result<Self, ScriptError> {
        let buffer = buffer.ok_or("no memory for upstream's buffer")?;
        Ok(Self { buffer, wanted: Vec::new(), pass_over: false })
    }
}

impl buffer_script::Driven for TheirBuffer {
    fn create(size: usize, policy: FillPolicy) -> Result<Self, ScriptError> {
        Self::around(cpp::Buffer::new(Version::V2, size, policy))
    }

    fn size(&self) -> usize {
        self.buffer.size()
    }

    fn copy(&mut self, chunk: &Chunk<'_>, gone: &mut Gone) {
        if gone.wanted.iter().map(|producer| producer.0).ne(self.wanted.iter().copied()) {
            self.wanted = gone.wanted.iter().map(|producer| producer.0).collect();
            self.buffer.want(&self.wanted);
        }
        self.buffer.copy(chunk);
        for packet in cpp::Buffer::overwritten() {
            gone.print(ferretto_trace_buffer::ProducerId(packet.producer), packet.writer, &packet.bytes);
        }
    }

    fn patch(&mut self, of: ChunkName, patches: &[Patch], more_pending: bool) -> bool {
        self.buffer.patch((of.producer.0, of.writer, of.chunk_id), patches, more_pending)
    }

    fn begin(&mut self) {
        self.pass_over = false;
        self.buffer.begin();
    }

    fn read(&mut self) -> Option<Found> {
        if self.pass_over {
            return None;
        }
        let Some(cpp::Packet { producer, writer, loss, bytes }) = self.buffer.read() else {
            self.pass_over = true;
            return None;
        };
        Some(Found { producer, writer, loss, bytes })
    }

    fn clone_read_only(&self) -> Result<Self, ScriptError> {
        Self::around(self.buffer.clone_read_only())
    }

    fn compact(&mut self) {
        self.buffer.compact();
    }

    fn stats(&self) -> Stats {
        self.buffer.stats()
    }
}

impl vm_script::Driven for cpp::Vm {
    fn create(memory_limit_bytes: usize, program: &[u8], state: Option<&[u8]>) -> Result<Self, ScriptError> {
        Ok(Self::new(program, memory_limit_bytes, state))
    }

    fn apply(&mut self, packet: &[u8]) -> Outcome {
        match self.apply(packet) {
            Applied::Ok => Outcome::Ok,
            Applied::Error => Outcome::Error,
            Applied::Abort => Outcome::Abort,
        }
    }

    fn state(&self) -> Vec<u8> {
        self.state()
    }

    fn clone_read_only(&self) -> Self {
        self.clone_read_only()
    }

    fn memory_usage_bytes(&self) -> usize {
        self.memory_usage_bytes()
    }
}
