//! Events of programs: what their tracks are, and what happens on them.
//!
//! | module | what it does |
//! |---|---|
//! | [`descriptor`] | what programs say of their tracks, and which row each is |
//! | [`arrive`] | an event out of its packet, names and arguments resolved |
//! | [`annotation`] | arguments out of debug annotations |
//! | [`apply`] | an event in its turn: slices and counters |

pub mod annotation;
pub mod apply;
pub mod arrive;
pub mod descriptor;

use ferretto_trace_tables::{MachineId, Str};

use crate::args::ArgList;

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A slice begins.
    Begin,
    /// A slice ends.
    End,
    /// Something happens at once.
    Instant,
    /// A counter has a value.
    Counter(f64),
}

/// An event, with everything of it that does not depend on the order of time.
#[derive(Clone, Copy, Debug)]
pub struct TrackEvent {
    /// What it does.
    pub kind: Kind,
    /// Its track.
    pub track_uuid: u64,
    /// Its categories, joined by commas.
    pub category: Option<Str>,
    /// Its name.
    pub name: Option<Str>,
    /// Its arguments.
    pub args: ArgList,
    /// The machine.
    pub machine: MachineId,
}
