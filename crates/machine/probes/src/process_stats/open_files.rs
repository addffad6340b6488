//! Open files of processes, each path once: in packets of `ProcessStats` of their own.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Instant;

use ferretto_protos::fields::process_stats as stats_field;
use ferretto_protozero::Message;

use super::folders::{format_path, list_numeric_up_to, open_dir, read_pid_file};
use super::message::Process;
use super::parse::Status;
use super::{ProcessStats, Scan, Scratch};
use crate::clock::boottime_ns;
use crate::memory_files::{MemoryFile, Meter, Target};
use crate::packets::Packets;

/// Open files remembered as written, over all processes.
pub(super) const MAX_SEEN_FDS: usize = 1 << 20;
/// Open files of one process that are looked at, the first by number: more than servers have for their connections.
const MAX_FDS_OF_PROCESS: usize = 1 << 14;
/// Bytes of paths of one process that are read at once. Each may have a page of them; the rest is for the next look.
const MAX_PATH_BYTES_AT_ONCE: usize = 256 << 10;
/// A packet with open files ends when it is so large: no process has it become megabytes.
pub(super) const FDS_PACKET_BYTES: usize = 32 << 10;

impl ProcessStats {
    pub(super) fn write_open_files(
        &mut self,
        proc: &OwnedFd,
        scan: &mut Scan,
        until: Instant,
        out: &mut impl Packets,
    ) {
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

    /// Writes the open files of a process that have not been written before, in packets of their own. False if there are more, for which
    /// it is too late; one at least is written.
    pub(super) fn write_fds(
        &mut self,
        proc: &OwnedFd,
        of: Target,
        until: Instant,
        out: &mut impl Packets,
    ) -> bool {
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
    pub(super) fn finish_files(&mut self, out: &mut impl Packets) {
        std::mem::swap(&mut self.scratch.body, &mut self.scratch.files);
        self.finish_stats(boottime_ns(), out);
        std::mem::swap(&mut self.scratch.body, &mut self.scratch.files);
    }
}
