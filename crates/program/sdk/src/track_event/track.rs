//! Tracks: where events are drawn. Threads and the process have theirs; others are made by name.
//!
//! A track is told apart by a number, the exclusive or of its own and its parent's (upstream: `track.h`). It is described once in each
//! sequence that uses it.

use std::sync::Arc;

use ferretto_protozero::fnv::fnv1a;

use crate::identity::{process, thread_id, thread_uuid};

/// Tells tracks of one name and of different kinds apart (upstream: `track.h`).
const NAMED_MAGIC: u64 = 0xcd57_1ec5_ead3_7024;
/// As above, of counters.
const COUNTER_MAGIC: u64 = 0xb1a4_a67d_7970_839e;
/// As above, of states.
const STATE_MAGIC: u64 = 0x2e23_98ec_92e8_9138;

/// A line of the timeline that events can be put on, beside those of threads.
///
/// ```
/// use ferretto::{ChildOrder, Track};
///
/// static GPU: Track = Track::named("GPU").child_order(ChildOrder::Explicit);
/// static QUEUE: Track = Track::named("queue").under(&GPU).rank(1);
///
/// ferretto::instant!("gpu", "submitted", track: &QUEUE);
/// // Names that are known at run time only, and many of one name:
/// let connection = Track::dynamic(format!("connection to {}", "example.org")).with_id(7);
/// ferretto::instant!("net", "opened", track: &connection);
/// ```
///
/// Slices on one track must lie within each other, and events of one track should come in the order of their times. What overlaps needs
/// tracks of its own.
#[derive(Debug, Clone)]
pub struct Track {
    base: Base,
    /// What its number has beside that of its base.
    local: u64,
    parent: Option<&'static Self>,
    shared_parent: Option<Arc<Self>>,
    name: Option<&'static str>,
    shared_name: Option<Arc<str>>,
    pub(crate) kind: Kind,
    pub(crate) layout: Layout,
}

/// What a track belongs to in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// Nothing: it is the same in all processes.
    Global,
    Process,
    /// The thread that writes the event.
    CurrentThread,
    Thread(i32),
    /// It was described before.
    Known,
}

/// What is on a track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Events,
    Counter(Counter),
    State,
}

/// How a counter is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) unit: Option<Unit>,
    pub(crate) unit_multiplier: i64,
    pub(crate) is_incremental: bool,
    pub(crate) share_key: Option<&'static str>,
    pub(crate) categories: &'static [&'static str],
}

/// Where and how a viewer draws a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) description: Option<&'static str>,
    pub(crate) child_order: Option<ChildOrder>,
    pub(crate) rank: Option<i32>,
    pub(crate) merge: Option<Merge>,
}

/// In which order a track's children are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildOrder {
    /// By their names.
    Lexicographic,
    /// By the times of their first events.
    Chronological,
    /// By their [ranks](Track::rank).
    Explicit,
}

/// Which tracks of one parent are drawn as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Merge {
    /// Those of the same name, which is what viewers do without being told.
    ByName,
    /// None.
    Never,
    /// Those with this text.
    ByKey(&'static str),
    /// Those with this number.
    ByNumber(u64),
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Durations in nanoseconds.
    TimeNs,
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Something else, by its name.
    Named(&'static str),
}

impl Track {
    const NEW: Self = Self {
        base: Base::Process,
        local: 0,
        parent: None,
        shared_parent: None,
        name: None,
        shared_name: None,
        kind: Kind::Events,
        layout: Layout { description: None, child_order: None, rank: None, merge: None },
    };

    /// A track of this process. Equal names are one track, unless they have different [ids](Self::with_id) or parents.
    pub const fn named(name: &'static str) -> Self {
        Self { name: Some(name), local: fnv1a(name.as_bytes()) ^ NAMED_MAGIC, ..Self::NEW }
    }

    /// As [`named`](Self::named), with a name that is made at run time.
    pub fn dynamic(name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        Self { local: fnv1a(name.as_bytes()) ^ NAMED_MAGIC, shared_name: Some(name), ..Self::NEW }
    }

    /// The track of this process.
    pub const fn process() -> Self {
        Self::NEW
    }

    /// The track of the thread that writes the event: the one that events have without being told.
    pub const fn current_thread() -> Self {
        Self { base: Base::CurrentThread, ..Self::NEW }
    }

    /// The track of another thread of this process, by the operating system's number.
    pub const fn thread(tid: i32) -> Self {
        Self { base: Base::Thread(tid), ..Self::NEW }
    }

    /// A track that belongs to no process: all that use this number share it. The number should be random.
    pub const fn global(uuid: u64, name: &'static str) -> Self {
        Self { base: Base::Global, local: uuid, name: Some(name), ..Self::NEW }
    }

    /// A track for what lives at this address, as long as it does.
    pub fn of<T>(name: &'static str, owner: &T) -> Self {
        Self::named(name).with_id(std::ptr::from_ref(owner).addr() as u64)
    }

    /// With a number that tells it apart from others of its name.
    #[must_use]
    pub const fn with_id(mut self, id: u64) -> Self {
        self.local ^= id;
        self
    }

    /// Below another track.
    #[must_use]
    pub const fn under(mut self, parent: &'static Self) -> Self {
        self.base = parent.base;
        // Turned, so that a child of its parent's name is not its grandparent.
        self.local ^= parent.local.rotate_left(1);
        self.parent = Some(parent);
        self
    }

    /// As [`under`](Self::under), with a parent that is made at run time.
    #[must_use]
    pub fn under_shared(mut self, parent: &Arc<Self>) -> Self {
        self.base = parent.base;
        self.local ^= parent.local.rotate_left(1);
        self.shared_parent = Some(parent.clone());
        self
    }

    /// Below the track of the thread that writes the event: each thread has its own.
    #[must_use]
    pub const fn of_each_thread(mut self) -> Self {
        self.base = Base::CurrentThread;
        self
    }

    /// With words for people who wonder what it shows.
    #[must_use]
    pub const fn with_description(mut self, description: &'static str) -> Self {
        self.layout.description = Some(description);
        self
    }

    /// Draws the tracks below it in this order.
    #[must_use]
    pub const fn child_order(mut self, order: ChildOrder) -> Self {
        self.layout.child_order = Some(order);
        self
    }

    /// Its place among its siblings, if their parent orders them [by rank](ChildOrder::Explicit): lower ones come first.
    #[must_use]
    pub const fn rank(mut self, rank: i32) -> Self {
        self.layout.rank = Some(rank);
        self
    }

    /// Draws it together with some of its siblings.
    #[must_use]
    pub const fn merge(mut self, merge: Merge) -> Self {
        self.layout.merge = Some(merge);
        self
    }

    /// Its number, by which others may refer to it.
    pub fn uuid(&self) -> u64 {
        self.local ^ self.base_uuid()
    }

    /// Its name, if it has one of its own.
    pub fn name(&self) -> Option<&str> {
        self.shared_name.as_deref().or(self.name)
    }

    /// Its name, if that never changes: such names are told apart in traces.
    pub(crate) fn static_name(&self) -> Option<&'static str> {
        self.name
    }

    pub(crate) fn parent(&self) -> Option<&Self> {
        self.shared_parent.as_deref().or(self.parent)
    }

    pub(crate) fn base(&self) -> Base {
        self.base
    }

    /// The number of what it belongs to in the end; 0 for nothing.
    pub(crate) fn base_uuid(&self) -> u64 {
        match self.base {
            Base::Global | Base::Known => 0,
            Base::Process => process().uuid,
            Base::CurrentThread => thread_uuid(thread_id()),
            Base::Thread(tid) => thread_uuid(tid),
        }
    }

    /// Whether it is the track of a process or a thread itself, or otherwise known.
    pub(crate) fn is_base(&self) -> bool {
        self.base == Base::Known || self.local == 0 && self.name().is_none()
    }

    /// A track that was described before, by its number.
    pub(crate) fn of_known_uuid(uuid: u64) -> Self {
        Self { base: Base::Known, local: uuid, ..Self::NEW }
    }

    const fn of_kind(mut self, kind: Kind, magic: u64) -> Self {
        self.local ^= NAMED_MAGIC ^ magic;
        self.kind = kind;
        self
    }
}

/// A counter: a line of values over time.
///
/// ```
/// use ferretto::{CounterTrack, Unit};
///
/// static QUEUE: CounterTrack = CounterTrack::new("queue").with_unit(Unit::Count);
/// ferretto::counter!("net", QUEUE, 3);
/// ```
#[derive(Debug, Clone)]
pub struct CounterTrack(Track);

impl CounterTrack {
    /// A counter of this process. Equal names are one counter.
    pub const fn new(name: &'static str) -> Self {
        Self::of(Track::named(name))
    }

    /// A counter in the place of this track, with its name.
    pub const fn of(track: Track) -> Self {
        const COUNTER: Counter = Counter {
            unit: None,
            unit_multiplier: 1,
            is_incremental: false,
            share_key: None,
            categories: &[],
        };
        Self(track.of_kind(Kind::Counter(COUNTER), COUNTER_MAGIC))
    }

    /// With a unit.
    #[must_use]
    pub const fn with_unit(mut self, unit: Unit) -> Self {
        if let Kind::Counter(counter) = &mut self.0.kind {
            counter.unit = Some(unit);
        }
        self
    }

    /// With values that stand for so many units each: 1024 for values in KiB of a counter of bytes.
    #[must_use]
    pub const fn with_unit_multiplier(mut self, multiplier: i64) -> Self {
        if let Kind::Counter(counter) = &mut self.0.kind {
            counter.unit_multiplier = multiplier;
        }
        self
    }

    /// Sends differences instead of values, which takes fewer bytes for large ones. The program gives values all the same. Each thread has
    /// a counter of its own then, as only the differences of one thread can be added up.
    #[must_use]
    pub const fn incremental(mut self) -> Self {
        self.0.base = Base::CurrentThread;
        if let Kind::Counter(counter) = &mut self.0.kind {
            counter.is_incremental = true;
        }
        self
    }

    /// Draws counters with this key on one scale, so that they can be compared.
    #[must_use]
    pub const fn share_axis(mut self, key: &'static str) -> Self {
        if let Kind::Counter(counter) = &mut self.0.kind {
            counter.share_key = Some(key);
        }
        self
    }

    /// Says which categories it belongs to.
    #[must_use]
    pub const fn with_categories(mut self, categories: &'static [&'static str]) -> Self {
        if let Kind::Counter(counter) = &mut self.0.kind {
            counter.categories = categories;
        }
        self
    }

    /// Its track.
    pub const fn track(&self) -> &Track {
        &self.0
    }
}

/// Something that is in one state at a time, by the state's name.
///
/// ```
/// static LINK: ferretto::StateTrack = ferretto::StateTrack::new("link");
/// ferretto::state!("net", LINK, "connecting");
/// ferretto::state!("net", LINK, "up");
/// ```
#[derive(Debug, Clone)]
pub struct StateTrack(Track);

impl StateTrack {
    /// Something of this process. Equal names are one.
    pub const fn new(name: &'static str) -> Self {
        Self::of(Track::named(name))
    }

    /// Something in the place of this track, with its name.
    pub const fn of(track: Track) -> Self {
        Self(track.of_kind(Kind::State, STATE_MAGIC))
    }

    /// Its track.
    pub const fn track(&self) -> &Track {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_upstreams_for_what_upstream_has() {
        let process = process().uuid;
        let name = fnv1a(b"x");
        let cases = [
            (Track::process(), process),
            (Track::thread(7), process ^ 7),
            (Track::current_thread(), process ^ thread_id() as u64),
            (Track::named("x"), name ^ NAMED_MAGIC ^ process),
            (Track::dynamic("x").with_id(5), name ^ NAMED_MAGIC ^ process ^ 5),
            (Track::global(99, "x"), 99),
            (CounterTrack::new("x").0, name ^ COUNTER_MAGIC ^ process),
            (StateTrack::new("x").0, name ^ STATE_MAGIC ^ process),
            (Track::named("x").of_each_thread(), name ^ NAMED_MAGIC ^ process ^ thread_id() as u64),
        ];
        for (track, uuid) in cases {
            assert_eq!(track.uuid(), uuid, "{track:?}");
        }
    }

    #[test]
    fn a_child_is_neither_its_parent_nor_its_grandparent() {
        static OUTER: Track = Track::named("x");
        static INNER: Track = Track::named("x").under(&OUTER);
        let innermost = Track::named("x").under_shared(&Arc::new(INNER.clone()));
        let numbers = [Track::process().uuid(), OUTER.uuid(), INNER.uuid(), innermost.uuid()];
        for (index, number) in numbers.iter().enumerate() {
            assert!(!numbers[..index].contains(number), "{numbers:x?}");
        }
        assert_eq!(INNER.parent().and_then(Track::name), Some("x"));
    }

    #[test]
    fn what_lives_elsewhere_has_another_track() {
        let (one, other) = (1_u8, 2_u8);
        assert_eq!(Track::of("x", &one).uuid(), Track::of("x", &one).uuid());
        assert_ne!(Track::of("x", &one).uuid(), Track::of("x", &other).uuid());
    }
}
