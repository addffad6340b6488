//! `libferretto_preload.so`, where a program that has this crate linked finds it loaded: its client is the process's.

use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use ferretto_shm::heap::HeapName;

/// Only that library has it.
const MARK: &CStr = c"ferretto_preload";

/// Functions of it.
static CREATE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static REGISTER: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static ALLOCATED: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static FREED: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static IS_FOUND: AtomicU8 = AtomicU8::new(0);

/// That it is there, and its functions are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library(());

impl Library {
    /// Looks for it.
    pub(crate) fn find() -> Option<Self> {
        if function(MARK).is_null() {
            return None;
        }
        let functions = [
            (&CREATE, c"AHeapInfo_create"),
            (&REGISTER, c"AHeapProfile_registerHeap"),
            (&ALLOCATED, c"AHeapProfile_reportAllocation"),
            (&FREED, c"AHeapProfile_reportFree"),
        ];
        for (place, name) in functions {
            let found = function(name);
            if found.is_null() {
                return None;
            }
            place.store(found, Ordering::Relaxed);
        }
        IS_FOUND.store(1, Ordering::Release);
        Some(Self(()))
    }

    /// If it was found.
    pub(crate) fn found() -> Option<Self> {
        (IS_FOUND.load(Ordering::Acquire) != 0).then_some(Self(()))
    }

    /// The number of a heap of this name; 0 if there are too many.
    pub(crate) fn named(self, name: &HeapName) -> u32 {
        type Create = unsafe extern "C" fn(*const c_char) -> *mut c_void;
        type Register = unsafe extern "C" fn(*mut c_void) -> u32;
        let mut text = [0u8; size_of::<HeapName>()];
        for (to, from) in text.as_chunks_mut::<8>().0.iter_mut().zip(name.0) {
            *to = from.to_le_bytes();
        }
        let (create, register) = (CREATE.load(Ordering::Relaxed), REGISTER.load(Ordering::Relaxed));
        // SAFETY: functions of these signatures (heap_profile.h); the text ends with a zero, as a name is shorter than its room.
        // JUSTIFICATION: there is one client in a process, and this is how it is asked.
        unsafe {
            let info = transmute::<*mut c_void, Create>(create)(text.as_ptr().cast());
            transmute::<*mut c_void, Register>(register)(info)
        }
    }

    pub(crate) fn allocated(self, heap: u32, id: u64, size: u64) -> bool {
        type Allocated = unsafe extern "C" fn(u32, u64, u64) -> bool;
        // SAFETY: a function of this signature.
        // JUSTIFICATION: as above.
        unsafe { transmute::<*mut c_void, Allocated>(ALLOCATED.load(Ordering::Relaxed))(heap, id, size) }
    }

    pub(crate) fn freed(self, heap: u32, id: u64) {
        type Freed = unsafe extern "C" fn(u32, u64);
        // SAFETY: a function of this signature.
        // JUSTIFICATION: as above.
        unsafe { transmute::<*mut c_void, Freed>(FREED.load(Ordering::Relaxed))(heap, id) }
    }
}

fn function(name: &CStr) -> *mut c_void {
    // SAFETY: looks for a name among what is loaded; the text is one.
    // JUSTIFICATION: whether it is there is known to the loader only.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}
