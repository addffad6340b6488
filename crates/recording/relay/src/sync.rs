//! The relay's own connection to the service: what this machine is, and what its clocks show.
//!
//! A round has two messages, PING and UPDATE, the second as soon as the first was answered. The service notes its own clocks with each.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use ferretto_ipc::address::Address;
use ferretto_ipc::client::{Event, RequestId};
use ferretto_ipc::identity::peer_identity;
use ferretto_ipc::link::ClientLink;
use ferretto_ipc::remote::{Connected, Connecting};
use ferretto_protos::sync_clock_request::{Clock, Phase};
use ferretto_protos::{BuiltinClock, InitRelayRequest, SyncClockRequest, SystemInfo};
use prost::Message;
use rustix::time::{ClockId, clock_gettime};

use crate::lookup::Lookup;

/// Between rounds (upstream: `kSyncClockIntervalMs`). Quartzes drift apart by a millisecond in that time.
const ROUND_INTERVAL: Duration = Duration::from_secs(30);
/// A service that does not answer in this time will not.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The first pause before connecting again: a restarted service is back within this.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The longest pause (upstream's).
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The connection, made again whenever it ends.
#[derive(Debug)]
pub(crate) struct Sync {
    address: Address,
    system_info: SystemInfo,
    delay: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    /// `sooner_from`: when it may try again if somebody else comes who needs the service. Nothing if the service was reached, but is no use.
    Waiting {
        until: Instant,
        sooner_from: Option<Instant>,
    },
    Connecting {
        connecting: Connecting,
        deadline: Instant,
    },
    Connected(Box<Session>),
}

#[derive(Debug)]
struct Session {
    link: ClientLink,
    step: Step,
    /// It is known to be of use: a whole round was answered.
    is_proven: bool,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Binding { deadline: Instant },
    Pinging { request: RequestId, deadline: Instant },
    Updating { request: RequestId, deadline: Instant },
    Resting { until: Instant },
}

impl Sync {
    pub(crate) fn new(address: Address, system_info: SystemInfo, now: Instant) -> Self {
        Self {
            address,
            system_info,
            delay: FIRST_DELAY,
            state: State::Waiting { until: now, sooner_from: None },
        }
    }

    /// What to wait for, and whether for writing too.
    pub(crate) fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        match &self.state {
            State::Waiting { .. } => None,
            State::Connecting { connecting, .. } => Some((connecting.as_fd(), true)),
            State::Connected(session) => Some((session.link.fd(), session.link.wants_write())),
        }
    }

    /// When there is something to do even if nothing comes.
    pub(crate) fn deadline(&self) -> Instant {
        match &self.state {
            State::Waiting { until, .. } => *until,
            State::Connecting { deadline, .. } => *deadline,
            State::Connected(session) => session.step.deadline(),
        }
    }

    /// A producer is about to be connected to the service, which may be back: the relay is there before it, so that nobody waits half a
    /// minute for the first round.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if let State::Waiting { until, sooner_from: Some(from) } = &mut self.state
            && *from <= now
        {
            *until = now;
        }
    }

    /// Does what there is to do. `is_ready`: the descriptor is.
    pub(crate) fn process(&mut self, is_ready: bool, lookup: &mut Lookup, now: Instant) {
        let waiting = State::Waiting { until: now, sooner_from: None };
        let mut was_reached = false;
        let next = match std::mem::replace(&mut self.state, waiting) {
            waiting @ State::Waiting { until, .. } if until > now => Ok(waiting),
            State::Waiting { .. } => connect(lookup, now),
            State::Connecting { connecting, deadline } if is_ready => self.finish(connecting, deadline, now),
            State::Connecting { deadline, .. } if deadline <= now => Err(silence()),
            State::Connecting { connecting, deadline } => Ok(State::Connecting { connecting, deadline }),
            State::Connected(session) => {
                was_reached = !session.is_proven;
                self.go_on(session, is_ready, now)
            }
        };
        self.state = next.unwrap_or_else(|error| {
            lookup.look_up(now);
            self.give_up(&error, was_reached, now)
        });
    }

    fn give_up(&mut self, error: &io::Error, was_reached: bool, now: Instant) -> State {
        let delay = self.delay;
        self.delay = delay.saturating_mul(2).min(MAX_DELAY);
        if delay == FIRST_DELAY {
            tracing::warn!("not connected to the service on {}: {error}; trying again", self.address);
        }
        let sooner_from = (!was_reached).then_some(now + FIRST_DELAY);
        State::Waiting { until: now + delay, sooner_from }
    }

    fn finish(&self, connecting: Connecting, deadline: Instant, now: Instant) -> io::Result<State> {
        let stream = match connecting.finish()? {
            Connected::NotYet(connecting) => return Ok(State::Connecting { connecting, deadline }),
            Connected::Yes(stream) => stream,
        };
        let mut link = ClientLink::new(stream, "RelayPort");
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let identity = peer_identity(pid, rustix::process::geteuid().as_raw());
        link.connection().set_peer_identity(identity).map_err(io::Error::other)?;
        link.flush().map_err(io::Error::other)?;
        let step = Step::Binding { deadline: now + ANSWER_TIMEOUT };
        Ok(State::Connected(Box::new(Session { link, step, is_proven: false })))
    }

    fn go_on(&mut self, mut session: Box<Session>, is_ready: bool, now: Instant) -> io::Result<State> {
        if is_ready {
            session.link.receive().map_err(io::Error::other)?;
            while let Some(event) = session.link.connection().poll_event() {
                self.handle(&mut session, event, now)?;
            }
        }
        if session.step.deadline() <= now {
            match session.step {
                Step::Resting { .. } => session.ping(now)?,
                _ => return Err(silence()),
            }
        }
        session.link.flush().map_err(io::Error::other)?;
        Ok(State::Connected(session))
    }

    fn handle(&mut self, session: &mut Session, event: Event, now: Instant) -> io::Result<()> {
        match (event, session.step) {
            (Event::Bound, _) => {
                let system_info = Some(self.system_info.encode_to_vec().into());
                session.call("InitRelay", &InitRelayRequest { system_info })?;
                session.ping(now)
            }
            (Event::BindFailed, _) => Err(io::Error::other(
                "it serves no relays at this socket; start it with --enable-relay-endpoint",
            )),
            (Event::Reply { body: None, .. }, _) => Err(io::Error::other("it refuses this relay")),
            (Event::Reply { request, .. }, Step::Pinging { request: asked, .. }) if request == asked => {
                let request = session.send_clocks(Phase::Update)?;
                session.step = Step::Updating { request, deadline: now + ANSWER_TIMEOUT };
                Ok(())
            }
            (Event::Reply { request, .. }, Step::Updating { request: asked, .. }) if request == asked => {
                if !std::mem::replace(&mut session.is_proven, true) {
                    self.delay = FIRST_DELAY;
                    tracing::info!("connected to the service on {}", self.address);
                }
                session.step = Step::Resting { until: now + ROUND_INTERVAL };
                Ok(())
            }
            (Event::Reply { .. }, _) => Ok(()),
        }
    }
}

impl Session {
    fn ping(&mut self, now: Instant) -> io::Result<()> {
        let request = self.send_clocks(Phase::Ping)?;
        self.step = Step::Pinging { request, deadline: now + ANSWER_TIMEOUT };
        Ok(())
    }

    fn send_clocks(&mut self, phase: Phase) -> io::Result<RequestId> {
        // Whatever waits goes out before, so that the clocks are as new as they can be.
        self.link.flush().map_err(io::Error::other)?;
        let request = SyncClockRequest { phase: Some(phase as i32), clocks: read_clocks() };
        let id = self.call("SyncClock", &request)?;
        self.link.flush().map_err(io::Error::other)?;
        Ok(id)
    }

    fn call(&mut self, method: &str, args: &impl Message) -> io::Result<RequestId> {
        self.link.connection().invoke(method, args, None, true).map_err(io::Error::other)
    }
}

impl Step {
    fn deadline(self) -> Instant {
        match self {
            Self::Binding { deadline } | Self::Pinging { deadline, .. } | Self::Updating { deadline, .. } => {
                deadline
            }
            Self::Resting { until } => until,
        }
    }
}

fn connect(lookup: &Lookup, now: Instant) -> io::Result<State> {
    let connecting = Connecting::to(lookup.current()?)?;
    Ok(State::Connecting { connecting, deadline: now + ANSWER_TIMEOUT })
}

fn silence() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it does not answer")
}

/// The clocks that the service reads too, the boot clock first: readers compare with it.
fn read_clocks() -> Vec<Clock> {
    let clocks = [
        (BuiltinClock::Boottime, ClockId::Boottime),
        (BuiltinClock::RealtimeCoarse, ClockId::RealtimeCoarse),
        (BuiltinClock::MonotonicCoarse, ClockId::MonotonicCoarse),
        (BuiltinClock::Realtime, ClockId::Realtime),
        (BuiltinClock::Monotonic, ClockId::Monotonic),
        (BuiltinClock::MonotonicRaw, ClockId::MonotonicRaw),
    ];
    let read = |(clock, id): (BuiltinClock, ClockId)| {
        let time = clock_gettime(id);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
        let timestamp = seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
        Clock { clock_id: Some(clock as u32), timestamp: Some(timestamp) }
    };
    clocks.map(read).to_vec()
}
