//! What `strace -f -ttt` prints (upstream: plugins/strace).
//!
//! ```text
//! 1000 1700000052.321000 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3
//! 1000 1700000052.321100 futex(0x7f, FUTEX_WAIT, 0, <unfinished ...>
//! 1000 1700000052.321600 <... futex resumed>) = 0
//! ```
//!
//! A call is an instant of its thread, for the time of its line is that of its begin; one that is interrupted is a slice up to the line that
//! goes on. Times are those of the wall clock: `-t` and `-tt` print no day, so such lines are counted and left out, as are those without a
//! thread's number, which strace prints with `-f` only.
//!
//! Memory: some 100 bytes a line until the file has ended, for lines of several threads may come in any order.

use std::io::BufRead;

use ferretto_trace_model::args::{Arg, ArgValue};
use ferretto_trace_model::model::Model;
use ferretto_trace_model::slices::Label;
use ferretto_trace_model::stats::Stat;
use ferretto_trace_tables::{MachineId, Str, TrackId};

use crate::Error;
use crate::lines::Lines;

/// The machine that a file is of.
const MACHINE: MachineId = MachineId(0);
const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_US: i64 = 1_000;
/// A run of more digits at a line's begin is its time, one of less a thread's number: seconds have 10 until the year 2286, and Linux's numbers
/// 7. Upstream's.
const MAX_TID_DIGITS: usize = 9;

/// A line, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line<'a> {
    tid: Option<u32>,
    ts: i64,
    call: &'a str,
    args: &'a str,
    result: Option<&'a str>,
    kind: Kind,
}

/// What a line says of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Unfinished,
    Resumed,
    /// It goes on, and is interrupted again.
    ResumedAndUnfinished,
}

/// Why a line is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoLine {
    /// A signal, an end, or anything else.
    Other,
    /// Its time has no day.
    TimeOfDay,
}

/// A call that waits for its turn.
#[derive(Clone, Copy, Debug)]
struct Call {
    ts: i64,
    tid: u32,
    kind: Kind,
    name: Str,
    args: Option<Str>,
    result: Option<Str>,
}

/// Reads a file.
///
/// # Errors
///
/// If its bytes cannot be had.
pub fn read(file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    let mut lines = Lines::new(file);
    let mut calls = Vec::new();
    while let Some(line) = lines.read()?.filter(|line| line.is_ended) {
        let text = String::from_utf8_lossy(line.bytes);
        match Line::read(&text) {
            Ok(Line { tid: None, .. }) => model.stats.count(Stat::StraceMissingPid),
            Ok(line) => calls.extend(line.call(model)),
            Err(NoLine::TimeOfDay) => model.stats.count(Stat::StraceUnsupportedTimestampFormat),
            Err(NoLine::Other) => model.stats.count(Stat::StraceParseFailure),
        }
    }
    calls.sort_by_key(|call: &Call| call.ts);
    for call in calls {
        call.apply(model);
    }
    Ok(())
}

/// Whether the first line of a file is such a line.
#[must_use]
pub fn is_strace(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    std::str::from_utf8(line).is_ok_and(|line| Line::read(line).is_ok())
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Result<Self, NoLine> {
        let line = line.trim();
        // A signal, or the end of a process.
        if line.is_empty() || line.starts_with(['-', '+']) {
            return Err(NoLine::Other);
        }
        let (tid, line) = take_tid(line)?;
        let (time, line) = line.split_once(' ').ok_or(NoLine::Other)?;
        if time.contains(':') {
            return Err(NoLine::TimeOfDay);
        }
        let ts = time_of(time).ok_or(NoLine::Other)?;
        let line = line.trim();
        let (call, rest, is_resumed) = match line.strip_prefix("<... ") {
            Some(resumed) => {
                let (call, rest) = resumed.split_once(" resumed>").ok_or(NoLine::Other)?;
                (call, rest.trim(), true)
            }
            None => {
                let (call, rest) = line.split_once('(').ok_or(NoLine::Other)?;
                (call, rest, false)
            }
        };
        let line = Self { tid, ts, call, args: "", result: None, kind: Kind::Whole };
        if let Some((args, _)) = rest.split_once("<unfinished ...>") {
            let kind = if is_resumed { Kind::ResumedAndUnfinished } else { Kind::Unfinished };
            return Ok(Self { args: args.trim().trim_end_matches(','), kind, ..line });
        }
        let (args, result) = split_result(rest).ok_or(NoLine::Other)?;
        let kind = if is_resumed { Kind::Resumed } else { Kind::Whole };
        Ok(Self { args, result: Some(result), kind, ..line })
    }

    fn call(self, model: &mut Model) -> Option<Call> {
        let strings = &mut model.tables.strings;
        Some(Call {
            ts: self.ts,
            tid: self.tid?,
            kind: self.kind,
            name: strings.intern(self.call),
            args: (!self.args.is_empty()).then(|| strings.intern(self.args)),
            result: self.result.map(|result| strings.intern(result)),
        })
    }
}

fn take_tid(line: &str) -> Result<(Option<u32>, &str), NoLine> {
    let Some((first, rest)) = line.split_once(' ') else { return Ok((None, line)) };
    let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || first.len() > MAX_TID_DIGITS {
        return Ok((None, line));
    }
    Ok((Some(first.parse().map_err(|_| NoLine::Other)?), rest.trim()))
}

/// Seconds since 1970, and microseconds behind a point, however many digits these have.
fn time_of(text: &str) -> Option<i64> {
    let (seconds, micros) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = seconds.parse().ok().filter(|seconds| *seconds >= 0)?;
    let micros = match micros {
        "" => 0,
        micros => micros.parse().ok().filter(|micros| (0..1_000_000).contains(micros))?,
    };
    seconds.checked_mul(NS_PER_S)?.checked_add(micros * NS_PER_US)
}

/// Arguments and result, between which are `)`, blanks and `=`: the result may have brackets, too. What is resumed may have only the result.
fn split_result(rest: &str) -> Option<(&str, &str)> {
    for (at, _) in rest.match_indices(')') {
        let behind = rest.get(at + 1..)?.trim_start();
        if let Some(result) = behind.strip_prefix('=') {
            return Some((rest.get(..at)?.trim(), result.trim()));
        }
    }
    Some(("", rest.split_once('=')?.1.trim()))
}

impl Call {
    fn apply(self, model: &mut Model) {
        let (tables, processes) = model.processes(MACHINE);
        let utid = processes.thread(tables, self.tid.into());
        let track = model.thread_track(MACHINE, utid);
        let category = Some(model.tables.strings.intern("strace"));
        let label = Label { category, name: Some(self.name), args: self.said(model) };
        match self.kind {
            Kind::Whole => {
                let (slices, mut out) = model.slices();
                slices.complete(&mut out, self.ts, 0, track, label);
            }
            Kind::Unfinished => self.begin(model, track, label),
            Kind::Resumed => self.end(model, track, label),
            Kind::ResumedAndUnfinished => {
                self.end(model, track, label);
                self.begin(model, track, label);
            }
        }
    }

    fn begin(self, model: &mut Model, track: TrackId, label: Label) {
        let (slices, mut out) = model.slices();
        slices.begin(&mut out, self.ts, track, label);
    }

    fn end(self, model: &mut Model, track: TrackId, label: Label) {
        let (slices, mut out) = model.slices();
        slices.end(&mut out, self.ts, track, label);
    }

    fn said(self, model: &mut Model) -> ferretto_trace_model::args::ArgList {
        let mut args = Vec::new();
        for (key, value) in [("args", self.args), ("ret", self.result)] {
            let key = model.tables.strings.intern(key);
            args.extend(value.map(|value| Arg { flat_key: key, key, value: ArgValue::Text(value) }));
        }
        model.args.intern(&args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../tests/data/strace.txt");

    #[test]
    fn lines_are_taken_apart() {
        let line = |text| {
            Line::read(text).map(|line| (line.tid, line.ts, line.call, line.args, line.result, line.kind))
        };
        assert_eq!(
            line("7 1.000002 open(\"a(b) = c\") = -1 ENOENT (No such file)"),
            Ok((
                Some(7),
                1_000_002_000,
                "open",
                "\"a(b",
                Some("c\") = -1 ENOENT (No such file)"),
                Kind::Whole
            )),
            "the first bracket before a `=` ends the arguments, as upstream has it",
        );
        assert_eq!(
            line("1700000000 close(2)        = 0"),
            Ok((None, 1_700_000_000 * NS_PER_S, "close", "2", Some("0"), Kind::Whole)),
        );
        assert_eq!(line("1 12:00:01 read(1) = 2"), Err(NoLine::TimeOfDay));
        for none in
            ["--- SIGCHLD ---", "+++ exited with 0 +++", "", "7 x read(", "7 1.5 read", "7 -1 a() = 0"]
        {
            assert_eq!(line(none), Err(NoLine::Other), "{none}");
        }
        for text in ["9223372036.9", "99999999999", "1.1000000", "1.-1"] {
            assert_eq!(time_of(text).is_some(), text == "9223372036.9", "{text}");
        }
    }

    #[test]
    fn calls_become_slices_of_their_threads() {
        assert!(is_strace(TEXT.as_bytes()) && !is_strace(b"main;work 1\n"));
        let mut model = Model::default();
        read(TEXT.as_bytes(), &mut model).unwrap();
        let tables = model.finish();
        let text = |text: Option<Str>| text.map(|text| tables.strings.get(text)).unwrap_or_default();
        let rows: Vec<(i64, i64, &str)> = (0..tables.slice.len())
            .map(|row| (tables.slice.ts.at(row), tables.slice.dur.at(row), text(tables.slice.name.at(row))))
            .collect();
        assert_eq!(
            rows,
            [
                (1_000, 0, "openat"),
                (2_000, 4_000, "futex"),
                (3_000, 0, "write"),
                (6_000, 2_000, "futex"),
                (9_000, 0, "close"),
            ]
        );
        let said: Vec<&str> = tables.args.string_value.iter().map(text).collect();
        assert!(
            said.contains(&"AT_FDCWD, \"/nope\", O_RDONLY") && said.contains(&"-1 ENOENT (No such file)")
        );
        let count = |name: &str| {
            let row = tables.stats.name.iter().position(|its| text(*its) == name).unwrap();
            tables.stats.value[row]
        };
        assert_eq!(
            [
                count("strace_parse_failure"),
                count("strace_unsupported_timestamp_format"),
                count("strace_missing_pid")
            ],
            [2, 1, 1]
        );
    }
}
