//! What an observer who sees every call and every answer expects of the service. Whatever breaks a promise panics.

mod consumers;
mod producers;

use std::collections::{BTreeMap, BTreeSet};

use ferretto_protos as protos;
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::get_async_command_response::Cmd;
use ferretto_service::{
    ConsumerCall, ConsumerConn, FileHandle, Peer, ProducerCall, ProducerConn, Reply, Token,
};
use prost::Message;

use crate::fate::Fate;
use crate::files::File;
use crate::plan::{Plan, serial_of};
use crate::producer::session_of;
use crate::session::{Clocks, NS_PER_MS, Session, State, Watch};
use crate::trace::{People, Stream};

/// Sessions that come from no plan of their own, copies and garbage, have keys from here.
const FIRST_EXTRA_KEY: u32 = 1_000_000;

/// A consumer as the service sees it.
struct Consumer {
    uid: u32,
    session: Option<u32>,
    /// The EnableTracing call that waits for the end.
    enable: Option<Token>,
    reading: Option<Reading>,
    packet: Vec<u8>,
    /// What its last Detach or Attach named.
    key: String,
    /// It detached while a call waited: whoever attaches is told instead.
    may_wait_for_ever: bool,
}

struct Reading {
    token: Token,
    /// It began when all data was there, so that it ends with the last packet.
    is_whole: bool,
}

/// A producer as the service sees it.
struct Producer {
    uid: u32,
    machine: u32,
    pid: i32,
    name: String,
    is_initialized: bool,
    /// Data sources that are registered, and whether they say that they stopped.
    sources: Vec<(String, bool)>,
}

struct Instance {
    producer: ProducerConn,
    session: u32,
    source: String,
    notifies_stop: bool,
}

/// A Flush or CloneSession that waits for producers.
struct Waiting {
    conn: ConsumerConn,
    token: Token,
    session: Option<u32>,
    until: u64,
    /// As producers know it; none if nobody was asked.
    request_id: Option<u64>,
    producers: BTreeSet<ProducerConn>,
    is_clone: bool,
    /// How it chose what to clone: a consumer may wait for several.
    clones_by: &'static str,
    /// A clone that may be flushed for later, when others of its session are whole.
    is_put_off: bool,
    /// What the service had taken when it began to copy in steps, at the earliest.
    ledger: Option<BTreeMap<Stream, u64>>,
}

/// A file that came with a CloneSession call.
struct CloneFile {
    conn: ConsumerConn,
    token: Token,
    /// What every clone has that is made from now on.
    ledger: BTreeMap<Stream, u64>,
    /// The clone may be erased as soon as it is written: since then a session wanted to be alone, or the consumer is gone.
    may_be_erased: bool,
    /// What was in it when it was closed, and whether a write failed. Until then there may be a session that nobody was told of yet.
    closed: Option<(Vec<u8>, bool)>,
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) people: People,
    pub(crate) sessions: BTreeMap<u32, Session>,
    consumers: BTreeMap<ConsumerConn, Consumer>,
    producers: BTreeMap<ProducerConn, Producer>,
    instances: BTreeMap<u64, Instance>,
    waiting: Vec<Waiting>,
    clone_files: BTreeMap<FileHandle, CloneFile>,
    /// Sessions that are gone: their clones may still be written.
    gone: BTreeMap<u32, Session>,
    /// The packets of each honest stream that the service has taken.
    ledger: BTreeMap<Stream, u64>,
    /// What it is about to take from producers that have vanished, after the end of their sessions.
    being_scraped: Vec<(Stream, u64)>,
    last_extra: u32,
    /// The EnableTracing call that is being served, and the session that it would make.
    attempt: Option<(ConsumerConn, Token, u32)>,
    /// The sessions that the call being served ends, for that it wants to be alone.
    making_way: Vec<u32>,
    /// No programs of other users than the service's are let in.
    lockdown: bool,
    /// The service does something in steps, and has not come to the end.
    pub(crate) is_working: bool,
}

impl Model {
    /// The service is about to handle time-outs.
    pub(crate) fn time_is_handled(&mut self, clocks: Clocks, fate: &mut Fate) {
        let keys: Vec<u32> = self.sessions.keys().copied().collect();
        for key in keys {
            let Some(session) = self.sessions.get_mut(&key) else { continue };
            if session.is_duration_over(clocks) {
                fate.saw("duration over");
                if session.plan.as_ref().is_some_and(|plan| plan.counts_suspend) {
                    fate.saw("duration on the boot clock");
                }
                self.promise(Some(key));
            }
        }
    }

    /// It has.
    pub(crate) fn time_was_handled(&mut self, clocks: Clocks, fate: &mut Fate) {
        let late = self.waiting.iter().find(|waiting| clocks.monotonic >= waiting.until);
        // What is over may still be scraped.
        assert!(late.is_none() || self.is_working, "a flush is neither acknowledged nor timed out");
        let keys: Vec<u32> = self.sessions.keys().copied().collect();
        for key in keys {
            let Some(session) = self.sessions.get_mut(&key).filter(|_| !self.is_working) else { continue };
            if session.is_time_over(clocks) {
                if !session.stop_waits.is_empty() {
                    fate.saw("stop timed out");
                }
                session.watch = Watch::Nothing;
                session.stop_waits.clear();
                assert!(!self.awaits_end(key), "the session {key} should be over");
            }
        }
        self.check();
    }

    /// Bytes were written to a file, or could not be; after the latter, tracing ends, and so it does when the file is full.
    pub(crate) fn file_was_written(&mut self, serial: u32, has_failed: bool) {
        let Some(session) = self.sessions.get_mut(&serial) else { return };
        let has_limit = session
            .plan
            .as_ref()
            .is_some_and(|plan| plan.file.as_ref().is_some_and(|file| file.max_bytes.is_some()));
        session.is_stopping |= has_failed || has_limit;
    }

    /// A file is complete, or given up.
    pub(crate) fn file_is_closed(&mut self, handle: FileHandle, file: &File, fate: &mut Fate) {
        fate.saw("file closed");
        if let Some(clone) = self.clone_files.get_mut(&handle) {
            clone.closed = Some((file.bytes.clone(), file.has_failed));
            return;
        }
        let session = self.sessions.get_mut(&file.session).or_else(|| self.gone.get_mut(&file.session));
        let Some(session) = session else { return };
        session.is_writing = false;
        session.checker.file(&file.bytes, file.has_failed, &self.people);
        let max = session.plan.as_ref().and_then(|plan| plan.file.as_ref()?.max_bytes);
        assert!(max.is_none_or(|max| file.bytes.len() as u64 <= max), "the file is larger than allowed");
        if !file.has_failed {
            fate.saw(if max.is_some() { "file full" } else { "file complete" });
            check_whole(session, fate);
            if session.checker.check_end_of_file() {
                fate.saw("a file says that it is full");
            }
        }
        if session.state == State::Freed {
            self.forget(file.session);
        }
    }

    /// The service has so many sessions.
    pub(crate) fn check_count(&self, count: usize) {
        let certain = self.sessions.values().filter(|session| !self.may_be_gone(session)).count();
        let most = self.sessions.len() + self.clones_under_way().count();
        let known = || self.sessions.iter().map(|(key, session)| (*key, session.state)).collect::<Vec<_>>();
        assert!(
            (certain..=most).contains(&count),
            "{count} sessions, not {certain} to {most}: {:?}",
            known()
        );
    }

    /// How many others those that hold a semaphore allow.
    fn holders(&self, name: &str, is_one: impl Fn(&Session) -> bool) -> Vec<u64> {
        let originals = self.sessions.values().filter(|session| !session.is_copy && is_one(session));
        let held = originals.flat_map(|session| &session.plan).flat_map(|plan| &plan.semaphores);
        held.filter(|semaphore| semaphore.name == name).map(|semaphore| semaphore.max_others).collect()
    }

    /// No more sessions hold a semaphore than each of them allows.
    pub(crate) fn check_semaphores(&self) {
        let is_active = |session: &Session| {
            let is_on = matches!(session.state, State::Configured | State::Running);
            is_on && !session.is_stopping && !session.may_be_gone() && !session.was_detached
        };
        let all = self.sessions.values().flat_map(|session| &session.plan);
        for semaphore in all.flat_map(|plan| &plan.semaphores) {
            let holders = self.holders(semaphore.name, |session| {
                // One with a duration may be over, and nobody has been told.
                is_active(session) && session.plan.as_ref().is_some_and(|plan| plan.duration_ms == 0)
            });
            let others = holders.len().saturating_sub(1) as u64;
            assert!(
                holders.iter().all(|max| others <= *max),
                "{} others hold {}: {holders:?}",
                others,
                semaphore.name
            );
        }
    }

    /// Besides those that may go by themselves: one that was freed goes when its file is complete, and a clone may keep that open.
    fn may_be_gone(&self, session: &Session) -> bool {
        let may_be_copied = session.state == State::Freed && self.clones_under_way().next().is_some();
        may_be_copied || session.may_be_gone()
    }

    /// Clones that may be sessions already, which nobody was told of yet.
    fn clones_under_way(&self) -> impl Iterator<Item = ConsumerConn> {
        let written = self.clone_files.values().filter(|clone| clone.closed.is_none());
        let copied = self.waiting.iter().filter(|waiting| waiting.is_clone && self.is_working);
        written.map(|clone| clone.conn).chain(copied.map(|waiting| waiting.conn))
    }

    fn is_exact(&self) -> bool {
        let is_exact = |session: &Session| session.plan.is_some() && !session.may_be_gone();
        self.sessions.values().all(is_exact) && self.clones_under_way().next().is_none()
    }

    fn check_totals(&self, stats: &protos::TraceStats) {
        if !self.is_exact() {
            return;
        }
        let buffers = self.sessions.values().flat_map(|session| &session.plan).map(|plan| plan.buffers.len());
        assert_eq!(stats.total_buffers() as usize, buffers.sum::<usize>(), "buffers");
        assert_eq!(stats.tracing_sessions() as usize, self.sessions.len(), "sessions");
        let connected = self.producers.values().filter(|producer| producer.is_initialized);
        assert_eq!(stats.producers_connected() as usize, connected.clone().count(), "producers");
        let registered = connected.map(|producer| producer.sources.len()).sum::<usize>();
        assert_eq!(stats.data_sources_registered() as usize, registered, "data sources");
    }

    fn state_answered(&mut self, conn: ConsumerConn, reply: &Reply, fate: &mut Fate) {
        let (Some(consumer), Some(body)) = (self.consumers.get(&conn), reply.body.clone()) else { return };
        let response = protos::QueryServiceStateResponse::decode(body).expect("a response");
        let state = response.service_state.expect("a state");
        self.check_sessions(consumer.uid, &state);
        let connected = self.producers.values().filter(|producer| producer.is_initialized);
        let known =
            connected.clone().map(|producer| (producer.uid as i32, producer.pid, producer.name.clone()));
        let listed = state
            .producers
            .iter()
            .map(|producer| (producer.uid(), producer.pid(), producer.name().to_owned()));
        assert_eq!(listed.collect::<BTreeSet<_>>(), known.collect::<BTreeSet<_>>(), "producers");
        let registered = connected.map(|producer| producer.sources.len()).sum::<usize>();
        assert_eq!(state.data_sources.len(), registered, "data sources");
        fate.saw("state queried");
        if state.tracing_sessions.len() > 1 {
            fate.saw("several sessions at once");
        }
    }

    fn check_sessions(&self, uid: u32, state: &protos::TracingServiceState) {
        let mut listed = BTreeSet::new();
        for found in &state.tracing_sessions {
            let serial = found.unique_session_name().strip_prefix('s').and_then(|serial| serial.parse().ok());
            let Some(serial) = serial else { continue };
            let is_copy = found.state() == "CLONED_READ_ONLY";
            let owner = found.consumer_uid() as u32;
            let is_it = |session: &&Session| {
                session.serial == serial && session.is_copy == is_copy && session.uid == owner
            };
            assert!(uid == 0 || uid == owner, "{uid} sees a session of {owner}");
            let Some(session) = self.sessions.values().find(is_it) else {
                let has_asked =
                    |conn| self.consumers.get(&conn).is_none_or(|consumer: &Consumer| consumer.uid == owner);
                let is_under_way = self.clones_under_way().any(has_asked);
                assert!(is_copy && is_under_way, "a session that is gone is listed");
                continue;
            };
            if !is_copy {
                listed.insert(serial);
                self.check_session(session, found);
            }
        }
        for session in self.sessions.values().filter(|session| session.plan.is_some() && !session.is_copy) {
            let is_seen = !self.may_be_gone(session) && (uid == 0 || uid == session.uid);
            assert!(
                !is_seen || listed.contains(&session.serial),
                "the session {} is not listed",
                session.serial
            );
        }
    }

    fn check_session(&self, session: &Session, found: &protos::tracing_service_state::TracingSession) {
        let instances = self.instances.values().filter(|instance| instance.session == session.serial).count();
        let listed = found.num_data_sources() as usize;
        // Those of who is gone go in steps.
        assert!(
            listed == instances || self.is_working,
            "instances of {}: {listed}, not {instances}",
            session.serial
        );
        let expected = match session.state {
            State::Ended => "DISABLED",
            State::Configured if self.awaits_end(session.serial) && !session.is_stopping => "CONFIGURED",
            State::Running
                if self.awaits_end(session.serial) && !session.is_stopping && !session.was_detached =>
            {
                "STARTED"
            }
            _ => return,
        };
        assert_eq!(found.state(), expected, "the session {}", session.serial);
    }

    /// At the end of the world, whether a consumer may still wait for an answer.
    pub(crate) fn may_wait(&self, conn: ConsumerConn, method: &str) -> bool {
        match method {
            "ObserveEvents" => true,
            "EnableTracing" => self.consumers.get(&conn).is_some_and(|consumer| consumer.may_wait_for_ever),
            _ => false,
        }
    }

    /// Somebody attaches to a detached session to free it at once.
    pub(crate) fn attach_at_the_end(&mut self, conn: ConsumerConn, uid: u32, key: &str) {
        let found = self.sessions.iter_mut().find(|(_, session)| {
            session.owner.is_none() && session.uid == uid && session.key.as_deref() == Some(key)
        });
        let (Some((serial, session)), Some(consumer)) = (found, self.consumers.get_mut(&conn)) else {
            return;
        };
        session.owner = Some(conn);
        session.key = None;
        consumer.session = Some(*serial);
        self.before_free(conn);
    }

    /// Sessions that wait for somebody to attach: the user and the key.
    pub(crate) fn detached(&self) -> Option<(u32, String)> {
        let found = self
            .sessions
            .values()
            .find(|session| session.owner.is_none() && session.state != State::Freed)?;
        Some((found.uid, found.key.clone()?))
    }

    /// Its consumer waits to be told that it is over, and no file has to be finished first.
    fn awaits_end(&self, key: u32) -> bool {
        let Some(session) = self.sessions.get(&key) else { return false };
        let owner = session.owner.and_then(|owner| self.consumers.get(&owner));
        // What ended while nobody was attached is told only to whoever asks.
        let waits = !session.was_detached && owner.is_some_and(|owner| owner.enable.is_some());
        waits && !session.is_writing && matches!(session.state, State::Configured | State::Running)
    }

    /// Clones that are copied in steps are of now, or come later. Which session they are of is the service's secret: each may have lost
    /// the buffers that it gives away.
    fn note_copies(&mut self) {
        let is_working = self.is_working;
        let mut begins = false;
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.is_clone) {
            begins |= is_working && waiting.ledger.is_none();
            waiting.ledger = is_working.then(|| waiting.ledger.take().unwrap_or_else(|| self.ledger.clone()));
        }
        let gives = |session: &&mut Session| session.plan.as_ref().is_some_and(Plan::transfers);
        for session in self.sessions.values_mut().filter(|_| begins).filter(gives) {
            session.checker.emptied += 1;
        }
    }

    /// What must hold after each input.
    fn check(&mut self) {
        self.note_scraped();
        self.note_copies();
        for waiting in &self.waiting {
            let is_it = |clone: &&CloneFile| (clone.conn, clone.token) == (waiting.conn, waiting.token);
            let is_written = self.clone_files.values().find(is_it).is_some_and(|file| file.closed.is_none());
            let is_over = waiting.producers.is_empty() && !is_written && !self.is_working;
            assert!(!is_over, "all have answered a flush and nobody is told");
        }
        for (key, session) in &self.sessions {
            let all_stopped = matches!(session.watch, Watch::Stop { .. }) && session.stop_waits.is_empty();
            // Those that are still to be told are not among those that are waited for.
            let is_over = all_stopped && !self.is_working;
            assert!(!is_over || !self.awaits_end(*key), "all have stopped and nobody is told");
        }
    }
}

/// Everything was read: what was promised must have been there.
fn check_whole(session: &mut Session, fate: &mut Fate) {
    if session.checker.check_flushes() {
        fate.saw("stop flush failed with a name");
    }
    if session.checker.check_folding() {
        let is_copy = session.checker.is_copy;
        fate.saw(if is_copy { "folded states are read from a clone" } else { "folded states are read" });
    }
    if session.checker.clock_syncs > 0 {
        fate.saw("a trace has the clocks of another machine");
    }
    if session.checker.has_vm_state {
        fate.saw("a trace has the state of a ProtoVM");
    }
    if session.checker.gaps > 0 {
        fate.saw("a trace has a gap that is announced");
    }
    fate.report.packets += session.checker.packets;
    if !session.is_lossless() {
        return;
    }
    for (stream, count) in session.promised.iter().flatten() {
        session.checker.check_complete(*stream, *count);
        if *count > 0 {
            fate.saw("a sequence is complete");
        }
    }
}

fn ledger_of(ledger: &BTreeMap<Stream, u64>, session: u32) -> BTreeMap<Stream, u64> {
    ledger
        .iter()
        .filter(|(stream, _)| stream.session == session)
        .map(|(stream, count)| (*stream, *count))
        .collect()
}
