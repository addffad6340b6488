//! Going to the background without `fork`, which is no safe thing for a Rust program: the process starts itself again.
//!
//! The copy finds [`MARKER_ENV`] in its environment, runs in a session of its own, and says on its standard output that it is ready. The
//! first process waits for that, prints the copy's process id, as upstream's `--background` does, and returns.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Tells the copy that it is one.
const MARKER_ENV: &str = "FERRETTO_IN_BACKGROUND";

/// What this process is to do.
pub(crate) enum Role {
    /// The copy is ready; nothing is left to do.
    Done,
    /// Serve, and call [`detach`] when ready.
    Copy,
}

/// Starts the copy, unless this is it.
pub(crate) fn start() -> io::Result<Role> {
    if std::env::var_os(MARKER_ENV).is_some() {
        // The parent may die and its terminal close: the copy must not hear of it. It may be a leader already.
        let _ = rustix::process::setsid();
        return Ok(Role::Copy);
    }
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_else(|| OsString::from("traced"));
    // By its path, so that the copy shows up under its own name.
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut child = Command::new(program)
        .arg0(name)
        .args(args)
        .env(MARKER_ENV, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut word = [0];
    let mut said = child.stdout.take();
    let ready = said.as_mut().map_or(Ok(0), |said| said.read(&mut word))?;
    if ready != 1 {
        let status = child.wait()?;
        return Err(io::Error::other(format!(
            "the service in the background ended before it was ready ({status})"
        )));
    }
    let _ = writeln!(io::stdout(), "{}", child.id());
    Ok(Role::Done)
}

/// Says that the service is ready and lets go of the terminal.
pub(crate) fn detach() -> io::Result<()> {
    io::stdout().write_all(b"1")?;
    io::stdout().flush()?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
