//! Packets in the order of their file.

use ferretto_protos::fields::trace_packet as kind;
use ferretto_trace_read::{Head, Place};
use ferretto_trace_tables::tables::MachineRow;
use ferretto_trace_tables::{MachineId, Tables};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::clocks::{Clock, Snapshot, Unknown};
use crate::event::{Event, Origin, WholePacket};
use crate::ftrace::bundle::Arrival;
use crate::model::Model;
use crate::order::{Order, QueueId};
use crate::sequence::{Sequence, Verdict};
use crate::stats::Stat;

/// Machines of one trace: packets of further ones are taken for those of the service's own. Ours.
const MAX_MACHINES: usize = 4096;

/// Events between two questions whether to go on: some milliseconds of work.
const EVENTS_PER_QUESTION: usize = 16 << 10;

/// Makes tables of packets.
#[derive(Debug, Default)]
pub struct Import {
    model: Model,
    order: Order,
    sequences: HashMap<(MachineId, u32), Sequence, RandomState>,
    machines: HashMap<u32, MachineId, RandomState>,
    /// Packets on clocks that no snapshot had shown when they came.
    deferred: Vec<(Box<[u8]>, Place)>,
}

impl Import {
    /// Takes the next packet of the file.
    pub fn push(&mut self, packet: &[u8], place: Place) {
        self.take(packet, place, false);
    }

    /// Gives the tables: nothing more comes.
    #[must_use]
    pub fn finish(self) -> Tables {
        self.finish_while(|_, _| true).unwrap_or_default()
    }

    /// As [`finish`](Self::finish), but asks `go_on` now and then, with how many events of how many have become rows, whether to go on. If
    /// not, there are no tables.
    #[must_use]
    pub fn finish_while(mut self, mut go_on: impl FnMut(usize, usize) -> bool) -> Option<Tables> {
        for (packet, place) in std::mem::take(&mut self.deferred) {
            self.take(&packet, place, true);
        }
        let Self { mut model, mut order, .. } = self;
        let (mut done, all, mut is_going_on) = (0, order.len(), true);
        order.drain(|ts, event| {
            if done % EVENTS_PER_QUESTION == 0 {
                is_going_on &= go_on(done, all);
            }
            done += 1;
            if is_going_on {
                model.apply(ts, event);
            }
        });
        is_going_on.then(|| model.finish())
    }

    fn take(&mut self, packet: &[u8], place: Place, is_deferred: bool) {
        let Ok(head) = Head::of(packet) else {
            self.model.stats.count(Stat::TokenizerSkippedPackets);
            return;
        };
        let machine = self.machine(head.machine_id);
        let mut sequence = self.sequences.remove(&(machine, head.sequence_id)).unwrap_or_default();
        let model = &mut self.model;
        // What was put off has told its state when it came.
        let verdict = match is_deferred {
            true => Verdict::Readable,
            false => sequence.arrive(&head, &mut model.tables.strings, &mut model.stats),
        };
        if verdict == Verdict::Readable {
            let to_put_off = (!is_deferred).then_some(packet);
            self.dispatch(&head, machine, &mut sequence, place, to_put_off);
        }
        self.sequences.insert((machine, head.sequence_id), sequence);
    }

    /// `packet` is put off if its clock is not known; without it the packet is given up.
    fn dispatch(
        &mut self,
        head: &Head<'_>,
        machine: MachineId,
        sequence: &mut Sequence,
        place: Place,
        packet: Option<&[u8]>,
    ) {
        let Some((number, data)) = head.data else { return };
        match number {
            kind::CLOCK_SNAPSHOT => return self.clock_snapshot(data, head, machine),
            kind::TRACK_DESCRIPTOR => {
                return self.model.descriptors.arrive(data, &mut self.model.tables.strings);
            }
            kind::FTRACE_EVENTS => {
                let state = sequence.generation().clone();
                return self.kernel(head, machine).bundle(data, &state);
            }
            kind::FTRACE_STATS => return self.kernel(head, machine).statistics(data),
            kind::SYSTEM_INFO => self.kernel(head, machine).system_info(data),
            _ => {}
        }
        let ts = match self.time(head, machine, sequence) {
            Ok(ts) => ts,
            Err(unknown) => match packet {
                Some(packet) => return self.deferred.push((packet.into(), place)),
                None => {
                    return self.model.stats.count(match unknown {
                        Unknown::Clock => Stat::ClockSyncFailureUnknownSourceClock,
                        Unknown::Way => Stat::ClockSyncFailureNoPath,
                    });
                }
            },
        };
        if ts < 0 {
            return self.model.stats.count(Stat::TraceSorterNegativeTimestampDropped);
        }
        if number == kind::SERVICE_EVENT {
            self.kernel(head, machine).service_event(data, ts);
        }
        match number {
            kind::TRACK_EVENT => {
                if let Some(event) = self.model.read_track_event(data, sequence, machine) {
                    self.order.push(QueueId::track_events(machine), ts, Event::Track(event));
                }
            }
            _ => {
                let packet = WholePacket {
                    kind: number,
                    data: data.into(),
                    origin: Origin {
                        machine,
                        sequence_id: head.sequence_id,
                        trusted_pid: head.trusted_pid,
                        trusted_uid: head.trusted_uid,
                        place,
                    },
                    state: sequence.generation().clone(),
                };
                self.order.push(QueueId::packets(machine), ts, Event::Packet(Box::new(packet)));
            }
        }
    }

    fn kernel(&mut self, head: &Head<'_>, machine: MachineId) -> Arrival<'_> {
        self.model.stats.set_machine(machine);
        Arrival { model: &mut self.model, order: &mut self.order, machine, sequence_id: head.sequence_id }
    }

    /// A packet without a time has that of the trace's begin.
    fn time(&mut self, head: &Head<'_>, machine: MachineId, sequence: &Sequence) -> Result<i64, Unknown> {
        let Some(timestamp) = head.timestamp else { return Ok(0) };
        let timestamp = i64::try_from(timestamp).unwrap_or(i64::MAX);
        let Some(id) = head.clock_id.or(sequence.generation().defaults().clock_id) else {
            return Ok(timestamp);
        };
        self.model.clocks.to_trace_time(Clock::new(id, head.sequence_id, machine), timestamp)
    }

    fn clock_snapshot(&mut self, message: &[u8], head: &Head<'_>, machine: MachineId) {
        let snapshot = Snapshot::read(message, head.sequence_id, machine);
        if let Some(clock) = snapshot.trace_clock {
            self.model.clocks.set_trace_clock(clock);
        }
        self.model.clocks.add_snapshot(&snapshot.readings);
    }

    fn machine(&mut self, raw_id: u32) -> MachineId {
        if self.machines.is_empty() {
            self.model.tables.machine.push(MachineRow::default());
            self.machines.insert(0, MachineId(0));
            self.order.open(QueueId::packets(MachineId(0)));
            self.order.open(QueueId::track_events(MachineId(0)));
            self.model.processes(MachineId(0));
        }
        if let Some(known) = self.machines.get(&raw_id) {
            return *known;
        }
        if self.machines.len() >= MAX_MACHINES {
            return MachineId(0);
        }
        let id = MachineId(self.model.tables.machine.push(MachineRow { raw_id, ..MachineRow::default() }));
        self.machines.insert(raw_id, id);
        self.order.open(QueueId::packets(id));
        self.order.open(QueueId::track_events(id));
        self.model.processes(id);
        id
    }
}
