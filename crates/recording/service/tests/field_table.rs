//! Holds `docs/trace-config.md` together with the schema and the tests: each field has its row, and each row names a test that exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ferretto_protos::text::descriptor_pool;

/// The messages of which each field, and each field of each message inside, is to have a row.
const MESSAGES: &[&str] =
    &["TraceConfig", "DataSourceConfig", "PriorityBoostConfig", "ProtoVmConfig", "TraceAttributes"];

const STATES: &[&str] = &["works", "set here", "passed on", "command line", "no meaning"];

struct Row {
    message: String,
    field: String,
    number: u32,
    test: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The rows under headings that are messages' names.
fn rows() -> Vec<Row> {
    let page = std::fs::read_to_string(root().join("docs/trace-config.md")).unwrap();
    let mut message = String::new();
    let mut rows = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            message = heading.to_owned();
        } else if line.starts_with("| `") {
            rows.push(row(&message, line));
        }
    }
    rows
}

fn row(message: &str, line: &str) -> Row {
    let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
    let [field, number, state, text, test] = cells[..] else { panic!("not five cells: {line}") };
    assert!(STATES.contains(&state), "an unknown state: {line}");
    assert!(!text.is_empty(), "says nothing: {line}");
    let number = number.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let name = |cell: &str| cell.trim_matches('`').to_owned();
    Row { message: message.to_owned(), field: name(field), number, test: name(test) }
}

/// Each field of these messages, as message, name and number.
fn schema() -> BTreeSet<(String, String, u32)> {
    let pool = descriptor_pool();
    let mut fields = BTreeSet::new();
    let mut to_do: Vec<_> = MESSAGES
        .iter()
        .map(|name| pool.get_message_by_name(&format!("perfetto.protos.{name}")).expect("no such message"))
        .collect();
    while let Some(message) = to_do.pop() {
        let name = message.full_name().trim_start_matches("perfetto.protos.").to_owned();
        let of_message =
            message.fields().map(|field| (name.clone(), field.name().to_owned(), field.number()));
        fields.extend(of_message);
        to_do.extend(message.child_messages());
    }
    fields
}

#[test]
fn every_field_has_its_row_and_every_row_its_field() {
    let rows = rows();
    let found: BTreeSet<_> =
        rows.iter().map(|row| (row.message.clone(), row.field.clone(), row.number)).collect();
    assert_eq!(found.len(), rows.len(), "a field has two rows");
    let expected = schema();
    let missing: Vec<_> = expected.difference(&found).collect();
    assert!(missing.is_empty(), "docs/trace-config.md has no row for {missing:?}");
    let extra: Vec<_> = found.difference(&expected).collect();
    assert!(extra.is_empty(), "docs/trace-config.md has rows for what is no field: {extra:?}");
}

/// The text of all Rust files below a folder, by the name that tests are known under.
fn sources(dir: &Path, into: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, into);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let is_of_folder = entry.ends_with("mod.rs") || entry.ends_with("tests.rs");
            let named = if is_of_folder { entry.parent().unwrap() } else { &entry };
            let name = named.file_stem().unwrap().to_string_lossy().into_owned();
            into.entry(name).or_default().push_str(&std::fs::read_to_string(&entry).unwrap());
        }
    }
}

#[test]
fn every_test_that_is_named_exists() {
    let mut files = BTreeMap::new();
    for dir in ["crates", "tests"] {
        sources(&root().join(dir), &mut files);
    }
    for row in rows() {
        let named = || format!("{}.{}: {:?}", row.message, row.field, row.test);
        let (file, test) =
            row.test.split_once("::").unwrap_or_else(|| panic!("{} is no file::test", named()));
        let source = files.get(file).unwrap_or_else(|| panic!("{}: there is no such file", named()));
        assert!(source.contains(&format!("fn {test}()")), "{}: the file has no such test", named());
    }
}
