//! Who is connected and what they offer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use ferretto_protos::DataSourceDescriptor;
use ferretto_shm::{ChunkError, ChunkHeader, ServiceView, SharedMemory};
use ferretto_trace_buffer::ClientIdentity;
use prost::Message as _;

use crate::commands::Backlog;
use crate::commit::Commit;
use crate::ids::{BufferId, ConsumerConn, ProducerConn, ProducerId, SessionId, Token};
use crate::ipc_output::Reading;
use crate::machines::Machine;
use crate::observe::Observing;
use crate::pace::Intake;
use crate::protovms::VmProgram;
use crate::query::Query;

/// Who is at the other end of a connection, as the kernel says, or a relay for whom it stands in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process, 0 if unknown.
    pub pid: i32,
    /// Descriptors cannot pass (TCP): chunks are to be sent by value (`use_shmem_emulation`).
    pub emulated: bool,
}

impl Peer {
    /// The user of a peer that nobody vouches for (upstream: `kInvalidUid`). All such peers are strangers to each other.
    pub const UNKNOWN_UID: u32 = u32::MAX;

    /// What belongs to a user is this peer's, too.
    pub(crate) fn is_user(&self, uid: u32) -> bool {
        self.uid == uid && uid != Self::UNKNOWN_UID
    }
}

/// A connection on the producer side, before and after `InitializeConnection`.
#[derive(Debug)]
pub(crate) struct ProducerLink {
    pub(crate) peer: Peer,
    /// None for the service's own.
    pub(crate) machine: Option<Arc<Machine>>,
    pub(crate) producer: Option<ProducerId>,
    /// The `GetAsyncCommand` call whose replies are the commands.
    pub(crate) commands: Option<Token>,
    /// What it was not told yet.
    pub(crate) backlog: Backlog,
    /// It was said that it misses commands without that call.
    pub(crate) misses_commands: bool,
    /// SetupTracing waits for the command stream.
    pub(crate) setup_tracing_pending: bool,
}

/// Buffers that a producer may write to, by session: all of one are taken from it at once, for there may be thousands of producers.
#[derive(Debug, Default)]
pub(crate) struct AllowedBuffers(BTreeMap<SessionId, BTreeSet<BufferId>>);

impl AllowedBuffers {
    pub(crate) fn insert(&mut self, session: SessionId, buffer: BufferId) {
        self.0.entry(session).or_default().insert(buffer);
    }

    #[inline]
    pub(crate) fn contains(&self, buffer: BufferId) -> bool {
        self.0.values().any(|buffers| buffers.contains(&buffer))
    }

    /// The session is erased.
    pub(crate) fn remove_all_of(&mut self, session: SessionId) {
        self.0.remove(&session);
    }
}

/// A producer that has introduced itself.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) conn: ProducerConn,
    pub(crate) peer: Peer,
    /// None for the service's own.
    pub(crate) machine: Option<Arc<Machine>>,
    pub(crate) name: Arc<str>,
    pub(crate) sdk_version: String,
    pub(crate) scraping: bool,
    pub(crate) hints: MemorySizes,
    pub(crate) memory: Option<ProducerMemory>,
    /// Page size of the private memory of a producer that sends its chunks by value, once it was told to set tracing up.
    pub(crate) emulated_page_size: Option<usize>,
    pub(crate) data_sources: Vec<DataSource>,
    /// Data sources that it could not register.
    pub(crate) sources_ignored: u64,
    /// Buffers that its data sources write to; commits to others are discarded.
    pub(crate) allowed_buffers: AllowedBuffers,
    /// Writers that announced themselves, and their buffer.
    pub(crate) writers: BTreeMap<u16, BufferId>,
    pub(crate) intake: Intake,
    /// What it asked for last, if it takes several steps.
    pub(crate) commit: Option<Commit>,
}

/// Whole size and page size in bytes, as somebody wishes; 0 is no wish.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MemorySizes {
    pub(crate) size: usize,
    pub(crate) page: usize,
}

/// The memory that a producer writes to.
#[derive(Debug)]
pub(crate) struct ProducerMemory {
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) view: ServiceView,
    pub(crate) page_size: usize,
    /// Pages from the first to the last that a chunk has come from. Looking at others would make the system provide memory for them.
    pub(crate) seen_pages: u32,
    /// The producer brought it: SetupTracing tells neither descriptor nor page size.
    pub(crate) is_provided: bool,
    /// The user on whose account it is.
    pub(crate) payer: u32,
}

impl ProducerMemory {
    /// Copies a complete chunk and frees it.
    pub(crate) fn take(
        &mut self,
        page: u32,
        chunk: u32,
        payload: &mut Vec<u8>,
    ) -> Result<ChunkHeader, ChunkError> {
        let header = self.view.read_complete_chunk(page, chunk, payload)?;
        self.seen_pages = self.seen_pages.max(page.saturating_add(1));
        Ok(header)
    }

    /// How many of its pages are not free.
    pub(crate) fn pages_in_use(&self) -> u32 {
        self.view.pages_in_use(self.seen_pages)
    }
}

/// Numbers all data sources that there ever were, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SourceSerial(pub(crate) u64);

/// A data source that a producer has registered.
#[derive(Debug, Clone)]
pub(crate) struct DataSource {
    /// A producer's stand in the order of these.
    pub(crate) serial: SourceSerial,
    pub(crate) name: Arc<str>,
    pub(crate) id: u64,
    pub(crate) will_notify_on_start: bool,
    pub(crate) will_notify_on_stop: bool,
    pub(crate) handles_clear: bool,
    pub(crate) no_flush: bool,
    pub(crate) program: Option<VmProgram>,
    /// As it came, for QueryServiceState.
    pub(crate) raw: Bytes,
}

impl DataSource {
    /// `raw` is copied: it is part of a whole frame.
    pub(crate) fn new(serial: SourceSerial, descriptor: &DataSourceDescriptor, raw: &Bytes) -> Self {
        let raw = Bytes::copy_from_slice(raw);
        // Decoded once more, the program is a part of the copy.
        let of_copy =
            descriptor.protovm_program.as_ref().and_then(|_| DataSourceDescriptor::decode(raw.clone()).ok());
        Self {
            serial,
            name: descriptor.name().into(),
            id: descriptor.id(),
            will_notify_on_start: descriptor.will_notify_on_start(),
            will_notify_on_stop: descriptor.will_notify_on_stop(),
            handles_clear: descriptor.handles_incremental_state_clear(),
            no_flush: descriptor.no_flush(),
            program: of_copy.and_then(|copy| copy.protovm_program).map(VmProgram::new),
            raw,
        }
    }
}

impl Producer {
    pub(crate) fn identity(&self) -> ClientIdentity {
        let machine_id = self.machine.as_ref().map_or(0, |machine| machine.id);
        ClientIdentity { uid: self.peer.uid, pid: self.peer.pid, machine_id }
    }

    pub(crate) fn offers(&self, name: &str) -> bool {
        self.data_sources.iter().any(|source| *source.name == *name)
    }

    pub(crate) fn source(&self, serial: SourceSerial) -> Option<&DataSource> {
        let index = self.data_sources.binary_search_by_key(&serial, |source| source.serial).ok()?;
        self.data_sources.get(index)
    }

    /// Its first data source of that name that was registered after this one.
    pub(crate) fn next_source(&self, name: &str, after: SourceSerial) -> Option<&DataSource> {
        self.sources_after(after).iter().find(|source| *source.name == *name)
    }

    /// Those that were registered after this one.
    pub(crate) fn sources_after(&self, after: SourceSerial) -> &[DataSource] {
        let later = self.data_sources.partition_point(|source| source.serial <= after);
        self.data_sources.get(later..).unwrap_or_default()
    }
}

/// A connection on the consumer side.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) peer: Peer,
    pub(crate) session: Option<SessionId>,
    /// The `EnableTracing` call, answered when tracing ends.
    pub(crate) enable: Option<Token>,
    pub(crate) reading: Option<Reading>,
    pub(crate) query: Option<Query>,
    /// The `ObserveEvents` call and what it wants.
    pub(crate) observing: Option<Observing>,
}

impl Consumer {
    pub(crate) fn new(peer: Peer) -> Self {
        Self { peer, session: None, enable: None, reading: None, query: None, observing: None }
    }
}

/// The next free id of 16 bits after the last one given: an id is reused as late as possible, so that what still names the old bearer
/// names nobody.
pub(crate) fn next_free_id(last: u16, is_used: impl Fn(u16) -> bool) -> Option<u16> {
    let candidates = (last.saturating_add(1)..=u16::MAX).chain(1..=last);
    candidates.into_iter().find(|id| *id != 0 && !is_used(*id))
}

/// Names a consumer's connection in outputs about its session.
pub(crate) type Owner = Option<ConsumerConn>;
