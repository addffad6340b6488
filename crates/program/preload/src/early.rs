//! Memory for whoever allocates while the real functions are looked for: the loader itself, which looks for them. It is never given back.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};

/// More than a loader asks for: glibc's takes a buffer for an error message at most.
const BYTES: usize = 64 << 10;
const ALIGN_BYTES: usize = 16;

#[repr(C, align(4096))]
struct Memory(UnsafeCell<[u8; BYTES]>);

// SAFETY: each byte is handed out once, to one owner.
// JUSTIFICATION: there is no allocator yet that it could be had from.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; BYTES]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// A block, all 0; null if there is no more.
pub(crate) fn allocate(size: usize, alignment: usize) -> *mut c_void {
    let alignment = alignment.max(ALIGN_BYTES);
    let Some(needed) = size.checked_add(alignment) else { return core::ptr::null_mut() };
    let needed = needed.next_multiple_of(ALIGN_BYTES);
    let taken = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        used.checked_add(needed).filter(|after| *after <= BYTES)
    });
    let Ok(from) = taken else { return core::ptr::null_mut() };
    let base = MEMORY.0.get().cast::<u8>();
    let address = (base as usize + from).next_multiple_of(alignment);
    // SAFETY: within the memory: what the alignment skips was counted.
    // JUSTIFICATION: it is what an allocator does.
    unsafe { base.add(address - base as usize) }.cast()
}

/// Whether a block is of here.
#[inline(always)]
pub(crate) fn is_of_here(block: *const c_void) -> bool {
    (block as usize).wrapping_sub(MEMORY.0.get() as usize) < BYTES
}

/// Bytes from a block's first one to the end of all: no block reaches farther.
pub(crate) fn bytes_behind(block: *const c_void) -> usize {
    (MEMORY.0.get() as usize + BYTES).saturating_sub(block as usize)
}
