//! A span from its creation to its end, and its events.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ferretto_producer::log;

use super::lanes::{Ended, Lanes, Place, SpanId, Start};
use super::owned::{OwnedValue, SpanDetails};
use crate::runtime::Held;
use crate::track_event::category::Category;
use crate::track_event::details::{Correlation, Details};
use crate::track_event::event;
use crate::track_event::flow::Flow;
use crate::track_event::location::Location;
use crate::track_event::open;
use crate::track_event::point::TracePoint;
use crate::track_event::session;
use crate::track_event::timestamp::Timestamp;
use crate::track_event::track::{Merge, Track};
use crate::track_event::value::Value;

/// Held for some nanoseconds; what follows is written after that.
static LANES: Mutex<Lanes<Arc<Span>>> = Mutex::new(Lanes::new());

/// Viewers draw the tracks of all lanes as one, by their name.
static LANE: Track = Track::named("tasks")
    .with_description("Spans of asynchronous tasks, on whichever threads they ran")
    .merge(Merge::ByName);

/// What is the same from the creation of a span to its end.
#[derive(Debug)]
pub(super) struct Span {
    point: &'static TracePoint,
    category: Option<&'static Category>,
    /// Its name, if it was made at run time.
    name: Option<Box<str>>,
    values: Vec<OwnedValue>,
    arguments: Vec<(Box<str>, OwnedValue)>,
    /// Joins its parts, and leads from it to others.
    flow: Flow,
    /// Flows of others that lead to it, and how many of them, the first ones, end there.
    incoming: Vec<Flow>,
    ending: usize,
    correlation: Option<OwnedCorrelation>,
    location: Option<&'static Location>,
    /// That of the span that created it.
    origin: Option<Flow>,
    slice: OnceLock<Begun>,
}

#[derive(Debug)]
enum OwnedCorrelation {
    Number(u64),
    Text(Box<str>),
}

/// A span's slice in the trace.
#[derive(Debug)]
struct Begun {
    /// `None`: nobody recorded it, or there was no lane left.
    id: Option<SpanId>,
    sessions: Sessions,
}

/// Sessions that have the beginning of a slice, and therefore get its end.
#[derive(Debug)]
struct Sessions {
    /// One bit for each place.
    places: AtomicU32,
    /// Sessions with numbers from here on came later.
    before: u32,
}

/// When something happened, and which sessions recorded then.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    ns: u64,
    sessions_before: u32,
    /// Places of sessions, one bit each: no others count.
    places: u32,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self { ns: event::now_ns(), ..Self::unrecorded() }
    }

    /// When this thread wrote its last event.
    #[inline]
    pub fn of_last_event() -> Self {
        Self { ns: event::last_ns(), ..Self::unrecorded() }
    }

    /// One that no session recorded: its time does not matter.
    #[inline]
    pub fn unrecorded() -> Self {
        Self { ns: 0, sessions_before: session::next_id(), places: u32::MAX }
    }

    /// For the sessions of now that record the category: this moment, or, if they began later, that. `None` if there are none.
    pub fn as_recorded(self, category: &'static Category) -> Option<Self> {
        let (_, start_ns) = open::recording(category, 0)?;
        Some(Self { ns: self.ns.max(start_ns), ..Self::unrecorded() })
    }

    /// Whether sessions have come since.
    #[inline]
    pub fn has_later_sessions(self) -> bool {
        self.sessions_before != session::next_id()
    }

    /// For the sessions that record the category and began after this moment: when they began. `None` if there are none.
    pub fn as_missed(self, category: &'static Category) -> Option<Self> {
        if !self.has_later_sessions() {
            return None;
        }
        let (places, ns) = open::recording(category, self.sessions_before)?;
        Some(Self { ns, places, ..Self::unrecorded() })
    }

    /// As numbers, for [`from_parts`](Self::from_parts).
    #[inline]
    pub fn parts(self) -> (u64, u32) {
        (self.ns, self.sessions_before)
    }

    /// Of these [`parts`](Self::parts).
    pub fn from_parts((ns, sessions_before): (u64, u32)) -> Self {
        Self { ns, sessions_before, places: u32::MAX }
    }
}

impl Span {
    pub(super) fn new(
        point: &'static TracePoint,
        values: &[Value<'_>],
        details: SpanDetails<'_>,
        creator: Option<SpanId>,
    ) -> Self {
        let arguments = details.arguments.iter();
        let mut incoming = details.ending_flows;
        let ending = incoming.len();
        incoming.extend(details.flows);
        Self {
            point,
            category: details.category.or(point.category()),
            name: details.name.map(Into::into),
            values: values.iter().map(OwnedValue::new).collect(),
            arguments: arguments.map(|(name, value)| ((*name).into(), OwnedValue::new(value))).collect(),
            flow: Flow::unique(),
            incoming,
            ending,
            correlation: details.correlation.map(|correlation| match correlation {
                Correlation::Number(number) => OwnedCorrelation::Number(number),
                Correlation::Text(text) => OwnedCorrelation::Text(text.into()),
            }),
            location: details.location,
            origin: creator.and_then(|id| lanes().get(id).map(|span| span.flow)),
            slice: OnceLock::new(),
        }
    }

    pub(super) fn flow(&self) -> Flow {
        self.flow
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().or(self.point.name()).unwrap_or_default()
    }

    /// Its number, while it has a slice.
    pub(super) fn id(&self) -> Option<SpanId> {
        self.slice.get()?.id
    }

    /// Begins it now, if it has not begun; its number, if it has a slice.
    #[inline]
    pub(super) fn begin(self: &Arc<Self>, parent: Option<SpanId>) -> Option<SpanId> {
        let begin = || {
            let moment = Moment::now();
            self.begin_slice(parent, Start::Now(moment.ns), moment)
        };
        self.slice.get_or_init(begin).id
    }

    /// Begins it in the past; whether it has a slice.
    pub(super) fn begin_at(self: &Arc<Self>, parent: Option<SpanId>, moment: Moment) -> bool {
        let begin = || self.begin_slice(parent, Start::Exactly(moment.ns), moment);
        self.slice.get_or_init(begin).id.is_some()
    }

    fn begin_slice(self: &Arc<Self>, parent: Option<SpanId>, start: Start, moment: Moment) -> Begun {
        let places = self.category.map_or(0, Category::instances) & moment.places;
        let sessions = Sessions { places: AtomicU32::new(places), before: moment.sessions_before };
        if places == 0 {
            return Begun { id: None, sessions };
        }
        let mut lanes = lanes();
        let parents_flow = parent.and_then(|parent| lanes.get(parent)).map(|span| span.flow);
        let begun = lanes.begin(parent, start, self.clone());
        drop(lanes);
        let Some((id, place, nests)) = begun else {
            warn_once();
            return Begun { id: None, sessions };
        };
        let parents = if nests { None } else { parents_flow };
        // And where it was created, unless that is its parent.
        let origin = self.origin.filter(|origin| Some(*origin) != parents_flow);
        self.write_begin(&sessions, place, parents.or(origin));
        Begun { id: Some(id), sessions }
    }

    pub(super) fn end(&self, arguments: &[(&str, Value<'_>)]) {
        let Some(id) = self.id() else {
            return;
        };
        let now_ns = event::now_ns();
        let ended = lanes().end(id, now_ns);
        let Some(Ended { interrupted, end, resumed }) = ended else {
            return;
        };
        for part in &interrupted {
            part.span.write_end(part.place, &[]);
        }
        self.write_end(end, arguments);
        for part in &resumed {
            part.span.write_resumption(part.place);
        }
    }

    fn write_begin(&self, sessions: &Sessions, place: Place, cause: Option<Flow>) {
        let values: Vec<Value<'_>> = self.values.iter().map(OwnedValue::as_value).collect();
        let arguments: Vec<(&str, Value<'_>)> =
            self.arguments.iter().map(|(name, value)| (&**name, value.as_value())).collect();
        let (ending, others) = self.incoming.split_at_checked(self.ending).unwrap_or_default();
        let flows: Vec<Flow> = [self.flow].into_iter().chain(cause).chain(others.iter().copied()).collect();
        let track = lane(place);
        let details = Details {
            location: self.location,
            correlation: self.correlation.as_ref().map(OwnedCorrelation::borrow),
            ..self.details(&track, place)
        };
        let details = details.flows(&flows).flow_ends(ending).arguments(&arguments);
        sessions.forget(event::emit_into(sessions.get(), self.point, &values, &details));
    }

    /// It goes on elsewhere. Its arguments were said.
    fn write_resumption(&self, place: Place) {
        if let Some(Begun { sessions, .. }) = self.slice.get() {
            let track = lane(place);
            let details = self.details(&track, place).flow(self.flow);
            sessions.forget(event::emit_into(sessions.get(), self.point, &[], &details));
        }
    }

    fn write_end(&self, place: Place, arguments: &[(&str, Value<'_>)]) {
        static END: TracePoint = TracePoint::any_end();
        if let Some(Begun { sessions, .. }) = self.slice.get() {
            let track = lane(place);
            let details =
                Details::new().track(&track).at(Timestamp::boot_ns(place.at_ns)).arguments(arguments);
            if event::emit_into(sessions.get(), &END, &[], &details) != 0 {
                lanes().spoil(place);
            }
        }
    }

    fn details<'a>(&'a self, track: &'a Track, place: Place) -> Details<'a> {
        let details = Details::new().track(track).at(Timestamp::boot_ns(place.at_ns));
        Details { category: self.category, name: self.name.as_deref(), ..details }
    }
}

impl OwnedCorrelation {
    fn borrow(&self) -> Correlation<'_> {
        match self {
            Self::Number(number) => Correlation::Number(*number),
            Self::Text(text) => Correlation::Text(text),
        }
    }
}

impl Sessions {
    fn get(&self) -> event::Sessions {
        event::Sessions { places: self.places.load(Ordering::Relaxed), before: self.before }
    }

    /// These have not got the beginning: nothing more is for them.
    fn forget(&self, lost: u32) {
        if lost != 0 {
            self.places.fetch_and(!lost, Ordering::Relaxed);
        }
    }
}

fn lane(place: Place) -> Track {
    // The number 0 is no number of its own.
    LANE.clone().with_id(u64::from(place.track) + 1)
}

fn lanes() -> MutexGuard<'static, Lanes<Arc<Span>>> {
    LANES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn lock_for_fork() -> Box<dyn Held> {
    Box::new(lanes())
}

#[cold]
fn warn_once() {
    static WARNED: std::sync::Once = std::sync::Once::new();
    WARNED.call_once(|| {
        log::warn(format_args!(
            "more spans are open at once than there are lanes for: the others are not in the trace"
        ));
    });
}
