//! What processes use: the counters of `ProcessStats`, written when they have changed.

use std::os::fd::OwnedFd;
use std::time::Instant;

use ferretto_protos::fields::process_stats as stats_field;
use ferretto_protozero::Message;

use super::folders::read_pid_file;
use super::message::Process;
use super::parse::{Counter, Runtimes, Status, memory_counters};
use super::{ProcessStats, Scan, Scratch};
use crate::memory_files::{BATCH, MemoryFile, Target};
use crate::packets::Packets;
use crate::proc_fs::{leading_i64, leading_u64};

/// Processes whose last values are remembered; past it all are forgotten at once, which costs bytes and no truth.
pub(super) const MAX_CACHED_PROCESSES: usize = 1 << 16;

/// Values of a process, by [`Counter`].
type Values = [Option<u64>; Counter::COUNT];

/// The last values written of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cached(Values);

/// What a poll has read of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
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

impl ProcessStats {
    /// Reads the counters of processes and writes those that changed.
    pub(super) fn write_counters(
        &mut self,
        proc: &OwnedFd,
        scan: &mut Scan,
        until: Instant,
        out: &mut impl Packets,
    ) {
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
