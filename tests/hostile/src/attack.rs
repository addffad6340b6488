//! The attacker, as a process of its own.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Case, Refused, Target, cases, user};

/// The argument by which the program `hostile` becomes an attacker; the case's name and the two sockets follow.
pub const ATTACK: &str = "attack";

/// An attack takes this long, and what the service has to do because of it this much longer at most.
const ATTACK_TIME: Duration = Duration::from_secs(3);
pub(crate) const AFTERMATH: Duration = Duration::from_secs(60);

/// By which a case that was refused is told from one of which the service has had enough.
const REFUSED: u8 = 2;

/// Attacks as the arguments behind [`ATTACK`] say, as the attacker's user, and says on standard error why it ended before its time.
pub fn attack(args: &[String]) -> Result<ExitCode, String> {
    let [name, producers, consumers] = args else {
        return Err(format!("{ATTACK} wants a case and two sockets"));
    };
    let case = cases::ALL.iter().find(|case| case.name == name).ok_or("no such case")?;
    let target = Target {
        producers: PathBuf::from(producers),
        consumers: PathBuf::from(consumers),
        until: Instant::now() + ATTACK_TIME,
    };
    let Err(error) = user::switch().and_then(|()| (case.run)(&target)) else {
        return Ok(ExitCode::SUCCESS);
    };
    eprint!("{error}");
    Ok(if Refused::is(&error) { ExitCode::from(REFUSED) } else { ExitCode::FAILURE })
}

/// How an attack ended.
pub(crate) enum End {
    /// With all that it wanted to do.
    Done,
    /// The service had enough of it.
    Error(String),
    /// It was none.
    Refused(String),
    /// It has not: the attacker waits for answers.
    Waits,
}

/// An attack under way, which ends with this.
pub(crate) struct Attack(Child);

impl Attack {
    pub(crate) fn start(hostile: &Path, case: &Case, producers: &Path, consumers: &Path) -> Self {
        let mut command = Command::new(hostile);
        command
            .arg(ATTACK)
            .arg(case.name)
            .arg(producers)
            .arg(consumers)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        Self(command.spawn().unwrap_or_else(|error| panic!("{}: {error}", hostile.display())))
    }

    pub(crate) fn wait(mut self) -> End {
        let start = Instant::now();
        while start.elapsed() < ATTACK_TIME + AFTERMATH {
            if let Ok(Some(status)) = self.0.try_wait() {
                return self.end(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
        End::Waits
    }

    fn end(&mut self, status: ExitStatus) -> End {
        let mut why = String::new();
        if let Some(stderr) = &mut self.0.stderr {
            let _ = stderr.read_to_string(&mut why);
        }
        match status.code() {
            Some(0) => End::Done,
            Some(1) => End::Error(why),
            // It panicked, or was killed for the memory that it took.
            code if code != Some(i32::from(REFUSED)) => End::Refused(format!("{status}: {why}")),
            _ => End::Refused(why),
        }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
