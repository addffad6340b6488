//! Takes from a daemon what it does not need, once it has all that it needs to begin.
//!
//! | module | what it takes |
//! |---|---|
//! | `user` | the user, and with it what only that one may do |
//! | `capabilities` | the rights of root |
//! | `files` | files and folders, TCP ports, sockets and processes of others (Landlock) |
//! | `calls` | system calls (seccomp) |
//!
//! A kernel that has not one of these is no reason not to run: [`ShutIn`] says what holds. All of it is for this thread and those that
//! it starts from then on, so it is done before the first is started.
//!
//! ```no_run
//! use ferretto_sandbox::{Capability, Rights, shut_in};
//!
//! let rights = Rights {
//!     writes: vec!["/var/lib/traces".into()],
//!     capabilities: vec![Capability::SysNice],
//!     ..Rights::default()
//! };
//! println!("{}", shut_in(&rights));
//! ```

#![forbid(unsafe_code)]

use std::fmt;
use std::path::PathBuf;

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod capabilities;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod user;
#[cfg(not(target_os = "linux"))]
#[path = "no_user.rs"]
mod user;

pub use user::{User, become_user};

/// What a daemon goes on to need. Everything else is taken from it.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// It lists what is in these folders and below, and reads nothing of it.
    pub lists: Vec<PathBuf>,
    /// It reads what is in these folders and below.
    pub reads: Vec<PathBuf>,
    /// It makes files in these folders and below, and reads and writes those that are there.
    pub writes: Vec<PathBuf>,
    /// It writes into files of the kernel in these folders and below, and makes and removes folders there, which is how tracefs is asked
    /// for instances.
    pub controls: Vec<PathBuf>,
    /// It removes files from these folders: those of its sockets.
    pub removes: Vec<PathBuf>,
    /// TCP ports that it connects to, on any machine.
    pub connects_to_ports: Vec<u16>,
    /// It connects to sockets with abstract names.
    pub connects_to_abstract_names: bool,
    /// It makes connections, by sockets of these kinds. None of them listens.
    pub connects: Vec<Connection>,
    /// It samples programs of the machine (perf_event_open(2)), and reads what they have mapped. Landlock lets nobody look into processes who is shut in
    /// by it, so it is left out, and of files seccomp lets it open those only that it reads, whichever they are.
    pub samples: bool,
    /// It reads what programs have mapped, as who samples does, and is told when they end (pidfd_open(2)).
    pub looks_into_programs: bool,
    /// What it keeps of root's rights, if it has them.
    pub capabilities: Vec<Capability>,
}

#[cfg(target_os = "linux")]
impl Rights {
    fn looks(&self) -> bool {
        self.samples || self.looks_into_programs
    }
}

/// What a connection is made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// Sockets of this machine.
    Unix,
    /// To the ports that are named.
    Tcp,
    /// Between a virtual machine and its host: any port of either.
    Vsock,
    /// To those who know the addresses of machines by their names: datagrams to anywhere, which no kernel keeps to a port.
    Names,
}

/// A part of root's rights; see capabilities(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Files whatever their modes.
    DacOverride,
    /// The same, for reading.
    DacReadSearch,
    /// What /proc tells of other users' processes.
    SysPtrace,
    /// Addresses of the kernel's functions.
    Syslog,
    /// To run before others.
    SysNice,
    /// Samples of what others do, and of the kernel.
    Perfmon,
    /// Whatever has no right of its own: system calls as events, among others.
    SysAdmin,
}

/// What holds now, and what the kernel refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShutIn {
    /// What was taken, in words.
    pub holds: Vec<&'static str>,
    /// What was not, and why.
    pub missing: Vec<String>,
}

impl fmt::Display for ShutIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holds.as_slice() {
            [] => f.write_str("not shut in")?,
            holds => write!(f, "shut in by {}", holds.join(", "))?,
        }
        match self.missing.as_slice() {
            [] => Ok(()),
            missing => write!(f, "; missing: {}", missing.join("; ")),
        }
    }
}

/// Why a daemon could not become another user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// There is no such user.
    #[error("there is no user {user:?} in /etc/passwd; name one that is there, or its number")]
    Unknown {
        /// As it was given.
        user: String,
    },
    /// The system's answer.
    #[error("cannot become user {uid}: {what}: {source}; only root may")]
    System {
        /// The user's number.
        uid: u32,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Takes from this thread, and from those that it starts, all but these rights. What cannot be taken is told, and the rest is.
#[cfg(target_os = "linux")]
pub fn shut_in(rights: &Rights) -> ShutIn {
    let mut shut_in = ShutIn::default();
    shut_in.note("no new privileges", capabilities::gain_none());
    shut_in.note("capabilities", capabilities::keep(&rights.capabilities));
    if !rights.looks() {
        let gaps = files::restrict(rights);
        if let Ok(Some(gaps)) = &gaps {
            shut_in.missing.push(format!("of Landlock, which is older here: {gaps}"));
        }
        shut_in.note("Landlock", gaps.map(drop));
    }
    // Last: it takes the calls that the others are made with.
    shut_in.note("seccomp", calls::restrict(rights));
    shut_in
}

/// Other systems have none of it.
#[cfg(not(target_os = "linux"))]
pub fn shut_in(_: &Rights) -> ShutIn {
    ShutIn { holds: Vec::new(), missing: vec!["all of it: this is not Linux".to_owned()] }
}

#[cfg(target_os = "linux")]
impl ShutIn {
    fn note(&mut self, what: &'static str, result: Result<(), String>) {
        match result {
            Ok(()) => self.holds.push(what),
            Err(error) => self.missing.push(format!("{what}: {error}")),
        }
    }
}
