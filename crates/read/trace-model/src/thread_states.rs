//! What each thread did all the time (upstream: thread_state_tracker.cc).
//!
//! A thread has at most one open row. The idle task has none. Rules seldom ask what a thread does: where there is a helper, it writes the rows,
//! and those of `sched` with them.

use std::sync::Arc;

use ferretto_trace_read::recent::Recent;
use ferretto_trace_tables::tables::{
    SchedRow, SchedTable, SpuriousSchedWakeupRow, SpuriousSchedWakeupTable, Tables, ThreadStateRow,
    ThreadStateTable,
};
use ferretto_trace_tables::{Helper, SchedId, Store, Str, Strings, ThreadStateId, Ucpu, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::task_state::TaskState;
use beside::Beside;

mod beside;

/// Of `common_flags`: in an interrupt's handler, hard or soft.
const IN_INTERRUPT: u16 = 0x08 | 0x10;

/// A kernel's version, if it is known.
type Version = Option<(u32, u32)>;

/// Who wakes a thread.
#[derive(Clone, Copy, Debug)]
pub struct Wake {
    /// The thread that runs then.
    pub waker: Utid,
    /// The kernel's flags, if they are known.
    pub common_flags: Option<u16>,
}

/// What all threads do.
///
/// Where a helper works beside, it has the tables of states, and writes what was said in its order.
#[derive(Debug, Default)]
pub struct ThreadStates {
    /// Without a helper.
    states: States,
    beside: Option<Beside>,
    texts: HashMap<u16, Option<Str>, RandomState>,
    /// Of `texts` those that were asked for lately: threads mostly run on, or sleep.
    recent_texts: Recent<(u16, Version), Option<Str>, 16>,
    words: Option<Words>,
}

/// What happens to the states of threads that nobody waits for.
#[derive(Clone, Copy, Debug)]
enum Change {
    Switch { ts: i64, ucpu: Ucpu, prev: Thread, state: Option<Str>, next: Thread, sched: Sched },
    Wake { ts: i64, wakee: Thread, wake: Wake },
    Begin { ts: i64, child: Thread, parent: Utid },
    Blocked { utid: Utid, io_wait: bool, function: Option<Str> },
}

/// What a switch does in `sched`.
#[derive(Clone, Copy, Debug)]
struct Sched {
    /// The row that ends, if there is one.
    ended: Option<SchedId>,
    /// Of whom runs now.
    priority: i32,
}

/// One thread is switched out, and another in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switched {
    pub(crate) ts: i64,
    pub(crate) ucpu: Ucpu,
    pub(crate) prev: Utid,
    /// What `prev` does now.
    pub(crate) state: Option<Str>,
    pub(crate) next: Utid,
    pub(crate) next_priority: i32,
    /// The row of `sched` that ends, if there is one.
    pub(crate) ended: Option<SchedId>,
}

/// A thread whose state changes.
#[derive(Clone, Copy, Debug)]
struct Thread {
    utid: Utid,
    /// The idle task has no rows.
    has_rows: bool,
}

/// Where the rows of states are.
#[derive(Debug)]
struct Rows<'a> {
    sched: &'a mut SchedTable,
    states: &'a mut ThreadStateTable,
    spurious: &'a mut SpuriousSchedWakeupTable,
}

/// The states of all threads.
#[derive(Debug, Default)]
struct States {
    /// By utid.
    threads: Vec<Option<Last>>,
}

/// The last rows of a thread.
#[derive(Clone, Copy, Debug)]
struct Last {
    row: ThreadStateId,
    kind: Kind,
    /// The last row in which it was blocked, until it runs.
    blocked: Option<ThreadStateId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Running,
    Runnable,
    /// All others: `R+`, too.
    Blocked,
}

#[derive(Clone, Copy, Debug)]
struct Words {
    running: Str,
    runnable: Str,
}

impl ThreadStates {
    /// The text of a state as a kernel of this version reports it; nothing if it is not valid.
    #[inline]
    pub fn text(&mut self, raw: u16, version: Version, strings: &mut Strings) -> Option<Str> {
        // Most are a bit, or none.
        let place = u64::from(u16::BITS - raw.leading_zeros());
        match self.recent_texts.get(place, (raw, version)) {
            Some(text) => text,
            None => self.other_text(place, (raw, version), strings),
        }
    }

    #[cold]
    fn other_text(&mut self, place: u64, key: (u16, Version), strings: &mut Strings) -> Option<Str> {
        let state = TaskState::of(key.0, key.1);
        let number = state.number() as u16;
        let text =
            *self.texts.entry(number).or_insert_with(|| state.text().map(|text| strings.intern(&text)));
        self.recent_texts.put(place, key, text);
        text
    }

    /// One thread is switched out, and another in: as a row of `sched`, of this number, and as their states.
    #[inline]
    pub(crate) fn switch(&mut self, tables: &mut Tables, switched: &Switched) -> SchedId {
        let Switched { ts, ucpu, prev, state, next, next_priority, ended } = *switched;
        let (prev, next) = (Thread::of(prev, tables), Thread::of(next, tables));
        let row = match &mut self.beside {
            Some(beside) => beside.next_sched_row(),
            None => row_number(&tables.sched),
        };
        let sched = Sched { ended, priority: next_priority };
        self.change(tables, Change::Switch { ts, ucpu, prev, state, next, sched });
        row
    }

    /// What `f` does with the rows of `sched`.
    pub(crate) fn with_sched<R>(&mut self, tables: &mut Tables, f: impl FnOnce(&mut SchedTable) -> R) -> R {
        match &mut self.beside {
            None => f(&mut tables.sched),
            Some(beside) => beside.with_sched(f),
        }
    }

    /// A thread is woken. If it does not sleep, that is a row of `spurious_sched_wakeup`.
    #[inline]
    pub fn wake(&mut self, tables: &mut Tables, ts: i64, wakee: Utid, wake: Wake) {
        let wakee = Thread::of(wakee, tables);
        self.change(tables, Change::Wake { ts, wakee, wake });
    }

    /// A thread was made by another.
    pub fn begin(&mut self, tables: &mut Tables, ts: i64, child: Utid, parent: Utid) {
        let child = Thread::of(child, tables);
        self.change(tables, Change::Begin { ts, child, parent });
    }

    /// Why a thread is blocked.
    pub fn blocked_reason(&mut self, tables: &mut Tables, utid: Utid, io_wait: bool, function: Option<Str>) {
        self.change(tables, Change::Blocked { utid, io_wait, function });
    }

    /// A thread is in this state from now on, whatever it did. Whether it came into another one at the same time.
    pub fn push(
        &mut self,
        tables: &mut Tables,
        ts: i64,
        utid: Utid,
        state: Option<Str>,
        ucpu: Option<Ucpu>,
    ) -> bool {
        let kind = self.words(&mut tables.strings).kind_of(state);
        let thread = Thread::of(utid, tables);
        self.with_states(tables, |states, rows| {
            states.close(rows, ts, utid);
            let last = states.last(utid).and_then(|last| rows.states.ts.get(last.row.index()));
            let is_twice = last == Some(ts);
            let row = ThreadStateRow { ts, utid, state, ucpu, ..ThreadStateRow::default() };
            states.open(rows, thread, row, kind);
            is_twice
        })
    }

    /// What a thread does now is called otherwise.
    pub fn restate(&mut self, tables: &mut Tables, utid: Utid, state: Str) {
        let kind = self.words(&mut tables.strings).kind_of(Some(state));
        self.with_states(tables, |states, rows| {
            let Some(last) = states.threads.get_mut(utid.index()).and_then(Option::as_mut) else { return };
            last.kind = kind;
            rows.states.state.set(last.row.index(), Some(state));
        });
    }

    /// What a thread does now.
    #[must_use]
    pub fn state_of(&mut self, tables: &mut Tables, utid: Utid) -> Option<Str> {
        self.with_states(tables, |states, rows| {
            rows.states.state.get(states.last(utid)?.row.index()).flatten()
        })
    }

    /// A helper writes beside from now on, until [`end_helper`](Self::end_helper).
    pub(crate) fn set_helper(&mut self, helper: &Arc<dyn Helper>, tables: &mut Tables) {
        let states = std::mem::take(&mut self.states);
        self.beside = Some(Beside::new(states, tables, helper.clone()));
    }

    /// Blocks of the tables lie in the store from now on, if a helper has them.
    pub(crate) fn move_to(&self, store: &Arc<dyn Store>) {
        if let Some(beside) = &self.beside {
            beside.move_to(store);
        }
    }

    /// All rows are written, and the tables are where they belong. The helper goes.
    pub(crate) fn end_helper(&mut self, tables: &mut Tables) {
        if let Some(beside) = self.beside.take() {
            self.states = beside.end(tables);
        }
    }

    #[inline(always)]
    fn change(&mut self, tables: &mut Tables, change: Change) {
        let words = self.words(&mut tables.strings);
        match &mut self.beside {
            Some(beside) => beside.add(words, change),
            None => self.states.change(&mut Rows::of(tables), words, change),
        }
    }

    fn with_states<R>(&mut self, tables: &mut Tables, f: impl FnOnce(&mut States, &mut Rows<'_>) -> R) -> R {
        match &mut self.beside {
            None => f(&mut self.states, &mut Rows::of(tables)),
            Some(beside) => {
                let mut shared = beside.caught_up();
                let (states, mut rows) = shared.parts();
                f(states, &mut rows)
            }
        }
    }

    #[inline]
    fn words(&mut self, strings: &mut Strings) -> Words {
        match self.words {
            Some(words) => words,
            None => self.begin_words(strings),
        }
    }

    #[cold]
    fn begin_words(&mut self, strings: &mut Strings) -> Words {
        let words = Words { running: strings.intern("Running"), runnable: strings.intern("R") };
        *self.words.insert(words)
    }
}

impl States {
    #[inline(always)]
    fn change(&mut self, rows: &mut Rows<'_>, words: Words, change: Change) {
        match change {
            Change::Switch { ts, ucpu, prev, state, next, sched } => {
                if let Some(ended) = sched.ended {
                    close(rows.sched, ended, ts, state);
                }
                let priority = sched.priority;
                rows.sched.push(SchedRow { ts, dur: -1, utid: next.utid, end_state: None, priority, ucpu });
                self.switch(rows, words, (ts, ucpu), (prev, state), next);
            }
            Change::Wake { ts, wakee, wake } => self.wake(rows, words, ts, wakee, wake),
            Change::Begin { ts, child, parent } => {
                self.open_runnable(rows, words, ts, child, parent, Some(0));
            }
            Change::Blocked { utid, io_wait, function } => {
                let Some(row) = self.last(utid).and_then(|last| last.blocked) else { return };
                rows.states.io_wait.set(row.index(), Some(u32::from(io_wait)));
                if function.is_some() {
                    rows.states.blocked_function.set(row.index(), function);
                }
            }
        }
    }

    fn switch(
        &mut self,
        rows: &mut Rows<'_>,
        words: Words,
        (ts, ucpu): (i64, Ucpu),
        (prev, state): (Thread, Option<Str>),
        next: Thread,
    ) {
        // It must have been running; if not, something was lost, and when that ended is not known.
        if self.last(prev.utid).is_some_and(|last| last.kind == Kind::Running) {
            self.close(rows, ts, prev.utid);
        }
        let kind = if state == Some(words.runnable) { Kind::Runnable } else { Kind::Blocked };
        let row = ThreadStateRow { ts, utid: prev.utid, state, ..ThreadStateRow::default() };
        self.open(rows, prev, row, kind);
        // A thread that is moved by force may be on two processors for a moment: whatever it did ends.
        self.close(rows, ts, next.utid);
        let row = ThreadStateRow {
            ts,
            utid: next.utid,
            state: Some(words.running),
            ucpu: Some(ucpu),
            ..ThreadStateRow::default()
        };
        self.open(rows, next, row, Kind::Running);
    }

    fn wake(&mut self, rows: &mut Rows<'_>, words: Words, ts: i64, wakee: Thread, wake: Wake) {
        let irq_context = wake.common_flags.map(irq_context);
        match self.last(wakee.utid) {
            Some(last) if last.kind != Kind::Blocked => {
                rows.spurious.push(SpuriousSchedWakeupRow {
                    ts,
                    thread_state_id: last.row,
                    irq_context,
                    utid: wakee.utid,
                    waker_utid: wake.waker,
                });
            }
            Some(_) => {
                self.close(rows, ts, wakee.utid);
                self.open_runnable(rows, words, ts, wakee, wake.waker, irq_context);
            }
            None => self.open_runnable(rows, words, ts, wakee, wake.waker, irq_context),
        }
    }

    fn open_runnable(
        &mut self,
        rows: &mut Rows<'_>,
        words: Words,
        ts: i64,
        thread: Thread,
        waker: Utid,
        irq_context: Option<u32>,
    ) {
        let waker_id = self.last(waker).filter(|last| last.kind == Kind::Running).map(|last| last.row);
        let row = ThreadStateRow {
            ts,
            utid: thread.utid,
            state: Some(words.runnable),
            waker_utid: Some(waker),
            waker_id,
            irq_context,
            ..ThreadStateRow::default()
        };
        self.open(rows, thread, row, Kind::Runnable);
    }

    #[inline]
    fn last(&self, utid: Utid) -> Option<Last> {
        self.threads.get(utid.index()).copied().flatten()
    }

    #[inline]
    fn close(&self, rows: &mut Rows<'_>, ts: i64, utid: Utid) {
        let Some(last) = self.last(utid) else { return };
        let begun = rows.states.ts.get(last.row.index()).unwrap_or(ts);
        rows.states.dur.set(last.row.index(), ts.saturating_sub(begun));
    }

    #[inline]
    fn open(&mut self, rows: &mut Rows<'_>, thread: Thread, row: ThreadStateRow, kind: Kind) {
        if !thread.has_rows {
            return;
        }
        let utid = thread.utid;
        let row = ThreadStateId(rows.states.push(ThreadStateRow { dur: -1, ..row }));
        if self.threads.len() <= utid.index() {
            self.threads.resize(utid.index() + 1, None);
        }
        let Some(last) = self.threads.get_mut(utid.index()) else { return };
        let blocked = match kind {
            Kind::Running => None,
            Kind::Blocked => Some(row),
            Kind::Runnable => last.and_then(|last| last.blocked),
        };
        *last = Some(Last { row, kind, blocked });
    }
}

impl Words {
    fn kind_of(self, state: Option<Str>) -> Kind {
        match state {
            Some(state) if state == self.running => Kind::Running,
            Some(state) if state == self.runnable => Kind::Runnable,
            _ => Kind::Blocked,
        }
    }
}

impl<'a> Rows<'a> {
    #[inline]
    fn of(tables: &'a mut Tables) -> Self {
        Self {
            sched: &mut tables.sched,
            states: &mut tables.thread_state,
            spurious: &mut tables.spurious_sched_wakeup,
        }
    }
}

/// The number of the next row.
#[inline]
fn row_number(sched: &SchedTable) -> SchedId {
    SchedId(u32::try_from(sched.len()).unwrap_or(u32::MAX))
}

/// Ends a row of `sched`.
#[inline]
pub(crate) fn close(sched: &mut SchedTable, row: SchedId, ts: i64, state: Option<Str>) {
    let begun = sched.ts.get(row.index()).unwrap_or(ts);
    sched.dur.set(row.index(), ts.saturating_sub(begun));
    sched.end_state.set(row.index(), state);
}

impl Thread {
    #[inline]
    fn of(utid: Utid, tables: &Tables) -> Self {
        let is_idle = tables.thread.is_idle.get(utid.index()).copied().unwrap_or(false);
        Self { utid, has_rows: !(is_idle && is_of_tid_0(tables, utid)) }
    }
}

/// Kernels other than Linux may have an idle task for each processor, which have rows.
#[cold]
fn is_of_tid_0(tables: &Tables, utid: Utid) -> bool {
    tables.thread.tid.get(utid.index()) == Some(&0)
}

fn irq_context(common_flags: u16) -> u32 {
    u32::from(common_flags & IN_INTERRUPT != 0)
}
