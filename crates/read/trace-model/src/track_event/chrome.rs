//! Messages that programs put into their events, mostly Chrome's: a list of names and numbers, which is read when a message is first asked for.

use super::reflect::{FieldType, Pool, field_type};

const LIST: &str = include_str!("chrome.txt");
/// What all names there lie within.
const PACKAGE: &str = "perfetto.protos";

impl Pool {
    /// Adds the list's messages, and its fields of messages that are known.
    pub(super) fn add_chrome(&mut self) {
        // Which types are enums is known after the first time through.
        for (of, number, name, kind) in entries() {
            if kind.is_none() {
                self.add_value(&of, number, name);
            }
        }
        for line in LIST.lines().filter(|line| !line.starts_with([' ', '#'])) {
            self.add_empty(&full_name(line));
        }
        for (of, number, name, kind) in entries() {
            if let Some(kind) = kind {
                let field = self.field_of(number, kind, name);
                self.add_field(&of, field);
            }
        }
    }

    fn field_of(&self, number: i32, kind: &str, name: &str) -> FieldType {
        let is_repeated = kind.starts_with('*');
        let kind = kind.trim_start_matches('*');
        let (kind, type_name) = match scalar(kind) {
            Some(scalar) => (scalar, String::new()),
            None => {
                let name = full_name(kind);
                let kind = if self.has_enum(&name) { field_type::ENUM } else { field_type::MESSAGE };
                (kind, name)
            }
        };
        FieldType { number: number as u32, name: name.to_owned(), kind, is_repeated, type_name }
    }
}

/// What the list has: the message, a field's number, name and type; or the enum, a value's number and name.
fn entries() -> impl Iterator<Item = (String, i32, &'static str, Option<&'static str>)> {
    let mut of = String::new();
    LIST.lines().filter(|line| !line.starts_with('#')).filter_map(move |line| {
        let Some(entry) = line.strip_prefix(' ') else {
            of = full_name(line);
            return None;
        };
        let mut words = entry.split(' ');
        let number = words.next()?.parse().ok()?;
        let (first, second) = (words.next()?, words.next());
        Some((of.clone(), number, second.unwrap_or(first), second.map(|_| first)))
    })
}

fn full_name(name: &str) -> String {
    match name.strip_prefix('.') {
        Some(full) => full.to_owned(),
        None => format!("{PACKAGE}.{name}"),
    }
}

/// `FieldDescriptorProto.Type` by its word; all others are names of messages and enums.
fn scalar(word: &str) -> Option<u64> {
    Some(match word {
        "double" => field_type::DOUBLE,
        "float" => field_type::FLOAT,
        "int64" => field_type::INT64,
        "uint64" => field_type::UINT64,
        "int32" => field_type::INT32,
        "fixed64" => field_type::FIXED64,
        "fixed32" => field_type::FIXED32,
        "bool" => field_type::BOOL,
        "string" => field_type::STRING,
        "bytes" => field_type::BYTES,
        "uint32" => field_type::UINT32,
        "sfixed32" => field_type::SFIXED32,
        "sfixed64" => field_type::SFIXED64,
        "sint32" => field_type::SINT32,
        "sint64" => field_type::SINT64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_list_is_known() {
        let mut pool = Pool::default();
        assert!(pool.find("perfetto.protos.TrackEvent").is_some());
        let lines = LIST.lines().filter(|line| line.starts_with(' ')).count();
        assert_eq!(entries().count(), lines, "each line is a field or a value");
        for (of, _, name, kind) in entries() {
            let Some(kind) = kind.map(|kind| kind.trim_start_matches('*')) else { continue };
            let is_known = scalar(kind).is_some()
                || pool.has_enum(&full_name(kind))
                || pool.find(&full_name(kind)).is_some();
            assert!(is_known, "{of}.{name}: {kind}");
        }
    }
}
