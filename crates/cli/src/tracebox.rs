//! Upstream's program names, and `tracebox`: all of them in one, which also starts the services it needs.
//!
//! `tracebox` without an applet's name is `perfetto` with a private service and private probes around it
//! (upstream: src/tracebox/tracebox.cc).

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use ferretto_ipc::address::{CONSUMER_SOCKET_ENV, PRODUCER_SOCKET_ENV, environment};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::bridge::BridgeArgs;
use crate::daemons::{HeapArgs, PerfArgs, ProbesArgs, RelayArgs, TracedArgs};
use crate::private::Folder;
use crate::{background, bridge, daemons, perfetto, report, triggers};

/// How long a service may take to say that it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// One of the programs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Applet {
    Perfetto,
    Traced,
    Probes,
    Perf,
    Heap,
    Trigger,
    Relay,
    Bridge,
    Tracebox,
}

impl Applet {
    /// The applet that a program's name stands for.
    pub(crate) fn named(name: &OsStr) -> Option<Self> {
        Some(match name.to_str()? {
            "perfetto" => Self::Perfetto,
            "traced" => Self::Traced,
            "traced_probes" => Self::Probes,
            "trigger_perfetto" => Self::Trigger,
            "tracebox" => Self::Tracebox,
            "traced_relay" => Self::Relay,
            "traced_perf" => Self::Perf,
            "heapprofd" => Self::Heap,
            "websocket_bridge" => Self::Bridge,
            _ => return None,
        })
    }

    /// Runs it with the arguments after its name.
    pub(crate) fn run(self, args: &[OsString]) -> ExitCode {
        match self {
            Self::Perfetto => {
                crate::log::to_stderr("warn");
                perfetto::main(&texts(args))
            }
            Self::Traced => daemons::traced(&TracedArgs::parse_from(with_name("traced", args))),
            Self::Probes => daemons::probes(&ProbesArgs::parse_from(with_name("traced_probes", args))),
            Self::Perf => daemons::perf(&PerfArgs::parse_from(with_name("traced_perf", args))),
            Self::Heap => daemons::heap(&HeapArgs::parse_from(with_name("heapprofd", args))),
            Self::Relay => daemons::relay(&RelayArgs::parse_from(with_name("traced_relay", args))),
            Self::Trigger => trigger(&texts(args)),
            Self::Bridge => done(bridge::main(&BridgeArgs::parse_from(with_name("websocket_bridge", args)))),
            Self::Tracebox => tracebox(args),
        }
    }
}

/// Flags and names are text; what is none cannot be one of ours, and fails as an unknown name.
fn texts(args: &[OsString]) -> Vec<String> {
    args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
}

fn with_name(name: &str, args: &[OsString]) -> Vec<OsString> {
    std::iter::once(OsString::from(name)).chain(args.iter().cloned()).collect()
}

/// Every argument is a trigger's name; flags are ignored (upstream: trigger_perfetto.cc).
fn trigger(args: &[String]) -> ExitCode {
    let names: Vec<String> = args.iter().filter(|arg| !arg.starts_with('-')).cloned().collect();
    if names.is_empty() {
        eprintln!("Usage: trigger_perfetto TRIGGER...");
        return ExitCode::FAILURE;
    }
    done(triggers::activate("trigger_perfetto", names).map(|()| ExitCode::SUCCESS))
}

fn tracebox(args: &[OsString]) -> ExitCode {
    let applet = args.first().and_then(|name| Applet::named(name));
    if let (Some(applet), Some(rest)) = (applet, args.get(1..)) {
        return applet.run(rest);
    }
    let (system_sockets, args): (Vec<&OsString>, Vec<&OsString>) =
        args.iter().partition(|arg| *arg == "--system-sockets");
    let args: Vec<OsString> = args.into_iter().cloned().collect();
    let texts = texts(&args);
    match perfetto::needs(&texts) {
        // Help, version and mistakes need no service.
        perfetto::Needs::Nothing => perfetto::main(&texts),
        perfetto::Needs::Background if !background::is_child() => {
            done(background::launch(None, perfetto::start_timeout(&texts)))
        }
        _ => done(autostart(&args, !system_sockets.is_empty())),
    }
}

fn done(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        report::print(&error);
        ExitCode::FAILURE
    })
}

/// A process of ours that ends with us.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        terminate(&self.0);
        let _ = self.0.wait();
    }
}

fn terminate(child: &Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Service, probes and client, each in a process of its own.
fn autostart(args: &[OsString], system_sockets: bool) -> Result<ExitCode> {
    if background::is_child() {
        // Fails only for a process that leads a group already, and then there is no terminal to leave.
        let _ = rustix::process::setsid();
    }
    let private = uses_private_sockets(system_sockets).then(Folder::create).transpose()?;
    let env = private.as_ref().map_or_else(Vec::new, sockets);
    let _traced = start_helper("traced", &[], "TRACED_NOTIFY_FD", &env)?;
    let _probes = start_helper("traced_probes", &["--reset-ftrace"], "TRACED_PROBES_NOTIFY_FD", &env)?;
    let client = applet_command("perfetto", &env).args(args).spawn().context("cannot start the client")?;
    wait_for_client(client)?;
    // Whatever became of the trace (upstream: tracebox.cc).
    Ok(ExitCode::SUCCESS)
}

/// Unless the user chose some.
fn uses_private_sockets(system: bool) -> bool {
    let is_chosen = |name: &&str| environment(name).is_some();
    !system && ![PRODUCER_SOCKET_ENV, CONSUMER_SOCKET_ENV].iter().any(is_chosen)
}

/// Sockets that nobody else can reach. Abstract ones, as upstream has them, everybody could connect to.
fn sockets(folder: &Folder) -> Vec<(&'static str, String)> {
    let socket = |name: &str| folder.path().join(name).display().to_string();
    vec![(PRODUCER_SOCKET_ENV, socket("producer")), (CONSUMER_SOCKET_ENV, socket("consumer"))]
}

fn applet_command(name: &str, env: &[(&'static str, String)]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).envs(env.iter().map(|(name, value)| (*name, value)));
    command
}

/// Starts a daemon in a process group of its own, so that Ctrl-C reaches the client only, and waits until it is ready.
fn start_helper(
    name: &str,
    args: &[&str],
    notify_env: &str,
    env: &[(&'static str, String)],
) -> Result<Helper> {
    let mut command = applet_command(name, env);
    command.args(args).env(notify_env, "1").stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let mut helper = Helper(child);
    let mut ready = helper.0.stdout.take().context("the daemon has no pipe")?;
    let timeout = Timespec::try_from(READY_TIMEOUT).ok();
    let events = rustix::event::poll(&mut [PollFd::new(&ready, PollFlags::IN)], timeout.as_ref())?;
    let mut byte = [0];
    if events == 0 || ready.read(&mut byte)? == 0 {
        bail!("{name} did not get ready");
    }
    Ok(helper)
}

/// Ctrl-C reaches the client by itself; other signals are passed on. Either way it ends in order, and we after it.
fn wait_for_client(mut client: Child) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot handle signals")?;
    let pid = i32::try_from(client.id()).ok().and_then(Pid::from_raw);
    let handle = signals.handle();
    let forwarder = std::thread::spawn(move || {
        for signal in &mut signals {
            if let (Some(pid), true) = (pid, signal != SIGINT) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    });
    client.wait().context("cannot wait for the client")?;
    handle.close();
    // The thread only forwards.
    let _ = forwarder.join();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart_by_name() {
        let cases = [
            ("perfetto", Some(Applet::Perfetto)),
            ("traced", Some(Applet::Traced)),
            ("traced_probes", Some(Applet::Probes)),
            ("tracebox", Some(Applet::Tracebox)),
            ("trigger_perfetto", Some(Applet::Trigger)),
            ("websocket_bridge", Some(Applet::Bridge)),
            ("traced_relay", Some(Applet::Relay)),
            ("traced_perf", Some(Applet::Perf)),
            ("heapprofd", Some(Applet::Heap)),
            ("ferretto", None),
            ("perfetto2", None),
        ];
        for (name, expected) in cases {
            assert_eq!(Applet::named(OsStr::new(name)), expected, "{name}");
        }
    }
}
