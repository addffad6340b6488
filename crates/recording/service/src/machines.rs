//! Other machines: producers that a relay brings from there, and what the relay says of them: what they are and how their clocks go.
//!
//! A session takes up a machine with its first data source there. From then on it keeps what it has still to write about it, so that a
//! relay may go away before the trace is read. Upstream: relay_ipc_service.cc, `RelayEndpointImpl`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use ferretto_protos::sync_clock_request::{Clock, Phase};
use ferretto_protos::{
    BuiltinClock, ClockSnapshot, InitRelayRequest, InitRelayResponse, RemoteClockSync, SyncClockRequest,
    SyncClockResponse, SystemInfo, clock_snapshot, remote_clock_sync,
};
use prost::Message;

use crate::calls::RelayCall;
use crate::clock_snapshots;
use crate::ids::{ProducerConn, ProducerId, SessionId, Token};
use crate::limits;
use crate::now::{ClockReadings, Now};
use crate::output::Reply;
use crate::producers::truncated;
use crate::service::Service;

/// A machine that is not the service's own, as its peers say: nothing of it is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Not 0, which is the service's own machine.
    pub id: u32,
    /// For `machine_name_filter`, and to be shown.
    pub name: String,
}

/// A connection that has spoken to RelayPort.
#[derive(Debug)]
pub(crate) struct Relay {
    machine_id: u32,
    /// An encoded `SystemInfo`.
    system_info: Option<Bytes>,
    /// The first half of a round.
    ping: Option<ClockPair>,
    /// The last rounds, oldest first.
    rounds: VecDeque<SyncRound>,
}

/// The clocks of a machine and, a moment later, those of the service.
#[derive(Debug, Clone)]
struct ClockPair {
    machine: Vec<Clock>,
    service: ClockReadings,
}

/// Two pairs, from whose four times a reader works out how far the clocks are apart and how long messages took.
#[derive(Debug, Clone)]
pub(crate) struct SyncRound {
    ping: ClockPair,
    update: ClockPair,
}

/// What a session knows of machines, and has still to write.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionMachines {
    by_id: BTreeMap<u32, MachineNews>,
}

#[derive(Debug, Clone, Default)]
struct MachineNews {
    /// The first that was said.
    system_info: Option<Bytes>,
    system_info_is_written: bool,
    rounds: VecDeque<SyncRound>,
    /// So many of the last rounds are not written yet.
    unwritten_rounds: usize,
}

impl Service {
    /// A producer's connection comes from another machine. To be called after
    /// [`handle_producer_connected`](Self::handle_producer_connected), before its first call. A machine with the id 0 is ignored.
    pub fn handle_producer_machine(&mut self, conn: ProducerConn, machine: Machine) {
        if let Some(link) = self.links.get_mut(&conn)
            && machine.id != 0
        {
            let name = truncated(&machine.name);
            link.machine = Some(Arc::new(Machine { name, ..machine }));
        }
    }

    /// A relay calls a method of RelayPort. `now` is to be as late as possible: it is compared with the clocks that the call brings.
    pub fn handle_relay_call(&mut self, from: ProducerConn, token: Token, call: RelayCall, now: &Now) {
        tracing::trace!(%from, method = call.method(), "relay call");
        if !self.admit_relay(from) {
            return self.reply_producer(from, Reply::rejected(token));
        }
        match call {
            RelayCall::InitRelay(request) => {
                self.answer_producer(from, token, &InitRelayResponse::default());
                self.init_relay(from, request);
            }
            RelayCall::SyncClock(request) => {
                self.answer_producer(from, token, &SyncClockResponse::default());
                self.sync_clock(from, &request, now);
            }
        }
    }

    fn admit_relay(&mut self, from: ProducerConn) -> bool {
        if self.relays.contains_key(&from) {
            return true;
        }
        let Some(machine) = self.links.get(&from).and_then(|link| link.machine.as_ref()) else {
            tracing::warn!(%from, "a relay that is on no other machine is refused");
            return false;
        };
        if self.relays.len() >= limits::MAX_RELAYS {
            tracing::warn!(machine = machine.name, "too many relays: another one is refused");
            return false;
        }
        tracing::info!(machine = machine.name, id = machine.id, "a relay is connected");
        let machine_id = machine.id;
        let relay = Relay { machine_id, system_info: None, ping: None, rounds: VecDeque::new() };
        self.relays.insert(from, relay);
        true
    }

    fn init_relay(&mut self, from: ProducerConn, request: InitRelayRequest) {
        // It stands in the trace as it is: whoever reads that is to be able to.
        let is_sound = |info: &Bytes| {
            info.len() <= limits::MAX_SYSTEM_INFO_BYTES && SystemInfo::decode(info.clone()).is_ok()
        };
        let Some(info) = request.system_info.filter(is_sound) else {
            tracing::debug!(%from, "what a relay says of its machine is no SystemInfo, or too long");
            return;
        };
        // A copy: the bytes given are part of a whole received frame.
        let info = Bytes::copy_from_slice(&info);
        let Some(relay) = self.relays.get_mut(&from) else { return };
        relay.system_info = Some(info.clone());
        self.tell_sessions(from, |news| news.add_system_info(&info));
    }

    fn sync_clock(&mut self, from: ProducerConn, request: &SyncClockRequest, now: &Now) {
        let Some(relay) = self.relays.get_mut(&from) else { return };
        let Some(machine) = plausible_clocks(&request.clocks) else {
            tracing::debug!(%from, "clocks of a relay are not plausible");
            relay.ping = None;
            return;
        };
        // Cycles of one machine's processor say nothing to another, and relays do not send theirs.
        let service = ClockReadings { tsc: None, ..now.clocks };
        let pair = ClockPair { machine, service };
        if request.phase() != Phase::Update {
            relay.ping = Some(pair);
            return;
        }
        let Some(ping) = relay.ping.take().filter(|ping| ping.is_followed_by(&pair)) else { return };
        let round = SyncRound { ping, update: pair };
        push_bounded(&mut relay.rounds, round.clone());
        self.tell_sessions(from, |news| news.add_round(round.clone()));
    }

    /// Only the relay that was first on its machine is believed: others there may be anybody.
    fn tell_sessions(&mut self, from: ProducerConn, mut tell: impl FnMut(&mut MachineNews)) {
        let Some(machine_id) = self.relays.get(&from).map(|relay| relay.machine_id) else { return };
        let mut earlier = self.relays.range(..from);
        if earlier.any(|(_, relay)| relay.machine_id == machine_id) {
            return;
        }
        for session in self.sessions.values_mut().filter(|session| session.is_active()) {
            session.machines.by_id.get_mut(&machine_id).into_iter().for_each(&mut tell);
        }
    }

    /// A data source of this producer takes part in the session.
    pub(crate) fn take_up_machine(&mut self, session_id: SessionId, producer: ProducerId) {
        let machine = self.producers.get(&producer).and_then(|producer| producer.machine.as_ref());
        let Some(id) = machine.map(|machine| machine.id) else { return };
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let machines = &mut session.machines.by_id;
        if machines.contains_key(&id) || machines.len() >= limits::MAX_MACHINES_PER_SESSION {
            return;
        }
        let mut news = MachineNews::default();
        if let Some(relay) = self.relays.values().find(|relay| relay.machine_id == id) {
            relay.system_info.iter().for_each(|info| news.add_system_info(info));
            relay.rounds.iter().for_each(|round| news.add_round(round.clone()));
        }
        machines.insert(id, news);
    }
}

impl SessionMachines {
    /// For a copy of the session, of which nothing is written yet.
    pub(crate) fn unwritten(&self) -> Self {
        let mut copy = self.clone();
        for news in copy.by_id.values_mut() {
            news.system_info_is_written = false;
            news.unwritten_rounds = news.rounds.len();
        }
        copy
    }

    /// What the machines are, as encoded `SystemInfo`, once for each.
    pub(crate) fn take_system_infos(&mut self) -> Vec<(u32, Bytes)> {
        let machines = self.by_id.iter_mut();
        machines.filter_map(|(id, news)| Some((*id, news.take_system_info()?))).collect()
    }

    /// How the machines' clocks went since the last time.
    pub(crate) fn take_clock_syncs(&mut self) -> Vec<(u32, RemoteClockSync)> {
        let machines = self.by_id.iter_mut().filter(|(_, news)| news.unwritten_rounds > 0);
        machines.map(|(id, news)| (*id, encode(news.take_rounds()))).collect()
    }
}

impl MachineNews {
    fn add_system_info(&mut self, info: &Bytes) {
        self.system_info.get_or_insert_with(|| info.clone());
    }

    fn take_system_info(&mut self) -> Option<Bytes> {
        let info = self.system_info.as_ref().filter(|_| !self.system_info_is_written)?;
        self.system_info_is_written = true;
        Some(info.clone())
    }

    fn add_round(&mut self, round: SyncRound) {
        push_bounded(&mut self.rounds, round);
        self.unwritten_rounds = (self.unwritten_rounds + 1).min(self.rounds.len());
    }

    fn take_rounds(&mut self) -> impl Iterator<Item = &SyncRound> {
        let unwritten = std::mem::take(&mut self.unwritten_rounds);
        self.rounds.iter().skip(self.rounds.len().saturating_sub(unwritten))
    }
}

impl ClockPair {
    fn boottime(&self) -> u64 {
        let is_boottime = |clock: &&Clock| clock.clock_id() == BuiltinClock::Boottime as u32;
        self.machine.iter().find(is_boottime).map_or(0, Clock::timestamp)
    }

    /// A relay sends the two halves one right after the other. Half a minute apart, readers would not take them for one round.
    fn is_followed_by(&self, later: &Self) -> bool {
        let elapsed = later.boottime().checked_sub(self.boottime());
        elapsed.is_some_and(|elapsed| elapsed < limits::MAX_SYNC_ROUND.as_nanos() as u64)
    }
}

fn push_bounded(rounds: &mut VecDeque<SyncRound>, round: SyncRound) {
    if rounds.len() >= limits::MAX_SYNC_ROUNDS {
        rounds.pop_front();
    }
    rounds.push_back(round);
}

/// The clocks that every machine has, each once, the boot clock among them; readings that readers can add up without overflow.
fn plausible_clocks(clocks: &[Clock]) -> Option<Vec<Clock>> {
    let mut plausible: Vec<Clock> = Vec::new();
    for clock in clocks.iter().take(limits::MAX_SYNCED_CLOCKS) {
        let is_builtin = (1..=limits::MAX_BUILTIN_CLOCK).contains(&clock.clock_id());
        let is_new = plausible.iter().all(|other| other.clock_id() != clock.clock_id());
        if is_builtin && is_new && (1..=limits::MAX_CLOCK_READING).contains(&clock.timestamp()) {
            plausible.push(*clock);
        }
    }
    let has_boottime = plausible.iter().any(|clock| clock.clock_id() == BuiltinClock::Boottime as u32);
    has_boottime.then_some(plausible)
}

fn encode<'a>(rounds: impl Iterator<Item = &'a SyncRound>) -> RemoteClockSync {
    let pairs = rounds.flat_map(|round| [&round.ping, &round.update]);
    let synced = |pair: &ClockPair| remote_clock_sync::SyncedClocks {
        client_clocks: Some(ClockSnapshot {
            clocks: pair.machine.iter().map(to_snapshot).collect(),
            ..Default::default()
        }),
        host_clocks: Some(ClockSnapshot {
            primary_trace_clock: None,
            ..clock_snapshots::encode(&pair.service, BuiltinClock::Boottime as i32)
        }),
    };
    RemoteClockSync { synced_clocks: pairs.map(synced).collect() }
}

fn to_snapshot(clock: &Clock) -> clock_snapshot::Clock {
    clock_snapshot::Clock {
        clock_id: Some(clock.clock_id()),
        timestamp: Some(clock.timestamp()),
        ..Default::default()
    }
}
