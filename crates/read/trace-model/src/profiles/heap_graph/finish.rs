//! A dump is whole: what was said of its classes becomes that of its objects; its roots, and what they reach.

use std::collections::BTreeMap;

use ferretto_trace_tables::tables::{HeapGraphRow, Tables};
use ferretto_trace_tables::{HeapGraphClassId, HeapGraphId, HeapGraphObjectId, Str};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::names::Class;
use super::read::name_reference;
use super::{
    ClassType, Dump, KINDS, ROOT_JNI_GLOBAL, ROOT_JNI_LOCAL, ROOT_STICKY_CLASS, ROOT_VM_INTERNAL, ROOTS,
    Root, WEAK, WITHOUT_FIELDS,
};
use crate::model::Model;
use crate::stats::{Stat, Stats};

/// Classes above a class: of more the fields are not named. Ours: Java's go some 20 deep, and a trace may say that classes extend each other
/// in a circle.
const MAX_SUPERCLASSES: usize = 256;

/// Fields of an object that are looked through for one by its name. Ours: many objects may refer to one that says that it has any number.
const MAX_FIELDS: usize = 1024;

impl Model {
    /// Dumps that were never whole are taken as they are.
    pub(in super::super) fn finish_heap_graphs(&mut self) {
        let open = std::mem::take(&mut self.profiles.heap_graphs.open);
        if !open.is_empty() {
            self.stats.count(Stat::HeapGraphNonFinalizedGraph);
        }
        for dump in open.into_values() {
            self.finish_heap_graph(dump);
        }
        self.profiles.heap_graphs.names.write_superclasses(&mut self.tables);
    }

    pub(super) fn finish_heap_graph(&mut self, mut dump: Dump) {
        let Self { tables, stats, .. } = self;
        let class_types = std::mem::take(&mut dump.class_types);
        let mut classes = Vec::with_capacity(class_types.len());
        for (number, class) in &class_types {
            let location = dump.location_of(class, stats);
            let row = dump.class(tables, *number);
            dump.size_objects(tables, row, class);
            let references = dump.name_fields(tables, (row, class), &class_types, stats);
            self.profiles.heap_graphs.names.add_named(references);
            dump.write_class(tables, row, class, location);
            classes.push(Class { row, name: class.name, location });
        }
        if !dump.sized_by_class.is_empty() || !dump.fields_by_class.is_empty() {
            stats.add(Stat::HeapGraphMalformedPacket, Some(dump.upid_number()), 1);
        }
        let kept = Root { kind: ROOT_VM_INTERNAL, objects: std::mem::take(&mut dump.kept_by_machine) };
        dump.roots.push(kept);
        mark_roots(tables, &dump);
        add_native_sizes(tables, &dump);
        let upid = dump.upid.unwrap_or_default();
        let names = &mut self.profiles.heap_graphs.names;
        names.add_classes(tables, stats, upid, &classes, &self.profiles.deobfuscation);
        let mut objects: Vec<HeapGraphObjectId> = dump.objects.values().copied().collect();
        objects.sort_unstable();
        names.find_superclasses(tables, &objects);
        self.heap_graph_row(&dump);
    }

    fn heap_graph_row(&mut self, dump: &Dump) {
        let Self { tables, profiles, .. } = self;
        let upid = dump.upid.unwrap_or_default();
        let row = HeapGraphRow { ts: dump.ts, upid, ..HeapGraphRow::default() };
        let row = *profiles
            .heap_graphs
            .rows
            .entry((upid, dump.ts))
            .or_insert_with(|| HeapGraphId(tables.heap_graph.push(row)));
        if dump.heap_size.is_some() {
            tables.heap_graph.heap_size.set(row.index(), dump.heap_size);
        }
        if let Some(cell) = tables.heap_graph.truncated.get_mut(row.index()) {
            *cell |= dump.is_truncated;
        }
    }
}

impl Dump {
    fn upid_number(&self) -> i64 {
        self.upid.map_or(0, |upid| upid.0.into())
    }

    fn location_of(&self, class: &ClassType, stats: &mut Stats) -> Option<Str> {
        let location = self.locations.get(&class.location?);
        if location.is_none() {
            stats.add(Stat::HeapGraphInvalidStringId, Some(self.upid_number()), 1);
        }
        location.copied()
    }

    fn size_objects(&mut self, tables: &mut Tables, row: HeapGraphClassId, class: &ClassType) {
        for object in self.sized_by_class.remove(&row).unwrap_or_default() {
            if let Some(cell) = tables.heap_graph_object.self_size.get_mut(object.index()) {
                *cell = class.object_size as i64;
            }
        }
    }

    fn write_class(
        &mut self,
        tables: &mut Tables,
        row: HeapGraphClassId,
        class: &ClassType,
        location: Option<Str>,
    ) {
        if class.classloader != 0 {
            let classloader = self.object(tables, class.classloader);
            tables.heap_graph_class.classloader_id.set(row.index(), Some(classloader));
        }
        let kind = KINDS.get(class.kind).map(|kind| tables.strings.intern(kind));
        let rows = &mut tables.heap_graph_class;
        for (column, value) in
            [(&mut rows.name, Some(class.name)), (&mut rows.location, location), (&mut rows.kind, kind)]
        {
            if let (Some(cell), Some(_)) = (column.get_mut(row.index()), value) {
                *cell = value;
            }
        }
    }

    /// Names the references of objects that do not say their fields: they are those of the class, then those of what it extends. Gives the
    /// references that got a name.
    fn name_fields(
        &mut self,
        tables: &mut Tables,
        (row, class): (HeapGraphClassId, &ClassType),
        classes: &BTreeMap<u64, ClassType>,
        stats: &mut Stats,
    ) -> Vec<(Str, u32)> {
        let mut named = Vec::new();
        let objects = self.fields_by_class.remove(&row).unwrap_or_default();
        if objects.is_empty() || WITHOUT_FIELDS.contains(&class.kind) {
            return named;
        }
        let upid = self.upid_number();
        let malformed = |stats: &mut Stats| stats.add(Stat::HeapGraphMalformedPacket, Some(upid), 1);
        for object in objects {
            let mut fields = FieldsOfClass { class: Some(class), at: 0, hops: 0 };
            let references: Vec<u32> = references_of(tables, object).collect();
            for reference in references {
                let Some(field) = fields.next(classes) else {
                    malformed(stats);
                    break;
                };
                let Some(field) = self.fields.get(&field).copied() else {
                    malformed(stats);
                    continue;
                };
                name_reference(tables, reference, field);
                named.push((field.name, reference));
            }
        }
        named
    }
}

/// The fields of a class, then those of what it extends.
struct FieldsOfClass<'a> {
    class: Option<&'a ClassType>,
    at: usize,
    hops: usize,
}

impl<'a> FieldsOfClass<'a> {
    fn next(&mut self, classes: &'a BTreeMap<u64, ClassType>) -> Option<u64> {
        loop {
            let class = self.class?;
            if let Some(field) = class.fields.get(self.at) {
                self.at += 1;
                return Some(*field);
            }
            self.at = 0;
            self.hops += 1;
            self.class = classes
                .get(&class.superclass)
                .filter(|_| class.superclass != 0 && self.hops <= MAX_SUPERCLASSES);
        }
    }
}

/// The references of an object: rows that follow one another.
fn references_of(tables: &Tables, object: HeapGraphObjectId) -> impl Iterator<Item = u32> {
    let set = tables.heap_graph_object.reference_set_id.get(object.index());
    let sets = &tables.heap_graph_reference.reference_set_id;
    set.into_iter().flat_map(move |set| (set..).take_while(move |row| sets.get(*row as usize) == Some(&set)))
}

/// The object that a field of another refers to.
pub(super) fn referred(tables: &Tables, object: HeapGraphObjectId, field: Str) -> Option<HeapGraphObjectId> {
    let references = &tables.heap_graph_reference;
    let by_field = |row: &u32| references.field_name.get(*row as usize).copied().flatten() == Some(field);
    let row = references_of(tables, object).take(MAX_FIELDS).find(by_field)?;
    references.owned_id.get(row as usize)
}

/// Of several reasons to be a root, these count, the first most.
fn rank(kind: usize) -> usize {
    let order = [ROOT_STICKY_CLASS, ROOT_JNI_GLOBAL, ROOT_JNI_LOCAL];
    order.iter().position(|its| *its == kind).unwrap_or(order.len())
}

fn mark_roots(tables: &mut Tables, dump: &Dump) {
    let referent = tables.strings.intern("java.lang.ref.Reference.referent");
    let weak = WEAK.map(|kind| tables.strings.intern(kind));
    let mut kinds = HashMap::<HeapGraphObjectId, usize, RandomState>::default();
    let mut stack = Vec::new();
    for root in &dump.roots {
        for object in root.objects.iter().filter_map(|object| dump.objects.get(object).copied()) {
            let before = kinds.get(&object).copied();
            if before.is_some_and(|before| rank(root.kind) >= rank(before)) {
                continue;
            }
            kinds.insert(object, root.kind);
            let kind = ROOTS.get(root.kind).map(|kind| tables.strings.intern(kind));
            if let Some(cell) = tables.heap_graph_object.root_type.get_mut(object.index()) {
                *cell = kind;
            }
            stack.push(object);
            while let Some(object) = stack.pop() {
                reach(tables, object, (referent, &weak), &mut stack);
            }
        }
    }
}

/// Marks an object, and gives those that it keeps.
fn reach(
    tables: &mut Tables,
    object: HeapGraphObjectId,
    (referent, weak): (Str, &[Str]),
    stack: &mut Vec<HeapGraphObjectId>,
) {
    match tables.heap_graph_object.reachable.get_mut(object.index()) {
        Some(reachable) if !*reachable => *reachable = true,
        _ => return,
    }
    let class = tables.heap_graph_object.type_id.get(object.index()).copied().unwrap_or_default();
    let kind = tables.heap_graph_class.kind.get(class.index()).copied().flatten();
    let is_weak = kind.is_some_and(|kind| weak.contains(&kind));
    let references = &tables.heap_graph_reference;
    for row in references_of(tables, object) {
        let field = references.field_name.get(row as usize).copied().flatten();
        if is_weak && field == Some(referent) {
            continue;
        }
        stack.extend(references.owned_id.get(row as usize));
    }
}

/// Memory beside the heap: a cleaner refers to an object and, over a thunk, to a registry that knows how much it has. A cleaner whose next is
/// itself has cleaned up.
fn add_native_sizes(tables: &mut Tables, dump: &Dump) {
    if dump.registered.is_empty() {
        return;
    }
    let cleaner = tables.strings.intern("sun.misc.Cleaner");
    let [referent, thunk, next, registry] = [
        "java.lang.ref.Reference.referent",
        "sun.misc.Cleaner.thunk",
        "sun.misc.Cleaner.next",
        "libcore.util.NativeAllocationRegistry$CleanerThunk.this$0",
    ]
    .map(|field| tables.strings.intern(field));
    for object in dump.objects.values().copied() {
        let class = tables.heap_graph_object.type_id.get(object.index()).copied().unwrap_or_default();
        if tables.heap_graph_class.name.get(class.index()).copied().flatten() != Some(cleaner) {
            continue;
        }
        let of = |field| referred(tables, object, field);
        let (Some(referent), Some(thunk)) = (of(referent), of(thunk)) else { continue };
        if of(next) == Some(object) {
            continue;
        }
        let registry = referred(tables, thunk, registry);
        let Some(size) = registry.and_then(|registry| dump.registered.get(&registry)) else { continue };
        // The lowest bit says who has allocated it.
        if let Some(cell) = tables.heap_graph_object.native_size.get_mut(referent.index()) {
            *cell = cell.saturating_add(size & !1);
        }
    }
}
