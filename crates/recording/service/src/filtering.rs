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
    /// What it has taken in this batch; see [`limits::FILTER_TIME`].
    taken_ns: u64,
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
            taken_ns: 0,
        }
    }

    pub(crate) fn begin_batch(&mut self) {
        self.dropped_in_batch = 0;
        self.may_spend = limits::FILTER_COST;
        self.taken_ns = 0;
    }

    /// A packet is done with, and has gone on. Memory is kept for those of usual size.
    fn release(&mut self) {
        self.whole.clear();
        self.kept.clear();
        self.whole.shrink_to(limits::KEEP_PACKET_BYTES);
        self.kept.shrink_to(limits::KEEP_PACKET_BYTES);
    }

    /// A packet that takes longer than a batch, and what is kept of it.
    pub(crate) fn held_bytes(&self) -> usize {
        self.whole.len() + self.kept.len()
    }

    /// Nobody wants the packet any more that it is not done with.
    pub(crate) fn give_up(&mut self) {
        self.unfinished = None;
        self.release();
    }

    /// Whether there is a packet that it goes on with.
    pub(crate) fn is_within_packet(&self) -> bool {
        self.unfinished.is_some()
    }

    /// The same of one that clones do not take along.
    pub(crate) fn is_within_large_packet(&self) -> bool {
        self.is_within_packet() && self.whole.len() > limits::MAX_CARRIED_PACKET_BYTES
    }

    /// That which clones take along, as it came, with the buffer that it comes from.
    pub(crate) fn small_packet(&self) -> Option<(Option<usize>, Vec<u8>)> {
        let (buffer, _) = self.unfinished.as_ref()?;
        (!self.is_within_large_packet()).then(|| (*buffer, self.whole.clone()))
    }

    pub(crate) fn stats(&self) -> FilterStats {
        self.stats.clone()
    }

    /// Begins with a packet. `buffer` is the index of the buffer that it comes from, for the stats; the service's own come from none.
    fn begin<'a>(&mut self, buffer: Option<usize>, slices: impl Iterator<Item = &'a [u8]>) {
        self.whole.clear();
        slices.for_each(|slice| self.whole.extend_from_slice(slice));
        let run = self.filter.begin(&self.whole, &mut self.kept);
        self.unfinished = Some((buffer, run));
    }

    /// Goes on with the packet that is not done, and leaves in `kept` what is kept. Says whether it is done: a packet may take longer than
    /// a batch. `is_late` looks at the clock.
    fn go_on(&mut self, mut is_late: impl FnMut() -> bool) -> bool {
        let Some((buffer, mut run)) = self.unfinished.take() else { return true };
        loop {
            let mut part = self.may_spend.min(limits::FILTER_COST_BETWEEN_LOOKS);
            self.may_spend -= part;
            let result = self.filter.go_on(&mut run, &self.whole, &mut self.kept, &mut part);
            self.may_spend += part;
            if !matches!(result, Ok(false)) {
                self.conclude(buffer, result.is_ok());
                return true;
            }
            if is_late() {
                self.may_spend = 0;
            }
            if self.may_spend == 0 {
                self.unfinished = Some((buffer, run));
                return false;
            }
        }
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
            Some(_) => self.filter(|filtering| filtering.begin(buffer, slices)),
        }
    }

    /// Goes on with a packet that takes longer than a batch, if there is one.
    pub(crate) fn put_unfinished(&mut self) -> Put {
        match self.filtering.as_deref().is_some_and(Filtering::is_within_packet) {
            true => self.filter(|_| ()),
            false => Put::Done,
        }
    }

    /// Begins with a packet, if there is not one that it goes on with.
    fn filter(&mut self, begin: impl FnOnce(&mut Filtering)) -> Put {
        let Some(filtering) = &mut self.filtering else { return Put::Done };
        let start = self.environment.stopwatch_ns();
        let was_within = filtering.is_within_packet();
        begin(filtering);
        if !was_within && filtering.whole.len() > limits::MAX_FILTERED_AT_ONCE_BYTES {
            // It was copied just now, and what is kept of it is the next copy.
            filtering.may_spend = 0;
            return Put::Unfinished;
        }
        let before = filtering.taken_ns;
        let time = u64::try_from(limits::FILTER_TIME.as_nanos()).unwrap_or(u64::MAX);
        let mut taken = || self.environment.stopwatch_ns().saturating_sub(start);
        let is_done = filtering.go_on(|| before.saturating_add(taken()) >= time);
        let taken = taken();
        add(&mut filtering.stats.time_taken_ns, taken);
        filtering.taken_ns = before.saturating_add(taken);
        if filtering.taken_ns >= time {
            filtering.may_spend = 0;
        }
        if !is_done {
            return Put::Unfinished;
        }
        // Before there is a second one of what may be many megabytes.
        filtering.whole.clear();
        filtering.whole.shrink_to(limits::KEEP_PACKET_BYTES);
        let len = filtering.kept.len();
        let put = match self.sink.make_room(len) {
            true => {
                self.sink.owned_packet(&mut filtering.kept);
                Put::Done
            }
            false => Put::NoRoom,
        };
        filtering.release();
        put
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

#[cfg(test)]
mod tests {
    use ferretto_shm::SharedMemory;
    use ferretto_trace_filter::{Bytecode, BytecodeBuilder, Policy, Rule, StringFilter};

    use super::*;
    use crate::ids::FileHandle;

    /// Each look at its clock takes so long.
    struct SlowClock {
        step_ns: u64,
        now_ns: u64,
    }

    impl Environment for SlowClock {
        fn allocate_memory(&mut self, _len: usize) -> Result<Arc<SharedMemory>, String> {
            Err("there is none".to_owned())
        }

        fn random_u64(&mut self) -> u64 {
            0
        }

        fn create_output(&mut self, _path: &str) -> Result<FileHandle, String> {
            Err("there are none".to_owned())
        }

        fn stopwatch_ns(&mut self) -> u64 {
            self.now_ns += self.step_ns;
            self.now_ns
        }
    }

    /// Keeps the sizes of packets.
    #[derive(Default)]
    struct Sizes(Vec<usize>);

    impl PacketSink for Sizes {
        fn packet<'a>(&mut self, _slices: impl Iterator<Item = &'a [u8]>, len: usize) {
            self.0.push(len);
        }

        fn len(&self) -> usize {
            self.0.iter().sum()
        }

        fn make_room(&mut self, _len: usize) -> bool {
            true
        }
    }

    /// Keeps field 1, and field 2 by so many rules that match nothing.
    fn filtering(rules: usize) -> Filtering {
        let mut builder = BytecodeBuilder::new();
        let root = builder.message();
        builder.keep(root, 1).string(root, 2, 0);
        let built = builder.build().unwrap();
        let program = Bytecode::parse(&built.bytecode_v2, &built.bytecode_overlay_v54).unwrap();
        let mut strings = StringFilter::default();
        for _ in 0..rules {
            let rule =
                Rule { policy: Policy::MatchRedactGroups, pattern: "(?:a{20}|b){4}c", ..Rule::default() };
            strings.add(&rule).unwrap();
        }
        Filtering::new(Arc::new(MessageFilter::new(program, strings)))
    }

    fn message(field: u32, len: usize) -> Vec<u8> {
        let mut message = Vec::new();
        ferretto_protozero::Message::new(&mut message).bytes(field, &vec![b'x'; len]);
        message
    }

    #[test]
    fn memory_of_a_large_packet_is_not_kept_behind_it() {
        let (mut filtering, mut sink) = (Some(filtering(0)), Sizes::default());
        let mut environment = SlowClock { step_ns: 0, now_ns: 0 };
        let packet = message(1, 8 << 20);
        filtering.as_mut().unwrap().begin_batch();
        let mut outlet = Outlet::new(&mut sink, &mut filtering, &mut environment);
        assert_eq!(outlet.put(None, std::iter::once(packet.as_slice()), packet.len()), Put::Done);
        assert_eq!(sink.0, [packet.len()]);
        let filtering = filtering.unwrap();
        assert!(filtering.whole.capacity() <= limits::KEEP_PACKET_BYTES, "{}", filtering.whole.capacity());
        assert!(filtering.kept.capacity() <= limits::KEEP_PACKET_BYTES, "{}", filtering.kept.capacity());
    }

    /// To copy it twice takes as long as others should wait.
    #[test]
    fn a_large_packet_is_filtered_in_the_batch_after_the_one_that_takes_it() {
        let (mut filtering, mut sink) = (Some(filtering(0)), Sizes::default());
        let mut environment = SlowClock { step_ns: 0, now_ns: 0 };
        let packet = message(1, limits::MAX_FILTERED_AT_ONCE_BYTES);
        filtering.as_mut().unwrap().begin_batch();
        let mut outlet = Outlet::new(&mut sink, &mut filtering, &mut environment);
        let put = outlet.put(None, std::iter::once(packet.as_slice()), packet.len());
        assert_eq!((put, outlet.is_spent()), (Put::Unfinished, true));
        assert_eq!(filtering.as_ref().unwrap().held_bytes(), packet.len(), "nothing is kept yet");
        filtering.as_mut().unwrap().begin_batch();
        let put = Outlet::new(&mut sink, &mut filtering, &mut environment).put_unfinished();
        assert_eq!((put, sink.0), (Put::Done, vec![packet.len()]));
    }

    #[test]
    fn what_takes_long_makes_way_whatever_it_costs() {
        for (step_ns, batches) in [(0, 1), (limits::FILTER_TIME.as_nanos() as u64, 4)] {
            let (mut filtering, mut sink) = (Some(filtering(10)), Sizes::default());
            let mut environment = SlowClock { step_ns, now_ns: 0 };
            let packet = message(2, 2000);
            filtering.as_mut().unwrap().begin_batch();
            let mut outlet = Outlet::new(&mut sink, &mut filtering, &mut environment);
            let mut put = outlet.put(Some(0), std::iter::once(packet.as_slice()), packet.len());
            let mut count = 1;
            while put == Put::Unfinished {
                filtering.as_mut().unwrap().begin_batch();
                put = Outlet::new(&mut sink, &mut filtering, &mut environment).put_unfinished();
                count += 1;
            }
            assert_eq!((put, count >= batches, count == 1), (Put::Done, true, batches == 1), "{count}");
        }
    }
}
