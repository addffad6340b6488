//! Which format a file is, by its first bytes: the one place that says so. What is in a container is recognized again.
//!
//! The rules are looked at in one order, and the first that holds counts: those of fixed bytes come before those of texts, and these before
//! those of protobuf, whose bytes may be nearly anything. Formats that upstream reads are in its order (upstream: `Sniff` of each importer,
//! by `detection_priority`); the others are here so that a file which is not read is refused by what it seems to be.
//!
//! | module | what it knows |
//! |---|---|
//! | [`perf_line`] | the first line of a sample, as `perf script` prints it |
//! | [`strace_line`] | a line of `strace` |
//! | `messages` | what messages of protobuf begin with |
//!
//! ```
//! use ferretto_trace_read::recognize::{Format, recognize};
//!
//! assert_eq!(recognize(b"{\"traceEvents\": ["), Some(Format::Json));
//! assert_eq!(recognize(b"\x7fELF\x02").map(Format::words), Some("a program or a library (ELF)"));
//! ```

mod messages;
pub mod perf_line;
pub mod strace_line;

use crate::container::Container;

/// Bytes of a file that are looked at; fewer do if it has no more.
pub const HEAD_BYTES: usize = 64 << 10;

/// What becomes of a file of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is a trace of Perfetto's.
    Own,
    /// It is read as a trace when it is imported.
    Imported,
    /// It is what a trace is packed into.
    Container,
    /// It is not read.
    Refused,
}

macro_rules! formats {
    ($($format:ident, $use:ident, $name:literal, $words:literal, $rule:expr;)*) => {
        /// What a file may be.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $(#[doc = concat!("It seems to be ", $words, ".")] $format,)*
        }

        impl Format {
            /// All of them, in the order of their rules.
            pub const ALL: &[Self] = &[$(Self::$format),*];

            /// A word for it: upstream's, the `trace_type` of `trace_file`, where upstream has one.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$format => $name,)*
                }
            }

            /// What it is, to be put behind "it seems to be".
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$format => $words,)*
                }
            }

            /// What becomes of such a file.
            #[must_use]
            pub const fn use_(self) -> Use {
                match self {
                    $(Self::$format => Use::$use,)*
                }
            }

            fn fits(self, head: &[u8]) -> bool {
                let rule: fn(&[u8]) -> bool = match self {
                    $(Self::$format => $rule,)*
                };
                rule(head)
            }
        }
    };
}

formats! {
    Tar, Container, "tar", "a tar archive", |head| has(head, 257, &[b"ustar\0", b"ustar  \0"]);
    Fuchsia, Refused, "fuchsia", "a trace of Fuchsia (fxt)", |head| begins(head, &[b"\x10\x00\x04\x46\x78\x54\x16\x00"]);
    Perf, Imported, "perf", "a recording of Linux's perf (perf.data)", |head| begins(head, &[b"PERFILE2"]);
    ForeignPerf, Refused, "perf_foreign",
        "a recording of Linux's perf (perf.data) from a machine of the other byte order", |head| begins(head, &[b"2ELIFREP"]);
    OldPerf, Refused, "perf_old", "a recording of a perf from before 2010 (perf.data)", |head| begins(head, &[b"PERFFILE"]);
    SimpleperfProto, Refused, "simpleperf_proto", "a recording of simpleperf", |head| begins(head, &[b"SIMPLEPERF"]);
    Zip, Container, "zip", "a zip archive", |head| Container::of(head) == Container::Zip;
    EmptyZip, Refused, "zip_empty", "a zip archive with nothing in it", |head| begins(head, &[b"PK\x05\x06"]);
    Gzip, Container, "gzip", "packed by gzip", |head| Container::of(head) == Container::Gzip;
    Zstd, Container, "zstd", "packed by zstd", |head| Container::of(head) == Container::Zstd;
    ArtMethod, Refused, "art_method", "a trace of methods by Android's runtime", |head| begins(head, &[b"SLOW", b"*version\n"]);
    ArtHprof, Refused, "art_hprof", "a heap dump of Java", |head| begins(head, &[b"JAVA PROFILE"]);
    TraceDat, Refused, "trace_dat", "a recording of trace-cmd (trace.dat)", |head| begins(head, &[b"\x17\x08\x44tracing"]);
    Ctf, Refused, "ctf", "a stream of the Common Trace Format, as LTTng writes it",
        |head| begins(head, &[b"\xc1\x1f\xfc\xc1", b"\xc1\xfc\x1f\xc1"]);
    Jfr, Refused, "jfr", "a recording of the Java Flight Recorder", |head| begins(head, &[b"FLR\0"]);
    Tracy, Refused, "tracy", "a trace of Tracy", |head| begins(head, &[b"tracy\0", b"tlZ\x04", b"tZst"]);
    Elf, Refused, "elf", "a program or a library (ELF)", |head| begins(head, &[b"\x7fELF"]);
    Sqlite, Refused, "sqlite", "an SQLite database", |head| begins(head, &[b"SQLite format 3\0"]);
    Parquet, Refused, "parquet", "a Parquet file, which other programs read as it is", |head| begins(head, &[b"PAR1"]);
    Arrow, Refused, "arrow", "an Arrow file, which other programs read as it is", |head| begins(head, &[b"ARROW1"]);
    Bzip2, Refused, "bzip2", "packed by bzip2", |head| begins(head, &[b"BZh"]);
    Xz, Refused, "xz", "packed by xz", |head| begins(head, &[b"\xfd7zXZ\0"]);
    Lz4, Refused, "lz4", "packed by lz4", |head| begins(head, &[b"\x04\x22\x4d\x18"]);
    SevenZip, Refused, "7z", "a 7-zip archive", |head| begins(head, &[b"7z\xbc\xaf\x27\x1c"]);
    Manifest, Refused, "perfetto_manifest", "a manifest, which says what traces belong together",
        |head| opens(head, &["{\"perfetto_manifest\""]);
    Gecko, Imported, "gecko", "a profile of Firefox or samply", |head| opens(head, &["{\"meta\"", "{\"libs\""]);
    OtlpJson, Imported, "otlp_json", "traces of OpenTelemetry (OTLP, JSON)",
        |head| opens(head, &["{\"resourceSpans\"", "{\"resource_spans\"", "[{\"resourceSpans\""]);
    OtlpOther, Refused, "otlp_other", "logs or metrics of OpenTelemetry, not traces",
        |head| opens(head, &["{\"resourceLogs\"", "{\"resourceMetrics\"", "{\"resourceProfiles\""]);
    Speedscope, Refused, "speedscope", "a profile of speedscope",
        |head| opens(head, &["{\"$schema\":\"https://www.speedscope.app"]);
    CpuProfile, Refused, "cpuprofile", "a profile of Chrome's or Node's (cpuprofile)", |head| opens(head, &["{\"nodes\":["]);
    Jaeger, Refused, "jaeger", "traces of Jaeger (JSON)", |head| opens(head, &["{\"data\":[{\"traceID\""]);
    Zipkin, Refused, "zipkin", "spans of Zipkin (JSON)", |head| opens(head, &["[{\"traceId\"", "[{\"parentId\""]);
    Json, Imported, "json", "a trace in Chrome's JSON format, or other JSON", |head| opens(head, &["{\"", "[{\""]);
    InstrumentsXml, Refused, "instruments_xml", "an export of Instruments (XML)",
        |head| begins(head, &[b"<?xml version=\"1.0\"?>\n<trace-query-result>"]);
    Ninja, Refused, "ninja", "a log of ninja", |head| begins(head, &[b"# ninja log"]);
    CollapsedStack, Imported, "collapsed_stack", "collapsed stacks", is_collapsed;
    PerfText, Imported, "perf_text", "what perf script prints", perf_line::is_perf_text;
    Strace, Imported, "strace", "what strace prints", strace_line::is_strace;
    Systrace, Imported, "systrace", "ftrace's text, or a page that systrace made", is_systrace;
    Xml, Refused, "xml", "XML", |head| begins(head, &[b"<?xml"]);
    OtherJson, Refused, "json_other", "JSON, but no trace", |head| is_text(head) && opens(head, &["{", "["]);
    Config, Refused, "trace_config", "a trace config, not a trace", |head| is_text(head) && is_config(head);
    ProtoText, Refused, "proto_text", "a trace in protobuf's text format", |head| is_text(head) && is_packets(head);
    Text, Refused, "text", "a text", is_text;
    Symbols, Own, "symbols", "symbols, to be put behind a trace", messages::is_symbols;
    Otlp, Imported, "otlp", "traces of OpenTelemetry (OTLP, protobuf)", messages::is_otlp;
    Pprof, Imported, "pprof", "a profile in pprof's format", messages::is_pprof;
    Proto, Own, "proto", "a trace of Perfetto's", |head| begins(head, &[b"\x0a"]);
}

impl Format {
    /// What to do with a file of a format that is not read, if there is something.
    #[must_use]
    pub const fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::Tar | Self::SevenZip => "unpack it, and give its traces one by one, or as a zip",
            Self::Bzip2 | Self::Xz | Self::Lz4 => "unpack it",
            Self::Gzip | Self::Zstd => "it is packed twice, or damaged; unpack it",
            Self::ForeignPerf => "run `perf script` on it there, and give its text",
            Self::TraceDat => "run `trace-cmd report` on it, and give its text",
            Self::Config => "record with it: ferretto record -c FILE",
            Self::ProtoText => "make a trace of it: ferretto convert --to pftrace FILE -o TRACE",
            _ => return None,
        })
    }
}

/// The format of a file that begins like this; `head` has [`HEAD_BYTES`] of it, or all.
#[must_use]
pub fn recognize(head: &[u8]) -> Option<Format> {
    Format::ALL.iter().copied().find(|format| format.fits(head))
}

/// Texts are looked for in so many bytes. Upstream's.
const TEXT_BYTES: usize = 128;

fn begins(head: &[u8], magic: &[&[u8]]) -> bool {
    has(head, 0, magic)
}

fn has(head: &[u8], at: usize, magic: &[&[u8]]) -> bool {
    let rest = head.get(at..).unwrap_or_default();
    magic.iter().any(|magic| rest.starts_with(magic))
}

fn text_of(head: &[u8]) -> &[u8] {
    head.get(..TEXT_BYTES).unwrap_or(head)
}

/// Whether a text begins so, blanks left out. A mark of byte order may come first.
fn opens(head: &[u8], words: &[&str]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text: Vec<u8> = text_of(head).iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    words.iter().any(|word| text.starts_with(word.as_bytes()))
}

fn is_systrace(head: &[u8]) -> bool {
    let text = text_of(head);
    let lower = text.to_ascii_lowercase();
    let contains = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    lower.starts_with(b"<!doctype html>")
        || lower.starts_with(b"<html>")
        || contains(b"# tracer")
        || contains(b"TRACE:\n")
        || text.starts_with(b"cpus=")
        || text.first() == Some(&b' ')
}

/// Whether the first lines of a file are stacks, a blank, and a number; at least one.
fn is_collapsed(head: &[u8]) -> bool {
    /// So many are looked at.
    const LINES: usize = 3;
    let mut lines = head
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .take(LINES)
        .peekable();
    lines.peek().is_some() && lines.all(is_stack_line)
}

fn is_stack_line(line: &[u8]) -> bool {
    let Some(blank) = line.iter().rposition(|byte| *byte == b' ').filter(|at| *at > 0) else { return false };
    let (stack, count) = line.split_at(blank);
    stack.contains(&b';') && count.iter().skip(1).all(u8::is_ascii_digit)
}

/// Whether it is a config as text: one of the fields that most have comes first.
fn is_config(head: &[u8]) -> bool {
    const FIELDS: [&str; 6] = [
        "buffers",
        "data_sources",
        "duration_ms",
        "write_into_file",
        "unique_session_name",
        "flush_period_ms",
    ];
    let text = String::from_utf8_lossy(text_of(head));
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| FIELDS.iter().any(|field| line.starts_with(field)))
}

/// Whether packets come as text, behind blanks and comments.
fn is_packets(head: &[u8]) -> bool {
    let mut rest = head.trim_ascii_start();
    while rest.first() == Some(&b'#') {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        rest = rest.get(end..).unwrap_or_default().trim_ascii_start();
    }
    let Some(behind) = rest.strip_prefix(b"packet") else { return false };
    let behind = behind.trim_ascii_start();
    let brace = behind.strip_prefix(b":").unwrap_or(behind).trim_ascii_start();
    matches!(brace.first(), Some(b'{' | b'<'))
}

/// Whether the bytes are nothing but text. That of a packet's length or first tag is hardly ever a letter.
fn is_text(head: &[u8]) -> bool {
    /// So many are looked at.
    const BYTES: usize = 1024;
    let head = head.get(..BYTES).unwrap_or(head);
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A letter may be cut at the end of what is looked at.
        Err(error) if error.error_len().is_none() => {
            let whole = head.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(whole).unwrap_or_default()
        }
        Err(_) => return false,
    };
    let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.len() > 1 && text.chars().all(is_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_their_first_bytes() {
        let mut tar = vec![0; 512];
        tar[257..263].copy_from_slice(b"ustar\0");
        for (head, expected) in [
            (tar.as_slice(), Some(Format::Tar)),
            (b"PERFILE2....", Some(Format::Perf)),
            (b"2ELIFREP....", Some(Format::ForeignPerf)),
            (b"\x1f\x8b\x08", Some(Format::Gzip)),
            (b"PK\x03\x04", Some(Format::Zip)),
            (b"{ \"meta\": {", Some(Format::Gecko)),
            (b"{\"resourceSpans\": [", Some(Format::OtlpJson)),
            (b"{\"traceEvents\": [", Some(Format::Json)),
            (b"\xef\xbb\xbf{\"traceEvents\": [", Some(Format::Json)),
            (b"[ {\"ph\"", Some(Format::Json)),
            (b"[1, 2]", Some(Format::OtherJson)),
            (b"{\n \"perfetto_manifest\"", Some(Format::Manifest)),
            (b"# ninja log v5\n", Some(Format::Ninja)),
            (b"# comment\n\nmain;work 3\n", Some(Format::CollapsedStack)),
            (b"main;work x\n", Some(Format::Text)),
            (b"prog 31 303.417513: 1 cycles:\n", Some(Format::PerfText)),
            (b"12 1700000000.5 read(3) = 0\n", Some(Format::Strace)),
            (b"# tracer: nop\n", Some(Format::Systrace)),
            (b"  prog-31 [000] 3.4: sched_switch: \n", Some(Format::Systrace)),
            (b"# for a phone\nbuffers: {\n size_kb: 1", Some(Format::Config)),
            (b"packet {\n", Some(Format::ProtoText)),
            (b"# made by hand\n\n packet: < timestamp", Some(Format::ProtoText)),
            (b"packets {", Some(Format::Text)),
            ("Grüße".as_bytes(), Some(Format::Text)),
            (b"\nbegins with the tag of a packet\n", Some(Format::Text)),
            (b"\x7fELF\x02\x01", Some(Format::Elf)),
            (b"PAR1\x15\x04", Some(Format::Parquet)),
            (b"\x00\x01\x02", None),
            (b"", None),
        ] {
            assert_eq!(recognize(head), expected, "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn every_format_has_words_of_its_own() {
        for format in Format::ALL {
            let same = |other: &&Format| other.name() == format.name() || other.words() == format.words();
            assert_eq!(Format::ALL.iter().filter(same).count(), 1, "{format:?}");
        }
    }
}
