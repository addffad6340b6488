//! The counters that samples of any profiler bring: how much each sample counts, and what was read with it (upstream:
//! stack_sample_importer/module.cc).
//!
//! What a counter is stands in the sample, among what is interned, or in the defaults of the sequence, in this order. Values of counters of a
//! processor are left out if the sample does not say which.

use std::borrow::Cow;

use ferretto_protos::fields::stack_sample::counter_descriptor as descriptor;
use ferretto_protos::fields::{interned_data, stack_sample as field, stack_sample_defaults as defaults};
use ferretto_trace_tables::{MachineId, SessionId, Str, TrackId};

use super::samples::CounterSet;
use crate::args::{Arg, ArgValue};
use crate::counters::TrackType;
use crate::event::WholePacket;
use crate::model::Model;
use crate::wire;

/// `StackSample.Unit`, from 1.
const UNITS: [&str; 9] = [
    "ns",
    "cycles",
    "instructions",
    "bytes",
    "page-faults",
    "cache-misses",
    "cache-references",
    "branch-misses",
    "count",
];

/// `CounterDescriptor.Scope`.
const SCOPE_CPU: u64 = 2;

/// Counters of one sample. Ours: it bounds what a hostile one costs.
const MAX_FOLLOWERS: usize = 1024;

/// Where a counter belongs.
struct Owner {
    machine: MachineId,
    session: SessionId,
    source: Option<Str>,
    cpu: Option<u32>,
}

impl Model {
    /// Writes the counters of a sample; returns the number of their set.
    pub(super) fn push_stack_sample_counters(
        &mut self,
        ts: i64,
        packet: &WholePacket,
        said_before: Option<&[u8]>,
        (session, source): (SessionId, Option<Str>),
        cpu: Option<u32>,
    ) -> Option<u32> {
        let sample = &*packet.data;
        let owner = Owner { machine: packet.origin.machine, session, source, cpu };
        let interned = |iid| packet.state.message(interned_data::STACK_SAMPLE_COUNTER_DESCRIPTORS, iid);
        let mut set = CounterSet::default();

        let inline = wire::bytes(sample, field::PRIMARY_DESCRIPTOR).map(Cow::Borrowed);
        let primary = match (inline, wire::number(sample, field::PRIMARY_DESCRIPTOR_IID)) {
            (Some(inline), _) => Some(inline),
            (None, Some(iid)) => interned(iid).map(|message| Cow::Owned(message.to_vec())),
            (None, None) => {
                said_before.and_then(|it| wire::bytes(it, defaults::PRIMARY_DESCRIPTOR)).map(Cow::Borrowed)
            }
        };
        let track = primary.and_then(|primary| self.stack_counter_track(&primary, &owner, true));
        if let (Some(track), Some(weight)) = (track, wire::number(sample, field::PRIMARY_WEIGHT)) {
            let counter = self.push_counter(ts, track, weight as f64);
            set.push(&mut self.tables, counter);
        }

        let mut tracks = Vec::new();
        for message in wire::all_bytes(sample, field::FOLLOWER_DESCRIPTORS).take(MAX_FOLLOWERS) {
            tracks.push(self.stack_counter_track(message, &owner, false));
        }
        if tracks.is_empty() {
            for iid in wire::all_numbers(sample, field::FOLLOWER_DESCRIPTOR_IIDS).take(MAX_FOLLOWERS) {
                tracks.push(
                    interned(iid).and_then(|message| self.stack_counter_track(&message, &owner, false)),
                );
            }
        }
        if tracks.is_empty() {
            let messages =
                said_before.into_iter().flat_map(|it| wire::all_bytes(it, defaults::FOLLOWER_DESCRIPTORS));
            for message in messages.take(MAX_FOLLOWERS) {
                tracks.push(self.stack_counter_track(message, &owner, false));
            }
        }
        for (track, weight) in tracks.into_iter().zip(wire::all_numbers(sample, field::FOLLOWER_WEIGHTS)) {
            if let Some(track) = track {
                let counter = self.push_counter(ts, track, weight as f64);
                set.push(&mut self.tables, counter);
            }
        }
        set.number()
    }

    fn stack_counter_track(&mut self, message: &[u8], owner: &Owner, is_timebase: bool) -> Option<TrackId> {
        let strings = &mut self.tables.strings;
        let name = strings.intern_bytes(wire::bytes(message, descriptor::NAME).unwrap_or_default());
        let number = |field| wire::number(message, field);
        let unit = match number(descriptor::UNIT).filter(|unit| *unit != 0) {
            Some(unit) => {
                let index = usize::try_from(unit - 1).unwrap_or(usize::MAX);
                Some(strings.intern(UNITS.get(index).copied().unwrap_or_default()))
            }
            None => wire::bytes(message, descriptor::UNIT_STR)
                .filter(|unit| !unit.is_empty())
                .map(|unit| strings.intern_bytes(unit)),
        };
        if is_timebase
            && unit.is_some()
            && let Some(cell) = self.tables.profiler_session.timebase_unit.get_mut(owner.session.index())
        {
            *cell = cell.or(unit);
        }
        let is_of_cpu = number(descriptor::SCOPE) == Some(SCOPE_CPU);
        let mut dimensions = Vec::new();
        if is_of_cpu {
            dimensions.push(("cpu", ArgValue::Int(i64::from(owner.cpu?))));
        }
        dimensions.push(("session_id", ArgValue::Int(i64::from(owner.session.0))));
        // Upstream has an empty text where there is no source.
        let source = owner.source.unwrap_or_else(|| self.tables.strings.intern(""));
        dimensions.push(("source", ArgValue::Text(source)));
        dimensions.push(("counter_name", ArgValue::Text(name)));
        let type_ = if is_of_cpu { "stack_sample_cpu_counter" } else { "stack_sample_session_counter" };
        let tracks = self.tables.track.len();
        let id = self.track(owner.machine, TrackType::counter(type_, &dimensions), |_| name);
        if self.tables.track.len() != tracks {
            self.describe_stack_counter(id, message, unit, is_timebase);
        }
        Some(id)
    }

    fn describe_stack_counter(&mut self, id: TrackId, message: &[u8], unit: Option<Str>, is_timebase: bool) {
        let strings = &mut self.tables.strings;
        let mut args = Vec::new();
        let mut add = |key: Str, value| args.push(Arg { flat_key: key, key, value });
        add(strings.intern("is_timebase"), ArgValue::Bool(is_timebase));
        if let Some(by) = wire::number(message, descriptor::UNIT_MULTIPLIER) {
            add(strings.intern("unit_multiplier"), ArgValue::Int(by as i64));
        }
        if let Some(text) = wire::bytes(message, descriptor::DESCRIPTION).filter(|text| !text.is_empty()) {
            let text = strings.intern_bytes(text);
            add(strings.intern("description"), ArgValue::Text(text));
        }
        let args = self.args.intern(&args);
        let set = self.args.write(args, &mut self.tables);
        self.tables.track.source_arg_set_id.set(id.index(), set);
        if let Some(cell) = self.tables.track.counter_unit.get_mut(id.index()) {
            *cell = unit;
        }
    }
}
