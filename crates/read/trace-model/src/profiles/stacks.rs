//! Mappings, frames and call stacks, each once (upstream: mapping_tracker.cc, virtual_memory_mapping.cc, stack_profile_tracker.cc).
//!
//! A frame is known by its mapping, its address in it and its name; where there is no address, by its name and its place in the source. A call
//! stack is a chain of rows, each a frame and its caller: who has the last row has the stack.
//!
//! Memory: beside the rows, a number a call site, and an entry of a hash table a frame.

use std::hash::BuildHasher;

use ferretto_trace_tables::tables::{CallsiteRow, FrameRow, MappingRow, SymbolRow, Tables};
use ferretto_trace_tables::{CallsiteId, FrameId, MappingId, Str, SymbolSetId};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet, HashTable};

/// What a mapping is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// In hexadecimal; nothing if there is none.
    pub build_id: Option<Str>,
    /// Where in the file it begins, to the byte.
    pub exact_offset: u64,
    /// Where in the file the first mapping of it begins.
    pub start_offset: u64,
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// What the file's addresses begin with.
    pub load_bias: u64,
    /// The file's path.
    pub name: Option<Str>,
}

/// A place in the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source {
    /// The file.
    pub file: Option<Str>,
    /// The line.
    pub line: Option<u32>,
}

impl Source {
    const fn is_known(self) -> bool {
        self.file.is_some() || self.line.is_some()
    }
}

/// All call stacks and what they are made of.
#[derive(Debug, Default)]
pub struct Stacks {
    mappings: HashMap<Mapping, MappingId, RandomState>,
    named: HashMap<(Str, Option<Str>), Vec<MappingId>, RandomState>,
    /// Frames of these have no addresses.
    invented: HashSet<MappingId, RandomState>,
    kernel: Option<MappingId>,
    frames: HashMap<(MappingId, u64, Option<Str>), FrameId, RandomState>,
    sourced: HashMap<(MappingId, Option<Str>, Source), FrameId, RandomState>,
    /// Rows, by what stands in them: stacks are the most of a profile.
    callsites: HashTable<u32>,
    hasher: RandomState,
    /// Frames by mapping and address: of the first `placed_frames` rows. Only symbols ask for it.
    placed: HashMap<(MappingId, i64), Vec<FrameId>, RandomState>,
    placed_frames: usize,
}

impl Stacks {
    /// A mapping that is the same as all that look so.
    pub fn mapping(&mut self, tables: &mut Tables, mapping: Mapping) -> MappingId {
        if let Some(known) = self.mappings.get(&mapping) {
            return *known;
        }
        let id = self.new_mapping(tables, mapping);
        self.mappings.insert(mapping, id);
        id
    }

    /// A mapping of its own, whatever others look like.
    pub fn new_mapping(&mut self, tables: &mut Tables, mapping: Mapping) -> MappingId {
        let nothing = tables.strings.intern("");
        let name = mapping.name.unwrap_or(nothing);
        let id = MappingId(tables.mapping.push(MappingRow {
            build_id: Some(mapping.build_id.unwrap_or(nothing)),
            exact_offset: mapping.exact_offset as i64,
            start_offset: mapping.start_offset as i64,
            start: mapping.start as i64,
            end: mapping.end as i64,
            load_bias: mapping.load_bias as i64,
            name: Some(name),
        }));
        self.named.entry((name, mapping.build_id)).or_default().push(id);
        id
    }

    /// The kernel's, of which there is one.
    pub fn kernel_mapping(&mut self, tables: &mut Tables, mapping: Mapping) -> MappingId {
        if let Some(kernel) = self.kernel {
            return kernel;
        }
        let kernel = self.new_mapping(tables, mapping);
        self.kernel = Some(kernel);
        kernel
    }

    /// A mapping for frames that have no addresses.
    pub fn invented_mapping(&mut self, tables: &mut Tables, name: &str) -> MappingId {
        let name = Some(tables.strings.intern(name));
        let id = self.new_mapping(tables, Mapping { name, end: u64::MAX, ..Mapping::default() });
        self.invented.insert(id);
        id
    }

    /// The mappings of a file.
    #[must_use]
    pub fn mappings_of(&self, name: Str, build_id: Option<Str>) -> &[MappingId] {
        self.named.get(&(name, build_id)).map(Vec::as_slice).unwrap_or_default()
    }

    /// A frame at an address. Its place in the source counts when it is first met.
    pub fn frame(
        &mut self,
        tables: &mut Tables,
        mapping: MappingId,
        rel_pc: u64,
        name: Option<Str>,
        source: Source,
    ) -> FrameId {
        if let Some(known) = self.frames.get(&(mapping, rel_pc, name)) {
            return *known;
        }
        let symbol_set_id = source.is_known().then(|| symbol_set(tables, name, source));
        let id = FrameId(tables.frame.push(FrameRow {
            name,
            mapping,
            rel_pc: rel_pc as i64,
            symbol_set_id,
            ..FrameRow::default()
        }));
        self.frames.insert((mapping, rel_pc, name), id);
        id
    }

    /// A frame without an address. It has a row of symbols even if nothing is known of its source.
    pub fn frame_without_address(
        &mut self,
        tables: &mut Tables,
        mapping: MappingId,
        name: Option<Str>,
        source: Source,
    ) -> FrameId {
        if let Some(known) = self.sourced.get(&(mapping, name, source)) {
            return *known;
        }
        let symbol_set_id = Some(symbol_set(tables, name, source));
        let id = FrameId(tables.frame.push(FrameRow { name, mapping, symbol_set_id, ..FrameRow::default() }));
        self.sourced.insert((mapping, name, source), id);
        id
    }

    /// The stack of a frame that `caller` called; `depth` is the number of frames below it, and given because not all count from 0.
    #[inline]
    pub fn callsite(
        &mut self,
        tables: &mut Tables,
        caller: Option<CallsiteId>,
        frame_id: FrameId,
        depth: u32,
    ) -> CallsiteId {
        let table = &mut tables.callsite;
        let hash = self.hasher.hash_one((caller, frame_id));
        let is_same = |row: &u32| {
            let row = *row as usize;
            table.frame_id.get(row) == Some(&frame_id)
                && table.parent_id.get(row) == caller
                && table.depth.get(row) == Some(&depth)
        };
        if let Some(row) = self.callsites.find(hash, is_same) {
            return CallsiteId(*row);
        }
        let row = table.push(CallsiteRow { depth, parent_id: caller, frame_id });
        let rehash = |row: &u32| {
            let row = *row as usize;
            let frame = table.frame_id.get(row).copied().unwrap_or_default();
            self.hasher.hash_one((table.parent_id.get(row), frame))
        };
        self.callsites.insert_unique(hash, row, rehash);
        CallsiteId(row)
    }

    /// The frames at an address of a mapping.
    pub fn frames_at(&mut self, tables: &Tables, mapping: MappingId, rel_pc: u64) -> &[FrameId] {
        let table = &tables.frame;
        let from = self.placed_frames;
        self.placed_frames = table.len();
        for (row, (mapping, rel_pc)) in table.mapping.iter().zip(&table.rel_pc).enumerate().skip(from) {
            if !self.invented.contains(mapping) {
                let frame = FrameId(u32::try_from(row).unwrap_or(u32::MAX));
                self.placed.entry((*mapping, *rel_pc)).or_default().push(frame);
            }
        }
        self.placed.get(&(mapping, rel_pc as i64)).map(Vec::as_slice).unwrap_or_default()
    }
}

fn symbol_set(tables: &mut Tables, name: Option<Str>, source: Source) -> SymbolSetId {
    let symbol_set_id = next_symbol_set(tables);
    tables.symbol.push(SymbolRow {
        symbol_set_id,
        name,
        source_file: source.file,
        line_number: source.line,
        inlined: None,
    });
    symbol_set_id
}

/// The number that the next set of symbols has.
#[must_use]
pub fn next_symbol_set(tables: &Tables) -> SymbolSetId {
    SymbolSetId(u32::try_from(tables.symbol.len()).unwrap_or(u32::MAX))
}

/// A build id in hexadecimal; Chrome's, of 33 characters, is text already (upstream: build_id.cc).
#[must_use]
pub fn build_id(tables: &mut Tables, raw: &[u8]) -> Str {
    const CHROME: usize = 33;
    if raw.len() == CHROME {
        return tables.strings.intern_bytes(raw);
    }
    let mut hex = String::with_capacity(raw.len().saturating_mul(2));
    for byte in raw {
        for digit in [byte >> 4, byte & 15] {
            hex.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    tables.strings.intern(&hex)
}

/// A path out of its parts. A single part may be a whole path, as Chrome writes it (upstream: profile_packet_utils.cc).
#[must_use]
pub fn path(tables: &mut Tables, parts: &[Str]) -> Str {
    let mut path = String::new();
    for part in parts {
        path.push('/');
        path.push_str(tables.strings.get(*part));
    }
    let path = if path.starts_with("//") { path.get(1..).unwrap_or_default() } else { &path };
    tables.strings.intern(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_share_what_they_have_in_common() {
        let (mut tables, mut stacks) = (Tables::default(), Stacks::default());
        let [main, work, leaf] = ["main", "work", "leaf"].map(|name| tables.strings.intern(name));
        let mapping = stacks.mapping(&mut tables, Mapping::default());
        assert_eq!(stacks.mapping(&mut tables, Mapping::default()), mapping);
        let mut stack_of = |names: &[Str]| {
            names.iter().zip(0..).fold(None, |caller, (name, depth)| {
                let frame = stacks.frame(&mut tables, mapping, 16, Some(*name), Source::default());
                Some(stacks.callsite(&mut tables, caller, frame, depth))
            })
        };
        let (deep, short) = (stack_of(&[main, work, leaf]), stack_of(&[main, work]));
        assert_eq!(stack_of(&[main, work, leaf]), deep);
        assert_eq!((tables.callsite.len(), tables.frame.len(), tables.symbol.len()), (3, 3, 0));
        assert_eq!(tables.callsite.parent_id.get(2), short);
        assert_eq!(stacks.frames_at(&tables, mapping, 16), [FrameId(0), FrameId(1), FrameId(2)]);
    }

    #[test]
    fn build_ids_and_paths() {
        let mut tables = Tables::default();
        let id = build_id(&mut tables, &[0xde, 0x05]);
        assert_eq!(tables.strings.get(id), "de05");
        let chrome = build_id(&mut tables, &[b'7'; 33]);
        assert_eq!(tables.strings.get(chrome), "7".repeat(33));
        let [usr, lib, whole] = ["usr", "lib", "/usr/lib"].map(|part| tables.strings.intern(part));
        for (parts, expected) in [(&[usr, lib][..], "/usr/lib"), (&[whole], "/usr/lib"), (&[], "")] {
            let found = path(&mut tables, parts);
            assert_eq!(tables.strings.get(found), expected);
        }
    }
}
