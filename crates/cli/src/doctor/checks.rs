//! What is looked at.

use std::fs;
use std::time::Instant;

use ferretto_consumer::Consumer;
use ferretto_ipc::address::where_programs_look;
use ferretto_probes::{Availability, availability};
use ferretto_profile::{Refused, Target, can_sample};
use ferretto_protos::PerfEventConfig;
use rustix::fs::statvfs;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};

use super::{Check, State};
use crate::query;
use crate::record::service::look_around;
use crate::report::UserError;
use crate::units;

/// Without these nothing is recorded of the machine.
pub(super) const SOURCES: &str = "machine";
/// A reading of the clock that the hardware counts takes a twentieth of this; one that asks the kernel or a virtual machine's host some microseconds.
const SLOW_CLOCK_NS: u128 = 250;
const CLOCK_READINGS: u32 = 2_000;
/// What an hour of a busy machine's scheduling takes, about.
const LITTLE_SPACE_BYTES: u64 = 1 << 30;

/// In the order in which people need them.
pub(super) fn all() -> Vec<Check> {
    let sources = availability();
    let mut all = vec![user(), kernel_events(&sources)];
    all.extend(machine(&sources));
    all.extend([profile(), profile_machine(), service(), programs(), sql(), space(), clock()]);
    all
}

fn user() -> Check {
    let name = rustix::system::uname();
    let machine = [name.sysname(), name.release(), name.machine()].map(|part| part.to_string_lossy());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let uid = geteuid();
    let who = if uid.is_root() { "root".to_owned() } else { format!("user {}", uid.as_raw()) };
    Check::ok("user", format!("{who} on {}, {cpus} CPUs", machine.join(" ")))
}

/// Scheduling, wake-ups, system calls, …
fn kernel_events(sources: &[Availability]) -> Check {
    const ABOUT: &str = "kernel events";
    let Some(ftrace) = sources.iter().find(|source| source.data_source == "linux.ftrace") else {
        return Check::missing(ABOUT, "this program is built without linux.ftrace");
    };
    match (ftrace.works, ftrace.limitations.first()) {
        (_, None) => Check::ok(ABOUT, "linux.ftrace records what all CPUs run, and all tracepoints"),
        (works, Some(limitation)) => {
            let says = format!("{}: {}", limitation.what, limitation.why);
            let check = if works { Check::partly(ABOUT, says) } else { Check::missing(ABOUT, says) };
            check.cure(limitation.remedy.clone())
        }
    }
}

/// Processes, memory, counters: what is there, and then a line for each thing that is not.
fn machine(sources: &[Availability]) -> Vec<Check> {
    let others = sources.iter().filter(|source| source.data_source != "linux.ftrace");
    let (work, do_not): (Vec<_>, Vec<_>) = others.partition(|source| source.works);
    let names: Vec<&str> = work.iter().map(|source| source.data_source).collect();
    let first = match names.is_empty() {
        false => Check::ok(SOURCES, names.join(", ")),
        true => Check::missing(SOURCES, "no data source of the machine delivers anything"),
    };
    let mut checks = vec![first];
    for (source, state) in
        work.iter().map(|it| (it, State::Partly)).chain(do_not.iter().map(|it| (it, State::Missing)))
    {
        checks.extend(source.limitations.iter().map(|limitation| Check {
            about: source.data_source,
            state,
            says: format!("{}: {}", limitation.what, limitation.why),
            cure: limitation.remedy.clone(),
        }));
    }
    checks
}

/// Samples of programs of one's own.
fn profile() -> Check {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    sampled("profile", &Target::ChildrenOf(thread), "`ferretto profile` samples programs that it starts")
}

/// Samples of all that runs.
fn profile_machine() -> Check {
    let check = sampled("profile -a", &Target::Machine, "and all that runs on the machine");
    let state = if check.state == State::Missing { State::Partly } else { check.state };
    Check { state, ..check }
}

fn sampled(about: &'static str, target: &Target, says: &str) -> Check {
    match can_sample(target, &PerfEventConfig::default()) {
        Ok(()) => Check::ok(about, says),
        Err(refused) => {
            let cure = Refused::advice(&refused);
            Check::missing(about, refused.to_string()).cure(cure)
        }
    }
}

/// One that runs already.
fn service() -> Check {
    const ABOUT: &str = "service";
    let other = match look_around() {
        Ok(Some(other)) => other,
        Ok(None) => return Check::ok(ABOUT, "none runs; `ferretto record` has its own"),
        Err(error) => return Check::missing(ABOUT, format!("{error:#}")),
    };
    let asked = Consumer::connect_default()
        .map_err(anyhow::Error::from)
        .and_then(|mut consumer| Ok(consumer.query_service_state(true)?));
    match asked {
        Ok(state) => {
            let version = state.tracing_service_version().to_owned();
            let version = if version.is_empty() { version } else { format!(", {version}") };
            Check::ok(ABOUT, format!("{other}{version}: this user may record with it"))
        }
        Err(error) => Check::partly(ABOUT, format!("{other}, with which this user may not record: {error}"))
            .cure(Some("`ferretto record` has its own, without the programs that are connected there")),
    }
}

/// Where programs with the SDK look for one.
fn programs() -> Check {
    const ABOUT: &str = "programs";
    match where_programs_look() {
        Ok(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            Check::ok(ABOUT, format!("those with the SDK look for a service at {}", addresses.join(", ")))
        }
        Err(error) => Check::missing(ABOUT, error.to_string())
            .cure(Some("see the environment variable PERFETTO_PRODUCER_SOCK_NAME")),
    }
}

/// The second program.
fn sql() -> Check {
    const ABOUT: &str = "query, report";
    match query::program("query") {
        Ok(program) => Check::ok(ABOUT, format!("{} reads traces", program.display())),
        Err(error) => Check::partly(ABOUT, error.to_string())
            .cure(error.downcast_ref::<UserError>().and_then(|error| error.advice())),
    }
}

/// For the trace.
fn space() -> Check {
    const ABOUT: &str = "space";
    let free = match statvfs(".") {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => return Check::missing(ABOUT, format!("this folder cannot be looked at: {error}")),
    };
    let says = format!("{} are free for traces in this folder", units::bytes(free));
    match free < LITTLE_SPACE_BYTES {
        true => Check::partly(ABOUT, says).cure(Some("another folder: -o FILE")),
        false => Check::ok(ABOUT, says),
    }
}

/// What each event asks for its time.
fn clock() -> Check {
    const ABOUT: &str = "clock";
    let began = Instant::now();
    for _ in 0..CLOCK_READINGS {
        std::hint::black_box(clock_gettime(ClockId::Boottime));
    }
    let reading_ns = began.elapsed().as_nanos() / u128::from(CLOCK_READINGS);
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.unwrap_or_default();
    let source = if source.trim().is_empty() { "unknown" } else { source.trim() };
    let says = format!("{reading_ns} ns a reading, by the kernel's clock source {source}");
    match reading_ns > SLOW_CLOCK_NS {
        true => Check::partly(ABOUT, format!("{says}: each event of a program costs that")).cure(Some(
            "if the processors' counters go alike, boot with clocksource=tsc (a virtual machine: give it the host's)",
        )),
        false => Check::ok(ABOUT, says),
    }
}
