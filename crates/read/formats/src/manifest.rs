//! The manifest of an archive of traces: how the times of its files lie to each other (upstream: perfetto_manifest).
//!
//! ```text
//! {"perfetto_manifest":{"version":1,"files":[{"path":"app.json","clocks":{"offset_ns":5000000}}]}}
//! ```
//!
//! Of a file's clock it says that it is a clock of the machine's, how much later it begins, or which two readings are of one moment. What else
//! a manifest may say (machines, the clock of the trace, clocks of other files) is not heeded, and [`Manifest::ignored`] names it.

use std::io::{BufRead, Read};

use ferretto_trace_model::clock_snapshots::FileTimes;
use serde_json::Value;

use crate::Error;
use crate::json::Counted;

/// Bytes of a manifest. Ours: a file takes some hundred.
const MAX_BYTES: u64 = 4 << 20;
/// Clocks that it may name, by the numbers of builtin_clock.proto.
const CLOCKS: [(&str, u32); 6] = [
    ("REALTIME", 1),
    ("REALTIME_COARSE", 2),
    ("MONOTONIC", 3),
    ("MONOTONIC_COARSE", 4),
    ("MONOTONIC_RAW", 5),
    ("BOOTTIME", 6),
];

/// What a manifest says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Paths of files in the archive, and their times.
    pub files: Vec<(String, FileTimes)>,
    /// What it says beside that.
    pub ignored: Vec<&'static str>,
}

/// Reads a manifest.
///
/// # Errors
///
/// If its bytes cannot be had, or it is none of version 1.
pub fn read(file: impl BufRead) -> Result<Manifest, Error> {
    let (file, offset) = Counted::new(file);
    let whole: Value =
        serde_json::from_reader(file.take(MAX_BYTES)).map_err(|error| offset.broken(&error))?;
    let broken = |what| Error::Broken { offset: 0, what };
    let said = whole.get("perfetto_manifest").ok_or(broken("this is no manifest"))?;
    if said.get("version").and_then(Value::as_i64) != Some(1) {
        return Err(broken("this manifest has another version than 1"));
    }
    let mut manifest = Manifest::default();
    if said.get("trace_time").is_some() {
        manifest.ignored.push("the clock of the trace");
    }
    for file in said.get("files").and_then(Value::as_array).into_iter().flatten() {
        let path = file.get("path").and_then(Value::as_str).ok_or(broken("a file has no path"))?;
        if file.get("machine").or(file.get("machines")).is_some() {
            manifest.ignored.push("machines");
        }
        let Some(clocks) = file.get("clocks") else { continue };
        match times(clocks) {
            Some(times) => manifest.files.push((path.to_owned(), times)),
            None => manifest.ignored.push("clocks that are said in ways that are not known here"),
        }
    }
    manifest.ignored.sort_unstable();
    manifest.ignored.dedup();
    Ok(manifest)
}

/// Nothing if it says something that is not known here.
fn times(clocks: &Value) -> Option<FileTimes> {
    let is = clocks.get("is");
    let knows = |value: &Value, keys: &[&str]| {
        value.as_object().is_some_and(|object| object.keys().all(|key| keys.contains(&key.as_str())))
    };
    if !knows(clocks, &["is", "offset_ns", "ts"]) || is.is_some_and(|is| !knows(is, &["clock", "ts"])) {
        return None;
    }
    let number = |value: Option<&Value>| match value {
        Some(value) => value.as_i64().map(Some),
        None => Some(None),
    };
    let clock = match is {
        Some(is) => {
            let name = is.get("clock")?.as_str()?;
            Some(CLOCKS.iter().find(|(its, _)| *its == name)?.1)
        }
        None => None,
    };
    let (offset_ns, file_ns) = (number(clocks.get("offset_ns"))?, number(clocks.get("ts"))?);
    let clock_ns = number(is.and_then(|is| is.get("ts")))?;
    if offset_ns.is_some() && (file_ns.is_some() || clock_ns.is_some()) {
        return None;
    }
    let ahead_ns = offset_ns.unwrap_or_else(|| clock_ns.unwrap_or(0).saturating_sub(file_ns.unwrap_or(0)));
    Some(FileTimes { clock, ahead_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: &str) -> Result<Manifest, String> {
        let text = format!("{{\"perfetto_manifest\":{{\"version\":1,\"files\":{files}}}}}");
        read(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn files_have_their_times() {
        let manifest = said(
            r#"[{"path":"a"},{"path":"b","clocks":{"offset_ns":-7}},{"path":"c","clocks":{"is":{"clock":"MONOTONIC"}}},
            {"path":"d","clocks":{"ts":10,"is":{"clock":"BOOTTIME","ts":100}}}]"#,
        );
        let times = |path: &str, clock, ahead_ns| (path.to_owned(), FileTimes { clock, ahead_ns });
        let files = vec![times("b", None, -7), times("c", Some(3), 0), times("d", Some(6), 90)];
        assert_eq!(manifest, Ok(Manifest { files, ignored: Vec::new() }));
    }

    #[test]
    fn what_is_not_heeded_is_named_and_what_is_no_manifest_refused() {
        let manifest = said(
            r#"[{"path":"a","machine":{"name":"m"}},{"path":"b","clocks":{"clock":"BOOTTIME","offset_ns":1}},
            {"path":"c","clocks":{"is":{"clock":"TAI"}}},{"path":"d","clocks":{"ts":1,"offset_ns":1}}]"#,
        )
        .unwrap();
        assert_eq!(
            (manifest.files.len(), manifest.ignored),
            (0, vec!["clocks that are said in ways that are not known here", "machines"])
        );
        assert!(said("[{}]").unwrap_err().contains("no path"));
        assert!(read(&b"{\"perfetto_manifest\":{\"version\":2}}"[..]).is_err());
        assert!(read(&b"{\"perfetto_manifest\""[..]).is_err());
    }
}
