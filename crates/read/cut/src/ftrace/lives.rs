//! When the kernel's numbers of threads became those of others.
//!
//! A thread that ends leaves its last state open for ever, and so does one whose number another has from then on, as readers see it (upstream:
//! process_tracker.cc): a thread was made or ended; its process's main thread did; the list of processes names another parent, which v52 takes
//! for another process. Packets that say so are all kept, so that a cut has the same threads; this tells which of their states it must have.
//!
//! Memory: [`MAX_FACTS`].

use std::collections::BTreeMap;

use ferretto_protos::fields::process_tree as field;
use ferretto_protos::fields::process_tree::{process as process_field, thread as thread_field};
use ferretto_trace_read::fields::{Fields, Value};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

/// What was said of threads and processes. Ours, 32 bytes each: further ends and begins are not followed, which is counted.
const MAX_FACTS: usize = 1 << 19;
/// `CLONE_THREAD`: the new task is a thread of the process that makes it.
const CLONE_THREAD: u64 = 0x10000;

/// A thread's number on a machine.
pub(crate) type ThreadKey = (u32, i32);

/// What is said of a thread or a process.
#[derive(Clone, Copy, Debug)]
enum Said {
    /// Another has made it: a thread of its own process, or of a new one.
    Made {
        by: i32,
        is_thread: bool,
    },
    Ended,
    /// It is a process with this parent.
    Process {
        parent: i32,
    },
    /// It is a thread of this process.
    Thread {
        process: i32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Fact {
    machine: u32,
    ts: i64,
    number: i32,
    said: Said,
}

/// Everything that was said before a range.
#[derive(Debug)]
pub(crate) struct Lives {
    until: i64,
    facts: Vec<Fact>,
    pub(crate) beyond: u64,
}

impl Lives {
    pub(crate) fn new(until: i64) -> Self {
        Self { until, facts: Vec::new(), beyond: 0 }
    }

    /// `task_newtask`.
    pub(crate) fn made(&mut self, thread: ThreadKey, ts: i64, by: i32, clone_flags: u64) {
        self.add(thread, ts, Said::Made { by, is_thread: clone_flags & CLONE_THREAD != 0 });
    }

    /// `sched_process_free`.
    pub(crate) fn ended(&mut self, thread: ThreadKey, ts: i64) {
        self.add(thread, ts, Said::Ended);
    }

    /// A list of processes and threads.
    pub(crate) fn listed(&mut self, machine: u32, tree: &[u8], ts: i64) {
        for part in Fields::new(tree).whole() {
            let Value::Bytes(bytes) = part.value else { continue };
            let number = |field: u32| {
                let part = Fields::new(bytes).whole().find(|part| part.number == field);
                part.and_then(|part| part.value.as_u64()).unwrap_or(0) as i32
            };
            match part.number {
                field::PROCESSES => {
                    let parent = number(process_field::PPID);
                    self.add((machine, number(process_field::PID)), ts, Said::Process { parent });
                }
                field::THREADS => {
                    let process = number(thread_field::TGID);
                    self.add((machine, number(thread_field::TID)), ts, Said::Thread { process });
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, (machine, number): ThreadKey, ts: i64, said: Said) {
        if ts >= self.until || number == 0 {
            return;
        }
        match self.facts.len() < MAX_FACTS {
            true => self.facts.push(Fact { machine, ts, number, said }),
            false => self.beyond += 1,
        }
    }

    /// Of each thread the times from which on its number was another's.
    pub(crate) fn bounds(&mut self) -> BTreeMap<ThreadKey, Bounds> {
        let mut facts = std::mem::take(&mut self.facts);
        facts.sort_by_key(|fact| fact.ts);
        let mut machines: HashMap<u32, Processes, RandomState> = HashMap::default();
        let mut bounds = BTreeMap::<ThreadKey, Bounds>::new();
        for Fact { machine, ts, number, said } in facts {
            let is_made = matches!(said, Said::Made { .. });
            machines.entry(machine).or_default().take(number, said, |thread| {
                let bounds = bounds.entry((machine, thread)).or_default();
                bounds.is_again |= bounds.is_over(ts) || is_made && !bounds.times.is_empty();
                if !is_made || thread != number {
                    bounds.first_end.get_or_insert(ts);
                }
                bounds.times.push(ts);
            });
        }
        bounds
    }
}

/// When a number became another's.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) times: Vec<i64>,
    first_end: Option<i64>,
    /// Something of that number was made or ended after it had ended.
    is_again: bool,
}

impl Bounds {
    /// More than one thread had the number, of which something happens as late as this.
    pub(crate) fn are_of_several(&self, last: Option<i64>) -> bool {
        self.is_again || last.is_some_and(|last| self.is_over(last))
    }

    fn is_over(&self, ts: i64) -> bool {
        self.first_end.is_some_and(|end| end < ts)
    }
}

/// A process, among all that had its number.
type Upid = u32;

/// Who is who on a machine.
#[derive(Debug, Default)]
struct Processes {
    count: Upid,
    numbers: HashMap<i32, Upid, RandomState>,
    parents: HashMap<Upid, Upid, RandomState>,
    threads: HashMap<i32, Option<Upid>, RandomState>,
    members: HashMap<Upid, HashSet<i32, RandomState>, RandomState>,
}

impl Processes {
    /// Calls `each` with the threads whose number is another's from now on.
    fn take(&mut self, number: i32, said: Said, mut each: impl FnMut(i32)) {
        match said {
            Said::Made { by, is_thread: true } => {
                let of = self.threads.get(&by).copied().flatten();
                each(number);
                self.set(number, of);
            }
            Said::Made { by, is_thread: false } => {
                let parent = self.threads.get(&by).copied().flatten();
                each(number);
                self.threads.remove(&number);
                self.end_process(number, &mut each);
                let upid = self.start(number);
                if let Some(parent) = parent {
                    self.parents.insert(upid, parent);
                }
            }
            Said::Ended => {
                let of = self.threads.remove(&number).flatten();
                each(number);
                if of.is_some() && of == self.numbers.get(&number).copied() {
                    self.end_process(number, &mut each);
                }
            }
            Said::Process { parent } => {
                let parent = self.process(parent);
                let upid = self.process(number);
                match self.parents.get(&upid) {
                    Some(before) if *before != parent => {
                        self.end_process(number, &mut each);
                        let upid = self.start(number);
                        self.parents.insert(upid, parent);
                    }
                    _ => {
                        self.parents.insert(upid, parent);
                    }
                }
            }
            Said::Thread { process } => {
                let upid = self.process(process);
                match self.threads.get(&number) {
                    Some(Some(before)) if *before != upid => each(number),
                    _ => {}
                }
                self.set(number, Some(upid));
            }
        }
    }

    fn process(&mut self, number: i32) -> Upid {
        match self.numbers.get(&number) {
            Some(upid) => *upid,
            None => self.start(number),
        }
    }

    fn start(&mut self, number: i32) -> Upid {
        self.count = self.count.wrapping_add(1);
        self.numbers.insert(number, self.count);
        self.set(number, Some(self.count));
        self.count
    }

    fn set(&mut self, thread: i32, of: Option<Upid>) {
        let before = self.threads.insert(thread, of).flatten();
        if let Some(members) = before.and_then(|before| self.members.get_mut(&before)) {
            members.remove(&thread);
        }
        if let Some(upid) = of {
            self.members.entry(upid).or_default().insert(thread);
        }
    }

    /// All threads of a process end with it.
    fn end_process(&mut self, number: i32, each: &mut impl FnMut(i32)) {
        let Some(upid) = self.numbers.remove(&number) else { return };
        for thread in self.members.remove(&upid).unwrap_or_default() {
            if self.threads.get(&thread) == Some(&Some(upid)) {
                self.threads.remove(&thread);
                each(thread);
            }
        }
    }
}
