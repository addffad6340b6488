//! `linux.process_stats`: processes and threads by name, and what they use.
//!
//! Names come in four ways: all of them at the start, those of threads that ftrace events mention, those of processes
//! that a poll meets for the first time, and, for what is gone before it can be read, those in the events of its life (`gone`).
//!
//! | module | what it does |
//! |---|---|
//! | `names` | processes and threads, by name |
//! | `gone` | names of those that are gone |
//! | `counters` | what processes use |
//! | `open_files` | which files they have open |
//! | `parse` | the texts of /proc |
//! | `folders`, `message` | ways into /proc, and a process's message |

mod counters;
mod folders;
mod gone;
mod message;
mod names;
mod open_files;
mod parse;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ferretto_protos::fields::{process_stats as stats_field, process_tree as tree_field, trace_packet};
use ferretto_protos::{ProcessStatsConfig, process_stats_config::Quirks};
use ferretto_protozero::Message;
use rustix::fs::{CWD, Mode, OFlags};

use self::counters::{Cached, MAX_CACHED_PROCESSES, Sample};
use self::folders::list_numeric;
use self::names::Queued;
use self::open_files::MAX_SEEN_FDS;
use crate::clock::boottime_ns;
use crate::ftrace::metadata::Named;
use crate::memory_files::{MemoryFiles, Meter, Target};
use crate::packets::{Packets, stamp};
use crate::pids::{PidBits, PidSet};

/// Polling faster than this is polling of the poller (upstream: process_stats_data_source.cc).
const MIN_POLL_PERIOD_MS: u32 = 100;
/// After so long a scan lets others have a turn. Hundreds of processes take less; the thread drains ftrace too.
const TURN: Duration = Duration::from_millis(10);

/// One session's process statistics.
#[derive(Debug)]
pub(crate) struct ProcessStats {
    options: Options,
    /// /proc; None if it cannot be opened, then there is nothing to record.
    proc: Option<OwnedFd>,
    /// What of it other processes can keep one waiting for. All sessions share what is known of those.
    memory_files: Rc<RefCell<MemoryFiles>>,
    /// Processes and threads whose names are in the trace.
    seen: PidBits,
    /// Those of them that are processes' main threads, renamed since or not, gone or not.
    processes: PidBits,
    /// Processes without memory of their own, which need no second look.
    no_memory: PidBits,
    cache: HashMap<i32, Cached>,
    seen_fds: HashSet<(i32, u64)>,
    /// For how long open files are read, from the first time on.
    fds_meter: Option<Meter>,
    /// It was said that a process has more open files than are looked at.
    has_said_many_fds: bool,
    polls_since_clear: u32,
    /// What has been begun and is not yet done.
    scan: Option<Scan>,
    pub(crate) turn: Duration,
    /// The next packet says that names from before no longer count.
    state_cleared: bool,
    scratch: Scratch,
}

#[derive(Clone, Copy, Debug)]
struct Options {
    scan_at_start: bool,
    thread_names: bool,
    on_demand: bool,
    poll_period_ms: u32,
    cache_polls: u32,
    smaps_rollup: bool,
    process_age: bool,
    runtime: bool,
    dmabuf: bool,
    fds: bool,
    main_thread: bool,
    ns_per_tick: u64,
}

/// A way through all processes, in pieces.
#[derive(Debug)]
struct Scan {
    what: ScanOf,
    pids: Vec<i32>,
    /// The first that is still to be looked at.
    next: usize,
    /// When it began, and the counters so far: a poll is one packet, in however many pieces it was made.
    started: u64,
    counters: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanOf {
    /// At the start.
    Names,
    /// At the start, after the names.
    OpenFiles,
    Counters,
}

/// Buffers that live as long as the session.
#[derive(Debug, Default)]
struct Scratch {
    path: Vec<u8>,
    status: Vec<u8>,
    other: Vec<u8>,
    dir: Vec<u8>,
    pids: Vec<i32>,
    tids: Vec<i32>,
    /// Processes that wait for their command lines.
    queue: Vec<Queued>,
    identities: Vec<u8>,
    samples: Vec<Sample>,
    targets: Vec<Target>,
    /// An encoded `ProcessTree` or `ProcessStats`.
    body: Vec<u8>,
    /// An encoded `ProcessStats` of open files only.
    files: Vec<u8>,
}

impl ProcessStats {
    pub(crate) fn new(config: &ProcessStatsConfig, memory_files: Rc<RefCell<MemoryFiles>>) -> Self {
        let proc = rustix::fs::openat(
            CWD,
            "/proc",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        if let Err(error) = &proc {
            tracing::error!("linux.process_stats records nothing: could not open /proc: {error}");
        }
        Self {
            options: Options::new(config),
            proc: proc.ok(),
            memory_files,
            seen: PidBits::default(),
            processes: PidBits::default(),
            no_memory: PidBits::default(),
            cache: HashMap::new(),
            seen_fds: HashSet::new(),
            fds_meter: None,
            has_said_many_fds: false,
            polls_since_clear: 0,
            scan: None,
            turn: TURN,
            state_cleared: false,
            scratch: Scratch::default(),
        }
    }

    /// How often [`poll`](Self::poll) wants to be called; `None` for never.
    pub(crate) fn poll_period_ms(&self) -> Option<u32> {
        Some(self.options.poll_period_ms).filter(|&ms| ms > 0)
    }

    /// Begins with what a session gets at once. The rest is for [`work`](Self::work).
    pub(crate) fn start(&mut self, out: &mut impl Packets) {
        if self.options.scan_at_start {
            self.begin(ScanOf::Names);
            self.work(out);
        }
    }

    /// When [`work`](Self::work) wants to be called before the next poll.
    pub(crate) fn next_work(&self) -> Option<Instant> {
        self.scan.as_ref().map(|_| Instant::now())
    }

    /// Goes on with what has been begun, or polls.
    pub(crate) fn work(&mut self, out: &mut impl Packets) {
        if self.scan.is_none() {
            self.begin(ScanOf::Counters);
        }
        let Some(proc) = self.proc.take() else { return self.scan = None };
        let until = Instant::now() + self.turn;
        while let Some(mut scan) = self.scan.take() {
            match scan.what {
                ScanOf::Names => self.write_names(&proc, &mut scan, until, out),
                ScanOf::OpenFiles => self.write_open_files(&proc, &mut scan, until, out),
                ScanOf::Counters => self.write_counters(&proc, &mut scan, until, out),
            }
            self.scan = if scan.is_done() { self.follow_up(scan) } else { Some(scan) };
            if Instant::now() >= until {
                break;
            }
        }
        self.proc = Some(proc);
    }

    /// Does all that has been begun.
    #[cfg(test)]
    pub(crate) fn finish_work(&mut self, out: &mut impl Packets) {
        while self.scan.is_some() {
            self.work(out);
        }
    }

    /// Names threads that events mentioned; those born or renamed, in the order of time, are read again.
    pub(crate) fn on_threads(&mut self, pids: &PidSet, named: &[Named], out: &mut impl Packets) {
        if !self.options.on_demand {
            return;
        }
        for thread in named {
            self.seen.remove(thread.pid);
            if thread.birth.is_some() {
                self.processes.remove(thread.pid);
            }
        }
        self.write_new(pids.iter(), out);
        self.write_gone(named, out);
    }

    /// Forgets what readers know, so that all of it is written again.
    pub(crate) fn clear_incremental_state(&mut self) {
        self.seen.clear();
        self.processes.clear();
        self.no_memory.clear();
        self.cache.clear();
        self.seen_fds.clear();
        self.polls_since_clear = 0;
        self.state_cleared = true;
    }

    fn begin(&mut self, what: ScanOf) {
        let mut pids = self.scan.take().map(|scan| scan.pids).unwrap_or_default();
        if let Some(proc) = &self.proc {
            list_numeric(proc, &mut self.scratch.dir, &mut pids);
            self.scan = Some(Scan::new(what, pids));
        }
    }

    /// What comes after a scan that is done. The first poll is at once.
    fn follow_up(&mut self, scan: Scan) -> Option<Scan> {
        let polls = self.options.poll_period_ms > 0;
        match scan.what {
            ScanOf::Names if self.options.fds => Some(Scan::new(ScanOf::OpenFiles, scan.pids)),
            ScanOf::Names | ScanOf::OpenFiles if polls => Some(Scan::new(ScanOf::Counters, scan.pids)),
            ScanOf::Names | ScanOf::OpenFiles => None,
            ScanOf::Counters => {
                self.end_poll();
                None
            }
        }
    }

    fn end_poll(&mut self) {
        self.polls_since_clear += 1;
        if self.polls_since_clear >= self.options.cache_polls || self.cache.len() > MAX_CACHED_PROCESSES {
            self.polls_since_clear = 0;
            self.cache.clear();
        }
        if self.seen_fds.len() > MAX_SEEN_FDS {
            self.seen_fds.clear();
        }
    }

    fn finish_tree(&mut self, started: u64, out: &mut impl Packets) {
        self.finish(started, trace_packet::PROCESS_TREE, tree_field::COLLECTION_END_TIMESTAMP, out);
    }

    fn finish_stats(&mut self, started: u64, out: &mut impl Packets) {
        self.finish(started, trace_packet::PROCESS_STATS, stats_field::COLLECTION_END_TIMESTAMP, out);
    }

    /// Writes the packet, if there is anything in it.
    fn finish(&mut self, started: u64, field: u32, end_field: u32, out: &mut impl Packets) {
        if self.scratch.body.is_empty() {
            return;
        }
        Message::new(&mut self.scratch.body).varint(end_field, boottime_ns());
        let body = &self.scratch.body;
        let state_cleared = std::mem::take(&mut self.state_cleared);
        out.packet(|packet| {
            stamp(packet, started);
            if state_cleared {
                packet.bool(trace_packet::INCREMENTAL_STATE_CLEARED, true);
            }
            packet.bytes(field, body);
        });
        self.scratch.body.clear();
    }
}

impl Scan {
    fn new(what: ScanOf, pids: Vec<i32>) -> Self {
        Self { what, pids, next: 0, started: boottime_ns(), counters: Vec::new() }
    }

    fn is_done(&self) -> bool {
        self.next >= self.pids.len()
    }

    fn take_next(&mut self) -> Option<i32> {
        let pid = self.pids.get(self.next).copied();
        self.next += 1;
        pid
    }
}

impl Options {
    fn new(config: &ProcessStatsConfig) -> Self {
        let mut poll_period_ms = config.proc_stats_poll_ms();
        if (1..MIN_POLL_PERIOD_MS).contains(&poll_period_ms) {
            tracing::info!(
                "proc_stats_poll_ms {poll_period_ms} is raised to the minimum of {MIN_POLL_PERIOD_MS}"
            );
            poll_period_ms = MIN_POLL_PERIOD_MS;
        }
        Self {
            scan_at_start: config.scan_all_processes_on_start(),
            thread_names: config.record_thread_names(),
            on_demand: !config.quirks().any(|quirk| quirk == Quirks::DisableOnDemand),
            poll_period_ms,
            cache_polls: config.proc_stats_cache_ttl_ms().checked_div(poll_period_ms).unwrap_or(1).max(1),
            smaps_rollup: config.scan_smaps_rollup(),
            process_age: config.record_process_age(),
            runtime: config.record_process_runtime(),
            dmabuf: config.record_process_dmabuf_rss(),
            fds: config.resolve_process_fds(),
            main_thread: !config.skip_main_thread_message(),
            ns_per_tick: crate::clock::ns_per_tick(),
        }
    }
}

#[cfg(test)]
mod tests;
