//! Call stacks, interned: a stack is numbers of frames, a frame those of its function and its mapping.

use ferretto_protos::fields::{callstack, frame, interned_data, interned_string, mapping};
use ferretto_protozero::Message;
use ferretto_trace_tables::{CallsiteId, FrameId, MappingId, Str, Tables};

use super::sequence::Sequence;

/// Frames of one stack. Ours: readers of ours take no more.
const MAX_FRAMES: usize = 16_384;

/// The number of a stack, and all behind it interned. Numbers are those of rows, from 1.
pub(super) fn intern(tables: &Tables, callsite: CallsiteId, sequence: &mut Sequence) -> u64 {
    let iid = u64::from(callsite.0) + 1;
    if !sequence.is_new(interned_data::CALLSTACKS, iid) {
        return iid;
    }
    let mut frames = Vec::new();
    let mut at = Some(callsite);
    while let Some(callsite) = at.filter(|_| frames.len() < MAX_FRAMES) {
        let Some(frame) = tables.callsite.frame_id.get(callsite.index()) else { break };
        frames.push(intern_frame(tables, *frame, sequence));
        at = tables.callsite.parent_id.get(callsite.index());
    }
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.varint(callstack::IID, iid);
    frames.iter().rev().for_each(|frame| message.varint(callstack::FRAME_IDS, *frame));
    drop(message);
    sequence.intern(interned_data::CALLSTACKS, &bytes);
    iid
}

fn intern_frame(tables: &Tables, id: FrameId, sequence: &mut Sequence) -> u64 {
    let iid = u64::from(id.0) + 1;
    if !sequence.is_new(interned_data::FRAMES, iid) {
        return iid;
    }
    let (row, table) = (id.index(), &tables.frame);
    let text = |texts: &Vec<Option<Str>>| texts.get(row).copied().flatten();
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.varint(frame::IID, iid);
    if let Some(name) = text(&table.name) {
        let name = sequence.text(interned_data::FUNCTION_NAMES, name, &tables.strings);
        message.varint(frame::FUNCTION_NAME_ID, name);
    }
    if let Some(id) = table.mapping.get(row) {
        message.varint(frame::MAPPING_ID, intern_mapping(tables, *id, sequence));
    }
    message.varint(frame::REL_PC, table.rel_pc.get(row).copied().unwrap_or(0).cast_unsigned());
    if let Some(symbol) = table.symbol_set_id.get(row).map(|set| set.0 as usize) {
        if let Some(file) = tables.symbol.source_file.get(symbol).copied().flatten() {
            let file = sequence.text(interned_data::SOURCE_PATHS, file, &tables.strings);
            message.varint(frame::SOURCE_PATH_IID, file);
        }
        if let Some(line) = tables.symbol.line_number.get(symbol) {
            message.varint(frame::LINE_NUMBER, line.into());
        }
    }
    if let Some(kind) = text(&table.type_) {
        message.string(frame::KIND_STR, tables.strings.get(kind));
    }
    drop(message);
    sequence.intern(interned_data::FRAMES, &bytes);
    iid
}

fn intern_mapping(tables: &Tables, id: MappingId, sequence: &mut Sequence) -> u64 {
    let iid = u64::from(id.0) + 1;
    if !sequence.is_new(interned_data::MAPPINGS, iid) {
        return iid;
    }
    let (row, table) = (id.index(), &tables.mapping);
    let number = |numbers: &Vec<i64>| numbers.get(row).copied().unwrap_or(0).cast_unsigned();
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.varint(mapping::IID, iid);
    if let Some(id) = table.build_id.get(row).copied().flatten() {
        message.varint(mapping::BUILD_ID, intern_build_id(tables, id, sequence));
    }
    message.varint(mapping::EXACT_OFFSET, number(&table.exact_offset));
    message.varint(mapping::START_OFFSET, number(&table.start_offset));
    message.varint(mapping::START, number(&table.start));
    message.varint(mapping::END, number(&table.end));
    message.varint(mapping::LOAD_BIAS, number(&table.load_bias));
    // A reader makes paths absolute.
    let path = table.name.get(row).copied().flatten().filter(|path| !tables.strings.get(*path).is_empty());
    if let Some(path) = path {
        let path = sequence.text(interned_data::MAPPING_PATHS, path, &tables.strings);
        message.varint(mapping::PATH_STRING_IDS, path);
    }
    drop(message);
    sequence.intern(interned_data::MAPPINGS, &bytes);
    iid
}

/// The bytes of what the table has in hexadecimal; what is no such number, as it is. 0 for nothing.
fn intern_build_id(tables: &Tables, id: Str, sequence: &mut Sequence) -> u64 {
    let text = tables.strings.get(id);
    if text.is_empty() {
        return 0;
    }
    let iid = id.index() as u64 + 1;
    if sequence.is_new(interned_data::BUILD_IDS, iid) {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        message.varint(interned_string::IID, iid);
        message.bytes(interned_string::STR, &from_hex(text).unwrap_or_else(|| text.as_bytes().to_vec()));
        drop(message);
        sequence.intern(interned_data::BUILD_IDS, &bytes);
    }
    iid
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
    let (pairs, rest) = digits.as_ref()?.as_chunks();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
