//! Scraping: taking chunks that producers have not committed (upstream: `ScrapeSharedMemoryBuffers`).
//!
//! A producer's memory may be large, and there may be many producers: what is to follow, the ends of flushes and of sessions, waits in
//! [`Scrapes`] until all of it was looked at.

use std::collections::BTreeSet;

use ferretto_shm::Scrape;
use ferretto_trace_buffer::Chunk;

use crate::commit::storing_cost;
use crate::flush::{AfterFlush, EndedFlush};
use crate::ids::{BufferId, ConsumerConn, ProducerId, SessionId};
use crate::now::Now;
use crate::producer_set::ProducerSet;
use crate::registry::Producer;
use crate::service::Service;
use crate::work::{Budget, Job};

/// Bytes that are copied in the time of one unit of a [`Budget`].
const BYTES_PER_COST: usize = 1024;
/// What it costs to ask the system which parts of a memory there are.
const BEGIN_COST: usize = 5;

/// Taking what one producer still holds, for one session or for all.
#[derive(Debug)]
pub(crate) struct ProducerScrape {
    producer: ProducerId,
    session: Option<SessionId>,
    begun: Option<Scrape>,
}

/// Taking what all producers of a session still hold.
#[derive(Debug)]
pub(crate) struct SessionScrape {
    pub(crate) session: SessionId,
    /// Those that there were at its beginning: others may come without end, and ids go round. Who has the id of one that is gone may be
    /// looked at in its place.
    producers: ProducerSet,
    last: Option<ProducerId>,
    current: Option<ProducerScrape>,
}

/// What has ended but for the scrape.
#[derive(Debug, Default)]
pub(crate) struct Round {
    flushes: Vec<EndedFlush>,
    ends_session: bool,
}

/// What waits for a scrape of a session that is under way. What came later waits for the next one: its data may be where this one has
/// looked already.
#[derive(Debug, Default)]
pub(crate) struct Scrapes {
    current: Option<Round>,
    next: Option<Round>,
}

impl Round {
    fn add(&mut self, other: Self) {
        self.flushes.extend(other.flushes);
        self.ends_session |= other.ends_session;
    }
}

impl Scrapes {
    fn rounds(&self) -> impl Iterator<Item = &Round> {
        self.current.iter().chain(&self.next)
    }

    /// Whether the session is over but for that.
    pub(crate) fn end_session(&self) -> bool {
        self.rounds().any(|round| round.ends_session)
    }

    /// Whether it is for what the session's consumer has asked for. For periodic flushes it may go on for ever.
    pub(crate) fn is_waited_for_by(&self, consumer: ConsumerConn) -> bool {
        let is_asked_for =
            |ended: &EndedFlush| matches!(ended.flush.after, AfterFlush::Reply(to, _) if to == consumer);
        self.rounds().any(|round| round.ends_session || round.flushes.iter().any(is_asked_for))
    }

    pub(crate) fn flush_count(&self) -> usize {
        self.rounds().map(|round| round.flushes.len()).sum()
    }

    pub(crate) fn flushes_mut(&mut self) -> impl Iterator<Item = &mut EndedFlush> {
        self.current.iter_mut().chain(&mut self.next).flat_map(|round| &mut round.flushes)
    }

    pub(crate) fn into_flushes(self) -> impl Iterator<Item = EndedFlush> {
        self.current.into_iter().chain(self.next).flat_map(|round| round.flushes)
    }
}

impl ProducerScrape {
    pub(crate) fn of(producer: ProducerId, session: Option<SessionId>) -> Self {
        Self { producer, session, begun: None }
    }
}

impl Service {
    /// Scrapes the producers of a session, once for all these flushes; then they are over.
    pub(crate) fn scrape_for_flushes(&mut self, session_id: SessionId, flushes: Vec<EndedFlush>, now: &Now) {
        if !flushes.is_empty() {
            self.scrape_for(session_id, Round { flushes, ends_session: false }, now);
        }
    }

    /// Scrapes the producers of a session that is over then.
    pub(crate) fn scrape_for_end(&mut self, session_id: SessionId, now: &Now) {
        self.scrape_for(session_id, Round { flushes: Vec::new(), ends_session: true }, now);
    }

    fn scrape_for(&mut self, session_id: SessionId, round: Round, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let scrapes = &mut session.scrapes;
        if scrapes.current.is_some() || scrapes.next.is_some() {
            return scrapes.next.get_or_insert_default().add(round);
        }
        scrapes.current = Some(round);
        let scrape = self.scrape_of(session_id);
        self.begin(Job::Scrape(scrape), now);
    }

    /// Of those who take part now.
    fn scrape_of(&self, session_id: SessionId) -> SessionScrape {
        let session = self.sessions.get(&session_id);
        let producers = session.into_iter().flat_map(|session| session.instances.producers());
        let holding = |id: &ProducerId| self.producers.get(id).is_some_and(|it| self.is_scrapable(it));
        let producers = producers.filter(holding).collect();
        SessionScrape { session: session_id, producers, last: None, current: None }
    }

    /// Goes on; what is left is given back.
    pub(crate) fn step_of_session_scrape(
        &mut self,
        mut scrape: SessionScrape,
        budget: &mut Budget,
        now: &Now,
    ) -> Option<SessionScrape> {
        loop {
            if !self.scrape_producers(&mut scrape, budget) {
                return self.sessions.contains_key(&scrape.session).then_some(scrape);
            }
            self.conclude_round(scrape.session, now);
            let session = self.sessions.get_mut(&scrape.session)?;
            // What it has led to may have begun another one.
            if session.scrapes.current.is_some() {
                return None;
            }
            session.scrapes.current = Some(session.scrapes.next.take()?);
            scrape = self.scrape_of(scrape.session);
        }
    }

    /// Says whether that was all.
    fn scrape_producers(&mut self, scrape: &mut SessionScrape, budget: &mut Budget) -> bool {
        let session = Some(scrape.session);
        while self.sessions.contains_key(&scrape.session) {
            if let Some(current) = &mut scrape.current {
                if !self.go_on_scraping(current, budget) {
                    return false;
                }
                scrape.current = None;
            }
            let Some(id) = scrape.producers.next_after(scrape.last) else { return true };
            scrape.last = Some(id);
            scrape.current = Some(ProducerScrape::of(id, session));
        }
        false
    }

    fn conclude_round(&mut self, session_id: SessionId, now: &Now) {
        let session = self.sessions.get_mut(&session_id);
        let Some(round) = session.and_then(|session| session.scrapes.current.take()) else { return };
        self.conclude_flushes(session_id, round.flushes, now);
        if round.ends_session {
            self.end_session(session_id, now);
        }
    }

    fn is_scrapable(&self, producer: &Producer) -> bool {
        producer.scraping && !producer.writers.is_empty() && producer.memory.is_some()
    }

    /// Where what a producer holds may go, of one session or of all that it takes part in.
    fn targets(&self, id: ProducerId, producer: &Producer, of: Option<SessionId>) -> BTreeSet<BufferId> {
        let sessions = self.sessions.values().filter(|session| of.is_none_or(|of| session.id == of));
        let sessions = sessions.filter(|session| session.instances.has_producer(id));
        let buffers = sessions.flat_map(|session| &session.buffers).copied();
        buffers.filter(|buffer| producer.allowed_buffers.contains(*buffer)).collect()
    }

    /// Copies chunks of a producer's registered writers into buffers. The producer goes on to own them: a later commit of
    /// the same chunk completes the copy. Says whether that was all.
    pub(crate) fn go_on_scraping(&mut self, scrape: &mut ProducerScrape, budget: &mut Budget) -> bool {
        let id = scrape.producer;
        let Some(producer) = self.producers.get(&id).filter(|producer| self.is_scrapable(producer)) else {
            return true;
        };
        let Some(memory) = &producer.memory else { return true };
        let targets = self.targets(id, producer, scrape.session);
        if targets.is_empty() {
            return true;
        }
        let target = |writer: u16| producer.writers.get(&writer).filter(|buffer| targets.contains(buffer));
        let identity = producer.identity();
        let buffers = &mut self.buffers;
        let begun = scrape.begun.get_or_insert_with(|| {
            budget.spend(BEGIN_COST);
            memory.view.begin_scrape()
        });
        let limit = budget.left() * BYTES_PER_COST;
        let cost = memory.view.go_on_scraping(
            begun,
            limit,
            |writer| target(writer).is_some(),
            |header, payload, complete| {
                let Some(buffer) = target(header.writer_id).and_then(|id| buffers.get_mut(id)) else {
                    return 0;
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
                storing_cost(buffer, payload.len()).saturating_sub(payload.len())
            },
        );
        budget.spend(cost / BYTES_PER_COST);
        begun.is_done()
    }
}
