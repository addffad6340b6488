//! Accounts as packets (upstream: bookkeeping_dump.cc, heapprofd_producer.cc). A dump is one or more `ProfilePacket`s, all but the last of which say that it goes
//! on, each with what was not said before of names, files, frames and stacks.

use ferretto_producer::TraceWriter;
use ferretto_protos::fields::profile_packet::{heap_sample, process_heap_samples, process_stats};
use ferretto_protos::fields::{profile_packet, trace_packet};
use ferretto_protozero::Message;
use ferretto_sys::{KernelClock, clock_ns};

use super::account::{Account, Amount, Site};
use super::stacks::Stacks;
use crate::packets::{Interner, NEEDS_STATE, Stack};

/// A packet is ended when it has so many bytes: it has to go through shared memory (upstream's: 400,000).
const PACKET_BYTES: usize = 100_000;

/// What was said on a sequence.
#[derive(Debug, Default)]
pub(crate) struct Dumper {
    interner: Interner,
    /// The numbers that stacks have there, from 1; 0 if they were not said.
    said: Vec<u64>,
    packets: u64,
}

/// A part of a dump, for one packet.
#[derive(Debug, Default)]
struct Part {
    /// Names, files, frames and stacks that were not said before.
    said: Vec<u8>,
    samples: Vec<Vec<u8>>,
    sample_bytes: usize,
}

impl Part {
    fn push(&mut self, sample: Vec<u8>) {
        self.sample_bytes += sample.len();
        self.samples.push(sample);
    }
}

/// Of what a dump is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub(crate) pid: u32,
    pub(crate) heap: &'a str,
    pub(crate) from_startup: bool,
    pub(crate) interval_bytes: u64,
    /// When it begins and when it is, by the coarse clock.
    pub(crate) start_ns: u64,
    pub(crate) time_ns: u64,
    /// The state at the maximum.
    pub(crate) at_max: bool,
    /// There will be no other one of this process.
    pub(crate) is_last: bool,
    pub(crate) is_broken: bool,
    pub(crate) samples_lost: bool,
    pub(crate) samples: u64,
    pub(crate) unwinding_errors: u64,
    pub(crate) unwinding_us: u64,
}

impl Dumper {
    /// Readers begin anew.
    pub(crate) fn begin(&mut self, writer: &mut TraceWriter) {
        self.said.clear();
        self.interner.begin_heap(&mut writer.new_packet());
    }

    /// One process's account.
    pub(crate) fn dump(
        &mut self,
        writer: &mut TraceWriter,
        account: &mut Account,
        stacks: &Stacks,
        of: &Of<'_>,
    ) {
        let mut part = Part::default();
        for (stack, site) in account.take_new() {
            let at_max = of.at_max.then(|| account.at_maximum(&site));
            if at_max.is_some_and(|amount| amount.bytes == 0) {
                continue;
            }
            if part.said.len() + part.sample_bytes >= PACKET_BYTES {
                self.packet(writer, of, &std::mem::take(&mut part), true);
            }
            let number = self.number(stacks, stack, &mut part.said);
            part.push(sample(number, &site, at_max));
        }
        self.packet(writer, of, &part, false);
    }

    fn packet(&mut self, writer: &mut TraceWriter, of: &Of<'_>, part: &Part, continued: bool) {
        let mut packet = writer.new_packet();
        packet.varint(trace_packet::TIMESTAMP, clock_ns(KernelClock::Boot));
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_STATE);
        if !part.said.is_empty() {
            packet.bytes(trace_packet::INTERNED_DATA, &part.said);
        }
        let mut profile = packet.nested(trace_packet::PROFILE_PACKET);
        profile.varint(profile_packet::INDEX, self.packets);
        self.packets += 1;
        if continued {
            profile.bool(profile_packet::CONTINUED, true);
        }
        let mut dump = profile.nested(profile_packet::PROCESS_DUMPS);
        dump.varint(process_heap_samples::PID, of.pid.into());
        dump.bool(process_heap_samples::FROM_STARTUP, of.from_startup);
        dump.string(process_heap_samples::HEAP_NAME, of.heap);
        dump.varint(process_heap_samples::SAMPLING_INTERVAL_BYTES, of.interval_bytes);
        dump.varint(process_heap_samples::ORIG_SAMPLING_INTERVAL_BYTES, of.interval_bytes);
        dump.varint(process_heap_samples::START_TIMESTAMP, of.start_ns);
        dump.varint(process_heap_samples::TIMESTAMP, of.time_ns);
        part.samples.iter().for_each(|sample| dump.bytes(process_heap_samples::SAMPLES, sample));
        // Readers add these up over dumps: they are in the last part of the last one.
        if continued || !of.is_last {
            return;
        }
        for (field, is_so) in [
            (process_heap_samples::DISCONNECTED, true),
            (process_heap_samples::BUFFER_CORRUPTED, of.is_broken),
            (process_heap_samples::BUFFER_OVERRAN, of.samples_lost),
        ] {
            if is_so {
                dump.bool(field, true);
            }
        }
        let mut stats = dump.nested(process_heap_samples::STATS);
        stats.varint(process_stats::HEAP_SAMPLES, of.samples);
        stats.varint(process_stats::UNWINDING_ERRORS, of.unwinding_errors);
        stats.varint(process_stats::TOTAL_UNWINDING_TIME_US, of.unwinding_us);
    }

    /// The number of a stack, which is said if it was not.
    fn number(&mut self, stacks: &Stacks, stack: u32, said: &mut Vec<u8>) -> u64 {
        let at = stack as usize;
        if let Some(known) = self.said.get(at).filter(|number| **number != 0) {
            return *known;
        }
        let user = stacks.frames(stack).rev().cloned().collect();
        let number = self.interner.number(&Stack { user, kernel: Vec::new() }, said);
        if self.said.len() <= at {
            self.said.resize(at + 1, 0);
        }
        if let Some(place) = self.said.get_mut(at) {
            *place = number;
        }
        number
    }
}

fn sample(number: u64, site: &Site, at_max: Option<Amount>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.varint(heap_sample::CALLSTACK_ID, number);
    match at_max {
        Some(amount) => {
            message.varint(heap_sample::SELF_MAX, amount.bytes);
            message.varint(heap_sample::SELF_MAX_COUNT, amount.samples);
        }
        None => {
            message.varint(heap_sample::SELF_ALLOCATED, site.allocated.bytes);
            message.varint(heap_sample::SELF_FREED, site.freed.bytes);
            message.varint(heap_sample::ALLOC_COUNT, site.allocated.samples);
            message.varint(heap_sample::FREE_COUNT, site.freed.samples);
        }
    }
    drop(message);
    bytes
}
