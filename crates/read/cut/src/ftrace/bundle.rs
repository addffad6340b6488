//! Takes a bundle apart (upstream: ftrace_event_bundle.proto, ftrace_tokenizer.cc).

use ferretto_protos::fields::ftrace_event as event_field;
use ferretto_protos::fields::ftrace_event_bundle as field;
use ferretto_trace_read::fields::{Fields, Value};

use crate::ftrace::compact::{Compact, CompactSwitch, CompactWaking};
use crate::tag;
use crate::walk::{Seen, Walk};

/// `FTRACE_CLOCK_MONO_RAW`, `FTRACE_CLOCK_GLOBAL`, `FTRACE_CLOCK_LOCAL` of `FtraceClock` (upstream: ftrace_event_bundle.proto).
const CLOCK_GLOBAL: u64 = 2;
const CLOCK_LOCAL: u64 = 3;
const CLOCK_MONO_RAW: u64 = 4;
/// `MONOTONIC_RAW` and `BOOTTIME` of builtin_clock.proto.
const MONOTONIC_RAW: u32 = 5;
const BOOTTIME: u32 = 6;
/// The sequence's own clock that stands for the kernel's (upstream: ftrace_tokenizer.cc).
const KERNELS_OWN: u32 = 64;
/// CPUs (upstream: ftrace_tokenizer.cc).
const MAX_CPUS: u64 = 4096;
/// Tags of what most of a bundle is.
const EVENT: u8 = tag::message(field::EVENT);
const TIMESTAMP: u8 = tag::number(event_field::TIMESTAMP);
const PID: u8 = tag::number(event_field::PID);

/// The fields of a bundle that are not events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bundle<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) cpu: u32,
    /// The clock of its events, as packets number clocks.
    pub(crate) clock_id: u32,
    /// As it is written.
    pub(crate) ftrace_clock: u64,
    ftrace_timestamp: Option<i64>,
    boot_timestamp: Option<i64>,
    pub(crate) previous_end: Option<i64>,
    pub(crate) compact: Option<&'a [u8]>,
    /// Events before it were lost.
    pub(crate) has_lost: bool,
    /// It says more than events: losses, errors, descriptors.
    pub(crate) says_more: bool,
}

/// A moment, on the trace's clock and as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct When {
    pub(crate) ts: i64,
    pub(crate) raw: u64,
}

impl When {
    /// On the trace's clock.
    #[inline]
    pub(crate) fn as_written(raw: u64) -> Self {
        Self { ts: i64::try_from(raw).unwrap_or(i64::MAX), raw }
    }
}

/// A bundle with all that is in it.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) bundle: Bundle<'a>,
    /// Of the compact form.
    pub(crate) names: Vec<&'a [u8]>,
    pub(crate) switches: Vec<CompactSwitch>,
    pub(crate) wakings: Vec<CompactWaking>,
    pub(crate) events: Vec<Event<'a>>,
    /// Some of its events cannot be read.
    pub(crate) has_unreadable: bool,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Self> {
        let (mut events, mut has_unreadable) = (Vec::new(), false);
        let bundle = Bundle::read(bytes, |event| match Event::of(event) {
            Some(event) => events.push(event),
            None => has_unreadable = true,
        })?;
        let compact = bundle.compact.map(Compact::of).unwrap_or_default();
        let (switches, wakings) = (compact.switches(), compact.wakings());
        Some(Self { bundle, names: compact.names, switches, wakings, events, has_unreadable })
    }
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) raw_ts: u64,
    pub(crate) pid: i32,
    /// The field number of what it is, and that message.
    pub(crate) kind: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Bundle<'a> {
    /// Reads all but the events. Without a CPU, or with a clock that nobody knows, it counts nowhere.
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Self> {
        Self::read(bytes, |_| {})
    }

    fn read(bytes: &'a [u8], mut each_event: impl FnMut(&'a [u8])) -> Option<Self> {
        let mut bundle = Self { bytes, clock_id: BOOTTIME, ..Self::default() };
        let mut cpu = None;
        let mut fields = Fields::new(bytes);
        loop {
            while let Some(event) = fields.message_of(EVENT) {
                each_event(event);
            }
            let Some(part) = fields.next() else { break };
            let part = part.ok()?;
            match (part.number, part.value) {
                (field::EVENT, Value::Bytes(event)) => each_event(event),
                (field::EVENT, _) => {}
                (field::CPU, value) => cpu = value.as_u64(),
                (field::COMPACT_SCHED, Value::Bytes(compact)) => bundle.compact = Some(compact),
                (field::FTRACE_CLOCK, value) => bundle.ftrace_clock = value.as_u64()?,
                (field::FTRACE_TIMESTAMP, value) => {
                    bundle.ftrace_timestamp = value.as_u64().map(|ts| ts as i64)
                }
                (field::BOOT_TIMESTAMP, value) => bundle.boot_timestamp = value.as_u64().map(|ts| ts as i64),
                (field::LAST_READ_EVENT_TIMESTAMP | field::PREVIOUS_BUNDLE_END_TIMESTAMP, value) => {
                    bundle.previous_end = value.as_u64().map(|ts| ts as i64);
                }
                (field::LOST_EVENTS, value) => {
                    bundle.has_lost |= value.as_u64() != Some(0);
                    bundle.says_more |= bundle.has_lost;
                }
                _ => bundle.says_more = true,
            }
        }
        bundle.cpu = cpu.filter(|cpu| *cpu < MAX_CPUS)? as u32;
        bundle.clock_id = match bundle.ftrace_clock {
            0 => BOOTTIME,
            CLOCK_MONO_RAW => MONOTONIC_RAW,
            CLOCK_GLOBAL | CLOCK_LOCAL => KERNELS_OWN,
            _ => return None,
        };
        Some(bundle)
    }

    /// What its clock and the boot's showed when it was read.
    pub(crate) fn pair(&self) -> Option<[(u32, i64); 2]> {
        if self.clock_id == BOOTTIME {
            return None;
        }
        Some([(self.clock_id, self.ftrace_timestamp?), (BOOTTIME, self.boot_timestamp?)])
    }

    /// The times of its events are the trace's as they are.
    pub(crate) fn is_on_trace_clock(&self, walk: &mut Walk, seen: &Seen<'_>) -> bool {
        walk.is_trace_clock(self.clock_id, seen)
    }

    /// The time of an event of it.
    #[inline]
    pub(crate) fn when(&self, walk: &mut Walk, seen: &Seen<'_>, raw: u64) -> Option<When> {
        let value = When::as_written(raw).ts;
        let ts = walk.trace_time(self.clock_id, seen.head.sequence_id, seen.head.machine_id, value)?;
        Some(When { ts, raw })
    }
}

impl<'a> Event<'a> {
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Self> {
        Self::usual(bytes).or_else(|| Self::unusual(bytes))
    }

    /// In the order that the kernel's events are written in.
    #[inline(always)]
    fn usual(bytes: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        let raw_ts = fields.number_of(TIMESTAMP)?;
        let pid = fields.number_of(PID)? as i32;
        let part = fields.next()?.ok()?;
        let kind = part.number;
        part.value.as_bytes().map(|payload| Self { bytes, raw_ts, pid, kind, payload })
    }

    fn unusual(bytes: &'a [u8]) -> Option<Self> {
        let mut event = Event { bytes, raw_ts: 0, pid: 0, kind: 0, payload: &[] };
        let mut has_time = false;
        for part in Fields::new(bytes).whole() {
            match (part.number, part.value) {
                (event_field::TIMESTAMP, value) => {
                    event.raw_ts = value.as_u64()?;
                    has_time = true;
                }
                (event_field::PID, value) => event.pid = value.as_u64()? as i32,
                (number, Value::Bytes(payload)) => {
                    (event.kind, event.payload) = (number, payload);
                    if has_time {
                        break;
                    }
                }
                _ => {}
            }
        }
        (has_time && event.kind != 0).then_some(event)
    }

    /// A number of its payload.
    pub(crate) fn number(&self, field: u32) -> Option<u64> {
        Fields::new(self.payload)
            .whole()
            .find(|part| part.number == field)
            .and_then(|part| part.value.as_u64())
    }
}
