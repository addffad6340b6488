//! From what happens to spans to the events of the trace.
//!
//! The layer stands within a filter of `tracing-subscriber`: only such a layer can leave callsites to other layers, or have them switched off
//! if those do not want them either. The filter looks each span up in the registry whenever it is entered, left or closed, which is half of
//! what is left of the layer's cost. Beyond that most spans are not looked up anywhere: what a thread made last it knows, and what it leaves is
//! what it entered last ([`thread`]). All others have entries in the [`table`](crate::table), or are looked up in the registry.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use ferretto::{AsyncSpan, Details, Flow, SpanId, Timestamp, Track};
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
    /// Whether spans that are entered again have slices on their threads, too.
    has_polls: bool,
}

impl Spans {
    pub(crate) fn new(has_polls: bool) -> Self {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), table: Table::new(), has_polls }
    }
}

impl<S> Layer<S> for Spans
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _context: Context<'_, S>) {
        let (number, callsite) = (id.into_u64(), Callsite::of(attributes.metadata()));
        if attributes.parent().is_some() {
            thread::forget_made();
        } else {
            thread::note_made(self.number, number, callsite);
        }
        if attributes.is_empty() {
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
        if thread::has_missed_starts() {
            self.catch_up();
        }
        let task = if thread::is_polling() { self.innermost_task() } else { None };
        let mut fields = FIELDS.try_with(Cell::take).unwrap_or_default();
        event.record(&mut fields);
        emit_event(callsite, &fields, event.metadata().name(), task);
        fields.clear();
        if fields.is_small() {
            let _ = FIELDS.try_with(|place| place.set(fields));
        }
    }

    #[inline]
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let number = id.into_u64();
        if thread::has_missed_starts() {
            self.catch_up();
        }
        let entered = match thread::made(self.number, number) {
            Some(callsite) if self.table.is_free(number) && !thread::is_polling() => {
                Some(self.enter_first(number, callsite))
            }
            _ => self.enter_any(number, id, &context),
        };
        if let Some(open) = entered {
            thread::enter(open);
        }
    }

    #[inline]
    fn on_exit(&self, id: &Id, _context: Context<'_, S>) {
        if thread::has_missed_starts() {
            self.catch_up();
        }
        match thread::exit_innermost(self.number, id.into_u64()) {
            Some(open) => self.end(&open),
            None => self.exit_any(id.into_u64()),
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(mut entry) = self.table.remove(id.into_u64(), || callsite(&id, &context)) else {
            return;
        };
        let has_task = entry.task().is_some();
        // Fields that came after its last slice make it one that lasts until now.
        let is_late = !has_task && entry.more.as_ref().is_some_and(|more| !more.late.is_empty());
        if has_task || is_late {
            entry.begin_task(self.task_of_parent(&id, &context));
        } else if entry.first.is_some_and(|first| first.has_later_sessions()) {
            // It was open when a session began, and is closed without having been entered since.
            drop(entry.missed_task(self.task_of_parent(&id, &context)));
        }
        let Some(mut more) = entry.more else {
            return;
        };
        let late = more.late_of_task.named();
        for task in more.task.take().into_iter().chain(more.later_tasks.drain(..)) {
            task.end_with(&late);
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
    fn enter_first(&self, number: u64, callsite: &'static Callsite) -> Open {
        let (first, has_slice) = begin_first(callsite);
        self.table.keep_first(number, callsite, first);
        Open { id: number, layer: self.number, callsite, has_slice, has_late_fields: false, is_poll: false }
    }

    /// As [`enter_first`](Self::enter_first), for any span.
    #[inline(never)]
    fn enter_any<S>(&self, number: u64, id: &Id, context: &Context<'_, S>) -> Option<Open>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_simple = thread::made(self.number, number).is_some() && !thread::is_polling();
        let cause =
            if is_simple || self.table.first(number).is_some() { None } else { self.cause(id, context) };
        if let Some(flow) = cause {
            self.table.with(number, || callsite(id, context), |entry| entry.more().incoming.push(flow));
        }
        if self.table.is_free(number) {
            return Some(self.enter_first(number, callsite(id, context)?));
        }
        let (has_slice, callsite) =
            self.table.with(number, || callsite(id, context), |entry| (entry.enter(), entry.callsite))?;
        let (has_slice, is_poll) = match has_slice {
            Some(has_slice) => (has_slice, false),
            None => self.enter_again(number, id, context),
        };
        Some(Open { id: number, layer: self.number, callsite, has_slice, has_late_fields: false, is_poll })
    }

    /// A span that was left is entered again: it gets a slice of its own, and this thread one for this part of it if that is wanted, or
    /// there is no other. Whether it has a slice here, and whether that is left to the other.
    #[cold]
    fn enter_again<S>(&self, number: u64, id: &Id, context: &Context<'_, S>) -> (bool, bool)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        // One that is entered twice at once, as recursion does, is only on this thread.
        let is_new_part = thread::inside(self.number, number).is_none_or(|open| open.is_poll);
        if is_new_part {
            // Before the entry is locked: two are never at once.
            let parent = self.task_of_parent(id, context);
            self.change(number, |entry| entry.begin_task(parent));
        }
        let has_task = || self.table.get(number, |entry| entry.task().is_some()).unwrap_or(false);
        if is_new_part && !self.has_polls && has_task() {
            return (false, true);
        }
        (self.change(number, Entry::begin_part).unwrap_or(false), false)
    }

    /// What leads to the first slice of a span on this thread, if its parent has none here: a flow from the parent's slice elsewhere.
    #[cold]
    fn cause<S>(&self, id: &Id, context: &Context<'_, S>) -> Option<Flow>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let span = context.span(id)?;
        let child = Callsite::of(span.metadata());
        let parent = span.parent()?;
        let number = parent.id().into_u64();
        let is_here = thread::inside(self.number, number).is_some_and(|open| !open.is_poll);
        let callsite = Callsite::of(parent.metadata());
        if is_here || !child.category.is_enabled() || !callsite.category.is_enabled() {
            return None;
        }
        let task = self.table.get(number, |entry| entry.task().and_then(AsyncSpan::flow)).flatten();
        task.or_else(|| {
            let (first, thread_id) = self.table.first(number)?;
            let (ns, _) = first.as_recorded(callsite.category)?.parts();
            // The beginning of that slice is written already: the arrow comes from the moment after.
            let flow = Flow::unique();
            let (name, track) = (format!("parent of {}", child.name), Track::thread(thread_id));
            let details = Details::new().name(&name).track(&track).at(Timestamp::boot_ns(ns + 1)).flow(flow);
            callsite.instant.emit_with(&[], &details);
            Some(flow)
        })
    }

    /// That of the innermost span that this thread is in, if it has no slice here.
    #[cold]
    fn innermost_task(&self) -> Option<Flow> {
        let open = thread::innermost().filter(|open| open.is_poll && open.layer == self.number)?;
        self.table.get(open.id, |entry| entry.task().and_then(AsyncSpan::flow)).flatten()
    }

    /// Writes the slices that this thread has open into sessions that have begun since it looked last, from their start on.
    #[cold]
    fn catch_up(&self) {
        for start in thread::take_starts() {
            for (index, open) in thread::all_open().into_iter().enumerate() {
                // A poll has its slice among the tasks, where the next one, or the span's end, writes it.
                let is_written = !open.is_poll
                    && match open.layer == self.number {
                        true => {
                            let begin = |entry: &mut Entry| entry.begin_late(&start);
                            self.table.with(open.id, || Some(open.callsite), begin).unwrap_or(false)
                        }
                        false => {
                            start.emit(open.callsite.category, &open.callsite.begin, &[], Details::new())
                        }
                    };
                if is_written {
                    thread::note_slice(index);
                }
            }
        }
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
