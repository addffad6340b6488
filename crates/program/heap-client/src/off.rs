//! The same names for programs that are built without: nothing is left of the profiler.

use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;

/// The allocator inside, and nothing else.
#[derive(Debug, Default)]
pub struct Profiled<A = System>(A);

impl<A> Profiled<A> {
    /// The same allocator.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

// SAFETY: every call is the same one of the allocator inside.
// JUSTIFICATION: there is no other way to make an allocator.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Profiled<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for this function; so it is in all of these.
        // JUSTIFICATION: it is what is asked for.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        // JUSTIFICATION: as above.
        unsafe { self.0.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        // JUSTIFICATION: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        // JUSTIFICATION: as above.
        unsafe { self.0.realloc(block, layout, size) }
    }
}

/// A heap of which nothing is heard.
#[derive(Debug)]
pub struct Heap(());

impl Heap {
    /// A heap of any name.
    #[must_use]
    pub const fn new(_name: &'static str) -> Self {
        Self(())
    }

    /// Is no sample.
    #[inline]
    pub fn allocated(&self, _id: u64, _bytes: u64) -> bool {
        false
    }

    /// Does nothing.
    #[inline]
    pub fn freed(&self, _id: u64) {}
}
