//! Heaps of a program's own, by upstream's functions (heap_profile.h): those of allocators that take memory from the system in large pieces.
//!
//! Callbacks are called on a thread that registers a heap or reports to it: nothing of this library runs by itself, and in the middle of a `malloc` nobody
//! could do anything.
#![allow(non_snake_case)]

use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use ferretto_heap_client::{HeapName, OwnHeap};

/// What a program knows of a heap before it is registered: where it is. A number and no more is kept of others.
#[derive(Debug)]
pub struct AHeapInfo {
    enabled: Callback,
    disabled: Callback,
    /// The interval that the program was told; 0 is that there is no session.
    told: AtomicU64,
}

/// What a session is, for callbacks.
#[derive(Debug)]
#[repr(C)]
pub struct AHeapProfileEnableCallbackInfo {
    interval: u64,
}

/// That a session has ended, for callbacks.
#[derive(Debug)]
#[repr(C)]
pub struct AHeapProfileDisableCallbackInfo {
    nothing: u64,
}

#[derive(Debug)]
struct Callback {
    function: AtomicPtr<c_void>,
    data: AtomicPtr<c_void>,
}

impl Callback {
    const fn none() -> Self {
        Self { function: AtomicPtr::new(core::ptr::null_mut()), data: AtomicPtr::new(core::ptr::null_mut()) }
    }

    fn set(&self, function: *mut c_void, data: *mut c_void) {
        self.data.store(data, Ordering::Relaxed);
        self.function.store(function, Ordering::Release);
    }

    fn call<T>(&self, about: &T) {
        let function = self.function.load(Ordering::Acquire);
        if !function.is_null() {
            let data = self.data.load(Ordering::Relaxed);
            // SAFETY: a function that the program has set, which takes these (heap_profile.h).
            // JUSTIFICATION: it is what it has set it for.
            unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void, *const T)>(function)(data, about) };
        }
    }
}

/// Of as many heaps as a program has, by their numbers.
static INFOS: [AHeapInfo; 64] =
    [const { AHeapInfo { enabled: Callback::none(), disabled: Callback::none(), told: AtomicU64::new(0) } };
        64];

fn info_of(heap: OwnHeap) -> Option<&'static AHeapInfo> {
    INFOS.get(usize::try_from(heap.number()).ok()?)
}

fn heap_of(info: *const AHeapInfo) -> Option<OwnHeap> {
    let number = INFOS.iter().position(|known| core::ptr::eq(known, info))?;
    OwnHeap::numbered(u32::try_from(number).ok()?)
}

/// Tells the program what has changed since it was told.
fn tell(heap: OwnHeap) {
    let Some(info) = info_of(heap) else { return };
    let interval = heap.interval().unwrap_or(0);
    if info.told.load(Ordering::Relaxed) == interval {
        return;
    }
    match (info.told.swap(interval, Ordering::Relaxed), interval) {
        (told, interval) if told == interval => {}
        (_, 0) => info.disabled.call(&AHeapProfileDisableCallbackInfo { nothing: 0 }),
        (_, interval) => info.enabled.call(&AHeapProfileEnableCallbackInfo { interval }),
    }
}

/// A heap of this name, of 1 to 63 bytes; null if it has none, or there are too many heaps.
///
/// # Safety
///
/// The name ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AHeapInfo_create(name: *const c_char) -> *const AHeapInfo {
    if name.is_null() {
        return core::ptr::null();
    }
    // SAFETY: the caller's promise.
    // JUSTIFICATION: it is how texts come from C.
    let name = unsafe { CStr::from_ptr(name) };
    let heap = HeapName::new(name.to_bytes()).and_then(|name| OwnHeap::named(&name));
    heap.and_then(info_of).map_or(core::ptr::null(), core::ptr::from_ref)
}

/// What is called when a session begins.
#[unsafe(no_mangle)]
pub extern "C" fn AHeapInfo_setEnabledCallback(
    info: *const AHeapInfo,
    callback: *mut c_void,
    data: *mut c_void,
) -> *const AHeapInfo {
    if let Some(known) = heap_of(info).and_then(info_of) {
        known.enabled.set(callback, data);
    }
    info
}

/// What is called when it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn AHeapInfo_setDisabledCallback(
    info: *const AHeapInfo,
    callback: *mut c_void,
    data: *mut c_void,
) -> *const AHeapInfo {
    if let Some(known) = heap_of(info).and_then(info_of) {
        known.disabled.set(callback, data);
    }
    info
}

/// Bytes between samples, in a callback for sessions that begin.
///
/// # Safety
///
/// It is what the callback was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AHeapProfileEnableCallbackInfo_getSamplingInterval(
    info: *const AHeapProfileEnableCallbackInfo,
) -> u64 {
    // SAFETY: the caller's promise, but for a null pointer.
    // JUSTIFICATION: it is how structures come from C.
    unsafe { info.as_ref() }.map_or(0, |info| info.interval)
}

/// The number of the heap from now on; 0 is none, of which nothing is heard.
#[unsafe(no_mangle)]
pub extern "C" fn AHeapProfile_registerHeap(info: *const AHeapInfo) -> u32 {
    let Some(heap) = heap_of(info) else { return 0 };
    tell(heap);
    heap.number()
}

/// Something was allocated. Says whether it is a sample.
#[unsafe(no_mangle)]
pub extern "C" fn AHeapProfile_reportAllocation(heap: u32, id: u64, size: u64) -> bool {
    // Most are none, whichever heap it is.
    if usize::try_from(size).is_ok_and(ferretto_heap_client::passes) {
        return false;
    }
    may_be_sample(heap, id, size)
}

#[cold]
#[inline(never)]
fn may_be_sample(heap: u32, id: u64, size: u64) -> bool {
    let Some(heap) = OwnHeap::numbered(heap) else { return false };
    let is_sample = heap.may_be_sample(id, size);
    tell(heap);
    is_sample
}

/// Something was allocated that the program has chosen itself. Says whether it is wanted.
#[unsafe(no_mangle)]
pub extern "C" fn AHeapProfile_reportSample(heap: u32, id: u64, size: u64) -> bool {
    let Some(heap) = OwnHeap::numbered(heap) else { return false };
    let is_wanted = heap.sampled(id, size);
    tell(heap);
    is_wanted
}

/// It is about to be given back.
#[unsafe(no_mangle)]
pub extern "C" fn AHeapProfile_reportFree(heap: u32, id: u64) {
    if let Some(heap) = OwnHeap::numbered(heap) {
        heap.freed(id);
    }
}
