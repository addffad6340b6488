//! Events by time.
//!
//! Each source of events has a queue, in which most come in order: of each machine one for packets, one for events of programs, and for each
//! processor one for its events, its packed switches and its packed wake-ups. Queues are numbered as they come up. The events of all are
//! taken by time; of two at the same time in one queue the one that arrived first. Between queues, whose turn it is goes on as long as no
//! other queue has something *earlier*, and of several that begin at the same time the lowest number has its turn (upstream:
//! trace_sorter.cc):
//!
//! ```text
//! queue 0       10    20         20
//! queue 1    5        20   20          its turn lasts to the 20s: 5, then 10 of queue 0 and its 20s, then those of queue 1
//! queue 2                     21
//! ```
//!
//! The kernel's events are many and small, so their queues hold nothing but what they are.
//!
//! Memory: the events that wait. Taking them out is `n log q` for `q` queues, and `n log n` for a queue whose events came in no order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ferretto_trace_tables::MachineId;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::cpus::MAX_CPUS;
use crate::event::Event;
use crate::ftrace::{Cpu, KernelEvent, Switch, Waking};

/// Which queue an event waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    machine: MachineId,
    source: u32,
}

/// Queues of a machine that belong to no processor.
const OF_MACHINE: u32 = 3;

impl QueueId {
    const fn new(machine: MachineId, source: u32) -> Self {
        Self { machine, source }
    }

    /// Packets.
    #[must_use]
    pub const fn packets(machine: MachineId) -> Self {
        Self::new(machine, 0)
    }

    /// Events of programs.
    #[must_use]
    pub const fn track_events(machine: MachineId) -> Self {
        Self::new(machine, 1)
    }

    /// Samples of Chrome's own profiler.
    #[must_use]
    pub const fn streaming_profiles(machine: MachineId) -> Self {
        Self::new(machine, 2)
    }

    /// The kernel's events of a processor.
    #[must_use]
    pub const fn of_cpu(machine: MachineId, cpu: u32) -> Self {
        Self::new(machine, OF_MACHINE + (cpu % MAX_CPUS) * 3)
    }

    /// The packed switches of a processor.
    #[must_use]
    pub const fn switches_of_cpu(machine: MachineId, cpu: u32) -> Self {
        Self::new(machine, OF_MACHINE + (cpu % MAX_CPUS) * 3 + 1)
    }

    /// The packed wake-ups of a processor.
    #[must_use]
    pub const fn wakeups_of_cpu(machine: MachineId, cpu: u32) -> Self {
        Self::new(machine, OF_MACHINE + (cpu % MAX_CPUS) * 3 + 2)
    }
}

/// Events that wait.
#[derive(Debug, Default)]
pub struct Order {
    queues: Vec<Queue>,
    numbers: HashMap<QueueId, usize, RandomState>,
    last: Option<(QueueId, usize)>,
    max_ts: i64,
}

#[derive(Debug)]
enum Queue {
    /// Nothing has come.
    Empty,
    Any(Waiting<Event>),
    Kernel(Cpu, Waiting<KernelEvent>),
    Switches(Cpu, Waiting<Switch>),
    Wakings(Cpu, Waiting<Waking>),
}

#[derive(Debug)]
struct Waiting<T> {
    events: Vec<(i64, T)>,
    is_disordered: bool,
}

impl Order {
    /// Adds an event of the time `ts`.
    #[inline]
    pub fn push(&mut self, queue: QueueId, ts: i64, event: Event) {
        match self.queue(queue, ts) {
            Queue::Any(waiting) => waiting.push(ts, event),
            empty @ Queue::Empty => *empty = Queue::Any(Waiting::of(ts, event)),
            _ => {}
        }
    }

    /// Adds an event of the kernel to the queue [`QueueId::of_cpu`].
    #[inline]
    pub fn push_kernel(&mut self, cpu: Cpu, ts: i64, event: KernelEvent) {
        match self.queue(QueueId::of_cpu(cpu.machine, cpu.cpu), ts) {
            Queue::Kernel(_, waiting) => waiting.push(ts, event),
            empty @ Queue::Empty => *empty = Queue::Kernel(cpu, Waiting::of(ts, event)),
            _ => {}
        }
    }

    /// Adds a switch to the queue [`QueueId::switches_of_cpu`].
    #[inline]
    pub fn push_switch(&mut self, cpu: Cpu, ts: i64, event: Switch) {
        match self.queue(QueueId::switches_of_cpu(cpu.machine, cpu.cpu), ts) {
            Queue::Switches(_, waiting) => waiting.push(ts, event),
            empty @ Queue::Empty => *empty = Queue::Switches(cpu, Waiting::of(ts, event)),
            _ => {}
        }
    }

    /// Adds a wake-up to the queue [`QueueId::wakeups_of_cpu`].
    #[inline]
    pub fn push_waking(&mut self, cpu: Cpu, ts: i64, event: Waking) {
        match self.queue(QueueId::wakeups_of_cpu(cpu.machine, cpu.cpu), ts) {
            Queue::Wakings(_, waiting) => waiting.push(ts, event),
            empty @ Queue::Empty => *empty = Queue::Wakings(cpu, Waiting::of(ts, event)),
            _ => {}
        }
    }

    /// A queue has its number from now on: it comes before those that come up later.
    pub fn open(&mut self, queue: QueueId) {
        self.number(queue);
    }

    /// The latest time so far; 0 before the first.
    #[must_use]
    pub fn max_ts(&self) -> i64 {
        self.max_ts
    }

    /// How many events wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queues.iter().map(Queue::len).sum()
    }

    /// Whether none wait.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with all events, the earliest first; none is left.
    pub fn drain(&mut self, mut each: impl FnMut(i64, Event)) {
        let queues = std::mem::take(self).queues;
        let mut queues: Vec<Sorted> = queues.into_iter().map(Queue::sorted).collect();
        let mut next: BinaryHeap<Reverse<(i64, usize)>> = queues
            .iter()
            .enumerate()
            .filter_map(|(index, queue)| queue.next_ts().map(|ts| Reverse((ts, index))))
            .collect();
        while let Some(Reverse((_, index))) = next.pop() {
            let until = next.peek().map_or(i64::MAX, |Reverse((ts, _))| *ts);
            let Some(queue) = queues.get_mut(index) else { continue };
            queue.drain_until(until, &mut each);
            if let Some(ts) = queue.next_ts() {
                next.push(Reverse((ts, index)));
            }
        }
    }

    #[inline]
    fn queue(&mut self, queue: QueueId, ts: i64) -> &mut Queue {
        let number = match self.last {
            Some((last, number)) if last == queue => number,
            _ => self.number(queue),
        };
        self.max_ts = self.max_ts.max(ts);
        &mut self.queues[number]
    }

    #[cold]
    fn number(&mut self, queue: QueueId) -> usize {
        let next = self.queues.len();
        let number = *self.numbers.entry(queue).or_insert(next);
        if number == next {
            self.queues.push(Queue::Empty);
        }
        self.last = Some((queue, number));
        number
    }
}

impl<T> Waiting<T> {
    fn of(ts: i64, event: T) -> Self {
        Self { events: vec![(ts, event)], is_disordered: false }
    }

    #[inline]
    fn push(&mut self, ts: i64, event: T) {
        self.is_disordered |= self.events.last().is_some_and(|(last, _)| *last > ts);
        self.events.push((ts, event));
    }

    fn sorted(mut self) -> InOrder<T> {
        if self.is_disordered {
            // Stable: what arrived first stays first.
            self.events.sort_by_key(|(ts, _)| *ts);
        }
        InOrder(self.events.into_iter())
    }
}

impl Queue {
    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Any(waiting) => waiting.events.len(),
            Self::Kernel(_, waiting) => waiting.events.len(),
            Self::Switches(_, waiting) => waiting.events.len(),
            Self::Wakings(_, waiting) => waiting.events.len(),
        }
    }

    fn sorted(self) -> Sorted {
        match self {
            Self::Empty => Sorted::Empty,
            Self::Any(waiting) => Sorted::Any(waiting.sorted()),
            Self::Kernel(cpu, waiting) => Sorted::Kernel(cpu, waiting.sorted()),
            Self::Switches(cpu, waiting) => Sorted::Switches(cpu, waiting.sorted()),
            Self::Wakings(cpu, waiting) => Sorted::Wakings(cpu, waiting.sorted()),
        }
    }
}

enum Sorted {
    Empty,
    Any(InOrder<Event>),
    Kernel(Cpu, InOrder<KernelEvent>),
    Switches(Cpu, InOrder<Switch>),
    Wakings(Cpu, InOrder<Waking>),
}

struct InOrder<T>(std::vec::IntoIter<(i64, T)>);

impl<T> InOrder<T> {
    #[inline]
    fn next_ts(&self) -> Option<i64> {
        self.0.as_slice().first().map(|(ts, _)| *ts)
    }

    #[inline]
    fn drain_until(&mut self, until: i64, mut each: impl FnMut(i64, T)) {
        while self.next_ts().is_some_and(|ts| ts <= until) {
            if let Some((ts, event)) = self.0.next() {
                each(ts, event);
            }
        }
    }
}

impl Sorted {
    fn next_ts(&self) -> Option<i64> {
        match self {
            Self::Empty => None,
            Self::Any(events) => events.next_ts(),
            Self::Kernel(_, events) => events.next_ts(),
            Self::Switches(_, events) => events.next_ts(),
            Self::Wakings(_, events) => events.next_ts(),
        }
    }

    fn drain_until(&mut self, until: i64, each: &mut impl FnMut(i64, Event)) {
        match self {
            Self::Empty => {}
            Self::Any(events) => events.drain_until(until, each),
            Self::Kernel(cpu, events) => {
                events.drain_until(until, |ts, event| each(ts, Event::Kernel(*cpu, event)));
            }
            Self::Switches(cpu, events) => {
                events.drain_until(until, |ts, event| each(ts, Event::Switch(*cpu, event)));
            }
            Self::Wakings(cpu, events) => {
                events.drain_until(until, |ts, event| each(ts, Event::Waking(*cpu, event)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;
    use crate::event::{Origin, WholePacket};

    /// An event that can be told from others.
    fn event(name: u32) -> Event {
        let origin = Origin {
            machine: MachineId(0),
            sequence_id: 0,
            trusted_pid: None,
            trusted_uid: None,
            place: Default::default(),
        };
        Event::Packet(Box::new(WholePacket {
            kind: name,
            data: Box::default(),
            origin,
            state: Rc::default(),
        }))
    }

    fn drained(pushed: &[(u32, i64)]) -> Vec<(usize, u32, i64)> {
        let mut order = Order::default();
        for (at, (cpu, ts)) in pushed.iter().enumerate() {
            order.push(QueueId::of_cpu(MachineId(0), *cpu), *ts, event(at as u32));
        }
        let mut seen = Vec::new();
        order.drain(|ts, event| {
            if let Event::Packet(packet) = event {
                let at = packet.kind as usize;
                seen.push((at, pushed[at].0, ts));
            }
        });
        assert!(order.is_empty());
        seen
    }

    #[test]
    fn a_turn_lasts_until_another_queue_has_something_earlier() {
        // Numbers come up in the order of the first event: cpu 7 is queue 0.
        let seen = drained(&[(7, 10), (7, 20), (7, 20), (1, 5), (1, 20), (1, 20), (3, 21)]);
        let cpus: Vec<_> = seen.iter().map(|(_, cpu, ts)| (*cpu, *ts)).collect();
        assert_eq!(cpus, [(1, 5), (7, 10), (7, 20), (7, 20), (1, 20), (1, 20), (3, 21)]);
        let seen = drained(&[(7, 20), (1, 10), (1, 20), (1, 30)]);
        let cpus: Vec<_> = seen.iter().map(|(_, cpu, ts)| (*cpu, *ts)).collect();
        assert_eq!(cpus, [(1, 10), (1, 20), (7, 20), (1, 30)]);
    }

    proptest! {
        #[test]
        fn all_come_by_time_and_those_of_a_queue_as_they_arrived(
            pushed in proptest::collection::vec((0u32..4, 0i64..20), 0..60),
        ) {
            let seen = drained(&pushed);
            prop_assert_eq!(seen.len(), pushed.len());
            prop_assert!(seen.is_sorted_by_key(|(_, _, ts)| *ts));
            for cpu in 0..4 {
                let of_cpu = seen.iter().filter(|(_, of, _)| *of == cpu);
                prop_assert!(of_cpu.is_sorted_by_key(|(at, _, ts)| (*ts, *at)));
            }
        }
    }
}
