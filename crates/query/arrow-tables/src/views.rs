//! Views: names that Trace Processor's users expect beside those of tables (upstream: stdlib/prelude/after_eof/*.sql).
//!
//! A view takes rows of one table, by what stands in two of its columns, and names its columns. Those that compute more than the sum of two
//! numbers (`display_value` of `args`, `trace_bounds`) are left to SQL.

/// A view.
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    /// The table that it has its rows of.
    pub(crate) of: &'static str,
    /// Only rows where all of this holds.
    pub(crate) only: &'static [Only],
    /// Its columns; without any all those of its table.
    pub(crate) columns: &'static [Named],
    /// Whether it has no rows but those that a table's file has under another name: it is none of a folder's files.
    pub(crate) is_spare: bool,
}

/// What must hold of a row.
pub(crate) enum Only {
    /// The text stands in the column.
    Is(&'static str, &'static str),
    /// The number stands in the column.
    Number(&'static str, i64),
    /// Something stands in the column.
    Set(&'static str),
}

/// A column: its name, and what stands in it.
pub(crate) type Named = (&'static str, What);

/// What stands in a column that a view, or a table's SQL, adds.
#[derive(Clone, Copy)]
pub(crate) enum What {
    /// The column of that name.
    Same,
    /// The column of another name.
    As(&'static str),
    /// The sum of two.
    Sum(&'static str, &'static str),
    /// Of the table (second) whose row the column (first) names, the column (third).
    Through(&'static str, &'static str, &'static str),
    /// Of the arguments of the column (first) that with the key (second).
    Argument(&'static str, &'static str),
}

/// Columns that tables have in SQL beside their own, or in the place of those: `(table, name, what it is, is_spare)`.
pub(crate) const ADDED: &[(&str, &str, &str, What, bool)] = &[
    (
        "cpu",
        "id",
        "Its number over all machines, the same as `ucpu`: what other tables name it by.",
        What::As("ucpu"),
        false,
    ),
    ("slice", "cat", "The same as `category`.", What::As("category"), true),
    ("slice", "slice_id", "The same as `id`.", What::As("id"), true),
    ("thread", "utid", "The same as `id`: what other tables name it by.", What::As("id"), false),
    ("process", "upid", "The same as `id`: what other tables name it by.", What::As("id"), false),
    (
        "sched",
        "cpu",
        "The same as `ucpu`; the processor's own number if there is one machine.",
        What::As("ucpu"),
        false,
    ),
    ("sched", "ts_end", "When it was switched out: `ts` and `dur`.", What::Sum("ts", "dur"), true),
    (
        "thread_state",
        "cpu",
        "The same as `ucpu`; the processor's own number if there is one machine.",
        What::As("ucpu"),
        false,
    ),
    (
        "ftrace_event",
        "cpu",
        "The same as `ucpu`; the processor's own number if there is one machine.",
        What::As("ucpu"),
        false,
    ),
];

const TRACK: [Named; 7] = [
    ("id", What::Same),
    ("name", What::Same),
    ("type", What::Same),
    ("parent_id", What::Same),
    ("source_arg_set_id", What::Same),
    ("dimension_arg_set_id", What::Same),
    ("machine_id", What::Same),
];

const fn track_of(of: &'static str) -> [Named; 8] {
    let [a, b, c, d, e, f, g] = TRACK;
    [a, b, c, d, e, f, g, (of, What::Same)]
}

const fn counter_track_of(of: &'static str) -> [Named; 10] {
    let [a, b, c, d, e, f, g] = TRACK;
    let [h, i] = COUNTER;
    [a, b, c, d, e, f, g, h, i, (of, What::Same)]
}

const COUNTER: [Named; 2] =
    [("unit", What::As("counter_unit")), ("description", What::Argument("source_arg_set_id", "description"))];

const COUNTER_TRACK: [Named; 9] = {
    let [a, b, c, d, e, f, g] = TRACK;
    let [h, i] = COUNTER;
    [a, b, c, d, e, f, g, h, i]
};

macro_rules! tracks {
    ($($name:literal, $doc:literal, $event_type:literal, $columns:expr $(, $of:literal)?;)*) => { [$(
        View {
            name: $name,
            doc: $doc,
            of: "track",
            only: &[Only::Is("event_type", $event_type) $(, Only::Set($of))?],
            columns: &$columns,
            is_spare: false,
        },
    )*] };
}

/// Views over `track`.
pub(crate) const TRACKS: &[View] = &tracks! {
    "thread_track", "Tracks of threads that have slices.", "slice", track_of("utid"), "utid";
    "process_track", "Tracks of processes that have slices.", "slice", track_of("upid"), "upid";
    "cpu_track", "Tracks of processors that have slices.", "slice", track_of("cpu"), "cpu";
    "counter_track", "Counters.", "counter", COUNTER_TRACK;
    "thread_counter_track", "Counters of threads.", "counter", counter_track_of("utid"), "utid";
    "process_counter_track", "Counters of processes.", "counter", counter_track_of("upid"), "upid";
    "cpu_counter_track", "Counters of processors.", "counter", counter_track_of("cpu"), "cpu";
    "state_track", "Tracks of states.", "state", TRACK;
    "thread_state_track", "States of threads.", "state", track_of("utid"), "utid";
    "process_state_track", "States of processes.", "state", track_of("upid"), "upid";
};

const TASK: &str = "__intrinsic_profiler_task_context";
const EXECUTION: &str = "__intrinsic_profiler_execution_context";

/// Views over the samples of profilers (upstream: stack_samples.sql, memory.sql). `cpu_mode` is nothing where upstream says `unknown`.
pub(crate) const SAMPLES: &[View] = &[
    View {
        name: "stack_sample",
        doc: "Samples of all profilers that have a stack.",
        of: "__intrinsic_profiler_sample",
        only: &[Only::Set("callsite_id")],
        columns: &[
            ("id", What::Same),
            ("ts", What::Same),
            ("source", What::Same),
            ("task_context_id", What::Same),
            ("execution_context_id", What::Same),
            ("callsite_id", What::Same),
            ("session_id", What::Same),
        ],
        is_spare: true,
    },
    View {
        name: "perf_sample",
        doc: "Samples of Linux's perf, with or without a stack.",
        of: "__intrinsic_profiler_sample",
        only: &[Only::Is("source", "linux.perf")],
        columns: &[
            ("id", What::Same),
            ("ts", What::Same),
            ("utid", What::Through("task_context_id", TASK, "utid")),
            ("cpu", What::Through("execution_context_id", EXECUTION, "ucpu")),
            ("cpu_mode", What::Through("execution_context_id", EXECUTION, "cpu_mode")),
            ("callsite_id", What::Same),
            ("unwind_error", What::Same),
            ("perf_session_id", What::As("session_id")),
        ],
        is_spare: false,
    },
    View {
        name: "perf_session",
        doc: "Recordings of Linux's perf.",
        of: "__intrinsic_profiler_session",
        only: &[Only::Is("source", "linux.perf")],
        columns: &[("id", What::Same), ("perf_session_id", What::As("id")), ("cmdline", What::Same)],
        is_spare: false,
    },
];

/// Views over other tables.
pub(crate) const OTHERS: &[View] = &[
    View {
        name: "slices",
        doc: "The same as `slice`.",
        of: "slice",
        only: &[],
        columns: &[],
        is_spare: true,
    },
    View {
        name: "instant",
        doc: "Slices that took no time.",
        of: "slice",
        only: &[Only::Number("dur", 0)],
        columns: &[
            ("ts", What::Same),
            ("track_id", What::Same),
            ("name", What::Same),
            ("arg_set_id", What::Same),
        ],
        is_spare: true,
    },
    View {
        name: "sched_slice",
        doc: "The same as `sched`.",
        of: "sched",
        only: &[],
        columns: &[
            ("id", What::Same),
            ("ts", What::Same),
            ("dur", What::Same),
            ("cpu", What::Same),
            ("utid", What::Same),
            ("end_state", What::Same),
            ("priority", What::Same),
            ("ucpu", What::Same),
        ],
        is_spare: true,
    },
    View {
        name: "counters",
        doc: "`counter` with the names and units of its tracks.",
        of: "counter",
        only: &[],
        columns: &[
            ("id", What::Same),
            ("ts", What::Same),
            ("track_id", What::Same),
            ("value", What::Same),
            ("arg_set_id", What::Same),
            ("name", What::Through("track_id", "track", "name")),
            ("unit", What::Through("track_id", "track", "counter_unit")),
        ],
        is_spare: true,
    },
    View {
        name: "cpu_available_frequencies",
        doc: "The same as `cpu_freq`, with the processors' numbers.",
        of: "cpu_freq",
        only: &[],
        columns: &[("id", What::Same), ("cpu", What::As("ucpu")), ("freq", What::Same), ("ucpu", What::Same)],
        is_spare: true,
    },
    View {
        name: "raw",
        doc: "The same as `ftrace_event`.",
        of: "ftrace_event",
        only: &[],
        columns: &[],
        is_spare: true,
    },
    View {
        name: "android_logs",
        doc: "Those of `logs` that are Android's.",
        of: "logs",
        only: &[Only::Is("log_source", "android_logcat")],
        columns: &[
            ("id", What::Same),
            ("ts", What::Same),
            ("utid", What::Same),
            ("prio", What::Same),
            ("tag", What::Same),
            ("msg", What::Same),
        ],
        is_spare: true,
    },
];
