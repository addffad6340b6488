//! Events of devices that say themselves when what they tell of was (upstream: ftrace_tokenizer.cc, ftrace_parser.cc, thermal_tracker.cc).
//!
//! A row of `ftrace_event` has the time of the kernel, as of all events; what the event tells of has a turn of its own.
//!
//! - `thermal_exynos_acpm_bulk`: the controller has measured it at `timestamp`.
//! - `kgsl_adreno_cmdbatch_*`: what a GPU worked on, in ticks of its own clock. `sync` says how many ticks were at its own time, `retired` since
//!   and until when it worked; either may arrive first, and `timestamp` is the same of both.

use ferretto_trace_tables::MachineId;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::numbers as event;
use super::payload::Payload;
use super::{Cpu, KernelEvent};
use crate::args::ArgValue;
use crate::model::Model;
use crate::order::Order;
use crate::slices::Label;
use crate::stats::Stat;
use crate::tracks::{Blueprint, Dimension};

/// What stands in the place of a message's number in an event that is such a turn; the kernel's numbers are below.
pub(super) const TURN: u32 = u32::MAX;
/// A GPU's clock. Upstream's.
const TICKS_PER_SECOND: i128 = 19_200_000;
/// Zones by their number (kernel: exynos_acpm_tmu.c).
const ZONES: [&str; 7] = ["BIG", "MID", "LITTLE", "GPU", "ISP", "TPU", "AUR"];

const OF_ZONE: &[Dimension] = &[Dimension::Text("thermal_zone")];
const TEMPERATURE: Blueprint = Blueprint::counter("acpm_thermal_temperature", OF_ZONE);
const COOLING: Blueprint = Blueprint::counter("acpm_cooling_device_counter", OF_ZONE);

/// What a machine's devices have said.
#[derive(Debug, Default)]
pub(super) struct OwnTimes {
    /// What waits for its turn, and has had it.
    told: Vec<Told>,
    /// By `timestamp`: when the kernel said how many ticks there were, and how many.
    syncs: HashMap<u64, (i64, u64), RandomState>,
    /// By `timestamp`: what is over and has not been told the time of.
    retired: HashMap<u64, (Cpu, u64, Batch), RandomState>,
    /// By context of a GPU: who fills it.
    queued_by: HashMap<u32, u32, RandomState>,
}

/// What an event tells of.
#[derive(Clone, Copy, Debug)]
enum Told {
    Heat { zone: u32, temperature: u32, cooling: u32 },
    Batch(Batch),
}

/// What a GPU has worked on.
#[derive(Clone, Copy, Debug)]
struct Batch {
    context: u32,
    prio: u32,
    dur: i64,
}

/// Whether an event is one of these.
#[inline]
pub(super) fn is_one(number: u32) -> bool {
    matches!(
        number,
        event::thermal_exynos_acpm_bulk::NUMBER
            | event::kgsl_adreno_cmdbatch_sync::NUMBER
            | event::kgsl_adreno_cmdbatch_retired::NUMBER
    )
}

/// Nanoseconds of so many ticks.
fn nanoseconds(ticks: i128) -> i64 {
    let all = ticks * 1_000_000_000 / TICKS_PER_SECOND;
    i64::try_from(all).unwrap_or(if all < 0 { i64::MIN } else { i64::MAX })
}

/// When a GPU's clock had so many ticks.
fn time_of(ticks: u64, (ts, at): (i64, u64)) -> i64 {
    ts.saturating_add(nanoseconds(i128::from(ticks) - i128::from(at)))
}

impl Model {
    /// An event of these has arrived, whose time is `ts`: what it tells of waits for its turn.
    pub(super) fn own_time(&mut self, order: &mut Order, cpu: Cpu, ts: i64, number: u32, message: &[u8]) {
        let payload = Payload::of(message);
        match number {
            event::thermal_exynos_acpm_bulk::NUMBER => {
                use event::thermal_exynos_acpm_bulk as field;
                if !payload.has(field::TIMESTAMP) {
                    self.stats.count(Stat::FtraceBundleTokenizerErrors);
                    return;
                }
                let told = Told::Heat {
                    zone: payload.u32(field::TZ_ID),
                    temperature: payload.u32(field::CURRENT_TEMP),
                    cooling: payload.u32(field::CDEV_STATE),
                };
                self.wait_for_turn(order, cpu, payload.i64(field::TIMESTAMP), told);
            }
            event::kgsl_adreno_cmdbatch_sync::NUMBER => {
                use event::kgsl_adreno_cmdbatch_sync as field;
                let key = payload.u64(field::TIMESTAMP);
                let sync = (ts, payload.u64(field::TICKS));
                let own = &mut self.kernel(cpu.machine).own_times;
                match own.retired.remove(&key) {
                    Some((cpu, start, batch)) => {
                        self.wait_for_turn(order, cpu, time_of(start, sync), Told::Batch(batch));
                    }
                    None => drop(own.syncs.insert(key, sync)),
                }
            }
            event::kgsl_adreno_cmdbatch_retired::NUMBER => {
                use event::kgsl_adreno_cmdbatch_retired as field;
                let key = payload.u64(field::TIMESTAMP);
                let (start, end) = (payload.u64(field::START), payload.u64(field::RETIRE));
                let Some(ticks) = end.checked_sub(start) else { return };
                let batch = Batch {
                    context: payload.u32(field::ID),
                    prio: payload.u32(field::PRIO),
                    dur: nanoseconds(ticks.into()),
                };
                let own = &mut self.kernel(cpu.machine).own_times;
                match own.syncs.remove(&key) {
                    Some(sync) => {
                        self.wait_for_turn(order, cpu, time_of(start, sync), Told::Batch(batch));
                    }
                    None => drop(own.retired.insert(key, (cpu, start, batch))),
                }
            }
            _ => {}
        }
    }

    fn wait_for_turn(&mut self, order: &mut Order, cpu: Cpu, ts: i64, told: Told) {
        if ts < 0 {
            self.stats.count(Stat::TraceSorterNegativeTimestampDropped);
            return;
        }
        let own = &mut self.kernel(cpu.machine).own_times;
        let Ok(at) = u32::try_from(own.told.len()) else { return };
        own.told.push(told);
        order.push_kernel(cpu, ts, KernelEvent { bundle: 0, at, len: 0, field: TURN, tid: None });
    }

    /// What an event told of has its turn.
    pub(super) fn apply_own_time(&mut self, ts: i64, cpu: Cpu, at: u32) {
        match self.kernel(cpu.machine).own_times.told.get(at as usize) {
            Some(Told::Heat { zone, temperature, cooling }) => {
                let (zone, temperature, cooling) = (*zone, *temperature, *cooling);
                self.heat(ts, cpu.machine, zone, temperature, cooling);
            }
            Some(Told::Batch(batch)) => {
                let batch = *batch;
                self.batch(ts, cpu.machine, batch);
            }
            None => {}
        }
    }

    fn heat(&mut self, ts: i64, machine: MachineId, zone: u32, temperature: u32, cooling: u32) {
        // A zone that has no name is left out.
        let Some(name) = ZONES.get(zone as usize) else { return };
        let args = [("thermal_zone_id", ArgValue::Int(zone.into()))];
        let track = self.text_track(&TEMPERATURE, machine, name, |name| format!("{name} Temperature"));
        self.counter_with(ts, track, temperature.into(), &args);
        let track = self.text_track(&COOLING, machine, name, |name| format!("Tj-{name} Cooling Device"));
        self.counter_with(ts, track, cooling.into(), &args);
    }

    /// A thread fills a context of a GPU.
    pub(super) fn batch_queued(&mut self, machine: MachineId, tid: u32, payload: &Payload<'_>) {
        let context = payload.u32(event::kgsl_adreno_cmdbatch_queued::ID);
        self.kernel(machine).own_times.queued_by.insert(context, tid);
    }

    fn batch(&mut self, ts: i64, machine: MachineId, batch: Batch) {
        let Batch { context, prio, dur } = batch;
        let process = self.kernel(machine).own_times.queued_by.get(&context).copied();
        let process = process.and_then(|tid| {
            let utid = self.kernel_thread(machine, tid);
            let upid = self.tables.thread.upid.get(utid.index())?;
            let name = self.tables.process.name.get(upid.index()).copied().flatten()?;
            Some(self.tables.strings.get(name).to_owned())
        });
        let is_named = process.is_some();
        let process = process.map(|name| format!("{name} ")).unwrap_or_default();
        let name = self.tables.strings.intern(&format!("GPU {process}(Ctx={context}, Prio={prio})"));
        let mut key = self.global_set("adreno_gpu_cmdbatch", machine);
        key.numbers = [context.into(), prio.into()];
        let dimensions =
            [("context_id", ArgValue::Int(context.into())), ("prio", ArgValue::Int(prio.into()))];
        let Some(track) = self.scoped_on_set(key, ts, dur, Some(name), &dimensions) else { return };
        // It may have been made before anybody knew whose it is.
        if is_named && let Some(cell) = self.tables.track.name.get_mut(track.index()) {
            *cell = Some(name);
        }
        let label = Label { name: Some(self.tables.strings.intern("GPU")), ..Label::default() };
        let (slices, mut out) = self.slices();
        slices.complete(&mut out, ts, dur, track, label);
    }
}
