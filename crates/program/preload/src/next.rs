//! The functions that the program would have without this library: the next ones in the loader's order (dlsym(3), RTLD_NEXT).
//!
//! They are looked for at the first call, which comes from the loader, before any library's own beginning.

use core::cell::Cell;
use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::early;

/// A function's place, null before it was found.
type Place = AtomicPtr<c_void>;

const fn nowhere() -> Place {
    AtomicPtr::new(core::ptr::null_mut())
}

static MALLOC: Place = nowhere();
static CALLOC: Place = nowhere();
static FREE: Place = nowhere();
static REALLOC: Place = nowhere();
static POSIX_MEMALIGN: Place = nowhere();
static ALIGNED_ALLOC: Place = nowhere();
static MEMALIGN: Place = nowhere();
static VALLOC: Place = nowhere();
static PVALLOC: Place = nowhere();
static USABLE_SIZE: Place = nowhere();

std::thread_local! {
    /// This thread looks for them: what it allocates meanwhile cannot be theirs.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

/// Looks for all.
#[cold]
#[inline(never)]
pub(crate) fn find() {
    if LOOKS.get() {
        return;
    }
    LOOKS.set(true);
    let functions: [(&Place, &CStr); 10] = [
        (&CALLOC, c"calloc"),
        (&FREE, c"free"),
        (&REALLOC, c"realloc"),
        (&POSIX_MEMALIGN, c"posix_memalign"),
        (&ALIGNED_ALLOC, c"aligned_alloc"),
        (&MEMALIGN, c"memalign"),
        (&VALLOC, c"valloc"),
        (&PVALLOC, c"pvalloc"),
        (&USABLE_SIZE, c"malloc_usable_size"),
        // Whoever sees this one sees the others.
        (&MALLOC, c"malloc"),
    ];
    for (place, name) in functions {
        // SAFETY: looks for a name among what is loaded; the text is one.
        // JUSTIFICATION: whose functions they are is known to the loader only.
        place.store(unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }, Ordering::Release);
    }
    LOOKS.set(false);
}

/// Where a function is; null if there is none, or if this is who looks for it.
#[inline(always)]
fn at(place: &Place) -> *mut c_void {
    let found = place.load(Ordering::Acquire);
    if found.is_null() { look(place) } else { found }
}

#[cold]
#[inline(never)]
fn look(place: &Place) -> *mut c_void {
    find();
    place.load(Ordering::Acquire)
}

/// What an allocator answers who has nothing.
pub(crate) fn out_of_memory() -> *mut c_void {
    // SAFETY: a word of this thread's.
    // JUSTIFICATION: it is what programs look at.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    core::ptr::null_mut()
}

macro_rules! call {
    ($place:ident as fn($($argument:ident: $kind:ty),*) $(-> $answer:ty)?, else $otherwise:expr) => {{
        let found = at(&$place);
        if found.is_null() {
            $otherwise
        } else {
            // SAFETY: the C library's function of that name has this signature (stdlib.h, malloc.h); what is asked of it is the caller's.
            // JUSTIFICATION: it is known by its name only.
            unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) $(-> $answer)?>(found)($($argument),*) }
        }
    }};
}

#[inline(always)]
pub(crate) fn malloc(size: usize) -> *mut c_void {
    call!(MALLOC as fn(size: usize) -> *mut c_void, else early::allocate(size, 0))
}

#[inline(always)]
pub(crate) fn calloc(count: usize, size: usize) -> *mut c_void {
    call!(CALLOC as fn(count: usize, size: usize) -> *mut c_void, else early::allocate(count.saturating_mul(size), 0))
}

#[inline(always)]
pub(crate) fn free(block: *mut c_void) {
    if early::is_of_here(block) {
        return;
    }
    call!(FREE as fn(block: *mut c_void), else ());
}

pub(crate) fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if early::is_of_here(block) {
        let new = malloc(size);
        if !new.is_null() {
            // SAFETY: the old block and what is behind it is there to the end of all early blocks, the new one has `size` bytes; they do not overlap.
            // JUSTIFICATION: how long the old block was nobody has kept.
            unsafe {
                core::ptr::copy_nonoverlapping(
                    block.cast::<u8>(),
                    new.cast(),
                    size.min(early::bytes_behind(block)),
                )
            };
        }
        return new;
    }
    call!(REALLOC as fn(block: *mut c_void, size: usize) -> *mut c_void, else out_of_memory())
}

pub(crate) fn posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    call!(POSIX_MEMALIGN as fn(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int, else libc::ENOMEM)
}

pub(crate) fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    call!(ALIGNED_ALLOC as fn(alignment: usize, size: usize) -> *mut c_void, else early::allocate(size, alignment))
}

pub(crate) fn memalign(alignment: usize, size: usize) -> *mut c_void {
    call!(MEMALIGN as fn(alignment: usize, size: usize) -> *mut c_void, else early::allocate(size, alignment))
}

pub(crate) fn valloc(size: usize) -> *mut c_void {
    call!(VALLOC as fn(size: usize) -> *mut c_void, else out_of_memory())
}

pub(crate) fn pvalloc(size: usize) -> *mut c_void {
    call!(PVALLOC as fn(size: usize) -> *mut c_void, else out_of_memory())
}

pub(crate) fn malloc_usable_size(block: *mut c_void) -> usize {
    if early::is_of_here(block) {
        return 0;
    }
    call!(USABLE_SIZE as fn(block: *mut c_void) -> usize, else 0)
}
