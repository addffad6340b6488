//! The slices of spans that are open on this thread, the innermost last.

use std::cell::RefCell;

use crate::callsite::Callsite;

/// A span that this thread is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) id: u64,
    pub(crate) callsite: &'static Callsite,
    /// Whether its slice was begun: nobody may have recorded it then.
    pub(crate) has_slice: bool,
    /// Whether fields were recorded since.
    pub(crate) has_late_fields: bool,
}

/// What an exit ends.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) open: Open,
    /// Slices above it, the outermost first: spans that are left in another order than they were entered. They end with it, and begin
    /// again.
    pub(crate) above: Vec<Open>,
}

thread_local! {
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn enter(open: Open) {
    with(|stack| stack.push(open));
}

pub(crate) fn exit(id: u64) -> Option<Exit> {
    with(|stack| {
        let at = stack.iter().rposition(|open| open.id == id)?;
        let open = stack.remove(at);
        let above = stack.get(at..).unwrap_or_default().to_vec();
        Some(Exit { open, above })
    })?
}

/// Whether this thread is in the span.
pub(crate) fn is_inside(id: u64) -> bool {
    with(|stack| stack.iter().any(|open| open.id == id)).unwrap_or(false)
}

/// Remembers that the span has fields that its slice here, if there is one, has not.
pub(crate) fn note_late_fields(id: u64) {
    with(|stack| {
        if let Some(open) = stack.iter_mut().rev().find(|open| open.id == id) {
            open.has_late_fields = true;
        }
    });
}

/// `None` at the very end of the thread.
#[inline]
fn with<R>(work: impl FnOnce(&mut Vec<Open>) -> R) -> Option<R> {
    OPEN.try_with(|stack| stack.try_borrow_mut().ok().map(|mut stack| work(&mut stack))).ok().flatten()
}
