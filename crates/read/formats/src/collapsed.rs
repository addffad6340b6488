//! Stacks a line (upstream: collapsed_stack_trace_reader.cc).
//!
//! A line is the functions of a stack, the outermost first, joined by `;`, then a blank and how often it was met. Lines that begin with `#` are
//! comments; what is no such line is left out.

use std::io::BufRead;

use ferretto_trace_model::model::Model;
use ferretto_trace_model::profiles::resolve::MAX_FRAMES;
use ferretto_trace_model::profiles::stacks::Source;
use ferretto_trace_tables::tables::{AggregateProfileRow, AggregateSampleRow};
use ferretto_trace_tables::{AggregateProfileId, MappingId};

use crate::Error;
use crate::lines::Lines;

/// Reads a file.
///
/// # Errors
///
/// If its bytes cannot be had.
pub fn read(file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    let mut lines = Lines::new(file);
    let mut profile = None;
    while let Some(line) = lines.read()? {
        let line = line.bytes.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let profile = *profile.get_or_insert_with(|| begin(model));
        if let Some((stack, count)) = split(line) {
            push(model, profile, stack, count);
        }
    }
    Ok(())
}

/// The row of the profile and the mapping of its frames.
type Profile = (AggregateProfileId, MappingId);

fn begin(model: &mut Model) -> Profile {
    let tables = &mut model.tables;
    let mut text = |text| Some(tables.strings.intern(text));
    let row = AggregateProfileRow {
        scope: text("collapsed_stack_file"),
        name: text("collapsed_stack samples"),
        sample_type_type: text("samples"),
        sample_type_unit: text("count"),
    };
    let id = AggregateProfileId(tables.aggregate_profile.push(row));
    (id, model.profiles.stacks.invented_mapping(tables, "[collapsed_stack]"))
}

/// The stack and its count, which is above 0.
fn split(line: &[u8]) -> Option<(&[u8], i64)> {
    let blank = line.iter().rposition(|byte| *byte == b' ').filter(|at| *at > 0)?;
    let count = std::str::from_utf8(line.get(blank + 1..)?).ok()?.parse::<i64>().ok()?;
    Some((line.get(..blank)?, count)).filter(|_| count > 0)
}

fn push(model: &mut Model, (profile, mapping): Profile, stack: &[u8], count: i64) {
    let Model { tables, profiles, .. } = model;
    let mut callsite = None;
    let functions = stack.split(|byte| *byte == b';').filter(|name| !name.is_empty());
    for (name, depth) in functions.take(MAX_FRAMES).zip(0..) {
        let name = Some(tables.strings.intern_bytes(name));
        let frame = profiles.stacks.frame_without_address(tables, mapping, name, Source::default());
        callsite = Some(profiles.stacks.callsite(tables, callsite, frame, depth));
    }
    if let Some(callsite_id) = callsite {
        let row = AggregateSampleRow { aggregate_profile_id: profile, callsite_id, value: count as f64 };
        tables.aggregate_sample.push(row);
    }
}
