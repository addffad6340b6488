//! Tests against real peers: what they share.
//!
//! A test asks for what it needs ([`upstream`], [`ferretto()`], [`tracefs`], [`trace_query`], [`readers`], [`browser()`]) and is skipped, saying so,
//! if that is not there: `.ci/peers` installs upstream's programs, Trace Processor, readers of our files and a browser, `cargo build --release` makes ours.
//! A [`World`] is a folder with two sockets and the daemons on them, which die with it; any program in it may be
//! [`Maker::Upstream`]'s or [`Maker::Ferretto`]'s.

#![forbid(unsafe_code)]

mod clients;
mod machines;
mod sql;
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;

pub use clients::{end_into_file, serve, wait_for_end};
pub use machines::{AHEAD_S, Mix, TwoMachines};
pub use sql::{Table, TraceQuery, trace_query};
pub use world::{Daemon, Finished, World};

/// The folder that the Perfetto UI is served from.
const UI_ENV: &str = "FERRETTO_UI";
/// A command that runs a headless Chromium.
const BROWSER_ENV: &str = "FERRETTO_BROWSER";
/// A command that runs Python with the libraries that read what we write.
const READERS_ENV: &str = "FERRETTO_READERS";
/// A folder with upstream's programs and the libraries and loader to run them with, as `.ci/peers` makes it.
const PEERS_DIR_ENV: &str = "FERRETTO_PEERS_DIR";
/// The `ferretto` binary, if it is not in the release folder of the target directory.
const FERRETTO_ENV: &str = "FERRETTO_BIN";
/// The program of tests/upstream-client.
const UPSTREAM_CLIENT_ENV: &str = "FERRETTO_UPSTREAM_CLIENT";

/// Leaves the test if something that it needs is not there, saying what. The test passes then: what a machine has is not its doing.
///
/// The argument is a `Result` with a reason as its error; its value is the value of the macro.
#[macro_export]
macro_rules! need {
    ($what:expr) => {
        match $what {
            Ok(found) => found,
            Err(reason) => {
                eprintln!("skipped: {reason}");
                return;
            }
        }
    };
}

/// Two tests, which call a function with the service of each maker and skip what is not there.
#[macro_export]
macro_rules! through_each_service {
    ($check:ident) => {
        #[test]
        fn through_our_service() {
            $check(&$crate::need!($crate::ferretto()), $crate::Maker::Ferretto);
        }

        #[test]
        fn through_upstreams_service() {
            $check(&$crate::need!($crate::upstream()), $crate::Maker::Upstream);
        }
    };
}

/// A headless browser with the Perfetto UI.
#[derive(Debug, Clone)]
pub struct Browser {
    ui: PathBuf,
    words: Vec<String>,
}

/// Why a test is skipped.
pub type Reason = String;

/// Whose program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// Upstream's, from Debian.
    Upstream,
    /// Ours.
    Ferretto,
}

/// What a program does; both makers have each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The service.
    Traced,
    /// The Linux data sources.
    Probes,
    /// The command line.
    Perfetto,
}

/// Programs of both makers.
#[derive(Debug, Clone)]
pub struct Peers {
    upstream: Option<Upstream>,
    ferretto: Option<PathBuf>,
}

#[derive(Debug, Clone)]
struct Upstream {
    root: PathBuf,
    loader: PathBuf,
    libraries: String,
}

/// Upstream's programs only.
pub fn upstream() -> Result<Peers, Reason> {
    Ok(Peers { upstream: Some(find_upstream()?), ferretto: None })
}

/// Ours only.
pub fn ferretto() -> Result<Peers, Reason> {
    Ok(Peers { upstream: None, ferretto: Some(find_ferretto()?) })
}

/// Both.
pub fn both() -> Result<Peers, Reason> {
    Ok(Peers { upstream: Some(find_upstream()?), ferretto: Some(find_ferretto()?) })
}

/// The program of tests/upstream-client: upstream's client library.
pub fn upstream_client() -> Result<Command, Reason> {
    let path = std::env::var_os(UPSTREAM_CLIENT_ENV).ok_or_else(|| {
        format!("{UPSTREAM_CLIENT_ENV} is not set; build tests/upstream-client and name its program there")
    })?;
    Ok(Command::new(path))
}

/// A command that runs readers.py.
pub fn readers() -> Result<Command, Reason> {
    let words = std::env::var(READERS_ENV).map_err(|_| {
        format!("{READERS_ENV} is not set; run eval \"$(.ci/peers)\" for libraries that read our files")
    })?;
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().ok_or_else(|| format!("{READERS_ENV} is empty"))?);
    command.args(words).arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("readers.py"));
    Ok(command)
}

/// A browser and the UI, if there are both.
pub fn browser() -> Result<Browser, Reason> {
    let get = |name: &str| {
        std::env::var(name).map_err(|_| {
            format!("{name} is not set; run eval \"$(.ci/peers)\" for a browser with the Perfetto UI")
        })
    };
    let words = get(BROWSER_ENV)?.split_whitespace().map(str::to_owned).collect();
    Ok(Browser { ui: get(UI_ENV)?.into(), words })
}

impl Browser {
    /// A command that records with the UI's page, as record_page.cjs tells.
    pub fn record_page(&self, out: &Path) -> Command {
        self.run("record_page.cjs", &[out])
    }

    /// The folder of the UI.
    pub fn ui(&self) -> &Path {
        &self.ui
    }

    /// A command that opens a trace in the UI, or an address that does, as open_page.cjs tells.
    pub fn open_page(&self, trace: &Path, out: &Path) -> Command {
        self.run("open_page.cjs", &[trace, out])
    }

    /// A command that opens a page of a report, as open_report.cjs tells.
    pub fn open_report(&self, page: &Path, out: &Path) -> Command {
        let mut command = Command::new("node");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("open_report.cjs"));
        command.args([page, out]).args(&self.words);
        command
    }

    fn run(&self, program: &str, paths: &[&Path]) -> Command {
        let mut command = Command::new("node");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(program));
        command.arg(&self.ui).args(paths).args(&self.words);
        command
    }
}

/// Whether the tests run as root.
pub fn root() -> Result<(), Reason> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err("needs root; run it as root".to_owned()) }
}

/// Whether this process may use the kernel's tracing.
pub fn tracefs() -> Result<(), Reason> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root for tracefs; run it as root".to_owned());
    }
    if !Path::new("/sys/kernel/tracing/events").exists() {
        return Err("needs tracefs; mount -t tracefs nodev /sys/kernel/tracing".to_owned());
    }
    Ok(())
}

impl Peers {
    /// A command that runs the program; arguments and environment are the caller's.
    ///
    /// # Panics
    ///
    /// If the maker's programs were not asked for.
    pub fn command(&self, maker: Maker, program: Program) -> Command {
        match maker {
            Maker::Upstream => self.upstream.as_ref().expect("asked for upstream").command(program),
            Maker::Ferretto => {
                let mut command = self.ferretto();
                command.arg(match program {
                    Program::Traced => "traced",
                    Program::Probes => "probes",
                    Program::Perfetto => "perfetto",
                });
                command
            }
        }
    }

    /// A command that runs `ferretto` itself.
    ///
    /// # Panics
    ///
    /// If our programs were not asked for.
    pub fn ferretto(&self) -> Command {
        Command::new(self.ferretto.as_ref().expect("asked for ferretto"))
    }
}

impl Upstream {
    fn command(&self, program: Program) -> Command {
        let path = match program {
            Program::Traced => "usr/sbin/traced",
            Program::Probes => "usr/sbin/traced_probes",
            Program::Perfetto => "usr/bin/perfetto",
        };
        let mut command = Command::new(&self.loader);
        command.arg("--library-path").arg(&self.libraries).arg(self.root.join(path));
        command
    }
}

fn find_upstream() -> Result<Upstream, Reason> {
    let root = std::env::var_os(PEERS_DIR_ENV).ok_or_else(|| {
        format!("{PEERS_DIR_ENV} is not set; run eval \"$(.ci/peers)\" for upstream's programs")
    })?;
    let root = PathBuf::from(root);
    let lib = root.join("usr/lib");
    let arch = std::fs::read_dir(&lib)
        .map_err(|error| format!("{}: {error}", lib.display()))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| find_loader(path).is_some())
        .ok_or_else(|| format!("{} has no dynamic loader", lib.display()))?;
    let loader = find_loader(&arch).ok_or("the loader went away")?;
    let libraries = format!("{}:{}", lib.join("perfetto").display(), arch.display());
    Ok(Upstream { root, loader, libraries })
}

fn find_loader(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?;
    entries
        .filter_map(Result::ok)
        .find(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("ld-linux") && name.contains(".so.")
        })
        .map(|entry| entry.path())
}

/// Tests lie in `target/PROFILE/deps`, programs in `target/PROFILE`.
fn find_ferretto() -> Result<PathBuf, Reason> {
    if let Some(path) = std::env::var_os(FERRETTO_ENV) {
        return Ok(path.into());
    }
    let test = std::env::current_exe().map_err(|error| error.to_string())?;
    let built = test.ancestors().skip(1).take(3).map(|folder| folder.join("release/ferretto"));
    built.filter(|path| path.exists()).last().ok_or_else(|| {
        format!(
            "there is no release build of ferretto; run cargo build --release, or name one in {FERRETTO_ENV}"
        )
    })
}

/// The second program, from where this test was built: of the workspace's tests some build it.
pub fn ferretto_query() -> Result<Command, Reason> {
    let test = std::env::current_exe().map_err(|error| error.to_string())?;
    let built = test.ancestors().nth(2).map(|folder| folder.join("ferretto-query"));
    match built.filter(|path| path.exists()) {
        Some(path) => Ok(Command::new(path)),
        None => {
            Err("ferretto-query is not built; run cargo test --workspace, or cargo build -p ferretto-query"
                .to_owned())
        }
    }
}

/// A config, from text to bytes.
///
/// # Panics
///
/// If it has a mistake.
pub fn config(text: &str) -> Vec<u8> {
    ferretto_protos::text::parse_trace_config(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
