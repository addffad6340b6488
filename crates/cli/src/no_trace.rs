//! What is said of a file that is no trace of Perfetto's.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ferretto_trace_read::container::unpacked;
use ferretto_trace_read::recognize::{Format, HEAD_BYTES, Use, recognize};

use crate::report::UserError;

/// That a file is no trace, what it seems to be by its first bytes, and what to do.
pub(crate) fn refusal(name: &str, head: &[u8], command: &str) -> UserError {
    let format = recognize(head);
    let what = match format {
        // Other messages begin like a packet.
        Some(format) if format.use_() == Use::Own => format!(
            "{name} is no trace of Perfetto's, or a damaged one; it may be a profile of pprof, or a config in binary form"
        ),
        Some(Format::Gzip) => format!("{name} cannot be unpacked: it is packed by gzip, and damaged"),
        Some(Format::Zstd) => format!("{name} cannot be unpacked: it is packed by zstd, and damaged"),
        Some(format) => format!("{name} is no trace of Perfetto's: it seems to be {}", format.words()),
        None => format!("{name} is no trace of Perfetto's, nor anything else that is known here"),
    };
    let error = UserError::new(what);
    match format.map(|format| (format.use_(), format.advice())) {
        Some((Use::Imported, _) | (Use::Container, None)) => error.help(format!(
            "`ferretto convert --to pftrace` makes one of it; `{command}` reads traces of Perfetto only"
        )),
        Some((Use::Refused, Some(advice))) => error.help(advice),
        _ => error.help(format!(
            "`{command}` reads traces of Perfetto only, plain or compressed with gzip or zstd"
        )),
    }
}

/// The same of a file that was found to be none, which is looked at again. Nothing if it cannot be, as a pipe cannot.
pub(crate) fn refusal_of_file(path: &Path, command: &str) -> Option<UserError> {
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
    let mut head = Vec::new();
    // What is damaged behind its head was met already.
    _ = unpacked(file).ok()?.take(HEAD_BYTES as u64).read_to_end(&mut head);
    Some(refusal(&path.display().to_string(), &head, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_the_file_seems_to_be_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        for (head, what, advice) in [
            (&b"PERFILE2"[..], "a recording of Linux's perf", "`ferretto convert --to pftrace` makes one"),
            (b"\x17\x08\x44tracing", "a recording of trace-cmd", "trace-cmd report"),
            (b"\x7fELF", "a program or a library", "`cut` reads traces of Perfetto only"),
            (b"\x01\x02", "nor anything else that is known", "`cut` reads"),
        ] {
            std::fs::write(&path, head).unwrap();
            let told = refusal_of_file(&path, "cut").unwrap();
            let told = format!("{told:?}");
            assert!(told.contains(what) && told.contains(advice), "{told}");
        }
        assert!(refusal_of_file(Path::new("/dev/null"), "cut").is_none());
    }
}
