//! For layers that know what was open when a session began, and write its beginning when something happens in it.

use crate::track_event::category::Category;
use crate::track_event::details::Details;
use crate::track_event::event::{self, Sessions, quietly};
use crate::track_event::point::TracePoint;
use crate::track_event::session::{self, Started};
use crate::track_event::timestamp::Timestamp;
use crate::track_event::value::Value;

/// How many sessions have begun to record so far: as long as it stays the same, there is none that has missed anything.
#[doc(hidden)]
#[inline]
pub fn session_starts() -> u32 {
    session::starts()
}

/// A session that has begun to record.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct SessionStart {
    place: usize,
    ns: u64,
}

impl SessionStart {
    /// Those that began after there were so many, and still record.
    pub fn since(starts: u32) -> Vec<Self> {
        let new = |(place, _, Started { number, ns }): (usize, u32, Started)| {
            (number.wrapping_sub(starts) as i32 > 0).then_some(Self { place, ns })
        };
        quietly(|| session::started().into_iter().filter_map(new).collect())
    }

    /// Writes an event into it, at the time when it began; `false` if it does not want the category.
    pub fn emit(
        &self,
        category: &'static Category,
        point: &'static TracePoint,
        values: &[Value<'_>],
        details: Details<'_>,
    ) -> bool {
        let places = category.instances() & 1 << self.place;
        let details = details.at(Timestamp::boot_ns(self.ns));
        event::emit_into(Sessions { places, before: u32::MAX }, point, values, &details);
        places != 0
    }

    /// When it began.
    pub fn ns(&self) -> u64 {
        self.ns
    }
}

/// The sessions that record a category, as their places, and when the first of them began; only those from a number on. `None` if there
/// is none.
pub(crate) fn recording(category: &'static Category, from: u32) -> Option<(u32, u64)> {
    let instances = category.instances();
    let started = quietly(session::started);
    let wanted = started.into_iter().filter(|(place, id, _)| instances & 1 << place != 0 && *id >= from);
    wanted
        .map(|(place, _, started)| (1 << place, started.ns))
        .reduce(|(places, ns), (place, other_ns)| (places | place, ns.min(other_ns)))
}

/// The operating system's id of this thread.
#[doc(hidden)]
pub fn thread_id() -> i32 {
    crate::identity::thread_id()
}
