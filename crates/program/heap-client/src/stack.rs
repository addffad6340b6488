//! Where a thread is, and how far its stack reaches.
//!
//! The C library knows the latter, but must not be asked: `pthread_getattr_np` takes a lock and allocates under it, so that a program that calls it (each thread
//! of Rust's does) would wait for itself. So this looks: libraries put a thread's own data (its TLS) at the upper end of its stack, and the kernel says of a page
//! whether it can be read. What was found is remembered, as it stays as long as the thread does.

use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};

use ferretto_shm::heap::Registers;

use crate::thread::Thread;

/// Where the kernel has put what a program begins with: the main thread's stack ends there. 0 where nobody says it.
static MAIN_HIGH: AtomicUsize = AtomicUsize::new(0);
/// So far below it nothing is but the stack: the kernel keeps that free (mmap_base() of Linux: 128 MiB at least).
const MAIN_BYTES: usize = 128 << 20;
/// Stacks of other threads are smaller as a rule (8 MiB); of this many bytes to look at each page takes two milliseconds, once.
const THREAD_BYTES: usize = 64 << 20;
/// The smallest page.
const PAGE_BYTES: usize = 4096;

/// Before there are samples.
pub(crate) fn start() {
    // SAFETY: looks for a name among what is loaded; the text is one.
    // JUSTIFICATION: to ask for the main thread's stack otherwise is to parse /proc/self/maps, which allocates.
    let end = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_stack_end".as_ptr()) };
    if !end.is_null() {
        // SAFETY: the symbol is a pointer of glibc's loader (ldsodefs.h), set before any library starts.
        // JUSTIFICATION: as above.
        return MAIN_HIGH.store(unsafe { *end.cast::<*const c_void>() } as usize, Ordering::Relaxed);
    }
    // Without a loader, or glibc. The kernel puts the environment right behind the stack, and behind that the program's name; what the program has put in its
    // place lies elsewhere.
    // SAFETY: the pointer is read, before the program's first line or in it, and what it points to is not; the other is a number of the kernel's.
    // JUSTIFICATION: as above.
    let (environment, name) = unsafe { (libc::environ as usize, libc::getauxval(libc::AT_EXECFN) as usize) };
    if environment < name && name - environment < MAIN_BYTES {
        MAIN_HIGH.store(environment, Ordering::Relaxed);
    }
}

/// How many bytes there are to be read from `low` on, and whether the stack is the thread's own.
pub(crate) fn bytes_above(thread: &Thread, low: usize, max: usize) -> (usize, bool) {
    let high = MAIN_HIGH.load(Ordering::Relaxed);
    if low < high && high - low < MAIN_BYTES {
        return ((high - low).min(max), true);
    }
    let high = thread_pointer();
    if low < high && high - low < THREAD_BYTES {
        let known = match thread.stack_low.get() {
            0 => page_of(high),
            known => known,
        };
        // From here up: a stack that is another one ends soon.
        if low >= known || (page_of(low)..known).step_by(PAGE_BYTES).all(is_readable) {
            thread.stack_low.set(known.min(page_of(low)));
            return ((high - low).min(max), true);
        }
    }
    // One that the program has made for itself, or that of a handler of signals.
    let pages = (page_of(low)..page_of(low.saturating_add(max))).step_by(PAGE_BYTES);
    let end = pages.take_while(|page| is_readable(*page)).last().map_or(low, |page| page + PAGE_BYTES);
    ((end - low).min(max), false)
}

const fn page_of(address: usize) -> usize {
    address - address % PAGE_BYTES
}

/// Whether there is something at an address. The kernel reads a set of signals there before it sees that it is asked for something that there is not
/// (rt_sigprocmask(2): EFAULT or EINVAL); this is allowed wherever a program has shut itself in.
fn is_readable(address: usize) -> bool {
    /// No value of `how`.
    const NOTHING: libc::c_long = -1;
    /// Bytes of a set in the kernel.
    const SET_BYTES: usize = 8;
    let nowhere = core::ptr::null_mut::<c_void>();
    if address == 0 {
        // It would be taken for no set at all.
        return false;
    }
    // SAFETY: changes nothing, whatever the address is.
    // JUSTIFICATION: see above: it takes no lock, and touches the memory in the kernel, where a fault is an error.
    let done = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NOTHING, address, nowhere, SET_BYTES) };
    // SAFETY: a word of this thread's.
    // JUSTIFICATION: `std::io::Error` is more than is needed.
    done == 0 || unsafe { *libc::__errno_location() } != libc::EFAULT
}

/// Where the thread's own data is.
#[inline(always)]
fn thread_pointer() -> usize {
    let at: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the pointer to itself that is there (ELF Handling For Thread-Local Storage, 3.4.6).
    // JUSTIFICATION: see above.
    unsafe {
        core::arch::asm!("mov {at}, qword ptr fs:[0]", at = out(reg) at, options(pure, nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    // JUSTIFICATION: see above.
    unsafe {
        core::arch::asm!("mrs {at}, tpidr_el0", at = out(reg) at, options(pure, nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        at = 0;
    }
    at
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
                let elsewhere = vec![0u8; 64 * PAGE_BYTES];
                let (bytes, is_own) = bytes_above(thread, elsewhere.as_ptr() as usize, 16 * PAGE_BYTES);
                assert!(!is_own && (15 * PAGE_BYTES..=16 * PAGE_BYTES).contains(&bytes), "{bytes}");
                // What is not there is not read.
                assert_eq!(bytes_above(thread, 64, 1 << 16), (0, false));
            });
        })
        .join()
        .unwrap();
    }
}
