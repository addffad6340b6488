//! The calls that do not pass, out of the way of those that do: a block may be a sample, or was one.

use core::ffi::{c_int, c_void};

use ferretto_heap_client::{Reallocation, allocated, freed};

use crate::next;

#[cold]
#[inline(never)]
pub(crate) fn malloc(size: usize) -> *mut c_void {
    allocated(size, || next::malloc(size))
}

/// `bytes` is what the block has.
#[cold]
#[inline(never)]
pub(crate) fn calloc(count: usize, size: usize, bytes: usize) -> *mut c_void {
    allocated(bytes, || next::calloc(count, size))
}

#[cold]
#[inline(never)]
pub(crate) fn free(block: *mut c_void) {
    freed(block);
    next::free(block);
}

#[cold]
#[inline(never)]
pub(crate) fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    let old = Reallocation::begin(block);
    // The new block may be sampled only when the old one is gone: it may be in its place.
    allocated(size, || {
        let new = next::realloc(block, size);
        // Of size 0 the old block is gone, though there is no new one (realloc(3) of glibc).
        old.end(!new.is_null() || size == 0);
        new
    })
}

#[cold]
#[inline(never)]
pub(crate) fn posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    let mut error = 0;
    allocated(size, || {
        error = next::posix_memalign(place, alignment, size);
        // SAFETY: without an error it was set.
        // JUSTIFICATION: blocks are told by where they are.
        if error == 0 { unsafe { *place } } else { core::ptr::null_mut() }
    });
    error
}

#[cold]
#[inline(never)]
pub(crate) fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    allocated(size, || next::aligned_alloc(alignment, size))
}

#[cold]
#[inline(never)]
pub(crate) fn memalign(alignment: usize, size: usize) -> *mut c_void {
    allocated(size, || next::memalign(alignment, size))
}

#[cold]
#[inline(never)]
pub(crate) fn valloc(size: usize) -> *mut c_void {
    allocated(size, || next::valloc(size))
}

#[cold]
#[inline(never)]
pub(crate) fn pvalloc(size: usize) -> *mut c_void {
    allocated(size, || next::pvalloc(size))
}
