//! Who ran: by process, with the course over time, and by thread, with what else it did.

use crate::document::{Section, Table, Value};
use crate::facts::{CPU_PLACES, Facts, Process, Thread};
use crate::pictures::{Areas, Picture};

/// Said where there is no scheduling.
pub(super) const ABSENT: &str = "no scheduling: record as root, with the events sched/sched_switch and sched/sched_waking of linux.ftrace, \
                      as `ferretto record` does without a config";

pub(super) fn processes(facts: &Facts, rows: usize, has_pictures: bool) -> Section {
    const KEY: &str = "cpu_by_process";
    const TITLE: &str = "CPU time by process";
    if facts.processes.is_empty() {
        return Section::absent(KEY, TITLE, ABSENT);
    }
    let columns = [
        ("process", "CPU time by process"),
        ("processes", "processes"),
        ("cpu_ns", "CPU time"),
        ("share", "share"),
        ("of_a_cpu", "of a CPU"),
        ("runs", "runs"),
    ];
    let (ran, span) = (facts.overview.ran.max(1) as f64, facts.overview.span.max(1) as f64);
    let row = |process: &Process| {
        vec![
            Value::text(with_number(&process.name, process.processes, process.pid)),
            Value::Count(process.processes),
            Value::Time(process.cpu),
            Value::Share(process.cpu as f64 / ran),
            Value::Share(process.cpu as f64 / span),
            Value::Count(process.runs),
        ]
    };
    let mut section = Section::of(KEY, TITLE, Table::first(&columns, &facts.processes, rows, row));
    if has_pictures {
        section.pictures.push(Picture::Areas(course(facts)));
    }
    section
}

fn course(facts: &Facts) -> Areas {
    let mut names: Vec<String> =
        facts.processes.iter().take(CPU_PLACES).map(|process| process.name.clone()).collect();
    names.resize(CPU_PLACES, String::new());
    names.push("all others".to_owned());
    let series = names.into_iter().zip(facts.cpu_course.places.iter().cloned());
    Areas {
        title: "CPUs in use over time".to_owned(),
        span_ns: facts.overview.span,
        bin_ns: facts.cpu_course.bin_ns,
        cpus: facts.overview.cpus,
        series: series.filter(|(_, bins)| bins.iter().any(|ran| *ran > 0.0)).collect(),
    }
}

pub(super) fn threads(facts: &Facts, rows: usize) -> Section {
    const KEY: &str = "cpu_by_thread";
    const TITLE: &str = "Time of threads";
    if facts.threads.is_empty() {
        return Section::absent(KEY, TITLE, ABSENT);
    }
    let columns = [
        ("thread", "Threads"),
        ("process", "process"),
        ("threads", "threads"),
        ("cpu_ns", "CPU time"),
        ("share", "share"),
        ("waiting_ns", "wait for CPU"),
        ("blocked_ns", "blocked"),
        ("asleep_ns", "asleep"),
    ];
    let ran = facts.overview.ran.max(1) as f64;
    let row = |thread: &Thread| {
        vec![
            Value::text(with_number(&thread.thread, thread.threads, thread.tid)),
            Value::text(&thread.process),
            Value::Count(thread.threads),
            Value::Time(thread.cpu),
            Value::Share(thread.cpu as f64 / ran),
            Value::Time(thread.waiting),
            Value::Time(thread.blocked),
            Value::Time(thread.asleep),
        ]
    };
    Section::of(KEY, TITLE, Table::first(&columns, &facts.threads, rows, row))
}

/// With the number of a process or thread, if it is the only one of its name and not called by it.
fn with_number(name: &str, of_this_name: i64, number: Option<i64>) -> String {
    match number {
        Some(number) if of_this_name == 1 && !name.ends_with(&format!(" {number}")) => {
            format!("{name} {number}")
        }
        _ => name.to_owned(),
    }
}
