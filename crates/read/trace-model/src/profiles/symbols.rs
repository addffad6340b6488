//! Names and lines that were found after recording, and appended to the trace (upstream: profile_module.cc, `ParseModuleSymbols`).

use ferretto_protos::fields::{address_symbols, line, module_symbols as field};
use ferretto_trace_tables::MappingId;
use ferretto_trace_tables::tables::SymbolRow;

use super::stacks;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

impl Model {
    /// Symbols of a file: for all mappings of it that are known by now.
    pub(super) fn apply_module_symbols(&mut self, message: &[u8]) {
        let path = self.tables.strings.intern_bytes(wire::bytes(message, field::PATH).unwrap_or_default());
        let build_id = wire::bytes(message, field::BUILD_ID)
            .filter(|raw| !raw.is_empty())
            .map(|raw| stacks::build_id(&mut self.tables, raw));
        let mappings: Vec<MappingId> = self.profiles.stacks.mappings_of(path, build_id).to_vec();
        if mappings.is_empty() {
            return self.stats.count(Stat::StackprofileInvalidMappingId);
        }
        for symbols in wire::all_bytes(message, field::ADDRESS_SYMBOLS) {
            self.apply_address_symbols(symbols, &mappings);
        }
    }

    fn apply_address_symbols(&mut self, message: &[u8], mappings: &[MappingId]) {
        let Self { tables, profiles, stats, args, .. } = self;
        let symbol_set_id = stacks::next_symbol_set(tables);
        for symbol in wire::all_bytes(message, address_symbols::LINES) {
            let name = wire::bytes(symbol, line::FUNCTION_NAME);
            let name = name.map(|name| tables.strings.intern_bytes(name));
            let file = wire::bytes(symbol, line::SOURCE_FILE_NAME).filter(|file| !file.is_empty());
            let source_file = file.map(|file| tables.strings.intern_bytes(file));
            let number = wire::number(symbol, line::LINE_NUMBER).map(|number| number as u32);
            tables.symbol.push(SymbolRow {
                symbol_set_id,
                name,
                source_file,
                line_number: number.filter(|_| source_file.is_some()),
                inlined: None,
            });
        }
        if stacks::next_symbol_set(tables) == symbol_set_id {
            return;
        }
        let address = wire::number(message, address_symbols::ADDRESS).unwrap_or(0);
        let last = tables.symbol.name.last().copied().flatten();
        let mut is_found = false;
        for mapping in mappings {
            if let Some(name) = last {
                args.translations.add_symbol(&mut tables.strings, mapping.0.into(), address, name);
            }
            for frame in profiles.stacks.frames_at(tables, *mapping, address).to_vec() {
                tables.frame.symbol_set_id.set(frame.index(), Some(symbol_set_id));
                is_found = true;
            }
        }
        if !is_found {
            stats.count(Stat::StackprofileInvalidFrameId);
        }
    }
}
