//! Relays: somebody on another machine who says what it is and how its clocks go, right or wrong.

use ferretto_protos::sync_clock_request::{Clock, Phase};
use ferretto_protos::{BuiltinClock, InitRelayRequest, SyncClockRequest, SystemInfo};
use ferretto_service::RelayCall;
use prost::Message;

use crate::fate::Fate;

/// Bytes of garbage.
const MAX_INFO_BYTES: usize = 300;

/// A relay on a machine.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) machine: u32,
    /// How far its clocks are ahead.
    ahead_ns: u64,
    is_in_round: bool,
}

impl Relay {
    pub(crate) fn new(machine: u32, fate: &mut Fate) -> Self {
        Self { machine, ahead_ns: fate.next() % 1_000_000_000_000, is_in_round: false }
    }

    /// The next thing that it says.
    pub(crate) fn call(&mut self, now_ns: u64, fate: &mut Fate) -> RelayCall {
        if fate.one_in(6) {
            let info = SystemInfo { hz: Some(100), ..Default::default() }.encode_to_vec();
            let info = if fate.one_in(2) { fate.bytes(MAX_INFO_BYTES) } else { info };
            return RelayCall::InitRelay(InitRelayRequest { system_info: Some(info.into()) });
        }
        let phase = if self.is_in_round { Phase::Update } else { Phase::Ping };
        self.is_in_round = !self.is_in_round;
        let clocks = if fate.one_in(4) { lies(fate) } else { self.clocks(now_ns) };
        RelayCall::SyncClock(SyncClockRequest { phase: Some(phase as i32), clocks })
    }

    fn clocks(&self, now_ns: u64) -> Vec<Clock> {
        let builtin = [BuiltinClock::Boottime, BuiltinClock::Monotonic, BuiltinClock::Realtime];
        builtin.iter().map(|clock| reading(*clock as u32, now_ns + self.ahead_ns)).collect()
    }
}

fn reading(clock_id: u32, timestamp: u64) -> Clock {
    Clock { clock_id: Some(clock_id), timestamp: Some(timestamp) }
}

/// Clocks that there are not, that run back, or stand at the end of all time.
fn lies(fate: &mut Fate) -> Vec<Clock> {
    fate.saw("a relay lies about clocks");
    let count = fate.pick(&[0, 1, 3, 200]);
    (0..count).map(|_| reading(fate.below(12) as u32, fate.next())).collect()
}
