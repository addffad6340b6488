//! `TraceStats`: what the service counted; and what was lost of each sequence, by buffer (upstream: proto_trace_reader.cc).
//!
//! A trace may hold several; the last one counts.

use ferretto_protos::fields::trace_stats as field;
use ferretto_protos::fields::trace_stats::{buffer_stats as buffer, filter_stats as filter};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// What was lost of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Packets that say others before them are missing.
    pub gaps: u32,
    /// For each cause of [`CAUSES`] how many of them say it.
    pub by_cause: [u32; CAUSES.len()],
    /// Packets that rely on what is interned.
    pub needed: u32,
    /// And could not be read.
    pub skipped: u32,
}

/// `previous_packet_dropped`: bits, from 2 on, and their counters. Bit 0 says only that something is missing.
pub const CAUSES: [Stat; 8] = [
    Stat::TracedBufDataLossReadGap,
    Stat::TracedBufDataLossChunkCorrupted,
    Stat::TracedBufDataLossOrphanContinuation,
    Stat::TracedBufDataLossReassemblyGap,
    Stat::TracedBufDataLossReassemblyBrokenChain,
    Stat::TracedBufDataLossOverwrite,
    Stat::TracedBufDataLossWriterAbort,
    Stat::TracedBufDataLossSmbFull,
];

impl Losses {
    /// A packet says why others before it are missing.
    pub fn count(&mut self, causes: u32) {
        self.gaps = self.gaps.saturating_add(1);
        for (bit, count) in (1..).zip(&mut self.by_cause) {
            *count = count.saturating_add(causes >> bit & 1);
        }
    }

    fn add(&mut self, other: &Self) {
        self.gaps = self.gaps.saturating_add(other.gaps);
        for (mine, theirs) in self.by_cause.iter_mut().zip(other.by_cause) {
            *mine = mine.saturating_add(theirs);
        }
        // Here, the sequences of which nothing could be read.
        self.skipped += u32::from(other.skipped > 0 && other.skipped == other.needed);
    }
}

/// Numbers of the whole recording.
const OF_ALL: [(u32, Stat); 11] = [
    (field::PRODUCERS_CONNECTED, Stat::TracedProducersConnected),
    (field::PRODUCERS_SEEN, Stat::TracedProducersSeen),
    (field::DATA_SOURCES_REGISTERED, Stat::TracedDataSourcesRegistered),
    (field::DATA_SOURCES_SEEN, Stat::TracedDataSourcesSeen),
    (field::TRACING_SESSIONS, Stat::TracedTracingSessions),
    (field::TOTAL_BUFFERS, Stat::TracedTotalBuffers),
    (field::CHUNKS_DISCARDED, Stat::TracedChunksDiscarded),
    (field::PATCHES_DISCARDED, Stat::TracedPatchesDiscarded),
    (field::FLUSHES_REQUESTED, Stat::TracedFlushesRequested),
    (field::FLUSHES_SUCCEEDED, Stat::TracedFlushesSucceeded),
    (field::FLUSHES_FAILED, Stat::TracedFlushesFailed),
];

const OF_FILTER: [(u32, Stat); 5] = [
    (filter::ERRORS, Stat::FilterErrors),
    (filter::INPUT_BYTES, Stat::FilterInputBytes),
    (filter::INPUT_PACKETS, Stat::FilterInputPackets),
    (filter::OUTPUT_BYTES, Stat::FilterOutputBytes),
    (filter::TIME_TAKEN_NS, Stat::FilterTimeTakenNs),
];

const OF_BUFFER: [(u32, Stat); 20] = [
    (buffer::BUFFER_SIZE, Stat::TracedBufBufferSize),
    (buffer::BYTES_WRITTEN, Stat::TracedBufBytesWritten),
    (buffer::BYTES_OVERWRITTEN, Stat::TracedBufBytesOverwritten),
    (buffer::BYTES_READ, Stat::TracedBufBytesRead),
    (buffer::PADDING_BYTES_WRITTEN, Stat::TracedBufPaddingBytesWritten),
    (buffer::PADDING_BYTES_CLEARED, Stat::TracedBufPaddingBytesCleared),
    (buffer::CHUNKS_WRITTEN, Stat::TracedBufChunksWritten),
    (buffer::CHUNKS_REWRITTEN, Stat::TracedBufChunksRewritten),
    (buffer::CHUNKS_OVERWRITTEN, Stat::TracedBufChunksOverwritten),
    (buffer::CHUNKS_DISCARDED, Stat::TracedBufChunksDiscarded),
    (buffer::CHUNKS_READ, Stat::TracedBufChunksRead),
    (buffer::CHUNKS_RELOCATED, Stat::TracedBufChunksRelocated),
    (buffer::CHUNKS_COMMITTED_OUT_OF_ORDER, Stat::TracedBufChunksCommittedOutOfOrder),
    (buffer::WRITE_WRAP_COUNT, Stat::TracedBufWriteWrapCount),
    (buffer::PATCHES_SUCCEEDED, Stat::TracedBufPatchesSucceeded),
    (buffer::PATCHES_FAILED, Stat::TracedBufPatchesFailed),
    (buffer::READAHEADS_SUCCEEDED, Stat::TracedBufReadaheadsSucceeded),
    (buffer::READAHEADS_FAILED, Stat::TracedBufReadaheadsFailed),
    (buffer::ABI_VIOLATIONS, Stat::TracedBufAbiViolations),
    (buffer::TRACE_WRITER_PACKET_LOSS, Stat::TracedBufTraceWriterPacketLoss),
];

/// `FinalFlushOutcome`.
const FINAL_FLUSH_SUCCEEDED: u64 = 1;
const FINAL_FLUSH_FAILED: u64 = 2;

impl Model {
    /// Reads `TracePacket.trace_stats`, when it arrives. `losses` says what was lost of a sequence, if it was met.
    pub fn read_trace_stats(&mut self, message: &[u8], losses: impl Fn(u32) -> Option<Losses>) {
        self.set_stats(message, &OF_ALL, None);
        if let Some(filtered) = wire::bytes(message, field::FILTER_STATS) {
            self.set_stats(filtered, &OF_FILTER, None);
            let discarded = wire::all_numbers(filtered, filter::BYTES_DISCARDED_PER_BUFFER);
            for (buffer, bytes) in (0..).zip(discarded) {
                self.stats.set(Stat::TracedBufBytesFilteredOut, Some(buffer), bytes as i64);
            }
        }
        match wire::number(message, field::FINAL_FLUSH_OUTCOME) {
            Some(FINAL_FLUSH_SUCCEEDED) => self.stats.count(Stat::TracedFinalFlushSucceeded),
            Some(FINAL_FLUSH_FAILED) => self.stats.count(Stat::TracedFinalFlushFailed),
            _ => {}
        }
        for (buffer, stats) in (0..).zip(wire::all_bytes(message, field::BUFFER_STATS)) {
            self.set_stats(stats, &OF_BUFFER, Some(buffer));
        }
        self.set_losses(message, losses);
    }

    fn set_stats(&mut self, message: &[u8], which: &[(u32, Stat)], index: Option<i64>) {
        for (number, stat) in which {
            let value = wire::int(message, *number).unwrap_or(0);
            self.stats.set(*stat, index, value);
        }
    }

    /// The service says which sequence went through which buffer.
    fn set_losses(&mut self, message: &[u8], losses: impl Fn(u32) -> Option<Losses>) {
        let mut by_buffer = HashMap::<i64, Losses, RandomState>::default();
        for writer in wire::all_bytes(message, field::WRITER_STATS) {
            let sequence = wire::number(writer, field::writer_stats::SEQUENCE_ID).unwrap_or(0) as u32;
            let Some(losses) = losses(sequence) else { continue };
            let buffer = wire::number(writer, field::writer_stats::BUFFER).unwrap_or(0);
            by_buffer.entry(i64::from(buffer as i32)).or_default().add(&losses);
        }
        let mut by_buffer: Vec<_> = by_buffer.into_iter().collect();
        by_buffer.sort_unstable_by_key(|(buffer, _)| *buffer);
        for (buffer, losses) in by_buffer {
            let mut set = |stat, value: u32| self.stats.set(stat, Some(buffer), i64::from(value));
            set(Stat::TracedBufSequencePacketLoss, losses.gaps);
            set(Stat::TracedBufIncrementalSequencesDropped, losses.skipped);
            for (stat, count) in CAUSES.into_iter().zip(losses.by_cause) {
                set(stat, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_bits() {
        let mut losses = Losses::default();
        losses.count(1);
        losses.count(2 | 256);
        losses.count(256);
        assert_eq!((losses.gaps, losses.by_cause), (3, [1, 0, 0, 0, 0, 0, 0, 2]));
        let mut sum = Losses::default();
        sum.add(&Losses { needed: 3, skipped: 3, ..losses });
        sum.add(&Losses { needed: 3, skipped: 2, ..losses });
        assert_eq!((sum.gaps, sum.skipped), (6, 1));
    }
}
