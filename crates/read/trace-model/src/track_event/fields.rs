//! The fields of a `TrackEvent`, as they were written.

use ferretto_protos::fields::track_event::legacy_event;
use ferretto_protos::fields::{track_event as field, track_event_defaults};
use ferretto_trace_read::fields::{Fields, Value};

/// `TrackEvent.Type`.
pub(super) mod event_type {
    pub(in super::super) const SLICE_BEGIN: u64 = 1;
    pub(in super::super) const SLICE_END: u64 = 2;
    pub(in super::super) const INSTANT: u64 = 3;
    pub(in super::super) const COUNTER: u64 = 4;
    pub(in super::super) const STATE: u64 = 5;
}

pub(super) const TYPE_TAG: u8 = (field::TYPE << 3) as u8;
pub(super) const NAME_IID_TAG: u8 = (field::NAME_IID << 3) as u8;
pub(super) const TRACK_UUID_TAG: u8 = (field::TRACK_UUID << 3) as u8;
pub(super) const CATEGORY_IIDS_TAG: u8 = (field::CATEGORY_IIDS << 3) as u8;

/// What of an event is not repeated, and what of the rest is there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventFields<'a> {
    pub message: &'a [u8],
    pub kind: Option<u64>,
    pub track_uuid: Option<u64>,
    pub name_iid: u64,
    pub name: Option<&'a [u8]>,
    pub categories: Categories<'a>,
    pub counter_value: Option<i64>,
    pub double_counter_value: Option<f64>,
    pub has_annotations: bool,
    /// It has other fields that become arguments, or may.
    pub has_typed: bool,
    /// It has fields that are read in its turn.
    pub is_rare: bool,
    pub legacy: Option<&'a [u8]>,
    pub timestamp: Option<OldTime>,
    pub thread_time: Option<OldTime>,
    pub instructions: Option<OldTime>,
    pub has_extra_counters: bool,
}

/// The first category, and how many there are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Categories<'a> {
    pub count: u32,
    pub iid: Option<u64>,
    pub text: Option<&'a [u8]>,
}

impl Categories<'_> {
    #[inline]
    fn take_iid(&mut self, iid: u64) {
        self.count += 1;
        self.iid.get_or_insert(iid);
    }
}

/// A time or a number of instructions.
#[derive(Clone, Copy, Debug)]
pub(super) enum OldTime {
    /// So much after the last one.
    Delta(i64),
    Absolute(i64),
}

impl<'a> EventFields<'a> {
    #[inline]
    pub(super) fn read(message: &'a [u8]) -> Self {
        let mut it = Self::default();
        it.fill(message);
        it
    }

    /// Reads them into fields of which nothing is known, where they stay.
    #[inline]
    pub(super) fn fill(&mut self, message: &'a [u8]) {
        let it = self;
        it.message = message;
        let mut fields = Fields::new(message);
        while let Some(tag) = fields.first_byte() {
            if it.take_usual(tag, &mut fields) {
                continue;
            }
            let Some(Ok(part)) = fields.next() else { break };
            match (part.number, part.value) {
                (field::TYPE, Value::Varint(kind)) => it.kind = Some(kind),
                (field::TRACK_UUID, Value::Varint(uuid)) => it.track_uuid = Some(uuid),
                (field::NAME_IID, Value::Varint(iid)) => it.name_iid = iid,
                (field::CATEGORY_IIDS, Value::Varint(iid)) => it.categories.take_iid(iid),
                (field::NAME, Value::Bytes(name)) => it.name = Some(name),
                (field::CATEGORIES, Value::Bytes(name)) => {
                    it.categories.count += 1;
                    it.categories.text.get_or_insert(name);
                }
                (field::COUNTER_VALUE, Value::Varint(value)) => it.counter_value = Some(value as i64),
                (field::DEBUG_ANNOTATIONS, _) => it.has_annotations = true,
                (number, value) => it.read_rarer(number, value),
            }
        }
    }

    /// Takes the next field if it is one that most events have: its tag alone says which it is.
    #[inline(always)]
    fn take_usual(&mut self, tag: u8, fields: &mut Fields<'a>) -> bool {
        match tag {
            TYPE_TAG => fields.take_number().map(|kind| self.kind = Some(kind)).is_some(),
            NAME_IID_TAG => fields.take_number().map(|iid| self.name_iid = iid).is_some(),
            TRACK_UUID_TAG => fields.take_number().map(|uuid| self.track_uuid = Some(uuid)).is_some(),
            CATEGORY_IIDS_TAG => {
                let iid = fields.take_number();
                iid.map(|iid| self.categories.take_iid(iid)).is_some()
            }
            _ => false,
        }
    }

    fn read_rarer(&mut self, number: u32, value: Value<'a>) {
        let int = value.as_u64().unwrap_or(0);
        let (delta, absolute) = (OldTime::Delta(int as i64), OldTime::Absolute(int as i64));
        match number {
            field::DOUBLE_COUNTER_VALUE => self.double_counter_value = Some(f64::from_bits(int)),
            field::LEGACY_EVENT => {
                self.legacy = value.as_bytes();
                self.is_rare = true;
            }
            // A difference wins.
            field::TIMESTAMP_DELTA_US => self.timestamp = Some(delta),
            field::TIMESTAMP_ABSOLUTE_US if int != 0 => _ = self.timestamp.get_or_insert(absolute),
            field::THREAD_TIME_DELTA_US => self.thread_time = Some(delta),
            field::THREAD_TIME_ABSOLUTE_US => _ = self.thread_time.get_or_insert(absolute),
            field::THREAD_INSTRUCTION_COUNT_DELTA => self.instructions = Some(delta),
            field::THREAD_INSTRUCTION_COUNT_ABSOLUTE => _ = self.instructions.get_or_insert(absolute),
            field::FLOW_IDS
            | field::FLOW_IDS_OLD
            | field::TERMINATING_FLOW_IDS
            | field::TERMINATING_FLOW_IDS_OLD
            | field::CALLSTACK
            | field::CALLSTACK_IID
            | field::CALLSTACK_WEIGHT => self.is_rare = true,
            field::EXTRA_COUNTER_VALUES | field::EXTRA_DOUBLE_COUNTER_VALUES => {
                self.has_extra_counters = true;
                self.is_rare = true;
            }
            field::SOURCE_LOCATION_IID
            | field::CORRELATION_ID
            | field::CORRELATION_ID_STR
            | field::CORRELATION_ID_STR_IID => self.has_typed = true,
            field::EXTRA_COUNTER_TRACK_UUIDS
            | field::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS
            | field::TIMESTAMP_ABSOLUTE_US => {}
            _ => {
                self.has_typed = true;
                self.is_rare = true;
            }
        }
    }
}

/// The fields of a `TrackEvent.LegacyEvent`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LegacyFields<'a> {
    pub name_iid: u64,
    pub phase: Option<i32>,
    pub duration_us: Option<i64>,
    pub thread_duration_us: Option<i64>,
    pub thread_instruction_delta: Option<i64>,
    pub id: Option<LegacyId>,
    pub id_scope: Option<&'a [u8]>,
    pub use_async_tts: bool,
    pub bind_id: Option<u64>,
    pub bind_to_enclosing: bool,
    pub flow_direction: Option<u64>,
    pub instant_scope: u64,
    pub pid_override: Option<i32>,
    pub tid_override: Option<i32>,
}

/// The number of something that was begun in one place and ended in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LegacyId {
    Unscoped(u64),
    Local(u64),
    Global(u64),
}

impl<'a> LegacyFields<'a> {
    pub(super) fn read(message: &'a [u8]) -> Self {
        let mut it = Self::default();
        for part in Fields::new(message).whole() {
            let int = part.value.as_u64().unwrap_or(0);
            match part.number {
                legacy_event::NAME_IID => it.name_iid = int,
                legacy_event::PHASE => it.phase = Some(int as i32),
                legacy_event::DURATION_US => it.duration_us = Some(int as i64),
                legacy_event::THREAD_DURATION_US => it.thread_duration_us = Some(int as i64),
                legacy_event::THREAD_INSTRUCTION_DELTA => it.thread_instruction_delta = Some(int as i64),
                legacy_event::UNSCOPED_ID => it.id = Some(LegacyId::Unscoped(int)),
                legacy_event::LOCAL_ID => it.id = Some(LegacyId::Local(int)),
                legacy_event::GLOBAL_ID => it.id = Some(LegacyId::Global(int)),
                legacy_event::ID_SCOPE => it.id_scope = part.value.as_bytes(),
                legacy_event::USE_ASYNC_TTS => it.use_async_tts = int != 0,
                legacy_event::BIND_ID => it.bind_id = Some(int),
                legacy_event::BIND_TO_ENCLOSING => it.bind_to_enclosing = int != 0,
                legacy_event::FLOW_DIRECTION => it.flow_direction = Some(int),
                legacy_event::INSTANT_EVENT_SCOPE => it.instant_scope = int,
                legacy_event::PID_OVERRIDE => it.pid_override = Some(int as i32),
                legacy_event::TID_OVERRIDE => it.tid_override = Some(int as i32),
                _ => {}
            }
        }
        it
    }
}

/// The values of a repeated field.
pub(super) fn repeated(message: &[u8], number: u32) -> impl Iterator<Item = Value<'_>> {
    let fields = Fields::new(message).whole();
    fields.filter(move |part| part.number == number).map(|part| part.value)
}

/// The numbers of a repeated field.
pub(super) fn numbers(message: &[u8], number: u32) -> impl Iterator<Item = u64> {
    repeated(message, number).filter_map(|value| value.as_u64())
}

/// The uuids of extra counters, of whole numbers or of others: those of the event, or else of the defaults.
pub(super) fn extra_uuids(event: &[u8], defaults: &[u8], is_double: bool) -> Vec<u64> {
    let (own, default) = match is_double {
        false => (field::EXTRA_COUNTER_TRACK_UUIDS, track_event_defaults::EXTRA_COUNTER_TRACK_UUIDS),
        true => {
            (field::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS, track_event_defaults::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS)
        }
    };
    let own: Vec<u64> = numbers(event, own).collect();
    if own.is_empty() { numbers(defaults, default).collect() } else { own }
}
