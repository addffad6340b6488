//! The wings of ARCHITECTURE.md: folders of crates, each of which stands only on those above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each wing, and those that its crates may depend on beside each other.
const WINGS: [(&str, &[&str]); 8] = [
    ("abi", &[]),
    ("code", &[]),
    ("client", &["abi"]),
    ("recording", &["abi"]),
    // `recording` where a program records itself.
    ("program", &["abi", "client", "recording"]),
    ("machine", &["abi", "client", "code"]),
    ("read", &["abi", "code"]),
    ("query", &["abi", "code", "read"]),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<_> = std::fs::read_dir(of)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

/// The name of a package, and the packages of the project that it depends on in more than its tests.
fn package(folder: &Path) -> (String, Vec<String>) {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let mut section = "";
    let mut name = None;
    let mut needs = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[package]" && line.starts_with("name") {
            name = line.split('"').nth(1).map(str::to_owned);
        } else if section == "[dependencies]" && line.starts_with("ferretto") {
            needs.extend(line.split(['.', ' ']).next().map(str::to_owned));
        }
    }
    (name.unwrap(), needs)
}

#[test]
fn each_wing_stands_only_on_those_above_it() {
    let mut wing_of = BTreeMap::new();
    let mut packages = Vec::new();
    for (wing, on) in WINGS {
        for folder in folders(&crates().join(wing)) {
            let (name, needs) = package(&folder);
            wing_of.insert(name.clone(), wing);
            packages.push((name, wing, on, needs));
        }
    }
    for (name, wing, on, needs) in packages {
        for need in needs {
            let Some(below) = wing_of.get(&need) else {
                panic!("{name} stands on {need}, which has no wing")
            };
            assert!(*below == wing || on.contains(below), "{name} of {wing} stands on {need} of {below}");
        }
    }
}

/// They would be a good part of the time that building the recorder takes, and it has no tables.
#[test]
fn the_commands_build_no_tables_and_none_of_their_rules() {
    let wings = WINGS.iter().flat_map(|(wing, _)| folders(&crates().join(wing)));
    let needs_of: BTreeMap<String, Vec<String>> = wings.map(|folder| package(&folder)).collect();
    let mut built = BTreeSet::new();
    let mut todo = package(&crates().join("cli")).1;
    while let Some(name) = todo.pop() {
        todo.extend(needs_of[&name].iter().filter(|need| !built.contains(*need)).cloned());
        built.insert(name);
    }
    assert!(built.contains("ferretto-trace-read"));
    for name in ["ferretto-trace-tables", "ferretto-trace-model", "ferretto-trace-formats"] {
        assert!(needs_of.contains_key(name) && !built.contains(name), "{name}");
    }
}

#[test]
fn every_folder_is_a_wing_or_the_commands() {
    for folder in folders(&crates()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name == "cli" || WINGS.iter().any(|(wing, _)| *wing == name), "{name} is in no list");
        if name != "cli" {
            assert!(folders(&folder).iter().all(|room| room.join("Cargo.toml").exists()), "{name}");
        }
    }
}
