//! Scheduling in its compact form: columns of switches and wake-ups (upstream: ftrace_tokenizer.cc, TokenizeFtraceCompactSched).

use ferretto_protos::fields::ftrace_event_bundle::compact_sched as field;
use ferretto_protozero::varint;
use ferretto_trace_read::fields::{Fields, Value};
use ferretto_trace_tables::Str;

use super::bundle::Arrival;
use super::{Cpu, QueueKind, Switch, Waking};
use crate::clocks::Clock;
use crate::stats::Stat;

/// The varints of a packed field.
#[derive(Clone, Copy, Debug, Default)]
struct Column<'a> {
    rest: &'a [u8],
    is_broken: bool,
}

impl Column<'_> {
    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Some(u64::from(*byte));
        }
        if self.rest.is_empty() {
            return None;
        }
        match varint::decode(self.rest) {
            Some((value, len)) => {
                self.rest = self.rest.get(len..).unwrap_or_default();
                Some(value)
            }
            None => {
                self.is_broken = true;
                self.rest = &[];
                None
            }
        }
    }
}

/// The next value of each column; nothing is taken if one has none.
#[inline]
fn next_of(columns: &mut [Column<'_>; 5]) -> Option<[u64; 5]> {
    if columns.iter().any(Column::is_empty) {
        return None;
    }
    let [a, b, c, d, e] = columns;
    Some([a.next()?, b.next()?, c.next()?, d.next()?, e.next()?])
}

/// The columns of a bundle by their field numbers.
#[derive(Debug, Default)]
struct Columns<'a> {
    by_field: [Column<'a>; field::WAKING_COMMON_FLAGS as usize + 1],
    names: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(message: &'a [u8]) -> Self {
        let mut columns = Self::default();
        for part in Fields::new(message).whole() {
            let Value::Bytes(bytes) = part.value else { continue };
            if part.number == field::INTERN_TABLE {
                columns.names.push(bytes);
            } else if let Some(column) = columns.by_field.get_mut(part.number as usize) {
                column.rest = bytes;
            }
        }
        columns
    }

    fn get(&self, number: u32) -> Column<'a> {
        self.by_field.get(number as usize).copied().unwrap_or_default()
    }
}

impl Arrival<'_> {
    /// Reads `FtraceEventBundle.compact_sched`.
    pub(super) fn compact_sched(&mut self, cpu: Cpu, clock: Clock, message: &[u8]) {
        let columns = Columns::of(message);
        let strings = &mut self.model.tables.strings;
        let names: Vec<Str> = columns.names.iter().map(|name| strings.intern_bytes(name)).collect();
        self.switches(cpu, clock, &columns, &names);
        self.wakings(cpu, clock, &columns, &names);
    }

    fn switches(&mut self, cpu: Cpu, clock: Clock, columns: &Columns<'_>, names: &[Str]) {
        let mut column = [
            field::SWITCH_TIMESTAMP,
            field::SWITCH_PREV_STATE,
            field::SWITCH_NEXT_PID,
            field::SWITCH_NEXT_PRIO,
            field::SWITCH_NEXT_COMM_INDEX,
        ]
        .map(|number| columns.get(number));
        let mut has_events = false;
        let mut timestamp: u64 = 0;
        while let Some([delta, state, pid, prio, name]) = next_of(&mut column) {
            timestamp = timestamp.wrapping_add(delta);
            let Some(name) = usize::try_from(name).ok().and_then(|name| names.get(name)) else {
                return self.model.stats.count(Stat::CompactSchedHasParseErrors);
            };
            let Some(ts) = self.trace_time(clock, timestamp) else { return };
            if !std::mem::replace(&mut has_events, true) {
                self.open(cpu, QueueKind::Switches);
            }
            let event = Switch {
                prev_state: state as i64,
                next_pid: pid as i32,
                next_prio: prio as i32,
                next_comm: Some(*name),
            };
            self.order.push_switch(cpu, ts, event);
        }
        self.check(&column);
    }

    fn wakings(&mut self, cpu: Cpu, clock: Clock, columns: &Columns<'_>, names: &[Str]) {
        let mut column = [
            field::WAKING_TIMESTAMP,
            field::WAKING_PID,
            field::WAKING_TARGET_CPU,
            field::WAKING_PRIO,
            field::WAKING_COMM_INDEX,
        ]
        .map(|number| columns.get(number));
        // Recorders of old do not write it.
        let mut flags = columns.get(field::WAKING_COMMON_FLAGS);
        let mut has_events = false;
        let mut timestamp: u64 = 0;
        while let Some([delta, pid, target, prio, name]) = next_of(&mut column) {
            timestamp = timestamp.wrapping_add(delta);
            let Some(name) = usize::try_from(name).ok().and_then(|name| names.get(name)) else {
                return self.model.stats.count(Stat::CompactSchedHasParseErrors);
            };
            let Some(ts) = self.trace_time(clock, timestamp) else { return };
            if !std::mem::replace(&mut has_events, true) {
                self.open(cpu, QueueKind::Wakings);
            }
            let event = Waking {
                pid: pid as i32,
                target_cpu: target as u16,
                prio: prio as u16,
                common_flags: flags.next().unwrap_or(0) as u16,
                comm: Some(*name),
            };
            self.order.push_waking(cpu, ts, event);
        }
        self.check(&column);
    }

    /// The columns should be equally long.
    fn check(&mut self, columns: &[Column<'_>]) {
        if columns.iter().any(|column| column.is_broken || !column.is_empty()) {
            self.model.stats.count(Stat::CompactSchedHasParseErrors);
        }
    }
}
