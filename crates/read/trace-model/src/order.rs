//! Events by time.
//!
//! Each source of events has a queue, in which most come in order. The events of all queues are taken by time; of two at the same time in one
//! queue the one that arrived first, in two queues that of the queue with the lower number (upstream: trace_sorter.cc).
//!
//! Memory: the events that wait. Taking them out is `n log q` for `q` queues, and `n log n` for a queue whose events came in no order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::event::Event;

/// Which queue an event waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueId(usize);

/// More processors than these share queues. Ours: Linux has at most 8192, and a number out of a trace may be any.
const MAX_CPUS: u32 = 8192;

impl QueueId {
    /// Packets and events of programs.
    pub const PACKETS: Self = Self(0);

    /// The kernel's events of a processor.
    #[must_use]
    pub const fn of_cpu(cpu: u32) -> Self {
        Self((cpu % MAX_CPUS) as usize + 1)
    }
}

/// Events that wait.
#[derive(Debug, Default)]
pub struct Order {
    queues: Vec<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    events: Vec<(i64, Event)>,
    is_disordered: bool,
}

impl Order {
    /// Adds an event of the time `ts`.
    #[inline]
    pub fn push(&mut self, queue: QueueId, ts: i64, event: Event) {
        if self.queues.len() <= queue.0 {
            self.queues.resize_with(queue.0 + 1, Queue::default);
        }
        let Some(queue) = self.queues.get_mut(queue.0) else { return };
        queue.is_disordered |= queue.events.last().is_some_and(|(last, _)| *last > ts);
        queue.events.push((ts, event));
    }

    /// How many events wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.events.len()).sum()
    }

    /// Whether none wait.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with all events, the earliest first; none is left.
    pub fn drain(&mut self, mut each: impl FnMut(i64, Event)) {
        let mut queues: Vec<_> = std::mem::take(&mut self.queues).into_iter().map(Queue::in_order).collect();
        let mut next: BinaryHeap<Reverse<(i64, usize)>> = queues
            .iter_mut()
            .enumerate()
            .filter_map(|(index, queue)| queue.peek().map(|(ts, _)| Reverse((*ts, index))))
            .collect();
        while let Some(Reverse((_, index))) = next.pop() {
            // Up to where another queue's turn comes.
            let until = next.peek().map(|Reverse(other)| *other);
            let Some(queue) = queues.get_mut(index) else { continue };
            while let Some((ts, _)) = queue.peek() {
                let key = (*ts, index);
                if until.is_some_and(|until| until < key) {
                    next.push(Reverse(key));
                    break;
                }
                if let Some((ts, event)) = queue.next() {
                    each(ts, event);
                }
            }
        }
    }
}

impl Queue {
    fn in_order(mut self) -> std::iter::Peekable<std::vec::IntoIter<(i64, Event)>> {
        if self.is_disordered {
            // Stable: what arrived first stays first.
            self.events.sort_by_key(|(ts, _)| *ts);
        }
        self.events.into_iter().peekable()
    }
}
