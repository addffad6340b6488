//! Writers that exist before the session they write for.
//!
//! Their chunks wait in this process's memory, grouped by [`StartupWriters`], until a session adopts the group: then they go to its
//! buffer, and what is written later follows directly. A group that nobody adopts is given up, and its memory is free again.
//! Upstream: `shared_memory_arbiter_impl.cc` (unbound writers, target buffer reservations).

use std::fmt;
use std::sync::Arc;

use ferretto_protozero::varint;
use ferretto_shm::{ChunkFlags, ChunkHeader};

use crate::arbiter::Arbiter;
use crate::commit::CommitQueue;
use crate::writer::TraceWriter;

/// Groups of one memory. A program has one for each data source that it starts so early (upstream: `kMaxDataSources` is 32).
pub(crate) const MAX_GROUPS: usize = 64;

/// Names a group of writers that wait for a session. Unique for the life of its memory.
pub type StartupId = u16;

/// Writers of one data source that write before a session asks for it. Made by
/// [`ProducerClient::start_startup_writers`](crate::ProducerClient::start_startup_writers); any thread may use it; a clone is the same
/// group.
///
/// When an instance starts for which they are to have written, [`adopt`](Self::adopt) gives it what they wrote. After the time-out, or if
/// the service does not take this process's memory, they write into the void, and
/// [`ProducerEvent::StartupEnded`](crate::ProducerEvent::StartupEnded) says so.
#[derive(Debug, Clone)]
pub struct StartupWriters {
    pub(crate) arbiter: Arc<Arbiter>,
    pub(crate) id: StartupId,
}

impl StartupWriters {
    /// The group's name in events.
    pub fn id(&self) -> StartupId {
        self.id
    }

    /// Whether they write into the memory of this connection, so that its sessions can adopt them.
    pub fn belong_to(&self, arbiter: &Arc<Arbiter>) -> bool {
        Arc::ptr_eq(&self.arbiter, arbiter)
    }

    /// A writer of a new sequence. It never waits for memory. After the group's end it writes into the void.
    pub fn create_writer(&self) -> TraceWriter {
        self.arbiter.create_startup_writer(self.id)
    }

    /// Gives what was written, and what these writers will write, to this buffer of the service, which must be that of a session on the
    /// connection that they [belong to](Self::belong_to). `false` if the group was adopted or given up before.
    pub fn adopt(&self, target_buffer: u16) -> bool {
        self.arbiter.bind_group(self.id, target_buffer)
    }

    /// Gives up, if no session has adopted the group: what was written is lost, and its memory is free again.
    pub fn abort(&self) {
        let _ = self.arbiter.abort_group(self.id, StartupEnd::Closed);
    }

    /// What waits for a session at this moment. Nothing, if nothing waits.
    pub fn volume(&self) -> StartupVolume {
        self.arbiter.group_volume(self.id)
    }

    /// What was lost, and why, if the group was given up.
    pub fn loss(&self) -> Option<StartupLoss> {
        self.arbiter.group_loss(self.id)
    }

    /// Whether nobody has adopted the group yet, and it was not given up.
    pub fn is_waiting(&self) -> bool {
        self.arbiter.is_group_waiting(self.id)
    }
}

/// Why writers of a [`StartupWriters`] write into the void.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartupEnd {
    /// No session has adopted them in time.
    TimedOut,
    /// The service does not take memory from producers: it is an older one, or wants it otherwise.
    MemoryRefused,
    /// The connection to which the memory belonged has ended.
    Disconnected,
    /// The program ended, or gave them up itself.
    Closed,
}

impl fmt::Display for StartupEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "no session wanted it in time",
            Self::MemoryRefused => "the service takes no memory from programs",
            Self::Disconnected => "the service has gone",
            Self::Closed => "tracing ended before a session wanted it",
        })
    }
}

/// What was written for a session that is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StartupVolume {
    /// Packets, with those that describe tracks and clocks.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Packets for which there was no memory: at least so many.
    pub dropped_packets: u64,
}

impl StartupVolume {
    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.packets == 0 && self.dropped_packets == 0
    }

    /// Adds what a chunk holds that is finished (`is_complete`) or still written to.
    pub(crate) fn add_chunk(&mut self, header: ChunkHeader, payload: &[u8], is_complete: bool) {
        // The last packet of the others may be half there.
        let count = header.packet_count.saturating_sub((!is_complete).into());
        let mut continues = header.flags.contains(ChunkFlags::FIRST_PACKET_CONTINUES_FROM_PREV_CHUNK);
        let mut rest = payload;
        for _ in 0..count {
            let Some((len, behind)) = varint::decode(rest)
                .and_then(|(len, size)| Some((len, rest.get(size..)?.get(usize::try_from(len).ok()?..)?)))
            else {
                return;
            };
            rest = behind;
            // The last fragment of a finished chunk may be empty.
            self.packets += u64::from(len > 0 && !std::mem::take(&mut continues));
            self.bytes += len;
        }
    }
}

impl fmt::Display for StartupVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, bytes, dropped_packets } = self;
        write!(f, "{packets} packets, {bytes} bytes, and {dropped_packets} for which there was no memory")
    }
}

/// What was lost that was written before a session, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartupLoss {
    /// Why.
    pub reason: StartupEnd,
    /// What.
    pub volume: StartupVolume,
}

/// Where a writer's chunks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A buffer of the service.
    Buffer(u16),
    /// Where the group goes.
    Group(StartupId),
}

/// All groups of an arbiter.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    id: StartupId,
    state: GroupState,
}

#[derive(Debug)]
pub(crate) enum GroupState {
    Waiting(Waiting),
    Bound(u16),
    Ended(StartupLoss),
}

/// What waits for a buffer.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) queue: CommitQueue,
    /// Writers that have ended; their ids are not free while chunks carry them.
    pub(crate) ended_writers: Vec<u16>,
    /// Packets for which there was no memory.
    pub(crate) dropped_packets: u64,
}

impl Groups {
    /// A new group that waits; `None` if there are too many.
    pub(crate) fn add(&mut self) -> Option<StartupId> {
        if self.groups.len() >= MAX_GROUPS {
            return None;
        }
        let id = StartupId::try_from(self.groups.len()).ok()?.checked_add(1)?;
        self.groups.push(Group { id, state: GroupState::Waiting(Waiting::default()) });
        Some(id)
    }

    /// Where a group's chunks go; `None` if there is no such group.
    pub(crate) fn state(&mut self, id: StartupId) -> Option<&mut GroupState> {
        self.groups.iter_mut().find(|group| group.id == id).map(|group| &mut group.state)
    }

    /// The buffer of a group that was adopted.
    pub(crate) fn buffer_of(&self, id: StartupId) -> Option<u16> {
        match self.groups.iter().find(|group| group.id == id)?.state {
            GroupState::Bound(buffer) => Some(buffer),
            _ => None,
        }
    }

    /// Takes what waits, and leaves the group in that state; `None` if it does not wait.
    pub(crate) fn settle(&mut self, id: StartupId, settled: GroupState) -> Option<Waiting> {
        let state = self.state(id)?;
        if !matches!(state, GroupState::Waiting(_)) {
            return None;
        }
        match std::mem::replace(state, settled) {
            GroupState::Waiting(waiting) => Some(waiting),
            _ => None,
        }
    }

    /// Gives all groups that wait up. What their chunks hold is not freed.
    pub(crate) fn clear(&mut self) {
        for group in &mut self.groups {
            if matches!(group.state, GroupState::Waiting(_)) {
                let loss = StartupLoss { reason: StartupEnd::Disconnected, volume: StartupVolume::default() };
                group.state = GroupState::Ended(loss);
            }
        }
    }

    /// Chunks that wait and that no writer holds.
    pub(crate) fn complete_chunks(&self) -> usize {
        let chunks = |group: &Group| match &group.state {
            GroupState::Waiting(waiting) => waiting.queue.complete_chunks(),
            _ => 0,
        };
        self.groups.iter().map(chunks).sum()
    }

    /// Bytes of shared memory in chunks that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let bytes = |group: &Group| match &group.state {
            GroupState::Waiting(waiting) => waiting.queue.bytes,
            _ => 0,
        };
        self.groups.iter().map(bytes).sum()
    }
}
