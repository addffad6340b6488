//! Names of processes and threads: `ProcessTree`.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Instant;

use ferretto_protos::fields::process_tree as tree_field;
use ferretto_protozero::Message;

use super::folders::{format_path, list_numeric, open_dir, read_pid_file};
use super::parse::{Runtimes, Status, arguments};
use super::{Options, ProcessStats, Scan, Scratch};
use crate::clock::boottime_ns;
use crate::memory_files::{BATCH, MemoryFile, Target};
use crate::packets::Packets;

/// A process that is to be written, and its `status` in [`Scratch::identities`].
#[derive(Clone, Debug)]
pub(super) struct Queued {
    target: Target,
    status: Range<usize>,
}

impl ProcessStats {
    pub(super) fn write_names(
        &mut self,
        proc: &OwnedFd,
        scan: &mut Scan,
        until: Instant,
        out: &mut impl Packets,
    ) {
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

    pub(super) fn write_new(&mut self, pids: impl Iterator<Item = i32>, out: &mut impl Packets) {
        let Some(proc) = self.proc.take() else { return };
        self.write_new_of(&proc, pids, out);
        self.proc = Some(proc);
    }

    pub(super) fn write_new_of(
        &mut self,
        proc: &OwnedFd,
        pids: impl Iterator<Item = i32>,
        out: &mut impl Packets,
    ) {
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
    pub(super) fn write_queued(&mut self, proc: &OwnedFd) {
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

pub(super) fn write_thread(
    body: &mut Vec<u8>,
    tid: i32,
    tgid: i32,
    status: Option<Status<'_>>,
    with_name: bool,
) {
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
