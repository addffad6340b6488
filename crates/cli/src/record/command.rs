//! The program after `--`: found before the recording starts, run while it lasts.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, Result};
use rustix::fs::Access;
use rustix::process::{Pid, Signal};

use super::output::plain;
use crate::report::UserError;

/// What shells return for a command that a signal ended: this and the signal's number.
const SIGNAL_BASE: i32 = 128;

/// A command that can be run.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    words: Vec<OsString>,
}

impl Program {
    /// Looks for the program as a shell does. None without a command.
    pub(crate) fn find(words: &[OsString]) -> Result<Option<Self>> {
        let Some(name) = words.first() else { return Ok(None) };
        let path = look_up(Path::new(name)).ok_or_else(|| {
            UserError::new(format!("there is no program {} to run", name.display()))
                .help("the command after -- is looked for in PATH, like in a shell; try its whole path")
        })?;
        Ok(Some(Self { path, words: words.to_vec() }))
    }

    /// Its file.
    pub(crate) fn into_path(self) -> PathBuf {
        self.path
    }

    /// Starts it with these additional environment variables.
    pub(crate) fn start(&self, env: &[(&str, String)]) -> Result<RunningProgram> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&self.path);
        if let Some((name, args)) = self.words.split_first() {
            command.arg0(name).args(args);
        }
        command.envs(env.iter().map(|(name, value)| (*name, value)));
        let child = command.spawn().map_err(|error| self.cannot_start(&error))?;
        Ok(RunningProgram { child, status: None })
    }

    fn cannot_start(&self, error: &std::io::Error) -> UserError {
        let message = format!("cannot run {}: {}", self.path.display(), plain(error));
        match error.kind() {
            ErrorKind::PermissionDenied => {
                UserError::new(message).help("is it executable, and its folder too?")
            }
            _ => UserError::new(message),
        }
    }
}

fn look_up(name: &Path) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok();
    if name.components().count() > 1 || name.is_absolute() {
        return Some(name.to_owned()).filter(is_program);
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(is_program)
}

/// The program while it runs and after.
#[derive(Debug)]
pub(crate) struct RunningProgram {
    child: Child,
    status: Option<ExitStatus>,
}

impl RunningProgram {
    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Asks it to end: whoever interrupts a recording interrupts its command.
    pub(crate) fn terminate(&mut self) {
        if self.has_ended() {
            return;
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for its end; the status that a shell would report.
    pub(crate) fn wait(mut self) -> Result<u8> {
        let status = match self.status {
            Some(status) => status,
            None => self.child.wait().context("cannot wait for the command")?,
        };
        Ok(shell_status(status))
    }
}

fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNAL_BASE + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<OsString> {
        line.iter().map(OsString::from).collect()
    }

    fn run(line: &[&str]) -> u8 {
        let program = Program::find(&words(line)).unwrap().unwrap();
        program.start(&[("FERRETTO_TEST", "7".to_owned())]).unwrap().wait().unwrap()
    }

    #[test]
    fn exit_statuses_are_those_of_a_shell() {
        assert_eq!(run(&["true"]), 0);
        assert_eq!(run(&["sh", "-c", "exit 42"]), 42);
        assert_eq!(run(&["/bin/sh", "-c", "kill -9 $$"]), 137);
        assert_eq!(run(&["sh", "-c", "exit $FERRETTO_TEST"]), 7);
    }

    #[test]
    fn a_missing_program_is_noticed_before_anything_starts() {
        assert!(Program::find(&[]).unwrap().is_none());
        for name in
            ["no-such-program-here", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "/", "./no/such"]
        {
            assert!(Program::find(&words(&[name])).is_err(), "{name}");
        }
    }

    #[test]
    fn an_interrupted_program_ends() {
        let program = Program::find(&words(&["sleep", "100"])).unwrap().unwrap();
        let mut running = program.start(&[]).unwrap();
        assert!(!running.has_ended());
        running.terminate();
        assert_eq!(running.wait().unwrap(), 143);
    }
}
