//! `ConcurrentSessionEvent`: what other recordings of the service did meanwhile, a track of states each (upstream:
//! concurrent_sessions_module.cc, state_tracker.cc).

use ferretto_protos::fields::concurrent_session_event as field;
use ferretto_trace_tables::tables::StateRow;
use ferretto_trace_tables::{MachineId, Str, TrackId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::args::{ArgList, ArgValue};
use crate::counters::TrackType;
use crate::import_logs::Where;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// `ConcurrentSessionEvent.State`, without the first.
const STATES: [&str; 5] =
    ["DISABLED", "CONFIGURED", "STARTED", "DISABLING_WAITING_STOP_ACKS", "CLONED_READ_ONLY"];
const DISABLED: usize = 0;
const CLONED_READ_ONLY: usize = 4;
/// The length of a state that has not ended.
const UNFINISHED: i64 = -1;

/// The state that each track of states is in.
#[derive(Debug, Default)]
pub struct States {
    open: HashMap<TrackId, Open, RandomState>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    row: usize,
    value: Str,
    args: ArgList,
}

impl Model {
    /// Reads `TracePacket.concurrent_session_event`.
    pub fn apply_concurrent_session(&mut self, ts: i64, machine: MachineId, message: &[u8]) {
        let number = |number| wire::int(message, number).unwrap_or(0);
        let state = number(field::STATE);
        let Some(at) = usize::try_from(state).ok().and_then(|state| state.checked_sub(1)) else {
            return self.unknown_session_state(ts, state);
        };
        let Some(name) = STATES.get(at) else { return self.unknown_session_state(ts, state) };
        let session = number(field::SESSION_ID);
        let mut called = match wire::bytes(message, field::SESSION_NAME).filter(|name| !name.is_empty()) {
            Some(name) => String::from_utf8_lossy(name).into_owned(),
            None => format!("Session {}", session as u64),
        };
        if at == CLONED_READ_ONLY {
            // It has its parent's name.
            called.push_str(" (clone)");
        }
        let dimensions = [("session_id", ArgValue::Int(session))];
        let track = TrackType::states("concurrent_tracing_sessions", &dimensions);
        let track = self.track(machine, track, |strings| strings.intern(&called));
        let args = [("consumer_uid", field::CONSUMER_UID), ("num_data_sources", field::NUM_DATA_SOURCES)];
        let args = args.map(|(key, field)| self.arg(key, ArgValue::Int(number(field))));
        let args = self.args.intern(&args);
        let value = self.tables.strings.intern(name);
        self.change_state(ts, track, Some(value), args);
        if at == DISABLED {
            self.change_state(ts, track, None, ArgList::EMPTY);
        }
    }

    /// A track of states is in another one from `ts` on, or in none. The same one again only adds arguments.
    pub fn change_state(&mut self, ts: i64, track: TrackId, value: Option<Str>, args: ArgList) {
        let open = self.states.open.get(&track).copied();
        let (open, args) = match open {
            Some(open) if Some(open.value) == value => (Some(open), self.args.join(open.args, args)),
            Some(open) => {
                if let Some(dur) = self.tables.state.dur.get_mut(open.row) {
                    let begun = self.tables.state.ts.get(open.row).copied().unwrap_or(ts);
                    *dur = ts.saturating_sub(begun);
                }
                self.states.open.remove(&track);
                (None, args)
            }
            None => (None, args),
        };
        let Some(value) = value else { return };
        let row = match open {
            Some(open) => open.row,
            None => {
                let row = StateRow {
                    ts,
                    dur: UNFINISHED,
                    track_id: track,
                    value: Some(value),
                    ..StateRow::default()
                };
                self.tables.state.push(row) as usize
            }
        };
        let set = self.args.write(args, &mut self.tables);
        self.tables.state.arg_set_id.set(row, set);
        self.states.open.insert(track, Open { row, value, args });
    }

    fn unknown_session_state(&mut self, ts: i64, state: i64) {
        let args = [("state", ArgValue::Int(state))];
        self.log(Stat::ConcurrentSessionEventUnknownState, Some(Where::When(ts)), &args);
    }
}
