//! Runs the cases, and prints what they cost the honest.

use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use ferretto_hostile::{Bounds, Verdict, cases, judge};
use ferretto_interop::{Maker, Program, ferretto, upstream};

/// Attacks a service, with honest clients beside the attacker.
#[derive(Debug, Parser)]
struct Args {
    /// Whose service.
    #[arg(long, value_enum, default_value = "ferretto")]
    service: Service,
    /// Ends with an error if the honest wait longer than this for an answer, in milliseconds, beyond what the machine itself makes two
    /// threads wait for each other under the attack.
    #[arg(long, default_value_t = 50)]
    longest_wait_ms: u64,
    /// The cases; all of them if none is named.
    cases: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Service {
    Ferretto,
    Upstream,
}

fn main() -> Result<ExitCode, String> {
    if std::env::args().nth(1).as_deref() == Some(ferretto_hostile::SERVE) {
        return ferretto_hostile::serve().map(|()| ExitCode::SUCCESS);
    }
    if std::env::args().nth(1).as_deref() == Some(ferretto_hostile::ATTACK) {
        return ferretto_hostile::attack(&std::env::args().skip(2).collect::<Vec<_>>());
    }
    let args = Args::parse();
    let hostile = std::env::current_exe().map_err(|error| error.to_string())?;
    let bounds = Bounds {
        longest_wait: Duration::from_millis(args.longest_wait_ms),
        grown_kib: ferretto_hostile::GROWN_KIB,
    };
    let mut is_good = true;
    match ferretto_hostile::attacker_uid() {
        Some(uid) => println!("the attacker is the user {uid}, the honest are root"),
        None => println!("the attacker is the same user as the honest: only root can be two"),
    }
    println!(
        "{:<28} {:>10} {:>10} {:>10} {:>9} {:>9} {:>8}  verdict",
        "case", "longest ms", "machine ms", "median ms", "written", "recorded", "MiB"
    );
    for case in cases::ALL
        .iter()
        .filter(|case| args.cases.is_empty() || args.cases.iter().any(|name| name == case.name))
    {
        let verdict = judge(case, command(args.service)?, &hostile);
        let fault = verdict.fault(case, &bounds);
        is_good &= fault.is_none();
        print(&verdict, fault.as_deref());
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn command(service: Service) -> Result<Command, String> {
    Ok(match service {
        Service::Ferretto => ferretto()?.command(Maker::Ferretto, Program::Traced),
        Service::Upstream => upstream()?.command(Maker::Upstream, Program::Traced),
    })
}

fn print(verdict: &Verdict, fault: Option<&str>) {
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    let fates = verdict.fates.clone().unwrap_or_default();
    println!(
        "{:<28} {:>10} {:>10} {:>10} {:>9} {:>9} {:>8}  {}{}",
        verdict.name,
        ms(fates.longest_wait),
        ms(fates.machine_wait),
        ms(fates.median_wait),
        fates.written,
        fates.recorded,
        verdict.grown_kib / 1024,
        fault.unwrap_or("good"),
        verdict.attacker.as_ref().map_or_else(String::new, |why| format!(" (attacker: {why})")),
    );
}
