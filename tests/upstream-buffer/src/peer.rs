//! Each side in a process of its own, for it may abort or never end: upstream's does, on some scripts.
//!
//! The process is this program again. Scripts go in and answers come out, each with its length before it.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::{Kind, replay};

/// Scripts take milliseconds. Upstream has no bound on what a ProtoVM program may do.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Whose buffers and VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Theirs,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Theirs => "theirs",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Ours, Self::Theirs].into_iter().find(|side| side.name() == name)
    }
}

/// What became of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Printed(String),
    /// The process ended (ours panicked; upstream checks itself and aborts), or had to be ended.
    Died(&'static str),
}

/// The process, started when it is needed.
#[derive(Debug)]
pub(crate) struct Peer {
    side: Side,
    kind: Kind,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    answers: Receiver<String>,
}

impl Peer {
    pub(crate) const fn new(side: Side, kind: Kind) -> Self {
        Self { side, kind, process: None }
    }

    /// What it prints for the script.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub(crate) fn run(&mut self, script: &str) -> io::Result<Answer> {
        let mut process = match self.process.take() {
            Some(process) => process,
            None => Process::start(self.side, self.kind)?,
        };
        let answer = process.run(script);
        if let Answer::Printed(_) = answer {
            self.process = Some(process);
        }
        Ok(answer)
    }
}

impl Process {
    fn start(side: Side, kind: Kind) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", side.name(), kind.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if side == Side::Ours { Stdio::inherit() } else { Stdio::null() })
            .spawn()?;
        let (sender, answers) = channel();
        let mut stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        std::thread::spawn(move || {
            while let Ok(Some(answer)) = receive(&mut stdout)
                && sender.send(answer).is_ok()
            {}
        });
        Ok(Self { child, answers })
    }

    fn run(&mut self, script: &str) -> Answer {
        if let Some(stdin) = &mut self.child.stdin {
            // If the process has ended, so have the answers.
            let _ = send(stdin, script);
        }
        match self.answers.recv_timeout(TIMEOUT) {
            Ok(printed) => Answer::Printed(printed),
            Err(RecvTimeoutError::Disconnected) => Answer::Died("aborted"),
            Err(RecvTimeoutError::Timeout) => Answer::Died("did not end"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the process does: answers scripts until there are no more.
///
/// # Errors
/// If its input or output break.
pub(crate) fn serve(side: Side, kind: Kind) -> io::Result<()> {
    let replay = match side {
        Side::Ours => replay::ours,
        Side::Theirs => replay::theirs,
    };
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    while let Some(script) = receive(&mut input)? {
        let answer = replay(kind, &script).unwrap_or_else(|error| format!("bad script: {error}\n"));
        send(&mut output, &answer)?;
    }
    Ok(())
}

fn send(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(&(text.len() as u64).to_le_bytes())?;
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// `None` at the end.
fn receive(from: &mut impl Read) -> io::Result<Option<String>> {
    let mut len = [0; 8];
    match from.read_exact(&mut len) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let mut text = String::new();
    from.take(u64::from_le_bytes(len)).read_to_string(&mut text)?;
    Ok(Some(text))
}
