//! States that a program says that something is in, one at a time on a track (upstream: state_tracker.cc).

use ferretto_trace_tables::tables::StateRow;
use ferretto_trace_tables::{Str, TrackId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::args::ArgList;
use crate::model::Model;
use crate::slices::Out;

/// How long a state lasts that has not ended.
const UNFINISHED: i64 = -1;

/// What each track is in.
#[derive(Debug, Default)]
pub struct States {
    active: HashMap<TrackId, Active, RandomState>,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    row: usize,
    value: Str,
    args: ArgList,
}

impl Model {
    /// A track is in another state now, or in none. The same state again only adds to what is said of it.
    pub fn set_state(
        &mut self,
        ts: i64,
        track: TrackId,
        value: Option<Str>,
        category: Option<Str>,
        args: ArgList,
    ) {
        let mut out = Out { tables: &mut self.tables, args: &mut self.args, stats: &mut self.stats };
        self.states.set(&mut out, ts, track, value, category, args);
    }
}

impl States {
    fn set(
        &mut self,
        out: &mut Out<'_>,
        ts: i64,
        track: TrackId,
        value: Option<Str>,
        category: Option<Str>,
        args: ArgList,
    ) {
        if let Some(active) = self.active.get_mut(&track) {
            if Some(active.value) == value {
                active.args = out.args.join(active.args, args);
                return;
            }
            let active = *active;
            self.active.remove(&track);
            let began = out.tables.state.ts.get(active.row).unwrap_or(ts);
            out.tables.state.dur.set(active.row, ts.saturating_sub(began));
            write_args(out, active);
        }
        let Some(value) = value else { return };
        let row = StateRow {
            ts,
            dur: UNFINISHED,
            track_id: track,
            category,
            value: Some(value),
            ..StateRow::default()
        };
        let row = out.tables.state.push(row) as usize;
        self.active.insert(track, Active { row, value, args });
    }

    /// The trace is over.
    pub fn finish(&mut self, out: &mut Out<'_>) {
        let mut active: Vec<Active> = self.active.drain().map(|(_, active)| active).collect();
        active.sort_unstable_by_key(|active| active.row);
        for active in active {
            write_args(out, active);
        }
    }
}

fn write_args(out: &mut Out<'_>, active: Active) {
    if let Some(set) = out.args.write(active.args, out.tables) {
        out.tables.state.arg_set_id.set(active.row, Some(set));
    }
}
