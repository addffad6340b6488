//! From StartTracing to the end (upstream: tracing_service_impl.cc, `StartTracing` and `DisableTracing`).

use ferretto_protos::EnableTracingResponse;
use ferretto_protos::tracing_service_event::EventType;

use crate::flush::{AfterFlush, FlushReason};
use crate::ids::{ConsumerConn, InstanceId, ProducerId, SessionId};
use crate::instance_set::InstanceState;
use crate::limits;
use crate::losses;
use crate::now::{Now, take_if_over};
use crate::output::Reply;
use crate::service::Service;
use crate::service_events::slow_sources;
use crate::session::{State, Timers};
use crate::work::Job;

impl Service {
    pub(crate) fn start_tracing(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if session.state != State::Configured {
            tracing::warn!(%session_id, "StartTracing of a session that is {}", session.state.name());
            return;
        }
        session.start_realtime_ns = now.clocks.realtime;
        self.set_state(session_id, State::Started, now);
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if session.config.builtin.clock_snapshots {
            session.clocks.initial = Some(now.clocks);
        }
        session.record_event(EventType::TracingStarted(true), now);
        session.snapshot_tick(now);
        session.arm_timers(now);
        // Otherwise what sets up goes on to start.
        if session.is_setting_up {
            return;
        }
        self.begin(Job::Start { session: session_id, after: None }, now);
    }

    pub(crate) fn data_source_started(&mut self, producer: ProducerId, id: InstanceId, now: &Now) {
        let found = self.find_instance(producer, id, InstanceState::Starting, InstanceState::Started);
        if let Some(session) = found {
            self.after_instance_change(session, now);
        }
    }

    pub(crate) fn data_source_stopped(&mut self, producer: ProducerId, id: InstanceId, now: &Now) {
        let found = self.find_instance(producer, id, InstanceState::Stopping, InstanceState::Stopped);
        if let Some(session) = found {
            self.after_instance_change(session, now);
        }
    }

    /// Moves an instance on as its producer says; a producer can speak of its own instances only, and out of turn it is not heard.
    fn find_instance(
        &mut self,
        producer: ProducerId,
        id: InstanceId,
        from: InstanceState,
        to: InstanceState,
    ) -> Option<SessionId> {
        for session in self.sessions.values_mut().filter(|session| session.is_active()) {
            let Some(instance) = session.instances.get((producer, id)) else { continue };
            if instance.state != from {
                tracing::debug!(%producer, %id, "a data source reports {to:?} while it is {:?}", instance.state);
                return None;
            }
            let names = (instance.producer_name.clone(), instance.source_name.clone());
            session.instances.set_state((producer, id), to);
            let session = session.id;
            self.observe_instance(session, &names.0, &names.1, to);
            return Some(session);
        }
        None
    }

    /// What follows when the states of instances have changed: all are started, or all are stopped.
    pub(crate) fn after_instance_change(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        match session.state {
            State::Started
                if !session.all_started_reported
                    && !session.is_setting_up
                    && session.instances.all_are(InstanceState::Started) =>
            {
                session.all_started_reported = true;
                session.timers.all_started = None;
                session.record_event(EventType::AllDataSourcesStarted(true), now);
                self.observe_all_started(session_id);
            }
            _ => self.after_stop(session_id, now),
        }
    }

    /// Flushes, then stops: what ends a session in time.
    pub(crate) fn flush_and_disable(&mut self, session_id: SessionId, now: &Now) {
        self.flush(session_id, None, FlushReason::TraceStop.by_service(), AfterFlush::Disable, now);
    }

    /// Stops a session. Data sources of one that `is_freed` are not waited for.
    pub(crate) fn disable_tracing(&mut self, session_id: SessionId, is_freed: bool, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        match session.state {
            State::Disabled | State::ClonedReadOnly => {}
            // Nobody will read it.
            _ if is_freed && session.file.is_none() => {
                self.stop_gone(session_id, now);
                self.end_session(session_id, now);
            }
            State::Stopping { .. } if is_freed => {
                session.stops_at_once = true;
                self.after_stop(session_id, now);
            }
            State::Stopping { .. } => {}
            State::Configured | State::Started => self.stop_session(session_id, is_freed, now),
        }
    }

    fn stop_session(&mut self, session_id: SessionId, is_freed: bool, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        // A session that never started has nobody to wait for.
        session.stops_at_once = is_freed || session.state == State::Configured;
        let rest = self.begin_to_stop(session_id);
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let is_stopped = rest.is_none() && session.is_stopped();
        if is_stopped {
            self.finish_disabling(session_id, now);
        }
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if !is_stopped || session.scrapes.end_session() {
            let deadline = now.after_ms(session.config.stop_timeout_ms.into());
            self.set_state(session_id, State::Stopping { deadline }, now);
        }
        rest.into_iter().for_each(|rest| self.stop_on(rest));
    }

    /// What follows when data sources have stopped, or need not be waited for any more.
    pub(crate) fn after_stop(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if matches!(session.state, State::Stopping { .. }) && session.is_stopped() {
            self.finish_disabling(session_id, now);
        }
    }

    /// Data sources that did not say in time that they stopped are not waited for any longer.
    pub(crate) fn expire_stop(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if let State::Stopping { deadline } = session.state
            && now.is_over(deadline)
            && !session.scrapes.end_session()
            && !session.is_being_stopped
        {
            session.losses.slow_to_stop = losses::names(session.instances.under_way());
            tracing::warn!(%session_id, "data sources did not acknowledge their stop in time");
            self.finish_disabling(session_id, now);
        }
    }

    /// Takes what producers still hold, then writes the end of the file or tells the consumer.
    fn finish_disabling(&mut self, session_id: SessionId, now: &Now) {
        if self.sessions.get(&session_id).is_some_and(|session| !session.scrapes.end_session()) {
            self.scrape_for_end(session_id, now);
        }
    }

    /// All that producers hold has been taken.
    pub(crate) fn end_session(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.timers = Timers { clone: session.timers.clone, ..Timers::default() };
        session.record_event(EventType::TracingDisabled(true), now);
        // The stats of the whole recording belong at its end, even if somebody has just been told what they were so far. Without a file
        // a session that never started has none, as with upstream.
        session.stats_armed |= session.file.is_some() || session.state != State::Configured;
        self.set_state(session_id, State::Disabled, now);
        let Some(session) = self.sessions.get(&session_id) else { return };
        if session.file.is_some() {
            return self.start_final_write(session_id);
        }
        self.notify_disabled(session_id);
    }

    /// Answers the EnableTracing call of the consumer that has the session.
    pub(crate) fn notify_disabled(&mut self, session_id: SessionId) {
        let Some(session) = self.sessions.get(&session_id) else { return };
        if let Some(owner) = session.owner {
            let error = session.error.clone();
            self.answer_enable_tracing(owner, &error);
        }
    }

    pub(crate) fn answer_enable_tracing(&mut self, to: ConsumerConn, error: &str) {
        let Some(token) = self.consumers.get_mut(&to).and_then(|consumer| consumer.enable.take()) else {
            return;
        };
        let error = (!error.is_empty()).then(|| error.to_owned());
        let response = EnableTracingResponse {
            state: Some(ferretto_protos::enable_tracing_response::State::Disabled(true)),
            error,
        };
        self.reply_consumer(to, Reply::last(token, &response));
    }

    /// Erases a session and gives its buffers back. A session with a file goes on until its last bytes are written.
    pub(crate) fn free_session(&mut self, session_id: SessionId, now: &Now) {
        self.disable_tracing(session_id, true, now);
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if let Some(owner) = session.owner.take()
            && let Some(consumer) = self.consumers.get_mut(&owner)
        {
            consumer.session = None;
            let error = session.error.clone();
            self.end_reading(owner);
            self.answer_enable_tracing(owner, &error);
        }
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if session.file.is_some() {
            session.free_when_written = true;
            // Nobody attaches to it any more, and another may have its key.
            session.detach_key = None;
            return;
        }
        self.erase_session(session_id, now);
    }

    pub(crate) fn erase_session(&mut self, session_id: SessionId, now: &Now) {
        // A copy is one until then: its file may still have to be written.
        if self.sessions.get(&session_id).is_some_and(|session| session.state == State::ClonedReadOnly) {
            self.set_state(session_id, State::Disabled, now);
        }
        let Some(mut session) = self.sessions.remove(&session_id) else { return };
        let ended = std::mem::take(&mut session.scrapes).into_flushes().map(|ended| ended.flush);
        self.fail_flushes(std::mem::take(&mut session.flushes).into_values().chain(ended));
        let mut gone = Vec::with_capacity(session.buffers.len());
        self.producers.values_mut().for_each(|producer| producer.allowed_buffers.remove_all_of(session_id));
        for id in &session.buffers {
            // One that is being copied stays until that is done.
            if !self.buffers.get(id).is_some_and(|buffer| buffer.trace.is_being_cloned()) {
                gone.extend(self.buffers.remove(id));
            }
        }
        self.close_files(session.file.take().map(|file| file.handle));
        self.close_copied_files();
        let bytes: usize =
            gone.iter().map(|buffer| buffer.trace.used_size() + buffer.vms.memory_bytes()).sum();
        let writers: usize = gone.iter().map(|buffer| buffer.trace.writer_slots()).sum();
        if bytes > limits::LARGE_BYTES || writers > limits::MANY_SEQUENCE_IDS || session.is_large() {
            self.environment.dispose(Box::new((session, gone)));
        }
        self.lower_scheduling();
        self.resume_waiting(session_id, now);
        tracing::debug!(%session_id, "session freed");
    }

    pub(crate) fn free_session_of(&mut self, consumer: ConsumerConn, now: &Now) {
        if let Some(session) = self.session_of(consumer) {
            self.free_session(session, now);
        }
    }

    /// Does what a session's own timers ask for.
    pub(crate) fn expire_timers(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if take_if_over(&mut session.timers.clone, now) {
            self.resume_waiting(session_id, now);
        }
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if take_if_over(&mut session.timers.snapshot, now) {
            session.snapshot_tick(now);
        }
        if take_if_over(&mut session.timers.all_started, now) {
            session.report_slow_starts(now);
        }
        let clears = take_if_over(&mut session.timers.clear, now);
        let flushes = take_if_over(&mut session.timers.flush, now);
        let ends = take_if_over(&mut session.timers.duration, now);
        if clears {
            self.clear_incremental_state(session_id, now);
        }
        if flushes {
            self.periodic_flush(session_id, now);
        }
        self.expire_triggers(session_id, now);
        if ends && !self.sessions.get(&session_id).is_some_and(|session| session.ends_by_trigger()) {
            self.end_in_time(session_id, now);
        }
        self.expire_file_write(session_id, now);
    }

    /// The end that the config foresees. A detached session without a file has nobody left who could read it (upstream: `FlushAndDisableTracing`).
    pub(crate) fn end_in_time(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get(&session_id) else { return };
        if session.owner.is_none() && session.file.is_none() {
            return self.free_session(session_id, now);
        }
        self.flush_and_disable(session_id, now);
    }

    fn clear_incremental_state(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.timers.clear = session.config.clear_period_ms.map(|period| now.next_multiple_ms(period));
        if session.state == State::Started {
            self.ask_to_clear_incremental_state(session_id, now);
        }
    }
}

impl crate::session::Session {
    pub(crate) fn record_event(&mut self, event: EventType, now: &Now) {
        if self.config.builtin.service_events {
            self.events.push(now.clocks.boottime, event);
        }
    }

    fn arm_timers(&mut self, now: &Now) {
        let config = &self.config;
        let duration_ms = u64::from(config.duration_ms);
        self.timers.duration = (duration_ms != 0).then(|| match config.duration_with_suspend {
            true => now.after_ms_with_suspend(duration_ms),
            false => now.after_ms(duration_ms),
        });
        let all_started_ms = limits::ALL_STARTED_TIMEOUT.as_millis() as u64;
        self.timers.all_started = Some(now.after_ms(all_started_ms));
        self.timers.flush = config.flush_period_ms.map(|period| now.next_multiple_ms(period));
        self.timers.clear = config.clear_period_ms.map(|period| now.next_multiple_ms(period));
        if let Some(file) = &mut self.file {
            file.next_write = Some(now.next_multiple_ms(file.spec.period_ms));
        }
    }

    fn report_slow_starts(&mut self, now: &Now) {
        let slow = slow_sources(self.instances.under_way());
        tracing::warn!(session = %self.id, count = slow.data_source.len(), "data sources are slow to start");
        self.record_event(EventType::SlowStartingDataSources(slow), now);
    }
}
