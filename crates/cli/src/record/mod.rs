//! `ferretto record`: a whole recording, from nothing to a file and a summary in words.

pub(crate) mod args;
mod command;
pub(crate) mod default_config;
mod descendants;
pub(crate) mod output;
pub(crate) mod plan;
mod progress;
mod reports;
mod run;
pub(crate) mod sampling;
pub(crate) mod service;
mod sources;
pub(crate) mod summary;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Result;
use ferretto_probes::Availability;
use ferretto_protos::{TraceConfig, text};

pub(crate) use self::args::{RecordArgs, size_kb};
use self::command::Program;
use self::default_config::{DEFAULT_BUFFER_KB, DEFAULT_KERNEL_BUFFER_KB, Settings};
use self::output::Output;
use self::plan::Plan;
use self::run::Recording;
use self::sampling::Sampling;
use self::service::{Choice, Service};
use self::summary::LeftOut;
use crate::config_bytes::ConfigBytes;
use crate::config_file;
use crate::flight::{self, Flight, Keep};
use crate::report::UserError;
use crate::wake::Signals;

/// Records.
pub(crate) fn main(args: &RecordArgs) -> Result<ExitCode> {
    record(args, None)
}

/// Records with a profiler, if it is asked for. Whatever cannot work is said before it starts.
pub(crate) fn record(args: &RecordArgs, sampling: Option<&Sampling>) -> Result<ExitCode> {
    let program = Program::find(&args.command)?;
    let choice = Choice::make(args.system, args.own)?;
    // The probes of the system's service decide what works, not this user's rights.
    let report = if choice.uses_own_probes() { ferretto_probes::availability() } else { Vec::new() };
    let flight = flight(args, choice.is_system())?;
    let mut config = load_config(args, &report, sampling)?;
    if let Some(flight) = &flight {
        flight.change(&mut config);
    }
    let mut plan = Plan::of(&config.decoded(), args.config.is_some());
    plan.duration = args.time.or(plan.duration);
    plan.is_ring = args.flight;
    check_plan(&plan)?;
    let chose_sources = args.config.is_some() || sampling.is_some_and(|sampling| !sampling.with_machine);
    let wanted = if chose_sources { plan.sources.clone() } else { default_config::source_names() };
    let mut left_out = left_out(&report, &wanted, &config);
    left_out.extend(choice.left_out());
    let signals = Signals::install()?;
    let output = match &flight {
        Some(Flight { last: None, .. }) => Output::nowhere()?,
        _ => Output::open(&target(args, &plan))?,
    };

    let socket = flight.as_ref().and_then(|flight| flight.socket.clone());
    if let Some(note) = choice.note().filter(|_| !args.quiet) {
        eprintln!("{note}");
    }
    let mut service = Service::start(choice, socket, sampling)?;
    let offered = sources::offered(&service.consumer.query_service_state(false)?);
    let absent = sources::check(&plan, &offered, args.any_source)?;
    say_before_start(&plan, &absent, &left_out);
    Recording { args, config, plan, output, program, sampling, signals, left_out, flight }.run(&mut service)
}

/// The file of a command's program.
pub(crate) fn find_program(command: &[OsString]) -> Result<Option<PathBuf>> {
    Ok(Program::find(command)?.map(Program::into_path))
}

fn flight(args: &RecordArgs, is_system: bool) -> Result<Option<Flight>> {
    if !args.flight {
        return Ok(None);
    }
    let name = args.name.clone().unwrap_or_else(|| flight::DEFAULT_NAME.to_owned());
    let keep = args.config.is_none().then(|| args.keep.unwrap_or(Keep::Memory { kb: DEFAULT_BUFFER_KB }));
    Ok(Some(Flight {
        socket: (!is_system).then(|| flight::socket::claim(&name)).transpose()?,
        triggers: args.triggers.clone(),
        last: args.output.clone(),
        quiet: args.quiet,
        name,
        keep,
    }))
}

fn load_config(
    args: &RecordArgs,
    report: &[Availability],
    sampling: Option<&Sampling>,
) -> Result<ConfigBytes> {
    let Some(path) = &args.config else {
        let settings = Settings {
            buffer_kb: args.keep.map(Keep::kb).or(args.buffer).unwrap_or(DEFAULT_BUFFER_KB),
            is_flight: args.flight,
            kernel_buffer_kb: args.kernel_buffer.unwrap_or(DEFAULT_KERNEL_BUFFER_KB),
            shared_memory_kb: args.shared_memory,
        };
        let is_wanted = |name: &str| sampling.is_none_or(|sampling| sampling.wants(name));
        let mut config =
            default_config::build(settings, |name| sources::works(report, name) && is_wanted(name));
        if let Some(sampling) = sampling {
            sampling.extend(&mut config);
        }
        return Ok(ConfigBytes::from_message(&config));
    };
    let name = if path == Path::new("-") { Path::new("<stdin>") } else { path };
    let mut config = ConfigBytes::new(config_file::parse_any(name, &config_file::read(path)?)?);
    if args.time.is_some() {
        // The time is ours to keep: see Recording::watch.
        config.merge(&TraceConfig { duration_ms: Some(0), ..TraceConfig::default() });
    }
    Ok(config)
}

fn check_plan(plan: &Plan) -> Result<()> {
    if plan.is_ring && plan.write_into_file {
        let error = UserError::new("a flight recorder writes no file while it records");
        return Err(error.help("remove write_into_file from the config").into());
    }
    let wrong = match () {
        () if plan.buffers.is_empty() => "the config has no buffers",
        () if plan.sources.is_empty() => "the config has no data sources",
        () => return Ok(()),
    };
    Err(UserError::new(wrong)
        .help("a config needs at least: buffers { size_kb: 65536 } data_sources { config { name: \"linux.sys_stats\" } }")
        .into())
}

fn left_out(report: &[Availability], wanted: &[String], config: &ConfigBytes) -> Vec<LeftOut> {
    // Bytes that were checked once can be shown; without the text no optional field counts as asked for.
    let text = text::format(text::TRACE_CONFIG, &config.clone().into_vec()).unwrap_or_default();
    sources::left_out(report, wanted, &text)
}

fn target(args: &RecordArgs, plan: &Plan) -> PathBuf {
    let chosen = args.output.clone().or_else(|| plan.output_path.clone());
    chosen.unwrap_or_else(|| output::default_name(SystemTime::now()))
}

fn say_before_start(plan: &Plan, absent: &[String], left_out: &[LeftOut]) {
    if !plan.from_file {
        return;
    }
    for name in absent.iter().filter(|name| *name != "track_event") {
        eprintln!("note: no program offers the data source {name} now");
    }
    for LeftOut { what, why, .. } in left_out {
        eprintln!("note: this recording will lack {what}: {why}");
    }
}
