//! Pages that say what is shown by which test: their tables end with a column `test`, whose tests there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PAGES: [&str; 2] = ["docs/losses.md", "docs/security.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources of all tests, by the name of their file, or of its folder if it is `mod.rs`, or of its crate's if it is `lib.rs`; `tests.rs`
/// has both names.
fn sources(dir: &Path, into: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, into);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&entry).unwrap();
            let folder = entry.parent().unwrap();
            let names = match entry.file_name().unwrap().to_str() {
                Some("mod.rs") => vec![folder],
                Some("lib.rs") => folder.parent().into_iter().collect(),
                Some("tests.rs") => vec![folder, &entry],
                _ => vec![&*entry],
            };
            for name in names {
                let name = name.file_stem().unwrap().to_string_lossy().into_owned();
                into.entry(name).or_default().push_str(&source);
            }
        }
    }
}

/// The last cells of all rows of tables in whose head it is `test`.
fn last_cells(page: &str) -> Vec<&str> {
    let mut is_listing = false;
    let mut found = Vec::new();
    for line in page.lines() {
        let Some(cells) = line.strip_prefix('|') else {
            is_listing = false;
            continue;
        };
        let cell = cells.trim_end_matches(['|', ' ']).rsplit(" | ").next().unwrap().trim();
        match cell {
            "test" => is_listing = true,
            _ if cell.starts_with("---") => {}
            _ if is_listing => found.push(cell),
            _ => {}
        }
    }
    found
}

#[test]
fn every_row_names_tests_that_exist() {
    let mut files = BTreeMap::new();
    for dir in ["crates", "tests"] {
        sources(&root().join(dir), &mut files);
    }
    for page in PAGES {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let cells = last_cells(&text);
        assert!(cells.len() > 20, "{page} has {} rows with tests", cells.len());
        for test in cells.iter().flat_map(|cell| cell.split(", ")) {
            let test = test.trim_matches('`');
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{page}: {test:?}"));
            let source = files.get(file).unwrap_or_else(|| panic!("{page}: there is no file {file}"));
            assert!(source.contains(&format!("fn {name}()")), "{page}: {file} has no test {name}");
        }
    }
}
