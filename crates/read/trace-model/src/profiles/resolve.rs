//! Call stacks behind numbers (upstream: stack_profile_sequence_state.cc).
//!
//! A packet names a stack by a number; behind it are numbers of frames, behind these a mapping and texts. What was found once is kept with
//! what the sequence has interned. A mapping that says where it lies is one of its process: the same number may be several rows.

use ferretto_protos::fields::{callstack, frame, interned_data, mapping};
use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{CallsiteId, FrameId, MappingId, Str, Upid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::stacks::{self, Mapping, Source, Stacks};
use crate::sequence::Generation;
use crate::stats::{Stat, Stats};
use crate::wire;

/// What was found behind numbers, by process and number.
#[derive(Debug, Default)]
pub struct Found {
    mappings: HashMap<(Option<Upid>, u64), MappingId, RandomState>,
    frames: HashMap<(Option<Upid>, u64), FrameId, RandomState>,
    callsites: HashMap<(Option<Upid>, u64), CallsiteId, RandomState>,
    /// For frames that are in no mapping.
    without_mapping: Option<MappingId>,
}

/// Frames of one stack. Ours: unwinders stop at 1000, and what interpreters add is not much more; a stack that names the same frames
/// over and over would be a table of any size out of a few bytes.
pub const MAX_FRAMES: usize = 16_384;

/// What finds.
#[derive(Debug)]
pub struct Resolver<'a> {
    /// What the sequence has interned.
    pub state: &'a Generation,
    /// What was found before.
    pub found: &'a mut Found,
    /// All stacks.
    pub stacks: &'a mut Stacks,
    /// The rows.
    pub tables: &'a mut Tables,
    /// Numbers behind which there is nothing.
    pub stats: &'a mut Stats,
}

impl Resolver<'_> {
    /// The stack behind a number.
    pub fn callstack(&mut self, upid: Option<Upid>, iid: u64) -> Option<CallsiteId> {
        if let Some(known) = self.found.callsites.get(&(upid, iid)) {
            return Some(*known);
        }
        let message = self.message(interned_data::CALLSTACKS, iid, Stat::StackprofileInvalidCallstackId)?;
        let mut callsite = None;
        for (iid, depth) in wire::all_numbers(&message, callstack::FRAME_IDS).take(MAX_FRAMES).zip(0..) {
            let frame = self.frame(upid, iid)?;
            callsite = Some(self.stacks.callsite(self.tables, callsite, frame, depth));
        }
        match callsite {
            Some(callsite) => {
                self.found.callsites.insert((upid, iid), callsite);
            }
            None => self.stats.count(Stat::StackprofileEmptyCallstack),
        }
        callsite
    }

    fn frame(&mut self, upid: Option<Upid>, iid: u64) -> Option<FrameId> {
        if let Some(known) = self.found.frames.get(&(upid, iid)) {
            return Some(*known);
        }
        let message = self.message(interned_data::FRAMES, iid, Stat::StackprofileInvalidFrameId)?;
        let (mut name_iid, mut mapping_iid, mut rel_pc) = (0, 0, 0);
        let (mut path_iid, mut line, mut kind) = (None, None, Kind::Unsaid);
        for field in wire::fields(&message) {
            let number = field.value.as_u64();
            match (field.number, number) {
                (frame::FUNCTION_NAME_ID, Some(number)) => name_iid = number,
                (frame::MAPPING_ID, Some(number)) => mapping_iid = number,
                (frame::REL_PC, Some(number)) => rel_pc = number,
                (frame::SOURCE_PATH_IID, Some(number)) => path_iid = Some(number),
                (frame::LINE_NUMBER, Some(number)) => line = Some(number as u32),
                (frame::KIND, Some(number)) => kind = Kind::Number(number),
                (frame::KIND_STR, None) if !matches!(kind, Kind::Number(_)) => {
                    kind = Kind::Text(field.value.as_bytes().unwrap_or_default());
                }
                _ => {}
            }
        }
        let name = match name_iid {
            0 => None,
            iid => Some(self.text(interned_data::FUNCTION_NAMES, iid)?),
        };
        let file = match path_iid {
            // A frame whose file is not known is none.
            Some(0) => return None,
            Some(iid) => Some(self.text(interned_data::SOURCE_PATHS, iid)?),
            None => None,
        };
        let source = Source { file, line };
        let id = if mapping_iid == 0 {
            let mapping = self.without_mapping();
            self.stacks.frame_without_address(self.tables, mapping, name, source)
        } else {
            let mapping = self.mapping(upid, mapping_iid)?;
            self.stacks.frame(self.tables, mapping, rel_pc, name, source)
        };
        if let Some(kind) = kind.text(self.tables)
            && let Some(cell) = self.tables.frame.type_.get_mut(id.index())
        {
            *cell = Some(kind);
        }
        self.found.frames.insert((upid, iid), id);
        Some(id)
    }

    fn without_mapping(&mut self) -> MappingId {
        match self.found.without_mapping {
            Some(known) => known,
            None => *self.found.without_mapping.insert(self.stacks.invented_mapping(self.tables, "")),
        }
    }

    /// The mapping behind a number.
    pub fn mapping(&mut self, upid: Option<Upid>, iid: u64) -> Option<MappingId> {
        if let Some(known) = self.found.mappings.get(&(upid, iid)) {
            return Some(*known);
        }
        let message = self.message(interned_data::MAPPINGS, iid, Stat::StackprofileInvalidMappingId)?;
        let mut params = read_mapping(&message);
        // What is known of a path counts, if it is not all of it.
        let parts: Vec<Str> = wire::all_numbers(&message, mapping::PATH_STRING_IDS)
            .map_while(|iid| self.text(interned_data::MAPPING_PATHS, iid))
            .collect();
        params.name = Some(stacks::path(self.tables, &parts));
        let build_id_iid = wire::number(&message, mapping::BUILD_ID).unwrap_or(0);
        if build_id_iid != 0 {
            let entry =
                self.message(interned_data::BUILD_IDS, build_id_iid, Stat::StackprofileInvalidStringId)?;
            let raw = wire::bytes(&entry, ferretto_protos::fields::interned_string::STR);
            if let Some(raw) = raw.filter(|raw| !raw.is_empty()) {
                params.build_id = Some(stacks::build_id(self.tables, raw));
            }
        }
        let id = if self.is_kernel(&params) {
            self.stacks.kernel_mapping(self.tables, params)
        } else if params.start != params.end && upid.is_some() {
            self.stacks.new_mapping(self.tables, params)
        } else {
            self.stacks.mapping(self.tables, params)
        };
        self.found.mappings.insert((upid, iid), id);
        Some(id)
    }

    /// Upstream's recorder writes the kernel's functions so.
    fn is_kernel(&self, params: &Mapping) -> bool {
        let name = params.name.map(|name| self.tables.strings.get(name));
        params.start == 0
            && params.end == 0
            && params.exact_offset == 0
            && params.build_id.is_none()
            && name == Some("/kernel")
    }

    fn message(&mut self, field: u32, iid: u64, missing: Stat) -> Option<std::rc::Rc<[u8]>> {
        let message = self.state.message(field, iid);
        if message.is_none() {
            self.stats.count(Stat::InternedDataTokenizerErrors);
            self.stats.count(missing);
        }
        message
    }

    fn text(&mut self, field: u32, iid: u64) -> Option<Str> {
        let text = self.state.text(field, iid);
        if text.is_none() {
            self.stats.count(Stat::InternedDataTokenizerErrors);
            self.stats.count(Stat::StackprofileInvalidStringId);
        }
        text
    }
}

/// The numbers of `Mapping`; not its texts.
#[must_use]
pub fn read_mapping(message: &[u8]) -> Mapping {
    let mut params = Mapping::default();
    for field in wire::fields(message) {
        let Some(number) = field.value.as_u64() else { continue };
        match field.number {
            mapping::EXACT_OFFSET => params.exact_offset = number,
            mapping::START_OFFSET => params.start_offset = number,
            mapping::START => params.start = number,
            mapping::END => params.end = number,
            mapping::LOAD_BIAS => params.load_bias = number,
            _ => {}
        }
    }
    params
}

enum Kind<'a> {
    Unsaid,
    Number(u64),
    Text(&'a [u8]),
}

impl Kind<'_> {
    fn text(&self, tables: &mut Tables) -> Option<Str> {
        const NAMES: [&str; 6] = ["native", "kernel", "interpreted", "jit", "gc", "runtime"];
        match self {
            Self::Unsaid => None,
            Self::Number(number) => {
                let index = usize::try_from(*number).ok()?.checked_sub(1)?;
                NAMES.get(index).map(|name| tables.strings.intern(name))
            }
            Self::Text(text) => Some(tables.strings.intern_bytes(text)),
        }
    }
}
