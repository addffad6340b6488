//! Whether a file is a trace of Perfetto's, by what it begins with and by what was found in it.

use ferretto_trace_info::Report;

/// Whether it is worth a try: the tag of a packet.
pub(super) fn begins_like_a_trace(head: &[u8]) -> bool {
    head.first() == Some(&0x0a)
}

/// Other messages begin like a trace, too. Nothing that any tracing writes was in it, or it ended at once in something else.
pub(super) fn is_none_after_all(report: &Report) -> bool {
    let has_data = report.kinds.rows.iter().any(|row| row.what != 0);
    let is_broken = report.end.broken_at.is_some();
    let is_odd = is_broken || report.tally.undecodable > 0;
    report.tally.packets > 0 && !report.is_signed && is_odd && (!has_data || report.tally.undecodable > 0)
        || (report.tally.packets == 0 && is_broken)
}
