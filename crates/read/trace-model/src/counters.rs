//! Tracks by their dimensions, and values of counters.
//!
//! A track of a type is told apart from others of it by its *dimensions*, names and values which also stand in the table `args`. One of the
//! dimensions `utid`, `upid` and `cpu` is a column, too, and `cpu` names a processor (upstream: track_tracker.cc, tracks_common.h).

use ferretto_trace_tables::tables::{CounterRow, TrackRow};
use ferretto_trace_tables::{CounterId, MachineId, Str, Strings, TrackId, Upid, Utid};

use crate::args::{Arg, ArgValue};
use crate::model::Model;

/// What a track is.
#[derive(Clone, Copy, Debug)]
pub struct TrackType<'a> {
    /// `slice`, `counter` or `state`.
    pub event_type: &'static str,
    /// By a word that stays, such as `meminfo`.
    pub type_: &'static str,
    /// What tells it apart from others of its type.
    pub dimensions: &'a [(&'static str, ArgValue)],
    /// The unit of a counter.
    pub unit: Option<&'static str>,
}

impl<'a> TrackType<'a> {
    /// A counter without a unit.
    #[must_use]
    pub const fn counter(type_: &'static str, dimensions: &'a [(&'static str, ArgValue)]) -> Self {
        Self { event_type: "counter", type_, dimensions, unit: None }
    }

    /// The same in a unit.
    #[must_use]
    pub const fn in_unit(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }

    /// A track of slices.
    #[must_use]
    pub const fn slices(type_: &'static str, dimensions: &'a [(&'static str, ArgValue)]) -> Self {
        Self { event_type: "slice", type_, dimensions, unit: None }
    }

    /// A track of states.
    #[must_use]
    pub const fn states(type_: &'static str, dimensions: &'a [(&'static str, ArgValue)]) -> Self {
        Self { event_type: "state", type_, dimensions, unit: None }
    }
}

impl Model {
    /// The track of a type, or a new one, which `name` names.
    pub fn track(
        &mut self,
        machine: MachineId,
        track: TrackType<'_>,
        name: impl FnOnce(&mut Strings) -> Str,
    ) -> TrackId {
        let strings = &mut self.tables.strings;
        let arg = |(key, value): &(&str, ArgValue)| {
            let key = strings.intern(key);
            Arg { flat_key: key, key, value: *value }
        };
        let args: Vec<Arg> = track.dimensions.iter().map(arg).collect();
        let dimensions = self.args.intern(&args);
        let key = (track.type_, machine, dimensions);
        if let Some(id) = self.tracks.of_dimensions.get(&key) {
            return *id;
        }
        let mut row = TrackRow {
            name: Some(name(&mut self.tables.strings)),
            type_: Some(self.tables.strings.intern(track.type_)),
            event_type: Some(self.tables.strings.intern(track.event_type)),
            counter_unit: track.unit.map(|unit| self.tables.strings.intern(unit)),
            machine_id: Some(machine),
            dimension_arg_set_id: self.args.write(dimensions, &mut self.tables),
            ..TrackRow::default()
        };
        for (name, value) in track.dimensions {
            let ArgValue::Int(value) = value else { continue };
            let Ok(value) = u32::try_from(*value) else { continue };
            match *name {
                "utid" => row.utid = Some(Utid(value)),
                "upid" => row.upid = Some(Upid(value)),
                "cpu" => {
                    row.cpu = Some(value);
                    self.cpus.get(machine, value);
                }
                _ => {}
            }
        }
        let id = TrackId(self.tables.track.push(row));
        self.tracks.of_dimensions.insert(key, id);
        id
    }

    /// Adds a value of a counter.
    #[inline]
    pub fn push_counter(&mut self, ts: i64, track_id: TrackId, value: f64) -> CounterId {
        CounterId(self.tables.counter.push(CounterRow { ts, track_id, value, arg_set_id: None }))
    }
}
