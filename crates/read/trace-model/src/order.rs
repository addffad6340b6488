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
//! A recording that goes into a file while it lasts is flushed now and then. What came before the flush before last can have its turn as soon as the
//! buffers were read: nothing that comes later should be earlier. Should it be, it is left out, and counted. So of such a trace only as much
//! waits as comes between three flushes; of a ring, which is read once, all of it.
//!
//! Memory: the events that wait, packed (`queue`). Taking them out is `n log q` for `q` queues, and `n log n` for a queue whose events came in
//! no order.

pub(crate) mod queue;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use ferretto_trace_tables::{Helper, MachineId, Store};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::cpus::MAX_CPUS;
use crate::event::Event;
use crate::ftrace::{Cpu, KernelEvent, Switch, Waking};
use crate::track_event::TrackEvent;
use queue::{InOrder, Waiting};
pub(crate) use queue::{Run, Waits, waits};

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
    /// The time of the last event that had its turn.
    taken_until: Option<i64>,
    /// Flushes since events had their turn.
    flushes: u32,
    /// All events wait for the end.
    is_whole: bool,
}

/// Flushes between two turns. Upstream's: what is older than the one before last is in order.
const FLUSHES_PER_TURN: u32 = 2;

/// Of so many queues blocks are unpacked before their turn: each of them then has some hundred kilobytes more in memory. Ours: it is as much as
/// parcels of packets take while a file is read.
const MAX_AHEAD: usize = 32;

#[derive(Debug)]
enum Queue {
    /// Nothing has come.
    Empty,
    Any(Waiting<Event>),
    Tracks(Waiting<TrackEvent>),
    Kernel(Cpu, Waiting<KernelEvent>),
    Switches(Cpu, Waiting<Switch>),
    Wakings(Cpu, Waiting<Waking>),
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

    /// Adds an event of a program to the queue [`QueueId::track_events`].
    #[inline]
    pub fn push_track(&mut self, machine: MachineId, ts: i64, event: TrackEvent) {
        match self.queue(QueueId::track_events(machine), ts) {
            Queue::Tracks(waiting) => waiting.push(ts, event),
            empty @ Queue::Empty => *empty = Queue::Tracks(Waiting::of(ts, event)),
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

    /// Adds events of the kernel between these times to the same queue.
    pub(crate) fn push_kernel_run(&mut self, cpu: Cpu, times: (i64, i64), run: Box<dyn Run<KernelEvent>>) {
        match self.queue(QueueId::of_cpu(cpu.machine, cpu.cpu), times.1) {
            Queue::Kernel(_, waiting) => waiting.push_run(times, run),
            empty @ Queue::Empty => *empty = Queue::Kernel(cpu, Waiting::of_run(times, run)),
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

    /// Blocks of events lie in the store from now on. Those of queues that come up later do when this is called again.
    pub fn move_to(&mut self, store: &Arc<dyn Store>) {
        self.queues.iter_mut().for_each(|queue| queue.move_to(store));
    }

    /// Somebody packs and unpacks blocks of events from now on. For queues that come up later, this is called again.
    pub fn set_helper(&mut self, helper: &Arc<dyn Helper>) {
        self.queues.iter_mut().for_each(|queue| queue.set_helper(helper));
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

    /// All data sources were flushed.
    pub fn flushed(&mut self) {
        self.flushes = self.flushes.saturating_add(1);
    }

    /// All events are to wait for the end, for one that belongs among them cannot be placed yet; false if some had their turn already.
    pub fn wait_for_end(&mut self) -> bool {
        self.is_whole |= self.taken_until.is_none();
        self.is_whole
    }

    /// The buffers were read: calls `each` with events that nothing earlier should come after. Returns how many came too late for that.
    pub fn buffers_read(&mut self, each: impl FnMut(i64, Event)) -> i64 {
        if self.is_whole || self.flushes < FLUSHES_PER_TURN {
            return 0;
        }
        self.flushes = 0;
        let late = self.take_settled(each);
        self.queues.iter_mut().for_each(Queue::settle);
        late
    }

    /// Calls `each` with all events, the earliest first; none is left. Returns how many came too late.
    pub fn drain(&mut self, each: impl FnMut(i64, Event)) -> i64 {
        self.drain_into(each)
    }

    /// The same for who is told apart by the kind of event.
    pub(crate) fn drain_into(&mut self, each: impl Each) -> i64 {
        self.queues.iter_mut().for_each(Queue::settle);
        self.take_settled(each)
    }

    /// Takes events in turn until the earliest is one that came after the last reading.
    fn take_settled(&mut self, each: impl Each) -> i64 {
        let queues = std::mem::take(&mut self.queues);
        let mut queues: Vec<Sorted> = queues.into_iter().map(Queue::sorted).collect();
        if queues.len() <= MAX_AHEAD {
            queues.iter_mut().for_each(Sorted::go_ahead);
        }
        let mut next: BinaryHeap<Reverse<(i64, usize)>> = queues
            .iter()
            .enumerate()
            .filter_map(|(index, queue)| queue.next_ts().map(|ts| Reverse((ts, index))))
            .collect();
        let taken_until = self.taken_until.unwrap_or(i64::MIN);
        let mut turns = Turns { each, late: 0, taken_until };
        let mut turn = next.pop();
        while let Some(Reverse((_, index))) = turn {
            let until = next.peek().map_or(i64::MAX, |Reverse((ts, _))| *ts);
            let Some(queue) = queues.get_mut(index) else { break };
            let Some(next_ts) = queue.drain_until(until, &mut turns) else { break };
            // Its next event is later than the first of the others, whose turn it is now.
            turn = match (next_ts, next.peek_mut()) {
                (Some(ts), Some(mut first)) => Some(std::mem::replace(&mut *first, Reverse((ts, index)))),
                (Some(ts), None) => Some(Reverse((ts, index))),
                (None, Some(first)) => Some(PeekMut::pop(first)),
                (None, None) => None,
            };
        }
        self.taken_until = Some(turns.taken_until).filter(|ts| *ts != i64::MIN);
        self.queues = queues.into_iter().map(Sorted::into_queue).collect();
        turns.late
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

impl Queue {
    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Any(waiting) => waiting.len(),
            Self::Tracks(waiting) => waiting.len(),
            Self::Kernel(_, waiting) => waiting.len(),
            Self::Switches(_, waiting) => waiting.len(),
            Self::Wakings(_, waiting) => waiting.len(),
        }
    }

    fn move_to(&mut self, store: &Arc<dyn Store>) {
        match self {
            Self::Empty => {}
            Self::Any(waiting) => waiting.move_to(store),
            Self::Tracks(waiting) => waiting.move_to(store),
            Self::Kernel(_, waiting) => waiting.move_to(store),
            Self::Switches(_, waiting) => waiting.move_to(store),
            Self::Wakings(_, waiting) => waiting.move_to(store),
        }
    }

    fn set_helper(&mut self, helper: &Arc<dyn Helper>) {
        match self {
            Self::Empty => {}
            Self::Any(waiting) => waiting.set_helper(helper),
            Self::Tracks(waiting) => waiting.set_helper(helper),
            Self::Kernel(_, waiting) => waiting.set_helper(helper),
            Self::Switches(_, waiting) => waiting.set_helper(helper),
            Self::Wakings(_, waiting) => waiting.set_helper(helper),
        }
    }

    fn settle(&mut self) {
        match self {
            Self::Empty => {}
            Self::Any(waiting) => waiting.settle(),
            Self::Tracks(waiting) => waiting.settle(),
            Self::Kernel(_, waiting) => waiting.settle(),
            Self::Switches(_, waiting) => waiting.settle(),
            Self::Wakings(_, waiting) => waiting.settle(),
        }
    }

    fn sorted(self) -> Sorted {
        match self {
            Self::Empty => Sorted::Empty,
            Self::Any(waiting) => Sorted::Any(waiting.sorted()),
            Self::Tracks(waiting) => Sorted::Tracks(waiting.sorted()),
            Self::Kernel(cpu, waiting) => Sorted::Kernel(cpu, waiting.sorted()),
            Self::Switches(cpu, waiting) => Sorted::Switches(cpu, waiting.sorted()),
            Self::Wakings(cpu, waiting) => Sorted::Wakings(cpu, waiting.sorted()),
        }
    }
}

enum Sorted {
    Empty,
    Any(InOrder<Event>),
    Tracks(InOrder<TrackEvent>),
    Kernel(Cpu, InOrder<KernelEvent>),
    Switches(Cpu, InOrder<Switch>),
    Wakings(Cpu, InOrder<Waking>),
}

impl Sorted {
    fn next_ts(&self) -> Option<i64> {
        match self {
            Self::Empty => None,
            Self::Any(events) => events.next_ts(),
            Self::Tracks(events) => events.next_ts(),
            Self::Kernel(_, events) => events.next_ts(),
            Self::Switches(_, events) => events.next_ts(),
            Self::Wakings(_, events) => events.next_ts(),
        }
    }

    fn go_ahead(&mut self) {
        match self {
            Self::Empty => {}
            Self::Any(events) => events.go_ahead(),
            Self::Tracks(events) => events.go_ahead(),
            Self::Kernel(_, events) => events.go_ahead(),
            Self::Switches(_, events) => events.go_ahead(),
            Self::Wakings(_, events) => events.go_ahead(),
        }
    }

    fn into_queue(self) -> Queue {
        match self {
            Self::Empty => Queue::Empty,
            Self::Any(events) => Queue::Any(events.into_waiting()),
            Self::Tracks(events) => Queue::Tracks(events.into_waiting()),
            Self::Kernel(cpu, events) => Queue::Kernel(cpu, events.into_waiting()),
            Self::Switches(cpu, events) => Queue::Switches(cpu, events.into_waiting()),
            Self::Wakings(cpu, events) => Queue::Wakings(cpu, events.into_waiting()),
        }
    }

    #[inline(always)]
    fn drain_until(&mut self, until: i64, turns: &mut Turns<impl Each>) -> Option<Option<i64>> {
        match self {
            Self::Empty => None,
            Self::Any(events) => events.drain_until(until, |ts, event| turns.take(ts, event)),
            Self::Tracks(events) => {
                events.drain_until(until, |ts, event| turns.take(ts, Event::Track(event)))
            }
            Self::Kernel(cpu, events) => {
                events.drain_until(until, |ts, event| turns.take(ts, Event::Kernel(*cpu, event)))
            }
            Self::Switches(cpu, events) => {
                events.drain_until(until, |ts, event| turns.take(ts, Event::Switch(*cpu, event)))
            }
            Self::Wakings(cpu, events) => {
                events.drain_until(until, |ts, event| turns.take(ts, Event::Waking(*cpu, event)))
            }
        }
    }
}

/// Who takes events in their turn.
pub(crate) trait Each {
    /// Takes one. Which kind it is is known where this is called, so this is best inlined.
    fn take(&mut self, ts: i64, event: Event);
}

impl<F: FnMut(i64, Event)> Each for F {
    #[inline]
    fn take(&mut self, ts: i64, event: Event) {
        self(ts, event);
    }
}

/// Those who have their turn.
struct Turns<F> {
    each: F,
    /// How many came too late.
    late: i64,
    /// The time of the last that did not.
    taken_until: i64,
}

impl<F: Each> Turns<F> {
    // Which event it is is known where this is called.
    #[inline(always)]
    fn take(&mut self, ts: i64, event: Event) {
        if ts < self.taken_until {
            self.late += 1;
        } else {
            self.taken_until = ts;
            self.each.take(ts, event);
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

    #[test]
    fn what_is_older_than_the_flush_before_last_has_its_turn_when_buffers_were_read() {
        let mut order = Order::default();
        let (mut seen, mut late) = (Vec::new(), Vec::new());
        // In the last reading two are too late.
        for reading in [&[10, 30, 20][..], &[40, 35, 60], &[50, 70], &[15, 80, 34]] {
            for ts in reading {
                order.push(QueueId::packets(MachineId(0)), *ts, event(0));
            }
            order.flushed();
            assert_eq!(order.buffers_read(|_, _| unreachable!()), 0);
            order.flushed();
            late.push(order.buffers_read(|ts, _| seen.push(ts)));
            seen.push(0);
        }
        late.push(order.drain(|ts, _| seen.push(ts)));
        // What came last holds back what is later than it.
        assert_eq!(seen, [0, 10, 20, 30, 0, 35, 40, 0, 0, 50, 60, 70, 80]);
        assert_eq!(late, [0, 0, 0, 0, 2]);
    }

    #[test]
    fn all_wait_for_the_end_if_one_has_to() {
        let mut order = Order::default();
        assert!(order.wait_for_end());
        order.push(QueueId::packets(MachineId(0)), 10, event(0));
        for _ in 0..3 {
            order.flushed();
            order.flushed();
            assert_eq!(order.buffers_read(|_, _| unreachable!()), 0);
        }
        assert_eq!(order.len(), 1);
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
