//! Who ran on which CPU, from scheduling switches.
//!
//! The rules are Trace Processor's: a switch ends what ran only if it names it, and the first of a CPU in columns, which does not say what
//! ran before, says who comes next and no more (upstream: ftrace_sched_event_tracker.cc). What runs at the end has no end, and does not
//! count.

use ferretto_protos::fields::sched_switch_ftrace_event as field;
use ferretto_trace_read::fields::{Fields, Packed, Value};

use crate::ftrace::Switches;
use crate::people::{Comm, People};

/// The names in the table of a bundle that are looked at. Bundles name each thread once.
const MAX_COMMS: usize = 1 << 16;
/// `CompactSched.intern_table`.
const INTERN_TABLE: u32 = ferretto_protos::fields::ftrace_event_bundle::compact_sched::INTERN_TABLE;

const PREV_COMM_TAG: u8 = (field::PREV_COMM << 3 | 2) as u8;
const PREV_PID_TAG: u8 = (field::PREV_PID << 3) as u8;
const PREV_PRIO_TAG: u8 = (field::PREV_PRIO << 3) as u8;
const PREV_STATE_TAG: u8 = (field::PREV_STATE << 3) as u8;
const NEXT_COMM_TAG: u8 = (field::NEXT_COMM << 3 | 2) as u8;
const NEXT_PID_TAG: u8 = (field::NEXT_PID << 3) as u8;
const NEXT_PRIO_TAG: u8 = (field::NEXT_PRIO << 3) as u8;

/// A CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    running: Option<Running>,
    /// Something of it is known.
    has_switched: bool,
    /// Switches that are not there: the one after them is from another thread than the one before them was to.
    missing: u64,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    tid: i32,
    thread: usize,
    since_ns: i64,
}

/// How times of a bundle become those of the trace, and which of them count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Added to each.
    pub offset_ns: i64,
    /// Those before it do not count: the recording had not begun.
    pub from_ns: i64,
}

/// The first and the last time of what was seen.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first.
    pub begin_ns: i64,
    /// The last.
    pub end_ns: i64,
}

impl Default for Span {
    fn default() -> Self {
        Self { begin_ns: i64::MAX, end_ns: i64::MIN }
    }
}

impl Span {
    /// Something happened.
    #[inline]
    pub fn add(&mut self, time_ns: i64) {
        self.begin_ns = self.begin_ns.min(time_ns);
        self.end_ns = self.end_ns.max(time_ns);
    }
}

impl Times {
    /// A time of the trace, if it counts.
    #[inline]
    #[must_use]
    pub fn of(&self, timestamp: u64) -> Option<i64> {
        let time = i64::try_from(timestamp).unwrap_or(i64::MAX).saturating_add(self.offset_ns);
        (time >= self.from_ns).then_some(time)
    }
}

impl Cpu {
    /// A `sched_switch`.
    pub fn switch(&mut self, people: &mut People, machine: u32, time_ns: i64, event: &[u8]) {
        let (mut prev, mut next, mut comm) = (0, 0, &b""[..]);
        // Nearly all have these fields, in this order.
        let mut fields = Fields::new(event);
        let _ = fields.message_of(PREV_COMM_TAG);
        if let Some(pid) = fields.number_of(PREV_PID_TAG) {
            prev = pid as i32;
        }
        let _ = (fields.number_of(PREV_PRIO_TAG), fields.number_of(PREV_STATE_TAG));
        if let Some(name) = fields.message_of(NEXT_COMM_TAG) {
            comm = name;
        }
        if let Some(pid) = fields.number_of(NEXT_PID_TAG) {
            next = pid as i32;
        }
        let _ = fields.number_of(NEXT_PRIO_TAG);
        for part in fields.whole() {
            match (part.number, part.value) {
                (field::PREV_PID, Value::Varint(pid)) => prev = pid as i32,
                (field::NEXT_PID, Value::Varint(pid)) => next = pid as i32,
                (field::NEXT_COMM, Value::Bytes(name)) => comm = name,
                _ => {}
            }
        }
        match self.running {
            Some(running) if running.tid == prev => self.end(people, time_ns),
            Some(_) => self.missing += 1,
            None => {}
        }
        self.begin(people, machine, time_ns, next);
        if let Some(running) = self.running {
            people.comm(running.thread, Comm::of(comm));
        }
        self.has_switched = true;
    }

    /// Switches in columns.
    pub fn columns(
        &mut self,
        people: &mut People,
        machine: u32,
        times: Times,
        switches: &Switches<'_>,
        span: &mut Span,
    ) {
        let table = Fields::new(switches.message).whole();
        let table = table.filter(|part| part.number == INTERN_TABLE).filter_map(|part| part.value.as_bytes());
        let comms: Vec<Option<Comm>> = table.take(MAX_COMMS).map(Comm::of).collect();
        let mut pids = Packed::new(switches.next_pids);
        let mut names = Packed::new(switches.next_comms);
        let mut timestamp = 0u64;
        let Self { mut running, mut has_switched, mut missing } = *self;
        for difference in Packed::new(switches.timestamps) {
            timestamp = timestamp.wrapping_add(difference);
            let (Some(next), comm) = (pids.next(), names.next()) else { break };
            let Some(time_ns) = times.of(timestamp) else { continue };
            span.add(time_ns);
            if !has_switched {
                has_switched = true;
                continue;
            }
            if let Some(Running { thread, since_ns, .. }) = running {
                people.ran(thread, u64::try_from(time_ns.saturating_sub(since_ns)).unwrap_or(0));
            }
            let tid = next as i32;
            let thread = people.thread(machine, tid);
            // Columns do not say from whom it is, but the kernel switches from nobody to himself. What is older was said twice.
            missing +=
                u64::from(running.is_some_and(|before| before.tid == tid && before.since_ns < time_ns));
            running = Some(Running { tid, thread, since_ns: time_ns });
            let comm = comm.and_then(|index| usize::try_from(index).ok()).and_then(|index| comms.get(index));
            if let Some(comm) = comm {
                people.comm(thread, *comm);
            }
        }
        *self = Self { running, has_switched, missing };
    }

    /// Switches that the trace does not have, at least, as those around them say.
    #[must_use]
    pub fn missing_switches(&self) -> u64 {
        self.missing
    }

    #[inline]
    fn end(&mut self, people: &mut People, time_ns: i64) {
        if let Some(Running { thread, since_ns, .. }) = self.running {
            people.ran(thread, u64::try_from(time_ns.saturating_sub(since_ns)).unwrap_or(0));
        }
    }

    #[inline]
    fn begin(&mut self, people: &mut People, machine: u32, time_ns: i64, tid: i32) {
        // The same thread often comes back after the idle one.
        self.running = Some(Running { tid, thread: people.thread(machine, tid), since_ns: time_ns });
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;

    use super::*;

    fn switch(prev: u64, next: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        message.varint(field::PREV_PID, prev);
        message.bytes(field::NEXT_COMM, b"next");
        message.varint(field::NEXT_PID, next);
        drop(message);
        bytes
    }

    fn ran(people: &People) -> Vec<(i32, u64)> {
        people.threads().iter().skip(1).map(|thread| (thread.tid, thread.ran_ns)).collect()
    }

    #[test]
    fn a_switch_ends_what_it_names() {
        let (mut people, mut cpu) = (People::default(), Cpu::default());
        for (time_ns, prev, next) in [(10, 1, 2), (30, 2, 3), (70, 9, 2), (100, 2, 1)] {
            cpu.switch(&mut people, 0, time_ns, &switch(prev, next));
        }
        assert_eq!(ran(&people), [(2, 50), (3, 0), (1, 0)]);
        assert_eq!(cpu.missing_switches(), 1);
    }

    #[test]
    fn a_switch_in_columns_to_who_runs_already_says_that_one_is_missing() {
        let (mut people, mut cpu) = (People::default(), Cpu::default());
        let switches = Switches {
            timestamps: &[10, 20, 40, 5, 1],
            count: 5,
            next_pids: &[0, 2, 0, 0, 2],
            next_comms: &[0; 5],
            message: b"\x2a\x03two",
            bytes: 0,
        };
        cpu.columns(&mut people, 0, Times::default(), &switches, &mut Span::default());
        assert_eq!(cpu.missing_switches(), 1);
    }

    #[test]
    fn the_first_in_columns_says_who_comes_next_only() {
        let (mut people, mut cpu) = (People::default(), Cpu::default());
        let switches = Switches {
            timestamps: &[10, 20, 40, 5],
            count: 4,
            next_pids: &[2, 3, 2, 1],
            next_comms: &[0, 1, 0, 9],
            message: b"\x2a\x03two\x2a\x05three",
            bytes: 0,
        };
        let mut span = Span::default();
        cpu.columns(&mut people, 0, Times::default(), &switches, &mut span);
        assert_eq!(ran(&people), [(3, 40), (2, 5), (1, 0)]);
        assert_eq!((span.begin_ns, span.end_ns), (10, 75));
        assert_eq!(people.thread_name(1), b"three");
    }
}
