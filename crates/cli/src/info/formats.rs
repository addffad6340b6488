//! What is said of a file that is no trace of Perfetto's.

use ferretto_trace_info::Report;
use ferretto_trace_read::recognize::{Format, Use, recognize};

use crate::report::UserError;

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

/// That a file is no trace, what it seems to be, and what to do.
pub(super) fn refusal(name: &str, head: &[u8]) -> UserError {
    let format = recognize(head);
    let what = match format {
        // Other messages begin like a packet.
        Some(format) if format.use_() == Use::Own => {
            format!(
                "{name} is no trace of Perfetto's, or a damaged one; it may be a profile of pprof, or a config in binary form"
            )
        }
        Some(Format::Gzip) => format!("{name} cannot be unpacked: it is packed by gzip, and damaged"),
        Some(Format::Zstd) => format!("{name} cannot be unpacked: it is packed by zstd, and damaged"),
        Some(format) => format!("{name} is no trace of Perfetto's: it seems to be {}", format.words()),
        None => format!("{name} is no trace of Perfetto's, nor anything else that is known here"),
    };
    let error = UserError::new(what);
    match format.map(|format| (format.use_(), format.advice())) {
        Some((Use::Imported, _)) | Some((Use::Container, None)) => error
            .help("`ferretto convert` and `ferretto query` read it; `info` reads traces of Perfetto only"),
        Some((Use::Refused, Some(advice))) => error.help(advice),
        _ => error.help("`info` reads traces of Perfetto only, plain or compressed with gzip or zstd"),
    }
}
