//! What `perf script` prints (upstream: plugins/perf_text).
//!
//! A sample is a line with the thread's name, its number (`pid/tid` or `tid`), perhaps the processor, and the time in seconds before a colon;
//! then a line for each frame, the innermost first: address, function and offset, file in parentheses; then an empty line. What is printed can be
//! chosen, so the first line is searched for what looks like a time, and what is before it read from its end.
//!
//! A last sample without its empty line is left out: its stack may not be whole.

use std::io::BufRead;

use ferretto_trace_model::model::Model;
use ferretto_trace_model::profiles::resolve::MAX_FRAMES;
use ferretto_trace_model::profiles::samples::ThreadSample;
use ferretto_trace_model::profiles::stacks::Source;
use ferretto_trace_model::stats::Stat;
use ferretto_trace_tables::{FrameId, MachineId, MappingId, Str};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::Error;
use crate::lines::{Line, Lines};

/// The machine that a file is of.
const MACHINE: MachineId = MachineId(0);

/// Reads a file. Its times are those of the trace.
///
/// # Errors
///
/// If its bytes cannot be had, or if a line is none of a sample's. Samples before it are in the model.
pub fn read(file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    let mut samples = Vec::new();
    let end = read_samples(file, model, &mut samples);
    // Stable: of two at one time the first stays first.
    samples.sort_by_key(|sample: &ThreadSample| sample.ts);
    for sample in samples {
        model.push_thread_sample(MACHINE, sample);
    }
    end
}

fn read_samples(file: impl BufRead, model: &mut Model, samples: &mut Vec<ThreadSample>) -> Result<(), Error> {
    let mut lines = Lines::new(file);
    let mut mappings = HashMap::<Str, MappingId, RandomState>::default();
    let mut frames = Vec::new();
    while let Some(line) = lines.read()?.filter(|line| line.is_ended) {
        let head = Head::read(line.bytes)
            .ok_or(Error::Broken { offset: line.offset, what: "this is no first line of a sample" })?;
        let name = (!head.name.is_empty()).then(|| model.tables.strings.intern(&head.name));
        frames.clear();
        loop {
            // Without an empty line the sample is not whole.
            let Some(line) = lines.read()?.filter(|line| line.is_ended) else { return Ok(()) };
            if line.bytes.trim_ascii().is_empty() {
                break;
            }
            let frame = read_frame(line, model, &mut mappings)?;
            if frames.len() < MAX_FRAMES {
                frames.push(frame);
            }
        }
        let Model { tables, profiles, .. } = &mut *model;
        // Upstream counts the depth of such stacks from 1.
        let callsite = frames.iter().rev().zip(1..).fold(None, |caller, (frame, depth)| {
            Some(profiles.stacks.callsite(tables, caller, *frame, depth))
        });
        match callsite {
            None => model.stats.count(Stat::PerfTextImporterSampleNoFrames),
            Some(_) if head.ts < 0 => model.stats.count(Stat::TraceSorterNegativeTimestampDropped),
            Some(callsite) => samples.push(ThreadSample {
                ts: head.ts,
                source: "perf_text",
                pid: head.pid,
                tid: head.tid,
                name,
                callsite,
            }),
        }
    }
    Ok(())
}

/// `ADDRESS FUNCTION+OFFSET (FILE)`
fn read_frame(
    line: Line<'_>,
    model: &mut Model,
    mappings: &mut HashMap<Str, MappingId, RandomState>,
) -> Result<FrameId, Error> {
    let broken = |what| Error::Broken { offset: line.offset, what };
    let frame = line.bytes.trim_ascii();
    let address_end = frame.iter().position(|byte| *byte == b' ').ok_or(broken("a frame has no function"))?;
    let file = frame
        .iter()
        .rposition(|byte| *byte == b'(')
        .filter(|_| frame.ends_with(b")"))
        .ok_or(broken("a frame has no file in parentheses"))?;
    let path = frame.get(file + 1..frame.len() - 1).unwrap_or_default();
    // Where the parenthesis is in the address, all after that is the function.
    let function = frame.get(address_end..file).or(frame.get(address_end..)).unwrap_or_default().trim_ascii();
    let function = match function.iter().rposition(|byte| *byte == b'+') {
        Some(plus) => function.get(..plus).unwrap_or_default(),
        None => function,
    };
    let Model { tables, profiles, .. } = model;
    let path = tables.strings.intern_bytes(path);
    let mapping = *mappings.entry(path).or_insert_with(|| {
        let path = tables.strings.get(path).to_owned();
        profiles.stacks.invented_mapping(tables, &path)
    });
    let function = Some(tables.strings.intern_bytes(function));
    Ok(profiles.stacks.frame_without_address(tables, mapping, function, Source::default()))
}

/// The first line of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The thread's name.
    pub name: String,
    /// The process, if it is said.
    pub pid: Option<i64>,
    /// The thread.
    pub tid: i64,
    /// When, in nanoseconds.
    pub ts: i64,
}

/// Colons of a line that are looked at. Ours: times come early; behind them a line may be anything.
const MAX_COLONS: usize = 64;

impl Head {
    /// Reads it, if it is one.
    #[must_use]
    pub fn read(line: &[u8]) -> Option<Self> {
        let colons = line.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
        colons.take(MAX_COLONS).find_map(|colon| Self::before(line.get(..colon)?))
    }

    fn before(line: &[u8]) -> Option<Self> {
        let (before, time) = time_at_end(line)?;
        // Seconds as upstream reads them, through a floating-point number.
        let seconds: f64 = std::str::from_utf8(time).ok()?.parse().ok()?;
        let ts = (seconds * 1000.0 * 1000.0 * 1000.0) as i64;
        let before = String::from_utf8_lossy(before);
        let mut words: Vec<&str> = before.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
        let mut last = words.pop()?;
        if let Some(cpu) = last.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            cpu.parse::<u32>().ok()?;
            last = words.pop()?;
        }
        let numbers: Vec<&str> = last.split('/').filter(|number| !number.is_empty()).collect();
        let number = |text: &str| text.parse::<u32>().ok().map(i64::from);
        let (pid, tid) = match numbers.as_slice() {
            [tid] => (None, number(tid)?),
            [pid, tid] => (Some(number(pid)?), number(tid)?),
            _ => return None,
        };
        Some(Self { name: words.join(" "), pid, tid, ts })
    }
}

/// `SECONDS.MICROSECONDS` behind a blank, and what is before it.
fn time_at_end(line: &[u8]) -> Option<(&[u8], &[u8])> {
    const FRACTION: usize = 6;
    let dot = line.len().checked_sub(FRACTION + 1)?;
    let (whole, fraction) = line.split_at_checked(dot)?;
    let is_fraction = fraction.first() == Some(&b'.') && fraction.iter().skip(1).all(u8::is_ascii_digit);
    let blank = whole.iter().rposition(|byte| *byte == b' ')?;
    let is_whole = whole.iter().skip(blank + 1).all(u8::is_ascii_digit);
    (is_fraction && is_whole && line.len() > FRACTION + 1).then(|| line.split_at(blank + 1))
}

/// Whether the first line of a file is one of a sample.
#[must_use]
pub fn is_perf_text(head: &[u8]) -> bool {
    let end = head.iter().position(|byte| *byte == b'\n');
    end.and_then(|end| head.get(..end)).is_some_and(|line| Head::read(line).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_of_samples() {
        let head = |name: &str, pid, tid, ts| Some(Head { name: name.to_owned(), pid, tid, ts });
        for (line, expected) in [
            ("prog 31 303057.417513:          1 cycles:P: ", head("prog", None, 31, 303_057_417_513_000)),
            ("a b c  30/31 [002] 1.000001: cycles:", head("a b c", Some(30), 31, 1_000_000_999)),
            ("\tx\t7 2.500000: 1 cpu-clock:", head("x", None, 7, 2_500_000_000)),
            ("std::io 5 1.500000:", head("std::io", None, 5, 1_500_000_000)),
            ("[000] 1.000000:", None),
            ("prog x 1.000000:", None),
            ("prog 31 1.00000:", None),
            ("prog 31 1.000000", None),
            ("", None),
        ] {
            assert_eq!(Head::read(line.as_bytes()), expected, "{line}");
        }
    }
}
