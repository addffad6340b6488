//! The packets that tables are made into: what other formats say, as a recorder of Perfetto would have written it.
//!
//! A sequence of packets for each kind of data, with what it names interned (`sequence`). Reading them gives the same rows of slices with all
//! their arguments, counters, scheduling, states of threads and of programs, flows, samples, heaps, mappings and snapshots of memory, logs and facts, but
//! for what packets have no words for, of which [`left_out`] tells:
//!
//! * states of threads that no switch explains are left out;
//! * tracks are those of descriptors, with their names and owners; a thread with slices, whose process is not known, is one of its own;
//! * the processor's time of a thread is in microseconds;
//! * profiles that sum up (pprof, collapsed stacks) become samples, each with its value as weight, one nanosecond after the other.
//!
//! | module | what it writes |
//! |---|---|
//! | `sequence` | packets of one writer, and what they have interned |
//! | `clocks` | what clocks showed |
//! | `tracks` | processes, threads and tracks, as descriptors |
//! | `people` | what else is said of processes and threads |
//! | `facts` | metadata, processors, interrupts |
//! | `slices`, `flows` | slices, instants and flows |
//! | `annotations` | arguments |
//! | `counters`, `states` | values of counters, states of programs |
//! | `sched` | scheduling, states of threads and frequencies, as the kernel's events |
//! | `samples`, `stacks` | call stacks |
//! | `heaps`, `smaps`, `memory` | what was allocated, where memory lay, what programs say of theirs |
//! | `logs` | lines of logs |
//! | `kept`, `left_out` | what keeps its number, what is in no packet |
//!
//! Memory: beside the tables a number for each different text, some 100 bytes for each event of the kernel, which are brought into order,
//! and some 20 for each end of a flow.

mod annotations;
mod clocks;
mod counters;
mod facts;
mod flows;
mod heaps;
mod kept;
mod left_out;
mod logs;
mod memory;
mod people;
mod samples;
mod sched;
mod sequence;
mod slices;
mod smaps;
mod stacks;
mod states;
mod tracks;

use ferretto_trace_tables::Tables;

use crate::Error;
use crate::packets::Sink;
use kept::Kept;

pub use left_out::left_out;

/// Numbers of sequences.
mod number {
    pub(super) const EVENTS: u32 = 1;
    pub(super) const COUNTERS: u32 = 2;
    pub(super) const KERNEL: u32 = 3;
    pub(super) const LOGS: u32 = 4;
    pub(super) const CLOCKS: u32 = 5;
    pub(super) const DESCRIPTORS: u32 = 6;
    /// Of messages.
    pub(super) const DESCRIPTIONS: u32 = 7;
    pub(super) const STATES: u32 = 8;
    pub(super) const FACTS: u32 = 9;
    pub(super) const SMAPS: u32 = 10;
    pub(super) const MEMORY: u32 = 11;
    /// One for each recording of samples from here on.
    pub(super) const FIRST_OF_SAMPLES: u32 = 16;
    /// One for each heap of a process from here on.
    pub(super) const FIRST_OF_HEAPS: u32 = 1 << 20;
}

/// Writes all packets.
///
/// # Errors
///
/// If the sink cannot take them.
pub fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    clocks::write(tables, sink)?;
    facts::write(tables, sink)?;
    annotations::describe(tables, sink)?;
    tracks::write(tables, sink)?;
    sched::write(tables, sink)?;
    let kept = Kept::of(tables);
    slices::write(tables, kept, sink)?;
    counters::write(tables, kept, sink)?;
    states::write(tables, kept, sink)?;
    samples::write(tables, sink)?;
    heaps::write(tables, sink)?;
    smaps::write(tables, sink)?;
    memory::write(tables, sink)?;
    logs::write(tables, sink)?;
    sink.finish()
}

#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod tests;
