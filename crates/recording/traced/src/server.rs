//! The loop: waits, hands inputs to the service, carries out its outputs.
//!
//! One thread does it all but writing into files. Readiness is level-triggered, and of one client there is one receive a turn, of users
//! in turn (`inbox`). Requests are served one at a time, those of clients first that had little of the service's time (`turns`), and a
//! turn ends after a few milliseconds: what it leaves undone the next one finds. While producers commit fast, the loop rests between
//! looks at them, as long as the service allows: so it takes several commits in with one wake-up.

mod held_commands;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_ipc::host::Request;
use ferretto_ipc::socket::{Listener, Stream};
use ferretto_peers::{Elsewhere, Holder, Holdings, TooMuch, Unread, close_stream, has_unread};
use ferretto_service::{
    ConsumerCall, ConsumerConn, Now, Output, Peer, ProducerCall, ProducerConn, RelayCall, Service, Token,
};
use ferretto_shm::{Seals, SharedMemory};
use rustix::event::epoll::EventFlags;

use crate::alarm::Alarm;
use crate::connection::{Connection, Door, Ended, Interest, RELAY_SERVICE, Side, user_of};
use crate::files::{FileTable, Reports};
use crate::inbox::Inbox;
use crate::poller::{Poller, Ready, Set};
use crate::system::{self, SystemEnvironment};
use crate::turns::Turns;
use crate::users;

use held_commands::HeldCommands;

/// Bytes received at once.
const RECEIVE_BYTES: usize = 64 * 1024;

/// Time for requests and for reading back, and again for each of the others: what is received, written to files, cleared away.
const TURN: Duration = Duration::from_millis(2);

/// Who was served for so long may have kept somebody waiting who asks for little: he is not to wait for what is written into files, too.
const LONG: Duration = Duration::from_millis(10);

/// Clients at one time: more than there are processes on most machines.
const MAX_CONNECTIONS: usize = 16 * 1024;

/// Descriptors that a client costs: its socket, its memory, a file.
const FDS_PER_CONNECTION: u64 = 3;

/// Writes to files before others have their turn, at most.
const MAX_FILE_WRITES_PER_TURN: usize = 16;

/// Connections that are accepted before others have their turn, at each socket. One a turn is slower than a thread that connects and hangs up.
const MAX_ACCEPTS_PER_TURN: usize = 16;

/// How long nobody is accepted after the system refused a descriptor.
const ACCEPT_PAUSE_NS: u64 = 200_000_000;

/// How often it is looked for what nothing tells of: whether clients that have ended have read what they were sent, and whether the kernel lets
/// descriptors be on their way again.
const LOOK_NS: u64 = 250_000_000;

/// Clients that have ended and are looked at then: one or two milliseconds, if all can be closed. Of as many as there can be all are looked at in some
/// seconds.
const LOOKS: usize = 512;

/// And when there is no place for somebody, who may come again at once.
const LOOKS_FOR_A_PLACE: usize = 64;

/// The alarm's key in `epoll`; clients come after both.
const ALARM_KEY: u64 = 0;
const FILE_REPORTS_KEY: u64 = 1;

/// A service with its sockets and files.
pub(crate) struct Server {
    poller: Poller,
    /// For what is due at a time of the boot clock.
    alarm: Alarm,
    service: Service,
    files: FileTable,
    listeners: BTreeMap<u64, (Door, Listener)>,
    connections: BTreeMap<u64, Connection>,
    elsewhere: Elsewhere,
    /// What became of writes to them.
    file_reports: Arc<Reports>,
    /// Descriptors whose readiness is the caller's business.
    watched: BTreeSet<u64>,
    last_key: u64,
    buffer: Vec<u8>,
    /// Connections with something to send.
    dirty: BTreeSet<u64>,
    ended: BTreeMap<u64, Ended>,
    /// Those that have ended and keep their places.
    unread: Unread,
    /// Connections with something to send that the kernel does not take just now.
    put_off: BTreeSet<u64>,
    /// When those two were looked at.
    looked_at_ns: u64,
    turns: Turns,
    holdings: Holdings,
    inbox: Inbox,
    /// Clients whose requests wait for work that is under way, or for their own reading.
    held_up: BTreeSet<u64>,
    held: HeldCommands,
    /// How much work had ended when they were looked at.
    work_ended: u64,
    has_more_work: bool,
    /// Somebody has sent more than one receive takes.
    has_more_to_receive: bool,
    /// What is written into files waits for the next turn.
    files_wait: bool,
    /// How long producers are left alone before the next look at them; 0 for not at all.
    rest_ns: u64,
    accepts_again_at: Option<u64>,
}

impl Server {
    /// Ends it: sockets and files are removed and closed.
    pub(crate) fn stop(self) {
        let elsewhere = self.elsewhere.clone();
        drop(self);
        elsewhere.warn_of_what_stays();
    }

    pub(crate) fn new() -> io::Result<Self> {
        users::learn();
        let own_uid = Some(rustix::process::geteuid().as_raw()).filter(|uid| *uid != Peer::UNKNOWN_UID);
        let elsewhere = Elsewhere::default();
        let files = FileTable::new(elsewhere.clone());
        let environment = SystemEnvironment::new(files.clone(), elsewhere.clone());
        let poller = Poller::new()?;
        let alarm = Alarm::new()?;
        poller.add(Set::Others, &alarm, ALARM_KEY, EventFlags::IN | EventFlags::ET)?;
        let file_reports = Arc::new(Reports::new()?);
        poller.add(Set::Others, &*file_reports, FILE_REPORTS_KEY, EventFlags::IN)?;
        Ok(Self {
            poller,
            alarm,
            service: Service::new(system::service_options(), Box::new(environment)),
            files,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            elsewhere: elsewhere.clone(),
            file_reports,
            watched: BTreeSet::new(),
            last_key: FILE_REPORTS_KEY,
            buffer: vec![0; RECEIVE_BYTES],
            dirty: BTreeSet::new(),
            ended: BTreeMap::new(),
            unread: Unread::new(elsewhere),
            put_off: BTreeSet::new(),
            looked_at_ns: 0,
            turns: Turns::default(),
            holdings: Holdings::new(MAX_CONNECTIONS, FDS_PER_CONNECTION, own_uid),
            inbox: Inbox::default(),
            held_up: BTreeSet::new(),
            held: HeldCommands::default(),
            work_ended: 0,
            has_more_work: false,
            has_more_to_receive: false,
            files_wait: false,
            rest_ns: 0,
            accepts_again_at: None,
        })
    }

    /// Where files can be made, if not everywhere.
    pub(crate) fn note_output_dirs(&self, folders: Option<Vec<PathBuf>>) {
        folders.into_iter().for_each(|folders| self.files.note_output_dirs(folders));
    }

    /// Accepts clients at a socket.
    pub(crate) fn listen(&mut self, door: Door, listener: Listener) -> io::Result<()> {
        let key = self.new_key();
        self.poller.add(Set::Others, &listener, key, EventFlags::IN)?;
        self.listeners.insert(key, (door, listener));
        Ok(())
    }

    /// Serves a client that is connected already, or hangs up on one too many.
    pub(crate) fn add_client(&mut self, door: Door, stream: Stream) -> io::Result<()> {
        let user = user_of(&stream);
        if !door.lets_in(user) {
            tracing::warn!("a client of user {user} is hung up on: only this service's own user may connect");
            close_stream(stream, user, &self.elsewhere, &mut self.buffer);
            return Ok(());
        }
        if let Err(too_much) = self.enter(user) {
            tracing::warn!("a client is hung up on: {too_much}");
            close_stream(stream, user, &self.elsewhere, &mut self.buffer);
            return Ok(());
        }
        let key = self.new_key();
        if let Err(error) = self.poller.add(set_of(door.side), &stream, key, EventFlags::IN) {
            self.holdings.leave(user);
            return Err(error);
        }
        let connection = Connection::new(door, stream, self.elsewhere.clone());
        self.turns.add(key, connection.holder);
        self.connections.insert(key, connection);
        Ok(())
    }

    /// Where there is no place any more, somebody who has ended may have read by now what kept his.
    fn enter(&mut self, user: u32) -> Result<(), TooMuch> {
        self.holdings.enter(user).or_else(|_| {
            self.unread.look(LOOKS_FOR_A_PLACE, &mut self.holdings, &mut self.buffer);
            self.holdings.enter(user)
        })
    }

    /// Ends [`turn`](Self::turn) when a descriptor becomes readable.
    pub(crate) fn watch(&mut self, fd: impl AsFd) -> io::Result<u64> {
        let key = self.new_key();
        self.poller.add(Set::Others, fd, key, EventFlags::IN)?;
        self.watched.insert(key);
        Ok(key)
    }

    /// Waits for something and does it. Returns the keys of watched descriptors that are readable.
    pub(crate) fn turn(&mut self) -> io::Result<Vec<u64>> {
        self.alarm.set(self.service.next_boottime_deadline_ns())?;
        let events = self.wait()?;
        let now = system::now();
        self.has_more_work = false;
        self.has_more_to_receive = false;
        let mut readable = Vec::new();
        for (key, flags) in events {
            if self.watched.contains(&key) {
                readable.push(key);
            } else if let Some(connection) = self.connections.get_mut(&key) {
                if connection.is_ready_for.is_empty() {
                    self.inbox.push(connection.user, key);
                }
                connection.is_ready_for |= flags;
            } else if key != ALARM_KEY {
                self.handle_own_event(key, &now);
            }
        }
        self.look_at_sockets();
        if self.service.next_timeout_ns(&now) == Some(0) {
            self.service.handle_timeout(&now);
        }
        self.serve(&now);
        self.look_again(&now);
        self.settle(&now);
        self.resume_accepting(&now);
        let rest_ns = self.service.poll_rest_ns(&now);
        self.rest_ns = if self.has_more_work || self.has_more_to_receive { 0 } else { rest_ns };
        Ok(readable)
    }

    fn wait(&self) -> io::Result<Vec<Ready>> {
        let timeout_ns = if self.has_more_work { Some(0) } else { self.next_timeout_ns() };
        match self.rest_ns {
            0 => self.poller.wait(timeout_ns),
            rest_ns => self.poller.rest(timeout_ns.map_or(rest_ns, |timeout_ns| rest_ns.min(timeout_ns))),
        }
    }

    fn next_timeout_ns(&self) -> Option<u64> {
        let now = system::now();
        let accept = self.accepts_again_at.map(|at| at.saturating_sub(now.clocks.monotonic));
        let look = self.next_look_ns().map(|at| at.saturating_sub(now.clocks.monotonic));
        [self.service.next_timeout_ns(&now), accept, look].into_iter().flatten().min()
    }

    fn next_look_ns(&self) -> Option<u64> {
        let has_any = !self.unread.is_empty() || !self.put_off.is_empty();
        has_any.then(|| self.looked_at_ns.saturating_add(LOOK_NS))
    }

    fn look_again(&mut self, now: &Now) {
        if self.next_look_ns().is_some_and(|at| at <= now.clocks.monotonic) {
            self.looked_at_ns = now.clocks.monotonic;
            self.unread.look(LOOKS, &mut self.holdings, &mut self.buffer);
            // Where one has to wait all have to: those who come first do as well as others.
            self.dirty.extend(std::iter::from_fn(|| self.put_off.pop_first()).take(LOOKS));
        }
    }

    fn handle_own_event(&mut self, key: u64, now: &Now) {
        if self.listeners.contains_key(&key) {
            return self.accept_some(key, now);
        }
        if key == FILE_REPORTS_KEY {
            self.hear_of_files(now);
        }
    }

    fn accept_some(&mut self, key: u64, now: &Now) {
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            let Some((door, listener)) = self.listeners.get(&key) else { return };
            let (door, accepted) = (*door, listener.accept());
            if !self.handle_accepted(door, accepted, now) {
                return;
            }
        }
    }

    /// As far as a turn lasts.
    fn look_at_sockets(&mut self) {
        let start = Instant::now();
        while let Some(key) = self.inbox.next() {
            if let Some(connection) = self.connections.get_mut(&key) {
                let flags = std::mem::replace(&mut connection.is_ready_for, EventFlags::empty());
                self.handle_event(key, flags);
            }
            if start.elapsed() >= TURN {
                break;
            }
        }
        self.has_more_work |= !self.inbox.is_empty();
    }

    fn handle_event(&mut self, key: u64, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.dirty.insert(key);
        }
        let reads = EventFlags::IN | EventFlags::HUP | EventFlags::ERR;
        if flags.intersects(reads) {
            self.receive(key);
        }
    }

    /// Says whether there may be another one.
    fn handle_accepted(&mut self, door: Door, accepted: io::Result<Stream>, now: &Now) -> bool {
        let result = match accepted {
            Ok(stream) => self.add_client(door, stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = &result {
            // Most likely there are no descriptors left. The listener stays readable, so it must be left alone for a while.
            tracing::error!("cannot accept a client: {error}");
            self.set_accepting(false);
            self.accepts_again_at = Some(now.clocks.monotonic.saturating_add(ACCEPT_PAUSE_NS));
        }
        result.is_ok()
    }

    fn resume_accepting(&mut self, now: &Now) {
        if self.accepts_again_at.is_some_and(|at| at <= now.clocks.monotonic) {
            self.accepts_again_at = None;
            self.set_accepting(true);
        }
    }

    fn set_accepting(&self, accepting: bool) {
        let flags = if accepting { EventFlags::IN } else { EventFlags::empty() };
        for (key, (_, listener)) in &self.listeners {
            if let Err(error) = self.poller.modify(Set::Others, listener, *key, flags) {
                tracing::error!("cannot watch {}: {error}", listener.address());
            }
        }
    }

    fn receive(&mut self, key: u64) {
        if self.ended.contains_key(&key) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let received = connection.receive(&mut self.buffer);
        self.has_more_to_receive |= received == self.buffer.len();
        self.dirty.insert(key);
        self.line_up(key);
    }

    /// Has a client wait for its turn, if something can be done for it.
    fn line_up(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        if self.ended.contains_key(&key) {
            return;
        }
        let conn = ConsumerConn(key);
        let is_consumer = connection.side == Side::Consumer;
        let reads = is_consumer && self.service.is_reading(conn);
        let commits = !is_consumer && self.service.is_committing(ProducerConn(key));
        let asks = connection.has_something_to_serve();
        if !reads && !commits && !asks {
            return;
        }
        let can_go_on = connection.has_room() && (reads || !is_consumer || !self.service.is_busy(conn));
        match can_go_on {
            true => self.turns.wait(key),
            false => {
                connection.host.keep_requests();
                self.held_up.insert(key);
            }
        }
    }

    /// Serves those who wait, as long as a turn lasts. If that was long, files wait for the next turn, in which only those are served before them who had less
    /// than others.
    fn serve(&mut self, now: &Now) {
        // A client that is held up stays so until work ends, or until it has read something (`send_dirty`).
        let ended = self.service.work_ended();
        if std::mem::replace(&mut self.work_ended, ended) != ended {
            std::mem::take(&mut self.held_up).into_iter().for_each(|key| self.line_up(key));
        }
        let start = Instant::now();
        let mut last = start;
        let files_wait = self.files_wait;
        while last - start < TURN && (!files_wait || self.turns.is_next_light()) {
            let Some(key) = self.turns.next() else { break };
            if self.service.is_reading(ConsumerConn(key)) {
                // The next part may be a packet of 30 MB, for which nobody's answer waits that is there already.
                self.send_dirty();
            }
            self.serve_client(key, now);
            let after = Instant::now();
            self.turns.charge(key, u64::try_from((after - last).as_nanos()).unwrap_or(u64::MAX));
            last = after;
            self.line_up(key);
        }
        self.files_wait = !files_wait && last - start >= LONG;
        self.has_more_work |= self.files_wait || !self.turns.is_empty();
    }

    /// One request, or the next part of what it reads.
    fn serve_client(&mut self, key: u64, now: &Now) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        // When the last request is served, there may be more at the socket.
        self.dirty.insert(key);
        if connection.side == Side::Consumer && self.service.is_reading(ConsumerConn(key)) {
            return self.feed_reader(key, now);
        }
        if connection.side == Side::Producer && self.service.is_committing(ProducerConn(key)) {
            self.service.continue_commit(ProducerConn(key), now);
            return self.carry_outputs();
        }
        if let Some((token, request)) = connection.next_request() {
            self.handle_request(key, token, request, now);
            self.carry_outputs();
        }
        if let Some(end) = self.connections.get_mut(&key).and_then(Connection::end) {
            self.ended.entry(key).or_insert(end);
        }
    }

    fn handle_request(&mut self, key: u64, token: Token, request: Request, now: &Now) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        if !connection.is_introduced {
            let peer = match connection.peer() {
                Ok(peer) => peer,
                Err(error) => {
                    self.ended.insert(key, error);
                    return;
                }
            };
            connection.is_introduced = true;
            if peer.emulated && peer.uid == Peer::UNKNOWN_UID && connection.host.peer_identity().is_some() {
                tracing::info!(
                    key,
                    "who a client of another machine says it is counts for nothing at an address where no relays were asked for (--enable-relay-endpoint-on)"
                );
            }
            match connection.side {
                Side::Producer => {
                    self.service.handle_producer_connected(ProducerConn(key), peer);
                    if let Some(machine) = connection.machine() {
                        self.service.handle_producer_machine(ProducerConn(key), machine);
                    }
                }
                Side::Consumer => self.service.handle_consumer_connected(ConsumerConn(key), peer),
            }
        }
        let handled = match connection.side {
            Side::Producer if request.service == RELAY_SERVICE => {
                RelayCall::decode(request.method_name(), request.args).map(|call| {
                    // Clocks are compared: what was read at the start of the turn is too old.
                    self.service.handle_relay_call(ProducerConn(key), token, call, &system::now());
                })
            }
            Side::Producer => ProducerCall::decode(request.method_name(), request.args).map(|call| {
                let memory = if call.takes_memory() { take_memory(connection) } else { None };
                self.service.handle_producer_call(ProducerConn(key), token, call, memory, now);
            }),
            Side::Consumer => ConsumerCall::decode(request.method_name(), request.args).map(|call| {
                let fd = if call.takes_file() { connection.host.take_fd() } else { None };
                let file = fd.map(|fd| self.files.add(fd, connection.user));
                self.service.handle_consumer_call(ConsumerConn(key), token, call, file, now);
            }),
        };
        if let Err(error) = handled {
            tracing::debug!(key, "a request is rejected: {error}");
            if let Err(error) = connection.reject(token) {
                self.ended.insert(key, error);
            }
        }
    }

    /// Does what the service wants done until it wants nothing more. Files come last: a packet of 30 MB takes 20 ms, which nobody's answer
    /// waits for that is there already.
    fn settle(&mut self, now: &Now) {
        loop {
            self.carry_outputs();
            self.send_dirty();
            let any = self.drop_ended(now);
            if !any || !self.ended.is_empty() {
                break;
            }
        }
        if !self.files_wait {
            self.write_files(now);
        }
    }

    fn carry_outputs(&mut self) {
        while let Some(output) = self.service.poll_output() {
            let (key, reply) = match output {
                Output::ToProducer(ProducerConn(key), reply)
                | Output::ToConsumer(ConsumerConn(key), reply) => (key, reply),
                Output::CloseFile(file) => {
                    self.files.close(file);
                    continue;
                }
            };
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            self.dirty.insert(key);
            let is_consumer = connection.side == Side::Consumer;
            if let Err(error) = connection.reply(reply) {
                self.ended.insert(key, error);
            }
            match is_consumer {
                true if !connection.has_room() => self.service.hold_events(ConsumerConn(key)),
                true => {}
                false => self.hold_if_behind(key),
            }
            // One that observes may have more to be told than fits into a reply, though it has asked for nothing just now.
            if is_consumer && self.service.is_reading(ConsumerConn(key)) {
                self.line_up(key);
                self.has_more_work = true;
            }
        }
    }

    /// One write: to put it together takes a millisecond, and meanwhile nobody empties the shared memory of producers that write fast.
    /// More while the buffer would overwrite what nobody has read: there is more room in the memory then.
    fn write_files(&mut self, now: &Now) {
        let start = Instant::now();
        for _ in 0..MAX_FILE_WRITES_PER_TURN {
            let Some(write) = self.service.poll_file_write(now) else { return };
            self.files.write(write, &self.file_reports);
            if !self.service.is_file_behind() || start.elapsed() >= TURN {
                break;
            }
        }
        self.has_more_work = true;
    }

    fn hear_of_files(&mut self, now: &Now) {
        while let Some((file, result)) = self.file_reports.next() {
            self.service.handle_file_written(file, result.map_err(|error| error.to_string()), now);
            self.carry_outputs();
        }
    }

    fn feed_reader(&mut self, key: u64, now: &Now) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let replies = self.service.poll_read(ConsumerConn(key), now);
        let sent = replies
            .into_iter()
            .try_for_each(|reply| connection.reply(reply))
            .and_then(|()| connection.send());
        if let Err(error) = sent {
            self.ended.insert(key, error);
        }
    }

    fn send_dirty(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        for key in dirty.iter().copied() {
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            let sent = connection.send();
            if connection.waits_for_kernel {
                self.put_off.insert(key);
            }
            let wanted = connection.wanted_interest();
            let updated = if wanted == connection.interest {
                Ok(())
            } else {
                update(&self.poller, key, connection, wanted)
            };
            // It may have taken all that kept its client from being served: then nothing is left at the socket to wait for.
            // Or what has happened meanwhile waits to be told.
            let has_news = || connection.side == Side::Consumer && self.service.is_reading(ConsumerConn(key));
            let is_let_go = connection.has_room() && (self.held_up.remove(&key) || has_news());
            if let Err(error) = sent.and(updated) {
                self.ended.insert(key, error);
            }
            if let Err(too_much) = self.note_what_it_holds(key) {
                self.end_one_of(too_much, key);
            }
            self.hold_all_if_heavy(key);
            if is_let_go {
                self.line_up(key);
            }
        }
        self.release_held(&dirty);
        self.has_more_work |= !self.turns.is_empty();
    }

    fn note_what_it_holds(&mut self, key: u64) -> Result<(), TooMuch> {
        let Some(connection) = self.connections.get_mut(&key) else { return Ok(()) };
        if self.ended.contains_key(&key) {
            return Ok(());
        }
        let committing = match connection.side {
            Side::Producer => self.service.committing_bytes(ProducerConn(key)),
            Side::Consumer => 0,
        };
        let holder = connection.current_holder();
        if holder != connection.holder {
            self.holdings.release(connection.holder, std::mem::take(&mut connection.held_bytes));
            connection.holder = holder;
            self.turns.set_holder(key, holder);
        }
        let holds = connection.host.held_bytes() + committing;
        let held = std::mem::replace(&mut connection.held_bytes, holds);
        self.holdings.hold(holder, held, holds)
    }

    /// Who holds too much loses the connection by which it became too much; if that is another's, the one that holds the most.
    fn end_one_of(&mut self, too_much: TooMuch, key: u64) {
        let is_its =
            |holder| self.connections.get(&key).is_some_and(|connection| connection.holder == holder);
        let key = match too_much {
            TooMuch::Bytes { holder, .. } if !is_its(holder) => self.largest_of(holder),
            _ => Some(key),
        };
        let Some(key) = key else { return };
        if let Some(connection) = self.connections.get_mut(&key) {
            self.holdings.release(connection.holder, std::mem::take(&mut connection.held_bytes));
        }
        self.ended.insert(key, too_much.into());
    }

    fn largest_of(&self, holder: Holder) -> Option<u64> {
        let connections = self.connections.iter().filter(|(_, connection)| connection.holder == holder);
        let (key, _) = connections.max_by_key(|(_, connection)| connection.held_bytes)?;
        Some(*key)
    }

    /// Forgets connections that have ended; says whether the service heard of any.
    fn drop_ended(&mut self, now: &Now) -> bool {
        let (start, any) = (Instant::now(), !self.ended.is_empty());
        // What a session leaves behind takes a while to clear away, and a program that ends may have many connections.
        while start.elapsed() < TURN {
            let Some((key, error)) = self.ended.pop_first() else { break };
            let Some(connection) = self.connections.remove(&key) else { continue };
            self.turns.remove(key);
            self.held_up.remove(&key);
            self.held.forget(key);
            self.holdings.release(connection.holder, connection.held_bytes);
            match error {
                Ended::HungUp => tracing::debug!(key, side = ?connection.side, "client hung up"),
                error => tracing::warn!(key, side = ?connection.side, "connection dropped: {error}"),
            }
            let (side, is_introduced) = (connection.side, connection.is_introduced);
            self.close(connection);
            match side {
                _ if !is_introduced => {}
                Side::Producer => self.service.handle_producer_disconnected(ProducerConn(key), now),
                Side::Consumer => self.service.handle_consumer_disconnected(ConsumerConn(key), now),
            }
        }
        self.has_more_work |= !self.ended.is_empty();
        any
    }

    /// Closes one that has ended, and gives its place back; unless its client has not read what it was sent.
    fn close(&mut self, connection: Connection) {
        let user = connection.user;
        if has_unread(&connection.stream) && self.poller.remove(set_of(connection.side), &connection).is_ok()
        {
            self.unread.keep(connection.into_stream(), user, &mut self.buffer);
        } else {
            // The stream closes with the connection, and so leaves the epoll set.
            connection.close(&mut self.buffer);
            self.holdings.leave(user);
        }
    }

    fn new_key(&mut self) -> u64 {
        self.last_key += 1;
        self.last_key
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What clients have passed is closed elsewhere at the end, too.
        for connection in std::mem::take(&mut self.connections).into_values() {
            connection.close(&mut self.buffer);
        }
        self.unread.close_all(&mut self.buffer);
        self.file_reports.end();
    }
}

fn set_of(side: Side) -> Set {
    match side {
        Side::Producer => Set::Producers,
        Side::Consumer => Set::Others,
    }
}

fn update(poller: &Poller, key: u64, connection: &mut Connection, wanted: Interest) -> Result<(), Ended> {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, wanted.read);
    flags.set(EventFlags::OUT, wanted.write);
    poller.modify(set_of(connection.side), &*connection, key, flags)?;
    connection.interest = wanted;
    Ok(())
}

/// Memory of a producer must be sealed: it could shrink under the service's eyes otherwise.
fn take_memory(connection: &mut Connection) -> Option<Arc<SharedMemory>> {
    let fd = connection.take_memory()?;
    // Whoever closes it last gives the memory back, which may be much: never this thread.
    let Ok(another) = fd.try_clone() else {
        connection.close_all(std::iter::once(fd));
        return None;
    };
    match SharedMemory::from_fd(fd, Seals::Required) {
        Ok(memory) => Some(Arc::new(memory)),
        Err(error) => {
            tracing::warn!("memory that a producer brought is not used: {error}");
            connection.close_all(std::iter::once(another));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use ferretto_ipc::address::Address;

    use super::*;

    #[test]
    fn several_are_accepted_in_a_turn_and_not_all() {
        let address = Address::Abstract(format!("ferretto-accepts-{}", std::process::id()).into_bytes());
        let mut server = Server::new().unwrap();
        server.listen(Door::CONSUMERS, Listener::bind(&address).unwrap()).unwrap();
        let crowd: Vec<Stream> =
            (0..MAX_ACCEPTS_PER_TURN + 4).map(|_| Stream::connect(&address).unwrap()).collect();
        let mut accepted = || {
            server.turn().unwrap();
            server.connections.len()
        };
        assert_eq!([accepted(), accepted()], [MAX_ACCEPTS_PER_TURN, crowd.len()]);
    }
}
