//! What programs and drivers write into `trace_marker` by Android's conventions (upstream: systrace_parser.cc).
//!
//! ```text
//! B|pid|name              a slice of the thread begins        E|pid              it ends
//! S|pid|name|cookie       one of the process begins           F|pid|name|cookie  it ends
//! G|pid|track|name|cookie the same on a track                 H|pid|track|cookie it ends
//! I|pid|name              something happens at once           N|pid|track|name   on a track
//! C|pid|name|value        a counter has a value
//! ```

use ferretto_trace_tables::{MachineId, Str, TrackId, Upid, Utid};

use super::apply::At;
use super::numbers as event;
use super::on_tracks::{NONE, OF_PROCESS};
use super::payload::Payload;
use crate::args::ArgValue;
use crate::counters::TrackType;
use crate::model::Model;
use crate::stats::Stat;
use crate::track_sets::SetKey;
use crate::tracks::{Blueprint, Dimensions};

const LMK: Blueprint = Blueprint::slice("android_lmk", OF_PROCESS);
const DEVICE_STATE: Blueprint = Blueprint::slice("android_device_state", NONE);
const ASYNC: &str = "atrace_async_slice";
const ASYNC_ON_TRACK: &str = "atrace_async_slice_for_track";

/// A line, or an event of a driver that says the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Point<'a> {
    phase: u8,
    tgid: u32,
    name: &'a str,
    /// A counter's value, or a cookie.
    value: i64,
    track: &'a str,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    Point(Point<'a>),
    /// The recorder's own.
    Ignored,
    /// None of these.
    Other,
}

impl<'a> Line<'a> {
    fn of(text: &'a str) -> Self {
        let text = text.trim_end_matches(['\n', '\0']);
        let mut rest = Some(text);
        let mut next = || -> &'a str {
            let Some(here) = rest else { return "" };
            let (field, after) = match here.find(['|', '\0']) {
                Some(at) => (here.get(..at).unwrap_or_default(), here.get(at + 1..)),
                None => (here, None),
            };
            rest = after;
            field
        };
        let Some(phase) = next().bytes().next() else { return Self::Other };
        let tgid: Option<u32> = next().parse().ok();
        let mut point = Point { phase, tgid: tgid.unwrap_or(0), ..Point::default() };
        match phase {
            b'B' => {
                point.name = match rest.unwrap_or_default() {
                    "" => "[empty slice name]",
                    name => name,
                };
            }
            // Some write no process here.
            b'E' => return Self::Point(point),
            b'I' => point.name = next(),
            b'S' | b'F' | b'C' => {
                point.name = next();
                let Ok(value) = next().parse() else { return Self::Other };
                point.value = value;
            }
            b'N' => {
                point.track = next();
                point.name = next();
            }
            b'G' => {
                point.track = next();
                point.name = next();
                let Ok(value) = next().parse() else { return Self::Other };
                point.value = value;
            }
            b'H' => {
                point.track = next();
                // Some repeat the name before the cookie.
                let (first, second) = (next(), next());
                let Ok(value) = (if second.is_empty() { first } else { second }).parse() else {
                    return Self::Other;
                };
                point.value = value;
            }
            _ if text.starts_with("trace_event_clock_sync:") => return Self::Ignored,
            _ => return Self::Other,
        }
        let has_name = !point.name.is_empty() || phase == b'H';
        let has_track = !point.track.is_empty() || !matches!(phase, b'N' | b'G' | b'H');
        match tgid.is_some() && has_name && has_track {
            true => Self::Point(point),
            false => Self::Other,
        }
    }
}

impl Model {
    /// Whether an event is of these; if so, it is done.
    pub(super) fn atrace(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>) -> bool {
        match number {
            event::print::NUMBER => {
                self.end_write(at);
                self.print(at, &payload.text(event::print::BUF));
            }
            event::zero::NUMBER => {
                use event::zero as field;
                let flag = payload.i32(field::FLAG);
                let phase = match flag {
                    _ if flag & 1 != 0 => b'B',
                    _ if flag & 2 != 0 => b'E',
                    _ if flag & 4 != 0 => b'C',
                    _ => {
                        self.stats.count(Stat::SystraceParseFailure);
                        return true;
                    }
                };
                let name = payload.text(field::NAME);
                let value = payload.i64(field::VALUE);
                self.point(at, Point { phase, tgid: payload.u32(field::PID), name: &name, value, track: "" });
            }
            _ => return self.driver_marker(at, number, payload),
        }
        true
    }

    /// What a program wrote.
    pub(super) fn print(&mut self, at: At<'_>, text: &str) {
        match Line::of(text) {
            Line::Point(point) => self.point(at, point),
            Line::Ignored => {}
            Line::Other => self.stats.count(Stat::SystraceParseFailure),
        }
    }

    /// Drivers have events of their own that say the same.
    fn driver_marker(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>) -> bool {
        // Where the fields are: pid, name, type, value, and whether it begins.
        let (pid, name, kind, value, begin) = match number {
            event::tracing_mark_write::NUMBER => {
                use event::tracing_mark_write as field;
                (field::PID, field::TRACE_NAME, 0, 0, field::TRACE_BEGIN)
            }
            event::sde_tracing_mark_write::NUMBER => {
                use event::sde_tracing_mark_write as field;
                (field::PID, field::TRACE_NAME, field::TRACE_TYPE, field::VALUE, field::TRACE_BEGIN)
            }
            event::samsung_tracing_mark_write::NUMBER => {
                use event::samsung_tracing_mark_write as field;
                (field::PID, field::TRACE_NAME, field::TRACE_TYPE, field::VALUE, 0)
            }
            event::dpu_tracing_mark_write::NUMBER => {
                use event::dpu_tracing_mark_write as field;
                (field::PID, field::NAME, field::TYPE, field::VALUE, 0)
            }
            event::g2d_tracing_mark_write::NUMBER => {
                use event::g2d_tracing_mark_write as field;
                (field::PID, field::NAME, field::TYPE, field::VALUE, 0)
            }
            event::mali_tracing_mark_write::NUMBER => {
                use event::mali_tracing_mark_write as field;
                (field::PID, field::NAME, field::TYPE, field::VALUE, 0)
            }
            event::lwis_tracing_mark_write::NUMBER => {
                use event::lwis_tracing_mark_write as field;
                (field::PID, field::FUNC_NAME, field::TYPE, field::VALUE, 0)
            }
            event::panel_write_generic::NUMBER => {
                use event::panel_write_generic as field;
                (field::PID, field::NAME, field::TYPE, field::VALUE, 0)
            }
            _ => return false,
        };
        let phase = match (payload.u64(kind) as u8, begin != 0 && payload.has(begin)) {
            (0, true) if payload.u64(begin) != 0 => b'B',
            (0, true) => b'E',
            (phase @ (b'B' | b'E' | b'C' | b'I'), _) => phase,
            _ => {
                self.stats.count(Stat::SystraceParseFailure);
                return true;
            }
        };
        let text = payload.text(name);
        // This one's threads claim to be of other processes; its counters are known by those.
        let is_dpu = number == event::dpu_tracing_mark_write::NUMBER;
        let tgid = if is_dpu && phase != b'C' { 0 } else { payload.u32(pid) };
        self.point(at, Point { phase, tgid, name: &text, value: payload.i64(value), track: "" });
        true
    }

    fn point(&mut self, at: At<'_>, point: Point<'_>) {
        let machine = at.cpu.machine;
        let name = self.tables.strings.intern(point.name);
        match point.phase {
            b'B' => {
                let track = self.track_of_point(at, point);
                self.begin_slice(at.ts, track, None, Some(name), &[]);
                self.killed(at, point.name);
            }
            b'E' => {
                let (_, processes) = self.processes(machine);
                if point.tgid == 0 && processes.find_thread(at.tid.into()).is_none() {
                    return;
                }
                let track = self.track_of_point(at, point);
                self.end_slice(at.ts, track, None, None, &[]);
            }
            b'I' => {
                let track = self.track_of_point(at, point);
                self.instant(at.ts, track, None, Some(name), &[]);
            }
            b'S' => self.async_begin(at, point, name),
            b'F' => {
                let (key, dimensions) = self.async_set(ASYNC, machine, point.tgid, point.name);
                if let Some(track) = self.end_on_set(key, point.value, Some(name), &dimensions) {
                    self.async_end(at.ts, track);
                }
            }
            b'N' | b'G' | b'H' => self.on_named_track(at, point, name),
            b'C' => self.atrace_counter(at, point),
            _ => {}
        }
    }

    fn track_of_point(&mut self, at: At<'_>, point: Point<'_>) -> TrackId {
        let (tables, processes) = self.processes(at.cpu.machine);
        let utid = match point.tgid {
            0 => processes.thread(tables, at.tid.into()),
            tgid => processes.thread_of(tables, at.tid.into(), tgid.into()),
        };
        self.main_track(at.cpu.machine, utid)
    }

    fn process_of(&mut self, machine: MachineId, pid: u32) -> Upid {
        let (tables, processes) = self.processes(machine);
        processes.process(tables, pid.into())
    }

    fn async_set(
        &mut self,
        type_: &'static str,
        machine: MachineId,
        pid: u32,
        name: &str,
    ) -> (SetKey, [(&'static str, ArgValue); 2]) {
        let upid = self.process_of(machine, pid);
        let name = self.tables.strings.intern(name);
        let key = SetKey {
            type_,
            machine,
            utid: None,
            upid: Some(upid),
            numbers: [0; 2],
            texts: [Some(name), None],
        };
        (key, [("upid", ArgValue::Int(upid.0.into())), ("name", ArgValue::Text(name))])
    }

    /// Programs begin such a slice twice and end it once: the second begin is only counted.
    fn async_begin(&mut self, at: At<'_>, point: Point<'_>, name: Str) {
        let (key, dimensions) = self.async_set(ASYNC, at.cpu.machine, point.tgid, point.name);
        let Some(track) = self.begin_on_set(key, point.value, Some(name), &dimensions) else { return };
        let begins = self.async_begins.entry(track).or_default();
        begins.0 = begins.0.saturating_add(1);
        begins.1 = at.ts;
        let (slices, _) = self.slices();
        if slices.top(track).is_none() {
            self.begin_slice(at.ts, track, None, Some(name), &[("cookie", ArgValue::Int(point.value))]);
        }
    }

    fn async_end(&mut self, ts: i64, track: TrackId) {
        let (count, last_ts) = self.async_begins.get(&track).copied().unwrap_or_default();
        let args = [
            ("legacy_unnestable_begin_count", ArgValue::Int(count)),
            ("legacy_unnestable_last_begin_ts", ArgValue::Int(last_ts)),
        ];
        self.end_slice(ts, track, None, None, if count == 0 { &[] } else { &args });
    }

    fn on_named_track(&mut self, at: At<'_>, point: Point<'_>, name: Str) {
        let machine = at.cpu.machine;
        if point.phase == b'N' && point.track == "DeviceStateChanged" {
            let track = self.kernel_track(&DEVICE_STATE, machine, Dimensions::default(), |strings| {
                strings.intern("DeviceStateChanged")
            });
            self.instant(at.ts, track, None, Some(name), &[]);
            return;
        }
        let (key, dimensions) = self.async_set(ASYNC_ON_TRACK, machine, point.tgid, point.track);
        let title = key.texts[0];
        let track = match point.phase {
            b'N' => self.instant_on_set(key, at.ts, title, &dimensions),
            b'G' => self.begin_on_set(key, point.value, title, &dimensions),
            _ => self.end_on_set(key, point.value, title, &dimensions),
        };
        let Some(track) = track else { return };
        let utid = ArgValue::Uint(self.kernel_thread(machine, at.tid).0.into());
        match point.phase {
            b'N' => {
                self.instant(at.ts, track, None, Some(name), &[("utid", utid)]);
            }
            b'G' => {
                self.begin_slice(at.ts, track, None, Some(name), &[("utid", utid)]);
            }
            _ => {
                self.end_slice(at.ts, track, None, None, &[("end_utid", utid)]);
            }
        }
    }

    /// Counters are of processes: some are written by whichever thread is there.
    fn atrace_counter(&mut self, at: At<'_>, point: Point<'_>) {
        let machine = at.cpu.machine;
        let value = point.value as f64;
        if point.name == "kill_one_process" {
            // The value is who is killed; 0 is that it was done.
            if point.value as u32 != 0 {
                let upid = self.process_of(machine, point.value as u32);
                self.lmk(at, upid);
            }
        } else if point.name == "ScreenState" {
            let track = self.track(machine, TrackType::counter("screen_state", &[]), |strings| {
                strings.intern("ScreenState")
            });
            self.push_counter(at.ts, track, value);
            return;
        } else if point.name.starts_with("battery_stats.") {
            let dimensions = [("counter_key", self.text_arg(point.name))];
            let track = TrackType::counter("battery_stats", &dimensions);
            let track = self.track(machine, track, |strings| strings.intern(point.name));
            self.push_counter(at.ts, track, value);
            return;
        }
        let upid = self.process_of(machine, point.tgid);
        let (_, processes) = self.processes(machine);
        let utid: Option<Utid> = processes.find_thread(at.tid.into());
        let dimensions = [("upid", ArgValue::Int(upid.0.into())), ("name", self.text_arg(point.name))];
        let track = TrackType::counter("atrace_counter", &dimensions);
        let track = self.track(machine, track, |strings| strings.intern(point.name));
        match utid {
            Some(utid) => self.counter_with(at.ts, track, value, &[("utid", ArgValue::Uint(utid.0.into()))]),
            None => {
                self.push_counter(at.ts, track, value);
            }
        }
    }

    /// `lmk,pid,reason,oom adj,…`: a process was killed for its memory.
    fn killed(&mut self, at: At<'_>, name: &str) {
        if !name.starts_with("lmk,") {
            return;
        }
        let words: Vec<&str> = name.splitn(5, ',').collect();
        let (Some(pid), Some(adj)) = (
            words.get(1).and_then(|pid| pid.parse::<u32>().ok()),
            words.get(3).and_then(|adj| adj.parse::<i32>().ok()),
        ) else {
            return;
        };
        let upid = self.process_of(at.cpu.machine, pid);
        let dimensions = [("upid", ArgValue::Int(upid.0.into()))];
        let track = TrackType::counter("oom_score_adj", &dimensions);
        let track = self.track(at.cpu.machine, track, |strings| strings.intern("oom_score_adj"));
        self.push_counter(at.ts, track, adj.into());
        self.lmk(at, upid);
    }

    fn lmk(&mut self, at: At<'_>, upid: Upid) {
        let dimensions = Dimensions { upid: Some(upid), ..Dimensions::default() };
        let track = self.kernel_track(&LMK, at.cpu.machine, dimensions, |strings| strings.intern("LMK"));
        let name = self.tables.strings.intern("mem.lmk");
        self.instant(at.ts, track, None, Some(name), &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_by_their_first_letter() {
        let point = |phase, tgid, name, value, track| Line::Point(Point { phase, tgid, name, value, track });
        for (text, expected) in [
            ("B|1636|poke\n", point(b'B', 1636, "poke", 0, "")),
            ("B|1636|a|b", point(b'B', 1636, "a|b", 0, "")),
            ("B|1636|", point(b'B', 1636, "[empty slice name]", 0, "")),
            ("B|x|poke", Line::Other),
            ("E|1636", point(b'E', 1636, "", 0, "")),
            ("E", point(b'E', 0, "", 0, "")),
            ("C|1636|wq:monitor|0", point(b'C', 1636, "wq:monitor", 0, "")),
            ("C|3209|pending|-5|Blob", point(b'C', 3209, "pending", -5, "")),
            ("C|3209|pending|", Line::Other),
            ("S|1636|capture|123", point(b'S', 1636, "capture", 123, "")),
            ("F|1636|capture|456", point(b'F', 1636, "capture", 456, "")),
            ("I|4820|now", point(b'I', 4820, "now", 0, "")),
            ("I|4820|", Line::Other),
            ("N|1938|track|now", point(b'N', 1938, "now", 0, "track")),
            ("G|1339|track|slice|789", point(b'G', 1339, "slice", 789, "track")),
            ("H|6890|track|slice|135", point(b'H', 6890, "", 135, "track")),
            ("H|6890|track|135", point(b'H', 6890, "", 135, "track")),
            ("trace_event_clock_sync: parent_ts=1", Line::Ignored),
            ("hello", Line::Other),
            ("", Line::Other),
        ] {
            assert_eq!(Line::of(text), expected, "{text:?}");
        }
    }
}
