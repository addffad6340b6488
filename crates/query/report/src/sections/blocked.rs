//! Why threads did not run, and who ended it.

use crate::document::{Section, Table, Value};
use crate::facts::{Blocked, Facts, Waker};

const WHERE: &str = "Where in the kernel they were blocked is not known: record sched/sched_blocked_reason, with symbolize_ksyms.";

pub(super) fn causes(facts: &Facts, rows: usize) -> Section {
    const KEY: &str = "blocked";
    const TITLE: &str = "Why threads did not run";
    if facts.blocked.is_empty() {
        return Section::absent(KEY, TITLE, super::latency::absent(facts));
    }
    let columns = [
        ("cause", "Why threads did not run"),
        ("function", "in"),
        ("times", "times"),
        ("total_ns", "in all"),
        ("longest_ns", "longest"),
        ("threads", "threads"),
        ("most", "most of it"),
    ];
    let row = |blocked: &Blocked| {
        vec![
            Value::text(cause(&blocked.state, blocked.io_wait)),
            blocked.function.as_ref().map_or(Value::Nothing, Value::text),
            Value::Count(blocked.times),
            Value::Time(blocked.total),
            Value::Time(blocked.longest),
            Value::Count(blocked.threads),
            blocked.most.as_ref().map_or(Value::Nothing, Value::text),
        ]
    };
    let mut section = Section::of(KEY, TITLE, Table::first(&columns, &facts.blocked, rows, row));
    let mut in_kernel = facts.blocked.iter().filter(|blocked| blocked.state.starts_with('D')).peekable();
    if in_kernel.peek().is_some() && in_kernel.all(|blocked| blocked.function.is_none()) {
        section.notes.push(WHERE.to_owned());
    }
    section
}

pub(super) fn wakers(facts: &Facts, rows: usize) -> Section {
    const KEY: &str = "wakers";
    const TITLE: &str = "For whom threads waited";
    if facts.wakers.is_empty() {
        return Section::absent(KEY, TITLE, super::latency::absent(facts));
    }
    let columns = [
        ("thread", "For whom threads waited"),
        ("process", "process"),
        ("cause", "which was"),
        ("waker", "until woken by"),
        ("times", "times"),
        ("total_ns", "in all"),
        ("longest_ns", "longest"),
    ];
    let row = |waker: &Waker| {
        vec![
            Value::text(&waker.thread),
            Value::text(&waker.process),
            Value::text(cause(&waker.state, waker.io_wait)),
            waker.waker.as_ref().map_or(Value::Nothing, Value::text),
            Value::Count(waker.times),
            Value::Time(waker.total),
            Value::Time(waker.longest),
        ]
    };
    Section::of(KEY, TITLE, Table::first(&columns, &facts.wakers, rows, row))
}

/// A state in words.
fn cause(state: &str, io_wait: Option<i64>) -> String {
    match (state, io_wait) {
        ("D", Some(1)) => "waiting for a device (D)".to_owned(),
        ("D", Some(_)) => "blocked, not on a device (D)".to_owned(),
        ("D", None) => "blocked in the kernel (D)".to_owned(),
        ("S", _) => "asleep (S)".to_owned(),
        ("I", _) => "idle thread of the kernel (I)".to_owned(),
        ("T", _) => "stopped (T)".to_owned(),
        ("t", _) => "stopped by a debugger (t)".to_owned(),
        (other, _) => format!("in state {other}"),
    }
}
