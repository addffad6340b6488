//! Threads and processes: their names, what they wrote, and how long they ran.
//!
//! Told apart by their numbers. A number that comes again is the same row here, with the last name, but that what ran before under it
//! belongs to the process of that time (`trace-model` tells all lifetimes apart).

use ferretto_trace_read::recent::Recent;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::names::{Name, Names, Weight};

/// Threads, and processes, that are told apart; all further ones are one row. Some machines run ten thousands.
const MAX_ROWS: usize = 1 << 16;
/// The row of all that came when there was no room.
pub const OTHERS: usize = 0;
/// The kernel's names of threads, with the 0 behind them.
const COMM_BYTES: usize = size_of::<u128>();

/// Threads whose rows are found without a search: a power of two, of which each thread has the place that its number ends with.
const RECENT: usize = 1 << 8;

/// What the kernel calls a thread; behind it there are zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comm([u8; COMM_BYTES]);

impl Comm {
    /// Nothing if the name is empty, and says nothing.
    #[inline]
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        (!name.is_empty()).then(|| Self(padded(name).to_le_bytes()))
    }
}

/// The first bytes of a name, and zeros. Most are 8 to 15: two words that overlap.
#[inline]
fn padded(name: &[u8]) -> u128 {
    if let Some(first) = name.first_chunk() {
        return u128::from_le_bytes(*first);
    }
    match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => {
            let last = u128::from(u64::from_le_bytes(*last));
            u128::from(u64::from_le_bytes(*first)) | last << (8 * (name.len() - size_of::<u64>()))
        }
        _ => name.iter().rfold(0, |word, byte| word << 8 | u128::from(*byte)),
    }
}

/// How far the source of a name is to be trusted: a new name wins if it is not below the present one's (upstream: process_tracker.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Nothing has named it.
    #[default]
    Nobody,
    /// The kernel's events.
    Kernel,
    /// What the program says of its processes.
    Program,
    /// The list of processes.
    List,
    /// What the program says of its threads.
    ProgramsThread,
}

/// A process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Its machine.
    pub machine: u32,
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub name: Name,
    trust: Trust,
    /// The packets that it wrote.
    pub wrote: Weight,
    /// How long its threads ran.
    pub ran_ns: u64,
}

/// A thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thread {
    /// Its machine.
    pub machine: u32,
    /// Its number.
    pub tid: i32,
    /// The number of its process, if that is known.
    pub pid: Option<i32>,
    /// What it is called, if it is no kernel's name.
    name: Name,
    comm: Comm,
    trust: Trust,
    /// How long it ran.
    pub ran_ns: u64,
}

/// All of them.
#[derive(Debug)]
pub struct People {
    names: Names,
    pids: HashMap<(u32, i32), usize, RandomState>,
    tids: HashMap<(u32, i32), usize, RandomState>,
    processes: Vec<Process>,
    threads: Vec<Thread>,
    /// The rows of threads of machines: the bound of rows keeps them below 2^32.
    recent: Box<Recent<(u32, i32), u32, RECENT>>,
    /// Who wrote the last packet: it often wrote the next one, too.
    last_writer: Option<((u32, i32), usize)>,
    /// What packets were written by nobody that is known.
    pub unknown_writers: Weight,
}

impl Default for People {
    fn default() -> Self {
        Self {
            names: Names::default(),
            pids: HashMap::default(),
            tids: HashMap::default(),
            processes: vec![Process::default()],
            threads: vec![Thread::default()],
            recent: Box::default(),
            last_writer: None,
            unknown_writers: Weight::default(),
        }
    }
}

impl People {
    /// Packets were written by this process.
    #[inline]
    pub fn wrote(&mut self, machine: u32, pid: Option<i32>, weight: Weight) {
        let Some(pid) = pid else { return self.unknown_writers.add_all(weight) };
        let row = match self.last_writer {
            Some((last, row)) if last == (machine, pid) => row,
            _ => {
                let row = self.process(machine, pid);
                self.last_writer = Some(((machine, pid), row));
                row
            }
        };
        if let Some(process) = self.processes.get_mut(row) {
            process.wrote.add_all(weight);
        }
    }

    /// The row of a process.
    pub fn process(&mut self, machine: u32, pid: i32) -> usize {
        if let Some(row) = self.pids.get(&(machine, pid)) {
            return *row;
        }
        if self.processes.len() >= MAX_ROWS {
            return OTHERS;
        }
        let row = self.processes.len();
        self.pids.insert((machine, pid), row);
        self.processes.push(Process { machine, pid, name: Name::NONE, ..Process::default() });
        row
    }

    /// The row of a thread.
    #[inline]
    pub fn thread(&mut self, machine: u32, tid: i32) -> usize {
        let (number, key) = (tid as u64, (machine, tid));
        if let Some(row) = self.recent.get(number, key) {
            return row as usize;
        }
        let row = self.search_thread(machine, tid);
        self.recent.put(number, key, row as u32);
        row
    }

    #[inline(never)]
    fn search_thread(&mut self, machine: u32, tid: i32) -> usize {
        if let Some(row) = self.tids.get(&(machine, tid)) {
            return *row;
        }
        if self.threads.len() >= MAX_ROWS {
            return OTHERS;
        }
        let row = self.threads.len();
        self.tids.insert((machine, tid), row);
        self.threads.push(Thread { machine, tid, name: Name::NONE, ..Thread::default() });
        row
    }

    /// A thread ran.
    #[inline]
    pub fn ran(&mut self, thread: usize, ns: u64) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.ran_ns = thread.ran_ns.saturating_add(ns);
        }
    }

    /// A process is called so.
    pub fn name_process(&mut self, process: usize, name: &[u8], trust: Trust) {
        if let Some(process) = self.processes.get_mut(process)
            && trust >= process.trust
            && !name.is_empty()
        {
            process.trust = trust;
            process.name = self.names.number(name);
        }
    }

    /// A thread is called so.
    pub fn name_thread(&mut self, thread: usize, name: &[u8], trust: Trust) {
        if let Some(thread) = self.threads.get_mut(thread)
            && trust >= thread.trust
            && !name.is_empty()
        {
            thread.trust = trust;
            thread.name = self.names.number(name);
        }
    }

    /// The kernel calls a thread so: it says it at every turn.
    #[inline]
    pub fn comm(&mut self, thread: usize, name: Option<Comm>) {
        let (Some(thread), Some(comm)) = (self.threads.get_mut(thread), name) else { return };
        if thread.trust <= Trust::Kernel {
            (thread.comm, thread.trust) = (comm, Trust::Kernel);
        }
    }

    /// A thread belongs to a process. If it belonged to another, this is another thread of the same number.
    pub fn belongs(&mut self, thread: usize, pid: i32) {
        let Some(row) = self.threads.get_mut(thread) else { return };
        match row.pid {
            None => row.pid = Some(pid),
            Some(known) if known == pid => {}
            Some(before) => {
                let (machine, ran_ns) = (row.machine, std::mem::take(&mut row.ran_ns));
                (row.pid, row.trust) = (Some(pid), Trust::Nobody);
                let process = self.process(machine, before);
                if let Some(process) = self.processes.get_mut(process) {
                    process.ran_ns = process.ran_ns.saturating_add(ran_ns);
                }
            }
        }
    }

    /// The process of a thread, as far as it is known.
    #[must_use]
    pub fn process_of(&self, thread: usize) -> Option<i32> {
        self.threads.get(thread).and_then(|thread| thread.pid)
    }

    /// All threads; the first row is that of the others.
    #[must_use]
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// All processes; the first row is that of the others.
    #[must_use]
    pub fn rows(&self) -> &[Process] {
        &self.processes
    }

    /// All processes, with what their threads ran: once, at the end; the first row is that of the others. A thread whose process nobody has named is one.
    #[must_use]
    pub fn processes(&mut self) -> &[Process] {
        for row in 0..self.threads.len() {
            let Some(thread) = self.threads.get(row).copied() else { continue };
            if thread.ran_ns == 0 {
                continue;
            }
            let process = match row {
                OTHERS => OTHERS,
                _ => self.process(thread.machine, thread.pid.unwrap_or(thread.tid)),
            };
            if thread.pid.unwrap_or(thread.tid) == thread.tid && thread.comm.0.first() != Some(&0) {
                let name = self.thread_name(row);
                self.name_process(process, &name, Trust::Nobody);
            }
            if let Some(process) = self.processes.get_mut(process) {
                process.ran_ns = process.ran_ns.saturating_add(thread.ran_ns);
            }
        }
        &self.processes
    }

    /// What a process is called.
    #[must_use]
    pub fn process_name(&self, machine: u32, pid: i32) -> Option<String> {
        let process = self.pids.get(&(machine, pid)).and_then(|row| self.processes.get(*row))?;
        let name = self.names.get(process.name);
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// What a thread is called; nothing if nobody has named it.
    #[must_use]
    pub fn thread_name(&self, thread: usize) -> Vec<u8> {
        let Some(thread) = self.threads.get(thread) else { return Vec::new() };
        match thread.trust {
            Trust::Nobody | Trust::Kernel => {
                thread.comm.0.iter().copied().take_while(|byte| *byte != 0).collect()
            }
            _ => self.names.get(thread.name).to_vec(),
        }
    }

    /// The row of a thread, if there is one.
    #[must_use]
    pub fn find_thread(&self, machine: u32, tid: i32) -> Option<usize> {
        self.tids.get(&(machine, tid)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_number_ran_before_it_came_again_belongs_to_the_process_of_that_time() {
        let mut people = People::default();
        let thread = people.thread(0, 7);
        people.belongs(thread, 5);
        people.comm(thread, Comm::of(b"one"));
        people.ran(thread, 10);
        people.belongs(thread, 7);
        people.comm(thread, Comm::of(b"two"));
        people.ran(thread, 3);
        let ran: Vec<_> = people.processes().iter().map(|process| (process.pid, process.ran_ns)).collect();
        assert_eq!(ran, [(0, 0), (5, 10), (7, 3)]);
        assert_eq!(people.process_name(0, 7).as_deref(), Some("two"));
    }

    #[test]
    fn a_name_gives_way_to_a_better_one_only() {
        let mut people = People::default();
        let thread = people.thread(0, 7);
        people.comm(thread, Comm::of(b"a name of the kernel's"));
        assert_eq!(people.thread_name(thread), b"a name of the ke");
        people.name_thread(thread, b"listed", Trust::List);
        people.comm(thread, Comm::of(b"comm"));
        assert_eq!(people.thread_name(thread), b"listed");
        people.name_thread(thread, b"said", Trust::ProgramsThread);
        people.name_thread(thread, b"listed again", Trust::List);
        assert_eq!(people.thread_name(thread), b"said");
    }

    #[test]
    fn names_of_any_length_are_padded() {
        let name = b"abcdefghijklmnopqrst";
        for len in 1..=name.len() {
            let mut expected = [0; COMM_BYTES];
            expected.iter_mut().zip(&name[..len]).for_each(|(to, from)| *to = *from);
            assert_eq!(Comm::of(&name[..len]), Some(Comm(expected)), "{len}");
        }
        assert_eq!(Comm::of(b""), None);
    }

    #[test]
    fn there_are_not_more_rows_than_the_bound() {
        let mut people = People::default();
        for number in 0..2 * MAX_ROWS as i32 {
            people.wrote(0, Some(number), Weight::of(1));
            let thread = people.thread(0, number);
            people.ran(thread, 1);
        }
        assert_eq!(people.processes().len(), MAX_ROWS);
        assert_eq!(people.processes().first().map(|others| others.wrote.count), Some(MAX_ROWS as u64 + 1));
    }
}
