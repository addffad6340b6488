//! A packet of a dump.

use ferretto_protozero::read::Value;
use ferretto_trace_tables::tables::{
    HeapGraphClassRow, HeapGraphObjectDataRow, HeapGraphObjectRow, HeapGraphPrimitiveRow,
    HeapGraphReferenceRow, Tables,
};
use ferretto_trace_tables::{HeapGraphClassId, HeapGraphObjectId, HeapObjectDataId, Upid};

use super::{ClassType, Dump, FieldType, HEAPS, KEPT_HEAPS, KINDS, ROOTS, Root};
use crate::event::WholePacket;
use crate::model::Model;
use crate::stats::{Stat, Stats};
use crate::wire;

/// `HeapGraph`.
mod graph {
    pub(super) const PID: u32 = 1;
    pub(super) const OBJECTS: u32 = 2;
    pub(super) const FIELD_NAMES: u32 = 4;
    pub(super) const CONTINUED: u32 = 5;
    pub(super) const INDEX: u32 = 6;
    pub(super) const ROOTS: u32 = 7;
    pub(super) const LOCATION_NAMES: u32 = 8;
    pub(super) const TYPES: u32 = 9;
    pub(super) const HEAP_BYTES_ALLOCATED: u32 = 10;
}

/// `HeapGraphObject`.
mod object {
    pub(super) const ID: u32 = 1;
    pub(super) const TYPE_ID: u32 = 2;
    pub(super) const SELF_SIZE: u32 = 3;
    pub(super) const REFERENCE_FIELD_ID: u32 = 4;
    pub(super) const REFERENCE_OBJECT_ID: u32 = 5;
    pub(super) const REFERENCE_FIELD_ID_BASE: u32 = 6;
    pub(super) const ID_DELTA: u32 = 7;
    pub(super) const REGISTERED_SIZE: u32 = 8;
    pub(super) const HEAP_TYPE_DELTA: u32 = 9;
    pub(super) const RUNTIME_INTERNAL_OBJECT_ID: u32 = 10;
    pub(super) const BITMAP_ID: u32 = 11;
    pub(super) const BITMAP_SOURCE_ID: u32 = 12;
    pub(super) const BITMAP_WIDTH: u32 = 13;
    pub(super) const BITMAP_HEIGHT: u32 = 14;
}

/// `HeapGraphType`.
mod class {
    pub(super) const ID: u32 = 1;
    pub(super) const LOCATION_ID: u32 = 2;
    pub(super) const CLASS_NAME: u32 = 3;
    pub(super) const OBJECT_SIZE: u32 = 4;
    pub(super) const SUPERCLASS_ID: u32 = 5;
    pub(super) const REFERENCE_FIELD_ID: u32 = 6;
    pub(super) const KIND: u32 = 7;
    pub(super) const CLASSLOADER_ID: u32 = 8;
}

/// An object, as its message says it.
#[derive(Debug, Default)]
struct Object {
    id: u64,
    class: u64,
    size: u64,
    heap: u64,
    fields: Vec<u64>,
    refers_to: Vec<u64>,
    internal: Vec<u64>,
    registered_size: Option<i64>,
    /// Number, source, width and height of a bitmap.
    bitmap: [Option<i64>; 4],
}

impl Object {
    fn of(message: &[u8], dump: &Dump) -> Self {
        let mut it = Self { heap: dump.last_heap, ..Self::default() };
        let (mut delta, mut base) = (0, 0);
        for field in wire::fields(message) {
            let number = field.value.as_u64().unwrap_or(0);
            match field.number {
                object::ID => it.id = number,
                object::ID_DELTA => delta = number,
                object::TYPE_ID => it.class = number,
                object::SELF_SIZE => it.size = number,
                object::REFERENCE_FIELD_ID => it.fields.extend(wire::numbers_of(field.value)),
                object::REFERENCE_OBJECT_ID => it.refers_to.extend(wire::numbers_of(field.value)),
                object::RUNTIME_INTERNAL_OBJECT_ID => it.internal.extend(wire::numbers_of(field.value)),
                object::REFERENCE_FIELD_ID_BASE => base = number,
                object::HEAP_TYPE_DELTA => it.heap = number,
                object::REGISTERED_SIZE => it.registered_size = Some(number as i64),
                object::BITMAP_ID => it.bitmap[0] = Some(number as i64),
                object::BITMAP_SOURCE_ID => it.bitmap[1] = Some(number as i64),
                object::BITMAP_WIDTH => it.bitmap[2] = Some(i64::from(number as u32)),
                object::BITMAP_HEIGHT => it.bitmap[3] = Some(i64::from(number as u32)),
                _ => {}
            }
        }
        if delta != 0 {
            it.id = dump.last_object.wrapping_add(delta);
        }
        // Its name speaks of fields, but it is what numbers of objects begin with.
        for object in it.refers_to.iter_mut().filter(|object| **object != 0) {
            *object = object.wrapping_add(base);
        }
        it
    }
}

impl Model {
    /// Reads `TracePacket.heap_graph`.
    pub(in super::super) fn apply_heap_graph(&mut self, ts: i64, packet: &WholePacket) {
        let (machine, message) = (packet.origin.machine, &*packet.data);
        let pid = wire::number(message, graph::PID).unwrap_or(0) as u32;
        let (tables, processes) = self.processes(machine);
        let upid = processes.process(tables, i64::from(pid));
        let key = (machine, packet.origin.sequence_id);
        let Self { tables, stats, profiles, .. } = self;
        let mut dump = profiles.heap_graphs.open.remove(&key).unwrap_or_default();
        dump.count_packet(wire::number(message, graph::INDEX).unwrap_or(0), stats);
        if let Some(size) = wire::int(message, graph::HEAP_BYTES_ALLOCATED) {
            dump.heap_size = Some(size);
        }
        for object in wire::all_bytes(message, graph::OBJECTS) {
            let object = Object::of(object, &dump);
            if !object.fields.is_empty() && object.fields.len() != object.refers_to.len() {
                stats.add(Stat::HeapGraphMalformedPacket, Some(upid.0.into()), 1);
            } else if dump.is_of(upid, ts, stats) {
                dump.add(tables, object);
            }
        }
        for class in wire::all_bytes(message, graph::TYPES) {
            dump.add_class(tables, class);
        }
        for field in wire::all_bytes(message, graph::FIELD_NAMES) {
            let references = dump.add_field(tables, field);
            profiles.heap_graphs.names.add_references(references);
        }
        for location in wire::all_bytes(message, graph::LOCATION_NAMES) {
            let (number, name) = interned(location);
            dump.locations.entry(number).or_insert_with(|| tables.strings.intern_bytes(name));
        }
        for root in wire::all_bytes(message, graph::ROOTS) {
            if dump.is_of(upid, ts, stats) {
                dump.add_root(root);
            }
        }
        match wire::number(message, graph::CONTINUED) {
            None | Some(0) => self.finish_heap_graph(dump),
            Some(_) => _ = self.profiles.heap_graphs.open.insert(key, dump),
        }
    }
}

impl Dump {
    /// Packets have indices from 0 on, so that it is known if one is missing.
    fn count_packet(&mut self, index: u64, stats: &mut Stats) {
        let expected = self.index.map_or(0, |last| last.wrapping_add(1));
        if index != expected {
            self.is_truncated = true;
            stats.add(Stat::HeapGraphMissingPacket, Some(self.upid.map_or(0, |upid| upid.0.into())), 1);
        }
        self.index = Some(index);
    }

    /// A dump is of one process and time; what is of others is left out.
    fn is_of(&mut self, upid: Upid, ts: i64, stats: &mut Stats) -> bool {
        let is_other = self.upid.is_some_and(|its| its != upid) || self.ts != 0 && self.ts != ts;
        if is_other {
            stats.count(Stat::HeapGraphNonFinalizedGraph);
            return false;
        }
        self.upid = Some(upid);
        self.ts = ts;
        true
    }

    /// The row of an object; one that was not described so far is of size -1.
    pub(super) fn object(&mut self, tables: &mut Tables, id: u64) -> HeapGraphObjectId {
        let (upid, ts) = (self.upid.unwrap_or_default(), self.ts);
        *self.objects.entry(id).or_insert_with(|| {
            let row = HeapGraphObjectRow {
                upid,
                graph_sample_ts: ts,
                self_size: -1,
                root_distance: -1,
                ..HeapGraphObjectRow::default()
            };
            HeapGraphObjectId(tables.heap_graph_object.push(row))
        })
    }

    pub(super) fn class(&mut self, tables: &mut Tables, id: u64) -> HeapGraphClassId {
        let row = || HeapGraphClassId(tables.heap_graph_class.push(HeapGraphClassRow::default()));
        *self.classes.entry(id).or_insert_with(row)
    }

    fn add(&mut self, tables: &mut Tables, object: Object) {
        (self.last_object, self.last_heap) = (object.id, object.heap);
        let owner = self.object(tables, object.id);
        let class = self.class(tables, object.class);
        let heap = usize::try_from(object.heap).ok().and_then(|heap| HEAPS.get(heap));
        let heap = heap.filter(|_| object.heap != 0).map(|heap| tables.strings.intern(heap));
        let rows = &mut tables.heap_graph_object;
        if let Some(cell) = rows.self_size.get_mut(owner.index()) {
            *cell = object.size as i64;
        }
        if let Some(cell) = rows.type_id.get_mut(owner.index()) {
            *cell = class;
        }
        if let (Some(cell), Some(_)) = (rows.heap_type.get_mut(owner.index()), heap) {
            *cell = heap;
        }
        if KEPT_HEAPS.contains(&object.heap) {
            self.kept_by_machine.push(object.id);
        }
        if object.size == 0 {
            self.sized_by_class.entry(class).or_default().push(owner);
        }
        self.add_references(tables, (owner, class), &object);
        if let Some(size) = object.registered_size {
            self.registered.insert(owner, size);
        }
        if object.bitmap.iter().any(Option::is_some) {
            add_bitmap(tables, owner, object.bitmap);
        }
    }

    fn add_references(
        &mut self,
        tables: &mut Tables,
        (owner_id, class): (HeapGraphObjectId, HeapGraphClassId),
        object: &Object,
    ) {
        let set = u32::try_from(tables.heap_graph_reference.len()).unwrap_or(u32::MAX);
        let row = HeapGraphReferenceRow { reference_set_id: set, owner_id, ..Default::default() };
        for (at, owned) in object.refers_to.iter().enumerate() {
            let owned_id = (*owned != 0).then(|| self.object(tables, *owned));
            let row = tables.heap_graph_reference.push(HeapGraphReferenceRow { owned_id, ..row });
            if let Some(field) = object.fields.get(at) {
                self.references_of_field.entry(*field).or_default().push(row);
            }
        }
        let field_name = Some(tables.strings.intern("runtimeInternalObjects"));
        for owned in &object.internal {
            let owned_id = Some(self.object(tables, *owned));
            tables.heap_graph_reference.push(HeapGraphReferenceRow { owned_id, field_name, ..row });
        }
        if !object.refers_to.is_empty() || !object.internal.is_empty() {
            tables.heap_graph_object.reference_set_id.set(owner_id.index(), Some(set));
        }
        if !object.refers_to.is_empty() && object.fields.is_empty() {
            self.fields_by_class.entry(class).or_default().push(owner_id);
        }
    }

    fn add_class(&mut self, tables: &mut Tables, message: &[u8]) {
        let number = |field| wire::number(message, field);
        let kind = number(class::KIND).and_then(|kind| usize::try_from(kind).ok());
        let name = wire::bytes(message, class::CLASS_NAME).unwrap_or_default();
        let class = ClassType {
            name: tables.strings.intern_bytes(name),
            location: number(class::LOCATION_ID),
            object_size: number(class::OBJECT_SIZE).unwrap_or(0),
            fields: wire::all_numbers(message, class::REFERENCE_FIELD_ID).collect(),
            superclass: number(class::SUPERCLASS_ID).unwrap_or(0),
            classloader: number(class::CLASSLOADER_ID).unwrap_or(0),
            kind: kind.filter(|kind| *kind < KINDS.len()).unwrap_or(0),
        };
        self.class_types.insert(number(class::ID).unwrap_or(0), class);
    }

    /// Reads `TYPE NAME`; gives the references that have this field so far, and its name.
    fn add_field(&mut self, tables: &mut Tables, message: &[u8]) -> (FieldType, Vec<u32>) {
        let (number, text) = interned(message);
        let text = String::from_utf8_lossy(text);
        let (type_name, name) =
            text.split_once(' ').map_or((None, &*text), |(type_, name)| (Some(type_), name));
        let field = FieldType {
            name: tables.strings.intern(name),
            type_name: type_name.map(|name| tables.strings.intern(name)),
        };
        self.fields.entry(number).or_insert(field);
        let references = self.references_of_field.remove(&number).unwrap_or_default();
        for row in &references {
            name_reference(tables, *row, field);
        }
        (field, references)
    }

    fn add_root(&mut self, message: &[u8]) {
        /// Of `HeapGraphRoot`.
        const OBJECT_IDS: u32 = 1;
        const ROOT_TYPE: u32 = 2;
        let kind = wire::number(message, ROOT_TYPE).and_then(|kind| usize::try_from(kind).ok());
        let kind = kind.filter(|kind| *kind < ROOTS.len()).unwrap_or(0);
        self.roots.push(Root { kind, objects: wire::all_numbers(message, OBJECT_IDS).collect() });
    }
}

/// A reference is by this field.
pub(super) fn name_reference(tables: &mut Tables, row: u32, field: FieldType) {
    let references = &mut tables.heap_graph_reference;
    if let Some(cell) = references.field_name.get_mut(row as usize) {
        *cell = Some(field.name);
    }
    if let Some(cell) = references.field_type_name.get_mut(row as usize) {
        *cell = field.type_name;
    }
}

fn add_bitmap(tables: &mut Tables, owner: HeapGraphObjectId, values: [Option<i64>; 4]) {
    let field_set_id = u32::try_from(tables.heap_graph_primitive.len()).unwrap_or(u32::MAX);
    let names = [("mId", true), ("mSourceId", true), ("mWidth", false), ("mHeight", false)];
    for ((name, is_long), value) in names.into_iter().zip(values) {
        let Some(value) = value else { continue };
        let row = HeapGraphPrimitiveRow {
            field_set_id,
            field_name: Some(tables.strings.intern(&format!("android.graphics.Bitmap.{name}"))),
            field_type: Some(tables.strings.intern(if is_long { "long" } else { "int" })),
            long_value: is_long.then_some(value),
            int_value: (!is_long).then_some(value),
            ..HeapGraphPrimitiveRow::default()
        };
        tables.heap_graph_primitive.push(row);
    }
    let data = HeapGraphObjectDataRow { field_set_id: Some(field_set_id), ..Default::default() };
    let data = HeapObjectDataId(tables.heap_graph_object_data.push(data));
    tables.heap_graph_object.object_data_id.set(owner.index(), Some(data));
}

/// `InternedString`.
fn interned(message: &[u8]) -> (u64, &[u8]) {
    let (mut number, mut text) = (0, &[][..]);
    for field in wire::fields(message) {
        match (field.number, field.value) {
            (1, Value::Varint(iid)) => number = iid,
            (2, Value::Bytes(bytes)) => text = bytes,
            _ => {}
        }
    }
    (number, text)
}
