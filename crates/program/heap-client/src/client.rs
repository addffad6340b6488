//! What is asked at each call of the allocator.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ferretto_shm::heap::{ALIGN_BYTES, Alloc, Counter, FREE_WORDS, MAX_STACK_BYTES, Record, State};

use crate::attach::{attach, read_environment, wipe_on_fork, wiped_memory};
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
}

static OF_THIS_PROCESS: OfThisProcess = OfThisProcess {
    cells: [const { AtomicU8::new(0) }; CELLS],
    base: AtomicPtr::new(core::ptr::null_mut()),
    ring_bytes: AtomicUsize::new(0),
    progress: AtomicU32::new(NOT_ATTACHED),
};

/// How far this process is. What a child begins with is 0.
const NOT_ATTACHED: u32 = 0;
const ATTACHING: u32 = 1;
const ATTACHED: u32 = 2;
const REFUSED: u32 = 3;

/// Slots of the table, wiped at a fork as well; null before there are samples.
static SLOTS_AT: AtomicPtr<[AtomicU64; SLOTS]> = AtomicPtr::new(core::ptr::null_mut());
/// Bytes between samples; what a child has, too, until it is told another. Or one of the two below.
static INTERVAL: AtomicU64 = AtomicU64::new(NOT_STARTED);
static MAX_STACK: AtomicUsize = AtomicUsize::new(0);

/// Nobody has called [`start`]: the program's loader allocates.
const NOT_STARTED: u64 = 0;
/// Nobody profiles this program.
const NEVER: u64 = u64::MAX;
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
    table::is_unsampled(&OF_THIS_PROCESS.cells, address as u64)
}

/// Before the program's first line: profiles it, if the environment names a profiler who answers.
pub fn start() {
    if INTERVAL.load(Ordering::Relaxed) != NOT_STARTED {
        return;
    }
    stack::start();
    let bytes = size_of::<OfThisProcess>();
    let is_wiped = || wipe_on_fork((&raw const OF_THIS_PROCESS).cast_mut().cast(), bytes);
    if !read_environment() || !is_wiped() {
        return INTERVAL.store(NEVER, Ordering::Relaxed);
    }
    let Some(slots) = wiped_memory(size_of::<[AtomicU64; SLOTS]>()) else {
        return INTERVAL.store(NEVER, Ordering::Relaxed);
    };
    SLOTS_AT.store(slots.cast(), Ordering::Release);
    if ring().is_none() {
        INTERVAL.store(NEVER, Ordering::Relaxed);
    }
}

/// Allocates by `real` a block that did not pass, and makes a sample of it if it is one.
pub fn allocated(size: usize, real: impl FnOnce() -> *mut c_void) -> *mut c_void {
    thread::with(|thread| {
        let weight = weigh(thread, size);
        let block = real();
        if weight > 0 && !block.is_null() {
            busy(thread, || sample(thread, block, size, weight));
        }
        block
    })
}

/// Before a block is freed that may have been sampled.
pub fn freed(block: *const c_void) {
    if !table().is_some_and(|table| table.remove(block as u64)) {
        return;
    }
    // Before the block is: afterwards another thread may have it, and say so first.
    match room_for_free(block) {
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
        let room = if was_sampled { room_for_free(old) } else { None };
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
fn weigh(thread: &Thread, size: usize) -> u64 {
    let interval = match INTERVAL.load(Ordering::Relaxed) {
        NOT_STARTED => return 0,
        NEVER => {
            thread.left.set(FOR_EVER);
            return 0;
        }
        interval => interval,
    };
    if thread.is_busy.get() {
        return 0;
    }
    let mut sampler = thread.sampler();
    if sampler.random == 0 {
        sampler = Sampler::seeded(seed(thread), interval);
    }
    let weight = sampler.take(size as u64, interval);
    thread.set_sampler(sampler);
    weight
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

#[inline(never)]
fn sample(thread: &Thread, block: *const c_void, size: usize, weight: u64) {
    let (Some(ring), Some(table)) = (ring(), table()) else { return };
    if !table.insert(block as u64) {
        return ring.count(Counter::TableFull);
    }
    let registers = stack::registers();
    let low = registers.sp as usize;
    let (bytes, is_own) = stack::bytes_above(thread, low, MAX_STACK.load(Ordering::Relaxed));
    if !is_own {
        ring.count(Counter::ForeignStacks);
    }
    let Some(room) = ring.reserve(Alloc::WORDS * ALIGN_BYTES + bytes, For::Alloc) else {
        // Nobody has the block yet who could free it.
        table.remove(block as u64);
        return ring.count(Counter::NoRoom);
    };
    let alloc = Alloc { address: block as u64, size: size as u64, weight, registers };
    // SAFETY: so much of the stack is there from `low` on.
    // JUSTIFICATION: stacks are unwound elsewhere, from a copy.
    unsafe { room.write(&alloc.pack(bytes), low as *const u8, bytes) };
    room.finish(State::Whole);
}

fn room_for_free(block: *const c_void) -> Option<Room> {
    let room = ring()?.reserve(FREE_WORDS * ALIGN_BYTES, For::Free)?;
    // SAFETY: nothing is read behind the words.
    // JUSTIFICATION: a ring is written by raw stores.
    unsafe { room.write(&Record::pack_free(block as u64), core::ptr::null(), 0) };
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

/// This process's ring. The first who asks in a child asks the profiler for it, and others have none meanwhile.
fn ring() -> Option<RingWriter> {
    let own = &OF_THIS_PROCESS;
    match own.progress.load(Ordering::Acquire) {
        ATTACHED => {
            let (base, bytes) = (own.base.load(Ordering::Relaxed), own.ring_bytes.load(Ordering::Relaxed));
            // SAFETY: set before the progress was, and never unmapped.
            // JUSTIFICATION: one for all threads, without a lock.
            return Some(unsafe { RingWriter::new(base, bytes) });
        }
        NOT_ATTACHED => {}
        _ => return None,
    }
    own.progress.compare_exchange(NOT_ATTACHED, ATTACHING, Ordering::Acquire, Ordering::Relaxed).ok()?;
    let Some(attached) = attach().filter(|attached| (1..NEVER).contains(&attached.reply.interval_bytes))
    else {
        own.progress.store(REFUSED, Ordering::Relaxed);
        return None;
    };
    INTERVAL.store(attached.reply.interval_bytes, Ordering::Relaxed);
    let max_stack = (attached.reply.max_stack_bytes as usize).min(MAX_STACK_BYTES);
    MAX_STACK.store(max_stack - max_stack % ALIGN_BYTES, Ordering::Relaxed);
    own.base.store(attached.base, Ordering::Relaxed);
    own.ring_bytes.store(attached.ring_bytes, Ordering::Relaxed);
    own.progress.store(ATTACHED, Ordering::Release);
    // SAFETY: mapped just now, for good.
    // JUSTIFICATION: as above.
    let ring = unsafe { RingWriter::new(attached.base, attached.ring_bytes) };
    ring.count(Counter::Attached);
    Some(ring)
}
