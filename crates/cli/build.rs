//! What `ferretto --version` says beside the version: the commit that it is built from, if one is known.
//!
//! A release says so itself (`.ci/release`), an archive of crates.io by a file of Cargo's, and a working copy by git, which is asked in builds for use
//! only: in others each commit would build the command anew. Without any of them there is nothing to say, and nothing fails.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Set by `.ci/release`.
const RELEASED: &str = "FERRETTO_COMMIT";
/// As many digits as are told.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-env-changed={RELEASED}");
    let built_from = released().or_else(archived).or_else(working_copy);
    let built_from = built_from.map_or_else(String::new, |commit| format!(" ({commit})"));
    println!("cargo::rustc-env=FERRETTO_BUILT_FROM={built_from}");
}

fn released() -> Option<String> {
    shortened(&env::var(RELEASED).ok()?)
}

/// `cargo package` puts it there: `{"git": {"sha1": "…"}, …}`.
fn archived() -> Option<String> {
    const FILE: &str = ".cargo_vcs_info.json";
    let text = fs::read_to_string(Path::new(&env::var("CARGO_MANIFEST_DIR").ok()?).join(FILE)).ok()?;
    println!("cargo::rerun-if-changed={FILE}");
    let commit = shortened(text.split("\"sha1\": \"").nth(1)?.split('"').next()?)?;
    Some(if text.contains("\"dirty\": true") { format!("changed from {commit}") } else { commit })
}

/// What has not been committed is not looked for: that would take a look at each file in each build.
fn working_copy() -> Option<String> {
    if env::var("PROFILE").as_deref() != Ok("release") || git("rev-parse --show-prefix")? != "crates/cli/" {
        return None;
    }
    let commit = shortened(&git("rev-parse HEAD")?)?;
    // The second one is written at each commit. A file that is not there would have this run each time.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&format!("rev-parse --git-path {file}"))?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    Some(format!("a working copy of {commit}"))
}

/// Run where the package lies.
fn git(args: &str) -> Option<String> {
    let output = Command::new("git").args(args.split(' ')).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}

/// Nothing but a commit becomes a part of the program.
fn shortened(commit: &str) -> Option<String> {
    let is_commit = commit.len() >= DIGITS && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| commit[..DIGITS].to_owned())
}
