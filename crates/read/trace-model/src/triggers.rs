//! `Trigger`: what a recording was started, stopped or cloned for (upstream: metadata_module.cc).

use ferretto_protos::fields::trigger as field;
use ferretto_trace_tables::MachineId;

use crate::args::ArgValue;
use crate::counters::TrackType;
use crate::metadata::{Key, Metadatum};
use crate::model::Model;
use crate::slices::Label;
use crate::stats::Stat;
use crate::wire;

/// Which trigger the trace's metadata name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// None so far.
    #[default]
    None,
    /// The first one that came.
    Trigger,
    /// That for which the trace was cloned: it counts more.
    Clone,
}

impl Model {
    /// Reads `TracePacket.trigger`, or the one that a trace was cloned for: an instant of a track of its own.
    pub fn apply_trigger(&mut self, ts: i64, machine: MachineId, message: &[u8], kind: Named) {
        let name = self.text_if_any(wire::bytes(message, field::TRIGGER_NAME));
        let track = self
            .track(machine, TrackType::slices("triggers", &[]), |strings| strings.intern("Trace Triggers"));
        let mut args = Vec::new();
        if let Some(producer) = wire::bytes(message, field::PRODUCER_NAME).filter(|name| !name.is_empty()) {
            let producer = self.tables.strings.intern_bytes(producer);
            args.push(self.arg("producer_name", ArgValue::Text(producer)));
        }
        if let Some(uid) = wire::int(message, field::TRUSTED_PRODUCER_UID) {
            args.push(self.arg("trusted_producer_uid", ArgValue::Int(uid)));
        }
        let args = self.args.intern(&args);
        let (slices, mut out) = self.slices();
        slices.complete(&mut out, ts, 0, track, Label { category: None, name, args });
        if kind > self.named_trigger {
            self.named_trigger = kind;
            let name = name.map_or(Metadatum::Nothing, Metadatum::Text);
            self.set_metadata(Key::TraceTrigger, machine, name);
            if kind == Named::Clone {
                self.stats.set(Stat::TracedCloneTriggerTimestampNs, None, ts);
            }
        }
    }
}
