//! Values of counters, on tracks by their dimensions.

use ferretto_trace_tables::tables::CounterRow;
use ferretto_trace_tables::{CounterId, MachineId, Str, Strings, TrackId};

use crate::model::Model;

pub use crate::tracks::TrackType;

impl Model {
    /// The track of a type, or a new one, which `name` names.
    pub fn track(
        &mut self,
        machine: MachineId,
        track: TrackType<'_>,
        name: impl FnOnce(&mut Strings) -> Str,
    ) -> TrackId {
        self.intern_track(machine, track, |strings| Some(name(strings))).0
    }

    /// Adds a value of a counter.
    #[inline]
    pub fn push_counter(&mut self, ts: i64, track_id: TrackId, value: f64) -> CounterId {
        CounterId(self.tables.counter.push(CounterRow { ts, track_id, value, arg_set_id: None }))
    }
}
