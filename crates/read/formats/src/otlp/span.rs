//! What a span is, whichever way it was written.

use ferretto_trace_model::args::{Arg, ArgList, ArgValue};
use ferretto_trace_model::model::Model;
use ferretto_trace_model::stats::Stat;
use ferretto_trace_tables::Str;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// An id of a span: that of its trace, and its own.
pub(super) type SpanKey = (u128, u64);

/// Attributes of one thing. Ours: exporters keep 128 of a span.
const MAX_ATTRIBUTES: usize = 4096;

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Any {
    Null,
    Text(String),
    Bool(bool),
    Int(i64),
    Real(f64),
    Bytes(Vec<u8>),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

/// Attributes, as they were written.
pub(super) type Attributes = Vec<(String, Any)>;

/// A span as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Said {
    pub(super) key: SpanKey,
    pub(super) parent: u64,
    pub(super) trace_state: String,
    pub(super) name: String,
    pub(super) kind: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) attributes: Attributes,
    pub(super) status: u64,
    pub(super) status_message: String,
    pub(super) events: Vec<SaidEvent>,
    pub(super) links: Vec<SaidLink>,
}

/// What happened within a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SaidEvent {
    pub(super) ts: u64,
    pub(super) name: String,
    pub(super) attributes: Attributes,
}

/// Another span that a span has to do with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SaidLink {
    pub(super) key: SpanKey,
    pub(super) attributes: Attributes,
}

/// A span that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) key: SpanKey,
    pub(super) parent: u64,
    pub(super) owner: Owner,
    pub(super) start: i64,
    /// The latest time there is, if it has not ended.
    pub(super) end: i64,
    pub(super) name: Str,
    pub(super) category: Option<Str>,
    pub(super) thread_name: Option<Str>,
    pub(super) args: ArgList,
}

/// Whose a span is: who has the same shares tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    /// A resource, by its turn.
    pub(super) resource: usize,
    /// The scope's name.
    pub(super) scope: Option<Str>,
    /// The thread, if it is said.
    pub(super) tid: Option<i64>,
}

/// An event of a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) ts: i64,
    pub(super) span: usize,
    pub(super) name: Str,
    pub(super) args: ArgList,
}

/// A link of a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) span: usize,
    pub(super) to: SpanKey,
    pub(super) args: ArgList,
}

/// Who made spans.
#[derive(Clone, Debug, Default)]
pub(super) struct Resource {
    pub(super) name: Option<String>,
    pub(super) pid: Option<i64>,
    pub(super) args: Vec<Arg>,
}

/// All that was read.
#[derive(Debug)]
pub(super) struct Spans<'a> {
    pub(super) model: &'a mut Model,
    pub(super) spans: Vec<Span>,
    pub(super) events: Vec<Event>,
    pub(super) links: Vec<Link>,
    pub(super) resources: Vec<Resource>,
    resource_numbers: HashMap<ArgList, usize, RandomState>,
}

/// A place whose resource may be said behind its spans.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Where its spans begin.
    first: usize,
}

impl<'a> Spans<'a> {
    pub(super) fn new(model: &'a mut Model) -> Self {
        Self {
            model,
            spans: Vec::new(),
            events: Vec::new(),
            links: Vec::new(),
            resources: Vec::new(),
            resource_numbers: HashMap::default(),
        }
    }

    /// Spans of a resource or of a scope begin.
    pub(super) fn begin(&self) -> Place {
        Place { first: self.spans.len() }
    }

    /// The spans since then are of this resource.
    pub(super) fn end_resource(&mut self, since: Place, attributes: &Attributes) {
        if self.spans.len() == since.first {
            return;
        }
        let args = args_of(self.model, "resource", attributes);
        let list = self.model.args.intern(&args);
        let next = self.resources.len();
        let number = *self.resource_numbers.entry(list).or_insert(next);
        if number == next {
            let name =
                attributes.iter().find(|(key, _)| key == "service.name").and_then(|(_, value)| match value {
                    Any::Text(name) if !name.is_empty() => Some(name.clone()),
                    _ => None,
                });
            let pid =
                attributes.iter().find(|(key, _)| key == "process.pid").and_then(|(_, value)| whole(value));
            self.resources.push(Resource { name, pid: pid.filter(|pid| *pid > 0), args });
        }
        for span in self.spans.get_mut(since.first..).unwrap_or_default() {
            span.owner.resource = number;
        }
    }

    /// The spans since then are of this scope.
    pub(super) fn end_scope(&mut self, since: Place, name: &str) {
        if name.is_empty() || self.spans.len() == since.first {
            return;
        }
        let name = Some(self.model.tables.strings.intern(name));
        for span in self.spans.get_mut(since.first..).unwrap_or_default() {
            span.owner.scope = name;
            span.category = span.category.or(name);
        }
    }

    /// A span, whole.
    pub(super) fn push(&mut self, said: Said) {
        let (Ok(start), Ok(mut end)) = (i64::try_from(said.start), i64::try_from(said.end)) else {
            return self.model.stats.count(Stat::TraceSorterNegativeTimestampDropped);
        };
        let (mut tid, mut thread_name, mut category) = (None, None, None);
        let mut attributes = said.attributes;
        attributes.retain(|(key, value)| {
            match (key.as_str(), value) {
                ("thread.id", value) => tid = whole(value).or(tid),
                ("thread.name", Any::Text(name)) => {
                    thread_name = Some(self.model.tables.strings.intern(name))
                }
                ("perfetto.category", Any::Text(name)) => {
                    category = Some(self.model.tables.strings.intern(name))
                }
                ("perfetto.unfinished", Any::Bool(true)) => end = 0,
                _ => return true,
            }
            false
        });
        if end == 0 {
            end = i64::MAX;
        }
        if end < start {
            return self.model.stats.count(Stat::SliceNegativeDuration);
        }
        let mut args = args_of(self.model, "debug", &attributes);
        let (trace, id) = said.key;
        let kind = KINDS.get(usize::try_from(said.kind).unwrap_or(usize::MAX)).copied().unwrap_or_default();
        let status =
            STATUSES.get(usize::try_from(said.status).unwrap_or(usize::MAX)).copied().unwrap_or_default();
        let parent = if said.parent == 0 { String::new() } else { format!("{:016x}", said.parent) };
        for (key, text) in [
            ("otlp.trace_id", format!("{trace:032x}").as_str()),
            ("otlp.span_id", &format!("{id:016x}")),
            ("otlp.parent_span_id", &parent),
            ("otlp.trace_state", &said.trace_state),
            ("otlp.kind", kind),
            ("otlp.status", status),
            ("otlp.status_message", &said.status_message),
        ] {
            if !text.is_empty() {
                let strings = &mut self.model.tables.strings;
                let (key, value) = (strings.intern(key), ArgValue::Text(strings.intern(text)));
                args.push(Arg { flat_key: key, key, value });
            }
        }
        let number = self.spans.len();
        self.spans.push(Span {
            key: said.key,
            parent: said.parent,
            owner: Owner { resource: usize::MAX, scope: None, tid: tid.filter(|tid| *tid > 0) },
            start,
            end,
            name: self.model.tables.strings.intern(&said.name),
            category,
            thread_name,
            args: self.model.args.intern(&args),
        });
        for event in said.events {
            let args = args_of(self.model, "debug", &event.attributes);
            self.events.push(Event {
                ts: i64::try_from(event.ts).unwrap_or(start),
                span: number,
                name: self.model.tables.strings.intern(&event.name),
                args: self.model.args.intern(&args),
            });
        }
        for link in said.links {
            let args = args_of(self.model, "debug", &link.attributes);
            self.links.push(Link { span: number, to: link.key, args: self.model.args.intern(&args) });
        }
    }
}

/// `Span.SpanKind`; one that is not said is none.
const KINDS: [&str; 6] = ["", "internal", "server", "client", "producer", "consumer"];
/// `Status.StatusCode`.
const STATUSES: [&str; 3] = ["", "ok", "error"];

fn whole(value: &Any) -> Option<i64> {
    match value {
        Any::Int(value) => Some(*value),
        Any::Text(text) => text.parse().ok(),
        _ => None,
    }
}

fn args_of(model: &mut Model, prefix: &str, attributes: &Attributes) -> Vec<Arg> {
    let mut writer = ArgWriter { model, args: Vec::new(), key: prefix.to_owned(), flat: prefix.to_owned() };
    for (key, value) in attributes.iter().take(MAX_ATTRIBUTES) {
        writer.member(key, value);
    }
    writer.args
}

struct ArgWriter<'a> {
    model: &'a mut Model,
    args: Vec<Arg>,
    key: String,
    flat: String,
}

impl ArgWriter<'_> {
    fn member(&mut self, name: &str, value: &Any) {
        let (key, flat) = (self.key.len(), self.flat.len());
        for text in [&mut self.key, &mut self.flat] {
            text.push('.');
            text.push_str(name);
        }
        self.value(value);
        self.key.truncate(key);
        self.flat.truncate(flat);
    }

    /// Both readers have a bound on how deep it goes.
    fn value(&mut self, value: &Any) {
        let strings = &mut self.model.tables.strings;
        let leaf = match value {
            Any::Null => ArgValue::Null,
            Any::Text(text) => ArgValue::Text(strings.intern(text)),
            Any::Bool(value) => ArgValue::Bool(*value),
            Any::Int(value) => ArgValue::Int(*value),
            Any::Real(value) => ArgValue::Real(*value),
            Any::Bytes(bytes) => ArgValue::Text(strings.intern(&super::json::base64(bytes))),
            Any::List(values) => {
                for (index, value) in values.iter().enumerate().take(MAX_ATTRIBUTES) {
                    let len = self.key.len();
                    self.key.push_str(&format!("[{index}]"));
                    self.value(value);
                    self.key.truncate(len);
                }
                return;
            }
            Any::Map(members) => {
                return members
                    .iter()
                    .take(MAX_ATTRIBUTES)
                    .for_each(|(name, value)| self.member(name, value));
            }
        };
        if self.args.len() >= MAX_ATTRIBUTES {
            return;
        }
        let (flat_key, key) = (strings.intern(&self.flat), strings.intern(&self.key));
        self.args.push(Arg { flat_key, key, value: leaf });
    }
}
