//! `ConcurrentSessionEvent`: what other recordings of the service did meanwhile, a track of states each (upstream:
//! concurrent_sessions_module.cc).

use ferretto_protos::fields::concurrent_session_event as field;
use ferretto_trace_tables::MachineId;

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
        self.set_state(ts, track, Some(value), None, args);
        if at == DISABLED {
            self.set_state(ts, track, None, None, ArgList::EMPTY);
        }
    }

    fn unknown_session_state(&mut self, ts: i64, state: i64) {
        let args = [("state", ArgValue::Int(state))];
        self.log(Stat::ConcurrentSessionEventUnknownState, Some(Where::When(ts)), &args);
    }
}
