//! What a file that is no trace seems to be, by its first bytes.
//!
//! The order is that of Trace Processor's own list (upstream: trace_type.h), where a format is on both.

/// Bytes that are looked at.
pub const HEAD_BYTES: usize = 1024;

/// Bytes at a place that only one format has there.
const MAGIC: &[(usize, &[u8], &str)] = &[
    (257, b"ustar", "it seems to be a tar archive; unpack it, and give its traces one by one"),
    (0, b"\x10\x00\x04\x46\x78\x54\x16\x00", "it seems to be a trace of Fuchsia"),
    (0, b"PERFILE2", "it seems to be a recording of Linux's perf (perf.data)"),
    (0, b"SIMPLEPERF", "it seems to be a recording of simpleperf"),
    (0, b"PK\x03\x04", "it seems to be a zip archive; unpack it, and give its traces one by one"),
    (0, b"\x17\x08\x44tracing", "it seems to be a recording of trace-cmd (trace.dat)"),
    (0, b"\xc1\x1f\xfc\xc1", "it seems to be a stream of CTF"),
    (0, b"\xc1\xfc\x1f\xc1", "it seems to be a stream of CTF"),
    (0, b"\x7fELF", "it seems to be a program or a library (ELF)"),
    (0, b"SQLite format 3\0", "it seems to be an SQLite database"),
    (0, b"PAR1", "it seems to be a Parquet file: it is read by other programs as it is"),
    (0, b"ARROW1", "it seems to be an Arrow file: it is read by other programs as it is"),
    (0, b"BZh", "it seems to be packed by bzip2; unpack it"),
    (0, b"\xfd7zXZ\0", "it seems to be packed by xz; unpack it"),
    (0, b"\x04\x22\x4d\x18", "it seems to be packed by lz4; unpack it"),
    (0, b"\x1f\x8b", "it seems to be packed by gzip twice; unpack it"),
    (0, b"\x28\xb5\x2f\xfd", "it seems to be packed by zstd twice; unpack it"),
    (0, b"JAVA PROFILE", "it seems to be a heap dump of Java"),
    (0, b"FLR\0", "it seems to be a recording of Java's flight recorder"),
];

/// What a text begins with, blanks left out.
const TEXTS: &[(&str, &str)] = &[
    ("{\"meta\"", "it seems to be a profile of Firefox (JSON)"),
    ("{\"libs\"", "it seems to be a profile of Firefox (JSON)"),
    ("{\"traceevents\"", "it seems to be a trace in Chrome's JSON format"),
    ("[{", "it seems to be a trace in Chrome's JSON format"),
    ("{", "it seems to be JSON"),
    ("[", "it seems to be JSON"),
    ("<!doctypehtml", "it seems to be a web page, such as systrace makes"),
    ("<html", "it seems to be a web page, such as systrace makes"),
    ("<?xml", "it seems to be XML, such as Instruments exports"),
    ("#ninjalog", "it seems to be a log of ninja"),
    ("#tracer", "it seems to be ftrace's text"),
    ("trace:", "it seems to be ftrace's text"),
    ("cpus=", "it seems to be trace-cmd's text"),
    ("buffers:{", "it seems to be a trace config, not a trace"),
    ("packet{", "it seems to be a trace in protobuf's text format"),
];

/// Says what bytes seem to be that are not the beginning of a trace; nothing if they may be one.
#[must_use]
pub fn of(head: &[u8]) -> Option<&'static str> {
    if head.is_empty() {
        return Some("it is empty");
    }
    let has =
        |(at, magic, _): &&(usize, &[u8], _)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic));
    if let Some((_, _, words)) = MAGIC.iter().find(has) {
        return Some(words);
    }
    if let Some(text) = text(head) {
        let start: String =
            text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_lowercase()).collect();
        let known = TEXTS.iter().find(|(begin, _)| start.starts_with(begin));
        return Some(known.map_or("it seems to be a text", |(_, words)| words));
    }
    if is_pprof(head) {
        return Some("it seems to be a profile of pprof");
    }
    match head {
        // The tag of a packet.
        [0x0a, ..] => None,
        _ => Some("it is of no format that is known here"),
    }
}

/// The bytes as text, if they are nothing else. That of a packet's length or first tag is hardly ever a letter.
fn text(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A letter may be cut at the end of what is looked at.
        Err(error) if error.error_len().is_none() => {
            head.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok())?
        }
        Err(_) => return None,
    };
    let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    (text.len() > 1 && text.chars().all(is_text)).then_some(text)
}

/// Whether it begins with a `ValueType`: two small numbers, fields 1 and 2. Field 1 of a packet is a message, never a number.
fn is_pprof(head: &[u8]) -> bool {
    matches!(head, [0x0a, 0x02..=0x06, 0x08, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_what_they_seem_to_be() {
        let tar = [&[b'x'; 257][..], b"ustar\0"].concat();
        let cases: [(&[u8], &str); 15] = [
            (b"", "empty"),
            (&tar, "tar"),
            (b"PERFILE2\x68\0\0\0", "perf"),
            (b"\x7fELF\x02\x01", "ELF"),
            (b"PAR1\x15\x04", "Parquet"),
            (b"{ \"traceEvents\": [", "Chrome"),
            (b"[\n{\"ph\": \"X\"", "Chrome"),
            (b"{\"meta\":{", "Firefox"),
            (b"# tracer: nop\n#\n", "ftrace"),
            (b"  <!DOCTYPE html>", "web page"),
            (b"buffers: {\n size_kb: 1", "config"),
            ("Grüße".as_bytes(), "text"),
            (b"\nbegins with the tag of a packet\n", "text"),
            (b"\x0a\x04\x08\x01\x10\x02", "pprof"),
            (b"\x00\x01\x02", "no format"),
        ];
        for (head, expected) in cases {
            let found = of(head).unwrap_or_default();
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }

    #[test]
    fn traces_may_be_traces() {
        for head in [&b"\x0a\x02\x40\x01"[..], b"\x0a", b"\x0a\x00", b"\x0a\x80\x01\x0a\x04abcd"] {
            assert_eq!(of(head), None, "{head:?}");
        }
    }
}
