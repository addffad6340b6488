//! `profile.proto` of pprof (upstream: pprof_trace_reader.cc).
//!
//! A profile is tables that name each other by numbers: texts, mappings, functions, locations, and samples that are lists of locations, the
//! innermost first, with a value of each kind. A location with several lines has functions that were inlined, the innermost first.
//!
//! Memory: the file, for samples may come before what they name, and a number for each location.

use std::io::{BufRead, Read as _};

use ferretto_trace_model::model::Model;
use ferretto_trace_model::profiles::resolve::MAX_FRAMES;
use ferretto_trace_model::profiles::stacks::{Mapping, Source, build_id, next_symbol_set};
use ferretto_trace_read::wire;
use ferretto_trace_tables::tables::{AggregateProfileRow, AggregateSampleRow, SymbolRow};
use ferretto_trace_tables::{AggregateProfileId, FrameId, MappingId, Str};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::Error;

/// Bytes of an unpacked profile. Ours: those of the largest services have some hundred million.
pub const MAX_BYTES: u64 = 2 << 30;

/// Kinds of values of one profile. Ours: profilers write up to ten.
const MAX_KINDS: usize = 1024;

mod profile {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
}

mod value_type {
    pub(super) const TYPE: u32 = 1;
    pub(super) const UNIT: u32 = 2;
}

mod sample {
    pub(super) const LOCATION_ID: u32 = 1;
    pub(super) const VALUE: u32 = 2;
}

mod mapping {
    pub(super) const ID: u32 = 1;
    pub(super) const MEMORY_START: u32 = 2;
    pub(super) const MEMORY_LIMIT: u32 = 3;
    pub(super) const FILE_OFFSET: u32 = 4;
    pub(super) const FILENAME: u32 = 5;
    pub(super) const BUILD_ID: u32 = 6;
}

mod location {
    pub(super) const ID: u32 = 1;
    pub(super) const MAPPING_ID: u32 = 2;
    pub(super) const ADDRESS: u32 = 3;
    pub(super) const LINE: u32 = 4;
}

mod line {
    pub(super) const FUNCTION_ID: u32 = 1;
    pub(super) const LINE: u32 = 2;
}

mod function {
    pub(super) const ID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const FILENAME: u32 = 4;
    pub(super) const START_LINE: u32 = 5;
}

/// Reads a file, unpacked.
///
/// # Errors
///
/// If its bytes cannot be had, are too many, or hold no table of texts.
pub fn read(file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::TooLarge { bytes: MAX_BYTES });
    }
    let mut reader = Reader::of(model);
    reader.read_texts(&bytes);
    if reader.texts.is_empty() {
        return Err(Error::Broken { offset: 0, what: "this profile has no texts" });
    }
    for message in wire::all_bytes(&bytes, profile::MAPPING) {
        reader.read_mapping(message);
    }
    for message in wire::all_bytes(&bytes, profile::FUNCTION) {
        reader.read_function(message);
    }
    for message in wire::all_bytes(&bytes, profile::LOCATION) {
        reader.read_location(message);
    }
    let kinds: Vec<AggregateProfileId> = wire::all_bytes(&bytes, profile::SAMPLE_TYPE)
        .take(MAX_KINDS)
        .map(|message| reader.read_kind(message))
        .collect();
    let mut locations = Vec::new();
    for message in wire::all_bytes(&bytes, profile::SAMPLE) {
        reader.read_sample(message, &kinds, &mut locations);
    }
    Ok(())
}

struct Reader<'a> {
    model: &'a mut Model,
    texts: Vec<Str>,
    mappings: HashMap<u64, (MappingId, u64), RandomState>,
    functions: HashMap<u64, Function, RandomState>,
    frames: HashMap<u64, FrameId, RandomState>,
}

#[derive(Clone, Copy)]
struct Function {
    name: Option<Str>,
    file: Option<Str>,
    first_line: i64,
}

impl<'a> Reader<'a> {
    fn of(model: &'a mut Model) -> Self {
        Self {
            model,
            texts: Vec::new(),
            mappings: HashMap::default(),
            functions: HashMap::default(),
            frames: HashMap::default(),
        }
    }

    fn read_texts(&mut self, bytes: &[u8]) {
        let strings = &mut self.model.tables.strings;
        self.texts
            .extend(wire::all_bytes(bytes, profile::STRING_TABLE).map(|text| strings.intern_bytes(text)));
    }

    fn intern(&mut self, text: &str) -> Str {
        self.model.tables.strings.intern(text)
    }

    /// The text of a number; nothing if there is none.
    fn text(&self, number: u64) -> Option<Str> {
        self.texts.get(usize::try_from(number).ok()?).copied()
    }

    /// The text that a field names, or `otherwise` if it is not said.
    fn text_or(&mut self, message: &[u8], field: u32, otherwise: &str) -> Option<Str> {
        match wire::number(message, field) {
            Some(number) => self.text(number),
            None => Some(self.intern(otherwise)),
        }
    }

    fn read_mapping(&mut self, message: &[u8]) {
        let number = |field| wire::number(message, field);
        let Some(id) = number(mapping::ID) else { return };
        let start = number(mapping::MEMORY_START).unwrap_or(0);
        let end = number(mapping::MEMORY_LIMIT).unwrap_or(0);
        let name = self.text_or(message, mapping::FILENAME, "[unknown]");
        // A build id is in hexadecimal already; upstream takes its digits for bytes.
        let digits = number(mapping::BUILD_ID).and_then(|number| self.text(number));
        let build_id = digits.map(|digits| {
            let digits = self.model.tables.strings.get(digits).to_owned();
            build_id(&mut self.model.tables, digits.as_bytes())
        });
        let params = Mapping {
            build_id,
            exact_offset: number(mapping::FILE_OFFSET).unwrap_or(0),
            start,
            end,
            name,
            ..Mapping::default()
        };
        let Model { tables, profiles, .. } = &mut *self.model;
        self.mappings.insert(id, (profiles.stacks.mapping(tables, params), start));
    }

    fn read_function(&mut self, message: &[u8]) {
        let Some(id) = wire::number(message, function::ID) else { return };
        let name = self.text_or(message, function::NAME, "[unknown]");
        let file = wire::number(message, function::FILENAME).and_then(|number| self.text(number));
        let first_line = wire::int(message, function::START_LINE).unwrap_or(0);
        self.functions.insert(id, Function { name, file, first_line });
    }

    fn read_location(&mut self, message: &[u8]) {
        let Some(id) = wire::number(message, location::ID) else { return };
        let known =
            wire::number(message, location::MAPPING_ID).and_then(|id| self.mappings.get(&id).copied());
        let (mapping, start) = known.unwrap_or_else(|| {
            let Model { tables, profiles, .. } = &mut *self.model;
            (profiles.stacks.invented_mapping(tables, "[unknown]"), 0)
        });
        let lines: Vec<(Function, i64)> = wire::all_bytes(message, location::LINE)
            .filter_map(|message| {
                let function = self.functions.get(&wire::number(message, line::FUNCTION_ID)?)?;
                Some((*function, wire::int(message, line::LINE).unwrap_or(0)))
            })
            .take(MAX_FRAMES)
            .collect();
        let name = match lines.first() {
            Some((function, _)) => function.name.unwrap_or_else(|| self.intern("")),
            None => self.intern("[unknown]"),
        };
        let address = wire::number(message, location::ADDRESS).unwrap_or(0);
        let rel_pc = if start > 0 { address.checked_sub(start).unwrap_or(address) } else { address };
        let Model { tables, profiles, .. } = &mut *self.model;
        let frame = profiles.stacks.frame(tables, mapping, rel_pc, Some(name), Source::default());
        self.frames.insert(id, frame);
        self.push_symbols(frame, &lines);
    }

    /// All but the last were inlined.
    fn push_symbols(&mut self, frame: FrameId, lines: &[(Function, i64)]) {
        let tables = &mut self.model.tables;
        let symbol_set_id = next_symbol_set(tables);
        for (at, (function, line)) in lines.iter().enumerate() {
            let line = [*line, function.first_line].into_iter().find(|line| *line > 0);
            tables.symbol.push(SymbolRow {
                symbol_set_id,
                name: function.name,
                source_file: function.file,
                line_number: line.map(|line| line as u32),
                inlined: Some(at + 1 < lines.len()),
            });
        }
        if !lines.is_empty() {
            tables.frame.symbol_set_id.set(frame.index(), Some(symbol_set_id));
        }
    }

    fn read_kind(&mut self, message: &[u8]) -> AggregateProfileId {
        let kind = self.text_or(message, value_type::TYPE, "unknown");
        let unit = self.text_or(message, value_type::UNIT, "count");
        let words = kind.map(|kind| self.model.tables.strings.get(kind)).unwrap_or_default();
        let name = format!("pprof {words}");
        let row = AggregateProfileRow {
            scope: Some(self.intern("pprof_file")),
            name: Some(self.intern(&name)),
            sample_type_type: kind,
            sample_type_unit: unit,
        };
        AggregateProfileId(self.model.tables.aggregate_profile.push(row))
    }

    /// Locations that are not there are left out.
    fn read_sample(&mut self, message: &[u8], kinds: &[AggregateProfileId], locations: &mut Vec<FrameId>) {
        locations.clear();
        let frames = wire::all_numbers(message, sample::LOCATION_ID).filter_map(|id| self.frames.get(&id));
        locations.extend(frames.take(MAX_FRAMES));
        let Model { tables, profiles, .. } = &mut *self.model;
        let callsite = locations.iter().rev().zip(0..).fold(None, |caller, (frame, depth)| {
            Some(profiles.stacks.callsite(tables, caller, *frame, depth))
        });
        let Some(callsite_id) = callsite else { return };
        for (kind, value) in kinds.iter().zip(wire::all_numbers(message, sample::VALUE)) {
            let value = (value as i64) as f64;
            let row = AggregateSampleRow { aggregate_profile_id: *kind, callsite_id, value };
            tables.aggregate_sample.push(row);
        }
    }
}
