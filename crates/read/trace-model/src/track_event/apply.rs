//! An event in its turn.

use ferretto_trace_tables::tables::CounterRow;

use super::{Kind, TrackEvent};
use crate::model::Model;
use crate::slices::Label;
use crate::stats::Stat;

impl Model {
    /// Applies an event of the time `ts`.
    pub fn apply_track_event(&mut self, ts: i64, event: TrackEvent) {
        let Some(track) = self.track_of(event.track_uuid, event.machine) else {
            self.stats.count(Stat::TrackEventParserErrors);
            return;
        };
        let label = Label { category: event.category, name: event.name, args: event.args };
        let (slices, mut out) = self.slices();
        match event.kind {
            Kind::Begin => {
                slices.begin(&mut out, ts, track, label);
            }
            Kind::End => {
                slices.end(&mut out, ts, track, label);
            }
            Kind::Instant => {
                slices.complete(&mut out, ts, 0, track, label);
            }
            Kind::Counter(value) => {
                out.tables.counter.push(CounterRow { ts, track_id: track, value, arg_set_id: None });
            }
        }
    }
}
