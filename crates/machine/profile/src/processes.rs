//! Which code each process has mapped, from the kernel's records, in the order of time.

use std::sync::Arc;

use ferretto_unwind::{Cache, End, Mapping, Registers, Space};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::jit::Jits;
use crate::looks::{Looks, Process};
use crate::modules::{Module, Modules};
use crate::records::Map;

/// Processes at a time: as many as a kernel has numbers by itself (`pid_max` of 64-bit machines is 4 million; no program starts so many at once).
const MAX_PROCESSES: usize = 64 << 10;

/// Processes of which it is kept what was said when they were met, some ten kilobytes each.
const MAX_MET: usize = 4096;

/// All that live.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    spaces: HashMap<u32, Space<Arc<Module>>, RandomState>,
    parents: HashMap<u32, u32, RandomState>,
    modules: Modules,
    looks: Looks,
    jits: Jits,
    met: HashMap<u32, Process, RandomState>,
    cache: Cache,
}

/// A frame of a stack, of a program's own code.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The file, where it is mapped; nothing of code that is in no file.
    pub(crate) mapping: Option<Mapping<Arc<Module>>>,
    /// The address: in the file's own terms if it could be read, in terms of its bytes if not, and that of the process if there is no file.
    pub(crate) address: u64,
    /// Of code that the program has made while it ran.
    made: Option<Arc<str>>,
}

impl Processes {
    pub(crate) fn map(&mut self, pid: u32, map: &Map<'_>) {
        if !self.spaces.contains_key(&pid) && self.spaces.len() >= MAX_PROCESSES {
            return;
        }
        let file = self.modules.find(pid, map.path, map.build_id, &mut self.looks);
        let end = map.start.saturating_add(map.len);
        let mapping = Mapping { start: map.start, end, offset: map.offset, file: file.clone() };
        self.spaces.entry(pid).or_default().map(mapping, file.elf.as_ref());
    }

    /// Whether anything is known of what a process has mapped.
    pub(crate) fn knows(&self, pid: u32) -> bool {
        self.spaces.contains_key(&pid)
    }

    /// What `/proc` said of a process when it was met: it may be gone soon.
    pub(crate) fn met(&mut self, pid: u32, said: Process) {
        if self.met.len() >= MAX_MET {
            self.met.clear();
        }
        self.met.insert(pid, said);
    }

    /// What was said of it is of no use.
    pub(crate) fn forget_what_was_said(&mut self, pid: u32) {
        self.met.remove(&pid);
    }

    /// One that ran before anything was recorded.
    pub(crate) fn adopt(&mut self, pid: u32) {
        if self.spaces.len() < MAX_PROCESSES {
            // Of one that has nothing mapped, which is the kernel's, that is known now.
            self.spaces.insert(pid, Space::default());
        }
        let said = self.met.remove(&pid).unwrap_or_else(|| self.looks.process(pid));
        self.learn(pid, &said.maps);
        if let Some(parent) = parent_in(&said.stat)
            && self.parents.len() < MAX_PROCESSES
        {
            self.parents.insert(pid, parent);
        }
    }

    /// What `/proc` says that a process has mapped by now; says whether anything is new. What is there as it was before stays.
    pub(crate) fn learn(&mut self, pid: u32, maps: &[u8]) -> bool {
        let mut is_new = false;
        for map in maps.split(|byte| *byte == b'\n').filter_map(code_in) {
            let is_known = self.spaces.get(&pid).and_then(|space| space.find(map.start)).is_some_and(|it| {
                (it.start, it.end, it.offset) == (map.start, map.start.saturating_add(map.len), map.offset)
                    && it.file.path.as_bytes() == map.path
            });
            if !is_known {
                self.map(pid, &map);
                is_new = true;
            }
        }
        is_new
    }

    /// What it was called with, up to what is its own to change.
    pub(crate) fn cmdline(&mut self, pid: u32) -> Vec<u8> {
        match self.met.get(&pid) {
            Some(said) => said.cmdline.clone(),
            None => self.looks.process(pid).cmdline,
        }
    }

    /// It runs another program from now on.
    pub(crate) fn exec(&mut self, pid: u32) {
        self.spaces.insert(pid, Space::default());
    }

    pub(crate) fn fork(&mut self, pid: u32, parent_pid: u32) {
        if self.parents.len() < MAX_PROCESSES {
            self.parents.insert(pid, parent_pid);
        }
        if let Some(space) = self.spaces.get(&parent_pid).cloned()
            && self.spaces.len() < MAX_PROCESSES
        {
            self.spaces.insert(pid, space);
        }
    }

    pub(crate) fn exit(&mut self, pid: u32) {
        self.spaces.remove(&pid);
        self.parents.remove(&pid);
        self.met.remove(&pid);
        self.jits.exit(pid);
    }

    /// Who has started a process: of the first one nobody has said it, for that was this program.
    pub(crate) fn parent_of(&self, pid: u32) -> u32 {
        self.parents.get(&pid).copied().unwrap_or_else(std::process::id)
    }

    /// The frames of a thread's stack, innermost first.
    pub(crate) fn unwind(&mut self, pid: u32, registers: Registers, stack: &[u8]) -> (Vec<Frame>, End) {
        let (addresses, end) = self.walk(pid, registers, stack);
        self.frames(pid, &addresses, end)
    }

    /// The addresses of a thread's stack, innermost first.
    pub(crate) fn walk(&mut self, pid: u32, registers: Registers, stack: &[u8]) -> (Vec<u64>, End) {
        match self.spaces.get(&pid) {
            Some(space) => space.unwind(registers, stack, &mut self.cache),
            None => Space::<Arc<Module>>::default().unwind(registers, stack, &mut self.cache),
        }
    }

    /// What is at these addresses.
    pub(crate) fn frames(&mut self, pid: u32, addresses: &[u64], end: End) -> (Vec<Frame>, End) {
        let none = Space::default();
        let space = self.spaces.get(&pid).unwrap_or(&none);
        let mut frames = Vec::with_capacity(addresses.len());
        for address in addresses {
            let mut frame = Frame::of(space, *address);
            if frame.is_in_no_file() {
                frame.made = self.jits.name_of(pid, *address, &mut self.looks);
            }
            frames.push(frame);
        }
        match frames.iter().position(Frame::is_first) {
            Some(first) => {
                // What frame pointers lead to from there is none.
                frames.truncate(first + 1);
                (frames, End::Root)
            }
            None => (frames, end),
        }
    }
}

/// Code that a line of `/proc/PID/maps` tells of: range, rights, offset, device, inode and path (proc_pid_maps(5)).
fn code_in(line: &[u8]) -> Option<Map<'_>> {
    let mut rest = line;
    let mut word = || {
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind.trim_ascii_start();
        std::str::from_utf8(word).ok()
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-').and_then(|(start, end)| Some((hex(start)?, hex(end)?)))?;
    let rights = word()?;
    let offset = hex(word()?)?;
    let (_device, _inode) = (word()?, word()?);
    let len = end.checked_sub(start)?;
    let path = if rest.is_empty() { b"//anon" } else { rest };
    rights.contains('x').then_some(Map { start, len, offset, build_id: None, path })
}

/// The fourth field of `/proc/PID/stat`, two behind the name, which may have anything in it.
fn parent_in(stat: &[u8]) -> Option<u32> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    std::str::from_utf8(stat.get(end + 1..)?).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

impl Frame {
    fn of(space: &Space<Arc<Module>>, address: u64) -> Self {
        let Some(mapping) = space.find(address) else { return Self { mapping: None, address, made: None } };
        let in_file = (address - mapping.start).wrapping_add(mapping.offset);
        let linked_at = mapping.file.elf.as_ref().and_then(|elf| elf.address_of(in_file));
        Self { mapping: Some(mapping.clone()), address: linked_at.unwrap_or(in_file), made: None }
    }

    /// Nothing has called it but the kernel.
    fn is_first(&self) -> bool {
        let elf = self.mapping.as_ref().and_then(|mapping| mapping.file.elf.as_ref());
        elf.is_some_and(|elf| elf.is_entry(self.address))
    }

    /// The function, as the linker calls it.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.made {
            Some(name) => Some(name),
            None => self.mapping.as_ref()?.file.elf.as_ref()?.name_of(self.address),
        }
    }

    /// The name of code that the program has made while it ran.
    pub(crate) fn made(&self) -> Option<&Arc<str>> {
        self.made.as_ref()
    }

    /// Memory that is mapped as it is (`//anon`), is no mapping that is known, or is a file without a name.
    fn is_in_no_file(&self) -> bool {
        let path = self.mapping.as_ref().map_or("", |mapping| &mapping.file.path);
        path.is_empty() || ["//anon", "[anon", "[heap]", "/memfd:"].iter().any(|kind| path.starts_with(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, path: &[u8]) -> Map<'_> {
        Map { start, len: 0x1000, offset: 0x2000, build_id: None, path }
    }

    fn path_at(processes: &mut Processes, pid: u32, pc: u64) -> Option<String> {
        let (frames, _) = processes.unwind(pid, Registers { pc, ..Registers::default() }, &[]);
        frames[0].mapping.as_ref().map(|mapping| mapping.file.path.clone())
    }

    #[test]
    fn children_have_what_their_parents_had_until_they_run_another_program() {
        let mut processes = Processes::default();
        processes.map(1, &map(0x1000, b"/no/a"));
        processes.fork(2, 1);
        processes.map(1, &map(0x1000, b"/no/b"));
        assert_eq!(path_at(&mut processes, 2, 0x1010).as_deref(), Some("/no/a"));
        assert_eq!((processes.parent_of(2), processes.parent_of(1)), (1, std::process::id()));
        assert_eq!(path_at(&mut processes, 1, 0x1010).as_deref(), Some("/no/b"));
        processes.exec(2);
        assert_eq!(path_at(&mut processes, 2, 0x1010), None);
        processes.exit(1);
        assert_eq!(path_at(&mut processes, 1, 0x1010), None);
        let (frames, _) = processes.unwind(3, Registers { pc: 0x77, ..Registers::default() }, &[]);
        assert_eq!((frames[0].address, frames[0].name()), (0x77, None));
    }

    #[test]
    fn lines_of_maps_are_read() {
        let line = b"7f00-8000 r-xp 00001000 fe:00 1234                       /a b/lib c.so (deleted)";
        let map = Map {
            start: 0x7f00,
            len: 0x100,
            offset: 0x1000,
            build_id: None,
            path: b"/a b/lib c.so (deleted)",
        };
        assert_eq!(code_in(line), Some(map));
        assert_eq!(code_in(b"7f00-8000 r-xp 00000000 00:00 0 ").unwrap().path, b"//anon");
        for line in [
            &b""[..],
            b"7f00-8000",
            b"7f00-8000 rw-p 0 00:00 0",
            b"8000-7f00 r-xp 0 00:00 0",
            b"x-y r-xp 0 0 0",
        ] {
            assert_eq!(code_in(line), None);
        }
        assert_eq!(parent_in(b"12 (a) b (c) S 34 5"), Some(34));
        assert_eq!(parent_in(b"12"), None);
    }

    #[test]
    fn a_frame_of_this_program_has_its_name() {
        let (mut processes, pid) = (Processes::default(), std::process::id());
        assert!(!processes.knows(pid));
        processes.adopt(pid);
        assert!(processes.knows(pid) && processes.parent_of(pid) == std::os::unix::process::parent_id());
        let pc = a_frame_of_this_program_has_its_name as fn() as usize as u64;
        let (frames, _) = processes.unwind(pid, Registers { pc, ..Registers::default() }, &[]);
        let name = ferretto_symbols::demangle(frames[0].name().unwrap());
        assert!(name.ends_with("a_frame_of_this_program_has_its_name"), "{name}");
    }
}
