//! Records in, packets out: in the order of time over all processors.
//!
//! A ring's records are in order, but those of another one that is read later may be older. So what is newer than the beginning of the last reading waits
//! for the next one: all rings have been read up to there (`perf` calls it a round). Rings are emptied on a thread of their own: to read the symbols of a
//! large program takes longer than a ring has room for.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ferretto_producer::TraceWriter;
use ferretto_symbols::{KernelSymbols, demangle};
use ferretto_sys::clock_ns;
use ferretto_unwind::End;
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::config::Wanted;
use crate::events::{Events, Target};
use crate::looks::{Looks, Process};
use crate::packets::{Interner, Stack};
use crate::processes::Processes;
use crate::records::{Record, Sample, Stamp, is_sample, read, split, stamp_of};
use crate::scope::Scope;
use crate::strangers::FileBooks;
use crate::summary::Summary;
use crate::threads::Threads;
use crate::waits::{Wait, Waits};

/// Bytes of records that may wait beside the rings: some seconds of a few busy processors. More are left to the rings, which count what they lose.
const MAX_WAITING_BYTES: usize = 128 << 20;
/// How often the rings are emptied.
const EMPTY_PERIOD: Duration = Duration::from_millis(10);
/// So old are records that are in the order of time: one may have its time a moment before it is in its ring.
const SETTLED_NS: u64 = 2_000_000;

/// The rings, and what was in them.
#[derive(Debug)]
struct Rings {
    events: Events,
    waiting: Vec<u8>,
    /// Who is asked for in `/proc` when he is met, if there were processes before.
    meets: Option<Meets>,
    /// All up to this time is in there, or was.
    read_until_ns: u64,
}

/// Processes that are met: what is said of them is asked for at once, as they may have ended before their samples' turn comes.
#[derive(Debug)]
struct Meets {
    looks: Looks,
    known: HashSet<u32, RandomState>,
    new: Vec<(u32, Process)>,
}

/// Processes that are known. With more all are forgotten, and those that are still sampled are asked for again.
const MAX_KNOWN: usize = 64 << 10;

impl Meets {
    fn with(books: &FileBooks) -> Self {
        Self { looks: Looks::with(books), known: HashSet::default(), new: Vec::new() }
    }

    fn meet(&mut self, records: &[u8]) {
        for record in split(records).filter(|record| is_sample(record)) {
            let Some(Stamp { pid, .. }) = stamp_of(record) else { continue };
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
            }
            if self.known.insert(pid) {
                // Whoever may not be asked now is asked when his samples' turn comes.
                self.new.extend(self.looks.process(pid).ok().map(|said| (pid, said)));
            }
        }
    }
}

/// Empties rings until it is dropped.
#[derive(Debug)]
struct Emptier {
    rings: Arc<Mutex<Rings>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rings {
    /// Who was met since.
    fn take_met(&mut self) -> Vec<(u32, Process)> {
        self.meets.as_mut().map(|meets| std::mem::take(&mut meets.new)).unwrap_or_default()
    }

    /// Takes what the kernel has written; says whether there may be more.
    fn empty(&mut self) -> bool {
        if self.waiting.len() >= MAX_WAITING_BYTES {
            return false;
        }
        let began_ns = clock_ns(self.events.clock);
        let before = self.waiting.len();
        let is_more = self.events.read(&mut self.waiting);
        if let Some(meets) = &mut self.meets {
            meets.meet(self.waiting.get(before..).unwrap_or_default());
        }
        // What is left in a ring may be older than this.
        if !is_more {
            self.read_until_ns = began_ns;
        }
        is_more
    }
}

impl Emptier {
    fn start(events: Events, meets: Option<Meets>) -> io::Result<Self> {
        let rings = Arc::new(Mutex::new(Rings { events, waiting: Vec::new(), meets, read_until_ns: 0 }));
        let stop = Arc::new(AtomicBool::new(false));
        let (of_thread, is_over) = (rings.clone(), stop.clone());
        let empty = move || {
            while !is_over.load(Ordering::Relaxed) {
                lock(&of_thread).empty();
                thread::park_timeout(EMPTY_PERIOD);
            }
        };
        let thread = thread::Builder::new().name("rings".to_owned()).spawn(empty)?;
        Ok(Self { rings, stop, thread: Some(thread) })
    }
}

impl Drop for Emptier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Whose records come out of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// Of some there was a beginning before: they are looked at in `/proc` when they are met.
    Running,
    /// All have begun since.
    Starting,
    /// A group, in which nobody has run a program yet: whoever is to do so is this process's copy, and this process is in it for a moment, too.
    Group { has_begun: bool },
}

impl Whom {
    pub(crate) fn of(target: &Target) -> Self {
        match target {
            Target::ChildrenOf(_) => Self::Starting,
            Target::Group(_) => Self::Group { has_begun: false },
            Target::Processes(_) | Target::Machine => Self::Running,
        }
    }

    fn adopts(self) -> bool {
        self == Self::Running
    }

    /// Whether a record is of somebody who is sampled; to be asked in the order of time.
    fn takes(&mut self, stamp: Stamp, record: &Record<'_>) -> bool {
        let Self::Group { has_begun } = self else { return true };
        *has_begun |= matches!(record, Record::Name { is_exec: true, .. });
        matches!(record, Record::Lost(_)) || *has_begun && stamp.pid != std::process::id()
    }
}

/// One that runs.
#[derive(Debug)]
pub(crate) struct Sampler {
    emptier: Emptier,
    wanted: Wanted,
    whom: Whom,
    scope: Scope,
    /// What was taken out of the rings and is too new.
    later: Vec<u8>,
    processes: Processes,
    threads: Threads,
    waits: Option<Waits>,
    kernel: LateSymbols,
    interner: Interner,
    writer: TraceWriter,
    /// If somebody reads it.
    summary: Option<Arc<Mutex<Summary>>>,
}

impl Sampler {
    /// # Errors
    ///
    /// If there is no thread to be had.
    pub(crate) fn new(
        events: Events,
        (wanted, scope, whom): (Wanted, Scope, Whom),
        mut writer: TraceWriter,
        (summary, books): (Option<Arc<Mutex<Summary>>>, &FileBooks),
    ) -> io::Result<Self> {
        let with_kernel = events.with_kernel;
        if let Some(summary) = &summary {
            let mut summary = lock(summary);
            summary.sampled = wanted.in_words();
            summary.with_kernel = with_kernel;
            summary.stack_bytes = events.stack_bytes;
        }
        // First: what runs already is sampled already.
        let emptier = Emptier::start(events, whom.adopts().then(|| Meets::with(books)))?;
        let kernel =
            if with_kernel && wanted.kernel_frames { LateSymbols::read() } else { LateSymbols::default() };
        let mut interner = Interner::default();
        interner.begin(&mut writer.new_packet(), (&wanted, scope.shard));
        Ok(Self {
            emptier,
            waits: wanted.waits_hz.map(Waits::new),
            wanted,
            whom,
            scope,
            later: Vec::new(),
            processes: Processes::with(books),
            threads: Threads::default(),
            kernel,
            interner,
            writer,
            summary,
        })
    }

    /// Takes what was in the rings, and writes all of which nothing older can come.
    pub(crate) fn turn(&mut self) {
        let mut rings = lock(&self.emptier.rings);
        let until_ns = rings.read_until_ns.saturating_sub(SETTLED_NS);
        self.later.append(&mut rings.waiting);
        let met = rings.take_met();
        drop(rings);
        met.into_iter().for_each(|(pid, said)| self.processes.met(pid, said));
        self.write_until(until_ns);
        self.write_waits(until_ns);
    }

    /// All that there is.
    pub(crate) fn flush(&mut self) {
        let now_ns = loop {
            let mut rings = lock(&self.emptier.rings);
            let is_more = rings.empty();
            self.later.append(&mut rings.waiting);
            rings.take_met().into_iter().for_each(|(pid, said)| self.processes.met(pid, said));
            if !is_more {
                break rings.read_until_ns;
            }
        };
        self.write_until(u64::MAX);
        self.write_waits(now_ns);
        self.writer.flush();
    }

    /// Readers may have lost what was said.
    pub(crate) fn clear(&mut self) {
        self.interner.begin(&mut self.writer.new_packet(), (&self.wanted, self.scope.shard));
    }

    fn write_until(&mut self, time_ns: u64) {
        let bytes = std::mem::take(&mut self.later);
        let mut records = places(&bytes);
        records.sort_by_key(|(at_ns, _)| *at_ns);
        let now = records.partition_point(|(at_ns, _)| *at_ns < time_ns);
        // As long as rings are not empty nothing more is in the order of time, however much comes.
        if now == 0 {
            self.later = bytes;
            return;
        }
        let later = records.split_off(now);
        for (_, place) in records {
            if let Some((stamp, record)) = bytes.get(place).and_then(read) {
                self.take(stamp, &record);
            }
        }
        // In the order of time, in which they will be sorted anyway.
        for record in later.into_iter().filter_map(|(_, place)| bytes.get(place)) {
            self.later.extend_from_slice(record);
        }
    }

    fn take(&mut self, stamp: Stamp, record: &Record<'_>) {
        if !self.whom.takes(stamp, record) {
            return;
        }
        match record {
            Record::Sample(sample) => self.sample(stamp, sample),
            // What somebody has mapped whose stacks nobody wants is not read.
            Record::Map(map) if self.wants(stamp.pid) => {
                self.meet(stamp.pid);
                self.processes.map(stamp.pid, map);
            }
            Record::Name { name, is_exec } => {
                if *is_exec {
                    self.processes.exec(stamp.pid);
                }
                self.threads.name(stamp.tid, name);
                self.name(stamp, name);
            }
            Record::Fork { pid, parent_pid, parent_tid } => {
                if self.wants(*parent_pid) {
                    self.meet(*parent_pid);
                }
                self.processes.fork(*pid, *parent_pid);
                self.inherit_name(Stamp { pid: *pid, tid: *pid, ..stamp }, *parent_tid);
            }
            Record::Thread { tid, parent_tid } => {
                self.inherit_name(Stamp { tid: *tid, ..stamp }, *parent_tid)
            }
            Record::Exit { pid, tid } => {
                if let Some(waits) = &mut self.waits {
                    waits.ended(*tid);
                }
                if pid == tid {
                    self.processes.exit(*pid);
                }
            }
            Record::SwitchedOut { would_go_on } => {
                if let Some(waits) = &mut self.waits {
                    waits.switched_out(stamp.tid, *would_go_on);
                }
            }
            Record::SwitchedIn => {
                let ended = self.waits.as_mut().and_then(|waits| waits.switched_in(stamp.tid, stamp.time_ns));
                if let Some((wait, moments)) = ended {
                    moments.times_ns().for_each(|time_ns| self.write(&wait, time_ns));
                }
            }
            Record::Lost(records) => Interner::lost(&mut self.writer.new_packet(), stamp, *records),
            Record::Map(_) | Record::Other => {}
        }
    }

    fn wants(&mut self, pid: u32) -> bool {
        let Self { scope, processes, .. } = self;
        let is_wanted = scope.wants(pid, || processes.cmdline(pid));
        if !is_wanted {
            processes.forget_what_was_said(pid);
        }
        is_wanted
    }

    /// A process, which may have run before anything was recorded.
    fn meet(&mut self, pid: u32) {
        if self.whom.adopts() && !self.processes.knows(pid) {
            self.processes.adopt(pid);
        }
    }

    fn inherit_name(&mut self, of: Stamp, parent_tid: u32) {
        if let Some(name) = self.threads.inherit(of.tid, parent_tid) {
            let name = name.to_owned();
            self.name(of, &name);
        }
    }

    /// Says what a thread is called.
    fn name(&mut self, of: Stamp, name: &[u8]) {
        if let Some(summary) = &self.summary {
            lock(summary).name_thread(of.tid, name);
        }
        let parent_pid = self.processes.parent_of(of.pid);
        Interner::name_thread(&mut self.writer.new_packet(), of, parent_pid, name);
    }

    fn sample(&mut self, stamp: Stamp, sample: &Sample<'_>) {
        if !self.wants(stamp.pid) {
            if self.waits.is_none() {
                Interner::out_of_scope(&mut self.writer.new_packet(), (stamp, sample.cpu_mode));
            }
            return;
        }
        self.meet(stamp.pid);
        if self.whom.adopts()
            && let Some(name) = self.threads.adopt(stamp.pid, stamp.tid).map(<[u8]>::to_owned)
        {
            self.name(stamp, &name);
        }
        let (mut user, end) = match sample.registers.filter(|_| self.wanted.user_frames) {
            Some(registers) => {
                let (frames, end) = self.processes.unwind(stamp.pid, registers, sample.stack);
                (frames, Some(end))
            }
            None => (Vec::new(), None),
        };
        user.reverse();
        let symbols = if sample.kernel.is_empty() { None } else { Some(self.kernel.get()) };
        let name_of = |address| symbols.and_then(|symbols| symbols.name_of(address));
        let kernel = sample.kernel.iter().rev().map(|address| match name_of(*address) {
            Some(name) => name.to_owned(),
            None => format!("{address:#x}"),
        });
        let stack = Stack { user, kernel: kernel.collect() };
        let found = Wait { stamp, cpu_mode: sample.cpu_mode, stack, end };
        match &mut self.waits {
            Some(waits) => waits.go(found),
            None => self.write(&found, stamp.time_ns),
        }
    }

    /// What those wait for who go on to wait.
    fn write_waits(&mut self, until_ns: u64) {
        let all = self.waits.as_mut().map(|waits| waits.all_until(until_ns)).unwrap_or_default();
        for (wait, moments) in all {
            moments.times_ns().for_each(|time_ns| self.write(&wait, time_ns));
        }
    }

    /// A sample.
    fn write(&mut self, found: &Wait, time_ns: u64) {
        let stamp = Stamp { time_ns, ..found.stamp };
        self.count(stamp, &found.stack, found.end);
        if self.interner.is_full() {
            self.clear();
        }
        self.interner.sample(&mut self.writer.new_packet(), (stamp, found.cpu_mode), &found.stack, found.end);
    }

    fn count(&self, stamp: Stamp, stack: &Stack, end: Option<End>) {
        let Some(summary) = &self.summary else { return };
        let user = stack.user.iter().map(|frame| match (frame.name(), &frame.mapping) {
            (Some(name), _) => demangle(name),
            (None, Some(mapping)) => {
                format!("[{}]", mapping.file.path.rsplit('/').next().unwrap_or_default())
            }
            (None, None) => "[no file]".to_owned(),
        });
        let mut names: Vec<String> = user.collect();
        // All that waits does so in the kernel's scheduler: what it has called to wait says more.
        if self.waits.is_none() || names.is_empty() {
            names.extend(stack.kernel.iter().cloned());
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        lock(summary).count((stamp.pid, stamp.tid), &names, end.is_none_or(|end| end == End::Root));
    }
}

/// The kernel's symbols, which take it some 0.1 s to say: nobody waits for them before there is a stack with a kernel's part.
#[derive(Debug, Default)]
struct LateSymbols {
    reading: Option<JoinHandle<KernelSymbols>>,
    read: KernelSymbols,
}

impl LateSymbols {
    fn read() -> Self {
        let read = || {
            let text = std::fs::read_to_string("/proc/kallsyms");
            text.map(|text| KernelSymbols::read(&text)).unwrap_or_default()
        };
        match thread::Builder::new().name("kallsyms".to_owned()).spawn(read) {
            Ok(reading) => Self { reading: Some(reading), read: KernelSymbols::default() },
            Err(_) => Self { reading: None, read: read() },
        }
    }

    fn get(&mut self) -> &KernelSymbols {
        if let Some(reading) = self.reading.take() {
            self.read = reading.join().unwrap_or_default();
        }
        &self.read
    }
}

/// What panics elsewhere leaves records and counts whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where each record is, and of which time.
fn places(bytes: &[u8]) -> Vec<(u64, Range<usize>)> {
    let mut at = 0;
    let mut places = Vec::new();
    for record in split(bytes) {
        let place = at..at + record.len();
        at = place.end;
        if let Some(stamp) = stamp_of(record) {
            places.push((stamp.time_ns, place));
        }
    }
    places
}
