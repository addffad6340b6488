//! The loop of a relay.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use ferretto_ipc::descriptors;
use ferretto_ipc::identity::{identity_frame, peer_identity};
use ferretto_ipc::remote::Connecting;
use ferretto_ipc::socket::{Listener, PeerCredentials, Permissions, Stream, group_id};
use ferretto_peers::{Elsewhere, Holder, Holdings, close_stream};
use rustix::event::{Timespec, epoll};

use crate::lookup::{Lookup, Resolver};
use crate::pace::Pace;
use crate::pair::{Interest, Pair, PairError, Side};
use crate::sync::Sync;
use crate::{Error, RelayOptions, system};

/// Producers at one time. Each may hold two queues of 128 KiB.
const MAX_PRODUCERS: usize = 1024;
/// Descriptors of each.
const FDS_PER_PRODUCER: u64 = 2;
/// Bytes of one user's producers of which the rest of the frame is still to come: half of what a service keeps for all other machines. Honest
/// ones send the rest at once, but for while the service is slow: then more than a hundred of them may each be in the middle of one.
const MAX_UNFINISHED_BYTES_PER_USER: usize = 16 * 1024 * 1024;
/// Bytes received at once.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Events taken from the kernel at once; more are there the next time.
const EVENTS: usize = 64;
/// How long nobody is accepted after the system refused a descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// At the end, how long a slow service may take for what producers have sent.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Keys of what is waited for. Listeners come after these, the ends of pairs after [`FIRST_PAIR_KEY`]: two for each.
const STOP_KEY: u64 = 0;
const SYNC_KEY: u64 = 1;
const LOOKUP_KEY: u64 = 2;
const FIRST_LISTENER_KEY: u64 = 3;
const FIRST_PAIR_KEY: u64 = 1 << 16;

/// A relay whose sockets are there.
#[derive(Debug)]
pub struct Relay {
    epoll: OwnedFd,
    /// Where the service is.
    lookup: Lookup,
    listeners: Vec<Listener>,
    /// When nobody is accepted for lack of descriptors.
    accepts_again_at: Option<Instant>,
    pairs: BTreeMap<u64, Watched>,
    last_pair: u64,
    /// No user takes the places of all others, or the room that the service has for them.
    holdings: Holdings,
    /// Nor the ports that lead to the service.
    pace: Pace,
    /// Pairs, by their users, whose connection to the service has to wait for its time.
    waiting: BTreeMap<u32, VecDeque<u64>>,
    /// Who asks for what is not for producers may do so without end, and is named once.
    has_named_refused: bool,
    /// Where what producers have passed is closed.
    elsewhere: Elsewhere,
    sync: Sync,
    /// Whether the sync's descriptor is watched, and for writing.
    sync_is_watched: bool,
    scratch: Vec<u8>,
}

/// A pair, and what epoll was told to look for.
#[derive(Debug)]
struct Watched {
    pair: Pair,
    uid: u32,
    /// As the books have it.
    unfinished_bytes: usize,
    interests: [Interest; 2],
    /// It is among those whose connection has to wait.
    is_waiting: bool,
}

impl Relay {
    /// Listens for producers.
    pub fn new(options: RelayOptions) -> Result<Self, Error> {
        Self::with_resolver(options, Resolver::default())
    }

    pub(crate) fn with_resolver(options: RelayOptions, resolver: Resolver) -> Result<Self, Error> {
        if options.service_address.passes_fds() {
            return Err(Error::ServiceIsLocal(options.service_address));
        }
        descriptors::raise_limit();
        let listeners = listen(&options)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from);
        let epoll = epoll.map_err(system("set up the event loop"))?;
        let lookup = Lookup::new(options.service_address.clone(), resolver);
        Ok(Self {
            epoll,
            sync: Sync::new(options.service_address, options.system_info, Instant::now()),
            lookup: lookup.map_err(system("set up the event loop"))?,
            listeners,
            accepts_again_at: None,
            pairs: BTreeMap::new(),
            last_pair: 0,
            holdings: Holdings::new(MAX_PRODUCERS, FDS_PER_PRODUCER, own_uid())
                .with_bytes_per_user(MAX_UNFINISHED_BYTES_PER_USER),
            pace: Pace::new(own_uid(), Instant::now()),
            waiting: BTreeMap::new(),
            has_named_refused: false,
            elsewhere: Elsewhere::default(),
            sync_is_watched: false,
            scratch: vec![0; RECEIVE_BYTES],
        })
    }

    /// Relays until `stop` is readable. What producers have sent until then still goes to the service, if it takes it.
    pub fn run(mut self, stop: impl AsFd) -> Result<(), Error> {
        let failed = system("wait for events");
        add(&self.epoll, &stop, STOP_KEY, epoll::EventFlags::IN).map_err(&failed)?;
        add(&self.epoll, &self.lookup, LOOKUP_KEY, epoll::EventFlags::IN).map_err(&failed)?;
        // Who comes before the service's name has been looked up for the first time waits at the socket.
        self.lookup.look_up(Instant::now());
        if self.lookup.is_answered() {
            self.set_accepting(true).map_err(&failed)?;
        }
        loop {
            let sync = self.lookup.is_answered().then(|| self.sync.deadline());
            let deadlines = [sync, self.accepts_again_at, self.connects_again_at()];
            let deadline = deadlines.into_iter().flatten().min();
            let keys = self.wait(deadline).map_err(&failed)?;
            if keys.contains(&STOP_KEY) {
                return self.stop().map_err(&failed);
            }
            if keys.contains(&LOOKUP_KEY) {
                self.take_address().map_err(&failed)?;
            }
            self.process_sync(keys.contains(&SYNC_KEY)).map_err(&failed)?;
            for key in keys {
                self.handle_ready(key).map_err(&failed)?;
            }
            self.resume_accepting().map_err(&failed)?;
            self.connect_waiting().map_err(&failed)?;
        }
    }

    fn stop(mut self) -> io::Result<()> {
        tracing::info!("stopping");
        // Files of sockets go first, so that nobody comes any more.
        self.listeners.clear();
        // Nothing but the pairs is waited for from here on.
        self.epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        for key in self.pairs.keys().copied().collect::<Vec<_>>() {
            if let Some(watched) = self.pairs.get_mut(&key) {
                watched.pair.finish();
                watched.interests = Default::default();
            }
            self.settle(key);
        }
        while !self.pairs.is_empty() && Instant::now() < deadline {
            for key in self.wait(Some(deadline))? {
                self.handle_ready(key)?;
            }
        }
        self.pairs.keys().copied().collect::<Vec<_>>().into_iter().for_each(|key| self.hang_up(key));
        self.elsewhere.warn_of_what_stays();
        Ok(())
    }

    fn wait(&self, deadline: Option<Instant>) -> io::Result<Vec<u64>> {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut events = Vec::with_capacity(EVENTS);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(events.into_iter().map(|event: epoll::Event| event.data.u64()).collect())
    }

    fn take_address(&mut self) -> io::Result<()> {
        let was_answered = self.lookup.is_answered();
        self.lookup.take_answer();
        if was_answered { Ok(()) } else { self.set_accepting(true) }
    }

    fn handle_ready(&mut self, key: u64) -> io::Result<()> {
        if let Some(index) = key.checked_sub(FIRST_PAIR_KEY) {
            let (pair, side) = (index / 2, if index % 2 == 0 { Side::Producer } else { Side::Service });
            return self.forward(pair, side);
        }
        let listener = key.checked_sub(FIRST_LISTENER_KEY).and_then(|index| usize::try_from(index).ok());
        match listener.and_then(|index| self.listeners.get(index)).map(Listener::accept) {
            Some(accepted) => self.handle_accepted(accepted),
            None => Ok(()),
        }
    }

    fn handle_accepted(&mut self, accepted: io::Result<Stream>) -> io::Result<()> {
        match accepted.and_then(|producer| self.add_producer(producer)) {
            Ok(()) => Ok(()),
            Err(error) => self.handle_refusal(&error),
        }
    }

    /// A producer could not be let in, or not be connected.
    fn handle_refusal(&mut self, error: &io::Error) -> io::Result<()> {
        if !is_out_of_descriptors(error) {
            tracing::debug!("a producer is hung up on: {error}");
            return Ok(());
        }
        // The listener stays readable, so it must be left alone for a while.
        tracing::error!("cannot take a producer: {error}");
        match self.accepts_again_at.replace(Instant::now() + ACCEPT_PAUSE) {
            Some(_) => Ok(()),
            None => self.set_accepting(false),
        }
    }

    /// Lets a producer in, or hangs up on it: what is on its way to a socket may block when that is closed.
    fn add_producer(&mut self, producer: Stream) -> io::Result<()> {
        let credentials = producer.peer_credentials()?.ok_or(io::ErrorKind::Unsupported)?;
        let entered = introduction(credentials).and_then(|introduction| {
            self.holdings.enter(credentials.uid).map_err(io::Error::other).map(|()| introduction)
        });
        match entered {
            Ok(introduction) => {
                tracing::debug!(pid = credentials.pid, uid = credentials.uid, "a producer");
                self.add_pair(producer, &introduction, credentials.uid);
                Ok(())
            }
            Err(error) => {
                close_stream(producer, credentials.uid, &self.elsewhere, &mut self.scratch);
                Err(error)
            }
        }
    }

    fn add_pair(&mut self, producer: Stream, introduction: &[u8], uid: u32) {
        self.last_pair += 1;
        let pair = Pair::new(producer, introduction, uid, self.elsewhere.clone());
        let watched =
            Watched { pair, uid, unfinished_bytes: 0, interests: Default::default(), is_waiting: false };
        self.pairs.insert(self.last_pair, watched);
        self.settle(self.last_pair);
    }

    /// Connects for a producer, or has it wait behind others of its user until that is not too often.
    fn want_connection(&mut self, key: u64) -> io::Result<()> {
        let Some(watched) = self.pairs.get_mut(&key).filter(|watched| !watched.is_waiting) else {
            return Ok(());
        };
        let uid = watched.uid;
        if !self.waiting.contains_key(&uid) && self.pace.take(uid, Instant::now()).is_ok() {
            return self.connect(key);
        }
        watched.is_waiting = true;
        self.waiting.entry(uid).or_default().push_back(key);
        Ok(())
    }

    fn connect(&mut self, key: u64) -> io::Result<()> {
        self.sync.hurry(Instant::now());
        self.process_sync(false)?;
        let Some(watched) = self.pairs.get_mut(&key) else { return Ok(()) };
        match self.lookup.current().and_then(Connecting::to) {
            Ok(connecting) => {
                watched.pair.connect(connecting);
                self.settle(key);
                Ok(())
            }
            Err(error) => {
                self.forget_attempt(key);
                self.hang_up(key);
                self.handle_refusal(&error)
            }
        }
    }

    /// The service could not be reached for this one.
    fn forget_attempt(&mut self, key: u64) {
        self.lookup.look_up(Instant::now());
        if let Some(watched) = self.pairs.get(&key) {
            self.pace.give_back(watched.uid);
        }
    }

    /// When the next of those who wait may be connected.
    fn connects_again_at(&self) -> Option<Instant> {
        let now = Instant::now();
        self.waiting.keys().map(|uid| self.pace.next(*uid, now)).min()
    }

    fn connect_waiting(&mut self) -> io::Result<()> {
        let now = Instant::now();
        for uid in self.waiting.keys().copied().collect::<Vec<_>>() {
            while let Some(key) = self.next_waiting(uid, now) {
                self.connect(key)?;
            }
        }
        Ok(())
    }

    fn next_waiting(&mut self, uid: u32, now: Instant) -> Option<u64> {
        let queue = self.waiting.get_mut(&uid)?;
        self.pace.take(uid, now).ok()?;
        let key = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&uid);
        }
        let watched = key.and_then(|key| self.pairs.get_mut(&key));
        watched.into_iter().for_each(|watched| watched.is_waiting = false);
        key
    }

    fn leave_waiting(&mut self, uid: u32, key: u64) {
        let Some(queue) = self.waiting.get_mut(&uid) else { return };
        queue.retain(|waiting| *waiting != key);
        if queue.is_empty() {
            self.waiting.remove(&uid);
        }
    }

    /// Ends a pair.
    fn hang_up(&mut self, key: u64) {
        let Some(mut watched) = self.pairs.remove(&key) else { return };
        // Its socket may outlive it, where it is closed. One that could not be watched is not.
        let _ = watched.watch(&self.epoll, key, Side::Producer, Interest::default());
        if watched.is_waiting {
            self.leave_waiting(watched.uid, key);
        }
        self.holdings.leave(watched.uid);
        self.holdings.release(Holder::Local(watched.uid), watched.unfinished_bytes);
        watched.pair.close(&mut self.scratch);
    }

    fn forward(&mut self, key: u64, side: Side) -> io::Result<()> {
        let Some(watched) = self.pairs.get_mut(&key) else { return Ok(()) };
        let is_connecting = watched.pair.is_connecting() && side == Side::Service;
        if is_connecting && let Err(error) = watched.watch(&self.epoll, key, side, Interest::default()) {
            // The next address that is tried has another descriptor.
            self.cannot_watch(key, &error);
            return Ok(());
        }
        if let Err(error) = watched.pair.handle_ready(side, &mut self.scratch) {
            self.end(key, &error);
            return Ok(());
        }
        let unfinished = watched.pair.unfinished_bytes();
        let before = std::mem::replace(&mut watched.unfinished_bytes, unfinished);
        if let Err(too_much) = self.holdings.hold(Holder::Local(watched.uid), before, unfinished) {
            tracing::warn!("a producer is hung up on: {too_much}");
            self.hang_up(key);
            return Ok(());
        }
        self.settle(key);
        match self.pairs.get(&key) {
            Some(watched) if watched.pair.wants_connection() => self.want_connection(key),
            _ => Ok(()),
        }
    }

    fn end(&mut self, key: u64, error: &PairError) {
        match error {
            PairError::Unreachable(_) => self.forget_attempt(key),
            PairError::Refused(_) if !std::mem::replace(&mut self.has_named_refused, true) => {
                let uid = self.pairs.get(&key).map(|watched| watched.uid);
                tracing::warn!(uid, "a producer is hung up on, as others will be: {error}");
            }
            PairError::Refused(_) => {}
        }
        tracing::debug!("a producer is hung up on: {error}");
        self.hang_up(key);
    }

    /// Ends a pair, or waits for what it wants now.
    fn settle(&mut self, key: u64) {
        let Some(watched) = self.pairs.get_mut(&key) else { return };
        if watched.pair.is_over() {
            return self.hang_up(key);
        }
        let mut sides = [Side::Producer, Side::Service].into_iter();
        let watched = sides.try_for_each(|side| {
            let wanted = watched.pair.interest(side);
            watched.watch(&self.epoll, key, side, wanted)
        });
        if let Err(error) = watched {
            self.cannot_watch(key, &error);
        }
    }

    /// The kernel watches no more for this user, or has no memory: it is the pair that ends, not the others.
    fn cannot_watch(&mut self, key: u64, error: &io::Error) {
        tracing::error!("a producer is hung up on: it cannot be watched: {error}");
        self.hang_up(key);
    }

    fn process_sync(&mut self, is_ready: bool) -> io::Result<()> {
        // Its descriptor comes and goes: it is watched anew each time that it has done something.
        let now = Instant::now();
        if !self.lookup.is_answered() || (!is_ready && self.sync.deadline() > now) {
            return Ok(());
        }
        if let (true, Some((fd, _))) = (std::mem::take(&mut self.sync_is_watched), self.sync.fd()) {
            epoll::delete(&self.epoll, fd)?;
        }
        self.sync.process(is_ready, &mut self.lookup, now);
        if let Some((fd, writes)) = self.sync.fd() {
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, writes);
            add(&self.epoll, fd, SYNC_KEY, flags)?;
            self.sync_is_watched = true;
        }
        Ok(())
    }

    fn resume_accepting(&mut self) -> io::Result<()> {
        match self.accepts_again_at {
            Some(at) if at <= Instant::now() => {
                self.accepts_again_at = None;
                self.set_accepting(true)
            }
            _ => Ok(()),
        }
    }

    fn set_accepting(&self, accepting: bool) -> io::Result<()> {
        for (key, listener) in (FIRST_LISTENER_KEY..).zip(&self.listeners) {
            match accepting {
                true => add(&self.epoll, listener, key, epoll::EventFlags::IN)?,
                false => epoll::delete(&self.epoll, listener)?,
            }
        }
        Ok(())
    }
}

impl Watched {
    /// An end of which nothing is wanted is not watched at all: that it has hung up would be reported again and again.
    fn watch(&mut self, set: &OwnedFd, pair: u64, side: Side, wanted: Interest) -> io::Result<()> {
        let index = usize::from(side == Side::Service);
        let Some(current) = self.interests.get_mut(index) else { return Ok(()) };
        let Some(fd) = self.pair.fd(side) else { return Ok(()) };
        let key = FIRST_PAIR_KEY + 2 * pair + index as u64;
        let nothing = Interest::default();
        let old = std::mem::replace(current, wanted);
        match (old == nothing, wanted == nothing) {
            (true, true) => Ok(()),
            (true, false) => add(set, fd, key, wanted.flags()),
            (false, true) => Ok(epoll::delete(set, fd)?),
            (false, false) if old == wanted => Ok(()),
            (false, false) => Ok(epoll::modify(set, fd, epoll::EventData::new_u64(key), wanted.flags())?),
        }
    }
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, self.read);
        flags.set(epoll::EventFlags::OUT, self.write);
        flags
    }
}

/// As whom the service is to know a producer.
fn introduction(credentials: PeerCredentials) -> io::Result<Vec<u8>> {
    identity_frame(peer_identity(credentials.pid, credentials.uid)).map_err(io::Error::other)
}

fn add(set: &OwnedFd, fd: impl AsFd, key: u64, flags: epoll::EventFlags) -> io::Result<()> {
    Ok(epoll::add(set, fd, epoll::EventData::new_u64(key), flags)?)
}

fn listen(options: &RelayOptions) -> Result<Vec<Listener>, Error> {
    let mut listeners = Vec::new();
    for address in &options.producer_addresses {
        if !address.passes_fds() {
            return Err(Error::ProducersAreRemote(address.clone()));
        }
        let error = |source| Error::Listen { address: address.clone(), source };
        let permissions = match &options.socket_permissions {
            Some((group, mode)) => {
                Some(Permissions { group: Some(group_id(group).map_err(error)?), mode: *mode })
            }
            None => None,
        };
        listeners.push(Listener::bind_with(address, permissions).map_err(error)?);
    }
    Ok(listeners)
}

/// The relay's own user, if others can be told from it: those who have no number in its name space are one number.
fn own_uid() -> Option<u32> {
    Some(rustix::process::geteuid().as_raw()).filter(|uid| Some(*uid) != ferretto_sys::overflow_user())
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    use ferretto_ipc::address::Address;
    use ferretto_ipc::remote::Resolved;
    use ferretto_protos::SystemInfo;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// The connection of the producer that has sent this byte after its introduction; the relay's own is `kept`.
    fn accept_of(listener: &TcpListener, last: u8, kept: &mut Vec<TcpStream>) -> TcpStream {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"RelayPort") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                bytes.extend(byte);
                if bytes.ends_with(&[last, b'!']) {
                    return stream;
                }
            }
            kept.push(stream);
        }
    }

    fn expect(stream: &mut (impl io::Read + io::Write), byte: u8) {
        let mut got = [0];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(got, [byte]);
    }

    #[test]
    fn a_name_is_looked_up_beside_those_who_are_connected_and_when_nobody_is_there() {
        let dir = std::env::temp_dir().join(format!("ferretto-lookup-{}", std::process::id()));
        let _ = std::fs::remove_file(&dir);
        let (asked, is_asked) = channel();
        let (answer, answers) = channel::<String>();
        let answers = Mutex::new(answers);
        let resolver = Resolver(Arc::new(move |_: &Address| {
            asked.send(()).unwrap();
            let found = answers.lock().unwrap().recv().unwrap();
            Ok(Resolved::of_numbers(&found.parse().unwrap()).unwrap())
        }));
        let options = RelayOptions {
            producer_addresses: vec![Address::Path(dir.clone())],
            service_address: "service.invalid:20001".parse().unwrap(),
            socket_permissions: None,
            system_info: SystemInfo::default(),
        };
        let relay = Relay::with_resolver(options, resolver).unwrap();
        let (stop, stopped) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || relay.run(stopped));
        let connect = || {
            let stream = UnixStream::connect(&dir).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            stream
        };

        // Who comes before it is known waits.
        let mut honest = connect();
        honest.write_all(b"a!").unwrap();
        is_asked.recv_timeout(TIMEOUT).unwrap();
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        answer.send(first.local_addr().unwrap().to_string()).unwrap();
        let mut kept = Vec::new();
        let mut service = accept_of(&first, b'a', &mut kept);
        let mut another = connect();
        another.write_all(b"b!").unwrap();
        accept_of(&first, b'b', &mut kept);
        assert!(is_asked.try_recv().is_err(), "what was found is kept");

        // The service goes elsewhere; meanwhile those who are connected go on.
        drop(first);
        while is_asked.try_recv().is_err() {
            let mut speaks = connect();
            speaks.write_all(b"x").unwrap();
            assert!(matches!(speaks.read(&mut [0]), Ok(0) | Err(_)));
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(connect());
        honest.write_all(b"c").unwrap();
        expect(&mut service, b'c');
        service.write_all(b"d").unwrap();
        expect(&mut honest, b'd');

        let second = TcpListener::bind("127.0.0.1:0").unwrap();
        answer.send(second.local_addr().unwrap().to_string()).unwrap();
        // Those who come before the relay has heard of it are hung up on.
        drop(kept);
        kept = vec![second.accept().unwrap().0];
        let mut late = connect();
        late.write_all(b"e!").unwrap();
        accept_of(&second, b'e', &mut kept);
        drop(stop);
        thread.join().unwrap().unwrap();
    }
}
