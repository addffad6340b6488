//! Commands of the second binary, `ferretto-query`, which has what needs Arrow: this one becomes it.
//!
//! It lies beside this one, or in the PATH. It must be of the same version: the two are built from one source, and what one's pages say must
//! hold for the other. Beside a program that lies in a folder like `/tmp`, somebody else may have put one of this name: that one is not run.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use ferretto_ipc::walk::{self, Held, Verdict, walk};
use rustix::process::geteuid;

use crate::VERSION;
use crate::report::UserError;
use crate::user;

const PROGRAM: &str = "ferretto-query";
const HOW_TO_BUILD: &str = "cargo build --release -p ferretto-query";

/// Runs a command of `ferretto-query` in the place of this process. Comes back only if it cannot.
pub(crate) fn run(command: &str, args: &[OsString]) -> Result<()> {
    let program = program(command)?;
    // Its pages call it by the name of the program that the user ran.
    let error = Command::new(&program).arg0("ferretto").arg(command).args(args).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

/// The one that this command is of.
pub(crate) fn program(command: &str) -> Result<PathBuf> {
    let program = find(places())?.ok_or_else(|| {
        UserError::new(format!(
            "{command} needs the program {PROGRAM}, which is neither beside this one nor in the PATH"
        ))
        .help(format!("releases have it beside this program; in a clone, build it with `{HOW_TO_BUILD}`"))
    })?;
    let version = version_of(&program)?;
    if version != VERSION {
        let message = format!("{} is of version {version}, and this is {VERSION}", program.display());
        return Err(UserError::new(message).help(format!("build it anew with `{HOW_TO_BUILD}`")).into());
    }
    Ok(program)
}

/// Folders that it may be in, best first.
fn places() -> Vec<PathBuf> {
    let beside = env::current_exe().ok().and_then(|path| Some(path.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    beside.into_iter().chain(env::split_paths(&path)).collect()
}

/// The first one that is not a neighbour's; an error if there are only such.
fn find(places: Vec<PathBuf>) -> Result<Option<PathBuf>> {
    let mut refused = None;
    for program in places.into_iter().map(|folder| folder.join(PROGRAM)).filter(|it| is_program(it)) {
        let whose = program.metadata().map_or(0, |meta| meta.uid());
        match walk(&program, &|folder, step| judge(folder, step, whose)) {
            Ok(_) => return Ok(Some(program)),
            Err(error) => refused = refused.or_else(|| Some(not_run(&program, &error))),
        }
    }
    refused.map_or(Ok(None), Err)
}

/// Each step to it is of root, of this user or of whoever has this program, too; or of whoever has that one, where nobody else could make it.
fn judge(folder: Option<&Held>, step: &Held, whose: u32) -> Verdict {
    let is_shared = folder.is_some_and(|folder| folder.is_shared(geteuid().as_raw()));
    let owner = step.found.owner;
    // Of those whom a user name space does not show one may be another.
    let is_of_this = || !user::is_hidden(owner) && owner_of_this() == Some(owner);
    match user::is_as_oneself(owner) || owner == whose && !is_shared || is_of_this() {
        true => Verdict::GoOn,
        false => Verdict::Refuse,
    }
}

fn owner_of_this() -> Option<u32> {
    env::current_exe().and_then(fs::metadata).ok().map(|meta| meta.uid())
}

fn not_run(program: &Path, error: &walk::Error) -> anyhow::Error {
    UserError::new(format!("{} is not run: {error}", program.display()))
        .help(format!("have this program and {PROGRAM} in a folder that nobody else may write to"))
        .into()
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::chown;

    use super::*;

    /// Somebody who is not there.
    const STRANGER: u32 = 4242;

    #[test]
    fn a_neighbours_program_is_not_run() {
        if !geteuid().is_root() {
            return println!("skipped: only root can make things that are another user's");
        }
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str, mode| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            folder
        };
        let (closed, open, theirs) =
            (folder("closed", 0o755), folder("open", 0o1777), folder("theirs", 0o755));
        for folder in [&closed, &open, &theirs] {
            fs::write(folder.join(PROGRAM), "").unwrap();
            fs::set_permissions(folder.join(PROGRAM), Permissions::from_mode(0o755)).unwrap();
            chown(folder.join(PROGRAM), Some(STRANGER), None).unwrap();
        }
        chown(&theirs, Some(STRANGER), None).unwrap();
        let found = |places: &[&PathBuf]| find(places.iter().map(|&place| place.clone()).collect());
        assert_eq!(found(&[&closed]).unwrap(), Some(closed.join(PROGRAM)), "root has put it there");
        assert!(found(&[&open]).is_err());
        assert_eq!(
            found(&[&open, &closed]).unwrap(),
            Some(closed.join(PROGRAM)),
            "it keeps no other from being found"
        );
        assert_eq!(
            found(&[&theirs]).unwrap(),
            Some(theirs.join(PROGRAM)),
            "their folder, that root has let them have here"
        );
        chown(open.join(PROGRAM), Some(0), None).unwrap();
        assert_eq!(found(&[&open]).unwrap(), Some(open.join(PROGRAM)));
        assert_eq!(found(&[]).unwrap(), None);
    }
}
