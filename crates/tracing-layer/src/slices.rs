//! The events that spans and events become.

use ferretto::{AsyncSpan, Details, Flow, Moment, SpanDetails, SpanId};

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
        (Moment::now(), false)
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
        self.first = Some(first);
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

    /// The slice of the whole span, from its first enter on. `None` if nobody recorded it then.
    pub(crate) fn begin_task(&self, parent: Option<SpanId>) -> Option<AsyncSpan> {
        let first = self.first?;
        let details = SpanDetails::new();
        let none = Fields::new();
        let fields = self.more.as_ref().map_or(&none, |more| &more.fields);
        fields.with_values(None, |values| {
            AsyncSpan::since(&self.callsite.begin, values, details, parent, first)
        })
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

/// An instant on this thread.
pub(crate) fn emit_event(callsite: &'static Callsite, fields: &Fields, otherwise: &'static str) {
    let message = callsite.message.and_then(|index| fields.text_at(index));
    let name = message.map_or(otherwise, beginning);
    // A message that is the name as a whole is not said again.
    let except = callsite.message.filter(|_| message.is_some_and(|message| message.len() == name.len()));
    let details = Details::new().name(name);
    fields.with_values(except, |values| callsite.instant.emit_with(values, &details));
}

fn beginning(text: &str) -> &str {
    let end = (0..=MAX_NAME_LEN.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or(text)
}
