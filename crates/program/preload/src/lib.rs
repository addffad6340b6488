//! `libferretto_preload.so`: stands before a program's allocator (LD_PRELOAD), and has [`ferretto_heap_client`] take samples.
//!
//! Heaps of a program's own are reported by upstream's functions (`AHeapProfile_*`), which are here, too.
//!
//! Every function by which the C library gives or takes memory is here, so that no block passes unseen, and each calls the one that the program would
//! have without it: the next one in the loader's order, whoever's it is. Without a profiler in the environment it does nothing else.
#![allow(unsafe_code, non_upper_case_globals)]

pub mod custom;
mod early;
mod next;
mod sampled;

use core::ffi::{c_int, c_void};

use ferretto_heap_client::{HeapName, is_unsampled, passes, start};

/// What this heap is called (upstream: malloc_interceptor_glibc_preload.cc).
const HEAP: HeapName = HeapName::new(b"libc.malloc").unwrap();

/// By this a program that has the client linked itself knows that it is here ([`ferretto_heap_client::Profiled`]).
#[used]
#[unsafe(no_mangle)]
pub static ferretto_preload: u32 = ferretto_heap_client::VERSION;

/// Runs before the program's own code, and before that of the libraries that stand behind this one.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn run() {
        next::find();
        start(&HEAP);
    }
    run
};

/// `size` bytes.
///
/// # Safety
///
/// As of the C library's, as are all of these.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    if passes(size) { next::malloc(size) } else { sampled::malloc(size) }
}

/// `count` times `size` bytes, all 0.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    // What is more than there are addresses the real one refuses.
    let bytes = count.saturating_mul(size);
    if passes(bytes) { next::calloc(count, size) } else { sampled::calloc(count, size, bytes) }
}

/// Gives a block back.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if is_unsampled(block) { next::free(block) } else { sampled::free(block) }
}

/// Of C23: the size is a promise of the program's.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, _size: usize) {
    // SAFETY: the caller's promise.
    // JUSTIFICATION: it is `free` (C23, 7.24.3.4).
    unsafe { free(block) }
}

/// Of C23.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _alignment: usize, _size: usize) {
    // SAFETY: the caller's promise.
    // JUSTIFICATION: it is `free` (C23, 7.24.3.5).
    unsafe { free(block) }
}

/// Of the first versions of C's library.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(block: *mut c_void) {
    // SAFETY: the caller's promise.
    // JUSTIFICATION: it is `free` (cfree(3)).
    unsafe { free(block) }
}

/// A block of another size with what was in the old one.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        // SAFETY: nothing is promised of it.
        // JUSTIFICATION: it is `malloc` (realloc(3)).
        return unsafe { malloc(size) };
    }
    if is_unsampled(block) && passes(size) {
        next::realloc(block, size)
    } else {
        sampled::realloc(block, size)
    }
}

/// The same for `count` times `size` bytes.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's promise.
        // JUSTIFICATION: it is `realloc` of the product (reallocarray(3)).
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => next::out_of_memory(),
    }
}

/// A block of a multiple of `alignment`, into `place`.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    if passes(size) {
        return next::posix_memalign(place, alignment, size);
    }
    sampled::posix_memalign(place, alignment, size)
}

/// A block of a multiple of `alignment`.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    if passes(size) {
        return next::aligned_alloc(alignment, size);
    }
    sampled::aligned_alloc(alignment, size)
}

/// The same, from before there was a standard for it.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    if passes(size) {
        return next::memalign(alignment, size);
    }
    sampled::memalign(alignment, size)
}

/// A block at the beginning of a page.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    if passes(size) { next::valloc(size) } else { sampled::valloc(size) }
}

/// Whole pages.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    if passes(size) { next::pvalloc(size) } else { sampled::pvalloc(size) }
}

/// How much of a block may be used.
///
/// # Safety
///
/// See [`malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    next::malloc_usable_size(block)
}
