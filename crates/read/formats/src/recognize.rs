//! Which format a file is, by its first bytes (upstream: `Sniff` of each importer, in the order of `detection_priority`).
//!
//! The rules are looked at in one order, and the first that holds counts: those of fixed bytes come before those of texts, and these before
//! those of protobuf, whose bytes may be nearly anything. What is in a container is recognized again.
//!
//! Android's log, its bug reports, and what is packed into pages of systrace (`ctrace`) are not recognized.

use ferretto_protozero::read::Fields;

use crate::{collapsed, perf_text, pprof, strace};

/// Bytes of a file that are looked at; fewer do if it has no more.
pub const HEAD_BYTES: usize = 64 << 10;

macro_rules! formats {
    ($($(#[doc = $doc:literal])+ $format:ident, $name:literal, $rule:expr;)*) => {
        /// What a file may be.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[doc = $doc])+ $format,)*
        }

        impl Format {
            /// All of them, in the order of their rules.
            pub const ALL: &[Self] = &[$(Self::$format),*];

            /// Upstream's name, the `trace_type` of `trace_file`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$format => $name,)*
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
    /// A folder of files.
    Tar, "tar", |head| has(head, 257, &[b"ustar\0", b"ustar  \0"]);
    /// A trace of Fuchsia.
    Fuchsia, "fuchsia", |head| has(head, 0, &[b"\x10\x00\x04\x46\x78\x54\x16\x00"]);
    /// A recording of Linux's `perf`.
    Perf, "perf", |head| has(head, 0, &[b"PERFILE2"]);
    /// Samples of Android's simpleperf.
    SimpleperfProto, "simpleperf_proto", |head| has(head, 0, &[b"SIMPLEPERF"]);
    /// A folder of files.
    Zip, "zip", |head| has(head, 0, &[b"PK\x03\x04"]);
    /// A packed file.
    Gzip, "gzip", |head| has(head, 0, &[b"\x1f\x8b"]);
    /// A packed file.
    Zstd, "zstd", |head| has(head, 0, &[b"\x28\xb5\x2f\xfd"]);
    /// Methods of Java, as Android's runtime traces them.
    ArtMethod, "art_method", |head| has(head, 0, &[b"SLOW", b"*version\n"]);
    /// A heap of Java.
    ArtHprof, "art_hprof", |head| has(head, 0, &[b"JAVA PROFILE"]);
    /// Which files belong together, and how.
    Manifest, "perfetto_manifest", |head| without_blanks(head).starts_with(b"{\"perfetto_manifest\"");
    /// A profile of Firefox.
    Gecko, "gecko", |head| {
        let text = without_blanks(head);
        text.starts_with(b"{\"meta\"") || text.starts_with(b"{\"libs\"")
    };
    /// A trace in Chrome's JSON.
    Json, "json", |head| {
        let text = without_blanks(head);
        text.starts_with(b"{\"") || text.starts_with(b"[{\"")
    };
    /// What macOS's Instruments exports.
    InstrumentsXml, "instruments_xml", |head| {
        has(head, 0, &[b"<?xml version=\"1.0\"?>\n<trace-query-result>"])
    };
    /// What ninja has built, and when.
    Ninja, "ninja", |head| has(head, 0, &[b"# ninja log"]);
    /// Stacks a line.
    CollapsedStack, "collapsed_stack", collapsed::is_collapsed;
    /// What `perf script` prints.
    PerfText, "perf_text", perf_text::is_perf_text;
    /// What `strace` prints.
    Strace, "strace", strace::is_strace;
    /// The kernel's events as text.
    Systrace, "systrace", is_systrace;
    /// Symbols alone, to be put behind a trace.
    Symbols, "symbols", |head| first_packet_has(head, MODULE_SYMBOLS);
    /// A profile in pprof's format.
    Pprof, "pprof", pprof::is_pprof;
    /// A trace of Perfetto.
    Proto, "proto", |head| has(head, 0, &[b"\x0a"]);
}

/// The format of a file that begins like this; `head` has [`HEAD_BYTES`] of it, or all.
#[must_use]
pub fn recognize(head: &[u8]) -> Option<Format> {
    Format::ALL.iter().copied().find(|format| format.fits(head))
}

/// Texts are looked for in so many bytes. Upstream's.
const TEXT_BYTES: usize = 128;

fn has(head: &[u8], at: usize, magic: &[&[u8]]) -> bool {
    let rest = head.get(at..).unwrap_or_default();
    magic.iter().any(|magic| rest.starts_with(magic))
}

fn text_of(head: &[u8]) -> &[u8] {
    head.get(..TEXT_BYTES).unwrap_or(head)
}

fn without_blanks(head: &[u8]) -> Vec<u8> {
    text_of(head).iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
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

/// `TracePacket.module_symbols`.
const MODULE_SYMBOLS: u32 = 61;
/// `Trace.packet`.
const PACKET: u32 = 1;

fn first_packet_has(head: &[u8], number: u32) -> bool {
    let Some(Ok(first)) = Fields::new(head).next() else {
        return first_of_torn_packet(head) == Some(number);
    };
    let packet = first.value.as_bytes().filter(|_| first.number == PACKET).unwrap_or_default();
    Fields::new(packet).map_while(Result::ok).any(|field| field.number == number)
}

/// The first field of a packet that is longer than what is looked at.
fn first_of_torn_packet(head: &[u8]) -> Option<u32> {
    let rest = head.strip_prefix(b"\x0a")?;
    let (_, len) = ferretto_protozero::varint::decode(rest)?;
    let (tag, _) = ferretto_protozero::varint::decode(rest.get(len..)?)?;
    u32::try_from(tag >> 3).ok()
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
            (b"\x1f\x8b\x08", Some(Format::Gzip)),
            (b"{ \"meta\": {", Some(Format::Gecko)),
            (b"{\"traceEvents\": [", Some(Format::Json)),
            (b"[ {\"ph\"", Some(Format::Json)),
            (b"{\n \"perfetto_manifest\"", Some(Format::Manifest)),
            (b"# ninja log v5\n", Some(Format::Ninja)),
            (b"# comment\n\nmain;work 3\n", Some(Format::CollapsedStack)),
            (b"main;work x\n", None),
            (b"prog 31 303.417513: 1 cycles:\n", Some(Format::PerfText)),
            (b"12 1700000000.5 read(3) = 0\n", Some(Format::Strace)),
            (b"# tracer: nop\n", Some(Format::Systrace)),
            (b"  prog-31 [000] 3.4: sched_switch: \n", Some(Format::Systrace)),
            (b"\x0a\x05\xea\x03\x02\x0a\x00", Some(Format::Symbols)),
            (b"\x0a\xff\x7f\xea\x03\xff\x7e", Some(Format::Symbols)),
            (b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x02ab", Some(Format::Pprof)),
            (b"\x0a\x02\x40\x05\x0a\x02\x40\x06", Some(Format::Proto)),
            (b"hello\n", None),
            (b"", None),
        ] {
            assert_eq!(recognize(head), expected, "{}", String::from_utf8_lossy(head));
        }
    }
}
