//! Which code each process has mapped, from the kernel's records, in the order of time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_unwind::{Cache, End, Mapping, Registers, Space};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::jit::Jits;
use crate::looks::{Identity, Looks, Process};
use crate::modules::{Module, Modules};
use crate::records::Map;
use crate::strangers::{FileBooks, Held, Kept, Refused, Whose, Work, own_time};

/// Processes at a time: as many as a kernel has numbers by itself (`pid_max` of 64-bit machines is 4 million; no program starts so many at once).
const MAX_PROCESSES: usize = 64 << 10;

/// Processes of which it is kept what was said when they were met, some ten kilobytes each.
const MAX_MET: usize = 4096;

/// A process counts as so many mappings beside those that it has.
const PROCESS_MAPPINGS: usize = 4;

/// An honest stack takes some ten microseconds. What a stranger's takes beyond this is on his account.
const FREE_STACK_TIME: Duration = Duration::from_micros(250);

/// All that live.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// Children have what their parents have until one of them maps something.
    spaces: HashMap<u32, Arc<Mapped>, RandomState>,
    parents: HashMap<u32, u32, RandomState>,
    identities: HashMap<u32, Known, RandomState>,
    modules: Modules,
    looks: Looks,
    jits: Jits,
    met: HashMap<u32, Process, RandomState>,
    /// Those of which not all could be read, and when it may be tried again.
    put_off: HashMap<u32, Instant, RandomState>,
    cache: Cache,
}

/// What a process has mapped, on the account of who it is.
#[derive(Debug)]
struct Mapped {
    space: Space<Arc<Module>>,
    held: Held,
}

/// Who a process is.
#[derive(Clone, Copy, Debug)]
struct Known {
    identity: Identity,
    /// It runs another program since: that may be another user's.
    is_old: bool,
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
    /// At whose cost what is read of strangers is.
    pub(crate) fn with(books: &FileBooks) -> Self {
        Self { looks: Looks::with(books), ..Self::default() }
    }

    pub(crate) fn map(&mut self, pid: u32, map: &Map<'_>) {
        if !self.spaces.contains_key(&pid) && self.spaces.len() >= MAX_PROCESSES {
            return;
        }
        let of = self.identity(pid);
        if of.whose == Whose::Trusted {
            return self.map_of(of, map);
        }
        if let Err(refused) = self.looks.books.left(Work::Files, of.whose) {
            return self.forget(of, map, refused);
        }
        let began = own_time();
        self.map_of(of, map);
        self.looks.books.spend(Work::Files, of.whose, own_time().saturating_sub(began), 0);
    }

    fn map_of(&mut self, of: Identity, map: &Map<'_>) {
        let file = self.modules.find(of, map.path, map.build_id, &mut self.looks);
        if let Some(refused) = file.refused {
            self.put_off(of.pid, refused);
        }
        let end = map.start.saturating_add(map.len);
        let mapping = Mapping { start: map.start, end, offset: map.offset, file: file.clone() };
        let is_mapped = self.own_space(of).is_some_and(|mapped| {
            let is_room = mapped.count_as(mapped.space.len() + 1);
            if is_room {
                mapped.space.map(mapping, file.elf());
                mapped.count();
            }
            is_room
        });
        if !is_mapped {
            let refused = self.looks.later();
            self.forget(of, map, refused);
        }
    }

    /// What is mapped there is not known until it may be looked at again.
    fn forget(&mut self, of: Identity, map: &Map<'_>, refused: Refused) {
        self.put_off(of.pid, refused);
        match self.spaces.get_mut(&of.pid).map(Arc::get_mut) {
            Some(Some(mapped)) => {
                mapped.space.unmap(map.start, map.start.saturating_add(map.len));
                mapped.count();
            }
            // To have one of its own would cost more than what there is.
            Some(None) => _ = self.spaces.insert(of.pid, Arc::new(Mapped::of(&self.looks.books, of.whose))),
            None => {}
        }
    }

    fn put_off(&mut self, pid: u32, refused: Refused) {
        if self.put_off.len() < MAX_PROCESSES {
            let until = self.put_off.entry(pid).or_insert(refused.until);
            *until = refused.until.min(*until);
        }
    }

    /// A space that no other process shares; nothing if there is none to be had for who it is.
    fn own_space(&mut self, of: Identity) -> Option<&mut Mapped> {
        let books = &self.looks.books;
        let mapped = self.spaces.entry(of.pid).or_insert_with(|| Arc::new(Mapped::of(books, of.whose)));
        if Arc::get_mut(mapped).is_none() {
            let mut own = Mapped::of(books, of.whose);
            if !own.count_as(mapped.space.len()) {
                return None;
            }
            own.space = mapped.space.clone();
            *mapped = Arc::new(own);
        }
        Arc::get_mut(mapped)
    }

    /// Who a process is: of one that is gone, who it was.
    fn identity(&mut self, pid: u32) -> Identity {
        let known = self.identities.get(&pid).copied();
        if let Some(known) = known.filter(|known| !known.is_old) {
            return known.identity;
        }
        let found = self.looks.identify(pid).ok().flatten();
        let before = || known.map_or_else(|| Identity::gone(pid, &self.looks.books), |known| known.identity);
        let identity = found.unwrap_or_else(before);
        self.know(identity);
        identity
    }

    fn know(&mut self, identity: Identity) {
        if self.identities.len() >= MAX_PROCESSES {
            self.identities.clear();
        }
        self.identities.insert(identity.pid, Known { identity, is_old: false });
    }

    /// Whether what a process has mapped is known as far as it may be now.
    pub(crate) fn knows(&self, pid: u32) -> bool {
        let is_due = || self.put_off.get(&pid).is_some_and(|until| Instant::now() >= *until);
        self.spaces.contains_key(&pid) && !is_due()
    }

    /// What `/proc` said of a process when it was met: it may be gone soon.
    pub(crate) fn met(&mut self, pid: u32, said: Process) {
        if self.met.len() >= MAX_MET {
            let whose = said.identity.whose;
            self.met.retain(|_, other| other.identity.whose != whose);
        }
        if self.met.len() >= MAX_MET {
            self.met.clear();
        }
        if said.identity.user.is_some() {
            self.know(said.identity);
        }
        self.met.insert(pid, said);
    }

    /// What was said of it is of no use.
    pub(crate) fn forget_what_was_said(&mut self, pid: u32) {
        self.met.remove(&pid);
    }

    /// One that ran before anything was recorded, or of which not all could be read then.
    pub(crate) fn adopt(&mut self, pid: u32) {
        if self.spaces.len() >= MAX_PROCESSES {
            // Those that still run are asked again.
            self.spaces.clear();
        }
        self.put_off.remove(&pid);
        let of = self.identity(pid);
        // Of one that has nothing mapped, which is the kernel's, that is known now.
        self.spaces.insert(pid, Arc::new(Mapped::of(&self.looks.books, of.whose)));
        let said = match self.met.remove(&pid).map_or_else(|| self.looks.process(pid), Ok) {
            Ok(said) => said,
            Err(refused) => return self.put_off(pid, refused),
        };
        self.learn(pid, &said.code);
        if let Some(parent) = said.parent
            && self.parents.len() < MAX_PROCESSES
        {
            self.parents.insert(pid, parent);
        }
    }

    /// What `/proc` says that a process has mapped by now; says whether anything is new. What is there as it was before stays.
    pub(crate) fn learn(&mut self, pid: u32, maps: &[u8]) -> bool {
        let mut is_new = false;
        for map in maps.split(|byte| *byte == b'\n').filter_map(code_in) {
            let is_known =
                self.spaces.get(&pid).and_then(|mapped| mapped.space.find(map.start)).is_some_and(|it| {
                    (it.start, it.end, it.offset)
                        == (map.start, map.start.saturating_add(map.len), map.offset)
                        && it.file.path.as_bytes() == map.path
                });
            if !is_known {
                self.map(pid, &map);
                is_new = true;
            }
        }
        is_new
    }

    /// What it was called with, up to what is its own to change; nothing if it may not be asked now.
    pub(crate) fn cmdline(&mut self, pid: u32) -> Option<Vec<u8>> {
        match self.met.get(&pid) {
            Some(said) => Some(said.cmdline.clone()),
            None => self.looks.process(pid).map(|said| said.cmdline).ok(),
        }
    }

    /// It runs another program from now on.
    pub(crate) fn exec(&mut self, pid: u32) {
        if let Some(known) = self.identities.get_mut(&pid) {
            known.is_old = true;
        }
        let whose = self
            .identities
            .get(&pid)
            .map_or_else(|| self.looks.books.unknown(), |known| known.identity.whose);
        self.put_off.remove(&pid);
        self.spaces.insert(pid, Arc::new(Mapped::of(&self.looks.books, whose)));
    }

    pub(crate) fn fork(&mut self, pid: u32, parent_pid: u32) {
        if self.parents.len() < MAX_PROCESSES {
            self.parents.insert(pid, parent_pid);
        }
        if let Some(parent) = self.identities.get(&parent_pid).copied() {
            self.know(parent.identity.child(pid));
        }
        if let Some(space) = self.spaces.get(&parent_pid).cloned()
            && self.spaces.len() < MAX_PROCESSES
        {
            self.spaces.insert(pid, space);
        }
        if let Some(until) = self.put_off.get(&parent_pid).copied() {
            self.put_off(pid, Refused { until });
        }
    }

    pub(crate) fn exit(&mut self, pid: u32) {
        self.spaces.remove(&pid);
        self.parents.remove(&pid);
        self.identities.remove(&pid);
        self.put_off.remove(&pid);
        self.met.remove(&pid);
        self.jits.exit(pid);
    }

    /// Who has started a process: of the first one nobody has said it, for that was this program.
    pub(crate) fn parent_of(&self, pid: u32) -> u32 {
        self.parents.get(&pid).copied().unwrap_or_else(std::process::id)
    }

    /// The frames of a thread's stack, innermost first.
    pub(crate) fn unwind(&mut self, pid: u32, registers: Registers, stack: &[u8]) -> (Vec<Frame>, End) {
        let of = self.identity(pid);
        if of.whose == Whose::Trusted {
            return self.unwind_of(of, registers, stack);
        }
        if self.looks.books.left(Work::Stacks, of.whose).is_err() {
            return self.frames_of(of, &[registers.pc], End::Lost);
        }
        let began = own_time();
        let unwound = self.unwind_of(of, registers, stack);
        let time = own_time().saturating_sub(began);
        if let Some(time) = time.checked_sub(FREE_STACK_TIME) {
            self.looks.books.spend(Work::Stacks, of.whose, time, 0);
        }
        unwound
    }

    fn unwind_of(&mut self, of: Identity, registers: Registers, stack: &[u8]) -> (Vec<Frame>, End) {
        let (addresses, end) = self.walk(of.pid, registers, stack);
        self.frames_of(of, &addresses, end)
    }

    /// The addresses of a thread's stack, innermost first. At nobody's cost.
    pub(crate) fn walk(&mut self, pid: u32, registers: Registers, stack: &[u8]) -> (Vec<u64>, End) {
        let none = Space::default();
        let space = self.spaces.get(&pid).map_or(&none, |mapped| &mapped.space);
        space.unwind(registers, stack, &mut self.cache)
    }

    /// What is at these addresses.
    pub(crate) fn frames(&mut self, pid: u32, addresses: &[u64], end: End) -> (Vec<Frame>, End) {
        let of = self.identity(pid);
        self.frames_of(of, addresses, end)
    }

    fn frames_of(&mut self, of: Identity, addresses: &[u64], end: End) -> (Vec<Frame>, End) {
        let none = Space::default();
        let space = self.spaces.get(&of.pid).map_or(&none, |mapped| &mapped.space);
        let (jits, looks) = (&mut self.jits, &mut self.looks);
        let frame = |address: &u64| {
            let mut frame = Frame::of(space, *address);
            if frame.is_in_no_file() {
                frame.made = jits.name_of(of, *address, looks);
            }
            frame
        };
        let mut frames: Vec<Frame> = addresses.iter().map(frame).collect();
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

impl Mapped {
    /// Nothing yet.
    fn of(books: &FileBooks, whose: Whose) -> Self {
        let mut mapped = Self { space: Space::default(), held: Held::none(books, Kept::Mappings, whose) };
        mapped.count();
        mapped
    }

    /// Whether it may have so many mappings.
    fn count_as(&mut self, mappings: usize) -> bool {
        self.held.set(PROCESS_MAPPINGS + mappings)
    }

    /// It has as many as it has, which is no more than before.
    fn count(&mut self) {
        let _ = self.count_as(self.space.len());
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

impl Frame {
    fn of(space: &Space<Arc<Module>>, address: u64) -> Self {
        let Some(mapping) = space.find(address) else { return Self { mapping: None, address, made: None } };
        let in_file = (address - mapping.start).wrapping_add(mapping.offset);
        let linked_at = mapping.file.elf().and_then(|elf| elf.address_of(in_file));
        Self { mapping: Some(mapping.clone()), address: linked_at.unwrap_or(in_file), made: None }
    }

    /// Nothing has called it but the kernel.
    fn is_first(&self) -> bool {
        let elf = self.mapping.as_ref().and_then(|mapping| mapping.file.elf());
        elf.is_some_and(|elf| elf.is_entry(self.address))
    }

    /// The function, as the linker calls it.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.made {
            Some(name) => Some(name),
            None => self.mapping.as_ref()?.file.elf()?.name_of(self.address),
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

    const HE: Whose = Whose::Stranger(4_000_001);

    /// Numbers that no processes have: the kernel has none beyond 4,194,304.
    const PIDS: [u32; 4] = [5_000_001, 5_000_002, 5_000_003, 5_000_004];

    fn of_him(pids: &[u32]) -> (Processes, FileBooks) {
        let books = FileBooks::default();
        let mut processes = Processes::with(&books);
        pids.iter().for_each(|pid| processes.know(Identity { pid: *pid, whose: HE, ..Identity::default() }));
        (processes, books)
    }

    #[test]
    fn mappings_of_a_strangers_processes_are_bounded_in_sum_and_given_back() {
        let [first, second, third, _] = PIDS;
        let (mut processes, books) = of_him(&PIDS[..2]);
        processes.map(first, &map(0x1000, b"//anon"));
        processes.map(first, &map(0x9000, b"//anon"));
        let one = 2 + PROCESS_MAPPINGS;
        assert_eq!(books.kept(Kept::Mappings, HE), one);
        processes.fork(third, first);
        assert_eq!(books.kept(Kept::Mappings, HE), one, "a child shares what its parent has");
        let most = 256 << 10;
        let all = books.hold(Kept::Mappings, HE, most - 2 * one + 1).unwrap();
        processes.map(third, &map(0x5000, b"//anon"));
        assert_eq!(path_at(&mut processes, third, 0x1010), None, "there is no room for its own");
        assert!(path_at(&mut processes, first, 0x1010).is_some());
        drop(all);
        processes.map(second, &map(0x1000, b"//anon"));
        assert!(path_at(&mut processes, second, 0x1010).is_some());
        PIDS.into_iter().for_each(|pid| processes.exit(pid));
        assert_eq!(books.kept(Kept::Mappings, HE), 0);
    }

    #[test]
    fn a_strangers_time_is_that_of_his_mappings_and_stacks_too() {
        let [first, ..] = PIDS;
        let (mut processes, books) = of_him(&PIDS[..1]);
        processes.map(first, &map(0x1000, b"/no/a"));
        assert!(processes.knows(first));
        books.spend(Work::Files, HE, crate::strangers::MEMORY, 0);
        processes.map(first, &map(0x1000, b"/no/b"));
        assert_eq!(path_at(&mut processes, first, 0x1010), None, "what was there is not there any more");
        processes.put_off.values_mut().for_each(|until| *until -= crate::strangers::MEMORY);
        assert!(!processes.knows(first), "it is asked again when there is time");
        processes.adopt(first);
        assert!(processes.knows(first));
        books.pass(crate::strangers::MEMORY);
        let registers = Registers { pc: 0x4000, sp: 0x1000, fp: 0x1000, lr: 0 };
        let stack: Vec<u8> = [0x2000u64, 0x5001, 0, 0].map(u64::to_ne_bytes).concat();
        let before = processes.unwind(first, registers, &stack).0.len();
        books.spend(Work::Stacks, HE, crate::strangers::MEMORY, 0);
        let (frames, end) = processes.unwind(first, registers, &stack);
        assert_eq!((frames.len(), frames[0].address), (1, 0x4000));
        assert!(end != End::Root && (before > 1 || !cfg!(target_arch = "x86_64")));
    }

    #[test]
    fn a_process_is_its_parents_users_until_it_runs_another_program() {
        let [first, second, _, unknown] = PIDS;
        let (mut processes, _) = of_him(&PIDS[..1]);
        processes.fork(second, first);
        assert_eq!(processes.identity(second).whose, HE);
        let own = std::process::id();
        processes.fork(own, first);
        assert_eq!(processes.identity(own).whose, HE);
        processes.exec(own);
        assert_eq!(processes.identity(own).whose, Whose::Trusted);
        processes.exec(second);
        assert_eq!(processes.identity(second).whose, HE, "it is gone: who it was is known");
        assert_eq!(processes.identity(unknown).whose, FileBooks::default().unknown());
    }
}
