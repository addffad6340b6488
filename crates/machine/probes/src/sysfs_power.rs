//! `linux.sysfs_power`: batteries, read once a second.

use ferretto_protos::fields::{battery_counters as field, trace_packet};

use crate::clock::boottime_ns;
use crate::packets::{Packets, stamp};
use crate::proc_fs::{leading_i64, read};

/// How often batteries are read (upstream: linux_power_sysfs_data_source.cc).
pub(crate) const POLL_PERIOD_MS: u32 = 1000;

const ROOT: &str = "/sys/class/power_supply";

/// One session's batteries.
#[derive(Debug)]
pub(crate) struct SysfsPower {
    batteries: Vec<String>,
}

impl SysfsPower {
    pub(crate) fn new() -> Self {
        let entries = std::fs::read_dir(ROOT).into_iter().flatten().flatten();
        let names = entries.filter_map(|e| e.file_name().into_string().ok());
        let mut batteries: Vec<_> =
            names.filter(|name| read(format!("{ROOT}/{name}/type")).trim_ascii() == b"Battery").collect();
        batteries.sort_unstable();
        Self { batteries }
    }

    pub(crate) fn poll(&self, out: &mut impl Packets) {
        for name in &self.batteries {
            let number = |file: &str| leading_i64(&read(format!("{ROOT}/{name}/{file}")));
            out.packet(|packet| {
                stamp(packet, boottime_ns());
                let mut battery = packet.nested(trace_packet::BATTERY);
                for (number, value) in [
                    (field::CHARGE_COUNTER_UAH, number("charge_now")),
                    (field::ENERGY_COUNTER_UWH, number("energy_now")),
                    (field::VOLTAGE_UV, number("voltage_now")),
                    // The average wins, in this field, as upstream has it.
                    (field::CURRENT_UA, number("current_avg").or_else(|| number("current_now"))),
                ] {
                    if let Some(value) = value {
                        battery.int(number, value);
                    }
                }
                if let Some(percent) = number("capacity") {
                    battery.float(field::CAPACITY_PERCENT, percent as f32);
                }
                if self.batteries.len() > 1 {
                    battery.string(field::NAME, name);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::testing::Recorded;

    #[test]
    fn one_packet_a_battery() {
        let power = SysfsPower::new();
        let mut out = Recorded::default();
        power.poll(&mut out);
        assert_eq!(out.0.len(), power.batteries.len());
    }
}
