//! Batteries, and whether the display is on (upstream: android_probes_parser.cc).

use ferretto_trace_tables::MachineId;

use crate::args::ArgValue;
use crate::counters::TrackType;
use crate::model::Model;
use crate::wire;

/// The numbers of these packets in `TracePacket`. The messages here do without the second.
pub mod kind {
    /// `battery`.
    pub const BATTERY: u32 = 38;
    /// `initial_display_state`.
    pub const INITIAL_DISPLAY_STATE: u32 = 70;
}

/// `BatteryCounters`.
mod battery {
    pub(super) const CHARGE_COUNTER_UAH: u32 = 1;
    pub(super) const CAPACITY_PERCENT: u32 = 2;
    pub(super) const CURRENT_UA: u32 = 3;
    pub(super) const CURRENT_AVG_UA: u32 = 4;
    pub(super) const NAME: u32 = 5;
    pub(super) const ENERGY_COUNTER_UWH: u32 = 6;
    pub(super) const VOLTAGE_UV: u32 = 7;
}

impl Model {
    /// Applies a packet of these; says whether it was one.
    pub(crate) fn apply_power(&mut self, ts: i64, machine: MachineId, number: u32, data: &[u8]) -> bool {
        match number {
            kind::BATTERY => self.battery(ts, machine, data),
            kind::INITIAL_DISPLAY_STATE => {
                let state = wire::number(data, 1).unwrap_or(0) as i32;
                let track = TrackType::counter("screen_state", &[]);
                let track = self.track(machine, track, |strings| strings.intern("ScreenState"));
                self.push_counter(ts, track, state.into());
            }
            _ => return false,
        }
        true
    }

    /// A charge that is not said follows from energy and voltage, a power from current and voltage, in whole numbers as upstream has them.
    fn battery(&mut self, ts: i64, machine: MachineId, data: &[u8]) {
        let int = |field| wire::int(data, field);
        let voltage = int(battery::VOLTAGE_UV);
        let charge = int(battery::CHARGE_COUNTER_UAH).or_else(|| {
            let voltage = voltage.filter(|voltage| *voltage > 0)?;
            Some(int(battery::ENERGY_COUNTER_UWH)?.wrapping_mul(1_000_000) / voltage)
        });
        let current = int(battery::CURRENT_UA);
        let capacity = wire::number(data, battery::CAPACITY_PERCENT);
        let power = current
            .zip(voltage)
            .map(|(current, voltage)| (current.wrapping_mul(voltage) / 1_000_000_000) as f64);
        let real = |value: Option<i64>| value.map(|value| value as f64);
        for (counter, value) in [
            ("charge_uah", real(charge)),
            ("capacity_pct", capacity.map(|bits| f64::from(f32::from_bits(bits as u32)))),
            ("current_ua", real(current)),
            ("current.avg_ua", real(int(battery::CURRENT_AVG_UA))),
            ("voltage_uv", real(voltage)),
            ("power_mw", power.map(f64::abs)),
        ] {
            let Some(value) = value else { continue };
            let name = String::from_utf8_lossy(wire::bytes(data, battery::NAME).unwrap_or_default());
            let strings = &mut self.tables.strings;
            let dimensions = [
                ("battery_name", ArgValue::Text(strings.intern(&name))),
                ("counter_name", ArgValue::Text(strings.intern(counter))),
            ];
            let track = TrackType::counter("battery_counter", &dimensions);
            let name =
                if name.is_empty() { format!("batt.{counter}") } else { format!("batt.{name}.{counter}") };
            let track = self.track(machine, track, |strings| strings.intern(&name));
            self.push_counter(ts, track, value);
        }
    }
}
