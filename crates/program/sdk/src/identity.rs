//! What a trace says about this process and its threads, and the numbers that tell their tracks apart.

use std::sync::{Mutex, OnceLock, PoisonError};

use ferretto_protozero::fnv::fnv1a;
use ferretto_sys::read_file;

use crate::builder::settings;
use crate::runtime::{self, Held};

/// What a trace says about this process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) uuid: u64,
    pub(crate) name: Option<String>,
    pub(crate) cmdline: Vec<String>,
    /// Its tracks are not to be merged with the kernel's.
    pub(crate) is_apart: bool,
}

/// The processes that this one was, one after another: a child process inherits what its parents said of themselves.
struct Life {
    generation: u32,
    process: Process,
    next: OnceLock<Box<Self>>,
}

static LIVES: OnceLock<Life> = OnceLock::new();
/// Held while a life is described, so that a child process does not inherit a half of it.
static DESCRIBING: Mutex<()> = Mutex::new(());

pub(crate) fn lock_for_fork() -> Box<dyn Held> {
    Box::new(DESCRIBING.lock().unwrap_or_else(PoisonError::into_inner))
}

/// This process. A child of a fork is another one.
pub(crate) fn process() -> &'static Process {
    let generation = runtime::generation();
    let mut life = LIVES.get().unwrap_or_else(|| describe(|| LIVES.get_or_init(|| Life::new(generation))));
    while life.generation != generation {
        let next = &life.next;
        life =
            next.get().unwrap_or_else(|| describe(|| next.get_or_init(|| Box::new(Life::new(generation)))));
    }
    &life.process
}

fn describe<R>(describe: impl FnOnce() -> R) -> R {
    let _describing = DESCRIBING.lock().unwrap_or_else(PoisonError::into_inner);
    describe()
}

impl Life {
    fn new(generation: u32) -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let stat = read_file(c"/proc/self/stat");
        let cmdline = arguments(&read_file(c"/proc/self/cmdline"));
        let settings = settings();
        // A child process is another process, whatever was chosen for its parent.
        let chosen = settings.process_uuid.filter(|_| generation == 0);
        let uuid = chosen.unwrap_or_else(|| process_uuid(pid, &String::from_utf8_lossy(&stat)));
        let name = settings.process_name.clone().or_else(|| cmdline.first().cloned());
        let is_apart = settings.disallow_merging_with_system_tracks;
        Self { generation, process: Process { pid, uuid, name, cmdline, is_apart }, next: OnceLock::new() }
    }
}

/// The operating system's id of this thread.
pub(crate) fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// The kernel cuts names of threads off here.
const MAX_KERNEL_NAME: usize = 15;

/// This thread's name. The standard library is asked only for what the kernel has cut off: a thread that is interrupted by a signal before
/// the library knows it must not ask (the process would end).
pub(crate) fn thread_name() -> Option<String> {
    let name = rustix::thread::name().ok()?;
    let name = name.as_bytes();
    let full = match name.len() {
        MAX_KERNEL_NAME => std::thread::current().name().map(str::to_owned),
        _ => None,
    };
    // The first thread is "main" to the library, whatever its name; and names can be changed.
    let full = full.filter(|full| full.as_bytes().starts_with(name));
    Some(full.unwrap_or_else(|| String::from_utf8_lossy(name).into_owned()))
}

/// The track of a thread of this process.
pub(crate) fn thread_uuid(tid: i32) -> u64 {
    process().uuid ^ u64::from(tid.cast_unsigned())
}

/// Two processes of one trace must differ even if the second got the first one's id.
fn process_uuid(pid: i32, stat: &str) -> u64 {
    // The name, in parentheses, may hold anything; the start time is the 20th field behind it (proc(5)).
    let start_time =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19)).unwrap_or_default();
    fnv1a(format!("{start_time}:{pid}").as_bytes())
}

fn arguments(cmdline: &[u8]) -> Vec<String> {
    let mut arguments = Vec::new();
    for argument in cmdline.split(|byte| *byte == 0).filter(|argument| !argument.is_empty()) {
        arguments.push(String::from_utf8_lossy(argument).into_owned());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_apart_by_its_start_time() {
        let stat =
            |start: u32| format!("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 {start} 20 21");
        assert_eq!(process_uuid(7, &stat(100)), process_uuid(7, &stat(100)));
        assert_ne!(process_uuid(7, &stat(100)), process_uuid(7, &stat(101)));
        assert_ne!(process_uuid(7, &stat(100)), process_uuid(8, &stat(100)));
    }

    #[test]
    fn this_process_is_described() {
        assert_eq!(process().pid, std::process::id() as i32);
        assert!(!process().cmdline.is_empty());
        let names = ["short", "fifteen bytes: x", "longer than the kernel keeps", "gekürzt mitten im ä"];
        for name in names {
            let named = std::thread::Builder::new().name(name.to_owned()).spawn(thread_name).unwrap();
            assert_eq!(named.join().unwrap().as_deref(), Some(name));
        }
        assert_eq!(arguments(b"a\0-b\0\0"), ["a", "-b"]);
    }
}
