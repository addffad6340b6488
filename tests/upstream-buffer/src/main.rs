//! Upstream's trace buffer, ProtoVM and trace filter (C++, v59.0) beside ours.
//!
//! - `upstream-buffer differential [trace-buffer|protovm|filter] [--scripts N] [--seed S]` runs random scripts on both and compares
//!   what they print. At the first difference it prints the smallest script it can find, and fails.
//! - `upstream-buffer script trace-buffer|protovm|filter SEED` prints the script of a seed.
//! - `upstream-buffer replay trace-buffer|protovm|filter` runs a script from standard input on upstream's and prints what it prints.
//! - `upstream-buffer throughput [--v1] [NAME]` measures upstream's trace buffer, for the bench `trace_buffer`.
//!
//! | module | what it does |
//! |---|---|
//! | `shim.cc`, `cpp` | upstream's objects as Rust types |
//! | `replay`, `filter_script` | runs scripts on either side |
//! | `peer` | runs each side in a process of its own |
//! | `generate` | makes random scripts |
//! | `compare`, `shrink` | finds differences, and makes them small |
//! | `throughput` | the workloads of the bench |

mod compare;
mod cpp;
mod filter_script;
mod generate;
mod peer;
mod replay;
#[path = "../../sim/src/rng.rs"]
mod rng;
mod shrink;
mod throughput;

use std::io::Read;
use std::process::ExitCode;
use std::time::Instant;

use cpp::Version;
use peer::Side;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    TraceBuffer,
    Protovm,
    Filter,
}

impl Kind {
    const ALL: [Self; 3] = [Self::TraceBuffer, Self::Protovm, Self::Filter];

    const fn name(self) -> &'static str {
        match self {
            Self::TraceBuffer => "trace-buffer",
            Self::Protovm => "protovm",
            Self::Filter => "filter",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

const USAGE: &str =
    "usage: upstream-buffer differential [trace-buffer|protovm|filter] [--scripts N] [--seed S]
       upstream-buffer script trace-buffer|protovm|filter SEED
       upstream-buffer replay trace-buffer|protovm|filter
       upstream-buffer throughput [--v1] [NAME]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["differential", ref options @ ..] => differential(options),
        ["script", kind, seed] => script(kind, seed),
        ["replay", kind] => replay(kind),
        ["throughput", "--v1", ref workload @ ..] => throughput(Version::V1, workload),
        ["throughput", ref workload @ ..] => throughput(Version::V2, workload),
        ["serve", side, kind] => serve(side, kind),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn differential(options: &[&str]) -> Result<(), String> {
    let (mut kinds, mut scripts, mut seed) = (Vec::new(), 1000, 0);
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let mut number = || options.next().and_then(|word| word.parse().ok()).ok_or(USAGE);
        match option {
            "--scripts" => scripts = number()?,
            "--seed" => seed = number()?,
            kind => kinds.push(Kind::named(kind).ok_or(USAGE)?),
        }
    }
    if kinds.is_empty() {
        kinds.extend(Kind::ALL);
    }
    kinds.into_iter().try_for_each(|kind| differential_of(kind, seed, scripts))
}

fn differential_of(kind: Kind, seed: u64, scripts: u64) -> Result<(), String> {
    let start = Instant::now();
    let name = kind.name();
    match compare::compare(kind, seed, scripts).map_err(|error| format!("cannot run the sides: {error}"))? {
        Ok(report) if !report.is_sound() => Err(format!(
            "{name}: upstream aborted or did not end on {} of {} scripts: too many to have compared anything",
            report.died, report.scripts
        )),
        Ok(report) => {
            let compare::Report { scripts, operations, cut, died } = report;
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "{name}: {scripts} scripts, {operations} operations, no difference ({seconds:.1} s; {cut} scripts cut, \
                 upstream died on {died})"
            );
            Ok(())
        }
        Err(difference) => {
            let compare::Difference { seed, script, ours, theirs } = *difference;
            Err(format!(
                "{name}: seed {seed} differs. The smallest script found:\n{script}\nours:\n{ours}\n\
                 theirs:\n{theirs}"
            ))
        }
    }
}

fn script(kind: &str, seed: &str) -> Result<(), String> {
    let seed = seed.parse().map_err(|_| USAGE)?;
    print!("{}", compare::script_of(Kind::named(kind).ok_or(USAGE)?, seed));
    Ok(())
}

fn replay(kind: &str) -> Result<(), String> {
    let kind = Kind::named(kind).ok_or(USAGE)?;
    let mut script = String::new();
    std::io::stdin().read_to_string(&mut script).map_err(|error| error.to_string())?;
    print!("{}", replay::theirs(kind, &script)?);
    Ok(())
}

fn throughput(version: Version, workload: &[&str]) -> Result<(), String> {
    match *workload {
        [] => throughput::print(version, None),
        [name] => throughput::print(version, Some(name)),
        _ => Err(USAGE.to_owned()),
    }
}

/// For `peer`.
fn serve(side: &str, kind: &str) -> Result<(), String> {
    let (side, kind) = (Side::named(side).ok_or(USAGE)?, Kind::named(kind).ok_or(USAGE)?);
    peer::serve(side, kind).map_err(|error| error.to_string())
}
