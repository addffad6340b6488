//! Triggers: names that producers call out, and what sessions make of them (upstream: tracing_service_impl.cc, `ActivateTriggers`).
//!
//! A name that no session waits for costs a look at the sessions; the others are looked at in steps. Activations that count are remembered for a day, whoever they came
//! from, because `max_per_24_h` of a later session of the same user counts them too.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use ferretto_protos::Trigger;
use ferretto_protos::trace_packet::Data;

use crate::config::{TriggerMode, TriggerSpec, pattern_cost};
use crate::ids::{ProducerId, SessionId};
use crate::limits;
use crate::now::{Deadline, Now, take_if_over};
use crate::service::Service;
use crate::session::{Session, State};
use crate::work::{Budget, Job};

/// A trigger as it came.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedTrigger {
    pub(crate) boottime_ns: u64,
    pub(crate) name: Arc<str>,
    pub(crate) producer_name: Arc<str>,
    pub(crate) producer_uid: u32,
    pub(crate) delay_ms: u64,
}

impl ReceivedTrigger {
    pub(crate) fn to_proto(&self) -> Trigger {
        Trigger {
            trigger_name: Some(self.name.as_ref().to_owned()),
            producer_name: Some(self.producer_name.as_ref().to_owned()),
            trusted_producer_uid: Some(self.producer_uid.cast_signed()),
            stop_delay_ms: Some(self.delay_ms),
        }
    }
}

/// What a session has received.
#[derive(Debug, Default)]
pub(crate) struct SessionTriggers {
    /// Whether any has come, which lets the trace be read.
    received: bool,
    /// Those that are not in the trace yet.
    pending: VecDeque<ReceivedTrigger>,
    /// What a clone was made for.
    pub(crate) cloned_for: Option<ReceivedTrigger>,
    /// Snapshots that are to be taken when their delay is over.
    snapshots: Vec<(Deadline, ReceivedTrigger)>,
    verdicts: Verdicts,
}

/// Whether triggers are taken from producers, as far as it was found out: by the names of both.
#[derive(Debug, Default)]
struct Verdicts(HashMap<(Arc<str>, Arc<str>), bool>);

impl Verdicts {
    fn accepts(
        &mut self,
        spec: &TriggerSpec,
        trigger: &Arc<str>,
        producer: &Arc<str>,
        budget: &mut Budget,
    ) -> bool {
        if spec.accepts_all() {
            return true;
        }
        let names = (Arc::clone(trigger), Arc::clone(producer));
        if let Some(verdict) = self.0.get(&names) {
            return *verdict;
        }
        if self.0.len() >= limits::MAX_TRIGGER_VERDICTS {
            self.0.clear();
        }
        budget.spend(pattern_cost(producer));
        let verdict = spec.accepts(producer);
        self.0.insert(names, verdict);
        verdict
    }
}

impl SessionTriggers {
    /// Says whether it is the first one.
    fn receive(&mut self, trigger: ReceivedTrigger) -> bool {
        if self.pending.len() >= limits::MAX_RECEIVED_TRIGGERS {
            self.pending.pop_front();
        }
        self.pending.push_back(trigger);
        !std::mem::replace(&mut self.received, true)
    }

    /// Says whether there was room for it.
    fn announce_later(&mut self, at: Deadline, trigger: ReceivedTrigger) -> bool {
        let has_room = self.snapshots.len() < limits::MAX_PENDING_SNAPSHOTS;
        if has_room {
            self.snapshots.push((at, trigger));
        }
        has_room
    }

    fn take_due(&mut self, now: &Now) -> Vec<ReceivedTrigger> {
        let is_due = |waiting: &mut (Deadline, ReceivedTrigger)| now.is_over(waiting.0);
        self.snapshots.extract_if(.., is_due).map(|(_, trigger)| trigger).collect()
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Deadline> {
        self.snapshots.iter().map(|(at, _)| *at)
    }

    /// What a clone takes along. Between two snapshots of a session that goes on, each trigger belongs to the first one only.
    pub(crate) fn for_clone(
        &mut self,
        mode: Option<TriggerMode>,
        cloned_for: Option<ReceivedTrigger>,
    ) -> Self {
        let pending = match mode {
            Some(TriggerMode::CloneSnapshot) => std::mem::take(&mut self.pending),
            _ => self.pending.clone(),
        };
        Self {
            received: self.received,
            pending,
            cloned_for,
            snapshots: Vec::new(),
            verdicts: Verdicts::default(),
        }
    }

    /// The packets to write into the trace, with their times.
    pub(crate) fn take_packets(&mut self) -> impl Iterator<Item = (u64, Data)> {
        let cloned_for = self.cloned_for.take();
        let cloned_for =
            cloned_for.map(|trigger| (trigger.boottime_ns, Data::CloneSnapshotTrigger(trigger.to_proto())));
        let received =
            self.pending.drain(..).map(|trigger| (trigger.boottime_ns, Data::Trigger(trigger.to_proto())));
        cloned_for.into_iter().chain(received)
    }
}

/// The activations of the last 24 hours that counted, by users: what counts for the sessions of one is nothing to those of another.
#[derive(Debug, Default)]
pub(crate) struct TriggerHistory {
    /// In the order of time.
    entries: VecDeque<Activation>,
    /// How many of them each user has.
    of_users: BTreeMap<u32, usize>,
}

#[derive(Debug)]
struct Activation {
    /// On the boot clock.
    at_ns: u64,
    key: ActivationKey,
}

/// Whose sessions it counted for, and the hash of its name.
type ActivationKey = (u32, u64);

impl TriggerHistory {
    fn count(&mut self, user: u32, name: &str, now: &Now) -> usize {
        self.forget_old(now);
        let key = (user, hash(name));
        self.entries.iter().filter(|entry| entry.key == key).count()
    }

    fn push(&mut self, user: u32, name: &str, now: &Now) {
        self.forget_old(now);
        let key = (user, hash(name));
        if self.entries.len() >= limits::MAX_TRIGGER_HISTORY {
            self.make_room(key);
        }
        self.entries.push_back(Activation { at_ns: now.clocks.boottime, key });
        *self.of_users.entry(user).or_default() += 1;
    }

    /// Whoever has the most loses the oldest. If it is for the same user, a name that is called out again and again displaces itself.
    fn make_room(&mut self, key: ActivationKey) {
        let most = self.of_users.iter().max_by_key(|(_, count)| **count);
        let Some(user) = most.map(|(user, _)| *user) else { return };
        let same = self.entries.iter().position(|entry| user == key.0 && entry.key == key);
        let of_user = || self.entries.iter().position(|entry| entry.key.0 == user);
        if let Some(entry) = same.or_else(of_user).and_then(|index| self.entries.remove(index)) {
            self.uncount(&entry);
        }
    }

    fn forget_old(&mut self, now: &Now) {
        let day = limits::TRIGGER_WINDOW.as_nanos() as u64;
        let begin = now.clocks.boottime.saturating_sub(day);
        while self.entries.front().is_some_and(|entry| entry.at_ns < begin)
            && let Some(entry) = self.entries.pop_front()
        {
            self.uncount(&entry);
        }
    }

    fn uncount(&mut self, entry: &Activation) {
        let user = entry.key.0;
        if let Some(count) = self.of_users.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.of_users.remove(&user);
            }
        }
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Who calls out a trigger.
#[derive(Debug)]
struct Source {
    name: Arc<str>,
    uid: u32,
}

/// What a producer has called out and was not looked at yet: names that some session waits for.
#[derive(Debug)]
pub(crate) struct CalledOut {
    source: Source,
    names: VecDeque<Arc<str>>,
}

/// What came of triggers, for one line in the log however many there are.
#[derive(Debug, Default)]
struct Outcome {
    received: usize,
    first: Option<(SessionId, Arc<str>)>,
    /// Snapshots that are not taken.
    left_out: usize,
}

impl Outcome {
    fn log(&self, source: &Source) {
        let producer = &source.name;
        if let Some((session_id, trigger)) = &self.first {
            match self.received {
                1 => tracing::info!(%session_id, %trigger, %producer, "trigger received"),
                count => {
                    tracing::info!(%session_id, %trigger, %producer, count, "triggers received; the first is named")
                }
            }
        }
        if self.left_out > 0 {
            let count = self.left_out;
            tracing::warn!(%producer, count, "too many snapshots wait for the delay of their trigger: these are not taken");
        }
    }
}

/// What it costs to go through the history, and to look whether a trigger counts for a session, in [`Budget`]'s units.
const HISTORY_COST: usize = 10;
const SESSION_COST: usize = 2;

impl Service {
    pub(crate) fn activate_triggers(&mut self, id: ProducerId, names: &[String], now: &Now) {
        let Some(producer) = self.producers.get(&id) else { return };
        let source = Source { name: producer.name.clone(), uid: producer.peer.uid };
        let waited_for = |name: &String| self.sessions.values().find_map(|session| session.listens_to(name));
        let known = names.iter().take(limits::MAX_TRIGGERS_PER_REQUEST).filter_map(waited_for).cloned();
        let known: VecDeque<Arc<str>> = known.collect();
        let mut ignored = names.len().saturating_sub(limits::MAX_TRIGGERS_PER_REQUEST);
        match self.called_out.get_mut(&id) {
            Some(waiting) => {
                let room = limits::MAX_TRIGGERS_PER_REQUEST.saturating_sub(waiting.names.len());
                ignored += known.len().saturating_sub(room);
                waiting.names.extend(known.into_iter().take(room));
            }
            None if known.is_empty() => {}
            None => {
                self.called_out.insert(id, CalledOut { source, names: known });
                self.begin(Job::Triggers { producer: id }, now);
            }
        }
        if ignored > 0 {
            tracing::warn!(producer = %id, ignored, "too many triggers at once: the last ones are ignored");
        }
    }

    /// Looks at what a producer has called out. Says whether there is more.
    pub(crate) fn step_of_triggers(&mut self, id: ProducerId, budget: &mut Budget, now: &Now) -> bool {
        let Some(mut called) = self.called_out.remove(&id) else { return false };
        let mut outcome = Outcome::default();
        while !budget.is_spent()
            && let Some(name) = called.names.pop_front()
        {
            self.activate_trigger(&called.source, &name, &mut outcome, budget, now);
        }
        outcome.log(&called.source);
        let has_more = !called.names.is_empty();
        if has_more {
            self.called_out.insert(id, called);
        }
        has_more
    }

    fn activate_trigger(
        &mut self,
        source: &Source,
        name: &Arc<str>,
        outcome: &mut Outcome,
        budget: &mut Budget,
        now: &Now,
    ) {
        let waiting = self.sessions.values().filter(|session| session.listens_to(name).is_some());
        let waiting: Vec<(SessionId, u32)> = waiting.map(|session| (session.id, session.owner_uid)).collect();
        let mut owners = BTreeSet::new();
        for (session_id, owner_uid) in waiting {
            budget.spend(SESSION_COST);
            if self.is_triggered(session_id, source, name, budget, now) {
                owners.insert(owner_uid);
                outcome.received += 1;
                outcome.first.get_or_insert_with(|| (session_id, Arc::clone(name)));
                outcome.left_out += usize::from(!self.act_on(session_id, source, name, now));
            }
        }
        for owner_uid in owners {
            budget.spend(HISTORY_COST);
            self.trigger_history.push(owner_uid, name, now);
        }
    }

    /// Says whether the trigger counts for this session.
    fn is_triggered(
        &mut self,
        session_id: SessionId,
        source: &Source,
        name: &Arc<str>,
        budget: &mut Budget,
        now: &Now,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(&session_id) else { return false };
        let triggers = session.config.triggers.as_ref();
        let Some(spec) = triggers.and_then(|triggers| triggers.triggers.get(name)) else { return false };
        if !session.triggers.verdicts.accepts(spec, name, &source.name, budget) {
            return false;
        }
        if spec.skip_probability > 0.0 && unit_interval(self.environment.random_u64()) < spec.skip_probability
        {
            tracing::debug!(%session_id, trigger = %name, "trigger skipped by chance");
            return false;
        }
        if spec.max_per_24_h == 0 {
            return true;
        }
        budget.spend(HISTORY_COST);
        let before = self.trigger_history.count(session.owner_uid, name, now);
        let counts = before < usize::try_from(spec.max_per_24_h).unwrap_or(usize::MAX);
        if !counts {
            tracing::debug!(%session_id, trigger = %name, "trigger came more often than max_per_24_h allows");
        }
        counts
    }

    /// Says whether there was room for what the trigger asks for.
    fn act_on(&mut self, session_id: SessionId, source: &Source, name: &Arc<str>, now: &Now) -> bool {
        let Some(session) = self.sessions.get_mut(&session_id) else { return true };
        let Some(triggers) = &session.config.triggers else { return true };
        let Some(delay_ms) = triggers.triggers.get(name).map(|spec| spec.delay_ms) else { return true };
        let mode = triggers.mode;
        let trigger = ReceivedTrigger {
            boottime_ns: now.clocks.boottime,
            name: Arc::clone(name),
            producer_name: Arc::clone(&source.name),
            producer_uid: source.uid,
            delay_ms: delay_ms.into(),
        };
        session.snapshot_clocks(now);
        let is_first = session.triggers.receive(trigger.clone());
        let at = now.after_ms(delay_ms.into());
        match mode {
            TriggerMode::Start if session.state == State::Configured => {
                session.config.duration_ms = delay_ms;
                self.start_tracing(session_id, now);
            }
            TriggerMode::Stop if is_first => session.timers.trigger = Some(at),
            TriggerMode::Start | TriggerMode::Stop => {}
            TriggerMode::CloneSnapshot => return session.triggers.announce_later(at, trigger),
        }
        true
    }

    /// Lets a new session wait for its triggers. Says whether it starts with one.
    pub(crate) fn arm_triggers(&mut self, session_id: SessionId, now: &Now) -> bool {
        let Some(session) = self.sessions.get_mut(&session_id) else { return false };
        let Some(spec) = &session.config.triggers else { return false };
        if spec.mode == TriggerMode::Start {
            session.timers.trigger = Some(now.after_ms(spec.timeout_ms.into()));
            return true;
        }
        session.config.duration_ms = spec.timeout_ms;
        false
    }

    pub(crate) fn expire_triggers(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let snapshots = session.triggers.take_due(now);
        if take_if_over(&mut session.timers.trigger, now) {
            match session.trigger_mode() {
                // None has come.
                Some(TriggerMode::Start) if session.state == State::Configured => {
                    self.disable_tracing(session_id, false, now);
                }
                Some(TriggerMode::Stop) => self.end_in_time(session_id, now),
                _ => {}
            }
        }
        for trigger in snapshots {
            self.observe_snapshot_trigger(session_id, &trigger);
        }
    }
}

impl Session {
    pub(crate) fn trigger_mode(&self) -> Option<TriggerMode> {
        self.config.triggers.as_ref().map(|triggers| triggers.mode)
    }

    /// The trigger of this name, if it waits for one. A clone listens to none.
    fn listens_to(&self, name: &str) -> Option<&Arc<str>> {
        let spec = self.config.triggers.as_ref().filter(|_| self.state != State::ClonedReadOnly)?;
        spec.triggers.get_key_value(name).map(|(name, _)| name)
    }

    /// A trigger has set the time of the end, whatever the time-out says.
    pub(crate) fn ends_by_trigger(&self) -> bool {
        self.trigger_mode() == Some(TriggerMode::Stop) && self.triggers.received
    }

    /// Nothing of such a session can be read, not even its config: without a trigger there is no trace. One that is for snapshots is read
    /// through its clones only.
    pub(crate) fn waits_for_trigger(&self) -> bool {
        if self.state == State::ClonedReadOnly {
            return false;
        }
        let Some(spec) = &self.config.triggers else { return false };
        spec.mode == TriggerMode::CloneSnapshot || (!spec.triggers.is_empty() && !self.triggers.received)
    }
}

/// A number from 0 to below 1.
fn unit_interval(random: u64) -> f64 {
    const DIGITS: u32 = f64::MANTISSA_DIGITS;
    (random >> (u64::BITS - DIGITS)) as f64 / (1u64 << DIGITS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boottime: u64) -> Now {
        Now { clocks: crate::ClockReadings { boottime, ..Default::default() } }
    }

    #[test]
    fn random_numbers_are_below_one() {
        assert_eq!(unit_interval(0), 0.0);
        assert_eq!(unit_interval(1 << 63), 0.5);
        assert!(unit_interval(u64::MAX) < 1.0);
    }

    #[test]
    fn an_expression_is_tried_once_on_a_producers_name() {
        let mut verdicts = Verdicts::default();
        let spec = TriggerSpec::of_producers("p[0-9]+");
        let mut ask = |producer: &str| {
            let mut budget = Budget::of(limits::STEP_COST);
            let verdict = verdicts.accepts(&spec, &"t".into(), &producer.into(), &mut budget);
            (verdict, budget.left() == limits::STEP_COST)
        };
        assert_eq!(
            (ask("p1"), ask("p1"), ask("q"), ask("q")),
            ((true, false), (true, true), (false, false), (false, true))
        );
        (0..2 * limits::MAX_TRIGGER_VERDICTS).for_each(|number| _ = ask(&format!("p{number}")));
        assert!(verdicts.0.len() <= limits::MAX_TRIGGER_VERDICTS);
    }

    #[test]
    fn history_forgets_after_a_day() {
        let day = limits::TRIGGER_WINDOW.as_nanos() as u64;
        let mut history = TriggerHistory::default();
        history.push(1, "a", &at(10));
        history.push(1, "b", &at(20));
        assert_eq!((history.count(1, "a", &at(10 + day)), history.count(2, "a", &at(10 + day))), (1, 0));
        assert_eq!(history.count(1, "a", &at(11 + day)), 0);
        assert_eq!(history.count(1, "b", &at(11 + day)), 1);
        assert_eq!(history.count(1, "b", &at(21 + day)), 0);
        assert!(history.entries.is_empty() && history.of_users.is_empty());
    }

    #[test]
    fn a_full_history_keeps_other_names_and_other_users() {
        let mut history = TriggerHistory::default();
        history.push(1, "rare", &at(0));
        history.push(2, "rare", &at(0));
        let many = 2 * limits::MAX_TRIGGER_HISTORY as u64;
        (0..many).for_each(|i| history.push(2, "flood", &at(i)));
        assert_eq!(history.entries.len(), limits::MAX_TRIGGER_HISTORY);
        assert_eq!((history.count(1, "rare", &at(1)), history.count(2, "rare", &at(1))), (1, 1));
        (0..many).for_each(|i| history.push(2, &i.to_string(), &at(i)));
        (0..3).for_each(|_| history.push(1, "rare", &at(many)));
        assert_eq!(
            (history.count(1, "rare", &at(1)), history.entries.len()),
            (4, limits::MAX_TRIGGER_HISTORY)
        );
        assert_eq!(history.of_users.values().sum::<usize>(), limits::MAX_TRIGGER_HISTORY);
    }
}
