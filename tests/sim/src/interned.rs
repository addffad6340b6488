//! What a writer says once and its later packets rely on: names, and a clock that counts from packet to packet.
//!
//! Each packet also says in full what a reader must make of it ([`Meant`]), so whether a trace can be read is a question to that trace
//! alone: whatever a ring has overwritten, whatever was read before, and whichever clone it is.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_protos::trace_packet::Data;
use ferretto_protos::{
    ClockSnapshot, EventName, InternedData, TracePacket, TracePacketDefaults, clock_snapshot::Clock,
};

use crate::fate::Fate;

/// The clock of the sequence's own.
const OWN_CLOCK: u32 = 64;
const BOOTTIME: u32 = 6;
const UNIT_NS: u64 = 10;
const NAMES: usize = 4;
/// `SequenceFlags`.
const CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
/// Bits of `previous_packet_dropped`: there is a loss; it was overwritten in the service's buffer.
const OVERWRITTEN: u32 = 1 | 64;

/// What a packet relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meant {
    /// How often the writer had begun anew.
    pub(crate) epoch: u64,
    pub(crate) iid: u64,
    pub(crate) ticks: u64,
}

impl Meant {
    fn name(self) -> String {
        format!("name {} of epoch {}", self.iid, self.epoch)
    }
}

/// The writer's side.
#[derive(Debug, Default)]
pub(crate) struct Said {
    epoch: u64,
    ticks: u64,
    names: BTreeSet<u64>,
    has_begun: bool,
}

impl Said {
    /// All has to be said once more: something may have got lost.
    pub(crate) fn forget(&mut self) {
        self.has_begun = false;
    }

    /// What is to be written before the next packet, if anything is.
    pub(crate) fn beginning(&mut self) -> Option<TracePacket> {
        if std::mem::replace(&mut self.has_begun, true) {
            return None;
        }
        self.epoch += 1;
        self.names.clear();
        let clock =
            |id, timestamp| Clock { clock_id: Some(id), timestamp: Some(timestamp), ..Clock::default() };
        let own = Clock {
            is_incremental: Some(true),
            unit_multiplier_ns: Some(UNIT_NS),
            ..clock(OWN_CLOCK, self.ticks)
        };
        let clocks = vec![own, clock(BOOTTIME, self.ticks * UNIT_NS)];
        Some(TracePacket {
            sequence_flags: Some(CLEARED),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(OWN_CLOCK),
                ..Default::default()
            }),
            data: Some(Data::ClockSnapshot(ClockSnapshot { clocks, ..Default::default() })),
            ..Default::default()
        })
    }

    /// Lets the packet rely on what was said, and adds what was not yet.
    pub(crate) fn use_in(&mut self, packet: &mut TracePacket, fate: &mut Fate) -> Meant {
        let delta = fate.below(300) as u64;
        self.ticks += delta;
        let meant = Meant { epoch: self.epoch, iid: 1 + fate.below(NAMES) as u64, ticks: self.ticks };
        packet.timestamp = Some(delta);
        packet.sequence_flags = Some(NEEDS_STATE);
        if self.names.insert(meant.iid) {
            let name = EventName { iid: Some(meant.iid), name: Some(meant.name()) };
            packet.interned_data = Some(InternedData { event_names: vec![name], ..Default::default() });
        }
        meant
    }
}

/// Whether a reader can make sense of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sense {
    Whole,
    /// What it relies on is missing, and only because it was overwritten.
    Overwritten,
    /// It is missing for another reason that the reader was told, or can tell.
    Missing,
}

/// The reader's side, by the rules of Trace Processor.
#[derive(Debug, Default)]
pub(crate) struct Known {
    is_valid: bool,
    names: BTreeMap<u64, String>,
    ticks: u64,
    /// All losses since it was valid for the last time.
    losses: u32,
    /// Something was left out, or came twice, where nobody could say so.
    is_torn: bool,
}

impl Known {
    /// For a reader who comes in the middle.
    pub(crate) fn from_the_middle() -> Self {
        Self { is_torn: true, ..Self::default() }
    }

    /// The next packet of the sequence does not follow on the last one, and does not say so.
    pub(crate) fn tear(&mut self) {
        (self.is_valid, self.is_torn) = (false, true);
    }

    /// Takes what packets rely on.
    pub(crate) fn take(&mut self, packet: &TracePacket) {
        self.losses |= packet.previous_packet_dropped();
        if packet.sequence_flags() & CLEARED != 0 {
            self.names.clear();
            (self.is_valid, self.is_torn, self.losses) = (true, false, 0);
        } else if packet.previous_packet_dropped() != 0 {
            self.is_valid = false;
        }
        let names = packet.interned_data.iter().flat_map(|data| &data.event_names);
        for entry in names.filter(|_| self.is_valid) {
            let known = self.names.entry(entry.iid()).or_insert_with(|| entry.name().to_owned());
            assert_eq!(known, entry.name(), "a number for two names");
        }
        match &packet.data {
            Some(Data::ClockSnapshot(snapshot)) => self.ticks = own_ticks(snapshot),
            _ if self.is_valid => self.ticks += packet.timestamp(),
            _ => {}
        }
    }

    /// What can be made of the packet that was taken last.
    pub(crate) fn sense(&self, meant: Meant) -> Sense {
        if self.is_valid {
            assert_eq!(self.names.get(&meant.iid), Some(&meant.name()), "a wrong name");
            assert_eq!(self.ticks, meant.ticks, "a wrong time");
            return Sense::Whole;
        }
        assert!(self.is_torn || self.losses != 0, "a packet cannot be read and nobody says why");
        if self.is_torn || self.losses & !OVERWRITTEN != 0 { Sense::Missing } else { Sense::Overwritten }
    }
}

/// A snapshot's time by the sequence's own clock. The other clock must agree.
fn own_ticks(snapshot: &ClockSnapshot) -> u64 {
    let by_id = |id| snapshot.clocks.iter().find(|clock| clock.clock_id() == id).map(Clock::timestamp);
    let (Some(ticks), Some(boot)) = (by_id(OWN_CLOCK), by_id(BOOTTIME)) else {
        panic!("nobody took the snapshot {snapshot:?}");
    };
    assert_eq!(boot, ticks * UNIT_NS, "the clocks of a snapshot were read at different times");
    ticks
}

/// The parts of a sequence's state that a service may say again, and nothing else.
pub(crate) fn is_state_only(packet: &TracePacket) -> bool {
    let only = TracePacket {
        sequence_flags: packet.sequence_flags,
        trace_packet_defaults: packet.trace_packet_defaults.clone(),
        interned_data: packet.interned_data.clone(),
        previous_packet_dropped: packet.previous_packet_dropped,
        first_packet_on_sequence: packet.first_packet_on_sequence,
        trusted_pid: packet.trusted_pid,
        machine_id: packet.machine_id,
        optional_trusted_uid: packet.optional_trusted_uid,
        optional_trusted_packet_sequence_id: packet.optional_trusted_packet_sequence_id,
        data: packet.data.clone().filter(|data| matches!(data, Data::ClockSnapshot(_))),
        ..Default::default()
    };
    only == *packet
}
