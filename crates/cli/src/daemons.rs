//! `ferretto traced`, `ferretto probes`, `ferretto perf`, `ferretto heap` and `ferretto relay`: the daemons, with upstream's flags.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use ferretto_ipc::address::{Address, default_consumer, default_producer, environment};
use ferretto_ipc::descriptors;
use ferretto_probes::ProbesOptions;
use ferretto_producer::Connector;
use ferretto_profile::ProfileOptions;
use ferretto_profile::heap::HeapOptions;
use ferretto_relay::RelayOptions;
use ferretto_sandbox::Capability;
use ferretto_traced::daemon::{self, DaemonOptions, RelayEndpoints, SocketPermissions, Stage};

use crate::profile::heap;
use crate::shut_in::{self, ShutInArgs};
use crate::wake::Signals;
use crate::{background, report};

/// Names the descriptor that gets a `1` when the sampler is registered (upstream: traced_perf's main).
const PERF_NOTIFY_ENV: &str = "TRACED_PERF_NOTIFY_FD";
/// Names the descriptor that gets a `1` when the heap profiler is registered.
const HEAP_NOTIFY_ENV: &str = "HEAPPROFD_NOTIFY_FD";
/// Names the descriptor that gets a `1` when the probes are registered (upstream: traced_probes's main).
const PROBES_NOTIFY_ENV: &str = "TRACED_PROBES_NOTIFY_FD";

/// The same for the relay's socket (upstream: traced_relay's main).
const RELAY_NOTIFY_ENV: &str = "TRACED_RELAY_NOTIFY_FD";

/// Runs the tracing service as a daemon, as upstream's `traced`.
#[derive(clap::Parser, Debug, Default)]
#[command(name = "traced", version = crate::BUILD, after_help = TRACED_HELP)]
pub(crate) struct TracedArgs {
    /// Go on in the background, once the service is ready.
    #[arg(long)]
    background: bool,

    /// Group and octal mode of the sockets' files, such as perfetto:0660:perfetto:0660.
    #[arg(long, value_name = "GROUP:MODE:GROUP:MODE")]
    set_socket_permissions: Option<SocketPermissions>,

    /// Serve relays of other machines on all producer sockets.
    #[arg(long)]
    enable_relay_endpoint: bool,

    /// Serve relays on this one of the producer sockets; may be repeated.
    #[arg(long, value_name = "SOCKET")]
    enable_relay_endpoint_on: Vec<Address>,

    /// Let configs name files in this folder as output_path, besides /tmp and /var/tmp; may be repeated.
    #[arg(long, value_name = "DIR")]
    output_dir: Vec<PathBuf>,

    #[command(flatten)]
    shut_in: ShutInArgs,
}

const TRACED_HELP: &str = "\
Sockets: PERFETTO_PRODUCER_SOCK_NAME and PERFETTO_CONSUMER_SOCK_NAME,
else /run/perfetto/traced-{producer,consumer}.sock, else /tmp/perfetto-{producer,consumer}.
TRACED_NOTIFY_FD names a descriptor that gets a 1 when the service is ready.";

/// Offers this machine's data sources to a tracing service, as upstream's `traced_probes`.
#[derive(clap::Parser, Debug)]
#[command(name = "traced_probes", version = crate::BUILD)]
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

    #[command(flatten)]
    shut_in: ShutInArgs,
}

/// Offers samples of what runs on this machine to a tracing service, as upstream's `traced_perf`: the data source linux.perf.
#[derive(clap::Parser, Debug)]
#[command(name = "traced_perf", version = crate::BUILD)]
pub(crate) struct PerfArgs {
    /// Go on in the background.
    #[arg(long)]
    background: bool,

    #[command(flatten)]
    shut_in: ShutInArgs,
}

/// Offers what programs allocate to a tracing service, as upstream's `heapprofd`: the data source android.heapprofd.
#[derive(clap::Parser, Debug)]
#[command(name = "heapprofd", version, after_help = HEAP_HELP)]
pub(crate) struct HeapArgs {
    /// Go on in the background.
    #[arg(long)]
    background: bool,

    /// Memory between each program and the profiler, from 4mb on, for samples that were not read yet. It is used while a session wants the program.
    #[arg(long, value_name = "SIZE", default_value = "8mb", value_parser = heap::ring_kb)]
    ring: u64,

    #[command(flatten)]
    shut_in: ShutInArgs,
}

const HEAP_HELP: &str = "\
Programs can be profiled that were started while it ran, with libferretto_preload.so before their libraries
(LD_PRELOAD), or that have ferretto::heap::Profiled as their allocator: those of its own user, or of all if it is root.
FERRETTO_HEAP=@NAME gives it another socket, and programs that have the same in their environment.
HEAPPROFD_NOTIFY_FD names a descriptor that gets a 1 when the data source is registered.";

/// Carries this machine's producers to the tracing service of another, as upstream's `traced_relay`.
#[derive(clap::Parser, Debug)]
#[command(name = "traced_relay", version = crate::BUILD, after_help = RELAY_HELP)]
pub(crate) struct RelayArgs {
    /// Go on in the background, once producers can connect.
    #[arg(long)]
    background: bool,

    /// Group and octal mode of the socket's file, such as traced-producer:0660.
    #[arg(long, value_name = "GROUP:MODE", value_parser = group_and_mode)]
    set_socket_permissions: Option<(String, u32)>,

    #[command(flatten)]
    shut_in: ShutInArgs,
}

const RELAY_HELP: &str = "\
It takes the place of `traced` at PERFETTO_PRODUCER_SOCK_NAME (else /run/perfetto/traced-producer.sock,
else /tmp/perfetto-producer). PERFETTO_RELAY_SOCK_NAME names the service's producer socket on the other
machine: 192.168.0.1:20001, [fd00::1]:20001 or vsock://2:20001. `traced --enable-relay-endpoint` serves it there.
TRACED_RELAY_NOTIFY_FD names a descriptor that gets a 1 when producers can connect.";

fn group_and_mode(text: &str) -> Result<(String, u32), String> {
    let parsed = text.split_once(':').and_then(|(group, mode)| {
        let mode = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777)?;
        (!group.is_empty()).then(|| (group.to_owned(), mode))
    });
    parsed.ok_or_else(|| "expected GROUP:MODE with an octal mode, such as traced-producer:0660".to_owned())
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn traced(args: &TracedArgs) -> ExitCode {
    crate::log::to_stderr("info");
    finish(run_traced(args))
}

fn run_traced(args: &TracedArgs) -> Result<()> {
    let relays = if args.enable_relay_endpoint {
        RelayEndpoints::All
    } else {
        RelayEndpoints::On(args.enable_relay_endpoint_on.clone())
    };
    let (producer_addresses, consumer_address) = (default_producer()?, default_consumer()?);
    let output_dirs = shut_in::output_dirs(&args.output_dir);
    let sockets = [producer_addresses.as_slice(), std::slice::from_ref(&consumer_address)].concat();
    let mut rights = shut_in::traced(&sockets, output_dirs.clone());
    if args.shut_in.changes_user() {
        // The files of configs are that user's business.
        rights.capabilities.retain(|kept| *kept != Capability::DacOverride);
    }
    let options = DaemonOptions {
        producer_addresses,
        consumer_address,
        relays,
        background: args.background,
        socket_permissions: args.set_socket_permissions.clone(),
        output_dirs: args.shut_in.has_sandbox().then_some(output_dirs),
    };
    let at_stage = |stage| match stage {
        Stage::Bound => args.shut_in.become_user(&rights).map_err(std::io::Error::other),
        Stage::Ready => {
            args.shut_in.shut_in(&rights);
            Ok(())
        }
    };
    Ok(daemon::run(options, at_stage)?)
}

/// Whether it goes on in the background, in another process: then this one ends so.
fn launched(background: bool) -> Option<ExitCode> {
    (background && !background::is_child()).then(|| {
        background::launch(None, None).unwrap_or_else(|error| {
            report::print(&error);
            ExitCode::FAILURE
        })
    })
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn probes(args: &ProbesArgs) -> ExitCode {
    crate::log::to_stderr("info");
    if args.cleanup_after_crash {
        ferretto_probes::cleanup_after_crash();
        return ExitCode::SUCCESS;
    }
    if let Some(status) = launched(args.background) {
        return status;
    }
    finish(run_probes(args))
}

/// Samples until SIGTERM or SIGINT.
pub(crate) fn perf(args: &PerfArgs) -> ExitCode {
    crate::log::to_stderr("info");
    if let Some(status) = launched(args.background) {
        return status;
    }
    finish(run_perf(args))
}

/// Profiles until SIGTERM or SIGINT.
pub(crate) fn heap(args: &HeapArgs) -> ExitCode {
    crate::log::to_stderr("info");
    if let Some(status) = launched(args.background) {
        return status;
    }
    finish(run_heap(args))
}

/// Relays until SIGTERM or SIGINT.
pub(crate) fn relay(args: &RelayArgs) -> ExitCode {
    crate::log::to_stderr("info");
    if let Some(status) = launched(args.background) {
        return status;
    }
    finish(run_relay(args))
}

fn run_relay(args: &RelayArgs) -> Result<()> {
    let notify = notify_descriptor(RELAY_NOTIFY_ENV)?;
    let options = RelayOptions {
        producer_addresses: default_producer()?,
        service_address: ferretto_relay::service_address()?,
        socket_permissions: args.set_socket_permissions.clone(),
        system_info: ferretto_traced::system_info(),
    };
    let rights = shut_in::relay(&options.producer_addresses, &options.service_address);
    let ready = || {
        if args.background {
            background::enter().map_err(std::io::Error::other)?;
        }
        args.shut_in.become_user(&rights).map_err(std::io::Error::other)?;
        args.shut_in.shut_in(&rights);
        notify.map_or(Ok(()), |notify| File::from(notify).write_all(b"1"))
    };
    Ok(ferretto_relay::run(options, ready)?)
}

fn run_probes(args: &ProbesArgs) -> Result<()> {
    let notify = notify_descriptor(PROBES_NOTIFY_ENV)?;
    if args.background {
        background::enter()?;
    }
    descriptors::raise_limit();
    let options = ProbesOptions {
        notify,
        stop_on_signals: true,
        reset_ftrace: args.reset_ftrace,
        ..ProbesOptions::default()
    };
    let mut rights = shut_in::probes(&default_producer()?);
    args.shut_in.become_user(&rights)?;
    if args.shut_in.changes_user() {
        shut_in::keep_to_tracefs(&mut rights, shut_in::may_write_tracefs());
    }
    let could_look = looks_into_processes();
    args.shut_in.shut_in(&rights);
    if could_look && !looks_into_processes() {
        // Landlock lets nobody look into processes that are not shut in with him.
        tracing::info!(
            "left out while shut in: proportional memory (scan_smaps_rollup) and open files (resolve_process_fds) of other processes; --no-sandbox has them"
        );
    }
    Ok(ferretto_probes::run(options)?)
}

fn run_perf(args: &PerfArgs) -> Result<()> {
    let notify = notify_descriptor(PERF_NOTIFY_ENV)?;
    if args.background {
        background::enter()?;
    }
    descriptors::raise_limit();
    let signals = Signals::install()?;
    let options = ProfileOptions {
        connector: Connector::Default,
        target: None,
        stop: signals.stop().try_clone_to_owned()?,
        notify,
        summary: None,
    };
    let rights = shut_in::perf(&default_producer()?);
    args.shut_in.become_user(&rights)?;
    args.shut_in.shut_in(&rights);
    Ok(ferretto_profile::run(options)?)
}

fn run_heap(args: &HeapArgs) -> Result<()> {
    let notify = notify_descriptor(HEAP_NOTIFY_ENV)?;
    let listener = heap::listen()?;
    if args.background {
        background::enter()?;
    }
    descriptors::raise_limit();
    let signals = Signals::install()?;
    let options = HeapOptions {
        connector: Connector::Default,
        listener,
        waiting_ring_bytes: Some(usize::try_from(args.ring * 1024)?),
        stop: signals.stop().try_clone_to_owned()?,
        notify,
        summary: Arc::default(),
    };
    let rights = shut_in::heap(&default_producer()?);
    args.shut_in.become_user(&rights)?;
    args.shut_in.shut_in(&rights);
    Ok(ferretto_profile::heap::run(options)?)
}

/// Whether the kernel shows what is inside of a process of root's.
fn looks_into_processes() -> bool {
    File::open("/proc/1/smaps_rollup").is_ok()
}

/// Opened anew by its name: taking over a raw number could close what somebody else owns.
fn notify_descriptor(variable: &str) -> Result<Option<OwnedFd>> {
    let Some(number) = environment(variable).and_then(|number| number.into_string().ok()) else {
        return Ok(None);
    };
    let file = number
        .parse::<u32>()
        .map_err(anyhow::Error::from)
        .and_then(|fd| Ok(File::options().write(true).open(format!("/proc/self/fd/{fd}"))?));
    Ok(Some(file.with_context(|| format!("{variable}={number} names no open descriptor"))?.into()))
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
