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
use ferretto_trace_read::clocks::MONOTONIC;
use ferretto_trace_read::recognize::perf_line::Head;
use ferretto_trace_tables::{FrameId, MappingId, Str};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::Error;
use crate::lines::{Line, Lines};

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
        model.push_thread_sample(model.file_machine(), sample);
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
        let ts = model.time_of_file(MONOTONIC, head.ts);
        let Model { tables, profiles, .. } = &mut *model;
        // Upstream counts the depth of such stacks from 1.
        let callsite = frames.iter().rev().zip(1..).fold(None, |caller, (frame, depth)| {
            Some(profiles.stacks.callsite(tables, caller, *frame, depth))
        });
        match callsite {
            None => model.stats.count(Stat::PerfTextImporterSampleNoFrames),
            Some(_) if head.ts < 0 => model.stats.count(Stat::TraceSorterNegativeTimestampDropped),
            Some(callsite) => samples.push(ThreadSample {
                ts,
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
