//! `SysStats`: samples of what /proc and /sys say of the machine, as counters (upstream: system_probes_parser.cc).

mod names;

use ferretto_protos::fields::sys_stats as field;
use ferretto_protozero::read::{Field, Value};
use ferretto_trace_tables::{MachineId, Str, Strings};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::args::{Arg, ArgValue};
use crate::counters::TrackType;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// /proc/diskstats counts sectors of 512 bytes, whatever the disk has.
const SECTORS_PER_MB: f64 = 2048.0;
const MS_PER_S: f64 = 1000.0;
/// Sizes of free chunks of one zone. Ours: the kernel has 11, and above, a size would not fit in a number.
const MAX_ORDERS: usize = 20;
/// Disks of one trace whose last sample is kept. Ours.
const MAX_DISKS: usize = 1 << 16;

/// What `PsiResource` stands for.
const PSI_RESOURCES: [&str; 7] =
    ["resource.unspecified", "cpu.some", "cpu.full", "io.some", "io.full", "mem.some", "mem.full"];

/// The times of a processor, in the order of their field numbers.
const CPU_TIMES: [(u32, &str); 8] = [
    (field::cpu_times::USER_NS, "user_ns"),
    (field::cpu_times::USER_NICE_NS, "user_nice_ns"),
    (field::cpu_times::SYSTEM_MODE_NS, "system_mode_ns"),
    (field::cpu_times::IDLE_NS, "idle_ns"),
    (field::cpu_times::IO_WAIT_NS, "io_wait_ns"),
    (field::cpu_times::IRQ_NS, "irq_ns"),
    (field::cpu_times::SOFTIRQ_NS, "softirq_ns"),
    (field::cpu_times::STEAL_NS, "steal_ns"),
];

/// The last sample of each disk.
#[derive(Debug, Default)]
pub struct Disks {
    last: HashMap<(MachineId, Str), Disk, RandomState>,
}

/// A sample of a disk: what it has read, written, discarded and flushed, and how long that took.
#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    sectors: [i64; 3],
    times_ms: [i64; 3],
    flushes: i64,
    flush_time_ms: i64,
}

/// A sample that is being read.
struct Sample<'a> {
    ts: i64,
    machine: MachineId,
    fields: Vec<Field<'a>>,
}

impl<'a> Sample<'a> {
    fn values(&self, number: u32) -> impl Iterator<Item = Value<'a>> {
        self.fields.iter().filter(move |field| field.number == number).map(|field| field.value)
    }

    fn messages(&self, number: u32) -> impl Iterator<Item = &'a [u8]> {
        self.values(number).filter_map(|value| value.as_bytes())
    }

    fn number(&self, number: u32) -> Option<u64> {
        self.values(number).filter_map(|value| value.as_u64()).last()
    }
}

impl Model {
    /// Reads `TracePacket.sys_stats`. The order of counters is by kind, whatever that of the fields.
    pub fn apply_system_stats(&mut self, ts: i64, machine: MachineId, message: &[u8]) {
        let sample = Sample { ts, machine, fields: wire::fields(message).collect() };
        self.meminfo(&sample);
        self.frequencies_of_devices(&sample);
        self.frequencies_of_cpus(&sample);
        self.vmstat(&sample);
        self.cpu_times(&sample);
        self.interrupts(&sample);
        self.free_chunks(&sample);
        self.disks(&sample);
        if self.pressure(&sample).is_none() {
            return;
        }
        self.temperatures(&sample);
        self.idle_states(&sample);
        self.frequency_of_gpu(&sample);
        self.slabs(&sample);
    }

    fn sample(
        &mut self,
        sample: &Sample<'_>,
        track: TrackType<'_>,
        value: f64,
        name: impl FnOnce(&mut Strings) -> Str,
    ) -> usize {
        let track = self.track(sample.machine, track, name);
        self.push_counter(sample.ts, track, value).index()
    }

    fn meminfo(&mut self, sample: &Sample<'_>) {
        for line in sample.messages(field::MEMINFO) {
            let key = wire::number(line, field::meminfo_value::KEY).unwrap_or(0);
            let value = wire::number(line, field::meminfo_value::VALUE).unwrap_or(0);
            let Some(name) = at(&names::MEMINFO, key) else {
                self.stats.count(Stat::MeminfoUnknownKeys);
                continue;
            };
            let name = self.tables.strings.intern(name);
            let dimensions = [("meminfo_key", ArgValue::Text(name))];
            let track = TrackType::counter("meminfo", &dimensions).in_unit("bytes");
            // The kernel says kB.
            self.sample(sample, track, value as f64 * 1024.0, |_| name);
        }
    }

    fn vmstat(&mut self, sample: &Sample<'_>) {
        for line in sample.messages(field::VMSTAT) {
            let key = wire::number(line, field::vmstat_value::KEY).unwrap_or(0);
            let value = wire::number(line, field::vmstat_value::VALUE).unwrap_or(0);
            let Some(name) = at(&names::VMSTAT, key) else {
                self.stats.count(Stat::VmstatUnknownKeys);
                continue;
            };
            let name = self.tables.strings.intern(name);
            let dimensions = [("vmstat_key", ArgValue::Text(name))];
            self.sample(sample, TrackType::counter("vmstat", &dimensions), value as f64, |_| name);
        }
    }

    fn frequencies_of_devices(&mut self, sample: &Sample<'_>) {
        for device in sample.messages(field::DEVFREQ) {
            let key = self.text(wire::bytes(device, field::devfreq_value::KEY));
            let value = wire::number(device, field::devfreq_value::VALUE).unwrap_or(0);
            let dimensions = [("linux_device", ArgValue::Text(key))];
            let track = TrackType::counter("clock_frequency", &dimensions);
            self.sample(sample, track, value as f64, |strings| joined(strings, "", key, " Frequency"));
        }
    }

    fn frequencies_of_cpus(&mut self, sample: &Sample<'_>) {
        let all = sample.values(field::CPUFREQ_KHZ).flat_map(wire::numbers_of);
        for (cpu, khz) in all.enumerate() {
            let dimensions = [("cpu", ArgValue::Int(cpu as i64))];
            let track = TrackType::counter("cpu_frequency", &dimensions);
            self.sample(sample, track, f64::from(khz as u32), |strings| strings.intern("cpufreq"));
        }
    }

    fn frequency_of_gpu(&mut self, sample: &Sample<'_>) {
        for mhz in sample.values(field::GPUFREQ_MHZ).flat_map(wire::numbers_of) {
            let dimensions = [("ugpu", ArgValue::Int(0)), ("gpu", ArgValue::Int(0))];
            let track = TrackType::counter("gpu_frequency", &dimensions).in_unit("kHz");
            self.sample(sample, track, mhz as f64, |strings| strings.intern("gpufreq"));
        }
    }

    fn cpu_times(&mut self, sample: &Sample<'_>) {
        for cpu in sample.messages(field::CPU_STAT) {
            let Some(id) = wire::number(cpu, field::cpu_times::CPU_ID) else {
                self.stats.count(Stat::InvalidCpuTimes);
                continue;
            };
            for (number, key) in CPU_TIMES {
                let value = wire::number(cpu, number).unwrap_or(0);
                let key = self.tables.strings.intern(key);
                let dimensions =
                    [("cpu", ArgValue::Int(i64::from(id as u32))), ("cpustat_key", ArgValue::Text(key))];
                let track = TrackType::counter("cpustat", &dimensions);
                self.sample(sample, track, value as f64, |strings| joined(strings, "cpu.times.", key, ""));
            }
        }
    }

    fn interrupts(&mut self, sample: &Sample<'_>) {
        for (number, type_) in [(field::NUM_IRQ, "num_irq"), (field::NUM_SOFTIRQ, "num_softirq")] {
            for line in sample.messages(number) {
                let irq = wire::number(line, field::interrupt_count::IRQ).unwrap_or(0) as u32;
                let count = wire::number(line, field::interrupt_count::COUNT).unwrap_or(0);
                let dimensions = [("irq", ArgValue::Int(i64::from(irq)))];
                let name = |strings: &mut Strings| strings.intern(&format!("{type_} (id: {irq})"));
                self.sample(sample, TrackType::counter(type_, &dimensions), count as f64, name);
            }
        }
        let totals = [
            (field::NUM_FORKS, "num_forks"),
            (field::NUM_IRQ_TOTAL, "num_irq_total"),
            (field::NUM_SOFTIRQ_TOTAL, "num_softirq_total"),
        ];
        for (number, type_) in totals {
            if let Some(value) = sample.number(number) {
                let name = |strings: &mut Strings| strings.intern(type_);
                self.sample(sample, TrackType::counter(type_, &[]), value as f64, name);
            }
        }
    }

    /// /proc/buddyinfo: free chunks of memory, by size.
    fn free_chunks(&mut self, sample: &Sample<'_>) {
        let page_bytes = self.machines.get(sample.machine).page_bytes;
        for zone in sample.messages(field::BUDDY_INFO) {
            let node = self.text(wire::bytes(zone, field::buddy_info::NODE));
            let name = self.text(wire::bytes(zone, field::buddy_info::ZONE));
            let counts = wire::all_numbers(zone, field::buddy_info::ORDER_PAGES);
            for (order, count) in counts.take(MAX_ORDERS).enumerate() {
                let kb = (u64::from(page_bytes) << order) / 1024;
                let dimensions = [
                    ("buddyinfo_node", ArgValue::Text(node)),
                    ("buddyinfo_zone", ArgValue::Text(name)),
                    ("buddyinfo_chunk_size_kb", ArgValue::Int(kb as i64)),
                ];
                self.sample(sample, TrackType::counter("buddyinfo", &dimensions), count as f64, |strings| {
                    let (node, zone) = (strings.get(node), strings.get(name));
                    let name = format!("mem.buddyinfo[{node}][{zone}][{kb} kB]");
                    strings.intern(&name)
                });
            }
        }
    }

    /// Differences to the sample before: the first one gives nothing.
    fn disks(&mut self, sample: &Sample<'_>) {
        for message in sample.messages(field::DISK_STAT) {
            let device = self.text(wire::bytes(message, field::disk_stat::DEVICE_NAME));
            let now = Disk::of(message);
            let key = (sample.machine, device);
            let is_known = self.disks.last.contains_key(&key);
            if !is_known && self.disks.last.len() >= MAX_DISKS {
                continue;
            }
            let before = self.disks.last.insert(key, now);
            let Some(before) = before else { continue };
            for (counter, unit, value) in now.since(before) {
                let counter = self.tables.strings.intern(counter);
                let dimensions =
                    [("device_name", ArgValue::Text(device)), ("counter_name", ArgValue::Text(counter))];
                let track = TrackType::counter("diskstat", &dimensions).in_unit(unit);
                self.sample(sample, track, value, |strings| {
                    let (device, counter) = (strings.get(device), strings.get(counter));
                    let name = format!("diskstat.[{device}].{counter}");
                    strings.intern(&name)
                });
            }
        }
    }

    /// Pressure, in nanoseconds that something waited. An unknown resource ends the sample: upstream's.
    fn pressure(&mut self, sample: &Sample<'_>) -> Option<()> {
        for message in sample.messages(field::PSI) {
            let resource = wire::number(message, field::psi_sample::RESOURCE).unwrap_or(0);
            let Some(key) = at(&PSI_RESOURCES, resource) else {
                self.stats.count(Stat::PsiUnknownResource);
                return None;
            };
            let value = wire::number(message, field::psi_sample::TOTAL_NS).unwrap_or(0);
            let key = self.tables.strings.intern(key);
            let dimensions = [("psi_resource", ArgValue::Text(key))];
            let track = TrackType::counter("psi", &dimensions);
            self.sample(sample, track, value as f64, |strings| joined(strings, "psi.", key, ""));
        }
        Some(())
    }

    fn temperatures(&mut self, sample: &Sample<'_>) {
        for zone in sample.messages(field::THERMAL_ZONE) {
            let kind = self.text(wire::bytes(zone, field::thermal_zone::TYPE));
            let value = wire::number(zone, field::thermal_zone::TEMP).unwrap_or(0);
            let dimensions = [("thermal_zone", ArgValue::Text(kind))];
            let track = TrackType::counter("thermal_temperature_sys", &dimensions).in_unit("C");
            self.sample(sample, track, value as f64, |_| kind);
        }
    }

    fn idle_states(&mut self, sample: &Sample<'_>) {
        for message in sample.messages(field::CPUIDLE_STATE) {
            let cpu = wire::number(message, field::cpu_idle_state::CPU_ID).unwrap_or(0) as u32;
            for entry in wire::all_bytes(message, field::cpu_idle_state::CPUIDLE_STATE_ENTRY) {
                let state = self.text(wire::bytes(entry, field::cpu_idle_state_entry::STATE));
                let value = wire::number(entry, field::cpu_idle_state_entry::DURATION_US).unwrap_or(0);
                let dimensions = [("cpu", ArgValue::Int(i64::from(cpu))), ("state", ArgValue::Text(state))];
                let track = TrackType::counter("cpu_idle_state", &dimensions).in_unit("us");
                self.sample(sample, track, value as f64, |strings| {
                    joined(strings, &format!("cpuidle{cpu}."), state, "")
                });
            }
        }
    }

    fn slabs(&mut self, sample: &Sample<'_>) {
        let page_bytes = self.machines.get(sample.machine).page_bytes;
        for slab in sample.messages(field::SLAB_INFO) {
            let name = self.text(wire::bytes(slab, field::slab_info::NAME));
            let pages_per_slab = wire::number(slab, field::slab_info::PAGES_PER_SLAB).unwrap_or(0);
            let slabs = wire::number(slab, field::slab_info::NUM_SLABS).unwrap_or(0);
            let value = pages_per_slab as f64 * slabs as f64 * f64::from(page_bytes);
            let dimensions = [("slab_name", ArgValue::Text(name))];
            let track = TrackType::counter("slabinfo", &dimensions).in_unit("bytes");
            let row = self.sample(sample, track, value, |strings| joined(strings, "mem.slab.", name, ""));
            let args = [("pages_per_slab", pages_per_slab), ("num_slabs", slabs)];
            let args = args.map(|(key, value)| self.arg(key, ArgValue::Uint(value)));
            let list = self.args.intern(&args);
            let set = self.args.write(list, &mut self.tables);
            self.tables.counter.arg_set_id.set(row, set);
        }
    }

    /// The number of a text out of a message; that of the empty one if there is none.
    pub(crate) fn text(&mut self, bytes: Option<&[u8]>) -> Str {
        self.tables.strings.intern_bytes(bytes.unwrap_or_default())
    }

    /// The same; nothing if there is none.
    pub(crate) fn text_if_any(&mut self, bytes: Option<&[u8]>) -> Option<Str> {
        bytes.map(|bytes| self.tables.strings.intern_bytes(bytes))
    }

    /// An argument whose key has no arrays in it.
    pub(crate) fn arg(&mut self, key: &str, value: ArgValue) -> Arg {
        let key = self.tables.strings.intern(key);
        Arg { flat_key: key, key, value }
    }
}

impl Disk {
    fn of(message: &[u8]) -> Self {
        use field::disk_stat as disk;
        let value = |number| wire::int(message, number).unwrap_or(0);
        Self {
            sectors: [disk::READ_SECTORS, disk::WRITE_SECTORS, disk::DISCARD_SECTORS].map(value),
            times_ms: [disk::READ_TIME_MS, disk::WRITE_TIME_MS, disk::DISCARD_TIME_MS].map(value),
            flushes: value(disk::FLUSH_COUNT),
            flush_time_ms: value(disk::FLUSH_TIME_MS),
        }
    }

    /// What it did meanwhile: counters, units, values.
    fn since(self, before: Self) -> [(&'static str, &'static str, f64); 8] {
        let megabytes = |kind: usize| {
            let [now, then] = [self, before].map(|disk| disk.sectors.get(kind).copied().unwrap_or(0));
            now.wrapping_sub(then) as f64 / SECTORS_PER_MB
        };
        let throughput = |kind: usize| {
            let [now, then] = [self, before].map(|disk| disk.times_ms.get(kind).copied().unwrap_or(0));
            match now.wrapping_sub(then) {
                0 => 0.0,
                ms => megabytes(kind) * MS_PER_S / ms as f64,
            }
        };
        [
            ("read_amount", "MB", megabytes(0)),
            ("read_throughput", "MB/s", throughput(0)),
            ("write_amount", "MB", megabytes(1)),
            ("write_throughput", "MB/s", throughput(1)),
            ("discard_amount", "MB", megabytes(2)),
            ("discard_throughput", "MB/s", throughput(2)),
            ("flush_amount", "count", self.flushes.wrapping_sub(before.flushes) as f64),
            ("flush_time", "ms", self.flush_time_ms.wrapping_sub(before.flush_time_ms) as f64),
        ]
    }
}

fn at<'a>(names: &[&'a str], key: u64) -> Option<&'a str> {
    usize::try_from(key).ok().and_then(|key| names.get(key)).copied()
}

fn joined(strings: &mut Strings, before: &str, middle: Str, after: &str) -> Str {
    let text = [before, strings.get(middle), after].concat();
    strings.intern(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_differences() {
        let before = Disk { sectors: [2048, 0, 0], times_ms: [100, 0, 0], flushes: 1, flush_time_ms: 5 };
        let now = Disk { sectors: [6144, 1024, 0], times_ms: [600, 0, 0], flushes: 3, flush_time_ms: 7 };
        let values = now.since(before).map(|(_, _, value)| value);
        assert_eq!(values, [2.0, 4.0, 0.5, 0.0, 0.0, 0.0, 2.0, 2.0]);
    }

    #[test]
    fn names_are_at_their_numbers() {
        assert_eq!(
            (at(&names::MEMINFO, 1), at(&names::MEMINFO, 38)),
            (Some("MemTotal"), Some("ION_heap_pool"))
        );
        assert_eq!((at(&names::VMSTAT, 1), at(&names::VMSTAT, 1 << 40)), (Some("nr_free_pages"), None));
    }
}
