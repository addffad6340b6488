//! What a span keeps from its creation until it begins.

use ferretto_protozero::Message;

use crate::track_event::category::Category;
use crate::track_event::details::Correlation;
use crate::track_event::flow::Flow;
use crate::track_event::location::Location;
use crate::track_event::value::{Nested, Value, ValueWriter};

/// A value of its own.
#[derive(Debug)]
pub(super) enum OwnedValue {
    Missing,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(Box<str>),
    /// As it is in the trace.
    Encoded(Encoded),
}

/// The bytes of a value.
#[derive(Debug)]
pub(super) struct Encoded(Vec<u8>);

impl OwnedValue {
    pub(super) fn new(value: &Value<'_>) -> Self {
        match *value {
            Value::Missing => Self::Missing,
            Value::Bool(value) => Self::Bool(value),
            Value::Int(value) => Self::Int(value),
            Value::Uint(value) => Self::Uint(value),
            Value::Float(value) => Self::Float(value),
            Value::Str(value) => Self::Str(value.into()),
            ref other => {
                let mut bytes = Vec::new();
                ValueWriter::new(Message::new(&mut bytes)).put(other);
                Self::Encoded(Encoded(bytes))
            }
        }
    }

    pub(super) fn as_value(&self) -> Value<'_> {
        match self {
            Self::Missing => Value::Missing,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Str(value) => Value::Str(value),
            Self::Encoded(value) => Value::Nested(value),
        }
    }
}

impl Nested for Encoded {
    fn write(&self, writer: ValueWriter<'_>) {
        writer.raw(&self.0);
    }
}

/// What can be said about a span beside its category, name and arguments. Made by [`span!`](crate::span!) from its options.
#[derive(Debug, Default)]
pub struct SpanDetails<'a> {
    pub(super) category: Option<&'static Category>,
    pub(super) name: Option<&'a str>,
    pub(super) flows: Vec<Flow>,
    pub(super) ending_flows: Vec<Flow>,
    pub(super) correlation: Option<Correlation<'a>>,
    pub(super) location: Option<&'static Location>,
    pub(super) arguments: &'a [(&'a str, Value<'a>)],
}

impl<'a> SpanDetails<'a> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A category that was found at run time. `(category)` in the macro.
    #[must_use]
    pub fn category(mut self, category: &'static Category) -> Self {
        self.category = Some(category);
        self
    }

    /// A name that was made at run time.
    #[must_use]
    pub fn name(mut self, name: &'a (impl AsRef<str> + ?Sized)) -> Self {
        self.name = Some(name.as_ref());
        self
    }

    /// A flow that the beginning of the span is a step of. `flow: …` in the macro.
    #[must_use]
    pub fn flow(mut self, flow: Flow) -> Self {
        self.flows.push(flow);
        self
    }

    /// As [`flow`](Self::flow), any number. `flows: …` in the macro.
    #[must_use]
    pub fn flows(mut self, flows: &[Flow]) -> Self {
        self.flows.extend(flows);
        self
    }

    /// A flow that the beginning of the span is the last step of. `flow_end: …` in the macro.
    #[must_use]
    pub fn flow_end(mut self, flow: Flow) -> Self {
        self.ending_flows.push(flow);
        self
    }

    /// As [`flow_end`](Self::flow_end), any number. `flow_ends: …` in the macro.
    #[must_use]
    pub fn flow_ends(mut self, flows: &[Flow]) -> Self {
        self.ending_flows.extend(flows);
        self
    }

    /// Viewers show events of the same correlation as belonging together. `correlation: …` in the macro.
    #[must_use]
    pub fn correlation(mut self, correlation: impl Into<Correlation<'a>>) -> Self {
        self.correlation = Some(correlation.into());
        self
    }

    /// Where in the source. `location: here!()` in the macro.
    #[must_use]
    pub fn location(mut self, location: &'static Location) -> Self {
        self.location = Some(location);
        self
    }

    /// Arguments whose names are known at run time only. `arguments: …` in the macro.
    #[must_use]
    pub fn arguments(mut self, arguments: &'a [(&'a str, Value<'a>)]) -> Self {
        self.arguments = arguments;
        self
    }
}
