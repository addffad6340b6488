//! Names of classes: which one extends which, and what they were called before they were shortened.
//!
//! A name may be that of an array (`X[]`) or of the class's own object (`java.lang.Class<X>`); here it is `X`.

use ferretto_protos::fields::{deobfuscation_mapping, obfuscated_class, obfuscated_member};
use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{HeapGraphClassId, HeapGraphObjectId, Str, Upid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::finish::referred;
use super::{FieldType, HeapGraphs};
use crate::profiles::deobfuscation;
use crate::stats::Stats;
use crate::wire;

/// A name and the file that the class comes from.
type Key = (Str, Option<Str>);

/// What is known of names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Classes by package and name.
    classes: HashMap<(Option<Str>, Str), Vec<HeapGraphClassId>, RandomState>,
    /// References by the name of their field.
    references: HashMap<Str, Vec<u32>, RandomState>,
    /// Of a class the last row.
    latest: HashMap<Key, HeapGraphClassId, RandomState>,
    /// What a class extends, for rows up to a number: each dump says it for those before it, too.
    superclasses: HashMap<Key, (HeapGraphClassId, usize), RandomState>,
}

/// A class of a dump.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub row: HeapGraphClassId,
    pub name: Str,
    pub location: Option<Str>,
}

/// A name without what is around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bare<'a> {
    name: &'a str,
    is_class_object: bool,
    arrays: usize,
}

impl<'a> Bare<'a> {
    fn of(name: &'a str) -> Self {
        let inner = name.strip_prefix("java.lang.Class<").and_then(|name| name.strip_suffix('>'));
        let mut it = Self { name: inner.unwrap_or(name), is_class_object: inner.is_some(), arrays: 0 };
        while let Some(element) = it.name.strip_suffix("[]") {
            it.name = element;
            it.arrays += 1;
        }
        it
    }

    /// The same around another name.
    fn around(self, name: &str) -> String {
        let name = format!("{name}{}", "[]".repeat(self.arrays));
        if self.is_class_object { format!("java.lang.Class<{name}>") } else { name }
    }
}

impl HeapGraphs {
    /// Names that one mapping says.
    pub(in super::super) fn deobfuscate(&self, tables: &mut Tables, packet: &[u8]) {
        let text =
            |message, number| String::from_utf8_lossy(wire::bytes(message, number).unwrap_or_default());
        let package = text(packet, deobfuscation_mapping::PACKAGE_NAME);
        let package = (!package.is_empty()).then(|| tables.strings.intern(&package));
        for class in wire::all_bytes(packet, deobfuscation_mapping::OBFUSCATED_CLASSES) {
            let short = text(class, obfuscated_class::OBFUSCATED_NAME);
            let name = text(class, obfuscated_class::DEOBFUSCATED_NAME);
            let short_id = tables.strings.intern(&short);
            self.names.name_class(tables, None, short_id, &name);
            if package.is_some() {
                self.names.name_class(tables, package, short_id, &name);
            }
            for member in wire::all_bytes(class, obfuscated_class::OBFUSCATED_MEMBERS) {
                let field = format!("{short}.{}", text(member, obfuscated_member::OBFUSCATED_NAME));
                let field = tables.strings.intern(&field);
                let its =
                    deobfuscation::with_class(&name, &text(member, obfuscated_member::DEOBFUSCATED_NAME));
                let its = tables.strings.intern(&its);
                self.names.name_field(tables, field, its);
            }
        }
    }
}

impl Names {
    pub(super) fn add_references(&mut self, (field, rows): (FieldType, Vec<u32>)) {
        if !rows.is_empty() {
            self.references.entry(field.name).or_default().extend(rows);
        }
    }

    pub(super) fn add_named(&mut self, named: Vec<(Str, u32)>) {
        for (field, row) in named {
            self.references.entry(field).or_default().push(row);
        }
    }

    /// The classes of a dump.
    pub(super) fn add_classes(
        &mut self,
        tables: &mut Tables,
        stats: &mut Stats,
        upid: Upid,
        classes: &[Class],
        packages: &deobfuscation::Names,
    ) {
        let of_process = packages.package_of(tables.process.android_appid.get(upid.index()));
        for class in classes {
            let path = class.location.map(|location| tables.strings.get(location).to_owned());
            let package = path.and_then(|path| deobfuscation::package(&path, stats));
            let package = package.map(|package| tables.strings.intern(&package)).or(of_process);
            let bare = Bare::of(tables.strings.get(class.name)).name.to_owned();
            let bare = tables.strings.intern(&bare);
            self.classes.entry((package, bare)).or_default().push(class.row);
            self.latest.insert((class.name, class.location), class.row);
        }
    }

    /// The classes' own objects refer to those of what they extend.
    pub(super) fn find_superclasses(&mut self, tables: &mut Tables, objects: &[HeapGraphObjectId]) {
        let field = tables.strings.intern("java.lang.Class.superClass");
        let before = tables.heap_graph_class.len();
        for object in objects {
            let Some((name, location)) = class_of(tables, *object) else { continue };
            let bare = Bare::of(tables.strings.get(name));
            if !bare.is_class_object || bare.arrays > 0 {
                continue;
            }
            let bare = bare.name.to_owned();
            let Some(superclass) = referred(tables, *object, field) else { continue };
            let Some((super_name, super_location)) = class_of(tables, superclass) else { continue };
            let super_name = Bare::of(tables.strings.get(super_name)).name.to_owned();
            let key = (tables.strings.intern(&bare), location);
            let super_name = tables.strings.intern(&super_name);
            // Those without objects may not be said at all.
            if let Some(superclass) = self.latest.get(&(super_name, super_location)) {
                self.superclasses.insert(key, (*superclass, before));
            }
        }
    }

    /// Writes what each class extends.
    pub(super) fn write_superclasses(&self, tables: &mut Tables) {
        if self.superclasses.is_empty() {
            return;
        }
        for row in 0..tables.heap_graph_class.len() {
            let name = tables.heap_graph_class.name.get(row).copied().flatten();
            let location = tables.heap_graph_class.location.get(row).copied().flatten();
            let found = name.and_then(|name| self.superclasses.get(&(name, location)));
            if let Some((superclass, before)) = found
                && row < *before
            {
                tables.heap_graph_class.superclass_id.set(row, Some(*superclass));
            }
        }
    }

    /// A class was called so in the source; one without a package is any of that name.
    fn name_class(&self, tables: &mut Tables, package: Option<Str>, short: Str, name: &str) {
        for row in self.classes.get(&(package, short)).into_iter().flatten() {
            let Some(its) = tables.heap_graph_class.name.get(row.index()).copied().flatten() else {
                continue;
            };
            let name = Bare::of(tables.strings.get(its)).around(name);
            let name = tables.strings.intern(&name);
            if let Some(cell) = tables.heap_graph_class.deobfuscated_name.get_mut(row.index()) {
                *cell = Some(name);
            }
        }
    }

    /// A field was called so in the source.
    fn name_field(&self, tables: &mut Tables, short: Str, name: Str) {
        for row in self.references.get(&short).into_iter().flatten() {
            if let Some(cell) = tables.heap_graph_reference.deobfuscated_field_name.get_mut(*row as usize) {
                *cell = Some(name);
            }
        }
    }
}

fn class_of(tables: &Tables, object: HeapGraphObjectId) -> Option<Key> {
    let class = tables.heap_graph_object.type_id.get(object.index())?;
    let name = tables.heap_graph_class.name.get(class.index()).copied().flatten()?;
    Some((name, tables.heap_graph_class.location.get(class.index()).copied().flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_out_of_what_is_around_them_and_put_back() {
        for (name, bare) in [
            ("a.B", "a.B"),
            ("a.B[]", "a.B"),
            ("a.B[][]", "a.B"),
            ("java.lang.Class<a.B[]>", "a.B"),
            ("java.lang.Class<a.B", "java.lang.Class<a.B"),
            ("[]", ""),
        ] {
            assert_eq!(Bare::of(name).name, bare);
            assert_eq!(Bare::of(name).around(bare), name);
        }
    }
}
