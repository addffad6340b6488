//! Where a thread is, and how far its stack reaches.

use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};

use ferretto_shm::heap::Registers;

use crate::thread::Thread;

/// Where the kernel has put what a program begins with: the main thread's stack ends there. 0 where the C library does not say it.
static MAIN_HIGH: AtomicUsize = AtomicUsize::new(0);
/// So far below it nothing is but the stack: the kernel keeps that free (mmap_base() of Linux: 128 MiB at least).
const MAIN_BYTES: usize = 128 << 20;
/// The smallest page: what lies on the same is mapped, too.
const PAGE_BYTES: usize = 4096;

/// Before there are samples.
pub(crate) fn start() {
    // SAFETY: looks for a name among what is loaded; the text is one.
    // JUSTIFICATION: to ask for the main thread's stack otherwise is to parse /proc/self/maps, which allocates.
    let end = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_stack_end".as_ptr()) };
    if !end.is_null() {
        // SAFETY: the symbol is a pointer of glibc's loader (ldsodefs.h), set before any library starts.
        // JUSTIFICATION: as above.
        MAIN_HIGH.store(unsafe { *end.cast::<*const c_void>() } as usize, Ordering::Relaxed);
    }
}

/// How many bytes there are to be read from `low` on, and whether the stack is the thread's own.
pub(crate) fn bytes_above(thread: &Thread, low: usize, max: usize) -> (usize, bool) {
    let high = MAIN_HIGH.load(Ordering::Relaxed);
    if low < high && high - low < MAIN_BYTES {
        return ((high - low).min(max), true);
    }
    if thread.stack_high.get() == 0 {
        let (low, high) = ask();
        thread.stack_low.set(low);
        thread.stack_high.set(high);
    }
    if (thread.stack_low.get()..thread.stack_high.get()).contains(&low) {
        return ((thread.stack_high.get() - low).min(max), true);
    }
    // One that the program has made for itself, or that of a handler of signals.
    ((PAGE_BYTES - low % PAGE_BYTES).min(max), false)
}

/// The stack of this thread, which is not the main one. It allocates: the thread is busy.
fn ask() -> (usize, usize) {
    // All zero is no value that a system's call would not overwrite.
    let mut attributes = core::mem::MaybeUninit::<libc::pthread_attr_t>::zeroed();
    let (mut low, mut bytes) = (core::ptr::null_mut::<c_void>(), 0);
    // SAFETY: the first call fills what the others read and free; if it fails neither is called.
    // JUSTIFICATION: nothing else says where a thread's stack ends.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return (0, 1);
        }
        let error = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if error != 0 {
            return (0, 1);
        }
    }
    // Never 0, which would ask again.
    (low as usize, (low as usize).saturating_add(bytes).max(1))
}

/// Where this is.
#[inline(always)]
pub(crate) fn registers() -> Registers {
    let (pc, sp, fp, lr): (u64, u64, u64, u64);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: registers are read, nothing else.
    // JUSTIFICATION: a stack is unwound from them.
    unsafe {
        core::arch::asm!(
            "lea {pc}, [rip]", "mov {sp}, rsp", "mov {fp}, rbp",
            pc = out(reg) pc, sp = out(reg) sp, fp = out(reg) fp,
            options(nomem, nostack, preserves_flags),
        );
        lr = 0;
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    // JUSTIFICATION: as above.
    unsafe {
        core::arch::asm!(
            "adr {pc}, .", "mov {sp}, sp", "mov {fp}, x29", "mov {lr}, x30",
            pc = out(reg) pc, sp = out(reg) sp, fp = out(reg) fp, lr = out(reg) lr,
            options(nomem, nostack, preserves_flags),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let here = 0u64;
        (pc, sp, fp, lr) = (0, (&raw const here) as u64, 0, 0);
    }
    Registers { pc, sp, fp, lr }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread;

    #[test]
    fn a_stack_reaches_from_here_to_where_the_thread_began() {
        start();
        std::thread::spawn(|| {
            let outer = 0u8;
            thread::with(|thread| {
                let low = registers().sp as usize;
                let (bytes, is_own) = bytes_above(thread, low, 1 << 30);
                let outer = (&raw const outer) as usize;
                assert!(is_own && low < outer && outer < low + bytes, "{low:x} {bytes:x} {outer:x}");
                assert_eq!(bytes_above(thread, low, 64), (64, true));
                let elsewhere = Box::new([0u8; 64]);
                let (bytes, is_own) = bytes_above(thread, (&raw const *elsewhere) as usize, 1 << 30);
                assert!(!is_own && bytes <= PAGE_BYTES);
            });
        })
        .join()
        .unwrap();
    }
}
