//! Which tracks there are: each one that something tells apart is a row.

use ferretto_trace_tables::tables::{Tables, TrackRow};
use ferretto_trace_tables::{MachineId, Str, TrackId, Upid, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::args::ArgList;

/// What tells tracks of one type apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dimensions {
    /// Of a thread.
    pub utid: Option<Utid>,
    /// Of a process.
    pub upid: Option<Upid>,
    /// Of a processor.
    pub cpu: Option<u32>,
    /// By a number: the uuid of a descriptor, an interrupt's.
    pub number: Option<i64>,
    /// By a text: the name of a counter, of a device.
    pub text: Option<Str>,
}

/// Everything that a track is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrackKey {
    /// `slice`, `counter` or `state`.
    pub event_type: &'static str,
    /// By a word that stays, such as `thread_execution`.
    pub type_: &'static str,
    /// The machine.
    pub machine: MachineId,
    /// What tells it apart.
    pub dimensions: Dimensions,
}

/// All tracks that were met.
#[derive(Debug, Default)]
pub struct Tracks {
    rows: HashMap<TrackKey, TrackId, RandomState>,
    /// Those of [`counters`](crate::counters), by type, machine and dimensions.
    pub(crate) of_dimensions: HashMap<(&'static str, MachineId, ArgList), TrackId, RandomState>,
}

impl Tracks {
    /// The track of a key, or a new one of this name.
    pub fn get(&mut self, tables: &mut Tables, key: TrackKey, name: Option<Str>) -> TrackId {
        if let Some(id) = self.rows.get(&key) {
            return *id;
        }
        let id = add(tables, key, name);
        self.rows.insert(key, id);
        id
    }
}

/// A track like no other, whatever tells it apart.
pub fn add(tables: &mut Tables, key: TrackKey, name: Option<Str>) -> TrackId {
    let row = TrackRow {
        name,
        type_: Some(tables.strings.intern(key.type_)),
        event_type: Some(tables.strings.intern(key.event_type)),
        machine_id: Some(key.machine),
        utid: key.dimensions.utid,
        upid: key.dimensions.upid,
        cpu: key.dimensions.cpu,
        ..TrackRow::default()
    };
    TrackId(tables.track.push(row))
}
