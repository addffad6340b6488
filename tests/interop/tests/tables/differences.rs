//! Where our tables may differ from those of Trace Processor v52, and why: mostly because newer versions do as we do.

/// A column of a table, when a cell may be another one (of ours and theirs), and the reason.
type Rule = (&'static str, &'static str, fn(&str, &str) -> bool, &'static str);

const COLUMNS: &[Rule] = &[
    (
        "thread",
        "name",
        |_, theirs| theirs == "\\N",
        "v59 names threads of the kernel by the list of processes, too",
    ),
    ("thread", "name", is_shorter_kworker, "v59 cuts what a worker of the kernel does off its name"),
    (
        "clock_snapshot",
        "clock_id",
        is_of_sequence,
        "v59 says the number that the trace has, without the sequence's",
    ),
    (
        "ftrace_event",
        "arg_set_id",
        has_all_keys,
        "v59 knows fields of events that v52 does not, and their types",
    ),
    ("ftrace_event", "arg_set_id", |_, theirs| theirs.contains("kworker/"), "the same in names of threads"),
    ("slice", "arg_set_id", has_renamed_message, "v59 has the whole path of a log's message"),
];

/// Tables that v52 does not fill, and the reason.
const TABLES: &[(&str, &str)] = &[
    ("stack_profile_callsite", "v58 reads call stacks in events of programs"),
    ("stack_profile_frame", "the same"),
    ("stack_profile_mapping", "the same"),
];

/// Names of rows of `metadata` and `stats`, or how they begin (`*`), and the reason.
const FACTS: &[(&str, &str, &str)] = &[
    ("metadata", "tracing_service_version", "since v53"),
    ("metadata", "system_ram_*", "since v55"),
    ("metadata", "trace_config_pbtxt", "texts of configs are printed differently"),
    ("stats", "guess_trace_type_duration_ns", "how long something took"),
    ("stats", "parse_trace_duration_ns", "how long something took"),
    ("stats", "clock_sync_cache_miss", "how a cache did"),
    ("stats", "rss_stat_unknown_thread_for_mm_id", "v52 forgets which process has which memory"),
    ("stats", "unknown_extension_fields", "v52 does not know call stacks in events"),
    ("stats", "track_event_parser_errors", "v52 does not know states"),
];

/// Whether a cell may be another one.
pub(crate) fn may_differ(table: &str, column: &str, ours: &str, theirs: &str) -> bool {
    COLUMNS.iter().any(|(of, name, may, _)| *of == table && *name == column && may(ours, theirs))
}

/// Whether a table may have no rows.
pub(crate) fn may_be_missing(table: &str) -> bool {
    TABLES.iter().any(|(of, _)| *of == table)
}

/// Whether a fact may be another one.
pub(crate) fn fact_may_differ(table: &str, name: &str) -> bool {
    FACTS.iter().any(|(of, pattern, _)| {
        *of == table && pattern.strip_suffix('*').map_or(*pattern == name, |begin| name.starts_with(begin))
    })
}

/// Theirs is the sequence's number times 2^32, and ours.
fn is_of_sequence(ours: &str, theirs: &str) -> bool {
    matches!((ours.parse::<u64>(), theirs.parse::<u64>()), (Ok(ours), Ok(theirs)) if theirs >> 32 != 0 && theirs & 0xffff_ffff == ours)
}

/// Sets as the comparison prints them: keys are what is before the first `|` of each part.
fn has_all_keys(ours: &str, theirs: &str) -> bool {
    let keys = |set: &str| -> Vec<String> {
        set.split("; ").filter_map(|arg| arg.split_once('|')).map(|(key, _)| key.to_owned()).collect()
    };
    let ours = keys(ours);
    ours.iter().any(|key| key == "work" || key == "workqueue")
        && keys(theirs).iter().all(|key| ours.contains(key))
}

fn is_shorter_kworker(ours: &str, theirs: &str) -> bool {
    ours.starts_with("kworker/") && theirs.starts_with(ours)
}

fn has_renamed_message(ours: &str, theirs: &str) -> bool {
    let renamed = ours.replace("track_event.log_message.message", "track_event.log_message");
    renamed == theirs
        || renamed == theirs.replace("track_event.log_message.message", "track_event.log_message")
}
