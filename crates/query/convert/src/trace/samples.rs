//! Samples of call stacks: a sequence for each recording, whose profiler and counter stand in its defaults.
//!
//! Files that sum up have no times: each of their values is a sample of that weight, a nanosecond after the one before.

use ferretto_protos::fields::stack_sample::{counter_descriptor, execution_context, task_context};
use ferretto_protos::fields::trace_packet::STACK_SAMPLE;
use ferretto_protos::fields::{stack_sample as field, stack_sample_defaults, trace_packet_defaults};
use ferretto_protozero::Message;
use ferretto_trace_tables::{SessionId, Str, Tables, TaskContextId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::sequence::Sequence;
use super::{number, stacks};
use crate::Error;
use crate::owners::{pid, tid};
use crate::packets::Sink;

/// `StackSample.Mode`, from 1.
const MODES: [&str; 5] = ["user", "kernel", "hypervisor", "guest_user", "guest_kernel"];
/// A machine's processors have so many numbers.
const CPUS_OF_A_MACHINE: u32 = 4096;

type Recording = (Option<SessionId>, Option<Str>);

pub(super) fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut sequences = HashMap::<Recording, Sequence, RandomState>::default();
    let samples = &tables.profiler_sample;
    let mut bytes = Vec::new();
    let mut next = number::FIRST_OF_SAMPLES;
    for row in 0..samples.len() {
        let source = samples.source.at(row);
        let sequence = sequences.entry((samples.session_id.get(row), source)).or_insert_with(|| {
            next += 1;
            Sequence::with_defaults(next - 1, defaults(source.map(|it| tables.strings.get(it)), None))
        });
        bytes.clear();
        let mut sample = Message::new(&mut bytes);
        write_circumstances(tables, row, &mut sample);
        if let Some(callsite) = samples.callsite_id.get(row) {
            sample.varint(field::CALLSTACK_IID, stacks::intern(tables, callsite, sequence));
        }
        if let Some(error) = samples.unwind_error.at(row) {
            sample.string(field::UNWIND_ERROR, tables.strings.get(error));
        }
        drop(sample);
        sequence.put(Some(samples.ts.at(row)), STACK_SAMPLE, &bytes, sink)?;
    }
    write_sums(tables, next, sink)
}

fn write_circumstances(tables: &Tables, row: usize, sample: &mut Message<'_, Vec<u8>>) {
    let samples = &tables.profiler_sample;
    if let Some(context) = samples.task_context_id.get(row) {
        write_task(tables, context, &mut sample.nested(field::TASK_CONTEXT));
    }
    if let Some(context) = samples.execution_context_id.get(row) {
        let contexts = &tables.profiler_execution_context;
        let mut message = sample.nested(field::EXECUTION_CONTEXT);
        if let Some(ucpu) = contexts.ucpu.get(context.index()) {
            message.varint(execution_context::CPU, (ucpu.0 % CPUS_OF_A_MACHINE).into());
        }
        let mode = contexts.cpu_mode.get(context.index()).copied().flatten();
        let mode = mode.and_then(|mode| MODES.iter().position(|it| *it == tables.strings.get(mode)));
        if let Some(mode) = mode {
            message.varint(execution_context::MODE, mode as u64 + 1);
        }
    }
}

fn write_task(tables: &Tables, context: TaskContextId, message: &mut Message<'_, Vec<u8>>) {
    let contexts = &tables.profiler_task_context;
    if let Some(upid) = contexts.upid.get(context.index()) {
        message.varint(task_context::PID, pid(tables, upid).cast_unsigned());
    }
    if let Some(utid) = contexts.utid.get(context.index()) {
        message.varint(task_context::TID, tid(tables, utid).cast_unsigned());
    }
}

/// What a file of sums has counted, as samples.
fn write_sums(tables: &Tables, first: u32, sink: &mut dyn Sink) -> Result<(), Error> {
    let profiles = &tables.aggregate_profile;
    let text = |texts: &Vec<Option<Str>>, row: usize| {
        texts.get(row).copied().flatten().map(|text| tables.strings.get(text))
    };
    let mut sequences: Vec<(Sequence, i64)> = (0..profiles.len())
        .map(|row| {
            let counter = (text(&profiles.sample_type_type, row), text(&profiles.sample_type_unit, row));
            let defaults = defaults(text(&profiles.scope, row), Some(counter));
            (Sequence::with_defaults(first.saturating_add(row as u32), defaults), 0)
        })
        .collect();
    let mut bytes = Vec::new();
    let samples = &tables.aggregate_sample;
    for ((profile, callsite), value) in
        samples.aggregate_profile_id.iter().zip(&samples.callsite_id).zip(&samples.value)
    {
        let Some((sequence, ts)) = sequences.get_mut(profile.0 as usize) else { continue };
        bytes.clear();
        let mut sample = Message::new(&mut bytes);
        sample.varint(field::CALLSTACK_IID, stacks::intern(tables, *callsite, sequence));
        // Weights are whole, and none is below zero.
        sample.varint(field::PRIMARY_WEIGHT, value.round().max(0.0) as u64);
        drop(sample);
        sequence.put(Some(*ts), STACK_SAMPLE, &bytes, sink)?;
        *ts += 1;
    }
    Ok(())
}

/// Fields of `TracePacketDefaults`: who took the samples, and the name and unit of what they weigh.
fn defaults(source: Option<&str>, counter: Option<(Option<&str>, Option<&str>)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut all = Message::new(&mut bytes);
    let mut defaults = all.nested(trace_packet_defaults::STACK_SAMPLE_DEFAULTS);
    if let Some(source) = source {
        defaults.string(stack_sample_defaults::SOURCE, source);
    }
    if let Some((name, unit)) = counter {
        let mut counter = defaults.nested(stack_sample_defaults::PRIMARY_DESCRIPTOR);
        counter.string(counter_descriptor::NAME, name.unwrap_or("samples"));
        counter.string(counter_descriptor::UNIT_STR, unit.unwrap_or("count"));
    }
    drop(defaults);
    drop(all);
    bytes
}
