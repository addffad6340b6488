//! Samples as packets: every name, file, frame and stack is said once (upstream: perf_producer.cc, interning_output.cc).

use std::hash::Hash;
use std::sync::Arc;

use ferretto_protos::fields::{
    callstack, frame, interned_data, interned_string, mapping, perf_sample, perf_sample_defaults,
    process_tree, trace_packet, trace_packet_defaults,
};
use ferretto_protos::profiling::StackUnwindError;
use ferretto_protozero::{Message, Sink};
use ferretto_symbols::Elf;
use ferretto_unwind::{End, Mapping};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use prost::Message as _;

use crate::config::Wanted;
use crate::modules::Module;
use crate::processes::Frame;
use crate::records::Stamp;
use crate::scope::Shard;

/// Of `sequence_flags`: what was said before is forgotten; and: this packet relies on what was said.
const STATE_CLEARED: u64 = 1;
pub(crate) const NEEDS_STATE: u64 = 2;
/// The number of the empty text.
const EMPTY: u64 = 0;
/// PROFILER_SKIP_NOT_IN_SCOPE of `PerfSample.SampleSkipReason`.
const NOT_IN_SCOPE: u64 = 4;
/// Stacks that are remembered: beyond, all is said anew. A program has some thousand to some ten thousand.
const MAX_STACKS: usize = 200_000;
/// Bytes of all that was said: a stack may have a thousand frames that no other has, each with a name of its own.
const MAX_SAID_BYTES: usize = 64 << 20;
/// The kernel, as readers of traces know it: a path of this one part, and nothing else (trace_processor: a mapping is the kernel's by this).
const KERNEL_PATH: &str = "kernel";
/// Code that is in no file: what a compiler has made while the program runs.
const NO_FILE_PATH: &str = "[anon]";

/// A stack with its names, outermost frame first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    pub(crate) user: Vec<Frame>,
    /// Names of the kernel's functions, or their addresses.
    pub(crate) kernel: Vec<String>,
}

/// What was said on a sequence.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    names: Numbers<String>,
    paths: Numbers<String>,
    build_ids: Numbers<Box<[u8]>>,
    mappings: Numbers<MappingKey>,
    frames: Numbers<FrameKey>,
    stacks: Numbers<Box<[u64]>>,
    said_bytes: usize,
}

/// Files, places in them, and where that is mapped. Nothing is the kernel.
type MappingKey = Option<(Option<u32>, u64, u64, u64)>;
/// A mapping, an address, a name.
type FrameKey = (u64, u64, u64);

/// Numbers of things, from 1.
#[derive(Debug)]
struct Numbers<T>(HashMap<T, u64, RandomState>);

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T: Eq + Hash> Numbers<T> {
    /// The number, and whether it is new.
    fn of(&mut self, it: T) -> (u64, bool) {
        let next = self.0.len() as u64 + 1;
        let number = *self.0.entry(it).or_insert(next);
        (number, number == next && self.0.len() as u64 == next)
    }
}

/// What a sample's packet has to say before the sample: the fields of `InternedData`.
type Said = Vec<u8>;

impl Interner {
    /// The packet that begins a sequence, or has its readers begin anew: all else is said again.
    pub(crate) fn begin(
        &mut self,
        packet: &mut Message<'_, impl Sink>,
        (wanted, shard): (&Wanted, Option<Shard>),
    ) {
        *self = Self::default();
        packet.varint(trace_packet::SEQUENCE_FLAGS, STATE_CLEARED);
        let mut defaults = packet.nested(trace_packet::TRACE_PACKET_DEFAULTS);
        defaults.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, wanted.clock().1 as u64);
        let mut samples = defaults.nested(trace_packet_defaults::PERF_SAMPLE_DEFAULTS);
        samples.bytes(perf_sample_defaults::TIMEBASE, &wanted.timebase.encode_to_vec());
        if let Some(Shard { count, chosen }) = shard {
            samples.varint(perf_sample_defaults::PROCESS_SHARD_COUNT, count.into());
            samples.varint(perf_sample_defaults::CHOSEN_PROCESS_SHARD, chosen.into());
        }
    }

    /// The same for dumps of heaps, which have nothing but names, files, frames and stacks.
    pub(crate) fn begin_heap(&mut self, packet: &mut Message<'_, impl Sink>) {
        *self = Self::default();
        packet.varint(trace_packet::SEQUENCE_FLAGS, STATE_CLEARED);
    }

    /// The number of a stack; what has to be said of it first is added to `said`.
    pub(crate) fn number(&mut self, stack: &Stack, said: &mut Vec<u8>) -> u64 {
        self.stack(stack, said)
    }

    /// There is so much that it is better to begin anew.
    pub(crate) fn is_full(&self) -> bool {
        self.stacks.0.len() >= MAX_STACKS || self.said_bytes >= MAX_SAID_BYTES
    }

    /// A sample.
    pub(crate) fn sample(
        &mut self,
        packet: &mut Message<'_, impl Sink>,
        (stamp, cpu_mode): (Stamp, u16),
        stack: &Stack,
        end: Option<End>,
    ) {
        let mut said = Said::new();
        let number = self.stack(stack, &mut said);
        self.said_bytes += said.len();
        packet.varint(trace_packet::TIMESTAMP, stamp.time_ns);
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_STATE);
        if !said.is_empty() {
            packet.bytes(trace_packet::INTERNED_DATA, &said);
        }
        let mut sample = packet.nested(trace_packet::PERF_SAMPLE);
        whose(&mut sample, stamp, cpu_mode);
        sample.varint(perf_sample::CALLSTACK_IID, number);
        let error = match end {
            None | Some(End::Root) => return,
            Some(End::Copy) => StackUnwindError::UnwindErrorMemoryInvalid,
            Some(End::Lost) => StackUnwindError::UnwindErrorUnwindInfo,
            Some(End::TooMany) => StackUnwindError::UnwindErrorMaxFramesExceeded,
        };
        sample.varint(perf_sample::UNWIND_ERROR, error as u64);
    }

    /// A sample whose stack is not wanted.
    pub(crate) fn out_of_scope(packet: &mut Message<'_, impl Sink>, (stamp, cpu_mode): (Stamp, u16)) {
        packet.varint(trace_packet::TIMESTAMP, stamp.time_ns);
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_STATE);
        let mut sample = packet.nested(trace_packet::PERF_SAMPLE);
        whose(&mut sample, stamp, cpu_mode);
        sample.varint(perf_sample::SAMPLE_SKIPPED_REASON, NOT_IN_SCOPE);
    }

    /// So many records had no room in the ring of a processor.
    pub(crate) fn lost(packet: &mut Message<'_, impl Sink>, stamp: Stamp, records: u64) {
        packet.varint(trace_packet::TIMESTAMP, stamp.time_ns);
        let mut sample = packet.nested(trace_packet::PERF_SAMPLE);
        sample.varint(perf_sample::CPU, stamp.cpu.into());
        sample.varint(perf_sample::KERNEL_RECORDS_LOST, records);
    }

    /// What a thread is called, and so its process, if it is the main one.
    pub(crate) fn name_thread(
        packet: &mut Message<'_, impl Sink>,
        stamp: Stamp,
        parent_pid: u32,
        name: &[u8],
    ) {
        packet.varint(trace_packet::TIMESTAMP, stamp.time_ns);
        let mut tree = packet.nested(trace_packet::PROCESS_TREE);
        if stamp.tid == stamp.pid {
            let mut process = tree.nested(process_tree::PROCESSES);
            process.varint(process_tree::process::PID, stamp.pid.into());
            process.varint(process_tree::process::PPID, parent_pid.into());
            process.bytes(process_tree::process::CMDLINE, name);
            process.bool(process_tree::process::CMDLINE_IS_COMM, true);
        }
        let mut thread = tree.nested(process_tree::THREADS);
        thread.varint(process_tree::thread::TID, stamp.tid.into());
        thread.varint(process_tree::thread::TGID, stamp.pid.into());
        thread.bytes(process_tree::thread::NAME, name);
    }

    fn stack(&mut self, stack: &Stack, said: &mut Said) -> u64 {
        let user = stack.user.iter().map(|frame| self.frame(frame, said)).collect::<Vec<_>>();
        let kernel = stack.kernel.iter().map(|name| self.kernel_frame(name, said)).collect::<Vec<_>>();
        let frames: Box<[u64]> = user.into_iter().chain(kernel).collect();
        let (number, is_new) = self.stacks.of(frames.clone());
        if is_new {
            let mut data = Message::new(said);
            let mut message = data.nested(interned_data::CALLSTACKS);
            message.varint(callstack::IID, number);
            frames.iter().for_each(|frame| message.varint(callstack::FRAME_IDS, *frame));
        }
        number
    }

    fn frame(&mut self, its: &Frame, said: &mut Said) -> u64 {
        let name = its.name().map_or(EMPTY, |name| self.name(name, said));
        let mapping = self.mapping(its.mapping.as_ref(), said);
        self.number_frame((mapping, its.address, name), said)
    }

    fn kernel_frame(&mut self, name: &str, said: &mut Said) -> u64 {
        let name = self.name(name, said);
        let (mapping, is_new) = self.mappings.of(None);
        if is_new {
            let path = self.path(KERNEL_PATH, said);
            let mut data = Message::new(said);
            let mut message = data.nested(interned_data::MAPPINGS);
            message.varint(mapping::IID, mapping);
            message.varint(mapping::PATH_STRING_IDS, path);
        }
        self.number_frame((mapping, 0, name), said)
    }

    fn number_frame(&mut self, key: FrameKey, said: &mut Said) -> u64 {
        let (number, is_new) = self.frames.of(key);
        if is_new {
            let (mapping, address, name) = key;
            let mut data = Message::new(said);
            let mut message = data.nested(interned_data::FRAMES);
            message.varint(frame::IID, number);
            message.varint(frame::FUNCTION_NAME_ID, name);
            message.varint(frame::MAPPING_ID, mapping);
            message.varint(frame::REL_PC, address);
        }
        number
    }

    fn mapping(&mut self, its: Option<&Mapping<Arc<Module>>>, said: &mut Said) -> u64 {
        let key = its.map_or((None, 0, 0, 0), |its| (Some(its.file.number), its.start, its.end, its.offset));
        let (number, is_new) = self.mappings.of(Some(key));
        if !is_new {
            return number;
        }
        let path = its.map_or(NO_FILE_PATH, |its| &its.file.path);
        let parts: Vec<u64> =
            path.split('/').filter(|part| !part.is_empty()).map(|part| self.path(part, said)).collect();
        let build_id =
            its.and_then(|its| its.file.build_id.as_deref()).map_or(EMPTY, |id| self.build_id(id, said));
        let mut data = Message::new(said);
        let mut message = data.nested(interned_data::MAPPINGS);
        message.varint(mapping::IID, number);
        message.varint(mapping::BUILD_ID, build_id);
        if let Some(its) = its {
            // Where the ELF file begins in the file that is mapped (`start_offset`) is not said: it is 0 but in archives, which are not looked into.
            message.varint(mapping::EXACT_OFFSET, its.offset);
            message.varint(mapping::START, its.start);
            message.varint(mapping::END, its.end);
            if let Some(bias) = its.file.elf().and_then(|elf| load_bias(elf, its.offset)) {
                message.varint(mapping::LOAD_BIAS, bias);
            }
        }
        parts.iter().for_each(|part| message.varint(mapping::PATH_STRING_IDS, *part));
        number
    }

    fn name(&mut self, name: &str, said: &mut Said) -> u64 {
        let (number, is_new) = self.names.of(name.to_owned());
        if is_new {
            say(said, interned_data::FUNCTION_NAMES, number, name.as_bytes());
        }
        number
    }

    fn path(&mut self, part: &str, said: &mut Said) -> u64 {
        let (number, is_new) = self.paths.of(part.to_owned());
        if is_new {
            say(said, interned_data::MAPPING_PATHS, number, part.as_bytes());
        }
        number
    }

    fn build_id(&mut self, id: &[u8], said: &mut Said) -> u64 {
        let (number, is_new) = self.build_ids.of(id.into());
        if is_new {
            say(said, interned_data::BUILD_IDS, number, id);
        }
        number
    }
}

/// What is added to places in the file to make addresses of them. Addresses of frames have it already; symbolizers that do not find it add it again
/// (upstream: local_symbolizer.cc, `ComputeUserSpaceAddressCorrection`), and end if it is negative.
fn load_bias(elf: &Elf, offset: u64) -> Option<u64> {
    elf.address_of(offset)?.checked_sub(offset).filter(|bias| *bias > 0)
}

/// Where and in what a sample was taken.
fn whose(sample: &mut Message<'_, impl Sink>, stamp: Stamp, cpu_mode: u16) {
    sample.varint(perf_sample::CPU, stamp.cpu.into());
    sample.varint(perf_sample::PID, stamp.pid.into());
    sample.varint(perf_sample::TID, stamp.tid.into());
    sample.varint(perf_sample::CPU_MODE, cpu_mode.into());
}

fn say(said: &mut Said, field: u32, number: u64, text: &[u8]) {
    let mut data = Message::new(said);
    let mut message = data.nested(field);
    message.varint(interned_string::IID, number);
    message.bytes(interned_string::STR, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::Looks;
    use crate::modules::Modules;

    #[test]
    fn names_without_an_end_have_all_begin_anew() {
        let mut interner = Interner::default();
        let mut samples = 0;
        while !interner.is_full() {
            let name = format!("{samples}{}", "x".repeat(1 << 20));
            let stack = Stack { user: Vec::new(), kernel: vec![name] };
            let mut packet = Vec::new();
            interner.sample(&mut Message::new(&mut packet), (Stamp::default(), 1), &stack, None);
            samples += 1;
        }
        assert_eq!(samples, MAX_SAID_BYTES >> 20);
        let wanted = Wanted::of(&ferretto_protos::PerfEventConfig::default()).unwrap();
        interner.begin(&mut Message::new(&mut Vec::new()), (&wanted, None));
        assert!(!interner.is_full());
    }

    #[test]
    fn a_mapping_says_what_addresses_of_its_file_have_that_places_in_it_have_not() {
        let path = std::env::current_exe().unwrap();
        let path = path.to_str().unwrap().as_bytes();
        let mut looks = Looks::default();
        let own = looks.identify(std::process::id()).unwrap().unwrap();
        let file = Modules::default().find(own, path, None, &mut looks);
        let elf = file.elf().unwrap();
        let text = elf.text.clone().unwrap().start;
        // The place of the code in the file: the last that is linked for an address below it.
        let place = (0..=text).rev().find(|place| elf.address_of(*place) == Some(text)).unwrap();
        let (offset, bias) = (place - place % 4096, text - place);
        let mapping = Mapping { start: 0x5000_0000, end: 0x5000_1000, offset, file };
        let mut said = Said::new();
        Interner::default().mapping(Some(&mapping), &mut said);
        let data = ferretto_protos::InternedData::decode(said.as_slice()).unwrap();
        let [said] = data.mappings.as_slice() else { panic!("{data:?}") };
        assert_eq!((said.load_bias(), said.exact_offset(), said.start_offset()), (bias, offset, 0));
    }
}
