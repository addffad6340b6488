//! The events that spans and events become.

use ferretto::{AsyncSpan, Details, Flow, Moment, SessionStart, SpanDetails, SpanId};

use crate::callsite::Callsite;
use crate::fields::Fields;
use crate::table::{Entry, More};

/// An event's name has at most so many bytes of its message; a longer one is an argument as well.
const MAX_NAME_LEN: usize = 120;

/// The first slice of a span that has nothing but its callsite: when it began, and whether it was written.
#[inline]
pub(crate) fn begin_first(callsite: &'static Callsite) -> (Moment, bool) {
    if callsite.category.is_enabled() {
        callsite.begin.emit(&[]);
        (Moment::of_last_event(), true)
    } else {
        (Moment::unrecorded(), false)
    }
}

impl Entry {
    /// The first enter: whether its slice was begun. `None` if it is not the first.
    pub(crate) fn enter(&mut self) -> Option<bool> {
        if self.first.is_some() {
            return None;
        }
        let (first, has_slice) = match &mut self.more {
            Some(more) if self.callsite.category.is_enabled() => {
                more.begin(self.callsite);
                (Moment::of_last_event(), true)
            }
            _ => begin_first(self.callsite),
        };
        self.set_first(first);
        Some(has_slice)
    }

    /// A further part of it begins on this thread; whether that has a slice.
    pub(crate) fn begin_part(&mut self) -> bool {
        let callsite = self.callsite;
        if !callsite.category.is_enabled() {
            return false;
        }
        let more = self.more();
        let (late, incoming) = (std::mem::take(&mut more.late), std::mem::take(&mut more.incoming));
        let task: Vec<Flow> = more.task.as_ref().and_then(AsyncSpan::flow).into_iter().collect();
        let arguments = late.named();
        let details = Details::new().flows(&task).flow_ends(&incoming).arguments(&arguments);
        callsite.begin.emit_with(&[], &details);
        true
    }

    /// The slice of the whole span, from its first enter on, or from the session's start if that was later. Again for sessions that began
    /// since.
    pub(crate) fn begin_task(&mut self, parent: Option<SpanId>) {
        let category = self.callsite.category;
        let last = self.more.as_ref().and_then(|more| more.task_moment);
        let moment = match (last, self.first) {
            (Some(last), _) => last.as_missed(category),
            (None, Some(first)) => first.as_recorded(category),
            (None, None) => None,
        };
        let Some(moment) = moment else {
            return;
        };
        let task = self.task_since(moment, parent);
        let more = self.more();
        match (task, &more.task) {
            (None, _) => return,
            (task, None) => more.task = task,
            (Some(task), Some(_)) => more.later_tasks.push(task),
        }
        more.task_moment = Some(moment);
    }

    /// The slice of a span that was left before a session began in which nothing of it is. It has an end, at once.
    pub(crate) fn missed_task(&self, parent: Option<SpanId>) -> Option<AsyncSpan> {
        self.task_since(self.first?.as_missed(self.callsite.category)?, parent)
    }

    fn task_since(&self, moment: Moment, parent: Option<SpanId>) -> Option<AsyncSpan> {
        let details = SpanDetails::new();
        let none = Fields::new();
        let fields = self.more.as_ref().map_or(&none, |more| &more.fields);
        fields.with_values(None, |values| {
            AsyncSpan::since(&self.callsite.begin, values, details, parent, moment)
        })
    }

    /// Its slice on this thread, in a session that began after that; whether that wants it.
    pub(crate) fn begin_late(&mut self, start: &SessionStart) -> bool {
        let callsite = self.callsite;
        let none = Fields::new();
        let fields = self.more.as_ref().map_or(&none, |more| &more.fields);
        let is_written = fields.with_values(None, |values| {
            start.emit(callsite.category, &callsite.begin, values, Details::new())
        });
        if let (true, Some(first)) = (is_written, self.first) {
            // What is left out of sessions is so no more.
            let (ns, _) = first.parts();
            let (_, sessions) = Moment::unrecorded().parts();
            self.first = Some(Moment::from_parts((if ns == 0 { start.ns() } else { ns }, sessions)));
        }
        is_written
    }
}

impl More {
    fn begin(&mut self, callsite: &'static Callsite) {
        let has_flows = !(self.incoming.is_empty() && self.outgoing.is_empty());
        self.fields.with_values(None, |values| {
            if has_flows {
                let details = Details::new().flows(&self.outgoing).flow_ends(&self.incoming);
                callsite.begin.emit_with(values, &details);
            } else {
                callsite.begin.emit(values);
            }
        });
        self.incoming.clear();
    }
}

/// An instant on this thread; in a future it is joined with that by its flow.
pub(crate) fn emit_event(
    callsite: &'static Callsite,
    fields: &Fields,
    otherwise: &'static str,
    task: Option<Flow>,
) {
    let message = callsite.message.and_then(|index| fields.text_at(index));
    let name = message.map_or(otherwise, beginning);
    // A message that is the name as a whole is not said again.
    let except = callsite.message.filter(|_| message.is_some_and(|message| message.len() == name.len()));
    let mut details = Details::new().name(name);
    if let Some(task) = task {
        details = details.flow(task);
    }
    fields.with_values(except, |values| callsite.instant.emit_with(values, &details));
}

fn beginning(text: &str) -> &str {
    let end = (0..=MAX_NAME_LEN.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or(text)
}
