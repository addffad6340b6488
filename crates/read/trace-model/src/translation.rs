//! Names that a trace has only as hashes, or shortened, and the packets that say them in full (upstream: args_translation_table.cc,
//! translation_table_module.cc, slice_translation_table.h, process_track_translation_table.h).
//!
//! Arguments of slices that are to be translated are written when everything was read. Names of slices and of processes' tracks are translated
//! as they come.

use ferretto_trace_tables::{Str, Strings};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::args::{Arg, ArgValue};
use crate::model::Model;
use crate::wire;

/// `TracePacket.translation_table`, which no recorder of Linux writes, and its fields.
pub const TRANSLATION_TABLE: u32 = 82;
const CHROME_HISTOGRAM: u32 = 1;
const CHROME_USER_EVENT: u32 = 2;
const CHROME_PERFORMANCE_MARK: u32 = 3;
const SLICE_NAME: u32 = 4;
const PROCESS_TRACK_NAME: u32 = 5;
const CHROME_STUDY: u32 = 6;
/// The maps in these, and of their entries.
const MAP: u32 = 1;
const MARKS: u32 = 2;
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// Keys of hashes, and of the names that are added to them.
const HASHED: [(&str, &str); 5] = [
    ("chrome_histogram_sample.name_hash", "chrome_histogram_sample.name"),
    ("chrome_user_event.action_hash", "chrome_user_event.action"),
    ("chrome_hashed_performance_mark.site_hash", "chrome_hashed_performance_mark.site"),
    ("chrome_hashed_performance_mark.mark_hash", "chrome_hashed_performance_mark.mark"),
    ("chrome_trigger.name_hash", "chrome_trigger.name"),
];
/// Which of them a table is about.
const HISTOGRAMS: usize = 0;
const USER_EVENTS: usize = 1;
const SITES: usize = 2;
const MARK_NAMES: usize = 3;
const STUDIES: usize = 4;

/// The place of a method of Chrome's own calls between processes, and what it is called.
pub(crate) const METHOD_MAPPING: &str =
    "chrome_mojo_event_info.mojo_interface_method.native_symbol.mapping_id";
pub(crate) const METHOD_ADDRESS: &str = "chrome_mojo_event_info.mojo_interface_method.native_symbol.rel_pc";
const METHOD_NAME: &str = "chrome_mojo_event_info.mojo_method_name";
const INTERFACE: &str = "chrome_mojo_event_info.mojo_interface_tag";
/// A class of Java.
const CLASS: &str = "android_view_dump.activity.view.class_name";

/// Renamings by the name that a trace has.
pub type Renames = HashMap<Str, Str, RandomState>;

/// What is known of names.
#[derive(Debug, Default)]
pub struct Translations {
    keys: Option<Keys>,
    /// In the order of `HASHED`.
    hashes: [HashMap<u64, Str, RandomState>; HASHED.len()],
    /// By mapping and address.
    symbols: HashMap<(u64, u64), Str, RandomState>,
    /// Classes of the first package and version that was described; others do not count.
    classes: Renames,
    package: Option<(Str, i64)>,
}

#[derive(Clone, Copy, Debug)]
struct Keys {
    hashed: [(Str, Str); HASHED.len()],
    method_mapping: Str,
    method_address: Str,
    class: Str,
}

/// `DeobfuscationMapping` and its `ObfuscatedClass`.
mod deobfuscation {
    pub(super) use ferretto_protos::fields::deobfuscation_mapping::{
        OBFUSCATED_CLASSES, PACKAGE_NAME, VERSION_CODE,
    };
    pub(super) use ferretto_protos::fields::obfuscated_class::{DEOBFUSCATED_NAME, OBFUSCATED_NAME};
}

impl Translations {
    /// What a method at an address is called.
    pub fn add_symbol(&mut self, strings: &mut Strings, mapping: u64, address: u64, name: Str) {
        self.know_keys(strings);
        self.symbols.insert((mapping, address), name);
    }

    /// Classes, as `DeobfuscationMapping` says them. The first name of a class stays.
    pub fn add_classes(&mut self, strings: &mut Strings, packet: &[u8]) {
        use deobfuscation as field;
        let package = wire::bytes(packet, field::PACKAGE_NAME).unwrap_or_default();
        if package.is_empty() {
            return;
        }
        let version = wire::int(packet, field::VERSION_CODE).unwrap_or(0);
        let package = (strings.intern_bytes(package), version);
        if *self.package.get_or_insert(package) != package {
            return;
        }
        self.know_keys(strings);
        for class in wire::all_bytes(packet, field::OBFUSCATED_CLASSES) {
            let mut text = |number| strings.intern_bytes(wire::bytes(class, number).unwrap_or_default());
            let (short, full) = (text(field::OBFUSCATED_NAME), text(field::DEOBFUSCATED_NAME));
            self.classes.entry(short).or_insert(full);
        }
    }

    fn add_hashes(&mut self, strings: &mut Strings, which: usize, table: &[u8], map: u32) {
        self.know_keys(strings);
        let Some(known) = self.hashes.get_mut(which) else { return };
        for entry in wire::all_bytes(table, map) {
            let hash = wire::number(entry, KEY).unwrap_or(0);
            known.insert(hash, strings.intern_bytes(wire::bytes(entry, VALUE).unwrap_or_default()));
        }
    }

    /// Whether anything may be to be translated: in most traces nothing is.
    #[inline]
    #[must_use]
    pub fn may_concern(&self) -> bool {
        self.keys.is_some()
    }

    /// Whether some of these are to be translated.
    #[must_use]
    pub fn concern(&self, args: &[Arg]) -> bool {
        self.keys.is_some_and(|keys| args.iter().any(|arg| keys.concern(arg)))
    }

    /// There may be arguments that are to be translated.
    pub fn know_keys(&mut self, strings: &mut Strings) {
        self.keys.get_or_insert_with(|| Keys {
            hashed: HASHED.map(|(hash, name)| (strings.intern(hash), strings.intern(name))),
            method_mapping: strings.intern(METHOD_MAPPING),
            method_address: strings.intern(METHOD_ADDRESS),
            class: strings.intern(CLASS),
        });
    }

    /// The translated arguments; nothing if there is nothing to translate.
    #[must_use]
    pub fn translate(&self, args: &[Arg], strings: &mut Strings) -> Option<Vec<Arg>> {
        let keys = self.keys.filter(|_| self.concern(args))?;
        let mut out = Vec::with_capacity(args.len() + 2);
        let (mut mapping, mut address) = (None, None);
        for arg in args {
            match arg.value {
                ArgValue::Uint(value) if arg.key == keys.method_mapping => mapping = Some(value),
                ArgValue::Uint(value) if arg.key == keys.method_address => address = Some(value),
                ArgValue::Uint(hash) => {
                    set(&mut out, *arg);
                    if let Some((key, name)) = self.name_of(&keys, arg.key, hash) {
                        set(&mut out, Arg { flat_key: key, key, value: ArgValue::Text(name) });
                    }
                }
                ArgValue::Text(class) if arg.flat_key == keys.class => {
                    let class = self.classes.get(&class).copied().unwrap_or(class);
                    set(&mut out, Arg { value: ArgValue::Text(class), ..*arg });
                }
                _ => set(&mut out, *arg),
            }
        }
        if let (Some(mapping), Some(address)) = (mapping, address) {
            self.add_method(&mut out, &keys, strings, mapping, address);
        }
        Some(out)
    }

    fn name_of(&self, keys: &Keys, key: Str, hash: u64) -> Option<(Str, Str)> {
        let which = keys.hashed.iter().position(|(of, _)| *of == key)?;
        let name = self.hashes.get(which)?.get(&hash)?;
        Some((keys.hashed.get(which)?.1, *name))
    }

    /// The method at an address, or else the address as it was.
    fn add_method(&self, out: &mut Vec<Arg>, keys: &Keys, strings: &mut Strings, mapping: u64, address: u64) {
        let Some(symbol) = self.symbols.get(&(mapping, address)) else {
            for (key, value) in [(keys.method_mapping, mapping), (keys.method_address, address)] {
                set(out, Arg { flat_key: key, key, value: ArgValue::Uint(value) });
            }
            return;
        };
        let symbol = strings.get(*symbol).to_owned();
        let (method, interface) = (strings.intern(method(&symbol)), strings.intern(&interface(&symbol)));
        let (name_key, tag_key) = (strings.intern(METHOD_NAME), strings.intern(INTERFACE));
        set(out, Arg { flat_key: name_key, key: name_key, value: ArgValue::Text(method) });
        // What the program says itself stays.
        if out.iter().all(|arg| arg.key != tag_key) {
            out.push(Arg { flat_key: tag_key, key: tag_key, value: ArgValue::Text(interface) });
        }
    }
}

impl Keys {
    fn concern(&self, arg: &Arg) -> bool {
        match arg.value {
            ArgValue::Uint(_) => {
                self.hashed.iter().any(|(hash, _)| *hash == arg.key)
                    || arg.key == self.method_mapping
                    || arg.key == self.method_address
            }
            ArgValue::Text(_) => arg.flat_key == self.class,
            _ => false,
        }
    }
}

/// Of a key that comes twice the last value counts, at the place of the first.
fn set(out: &mut Vec<Arg>, arg: Arg) {
    match out.iter_mut().find(|known| known.key == arg.key) {
        Some(known) => known.value = arg.value,
        None => out.push(arg),
    }
}

/// The method that a symbol `space::Interface::Method_Sym::IPCStableHash` is of.
fn method(symbol: &str) -> &str {
    let symbol = symbol.strip_suffix("()").unwrap_or(symbol);
    symbol.strip_suffix("_Sym::IPCStableHash").unwrap_or(symbol)
}

/// The interface, as `space.Interface`; a symbol of less parts as it is.
fn interface(symbol: &str) -> String {
    let parts: Vec<&str> = symbol.split("::").filter(|part| !part.is_empty()).collect();
    match parts.len().checked_sub(2) {
        Some(kept @ 1..) => parts.get(..kept).unwrap_or_default().join("."),
        _ => symbol.to_owned(),
    }
}

impl Model {
    /// Reads `TracePacket.translation_table`: one table.
    pub(crate) fn read_translation_table(&mut self, message: &[u8]) {
        let strings = &mut self.tables.strings;
        let translations = &mut self.args.translations;
        let table = |number| wire::bytes(message, number);
        if let Some(table) = table(CHROME_HISTOGRAM) {
            translations.add_hashes(strings, HISTOGRAMS, table, MAP);
        } else if let Some(table) = table(CHROME_USER_EVENT) {
            translations.add_hashes(strings, USER_EVENTS, table, MAP);
        } else if let Some(table) = table(CHROME_PERFORMANCE_MARK) {
            translations.add_hashes(strings, SITES, table, MAP);
            translations.add_hashes(strings, MARK_NAMES, table, MARKS);
        } else if let Some(table) = table(SLICE_NAME) {
            let renames = read_renames(strings, table);
            self.slices().0.renames.extend(renames);
        } else if let Some(table) = table(PROCESS_TRACK_NAME) {
            let renames = read_renames(strings, table);
            self.process_track_renames.extend(renames);
        } else if let Some(table) = table(CHROME_STUDY) {
            translations.add_hashes(strings, STUDIES, table, MAP);
        }
    }
}

fn read_renames(strings: &mut Strings, table: &[u8]) -> Renames {
    let mut text = |entry, number| strings.intern_bytes(wire::bytes(entry, number).unwrap_or_default());
    wire::all_bytes(table, MAP).map(|entry| (text(entry, KEY), text(entry, VALUE))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_methods_are_taken_apart() {
        for (symbol, expected) in [
            ("a::b::File::Close_Sym::IPCStableHash", ("a::b::File::Close", "a.b.File")),
            ("a::File::Close_Sym::IPCStableHash()", ("a::File::Close", "a.File")),
            ("Class::Method", ("Class::Method", "Class::Method")),
            ("Func", ("Func", "Func")),
        ] {
            assert_eq!((method(symbol), interface(symbol).as_str()), expected, "{symbol}");
        }
    }
}
