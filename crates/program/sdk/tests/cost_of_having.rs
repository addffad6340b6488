//! What a program builds for having the SDK. How long that takes, and how large it is then, prints
//! `cargo run --release -p ferretto-benches --bin cost_of_having`.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::process::Command;

/// The promise (SPECIFICATION.md); our own crates count, too.
const MAX_CRATES: usize = 25;

#[test]
fn a_program_with_the_sdk_builds_at_most_25_crates() {
    let Some(crates) = crates_in_the_tree() else {
        return;
    };
    let has = |name: &str| crates.iter().any(|line| line.split(' ').next() == Some(name));
    assert!(has("ferretto") && has("ferretto-producer"), "this is no tree of the SDK: {crates:#?}");
    assert!(crates.len() <= MAX_CRATES, "{} crates: {crates:#?}", crates.len());
}

/// Names and versions, with default features, for this machine. `None` where there is no cargo.
fn crates_in_the_tree() -> Option<BTreeSet<String>> {
    let args = "tree --offline --locked --package ferretto --edges normal --prefix none --format {p}";
    let output =
        Command::new(env!("CARGO")).args(args.split(' ')).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: there is no {}", env!("CARGO"));
            return None;
        }
        Err(error) => panic!("cannot run {}: {error}", env!("CARGO")),
    };
    assert!(output.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names are UTF-8");
    // A crate that was printed before is marked, and procedural macros are.
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    Some(text.lines().filter(|line| !line.is_empty()).map(name).collect())
}
