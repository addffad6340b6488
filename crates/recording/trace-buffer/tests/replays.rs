//! Longer scripts, made by chance, with answers that agree with upstream's implementation (v59), but for gaps within a walk
//! (`tests/upstream-buffer/src/compare.rs`).
//!
//! `tests/script/mod.rs` describes the language. With `UPDATE_EXPECTED=1` the answers are written anew; look
//! at every change in them.

mod script;

use std::path::{Path, PathBuf};

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let files = std::fs::read_dir(folder).expect("the folder with the scripts");
    let paths = files.map(|file| file.expect("a file").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "in")).collect()
}

#[test]
fn scripts_print_what_they_printed_before() {
    let scripts = scripts();
    assert!(!scripts.is_empty());
    for path in scripts {
        let input = std::fs::read_to_string(&path).expect("a script");
        let printed = script::run(&input).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let answer = path.with_extension("out");
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            std::fs::write(&answer, &printed).expect("a writable folder");
        }
        let expected = std::fs::read_to_string(&answer).expect("the script's answer");
        let same = printed.lines().zip(expected.lines()).take_while(|(is, should)| is == should).count();
        assert!(printed == expected, "{}: line {} of what is printed differs", path.display(), same + 1);
    }
}
