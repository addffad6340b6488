//! What a thread knows of spans: which one it made last, and which it is in, the innermost last. And of sessions: how many had begun when
//! it looked last.

use std::cell::{Cell, RefCell};

use ferretto::SessionStart;

use crate::callsite::Callsite;

/// A span that this thread is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) id: u64,
    pub(crate) layer: u32,
    pub(crate) callsite: &'static Callsite,
    /// Whether its slice was begun: nobody may have recorded it then.
    pub(crate) has_slice: bool,
    /// Whether fields were recorded since.
    pub(crate) has_late_fields: bool,
    /// Whether this is a part of it that is seen in its slice among the tasks alone.
    pub(crate) is_poll: bool,
}

/// The span that this thread made last, below the span that it is in. Most spans are entered at once by the thread that makes them: then nobody need
/// be asked what they are.
#[derive(Debug, Clone, Copy)]
struct Made {
    id: u64,
    layer: u32,
    callsite: &'static Callsite,
}

thread_local! {
    static MADE: Cell<Option<Made>> = const { Cell::new(None) };
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
    /// How many of these are [polls](Open::is_poll).
    static POLLS: Cell<u32> = const { Cell::new(0) };
    /// Sessions that had begun when this thread looked last.
    static STARTS: Cell<u32> = const { Cell::new(0) };
}

/// Whether sessions have begun since this thread looked last.
#[inline]
pub(crate) fn has_missed_starts() -> bool {
    STARTS.get() != ferretto::session_starts()
}

/// These sessions.
pub(crate) fn take_starts() -> Vec<SessionStart> {
    let seen = STARTS.replace(ferretto::session_starts());
    if is_in_any() { SessionStart::since(seen) } else { Vec::new() }
}

fn is_in_any() -> bool {
    with(|stack| !stack.is_empty()).unwrap_or(false)
}

/// The spans that this thread is in.
pub(crate) fn all_open() -> Vec<Open> {
    with(|stack| stack.clone()).unwrap_or_default()
}

/// One of them, which is the nth from the outside, has a slice from now on.
pub(crate) fn note_slice(index: usize) {
    with(|stack| {
        if let Some(open) = stack.get_mut(index) {
            open.has_slice = true;
        }
    });
}

/// Whether one of the spans that this thread is in has no slice here, as it is polled.
#[inline]
pub(crate) fn is_polling() -> bool {
    POLLS.get() != 0
}

/// The innermost span that this thread is in.
pub(crate) fn innermost() -> Option<Open> {
    with(|stack| stack.last().copied())?
}

/// The span that this thread made last is none that it can enter without a look at others.
pub(crate) fn forget_made() {
    MADE.set(None);
}

/// Remembers a span that was made. Registries use numbers again, but that of this one again for this thread: then this is called again, or
/// the other span has fields, and therefore an entry.
#[inline]
pub(crate) fn note_made(layer: u32, id: u64, callsite: &'static Callsite) {
    MADE.set(Some(Made { id, layer, callsite }));
}

/// What this span is, if it is the one that this thread made last.
#[inline]
pub(crate) fn made(layer: u32, id: u64) -> Option<&'static Callsite> {
    MADE.get().filter(|made| made.id == id && made.layer == layer).map(|made| made.callsite)
}

#[inline]
pub(crate) fn enter(open: Open) {
    if open.is_poll {
        POLLS.set(POLLS.get().saturating_add(1));
    }
    with(|stack| stack.push(open));
}

/// What an exit of this span ends, if that is the innermost one.
#[inline]
pub(crate) fn exit_innermost(layer: u32, id: u64) -> Option<Open> {
    with(|stack| stack.pop_if(|open| open.id == id && open.layer == layer))?.inspect(note_exit)
}

/// As [`exit_innermost`], for any, and with those above it, the outermost first: spans are left in another order than they were entered.
/// Those above end with it, and begin again.
#[cold]
pub(crate) fn exit_any(layer: u32, id: u64) -> Option<(Open, Vec<Open>)> {
    with(|stack| {
        let at = stack.iter().rposition(|open| open.id == id && open.layer == layer)?;
        let open = stack.remove(at);
        note_exit(&open);
        Some((open, stack.get(at..).unwrap_or_default().to_vec()))
    })?
}

#[inline]
fn note_exit(open: &Open) {
    if open.is_poll {
        POLLS.set(POLLS.get().saturating_sub(1));
    }
}

/// The span, if this thread is in it.
pub(crate) fn inside(layer: u32, id: u64) -> Option<Open> {
    with(|stack| stack.iter().rev().find(|open| open.id == id && open.layer == layer).copied())?
}

/// Remembers that the span has fields that its slice here, if there is one, has not.
pub(crate) fn note_late_fields(layer: u32, id: u64) {
    with(|stack| {
        if let Some(open) = stack.iter_mut().rev().find(|open| open.id == id && open.layer == layer) {
            open.has_late_fields = true;
        }
    });
}

/// `None` at the very end of the thread.
#[inline]
fn with<R>(work: impl FnOnce(&mut Vec<Open>) -> R) -> Option<R> {
    OPEN.try_with(|stack| stack.try_borrow_mut().ok().map(|mut stack| work(&mut stack))).ok().flatten()
}
