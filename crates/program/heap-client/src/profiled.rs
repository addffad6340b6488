//! Programs in Rust that have this linked: their allocator, and heaps of their own.
//!
//! Where `libferretto_preload.so` is there, too, there is one client in a process, and it is that one: it has the ring, and is told of what it cannot see.

use core::alloc::{GlobalAlloc, Layout};
use core::any::TypeId;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};
use std::alloc::System;

use ferretto_shm::heap::{HeapName, PROGRAM_MARK};

use crate::client::{
    Reallocation, allocated, ask_at_each_free, freed, is_started, is_unsampled, is_unsampled_key, passes,
    stand_back, start,
};
use crate::heaps::{OwnHeap, key};
use crate::library::Library;

/// What the heap of a program's own allocator is called.
const MAIN: HeapName = HeapName::new(b"rust.global").unwrap();

/// An allocator whose blocks a heap profiler sees, if there is one: `ferretto profile --heap`.
///
/// ```
/// use std::alloc::System;
///
/// #[global_allocator]
/// static ALLOCATOR: ferretto_heap_client::Profiled<System> = ferretto_heap_client::Profiled::new(System);
/// # fn main() { drop(Box::new(1)); }
/// ```
///
/// Whatever allocator is inside does the work. Without a profiler it costs less than a nanosecond to count bytes down; with one a block that is no sample
/// costs the same. It never allocates, waits or panics.
#[derive(Debug, Default)]
pub struct Profiled<A = System>(A);

impl<A> Profiled<A> {
    /// The same allocator, profiled.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

// SAFETY: every block is of the allocator inside, and is given back to it with the layout that it was asked for with.
// JUSTIFICATION: there is no other way to make an allocator.
unsafe impl<A: GlobalAlloc + 'static> GlobalAlloc for Profiled<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !passes(layout.size()) {
            return self.alloc_slowly(layout, false);
        }
        // SAFETY: as for this function; so it is in all of these.
        // JUSTIFICATION: it is what is asked for.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !passes(layout.size()) {
            return self.alloc_slowly(layout, true);
        }
        // SAFETY: as above.
        // JUSTIFICATION: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !is_unsampled(block.cast()) {
            given_back(block);
        }
        // SAFETY: as above.
        // JUSTIFICATION: as above.
        unsafe { self.0.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !(is_unsampled(block.cast()) && passes(size)) {
            return self.realloc_slowly(block, layout, size);
        }
        // SAFETY: as above.
        // JUSTIFICATION: as above.
        unsafe { self.0.realloc(block, layout, size) }
    }
}

/// What does not pass. With values, and no closures, which would have to be in memory before it is known whether anybody needs them.
impl<A: GlobalAlloc + 'static> Profiled<A> {
    #[cold]
    #[inline(never)]
    fn alloc_slowly(&self, layout: Layout, is_zeroed: bool) -> *mut u8 {
        start_once::<A>();
        // SAFETY: as for the functions above, which call this.
        // JUSTIFICATION: as above.
        let real = || unsafe { if is_zeroed { self.0.alloc_zeroed(layout) } else { self.0.alloc(layout) } };
        slowly(layout.size(), real)
    }

    #[cold]
    #[inline(never)]
    fn realloc_slowly(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        start_once::<A>();
        // SAFETY: as above.
        // JUSTIFICATION: as above.
        let real = || unsafe { self.0.realloc(block, layout, size) };
        if Library::found().is_some() {
            // If it fails, which a program seldom outlives, the old block looks as if it were gone.
            given_back(block);
            return slowly(size, real);
        }
        let old = Reallocation::begin(block.cast::<c_void>());
        allocated(size, || {
            let new = real();
            old.end(!new.is_null());
            new.cast()
        })
        .cast()
    }
}

fn slowly(size: usize, real: impl FnOnce() -> *mut u8) -> *mut u8 {
    let Some(library) = Library::found() else {
        return allocated(size, || real().cast()).cast();
    };
    let block = real();
    if let (false, Some(heap)) = (block.is_null(), main_heap()) {
        library.allocated(heap, block as u64, size as u64);
    }
    block
}

/// Before a block is given back.
#[cold]
#[inline(never)]
fn given_back(block: *mut u8) {
    match Library::found() {
        None => freed(block.cast()),
        Some(library) => {
            if let Some(heap) = main_heap() {
                library.freed(heap, block as u64);
            }
        }
    }
}

/// The number that the library has given the heap of this program's allocator; 0 is none.
static MAIN_HEAP: AtomicU32 = AtomicU32::new(0);

fn main_heap() -> Option<u32> {
    Some(MAIN_HEAP.load(Ordering::Relaxed)).filter(|heap| *heap != 0)
}

/// With the first block that does not pass, which is the first one.
#[inline(always)]
fn start_once<A: 'static>() {
    if !is_started() {
        // What the library stands before it sees: the blocks of the C library's `malloc`.
        begin(TypeId::of::<A>() == TypeId::of::<System>());
    }
}

#[cold]
#[inline(never)]
fn begin(is_seen_by_library: bool) {
    // By this it is known of a program without a loader that it can be profiled.
    core::hint::black_box(&PROGRAM_MARK);
    let Some(library) = Library::find() else { return start(&MAIN) };
    if !is_seen_by_library {
        MAIN_HEAP.store(library.named(&MAIN), Ordering::Relaxed);
    }
    ask_at_each_free();
    stand_back();
}

/// Memory that a program hands out itself: an arena, a pool, buffers of a device. In profiles it is a heap of its own.
///
/// ```
/// use ferretto_heap_client::Heap;
///
/// static ARENA: Heap = Heap::new("org.example.arena");
///
/// fn allocate(place: u64, bytes: u64) {
///     // …
///     ARENA.allocated(place, bytes);
/// }
///
/// fn give_back(place: u64) {
///     ARENA.freed(place);
///     // …
/// }
/// # allocate(1, 2);
/// # give_back(1);
/// ```
///
/// Where the memory comes from the program's allocator, it is in that one's heap as well. A program has 63 heaps of its own; what more there are is not
/// profiled.
#[derive(Debug)]
pub struct Heap {
    name: HeapName,
    /// 0 before it has one.
    number: AtomicU32,
}

/// There was no number left.
const NO_NUMBER: u32 = u32::MAX;

impl Heap {
    /// A heap of this name, such as `org.example.arena`. Two of one name are one.
    ///
    /// # Panics
    ///
    /// While the program is compiled, in a `static`: if the name is empty, has a zero in it or has more than 63 bytes.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        let Some(name) = HeapName::new(name.as_bytes()) else {
            panic!("the name of a heap has 1 to 63 bytes, none of them 0");
        };
        Self { name, number: AtomicU32::new(0) }
    }

    /// Something of so many bytes was handed out, to whoever calls the function that calls this. The number is its own until it is [freed](Self::freed): its
    /// address, as a rule. Says whether it is a sample.
    #[inline]
    pub fn allocated(&self, id: u64, bytes: u64) -> bool {
        let is_passed = usize::try_from(bytes).is_ok_and(passes);
        !is_passed && self.may_be_sample(id, bytes)
    }

    #[cold]
    #[inline(never)]
    fn may_be_sample(&self, id: u64, bytes: u64) -> bool {
        let Some(number) = self.number() else { return false };
        match Library::found() {
            Some(library) => library.allocated(number, id, bytes),
            None => OwnHeap::numbered(number).is_some_and(|heap| heap.may_be_sample(id, bytes)),
        }
    }

    /// It is taken back, and may be handed out again as soon as this returns.
    #[inline]
    pub fn freed(&self, id: u64) {
        if !is_unsampled_key(key(self.number.load(Ordering::Relaxed) as u8, id)) {
            self.may_be_freed(id);
        }
    }

    #[cold]
    #[inline(never)]
    fn may_be_freed(&self, id: u64) {
        let Some(number) = self.number() else { return };
        match Library::found() {
            Some(library) => library.freed(number, id),
            None => {
                if let Some(heap) = OwnHeap::numbered(number) {
                    heap.freed(id);
                }
            }
        }
    }

    fn number(&self) -> Option<u32> {
        start_once::<System>();
        let mut number = self.number.load(Ordering::Relaxed);
        if number == 0 {
            number = match Library::found() {
                Some(library) => library.named(&self.name),
                None => OwnHeap::named(&self.name).map_or(0, OwnHeap::number),
            };
            if number == 0 {
                number = NO_NUMBER;
            }
            // Whoever is in here, too, has found the same one.
            self.number.store(number, Ordering::Relaxed);
        }
        (number != NO_NUMBER).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_allocator_inside_gives_is_what_one_gets() {
        static ALLOCATOR: Profiled<System> = Profiled::new(System);
        static OFF: crate::off::Profiled<System> = crate::off::Profiled::new(System);
        let layout = Layout::from_size_align(100, 64).unwrap();
        for allocator in [&ALLOCATOR as &dyn GlobalAlloc, &OFF] {
            // SAFETY: what was allocated is given back, with its layout, and not used afterwards.
            // JUSTIFICATION: what is tested.
            unsafe {
                let block = allocator.alloc_zeroed(layout);
                assert!((block as usize).is_multiple_of(64) && block.add(99).read() == 0);
                block.add(99).write(7);
                let block = allocator.realloc(block, layout, 100_000);
                assert_eq!(block.add(99).read(), 7);
                allocator.dealloc(block, Layout::from_size_align(100_000, 64).unwrap());
                let block = allocator.alloc(layout);
                assert!(!block.is_null());
                allocator.dealloc(block, layout);
            }
        }
    }

    #[test]
    fn a_heap_without_a_profiler_is_silent() {
        static HEAP: Heap = Heap::new("an.arena");
        assert!((0..1000).all(|id| !HEAP.allocated(id, 1 << 30)));
        (0..1000).for_each(|id| HEAP.freed(id));
    }
}
