//! What each thread keeps for each session of each data source.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use ferretto_producer::TraceWriter;

use super::DataSource;
use super::instance::Instance;
use crate::runtime::MAX_SOURCES;
use crate::track_event::category::MAX_INSTANCES;
use crate::track_event::event::{exclusively, quietly};

/// A thread's packets for one session.
pub(super) struct Sequence<T: DataSource> {
    pub(super) instance: Arc<Instance<T>>,
    pub(super) writer: TraceWriter,
    /// `None` if the reader knows nothing.
    pub(super) incremental: Option<T::IncrementalState>,
    pub(super) thread_state: T::ThreadState,
    /// Losses of the writer when the state was made.
    pub(super) drop_count: u64,
    pub(super) flushes: u32,
    pub(super) clears: u32,
}

/// A thread's sequences for one data source, by slot, as far as this thread has seen them.
pub(super) struct Sequences<T: DataSource> {
    pub(super) slots: Vec<Option<Sequence<T>>>,
    /// Of the source, as they were seen last.
    pub(super) changes: u32,
    /// Memory that is used for one packet after another.
    pub(super) scratch: Vec<u8>,
}

/// [`Sequences`] of any source.
pub(super) trait AnySequences: Any {
    /// Hands over what was written in this slot.
    fn flush(&mut self, slot: usize);
}

impl<T: DataSource> Sequence<T> {
    pub(super) fn incremental_state(&mut self) -> &mut T::IncrementalState {
        let drop_count = self.writer.drop_count();
        if std::mem::replace(&mut self.drop_count, drop_count) != drop_count {
            // The reader may have missed what the state stands for.
            self.incremental = None;
        }
        self.incremental.get_or_insert_default()
    }
}

impl<T: DataSource> Default for Sequences<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), changes: 0, scratch: Vec::new() }
    }
}

impl<T: DataSource> AnySequences for Sequences<T> {
    fn flush(&mut self, slot: usize) {
        if let Some(Some(sequence)) = self.slots.get_mut(slot) {
            sequence.writer.flush();
        }
    }
}

/// By the number of the source.
struct Sources([Option<Box<dyn AnySequences>>; MAX_SOURCES]);

thread_local! {
    static SOURCES: RefCell<Sources> = const { RefCell::new(Sources([const { None }; MAX_SOURCES])) };
}

impl Drop for Sources {
    fn drop(&mut self) {
        // Writers hand over what they hold, which must not be traced.
        quietly(|| self.0.fill_with(|| None));
    }
}

/// Calls with this thread's sequences of a source. Nothing happens if that is going on already, or the thread is ending.
#[inline]
pub(super) fn with<T: DataSource>(source: usize, work: impl FnOnce(&mut Sequences<T>)) {
    let _ = SOURCES.try_with(|sources| {
        let mut sources = sources.try_borrow_mut().ok()?;
        let place = sources.0.get_mut(source)?;
        let sequences: &mut dyn Any = &mut **place.get_or_insert_with(|| Box::new(Sequences::<T>::default()));
        work(sequences.downcast_mut()?);
        Some(())
    });
}

/// Hands over what this thread has written in this slot of a source.
pub(super) fn flush(source: usize, slot: usize) {
    each(|number, sequences| {
        if number == source {
            sequences.flush(slot);
        }
    });
}

/// Hands over what this thread has written for any source.
pub(crate) fn flush_all() {
    each(|_, sequences| (0..MAX_INSTANCES).for_each(|slot| sequences.flush(slot)));
}

fn each(mut work: impl FnMut(usize, &mut dyn AnySequences)) {
    exclusively(|| {
        let _ = SOURCES.try_with(|sources| {
            if let Ok(mut sources) = sources.try_borrow_mut() {
                for (number, sequences) in sources.0.iter_mut().enumerate() {
                    if let Some(sequences) = sequences {
                        work(number, &mut **sequences);
                    }
                }
            }
        });
    });
}

/// In a child process: what this thread wrote, it wrote into the parent's memory.
pub(crate) fn forget() {
    let _ = SOURCES.try_with(|sources| {
        if let Ok(mut sources) = sources.try_borrow_mut() {
            sources.0.iter_mut().for_each(|sequences| std::mem::forget(sequences.take()));
        }
    });
}
