//! What most packets of programs are: the begin or the end of a slice, with arguments or without, and nothing new in them.
//!
//! Such a packet is told apart by its tags alone, and read in one go. All others, and those that the state of their sequence makes special,
//! are read field by field, to the same end ([`crate::walk::Walk::take`], [`crate::index::Index::take`]).

use ferretto_protos::fields::{trace_packet, track_event};
use ferretto_trace_read::fields::Fields;
use ferretto_trace_read::head::NEEDS_INCREMENTAL_STATE;

use crate::event::{SLICE_BEGIN, SLICE_END, name_of_iid};
use crate::tag::{message, number};

const TIMESTAMP: u8 = number(trace_packet::TIMESTAMP);
const SEQUENCE_ID: u8 = number(trace_packet::TRUSTED_PACKET_SEQUENCE_ID);
const FLAGS: u8 = number(trace_packet::SEQUENCE_FLAGS);
const TRUSTED_UID: u8 = number(trace_packet::TRUSTED_UID);
const EVENT: u8 = message(trace_packet::TRACK_EVENT);
const TRUSTED_PID: [u8; 2] =
    [0x80 | (trace_packet::TRUSTED_PID << 3) as u8, (trace_packet::TRUSTED_PID >> 4) as u8];
const TYPE: u8 = number(track_event::TYPE);
const NAME_IID: u8 = number(track_event::NAME_IID);
const TRACK_UUID: u8 = number(track_event::TRACK_UUID);
const CATEGORY_IID: u8 = number(track_event::CATEGORY_IIDS);
const ARGUMENT: u8 = message(track_event::DEBUG_ANNOTATIONS);

/// The begin or the end of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceEvent {
    pub(crate) timestamp: i64,
    pub(crate) sequence_id: u32,
    pub(crate) trusted_pid: Option<i32>,
    pub(crate) is_begin: bool,
    pub(crate) track_uuid: Option<u64>,
    /// As of [`crate::event::TrackEvent::name`].
    pub(crate) name: u64,
}

/// When it was, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) ts: i64,
    pub(crate) ordinal: u64,
    pub(crate) sequence: usize,
    pub(crate) generation: u64,
    /// The track of events that name none.
    pub(crate) track_uuid: Option<u64>,
}

impl SliceEvent {
    /// A packet that is one, and relies on what is interned.
    #[inline(always)]
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(packet);
        // First in the order that programs and services write them in, which needs no search; then whatever there is.
        let timestamp = fields.number_of(TIMESTAMP);
        let mut flags = fields.number_of(FLAGS).unwrap_or(0);
        let event = fields.message_of(EVENT);
        let mut timestamp = fields.number_of(TIMESTAMP).or(timestamp);
        fields.number_of(TRUSTED_UID);
        let mut sequence_id = fields.number_of(SEQUENCE_ID).unwrap_or(0);
        let mut trusted_pid = fields.number_of_two(TRUSTED_PID).map(|pid| pid as i32);
        let mut event = fields.message_of(EVENT).or(event);
        while let Some(tag) = fields.first_byte() {
            match tag {
                TIMESTAMP => timestamp = Some(fields.take_number()?),
                SEQUENCE_ID => sequence_id = fields.take_number()?,
                FLAGS => flags |= fields.take_number()?,
                TRUSTED_UID => {
                    fields.take_number()?;
                }
                EVENT => event = Some(fields.take_message()?),
                _ => trusted_pid = Some(fields.number_of_two(TRUSTED_PID)? as i32),
            }
        }
        if flags != u64::from(NEEDS_INCREMENTAL_STATE) {
            return None;
        }
        let (timestamp, sequence_id) = (i64::try_from(timestamp?).ok()?, sequence_id as u32);
        let slice = Self { timestamp, sequence_id, trusted_pid, is_begin: false, track_uuid: None, name: 0 };
        slice.with_event(event?)
    }

    #[inline(always)]
    fn with_event(mut self, event: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(event);
        let mut kind = fields.number_of(TYPE).unwrap_or(0);
        fields.number_of(CATEGORY_IID);
        self.name = fields.number_of(NAME_IID).map_or(0, name_of_iid);
        while let Some(tag) = fields.first_byte() {
            match tag {
                TYPE => kind = fields.take_number()?,
                NAME_IID => self.name = name_of_iid(fields.take_number()?),
                TRACK_UUID => self.track_uuid = Some(fields.take_number()?),
                CATEGORY_IID => {
                    fields.take_number()?;
                }
                ARGUMENT => {
                    fields.take_message()?;
                }
                _ => return None,
            }
        }
        self.is_begin = kind == SLICE_BEGIN;
        (self.is_begin || kind == SLICE_END).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;

    use super::*;
    use crate::event::TrackEvent;

    fn packet(fill: impl FnOnce(&mut Message<'_, Vec<u8>>), event: &[(u32, u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut packet = Message::new(&mut bytes);
        packet.varint(trace_packet::TIMESTAMP, 300);
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 7);
        packet.varint(trace_packet::TRUSTED_UID, 1000);
        packet.varint(trace_packet::TRUSTED_PID, 4000);
        let mut message = packet.nested(trace_packet::TRACK_EVENT);
        event.iter().for_each(|(field, value)| message.varint(*field, *value));
        drop(message);
        fill(&mut packet);
        drop(packet);
        bytes
    }

    fn flags(value: u64) -> impl FnOnce(&mut Message<'_, Vec<u8>>) {
        move |packet| packet.varint(trace_packet::SEQUENCE_FLAGS, value)
    }

    #[test]
    fn it_says_what_the_thorough_reader_says() {
        for kind in [SLICE_BEGIN, SLICE_END] {
            let event = [
                (track_event::TYPE, kind),
                (track_event::CATEGORY_IIDS, 1),
                (track_event::NAME_IID, 500),
                (track_event::TRACK_UUID, u64::MAX),
            ];
            let bytes = packet(flags(2), &event);
            let slice = SliceEvent::of(&bytes).expect("it is one");
            let head = ferretto_trace_read::Head::of(&bytes).unwrap();
            let thorough = TrackEvent::of(head.data.unwrap().1);
            assert_eq!((slice.timestamp, slice.sequence_id, slice.trusted_pid), (300, 7, head.trusted_pid));
            assert_eq!((slice.track_uuid, slice.name), (thorough.track_uuid, thorough.name()));
            assert_eq!(slice.is_begin, thorough.kind == SLICE_BEGIN);
        }
    }

    #[test]
    fn what_is_more_than_a_slice_is_left_to_others() {
        let begin = (track_event::TYPE, SLICE_BEGIN);
        assert!(SliceEvent::of(&packet(flags(2), &[begin])).is_some());
        assert!(SliceEvent::of(&packet(flags(3), &[begin])).is_none());
        assert!(SliceEvent::of(&packet(flags(0), &[begin])).is_none());
        for field in
            [track_event::FLOW_IDS_OLD, track_event::COUNTER_VALUE, track_event::EXTRA_COUNTER_VALUES]
        {
            assert!(SliceEvent::of(&packet(flags(2), &[begin, (field, 1)])).is_none(), "{field}");
        }
        assert!(SliceEvent::of(&packet(flags(2), &[(track_event::TYPE, 3)])).is_none());
        for field in [
            trace_packet::MACHINE_ID,
            trace_packet::TIMESTAMP_CLOCK_ID,
            trace_packet::PREVIOUS_PACKET_DROPPED,
        ] {
            let with = |packet: &mut Message<'_, Vec<u8>>| {
                packet.varint(trace_packet::SEQUENCE_FLAGS, 2);
                packet.varint(field, 1);
            };
            assert!(SliceEvent::of(&packet(with, &[begin])).is_none(), "{field}");
        }
    }
}
