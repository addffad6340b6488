//! What a thread knows of spans: which one it made last, and which it is in, the innermost last.

use std::cell::{Cell, RefCell};

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
}

/// The span that this thread made last, if it has no fields. Most spans are entered at once by the thread that makes them: then nobody need
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
    with(|stack| stack.push(open));
}

/// What an exit of this span ends, if that is the innermost one.
#[inline]
pub(crate) fn exit_innermost(layer: u32, id: u64) -> Option<Open> {
    with(|stack| stack.pop_if(|open| open.id == id && open.layer == layer))?
}

/// As [`exit_innermost`], for any, and with those above it, the outermost first: spans are left in another order than they were entered.
/// Those above end with it, and begin again.
#[cold]
pub(crate) fn exit_any(layer: u32, id: u64) -> Option<(Open, Vec<Open>)> {
    with(|stack| {
        let at = stack.iter().rposition(|open| open.id == id && open.layer == layer)?;
        let open = stack.remove(at);
        Some((open, stack.get(at..).unwrap_or_default().to_vec()))
    })?
}

/// Whether this thread is in the span.
pub(crate) fn is_inside(layer: u32, id: u64) -> bool {
    with(|stack| stack.iter().any(|open| open.id == id && open.layer == layer)).unwrap_or(false)
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
