//! Which addresses of which files a trace has, and of which of them it knows functions and lines already.
//!
//! Files, places in them and stacks are said once on each sequence, and then meant by number (upstream: interned_data.proto, profile_common.proto).

use std::collections::BTreeMap;
use std::sync::Arc;

use ferretto_protos::fields::{
    address_symbols, frame, interned_data, interned_string, mapping, module_symbols, trace_packet,
};
use ferretto_trace_read::{Head, wire};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

/// Things that sequences have said, all together: texts, files, frames. A profile of an hour on a large machine has some million.
const MAX_INTERNED: usize = 16 << 20;
/// Bytes of all different texts. They are kept to the end: sequences say them again and again.
const MAX_TEXT_BYTES: usize = 256 << 20;
/// Sequences with any of it. A machine has one for each processor.
const MAX_SEQUENCES: usize = 64 << 10;
/// Files. A machine has some thousand libraries.
const MAX_MODULES: usize = 64 << 10;
/// Addresses in all of them.
const MAX_ADDRESSES: usize = 4 << 20;
/// Bytes of a path. The kernel's are shorter (PATH_MAX).
const MAX_PATH_BYTES: usize = 16 << 10;

/// A file that was mapped, and the addresses of it that are in stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// As the trace has it, and readers of it: with a slash before each part.
    pub path: Vec<u8>,
    /// What its linker has called it; nothing if that is not known.
    pub build_id: Vec<u8>,
    /// The addresses that it is linked for.
    pub addresses: BTreeMap<u64, Known>,
}

/// What the trace says of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The function, as its recorder has named it.
    pub function: Option<Arc<[u8]>>,
    /// Whether it has symbols, added afterwards.
    pub has_symbols: bool,
    /// Whether it is in a stack.
    pub is_frame: bool,
}

/// Gathers addresses from the packets of a trace.
#[derive(Debug, Default)]
pub struct Addresses {
    modules: Vec<Module>,
    by_name: HashMap<(Vec<u8>, Vec<u8>), usize, RandomState>,
    /// By machine and sequence.
    sequences: HashMap<(u32, u32), Sequence, RandomState>,
    interned: usize,
    texts: HashSet<Arc<[u8]>, RandomState>,
    text_bytes: usize,
    addresses: usize,
    beyond: u64,
}

/// What a sequence has said.
#[derive(Debug, Default)]
struct Sequence {
    build_ids: Texts,
    paths: Texts,
    functions: Texts,
    mappings: HashMap<u64, usize, RandomState>,
}

type Texts = HashMap<u64, Arc<[u8]>, RandomState>;

impl Addresses {
    /// Takes the next packet.
    pub fn push(&mut self, packet: &[u8]) {
        let Ok(head) = Head::of(packet) else { return };
        if let Some((trace_packet::MODULE_SYMBOLS, symbols)) = head.data {
            self.known(symbols);
        }
        let key = (head.machine_id, head.sequence_id);
        if head.clears_state()
            && let Some(sequence) = self.sequences.remove(&key)
        {
            self.forget(&sequence);
        }
        if let Some(said) = head.interned_data {
            let mut sequence = match self.sequences.remove(&key) {
                Some(sequence) => sequence,
                None if self.sequences.len() < MAX_SEQUENCES => Sequence::default(),
                None => return self.beyond += 1,
            };
            self.learn(&mut sequence, said);
            self.sequences.insert(key, sequence);
        }
    }

    /// The files that have addresses, those with most of them first, and how many things there was no room for.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Module>, u64) {
        for module in &mut self.modules {
            module.addresses.retain(|_, known| known.is_frame);
        }
        self.modules.retain(|module| !module.addresses.is_empty());
        self.modules.sort_by_key(|module| std::cmp::Reverse(module.addresses.len()));
        (self.modules, self.beyond)
    }

    fn forget(&mut self, sequence: &Sequence) {
        let Sequence { build_ids, paths, functions, mappings } = sequence;
        self.interned -= build_ids.len() + paths.len() + functions.len() + mappings.len();
    }

    /// Texts first, then what means them, whatever their order is.
    fn learn(&mut self, sequence: &mut Sequence, said: &[u8]) {
        for field in wire::fields(said) {
            let texts = match field.number {
                interned_data::BUILD_IDS => &mut sequence.build_ids,
                interned_data::MAPPING_PATHS => &mut sequence.paths,
                interned_data::FUNCTION_NAMES => &mut sequence.functions,
                _ => continue,
            };
            let Some(message) = field.value.as_bytes() else { continue };
            let text = wire::bytes(message, interned_string::STR).unwrap_or_default();
            let number = wire::number(message, interned_string::IID).unwrap_or(0);
            match self.text(text).filter(|_| self.interned < MAX_INTERNED) {
                None => self.beyond += 1,
                Some(text) => self.interned += usize::from(texts.insert(number, text).is_none()),
            }
        }
        wire::all_bytes(said, interned_data::MAPPINGS).for_each(|message| self.mapping(sequence, message));
        wire::all_bytes(said, interned_data::FRAMES).for_each(|message| self.frame(sequence, message));
    }

    /// A text, which is kept once.
    fn text(&mut self, text: &[u8]) -> Option<Arc<[u8]>> {
        if let Some(known) = self.texts.get(text) {
            return Some(known.clone());
        }
        if self.text_bytes + text.len() > MAX_TEXT_BYTES || self.texts.len() >= MAX_INTERNED {
            return None;
        }
        let text: Arc<[u8]> = text.into();
        self.text_bytes += text.len();
        self.texts.insert(text.clone());
        Some(text)
    }

    fn mapping(&mut self, sequence: &mut Sequence, message: &[u8]) {
        let mut path = Vec::new();
        for part in wire::all_numbers(message, mapping::PATH_STRING_IDS) {
            // What is known of a path counts, if it is not all of it.
            let Some(part) = sequence.paths.get(&part) else { break };
            path.push(b'/');
            path.extend_from_slice(part);
            if path.len() > MAX_PATH_BYTES {
                return self.beyond += 1;
            }
        }
        // As readers have it of a path whose first part begins with a slash (trace_processor: `//anon`).
        let path = if path.starts_with(b"//") { path.get(1..).unwrap_or_default() } else { &path };
        let build_id = wire::number(message, mapping::BUILD_ID).and_then(|iid| sequence.build_ids.get(&iid));
        let module = self.module(path, build_id.map_or(&[], |id| id));
        let number = wire::number(message, mapping::IID).unwrap_or(0);
        match module.filter(|_| self.interned < MAX_INTERNED) {
            None => self.beyond += 1,
            Some(module) => {
                self.interned += usize::from(sequence.mappings.insert(number, module).is_none());
            }
        }
    }

    fn frame(&mut self, sequence: &Sequence, message: &[u8]) {
        let number = |field| wire::number(message, field).unwrap_or(0);
        let Some(module) = sequence.mappings.get(&number(frame::MAPPING_ID)) else { return };
        let function = sequence.functions.get(&number(frame::FUNCTION_NAME_ID));
        let function = function.filter(|name| !name.is_empty()).cloned();
        if let Some(known) = self.address(*module, number(frame::REL_PC)) {
            known.is_frame = true;
            known.function = known.function.take().or(function);
        }
    }

    /// What a symbolizer has added.
    fn known(&mut self, symbols: &[u8]) {
        let text = |field| wire::bytes(symbols, field).unwrap_or_default();
        let Some(module) = self.module(text(module_symbols::PATH), text(module_symbols::BUILD_ID)) else {
            return self.beyond += 1;
        };
        for message in wire::all_bytes(symbols, module_symbols::ADDRESS_SYMBOLS) {
            let has_lines = wire::bytes(message, address_symbols::LINES).is_some();
            let address = wire::number(message, address_symbols::ADDRESS).unwrap_or(0);
            if let Some(known) = self.address(module, address).filter(|_| has_lines) {
                known.has_symbols = true;
            }
        }
    }

    fn module(&mut self, path: &[u8], build_id: &[u8]) -> Option<usize> {
        let key = (path.to_vec(), build_id.to_vec());
        if let Some(module) = self.by_name.get(&key) {
            return Some(*module);
        }
        let number = self.modules.len();
        if number >= MAX_MODULES || path.len() > MAX_PATH_BYTES || build_id.len() > MAX_PATH_BYTES {
            return None;
        }
        let (path, build_id) = key.clone();
        self.modules.push(Module { path, build_id, addresses: BTreeMap::new() });
        self.by_name.insert(key, number);
        Some(number)
    }

    fn address(&mut self, module: usize, address: u64) -> Option<&mut Known> {
        let addresses = &mut self.modules.get_mut(module)?.addresses;
        if !addresses.contains_key(&address) {
            if self.addresses >= MAX_ADDRESSES {
                self.beyond += 1;
                return None;
            }
            self.addresses += 1;
        }
        Some(addresses.entry(address).or_default())
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;

    use super::*;

    type Fields<'a> = &'a [(u32, u64)];

    /// A packet of a sequence, whose interned data are texts (by field, number and text) and messages of numbers.
    fn packet(
        sequence: u64,
        flags: u64,
        texts: &[(u32, u64, &str)],
        messages: &[(u32, Fields<'_>)],
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut packet = Message::new(&mut bytes);
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
        packet.varint(trace_packet::SEQUENCE_FLAGS, flags);
        let mut said = packet.nested(trace_packet::INTERNED_DATA);
        for (field, fields) in messages {
            let mut message = said.nested(*field);
            fields.iter().for_each(|(field, number)| message.varint(*field, *number));
        }
        for (field, number, text) in texts {
            let mut message = said.nested(*field);
            message.varint(interned_string::IID, *number);
            message.bytes(interned_string::STR, text.as_bytes());
        }
        drop(said);
        drop(packet);
        bytes
    }

    const TEXTS: [(u32, u64, &str); 5] = [
        (interned_data::BUILD_IDS, 1, "id"),
        (interned_data::MAPPING_PATHS, 1, "usr"),
        (interned_data::MAPPING_PATHS, 2, "prog"),
        (interned_data::FUNCTION_NAMES, 0, ""),
        (interned_data::FUNCTION_NAMES, 1, "main"),
    ];
    const MAPPING: (u32, Fields<'_>) = (
        interned_data::MAPPINGS,
        &[
            (mapping::IID, 1),
            (mapping::BUILD_ID, 1),
            (mapping::PATH_STRING_IDS, 1),
            (mapping::PATH_STRING_IDS, 2),
        ],
    );

    fn frame_of(fields: Fields<'_>) -> (u32, Fields<'_>) {
        (interned_data::FRAMES, fields)
    }

    fn addresses(packets: &[Vec<u8>]) -> Vec<Module> {
        let mut addresses = Addresses::default();
        packets.iter().for_each(|packet| addresses.push(packet));
        let (modules, beyond) = addresses.finish();
        assert_eq!(beyond, 0);
        modules
    }

    #[test]
    fn addresses_of_one_file_are_together_whatever_sequence_has_said_them() {
        let first = frame_of(&[
            (frame::IID, 1),
            (frame::FUNCTION_NAME_ID, 1),
            (frame::MAPPING_ID, 1),
            (frame::REL_PC, 16),
        ]);
        let second = frame_of(&[(frame::IID, 2), (frame::MAPPING_ID, 1), (frame::REL_PC, 32)]);
        let nowhere = frame_of(&[(frame::IID, 2), (frame::MAPPING_ID, 9), (frame::REL_PC, 48)]);
        let modules = addresses(&[
            packet(1, 1, &TEXTS, &[MAPPING, first]),
            packet(2, 1, &TEXTS, &[MAPPING, first]),
            packet(1, 0, &[], &[second, nowhere]),
            // Forgotten: it means nothing now.
            packet(1, 1, &[], &[frame_of(&[(frame::MAPPING_ID, 1), (frame::REL_PC, 64)])]),
        ]);
        let [module] = modules.as_slice() else { panic!("{modules:?}") };
        assert_eq!((module.path.as_slice(), module.build_id.as_slice()), (&b"/usr/prog"[..], &b"id"[..]));
        let names: Vec<_> =
            module.addresses.iter().map(|(at, known)| (*at, known.function.as_deref())).collect();
        assert_eq!(names, [(16, Some(&b"main"[..])), (32, None)]);
    }

    #[test]
    fn what_has_symbols_is_known_wherever_they_stand() {
        let symbols = |address: u64, has_lines: bool| {
            let mut bytes = Vec::new();
            let mut packet = Message::new(&mut bytes);
            let mut symbols = packet.nested(trace_packet::MODULE_SYMBOLS);
            symbols.bytes(module_symbols::PATH, b"/usr/prog");
            symbols.bytes(module_symbols::BUILD_ID, b"id");
            let mut message = symbols.nested(module_symbols::ADDRESS_SYMBOLS);
            message.varint(address_symbols::ADDRESS, address);
            if has_lines {
                message.bytes(address_symbols::LINES, b"");
            }
            drop(message);
            drop(symbols);
            drop(packet);
            bytes
        };
        let [first, second] =
            [&[(frame::MAPPING_ID, 1), (frame::REL_PC, 16)], &[(frame::MAPPING_ID, 1), (frame::REL_PC, 32)]]
                .map(|fields: &[_; 2]| fields.to_vec());
        let frames = packet(7, 1, &TEXTS, &[MAPPING, frame_of(&first), frame_of(&second)]);
        let modules = addresses(&[symbols(16, true), frames, symbols(32, false), symbols(99, true)]);
        let known: Vec<_> = modules[0].addresses.iter().map(|(at, known)| (*at, known.has_symbols)).collect();
        assert_eq!(known, [(16, true), (32, false)]);
    }

    #[test]
    fn texts_are_kept_once_and_have_a_bound() {
        let named = |number, text| packet(1, 1, &[(interned_data::FUNCTION_NAMES, number, text)], &[]);
        // Room for two more.
        let mut addresses = Addresses { text_bytes: MAX_TEXT_BYTES - 8, ..Addresses::default() };
        for number in 0..8 {
            // Forgotten each time, and said again.
            addresses.push(&named(number, "main"));
        }
        assert_eq!((addresses.beyond, addresses.text_bytes, addresses.interned), (0, MAX_TEXT_BYTES - 4, 1));
        for text in ["more", "much", "main"] {
            addresses.push(&named(1, text));
        }
        assert_eq!((addresses.beyond, addresses.text_bytes, addresses.texts.len()), (1, MAX_TEXT_BYTES, 2));
    }
}
