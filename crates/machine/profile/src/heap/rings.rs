//! Gives rings out and empties them, on a thread of its own: a program waits in its first line for the answer, and a ring is full in a tenth of a second while
//! somewhere else the symbols of a large program are read.
//!
//! Programs have their rings from their start to their end; what they write into them there is only while a session wants it, of which there is one at a time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_shm::heap::{Counter, MAX_HEAPS, MAX_STACK_BYTES, Next, Reply, RingReader, SessionPage, Wishes};
use ferretto_sys::{KernelClock, clock_ns};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::config::{Targets, Wanted};
use super::listener::{Accepted, Asking, Listener};
use crate::looks::{Looks, Process};
use crate::strangers::FileBooks;

/// Programs at a time that a session has.
const MAX_PROGRAMS: usize = 256;
/// Programs at a time that wait for one, of all users and of one who is neither root nor this program's: two descriptors each.
const MAX_WAITING_PROGRAMS: usize = 4096;
const MAX_WAITING_PROGRAMS_OF_A_USER: usize = 1024;
/// Answered in one turn, before rings are emptied again; and programs that are looked at for whether a session wants them.
const MAX_ANSWERS: usize = 32;
/// Bytes of records that may wait. More are left to the rings, whose programs count what they lose.
const MAX_WAITING_BYTES: usize = 128 << 20;
/// How often rings are emptied.
const PERIOD: Duration = Duration::from_millis(10);
/// For so long nobody is answered when there were no descriptors left.
const PAUSE: Duration = Duration::from_secs(1);
/// A record that is begun is whole a moment later. One that is not for so long was given up by a thread that has ended in between.
const UNFINISHED_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is asked what a program has mapped: at first, when it loads its libraries, and later.
const FIRST_MAPS_PERIOD: Duration = Duration::from_millis(10);
const MAPS_PERIOD: Duration = Duration::from_millis(250);
/// At the end: how often it is looked whether there is room for more records, and for how long. Each ring's that have none are lost.
const TAKE_PERIOD: Duration = Duration::from_millis(1);
const TAKE_TIMEOUT: Duration = Duration::from_secs(2);
/// For so long a session that begins waits until all programs know that are there: each takes a tenth of a millisecond.
const TELL_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes before a record: how long it is.
pub(crate) const LEN_BYTES: usize = size_of::<u32>();

/// Which programs ask for rings.
#[derive(Debug)]
pub(crate) enum Programs {
    /// Those that were started to be profiled. Nobody is answered without a session.
    Started,
    /// Any, which wait for a session. Their rings are of this size; the page says to their children that there is one.
    Waiting { ring_bytes: usize, page: SessionPage },
}

/// What has happened, in its order.
#[derive(Debug)]
pub(crate) enum Event {
    /// A program is profiled from now on. Of a process that was already it has taken the place of the program before it.
    Began { id: u64, pid: u32, said: Process, from_startup: bool },
    /// What its next heap is called, from number 0 on.
    Heap { id: u64, name: String },
    /// What it has mapped.
    Maps { id: u64, maps: Vec<u8> },
    /// Records, each behind its length.
    Records { id: u64, read_ns: u64, records: Vec<u8> },
    /// What it has counted so far.
    Counts { id: u64, counts: Counts },
    /// There is no more of it; or there is no sense in it any more.
    Ended { id: u64, is_broken: bool },
    /// Somebody has asked for a ring in vain.
    Refused,
}

/// What a program has counted, by its own word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) no_room: u64,
    pub(crate) table_full: u64,
    pub(crate) frees_lost: u64,
    pub(crate) foreign_stacks: u64,
    /// Records that somebody has begun and not finished.
    pub(crate) unfinished: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Of this session; 0 is none.
    session: u64,
    events: Vec<Event>,
    bytes: usize,
}

/// What the thread is to do.
#[derive(Debug)]
enum Order {
    Begin(Box<Session>),
    End,
    Stop,
}

#[derive(Debug)]
struct Session {
    number: u64,
    wishes: Wishes,
    targets: Targets,
    ring_bytes: usize,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    orders: Mutex<Vec<Order>>,
    /// The last session of which all programs know that were there, and the last that has ended.
    begun: AtomicU64,
    ended: AtomicU64,
    wake: OwnedFd,
}

/// Works until it is dropped.
#[derive(Debug)]
pub(crate) struct Rings {
    shared: Arc<Shared>,
    next_session: AtomicU64,
    thread: Option<JoinHandle<()>>,
    pub(crate) books: FileBooks,
    /// Of those that wait, how large their rings are.
    pub(crate) fixed_ring_bytes: Option<usize>,
}

impl Rings {
    /// # Errors
    ///
    /// If there is no thread to be had, or no descriptor.
    pub(crate) fn start(listener: Listener, programs: Programs) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            orders: Mutex::default(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let (fixed_ring_bytes, page, books) = match programs {
            // Whoever asks was started by who profiles it.
            Programs::Started => (None, None, FileBooks::that_trust_all()),
            Programs::Waiting { ring_bytes, page } => (Some(ring_bytes), Some(page), FileBooks::default()),
        };
        let max_stack_bytes = u32::try_from(MAX_STACK_BYTES).unwrap_or(u32::MAX);
        let mut emptier = Emptier {
            listener,
            reply: Reply { max_stack_bytes, may_begin_later: page.is_some() },
            page,
            fixed_ring_bytes,
            session: None,
            programs: Vec::new(),
            next_id: 0,
            looks: Looks::with(&books),
            paused_until: None,
            has_said_full: false,
            shared: shared.clone(),
        };
        let run = move || {
            while emptier.obey() {
                emptier.wait();
                emptier.turn();
            }
        };
        let thread = std::thread::Builder::new().name("heap rings".to_owned()).spawn(run)?;
        let next_session = AtomicU64::new(1);
        Ok(Self { shared, next_session, thread: Some(thread), books, fixed_ring_bytes })
    }

    /// Programs write for this session from now on, which has the number that comes back. Waits until those know that are there.
    pub(crate) fn begin(&self, wanted: &Wanted) -> u64 {
        let number = self.next_session.fetch_add(1, Ordering::Relaxed);
        *lock(&self.shared.waiting) = Waiting { session: number, ..Waiting::default() };
        let session = Session {
            number,
            wishes: wanted.wishes(),
            targets: wanted.targets.clone(),
            ring_bytes: wanted.ring_bytes,
        };
        self.order(Order::Begin(Box::new(session)));
        // Who is told that it has begun counts on it.
        let began = Instant::now();
        while self.shared.begun.load(Ordering::Acquire) < number && began.elapsed() < TELL_TIMEOUT {
            std::thread::sleep(TAKE_PERIOD);
        }
        number
    }

    /// What has happened since.
    pub(crate) fn take(&self) -> Vec<Event> {
        let mut waiting = lock(&self.shared.waiting);
        waiting.bytes = 0;
        std::mem::take(&mut waiting.events)
    }

    /// Empties all for the last time. There may be more to take until the session has ended.
    pub(crate) fn end(&self) {
        self.order(Order::End);
    }

    /// Whether nothing more comes of a session.
    pub(crate) fn has_ended(&self, session: u64) -> bool {
        let is_gone = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        is_gone || self.shared.ended.load(Ordering::Acquire) >= session
    }

    /// Ends a session whose rest nobody wants.
    pub(crate) fn abandon(&self, session: u64) {
        if self.has_ended(session) {
            return;
        }
        *lock(&self.shared.waiting) = Waiting::default();
        self.end();
    }

    fn order(&self, order: Order) {
        self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        // It is full only if it was not read yet.
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How far a ring was emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emptied {
    /// There was nothing left.
    All,
    /// There may be more.
    More,
    /// There is no sense in it.
    Broken,
}

/// What a session makes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It was not looked at yet.
    Undecided,
    /// Its ring is emptied.
    Taken,
    None,
}

#[derive(Debug)]
struct Program {
    id: u64,
    pid: u32,
    user: u32,
    pidfd: OwnedFd,
    ring: RingReader,
    part: Part,
    has_ended: bool,
    /// Heaps whose names are known.
    heaps: usize,
    /// As `/proc/PID/maps` has it: by this it is known whether the process still runs the program that it ran.
    inode: Option<Vec<u8>>,
    maps: Vec<u8>,
    maps_due: Instant,
    maps_period: Duration,
    unfinished_since: Option<Instant>,
    /// What was counted before this session.
    before: Counts,
    unfinished: u64,
    /// Its end came, and there was no room for what was still in its ring.
    unread: u64,
}

#[derive(Debug)]
struct Emptier {
    listener: Listener,
    reply: Reply,
    page: Option<SessionPage>,
    fixed_ring_bytes: Option<usize>,
    session: Option<Box<Session>>,
    programs: Vec<Program>,
    next_id: u64,
    looks: Looks,
    paused_until: Option<Instant>,
    has_said_full: bool,
    shared: Arc<Shared>,
}

impl Emptier {
    /// Does what was ordered; says whether to go on.
    fn obey(&mut self) -> bool {
        let orders = std::mem::take(&mut *self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner));
        for order in orders {
            self.end();
            match order {
                Order::Begin(session) => self.begin(session),
                Order::End => {}
                Order::Stop => return false,
            }
        }
        true
    }

    fn begin(&mut self, session: Box<Session>) {
        for program in &mut self.programs {
            program.part = if session.targets.no_running { Part::None } else { Part::Undecided };
        }
        if let Some(page) = &self.page {
            page.say(session.number);
        }
        self.session = Some(session);
    }

    /// Who is answered now.
    fn listens(&self) -> bool {
        let is_wanted = self.page.is_some() || self.session.is_some();
        is_wanted && self.paused_until.is_none_or(|until| Instant::now() >= until)
    }

    /// Until somebody asks, has ended, something is ordered, or rings are to be emptied.
    fn wait(&mut self) {
        let listens = self.listens();
        let of_programs = self.programs.iter().filter(|it| !it.has_ended).map(|it| it.pidfd.as_fd());
        let fds = [self.shared.wake.as_fd()].into_iter().chain(listens.then(|| self.listener.as_fd()));
        let fds: Vec<BorrowedFd<'_>> = fds.chain(of_programs).collect();
        let mut fds: Vec<PollFd<'_>> =
            fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let is_any = |part| self.programs.iter().any(|program| program.part == part);
        let pause = self.paused_until.filter(|_| !listens).map(|_| PAUSE);
        let timeout = match (is_any(Part::Undecided), is_any(Part::Taken)) {
            (true, _) => Some(Duration::ZERO),
            (_, true) => Some(PERIOD),
            _ => pause,
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // What has come is looked for anyway.
        let _ = poll(&mut fds, timeout.as_ref());
        let are_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        let of_programs = are_ready.into_iter().skip(1 + usize::from(listens));
        // Before its ring is emptied: what has ended writes no more.
        for (program, has_ended) in self.programs.iter_mut().filter(|it| !it.has_ended).zip(of_programs) {
            program.has_ended = has_ended;
        }
    }

    fn turn(&mut self) {
        if self.listens() {
            self.accept();
        }
        self.decide();
        let mut programs = std::mem::take(&mut self.programs);
        programs.retain_mut(|program| {
            if program.part != Part::Taken {
                return !program.has_ended;
            }
            let emptied = self.empty(program, program.has_ended);
            let is_over = emptied == Emptied::Broken || (program.has_ended && emptied == Emptied::All);
            if is_over {
                program.ring.end();
                self.say_end(program, emptied == Emptied::Broken);
            }
            !is_over
        });
        programs.append(&mut self.programs);
        self.programs = programs;
    }

    fn accept(&mut self) {
        self.paused_until = None;
        for _ in 0..MAX_ANSWERS {
            match self.listener.accept() {
                Accepted::Nobody => return,
                Accepted::Asking(asking) => self.answer(asking),
                Accepted::Refused => self.refuse(),
                Accepted::NoDescriptors => {
                    tracing::warn!(
                        "no descriptors are left: programs that ask for a ring wait, or have none"
                    );
                    self.paused_until = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
        // Whoever comes all the time leaves time for others.
        if self.page.is_some() {
            std::thread::sleep(PERIOD);
        }
    }

    /// Programs that are there already when a session begins.
    fn decide(&mut self) {
        let (mut began, mut taken) = (Vec::new(), self.taken());
        let Some(session) = &self.session else { return };
        let undecided = self.programs.iter_mut().filter(|program| program.part == Part::Undecided);
        for program in undecided.take(MAX_ANSWERS) {
            program.part = Part::None;
            if program.has_ended || !session.targets.may_want(program.pid) {
                continue;
            }
            let said = self.looks.process(program.pid).unwrap_or_default();
            if !session.targets.want(program.pid, &said.cmdline) {
                continue;
            }
            if taken >= MAX_PROGRAMS {
                began.push(Event::Refused);
                continue;
            }
            taken += 1;
            began.push(program.begin(&mut self.next_id, session, said, false));
        }
        if self.programs.iter().all(|program| program.part != Part::Undecided) {
            self.shared.begun.store(session.number, Ordering::Release);
        }
        for event in began {
            self.push(event, 0);
        }
    }

    /// Somebody of whom there is no more to say.
    fn refuse(&self) {
        if self.session.is_some() {
            self.push(Event::Refused, 0);
        }
    }

    fn answer(&mut self, asking: Asking) {
        let Asking { connection, pid, user, pidfd } = asking;
        self.replace(pid);
        let is_room = self.is_room(user);
        if !is_room && !self.has_said_full {
            self.has_said_full = true;
            tracing::warn!("too many programs: process {pid} of user {user}, and others, cannot be profiled");
        }
        let ring_bytes = self.fixed_ring_bytes.or_else(|| self.session.as_ref().map(|of| of.ring_bytes));
        let ring = ring_bytes.filter(|_| is_room).and_then(|bytes| RingReader::create(bytes).ok());
        let Some(ring) = ring else { return self.refuse() };
        let mut program = Program::new(pid, user, pidfd, ring);
        let began = self.begin_newcomer(&mut program);
        let page = self.page.as_ref().and_then(SessionPage::as_fd);
        if connection.answer(self.reply, &program.ring, page).is_none() {
            return self.refuse();
        }
        if let Some(event) = began {
            self.push(event, program.maps.len());
        }
        self.programs.push(program);
    }

    /// The program that a process was before: its ring is as it has left it.
    fn replace(&mut self, pid: u32) {
        let Some(at) = self.programs.iter().position(|program| program.pid == pid) else { return };
        let mut before = self.programs.swap_remove(at);
        if before.part == Part::Taken {
            let emptied = self.empty(&mut before, true);
            before.unread += u64::from(emptied == Emptied::More);
            self.say_end(&before, emptied == Emptied::Broken);
        }
    }

    /// If the session that there is wants it: from its first line on.
    fn begin_newcomer(&mut self, program: &mut Program) -> Option<Event> {
        let (pid, taken) = (program.pid, self.taken());
        let session = self.session.as_deref()?;
        if session.targets.no_startup || !session.targets.may_want(pid) {
            return None;
        }
        let said = self.looks.process(pid).unwrap_or_default();
        session.targets.want(pid, &said.cmdline).then(|| match taken < MAX_PROGRAMS {
            true => program.begin(&mut self.next_id, session, said, true),
            false => Event::Refused,
        })
    }

    /// How many programs the session has.
    fn taken(&self) -> usize {
        self.programs.iter().filter(|program| program.part == Part::Taken).count()
    }

    fn is_room(&self, user: u32) -> bool {
        if self.page.is_none() {
            return self.programs.len() < MAX_PROGRAMS;
        }
        let own = rustix::process::geteuid().as_raw();
        let of_user = self.programs.iter().filter(|program| program.user == user).count();
        may_wait(self.programs.len(), of_user, user == 0 || user == own)
    }

    /// Takes what is in a ring, as far as there is room for it.
    fn empty(&mut self, program: &mut Program, is_last: bool) -> Emptied {
        let mut records = Vec::new();
        // More than a ring there cannot be at a time: whoever writes as fast as it is read does not keep others waiting.
        let room =
            MAX_WAITING_BYTES.saturating_sub(lock(&self.shared.waiting).bytes).min(program.ring.ring_bytes());
        let emptied = loop {
            if records.len() >= room {
                break Emptied::More;
            }
            let at = records.len();
            records.extend([0; LEN_BYTES]);
            let next = program.ring.next(&mut records);
            if next == Next::Record {
                let len = u32::try_from(records.len() - at - LEN_BYTES).unwrap_or(u32::MAX);
                if let Some(place) = records.get_mut(at..at + LEN_BYTES) {
                    place.copy_from_slice(&len.to_ne_bytes());
                }
                program.unfinished_since = None;
                continue;
            }
            records.truncate(at);
            match next {
                Next::Unfinished if program.gives_up(is_last) => program.unfinished += 1,
                Next::Broken => break Emptied::Broken,
                _ => break Emptied::All,
            }
        };
        // Named before they have records, and so by now.
        while program.heaps < MAX_HEAPS
            && let Some(name) = program.ring.heap_name(program.heaps)
        {
            program.heaps += 1;
            self.push(Event::Heap { id: program.id, name: name.to_text() }, 0);
        }
        if !records.is_empty() {
            if !is_last {
                self.ask_for_maps(program);
            }
            let (bytes, read_ns) = (records.len(), clock_ns(KernelClock::MonotonicCoarse));
            self.push(Event::Records { id: program.id, read_ns, records }, bytes);
        }
        emptied
    }

    /// What it has mapped by now: before the records are read that were written with it.
    fn ask_for_maps(&mut self, program: &mut Program) {
        let now = Instant::now();
        if now < program.maps_due {
            return;
        }
        program.maps_period = (program.maps_period * 2).min(MAPS_PERIOD);
        program.maps_due = now + program.maps_period;
        let maps = self.looks.process(program.pid).unwrap_or_default().code;
        // Of another program that has just taken this one's place it is not.
        let is_same = program.inode.as_ref().is_none_or(|inode| {
            maps.split(|byte| *byte == b'\n').any(|line| contains(line, inode) && contains(line, b"/memfd:"))
        });
        if is_same && maps != program.maps {
            program.maps.clone_from(&maps);
            let bytes = maps.len();
            self.push(Event::Maps { id: program.id, maps }, bytes);
        }
    }

    fn say_end(&self, program: &Program, is_broken: bool) {
        self.push(Event::Counts { id: program.id, counts: program.counts() }, 0);
        self.push(Event::Ended { id: program.id, is_broken }, 0);
    }

    /// The session is over, if there is one.
    fn end(&mut self) {
        let Some(number) = self.session.as_ref().map(|session| session.number) else { return };
        if let Some(page) = &self.page {
            page.say(0);
        }
        let mut programs = std::mem::take(&mut self.programs);
        for program in programs.iter_mut().filter(|program| program.part == Part::Taken) {
            program.ring.end();
            let has_ended = has_ended(&program.pidfd);
            self.wait_for_room(program.ring.ring_bytes());
            let emptied = self.empty(program, has_ended);
            program.unread += u64::from(emptied == Emptied::More);
            let is_broken = emptied == Emptied::Broken;
            self.push(Event::Counts { id: program.id, counts: program.counts() }, 0);
            if has_ended || is_broken {
                self.push(Event::Ended { id: program.id, is_broken }, 0);
            }
            // Of one that has no sense in it nothing more is taken.
            program.has_ended |= is_broken;
            program.ring.clear();
        }
        programs.iter_mut().for_each(|program| program.part = Part::None);
        self.programs = programs;
        self.session = None;
        self.shared.ended.store(number, Ordering::Release);
    }

    /// Somebody takes what waits, or there is nobody any more.
    fn wait_for_room(&self, bytes: usize) {
        let began = Instant::now();
        while lock(&self.shared.waiting).bytes + bytes > MAX_WAITING_BYTES && began.elapsed() < TAKE_TIMEOUT {
            std::thread::sleep(TAKE_PERIOD);
        }
    }

    fn push(&self, event: Event, bytes: usize) {
        let mut waiting = lock(&self.shared.waiting);
        // Nobody takes what is of a session that was given up.
        if self.session.as_ref().is_none_or(|session| session.number == waiting.session) {
            waiting.bytes += bytes;
            waiting.events.push(event);
        }
    }
}

/// Whether one more program may wait, of so many in all and of its user.
fn may_wait(all: usize, of_user: usize, is_trusted: bool) -> bool {
    all < MAX_WAITING_PROGRAMS && (is_trusted || of_user < MAX_WAITING_PROGRAMS_OF_A_USER)
}

impl Program {
    /// One that no session has.
    fn new(pid: u32, user: u32, pidfd: OwnedFd, ring: RingReader) -> Self {
        let inode =
            ring.as_fd().and_then(|fd| rustix::fs::fstat(fd).ok()).map(|of| format!(" {} ", of.st_ino));
        Self {
            id: 0,
            pid,
            user,
            pidfd,
            ring,
            part: Part::None,
            has_ended: false,
            heaps: 0,
            inode: inode.map(String::into_bytes),
            maps: Vec::new(),
            maps_due: Instant::now(),
            maps_period: FIRST_MAPS_PERIOD,
            unfinished_since: None,
            before: Counts::default(),
            unfinished: 0,
            unread: 0,
        }
    }

    /// A session has it from now on.
    fn begin(&mut self, next_id: &mut u64, session: &Session, said: Process, from_startup: bool) -> Event {
        self.id = *next_id;
        *next_id += 1;
        self.part = Part::Taken;
        (self.heaps, self.unfinished, self.unread, self.unfinished_since) = (0, 0, 0, None);
        self.before = Counts::default();
        self.before = self.counts();
        if !from_startup {
            // What nobody has asked for.
            self.ring.clear();
        }
        self.maps = said.code.clone();
        self.maps_period = FIRST_MAPS_PERIOD;
        self.maps_due = Instant::now() + FIRST_MAPS_PERIOD;
        self.ring.begin(session.number, &session.wishes);
        Event::Began { id: self.id, pid: self.pid, said, from_startup }
    }

    /// Passes over a record that is not going to be finished.
    fn gives_up(&mut self, is_last: bool) -> bool {
        let since = *self.unfinished_since.get_or_insert_with(Instant::now);
        let is_over = is_last || since.elapsed() > UNFINISHED_TIMEOUT;
        is_over && self.ring.skip_unfinished()
    }

    fn counts(&self) -> Counts {
        let since = |counter, before| self.ring.counter(counter).saturating_sub(before);
        Counts {
            no_room: since(Counter::NoRoom, self.before.no_room).saturating_add(self.unread),
            table_full: since(Counter::TableFull, self.before.table_full),
            frees_lost: since(Counter::FreesLost, self.before.frees_lost),
            foreign_stacks: since(Counter::ForeignStacks, self.before.foreign_stacks),
            unfinished: self.unfinished,
        }
    }
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;
    use std::mem::MaybeUninit;

    use ferretto_shm::heap::{ALIGN_BYTES, HEAD_BYTES, Head, Record, SESSION_AT, State, WRITTEN_AT};
    use rustix::net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags,
        SocketType, connect, recvmsg, socket_with,
    };

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn wanted() -> Wanted {
        let config = ferretto_protos::HeapprofdConfig {
            sampling_interval_bytes: Some(7),
            shmem_size_bytes: Some(4 << 20),
            ..Default::default()
        };
        Wanted::of(&config, None).unwrap()
    }

    /// As a program asks, which is this one; the memory is written as a file. Behind it the page, if there is one.
    fn ask(address: &str) -> Vec<OwnedFd> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let name = address.trim_start_matches('@').as_bytes();
        connect(&socket, &SocketAddrUnix::new_abstract_name(name).unwrap()).unwrap();
        let mut bytes = [0; Reply::BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let said =
            recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
                .unwrap();
        assert!(Reply::unpack(&bytes[..said.bytes]).is_some());
        let fds = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        fds.flatten().collect()
    }

    fn put(memory: &OwnedFd, at: usize, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(rustix::io::pwrite(memory, &bytes, at as u64).unwrap(), bytes.len());
    }

    fn put_free(memory: &OwnedFd, number: u64, state: State) {
        let words = Record::pack_free(0, number);
        let len = ALIGN_BYTES + words.len() * ALIGN_BYTES;
        let position = number * len as u64;
        let head = Head { position, len, state };
        put(memory, HEAD_BYTES + position as usize, &[head.pack(), words[0], words[1]]);
        put(memory, WRITTEN_AT, &[position + len as u64]);
    }

    fn collect(rings: &Rings, until: impl Fn(&[Event]) -> bool) -> Vec<Event> {
        let (mut events, began) = (Vec::new(), Instant::now());
        while !until(&events) {
            assert!(began.elapsed() < TIMEOUT, "{events:?}");
            std::thread::sleep(Duration::from_millis(5));
            events.extend(rings.take());
        }
        events
    }

    fn records(events: &[Event]) -> usize {
        let all = events.iter().filter_map(|event| match event {
            Event::Records { records, .. } => Some(records.len() / (LEN_BYTES + 2 * ALIGN_BYTES)),
            _ => None,
        });
        all.sum()
    }

    fn start(name: &str, programs: Programs) -> (Rings, String) {
        let listener = Listener::bind(&format!("ferretto-test-{name}-{}", std::process::id())).unwrap();
        let address = listener.address().to_owned();
        (Rings::start(listener, programs).unwrap(), address)
    }

    fn word(memory: &OwnedFd, at: usize) -> u64 {
        let mut word = [0; ALIGN_BYTES];
        assert_eq!(rustix::io::pread(memory, &mut word, at as u64).unwrap(), ALIGN_BYTES);
        u64::from_ne_bytes(word)
    }

    fn end(rings: &Rings, session: u64) {
        rings.end();
        let began = Instant::now();
        while !rings.has_ended(session) {
            assert!(began.elapsed() < TIMEOUT);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn named(targets: &[&str], no: [bool; 2]) -> Wanted {
        let config = ferretto_protos::HeapprofdConfig {
            sampling_interval_bytes: Some(7),
            process_cmdline: targets.iter().map(|name| (*name).to_owned()).collect(),
            no_startup: Some(no[0]),
            no_running: Some(no[1]),
            ..Default::default()
        };
        Wanted::of(&config, Some(RING)).unwrap()
    }

    const RING: usize = 4 << 20;

    #[test]
    fn programs_that_wait_write_while_a_session_wants_them_and_others_do_not() {
        let page = SessionPage::create().unwrap();
        let (rings, address) = start("waiting", Programs::Waiting { ring_bytes: RING, page });
        let fds = ask(&address);
        let [memory, page] = &fds[..] else { panic!("a ring and a page: {fds:?}") };
        assert_eq!((word(memory, SESSION_AT), word(page, 0)), (0, 0));
        // What nobody has wanted nobody takes.
        put_free(memory, 0, State::Whole);
        let own = std::env::current_exe().unwrap().display().to_string();
        for (what, is_wanted) in [
            (named(&["somebody-else"], [false; 2]), false),
            (named(&[&own], [false, true]), false),
            (named(&["rings-of-*", &own], [false; 2]), true),
            (named(&["*"], [true, false]), true),
        ] {
            let session = rings.begin(&what);
            let began = Instant::now();
            while word(page, 0) != session || is_wanted && word(memory, SESSION_AT) != session {
                assert!(began.elapsed() < TIMEOUT);
                std::thread::sleep(Duration::from_millis(5));
            }
            if !is_wanted {
                std::thread::sleep(Duration::from_millis(100));
                assert_eq!(word(memory, SESSION_AT), 0, "{what:?}");
            }
            let number = word(memory, WRITTEN_AT) / 24;
            put_free(memory, number, State::Whole);
            end(&rings, session);
            assert_eq!((word(memory, SESSION_AT), word(page, 0)), (0, 0));
            let events = rings.take();
            assert_eq!(records(&events), usize::from(is_wanted), "{what:?}");
            let began =
                events.iter().filter(|event| matches!(event, Event::Began { from_startup: false, .. }));
            assert_eq!(began.count(), usize::from(is_wanted));
        }
        // Who comes while there is a session is told at once, unless it does not want such.
        for (no_startup, is_wanted) in [(false, true), (true, false)] {
            let session = rings.begin(&named(&["*"], [no_startup, true]));
            let began = Instant::now();
            while word(page, 0) != session {
                assert!(began.elapsed() < TIMEOUT);
            }
            let fds = ask(&address);
            assert_eq!(word(&fds[0], SESSION_AT), if is_wanted { session } else { 0 });
            end(&rings, session);
        }
        let session = rings.begin(&named(&["*"], [false; 2]));
        rings.abandon(session);
        end(&rings, session);
        assert!(rings.take().is_empty(), "nobody wanted it any more");
    }

    #[test]
    fn a_users_programs_leave_room_for_those_of_others() {
        let most = MAX_WAITING_PROGRAMS_OF_A_USER;
        assert!(may_wait(most, most - 1, false) && !may_wait(most, most, false));
        assert!(may_wait(most + 1, 0, false) && may_wait(most, most, true));
        assert!(!may_wait(MAX_WAITING_PROGRAMS, 0, true));
    }

    #[test]
    fn records_come_behind_who_has_begun_and_an_end_behind_them() {
        let (rings, address) = start("rings", Programs::Started);
        let session = rings.begin(&wanted());
        let memory = ask(&address).remove(0);
        (0..3).for_each(|number| put_free(&memory, number, State::Whole));
        let mut events = collect(&rings, |events| records(events) == 3);
        assert!(
            matches!(&events[0], Event::Began { pid, said, .. } if *pid == std::process::id() && !said.code.is_empty())
        );
        // Another program in the place of this one.
        put_free(&memory, 3, State::Whole);
        let again = ask(&address).remove(0);
        put_free(&again, 0, State::Whole);
        end(&rings, session);
        events.extend(rings.take());
        assert_eq!(records(&events), 5);
        let order: Vec<(char, u64)> = events
            .iter()
            .filter_map(|event| match event {
                Event::Began { id, .. } => Some(('b', *id)),
                Event::Ended { id, is_broken: false } => Some(('e', *id)),
                _ => None,
            })
            .collect();
        assert_eq!(order, [('b', 0), ('e', 0), ('b', 1)]);
    }

    #[test]
    fn what_makes_no_sense_ends_a_program_and_no_other() {
        let (rings, address) = start("broken", Programs::Started);
        rings.begin(&wanted());
        let memory = ask(&address).remove(0);
        put_free(&memory, 0, State::Whole);
        put(&memory, HEAD_BYTES + 24, &[u64::MAX]);
        put(&memory, WRITTEN_AT, &[u64::MAX - 7]);
        let events =
            collect(&rings, |events| events.iter().any(|event| matches!(event, Event::Ended { .. })));
        assert!(
            events.iter().any(|event| matches!(event, Event::Ended { is_broken: true, .. })),
            "{events:?}"
        );
        let memory = ask(&address).remove(0);
        put_free(&memory, 0, State::Whole);
        assert!(!collect(&rings, |events| records(events) == 1).is_empty());
    }

    #[test]
    fn a_record_that_nobody_finishes_is_passed_over() {
        let (rings, address) = start("unfinished", Programs::Started);
        rings.begin(&wanted());
        let memory = ask(&address).remove(0);
        put_free(&memory, 0, State::Begun);
        put_free(&memory, 1, State::Whole);
        collect(&rings, |events| records(events) == 1);
    }
}
