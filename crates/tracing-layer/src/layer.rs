//! From what happens to spans to the events of the trace.
//!
//! The layer stands within a filter of `tracing-subscriber`: only such a layer can leave callsites to other layers, or have them switched off
//! if those do not want them either. The filter looks each span up in the registry whenever it is entered, left or closed, which is half of
//! what is left of the layer's cost. Beyond that most spans are not looked up anywhere: what a thread made last it knows, and what it leaves is
//! what it entered last ([`thread`]). All others have entries in the [`table`](crate::table), or are looked up in the registry.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use ferretto::{AsyncSpan, Details, Flow, SpanId};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::callsite::Callsite;
use crate::fields::Fields;
use crate::slices::{begin_first, emit_event};
use crate::table::{Entry, More, Table};
use crate::thread::{self, Open};

thread_local! {
    /// Memory for the fields of one event after another. Taken out while it is used, as values may themselves log when they are shown.
    static FIELDS: Cell<Fields> = const { Cell::new(Fields::new()) };
}

/// Writes spans and events into traces. Made by [`layer`](crate::layer()).
#[derive(Debug)]
pub struct Spans {
    /// Other layers may have other spans with the same numbers.
    number: u32,
    table: Table,
}

impl Spans {
    pub(crate) fn new() -> Self {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), table: Table::new() }
    }
}

impl<S> Layer<S> for Spans
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _context: Context<'_, S>) {
        let (number, callsite) = (id.into_u64(), Callsite::of(attributes.metadata()));
        if attributes.is_empty() {
            thread::note_made(self.number, number, callsite);
            return;
        }
        let mut more = More::new();
        attributes.record(&mut more.fields);
        self.table.insert(number, callsite, more);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut late = Fields::new();
        values.record(&mut late);
        let has_begun = self.table.with(
            id.into_u64(),
            || callsite(id, &context),
            |entry| {
                let has_begun = entry.first.is_some();
                let more = entry.more();
                match more.task {
                    Some(_) => more.late_of_task.extend(&late),
                    None => more.fields.extend(&late),
                }
                if has_begun {
                    more.late.extend(&late);
                }
                has_begun
            },
        );
        if has_begun == Some(true) {
            thread::note_late_fields(self.number, id.into_u64());
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        let flow = Flow::unique();
        let has_begun = self.table.with(
            follows.into_u64(),
            || callsite(follows, &context),
            |entry| {
                if entry.first.is_none() {
                    entry.more().outgoing.push(flow);
                }
                entry.first.is_some()
            },
        );
        let Some(has_begun) = has_begun else {
            return;
        };
        let follower = self.table.with(
            id.into_u64(),
            || callsite(id, &context),
            |entry| {
                entry.more().incoming.push(flow);
                entry.callsite
            },
        );
        if let Some(follower) = follower.filter(|_| has_begun) {
            // The beginning of the other's slice is written already: the arrow comes from here.
            let name = format!("followed by {}", follower.name);
            let details = Details::new().name(&name).flow(flow);
            follower.instant.emit_with(&[], &details);
        }
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let callsite = Callsite::of(event.metadata());
        if !callsite.category.is_enabled() {
            return;
        }
        let mut fields = FIELDS.try_with(Cell::take).unwrap_or_default();
        event.record(&mut fields);
        emit_event(callsite, &fields, event.metadata().name());
        fields.clear();
        if fields.is_small() {
            let _ = FIELDS.try_with(|place| place.set(fields));
        }
    }

    #[inline]
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let number = id.into_u64();
        let entered = match thread::made(self.number, number) {
            Some(callsite) if self.table.is_free(number) => Some(self.enter_first(number, callsite)),
            _ => self.enter_any(number, id, &context),
        };
        if let Some((callsite, has_slice)) = entered {
            thread::enter(Open {
                id: number,
                layer: self.number,
                callsite,
                has_slice,
                has_late_fields: false,
            });
        }
    }

    #[inline]
    fn on_exit(&self, id: &Id, _context: Context<'_, S>) {
        match thread::exit_innermost(self.number, id.into_u64()) {
            Some(open) => self.end(&open),
            None => self.exit_any(id.into_u64()),
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(entry) = self.table.remove(id.into_u64()) else {
            return;
        };
        // Fields that came after its last slice make it one that lasts until now.
        let is_late = entry.more.as_ref().is_some_and(|more| more.task.is_none() && !more.late.is_empty());
        let new = if is_late { entry.begin_task(self.task_of_parent(&id, &context)) } else { None };
        let Some(mut more) = entry.more else {
            return;
        };
        if let Some(task) = more.task.take().or(new) {
            task.end_with(&more.late_of_task.named());
        }
        more.reuse();
    }
}

/// What a span is, from the registry.
fn callsite<S>(id: &Id, context: &Context<'_, S>) -> Option<&'static Callsite>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    context.metadata(id).map(Callsite::of)
}

impl Spans {
    /// A span of which nothing is kept begins on this thread. What it is, and whether it has a slice.
    #[inline]
    fn enter_first(&self, number: u64, callsite: &'static Callsite) -> (&'static Callsite, bool) {
        let (first, has_slice) = begin_first(callsite);
        self.table.keep_first(number, callsite, first);
        (callsite, has_slice)
    }

    /// As [`enter_first`](Self::enter_first), for any span.
    #[inline(never)]
    fn enter_any<S>(
        &self,
        number: u64,
        id: &Id,
        context: &Context<'_, S>,
    ) -> Option<(&'static Callsite, bool)>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if self.table.is_free(number) {
            return Some(self.enter_first(number, callsite(id, context)?));
        }
        let (has_slice, callsite) =
            self.table.with(number, || callsite(id, context), |entry| (entry.enter(), entry.callsite))?;
        Some((callsite, has_slice.unwrap_or_else(|| self.enter_again(number, id, context))))
    }

    /// A span that was left is entered again: it gets a slice of its own, and this thread one for this part of it. Whether it has that.
    #[cold]
    fn enter_again<S>(&self, number: u64, id: &Id, context: &Context<'_, S>) -> bool
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let has_task = self.table.get(number, |entry| entry.task().is_some()).unwrap_or(true);
        // One that is entered twice at once, as recursion does, is only on this thread.
        if !has_task && !thread::is_inside(self.number, number) {
            // Before the entry is locked: two are never at once.
            let parent = self.task_of_parent(id, context);
            self.change(number, |entry| {
                if entry.task().is_none() {
                    entry.more().task = entry.begin_task(parent);
                }
            });
        }
        self.change(number, Entry::begin_part).unwrap_or(false)
    }

    /// The slice of this thread ends, if it has one.
    #[inline]
    fn end(&self, open: &Open) {
        if !open.has_slice {
            return;
        }
        if !open.has_late_fields {
            open.callsite.end.emit(&[]);
            return;
        }
        let late = self.change(open.id, |entry| std::mem::take(&mut entry.more().late)).unwrap_or_default();
        open.callsite.end.emit_with(&[], &Details::new().arguments(&late.named()));
    }

    /// Leaves a span that others are in, too.
    #[cold]
    fn exit_any(&self, number: u64) {
        let Some((open, above)) = thread::exit_any(self.number, number) else {
            return;
        };
        for other in above.iter().rev().filter(|other| other.has_slice) {
            other.callsite.end.emit(&[]);
        }
        self.end(&open);
        for other in above.iter().filter(|other| other.has_slice) {
            other.callsite.begin.emit(&[]);
        }
    }

    /// Does something with the entry of a span that has one.
    fn change<R>(&self, number: u64, work: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        self.table.with(number, || None, work)
    }

    fn task_of_parent<S>(&self, id: &Id, context: &Context<'_, S>) -> Option<SpanId>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let parent = context.span(id)?.parent()?.id().into_u64();
        self.table.get(parent, |entry| entry.task().and_then(AsyncSpan::id))?
    }
}
