//! What each thread did all the time (upstream: thread_state_tracker.cc).
//!
//! A thread has at most one open row. The idle task has none.

use ferretto_trace_read::recent::Recent;
use ferretto_trace_tables::tables::{SpuriousSchedWakeupRow, Tables, ThreadStateRow};
use ferretto_trace_tables::{Str, Strings, ThreadStateId, Ucpu, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::task_state::TaskState;

/// Of `common_flags`: in an interrupt's handler, hard or soft.
const IN_INTERRUPT: u16 = 0x08 | 0x10;

/// Who wakes a thread.
#[derive(Clone, Copy, Debug)]
pub struct Wake {
    /// The thread that runs then.
    pub waker: Utid,
    /// The kernel's flags, if they are known.
    pub common_flags: Option<u16>,
}

/// What all threads do.
#[derive(Debug, Default)]
pub struct ThreadStates {
    /// By utid.
    threads: Vec<Option<Last>>,
    texts: HashMap<u16, Option<Str>, RandomState>,
    /// Of `texts` those that were asked for lately: threads mostly run on, or sleep.
    recent_texts: Recent<TaskState, Option<Str>, 8>,
    words: Option<Words>,
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
    /// A state's text; nothing if it is not valid.
    #[inline]
    pub fn text(&mut self, state: TaskState, strings: &mut Strings) -> Option<Str> {
        let number = state.number() as u16;
        // Most are a bit.
        let place = u64::from(number.trailing_zeros());
        if let Some(text) = self.recent_texts.get(place, state) {
            return text;
        }
        let text =
            *self.texts.entry(number).or_insert_with(|| state.text().map(|text| strings.intern(&text)));
        self.recent_texts.put(place, state, text);
        text
    }

    /// One thread is switched out, into a state, and another in.
    pub fn switch(
        &mut self,
        tables: &mut Tables,
        ts: i64,
        ucpu: Ucpu,
        (prev, state): (Utid, Option<Str>),
        next: Utid,
    ) {
        let words = self.words(&mut tables.strings);
        // It must have been running; if not, something was lost, and when that ended is not known.
        if self.last(prev).is_some_and(|last| last.kind == Kind::Running) {
            self.close(tables, ts, prev);
        }
        let kind = if state == Some(words.runnable) { Kind::Runnable } else { Kind::Blocked };
        self.open(tables, ThreadStateRow { ts, utid: prev, state, ..ThreadStateRow::default() }, kind);
        // A thread that is moved by force may be on two processors for a moment: whatever it did ends.
        self.close(tables, ts, next);
        let row = ThreadStateRow {
            ts,
            utid: next,
            state: Some(words.running),
            ucpu: Some(ucpu),
            ..ThreadStateRow::default()
        };
        self.open(tables, row, Kind::Running);
    }

    /// A thread is woken. If it does not sleep, that is a row of `spurious_sched_wakeup`.
    pub fn wake(&mut self, tables: &mut Tables, ts: i64, wakee: Utid, wake: Wake) {
        let irq_context = wake.common_flags.map(irq_context);
        match self.last(wakee) {
            Some(last) if last.kind != Kind::Blocked => {
                tables.spurious_sched_wakeup.push(SpuriousSchedWakeupRow {
                    ts,
                    thread_state_id: last.row,
                    irq_context,
                    utid: wakee,
                    waker_utid: wake.waker,
                });
            }
            Some(_) => {
                self.close(tables, ts, wakee);
                self.open_runnable(tables, ts, wakee, wake.waker, irq_context);
            }
            None => self.open_runnable(tables, ts, wakee, wake.waker, irq_context),
        }
    }

    /// A thread was made by another.
    pub fn begin(&mut self, tables: &mut Tables, ts: i64, child: Utid, parent: Utid) {
        self.open_runnable(tables, ts, child, parent, Some(0));
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
        self.close(tables, ts, utid);
        let last = self.last(utid).and_then(|last| tables.thread_state.ts.get(last.row.index()));
        let is_twice = last == Some(ts);
        let kind = self.kind_of(tables, state);
        self.open(tables, ThreadStateRow { ts, utid, state, ucpu, ..ThreadStateRow::default() }, kind);
        is_twice
    }

    /// What a thread does now is called otherwise.
    pub fn restate(&mut self, tables: &mut Tables, utid: Utid, state: Str) {
        let kind = self.kind_of(tables, Some(state));
        let Some(last) = self.threads.get_mut(utid.index()).and_then(Option::as_mut) else { return };
        last.kind = kind;
        tables.thread_state.state.set(last.row.index(), Some(state));
    }

    /// What a thread does now.
    #[must_use]
    pub fn state_of(&self, tables: &Tables, utid: Utid) -> Option<Str> {
        tables.thread_state.state.get(self.last(utid)?.row.index()).flatten()
    }

    fn kind_of(&mut self, tables: &mut Tables, state: Option<Str>) -> Kind {
        let words = self.words(&mut tables.strings);
        match state {
            Some(state) if state == words.running => Kind::Running,
            Some(state) if state == words.runnable => Kind::Runnable,
            _ => Kind::Blocked,
        }
    }

    /// Why a thread is blocked.
    pub fn blocked_reason(&mut self, tables: &mut Tables, utid: Utid, io_wait: bool, function: Option<Str>) {
        let Some(row) = self.last(utid).and_then(|last| last.blocked) else { return };
        tables.thread_state.io_wait.set(row.index(), Some(u32::from(io_wait)));
        if function.is_some() {
            tables.thread_state.blocked_function.set(row.index(), function);
        }
    }

    fn open_runnable(
        &mut self,
        tables: &mut Tables,
        ts: i64,
        utid: Utid,
        waker: Utid,
        irq_context: Option<u32>,
    ) {
        let words = self.words(&mut tables.strings);
        let waker_id = self.last(waker).filter(|last| last.kind == Kind::Running).map(|last| last.row);
        let row = ThreadStateRow {
            ts,
            utid,
            state: Some(words.runnable),
            waker_utid: Some(waker),
            waker_id,
            irq_context,
            ..ThreadStateRow::default()
        };
        self.open(tables, row, Kind::Runnable);
    }

    #[inline]
    fn last(&self, utid: Utid) -> Option<Last> {
        self.threads.get(utid.index()).copied().flatten()
    }

    #[inline]
    fn close(&mut self, tables: &mut Tables, ts: i64, utid: Utid) {
        let Some(last) = self.last(utid) else { return };
        let begun = tables.thread_state.ts.get(last.row.index()).unwrap_or(ts);
        tables.thread_state.dur.set(last.row.index(), ts.saturating_sub(begun));
    }

    #[inline]
    fn open(&mut self, tables: &mut Tables, row: ThreadStateRow, kind: Kind) {
        let utid = row.utid;
        if tables.thread.is_idle.get(utid.index()).copied().unwrap_or(false) && is_of_tid_0(tables, utid) {
            return;
        }
        let row = ThreadStateId(tables.thread_state.push(ThreadStateRow { dur: -1, ..row }));
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

/// Kernels other than Linux may have an idle task for each processor, which have rows.
#[cold]
fn is_of_tid_0(tables: &Tables, utid: Utid) -> bool {
    tables.thread.tid.get(utid.index()) == Some(&0)
}

fn irq_context(common_flags: u16) -> u32 {
    u32::from(common_flags & IN_INTERRUPT != 0)
}
