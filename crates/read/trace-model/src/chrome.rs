//! What Chrome says of itself and of what it was recorded for (upstream: metadata_minimal_module.cc, metadata_module.cc).

use ferretto_trace_tables::MachineId;

use crate::args::ArgValue;
use crate::counters::TrackType;
use crate::metadata::Metadatum;
use crate::model::Model;
use crate::slices::{Label, Out};
use crate::track_event::base64;
use crate::wire;

/// The numbers of these packets in `TracePacket`. The messages here do without them.
pub mod kind {
    /// `chrome_metadata`.
    pub const METADATA: u32 = 51;
    /// `chrome_trigger`.
    pub const TRIGGER: u32 = 109;
}

/// `ChromeMetadataPacket`, its `FinchHash`, and `BackgroundTracingMetadata`.
mod metadata {
    pub(super) const BACKGROUND_TRACING_METADATA: u32 = 1;
    pub(super) const CHROME_VERSION_CODE: u32 = 2;
    pub(super) const ENABLED_CATEGORIES: u32 = 3;
    pub(super) const FIELD_TRIAL_HASHES: u32 = 4;
    pub(super) const APP_PACKAGE_NAME: u32 = 5;
    pub(super) const APP_VERSION: u32 = 6;
    pub(super) const CHANNEL: u32 = 7;
    pub(super) const OS_NAME: u32 = 8;
    pub(super) const NAME: u32 = 1;
    pub(super) const GROUP: u32 = 2;
    pub(super) const SCENARIO_NAME_HASH: u32 = 3;
}

/// `ChromeTrigger`.
mod trigger {
    pub(super) const NAME: u32 = 1;
    pub(super) const NAME_HASH: u32 = 2;
    pub(super) const FLOW_ID: u32 = 3;
}

impl Model {
    /// Reads `TracePacket.chrome_metadata`. Several Chromes are told apart by letters, in the order in which they came.
    pub(crate) fn read_chrome_metadata(&mut self, machine: MachineId, message: &[u8]) {
        let letter = char::from(b'a' + (self.chromes % 26) as u8);
        self.chromes = self.chromes.wrapping_add(1);
        let int = |field| wire::int(message, field).map(Metadatum::Int);
        let mut text = |field| {
            wire::bytes(message, field).map(|text| Metadatum::Text(self.tables.strings.intern_bytes(text)))
        };
        let said = [
            ("playstore_version_code", int(metadata::CHROME_VERSION_CODE)),
            ("product-version", text(metadata::APP_VERSION)),
            ("os-name", text(metadata::OS_NAME)),
            ("package-name", text(metadata::APP_PACKAGE_NAME)),
            ("channel", int(metadata::CHANNEL)),
            ("enabled_categories", text(metadata::ENABLED_CATEGORIES)),
        ];
        for (name, value) in said {
            if let Some(value) = value {
                self.set_dynamic_metadata(&format!("cr-{letter}-{name}"), machine, value);
            }
        }
        let trials = field_trials(message);
        if !trials.is_empty() {
            let trials = Metadatum::Text(self.tables.strings.intern(&trials));
            self.set_dynamic_metadata(&format!("cr-{letter}-field_trial_hashes"), machine, trials);
        }
        if let Some(background) = wire::bytes(message, metadata::BACKGROUND_TRACING_METADATA) {
            let text = Metadatum::Text(self.tables.strings.intern(&base64(background)));
            self.set_dynamic_metadata("cr-background_tracing_metadata", machine, text);
            if let Some(hash) = wire::int(background, metadata::SCENARIO_NAME_HASH) {
                self.set_dynamic_metadata("cr-scenario_name_hash", machine, Metadatum::Int(hash));
            }
        }
    }

    /// Reads `TracePacket.chrome_trigger`: an instant on the track of all triggers.
    pub(crate) fn apply_chrome_trigger(&mut self, ts: i64, machine: MachineId, message: &[u8]) {
        let hash = wire::number(message, trigger::NAME_HASH).unwrap_or(0);
        let said = wire::bytes(message, trigger::NAME).map(|name| self.tables.strings.intern_bytes(name));
        let name = Some(said.unwrap_or_else(|| self.tables.strings.intern("chrome_trigger")));
        self.args.translations.know_keys(&mut self.tables.strings);
        let mut args = vec![self.arg("chrome_trigger.name_hash", ArgValue::Uint(hash))];
        if let Some(said) = said {
            args.push(self.arg("chrome_trigger.name", ArgValue::Text(said)));
        }
        let args = self.args.intern(&args);
        let track = TrackType::slices("triggers", &[]);
        let track = self.track(machine, track, |strings| strings.intern("Trace Triggers"));
        let (slices, mut out) = self.slices();
        let slice = slices.complete(&mut out, ts, 0, track, Label { category: None, name, args });
        let flow = wire::number(message, trigger::FLOW_ID).filter(|flow| self.flows.is_active(*flow));
        if let (Some(slice), Some(flow)) = (slice, flow) {
            let mut out = Out { tables: &mut self.tables, args: &mut self.args, stats: &mut self.stats };
            self.flows.end(&mut out, slice, flow, true);
        }
        self.set_dynamic_metadata("cr-triggered_rule_name_hash", machine, Metadatum::Int(hash as i64));
    }
}

/// Each as `{ name: N, group: N } `, two on a line.
fn field_trials(message: &[u8]) -> String {
    let mut text = String::new();
    let mut on_line = 0;
    for trial in wire::all_bytes(message, metadata::FIELD_TRIAL_HASHES) {
        if on_line == 2 {
            text.push('\n');
            on_line = 0;
        }
        on_line += 1;
        let number = |field| wire::number(trial, field).unwrap_or(0) as u32;
        let (name, group) = (number(metadata::NAME), number(metadata::GROUP));
        text.push_str(&format!("{{ name: {name}, group: {group} }} "));
    }
    text
}
