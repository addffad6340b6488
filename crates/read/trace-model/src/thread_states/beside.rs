//! States that another thread writes.
//!
//! What becomes of a thread's state nobody waits for while the kernel's events have their turns, so changes go to the helper in batches, in
//! their order. Whoever has to know a state catches up.
//!
//! Memory: [`MAX_WAITING`] batches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_trace_tables::tables::{SchedTable, SpuriousSchedWakeupTable, Tables, ThreadStateTable};
use ferretto_trace_tables::{Helper, SchedId, Store};

use super::{Change, Rows, States, Words, row_number};

/// Changes of a batch: some hundred microseconds of work.
const BATCH: usize = 1024;
/// Batches that may wait. More mean that the helper is busy.
const MAX_WAITING: usize = 8;

/// A helper, and what it has.
#[derive(Debug)]
pub(super) struct Beside {
    both: Arc<Both>,
    helper: Arc<dyn Helper>,
    /// What comes next.
    batch: Vec<(Words, Change)>,
    /// The number of the next row of `sched`.
    next_sched: SchedId,
}

/// What both threads have.
#[derive(Debug, Default)]
struct Both {
    shared: Mutex<Shared>,
    waiting: Mutex<VecDeque<Vec<(Words, Change)>>>,
    /// Batches that are empty, with their memory.
    empty: Mutex<Vec<Vec<(Words, Change)>>>,
}

/// The states and their tables.
#[derive(Debug, Default)]
pub(super) struct Shared {
    states: States,
    sched: SchedTable,
    rows: ThreadStateTable,
    spurious: SpuriousSchedWakeupTable,
}

impl Shared {
    /// The states, and where their rows are.
    pub(super) fn parts(&mut self) -> (&mut States, Rows<'_>) {
        let Self { states, sched, rows, spurious } = self;
        (states, Rows { sched, states: rows, spurious })
    }
}

impl Beside {
    /// Takes the tables.
    pub(super) fn new(states: States, tables: &mut Tables, helper: Arc<dyn Helper>) -> Self {
        let next_sched = row_number(&tables.sched);
        let sched = std::mem::take(&mut tables.sched);
        let rows = std::mem::take(&mut tables.thread_state);
        let spurious = std::mem::take(&mut tables.spurious_sched_wakeup);
        let shared = Mutex::new(Shared { states, sched, rows, spurious });
        let both = Arc::new(Both { shared, ..Both::default() });
        Self { both, helper, batch: Vec::with_capacity(BATCH), next_sched }
    }

    /// The number of the row of `sched` that the next change writes.
    #[inline]
    pub(super) fn next_sched_row(&mut self) -> SchedId {
        let row = self.next_sched;
        self.next_sched = SchedId(row.0.saturating_add(1));
        row
    }

    /// What `f` does with the rows of `sched`.
    pub(super) fn with_sched<R>(&mut self, f: impl FnOnce(&mut SchedTable) -> R) -> R {
        let mut shared = self.caught_up();
        let done = f(&mut shared.sched);
        let next_sched = row_number(&shared.sched);
        drop(shared);
        self.next_sched = next_sched;
        done
    }

    #[inline]
    pub(super) fn add(&mut self, words: Words, change: Change) {
        self.batch.push((words, change));
        if self.batch.len() >= BATCH {
            self.hand_over();
        }
    }

    /// All changes are made; what has come of them.
    pub(super) fn caught_up(&mut self) -> MutexGuard<'_, Shared> {
        self.put();
        self.both.work();
        lock(&self.both.shared)
    }

    /// Blocks of the tables lie in the store from now on.
    pub(super) fn move_to(&self, store: &Arc<dyn Store>) {
        let mut shared = lock(&self.both.shared);
        shared.sched.move_to(store);
        shared.rows.move_to(store);
        shared.spurious.move_to(store);
    }

    /// Puts the tables where they belong.
    pub(super) fn end(mut self, tables: &mut Tables) -> States {
        let shared = std::mem::take(&mut *self.caught_up());
        tables.sched = shared.sched;
        tables.thread_state = shared.rows;
        tables.spurious_sched_wakeup = shared.spurious;
        shared.states
    }

    #[cold]
    #[inline(never)]
    fn hand_over(&mut self) {
        let waiting = self.put();
        let both = self.both.clone();
        let is_taken = self.helper.help(Box::new(move || both.work())).is_ok();
        if !is_taken || waiting > MAX_WAITING {
            self.both.work();
        }
    }

    /// Puts what came behind what waits; returns how many wait.
    fn put(&mut self) -> usize {
        if self.batch.is_empty() {
            return 0;
        }
        let next = lock(&self.both.empty).pop().unwrap_or_else(|| Vec::with_capacity(BATCH));
        let batch = std::mem::replace(&mut self.batch, next);
        let mut waiting = lock(&self.both.waiting);
        waiting.push_back(batch);
        waiting.len()
    }
}

impl Both {
    /// Makes the changes that wait, in their order.
    fn work(&self) {
        let mut shared = lock(&self.shared);
        let (states, mut rows) = shared.parts();
        loop {
            let Some(mut batch) = lock(&self.waiting).pop_front() else { return };
            batch.drain(..).for_each(|(words, change)| states.change(&mut rows, words, change));
            lock(&self.empty).push(batch);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
