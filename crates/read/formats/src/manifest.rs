//! The manifest of an archive of traces: whose its files are, and how their times lie to each other (upstream: docs/reference/perfetto-manifest.md).
//!
//! ```text
//! {"perfetto_manifest":{"version":1,"files":[
//!   {"path":"phone.pftrace","machine":{"name":"phone"}},
//!   {"path":"app.json","clocks":{"sync_to":{"file":"phone.pftrace","clock":"BOOTTIME"},"offset_ns":5000000}}]}}
//! ```
//!
//! What it says is checked as a whole; keys that are not known are left alone, as upstream does. Names of files and machines in it are not
//! looked up here.

use std::io::BufRead;

use serde_json::{Map, Value};

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
    /// The trace's clock.
    pub trace_time: Option<TraceTime>,
    /// Files of the archive.
    pub files: Vec<File>,
    /// Facts about the archive, by their names.
    pub attributes: Vec<(String, Attribute)>,
}

/// Which clock is the trace's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTime {
    /// By its number in builtin_clock.proto.
    pub clock: u32,
    /// The file whose machine's it is; that of the first machine if it is none.
    pub file: Option<String>,
    /// Which of the file's machines it is.
    pub machine: Option<String>,
}

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
}

/// A file of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path there.
    pub path: String,
    /// Whose it is.
    pub machines: Machines,
    /// How its times lie to those of another.
    pub clocks: Option<Clocks>,
}

/// Whose a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Machines {
    /// Nothing is said.
    AsItSays,
    /// All of it is of this machine.
    One(String),
    /// What it calls by these numbers are these machines.
    Several(Vec<(u32, String)>),
}

/// How a file's times lie to those of another: a clock shows `offset_ns` less than the one of `sync_to` at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The file's clock; its own, that no other file knows, if it is none.
    pub clock: Option<u32>,
    /// Which of the file's machines has that clock.
    pub machine: Option<String>,
    /// How much more the other clock shows.
    pub offset_ns: i64,
    /// The other clock.
    pub sync_to: SyncTo,
}

/// A clock of another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncTo {
    /// The path of the file.
    pub file: String,
    /// Which of its machines has the clock.
    pub machine: Option<String>,
    /// The clock; the file's own, that no other file knows, if it is none.
    pub clock: Option<u32>,
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

fn wrong<T>(what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong(what.into()))
}

/// Reads a manifest.
///
/// # Errors
///
/// If its bytes cannot be had, or it says something that it cannot.
pub fn read(file: impl BufRead) -> Result<Manifest, Wrong> {
    let whole: Value =
        serde_json::from_reader(file.take(MAX_BYTES)).map_err(|error| Wrong(error.to_string()))?;
    let Some(said) = whole.get("perfetto_manifest").and_then(Value::as_object) else {
        return wrong("perfetto_manifest is no object");
    };
    match said.get("version").map(Value::as_i64) {
        Some(Some(1)) => {}
        Some(Some(other)) => return wrong(format!("it is of version {other}, and only 1 is known")),
        Some(None) => return wrong("its version is no whole number"),
        None => return wrong("it lacks its version"),
    }
    Ok(Manifest {
        trace_time: said.get("trace_time").map(trace_time).transpose()?,
        files: list(said, "files")?.iter().map(entry).collect::<Result<_, _>>()?,
        attributes: said.get("attributes").map(attributes).transpose()?.unwrap_or_default(),
    })
}

/// Nothing is an empty list.
fn list<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], Wrong> {
    match object.get(name) {
        None => Ok(&[]),
        Some(Value::Array(values)) => Ok(values),
        Some(_) => wrong(format!("{name} is no list")),
    }
}

fn object<'a>(value: &'a Value, name: &str) -> Result<&'a Map<String, Value>, Wrong> {
    value.as_object().map_or_else(|| wrong(format!("{name} is no object")), Ok)
}

fn text(object: &Map<String, Value>, of: &str, name: &str) -> Result<Option<String>, Wrong> {
    match object.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => wrong(format!("{of}: {name} is no text")),
    }
}

fn clock(object: &Map<String, Value>, of: &str) -> Result<Option<u32>, Wrong> {
    let Some(name) = text(object, of, "clock")? else { return Ok(None) };
    let known = CLOCKS.iter().find(|(its, _)| *its == name);
    let names = || CLOCKS.map(|(name, _)| name).join(", ");
    known.map_or_else(
        || wrong(format!("{of}: there is no clock {name}; there are {}", names())),
        |(_, id)| Ok(Some(*id)),
    )
}

fn trace_time(value: &Value) -> Result<TraceTime, Wrong> {
    let said = object(value, "trace_time")?;
    let Some(clock) = clock(said, "trace_time")? else { return wrong("trace_time lacks its clock") };
    let (file, machine) = (text(said, "trace_time", "file")?, text(said, "trace_time", "machine")?);
    if machine.is_some() && file.is_none() {
        return wrong("trace_time: a machine without its file could be any");
    }
    Ok(TraceTime { clock, file, machine })
}

fn entry(value: &Value) -> Result<File, Wrong> {
    let said = object(value, "an entry of files")?;
    let Some(path) = text(said, "files", "path")? else { return wrong("an entry of files has no path") };
    let machines = match (said.get("machine"), said.get("machines")) {
        (None, None) => Machines::AsItSays,
        (Some(machine), None) => Machines::One(machine_name(machine, &path)?),
        (None, Some(_)) => {
            let machines = list(said, "machines")?.iter().map(|it| numbered_machine(it, &path));
            Machines::Several(machines.collect::<Result<_, _>>()?)
        }
        (Some(_), Some(_)) => return wrong(format!("{path} has both machine and machines")),
    };
    let clocks = said.get("clocks").map(|it| clocks(it, &path)).transpose()?;
    Ok(File { path, machines, clocks })
}

fn machine_name(value: &Value, path: &str) -> Result<String, Wrong> {
    match text(object(value, "machine")?, path, "name")? {
        Some(name) if !name.is_empty() => Ok(name),
        _ => wrong(format!("{path}: a machine lacks its name")),
    }
}

fn numbered_machine(value: &Value, path: &str) -> Result<(u32, String), Wrong> {
    let id = value.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    let Some(id) = id else {
        return wrong(format!("{path}: a machine's id is no number of 0 to {}", u32::MAX));
    };
    Ok((id, machine_name(value, path)?))
}

fn clocks(value: &Value, path: &str) -> Result<Clocks, Wrong> {
    let said = object(value, "clocks")?;
    let Some(sync_to) = said.get("sync_to") else {
        return wrong(format!("{path}: clocks lacks sync_to, the clock of another file"));
    };
    let sync_to = object(sync_to, "sync_to")?;
    let Some(file) = text(sync_to, path, "file")? else {
        return wrong(format!("{path}: sync_to lacks its file"));
    };
    let offset_ns = match said.get("offset_ns") {
        None => 0,
        Some(offset) => match offset.as_i64().filter(|offset| *offset != i64::MIN) {
            Some(offset) => offset,
            None => return wrong(format!("{path}: offset_ns is no whole number of 64 bits")),
        },
    };
    Ok(Clocks {
        clock: clock(said, path)?,
        machine: text(said, path, "machine")?,
        offset_ns,
        sync_to: SyncTo { file, machine: text(sync_to, path, "machine")?, clock: clock(sync_to, path)? },
    })
}

fn attributes(value: &Value) -> Result<Vec<(String, Attribute)>, Wrong> {
    let said = object(value, "attributes")?.iter().map(|(key, value)| match (value, value.as_i64()) {
        _ if key.is_empty() => wrong("attributes: one has no name"),
        (Value::String(text), _) => Ok((key.clone(), Attribute::Text(text.clone()))),
        (_, Some(number)) => Ok((key.clone(), Attribute::Int(number))),
        _ => wrong(format!("attributes: {key} is neither a text nor a whole number")),
    });
    said.collect()
}

impl Manifest {
    /// The entry of a path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rest: &str) -> Result<Manifest, String> {
        read(format!("{{\"perfetto_manifest\":{{{rest}}}}}").as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_it_says_is_read() {
        let manifest = said(
            r#""version":1,"trace_time":{"clock":"REALTIME","file":"a"},"attributes":{"run":7,"what":"start"},"files":[
            {"path":"a","machine":{"name":"phone"},"other":1},
            {"path":"b","machines":[{"id":0,"name":"host"},{"id":7,"name":"vm"}],
             "clocks":{"machine":"vm","clock":"BOOTTIME","offset_ns":-5,"sync_to":{"file":"a"}}}]"#,
        )
        .unwrap();
        let one = Attribute::Int(7);
        assert_eq!(
            manifest.attributes,
            [("run".into(), one), ("what".into(), Attribute::Text("start".into()))]
        );
        let trace_time = TraceTime { clock: 1, file: Some("a".into()), machine: None };
        assert_eq!(manifest.trace_time, Some(trace_time));
        assert_eq!(manifest.file("a").unwrap().machines, Machines::One("phone".into()));
        let b = manifest.file("b").unwrap();
        assert_eq!(b.machines, Machines::Several(vec![(0, "host".into()), (7, "vm".into())]));
        let sync_to = SyncTo { file: "a".into(), machine: None, clock: None };
        let clocks = Clocks { clock: Some(6), machine: Some("vm".into()), offset_ns: -5, sync_to };
        assert_eq!((b.clocks.as_ref(), manifest.file("c")), (Some(&clocks), None));
    }

    #[test]
    fn what_it_cannot_say_is_refused() {
        for (rest, words) in [
            ("", "lacks its version"),
            ("\"version\":99", "version 99"),
            ("\"version\":1.5", "no whole number"),
            ("\"version\":1,\"trace_time\":{\"clock\":\"BOOTIME\"}", "no clock BOOTIME"),
            ("\"version\":1,\"trace_time\":{}", "lacks its clock"),
            ("\"version\":1,\"trace_time\":{\"clock\":\"BOOTTIME\",\"machine\":\"m\"}", "could be any"),
            ("\"version\":1,\"files\":[{}]", "no path"),
            ("\"version\":1,\"files\":[{\"path\":\"a\",\"machine\":{\"name\":\"\"}}]", "lacks its name"),
            (
                "\"version\":1,\"files\":[{\"path\":\"a\",\"machines\":[{\"id\":4294967296,\"name\":\"b\"}]}]",
                "id is no number",
            ),
            (
                "\"version\":1,\"files\":[{\"path\":\"a\",\"machine\":{\"name\":\"a\"},\"machines\":[]}]",
                "both machine",
            ),
            ("\"version\":1,\"files\":[{\"path\":\"a\",\"clocks\":{\"offset_ns\":1}}]", "lacks sync_to"),
            (
                "\"version\":1,\"files\":[{\"path\":\"a\",\"clocks\":{\"sync_to\":{\"machine\":\"b\"}}}]",
                "lacks its file",
            ),
            (
                "\"version\":1,\"files\":[{\"path\":\"a\",\"clocks\":{\"sync_to\":{\"file\":\"b\"},\"offset_ns\":0.5}}]",
                "offset_ns",
            ),
            ("\"version\":1,\"attributes\":{\"a\":[]}", "neither a text"),
        ] {
            let error = said(rest).unwrap_err();
            assert!(error.contains(words), "{rest}: {error}");
        }
        assert!(read(&b"{\"perfetto_manifest\""[..]).is_err());
    }
}
