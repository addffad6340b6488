//! `linux.process_stats`: processes and threads by name, and what they use.
//!
//! Names come in four ways: all of them at the start, those of threads that ftrace events mention, those of processes
//! that a poll meets for the first time, and, for what is gone before it can be read, those in the events of its life (`gone`).

mod gone;
mod parse;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ferretto_protos::fields::{process_stats as stats_field, process_tree as tree_field, trace_packet};
use ferretto_protos::{ProcessStatsConfig, process_stats_config::Quirks};
use ferretto_protozero::Message;
use rustix::fs::{CWD, Mode, OFlags, RawDir};

use crate::clock::boottime_ns;
use crate::ftrace::metadata::Named;
use crate::memory_files::{BATCH, MemoryFile, MemoryFiles, Meter, Target};
use crate::packets::{Packets, stamp};
use crate::pids::{PidBits, PidSet};
use crate::proc_fs::{leading_i64, leading_u64, open_at, read_small_at};
use parse::{Counter, Runtimes, Status, arguments, memory_counters};

/// Polling faster than this is polling of the poller (upstream: process_stats_data_source.cc).
const MIN_POLL_PERIOD_MS: u32 = 100;
/// After so long a scan lets others have a turn. Hundreds of processes take less; the thread drains ftrace too.
const TURN: Duration = Duration::from_millis(10);
/// What one read of a directory takes.
const DIR_BUFFER_BYTES: usize = 32 << 10;
/// Processes whose last values are remembered; past it all are forgotten at once, which costs bytes and no truth.
const MAX_CACHED_PROCESSES: usize = 1 << 16;
/// Open files remembered as written, over all processes.
const MAX_SEEN_FDS: usize = 1 << 20;
/// Open files of one process that are looked at, the first by number: more than servers have for their connections.
const MAX_FDS_OF_PROCESS: usize = 1 << 14;
/// Bytes of paths of one process that are read at once. Each may have a page of them; the rest is for the next look.
const MAX_PATH_BYTES_AT_ONCE: usize = 256 << 10;
/// A packet with open files ends when it is so large: no process has it become megabytes.
const FDS_PACKET_BYTES: usize = 32 << 10;

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

/// Values of a process, by [`Counter`].
type Values = [Option<u64>; Counter::COUNT];

/// The last values written of a process.
#[derive(Clone, Copy, Debug)]
struct Cached(Values);

/// What a poll has read of a process.
#[derive(Clone, Copy, Debug)]
struct Sample {
    target: Target,
    values: Values,
    has_memory: bool,
}

impl Sample {
    fn set(&mut self, counter: Counter, value: u64) {
        if let Some(slot) = self.values.get_mut(counter as usize) {
            *slot = Some(value);
        }
    }
}

/// A process that is to be written, and its `status` in [`Scratch::identities`].
#[derive(Clone, Debug)]
struct Queued {
    target: Target,
    status: Range<usize>,
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

    fn write_names(&mut self, proc: &OwnedFd, scan: &mut Scan, until: Instant, out: &mut impl Packets) {
        let started = boottime_ns();
        while let Some(pid) = scan.take_next() {
            let status = read_pid_file(proc, pid, "status", &mut self.scratch.path, &mut self.scratch.status);
            let is_namespaced = status && self.queue_process(proc, pid);
            if status {
                self.write_threads_of(proc, pid, is_namespaced);
            }
            if Instant::now() >= until {
                break;
            }
        }
        self.write_queued(proc);
        self.finish_tree(started, out);
    }

    fn write_open_files(&mut self, proc: &OwnedFd, scan: &mut Scan, until: Instant, out: &mut impl Packets) {
        while let Some(pid) = scan.take_next() {
            let Scratch { path, status, .. } = &mut self.scratch;
            if read_pid_file(proc, pid, "status", path, status) {
                let uid = Status::parse(status).map_or(0, |status| status.uid.cast_unsigned());
                if !self.write_fds(proc, Target { pid, uid }, until, out) {
                    // It has more, for which the next turn is.
                    scan.next -= 1;
                }
            }
            if Instant::now() >= until {
                break;
            }
        }
        self.finish_files(out);
    }

    /// Appends the threads of a process but the main one.
    fn write_threads_of(&mut self, proc: &OwnedFd, pid: i32, is_namespaced: bool) {
        format_path(&mut self.scratch.path, pid, "task");
        let Ok(task) = open_dir(proc, &self.scratch.path) else { return };
        let mut tids = std::mem::take(&mut self.scratch.tids);
        list_numeric(&task, &mut self.scratch.dir, &mut tids);
        for &tid in tids.iter().filter(|&&tid| tid != pid) {
            if is_namespaced {
                // Only the long file knows ids in nested namespaces.
                if read_pid_file(&task, tid, "status", &mut self.scratch.path, &mut self.scratch.status) {
                    write_thread(
                        &mut self.scratch.body,
                        tid,
                        pid,
                        Status::parse(&self.scratch.status),
                        self.options.thread_names,
                    );
                }
            } else if self.options.thread_names {
                // Costs the kernel a tenth of what `status` does.
                let name =
                    read_pid_file(&task, tid, "comm", &mut self.scratch.path, &mut self.scratch.status);
                let name = self
                    .scratch
                    .status
                    .strip_suffix(b"\n")
                    .unwrap_or(&self.scratch.status)
                    .get(..)
                    .filter(|_| name);
                let status = Status { name: name.unwrap_or_default(), ..Status::default() };
                write_thread(&mut self.scratch.body, tid, pid, Some(status), true);
            } else {
                write_thread(&mut self.scratch.body, tid, pid, None, false);
            }
            self.seen.insert(tid);
        }
        self.scratch.tids = tids;
    }

    fn write_new(&mut self, pids: impl Iterator<Item = i32>, out: &mut impl Packets) {
        let Some(proc) = self.proc.take() else { return };
        self.write_new_of(&proc, pids, out);
        self.proc = Some(proc);
    }

    fn write_new_of(&mut self, proc: &OwnedFd, pids: impl Iterator<Item = i32>, out: &mut impl Packets) {
        let started = boottime_ns();
        for pid in pids {
            if pid != 0 && !self.seen.contains(pid) {
                self.write_process_or_thread(proc, pid);
            }
        }
        self.write_queued(proc);
        self.finish_tree(started, out);
    }

    fn write_process_or_thread(&mut self, proc: &OwnedFd, pid: i32) {
        if !read_pid_file(proc, pid, "status", &mut self.scratch.path, &mut self.scratch.status) {
            return;
        }
        let Some(tgid) = Status::parse(&self.scratch.status).map(|status| status.tgid) else { return };
        if pid != tgid {
            write_thread(
                &mut self.scratch.body,
                pid,
                tgid,
                Status::parse(&self.scratch.status),
                self.options.thread_names,
            );
            self.seen.insert(pid);
        }
        if !self.seen.contains(tgid)
            && (pid == tgid
                || read_pid_file(proc, tgid, "status", &mut self.scratch.path, &mut self.scratch.status))
        {
            self.queue_process(proc, tgid);
        }
    }

    /// Takes note of the process whose `status` has just been read. True if it lives in a PID namespace of its own.
    fn queue_process(&mut self, proc: &OwnedFd, pid: i32) -> bool {
        let Scratch { status: text, identities, queue, path, other, body, .. } = &mut self.scratch;
        // The id may have become a thread of another process since it was listed.
        let Some(status) = Status::parse(text).filter(|status| status.tgid == pid) else { return false };
        let is_namespaced = status.is_namespaced();
        if status.is_kthread == Some(true) {
            // It has no memory, and no command line.
            self.options.write_process(proc, status, &[], path, other, body);
        } else {
            let start = identities.len();
            let target = Target { pid, uid: status.uid.cast_unsigned() };
            identities.extend_from_slice(text);
            queue.push(Queued { target, status: start..identities.len() });
        }
        self.seen.insert(pid);
        self.processes.insert(pid);
        if self.scratch.queue.len() >= BATCH {
            self.write_queued(proc);
        }
        is_namespaced
    }

    /// Appends the processes that have been taken note of.
    fn write_queued(&mut self, proc: &OwnedFd) {
        let Scratch { path, other, body, queue, identities, targets, .. } = &mut self.scratch;
        targets.clear();
        targets.extend(queue.iter().map(|queued| queued.target));
        self.memory_files.borrow_mut().read(&MemoryFile::CMDLINE, targets, |number, cmdline| {
            let status = queue.get(number).and_then(|queued| identities.get(queued.status.clone()));
            if let Some(status) = status.and_then(Status::parse) {
                self.options.write_process(proc, status, cmdline.unwrap_or_default(), path, other, body);
            }
        });
        queue.clear();
        identities.clear();
    }

    /// Reads the counters of processes and writes those that changed.
    fn write_counters(&mut self, proc: &OwnedFd, scan: &mut Scan, until: Instant, out: &mut impl Packets) {
        std::mem::swap(&mut self.scratch.body, &mut scan.counters);
        let mut samples = std::mem::take(&mut self.scratch.samples);
        let mut worked = std::mem::take(&mut self.scratch.pids);
        worked.clear();
        while !scan.is_done() {
            samples.clear();
            let batch = scan.pids.iter().skip(scan.next).take(BATCH);
            samples.extend(batch.filter_map(|&pid| self.read_sample(proc, pid)));
            let first = scan.next;
            scan.next += BATCH;
            if let Some(left_out) = self.add_smaps_rollups(&mut samples, until) {
                // The rest is read anew in the next turn.
                let rest = samples.get(left_out).map(|sample| sample.target.pid);
                let later = scan.pids.iter().skip(first).position(|pid| Some(*pid) == rest);
                scan.next = first + later.unwrap_or(BATCH);
                samples.truncate(left_out);
            }
            for sample in &samples {
                self.write_sample(sample);
                if sample.has_memory && self.options.fds {
                    // Those for which there is no time are still new at the next poll.
                    self.write_fds(proc, sample.target, until, out);
                }
                worked.push(sample.target.pid);
            }
            if Instant::now() >= until {
                break;
            }
        }
        self.finish_files(out);
        if scan.is_done() {
            self.finish_stats(scan.started, out);
        }
        std::mem::swap(&mut self.scratch.body, &mut scan.counters);
        self.scratch.samples = samples;
        // Those that had something to say get a name if they have none yet.
        self.write_new_of(proc, worked.iter().copied(), out);
        self.scratch.pids = worked;
    }

    /// Reads what no process can keep one waiting for; none if there is nothing.
    fn read_sample(&mut self, proc: &OwnedFd, pid: i32) -> Option<Sample> {
        let mut sample =
            Sample { target: Target { pid, uid: 0 }, values: Cached::EMPTY.0, has_memory: false };
        let mut worked = false;
        let Scratch { path, status, other, .. } = &mut self.scratch;
        if self.options.runtime
            && read_pid_file(proc, pid, "stat", path, other)
            && let Some(times) = Runtimes::parse(other)
        {
            let ns = |ticks: u64| ticks.wrapping_mul(self.options.ns_per_tick);
            sample.set(Counter::RuntimeUser, ns(times.user_ticks));
            sample.set(Counter::RuntimeKernel, ns(times.system_ticks));
            worked = true;
        }
        if !self.no_memory.contains(pid) && read_pid_file(proc, pid, "status", path, status) {
            if self.options.dmabuf
                && read_pid_file(proc, pid, "dmabuf_rss", path, other)
                && let Some(bytes) = leading_u64(other)
            {
                sample.set(Counter::DmabufRss, bytes / 1024);
                worked = true;
            }
            for (counter, value) in memory_counters(status) {
                sample.has_memory |= counter == Counter::VmSize;
                sample.set(counter, value);
            }
            if self.options.smaps_rollup || self.options.fds {
                sample.target.uid = Status::parse(status).map_or(0, |status| status.uid.cast_unsigned());
            }
            if !sample.has_memory {
                self.no_memory.insert(pid);
            }
        }
        if sample.has_memory
            && read_pid_file(proc, pid, "oom_score_adj", path, other)
            && let Some(score) = leading_i64(other)
        {
            sample.set(Counter::OomScoreAdj, score.cast_unsigned());
        }
        (worked || sample.has_memory).then_some(sample)
    }

    /// Adds what is read of all at once, if it is wanted; from which sample on there was no time for it.
    fn add_smaps_rollups(&mut self, samples: &mut [Sample], until: Instant) -> Option<usize> {
        if !self.options.smaps_rollup {
            return None;
        }
        let targets = &mut self.scratch.targets;
        targets.clear();
        targets.extend(samples.iter().filter(|sample| sample.has_memory).map(|sample| sample.target));
        let mut with_memory = samples.iter_mut().filter(|sample| sample.has_memory);
        let mut files = self.memory_files.borrow_mut();
        let done = files.read_until(Some(until), &MemoryFile::SMAPS_ROLLUP, targets, |_, text| {
            let Some(sample) = with_memory.next() else { return };
            for (counter, value) in memory_counters(text.unwrap_or_default()) {
                sample.set(counter, value);
            }
        });
        let mut with_memory = samples.iter().enumerate().filter(|(_, sample)| sample.has_memory);
        with_memory.nth(done).map(|(number, _)| number)
    }

    /// Appends those of the values that are new.
    fn write_sample(&mut self, sample: &Sample) {
        let pid = sample.target.pid;
        let mut process = Process::new(pid);
        let cached = self.cache.entry(pid).or_insert(Cached::EMPTY);
        cached.update(&sample.values, &mut process, &mut self.scratch.body);
        process.finish(&mut self.scratch.body);
    }

    /// Writes the open files of a process that have not been written before, in packets of their own. False if there are more, for which
    /// it is too late; one at least is written.
    fn write_fds(&mut self, proc: &OwnedFd, of: Target, until: Instant, out: &mut impl Packets) -> bool {
        if self.memory_files.borrow_mut().is_spent(&MemoryFile::FDS, of) {
            return true;
        }
        let mut meter = self.fds_meter.take().unwrap_or_else(Meter::new);
        let started = Instant::now();
        let (bytes, is_done) = self.write_new_fds(proc, of, until, out);
        self.memory_files.borrow_mut().spend(&MemoryFile::FDS, of, meter.since(started), bytes);
        self.fds_meter = Some(meter);
        is_done
    }

    /// The bytes of their paths, and whether these are all.
    fn write_new_fds(
        &mut self,
        proc: &OwnedFd,
        of: Target,
        until: Instant,
        out: &mut impl Packets,
    ) -> (usize, bool) {
        format_path(&mut self.scratch.path, of.pid, "fd");
        // Other users' processes keep theirs to themselves.
        let Ok(dir) = open_dir(proc, &self.scratch.path) else { return (0, true) };
        let mut fds = std::mem::take(&mut self.scratch.tids);
        let is_all = list_numeric_up_to(MAX_FDS_OF_PROCESS, &dir, &mut self.scratch.dir, &mut fds);
        if !is_all && !std::mem::replace(&mut self.has_said_many_fds, true) {
            tracing::warn!(
                "process {} (user {}), and others perhaps, have more than {MAX_FDS_OF_PROCESS} open files: those with higher numbers are left out",
                of.pid,
                of.uid
            );
        }
        let (mut bytes, mut is_done, mut process) = (0, true, Process::new(of.pid));
        for &fd in &fds {
            if self.seen_fds.contains(&(of.pid, u64::from(fd.cast_unsigned()))) {
                continue;
            }
            if bytes > 0 && (bytes >= MAX_PATH_BYTES_AT_ONCE || Instant::now() >= until) {
                is_done = false;
                break;
            }
            bytes += self.write_fd(&dir, &mut process, fd);
            if self.scratch.files.len() >= FDS_PACKET_BYTES {
                std::mem::replace(&mut process, Process::new(of.pid)).finish(&mut self.scratch.files);
                self.finish_files(out);
            }
        }
        process.finish(&mut self.scratch.files);
        self.scratch.tids = fds;
        (bytes, is_done)
    }

    /// Appends one open file, and gives the length of its path; 0 if it is closed meanwhile.
    fn write_fd(&mut self, dir: &OwnedFd, process: &mut Process, fd: i32) -> usize {
        use stats_field::fd_info as field;
        let number = u64::from(fd.cast_unsigned());
        self.scratch.path.clear();
        let _ = write!(self.scratch.path, "{fd}");
        let Ok(target) = rustix::fs::readlinkat(dir, self.scratch.path.as_slice(), Vec::new()) else {
            return 0;
        };
        process.begin(&mut self.scratch.files);
        let mut message = Message::new(&mut self.scratch.files);
        let mut entry = message.nested(stats_field::process::FDS);
        entry.varint(field::FD, number);
        entry.bytes(field::PATH, target.as_bytes());
        drop(entry);
        self.seen_fds.insert((process.pid, number));
        target.as_bytes().len()
    }

    /// Writes the packet with open files, if there are some.
    fn finish_files(&mut self, out: &mut impl Packets) {
        std::mem::swap(&mut self.scratch.body, &mut self.scratch.files);
        self.finish_stats(boottime_ns(), out);
        std::mem::swap(&mut self.scratch.body, &mut self.scratch.files);
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

impl Options {
    /// Appends a process, and its main thread.
    fn write_process(
        &self,
        proc: &OwnedFd,
        status: Status<'_>,
        cmdline: &[u8],
        path: &mut Vec<u8>,
        other: &mut Vec<u8>,
        body: &mut Vec<u8>,
    ) {
        use tree_field::process as field;
        let pid = status.tgid;
        let mut tree = Message::new(body);
        let mut process = tree.nested(tree_field::PROCESSES);
        process.int(field::PID, i64::from(pid));
        process.int(field::PPID, i64::from(status.ppid));
        process.int(field::UID, i64::from(status.uid));
        for id in status.namespaced_ids() {
            process.int(field::NSPID, i64::from(id));
        }
        if arguments(cmdline).next().is_none() {
            // Kernel threads, zombies, and those whose memory cannot be looked into.
            process.bytes(field::CMDLINE, status.name);
            process.bool(field::CMDLINE_IS_COMM, true);
        } else {
            arguments(cmdline).for_each(|argument| process.bytes(field::CMDLINE, argument));
        }
        if self.process_age
            && read_pid_file(proc, pid, "stat", path, other)
            && let Some(times) = Runtimes::parse(other)
        {
            let start_ns = times.start_ticks.wrapping_mul(self.ns_per_tick);
            process.varint(field::PROCESS_START_FROM_BOOT, start_ns);
        }
        if let Some(is_kthread) = status.is_kthread {
            process.bool(field::IS_KTHREAD, is_kthread);
        }
        drop(process);
        drop(tree);
        // From v58 on upstream says the main thread's name too: a process is named by its command line only.
        if self.main_thread {
            write_thread(body, pid, pid, Some(status), self.thread_names);
        }
    }
}

/// A `ProcessStats.Process` that begins with its first value: one without is not written.
struct Process {
    pid: i32,
    slot: Option<ferretto_protozero::LenSlot>,
}

impl Process {
    fn new(pid: i32) -> Self {
        Self { pid, slot: None }
    }

    fn begin(&mut self, body: &mut Vec<u8>) {
        use ferretto_protozero::Sink;
        if self.slot.is_none() {
            let mut message = Message::new(body);
            // The tag alone: the length is closed in finish().
            message.raw(&[(stats_field::PROCESSES << 3 | 2) as u8]);
            self.slot = Some(message.sink().reserve_len());
            message.int(stats_field::process::PID, i64::from(self.pid));
        }
    }

    fn finish(self, body: &mut Vec<u8>) {
        use ferretto_protozero::Sink;
        if let Some(slot) = self.slot {
            body.close_len(slot);
        }
    }
}

impl Cached {
    const EMPTY: Self = Self([None; Counter::COUNT]);

    /// Writes those of the values that are not the ones written last.
    fn update(&mut self, values: &Values, process: &mut Process, body: &mut Vec<u8>) {
        for (counter, field) in FIELDS {
            let value = values.get(counter as usize).copied().flatten();
            if let (Some(value), Some(cached)) = (value, self.0.get_mut(counter as usize))
                && *cached != Some(value)
            {
                *cached = Some(value);
                process.begin(body);
                Message::new(body).varint(field, value);
            }
        }
    }
}

/// Where each [`Counter`] is written.
const FIELDS: [(Counter, u32); Counter::COUNT] = {
    use stats_field::process as field;
    [
        (Counter::VmSize, field::VM_SIZE_KB),
        (Counter::VmRss, field::VM_RSS_KB),
        (Counter::RssAnon, field::RSS_ANON_KB),
        (Counter::RssFile, field::RSS_FILE_KB),
        (Counter::RssShmem, field::RSS_SHMEM_KB),
        (Counter::VmSwap, field::VM_SWAP_KB),
        (Counter::VmLocked, field::VM_LOCKED_KB),
        (Counter::VmHwm, field::VM_HWM_KB),
        (Counter::SmrRss, field::SMR_RSS_KB),
        (Counter::SmrPss, field::SMR_PSS_KB),
        (Counter::SmrPssAnon, field::SMR_PSS_ANON_KB),
        (Counter::SmrPssFile, field::SMR_PSS_FILE_KB),
        (Counter::SmrPssShmem, field::SMR_PSS_SHMEM_KB),
        (Counter::SmrSwapPss, field::SMR_SWAP_PSS_KB),
        (Counter::OomScoreAdj, field::OOM_SCORE_ADJ),
        (Counter::RuntimeUser, field::RUNTIME_USER_MODE),
        (Counter::RuntimeKernel, field::RUNTIME_KERNEL_MODE),
        (Counter::DmabufRss, field::DMABUF_RSS_KB),
    ]
};

fn write_thread(body: &mut Vec<u8>, tid: i32, tgid: i32, status: Option<Status<'_>>, with_name: bool) {
    use tree_field::thread as field;
    let mut tree = Message::new(body);
    let mut thread = tree.nested(tree_field::THREADS);
    thread.int(field::TID, i64::from(tid));
    thread.int(field::TGID, i64::from(tgid));
    if let Some(status) = status {
        for id in status.namespaced_ids() {
            thread.int(field::NSTID, i64::from(id));
        }
        if with_name {
            thread.bytes(field::NAME, status.name);
        }
    }
}

fn format_path(path: &mut Vec<u8>, pid: i32, file: &str) {
    path.clear();
    // Writing to a vector cannot fail.
    let _ = write!(path, "{pid}/{file}");
}

/// Reads `PID/file` of a directory of /proc; false if it is gone or hidden.
fn read_pid_file(dir: &OwnedFd, pid: i32, file: &str, path: &mut Vec<u8>, buffer: &mut Vec<u8>) -> bool {
    format_path(path, pid, file);
    read_small_at(dir, path.as_slice(), buffer)
}

fn open_dir(dir: &OwnedFd, path: &[u8]) -> std::io::Result<OwnedFd> {
    open_at(dir, path)
}

/// The entries of a directory whose names are numbers above 0 (0 too for /proc/PID/fd, where it is a file).
fn list_numeric(dir: impl AsFd, buffer: &mut Vec<u8>, numbers: &mut Vec<i32>) {
    list_numeric_up_to(usize::MAX, dir, buffer, numbers);
}

/// The first of these, and whether they are all.
fn list_numeric_up_to(max: usize, dir: impl AsFd, buffer: &mut Vec<u8>, numbers: &mut Vec<i32>) -> bool {
    numbers.clear();
    buffer.clear();
    buffer.reserve(DIR_BUFFER_BYTES);
    // The descriptor of /proc stays open from scan to scan.
    if rustix::fs::seek(&dir, rustix::fs::SeekFrom::Start(0)).is_err() {
        return true;
    }
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        if name.iter().all(u8::is_ascii_digit)
            && let Some(number) = leading_u64(name).and_then(|n| i32::try_from(n).ok())
        {
            if numbers.len() >= max {
                return false;
            }
            numbers.push(number);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftrace::metadata::COMM_BYTES;
    use crate::memory_files::testing::Folder;
    use crate::packets::testing::Recorded;
    use ferretto_protos::TracePacket;

    fn run(
        config: &ProcessStatsConfig,
        f: impl FnOnce(&mut ProcessStats, &mut Recorded),
    ) -> Vec<TracePacket> {
        let mut source = ProcessStats::new(config, Rc::default());
        let mut out = Recorded::default();
        f(&mut source, &mut out);
        out.decoded()
    }

    fn own_pid() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    fn trees(packets: &[TracePacket]) -> Vec<&ferretto_protos::ProcessTree> {
        use ferretto_protos::trace_packet::Data;
        packets
            .iter()
            .filter_map(|p| match &p.data {
                Some(Data::ProcessTree(tree)) => Some(tree),
                _ => None,
            })
            .collect()
    }

    fn stats(packets: &[TracePacket]) -> Vec<&ferretto_protos::ProcessStats> {
        use ferretto_protos::trace_packet::Data;
        packets
            .iter()
            .filter_map(|p| match &p.data {
                Some(Data::ProcessStats(stats)) => Some(stats),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_full_scan_names_this_process_and_its_threads() {
        let thread = std::thread::Builder::new().name("probe-test".into());
        let (tell, wait) = std::sync::mpsc::channel::<()>();
        let (tell_named, named) = std::sync::mpsc::channel();
        let body = move || {
            // A thread takes its name when it runs for the first time.
            tell_named.send(()).unwrap();
            wait.recv().is_ok()
        };
        let thread = thread.spawn(body).unwrap();
        named.recv().unwrap();
        let config = ProcessStatsConfig {
            scan_all_processes_on_start: Some(true),
            record_thread_names: Some(true),
            record_process_age: Some(true),
            ..Default::default()
        };
        let packets = run(&config, |source, out| {
            source.start(out);
            source.finish_work(out);
        });
        drop(tell);
        thread.join().unwrap();
        let all = trees(&packets);
        let own = all.iter().flat_map(|tree| &tree.processes).find(|p| p.pid() == own_pid()).unwrap();
        let has_thread = |is: &dyn Fn(&ferretto_protos::process_tree::Thread) -> bool| {
            all.iter().flat_map(|tree| &tree.threads).any(is)
        };
        assert!(!own.cmdline.is_empty() && own.process_start_from_boot() > 0);
        assert!(has_thread(&|t| t.tgid() == own_pid() && t.name() == "probe-test"));
        assert!(has_thread(&|t| t.tid() == own_pid()), "the main thread has a message of its own");
        assert!(all[0].collection_end_timestamp() >= packets[0].timestamp());
    }

    /// Opens something so often whose path is nearly as long as paths can be.
    fn open_with_long_paths(count: usize) -> (Folder, Vec<std::fs::File>) {
        let folder = Folder::new("paths");
        let mut path = folder.0.clone();
        for _ in 0..14 {
            path.push("x".repeat(250));
        }
        std::fs::create_dir_all(&path).unwrap();
        let open = || std::fs::File::open(&path).unwrap();
        (folder, std::iter::repeat_with(open).take(count).collect())
    }

    #[test]
    fn open_files_with_long_paths_are_said_once_each_in_packets_that_are_not_large() {
        let (folder, files) = open_with_long_paths(200);
        let config = ProcessStatsConfig {
            scan_all_processes_on_start: Some(true),
            resolve_process_fds: Some(true),
            ..Default::default()
        };
        let packets = run(&config, |source, out| {
            // Other processes may have thousands of files open.
            source.turn = Duration::from_millis(1);
            source.start(out);
            source.finish_work(out);
        });
        let long = folder.0.to_str().unwrap();
        let stats = stats(&packets);
        let of_own = stats.iter().flat_map(|stats| &stats.processes).filter(|p| p.pid() == own_pid());
        let mut found: Vec<u64> =
            of_own.flat_map(|p| &p.fds).filter(|fd| fd.path().starts_with(long)).map(|fd| fd.fd()).collect();
        found.sort_unstable();
        let opened = files.iter().map(|file| u64::try_from(std::os::fd::AsRawFd::as_raw_fd(file)).unwrap());
        // Other tests open and close files meanwhile.
        let mut opened: Vec<u64> = opened.collect();
        opened.sort_unstable();
        assert_eq!(found, opened);
        let largest = stats.iter().map(|stats| prost::Message::encoded_len(*stats)).max().unwrap();
        assert!(largest < FDS_PACKET_BYTES + 8192, "{largest}");
    }

    #[test]
    fn open_files_of_a_user_are_read_for_so_long_and_so_much_within_a_time() {
        let files = Rc::new(RefCell::new(MemoryFiles::default()));
        let of = Target { pid: own_pid(), uid: rustix::process::getuid().as_raw() };
        let config = ProcessStatsConfig {
            resolve_process_fds: Some(true),
            proc_stats_poll_ms: Some(1000),
            ..Default::default()
        };
        let count_of_own = || {
            let mut source = ProcessStats::new(&config, files.clone());
            let mut out = Recorded::default();
            source.turn = Duration::from_mins(1);
            source.work(&mut out);
            let packets = out.decoded();
            let own = stats(&packets).into_iter().flat_map(|stats| &stats.processes);
            own.filter(|process| process.pid() == own_pid()).map(|process| process.fds.len()).sum::<usize>()
        };
        assert!(count_of_own() > 0);
        // Others of this user's processes, and as much as one may have.
        files.borrow_mut().spend(&MemoryFile::FDS, of, Duration::ZERO, 8 << 20);
        assert_eq!(count_of_own(), 0);
    }

    #[test]
    fn a_thread_seen_in_events_is_named_once_until_it_is_renamed() {
        let packets = run(&ProcessStatsConfig::default(), |source, out| {
            let mut pids = PidSet::default();
            pids.insert(own_pid());
            pids.insert(0);
            source.on_threads(&pids, &[], out);
            source.on_threads(&pids, &[], out);
            let other = Named { pid: own_pid(), comm: [b'x'; COMM_BYTES], time_ns: 1, birth: None };
            source.on_threads(&pids, &[other], out);
            source.clear_incremental_state();
            source.on_threads(&pids, &[], out);
        });
        assert_eq!(trees(&packets).len(), 3);
        assert!(
            trees(&packets)
                .iter()
                .all(|tree| tree.processes.len() == 1 && tree.processes[0].pid() == own_pid())
        );
        assert_eq!(
            packets.iter().map(TracePacket::incremental_state_cleared).collect::<Vec<_>>(),
            [false, false, true]
        );
    }

    #[test]
    fn the_quirk_switches_on_demand_naming_off() {
        let config =
            ProcessStatsConfig { quirks: vec![Quirks::DisableOnDemand as i32], ..Default::default() };
        let packets = run(&config, |source, out| {
            let mut pids = PidSet::default();
            pids.insert(own_pid());
            source.on_threads(&pids, &[], out);
        });
        assert!(packets.is_empty());
    }

    #[test]
    fn counters_are_written_when_they_change_and_after_the_cache_ends() {
        let config = ProcessStatsConfig {
            proc_stats_poll_ms: Some(1),
            proc_stats_cache_ttl_ms: Some(200),
            ..Default::default()
        };
        let mut sizes = Vec::new();
        let packets = run(&config, |source, out| {
            assert_eq!(source.poll_period_ms(), Some(MIN_POLL_PERIOD_MS));
            for _ in 0..3 {
                source.work(out);
                source.finish_work(out);
                sizes.push(out.0.iter().map(Vec::len).sum::<usize>());
            }
        });
        let first = stats(&packets)
            .into_iter()
            .flat_map(|stats| &stats.processes)
            .find(|p| p.pid() == own_pid())
            .unwrap();
        assert!(first.vm_size_kb() > 0 && first.vm_rss_kb() > 0 && first.oom_score_adj.is_some());
        // The second poll has little to say; the cache ends after two, so the third says all again.
        assert!(sizes[2] - sizes[1] > sizes[1] - sizes[0]);
        let named =
            trees(&packets).into_iter().flat_map(|tree| &tree.processes).filter(|p| p.pid() == own_pid());
        assert_eq!(named.count(), 1, "names are written once");
    }

    #[test]
    fn others_have_a_turn_before_all_processes_are_read() {
        let config = ProcessStatsConfig {
            scan_all_processes_on_start: Some(true),
            proc_stats_poll_ms: Some(100),
            scan_smaps_rollup: Some(true),
            ..Default::default()
        };
        let mut in_pieces = ProcessStats::new(&config, Rc::default());
        in_pieces.turn = Duration::ZERO;
        let mut out = Recorded::default();
        in_pieces.start(&mut out);
        let mut turns = 1;
        while in_pieces.next_work().is_some() {
            in_pieces.work(&mut out);
            turns += 1;
        }
        let packets = out.decoded();
        assert!(turns > 2 && trees(&packets).len() > 1, "{turns}");
        assert_eq!(stats(&packets).len(), 1, "a poll is one packet");
        assert_eq!(trees(&packets)[0].processes.len(), 1, "one at a time, if there is no time");
        let named = trees(&packets).into_iter().flat_map(|tree| &tree.processes);
        assert_eq!(named.filter(|process| process.pid() == own_pid()).count(), 1);
        let counted = || stats(&packets).into_iter().flat_map(|stats| &stats.processes);
        assert_eq!(counted().filter(|process| process.pid() == own_pid()).count(), 1);
        assert!(counted().any(|process| process.pid() == own_pid() && process.smr_rss_kb() > 0));
    }

    #[test]
    fn a_command_line_of_nothing_is_none() {
        let folder = Folder::new("process-stats-empty");
        folder.answers(own_pid(), "cmdline", "\0\0\0");
        let config = ProcessStatsConfig { scan_all_processes_on_start: Some(true), ..Default::default() };
        let mut source = ProcessStats::new(&config, Rc::new(RefCell::new(MemoryFiles::below(&folder.0))));
        let mut out = Recorded::default();
        source.start(&mut out);
        source.finish_work(&mut out);
        let packets = out.decoded();
        let mut all = trees(&packets).into_iter().flat_map(|tree| &tree.processes);
        assert!(all.find(|p| p.pid() == own_pid()).unwrap().cmdline_is_comm());
    }

    #[test]
    fn who_lets_nobody_look_into_its_memory_has_its_short_name_and_its_other_counters() {
        let folder = Folder::new("process-stats");
        folder.hangs(own_pid(), "cmdline");
        folder.hangs(own_pid(), "smaps_rollup");
        let config = ProcessStatsConfig {
            proc_stats_poll_ms: Some(100),
            scan_smaps_rollup: Some(true),
            ..Default::default()
        };
        let files = MemoryFiles::below(&folder.0);
        let mut source = ProcessStats::new(&config, Rc::new(RefCell::new(files)));
        let mut out = Recorded::default();
        source.start(&mut out);
        source.work(&mut out);
        source.finish_work(&mut out);
        let packets = out.decoded();
        let counters = stats(&packets)
            .into_iter()
            .flat_map(|stats| &stats.processes)
            .find(|p| p.pid() == own_pid())
            .unwrap();
        assert!(counters.vm_rss_kb() > 0 && counters.smr_rss_kb.is_none());
        let mut all = trees(&packets).into_iter().flat_map(|tree| &tree.processes);
        let own = all.find(|p| p.pid() == own_pid()).unwrap();
        assert!(own.cmdline_is_comm() && own.cmdline.len() == 1, "{own:?}");
        folder.lets_go(own_pid(), "smaps_rollup");
    }
}
