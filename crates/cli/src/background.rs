//! Going on in the background without `fork`: the program starts itself again, detached from the terminal.
//!
//! The child's stdout is a pipe to the parent. It writes `LAUNCHED` when nothing can be refused any more, then perhaps a
//! status; if it ends before that, its errors have gone to the shared stderr and its exit status becomes the parent's.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec};

/// Set for the child only.
const CHILD_ENV: &str = "FERRETTO_IN_BACKGROUND";
const LAUNCHED: u8 = b'L';

/// Whether this process is the one in the background. Heeded by set-user-id programs, too, whose children are such: it takes a pipe away, and
/// gives nothing.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD_ENV).is_some()
}

/// The parent's half: starts the child, prints its pid once it is launched, and, when asked, waits for its status byte.
pub(crate) fn launch(stdin: Option<&[u8]>, wait_for_status: Option<Duration>) -> Result<ExitCode> {
    let mut child = spawn(stdin.is_some())?;
    if let (Some(bytes), Some(mut pipe)) = (stdin, child.stdin.take()) {
        // A child that has already given up says why itself.
        let _ = pipe.write_all(bytes);
    }
    let mut pipe = child.stdout.take().context("the background process has no pipe")?;
    if read_byte(&mut pipe) != Some(LAUNCHED) {
        let status = child.wait().context("cannot wait for the background process")?;
        return Ok(exit_code(status.code()));
    }
    println!("{}", child.id());
    match wait_for_status {
        None => Ok(ExitCode::SUCCESS),
        Some(timeout) => Ok(await_status(pipe, timeout)),
    }
}

fn spawn(pipe_stdin: bool) -> Result<Child> {
    let mut args = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    let stdin = if pipe_stdin { Stdio::piped() } else { Stdio::null() };
    command.args(args).env(CHILD_ENV, "1").stdin(stdin).stdout(Stdio::piped());
    command.spawn().context("cannot start the background process from /proc/self/exe")
}

fn read_byte(pipe: &mut impl Read) -> Option<u8> {
    let mut byte = [0];
    pipe.read_exact(&mut byte).ok().map(|()| byte[0])
}

fn await_status(mut pipe: std::process::ChildStdout, timeout: Duration) -> ExitCode {
    let timeout = Timespec::try_from(timeout).ok();
    let ready = rustix::event::poll(&mut [PollFd::new(&pipe, PollFlags::IN)], timeout.as_ref());
    if ready.is_ok_and(|count| count > 0) && read_byte(&mut pipe) == Some(0) {
        return ExitCode::SUCCESS;
    }
    eprintln!("perfetto: not all data sources acknowledged their start in time");
    ExitCode::FAILURE
}

fn exit_code(code: Option<i32>) -> ExitCode {
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// The child's half: leaves the terminal's session and tells the parent that it runs. The returned pipe takes the status.
pub(crate) fn enter() -> Result<File> {
    let mut pipe: File =
        rustix::io::dup(std::io::stdout()).context("cannot keep the pipe to the parent")?.into();
    // Fails only for a process that leads a group already, and then there is no terminal to leave.
    let _ = rustix::process::setsid();
    pipe.write_all(&[LAUNCHED]).context("the parent process has gone")?;
    let null =
        OpenOptions::new().read(true).write(true).open("/dev/null").context("cannot open /dev/null")?;
    rustix::stdio::dup2_stdin(&null).context("cannot leave the terminal")?;
    rustix::stdio::dup2_stdout(&null).context("cannot leave the terminal")?;
    rustix::stdio::dup2_stderr(&null).context("cannot leave the terminal")?;
    Ok(pipe)
}
