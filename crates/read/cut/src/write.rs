//! The pass that writes: each packet as it was, with less in it, or not at all.

use std::io::{self, Write};

use ferretto_protos::fields::trace_packet;
use ferretto_protozero::varint;
use ferretto_trace_read::clocks::{Machine, Reading, Snapshot};
use foldhash::fast::RandomState;
use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};

use crate::edit::{self, Rest, Values};
use crate::event::{CounterValues, TrackEvent};
use crate::filter::Filter;
use crate::ftrace::bundle::Bundle;
use crate::ftrace::recut::{Recut, recut};
use crate::ftrace::tail::Tail;
use crate::index::place;
use crate::kind::Kind;
use crate::plan::{Need, Plan};
use crate::walk::{NO_GENERATION, Seen, Walk};

/// The tag of `Trace.packet`.
const PACKET_TAG: u8 = 0x0a;

/// CPUs of all machines, of which the first bundle is known.
const MAX_CPUS: usize = 1 << 14;
/// Sums of counters of differences, of all sequences. Ours: a program has one or two for each thread; what further ones say stays as it is, which
/// is counted.
const MAX_SUMS: usize = 1 << 20;

/// Writes one cut.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    plan: Plan,
    filter: Filter,
    out: W,
    sequences: Vec<Sequence>,
    cpus: HashSet<(u32, u32), RandomState>,
    /// How many there are.
    sums: usize,
    /// What is written next, and what goes into it.
    packet: Vec<u8>,
    data: Vec<u8>,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// What readers of the cut know of a sequence.
#[derive(Debug, Default)]
struct Sequence {
    has_begun: bool,
    /// The generation that [`Self::until`] is of.
    generation: Option<u64>,
    until: Option<u64>,
    /// Clocks of differences: what they show there.
    ticks: Vec<(u32, i64)>,
    counters: HashMap<u64, Sum, RandomState>,
}

/// A counter of differences: what it is, and what it is in the cut.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: i64,
    written: i64,
    double_value: f64,
    double_written: f64,
}

/// What becomes of a packet.
enum Fate {
    Whole,
    Descriptor,
    Counters,
    Less,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(plan: Plan, filter: Filter, out: W) -> Self {
        Self {
            plan,
            filter,
            out,
            sequences: Vec::new(),
            cpus: HashSet::default(),
            sums: 0,
            packet: Vec::new(),
            data: Vec::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// Takes the next packet of the file.
    pub(crate) fn take(&mut self, walk: &mut Walk, seen: &Seen<'_>) -> io::Result<()> {
        self.arrive(walk, seen)?;
        let kind = seen.kind;
        if kind == Kind::Ftrace && seen.is_readable {
            return self.ftrace(walk, seen);
        }
        let is_wanted = !seen.is_readable || self.filter.keeps(walk, seen, kind);
        let fate = if is_wanted { self.fate(walk, kind, seen) } else { Fate::Less };
        if kind == Kind::TrackEvent && seen.is_readable && !walk.incremental.is_empty() {
            return self.event_with_sums(walk, seen, fate);
        }
        match fate {
            Fate::Whole => self.whole(seen, None),
            Fate::Descriptor => self.descriptor(walk, seen),
            // Without counters of differences their values are as they are.
            Fate::Counters => self.counters(walk, seen),
            Fate::Less => self.less(walk, seen),
        }
    }

    /// How often a bound was met.
    pub(crate) fn beyond(&self) -> u64 {
        self.plan.beyond
    }

    /// Writes what is to come after all packets, and ends.
    pub(crate) fn finish(mut self, note: &[u8]) -> io::Result<(u64, u64)> {
        self.tail(|tail, each| tail.write(each))?;
        self.put(note)?;
        self.out.flush()?;
        Ok((self.packets, self.bytes))
    }

    fn fate(&self, walk: &Walk, kind: Kind, seen: &Seen<'_>) -> Fate {
        let range = self.plan.range;
        let ts = match seen.is_readable {
            true => seen.ts,
            // Its time cannot be told without its state: it is near that of the packet before it.
            false => walk.sequences.get(seen.sequence).map(|sequence| sequence.last_ts.unwrap_or(range.from)),
        };
        match kind {
            Kind::Whole => Fate::Whole,
            Kind::Descriptor if seen.is_readable => Fate::Descriptor,
            Kind::Descriptor => Fate::Less,
            Kind::State | Kind::Progress => Fate::Less,
            _ if ts.is_none_or(|ts| range.has(ts)) => Fate::Whole,
            _ => match self.plan.needs(seen.ordinal) {
                Some(Need::Whole) => Fate::Whole,
                Some(Need::Counters) => Fate::Counters,
                Some(Need::Flags) | None => Fate::Less,
            },
        }
    }

    /// Writes bundles of what is needed from outside of the range.
    fn tail(&mut self, write: impl FnOnce(&mut Tail, &mut dyn FnMut(&[u8]))) -> io::Result<()> {
        let mut tail = std::mem::take(&mut self.plan.tail);
        let mut result = Ok(());
        write(&mut tail, &mut |packet| {
            if result.is_ok() {
                result = self.put(packet);
            }
        });
        self.plan.tail = tail;
        result
    }

    fn arrive(&mut self, walk: &Walk, seen: &Seen<'_>) -> io::Result<()> {
        while self.sequences.len() <= seen.sequence {
            self.sequences.push(Sequence::default());
        }
        let generation = place(walk, seen).generation;
        let Some(sequence) = self.sequences.get_mut(seen.sequence) else { return Ok(()) };
        if sequence.generation != Some(generation) {
            let ended = sequence.generation.replace(generation);
            sequence.until = self.plan.until(seen.sequence, generation);
            if let Some(ended) = ended {
                let of = (seen.head.machine_id, seen.head.sequence_id, ended);
                self.tail(|tail, each| tail.write_interned(of, each))?;
            }
        }
        let Some(sequence) = self.sequences.get_mut(seen.sequence) else { return Ok(()) };
        if seen.head.clears_state() {
            self.sums -= sequence.counters.len();
            sequence.counters = HashMap::default();
        }
        if let Some((trace_packet::CLOCK_SNAPSHOT, message)) = seen.head.data {
            sequence.take_snapshot(message, walk.ticks(seen.sequence));
        }
        Ok(())
    }

    fn ftrace(&mut self, walk: &mut Walk, seen: &Seen<'_>) -> io::Result<()> {
        let bundle = seen.head.data.and_then(|(_, data)| Bundle::of(data));
        // What cannot be read is kept, to be told by whoever reads the cut.
        let Some(bundle) = bundle else { return self.whole(seen, None) };
        if let Some(pair) = bundle.pair() {
            walk.add_pair(seen, pair);
        }
        let has_room = self.cpus.len() < MAX_CPUS;
        let is_first = has_room && self.cpus.insert((seen.head.machine_id, bundle.cpu));
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        let result = match recut(&bundle, walk, seen, self.plan.range, is_first, &mut data) {
            Recut::Same => self.whole(seen, None),
            Recut::Less => self.whole(seen, Some((trace_packet::FTRACE_EVENTS, &data))),
            Recut::Nothing => self.less(walk, seen),
        };
        self.data = data;
        result
    }

    /// An event of a trace with counters that say differences.
    fn event_with_sums(&mut self, walk: &Walk, seen: &Seen<'_>, fate: Fate) -> io::Result<()> {
        let Some((_, data)) = seen.head.data else { return self.less(walk, seen) };
        let event = TrackEvent::of(data);
        let defaults = walk.sequences.get(seen.sequence);
        let extra = defaults.map_or(&[][..], |sequence| &sequence.extra_counters);
        let own = event.track_uuid.or_else(|| defaults.and_then(|sequence| sequence.track_uuid));
        let Self { sequences, sums, plan, .. } = self;
        let Some(sequence) = sequences.get_mut(seen.sequence) else { return Ok(()) };
        let said = event.counters();
        for (uuid, value) in said.extra(extra).filter(|(uuid, _)| walk.incremental.contains(uuid)) {
            match sequence.sum(uuid, sums) {
                Some(sum) => sum.value = sum.value.wrapping_add(value),
                None => plan.beyond += 1,
            }
        }
        let own = own.filter(|uuid| walk.incremental.contains(uuid));
        if let Some(own) = own.filter(|_| said.value.is_some() || said.double_value.is_some()) {
            match sequence.sum(own, sums) {
                Some(sum) => {
                    sum.value = sum.value.wrapping_add(said.value.unwrap_or(0));
                    sum.double_value += said.double_value.unwrap_or(0.0);
                }
                None => plan.beyond += 1,
            }
        }
        match fate {
            Fate::Less | Fate::Descriptor => self.less(walk, seen),
            Fate::Counters => self.counters(walk, seen),
            Fate::Whole => {
                let values = sequence.settle(&said, own, extra);
                if values.is_as_was(&said) {
                    return self.whole(seen, None);
                }
                let mut new = std::mem::take(&mut self.data);
                new.clear();
                edit::with_values(data, &values, &mut new);
                let result = self.whole(seen, Some((trace_packet::TRACK_EVENT, &new)));
                self.data = new;
                result
            }
        }
    }

    /// A packet as it was, but for its time if that is a difference, and for other data.
    fn whole(&mut self, seen: &Seen<'_>, data: Option<(u32, &[u8])>) -> io::Result<()> {
        let timestamp = self.timestamp(seen).filter(|timestamp| Some(*timestamp) != seen.head.timestamp);
        self.begin(seen);
        if timestamp.is_none() && data.is_none() {
            return self.put(seen.bytes);
        }
        self.edited(|packet| edit::replace(seen.bytes, timestamp, data, packet))
    }

    /// The further counters of an event, without the event.
    fn counters(&mut self, walk: &Walk, seen: &Seen<'_>) -> io::Result<()> {
        self.less(walk, seen)?;
        let Some((_, data)) = seen.head.data else { return Ok(()) };
        let event = TrackEvent::of(data);
        let extra = walk.sequences.get(seen.sequence).map_or(&[][..], |sequence| &sequence.extra_counters);
        for (uuid, value) in event.counters().extra(extra) {
            let timestamp = self.timestamp(seen);
            let Some(sequence) = self.sequences.get_mut(seen.sequence) else { continue };
            let value = match walk.incremental.contains(&uuid) {
                true => sequence.counters.get_mut(&uuid).map_or(value, Sum::settle),
                false => value,
            };
            self.edited(|packet| edit::counter_packet(seen.bytes, timestamp, uuid, value, packet))?;
        }
        Ok(())
    }

    /// What later packets rely on, and what says that others are missing.
    fn less(&mut self, walk: &Walk, seen: &Seen<'_>) -> io::Result<()> {
        let rest = self.rest(walk, seen);
        let is_first = self.begin(seen);
        let head = &seen.head;
        if rest.is_nothing() && !is_first && head.previous_packet_dropped == 0 && !head.is_first_on_sequence {
            return Ok(());
        }
        self.edited(|packet| edit::strip(seen.bytes, rest, packet))
    }

    /// A track's descriptor, without its time: nothing hangs on that.
    fn descriptor(&mut self, walk: &Walk, seen: &Seen<'_>) -> io::Result<()> {
        let rest = self.rest(walk, seen);
        self.begin(seen);
        self.edited(|packet| edit::descriptor(seen.bytes, rest, packet))
    }

    /// What remains of it without its data.
    fn rest(&self, walk: &Walk, seen: &Seen<'_>) -> Rest {
        let is_counted = seen.head.needs_state() && self.plan.needs(seen.ordinal).is_some();
        Rest { state: self.carries_state(walk, seen), needs_state: is_counted }
    }

    /// Whether something that is kept relies on what this says.
    fn carries_state(&self, walk: &Walk, seen: &Seen<'_>) -> bool {
        let head = &seen.head;
        let carries = head.clears_state() || head.interned_data.is_some() || head.defaults.is_some();
        let until = self.sequences.get(seen.sequence).and_then(|sequence| sequence.until);
        carries
            && place(walk, seen).generation != NO_GENERATION
            && until.is_some_and(|until| seen.ordinal <= until)
    }

    fn edited(&mut self, edit: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        edit(&mut packet);
        let result = self.put(&packet);
        self.packet = packet;
        result
    }

    /// Of each sequence something is written: one that a service has counted, and of which nothing is there, would seem lost.
    fn begin(&mut self, seen: &Seen<'_>) -> bool {
        let Some(sequence) = self.sequences.get_mut(seen.sequence) else { return false };
        !std::mem::replace(&mut sequence.has_begun, true) && seen.head.sequence_id != 0
    }

    /// The time to write: a difference is that from the last packet that was written.
    fn timestamp(&mut self, seen: &Seen<'_>) -> Option<u64> {
        let Some((clock, shows)) = seen.tick else { return seen.head.timestamp };
        let sequence = self.sequences.get_mut(seen.sequence)?;
        let Some((_, written)) = sequence.ticks.iter_mut().find(|(id, _)| *id == clock) else {
            return seen.head.timestamp;
        };
        let difference = shows.wrapping_sub(*written);
        *written = shows;
        Some(difference as u64)
    }

    fn put(&mut self, packet: &[u8]) -> io::Result<()> {
        self.bytes += put(&mut self.out, packet)?;
        self.packets += 1;
        Ok(())
    }
}

/// Writes a packet of a trace; says how many bytes that were.
pub(crate) fn put(out: &mut impl Write, packet: &[u8]) -> io::Result<u64> {
    let (word, len) = varint::word(packet.len() as u64);
    let word = word.to_le_bytes();
    out.write_all(&[PACKET_TAG])?;
    out.write_all(word.get(..len).unwrap_or_default())?;
    out.write_all(packet)?;
    Ok((1 + len + packet.len()) as u64)
}

impl Sum {
    /// The difference to write.
    fn settle(&mut self) -> i64 {
        let difference = self.value.wrapping_sub(self.written);
        self.written = self.value;
        difference
    }
}

impl Sequence {
    /// What a counter is; nothing if there are too many.
    fn sum(&mut self, uuid: u64, sums: &mut usize) -> Option<&mut Sum> {
        match self.counters.entry(uuid) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(new) if *sums < MAX_SUMS => {
                *sums += 1;
                Some(new.insert(Sum::default()))
            }
            Entry::Vacant(_) => None,
        }
    }

    /// The clocks in it, which say what they show. Others go on from the last packet that was written.
    fn take_snapshot(&mut self, message: &[u8], ticks: &[(u32, i64)]) {
        for Reading { clock, .. } in Snapshot::read(message, 0, Machine(0)).readings {
            let Some(tick) = ticks.iter().find(|(id, _)| *id == clock.id) else { continue };
            match self.ticks.iter_mut().find(|(id, _)| *id == clock.id) {
                Some(known) => *known = *tick,
                None => self.ticks.push(*tick),
            }
        }
    }

    fn settle(&mut self, said: &CounterValues, own: Option<u64>, extra: &[u64]) -> Values {
        let mut values = Values::default();
        if let Some(sum) = own.and_then(|own| self.counters.get_mut(&own)) {
            if said.value.is_some() {
                values.value = Some(sum.settle());
            }
            if said.double_value.is_some() {
                values.double_value = Some(sum.double_value - sum.double_written);
                sum.double_written = sum.double_value;
            }
        }
        if !said.extra_values.as_slice().is_empty() {
            let mut all: Vec<i64> = said.extra_values.as_slice().iter().map(|value| *value as i64).collect();
            for (slot, (uuid, value)) in all.iter_mut().zip(said.extra(extra)) {
                *slot = self.counters.get_mut(&uuid).map_or(value, Sum::settle);
            }
            values.extra = Some(all);
        }
        values
    }
}

impl Values {
    fn is_as_was(&self, said: &CounterValues) -> bool {
        let as_was = |value: &i64, was: &u64| *value == *was as i64;
        let was = said.extra_values.as_slice();
        (self.value.is_none() || self.value == said.value)
            && (self.double_value.is_none() || self.double_value == said.double_value)
            && self
                .extra
                .as_ref()
                .is_none_or(|new| new.iter().zip(was).all(|(value, was)| as_was(value, was)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_counters_are_bounded() {
        let (mut sequence, mut sums) = (Sequence::default(), MAX_SUMS - 10);
        assert_eq!((0..100).filter(|uuid| sequence.sum(*uuid, &mut sums).is_some()).count(), 10);
        assert!(sequence.sum(9, &mut sums).is_some(), "known ones go on");
        assert_eq!(sums, MAX_SUMS);
    }
}
