//! Arguments that another thread writes.
//!
//! ```text
//! rows and what they say ─▶ batch ─▶ waiting, in order ──▶ who comes first: lists, table `args`
//! rows ◀──────────── numbers of their sets ◀── done
//! ```
//!
//! Batches are written in their order by whoever holds the lists: the helper, or the thread that makes the tables when it needs a number at
//! once or is too far ahead. So the table is the same as without a helper. A row is still among the last of its table, which change at little
//! cost, when it learns its number.
//!
//! Memory: [`MAX_AHEAD`] batches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_trace_tables::tables::{ArgTable, Tables};
use ferretto_trace_tables::{ArgSetId, Helper, Str};

use super::{Arg, ArgList, RowOf, Sets};

/// Rows of a batch: some hundred microseconds of work.
const BATCH: usize = 512;
/// Batches that rows may be without numbers. With their rows, it is far less than a table's rows that are not packed.
const MAX_AHEAD: usize = 8;

/// A helper, and what it has.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) shared: Arc<Both>,
    helper: Arc<dyn Helper>,
    /// What comes next.
    batch: Batch,
    /// Batches whose numbers have not come back.
    ahead: usize,
    /// Batches that are empty, with their memory.
    empty: Vec<Batch>,
    /// By slot: the row that has said its arguments, and their set, once that is known.
    slots: Vec<(u32, Option<ArgSetId>)>,
}

/// The lists and the table, and what is to be written.
#[derive(Debug)]
pub(super) struct Both {
    shared: Mutex<Shared>,
    waiting: Mutex<VecDeque<Batch>>,
    done: Mutex<Vec<Batch>>,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) sets: Sets,
    pub(super) rows: ArgTable,
    /// By slot.
    pub(super) remembered: Vec<ArgList>,
}

#[derive(Debug, Default)]
struct Batch {
    rows: Vec<(RowOf, What)>,
    /// The arguments of all rows that say some.
    args: Vec<Arg>,
    /// By row: what came of it.
    sets: Vec<Option<ArgSetId>>,
    first_stays: Option<Str>,
}

/// What a row says.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A list.
    List(ArgList),
    /// Arguments of the batch up to this one, from where the last row's end. With a slot their list is remembered there.
    Args(usize, Option<Slot>),
    /// The list that is remembered.
    Remembered(Slot),
}

/// A place for a list that comes again.
pub(crate) type Slot = u16;

impl Beside {
    pub(super) fn new(shared: Shared, helper: Arc<dyn Helper>) -> Self {
        let shared =
            Arc::new(Both { shared: Mutex::new(shared), waiting: Mutex::default(), done: Mutex::default() });
        Self { shared, helper, batch: Batch::default(), ahead: 0, empty: Vec::new(), slots: Vec::new() }
    }

    /// A row with a list.
    #[inline]
    pub(super) fn add(&mut self, row: RowOf, what: What, tables: &mut Tables) {
        self.batch.rows.push((row, what));
        if self.batch.rows.len() >= BATCH {
            self.hand_over(tables);
        }
    }

    /// A row with arguments.
    #[inline]
    pub(super) fn add_args(
        &mut self,
        row: RowOf,
        (args, slot): (&[Arg], Option<Slot>),
        first_stays: Option<Str>,
        tables: &mut Tables,
    ) {
        if self.batch.first_stays != first_stays {
            self.hand_over(tables);
            self.batch.first_stays = first_stays;
        }
        self.batch.args.extend_from_slice(args);
        self.add(row, What::Args(self.batch.args.len(), slot), tables);
    }

    /// A row says arguments that its slot has from now on.
    pub(super) fn begin_slot(&mut self, slot: Slot, row: u32) {
        let slot = usize::from(slot);
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, (0, None));
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = (row, None);
        }
    }

    /// The set of a slot's arguments, if it is known by now.
    pub(super) fn set_of_slot(&self, slot: Slot) -> Option<ArgSetId> {
        self.slots.get(usize::from(slot))?.1
    }

    /// Everything that rows have said is written, and they have their numbers.
    pub(super) fn catch_up(&mut self, tables: &mut Tables) {
        if self.batch.rows.is_empty() && self.ahead == 0 {
            return;
        }
        self.put();
        self.shared.write();
        self.take_numbers(tables);
    }

    #[cold]
    fn hand_over(&mut self, tables: &mut Tables) {
        self.put();
        let shared = self.shared.clone();
        let is_taken = self.helper.help(Box::new(move || shared.write())).is_ok();
        if !is_taken || self.ahead >= MAX_AHEAD {
            self.shared.write();
        }
        self.take_numbers(tables);
    }

    fn put(&mut self) {
        if self.batch.rows.is_empty() {
            return;
        }
        let next = Batch { first_stays: self.batch.first_stays, ..self.empty.pop().unwrap_or_default() };
        let batch = std::mem::replace(&mut self.batch, next);
        lock(&self.shared.waiting).push_back(batch);
        self.ahead += 1;
    }

    fn take_numbers(&mut self, tables: &mut Tables) {
        let done = std::mem::take(&mut *lock(&self.shared.done));
        for mut batch in done {
            for ((row, what), set) in batch.rows.iter().zip(&batch.sets) {
                if let Some(set) = set {
                    row.set(*set, tables);
                }
                // The slot may have other arguments since.
                if let (RowOf::Event(row), What::Args(_, Some(slot))) = (row, what)
                    && let Some((first, known)) = self.slots.get_mut(usize::from(*slot))
                    && first == row
                {
                    *known = *set;
                }
            }
            batch.rows.clear();
            batch.args.clear();
            batch.sets.clear();
            self.ahead -= 1;
            self.empty.push(batch);
        }
    }
}

impl Both {
    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// Writes what waits, in its order.
    fn write(&self) {
        let mut shared = self.lock();
        loop {
            // Whoever waits for the lists may add batches meanwhile.
            let Some(mut batch) = lock(&self.waiting).pop_front() else { return };
            shared.write(&mut batch);
            lock(&self.done).push(batch);
        }
    }
}

impl Shared {
    fn write(&mut self, batch: &mut Batch) {
        let mut begin = 0;
        for (_, what) in &batch.rows {
            let list = match what {
                What::List(list) => *list,
                What::Args(end, slot) => {
                    let args = batch.args.get(begin..*end).unwrap_or_default();
                    begin = *end;
                    let list = self.sets.intern(args, batch.first_stays);
                    if let Some(slot) = slot {
                        remember(&mut self.remembered, *slot, list);
                    }
                    list
                }
                What::Remembered(slot) => {
                    self.remembered.get(usize::from(*slot)).copied().unwrap_or_default()
                }
            };
            batch.sets.push(self.sets.write_plain(list, &mut self.rows));
        }
    }
}

fn remember(lists: &mut Vec<ArgList>, slot: Slot, list: ArgList) {
    let slot = usize::from(slot);
    if lists.len() <= slot {
        lists.resize(slot + 1, ArgList::EMPTY);
    }
    if let Some(place) = lists.get_mut(slot) {
        *place = list;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
