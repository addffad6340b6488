//! Gives rings out and empties them, on a thread of its own: a program waits in its first line for the answer, and a ring is full in a tenth of a second while
//! somewhere else the symbols of a large program are read.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_shm::heap::{Counter, MAX_HEAPS, MAX_STACK_BYTES, Next, Reply, RingReader, Wishes};
use ferretto_sys::{KernelClock, clock_ns};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::config::Wanted;
use super::listener::{Asking, Listener};
use crate::looks::{Looks, Process};
use crate::strangers::FileBooks;

/// Programs at a time, each with a ring.
const MAX_PROGRAMS: usize = 256;
/// Answered in one turn, before rings are emptied again.
const MAX_ANSWERS: usize = 32;
/// Bytes of records that may wait. More are left to the rings, whose programs count what they lose.
const MAX_WAITING_BYTES: usize = 128 << 20;
/// How often rings are emptied.
const PERIOD: Duration = Duration::from_millis(10);
/// How often it is looked whether to end, while there is nothing else to do.
const IDLE_PERIOD: Duration = Duration::from_millis(50);
/// A record that is begun is whole a moment later. One that is not for so long was given up by a thread that has ended in between.
const UNFINISHED_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is asked what a program has mapped: at first, when it loads its libraries, and later.
const FIRST_MAPS_PERIOD: Duration = Duration::from_millis(10);
const MAPS_PERIOD: Duration = Duration::from_millis(250);
/// At the end: how often it is looked whether there is room for more records, and for how long. Each ring's that have none are lost.
const TAKE_PERIOD: Duration = Duration::from_millis(1);
const TAKE_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of the session that there is.
const SESSION: u64 = 1;
/// Bytes before a record: how long it is.
pub(crate) const LEN_BYTES: usize = size_of::<u32>();

/// What has happened, in its order.
#[derive(Debug)]
pub(crate) enum Event {
    /// A program has a ring now. Of a process that had one already it has taken the place of the program before it.
    Began { id: u64, pid: u32, said: Process },
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
    events: Vec<Event>,
    bytes: usize,
}

/// Works until it is dropped or finished.
#[derive(Debug)]
pub(crate) struct Rings {
    waiting: Arc<Mutex<Waiting>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rings {
    /// # Errors
    ///
    /// If there is no thread to be had.
    pub(crate) fn start(wanted: &Wanted, listener: Arc<Listener>) -> io::Result<Self> {
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let max_stack_bytes = u32::try_from(MAX_STACK_BYTES).unwrap_or(u32::MAX);
        let reply = Reply { max_stack_bytes, may_begin_later: false };
        let mut emptier = Emptier {
            listener,
            reply,
            wishes: wanted.wishes(),
            ring_bytes: wanted.ring_bytes,
            programs: Vec::new(),
            next_id: 0,
            looks: Looks::with(&FileBooks::that_trust_all()),
            waiting: waiting.clone(),
        };
        let is_over = stop.clone();
        let run = move || {
            while !is_over.load(Ordering::Relaxed) {
                emptier.wait();
                emptier.turn();
            }
            emptier.finish();
        };
        let thread = std::thread::Builder::new().name("heap rings".to_owned()).spawn(run)?;
        Ok(Self { waiting, stop, thread: Some(thread) })
    }

    /// What has happened since.
    pub(crate) fn take(&self) -> Vec<Event> {
        let mut waiting = lock(&self.waiting);
        waiting.bytes = 0;
        std::mem::take(&mut waiting.events)
    }

    /// Empties all for the last time. There may be more until it is not going on any more.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether there may be more to take.
    pub(crate) fn goes_on(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops, and waits for the end.
    pub(crate) fn finish(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.finish();
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

struct Program {
    id: u64,
    pid: u32,
    pidfd: OwnedFd,
    ring: RingReader,
    /// Heaps whose names are known.
    heaps: usize,
    /// As `/proc/PID/maps` has it: by this it is known whether the process still runs the program that it ran.
    inode: Option<Vec<u8>>,
    maps: Vec<u8>,
    maps_due: Instant,
    maps_period: Duration,
    unfinished_since: Option<Instant>,
    unfinished: u64,
    /// Its end came, and there was no room for what was still in its ring.
    unread: u64,
}

struct Emptier {
    listener: Arc<Listener>,
    reply: Reply,
    wishes: Wishes,
    ring_bytes: usize,
    programs: Vec<Program>,
    next_id: u64,
    looks: Looks,
    waiting: Arc<Mutex<Waiting>>,
}

impl Emptier {
    /// Until somebody asks, has ended, or rings are to be emptied.
    fn wait(&self) {
        let fds =
            std::iter::once(self.listener.as_fd()).chain(self.programs.iter().map(|it| it.pidfd.as_fd()));
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let period = if self.programs.is_empty() { IDLE_PERIOD } else { PERIOD };
        let timeout = Timespec { tv_sec: 0, tv_nsec: period.subsec_nanos().into() };
        // What has come is looked for anyway.
        let _ = poll(&mut fds, Some(&timeout));
    }

    fn turn(&mut self) {
        for _ in 0..MAX_ANSWERS {
            match self.listener.accept() {
                None => break,
                Some(Ok(asking)) => self.answer(asking),
                Some(Err(_)) => self.push(Event::Refused, 0),
            }
        }
        let mut programs = std::mem::take(&mut self.programs);
        programs.retain_mut(|program| {
            // Before its ring is emptied: what has ended writes no more.
            let has_ended = has_ended(&program.pidfd);
            let emptied = self.empty(program, has_ended);
            let is_over = emptied == Emptied::Broken || (has_ended && emptied == Emptied::All);
            if is_over {
                self.say_end(program, emptied == Emptied::Broken);
            }
            !is_over
        });
        programs.append(&mut self.programs);
        self.programs = programs;
    }

    fn answer(&mut self, asking: Asking) {
        let pid = asking.pid;
        // The program that it was before: its ring is as it has left it.
        if let Some(at) = self.programs.iter().position(|program| program.pid == pid) {
            let mut before = self.programs.swap_remove(at);
            let emptied = self.empty(&mut before, true);
            before.unread += u64::from(emptied == Emptied::More);
            self.say_end(&before, emptied == Emptied::Broken);
        }
        let ring = RingReader::create(self.ring_bytes).ok().filter(|_| self.programs.len() < MAX_PROGRAMS);
        let Some(ring) = ring else { return self.push(Event::Refused, 0) };
        let said = self.looks.process(pid).unwrap_or_default();
        ring.begin(SESSION, &self.wishes);
        let Some(pidfd) = asking.answer(self.reply, &ring) else { return self.push(Event::Refused, 0) };
        let inode =
            ring.as_fd().and_then(|fd| rustix::fs::fstat(fd).ok()).map(|of| format!(" {} ", of.st_ino));
        let id = self.next_id;
        self.next_id += 1;
        let maps = said.code.clone();
        self.push(Event::Began { id, pid, said }, maps.len());
        self.programs.push(Program {
            id,
            pid,
            pidfd,
            ring,
            heaps: 0,
            inode: inode.map(String::into_bytes),
            maps,
            maps_due: Instant::now() + FIRST_MAPS_PERIOD,
            maps_period: FIRST_MAPS_PERIOD,
            unfinished_since: None,
            unfinished: 0,
            unread: 0,
        });
    }

    /// Takes what is in a ring, as far as there is room for it.
    fn empty(&mut self, program: &mut Program, is_last: bool) -> Emptied {
        let mut records = Vec::new();
        // More than a ring there cannot be at a time: whoever writes as fast as it is read does not keep others waiting.
        let room = MAX_WAITING_BYTES.saturating_sub(lock(&self.waiting).bytes).min(self.ring_bytes);
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

    fn finish(&mut self) {
        let mut programs = std::mem::take(&mut self.programs);
        for program in &mut programs {
            let has_ended = has_ended(&program.pidfd);
            // Somebody takes what waits, or there is nobody any more.
            let began = Instant::now();
            while lock(&self.waiting).bytes + self.ring_bytes > MAX_WAITING_BYTES
                && began.elapsed() < TAKE_TIMEOUT
            {
                std::thread::sleep(TAKE_PERIOD);
            }
            let emptied = self.empty(program, has_ended);
            program.unread += u64::from(emptied == Emptied::More);
            let is_broken = emptied == Emptied::Broken;
            self.push(Event::Counts { id: program.id, counts: program.counts() }, 0);
            if has_ended || is_broken {
                self.push(Event::Ended { id: program.id, is_broken }, 0);
            }
        }
    }

    fn push(&self, event: Event, bytes: usize) {
        let mut waiting = lock(&self.waiting);
        waiting.bytes += bytes;
        waiting.events.push(event);
    }
}

impl Program {
    /// Passes over a record that is not going to be finished.
    fn gives_up(&mut self, is_last: bool) -> bool {
        let since = *self.unfinished_since.get_or_insert_with(Instant::now);
        let is_over = is_last || since.elapsed() > UNFINISHED_TIMEOUT;
        is_over && self.ring.skip_unfinished()
    }

    fn counts(&self) -> Counts {
        Counts {
            no_room: self.ring.counter(Counter::NoRoom).saturating_add(self.unread),
            table_full: self.ring.counter(Counter::TableFull),
            frees_lost: self.ring.counter(Counter::FreesLost),
            foreign_stacks: self.ring.counter(Counter::ForeignStacks),
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

    use ferretto_shm::heap::{ALIGN_BYTES, HEAD_BYTES, Head, Record, State, WRITTEN_AT};
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
        Wanted::of(&config).unwrap()
    }

    /// As a program asks, which is this one; the memory is written as a file.
    fn ask(listener: &Listener) -> OwnedFd {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let name = listener.address().trim_start_matches('@').as_bytes();
        connect(&socket, &SocketAddrUnix::new_abstract_name(name).unwrap()).unwrap();
        let mut bytes = [0; Reply::BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let said =
            recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
                .unwrap();
        assert!(Reply::unpack(&bytes[..said.bytes]).is_some());
        let mut fds = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        fds.next().unwrap().next().unwrap()
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

    fn listener(name: &str) -> Arc<Listener> {
        Arc::new(Listener::bind(&format!("ferretto-test-{name}-{}", std::process::id())).unwrap())
    }

    #[test]
    fn records_come_behind_who_has_begun_and_an_end_behind_them() {
        let listener = listener("rings");
        let mut rings = Rings::start(&wanted(), listener.clone()).unwrap();
        let memory = ask(&listener);
        (0..3).for_each(|number| put_free(&memory, number, State::Whole));
        let mut events = collect(&rings, |events| records(events) == 3);
        assert!(
            matches!(&events[0], Event::Began { pid, said, .. } if *pid == std::process::id() && !said.code.is_empty())
        );
        // Another program in the place of this one.
        put_free(&memory, 3, State::Whole);
        let again = ask(&listener);
        put_free(&again, 0, State::Whole);
        rings.finish();
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
        let listener = listener("broken");
        let rings = Rings::start(&wanted(), listener.clone()).unwrap();
        let memory = ask(&listener);
        put_free(&memory, 0, State::Whole);
        put(&memory, HEAD_BYTES + 24, &[u64::MAX]);
        put(&memory, WRITTEN_AT, &[u64::MAX - 7]);
        let events =
            collect(&rings, |events| events.iter().any(|event| matches!(event, Event::Ended { .. })));
        assert!(
            events.iter().any(|event| matches!(event, Event::Ended { is_broken: true, .. })),
            "{events:?}"
        );
        let memory = ask(&listener);
        put_free(&memory, 0, State::Whole);
        assert!(!collect(&rings, |events| records(events) == 1).is_empty());
    }

    #[test]
    fn a_record_that_nobody_finishes_is_passed_over() {
        let listener = listener("unfinished");
        let rings = Rings::start(&wanted(), listener.clone()).unwrap();
        let memory = ask(&listener);
        put_free(&memory, 0, State::Begun);
        put_free(&memory, 1, State::Whole);
        collect(&rings, |events| records(events) == 1);
    }
}
