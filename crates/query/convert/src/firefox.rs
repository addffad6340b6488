//! The Firefox Profiler's processed profile (JSON): slices as markers of their threads, samples with their stacks, counters left out.

use std::collections::HashMap;
use std::io;

use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{CallsiteId, Upid};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags,
    MarkerFieldFormat, MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval,
    StackHandle, StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};

use crate::owners::{self, Owner, process_name, thread_name};
use crate::samples::samples;
use crate::stacks::functions;
use crate::wall_clock::WallClock;
use crate::{Error, Form, Format, Options, Out, Source, args};

/// A profile for Firefox.
pub const FORMAT: Format = Format {
    name: "firefox",
    doc: "a profile for profiler.firefox.com",
    extension: "json",
    is_binary: false,
    form: Form::Trace(write),
};

/// Samples say nothing about how often they were to be taken.
const INTERVAL_MS: u64 = 1;

fn write(source: &Source<'_>, _: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    let mut builder = Builder::new(source.tables);
    builder.samples();
    builder.slices();
    serde_json::to_writer(out, &builder.profile).map_err(io::Error::from)?;
    Ok(())
}

struct Builder<'a> {
    tables: &'a Tables,
    profile: Profile,
    start_ns: i64,
    processes: HashMap<Option<Upid>, ProcessHandle>,
    threads: HashMap<Owner, ThreadHandle>,
    stacks: HashMap<(ThreadHandle, CallsiteId), Option<StackHandle>>,
    category: CategoryHandle,
}

/// A slice.
struct SliceMarker {
    name: StringHandle,
    category: CategoryHandle,
    details: StringHandle,
}

impl StaticSchemaMarker for SliceMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Slice";
    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name} {marker.data.details}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "details",
        label: "Details",
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.details
    }

    fn number_field_value(&self, _: u32) -> f64 {
        0.0
    }
}

impl<'a> Builder<'a> {
    fn new(tables: &'a Tables) -> Self {
        let starts = tables.slice.ts.iter().chain(samples(tables).map(|sample| sample.ts));
        let start_ns = starts.min().unwrap_or(0);
        let wall_ms = WallClock::of(tables).at(start_ns) as f64 / 1e6;
        let mut profile = Profile::new(
            "Trace",
            ReferenceTimestamp::from_millis_since_unix_epoch(wall_ms),
            SamplingInterval::from_millis(INTERVAL_MS),
        );
        profile.set_symbolicated(true);
        let category = profile.add_category("Trace", CategoryColor::Blue);
        Self {
            tables,
            profile,
            start_ns,
            processes: HashMap::new(),
            threads: HashMap::new(),
            stacks: HashMap::new(),
            category,
        }
    }

    fn time(&self, ts: i64) -> Timestamp {
        Timestamp::from_nanos_since_reference(ts.saturating_sub(self.start_ns).max(0).cast_unsigned())
    }

    fn process(&mut self, upid: Option<Upid>) -> ProcessHandle {
        if let Some(known) = self.processes.get(&upid) {
            return *known;
        }
        let (name, pid) = match upid {
            Some(upid) => (process_name(self.tables, upid), owners::pid(self.tables, upid)),
            None => ("(no process)".to_owned(), 0),
        };
        let start = self.time(self.start_ns);
        let handle = self.profile.add_process(&name, u32::try_from(pid).unwrap_or(0), start);
        self.processes.insert(upid, handle);
        handle
    }

    /// Tracks of a process, and those of nobody, are shown as threads, for there is nothing else.
    fn thread(&mut self, owner: Owner) -> ThreadHandle {
        if let Some(known) = self.threads.get(&owner) {
            return *known;
        }
        let (upid, name) = match owner {
            Owner::Thread(utid) => {
                (self.tables.thread.upid.get(utid.index()), thread_name(self.tables, utid))
            }
            Owner::Process(upid) => (Some(upid), "(tracks)".to_owned()),
            Owner::Cpu(cpu) => (None, format!("CPU {cpu}")),
            Owner::Trace => (None, "(tracks)".to_owned()),
        };
        let (_, tid) = owner.pid_tid(self.tables);
        let is_main = match owner {
            Owner::Thread(utid) => self.tables.thread.is_main_thread.get(utid.index()).unwrap_or(false),
            _ => false,
        };
        let process = self.process(upid);
        let start = self.time(self.start_ns);
        let handle = self.profile.add_thread(process, u32::try_from(tid).unwrap_or(0), start, is_main);
        self.profile.set_thread_name(handle, &name);
        self.profile.set_thread_show_markers_in_timeline(handle, true);
        self.threads.insert(owner, handle);
        handle
    }

    fn samples(&mut self) {
        for sample in samples(self.tables) {
            let thread = self.thread(Owner::Thread(sample.utid));
            let stack = sample.callsite.and_then(|callsite| self.stack(thread, callsite));
            let ts = self.time(sample.ts);
            self.profile.add_sample(thread, ts, stack, CpuDelta::ZERO, 1);
        }
    }

    fn stack(&mut self, thread: ThreadHandle, callsite: CallsiteId) -> Option<StackHandle> {
        let mut missing = Vec::new();
        let mut stack = None;
        let mut at = Some(callsite);
        while let Some(callsite) = at {
            if let Some(known) = self.stacks.get(&(thread, callsite)) {
                stack = *known;
                break;
            }
            missing.push(callsite);
            at = self.tables.callsite.parent_id.get(callsite.index());
        }
        for callsite in missing.into_iter().rev() {
            for function in functions(self.tables, callsite) {
                let name = self.profile.intern_string(&function.name);
                let info = FrameInfo {
                    frame: Frame::Label(name),
                    category_pair: CategoryHandle::OTHER.into(),
                    flags: FrameFlags::empty(),
                };
                let frame = self.profile.intern_frame(thread, info);
                stack = Some(self.profile.intern_stack(thread, stack, frame));
            }
            self.stacks.insert((thread, callsite), stack);
        }
        stack
    }

    fn slices(&mut self) {
        let slices = &self.tables.slice;
        for row in 0..slices.len() {
            let owner = Owner::of(self.tables, slices.track_id.at(row));
            let thread = self.thread(owner);
            let name = slices.name.at(row).map_or("(no name)", |name| self.tables.strings.get(name));
            let name = self.profile.intern_string(name);
            let details = self.details(row);
            let details = self.profile.intern_string(&details);
            let start = self.time(slices.ts.at(row));
            let timing = match slices.dur.at(row) {
                0 => MarkerTiming::Instant(start),
                ..0 => MarkerTiming::IntervalStart(start),
                dur => MarkerTiming::Interval(start, self.time(slices.ts.at(row).saturating_add(dur))),
            };
            let marker = SliceMarker { name, category: self.category, details };
            self.profile.add_marker(thread, timing, marker);
        }
    }

    /// Its categories and arguments.
    fn details(&self, row: usize) -> String {
        let slices = &self.tables.slice;
        let category = slices.category.at(row).map(|category| self.tables.strings.get(category).to_owned());
        let set = slices.arg_set_id.get(row);
        let args = set.into_iter().flat_map(|set| args::args_of(self.tables, set));
        let args = args.map(|arg| {
            let key = ["debug.", "data."].iter().find_map(|prefix| arg.key.strip_prefix(prefix));
            format!("{}={}", key.unwrap_or(arg.key), arg.value.to_text())
        });
        category.into_iter().chain(args).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::{small, written};

    #[test]
    fn slices_are_markers_of_their_threads() {
        let json: Value = serde_json::from_slice(&written(FORMAT, &small()).unwrap()).unwrap();
        let threads = json["threads"].as_array().unwrap();
        let count = |thread: &Value| (thread["name"].clone(), thread["markers"]["length"].clone());
        // A main thread has the name of its process there.
        let found: Vec<_> = threads.iter().map(count).collect();
        assert_eq!(found, [("app".into(), 3.into()), ("(tracks)".into(), 2.into())]);
        let times = &threads[0]["markers"];
        assert_eq!(times["startTime"], serde_json::json!([0.0, 0.001, 0.004]));
        assert_eq!(times["endTime"], serde_json::json!([0.005, 0.003, 0.0]));
    }
}
