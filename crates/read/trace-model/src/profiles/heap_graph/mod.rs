//! The objects of Java heaps (upstream: heap_graph_module.cc, heap_graph_tracker.cc).
//!
//! A dump is many packets of one sequence, which name objects, classes and fields by numbers of their own; a packet that is not `continued` is
//! the last. Objects are rows at once, and so are references. What stands behind numbers may be said later than it is used:
//!
//! 1. `read`: a packet out of its bytes into the dump; rows of objects and references.
//! 2. `finish`: the dump is whole: names of classes and fields, sizes that are those of the class, roots and what they reach, memory beside
//!    the heap.
//! 3. `names`: everything is read: superclasses, and names of Java before they were shortened.
//!
//! Memory: some 100 bytes for each object of a dump until that is whole, and then its rows.

pub(super) mod finish;
pub(super) mod names;
pub(super) mod oome;
mod read;

use std::collections::BTreeMap;

use ferretto_trace_tables::{
    HeapGraphClassId, HeapGraphId, HeapGraphObjectId, MachineId, MappingId, Str, Upid,
};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// `TracePacket.heap_graph`, which the messages here do without.
pub(super) const HEAP_GRAPH: u32 = 56;

/// All dumps.
#[derive(Debug, Default)]
pub struct HeapGraphs {
    /// Those that are not whole, by machine and sequence.
    open: BTreeMap<(MachineId, u32), Dump>,
    /// Rows by process and time.
    rows: HashMap<(Upid, i64), HeapGraphId, RandomState>,
    names: names::Names,
    /// That of frames of Java that have no address.
    art_mapping: Option<MappingId>,
}

/// A dump so far.
#[derive(Debug, Default)]
struct Dump {
    upid: Option<Upid>,
    ts: i64,
    last_object: u64,
    last_heap: u64,
    /// The index of the last packet.
    index: Option<u64>,
    is_truncated: bool,
    heap_size: Option<i64>,
    /// By number.
    objects: HashMap<u64, HeapGraphObjectId, RandomState>,
    classes: HashMap<u64, HeapGraphClassId, RandomState>,
    class_types: BTreeMap<u64, ClassType>,
    locations: HashMap<u64, Str, RandomState>,
    fields: HashMap<u64, FieldType, RandomState>,
    /// References whose field has this number.
    references_of_field: HashMap<u64, Vec<u32>, RandomState>,
    /// Objects whose size is that of their class, and those whose fields are, by class.
    sized_by_class: HashMap<HeapGraphClassId, Vec<HeapGraphObjectId>, RandomState>,
    fields_by_class: HashMap<HeapGraphClassId, Vec<HeapGraphObjectId>, RandomState>,
    roots: Vec<Root>,
    /// Objects that are never collected.
    kept_by_machine: Vec<u64>,
    /// Sizes that registries of memory beside the heap have.
    registered: HashMap<HeapGraphObjectId, i64, RandomState>,
}

/// A class, as packets say it.
#[derive(Debug)]
struct ClassType {
    name: Str,
    location: Option<u64>,
    object_size: u64,
    fields: Vec<u64>,
    superclass: u64,
    classloader: u64,
    kind: usize,
}

/// A field: its name with its class, and the type that it is declared with.
#[derive(Clone, Copy, Debug)]
struct FieldType {
    name: Str,
    type_name: Option<Str>,
}

#[derive(Debug)]
struct Root {
    kind: usize,
    objects: Vec<u64>,
}

/// `HeapGraphRoot.Type` by number.
const ROOTS: [&str; 15] = [
    "ROOT_UNKNOWN",
    "ROOT_JNI_GLOBAL",
    "ROOT_JNI_LOCAL",
    "ROOT_JAVA_FRAME",
    "ROOT_NATIVE_STACK",
    "ROOT_STICKY_CLASS",
    "ROOT_THREAD_BLOCK",
    "ROOT_MONITOR_USED",
    "ROOT_THREAD_OBJECT",
    "ROOT_INTERNED_STRING",
    "ROOT_FINALIZING",
    "ROOT_DEBUGGER",
    "ROOT_REFERENCE_CLEANUP",
    "ROOT_VM_INTERNAL",
    "ROOT_JNI_MONITOR",
];
const ROOT_JNI_GLOBAL: usize = 1;
const ROOT_JNI_LOCAL: usize = 2;
const ROOT_STICKY_CLASS: usize = 5;
const ROOT_VM_INTERNAL: usize = 13;

/// `HeapGraphType.Kind` by number.
const KINDS: [&str; 12] = [
    "KIND_UNKNOWN",
    "KIND_NORMAL",
    "KIND_NOREFERENCES",
    "KIND_STRING",
    "KIND_ARRAY",
    "KIND_CLASS",
    "KIND_CLASSLOADER",
    "KIND_DEXCACHE",
    "KIND_SOFT_REFERENCE",
    "KIND_WEAK_REFERENCE",
    "KIND_FINALIZER_REFERENCE",
    "KIND_PHANTOM_REFERENCE",
];
const WITHOUT_FIELDS: [usize; 3] = [2, 3, 4];
/// References that do not keep what they refer to.
const WEAK: [&str; 3] = ["KIND_WEAK_REFERENCE", "KIND_FINALIZER_REFERENCE", "KIND_PHANTOM_REFERENCE"];

/// `HeapGraphObject.HeapType` by number.
const HEAPS: [&str; 4] = ["HEAP_TYPE_UNKNOWN", "HEAP_TYPE_APP", "HEAP_TYPE_ZYGOTE", "HEAP_TYPE_BOOT_IMAGE"];
/// What lies in these heaps is never collected.
const KEPT_HEAPS: [u64; 2] = [2, 3];
