//! Commands of the second binary, `ferretto-query`, which has what needs Arrow: this one becomes it.
//!
//! It lies beside this one, or in the PATH. It must be of the same version: the two are built from one source, and what one's pages say must
//! hold for the other.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::VERSION;
use crate::report::UserError;

const PROGRAM: &str = "ferretto-query";
const HOW_TO_BUILD: &str = "cargo build --release -p ferretto-query";

/// Runs a command of `ferretto-query` in the place of this process. Comes back only if it cannot.
pub(crate) fn run(command: &str, args: &[OsString]) -> Result<()> {
    let program = find().ok_or_else(|| {
        UserError::new(format!(
            "{command} needs the program {PROGRAM}, which is neither beside this one nor in the PATH"
        ))
        .help(format!("build it with `{HOW_TO_BUILD}`"))
    })?;
    let version = version_of(&program)?;
    if version != VERSION {
        let message = format!("{} is of version {version}, and this is {VERSION}", program.display());
        return Err(UserError::new(message).help(format!("build it anew with `{HOW_TO_BUILD}`")).into());
    }
    // Its pages call it by the name of the program that the user ran.
    let error = Command::new(&program).arg0("ferretto").arg(command).args(args).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

fn find() -> Option<PathBuf> {
    let beside = env::current_exe().ok().and_then(|path| Some(path.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(PROGRAM))
        .find(|it| is_program(it))
}

fn is_program(path: &Path) -> bool {
    const ANYBODY_RUNS: u32 = 0o111;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & ANYBODY_RUNS != 0)
}

/// The last word of `ferretto-query 0.1.0`.
fn version_of(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().last().unwrap_or("none that it says").to_owned())
}
