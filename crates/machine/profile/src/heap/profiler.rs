//! One that runs: events of rings in, dumps out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferretto_producer::TraceWriter;
use ferretto_shm::heap::{Alloc, MAX_HEAPS, Record};
use ferretto_symbols::demangle;
use ferretto_sys::{KernelClock, clock_ns};
use ferretto_unwind::{End, Registers};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::account::{Account, Amount, Room};
use super::config::Wanted;
use super::dump::{Dumper, Of};
use super::rings::{Counts, Event, LEN_BYTES, Rings};
use super::stacks::Stacks;
use super::summary::{Lost, ProcessLine, Site, Summary};
use crate::looks::Process;
use crate::packets::Interner;
use crate::processes::{Frame, Processes};
use crate::records::Stamp;

/// Processes of which there are accounts. Those of which nothing was ever sampled are not kept when they have ended.
const MAX_PROCESSES: usize = 64 << 10;
/// Heaps of all programs that a process has run: those of one, and as many.
const MAX_HEAPS_OF_A_PROCESS: usize = 2 * MAX_HEAPS;
/// Stacks of a process that are known by their addresses.
const MAX_KNOWN_STACKS: usize = 64 << 10;

/// How often it is looked at the end whether all rings are empty.
const FINISH_PERIOD: Duration = Duration::from_millis(1);

/// A session's.
#[derive(Debug)]
pub(crate) struct Profiler {
    wanted: Wanted,
    rings: Arc<Rings>,
    session: u64,
    /// Programs that write, by their numbers, and the processes that they are.
    programs: HashMap<u64, u32, RandomState>,
    processes: BTreeMap<u32, Profiled>,
    room: Room,
    code: Processes,
    stacks: Stacks,
    dumper: Dumper,
    writer: TraceWriter,
    next_dump: Option<Instant>,
    lost: Lost,
    summary: Arc<Mutex<Summary>>,
}

#[derive(Debug, Default)]
struct Profiled {
    name: String,
    /// By their names: several programs that it has run may have the same.
    heaps: Vec<(String, Account)>,
    /// Which of them the heaps of the program are that it runs, by their numbers.
    places: Vec<usize>,
    /// The numbers of stacks by their addresses, and whether they are whole, as long as what is mapped is the same.
    known: HashMap<Box<[u64]>, (u32, bool), RandomState>,
    /// The program that it runs.
    program: u64,
    runs: bool,
    /// From its first line on.
    from_startup: bool,
    is_broken: bool,
    samples_lost: bool,
    /// Of programs that it has run before, and of this one.
    counts: [Counts; 2],
    incomplete: u64,
    unwinding_us: u64,
    /// When the last dump was, or the first program began.
    since_ns: u64,
    is_dumped: bool,
}

impl Profiler {
    pub(crate) fn start(
        wanted: Wanted,
        rings: Arc<Rings>,
        mut writer: TraceWriter,
        summary: Arc<Mutex<Summary>>,
    ) -> Self {
        let session = rings.begin(&wanted);
        let mut dumper = Dumper::default();
        dumper.begin(&mut writer);
        let next_dump =
            wanted.dumps.map(|(phase, every)| Instant::now() + if phase.is_zero() { every } else { phase });
        Self {
            wanted,
            session,
            programs: HashMap::default(),
            processes: BTreeMap::new(),
            room: Room::default(),
            code: Processes::with(&rings.books),
            rings,
            stacks: Stacks::default(),
            dumper,
            writer,
            next_dump,
            lost: Lost::default(),
            summary,
        }
    }

    /// Takes what has come, and dumps if it is time.
    pub(crate) fn turn(&mut self) {
        for event in self.rings.take() {
            self.take(event);
        }
        let Some((_, every)) = self.wanted.dumps else { return };
        if self.next_dump.is_some_and(|at| Instant::now() >= at) {
            self.next_dump = Some(Instant::now() + every);
            // At the maximum there is one dump, at the end.
            if !self.wanted.at_max {
                self.dump_all(false);
                self.writer.flush();
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        self.turn();
        self.writer.flush();
    }

    pub(crate) fn clear(&mut self) {
        self.dumper.begin(&mut self.writer);
    }

    /// The last of it.
    pub(crate) fn finish(&mut self) {
        self.rings.end();
        while !self.rings.has_ended(self.session) {
            self.rings.take().into_iter().for_each(|event| self.take(event));
            std::thread::sleep(FINISH_PERIOD);
        }
        self.rings.take().into_iter().for_each(|event| self.take(event));
        self.dump_all(true);
        self.writer.flush();
        *self.summary.lock().unwrap_or_else(PoisonError::into_inner) = self.summary();
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Began { id, pid, said, from_startup } => self.begin(id, pid, said, from_startup),
            Event::Heap { id, name } => self.name_heap(id, name),
            Event::Maps { id, maps } => {
                if let Some(pid) = self.programs.get(&id)
                    && self.code.learn(*pid, &maps)
                    && let Some(process) = self.processes.get_mut(pid)
                {
                    process.known.clear();
                }
            }
            Event::Records { id, read_ns, records } => self.read(id, read_ns, &records),
            Event::Counts { id, counts } => {
                if let Some(process) = self.programs.get(&id).and_then(|pid| self.processes.get_mut(pid)) {
                    process.counts[1] = counts;
                    process.samples_lost |= counts.no_room + counts.table_full > 0;
                }
            }
            Event::Ended { id, is_broken } => self.end(id, is_broken),
            Event::Refused => self.lost.refused += 1,
        }
    }

    /// A program, which may be another one of a process that is known.
    fn begin(&mut self, id: u64, pid: u32, said: Process, from_startup: bool) {
        if !self.processes.contains_key(&pid) && self.processes.len() >= MAX_PROCESSES {
            self.lost.refused += 1;
            return;
        }
        let now_ns = clock_ns(KernelClock::MonotonicCoarse);
        let name = said.name.clone();
        self.programs.insert(id, pid);
        self.code.met(pid, said);
        self.code.adopt(pid);
        let process = self.processes.entry(pid).or_default();
        if process.since_ns == 0 {
            process.since_ns = now_ns;
        }
        process.places.clear();
        process.heaps.iter_mut().for_each(|(_, account)| account.begin_anew(now_ns, &mut self.room));
        let before = std::mem::take(&mut process.counts[1]);
        process.counts[0] = process.counts[0].and(before);
        process.known.clear();
        process.name = String::from_utf8_lossy(&name).into_owned();
        process.program = id;
        process.from_startup = from_startup;
        process.runs = true;
        process.is_dumped = false;
        let stamp = Stamp { pid, tid: pid, time_ns: clock_ns(KernelClock::Boot), cpu: 0 };
        Interner::name_thread(&mut self.writer.new_packet(), stamp, self.code.parent_of(pid), &name);
    }

    fn name_heap(&mut self, id: u64, name: String) {
        let Some(process) = self.programs.get(&id).and_then(|pid| self.processes.get_mut(pid)) else {
            return;
        };
        let known = process.heaps.iter().position(|(heap, _)| *heap == name);
        let place = known.unwrap_or(process.heaps.len());
        if place == process.heaps.len() && place < MAX_HEAPS_OF_A_PROCESS {
            process.heaps.push((name, Account::default()));
        }
        process.places.push(place);
    }

    fn read(&mut self, id: u64, read_ns: u64, mut records: &[u8]) {
        let Some(pid) = self.programs.get(&id).copied() else { return };
        while let Some((len, rest)) = records.split_first_chunk::<LEN_BYTES>() {
            let Some((record, rest)) = rest.split_at_checked(u32::from_ne_bytes(*len) as usize) else {
                return;
            };
            records = rest;
            match Record::parse(record) {
                Some(Record::Alloc(alloc, stack)) => self.allocate(pid, &alloc, stack, read_ns),
                Some(Record::Free { heap, address }) => {
                    let process = self.processes.get_mut(&pid);
                    if let Some(account) = process.and_then(|process| process.account(heap)) {
                        account.free(address, read_ns, &mut self.room);
                    }
                }
                None => {
                    if let Some(process) = self.processes.get_mut(&pid) {
                        process.is_broken = true;
                    }
                    return;
                }
            }
        }
    }

    fn allocate(&mut self, pid: u32, alloc: &Alloc, stack: &[u8], now_ns: u64) {
        let began = Instant::now();
        let ferretto_shm::heap::Registers { pc, sp, fp, lr } = alloc.registers;
        let (addresses, end) = self.code.walk(pid, Registers { pc, sp, fp, lr }, stack);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let (number, is_whole) = match process.known.get(addresses.as_slice()) {
            Some(known) => *known,
            None => {
                let (frames, end) = self.code.frames(pid, &addresses, end);
                let Some(number) = self.stacks.number(&frames) else {
                    self.lost.no_place += 1;
                    process.samples_lost = true;
                    return;
                };
                if process.known.len() < MAX_KNOWN_STACKS {
                    process.known.insert(addresses.into(), (number, end == End::Root));
                }
                (number, end == End::Root)
            }
        };
        process.incomplete += u64::from(!is_whole);
        process.unwinding_us += u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let room = &mut self.room;
        let account = process.account(alloc.heap);
        let is_kept = account
            .is_some_and(|account| account.allocate(alloc.address, number, alloc.weight, now_ns, room));
        if !is_kept {
            self.lost.no_place += 1;
            process.samples_lost = true;
        }
    }

    fn end(&mut self, id: u64, is_broken: bool) {
        let Some(pid) = self.programs.remove(&id) else { return };
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.program == id) else {
            return;
        };
        process.is_broken |= is_broken;
        process.runs = false;
        process.known = HashMap::default();
        process.heaps.iter_mut().for_each(|(_, account)| account.close(&mut self.room));
        self.code.exit(pid);
    }

    /// Of all that run, or have ended since.
    fn dump_all(&mut self, is_last: bool) {
        let now_ns = clock_ns(KernelClock::MonotonicCoarse);
        let Self { processes, dumper, writer, stacks, wanted, .. } = self;
        for (pid, process) in processes.iter_mut().filter(|(_, process)| process.runs || !process.is_dumped) {
            let start_ns = process.since_ns;
            for (place, (heap, account)) in process.heaps.iter_mut().enumerate() {
                // There is one dump of each process; a heap that nobody uses has none.
                if place > 0 && account.allocated.samples == 0 {
                    continue;
                }
                // Readers add up what the heaps of a process say.
                let once = |figure: u64| if place == 0 { figure } else { 0 };
                let end_ns = if process.runs { now_ns } else { account.last_ns.max(start_ns) };
                let of = Of {
                    pid: *pid,
                    heap,
                    from_startup: process.from_startup,
                    interval_bytes: wanted.interval_of(heap),
                    start_ns,
                    time_ns: if wanted.at_max { account.maximum_ns.max(start_ns) } else { end_ns },
                    at_max: wanted.at_max,
                    is_last: !process.runs || is_last,
                    is_broken: process.is_broken,
                    samples_lost: process.samples_lost,
                    samples: account.allocated.samples,
                    unwinding_errors: once(process.incomplete),
                    unwinding_us: once(process.unwinding_us),
                };
                dumper.dump(writer, account, stacks, &of);
                process.since_ns = process.since_ns.max(of.time_ns);
            }
            process.is_dumped = true;
        }
    }

    fn summary(&self) -> Summary {
        let mut summary =
            Summary { interval_bytes: self.wanted.interval_bytes, lost: self.lost, ..Summary::default() };
        let mut by_stack: HashMap<(&str, u32), [Amount; 3], RandomState> = HashMap::default();
        for (pid, process) in &self.processes {
            summary.incomplete += process.incomplete;
            summary.lost.broken += u64::from(process.is_broken);
            let counts = process.counts[0].and(process.counts[1]);
            summary.lost.add(counts);
            for (heap, account) in &process.heaps {
                summary.samples += account.allocated.samples;
                summary.processes.push(ProcessLine {
                    pid: *pid,
                    name: process.name.clone(),
                    heap: heap.clone(),
                    live_bytes: account.live_bytes,
                    maximum_bytes: account.maximum_bytes,
                    allocated_bytes: account.allocated.bytes,
                    samples: account.allocated.samples,
                });
                for (stack, site) in account.sites() {
                    let sums = by_stack.entry((heap, stack)).or_default();
                    for (sum, amount) in
                        sums.iter_mut().zip([site.live(), account.at_maximum(site), site.allocated])
                    {
                        *sum = sum.plus(amount);
                    }
                }
            }
        }
        summary.processes.sort_by(|a, b| b.maximum_bytes.cmp(&a.maximum_bytes).then(a.pid.cmp(&b.pid)));
        let sites = by_stack.into_iter().map(|((heap, stack), [live, maximum, allocated])| Site {
            heap: heap.to_owned(),
            functions: self.stacks.frames(stack).map(function).collect(),
            live_bytes: live.bytes,
            maximum_bytes: maximum.bytes,
            allocated_bytes: allocated.bytes,
            samples: allocated.samples,
        });
        summary.sites = sites.collect();
        summary
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        self.rings.abandon(self.session);
    }
}

impl Profiled {
    /// That of a heap of the program that it runs.
    fn account(&mut self, heap: u8) -> Option<&mut Account> {
        let place = *self.places.get(usize::from(heap))?;
        self.heaps.get_mut(place).map(|(_, account)| account)
    }
}

impl Counts {
    fn and(self, other: Self) -> Self {
        Self {
            no_room: self.no_room.saturating_add(other.no_room),
            table_full: self.table_full.saturating_add(other.table_full),
            frees_lost: self.frees_lost.saturating_add(other.frees_lost),
            foreign_stacks: self.foreign_stacks.saturating_add(other.foreign_stacks),
            unfinished: self.unfinished.saturating_add(other.unfinished),
        }
    }
}

impl Lost {
    fn add(&mut self, counts: Counts) {
        self.no_room = self.no_room.saturating_add(counts.no_room);
        self.table_full = self.table_full.saturating_add(counts.table_full);
        self.frees = self.frees.saturating_add(counts.frees_lost);
        self.foreign_stacks = self.foreign_stacks.saturating_add(counts.foreign_stacks);
        self.unfinished = self.unfinished.saturating_add(counts.unfinished);
    }
}

/// A frame's function, as people write it.
fn function(frame: &Frame) -> String {
    match (frame.name(), &frame.mapping) {
        (Some(name), _) => demangle(name),
        (None, Some(mapping)) => format!("[{}]", mapping.file.path.rsplit('/').next().unwrap_or_default()),
        (None, None) => "[no file]".to_owned(),
    }
}
