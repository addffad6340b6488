//! Scraping: taking chunks that producers have not committed (upstream: `ScrapeSharedMemoryBuffers`).

use ferretto_trace_buffer::Chunk;

use crate::ids::{ProducerId, SessionId};
use crate::service::Service;

impl Service {
    /// Scrapes the producers of a session.
    pub(crate) fn scrape_all(&mut self, session_id: SessionId) {
        let producers: Vec<ProducerId> = self.producers.keys().copied().collect();
        for producer in producers {
            self.scrape_producer(session_id, producer);
        }
    }

    /// Copies chunks of a producer's registered writers into the session's buffers. The producer goes on to own them: a later commit of
    /// the same chunk completes the copy.
    pub(crate) fn scrape_producer(&mut self, session_id: SessionId, id: ProducerId) {
        let Some(session) = self.sessions.get(&session_id) else { return };
        let Some(producer) = self.producers.get(&id) else { return };
        let Some(memory) = &producer.memory else { return };
        let takes_part = session.instances.has_producer(id);
        if !producer.scraping || producer.writers.is_empty() || !takes_part || session.buffers.is_empty() {
            return;
        }
        let target = |writer: u16| {
            let buffer = producer.writers.get(&writer)?;
            let allowed = session.buffers.contains(buffer) && producer.allowed_buffers.contains(buffer);
            allowed.then_some(*buffer)
        };
        let identity = producer.identity();
        let buffers = &mut self.buffers;
        memory.view.scrape(
            |writer| target(writer).is_some(),
            |header, payload, complete| {
                let Some(buffer) = target(header.writer_id).and_then(|id| buffers.get_mut(&id)) else {
                    return;
                };
                buffer.store(&Chunk {
                    producer: ferretto_trace_buffer::ProducerId(id.0),
                    client: identity,
                    writer: header.writer_id,
                    chunk_id: header.chunk_id,
                    num_fragments: header.packet_count,
                    flags: header.flags.bits(),
                    complete,
                    payload,
                });
            },
        );
    }
}
