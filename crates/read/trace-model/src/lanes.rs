//! Packets that have nothing but a usual event: most of the packets of programs.
//!
//! A sequence has a *lane* from a packet with an event on. What it holds stays as it is while packets are usual ones, so that they need not look
//! for it. Any other packet of the sequence closes the lane, and what may be about all sequences closes all of them.
//!
//! Memory: some kilobytes.

use ferretto_protos::fields::trace_packet as field;
use ferretto_trace_read::Head;
use ferretto_trace_read::clocks::ClockNumber;
use ferretto_trace_read::fields::Fields;
use ferretto_trace_read::head::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};

use crate::track_event::WriterId;
use crate::track_event::usual::two_bytes;

/// Ours: writers that take turns are mostly fewer.
const LANES: usize = 64;

/// What packets of a sequence have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    /// The sequence, as its packets have it.
    pub(crate) sequence_id: u32,
    /// Which it is of all.
    pub(crate) number: usize,
    pub(crate) writer: WriterId,
    /// The track of events that name none; 0 is none.
    pub(crate) default_uuid: u64,
    /// What its times are on, unless they are the trace's.
    pub(crate) clock: Option<ClockNumber>,
}

/// The lanes of sequences, of those whose numbers share a place the last.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: [Option<Lane>; LANES],
    /// Some may be open.
    are_any: bool,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { lanes: [None; LANES], are_any: false }
    }
}

impl Lanes {
    #[inline]
    pub(crate) fn get(&self, sequence_id: u32) -> Option<Lane> {
        self.lanes[sequence_id as usize % LANES].filter(|lane| lane.sequence_id == sequence_id)
    }

    pub(crate) fn enter(&mut self, lane: Lane) {
        self.are_any = true;
        self.lanes[lane.sequence_id as usize % LANES] = Some(lane);
    }

    /// Closes what an unusual packet may be about.
    #[inline]
    pub(crate) fn leave(&mut self, head: &Head<'_>) {
        if !self.are_any {
            return;
        }
        match head.data {
            // What they say is of their own sequence, or of no lane.
            Some((field::TRACK_EVENT | field::TRACK_DESCRIPTOR | field::FTRACE_EVENTS, _)) => {
                self.lanes[head.sequence_id as usize % LANES] = None;
            }
            _ => self.clear(),
        }
    }

    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.are_any) {
            self.lanes = [None; LANES];
        }
    }
}

/// What a packet says that has nothing but an event, and what the service says of whose it is. Made of its bytes alone, so that another thread may
/// make it than the one that takes packets: see [`Import::push_outlined`](crate::Import::push_outlined).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    pub(crate) timestamp: u64,
    pub(crate) sequence_id: u32,
    /// Where its event lies.
    event_at: u16,
    event_len: u16,
    pub(crate) needs_state: bool,
}

const TIMESTAMP_TAG: u8 = (field::TIMESTAMP << 3) as u8;
const SEQUENCE_ID_TAG: u8 = (field::TRUSTED_PACKET_SEQUENCE_ID << 3) as u8;
const SEQUENCE_FLAGS_TAG: u8 = (field::SEQUENCE_FLAGS << 3) as u8;
const TRACK_EVENT_TAG: u8 = (field::TRACK_EVENT << 3 | 2) as u8;
const TRUSTED_UID_TAG: u8 = (field::TRUSTED_UID << 3) as u8;
const TRUSTED_PID_TAG: [u8; 2] = two_bytes(field::TRUSTED_PID << 3);

impl Outline {
    /// That of a packet; nothing if there is more in it, or less.
    #[inline(always)]
    #[must_use]
    pub fn of(packet: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(packet);
        let (mut sequence_id, mut timestamp, mut flags, mut event) = (0, None, 0, None);
        while let Some(tag) = fields.first_byte() {
            match tag {
                TIMESTAMP_TAG => timestamp = Some(fields.take_number()?),
                SEQUENCE_ID_TAG => sequence_id = fields.take_number()? as u32,
                SEQUENCE_FLAGS_TAG => flags |= fields.take_number()? as u32,
                TRACK_EVENT_TAG => {
                    let len = fields.take_message()?.len();
                    event = Some((fields.offset() - len, len));
                }
                // No event depends on them.
                TRUSTED_UID_TAG => _ = fields.take_number()?,
                _ => _ = fields.number_of_two(TRUSTED_PID_TAG)?,
            }
        }
        let (event_at, event_len) = event?;
        if flags & INCREMENTAL_STATE_CLEARED != 0 {
            return None;
        }
        Some(Self {
            timestamp: timestamp?,
            sequence_id,
            event_at: u16::try_from(event_at).ok()?,
            event_len: u16::try_from(event_len).ok()?,
            needs_state: flags & NEEDS_INCREMENTAL_STATE != 0,
        })
    }

    /// `TrackEvent` in the bytes of the packet.
    #[inline]
    pub(crate) fn event<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        packet.get(usize::from(self.event_at)..)?.get(..usize::from(self.event_len))
    }
}
