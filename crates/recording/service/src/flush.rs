//! Flushes: asking producers for what they hold, and taking what they do not give (upstream: tracing_service_impl.cc, `Flush`).

use ferretto_protos::tracing_service_event::EventType;
use ferretto_protos::{FlushRequest, FlushResponse};

use crate::ids::{ConsumerConn, ProducerId, SessionId, Token};
use crate::limits;
use crate::losses;
use crate::now::{Deadline, Now};
use crate::output::Reply;
use crate::producer_set::ProducerSet;
use crate::service::Service;
use crate::service_events::slow_sources;
use crate::session::{FinalFlush, State};

/// Why a flush is asked for (upstream: flush_flags.h, bits 0 to 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushReason {
    Periodic = 1,
    TraceStop = 2,
    TraceClone = 3,
}

impl FlushReason {
    /// The flags of a flush that the service itself initiates (bits 4 to 7).
    pub(crate) fn by_service(self) -> u64 {
        const INITIATOR_SERVICE: u64 = 1 << 4;
        self as u64 | INITIATOR_SERVICE
    }
}

/// Set in the flags of a flush for a clone that goes into a bug report (upstream: flush_flags.h, `CloneTarget::kBugreport`).
pub(crate) const FLUSH_FOR_BUGREPORT: u64 = 1 << 8;

/// Whether it is the last flush before a trace is read.
fn is_last(flags: u64) -> bool {
    [FlushReason::TraceStop, FlushReason::TraceClone].iter().any(|reason| flags & 0xf == *reason as u64)
}

/// What a flush is for.
#[derive(Debug)]
pub(crate) enum AfterFlush {
    Nothing,
    Reply(ConsumerConn, Token),
    WriteFile,
    Disable,
    Clone(crate::cloning::CloneRequest),
}

impl AfterFlush {
    /// Who has asked for the flush.
    fn consumer(&self) -> Option<ConsumerConn> {
        match self {
            Self::Reply(to, _) => Some(*to),
            Self::Clone(clone) => Some(clone.consumer()),
            Self::Nothing | Self::WriteFile | Self::Disable => None,
        }
    }
}

/// A flush that does not wait for producers any longer.
#[derive(Debug)]
pub(crate) struct EndedFlush {
    pub(crate) flush: PendingFlush,
    success: bool,
}

/// A flush that waits for producers.
#[derive(Debug)]
pub(crate) struct PendingFlush {
    pub(crate) deadline: Deadline,
    pub(crate) waits_for: ProducerSet,
    pub(crate) flags: u64,
    pub(crate) after: AfterFlush,
}

impl Service {
    pub(crate) fn handle_flush(
        &mut self,
        from: ConsumerConn,
        token: Token,
        request: &FlushRequest,
        now: &Now,
    ) {
        let Some(session) = self.session_of(from) else {
            return self.reply_consumer(from, Reply::rejected(token));
        };
        let timeout_ms = (request.timeout_ms() != 0).then(|| request.timeout_ms());
        self.flush(session, timeout_ms, request.flags(), AfterFlush::Reply(from, token), now);
    }

    /// Asks all producers of a session to commit what they hold. `after` follows when they did, or the time is over.
    pub(crate) fn flush(
        &mut self,
        session_id: SessionId,
        timeout_ms: Option<u32>,
        flags: u64,
        after: AfterFlush,
        now: &Now,
    ) {
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return self.conclude(session_id, after, false, now);
        };
        let pending = session.flushes.len() + session.scrapes.flush_count();
        if pending >= limits::MAX_PENDING_FLUSHES || session.state != State::Started {
            tracing::debug!(%session_id, "flush refused: session is {}", session.state.name());
            return self.conclude(session_id, after, false, now);
        }
        session.counters.flushes_requested += 1;
        session.record_event(EventType::FlushStarted(true), now);
        let flushing = session.instances.flushing_producers();
        // A producer that scrapes its own memory needs to be told even if no data source flushes.
        let scraping = self.producers.iter().filter_map(|(id, producer)| {
            let scrapes = producer.peer.emulated && producer.scraping;
            (scrapes && session.instances.has_producer(*id)).then_some(*id)
        });
        let waits_for: ProducerSet = flushing.chain(scraping).collect();
        // The number before it is for the commands before the last one, if a producer is told in several: nobody waits for their answers.
        self.last_flush += 2;
        let request_id = self.last_flush;
        let timeout_ms = timeout_ms.unwrap_or(session.config.flush_timeout_ms);
        let pending = PendingFlush { deadline: now.after_ms(timeout_ms.into()), waits_for, flags, after };
        if pending.waits_for.is_empty() {
            let ended = EndedFlush { flush: pending, success: true };
            return self.scrape_for_flushes(session_id, vec![ended], now);
        }
        let by = pending.after.consumer();
        session.flushes.insert(request_id, pending);
        self.tell_to_flush(session_id, request_id, flags, by, now);
    }

    /// The same of a session that is stopping: nobody is asked, for data sources flush when they stop, but what producers hold is taken.
    pub(crate) fn flush_without_asking(&mut self, session_id: SessionId, after: AfterFlush, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return self.conclude(session_id, after, false, now);
        };
        session.counters.flushes_requested += 1;
        let waits_for = ProducerSet::default();
        let flush = PendingFlush { deadline: now.after_ms(0), waits_for, flags: 0, after };
        self.scrape_for_flushes(session_id, vec![EndedFlush { flush, success: true }], now);
    }

    /// A producer has flushed all up to this request.
    pub(crate) fn flush_acknowledged(&mut self, producer: ProducerId, up_to: u64, now: &Now) {
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.remove_from_flushes(session, producer, up_to, now);
        }
    }

    /// A producer that is gone has nothing left to flush.
    pub(crate) fn forget_in_flushes(&mut self, session_id: SessionId, producer: ProducerId, now: &Now) {
        self.remove_from_flushes(session_id, producer, u64::MAX, now);
    }

    fn remove_from_flushes(&mut self, session_id: SessionId, producer: ProducerId, up_to: u64, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let mut done = Vec::new();
        for (id, flush) in session.flushes.range_mut(..=up_to) {
            if flush.waits_for.remove(producer) && flush.waits_for.is_empty() {
                done.push(*id);
            }
        }
        if session.instances.len() > limits::MANY_INSTANCES && !done.is_empty() {
            // Of several sessions whose flushes end together the others take their turns, as where that is a matter of time.
            if self.long_flushed_ns == Some(now.clocks.monotonic) {
                for id in &done {
                    session.flushes.entry(*id).and_modify(|flush| flush.deadline = now.after_ms(0));
                }
                return;
            }
            self.long_flushed_ns = Some(now.clocks.monotonic);
        }
        self.end_flushes(session_id, &done, now);
    }

    pub(crate) fn expire_flushes(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get(&session_id) else { return };
        let over = session.flushes.iter().filter(|(_, flush)| now.is_over(flush.deadline));
        let over: Vec<u64> = over.map(|(id, _)| *id).collect();
        self.end_flushes(session_id, &over, now);
    }

    /// What producers have not given is taken once for all that end together.
    fn end_flushes(&mut self, session_id: SessionId, ids: &[u64], now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let flushes = ids.iter().filter_map(|id| session.flushes.remove(id));
        let ended = flushes.map(|flush| EndedFlush { success: flush.waits_for.is_empty(), flush }).collect();
        self.scrape_for_flushes(session_id, ended, now);
    }

    /// All that producers hold has been taken.
    pub(crate) fn conclude_flushes(&mut self, session_id: SessionId, flushes: Vec<EndedFlush>, now: &Now) {
        // Who was slow is kept of the last one only.
        let last = flushes.iter().rposition(|ended| is_last(ended.flush.flags));
        let last_failed = flushes.iter().rposition(|ended| is_last(ended.flush.flags) && !ended.success);
        for (index, ended) in flushes.into_iter().enumerate() {
            if [last, last_failed].contains(&Some(index)) {
                self.note_slow_to_flush(session_id, &ended, now);
            }
            self.conclude_flush(session_id, ended, now);
        }
    }

    fn note_slow_to_flush(&mut self, session_id: SessionId, ended: &EndedFlush, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        // A producer is waited for because of its sources that flush.
        let slow = || {
            let producers = ended.flush.waits_for.iter();
            let keys = producers.flat_map(|producer| session.instances.flushing_of(producer, None));
            keys.filter_map(|key| session.instances.get(key))
        };
        let (names, slow) = (losses::names(slow()), slow_sources(slow()));
        session.losses.slow_to_flush = names;
        if !ended.success {
            session.record_event(EventType::LastFlushSlowDataSources(slow), now);
        }
    }

    fn conclude_flush(&mut self, session_id: SessionId, ended: EndedFlush, now: &Now) {
        let EndedFlush { flush, success } = ended;
        // Of a session that is gone by what the one before led to, it is told so.
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.snapshot_clocks(now);
            session.record_event(EventType::AllDataSourcesFlushed(true), now);
            match success {
                true => session.counters.flushes_succeeded += 1,
                false => session.counters.flushes_failed += 1,
            }
            // A consumer's own flush is not the final one, whatever its flags say.
            if matches!(flush.after, AfterFlush::Disable) {
                session.counters.final_flush = FinalFlush::of(success);
            }
        }
        if !success {
            // There may be thousands, and a thousand flushes that end at once.
            let (count, first) = (flush.waits_for.len(), flush.waits_for.first());
            tracing::warn!(%session_id, count, ?first, "producers did not answer a flush in time");
        }
        self.conclude(session_id, flush.after, success, now);
    }

    fn conclude(&mut self, session_id: SessionId, after: AfterFlush, success: bool, now: &Now) {
        match after {
            AfterFlush::Nothing => {}
            AfterFlush::Reply(to, token) if success => {
                self.answer_consumer(to, token, &FlushResponse::default())
            }
            AfterFlush::Reply(to, token) => self.reply_consumer(to, Reply::rejected(token)),
            AfterFlush::WriteFile => self.start_periodic_write(session_id),
            AfterFlush::Disable => self.disable_tracing(session_id, false, now),
            AfterFlush::Clone(request) => self.clone_in_turn(session_id, request, success, now),
        }
    }

    /// The session of these flushes is erased.
    pub(crate) fn fail_flushes(&mut self, flushes: impl Iterator<Item = PendingFlush>) {
        for flush in flushes {
            match flush.after {
                AfterFlush::Reply(to, token) => self.reply_consumer(to, Reply::rejected(token)),
                AfterFlush::Clone(request) => {
                    self.refuse_clone(request, "the session to be cloned went away during its flush")
                }
                AfterFlush::Nothing | AfterFlush::WriteFile | AfterFlush::Disable => {}
            }
        }
    }

    pub(crate) fn periodic_flush(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.timers.flush = session.config.flush_period_ms.map(|period| now.next_multiple_ms(period));
        // Its producers may be so many that they are still being told of the one before.
        if session.state == State::Started && !session.tellings.flush {
            self.flush(session_id, None, FlushReason::Periodic.by_service(), AfterFlush::Nothing, now);
        }
    }
}
