//! The trace filter at work: between the buffers and where packets go (upstream: `MaybeFilterPackets`).
//!
//! Every packet that goes in gives one that comes out. Of a packet that is filtered away, or that cannot be filtered, an empty one is left:
//! readers pass over it, and numbers of packets stay comparable.

use std::sync::Arc;

use ferretto_protos::trace_stats::FilterStats;
use ferretto_trace_filter::{FilterRun, MessageFilter};

use crate::environment::Environment;
use crate::limits;
use crate::read_back::PacketSink;

/// A session's filter, and what it has done.
#[derive(Debug)]
pub(crate) struct Filtering {
    filter: Arc<MessageFilter>,
    stats: FilterStats,
    /// What was dropped since the batch began: reading a batch ends in time even if nothing is kept.
    dropped_in_batch: usize,
    /// A packet in one piece.
    whole: Vec<u8>,
    /// What is kept of it.
    kept: Vec<u8>,
    /// It is not done with that packet, from the buffer of this index.
    unfinished: Option<(Option<usize>, FilterRun)>,
    /// What may still be spent in this batch; see [`limits::FILTER_COST`].
    may_spend: u64,
}

impl Filtering {
    pub(crate) fn new(filter: Arc<MessageFilter>) -> Self {
        let none = || Some(0);
        let stats = FilterStats {
            input_packets: none(),
            input_bytes: none(),
            output_bytes: none(),
            errors: none(),
            time_taken_ns: none(),
            bytes_discarded_per_buffer: Vec::new(),
        };
        Self {
            filter,
            stats,
            dropped_in_batch: 0,
            whole: Vec::new(),
            kept: Vec::new(),
            unfinished: None,
            may_spend: 0,
        }
    }

    pub(crate) fn begin_batch(&mut self) {
        self.dropped_in_batch = 0;
        self.may_spend = limits::FILTER_COST;
        if self.unfinished.is_none() {
            self.whole.shrink_to(limits::KEEP_PACKET_BYTES);
            self.kept.shrink_to(limits::KEEP_PACKET_BYTES);
        }
    }

    pub(crate) fn stats(&self) -> FilterStats {
        self.stats.clone()
    }

    /// Leaves in `kept` what is kept. `buffer` is the index of the buffer that it comes from, for the stats. Says whether it is done: a
    /// packet may take longer than a batch, and the service's own are done at once or given up.
    fn filter<'a>(&mut self, buffer: Option<usize>, slices: impl Iterator<Item = &'a [u8]>) -> bool {
        self.whole.clear();
        slices.for_each(|slice| self.whole.extend_from_slice(slice));
        let run = self.filter.begin(&self.whole, &mut self.kept);
        self.unfinished = Some((buffer, run));
        if buffer.is_some() {
            return self.go_on();
        }
        self.may_spend = self.may_spend.max(limits::FILTER_COST_OF_OWN_PACKET);
        let is_done = self.go_on();
        if !is_done {
            self.kept.clear();
            self.unfinished = None;
            self.conclude(buffer, false);
        }
        true
    }

    /// Goes on with the packet that is not done.
    fn go_on(&mut self) -> bool {
        let Some((buffer, mut run)) = self.unfinished.take() else { return true };
        match self.filter.go_on(&mut run, &self.whole, &mut self.kept, &mut self.may_spend) {
            Ok(false) => {
                self.unfinished = Some((buffer, run));
                return false;
            }
            result => self.conclude(buffer, result.is_ok()),
        }
        true
    }

    fn conclude(&mut self, buffer: Option<usize>, is_filtered: bool) {
        self.count(self.whole.len(), self.kept.len());
        let dropped = self.whole.len() - self.kept.len();
        self.dropped_in_batch += dropped;
        match (is_filtered, buffer) {
            (false, _) => add(&mut self.stats.errors, 1),
            (true, Some(index)) => {
                let of_buffers = &mut self.stats.bytes_discarded_per_buffer;
                if of_buffers.len() <= index {
                    of_buffers.resize(index + 1, 0);
                }
                if let Some(sum) = of_buffers.get_mut(index) {
                    *sum += dropped as u64;
                }
            }
            (true, None) => {}
        }
    }

    fn count(&mut self, input_bytes: usize, output_bytes: usize) {
        add(&mut self.stats.input_packets, 1);
        add(&mut self.stats.input_bytes, input_bytes as u64);
        add(&mut self.stats.output_bytes, output_bytes as u64);
    }
}

fn add(sum: &mut Option<u64>, value: u64) {
    *sum = Some(sum.unwrap_or_default().saturating_add(value));
}

/// What has become of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Done,
    /// The filter is not done with it: it goes on with the next batch.
    Unfinished,
    /// Where it should go there is no room.
    NoRoom,
}

/// A sink behind a session's filter.
pub(crate) struct Outlet<'a, S> {
    sink: &'a mut S,
    filtering: Option<&'a mut Filtering>,
    environment: &'a mut dyn Environment,
}

impl<'a, S: PacketSink> Outlet<'a, S> {
    pub(crate) fn new(
        sink: &'a mut S,
        filtering: &'a mut Option<Filtering>,
        environment: &'a mut dyn Environment,
    ) -> Self {
        Self { sink, filtering: filtering.as_mut(), environment }
    }

    /// Bytes that went in, since the batch began.
    pub(crate) fn len(&self) -> usize {
        let dropped = self.filtering.as_ref().map_or(0, |filtering| filtering.dropped_in_batch);
        self.sink.len().saturating_add(dropped)
    }

    /// A packet from the buffer of this index, or of the service itself.
    #[inline]
    pub(crate) fn put<'b>(
        &mut self,
        buffer: Option<usize>,
        slices: impl Iterator<Item = &'b [u8]>,
        len: usize,
    ) -> Put {
        match &mut self.filtering {
            None => put(self.sink, slices, len),
            Some(_) => self.filter(|filtering| filtering.filter(buffer, slices)),
        }
    }

    /// Goes on with a packet that takes longer than a batch, if there is one.
    pub(crate) fn put_unfinished(&mut self) -> Put {
        match self.filtering.as_ref().is_some_and(|filtering| filtering.unfinished.is_some()) {
            true => self.filter(Filtering::go_on),
            false => Put::Done,
        }
    }

    fn filter(&mut self, step: impl FnOnce(&mut Filtering) -> bool) -> Put {
        let Some(filtering) = &mut self.filtering else { return Put::Done };
        let start = self.environment.stopwatch_ns();
        let is_done = step(filtering);
        let taken = self.environment.stopwatch_ns().saturating_sub(start);
        add(&mut filtering.stats.time_taken_ns, taken);
        if !is_done {
            return Put::Unfinished;
        }
        put(self.sink, std::iter::once(filtering.kept.as_slice()), filtering.kept.len())
    }

    /// Whether filtering has taken so much that others should have their turn.
    pub(crate) fn is_spent(&self) -> bool {
        self.filtering.as_ref().is_some_and(|filtering| filtering.may_spend == 0)
    }

    /// A packet that goes around the filter, and is counted there nevertheless.
    pub(crate) fn put_unfiltered(&mut self, packet: &[u8]) -> Put {
        if let Some(filtering) = &mut self.filtering {
            filtering.count(packet.len(), packet.len());
        }
        put(self.sink, std::iter::once(packet), packet.len())
    }
}

#[inline]
fn put<'a>(sink: &mut impl PacketSink, slices: impl Iterator<Item = &'a [u8]>, len: usize) -> Put {
    if !sink.make_room(len) {
        return Put::NoRoom;
    }
    sink.packet(slices, len);
    Put::Done
}
