//! The quick way for events of some numbers and a short name, which are nearly all events: a row of stores whose end stays in a
//! register. Whatever does not fit goes the way of `encode`, which gives the same bytes for these, too.

use ferretto_protos::fields::{ftrace_event, ftrace_event_bundle};

use super::encode::{last_word, located, short_string};
use super::page::{Record, read_u32, read_u64};
use super::plan::{EventPlan, FieldPlan, Op, PlanKind};
use super::words::{BYTES, VARINT, Words, tag, word};
use crate::pids::PidSet;

/// Room for one event. Both of its lengths take one byte, so it has at most 130; the rest is for what stores leave behind the end.
const ROOM: usize = 160;
/// The lengths that take one byte.
const MAX_LEN: usize = 127;
/// Fields that are told apart by a tag of one byte.
const MAX_FIELD: u32 = 15;

/// Whether events of this plan may go the quick way: known ones, and those that describe themselves.
pub(crate) fn is_short(kind: &PlanKind, fields: &[FieldPlan]) -> bool {
    let fits = |field: &FieldPlan| {
        let op = matches!(
            field.op,
            Op::U8
                | Op::U16
                | Op::U32
                | Op::U64
                | Op::I8
                | Op::I16
                | Op::I32
                | Op::I64
                | Op::Pid
                | Op::FixedString { len: 16 }
                | Op::Located { is_string: true, .. }
        );
        op && field.number <= MAX_FIELD
    };
    matches!(kind, PlanKind::Known | PlanKind::Generic { .. }) && fields.iter().all(fits)
}

/// Appends an `FtraceEvent` field of the bundle, of an event whose plan [`is_short`]; `None`, and nothing appended, if it must go the other way.
#[inline]
pub(crate) fn encode(
    out: &mut Words,
    record: &Record<'_>,
    plan: &EventPlan,
    pid: Option<i32>,
    pids: &mut PidSet,
) -> Option<()> {
    let mut row = Row { room: out.room::<ROOM>()?, end: 0 };
    row.put(tag(ftrace_event_bundle::EVENT, BYTES), 2)?;
    let event = row.end;
    // On a machine that has run for a week, the time alone fills a store.
    let (time, len) = word(record.timestamp)?;
    row.put(tag(ftrace_event::TIMESTAMP, VARINT), 1)?;
    row.put(time, len)?;
    if let Some(pid) = pid {
        row.number(ftrace_event::PID, i64::from(pid).cast_unsigned())?;
    }
    let (envelope, len) = word(tag(plan.field_id, BYTES))?;
    row.put(envelope, len + 1)?;
    let body = row.end;
    for field in &plan.fields {
        row.field(field, record.payload, pids)?;
    }
    row.set_len(body)?;
    row.set_len(event)?;
    let len = row.end;
    out.advance(len);
    Some(())
}

/// Bytes behind the end of others.
struct Row<'a> {
    room: &'a mut [u8; ROOM],
    end: usize,
}

impl Row<'_> {
    #[inline(always)]
    fn put(&mut self, word: u64, len: usize) -> Option<()> {
        *self.room.get_mut(self.end..)?.first_chunk_mut()? = word.to_le_bytes();
        self.end += len;
        Some(())
    }

    /// A number of up to 49 bits and its tag, in one store.
    #[inline(always)]
    fn number(&mut self, number: u32, value: u64) -> Option<()> {
        let (word, len) = word(value).filter(|&(_, len)| len < 8)?;
        self.put(u64::from(number << 3) | word << 8, 1 + len)
    }

    #[inline(always)]
    fn string(&mut self, number: u32, (word, len): (u128, usize)) -> Option<()> {
        self.put(tag(number, BYTES) | (len as u64) << 8, 2)?;
        *self.room.get_mut(self.end..)?.first_chunk_mut()? = word.to_le_bytes();
        self.end += len;
        Some(())
    }

    #[inline(always)]
    fn field(&mut self, field: &FieldPlan, payload: &[u8], pids: &mut PidSet) -> Option<()> {
        let offset = usize::from(field.offset);
        let signed = |value: i32| i64::from(value).cast_unsigned();
        let value = match field.op {
            Op::U8 => u64::from(*payload.get(offset)?),
            Op::U16 => u64::from(u16::from_le_bytes(*payload.get(offset..)?.first_chunk()?)),
            Op::U32 => u64::from(read_u32(payload, offset)?),
            Op::I8 => signed(payload.get(offset)?.cast_signed().into()),
            Op::I16 => signed(i16::from_le_bytes(*payload.get(offset..)?.first_chunk()?).into()),
            Op::I32 => signed(read_u32(payload, offset)?.cast_signed()),
            Op::U64 | Op::I64 => read_u64(payload, offset)?,
            Op::Pid => {
                let pid = read_u32(payload, offset)?.cast_signed();
                pids.insert(pid);
                signed(pid)
            }
            Op::FixedString { .. } => {
                let word = u128::from_le_bytes(*payload.get(offset..)?.first_chunk()?);
                return self.string(field.number, short_string(word));
            }
            Op::Located { relative, .. } => {
                let place = located(payload.get(offset..)?, offset, relative)?;
                return self.string(field.number, short_string(last_word(payload, &place)?));
            }
            _ => return None,
        };
        self.number(field.number, value)
    }

    /// Fills in the length of what begins at `start`, into the byte before it.
    #[inline(always)]
    fn set_len(&mut self, start: usize) -> Option<()> {
        let len = self.end.checked_sub(start).filter(|&len| len <= MAX_LEN)?;
        *self.room.get_mut(start.checked_sub(1)?)? = len as u8;
        Some(())
    }
}
