//! The list of processes and threads, as the recorder found it in /proc (upstream: system_probes_parser.cc, ParseProcessTree).

use std::borrow::Cow;

use ferretto_protos::fields::process_tree as field;
use ferretto_protos::fields::process_tree::{process as process_field, thread as thread_field};
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_tables::MachineId;
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::args::ArgValue;
use crate::clocks::{BOOTTIME, Clock, Machine};
use crate::model::Model;
use crate::processes::{ProcessName, ThreadName};
use crate::stats::Stat;

/// The kernel's thread that makes all of its others.
const KTHREADD: i64 = 2;

/// A process as the list says it.
#[derive(Debug, Default)]
struct Listed<'a> {
    pid: i64,
    ppid: i64,
    cmdline: Vec<Cow<'a, str>>,
    cmdline_is_comm: bool,
    uid: Option<u32>,
    start_ts: Option<u64>,
    is_kthread: Option<bool>,
    nspid: Vec<i64>,
}

impl Model {
    /// Reads `TracePacket.process_tree`.
    pub(crate) fn process_tree(&mut self, message: &[u8], machine: MachineId) {
        let mut kthreads = HashSet::<i64, RandomState>::default();
        let parts = || Fields::new(message).map_while(Result::ok);
        for part in parts() {
            if let (field::PROCESSES, Value::Bytes(process)) = (part.number, part.value) {
                let listed = Listed::of(process);
                if listed.ppid == KTHREADD && !listed.cmdline.is_empty() {
                    kthreads.insert(listed.pid);
                }
                self.listed_process(listed, machine);
            }
        }
        for part in parts() {
            if let (field::THREADS, Value::Bytes(thread)) = (part.number, part.value) {
                self.listed_thread(thread, machine, &kthreads);
            }
        }
    }

    fn listed_process(&mut self, listed: Listed<'_>, machine: MachineId) {
        let Some(first) = listed.cmdline.first() else { return };
        let worker = (listed.ppid == KTHREADD).then(|| without_queue(first)).filter(|name| *name != first);
        let cmdline = worker.map_or_else(|| listed.cmdline.join(" "), str::to_owned);
        let mut name = worker.unwrap_or(first);
        if listed.cmdline.len() == 1 {
            // Some processes write blanks between the words of their command line.
            name = name.split_once(' ').map_or(name, |(name, _)| name);
        }
        let name = self.tables.strings.intern(name);
        let cmdline = self.tables.strings.intern(&cmdline);
        let start_ts = listed.start_ts.and_then(|ts| self.since_boot(ts, machine));
        if !listed.nspid.is_empty() {
            self.namespaces.add_process(machine, listed.pid, listed.nspid);
        }
        let (tables, processes, stats) = self.processes_and_stats(machine);
        let parent = processes.process(tables, listed.ppid);
        let upid = processes.process(tables, listed.pid);
        processes.set_parent(tables, stats, upid, parent);
        processes.name_process(tables, upid, name, ProcessName::System);
        if let Some(cell) = tables.process.cmdline.get_mut(upid.index()) {
            *cell = Some(cmdline);
        }
        if listed.cmdline_is_comm {
            let utid = processes.thread(tables, listed.pid);
            processes.name_thread(tables, utid, cmdline, ThreadName::ProcessTree);
        }
        if let Some(uid) = listed.uid.map(i64::from) {
            tables.process.uid.set(upid.index(), Some(uid));
            tables.process.android_appid.set(upid.index(), Some(uid % 100_000));
            tables.process.android_user_id.set(upid.index(), Some(uid / 100_000));
        }
        if let Some(start_ts) = start_ts
            && tables.process.start_ts.get(upid.index()).is_none()
        {
            tables.process.start_ts.set(upid.index(), Some(start_ts));
        }
        if let Some(is_kthread) = listed.is_kthread {
            processes.add_process_arg(tables, upid, "is_kthread", ArgValue::Bool(is_kthread));
        }
    }

    fn since_boot(&mut self, ts: u64, machine: MachineId) -> Option<i64> {
        let ts = i64::try_from(ts).ok()?;
        self.to_trace_time(Clock::new(BOOTTIME, 0, Machine(machine.0)), ts).ok()
    }

    fn listed_thread(&mut self, message: &[u8], machine: MachineId, kthreads: &HashSet<i64, RandomState>) {
        let (mut tid, mut tgid, mut name, mut nstid) = (0, 0, None, Vec::new());
        for part in Fields::new(message).map_while(Result::ok) {
            match (part.number, part.value) {
                (thread_field::TID, value) => tid = number_of(value),
                (thread_field::TGID, value) => tgid = number_of(value),
                (thread_field::NAME, Value::Bytes(text)) => name = Some(String::from_utf8_lossy(text)),
                (thread_field::NSTID, value) => nstid.push(number_of(value)),
                _ => {}
            }
        }
        let (tables, processes) = self.processes(machine);
        processes.thread_of(tables, tid, tgid);
        if let Some(name) = name {
            let is_worker = tid == tgid && kthreads.contains(&tid);
            let name = tables.strings.intern(if is_worker { without_queue(&name) } else { &name });
            let utid = processes.thread(tables, tid);
            processes.name_thread(tables, utid, name, ThreadName::ProcessTree);
        }
        if !nstid.is_empty() && !self.namespaces.add_thread(machine, tgid, tid, nstid) {
            self.stats.count(Stat::NamespacedThreadMissingProcess);
        }
    }
}

impl<'a> Listed<'a> {
    fn of(message: &'a [u8]) -> Self {
        use process_field as field;
        let mut listed = Self::default();
        for part in Fields::new(message).map_while(Result::ok) {
            let number = part.value.as_u64();
            match (part.number, part.value) {
                (field::PID, value) => listed.pid = number_of(value),
                (field::PPID, value) => listed.ppid = number_of(value),
                (field::CMDLINE, Value::Bytes(word)) => listed.cmdline.push(String::from_utf8_lossy(word)),
                (field::CMDLINE_IS_COMM, _) => listed.cmdline_is_comm = number.is_some_and(|it| it != 0),
                (field::UID, _) => listed.uid = number.map(|uid| uid as u32),
                (field::NSPID, value) => listed.nspid.push(number_of(value)),
                (field::PROCESS_START_FROM_BOOT, _) => listed.start_ts = number,
                (field::IS_KTHREAD, _) => listed.is_kthread = number.map(|it| it != 0),
                _ => {}
            }
        }
        listed
    }
}

/// A worker's name without the queue that it last worked for: `kworker/45:2-mm_percpu_wq` is `kworker/45:2`.
fn without_queue(name: &str) -> &str {
    match name.strip_prefix("kworker/").and_then(|rest| rest.find(['+', '-'])) {
        Some(at) => name.get(.."kworker/".len() + at).unwrap_or(name),
        None => name,
    }
}

fn number_of(value: Value<'_>) -> i64 {
    i64::from(value.as_u64().unwrap_or(0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_not_called_by_their_queues() {
        for (name, expected) in [
            ("kworker/45:2-mm_percpu_wq", "kworker/45:2"),
            ("kworker/u8:1+flush", "kworker/u8:1"),
            ("kworker/0:0H", "kworker/0:0H"),
            ("other-thing", "other-thing"),
        ] {
            assert_eq!(without_queue(name), expected);
        }
    }
}
