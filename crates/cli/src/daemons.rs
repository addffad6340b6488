//! `ferretto traced` and `ferretto probes`: the daemons, with upstream's flags.

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use anyhow::{Context, Result};
use ferretto_ipc::address::{default_consumer, default_producer};
use ferretto_probes::ProbesOptions;
use ferretto_traced::daemon::{self, DaemonOptions, SocketPermissions};

use crate::report::UserError;
use crate::{background, report};

/// Names the descriptor that gets a `1` when the probes are registered (upstream: traced_probes's main).
const PROBES_NOTIFY_ENV: &str = "TRACED_PROBES_NOTIFY_FD";

/// Runs the tracing service as a daemon, as upstream's `traced`.
#[derive(clap::Parser, Debug, Default)]
#[command(name = "traced", version, after_help = TRACED_HELP)]
pub(crate) struct TracedArgs {
    /// Go on in the background, once the service is ready.
    #[arg(long)]
    background: bool,

    /// Group and octal mode of the sockets' files, such as perfetto:0660:perfetto:0660.
    #[arg(long, value_name = "GROUP:MODE:GROUP:MODE")]
    set_socket_permissions: Option<SocketPermissions>,

    /// Not supported yet: serves relays of other machines.
    #[arg(long, hide = true)]
    enable_relay_endpoint: bool,

    /// Not supported yet: the same on one of the producer sockets.
    #[arg(long, value_name = "SOCKET", hide = true)]
    enable_relay_endpoint_on: Vec<String>,
}

const TRACED_HELP: &str = "\
Sockets: PERFETTO_PRODUCER_SOCK_NAME and PERFETTO_CONSUMER_SOCK_NAME,
else /run/perfetto/traced-{producer,consumer}.sock, else /tmp/perfetto-{producer,consumer}.
TRACED_NOTIFY_FD names a descriptor that gets a 1 when the service is ready.";

/// Offers this machine's data sources to a tracing service, as upstream's `traced_probes`.
#[derive(clap::Parser, Debug)]
#[command(name = "traced_probes", version)]
pub(crate) struct ProbesArgs {
    /// Go on in the background.
    #[arg(long)]
    background: bool,

    /// Bring ftrace into its default state first.
    #[arg(long)]
    reset_ftrace: bool,

    /// Only clean up what a crashed run left in ftrace.
    #[arg(long)]
    cleanup_after_crash: bool,
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn traced(args: &TracedArgs) -> ExitCode {
    crate::log_to_stderr("info");
    finish(run_traced(args))
}

fn run_traced(args: &TracedArgs) -> Result<()> {
    if args.enable_relay_endpoint || !args.enable_relay_endpoint_on.is_empty() {
        return Err(UserError::new("relay endpoints are not supported yet").into());
    }
    let options = DaemonOptions {
        producer_addresses: default_producer()?,
        consumer_address: default_consumer()?,
        background: args.background,
        socket_permissions: args.set_socket_permissions.clone(),
    };
    Ok(daemon::run(options)?)
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn probes(args: &ProbesArgs) -> ExitCode {
    crate::log_to_stderr("info");
    if args.cleanup_after_crash {
        ferretto_probes::cleanup_after_crash();
        return ExitCode::SUCCESS;
    }
    if args.background && !background::is_child() {
        return background::launch(None, None).unwrap_or_else(|error| {
            report::print(&error);
            ExitCode::FAILURE
        });
    }
    finish(run_probes(args))
}

fn run_probes(args: &ProbesArgs) -> Result<()> {
    let notify = notify_descriptor()?;
    if args.background {
        background::enter()?;
    }
    let options = ProbesOptions {
        notify,
        stop_on_signals: true,
        reset_ftrace: args.reset_ftrace,
        ..ProbesOptions::default()
    };
    Ok(ferretto_probes::run(options)?)
}

/// Opened anew by its name: taking over a raw number could close what somebody else owns.
fn notify_descriptor() -> Result<Option<OwnedFd>> {
    let Some(number) = std::env::var(PROBES_NOTIFY_ENV).ok() else { return Ok(None) };
    let file = number
        .parse::<u32>()
        .map_err(anyhow::Error::from)
        .and_then(|fd| Ok(std::fs::File::options().write(true).open(format!("/proc/self/fd/{fd}"))?));
    Ok(Some(file.with_context(|| format!("{PROBES_NOTIFY_ENV}={number} names no open descriptor"))?.into()))
}

fn finish(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::print(&error);
            ExitCode::FAILURE
        }
    }
}
