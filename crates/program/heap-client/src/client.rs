//! What is asked at each call of the allocator.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ferretto_shm::heap::{ALIGN_BYTES, Alloc, Counter, FREE_WORDS, HeapName, MAX_STACK_BYTES, Record, State};

use crate::attach::{Attached, attach, attach_first, wipe_on_fork, wiped_memory};
use crate::heaps::{self, MAIN};
use crate::ring::{For, RingWriter, Room};
use crate::sampler::Sampler;
use crate::stack;
use crate::table::{self, CELLS, SLOTS, Table};
use crate::thread::{self, Thread};

/// What a child does not have from its parent: the kernel wipes it at a fork. Whole pages.
#[repr(C, align(4096))]
struct OfThisProcess {
    cells: [AtomicU8; CELLS],
    base: AtomicPtr<u8>,
    ring_bytes: AtomicUsize,
    progress: AtomicU32,
    /// The session that it writes for, or does not; 0 is none.
    session: AtomicU64,
    /// The one for which a child has asked for a ring.
    asked: AtomicU64,
}

static OF_THIS_PROCESS: OfThisProcess = OfThisProcess {
    cells: [const { AtomicU8::new(0) }; CELLS],
    base: AtomicPtr::new(core::ptr::null_mut()),
    ring_bytes: AtomicUsize::new(0),
    progress: AtomicU32::new(NOT_ATTACHED),
    session: AtomicU64::new(0),
    asked: AtomicU64::new(0),
};

/// How far this process is. What a child begins with is 0.
const NOT_ATTACHED: u32 = 0;
/// A thread attaches, or follows from one session to the next: others have no ring meanwhile.
const BUSY: u32 = 1;
const ATTACHED: u32 = 2;
const REFUSED: u32 = 3;

/// Slots of the table, wiped at a fork as well; null before there are samples.
static SLOTS_AT: AtomicPtr<[AtomicU64; SLOTS]> = AtomicPtr::new(core::ptr::null_mut());
/// Which session there is, of a profiler who has some later on; else null. Children have it, too.
static SESSION_PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// Bytes between samples, the least of all heaps; what a child has, too, until it is told another. Or one of those below.
static INTERVAL: AtomicU64 = AtomicU64::new(NOT_STARTED);
static MAX_STACK: AtomicUsize = AtomicUsize::new(0);

/// Nobody has called [`start`]: the program's loader allocates.
const NOT_STARTED: u64 = 0;
/// Nobody profiles this program.
const NEVER: u64 = u64::MAX;
/// Nobody does now; somebody may later on.
const NOBODY_NOW: u64 = u64::MAX - 1;
/// Somebody starts it.
const STARTING: u64 = u64::MAX - 2;
/// Then each thread looks once in so many bytes whether a session has begun: a look takes some nanoseconds.
const LOOK_BYTES: i64 = 4096;
/// From here on it is no interval.
const NO_INTERVAL: u64 = i64::MAX as u64;
/// A countdown that no program comes to the end of.
const FOR_EVER: i64 = i64::MAX;

/// Whether a block of so many bytes can be allocated as if nobody profiled.
#[inline(always)]
#[must_use]
pub fn passes(size: usize) -> bool {
    thread::with(|thread| {
        // The countdown is never below 0.
        let (left, size) = (thread.left.get().cast_unsigned(), size as u64);
        if left > size {
            thread.left.set((left - size).cast_signed());
            return true;
        }
        false
    })
}

/// Whether the block at an address can be freed as if nobody profiled.
#[inline(always)]
#[must_use]
pub fn is_unsampled(address: *const c_void) -> bool {
    is_unsampled_key(address as u64)
}

/// The same of what the table knows as a key.
#[inline(always)]
pub(crate) fn is_unsampled_key(key: u64) -> bool {
    table::is_unsampled(&OF_THIS_PROCESS.cells, key)
}

/// Before the program's first line, or in it: profiles it, if the environment names a profiler who answers. The name is that of the allocator's own heap.
pub fn start(name: &HeapName) {
    if INTERVAL.compare_exchange(NOT_STARTED, STARTING, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    stack::start();
    heaps::name_main(name);
    if begin().is_none() {
        INTERVAL.store(NEVER, Ordering::Relaxed);
    }
}

/// Asks for a ring; what a child must not have is wiped from here on.
fn begin() -> Option<()> {
    let found = attach_first()?;
    let bytes = size_of::<OfThisProcess>();
    let slots = wiped_memory(size_of::<[AtomicU64; SLOTS]>())?;
    wipe_on_fork((&raw const OF_THIS_PROCESS).cast_mut().cast(), bytes).then_some(())?;
    SLOTS_AT.store(slots.cast(), Ordering::Release);
    OF_THIS_PROCESS.progress.store(BUSY, Ordering::Relaxed);
    take(&found).map(|_| ())
}

/// Whether [`start`] was called.
#[inline(always)]
pub(crate) fn is_started() -> bool {
    INTERVAL.load(Ordering::Relaxed) != NOT_STARTED
}

/// Another client has this process: this one makes no samples, and [`start`] does nothing.
pub(crate) fn stand_back() {
    INTERVAL.store(NEVER, Ordering::Relaxed);
}

/// No block passes that is freed: another client knows which ones were samples.
pub(crate) fn ask_at_each_free() {
    OF_THIS_PROCESS.cells.iter().for_each(|cell| cell.store(1, Ordering::Relaxed));
}

/// Allocates by `real` a block that did not pass, and makes a sample of it if it is one.
pub fn allocated(size: usize, real: impl FnOnce() -> *mut c_void) -> *mut c_void {
    thread::with(|thread| {
        let weight = weigh(thread, MAIN, size as u64);
        let block = real();
        if weight > 0 && !block.is_null() {
            busy(thread, || {
                sample(thread, MAIN, block as u64, size as u64, weight);
            });
        }
        block
    })
}

/// Something did not pass in a heap of the program's own. Says whether it was a sample.
pub(crate) fn reported(heap: u8, id: u64, size: u64) -> bool {
    thread::with(|thread| {
        let (weight, mut is_sample) = (weigh(thread, heap, size), false);
        if weight > 0 {
            busy(thread, || is_sample = sample(thread, heap, id, size, weight));
        }
        is_sample
    })
}

/// A sample that the program has chosen itself. Says whether it is wanted.
pub(crate) fn chosen(heap: u8, id: u64, size: u64) -> bool {
    thread::with(|thread| {
        if thread.is_busy.get() || interval(thread).is_none() || heaps::interval(heap) == 0 {
            return false;
        }
        busy(thread, || {
            sample(thread, heap, id, size, size);
        });
        true
    })
}

/// Before a block is freed that may have been sampled.
pub fn freed(block: *const c_void) {
    freed_in(MAIN, block as u64);
}

/// The same of any heap.
pub(crate) fn freed_in(heap: u8, id: u64) {
    if !table().is_some_and(|table| table.remove(heaps::key(heap, id))) {
        return;
    }
    // Before the block is: afterwards another thread may have it, and say so first.
    match room_for_free(heap, id) {
        Some(room) => room.finish(State::Whole),
        None => count(Counter::FreesLost),
    }
}

/// A block that may get another place: what is said of the old one is settled before, and said only if it is given up.
#[derive(Debug)]
pub struct Reallocation {
    old: *const c_void,
    was_sampled: bool,
    room: Option<Room>,
}

impl Reallocation {
    /// Before the allocator is asked.
    #[must_use]
    pub fn begin(old: *const c_void) -> Self {
        let was_sampled = !is_unsampled(old) && table().is_some_and(|table| table.remove(old as u64));
        let room = if was_sampled { room_for_free(MAIN, old as u64) } else { None };
        Self { old, was_sampled, room }
    }

    /// The allocator has given the old block up, or kept it as it was.
    pub fn end(self, is_given_up: bool) {
        if !self.was_sampled {
            return;
        }
        if !is_given_up {
            // Its slot was free a moment ago; if another block has taken it, this one looks freed.
            let is_back = table().is_some_and(|table| table.insert(self.old as u64));
            if let Some(room) = self.room {
                room.finish(if is_back { State::Void } else { State::Whole });
            }
            return;
        }
        match self.room {
            Some(room) => room.finish(State::Whole),
            None => count(Counter::FreesLost),
        }
    }
}

/// The bytes that a block stands for; 0 if it is no sample.
fn weigh(thread: &Thread, heap: u8, size: u64) -> u64 {
    if thread.is_busy.get() {
        return 0;
    }
    let Some(interval) = interval(thread) else { return 0 };
    let mut sampler = thread.sampler();
    // What was drawn for another interval counts no more: points do not know of each other.
    if sampler.random == 0 || thread.interval.get() != interval {
        sampler = Sampler::seeded(seed(thread), interval);
        thread.interval.set(interval);
    }
    let weight = sampler.take(size, interval, heaps::interval(heap));
    thread.set_sampler(sampler);
    weight
}

/// Bytes between the points of this moment, if there is a session.
fn interval(thread: &Thread) -> Option<u64> {
    let own = &OF_THIS_PROCESS;
    match own.progress.load(Ordering::Acquire) {
        ATTACHED => {
            if let Some(ring) = mapped().filter(|ring| ring.session() != own.session.load(Ordering::Relaxed))
            {
                busy(thread, || follow(&ring));
            }
        }
        // A child that has waited, and a session that it may be wanted by.
        NOT_ATTACHED if INTERVAL.load(Ordering::Relaxed) == NOBODY_NOW => {
            let session = session_of_all();
            if session != 0 && own.asked.swap(session, Ordering::Relaxed) != session {
                busy(thread, || _ = attached());
            }
        }
        _ => {}
    }
    match INTERVAL.load(Ordering::Relaxed) {
        NOT_STARTED | STARTING => None,
        NOBODY_NOW => {
            thread.left.set(LOOK_BYTES);
            None
        }
        NEVER => {
            thread.left.set(FOR_EVER);
            None
        }
        interval => Some(interval),
    }
}

/// Different for each thread of each process.
fn seed(thread: &Thread) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure.
    // JUSTIFICATION: random numbers of the kernel may not be there yet, early after a machine's start, and would be waited for.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let place = (&raw const *thread) as u64;
    (now.tv_nsec.cast_unsigned() ^ now.tv_sec.cast_unsigned() << 30).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ place << 16
}

/// Does something that may allocate or make system calls.
fn busy(thread: &Thread, work: impl FnOnce()) {
    thread.is_busy.set(true);
    // SAFETY: a word of this thread's.
    // JUSTIFICATION: `malloc` leaves `errno` as it is when it succeeds, and programs rely on it.
    let errno = unsafe { *libc::__errno_location() };
    work();
    // SAFETY: as above.
    // JUSTIFICATION: as above.
    unsafe { *libc::__errno_location() = errno };
    thread.is_busy.set(false);
}

/// Says whether it is there now.
#[inline(never)]
fn sample(thread: &Thread, heap: u8, id: u64, size: u64, weight: u64) -> bool {
    let (Some(ring), Some(table)) = (ring(), table()) else { return false };
    let key = heaps::key(heap, id);
    if !table.insert(key) {
        ring.count(Counter::TableFull);
        return false;
    }
    let registers = stack::registers();
    let low = registers.sp as usize;
    let (bytes, is_own) = stack::bytes_above(thread, low, MAX_STACK.load(Ordering::Relaxed));
    if !is_own {
        ring.count(Counter::ForeignStacks);
    }
    let Some(room) = ring.reserve(Alloc::WORDS * ALIGN_BYTES + bytes, For::Alloc) else {
        // Nobody has the block yet who could free it.
        table.remove(key);
        ring.count(Counter::NoRoom);
        return false;
    };
    let alloc = Alloc { heap, address: id, size, weight, registers };
    // SAFETY: so much of the stack is there from `low` on.
    // JUSTIFICATION: stacks are unwound elsewhere, from a copy.
    unsafe { room.write(&alloc.pack(bytes), low as *const u8, bytes) };
    room.finish(State::Whole);
    true
}

fn room_for_free(heap: u8, id: u64) -> Option<Room> {
    let room = ring()?.reserve(FREE_WORDS * ALIGN_BYTES, For::Free)?;
    // SAFETY: nothing is read behind the words.
    // JUSTIFICATION: a ring is written by raw stores.
    unsafe { room.write(&Record::pack_free(heap, id), core::ptr::null(), 0) };
    Some(room)
}

fn count(what: Counter) {
    if let Some(ring) = ring() {
        ring.count(what);
    }
}

fn table() -> Option<Table<'static>> {
    let slots = SLOTS_AT.load(Ordering::Acquire);
    // SAFETY: null, or memory of this size that stays mapped and is looked at through atomics only.
    // JUSTIFICATION: the table is too large to be there in programs that nobody profiles, and must be wiped at a fork.
    let slots = unsafe { slots.as_ref() }?;
    Some(Table { cells: &OF_THIS_PROCESS.cells, slots })
}

/// This process's ring, if there is a session. The first who asks in a child asks the profiler for it, and others have none meanwhile.
fn ring() -> Option<RingWriter> {
    let ring = match OF_THIS_PROCESS.progress.load(Ordering::Acquire) {
        ATTACHED => mapped(),
        NOT_ATTACHED => attached(),
        _ => None,
    };
    ring.filter(|_| (1..NO_INTERVAL).contains(&INTERVAL.load(Ordering::Relaxed)))
}

/// What is mapped, of a process that is attached.
pub(crate) fn mapped() -> Option<RingWriter> {
    let own = &OF_THIS_PROCESS;
    let (base, bytes) = (own.base.load(Ordering::Acquire), own.ring_bytes.load(Ordering::Relaxed));
    // SAFETY: set once, when it was mapped for good.
    // JUSTIFICATION: one for all threads, without a lock.
    (!base.is_null()).then(|| unsafe { RingWriter::new(base, bytes) })
}

/// Asks the profiler for a ring, if no other thread does.
#[cold]
fn attached() -> Option<RingWriter> {
    let own = &OF_THIS_PROCESS;
    own.progress.compare_exchange(NOT_ATTACHED, BUSY, Ordering::Acquire, Ordering::Relaxed).ok()?;
    let Some(found) = attach() else {
        own.progress.store(REFUSED, Ordering::Relaxed);
        return None;
    };
    take(&found)
}

/// Has what there is to write to from now on; no other thread does this meanwhile.
fn take(found: &Attached) -> Option<RingWriter> {
    let own = &OF_THIS_PROCESS;
    let max_stack = (found.reply.max_stack_bytes as usize).min(MAX_STACK_BYTES);
    MAX_STACK.store(max_stack - max_stack % ALIGN_BYTES, Ordering::Relaxed);
    if let Some(page) = found.page {
        SESSION_PAGE.store(page.cast_mut(), Ordering::Release);
    }
    own.ring_bytes.store(found.ring_bytes, Ordering::Relaxed);
    own.base.store(found.base, Ordering::Release);
    let ring = mapped()?;
    heaps::say_all(&ring);
    turn(&ring);
    own.progress.store(ATTACHED, Ordering::SeqCst);
    // Who was named meanwhile has either seen that this is attached, or is seen here.
    heaps::say_all(&ring);
    ring.count(Counter::Attached);
    Some(ring)
}

/// The session that there is, whomever it wants; 0 is none.
fn session_of_all() -> u64 {
    let page = SESSION_PAGE.load(Ordering::Acquire);
    // SAFETY: null, or at the beginning of a page that stays mapped.
    // JUSTIFICATION: it is the profiler's, too: it is not Rust's, and is looked at through an atomic.
    unsafe { page.as_ref() }.map_or(0, |word| word.load(Ordering::Acquire))
}

/// From one session to another, or to none: one thread does it.
#[cold]
fn follow(ring: &RingWriter) {
    let own = &OF_THIS_PROCESS;
    if own.progress.compare_exchange(ATTACHED, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    turn(ring);
    own.progress.store(ATTACHED, Ordering::SeqCst);
}

/// What the session wants, if there is one.
fn turn(ring: &RingWriter) {
    let session = ring.session();
    let mut interval = 0;
    if session != 0 {
        interval = heaps::take_wishes(ring);
        // One that ended meanwhile is none; what came after it is seen at the next look.
        if ring.session() != session || interval >= NO_INTERVAL {
            interval = 0;
        }
    }
    if let Some(table) = table() {
        // Blocks of another session are none of this one.
        table.clear();
    }
    let may_begin_later = !SESSION_PAGE.load(Ordering::Relaxed).is_null();
    if interval == 0 {
        heaps::want_none();
        interval = if may_begin_later { NOBODY_NOW } else { NEVER };
    }
    OF_THIS_PROCESS.session.store(session, Ordering::Relaxed);
    INTERVAL.store(interval, Ordering::Relaxed);
}
