//! TraceStats: what was written, read and lost (upstream: trace_stats.proto, `GetTraceStats`).

use std::collections::BTreeMap;

use ferretto_protos::trace_stats::{self, BufferStats, WriterStats};
use ferretto_protos::{GetTraceStatsResponse, TraceStats};
use ferretto_trace_buffer::{HISTOGRAM_BOUNDS_BYTES, Stats};
use prost::Message;

use crate::buffers::Buffer;
use crate::filtering::Filtering;
use crate::ids::{BufferId, ConsumerConn, ProducerId, SessionId, Token};
use crate::output::Reply;
use crate::query::ELEMENT_OVERHEAD;
use crate::service::Service;
use crate::session::{FinalFlush, Session};
use crate::{limits, losses};

impl Service {
    pub(crate) fn handle_get_trace_stats(&mut self, from: ConsumerConn, token: Token) {
        let room = limits::STATS_REPLY_BYTES;
        let stats = self.session_of(from).and_then(|session| self.trace_stats(session, room));
        match stats {
            Some(stats) => {
                self.answer_consumer(from, token, &GetTraceStatsResponse { trace_stats: Some(stats) });
            }
            None => self.reply_consumer(from, Reply::rejected(token)),
        }
    }

    /// With the histograms of as many writers as have room in so many bytes.
    pub(crate) fn trace_stats(&mut self, session_id: SessionId, room_bytes: usize) -> Option<TraceStats> {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let registered = self.producers.values().map(|producer| producer.data_sources.len()).sum();
        let mut stats = TraceStats {
            producers_connected: Some(count(self.connected_producers(ProducerId(0)).count())),
            producers_seen: Some(self.totals.producers_seen.into()),
            data_sources_registered: Some(count(registered)),
            // As upstream counts: instances.
            data_sources_seen: Some(self.last_instance),
            tracing_sessions: Some(count(self.sessions.len())),
            total_buffers: Some(count(self.buffers.len())),
            chunks_discarded: Some(self.totals.chunks_discarded),
            patches_discarded: Some(self.totals.patches_discarded),
            ..Default::default()
        };
        let session = self.sessions.get(&session_id)?;
        stats.losses = Some(losses::of_session(session, &self.buffers, self.totals, &self.refused_producers));
        let session = self.sessions.get_mut(&session_id)?;
        let counters = &session.counters;
        stats.invalid_packets = Some(counters.invalid_packets);
        stats.flushes_requested = Some(counters.flushes_requested);
        stats.flushes_succeeded = Some(counters.flushes_succeeded);
        stats.flushes_failed = Some(counters.flushes_failed);
        stats.final_flush_outcome = Some(match counters.final_flush {
            FinalFlush::Unspecified => trace_stats::FinalFlushOutcome::FinalFlushUnspecified,
            FinalFlush::Succeeded => trace_stats::FinalFlushOutcome::FinalFlushSucceeded,
            FinalFlush::Failed => trace_stats::FinalFlushOutcome::FinalFlushFailed,
        } as i32);
        stats.filter_stats = session.filtering.as_ref().map(Filtering::stats);
        let buffers =
            session.buffers.iter().filter_map(|id| self.buffers.get(id)).map(|buffer| &buffer.trace);
        stats.buffer_stats = buffers.clone().map(|buffer| encode(buffer.stats())).collect();
        if session.config.builtin.histograms {
            let room_bytes = room_bytes.saturating_sub(stats.encoded_len());
            stats.writer_stats = writer_stats(session, &self.buffers, room_bytes);
        }
        if !stats.writer_stats.is_empty() {
            stats.chunk_payload_histogram_def =
                HISTOGRAM_BOUNDS_BYTES.iter().map(|bound| *bound as i64).collect();
        }
        Some(stats)
    }
}

/// A program may have tens of thousands of threads, each a writer.
fn writer_stats(
    session: &mut Session,
    buffers: &BTreeMap<BufferId, Buffer>,
    mut room_bytes: usize,
) -> Vec<WriterStats> {
    let mut all = Vec::new();
    let buffers = session.buffers.iter().filter_map(|id| buffers.get(id));
    for (index, buffer) in (0u32..).zip(buffers) {
        for (producer, writer, histogram) in buffer.trace.writer_stats() {
            let of_writer = WriterStats {
                sequence_id: Some(session.sequences.get(ProducerId(producer.0), writer).into()),
                chunk_payload_histogram_counts: histogram.counts.to_vec(),
                chunk_payload_histogram_sum: histogram.sums_bytes.iter().map(|sum| *sum as i64).collect(),
                buffer: Some(index),
            };
            let Some(left) = room_bytes.checked_sub(of_writer.encoded_len() + ELEMENT_OVERHEAD) else {
                return all;
            };
            room_bytes = left;
            all.push(of_writer);
        }
    }
    all
}

fn encode(stats: &Stats) -> BufferStats {
    BufferStats {
        buffer_size: Some(stats.buffer_size),
        bytes_written: counted(stats.bytes_written),
        bytes_overwritten: counted(stats.bytes_overwritten),
        bytes_read: counted(stats.bytes_read),
        padding_bytes_written: counted(stats.padding_bytes_written),
        padding_bytes_cleared: counted(stats.padding_bytes_cleared),
        chunks_written: counted(stats.chunks_written),
        chunks_rewritten: counted(stats.chunks_rewritten),
        chunks_overwritten: counted(stats.chunks_overwritten),
        chunks_discarded: counted(stats.chunks_discarded),
        chunks_read: counted(stats.chunks_read),
        chunks_committed_out_of_order: counted(stats.chunks_committed_out_of_order),
        chunks_relocated: counted(stats.chunks_relocated),
        write_wrap_count: counted(stats.write_wrap_count),
        patches_succeeded: counted(stats.patches_succeeded),
        patches_failed: counted(stats.patches_failed),
        readaheads_succeeded: counted(stats.readaheads_succeeded),
        readaheads_failed: counted(stats.readaheads_failed),
        abi_violations: counted(stats.abi_violations),
        trace_writer_packet_loss: counted(stats.trace_writer_packet_loss),
        compactions: counted(stats.compactions),
        compactions_skipped: counted(stats.compactions_skipped),
        chunks_discarded_without_loss: counted(stats.chunks_discarded_without_loss),
        sequence_states_lost: counted(stats.sequence_states_lost),
        track_descriptors_dropped: counted(stats.track_descriptors_dropped),
        ..Default::default()
    }
}

/// What never happened is left out, as upstream does.
fn counted(count: u64) -> Option<u64> {
    (count != 0).then_some(count)
}
