//! Tables of the objects of Java heaps (upstream: tables/profiler_tables.py).

use crate::column::Gaps;
use crate::ids::{
    CallsiteId, HeapGraphClassId, HeapGraphId, HeapGraphObjectId, HeapObjectDataId, Upid, Utid,
};
use crate::strings::Str;
use crate::table::table;

table! {
    /// Dumps of the objects of a heap.
    HeapGraphTable, HeapGraphRow, "heap_graph";
    /// When.
    ts: Vec<i64>,
    /// The process, a row of `process`.
    upid: Vec<Upid>,
    /// Why it was dumped.
    dump_reason: Vec<Option<Str>>,
    /// Bytes that were allocated, as the machine of Java says.
    heap_size: Gaps<i64>,
    /// Whether a part of it is missing.
    truncated: Vec<bool>,
}

table! {
    /// Classes of such objects; each dump has its own.
    HeapGraphClassTable, HeapGraphClassRow, "heap_graph_class";
    /// Its name, short if the app's names were shortened.
    name: Vec<Option<Str>>,
    /// Its name in the source.
    deobfuscated_name: Vec<Option<Str>>,
    /// The file that it comes from.
    location: Vec<Option<Str>>,
    /// What it extends, a row of `heap_graph_class`.
    superclass_id: Gaps<HeapGraphClassId>,
    /// What has loaded it, a row of `heap_graph_object`.
    classloader_id: Gaps<HeapGraphObjectId>,
    /// `KIND_NORMAL`, `KIND_ARRAY`, …
    kind: Vec<Option<Str>>,
}

table! {
    /// The objects of a heap. Those with the same `upid` and `graph_sample_ts` are of one dump.
    HeapGraphObjectTable, HeapGraphObjectRow, "heap_graph_object";
    /// The process, a row of `process`.
    upid: Vec<Upid>,
    /// When it was dumped.
    graph_sample_ts: Vec<i64>,
    /// Bytes in the heap.
    self_size: Vec<i64>,
    /// Bytes beside the heap, as far as they are registered.
    native_size: Vec<i64>,
    /// Which objects it refers to, rows of `heap_graph_reference`.
    reference_set_id: Gaps<u32>,
    /// Whether it is reached from a root; if not, it is garbage.
    reachable: Vec<bool>,
    /// Which heap it lies in: `HEAP_TYPE_APP`, `HEAP_TYPE_ZYGOTE`, `HEAP_TYPE_BOOT_IMAGE`.
    heap_type: Vec<Option<Str>>,
    /// Its class, a row of `heap_graph_class`.
    type_id: Vec<HeapGraphClassId>,
    /// Why it is a root, if it is one.
    root_type: Vec<Option<Str>>,
    /// Steps from a root; -1 if not known.
    root_distance: Vec<i32>,
    /// Its values, a row of `heap_graph_object_data`.
    object_data_id: Gaps<HeapObjectDataId>,
}

table! {
    /// Values that are known of objects.
    HeapGraphObjectDataTable, HeapGraphObjectDataRow, "heap_graph_object_data";
    /// Its fields, rows of `heap_graph_primitive`.
    field_set_id: Gaps<u32>,
    /// Of a text, what it says.
    value_string: Vec<Option<Str>>,
    /// Of an array, the type of its elements.
    array_element_type: Vec<Option<Str>>,
    /// Of an array, how many there are.
    array_element_count: Gaps<u32>,
    /// Of an array, the number of its bytes.
    array_data_id: Gaps<u32>,
    /// Of an array, the same for all of the same bytes.
    array_data_hash: Gaps<i64>,
}

table! {
    /// Which object refers to which, by which field.
    HeapGraphReferenceTable, HeapGraphReferenceRow, "heap_graph_reference";
    /// The number of the set, that of its first row.
    reference_set_id: Vec<u32>,
    /// Who refers, a row of `heap_graph_object`.
    owner_id: Vec<HeapGraphObjectId>,
    /// To whom, a row of `heap_graph_object`.
    owned_id: Gaps<HeapGraphObjectId>,
    /// The field, with its class.
    field_name: Vec<Option<Str>>,
    /// The type that the field is declared with.
    field_type_name: Vec<Option<Str>>,
    /// The field's name in the source.
    deobfuscated_field_name: Vec<Option<Str>>,
}

table! {
    /// Fields of objects that are no references.
    HeapGraphPrimitiveTable, HeapGraphPrimitiveRow, "heap_graph_primitive";
    /// The number of the set, that of its first row.
    field_set_id: Vec<u32>,
    /// The field, with its class.
    field_name: Vec<Option<Str>>,
    /// Its type: `int`, `long`, …
    field_type: Vec<Option<Str>>,
    /// If it is `boolean`.
    bool_value: Gaps<u32>,
    /// If it is `byte`.
    byte_value: Gaps<i64>,
    /// If it is `char`.
    char_value: Gaps<i64>,
    /// If it is `short`.
    short_value: Gaps<i64>,
    /// If it is `int`.
    int_value: Gaps<i64>,
    /// If it is `long`.
    long_value: Gaps<i64>,
    /// If it is `float`.
    float_value: Gaps<f64>,
    /// If it is `double`.
    double_value: Gaps<f64>,
}

table! {
    /// Where threads were when a heap was dumped.
    HeapGraphThreadCallsiteTable, HeapGraphThreadCallsiteRow, "heap_graph_thread_callsite";
    /// The dump, a row of `heap_graph`.
    heap_graph_id: Vec<HeapGraphId>,
    /// The thread, a row of `thread`.
    utid: Gaps<Utid>,
    /// The stack, a row of `stack_profile_callsite`.
    callsite_id: Gaps<CallsiteId>,
}

table! {
    /// Why an app's heap had no room, when it was dumped for that.
    HeapGraphJavaOomeDetailsTable, HeapGraphJavaOomeDetailsRow, "heap_graph_java_oome_details";
    /// The dump, a row of `heap_graph`.
    heap_graph_id: Vec<HeapGraphId>,
    /// Bytes that were asked for.
    allocation_size_bytes: Vec<i64>,
    /// Bytes that were free.
    total_bytes_free: Vec<i64>,
    /// Bytes by which the heap could have grown.
    free_bytes_until_oom: Vec<i64>,
    /// What the error said.
    error_msg: Vec<Option<Str>>,
}
