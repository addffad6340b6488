//! Names of code that programs make while they run: Node's, Java's and others write them into `/tmp/perf-PID.map`, a line for each function, if they are
//! asked to (`node --perf-basic-prof`; tools/perf/Documentation/jit-interface.txt).
//!
//! ```text
//! START SIZE NAME          both in hexadecimal; lines are added at the end
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use rustix::io::Errno;

use crate::looks::{Identity, Looks, open_as_seen};
use crate::strangers::{Held, Kept, Whose, Work, own_time};

/// Of a process: a program of a million functions has some 60 MB of them.
const MAX_BYTES: u64 = 64 << 20;
/// Of a stranger's at once: what is read is taken apart between two samples.
const MAX_BYTES_AT_ONCE: u64 = 1 << 20;
const MAX_FUNCTIONS: usize = 1 << 20;
const MAX_NAME_BYTES: usize = 1024;
/// Bytes of a line that nobody waits for the end of.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Of a function, beside its name.
const FUNCTION_BYTES: usize = 96;
/// Processes that make code, of one user's and of all.
const MAX_PROCESSES_OF_A_STRANGER: usize = 64;
const MAX_PROCESSES: usize = 1024;
/// How often it is looked for further lines, when there is an address that no line has.
const LOOK_PERIOD: Duration = Duration::from_millis(250);

/// The code of all processes.
#[derive(Debug, Default)]
pub(crate) struct Jits {
    processes: HashMap<u32, Functions, RandomState>,
}

#[derive(Debug)]
struct Functions {
    /// By where they begin: where they end, and what they are called.
    by_start: BTreeMap<u64, (u64, Arc<str>)>,
    /// So much of the file was read: whole lines.
    read_bytes: u64,
    looked: Option<Instant>,
    whose: Whose,
    /// On whose account they are.
    held: Held,
}

impl Jits {
    /// The function at an address, as its process has said.
    pub(crate) fn name_of(&mut self, of: Identity, address: u64, looks: &mut Looks) -> Option<Arc<str>> {
        if !self.processes.contains_key(&of.pid) && !self.has_room(of.whose) {
            return None;
        }
        let functions = self.processes.entry(of.pid).or_insert_with(|| Functions::of(of.whose, looks));
        if let Some(name) = functions.find(address) {
            return Some(name);
        }
        if functions.looked.is_some_and(|looked| looked.elapsed() < LOOK_PERIOD) {
            return None;
        }
        functions.looked = Some(Instant::now());
        let from = functions.read_bytes;
        let opened = looks.open(of, move || open_map(of)).ok()??;
        if !is_its_own(of, opened.owner) {
            return None;
        }
        let at_once = if of.whose == Whose::Trusted { MAX_BYTES } else { MAX_BYTES_AT_ONCE };
        let more = looks.read(opened, move |file, left| {
            let most = left.bytes.min(at_once).min(MAX_BYTES.saturating_sub(from));
            let read = read_from(file, from, most);
            let bytes = read.as_ref().map_or(0, Vec::len) as u64;
            (read, bytes)
        });
        let (more, began) = (more.ok()??, own_time());
        functions.add(&more);
        // To take it apart takes longer than to read it.
        looks.books.spend(Work::Files, of.whose, own_time().saturating_sub(began), 0);
        functions.find(address)
    }

    pub(crate) fn exit(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Of all programs that have memory that is code only some say what it is called: the others make room.
    fn has_room(&mut self, whose: Whose) -> bool {
        let is_full = |all: &HashMap<u32, Functions, RandomState>| {
            let of_this = || all.values().filter(|functions| functions.whose == whose).count();
            all.len() >= MAX_PROCESSES || whose != Whose::Trusted && of_this() >= MAX_PROCESSES_OF_A_STRANGER
        };
        if is_full(&self.processes) {
            self.processes.retain(|_, functions| !functions.by_start.is_empty() || functions.whose != whose);
        }
        !is_full(&self.processes)
    }
}

impl Functions {
    fn of(whose: Whose, looks: &Looks) -> Self {
        let held = Held::none(&looks.books, Kept::Bytes, whose);
        Self { by_start: BTreeMap::new(), read_bytes: 0, looked: None, whose, held }
    }

    fn find(&self, address: u64) -> Option<Arc<str>> {
        let (_, (end, name)) = self.by_start.range(..=address).next_back()?;
        (address < *end).then(|| name.clone())
    }

    /// Lines, of which the last one may be written just now.
    fn add(&mut self, lines: &[u8]) {
        let whole = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines_of = || lines.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
        let found: Vec<_> =
            lines_of().filter_map(function).take(MAX_FUNCTIONS - self.by_start.len()).collect();
        let bytes: usize = found.iter().map(|(_, _, name)| FUNCTION_BYTES + name.len()).sum();
        if self.held.set(self.held.amount() + bytes) {
            // What is said later is there now: memory is used again.
            self.by_start.extend(found.into_iter().map(|(start, end, name)| (start, (end, name))));
        }
        // A line without an end is none, and is not read again.
        self.read_bytes += if lines.len() - whole >= MAX_LINE_BYTES { lines.len() } else { whole } as u64;
    }
}

fn function(line: &[u8]) -> Option<(u64, u64, Arc<str>)> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut hex = || {
        let text = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    };
    let (start, size) = (hex()?, hex()?);
    let name = words.next().filter(|name| !name.is_empty())?;
    let name = String::from_utf8_lossy(name.get(..MAX_NAME_BYTES).unwrap_or(name));
    Some((start, start.checked_add(size)?, name.into()))
}

/// The process's file, in its own `/tmp`, by its number there.
fn open_map(of: Identity) -> Result<File, Errno> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", of.pid))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).ok_or(Errno::NOENT)?;
    let own = numbers.split_ascii_whitespace().next_back().ok_or(Errno::NOENT)?;
    open_as_seen(of, format!("/tmp/perf-{own}.map").as_ref())
}

/// One that somebody else has put there is none.
fn is_its_own(of: Identity, owner: u32) -> bool {
    of.user == Some(owner) || owner == 0
}

fn read_from(mut file: File, from: u64, most: u64) -> Option<Vec<u8>> {
    let mut more = Vec::new();
    file.seek(SeekFrom::Start(from)).ok()?;
    file.take(most).read_to_end(&mut more).ok()?;
    Some(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(whose: Whose) -> Functions {
        Functions::of(whose, &Looks::default())
    }

    fn own() -> Identity {
        Looks::default().identify(std::process::id()).unwrap().unwrap()
    }

    #[test]
    fn lines_are_functions_and_the_last_said_counts() {
        let mut functions = functions(Whose::Trusted);
        functions.add(b"1000 10 first\n0x2000 20 LazyCompile:~a b /x.js:1\nbad\n1000 -1 x\n30");
        assert_eq!(functions.read_bytes, 63);
        functions.add(b"3000 8 third\n1000 8 again\n");
        let name = |address| functions.find(address).map(|name| name.to_string());
        assert_eq!(name(0x1000).as_deref(), Some("again"));
        assert_eq!(name(0x201f).as_deref(), Some("LazyCompile:~a b /x.js:1"));
        assert_eq!(name(0x3007).as_deref(), Some("third"));
        assert_eq!([0xfff, 0x1008, 0x2020].map(name), [None, None, None]);
    }

    #[test]
    fn a_process_names_its_own_code_only() {
        let (mut jits, mut looks, of) = (Jits::default(), Looks::default(), own());
        assert_eq!(jits.name_of(of, 0x1234, &mut looks), None);
        let path = format!("/tmp/perf-{}.map", of.pid);
        std::fs::write(&path, "1230 10 made_here\n").unwrap();
        assert_eq!(jits.name_of(of, 0x1234, &mut looks), None, "it was looked just now");
        jits.exit(of.pid);
        assert_eq!(jits.name_of(of, 0x1234, &mut looks).as_deref(), Some("made_here"));
        std::fs::remove_file(path).unwrap();
        assert_eq!(jits.name_of(of, 0x1239, &mut looks).as_deref(), Some("made_here"));
        assert_eq!(jits.name_of(Identity { pid: u32::MAX, ..of }, 0x1234, &mut looks), None);
        let user = rustix::process::geteuid().as_raw();
        assert!(is_its_own(of, user) && is_its_own(of, 0) && !is_its_own(of, user + 1));
    }

    #[test]
    fn a_line_without_an_end_is_read_once() {
        let mut functions = functions(Whose::Trusted);
        functions.add(&vec![b'x'; MAX_LINE_BYTES]);
        assert_eq!(functions.read_bytes, MAX_LINE_BYTES as u64);
        functions.add(b"30");
        assert_eq!(functions.read_bytes, MAX_LINE_BYTES as u64);
    }

    #[test]
    fn names_of_a_strangers_code_are_on_his_account() {
        let books = crate::strangers::FileBooks::default();
        let whose = Whose::Stranger(4_000_001);
        let mut functions = Functions::of(whose, &Looks::with(&books));
        functions.add(format!("1000 10 {}\n", "x".repeat(5000)).as_bytes());
        assert_eq!(books.kept(Kept::Bytes, whose), FUNCTION_BYTES + MAX_NAME_BYTES);
        let most = 256 << 20;
        let all = books.hold(Kept::Bytes, whose, most - FUNCTION_BYTES - MAX_NAME_BYTES).unwrap();
        functions.add(b"2000 10 more\n");
        assert!(functions.find(0x2000).is_none());
        drop((all, functions));
        assert_eq!(books.kept(Kept::Bytes, whose), 0);
    }

    #[test]
    fn a_strangers_processes_leave_room_for_others() {
        let (mut jits, looks) = (Jits::default(), Looks::default());
        let mut fill = |whose, count: u32, line: &[u8]| {
            (0..count)
                .filter(|n| {
                    jits.has_room(whose) && {
                        let mut functions = Functions::of(whose, &looks);
                        functions.add(line);
                        jits.processes.insert(*n + 1_000_000 * (line.len() as u32 + 1), functions).is_none()
                    }
                })
                .count()
        };
        let he = Whose::Stranger(4_000_001);
        assert_eq!(fill(he, 1000, b"1000 10 a\n"), MAX_PROCESSES_OF_A_STRANGER);
        assert_eq!(fill(Whose::Stranger(4_000_002), 10, b"1000 10 ab\n"), 10);
        assert_eq!(fill(Whose::Trusted, 3000, b""), 3000, "who says nothing makes room");
    }
}
