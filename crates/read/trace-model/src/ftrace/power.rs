//! The machine and its devices go to sleep and wake up; processors come and go (upstream: ftrace_parser.cc).

use ferretto_trace_tables::TrackId;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use super::apply::At;
use super::numbers as event;
use super::on_tracks::{NONE, OF_CPU, cut};
use super::payload::Payload;
use crate::args::ArgValue;
use crate::model::Model;
use crate::tracks::{Blueprint, Dimension, Dimensions};

const MINIMAL: Blueprint = Blueprint::slice("suspend_resume_minimal", NONE);
const WAKELOCK: Blueprint = Blueprint::slice("wakesource_wakelock", &[Dimension::Text("wakelock_event")]);
/// Upstream calls it a counter, but it has slices.
const RUNTIME_POWER: Blueprint = Blueprint::counter("linux_rpm", &[Dimension::Text("linux_device")]);
/// The same.
const BLOCK_IO: Blueprint = Blueprint::counter("block_io", &[Dimension::Number("block_device")]);
const HOTPLUG: Blueprint = Blueprint::slice("cpu_hotplug", OF_CPU);
/// What suspends or resumes lies on a set of tracks.
const SUSPEND_RESUME: (&str, &str) = ("suspend_resume", "Suspend/Resume Latency");

/// What is kept of how a machine sleeps.
#[derive(Debug, Default)]
pub(super) struct Power {
    /// How often each wake source is active.
    wakelocks: HashMap<Vec<u8>, u32, RandomState>,
    /// Devices that have a slice.
    active_devices: HashSet<TrackId, RandomState>,
    suspend: Suspend,
}

/// How far a suspend has come. A kernel that fails to freeze processes does not end `suspend_enter`.
#[derive(Clone, Copy, Debug, Default)]
enum Suspend {
    #[default]
    None,
    /// `suspend_enter` has begun, with this cookie.
    Enter(i64),
    /// Then `freeze_processes`.
    Freeze(i64),
}

/// Phases of device callbacks that are told by how their operation begins.
const PHASES: [&str; 3] = ["early", "late", "noirq"];

impl Model {
    /// Whether an event is of these; if so, it has its slice.
    pub(super) fn power(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>) -> bool {
        let (ts, machine) = (at.ts, at.cpu.machine);
        match number {
            event::suspend_resume::NUMBER => self.suspend_resume(at, payload),
            event::suspend_resume_minimal::NUMBER => {
                let track = self.kernel_track(&MINIMAL, machine, Dimensions::default(), |strings| {
                    strings.intern("Suspend/Resume Minimal")
                });
                if payload.u64(event::suspend_resume_minimal::START) != 0 {
                    let name = self.tables.strings.intern("Suspended");
                    self.begin_slice(ts, track, None, Some(name), &[]);
                } else {
                    self.end_slice(ts, track, None, None, &[]);
                }
            }
            event::device_pm_callback_start::NUMBER => self.device_callback_start(at, payload),
            event::device_pm_callback_end::NUMBER => {
                use event::device_pm_callback_end as field;
                let name = format!("{} {}", payload.text(field::DEVICE), payload.text(field::DRIVER));
                self.end_suspend(at, &name);
            }
            event::wakeup_source_activate::NUMBER => {
                self.wakelock(at, payload.bytes(event::wakeup_source_activate::NAME), true);
            }
            event::wakeup_source_deactivate::NUMBER => {
                self.wakelock(at, payload.bytes(event::wakeup_source_deactivate::NAME), false);
            }
            event::rpm_status::NUMBER => self.runtime_power(at, payload),
            event::cpuhp_enter::NUMBER | event::cpuhp_multi_enter::NUMBER => {
                use event::cpuhp_enter as field;
                let idx = payload.i32(field::IDX);
                let name = self.tables.strings.intern(&format!("cpuhp({idx})"));
                let track = self.hotplug_track(at, payload.u32(field::CPU));
                let args = [
                    ("action_cpu", ArgValue::Uint(at.cpu.cpu.into())),
                    ("cpuhp_idx", ArgValue::Int(idx.into())),
                ];
                self.begin_slice(ts, track, Some("cpu"), Some(name), &args);
            }
            event::cpuhp_exit::NUMBER => {
                let track = self.hotplug_track(at, payload.u32(event::cpuhp_exit::CPU));
                self.end_slice(ts, track, None, None, &[]);
            }
            event::block_io_start::NUMBER => {
                use event::block_io_start as field;
                let (track, name, sector) =
                    self.block_io(at, payload.u64(field::DEV), payload.u64(field::SECTOR));
                self.begin_slice(ts, track, None, Some(name), &[("sector", sector)]);
            }
            event::block_io_done::NUMBER => {
                use event::block_io_done as field;
                let (track, name, sector) =
                    self.block_io(at, payload.u64(field::DEV), payload.u64(field::SECTOR));
                self.end_slice(ts, track, None, Some(name), &[("sector", sector)]);
            }
            _ => return false,
        }
        true
    }

    fn suspend_resume(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::suspend_resume as field;
        let action = payload.text(field::ACTION);
        // Its value is a processor, and another one may wake up.
        let value = if action == "timekeeping_freeze" { 0 } else { payload.i32(field::VAL) };
        let name = cut(format!("{action}({value})"), 64);
        if payload.u64(field::START) == 0 {
            self.end_suspend(at, &name);
            let power = &mut self.kernel(at.cpu.machine).power;
            match (action.as_ref(), power.suspend) {
                ("suspend_enter", _) => power.suspend = Suspend::None,
                ("thaw_processes", Suspend::Freeze(cookie)) => {
                    power.suspend = Suspend::None;
                    self.end_suspend_of(at, cookie);
                }
                _ => {}
            }
            return;
        }
        let cookie = self.tables.strings.intern(&name).index() as i64;
        let power = &mut self.kernel(at.cpu.machine).power;
        match (action.as_ref(), power.suspend) {
            ("suspend_enter", _) => power.suspend = Suspend::Enter(cookie),
            ("freeze_processes", Suspend::Enter(cookie)) => power.suspend = Suspend::Freeze(cookie),
            _ => {}
        }
        let kind = self.text_arg("Main Kernel Suspend Event");
        self.begin_suspend(at, &name, kind, [ArgValue::NoText; 3]);
    }

    fn device_callback_start(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::device_pm_callback_start as field;
        let (device, driver) = (payload.text(field::DEVICE), payload.text(field::DRIVER));
        let phase = callback_phase(&payload.text(field::PM_OPS), pm_event(payload.i32(field::EVENT)));
        let kind = self.text_arg("Device PM Suspend Event");
        let of = [self.text_arg(&device), self.text_arg(&driver), self.text_arg(&phase)];
        self.begin_suspend(at, &format!("{device} {driver}"), kind, of);
    }

    fn begin_suspend(
        &mut self,
        at: At<'_>,
        name: &str,
        kind: ArgValue,
        [device, driver, phase]: [ArgValue; 3],
    ) {
        let (type_, track_name) = SUSPEND_RESUME;
        let set = self.global_set(type_, at.cpu.machine);
        let name = self.tables.strings.intern(name);
        let track_name = self.tables.strings.intern(track_name);
        let Some(track) = self.begin_on_set(set, name.index() as i64, Some(track_name), &[]) else { return };
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let args = [
            ("utid", ArgValue::Uint(utid.0.into())),
            ("event_type", kind),
            ("cpu", ArgValue::Uint(at.cpu.cpu.into())),
            ("device_name", device),
            ("driver_name", driver),
            ("callback_phase", phase),
        ];
        self.begin_slice(at.ts, track, None, Some(name), &args);
    }

    fn end_suspend(&mut self, at: At<'_>, name: &str) {
        let cookie = self.tables.strings.intern(name).index() as i64;
        self.end_suspend_of(at, cookie);
    }

    fn end_suspend_of(&mut self, at: At<'_>, cookie: i64) {
        let (type_, track_name) = SUSPEND_RESUME;
        let set = self.global_set(type_, at.cpu.machine);
        let track_name = self.tables.strings.intern(track_name);
        if let Some(track) = self.end_on_set(set, cookie, Some(track_name), &[]) {
            self.end_slice(at.ts, track, None, None, &[]);
        }
    }

    /// A wake source may be activated several times: it is one slice.
    fn wakelock(&mut self, at: At<'_>, name: &[u8], is_active: bool) {
        let count = self.kernel(at.cpu.machine).power.wakelocks.entry_ref(name).or_insert(0);
        let before = *count;
        *count = if is_active { before.saturating_add(1) } else { before.saturating_sub(1) };
        if before != u32::from(!is_active) {
            return;
        }
        let text = String::from_utf8_lossy(name);
        let title = cut(format!("Wakelock({text})"), 32);
        let track = self.text_track(&WAKELOCK, at.cpu.machine, &text, |_| title.clone());
        if is_active {
            let name = self.tables.strings.intern(&title);
            self.begin_slice(at.ts, track, None, Some(name), &[]);
        } else {
            self.end_slice(at.ts, track, None, None, &[]);
        }
    }

    fn runtime_power(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::rpm_status as field;
        let device = payload.text(field::NAME);
        let dimension = self.tables.strings.intern(&device);
        let dimensions = Dimensions { text: Some(dimension), ..Dimensions::default() };
        let to = (&mut self.tables, &mut self.args);
        let track = self.tracks.intern(to, &RUNTIME_POWER, at.cpu.machine, dimensions, |_| None);
        if self.kernel(at.cpu.machine).power.active_devices.contains(&track) {
            self.end_slice(at.ts, track, None, None, &[]);
        }
        let status = match payload.i32(field::STATUS) {
            // Most devices are suspended most of the time: that has no slice.
            2 => {
                self.kernel(at.cpu.machine).power.active_devices.remove(&track);
                return;
            }
            0 => "Active",
            1 => "Resuming",
            3 => "Suspending",
            _ => "Invalid State",
        };
        let name = self.tables.strings.intern(status);
        self.begin_slice(at.ts, track, None, Some(name), &[]);
        self.kernel(at.cpu.machine).power.active_devices.insert(track);
    }

    fn hotplug_track(&mut self, at: At<'_>, cpu: u32) -> TrackId {
        self.cpu_track(&HOTPLUG, at.cpu.machine, cpu, |strings| strings.intern(&format!("CPU Hotplug {cpu}")))
    }

    fn block_io(
        &mut self,
        at: At<'_>,
        device: u64,
        sector: u64,
    ) -> (TrackId, ferretto_trace_tables::Str, ArgValue) {
        let dimensions = Dimensions { number: Some(i64::from(device as u32)), ..Dimensions::default() };
        let to = (&mut self.tables, &mut self.args);
        let track = self.tracks.intern(to, &BLOCK_IO, at.cpu.machine, dimensions, |_| None);
        (track, self.tables.strings.intern("block_io"), ArgValue::Uint(sector))
    }
}

/// `PM_EVENT_…` of include/linux/pm.h.
fn pm_event(number: i32) -> &'static str {
    match number {
        0x1 => "freeze",
        0x2 => "suspend",
        0x4 => "hibernate",
        0x8 => "quiesce",
        0x10 => "resume",
        0x20 => "thaw",
        0x40 => "restore",
        0x80 => "recover",
        _ => "(unknown PM event)",
    }
}

/// Such as `suspend`, `suspend:late`, `resume:noirq`. The kernel says nothing in the first and the last phase.
fn callback_phase(operation: &str, event: &str) -> String {
    let phase = match (operation, event) {
        ("", "suspend") => Some("prepare"),
        ("", "resume") => Some("complete"),
        _ => PHASES.iter().find(|phase| operation.starts_with(**phase)).copied(),
    };
    match phase {
        Some(phase) => format!("{event}:{phase}"),
        None => event.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_of_callbacks_are_told_by_their_operations() {
        for (operation, event, expected) in [
            ("", 0x2, "suspend:prepare"),
            ("", 0x10, "resume:complete"),
            ("late bus", 0x2, "suspend:late"),
            ("noirq driver", 0x10, "resume:noirq"),
            ("bus", 0x2, "suspend"),
            ("", 0x1, "freeze"),
        ] {
            assert_eq!(callback_phase(operation, pm_event(event)), expected);
        }
    }
}
