//! What the service wants done.

use std::sync::Arc;

use bytes::Bytes;
use ferretto_shm::SharedMemory;
use prost::Message;

use crate::ids::{ConsumerConn, FileHandle, ProducerConn, Token};

/// One thing to do; see [`Service::poll_output`](crate::Service::poll_output).
#[derive(Debug)]
pub enum Output {
    /// Send a reply to a producer. Commands to a producer are replies to its `GetAsyncCommand`.
    ToProducer(ProducerConn, Reply),
    /// Send a reply to a consumer.
    ToConsumer(ConsumerConn, Reply),
    /// The service needs this file no longer; close it.
    CloseFile(FileHandle),
}

/// A reply to a request.
#[derive(Debug)]
pub struct Reply {
    /// The request.
    pub token: Token,
    /// The serialised response; `None` if the request is rejected.
    pub body: Option<Bytes>,
    /// More replies to this request will follow.
    pub has_more: bool,
    /// Shared memory whose descriptor goes along.
    pub memory: Option<Arc<SharedMemory>>,
}

impl Reply {
    /// The response, for drivers in one process with the client; `None` if the request was rejected, or the response is of another type.
    pub fn message<M: Message + Default>(&self) -> Option<M> {
        M::decode(self.body.clone()?).ok()
    }

    pub(crate) fn last(token: Token, message: &impl Message) -> Self {
        Self { token, body: Some(message.encode_to_vec().into()), has_more: false, memory: None }
    }

    pub(crate) fn more(token: Token, message: &impl Message) -> Self {
        Self { has_more: true, ..Self::last(token, message) }
    }

    pub(crate) fn rejected(token: Token) -> Self {
        Self { token, body: None, has_more: false, memory: None }
    }
}

/// Bytes for a file; see [`Service::poll_file_write`](crate::Service::poll_file_write).
#[derive(Debug)]
pub struct FileWrite {
    /// Where to.
    pub file: FileHandle,
    /// To be appended.
    pub content: FileContent,
    /// After the content, bring the file to storage (`fflush_post_write`).
    pub sync: bool,
}

/// What a file gets.
#[derive(Debug)]
pub enum FileContent {
    /// These bytes.
    Bytes(Bytes),
    /// A copy of what was written to another file. That one is not closed before the driver has told what became of it.
    Copy {
        /// The other file.
        from: FileHandle,
        /// Counted from the first byte that the service had written to it.
        offset: u64,
        /// How many bytes: no more than other writes have.
        len: usize,
    },
}
