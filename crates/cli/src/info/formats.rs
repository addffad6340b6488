//! What a file is that is no trace of Perfetto's, by its first bytes.
//!
//! Source of the marks: the formats' own documents, and upstream's trace_type.cc for those that Trace Processor reads.

use ferretto_trace_info::Report;
use ferretto_trace_read::container::Container;

use crate::report::UserError;

/// What a file begins with, and what it is then, in words.
const MARKS: &[(&[u8], &str)] = &[
    (b"PERFILE2", "a recording of perf (perf.data)"),
    (b"SIMPLEPERF", "a recording of simpleperf"),
    (b"\x10\x00\x04\x46\x78\x54\x16\x00", "a trace of Fuchsia (fxt)"),
    (b"\x17\x08\x44tracing", "a recording of trace-cmd (trace.dat)"),
    (b"\xc1\x1f\xfc\xc1", "a stream of the Common Trace Format, as LTTng writes it"),
    (b"JAVA PROFILE", "a heap dump of Java"),
    (b"FLR\0", "a recording of the Java Flight Recorder"),
    (b"SLOW", "a method trace of Android's runtime"),
    (b"# ninja log", "a log of ninja"),
    (b"# tracer", "a trace of ftrace as text"),
    (b"TRACE:\n", "a trace of ftrace as text"),
    (b"<!doctype html", "a page of HTML, perhaps a systrace"),
    (b"<html", "a page of HTML, perhaps a systrace"),
    (b"<?xml", "XML, perhaps of Instruments"),
    (b"{\"meta\"", "a profile of Firefox or samply"),
    (b"{\"libs\"", "a profile of Firefox or samply"),
    (b"[{\"", "JSON, perhaps a trace of Chrome's kind"),
    (b"{", "JSON, perhaps a trace of Chrome's kind"),
    (b"\x7fELF", "a program"),
    (b"PAR1", "a table (Parquet)"),
    (b"ARROW1", "a table (Arrow)"),
    (b"SQLite format 3", "a database (SQLite)"),
    (b"BZh", "compressed with bzip2"),
    (b"\xfd7zXZ\0", "compressed with xz"),
    (b"\x04\x22\x4d\x18", "compressed with lz4"),
];
/// Where tar has its mark.
const TAR_OFFSET: usize = 257;
/// How much of a text is looked at.
const TEXT_BYTES: usize = 64;

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
    let seems = seems(head);
    let what = match &seems {
        Some(seems) => format!("{name} is no trace of Perfetto's: it seems to be {seems}"),
        None => format!("{name} is no trace of Perfetto's, nor anything else that is known here"),
    };
    let error = UserError::new(what);
    match Container::of(head) {
        Container::Zip => error.help("unpack it, and give its traces one by one"),
        _ if seems.is_some_and(|seems| seems.contains("config")) => {
            error.help("record with it: ferretto record -c FILE")
        }
        _ => error.help("`info` reads traces of Perfetto only, plain or compressed with gzip or zstd"),
    }
}

fn seems(head: &[u8]) -> Option<String> {
    if let Some((_, what)) = MARKS.iter().find(|(mark, _)| head.starts_with(mark)) {
        return Some((*what).to_owned());
    }
    match Container::of(head) {
        Container::Zip => return Some("a zip archive".to_owned()),
        Container::Gzip => return Some("compressed with gzip, and damaged".to_owned()),
        Container::Zstd => return Some("compressed with zstd, and damaged".to_owned()),
        Container::None => {}
    }
    if head.get(TAR_OFFSET..).is_some_and(|tail| tail.starts_with(b"ustar")) {
        return Some("a tar archive".to_owned());
    }
    if begins_like_a_trace(head) {
        return Some("a profile (pprof), a trace config in binary form, or a damaged trace".to_owned());
    }
    let text = std::str::from_utf8(head.get(..TEXT_BYTES.min(head.len()))?).ok()?;
    if text.chars().any(|c| c.is_control() && !c.is_whitespace()) {
        return None;
    }
    let is_config = ["buffers", "data_sources", "duration_ms", "write_into_file"];
    match is_config.iter().any(|word| text.trim_start().starts_with(word)) {
        true => Some("a trace config".to_owned()),
        false => Some("text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_what_they_begin_with() {
        let mut tar = vec![b'a'; TAR_OFFSET];
        tar.extend(b"ustar\0");
        let cases: [(&[u8], Option<&str>); 9] = [
            (b"PERFILE2....", Some("perf.data")),
            (b"{\"traceEvents\": []}", Some("Chrome")),
            (b"buffers { size_kb: 4 }", Some("a trace config")),
            (b"hello there", Some("text")),
            (b"PK\x03\x04", Some("zip")),
            (b"\x0a\x04\x08\x01\x10\x02", Some("pprof")),
            (&tar, Some("tar")),
            (b"\x01\x02\x03", None),
            (b"\xff\xfe", None),
        ];
        for (head, expected) in cases {
            let found = seems(head);
            assert_eq!(found.is_some(), expected.is_some(), "{head:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{head:?}");
        }
    }
}
