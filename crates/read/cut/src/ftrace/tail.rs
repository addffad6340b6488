//! Bundles of what is needed from outside of the range. They are written last, as readers put events in order by time; but those that may name
//! what is interned while that counts.

use ferretto_protos::fields::ftrace_event_bundle::compact_sched;
use ferretto_protos::fields::{ftrace_event, ftrace_event_bundle, trace_packet};
use ferretto_protozero::Message;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::ftrace::bundle::When;
use crate::ftrace::pairs::{Home, Kept};
use crate::ftrace::payload::{
    COMM, NEXT_COMM, NEXT_PID, NEXT_PRIO, PID, PREV_COMM, PREV_PID, PREV_PRIO, PREV_STATE, PRIO, SUCCESS,
    TARGET_CPU,
};
use crate::ftrace::run::{Run, Wake, WakeSource};
use crate::ftrace::sched::{Anchor, CpuKey, Needed};
use crate::names::{Name, Names};
use crate::range::Range;

/// Events of one bundle.
const BUNDLE_EVENTS: usize = 1024;
/// The idle thread's priority (Linux: `MAX_PRIO - 20`).
const IDLE_PRIO: i32 = 120;
/// A machine, a sequence of its packets and a generation of that.
type Interned = (u32, u32, u64);

/// Events to be written.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    interned: HashMap<Interned, Vec<Kept>, RandomState>,
    events: Vec<Kept>,
    anchors: Vec<(Home, Anchor, Vec<u8>)>,
    compact: Vec<(Home, Wake, Vec<u8>)>,
}

impl Tail {
    /// Events that may come in any order, as from a map: a cut is the same each time.
    pub(crate) fn extend(&mut self, events: impl IntoIterator<Item = Kept>) {
        let mut events: Vec<Kept> = events.into_iter().collect();
        events.sort_unstable();
        for event in events {
            let Home { machine, sequence_id, generation, .. } = event.home;
            match generation {
                Some(generation) => {
                    self.interned.entry((machine, sequence_id, generation)).or_default().push(event);
                }
                None => self.events.push(event),
            }
        }
    }

    /// Adds the switches and wakings that scheduling needs.
    pub(crate) fn add_sched(
        &mut self,
        needed: Needed,
        range: Range,
        names: &Names,
        homes: &HashMap<CpuKey, Home, RandomState>,
    ) {
        let home = |machine, cpu| homes.get(&(machine, cpu)).copied().unwrap_or_default();
        for ((machine, cpu), anchor) in needed.anchors {
            let home = home(machine, cpu);
            match anchor.is_compact {
                true => self.anchors.push((home, anchor, names.get(anchor.next.comm).to_vec())),
                false => {
                    let ended = anchor.prev.map(|run| run.with_end(anchor.when, anchor.state));
                    self.events.push(switch(home, anchor.when, ended.as_ref(), Some(&anchor.next), names));
                }
            }
        }
        let outside = [
            (needed.before, Range { to: range.from, ..Range::ALL }),
            (needed.after, Range { from: range.to, ..Range::ALL }),
        ];
        for (mut runs, side) in outside {
            runs.sort_by_key(|(machine, run)| (*machine, run.cpu()));
            for of_cpu in runs.chunk_by(|(one, a), (other, b)| (one, a.cpu()) == (other, b.cpu())) {
                let Some((machine, run)) = of_cpu.first() else { continue };
                let home = home(*machine, run.cpu());
                let switches = chain(of_cpu.iter().map(|(_, run)| run), side).into_iter();
                self.events.extend(switches.map(|(when, prev, next)| switch(home, when, prev, next, names)));
            }
        }
        for (machine, wake) in needed.wakes {
            let home = home(machine, wake.cpu);
            match wake.source {
                WakeSource::Compact => self.compact.push((home, wake, names.get(wake.comm).to_vec())),
                WakeSource::Event => self.events.push(waking(home, &wake, names)),
                WakeSource::Creation => {}
            }
        }
    }

    /// Calls `each` with the packets of a generation that ends.
    pub(crate) fn write_interned(&mut self, of: Interned, mut each: impl FnMut(&[u8])) {
        if let Some(mut events) = self.interned.remove(&of) {
            write_events(&mut events, &mut each);
        }
    }

    /// Calls `each` with every packet that is left.
    pub(crate) fn write(&mut self, mut each: impl FnMut(&[u8])) {
        let mut packet = Vec::new();
        self.anchors.sort_by_key(|(home, anchor, _)| (*home, anchor.when));
        for (home, anchor, name) in &self.anchors {
            packet.clear();
            write_bundle(&mut packet, *home, |bundle| write_anchor(bundle, anchor, name));
            each(&packet);
        }
        self.compact.sort_by_key(|(home, wake, _)| (*home, wake.when, wake.tid));
        for of_home in self.compact.chunk_by(|one, other| one.0 == other.0) {
            for wakes in of_home.chunks(BUNDLE_EVENTS) {
                let Some((home, ..)) = wakes.first() else { continue };
                packet.clear();
                write_bundle(&mut packet, *home, |bundle| write_compact(bundle, wakes));
                each(&packet);
            }
        }
        // Of each sequence that is the last generation.
        self.events.extend(std::mem::take(&mut self.interned).into_values().flatten());
        write_events(&mut self.events, &mut each);
    }
}

fn write_events(events: &mut [Kept], each: &mut impl FnMut(&[u8])) {
    let mut packet = Vec::new();
    events.sort_by_key(|event| (event.home, event.when));
    for of_home in events.chunk_by(|one, other| one.home == other.home) {
        for events in of_home.chunks(BUNDLE_EVENTS) {
            let Some(first) = events.first() else { continue };
            packet.clear();
            write_bundle(&mut packet, first.home, |bundle| {
                events.iter().for_each(|event| bundle.bytes(ftrace_event_bundle::EVENT, &event.bytes));
            });
            each(&packet);
        }
    }
}

/// A switch of a CPU: when, whom it leaves and whom it begins to run.
type Switch<'a> = (When, Option<&'a Run>, Option<&'a Run>);

/// The switches of a CPU on this side of the range that make runs, once each and in order.
fn chain<'a>(runs: impl Iterator<Item = &'a Run>, side: Range) -> Vec<Switch<'a>> {
    let mut points: Vec<(When, bool, &Run)> = Vec::new();
    let is_wanted = |(when, ..): &(When, bool, &Run)| side.has(when.ts);
    for run in runs {
        points.extend(run.end().map(|when| (when, false, run)).filter(is_wanted));
        points.extend(run.start().map(|when| (when, true, run)).filter(is_wanted));
    }
    // Of several that are the same run, the one that knows its last name.
    points.sort_by_key(|(when, is_start, run)| (*when, *is_start, run.tid, run.end_comm == run.comm));
    points.dedup_by(|one, other| (one.0, one.1, one.2.tid) == (other.0, other.1, other.2.tid));
    let mut chain: Vec<Switch<'a>> = Vec::new();
    for (when, is_start, run) in points {
        match chain.last_mut() {
            Some((last, _, next @ None)) if is_start && *last == when => *next = Some(run),
            _ if is_start => chain.push((when, None, Some(run))),
            _ => chain.push((when, Some(run), None)),
        }
    }
    chain
}

fn switch(home: Home, when: When, prev: Option<&Run>, next: Option<&Run>, names: &Names) -> Kept {
    let idle = format!("swapper/{}", home.cpu);
    let who = |run: Option<(&Run, Name)>| match run {
        Some((run, comm)) => (run.tid, run.prio, names.get(comm)),
        None => (0, IDLE_PRIO, idle.as_bytes()),
    };
    let (prev_pid, prev_prio, prev_comm) = who(prev.map(|run| (run, run.end_comm)));
    let (next_pid, next_prio, next_comm) = who(next.map(|run| (run, run.comm)));
    let state = prev.map_or(0, |run| run.state());
    let mut bytes = Vec::with_capacity(80);
    let mut event = Message::new(&mut bytes);
    event.varint(ftrace_event::TIMESTAMP, when.raw);
    event.int(ftrace_event::PID, i64::from(prev_pid));
    let mut data = event.nested(ftrace_event::SCHED_SWITCH);
    data.bytes(PREV_COMM, prev_comm);
    data.int(PREV_PID, i64::from(prev_pid));
    data.int(PREV_PRIO, i64::from(prev_prio));
    data.int(PREV_STATE, state);
    data.bytes(NEXT_COMM, next_comm);
    data.int(NEXT_PID, i64::from(next_pid));
    data.int(NEXT_PRIO, i64::from(next_prio));
    drop(data);
    drop(event);
    Kept { when, home, bytes }
}

fn waking(home: Home, wake: &Wake, names: &Names) -> Kept {
    let mut bytes = Vec::with_capacity(64);
    let mut event = Message::new(&mut bytes);
    event.varint(ftrace_event::TIMESTAMP, wake.when.raw);
    event.int(ftrace_event::PID, i64::from(wake.waker));
    let mut data = event.nested(ftrace_event::SCHED_WAKING);
    data.bytes(COMM, names.get(wake.comm));
    data.int(PID, i64::from(wake.tid));
    data.int(PRIO, i64::from(wake.prio));
    data.int(SUCCESS, 1);
    data.int(TARGET_CPU, i64::from(wake.target_cpu));
    drop(data);
    if let Some(flags) = wake.common_flags {
        event.varint(ftrace_event::COMMON_FLAGS, u64::from(flags));
    }
    drop(event);
    Kept { when: wake.when, home, bytes }
}

fn write_bundle(packet: &mut Vec<u8>, home: Home, fill: impl FnOnce(&mut Message<'_, Vec<u8>>)) {
    let mut message = Message::new(packet);
    let mut bundle = message.nested(trace_packet::FTRACE_EVENTS);
    bundle.varint(ftrace_event_bundle::CPU, u64::from(home.cpu));
    if home.ftrace_clock != 0 {
        bundle.varint(ftrace_event_bundle::FTRACE_CLOCK, home.ftrace_clock);
    }
    fill(&mut bundle);
    drop(bundle);
    if home.sequence_id != 0 {
        message.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, u64::from(home.sequence_id));
    }
    if home.machine != 0 {
        message.varint(trace_packet::MACHINE_ID, u64::from(home.machine));
    }
}

fn write_anchor(bundle: &mut Message<'_, Vec<u8>>, anchor: &Anchor, name: &[u8]) {
    let mut compact = bundle.nested(ftrace_event_bundle::COMPACT_SCHED);
    compact.bytes(compact_sched::INTERN_TABLE, name);
    let columns = [
        (compact_sched::SWITCH_TIMESTAMP, anchor.when.raw),
        (compact_sched::SWITCH_PREV_STATE, anchor.state as u64),
        (compact_sched::SWITCH_NEXT_PID, i64::from(anchor.next.tid) as u64),
        (compact_sched::SWITCH_NEXT_PRIO, i64::from(anchor.next.prio) as u64),
        (compact_sched::SWITCH_NEXT_COMM_INDEX, 0),
    ];
    columns.iter().for_each(|(field, value)| compact.packed_varints(*field, std::iter::once(*value)));
}

fn write_compact(bundle: &mut Message<'_, Vec<u8>>, wakes: &[(Home, Wake, Vec<u8>)]) {
    let mut compact = bundle.nested(ftrace_event_bundle::COMPACT_SCHED);
    wakes.iter().for_each(|(_, _, name)| compact.bytes(compact_sched::INTERN_TABLE, name));
    let mut columns: [Vec<u64>; 6] = Default::default();
    let mut last = 0;
    for (number, (_, wake, _)) in wakes.iter().enumerate() {
        let row = [
            wake.when.raw.wrapping_sub(last),
            i64::from(wake.tid) as u64,
            i64::from(wake.target_cpu) as u64,
            i64::from(wake.prio) as u64,
            number as u64,
            // Absent, they count as 0 (upstream: ftrace_tokenizer.cc).
            u64::from(wake.common_flags.unwrap_or(0)),
        ];
        last = wake.when.raw;
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    let fields = [
        compact_sched::WAKING_TIMESTAMP,
        compact_sched::WAKING_PID,
        compact_sched::WAKING_TARGET_CPU,
        compact_sched::WAKING_PRIO,
        compact_sched::WAKING_COMM_INDEX,
        compact_sched::WAKING_COMMON_FLAGS,
    ];
    fields
        .iter()
        .zip(&columns)
        .for_each(|(field, column)| compact.packed_varints(*field, column.iter().copied()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_at_one_time_is_written_in_one_order() {
        let event = |ts: i64, byte: u8, generation| Kept {
            when: When { ts, raw: ts as u64 },
            home: Home { cpu: 1, generation, ..Home::default() },
            bytes: vec![byte; 3],
        };
        let events = [
            event(5, 7, None),
            event(5, 3, None),
            event(4, 9, None),
            event(5, 1, Some(2)),
            event(5, 0, Some(2)),
        ];
        let written = |events: &mut dyn Iterator<Item = Kept>| {
            let (mut tail, mut packets) = (Tail::default(), Vec::new());
            tail.extend(events);
            tail.write(|packet| packets.push(packet.to_vec()));
            packets
        };
        let once = written(&mut events.iter().cloned());
        assert_eq!((once.len(), once.clone()), (2, written(&mut events.iter().rev().cloned())));
    }
}
