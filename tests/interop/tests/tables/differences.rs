//! Where our tables may differ from those of Trace Processor v52, and why: mostly because newer versions do as we do.

/// A column of a table, and the reason.
const COLUMNS: &[(&str, &str, &str)] = &[];

/// Names of rows of `metadata` and `stats`, or how they begin (`*`), and the reason.
const FACTS: &[(&str, &str, &str)] = &[
    ("stats", "guess_trace_type_duration_ns", "how long something took"),
    ("stats", "parse_trace_duration_ns", "how long something took"),
    ("stats", "clock_sync_cache_miss", "how a cache did"),
];

/// Whether a cell may be another one.
pub(crate) fn may_differ(table: &str, column: &str, _ours: &str, _theirs: &str) -> bool {
    COLUMNS.iter().any(|(of, name, _)| *of == table && *name == column)
}

/// Whether a fact may be another one.
pub(crate) fn fact_may_differ(table: &str, name: &str) -> bool {
    FACTS.iter().any(|(of, pattern, _)| {
        *of == table && pattern.strip_suffix('*').map_or(*pattern == name, |begin| name.starts_with(begin))
    })
}
