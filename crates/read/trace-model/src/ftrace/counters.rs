//! Counters of processors, clocks and devices (upstream: ftrace_parser.cc, thermal_tracker.cc, tracks_common.h).

use super::numbers as event;
use super::on_tracks::OF_CPU;
use super::payload::Payload;
use crate::args::ArgValue;
use crate::counters::TrackType;
use crate::model::Model;
use crate::tracks::{Blueprint, Dimension};
use ferretto_trace_tables::MachineId;

const OF_DEVICE: &[Dimension] = &[Dimension::Text("linux_device")];

const MAX_LIMIT: Blueprint = Blueprint::counter("cpu_max_frequency_limit", OF_CPU);
const MIN_LIMIT: Blueprint = Blueprint::counter("cpu_min_frequency_limit", OF_CPU);
const THROTTLE: Blueprint = Blueprint::counter("cpu_frequency_throttle", OF_CPU);
const UTILIZATION: Blueprint = Blueprint::counter("cpu_utilization", OF_CPU);
const CAPACITY: Blueprint = Blueprint::counter("cpu_capacity", OF_CPU);
const RUNNING: Blueprint = Blueprint::counter("cpu_nr_running", OF_CPU);
const CLOCK_STATE: Blueprint = Blueprint::counter("clock_state", OF_DEVICE);
const DEVICE_FREQUENCY: Blueprint = Blueprint::counter("linux_device_frequency", OF_DEVICE);
const TEMPERATURE: Blueprint = Blueprint::counter("thermal_temperature", &[Dimension::Text("thermal_zone")]);
const COOLING: Blueprint = Blueprint::counter("cooling_device_counter", OF_DEVICE);

impl Model {
    /// Whether an event is a counter's; if so, it has its values.
    pub(super) fn kernel_counter(
        &mut self,
        ts: i64,
        machine: MachineId,
        number: u32,
        payload: &Payload<'_>,
    ) -> bool {
        match number {
            event::cpu_frequency::NUMBER => {
                use event::cpu_frequency as field;
                let (cpu, khz) = (payload.u32(field::CPU_ID), payload.u32(field::STATE));
                self.cpu_frequency(ts, machine, cpu, khz.into());
            }
            event::cpu_idle::NUMBER => {
                use event::cpu_idle as field;
                let (cpu, state) = (payload.u32(field::CPU_ID), payload.u32(field::STATE));
                self.cpu_idle(ts, machine, cpu, state.into());
            }
            event::cpu_frequency_limits::NUMBER => {
                use event::cpu_frequency_limits as field;
                let cpu = payload.u32(field::CPU_ID);
                self.cpu_max_limit(ts, machine, cpu, payload.u32(field::MAX_FREQ).into());
                self.cpu_min_limit(ts, machine, cpu, payload.u32(field::MIN_FREQ).into());
            }
            event::dcvsh_freq::NUMBER => {
                use event::dcvsh_freq as field;
                let cpu = payload.u64(field::CPU) as u32;
                let track =
                    self.cpu_track(&THROTTLE, machine, cpu, |strings| strings.intern("cpufreq_throttle"));
                self.push_counter(ts, track, payload.u64(field::FREQ) as f64);
            }
            event::sched_cpu_util_cfs::NUMBER => self.utilization(ts, machine, payload),
            event::clock_set_rate::NUMBER => {
                use event::clock_set_rate as field;
                self.clock_rate(ts, machine, &payload.text(field::NAME), payload.u64(field::STATE) as f64);
            }
            event::clock_enable::NUMBER | event::clock_disable::NUMBER => {
                use event::clock_enable as field;
                self.clock_state(ts, machine, &payload.text(field::NAME), payload.u64(field::STATE) as f64);
            }
            event::devfreq_frequency::NUMBER => {
                use event::devfreq_frequency as field;
                let name = payload.text(field::DEV_NAME);
                let track = self.text_track(&DEVICE_FREQUENCY, machine, &name, device_name);
                self.push_counter(ts, track, payload.u64(field::FREQ) as f64);
            }
            event::thermal_temperature::NUMBER => {
                use event::thermal_temperature as field;
                let zone = payload.text(field::THERMAL_ZONE);
                self.temperature(ts, machine, &zone, payload.i32(field::TEMP).into());
            }
            event::cros_ec_sensorhub_data::NUMBER => self.sensor_hub(ts, machine, payload),
            event::cdev_update::NUMBER => {
                use event::cdev_update as field;
                self.cooling(ts, machine, &payload.text(field::TYPE), payload.u64(field::TARGET) as f64);
            }
            _ => return false,
        }
        true
    }

    /// How fast a processor runs.
    pub(crate) fn cpu_frequency(&mut self, ts: i64, machine: MachineId, cpu: u32, khz: f64) {
        self.shared_cpu_counter(ts, machine, ("cpu_frequency", "cpufreq"), cpu, khz);
    }

    /// How deep a processor sleeps.
    pub(super) fn cpu_idle(&mut self, ts: i64, machine: MachineId, cpu: u32, state: f64) {
        self.shared_cpu_counter(ts, machine, ("cpu_idle", "cpuidle"), cpu, state);
    }

    /// How fast a processor may run.
    pub(super) fn cpu_max_limit(&mut self, ts: i64, machine: MachineId, cpu: u32, khz: f64) {
        self.cpu_counter(ts, machine, &MAX_LIMIT, cpu, khz, |cpu| format!("Cpu {cpu} Max Freq Limit"));
    }

    /// How fast a processor must run.
    pub(super) fn cpu_min_limit(&mut self, ts: i64, machine: MachineId, cpu: u32, khz: f64) {
        self.cpu_counter(ts, machine, &MIN_LIMIT, cpu, khz, |cpu| format!("Cpu {cpu} Min Freq Limit"));
    }

    /// How fast a clock of the hardware ticks.
    pub(super) fn clock_rate(&mut self, ts: i64, machine: MachineId, name: &str, rate: f64) {
        let dimensions = [("linux_device", self.text_arg(name))];
        let track = TrackType::counter("clock_frequency", &dimensions);
        let track = self.track(machine, track, |strings| strings.intern(&format!("{name} Frequency")));
        self.push_counter(ts, track, rate);
    }

    /// Whether it ticks.
    pub(super) fn clock_state(&mut self, ts: i64, machine: MachineId, name: &str, state: f64) {
        let track = self.text_track(&CLOCK_STATE, machine, name, |name| format!("{name} State"));
        self.push_counter(ts, track, state);
    }

    /// How hot a zone is.
    pub(super) fn temperature(&mut self, ts: i64, machine: MachineId, zone: &str, value: f64) {
        let track = self.text_track(&TEMPERATURE, machine, zone, |zone| format!("{zone} Temperature"));
        self.push_counter(ts, track, value);
    }

    /// How much a device shall cool.
    pub(super) fn cooling(&mut self, ts: i64, machine: MachineId, device: &str, target: f64) {
        let track = self.text_track(&COOLING, machine, device, |device| format!("{device} Cooling Device"));
        self.push_counter(ts, track, target);
    }

    /// How late a sample of ChromeOS' controller is.
    fn sensor_hub(&mut self, ts: i64, machine: MachineId, payload: &Payload<'_>) {
        use event::cros_ec_sensorhub_data as field;
        let sensor = payload.u32(field::EC_SENSOR_NUM);
        let dimensions = [("ec_sensor_num", ArgValue::Int(sensor.into()))];
        let track = TrackType::counter("cros_ec_sensorhub_data", &dimensions);
        let name = format!("cros_ec.cros_ec_sensorhub_data.{sensor}");
        let track = self.track(machine, track, |strings| strings.intern(&name));
        let sampled = payload.i64(field::CURRENT_TIMESTAMP);
        let since = |field| payload.i64(field).wrapping_sub(sampled);
        let args = [
            ("ec_num", ArgValue::Int(sensor.into())),
            ("ec_delta", ArgValue::Int(since(field::FIFO_TIMESTAMP))),
            ("sample_ts", ArgValue::Int(sampled)),
        ];
        self.counter_with(ts, track, since(field::CURRENT_TIME) as f64, &args);
    }

    /// A counter whose track is also that of values which were polled.
    fn shared_cpu_counter(
        &mut self,
        ts: i64,
        machine: MachineId,
        (type_, name): (&'static str, &'static str),
        cpu: u32,
        value: f64,
    ) {
        let dimensions = [("cpu", ArgValue::Int(i64::from(cpu)))];
        let track = TrackType::counter(type_, &dimensions);
        let track = self.track(machine, track, |strings| strings.intern(name));
        self.push_counter(ts, track, value);
    }

    fn cpu_counter(
        &mut self,
        ts: i64,
        machine: MachineId,
        blueprint: &Blueprint,
        cpu: u32,
        value: f64,
        name: impl FnOnce(u32) -> String,
    ) {
        let track = self.cpu_track(blueprint, machine, cpu, |strings| strings.intern(&name(cpu)));
        self.push_counter(ts, track, value);
    }

    fn utilization(&mut self, ts: i64, machine: MachineId, payload: &Payload<'_>) {
        use event::sched_cpu_util_cfs as field;
        let cpu = payload.u32(field::CPU);
        let track =
            self.cpu_track(&UTILIZATION, machine, cpu, |strings| strings.intern(&format!("Cpu {cpu} Util")));
        self.push_counter(ts, track, payload.u64(field::CPU_UTIL) as f64);
        let track =
            self.cpu_track(&CAPACITY, machine, cpu, |strings| strings.intern(&format!("Cpu {cpu} Cap")));
        self.push_counter(ts, track, payload.u32(field::CAPACITY).into());
        let track = self
            .cpu_track(&RUNNING, machine, cpu, |strings| strings.intern(&format!("Cpu {cpu} Nr Running")));
        self.push_counter(ts, track, payload.u32(field::NR_RUNNING).into());
    }
}

/// A device's name without the address before it: `17000000a.devfreq_bci` is `devfreq_bci`.
fn device_name(name: &str) -> String {
    match name.find("devfreq_") {
        Some(at) => name.get(at..).unwrap_or(name).to_owned(),
        None => format!("devfreq_{name}"),
    }
}
