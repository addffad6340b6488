//! What is made of the facts of one trace: a section a file.

mod blocked;
mod counters;
mod cpu;
mod flames;
mod latency;
pub(crate) mod losses;
mod slices;

pub(crate) use self::counters::title as counter_title;
use crate::document::Document;
use crate::facts::Facts;
use crate::units::{bytes, count, share, time};
use crate::{Options, names};

/// The report on a trace.
pub(crate) fn document(name: &str, facts: &Facts, options: &Options) -> Document {
    let rows = options.rows;
    let mut sections = vec![
        cpu::processes(facts, rows, options.has_pictures),
        cpu::threads(facts, rows),
        latency::by_thread(facts, rows),
        latency::worst(facts, rows),
        blocked::causes(facts, rows),
        blocked::wakers(facts, rows),
        slices::by_name(facts, rows),
        slices::longest(facts, rows),
        counters::glance(facts, rows, options.has_pictures),
    ];
    sections.extend(flames::all(facts, options));
    sections.push(losses::section(facts));
    // What is missing for want of the same is said once.
    let mut said = Vec::new();
    sections.retain(|section| match &section.absent {
        Some(why) if said.contains(why) => false,
        Some(why) => {
            said.push(why.clone());
            true
        }
        None => true,
    });
    Document { title: names::printable(name), glance: glance(facts), sections }
}

/// What is worth knowing first.
pub(crate) fn glance(facts: &Facts) -> Vec<(&'static str, String)> {
    let of = &facts.overview;
    let mut lines =
        vec![("Recorded", format!("{} from the first event to the last", time(of.ends - of.begins)))];
    if !facts.machine.words.is_empty() {
        lines.push(("Machine", facts.machine.words.join(" ")));
    }
    if of.switches > 0 {
        let all = of.span.saturating_mul(of.cpus).max(1) as f64;
        let plural = if of.cpus == 1 { "CPU" } else { "CPUs" };
        lines.push((
            "CPUs",
            format!("{} {plural}, busy for {} of the time", of.cpus, share(of.ran as f64 / all)),
        ));
    }
    if of.waits > 0 {
        let ratio = of.waited as f64 / of.ran.max(1) as f64;
        let worst = facts
            .worst_waits
            .first()
            .map_or(String::new(), |wait| format!("; the longest {}, of {}", time(wait.dur), wait.thread));
        lines.push((
            "Waiting",
            format!(
                "threads that could run waited {} for a CPU, {} of the time that they ran{worst}",
                time(of.waited),
                share(ratio)
            ),
        ));
    }
    if of.blocked > 0 {
        lines
            .push(("Blocked", format!("threads were blocked in the kernel for {} in sum", time(of.blocked))));
    }
    if of.slices > 0 {
        let open = match of.slices_without_end {
            0 => String::new(),
            n => format!(", {} without an end", count(n)),
        };
        lines.push(("Slices", format!("{}{open}", count(of.slices))));
    }
    let lost = losses::words(facts);
    lines.push((
        "Lost",
        match lost.len() {
            0 => "nothing that the trace's statistics count".to_owned(),
            n => format!("{} (below)", count(n as i64)),
        },
    ));
    lines
}

/// Bytes that a counter has.
pub(crate) fn is_bytes(unit: Option<&str>) -> bool {
    unit.is_some_and(|unit| matches!(unit, "size_bytes" | "bytes" | "B"))
}

/// A value with a unit, if that is known.
pub(crate) fn with_unit(value: f64, unit: Option<&str>) -> String {
    match unit {
        unit if is_bytes(unit) => bytes(value as i64),
        Some("time_ns" | "ns") => time(value as i64),
        _ => crate::units::number(value),
    }
}
