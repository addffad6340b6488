//! A session's buffer, and what becomes of that which it overwrites.

use ferretto_trace_buffer::{Chunk, CreateError, FillPolicy, TraceBuffer};

use crate::limits;
use crate::protovms::ProtoVms;
use crate::sequence_account::SequenceAccount;

/// A trace buffer, and the VMs that get what it overwrites.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) trace: TraceBuffer,
    pub(crate) vms: ProtoVms,
    marks: Marks,
    /// Its sequences, and with them those of the session's other buffers.
    account: SequenceAccount,
}

/// What the counts of a buffer were when something was done because of them.
#[derive(Debug, Default)]
struct Marks {
    /// Bytes written, when last all that it held had been read into the file.
    written_when_read: u64,
    /// It was left before that.
    was_left: bool,
    /// Bytes written, when producers were last asked to flush because of that.
    written_when_flushed: u64,
    /// Bytes overwritten, when producers were last asked to repeat their names because of that.
    overwritten_when_cleared: u64,
    /// The same for states that were given up.
    states_lost_when_cleared: u64,
}

/// What may be done at once with the buffers of a session that a clone takes along or clears, all together: there may be many, and nobody
/// else is served meanwhile.
#[derive(Debug)]
pub(crate) struct AtOnce {
    bytes: usize,
    pub(crate) packets: usize,
    pub(crate) vm_steps: u64,
}

impl Default for AtOnce {
    fn default() -> Self {
        Self {
            bytes: limits::FOLD_AT_ONCE_BYTES,
            packets: limits::FOLD_AT_ONCE_PACKETS,
            vm_steps: limits::PROTOVM_STEPS_AT_ONCE,
        }
    }
}

impl AtOnce {
    /// Takes so many bytes, if they are left.
    fn take_bytes(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }
}

/// What stands in the place of a buffer that is taken away. With it at hand, taking cannot fail.
#[derive(Debug)]
pub(crate) struct Replacement {
    empty: TraceBuffer,
    /// For the VMs that stay.
    unread: Option<TraceBuffer>,
    /// For what is folded in the ring.
    to_fold: Option<TraceBuffer>,
}

impl Buffer {
    pub(crate) fn new(trace: TraceBuffer) -> Self {
        Self { trace, vms: ProtoVms::default(), marks: Marks::default(), account: SequenceAccount::default() }
    }

    /// The same, one of a session whose others share this account.
    pub(crate) fn with_account(mut self, account: &SequenceAccount) -> Self {
        self.account = account.share();
        self
    }

    pub(crate) fn store(&mut self, chunk: &Chunk<'_>) {
        if self.account.is_crowded() && !self.has_room_for_writer_of(chunk) {
            return self.trace.refuse_chunk();
        }
        self.store_anyway(chunk);
        self.account.note_writers(&self.trace);
    }

    /// Whether the chunk's writer is known, or can be remembered in the place of another.
    fn has_room_for_writer_of(&mut self, chunk: &Chunk<'_>) -> bool {
        let owner = chunk.client.writer_owner();
        if self.trace.knows(chunk.producer, chunk.writer)
            || self.account.has_room_for(owner, self.trace.has_free_writer_slot())
        {
            return true;
        }
        self.trace.forget_idle_writers();
        self.account.note_writers(&self.trace);
        self.account.has_room_for(owner, self.trace.has_free_writer_slot())
    }

    fn store_anyway(&mut self, chunk: &Chunk<'_>) {
        match self.vms.is_empty() {
            true => self.trace.copy_chunk(chunk),
            false => {
                self.vms.earn(chunk.payload.len());
                self.trace.copy_chunk_with(chunk, &mut self.vms);
            }
        }
    }

    /// It was left before all that it held was read: somebody writes as fast as that is.
    pub(crate) fn note_left(&mut self) {
        self.marks.was_left = true;
    }

    /// All that it held was read into the file, unless it was left before.
    pub(crate) fn note_read(&mut self) {
        if !std::mem::take(&mut self.marks.was_left) {
            self.marks.written_when_read = self.trace.stats().bytes_written;
        }
    }

    /// Producers are asked to flush.
    pub(crate) fn note_flush(&mut self) {
        self.marks.written_when_flushed = self.trace.stats().bytes_written;
    }

    /// Producers are asked to repeat their names.
    pub(crate) fn note_clear(&mut self) {
        let stats = self.trace.stats();
        self.marks.overwritten_when_cleared = stats.bytes_overwritten;
        self.marks.states_lost_when_cleared = stats.sequence_states_lost;
    }

    /// Not if ProtoVMs fold it into their state.
    fn loses_what_is_overwritten(&self) -> bool {
        self.trace.fill_policy() == FillPolicy::Ring && self.vms.is_empty()
    }

    /// Whether a ring will soon overwrite what nobody has read.
    pub(crate) fn is_filling(&self) -> bool {
        self.is_new_since(self.marks.written_when_read, limits::UNREAD_PARTS)
    }

    /// Whether a ring will soon overwrite packets whose ends producers still hold.
    pub(crate) fn turns(&self) -> bool {
        self.is_new_since(self.marks.written_when_flushed, limits::UNFLUSHED_PARTS)
    }

    fn is_new_since(&self, written_bytes: u64, part: u64) -> bool {
        let new = self.trace.stats().bytes_written.saturating_sub(written_bytes);
        self.loses_what_is_overwritten() && new > self.trace.size() as u64 / part
    }

    /// Whether it has overwritten something since producers were asked to repeat their names.
    pub(crate) fn has_overwritten(&self) -> bool {
        self.loses_what_is_overwritten()
            && self.trace.stats().bytes_overwritten > self.marks.overwritten_when_cleared
    }

    /// Whether it folds, and has given up what it kept of a sequence since.
    pub(crate) fn has_lost_states(&self) -> bool {
        self.trace.stats().sequence_states_lost > self.marks.states_lost_when_cleared
    }

    /// Whether half of a ring or more is unread: more of it than is written at its time.
    pub(crate) fn is_crowded(&self) -> bool {
        let stats = self.trace.stats();
        let gone = stats.bytes_read.saturating_add(stats.bytes_overwritten);
        self.loses_what_is_overwritten()
            && stats.bytes_written.saturating_sub(gone) > self.trace.size() as u64 / 2
    }

    /// Begins a copy of what is there and how it came about, to be read and not to be changed.
    pub(crate) fn begin_clone(&mut self) -> Result<ProtoVms, CreateError> {
        self.trace.begin_clone()?;
        Ok(self.vms.clone_read_only())
    }

    /// A copy that was begun and is whole.
    pub(crate) fn of_clone(trace: TraceBuffer, vms: ProtoVms) -> Self {
        Self { trace, vms, marks: Marks::default(), account: SequenceAccount::default() }
    }

    /// All that [`replace`](Self::replace) needs memory for. What is more than may be done at once is neither folded nor given to VMs.
    pub(crate) fn replacement(&self, at_once: &mut AtOnce) -> Result<Replacement, CreateError> {
        let empty = TraceBuffer::new(self.trace.size(), self.trace.fill_policy())?
            .with_histograms(self.trace.max_histograms())
            .one_of(self.trace.parts());
        let mut copy_if = |wanted: bool| {
            let copies = wanted && at_once.take_bytes(self.trace.used_size());
            copies.then(|| self.trace.clone_read_only()).transpose()
        };
        let unread = copy_if(!self.vms.is_empty())?;
        let to_fold = copy_if(self.trace.folds_overwritten())?;
        Ok(Replacement { empty, unread, to_fold })
    }

    /// Puts an empty trace buffer in the place of this one, and gives the old one with the states as they are.
    ///
    /// The empty one remembers only which sequences something is missing of: a chunk that was scraped into the old one comes whole when it
    /// is committed (as upstream's does). One that folds knows where the old one ends, and takes of such a chunk what is new.
    ///
    /// For the VMs that stay here, what goes is overwritten: their producers write on from there. (Upstream's
    /// new buffer has no VMs.) Where that is too much to be done at once they have missed something, and in a ring that folds the names from
    /// before are lost: producers are asked to repeat them.
    pub(crate) fn replace(&mut self, with: Replacement, at_once: &mut AtOnce) -> Self {
        let vms = self.vms.clone_read_only();
        let mut empty = with.empty;
        match with.unread {
            Some(mut unread) => self.vms.take_all(&mut unread, at_once),
            None => self.vms.miss_some(),
        }
        let is_folded = with.to_fold.is_some_and(|unread| empty.fold_all_of(unread, &mut at_once.packets));
        if !is_folded {
            if self.trace.folds_overwritten() {
                empty = empty.fold_overwritten();
            }
            empty.go_on_without(&self.trace);
        }
        let trace = std::mem::replace(&mut self.trace, empty);
        self.account.note_replaced(&self.trace);
        let marks = std::mem::take(&mut self.marks);
        Self { trace, vms, marks, account: SequenceAccount::default() }
    }
}

#[cfg(test)]
mod tests {
    use ferretto_trace_buffer::{ClientIdentity, ProducerId};

    use super::*;

    const CHUNK_BYTES: usize = 60_000;

    fn store(buffer: &mut Buffer, chunk_id: u32) {
        let mut payload = vec![0xe0, 0xd4, 0x03]; // 60,000 in three bytes
        payload.resize(3 + CHUNK_BYTES, 0);
        buffer.store(&Chunk {
            producer: ProducerId(1),
            client: ClientIdentity::default(),
            writer: 1,
            chunk_id,
            num_fragments: 1,
            flags: 0,
            complete: true,
            payload: &payload,
        });
    }

    fn folding_ring(used_bytes: usize) -> Buffer {
        let trace = TraceBuffer::new(64 << 20, FillPolicy::Ring).unwrap().fold_overwritten();
        let mut buffer = Buffer::new(trace);
        (0..used_bytes.div_ceil(CHUNK_BYTES) as u32).for_each(|id| store(&mut buffer, id));
        buffer
    }

    #[test]
    fn rings_of_a_session_are_folded_at_once_as_far_as_they_are_small_together() {
        let mut at_once = AtOnce::default();
        // A third of it each, but for one that is larger.
        let folded: Vec<bool> = [5, 5, 7, 5]
            .map(|parts| folding_ring(limits::FOLD_AT_ONCE_BYTES / 16 * parts))
            .iter_mut()
            .map(|buffer| {
                let replacement = buffer.replacement(&mut at_once).unwrap();
                let is_folded = replacement.to_fold.is_some();
                buffer.replace(replacement, &mut at_once);
                store(buffer, 1000);
                assert_eq!(buffer.has_lost_states(), !is_folded);
                is_folded
            })
            .collect();
        assert_eq!(folded, [true, true, false, true]);
    }

    #[test]
    fn rings_of_a_session_are_folded_at_once_as_far_as_they_have_few_packets_together() {
        let mut at_once = AtOnce { packets: 50, ..AtOnce::default() };
        let lost: Vec<bool> = [20, 40, 20]
            .map(|chunks: usize| folding_ring(chunks * CHUNK_BYTES))
            .iter_mut()
            .map(|buffer| {
                let replacement = buffer.replacement(&mut at_once).unwrap();
                buffer.replace(replacement, &mut at_once);
                assert!(buffer.trace.folds_overwritten());
                store(buffer, 1000);
                buffer.has_lost_states()
            })
            .collect();
        assert_eq!(lost, [false, true, true], "what was looked at in vain counts, too");
    }

    #[test]
    fn a_buffer_that_was_left_before_all_was_read_is_still_filling() {
        let mut buffer = Buffer::new(TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap());
        (0..10).for_each(|id| store(&mut buffer, id));
        assert!(buffer.is_filling());
        buffer.note_left();
        buffer.note_read();
        assert!(buffer.is_filling());
        // Then it was read, though there may be something in it that cannot be.
        buffer.note_read();
        assert!(!buffer.is_filling());
    }

    /// Of a large one it would take long: its producers repeat what they said.
    #[test]
    fn a_ring_that_folds_is_folded_at_once_only_if_it_is_small() {
        for (used_bytes, is_folded) in [(1 << 20, true), (limits::FOLD_AT_ONCE_BYTES + CHUNK_BYTES, false)] {
            let mut buffer = folding_ring(used_bytes);
            let chunks = used_bytes.div_ceil(CHUNK_BYTES) as u32;
            let mut at_once = AtOnce::default();
            let replacement = buffer.replacement(&mut at_once).unwrap();
            assert_eq!(replacement.to_fold.is_some(), is_folded);
            let taken = buffer.replace(replacement, &mut at_once);
            assert_eq!(taken.trace.stats().chunks_written, u64::from(chunks));
            assert!(buffer.trace.folds_overwritten());
            store(&mut buffer, chunks);
            assert_eq!(buffer.has_lost_states(), !is_folded);
        }
    }
}
