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
use ferretto_trace_read::clocks::REALTIME;
use ferretto_trace_read::recognize::strace_line::{Kind, Line, NoLine};
use ferretto_trace_tables::{Str, TrackId};

use crate::Error;
use crate::lines::Lines;

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
            Ok(line) => calls.extend(Call::new(line, model)),
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

impl Call {
    fn new(line: Line<'_>, model: &mut Model) -> Option<Self> {
        let ts = model.time_of_file(REALTIME, line.ts);
        let strings = &mut model.tables.strings;
        Some(Self {
            ts,
            tid: line.tid?,
            kind: line.kind,
            name: strings.intern(line.call),
            args: (!line.args.is_empty()).then(|| strings.intern(line.args)),
            result: line.result.map(|result| strings.intern(result)),
        })
    }

    fn apply(self, model: &mut Model) {
        let (tables, processes) = model.processes(model.file_machine());
        let utid = processes.thread(tables, self.tid.into());
        let track = model.thread_track(model.file_machine(), utid);
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
    use ferretto_trace_read::recognize::{Format, recognize};

    use super::*;

    const TEXT: &str = include_str!("../tests/data/strace.txt");

    #[test]
    fn calls_become_slices_of_their_threads() {
        assert_eq!(recognize(TEXT.as_bytes()), Some(Format::Strace));
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
