//! The JSON of a profile, as far as it goes: threads are kept one by one as they come.

use std::fmt;
use std::io::BufRead;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::table::{Cell, Table};
use crate::Error;
use crate::json::Counted;

/// A process: a profile, or one within it.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) meta: Meta,
    pub(super) shared: Shared,
    pub(super) threads: Vec<Thread>,
}

/// What is said of a profile.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    /// Milliseconds since 1970.
    pub(super) start_time: f64,
    pub(super) categories: Vec<Category>,
}

/// What markers and frames are sorted into.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Category {
    pub(super) name: String,
}

/// Tables that all threads have in common, in newer processed profiles.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Shared {
    #[serde(rename = "stringArray")]
    pub(super) texts: Vec<String>,
    pub(super) frame_table: Table,
    pub(super) stack_table: Table,
    pub(super) func_table: Table,
    pub(super) resource_table: Table,
    pub(super) sources: Table,
}

/// A thread.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) process_name: String,
    pub(super) pid: Number,
    pub(super) tid: Number,
    #[serde(rename = "stringArray", alias = "stringTable")]
    pub(super) texts: Vec<String>,
    pub(super) frame_table: Table,
    pub(super) stack_table: Table,
    pub(super) func_table: Table,
    pub(super) resource_table: Table,
    pub(super) samples: Table,
    pub(super) markers: Table,
}

/// The number of a process or thread: a number, or a text that begins with one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Number(Cell);

impl Number {
    pub(super) fn number(&self) -> Option<i64> {
        match &self.0 {
            Cell::Number(value) if *value >= 0.0 && *value <= f64::from(u32::MAX) => Some(*value as i64),
            Cell::Text(text) => {
                let digits = text.bytes().take_while(u8::is_ascii_digit).count();
                text.get(..digits)?.parse::<u32>().ok().map(i64::from)
            }
            _ => None,
        }
    }
}

/// Reads a file: its processes, and why it could not be read on.
pub(super) fn read(file: impl BufRead) -> (Vec<Process>, Result<(), Error>) {
    let (file, offset) = Counted::new(file);
    let mut json = serde_json::Deserializer::from_reader(file);
    let mut processes = Vec::new();
    let end = OfProfile(&mut processes).deserialize(&mut json).and_then(|()| json.end());
    (processes, end.map_err(|error| offset.broken(&error)))
}

/// A profile, and those of other processes within it.
struct OfProfile<'a>(&'a mut Vec<Process>);

impl<'de> DeserializeSeed<'de> for OfProfile<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OfProfile<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a profile")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let at = self.0.len();
        self.0.push(Process::default());
        while let Some(key) = map.next_key::<String>()? {
            let Some(process) = self.0.get_mut(at) else { break };
            match key.as_str() {
                "meta" => process.meta = map.next_value()?,
                "shared" => process.shared = map.next_value()?,
                "threads" => map.next_value_seed(Threads(&mut process.threads))?,
                "processes" => map.next_value_seed(OfProfiles(&mut *self.0))?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

struct OfProfiles<'a>(&'a mut Vec<Process>);

impl<'de> DeserializeSeed<'de> for OfProfiles<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for OfProfiles<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("profiles of other processes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(OfProfile(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

struct Threads<'a>(&'a mut Vec<Thread>);

impl<'de> DeserializeSeed<'de> for Threads<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Threads<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("threads of a profile")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(thread) = list.next_element()? {
            self.0.push(thread);
        }
        Ok(())
    }
}
