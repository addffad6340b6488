//! What each thread has. It is plain data that is zero at first and needs no end: allocations come before a thread's first line and behind its last.
//!
//! A library has its thread-locals looked up by a call (`__tls_get_addr`), unless it says that it is there from the program's start, as one that is preloaded
//! is. Rust cannot say that of one variable yet, so on x86-64 the variable and its address are a few lines of assembly: two loads instead of a call, in
//! each `malloc`.

use core::cell::Cell;

use crate::sampler::Sampler;

/// A thread's own. All zero is a thread that has not allocated yet.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Of [`Sampler`]: what nearly every call looks at.
    pub(crate) left: Cell<i64>,
    pub(crate) is_point: Cell<bool>,
    /// The thread is in here already: its own calls, and those of handlers of signals, pass.
    pub(crate) is_busy: Cell<bool>,
    pub(crate) random: Cell<u64>,
    /// For which the points were drawn.
    pub(crate) interval: Cell<u64>,
    /// From here on up to the thread's own data its stack can be read; 0 before that was asked.
    pub(crate) stack_low: Cell<usize>,
}

impl Thread {
    pub(crate) fn sampler(&self) -> Sampler {
        Sampler { left: self.left.get(), is_point: self.is_point.get(), random: self.random.get() }
    }

    pub(crate) fn set_sampler(&self, sampler: Sampler) {
        self.left.set(sampler.left);
        self.is_point.set(sampler.is_point);
        self.random.set(sampler.random);
    }
}

#[cfg(target_arch = "x86_64")]
mod place {
    use super::Thread;

    const BYTES: usize = 64;
    const _: () = assert!(size_of::<Thread>() == BYTES && align_of::<Thread>() == BYTES);

    core::arch::global_asm!(
        ".pushsection .tbss.ferretto_heap_thread,\"awT\",@nobits",
        ".globl ferretto_heap_thread",
        ".hidden ferretto_heap_thread",
        ".type ferretto_heap_thread,@object",
        ".size ferretto_heap_thread,{bytes}",
        ".p2align 6",
        "ferretto_heap_thread:",
        ".zero {bytes}",
        ".popsection",
        bytes = const BYTES,
    );

    /// This thread's.
    #[inline(always)]
    pub(crate) fn with<T>(work: impl FnOnce(&Thread) -> T) -> T {
        let at: *const Thread;
        // SAFETY: the symbol is the variable above; its offset from the thread pointer, which is at fs:0, is in the linker's table (ELF Handling For
        // Thread-Local Storage, 4.4.6: initial exec). Nothing else is touched.
        // JUSTIFICATION: see above: a call in each `malloc` is more than all the rest.
        unsafe {
            core::arch::asm!(
                "mov {at}, qword ptr [rip + ferretto_heap_thread@GOTTPOFF]",
                "add {at}, qword ptr fs:[0]",
                at = out(reg) at,
                options(pure, nomem, nostack),
            );
        }
        // SAFETY: it is there as long as the thread is, of the right size and alignment, zero at first, which is a value of each field; only this thread
        // sees it, through shared references.
        // JUSTIFICATION: as above.
        work(unsafe { &*at })
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod place {
    use core::cell::Cell;

    use super::Thread;

    std::thread_local! {
        static THREAD: Thread = const {
            Thread {
                left: Cell::new(0),
                is_point: Cell::new(false),
                is_busy: Cell::new(false),
                random: Cell::new(0),
                interval: Cell::new(0),
                stack_low: Cell::new(0),
            }
        };
    }

    /// This thread's.
    #[inline(always)]
    pub(crate) fn with<T>(work: impl FnOnce(&Thread) -> T) -> T {
        THREAD.with(work)
    }
}

pub(crate) use place::with;

#[cfg(test)]
mod tests {
    #[test]
    fn each_thread_has_its_own_and_begins_with_nothing() {
        super::with(|thread| thread.random.set(7));
        std::thread::spawn(|| super::with(|thread| assert_eq!(thread.random.replace(9), 0))).join().unwrap();
        super::with(|thread| assert_eq!((thread.random.get(), thread.left.get()), (7, 0)));
    }
}
