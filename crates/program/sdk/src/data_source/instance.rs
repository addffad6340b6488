//! The user's object for one session.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_producer::{Arbiter, ExhaustedPolicy, TraceWriter, Waits};

/// Nobody.
const NO_THREAD: u64 = 0;

/// A session's instance of a data source.
pub(super) struct Instance<T> {
    /// Never used again, as slots are.
    pub(super) id: u32,
    arbiter: Arc<Arbiter>,
    target_buffer: u16,
    policy: ExhaustedPolicy,
    waits: Waits,
    value: Mutex<T>,
    /// The thread that holds `value`, which would wait for itself.
    holder: AtomicU64,
}

/// Access to the object of one session, by [`TraceContext::instance`](super::TraceContext::instance). Others, callbacks among them, wait
/// until it is dropped.
pub struct InstanceGuard<'a, T> {
    value: MutexGuard<'a, T>,
    holder: &'a AtomicU64,
}

impl<T> Instance<T> {
    pub(super) fn new(value: T, arbiter: Arc<Arbiter>, target_buffer: u16, policy: ExhaustedPolicy) -> Self {
        static LAST_ID: AtomicU32 = AtomicU32::new(0);
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            arbiter,
            target_buffer,
            policy,
            waits: Waits::default(),
            value: Mutex::new(value),
            holder: AtomicU64::new(NO_THREAD),
        }
    }

    pub(super) fn create_writer(&self) -> TraceWriter {
        self.arbiter.create_writer_that_waits(self.target_buffer, self.policy, self.waits.clone())
    }

    /// Threads do not wait for memory for this session any more.
    pub(super) fn end_waits(&self) {
        self.waits.end();
    }

    /// The object; `None` if this very thread has it already.
    pub(super) fn lock(&self) -> Option<InstanceGuard<'_, T>> {
        let this = this_thread();
        // Only this thread stores its own number.
        if self.holder.load(Ordering::Relaxed) == this {
            return None;
        }
        // A callback that panicked is no reason to do without the others.
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        self.holder.store(this, Ordering::Relaxed);
        Some(InstanceGuard { value, holder: &self.holder })
    }
}

impl<T> Deref for InstanceGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for InstanceGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for InstanceGuard<'_, T> {
    fn drop(&mut self) {
        self.holder.store(NO_THREAD, Ordering::Relaxed);
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for InstanceGuard<'_, T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(formatter)
    }
}

fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(NO_THREAD);
    thread_local! {
        static NUMBER: u64 = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    }
    NUMBER.with(|number| *number)
}
