//! The pass over a trace: each packet is looked at once, in the order of the file.

use ferretto_protos::fields::{
    ftrace_event, process_tree, task_newtask_ftrace_event as newtask, task_rename_ftrace_event as rename,
    trace_packet, tracing_service_event,
};
use ferretto_protozero::varint;
use ferretto_trace_read::clocks::BOOTTIME;
use ferretto_trace_read::fields::{Fields, Value};
use ferretto_trace_read::{End, Head, Heads, Place};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::events::{Events, bytes_of, number_of};
use crate::ftrace::{Event, Parts, Switches, Wakings};
use crate::machine::Machines;
use crate::names::{ByNumber, Weight};
use crate::people::{Comm, People, Trust};
use crate::readable::{Arrival, Readable};
use crate::report::Report;
use crate::run::Run;
use crate::sched::{Cpu, Span, Times};
use crate::tally::{Tally, bounded};

/// Field numbers of `TracePacket` and `FtraceEvent` that are told apart; both schemas end far below.
const MAX_NUMBERS: usize = 1 << 12;
/// CPUs whose threads are told apart.
const MAX_CPUS: usize = 1 << 12;
/// Its child is a thread, not a process (Linux: sched.h).
const CLONE_THREAD: u64 = 0x1_0000;

/// What has been seen so far.
#[derive(Debug, Default)]
pub struct Info {
    pub(crate) heads: Heads,
    pub(crate) run: Option<Run>,
    pub(crate) tally: Tally,
    pub(crate) kinds: ByNumber<Weight>,
    /// Names and stacks beside the data.
    pub(crate) interned: Weight,
    pub(crate) kernel: ByNumber<Weight>,
    pub(crate) events: Events,
    pub(crate) people: People,
    pub(crate) machines: Machines,
    pub(crate) config: Option<Vec<u8>>,
    pub(crate) span: Span,
    /// All packets with their framing, unpacked.
    pub(crate) bytes: u64,
    /// Those out of batches.
    pub(crate) packed: Weight,
    /// It is a copy of what a recording had until then.
    pub(crate) is_clone: bool,
    /// Packets that a service has signed: with a sequence, or a time.
    pub(crate) is_signed: bool,
    pub(crate) cpus: HashMap<(u32, u32), Cpu, RandomState>,
    started_ns: Option<i64>,
}

/// A bundle's part of the state.
struct Bundle<'a> {
    machine: u32,
    kernel: &'a mut ByNumber<Weight>,
    people: &'a mut People,
    span: Span,
    cpus: &'a mut HashMap<(u32, u32), Cpu, RandomState>,
    started_ns: i64,
    cpu: u32,
    current: Cpu,
    times: Times,
}

impl Info {
    /// Takes the next packet of the file.
    pub fn push(&mut self, packet: &[u8], place: Place) {
        let bytes = framed(packet.len());
        self.bytes += bytes as u64;
        if place.in_batch.is_some() {
            self.packed.add(bytes);
        }
        if self.go_on(packet, bytes) {
            return;
        }
        self.end_run();
        match self.heads.of(packet) {
            Ok(head) => self.head(&head, bytes),
            Err(_) => {
                self.tally.undecodable();
                self.weigh(0, Weight::of(bytes));
            }
        }
    }

    /// Gives what there is to say: nothing more comes.
    #[must_use]
    pub fn finish(mut self, end: End) -> Report {
        self.end_run();
        Report::of(self, end)
    }

    #[inline]
    fn head(&mut self, head: &Head<'_>, bytes: usize) {
        let arrival = match head.data {
            Some((trace_packet::FTRACE_EVENTS, _)) => self.bundle(head),
            _ => self.tally.head(head, &mut ()),
        };
        self.is_signed |= head.sequence_id != 0 || head.trusted_uid.is_some();
        self.people.wrote(head.machine_id, head.trusted_pid, Weight::of(bytes));
        self.events.arrive(head, &arrival);
        let interned = head.interned_data.map_or(0, <[u8]>::len);
        if interned > 0 {
            self.interned.add(interned);
        }
        let own = bytes - interned.min(bytes);
        let Some((number, body)) = head.data else { return self.weigh(0, Weight::of(own)) };
        self.weigh(number as usize, Weight::of(own));
        match number {
            trace_packet::TRACK_EVENT => {
                let writer = arrival.sequence.filter(|_| arrival.is_readable);
                self.events.event(writer, head.machine_id, arrival.time_ns, body, own);
                self.happened(&arrival);
                self.begin_run(head, &arrival);
            }
            trace_packet::FTRACE_EVENTS => {}
            _ => self.rare(head, &arrival, number, body),
        }
    }

    #[inline]
    pub(crate) fn weigh(&mut self, kind: usize, more: Weight) {
        if let Some(weight) = self.kinds.get_mut(kind, MAX_NUMBERS) {
            weight.add_all(more);
        }
    }

    #[inline]
    fn happened(&mut self, arrival: &Arrival) {
        if let Some(time_ns) = arrival.time_ns {
            self.span.add(time_ns);
        }
    }

    fn rare(&mut self, head: &Head<'_>, arrival: &Arrival, number: u32, body: &[u8]) {
        let machine = head.machine_id;
        match number {
            trace_packet::TRACK_DESCRIPTOR => self.events.track(machine, body, &mut self.people),
            trace_packet::PROCESS_TREE => self.processes(machine, body),
            trace_packet::SYSTEM_INFO => {
                if let Some(of) = self.machines.get(machine) {
                    of.system(body);
                }
            }
            trace_packet::CPU_INFO => {
                if let Some(of) = self.machines.get(machine) {
                    of.cpus(body);
                }
            }
            trace_packet::SYS_STATS => {
                if let Some(of) = self.machines.get(machine) {
                    of.counters(body);
                }
                self.happened(arrival);
            }
            trace_packet::PROCESS_STATS | trace_packet::PERF_SAMPLE => self.happened(arrival),
            trace_packet::TRACE_CONFIG => self.config = Some(bounded(body).into_owned()),
            trace_packet::CLONE_SNAPSHOT_TRIGGER => self.is_clone = true,
            trace_packet::SERVICE_EVENT => self.service(arrival, body),
            _ => {}
        }
    }

    fn service(&mut self, arrival: &Arrival, body: &[u8]) {
        for part in Fields::new(body).whole() {
            match part.number {
                tracing_service_event::TRACING_STARTED => self.started_ns = arrival.time_ns,
                tracing_service_event::CLONE_STARTED => self.is_clone = true,
                _ => {}
            }
        }
    }

    fn processes(&mut self, machine: u32, body: &[u8]) {
        for part in Fields::new(body).whole() {
            let Value::Bytes(entry) = part.value else { continue };
            match part.number {
                process_tree::PROCESSES => {
                    let Some(pid) = number_of(entry, process_tree::process::PID) else { continue };
                    let row = self.people.process(machine, pid);
                    self.people.name_process(row, program(entry), Trust::List);
                    let main = self.people.thread(machine, pid);
                    self.people.belongs(main, pid);
                }
                process_tree::THREADS => {
                    let Some(tid) = number_of(entry, process_tree::thread::TID) else { continue };
                    let row = self.people.thread(machine, tid);
                    if let Some(pid) = number_of(entry, process_tree::thread::TGID) {
                        self.people.belongs(row, pid);
                    }
                    let name = bytes_of(entry, process_tree::thread::NAME).unwrap_or_default();
                    self.people.name_thread(row, name, Trust::List);
                }
                _ => {}
            }
        }
    }

    /// All that a bundle needs is taken apart once, and put back once.
    fn bundle(&mut self, head: &Head<'_>) -> Arrival {
        let Self { tally, kernel, people, span, cpus, started_ns, .. } = self;
        let offset_ns = offset(&mut tally.readable, head);
        let mut bundle = Bundle {
            machine: head.machine_id,
            kernel,
            people,
            span: *span,
            cpus,
            started_ns: started_ns.unwrap_or(i64::MIN),
            cpu: 0,
            current: Cpu::default(),
            times: Times { offset_ns, from_ns: 0 },
        };
        let arrival = tally.head(head, &mut bundle);
        *span = bundle.end();
        arrival
    }
}

/// What is added to a time of the boot clock.
fn offset(readable: &mut Readable, head: &Head<'_>) -> i64 {
    let now = head.timestamp.unwrap_or(0);
    readable.time(BOOTTIME, now, head).map_or(0, |time| time.saturating_sub(now as i64))
}

/// The program's name out of the entry of a process: the first word of its command line.
fn program(entry: &[u8]) -> &[u8] {
    let words = Fields::new(entry).whole();
    let mut words = words
        .filter(|part| part.number == process_tree::process::CMDLINE)
        .filter_map(|part| part.value.as_bytes());
    let first = words.next().unwrap_or_default();
    match words.next() {
        Some(_) => first,
        // Some programs write all of it into the first word (upstream: process_tracker.cc).
        None => first.split(|byte| *byte == b' ').next().unwrap_or(first),
    }
}

impl<'a> Parts<'a> for Bundle<'_> {
    fn begin(&mut self, cpu: u32, clock: u64, pair: Option<(i64, i64)>) {
        self.cpu = cpu;
        if let (1.., Some((here, boot))) = (clock, pair) {
            self.times.offset_ns = self.times.offset_ns.saturating_add(boot.saturating_sub(here));
        }
        self.times.from_ns = self.started_ns;
        self.current = self.cpus.get(&(self.machine, cpu)).copied().unwrap_or_default();
    }

    #[inline(always)]
    fn event(&mut self, event: Event<'a>) {
        self.weigh(event.number, 1, event.bytes);
        if let Some(time_ns) = event.timestamp.and_then(|time| self.times.of(time)) {
            self.span.add(time_ns);
            self.happened(&event, time_ns);
        }
    }

    fn switches(&mut self, switches: Switches<'a>) {
        self.weigh(ftrace_event::SCHED_SWITCH, switches.count, switches.bytes);
        self.current.columns(self.people, self.machine, self.times, &switches, &mut self.span);
    }

    fn wakings(&mut self, wakings: Wakings<'a>) {
        self.weigh(ftrace_event::SCHED_WAKING, wakings.count, wakings.bytes);
    }
}

impl Bundle<'_> {
    fn end(self) -> Span {
        let key = (self.machine, self.cpu);
        if self.cpus.len() < MAX_CPUS || self.cpus.contains_key(&key) {
            self.cpus.insert(key, self.current);
        }
        self.span
    }

    #[inline]
    fn weigh(&mut self, number: u32, count: u64, bytes: usize) {
        if let Some(weight) = self.kernel.get_mut(number as usize, MAX_NUMBERS) {
            weight.count += count;
            weight.bytes += bytes as u64;
        }
    }

    #[inline]
    fn happened(&mut self, event: &Event<'_>, time_ns: i64) {
        match event.number {
            ftrace_event::SCHED_SWITCH => {
                self.current.switch(self.people, self.machine, time_ns, event.body);
            }
            ftrace_event::TASK_NEWTASK => self.new_task(event),
            ftrace_event::TASK_RENAME => {
                let (Some(tid), Some(name)) =
                    (number_of(event.body, rename::PID), bytes_of(event.body, rename::NEWCOMM))
                else {
                    return;
                };
                let row = self.people.thread(self.machine, tid);
                self.people.comm(row, Comm::of(name));
            }
            _ => {}
        }
    }

    fn new_task(&mut self, event: &Event<'_>) {
        let (mut tid, mut comm, mut flags) = (0, &b""[..], 0);
        for part in Fields::new(event.body).whole() {
            match (part.number, part.value) {
                (newtask::PID, Value::Varint(pid)) => tid = pid as i32,
                (newtask::COMM, Value::Bytes(name)) => comm = name,
                (newtask::CLONE_FLAGS, Value::Varint(of)) => flags = of,
                _ => {}
            }
        }
        let row = self.people.thread(self.machine, tid);
        let parent = self.people.thread(self.machine, event.pid);
        match flags & CLONE_THREAD {
            0 => self.people.belongs(row, tid),
            _ => {
                if let Some(pid) = self.people.process_of(parent) {
                    self.people.belongs(row, pid);
                }
            }
        }
        self.people.comm(row, Comm::of(comm));
    }
}

/// How long a packet is with its tag, of one byte, and its length: of most that is one, too.
#[inline]
fn framed(len: usize) -> usize {
    match len {
        0..0x80 => 2 + len,
        _ => 1 + varint::size(len as u64) + len,
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;
    use ferretto_trace_read::Reader;
    use proptest::prelude::*;

    use super::*;

    fn read(trace: &[u8]) -> Report {
        let mut info = Info::default();
        let end = Reader::new(trace).for_each(|packet, place| info.push(packet, place)).unwrap();
        info.finish(end)
    }

    /// Messages of any bytes, where those of each kind are.
    fn packets() -> impl Strategy<Value = Vec<(u32, Vec<u8>)>> {
        let kind = prop_oneof![
            Just(trace_packet::FTRACE_EVENTS),
            Just(trace_packet::TRACK_EVENT),
            Just(trace_packet::TRACK_DESCRIPTOR),
            Just(trace_packet::INTERNED_DATA),
            Just(trace_packet::TRACE_PACKET_DEFAULTS),
            Just(trace_packet::CLOCK_SNAPSHOT),
            Just(trace_packet::PROCESS_TREE),
            Just(trace_packet::SYS_STATS),
            Just(trace_packet::SYSTEM_INFO),
        ];
        // Numbers that messages begin with are likely.
        let byte = prop_oneof![any::<u8>(), Just(0x0a), Just(0x08), Just(0x12), 0u8..32];
        proptest::collection::vec((kind, proptest::collection::vec(byte, 0..60)), 0..20)
    }

    proptest! {
        #[test]
        fn packets_of_any_bytes_are_counted_whole(packets in packets(), machine in 0u64..3) {
            let mut trace = Vec::new();
            for (kind, body) in &packets {
                let mut packet = Vec::new();
                let mut message = Message::new(&mut packet);
                message.bytes(*kind, body);
                message.varint(trace_packet::TIMESTAMP, u64::MAX - machine);
                message.varint(trace_packet::SEQUENCE_FLAGS, 3);
                message.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 1 + machine);
                message.varint(trace_packet::MACHINE_ID, machine);
                message.varint(trace_packet::TRUSTED_PID, u64::MAX);
                drop(message);
                Message::new(&mut trace).bytes(1, &packet);
            }
            let report = read(&trace);
            let weight = report.kinds.total();
            prop_assert_eq!(report.tally.packets, packets.len() as u64);
            prop_assert_eq!(weight.count, packets.len() as u64);
            prop_assert_eq!(weight.bytes + report.interned.bytes, trace.len() as u64);
        }

        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let report = read(&[&b"\x0a\x02\x40\x01"[..], &bytes].concat());
            prop_assert!(report.tally.packets >= 1);
        }
    }
}
