//! The trace filter at work: between the buffers and where packets go (upstream: `MaybeFilterPackets`).
//!
//! Every packet that goes in gives one that comes out. Of a packet that is filtered away, or that cannot be filtered, an empty one is left:
//! readers pass over it, and numbers of packets stay comparable.

use std::sync::Arc;

use ferretto_protos::trace_stats::FilterStats;
use ferretto_trace_filter::MessageFilter;

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
        Self { filter, stats, dropped_in_batch: 0, whole: Vec::new(), kept: Vec::new() }
    }

    pub(crate) fn begin_batch(&mut self) {
        self.dropped_in_batch = 0;
        self.whole.shrink_to(limits::KEEP_PACKET_BYTES);
        self.kept.shrink_to(limits::KEEP_PACKET_BYTES);
    }

    pub(crate) fn stats(&self) -> FilterStats {
        self.stats.clone()
    }

    /// Leaves in `kept` what is kept. `buffer` is the index of the buffer that it comes from, for the stats.
    fn filter<'a>(&mut self, buffer: Option<usize>, slices: impl Iterator<Item = &'a [u8]>) {
        self.whole.clear();
        slices.for_each(|slice| self.whole.extend_from_slice(slice));
        let result = self.filter.filter(&self.whole, &mut self.kept);
        self.count(self.whole.len(), self.kept.len());
        let dropped = self.whole.len() - self.kept.len();
        self.dropped_in_batch += dropped;
        match (result, buffer) {
            (Err(_), _) => add(&mut self.stats.errors, 1),
            (Ok(()), Some(index)) => {
                let of_buffers = &mut self.stats.bytes_discarded_per_buffer;
                if of_buffers.len() <= index {
                    of_buffers.resize(index + 1, 0);
                }
                if let Some(sum) = of_buffers.get_mut(index) {
                    *sum += dropped as u64;
                }
            }
            (Ok(()), None) => {}
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

    /// A packet from the buffer of this index, or of the service itself. Says if there was room for it.
    #[inline]
    pub(crate) fn put<'b>(
        &mut self,
        buffer: Option<usize>,
        slices: impl Iterator<Item = &'b [u8]>,
        len: usize,
    ) -> bool {
        let Some(filtering) = &mut self.filtering else {
            return put(self.sink, slices, len);
        };
        let start = self.environment.stopwatch_ns();
        filtering.filter(buffer, slices);
        let taken = self.environment.stopwatch_ns().saturating_sub(start);
        add(&mut filtering.stats.time_taken_ns, taken);
        put(self.sink, std::iter::once(filtering.kept.as_slice()), filtering.kept.len())
    }

    /// A packet that goes around the filter, and is counted there nevertheless.
    pub(crate) fn put_unfiltered(&mut self, packet: &[u8]) -> bool {
        if let Some(filtering) = &mut self.filtering {
            filtering.count(packet.len(), packet.len());
        }
        put(self.sink, std::iter::once(packet), packet.len())
    }
}

#[inline]
fn put<'a>(sink: &mut impl PacketSink, slices: impl Iterator<Item = &'a [u8]>, len: usize) -> bool {
    let has_room = sink.make_room(len);
    if has_room {
        sink.packet(slices, len);
    }
    has_room
}
