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
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::looks::Looks;
use crate::modules::open;

/// Of a process: a program of a million functions has some 60 MB of them.
const MAX_BYTES: u64 = 64 << 20;
const MAX_FUNCTIONS: usize = 1 << 20;
const MAX_NAME_BYTES: usize = 1024;
/// Processes that make code.
const MAX_PROCESSES: usize = 64;
/// How often it is looked for further lines, when there is an address that no line has.
const LOOK_PERIOD: Duration = Duration::from_millis(250);

/// The code of all processes.
#[derive(Debug, Default)]
pub(crate) struct Jits {
    processes: HashMap<u32, Functions, RandomState>,
}

#[derive(Debug, Default)]
struct Functions {
    /// By where they begin: where they end, and what they are called.
    by_start: BTreeMap<u64, (u64, Arc<str>)>,
    /// So much of the file was read: whole lines.
    read_bytes: u64,
    looked: Option<Instant>,
}

impl Jits {
    /// The function at an address, as its process has said.
    pub(crate) fn name_of(&mut self, pid: u32, address: u64, looks: &mut Looks) -> Option<Arc<str>> {
        if !self.processes.contains_key(&pid) && self.processes.len() >= MAX_PROCESSES {
            return None;
        }
        let functions = self.processes.entry(pid).or_default();
        if let Some(name) = functions.find(address) {
            return Some(name);
        }
        if functions.looked.is_some_and(|looked| looked.elapsed() < LOOK_PERIOD) {
            return None;
        }
        functions.looked = Some(Instant::now());
        let from = functions.read_bytes;
        let more = looks.file(pid, move || open_map(pid), move |file| read_from(file, from))?;
        functions.add(&more);
        functions.find(address)
    }

    pub(crate) fn exit(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }
}

impl Functions {
    fn find(&self, address: u64) -> Option<Arc<str>> {
        let (_, (end, name)) = self.by_start.range(..=address).next_back()?;
        (address < *end).then(|| name.clone())
    }

    /// Lines, of which the last one may be written just now.
    fn add(&mut self, lines: &[u8]) {
        let whole = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in lines.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n') {
            if let Some((start, end, name)) = function(line)
                && self.by_start.len() < MAX_FUNCTIONS
            {
                // What is said later is there now: memory is used again.
                self.by_start.insert(start, (end, name));
            }
        }
        self.read_bytes += whole as u64;
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

/// The process's file, in its own `/tmp`, by its number there. One that somebody else has put there is none.
fn open_map(pid: u32) -> Option<File> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let own = numbers.split_ascii_whitespace().next_back()?;
    let file = open(format!("/proc/{pid}/root/tmp/perf-{own}.map").as_ref())?;
    let owner = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let found = file.metadata().ok()?.uid();
    (found == owner || found == 0).then_some(file)
}

fn read_from(mut file: File, from: u64) -> Option<Vec<u8>> {
    let mut more = Vec::new();
    file.seek(SeekFrom::Start(from)).ok()?;
    file.take(MAX_BYTES.saturating_sub(from)).read_to_end(&mut more).ok()?;
    Some(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_functions_and_the_last_said_counts() {
        let mut functions = Functions::default();
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
        let pid = std::process::id();
        let (mut jits, mut looks) = (Jits::default(), Looks::default());
        assert_eq!(jits.name_of(pid, 0x1234, &mut looks), None);
        let path = format!("/tmp/perf-{pid}.map");
        std::fs::write(&path, "1230 10 made_here\n").unwrap();
        assert_eq!(jits.name_of(pid, 0x1234, &mut looks), None, "it was looked just now");
        jits.exit(pid);
        assert_eq!(jits.name_of(pid, 0x1234, &mut looks).as_deref(), Some("made_here"));
        std::fs::remove_file(path).unwrap();
        assert_eq!(jits.name_of(pid, 0x1239, &mut looks).as_deref(), Some("made_here"));
        assert_eq!(jits.name_of(u32::MAX, 0x1234, &mut looks), None);
    }
}
