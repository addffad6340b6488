//! From what happens to spans to the events of the trace.

use std::cell::Cell;

use ferretto::{AsyncSpan, Details, Flow, SpanId, Value};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::callsite::Callsite;
use crate::fields::Fields;
use crate::slices::emit_event;
use crate::table::{Entry, Table};
use crate::thread::{self, Exit, Open};

thread_local! {
    /// Memory for the fields of one event after another. Taken out while it is used, as values may themselves log when they are shown.
    static FIELDS: Cell<Fields> = const { Cell::new(Fields::new()) };
}

/// Writes spans and events into traces. Made by [`layer`](crate::layer()).
#[derive(Debug)]
pub struct Spans {
    table: Table,
}

impl Spans {
    pub(crate) fn new() -> Self {
        Self { table: Table::new() }
    }
}

impl<S> Layer<S> for Spans
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _context: Context<'_, S>) {
        let callsite = Callsite::of(attributes.metadata());
        let fields = (!attributes.is_empty()).then(|| {
            let mut fields = Fields::new();
            attributes.record(&mut fields);
            fields
        });
        self.table.insert(id.into_u64(), callsite, fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _context: Context<'_, S>) {
        let mut late = Fields::new();
        values.record(&mut late);
        let has_begun = self.table.with(id.into_u64(), |entry| {
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
        });
        if has_begun == Some(true) {
            thread::note_late_fields(id.into_u64());
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _context: Context<'_, S>) {
        let flow = Flow::unique();
        let has_begun = self.table.with(follows.into_u64(), |entry| {
            if entry.first.is_none() {
                entry.more().outgoing.push(flow);
            }
            entry.first.is_some()
        });
        let Some(has_begun) = has_begun else {
            return;
        };
        let follower = self.table.with(id.into_u64(), |entry| {
            entry.more().incoming.push(flow);
            entry.callsite
        });
        if let Some(follower) = follower.filter(|_| has_begun) {
            // The beginning of the other's slice is written already: the arrow comes from here.
            let name = format!("followed by {}", follower.name);
            let details = Details::new().name(&name).flow(flow);
            follower.instant.emit_with(&[Value::Str(follower.level)], &details);
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
        let _ = FIELDS.try_with(|place| place.set(fields));
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let number = id.into_u64();
        let entered = self.table.with(number, |entry| (entry.enter(), entry.callsite));
        let Some((has_slice, callsite)) = entered else {
            return;
        };
        let has_slice = match has_slice {
            Some(has_slice) => has_slice,
            None => self.enter_again(number, id, &context),
        };
        thread::enter(Open { id: number, callsite, has_slice, has_late_fields: false });
    }

    fn on_exit(&self, id: &Id, _context: Context<'_, S>) {
        let Some(Exit { open, above }) = thread::exit(id.into_u64()) else {
            return;
        };
        for other in above.iter().rev().filter(|other| other.has_slice) {
            other.callsite.end.emit(&[]);
        }
        if open.has_slice {
            self.end(&open);
        }
        for other in above.iter().filter(|other| other.has_slice) {
            other.callsite.begin.emit(&[Value::Str(other.callsite.level)]);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(entry) = self.table.remove(id.into_u64()) else {
            return;
        };
        // Fields that came after its last slice make it one that lasts until now.
        let is_late = entry.more.as_ref().is_some_and(|more| more.task.is_none() && !more.late.is_empty());
        let new = if is_late { entry.begin_task(self.task_of_parent(&id, &context)) } else { None };
        let Some(more) = entry.more else {
            return;
        };
        if let Some(task) = more.task.or(new) {
            task.end_with(&more.late_of_task.named());
        }
    }
}

impl Spans {
    /// The slice of this thread ends.
    fn end(&self, open: &Open) {
        if !open.has_late_fields {
            open.callsite.end.emit(&[]);
            return;
        }
        let late =
            self.table.with(open.id, |entry| std::mem::take(&mut entry.more().late)).unwrap_or_default();
        open.callsite.end.emit_with(&[], &Details::new().arguments(&late.named()));
    }

    /// A span that was left is entered again: it gets a slice of its own, and this thread one for this part of it. Whether it has that.
    #[cold]
    fn enter_again<S>(&self, number: u64, id: &Id, context: &Context<'_, S>) -> bool
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let has_task = self.table.with(number, |entry| entry.task().is_some()).unwrap_or(true);
        // One that is entered twice at once, as recursion does, is only on this thread.
        if !has_task && !thread::is_inside(number) {
            // Before the entry is locked: two are never at once.
            let parent = self.task_of_parent(id, context);
            self.table.with(number, |entry| {
                if entry.task().is_none() {
                    entry.more().task = entry.begin_task(parent);
                }
            });
        }
        self.table.with(number, Entry::begin_part).unwrap_or(false)
    }

    fn task_of_parent<S>(&self, id: &Id, context: &Context<'_, S>) -> Option<SpanId>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let parent = context.span(id)?.parent()?.id().into_u64();
        self.table.with(parent, |entry| entry.task().and_then(AsyncSpan::id))?
    }
}
