//! The standard library: modules that `INCLUDE PERFETTO MODULE` makes known, each a text in PerfettoSQL that is named as Trace Processor names
//! it, with the tables, views, functions and macros of this name there.
//!
//! What order or speed depends on is an operator ([`crate::operators`]) that a macro calls.

/// Modules, by name.
const MODULES: &[(&str, &str)] = &[
    ("android.memory.heap_graph.class_tree", include_str!("android/memory/heap_graph/class_tree.sql")),
    ("android.memory.heap_graph.oome", include_str!("android/memory/heap_graph/oome.sql")),
    ("android.memory.heap_profile.intervals", include_str!("android/memory/heap_profile/intervals.sql")),
    ("android.process_metadata", include_str!("android/process_metadata.sql")),
    ("callstacks.stack_profile", include_str!("callstacks/stack_profile.sql")),
    ("counters.global_tracks", include_str!("counters/global_tracks.sql")),
    ("counters.intervals", include_str!("counters/intervals.sql")),
    ("graphs.dominator_tree", include_str!("graphs/dominator_tree.sql")),
    ("graphs.hierarchy", include_str!("graphs/hierarchy.sql")),
    ("graphs.partition", include_str!("graphs/partition.sql")),
    ("graphs.scan", include_str!("graphs/scan.sql")),
    ("graphs.search", include_str!("graphs/search.sql")),
    ("intervals.create_intervals", include_str!("intervals/create_intervals.sql")),
    ("intervals.fill_gaps", include_str!("intervals/fill_gaps.sql")),
    ("intervals.intersect", include_str!("intervals/intersect.sql")),
    ("intervals.overlap", include_str!("intervals/overlap.sql")),
    ("linux.block_io", include_str!("linux/block_io.sql")),
    ("linux.cpu.frequency", include_str!("linux/cpu/frequency.sql")),
    ("linux.cpu.idle", include_str!("linux/cpu/idle.sql")),
    ("linux.cpu.idle_stats", include_str!("linux/cpu/idle_stats.sql")),
    ("linux.cpu.idle_time_in_state", include_str!("linux/cpu/idle_time_in_state.sql")),
    ("linux.cpu.utilization.general", include_str!("linux/cpu/utilization/general.sql")),
    ("linux.cpu.utilization.process", include_str!("linux/cpu/utilization/process.sql")),
    ("linux.cpu.utilization.slice", include_str!("linux/cpu/utilization/slice.sql")),
    ("linux.cpu.utilization.system", include_str!("linux/cpu/utilization/system.sql")),
    ("linux.cpu.utilization.thread", include_str!("linux/cpu/utilization/thread.sql")),
    ("linux.cpu.utilization.thread_cpu", include_str!("linux/cpu/utilization/thread_cpu.sql")),
    ("linux.devfreq", include_str!("linux/devfreq.sql")),
    ("linux.irqs", include_str!("linux/irqs.sql")),
    ("linux.memory.general", include_str!("linux/memory/general.sql")),
    ("linux.memory.high_watermark", include_str!("linux/memory/high_watermark.sql")),
    ("linux.memory.process", include_str!("linux/memory/process.sql")),
    ("linux.perf.counters", include_str!("linux/perf/counters.sql")),
    ("linux.perf.samples", include_str!("linux/perf/samples.sql")),
    ("linux.systemd_journald", include_str!("linux/systemd_journald.sql")),
    ("linux.threads", include_str!("linux/threads.sql")),
    ("prelude", include_str!("prelude.sql")),
    ("sched.latency", include_str!("sched/latency.sql")),
    ("sched.runnable", include_str!("sched/runnable.sql")),
    ("sched.states", include_str!("sched/states.sql")),
    ("sched.thread_level_parallelism", include_str!("sched/thread_level_parallelism.sql")),
    ("sched.time_in_state", include_str!("sched/time_in_state.sql")),
    ("sched.with_context", include_str!("sched/with_context.sql")),
    ("slices.cpu_time", include_str!("slices/cpu_time.sql")),
    ("slices.flat_slices", include_str!("slices/flat_slices.sql")),
    ("slices.flow", include_str!("slices/flow.sql")),
    ("slices.hierarchy", include_str!("slices/hierarchy.sql")),
    ("slices.self_dur", include_str!("slices/self_dur.sql")),
    ("slices.stack", include_str!("slices/stack.sql")),
    ("slices.time_in_state", include_str!("slices/time_in_state.sql")),
    ("slices.with_context", include_str!("slices/with_context.sql")),
    ("stacks.cpu_profiling", include_str!("stacks/cpu_profiling.sql")),
    ("stacks.symbolization_candidates", include_str!("stacks/symbolization_candidates.sql")),
    ("std.metasql.unparenthesize", include_str!("std/metasql/unparenthesize.sql")),
    ("std.thread.with_context", include_str!("std/thread/with_context.sql")),
    (
        "std.traceinfo.metadata_for_primary_scope",
        include_str!("std/traceinfo/metadata_for_primary_scope.sql"),
    ),
    ("std.trees.table_conversion", include_str!("std/trees/table_conversion.sql")),
    ("time.conversion", include_str!("time/conversion.sql")),
    ("traced.stats", include_str!("traced/stats.sql")),
    ("viz.slices", include_str!("viz/slices.sql")),
    ("viz.summary.counters", include_str!("viz/summary/counters.sql")),
    ("viz.summary.processes", include_str!("viz/summary/processes.sql")),
    ("viz.summary.slices", include_str!("viz/summary/slices.sql")),
    ("viz.summary.threads", include_str!("viz/summary/threads.sql")),
    ("viz.summary.trace", include_str!("viz/summary/trace.sql")),
    ("viz.summary.track_event", include_str!("viz/summary/track_event.sql")),
    ("viz.threads", include_str!("viz/threads.sql")),
    ("viz.track_event_callstacks", include_str!("viz/track_event_callstacks.sql")),
];

/// The modules of a name, or of a name that ends with `*`.
pub(crate) fn matching(name: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let prefix = name.strip_suffix('*');
    let is_it = move |module: &&(&'static str, &'static str)| match prefix {
        Some(prefix) => module.0.starts_with(prefix),
        None => module.0 == name,
    };
    MODULES.iter().filter(is_it).copied()
}

/// What modules are called.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    MODULES.iter().map(|(name, _)| *name)
}
