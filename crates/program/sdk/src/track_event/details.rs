//! What an event has beyond its trace point and its arguments: a track, a time of its own, flows, and so on.

use ferretto_producer::log;
use ferretto_protozero::Message;

use crate::track_event::category::Category;
use crate::track_event::flow::Flow;
use crate::track_event::location::{Callstack, Location};
use crate::track_event::timestamp::Timestamp;
use crate::track_event::track::{CounterTrack, StateTrack, Track};
use crate::track_event::value::{CounterValue, Value};

/// Flows that an event can have one by one; more are given as a slice.
const MAX_FLOWS: usize = 4;

/// What is known at run time only, beside the values of arguments. Made by the macros from their options.
#[derive(Clone, Copy, Default)]
pub struct Details<'a> {
    pub(crate) category: Option<&'static Category>,
    pub(crate) name: Option<&'a str>,
    pub(crate) track: Option<&'a Track>,
    pub(crate) counter_value: Option<Value<'a>>,
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) flows: Flows<'a>,
    pub(crate) ending_flows: Flows<'a>,
    pub(crate) correlation: Option<Correlation<'a>>,
    pub(crate) location: Option<&'static Location>,
    pub(crate) callstack: Option<&'a Callstack>,
    pub(crate) log: Option<(Severity, &'a str)>,
    pub(crate) arguments: &'a [(&'a str, Value<'a>)],
    pub(crate) fields: Option<&'a WriteFields>,
}

/// Writes fields of `TrackEvent` that have no option of their own.
pub type WriteFields = dyn Fn(&mut Message<'_, Vec<u8>>);

/// Some flows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flows<'a> {
    single: [Option<Flow>; MAX_FLOWS],
    many: &'a [Flow],
}

/// What tells that events belong together which no arrow joins. See [`Details::correlation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Correlation<'a> {
    /// A number.
    Number(u64),
    /// A text.
    Text(&'a str),
}

/// How grave a log message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// The least.
    Verbose = 2,
    /// For whoever looks for a fault.
    Debug = 3,
    /// For whoever runs the program.
    Info = 4,
    /// Something is not as it should be.
    Warn = 5,
    /// Something failed.
    Error = 6,
    /// The program cannot go on.
    Fatal = 7,
}

impl<'a> Details<'a> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A category that was found at run time. `(category)` in macros.
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

    /// The track that the event is on. `track: …` in macros.
    #[must_use]
    pub fn track(mut self, track: &'a Track) -> Self {
        self.track = Some(track);
        self
    }

    /// The event is a value of a counter, and on its track.
    #[must_use]
    pub fn counter(self, counter: &'a CounterTrack, value: &(impl CounterValue + ?Sized)) -> Self {
        Self { counter_value: Some(value.to_number()), ..self }.track(counter.track())
    }

    /// The event is the beginning of a state.
    #[must_use]
    pub fn state(self, state: &'a StateTrack) -> Self {
        self.track(state.track())
    }

    /// When it happened, if not now. `at: …` in macros.
    #[must_use]
    pub fn at(mut self, timestamp: impl Into<Timestamp>) -> Self {
        self.timestamp = Some(timestamp.into());
        self
    }

    /// A flow that the event is a step of; up to four. `flow: …` in macros.
    #[must_use]
    pub fn flow(mut self, flow: Flow) -> Self {
        self.flows.push(flow);
        self
    }

    /// As [`flow`](Self::flow), any number. `flows: …` in macros.
    #[must_use]
    pub fn flows(mut self, flows: &'a [Flow]) -> Self {
        self.flows.many = flows;
        self
    }

    /// A flow that the event is the last step of; up to four. `flow_end: …` in macros.
    #[must_use]
    pub fn flow_end(mut self, flow: Flow) -> Self {
        self.ending_flows.push(flow);
        self
    }

    /// As [`flow_end`](Self::flow_end), any number. `flow_ends: …` in macros.
    #[must_use]
    pub fn flow_ends(mut self, flows: &'a [Flow]) -> Self {
        self.ending_flows.many = flows;
        self
    }

    /// Viewers show events of the same correlation as belonging together. `correlation: …` in macros.
    #[must_use]
    pub fn correlation(mut self, correlation: impl Into<Correlation<'a>>) -> Self {
        self.correlation = Some(correlation.into());
        self
    }

    /// Where in the source. `location: here!()` in macros.
    #[must_use]
    pub fn location(mut self, location: &'static Location) -> Self {
        self.location = Some(location);
        self
    }

    /// How the program got there. `callstack: …` in macros.
    #[must_use]
    pub fn callstack(mut self, callstack: &'a Callstack) -> Self {
        self.callstack = Some(callstack);
        self
    }

    /// A line of the program's log. [`log!`](crate::log!) makes such events.
    #[must_use]
    pub fn log(mut self, severity: Severity, text: &'a (impl AsRef<str> + ?Sized)) -> Self {
        self.log = Some((severity, text.as_ref()));
        self
    }

    /// Arguments whose names are known at run time only. `arguments: …` in macros.
    #[must_use]
    pub fn arguments(mut self, arguments: &'a [(&'a str, Value<'a>)]) -> Self {
        self.arguments = arguments;
        self
    }

    /// Typed fields of `TrackEvent`: those without an option of their own, and extensions. `fields: |event| …` in macros.
    ///
    /// ```
    /// // Field 1000 and up are extensions; readers need their descriptor to show them.
    /// ferretto::instant!("app", "frame", fields: |event| event.nested(2000).varint(1, 7));
    /// ```
    #[must_use]
    pub fn fields(mut self, write: &'a WriteFields) -> Self {
        self.fields = Some(write);
        self
    }
}

impl Flows<'_> {
    fn push(&mut self, flow: Flow) {
        match self.single.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(flow),
            None => log::warn(format_args!("an event has more than four flows: use `flows: &[…]`")),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Flow> {
        self.single.iter().flatten().chain(self.many).copied()
    }
}

impl From<u64> for Correlation<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl<'a> From<&'a str> for Correlation<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Correlation<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl std::fmt::Debug for Details<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Details")
            .field("name", &self.name)
            .field("track", &self.track)
            .finish_non_exhaustive()
    }
}
