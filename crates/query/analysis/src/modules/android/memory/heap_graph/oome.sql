-- Why an app's heap had no room, where it was dumped for that.
create perfetto view android_heap_graph_java_oome_details(
    -- The row.
    id ID,
    -- The dump.
    heap_graph_id JOINID(heap_graph.id),
    -- Bytes that were asked for.
    allocation_size_bytes LONG,
    -- Bytes that were free.
    total_bytes_free LONG,
    -- Bytes by which the heap could have grown.
    free_bytes_until_oom LONG,
    -- What the error said.
    error_msg STRING
) as
select id, heap_graph_id, allocation_size_bytes, total_bytes_free, free_bytes_until_oom, error_msg
from __intrinsic_heap_graph_java_oome_details;
