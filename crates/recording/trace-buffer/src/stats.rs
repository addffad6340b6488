//! Counters of one buffer, and the sizes of chunks each writer commits.

use std::num::NonZeroU16;

use hashbrown::HashTable;

use crate::sequences::SequenceKey;

/// What happened in a buffer since it was made; `TraceStats.BufferStats` (trace_stats.proto) field by field.
///
/// Bytes are those of the ring: a chunk's payload, its 16-byte header, and the padding to 16 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Size of the ring.
    pub buffer_size: u64,
    /// Bytes of all chunks written, moved ones again.
    pub bytes_written: u64,
    /// Bytes of chunks whose unread rest was overwritten.
    pub bytes_overwritten: u64,
    /// Bytes of chunks read to their end.
    pub bytes_read: u64,
    /// Bytes of gaps made where a new chunk covers only a part of an old one.
    pub padding_bytes_written: u64,
    /// Bytes of read chunks and gaps that were written over.
    pub padding_bytes_cleared: u64,
    /// Chunks stored.
    pub chunks_written: u64,
    /// Chunks that were committed again with more payload, in place.
    pub chunks_rewritten: u64,
    /// Chunks overwritten before they were read to their end.
    pub chunks_overwritten: u64,
    /// Chunks refused: the buffer was full and keeps what it has, or they had been consumed already.
    pub chunks_discarded: u64,
    /// Chunks read to their end.
    pub chunks_read: u64,
    /// Chunks that came after one with a later id.
    pub chunks_committed_out_of_order: u64,
    /// Scraped and read chunks that grew, and therefore moved to the write cursor.
    pub chunks_relocated: u64,
    /// Times the write cursor went back to the start.
    pub write_wrap_count: u64,
    /// Patches applied.
    pub patches_succeeded: u64,
    /// Patch requests that failed.
    pub patches_failed: u64,
    /// Fragmented packets put together.
    pub readaheads_succeeded: u64,
    /// Fragmented packets that could not be put together when asked for.
    pub readaheads_failed: u64,
    /// Chunks that break the rules of the shared memory ABI.
    pub abi_violations: u64,
    /// Times a writer told that it gave up a packet.
    pub trace_writer_packet_loss: u64,
    /// Times the live chunks were moved to the front.
    pub compactions: u64,
    /// Times they could not be, for live chunks lay on both sides of the write cursor.
    pub compactions_skipped: u64,
    /// Times the folded state of a sequence was given up, for it did not fit, or for a packet was overwritten whose end or patch had not
    /// come (no field of upstream's).
    pub sequence_states_lost: u64,
    /// Of the chunks refused, those of which nothing is lost: all that is in them was read, or overwritten, before (no field of
    /// upstream's).
    pub chunks_discarded_without_loss: u64,
    /// Descriptions of tracks that were left out of a folded state, for they did not fit (no field of upstream's).
    pub track_descriptors_dropped: u64,
}

/// What is in a buffer and was not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unread {
    /// Chunks of which something is left.
    pub chunks: u64,
    /// What is left of them.
    pub bytes: u64,
    /// Of the chunks, those that wait for patches.
    pub unpatched: u64,
}

/// Upper bounds (inclusive) of the histogram's buckets in bytes; larger payloads count in one bucket more.
///
/// Source: upstream's `TracingServiceImpl` / histogram.h, `TraceStats.chunk_payload_histogram_def`.
pub const HISTOGRAM_BOUNDS_BYTES: [u64; 10] = [8, 32, 128, 512, 1024, 2048, 4096, 8192, 12288, 16384];

/// Buckets of a [`WriterHistogram`].
pub const HISTOGRAM_BUCKETS: usize = HISTOGRAM_BOUNDS_BYTES.len() + 1;

/// At most this many writers of a buffer have a histogram; later ones are not counted.
///
/// A producer has at most 65,535 writers and most have a handful; 16 Ki writers cost about 3 MiB.
pub const MAX_WRITER_HISTOGRAMS: usize = 16 * 1024;

/// The payload sizes of the chunks that one writer committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriterHistogram {
    /// Chunks per bucket.
    pub counts: [u64; HISTOGRAM_BUCKETS],
    /// Payload bytes per bucket.
    pub sums_bytes: [u64; HISTOGRAM_BUCKETS],
}

impl WriterHistogram {
    fn add(&mut self, payload_size_bytes: u64) {
        let bucket = HISTOGRAM_BOUNDS_BYTES.partition_point(|&bound| bound < payload_size_bytes);
        self.counts[bucket] += 1;
        self.sums_bytes[bucket] += payload_size_bytes;
    }
}

/// Where a writer's histogram lies; kept by its sequence so that counting a chunk needs no look-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistogramIndex(Option<NonZeroU16>);

const _: () = assert!(MAX_WRITER_HISTOGRAMS < u16::MAX as usize);

impl HistogramIndex {
    fn new(index: u16) -> Self {
        Self(NonZeroU16::new(index + 1))
    }

    fn get(self) -> Option<usize> {
        self.0.map(|number| usize::from(number.get()) - 1)
    }
}

/// The histograms of all writers ever seen. They outlive the writers' sequences.
#[derive(Debug, Clone)]
pub(crate) struct WriterHistograms {
    index_of: HashTable<u16>,
    histograms: Vec<(SequenceKey, WriterHistogram)>,
    max: usize,
}

impl WriterHistograms {
    pub(crate) fn at_most(max: usize) -> Self {
        Self { index_of: HashTable::new(), histograms: Vec::new(), max: max.min(MAX_WRITER_HISTOGRAMS) }
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn index_of(&mut self, key: SequenceKey) -> HistogramIndex {
        let histograms = &mut self.histograms;
        if let Some(&index) = self.index_of.find(key.hash(), |&at| histograms[usize::from(at)].0 == key) {
            return HistogramIndex::new(index);
        }
        if histograms.len() >= self.max {
            return HistogramIndex(None);
        }
        let index = histograms.len() as u16; // less than MAX_WRITER_HISTOGRAMS
        histograms.push((key, WriterHistogram::default()));
        self.index_of.insert_unique(key.hash(), index, |&at| histograms[usize::from(at)].0.hash());
        HistogramIndex::new(index)
    }

    pub(crate) fn add(&mut self, index: HistogramIndex, payload_size_bytes: u64) {
        let histogram = index.get().and_then(|at| self.histograms.get_mut(at));
        if let Some((_, histogram)) = histogram {
            histogram.add(payload_size_bytes);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SequenceKey, &WriterHistogram)> {
        self.histograms.iter().map(|(key, histogram)| (*key, histogram))
    }
}
