//! An event that says what most events say, and no more, in one pass over its bytes.
//!
//! Whatever is not as usual is left to [`super::arrive`], which reads any event, and both agree on what is read here: an event that names itself by
//! a number which its writer has used lately, with arguments that do so, too.

use ferretto_protos::fields::track_event as field;
use ferretto_trace_read::fields::Fields;
use ferretto_trace_tables::MachineId;

use super::annotation::usual_arg;
use super::descriptor::DEFAULT_UUID;
use super::fields::{CATEGORY_IIDS_TAG, NAME_IID_TAG, TRACK_UUID_TAG, TYPE_TAG, event_type};
use super::{Kind, Said, TrackEvent, WriterId};
use crate::args::Arg;
use crate::model::Model;
use crate::sequence::Sequence;
use crate::stats::Stat;

const DEBUG_ANNOTATIONS_TAG: u8 = (field::DEBUG_ANNOTATIONS << 3 | 2) as u8;
const COUNTER_VALUE_TAG: [u8; 2] = two_bytes(field::COUNTER_VALUE << 3);
const DOUBLE_COUNTER_VALUE_TAG: [u8; 2] = two_bytes(field::DOUBLE_COUNTER_VALUE << 3 | 1);

/// A tag as a varint.
pub(crate) const fn two_bytes(tag: u32) -> [u8; 2] {
    assert!(tag >= 0x80 && tag < 0x4000, "it has two bytes");
    [(tag & 0x7f | 0x80) as u8, (tag >> 7) as u8]
}

/// A usual event, as far as it can be told without its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsualEvent {
    uuid: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Slice(Kind),
    /// What a counter says. What that means depends on those before it.
    Counter(f64),
}

impl Model {
    /// Reads `TracePacket.track_event`, of a writer with these defaults; nothing if it is not a usual one. Nothing has changed then.
    #[inline(always)]
    pub(crate) fn read_usual_event(
        &mut self,
        message: &[u8],
        writer: WriterId,
        default_uuid: u64,
    ) -> Option<UsualEvent> {
        let (mut kind, mut uuid, mut name_iid, mut category_iid) = (0, default_uuid, 0, None);
        let (mut counter, mut real_counter) = (None, None);
        let mut fields = Fields::new(message);
        let args = self.said.begin_usual();
        while let Some(tag) = fields.first_byte() {
            match tag {
                TYPE_TAG => kind = fields.take_number()?,
                NAME_IID_TAG => name_iid = fields.take_number()?,
                TRACK_UUID_TAG => uuid = fields.take_number()?,
                CATEGORY_IIDS_TAG if category_iid.is_none() => category_iid = Some(fields.take_number()?),
                DEBUG_ANNOTATIONS_TAG => {
                    let annotation = fields.take_message()?;
                    let (key, value) = usual_arg(annotation, writer, args.keys, &mut self.tables.strings)?;
                    args.args.push(Arg { flat_key: key, key, value });
                }
                _ => match fields.number_of_two(COUNTER_VALUE_TAG) {
                    Some(value) => counter = Some(value),
                    None => real_counter = Some(fields.fixed64_of_two(DOUBLE_COUNTER_VALUE_TAG)?),
                },
            }
        }
        if uuid == DEFAULT_UUID {
            return None;
        }
        if kind == event_type::COUNTER {
            let value = counter.map(|value| value as i64 as f64).or(real_counter.map(f64::from_bits))?;
            return args.args.is_empty().then_some(UsualEvent { uuid, what: What::Counter(value) });
        }
        let label = self.labels.recent(writer.0, category_iid.unwrap_or(0), name_iid)?;
        let said = Said { label, args: self.args.intern(args.args) };
        let kind = match kind {
            event_type::SLICE_BEGIN => Kind::Begin(said),
            event_type::SLICE_END => Kind::End(said),
            event_type::INSTANT => Kind::Instant(said),
            _ => return None,
        };
        Some(UsualEvent { uuid, what: What::Slice(kind) })
    }

    /// The event of the time `ts`; nothing, and a count of why, if it is left out.
    #[inline(always)]
    pub(crate) fn usual_event(
        &mut self,
        ts: i64,
        event: UsualEvent,
        writer: WriterId,
        sequence: &mut Sequence,
    ) -> Option<TrackEvent> {
        if ts < 0 {
            self.stats.count(Stat::TrackEventInvalidTimestamp);
            return None;
        }
        let track = self.descriptors.slot(MachineId(0), event.uuid);
        let kind = match event.what {
            What::Slice(kind) => kind,
            What::Counter(value) => match self.absolute(track, event.uuid, value, sequence) {
                Some(value) => Kind::Counter(value),
                None => {
                    self.stats.count(Stat::TrackEventCounterInvalidTrackUuid);
                    return None;
                }
            },
        };
        Some(TrackEvent::new(track, writer, kind))
    }
}
