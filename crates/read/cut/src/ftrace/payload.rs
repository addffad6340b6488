//! What a switch and a waking say (upstream: sched.proto): most events are one of the two, with their fields in the order of their numbers.

use ferretto_protos::fields::ftrace_event;
use ferretto_trace_read::fields::{Fields, Value};

use crate::tag::{message, number};

/// Fields of `SchedSwitchFtraceEvent`.
pub(super) const PREV_COMM: u32 = 1;
pub(super) const PREV_PID: u32 = 2;
pub(super) const PREV_PRIO: u32 = 3;
pub(super) const PREV_STATE: u32 = 4;
pub(super) const NEXT_COMM: u32 = 5;
pub(super) const NEXT_PID: u32 = 6;
pub(super) const NEXT_PRIO: u32 = 7;
/// Fields of `SchedWakingFtraceEvent`.
pub(super) const COMM: u32 = 1;
pub(super) const PID: u32 = 2;
pub(super) const PRIO: u32 = 3;
pub(super) const SUCCESS: u32 = 4;
pub(super) const TARGET_CPU: u32 = 5;

/// A switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Switch<'a> {
    pub(super) prev_comm: &'a [u8],
    pub(super) prev_pid: i32,
    pub(super) prev_prio: i32,
    pub(super) prev_state: i64,
    pub(super) next_comm: &'a [u8],
    pub(super) next_pid: i32,
    pub(super) next_prio: i32,
}

/// A waking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waking<'a> {
    pub(super) comm: &'a [u8],
    pub(super) pid: i32,
    pub(super) prio: i32,
    pub(super) target_cpu: i32,
}

impl<'a> Switch<'a> {
    #[inline]
    pub(super) fn of(payload: &'a [u8]) -> Self {
        Self::usual(payload).unwrap_or_else(|| Self::unusual(payload))
    }

    #[inline(always)]
    fn usual(payload: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::new(payload);
        let switch = Self {
            prev_comm: fields.message_of(message(PREV_COMM))?,
            prev_pid: fields.number_of(number(PREV_PID))? as i32,
            prev_prio: fields.number_of(number(PREV_PRIO))? as i32,
            prev_state: fields.number_of(number(PREV_STATE))? as i64,
            next_comm: fields.message_of(message(NEXT_COMM))?,
            next_pid: fields.number_of(number(NEXT_PID))? as i32,
            next_prio: fields.number_of(number(NEXT_PRIO))? as i32,
        };
        fields.first_byte().is_none().then_some(switch)
    }

    #[cold]
    fn unusual(payload: &'a [u8]) -> Self {
        let mut switch = Self::default();
        for part in Fields::new(payload).whole() {
            match (part.number, part.value) {
                (PREV_COMM, Value::Bytes(comm)) => switch.prev_comm = comm,
                (NEXT_COMM, Value::Bytes(comm)) => switch.next_comm = comm,
                (number, value) => {
                    let Some(value) = value.as_u64() else { continue };
                    match number {
                        PREV_PID => switch.prev_pid = value as i32,
                        PREV_PRIO => switch.prev_prio = value as i32,
                        PREV_STATE => switch.prev_state = value as i64,
                        NEXT_PID => switch.next_pid = value as i32,
                        NEXT_PRIO => switch.next_prio = value as i32,
                        _ => {}
                    }
                }
            }
        }
        switch
    }
}

impl<'a> Waking<'a> {
    #[inline]
    pub(super) fn of(payload: &'a [u8]) -> Self {
        Self::usual(payload).unwrap_or_else(|| Self::unusual(payload))
    }

    #[inline(always)]
    fn usual(payload: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::new(payload);
        let comm = fields.message_of(message(COMM))?;
        let pid = fields.number_of(number(PID))? as i32;
        let prio = fields.number_of(number(PRIO))? as i32;
        // Newer kernels do not say it.
        fields.number_of(number(SUCCESS));
        let target_cpu = fields.number_of(number(TARGET_CPU))? as i32;
        fields.first_byte().is_none().then_some(Self { comm, pid, prio, target_cpu })
    }

    #[cold]
    fn unusual(payload: &'a [u8]) -> Self {
        let mut waking = Self::default();
        for part in Fields::new(payload).whole() {
            match (part.number, part.value, part.value.as_u64()) {
                (COMM, Value::Bytes(comm), _) => waking.comm = comm,
                (PID, _, Some(pid)) => waking.pid = pid as i32,
                (PRIO, _, Some(prio)) => waking.prio = prio as i32,
                (TARGET_CPU, _, Some(cpu)) => waking.target_cpu = cpu as i32,
                _ => {}
            }
        }
        waking
    }
}

/// What an event says of how the kernel was interrupted.
#[inline]
pub(super) fn common_flags(event: &[u8]) -> Option<u32> {
    let mut fields = Fields::new(event);
    fields.number_of(number(ftrace_event::TIMESTAMP));
    fields.number_of(number(ftrace_event::PID));
    let flags = fields.whole().filter(|part| part.number == ftrace_event::COMMON_FLAGS).last()?;
    flags.value.as_u64().map(|flags| flags as u32)
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fields_in_order_are_read_as_those_in_any_order(
            fields in proptest::collection::btree_map(1u32..9, any::<u64>(), 0..9),
            more in proptest::collection::vec((1u32..9, any::<u64>()), 0..2),
        ) {
            let mut payload = Vec::new();
            let mut written = Message::new(&mut payload);
            for (field, value) in fields.into_iter().chain(more) {
                match field {
                    PREV_COMM | NEXT_COMM if value % 8 != 0 => written.bytes(field, &value.to_le_bytes()),
                    _ => written.varint(field, value),
                }
            }
            drop(written);
            for end in 0..=payload.len() {
                let part = &payload[..end];
                prop_assert_eq!(Switch::of(part), Switch::unusual(part));
                prop_assert_eq!(Waking::of(part), Waking::unusual(part));
            }
        }
    }
}
