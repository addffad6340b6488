//! The buffer's public type: how it is made, what it consists of, and what it tells about itself.

use std::num::NonZeroUsize;

use crate::chunk_flags::NEEDS_PATCHING;
use crate::drain::{Drain, Part};
use crate::fold::Fold;
use crate::ring::Ring;
use crate::sequences::{SequenceKey, Sequences};
use crate::stats::{MAX_WRITER_HISTOGRAMS, Stats, Unread, WriterHistogram, WriterHistograms};

/// The service's number for a producer's connection. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProducerId(pub u16);

/// Who is at the other end of a producer's connection, as the kernel says, not as the producer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientIdentity {
    /// User id.
    pub uid: u32,
    /// Process id.
    pub pid: i32,
    /// 0 for this machine, else the relay's id for the other one.
    pub machine_id: u32,
}

/// Whose writers are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriterOwner {
    /// Those of this user.
    User(u32),
    /// Those of all other machines: of their users anybody there says what he likes.
    OtherMachines,
}

/// How many writers a buffer knows of one owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WritersOfOwner {
    /// Those that it knows now.
    pub known: usize,
    /// Those for which it has made room: others may have it since.
    pub slots: usize,
}

impl ClientIdentity {
    /// With whose writers its own are counted.
    pub fn writer_owner(&self) -> WriterOwner {
        if self.machine_id == 0 { WriterOwner::User(self.uid) } else { WriterOwner::OtherMachines }
    }
}

/// What happens when a buffer is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillPolicy {
    /// New chunks overwrite the oldest.
    Ring,
    /// The first chunk that does not fit before the end closes the buffer for good, whatever has been read.
    Discard,
}

/// Why a buffer (or its clone) could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// Offsets are 32 bits wide.
    #[error(
        "a trace buffer of {size_bytes} bytes is too large: the limit is 4 GiB less one page; ask for less in `size_kb`"
    )]
    TooLarge {
        /// The size asked for.
        size_bytes: usize,
    },
    /// The system refused the memory.
    #[error(
        "no memory for a trace buffer of {size_bytes} bytes; ask for less in `size_kb`, or for fewer buffers"
    )]
    OutOfMemory {
        /// The size asked for, rounded up to pages.
        size_bytes: usize,
    },
}

/// Holds the chunks of many writers and gives back their packets. See the [crate's](crate) overview.
///
/// To read, call [`begin_read`](Self::begin_read), then [`read_next`](Self::read_next) until it returns `None`
/// or you have enough. Reading consumes. Any call that writes ends the read pass; [`resume_read`](Self::resume_read) goes on with it.
#[derive(Debug)]
pub struct TraceBuffer {
    pub(crate) policy: FillPolicy,
    /// Nothing may be written: this is a clone.
    pub(crate) read_only: bool,
    /// A buffer that discards has met a chunk that did not fit.
    pub(crate) closed: bool,
    /// A chunk was stored at some time, be it read or compacted away since.
    pub(crate) has_data: bool,
    pub(crate) ring: Ring,
    /// Where the next chunk goes. At most `ring.used()`.
    pub(crate) write_at: usize,
    /// It is one of so many that are copied at one time.
    pub(crate) parts: NonZeroUsize,
    /// When it takes so much to know where all chunks are, they must not be small.
    pub(crate) crowded_index_bytes: usize,
    pub(crate) sequences: Sequences,
    pub(crate) stats: Stats,
    pub(crate) histograms: WriterHistograms,
    pub(crate) read_pass: Option<ReadPass>,
    /// Where a pass was that was ended by what was written.
    pub(crate) interrupted: Option<PassPlace>,
    /// Chunks that the read pass may still look at before it rests.
    pub(crate) looks_left: usize,
    /// Chunks that were looked at, beyond those in the way, to make room for the one that was stored last.
    pub(crate) evict_looks: usize,
    /// Chunks that were taken out of their sequences since the last chunk came.
    pub(crate) erased_chunks: usize,
    /// What is kept of packets that have left, if it is wanted.
    pub(crate) fold: Option<Box<Fold>>,
    /// The packet that was found last; kept to reuse its memory.
    pub(crate) packet_parts: Vec<Part>,
    /// The bytes from the ring's start that may be resident, as of the last compaction.
    pub(crate) resident: usize,
    /// A clone under way; the bytes of its ring are still to come.
    pub(crate) clone: Option<Box<Self>>,
}

/// How far a read pass has come.
#[derive(Debug)]
pub(crate) struct ReadPass {
    /// The chunk to look at next, in the ring's order.
    pub(crate) at: usize,
    /// The walk through the sequence of the chunk at `at`, once begun.
    pub(crate) drain: Option<Drain>,
}

/// A chunk of the ring, and which round of writing it is of: a later one has overwritten it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassPlace {
    pub(crate) at: usize,
    pub(crate) round: u64,
}

impl TraceBuffer {
    /// Makes an empty buffer of `size_bytes`, rounded up to 4096. The memory becomes resident as it is used.
    ///
    /// # Errors
    /// When the size is 4 GiB or more, or the system refuses the memory.
    pub fn new(size_bytes: usize, policy: FillPolicy) -> Result<Self, CreateError> {
        let ring = Ring::new(size_bytes)?;
        let stats = Stats { buffer_size: ring.size() as u64, ..Stats::default() };
        let mut buffer = Self {
            policy,
            read_only: false,
            closed: false,
            has_data: false,
            ring,
            write_at: 0,
            parts: NonZeroUsize::MIN,
            crowded_index_bytes: 0,
            sequences: Sequences::default(),
            stats,
            histograms: WriterHistograms::at_most(MAX_WRITER_HISTOGRAMS),
            read_pass: None,
            interrupted: None,
            looks_left: usize::MAX,
            evict_looks: 0,
            erased_chunks: 0,
            fold: None,
            packet_parts: Vec::new(),
            resident: 0,
            clone: None,
        };
        buffer.limit_index();
        Ok(buffer)
    }

    /// The same with histograms of no more than so many writers, nor than [`MAX_WRITER_HISTOGRAMS`].
    #[must_use]
    pub fn with_histograms(mut self, max: usize) -> Self {
        self.histograms = WriterHistograms::at_most(max);
        self
    }

    /// The same as one of so many that are [cloned](Self::begin_clone) at one time: what is bounded beside the ring, for the time that it takes
    /// to copy it, is bounded for all of them together. Meant for buffers that are still empty.
    #[must_use]
    pub fn one_of(mut self, parts: usize) -> Self {
        self.parts = NonZeroUsize::new(parts).unwrap_or(NonZeroUsize::MIN);
        self.limit_index();
        self.limit_fold();
        self
    }

    /// How many they are.
    pub fn parts(&self) -> usize {
        self.parts.get()
    }

    /// How many writers may have a histogram.
    pub fn max_histograms(&self) -> usize {
        self.histograms.max()
    }

    /// For how many writers it has room: as many as it has had something of at one time.
    pub fn writer_slots(&self) -> usize {
        self.sequences.slot_count()
    }

    /// Whether there is room among them for another one.
    pub fn has_free_writer_slot(&self) -> bool {
        self.sequences.has_free_slot()
    }

    /// How many it knows of each owner.
    pub fn writers_of_owners(&self) -> impl Iterator<Item = (WriterOwner, WritersOfOwner)> {
        self.sequences.of_owners()
    }

    /// Becomes another number with each writer that it comes to know or forgets.
    #[inline]
    pub fn writer_changes(&self) -> u64 {
        self.sequences.changes()
    }

    /// Whether a writer is among them.
    pub fn knows(&mut self, producer: ProducerId, writer: u16) -> bool {
        self.sequences.find(SequenceKey::new(producer, writer)).is_some()
    }

    /// Forgets writers that it has nothing of any more, as far as it would with the next chunk.
    pub fn forget_idle_writers(&mut self) {
        if !self.read_only {
            self.end_pass();
            self.sequences.sweep();
        }
    }

    /// Counts a chunk that whoever has the buffer does not give to it.
    pub fn refuse_chunk(&mut self) {
        self.stats.abi_violations += 1;
    }

    /// What is written may move what a read pass relies on.
    #[inline]
    pub(crate) fn end_pass(&mut self) {
        let pass = match &mut self.fold {
            None => self.read_pass.take(),
            Some(fold) => fold.pass.take(),
        };
        if let Some(pass) = pass {
            self.interrupted = Some(self.place_of(pass.at));
        }
    }

    /// Size in bytes, as rounded.
    pub fn size(&self) -> usize {
        self.ring.size()
    }

    /// The bytes from the start that are in use, or were since the last compaction.
    pub fn used_size(&self) -> usize {
        self.ring.used()
    }

    /// Has a chunk ever been stored?
    pub fn has_data(&self) -> bool {
        self.has_data
    }

    /// What happens when the buffer is full.
    pub fn fill_policy(&self) -> FillPolicy {
        self.policy
    }

    /// Is this a clone, which takes no more chunks?
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// What happened so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What nobody has read. After a read pass that went to its end it is what cannot be read: it waits for the end of a packet, for
    /// patches, or for its writer. Looks at this many chunks at most, and counts none of the others.
    pub fn unread(&self, at_most: usize) -> Unread {
        let mut unread = Unread::default();
        let headers = self.sequences.all_chunks().take(at_most).map(|(_, at)| self.ring.header(at));
        for header in headers.filter(|header| header.unread > 0) {
            unread.chunks += 1;
            unread.bytes += u64::from(header.unread);
            unread.unpatched += u64::from(header.has(NEEDS_PATCHING));
        }
        unread
    }

    /// The chunk sizes of each writer that ever committed to this buffer, in the order of their first chunks.
    pub fn writer_stats(&self) -> impl Iterator<Item = (ProducerId, u16, &WriterHistogram)> {
        // Others are known from a buffer in whose place this one is.
        let written =
            self.histograms.iter().filter(|(_, histogram)| histogram.counts.iter().any(|count| *count > 0));
        written.map(|(key, histogram)| (key.producer(), key.writer(), histogram))
    }
}
