//! An event in its turn (upstream: json_trace_parser.cc).

use ferretto_protozero::fnv::{fnv1a, fnv1a_on};
use ferretto_trace_model::args::ArgValue;
use ferretto_trace_model::import_logs::Where;
use ferretto_trace_model::model::Model;
use ferretto_trace_model::processes::{ProcessName, ThreadName};
use ferretto_trace_model::slices::Label;
use ferretto_trace_model::stats::Stat;
use ferretto_trace_model::track_event::legacy::OldAsync;
use ferretto_trace_model::tracks::TrackType;
use ferretto_trace_tables::tables::{SchedRow, ThreadStateRow};
use ferretto_trace_tables::{CounterId, SliceId, Str, TrackId, Utid};

use super::event::{Event, Id, Number, Phase, Scope};

/// What a slice without a name is called.
const NO_NAME: &str = "[No name]";

/// Values of counters, whose tracks are known at the end: whether a thread has a process is (upstream: event_tracker.cc).
#[derive(Debug, Default)]
pub(super) struct Counters {
    values: Vec<(CounterId, Utid, Str)>,
}

impl Counters {
    /// Nothing more comes: values get their tracks.
    pub(super) fn finish(self, model: &mut Model) {
        for (id, utid, name) in self.values {
            let track = counter_track(model, utid, name);
            model.tables.counter.track_id.set(id.index(), track);
        }
    }
}

/// Applies an event, which is not before the last one.
pub(super) fn apply(model: &mut Model, event: &Event, counters: &mut Counters) {
    let utid = thread_of(model, event);
    let mut turn = Turn { model, event, utid };
    match event.phase {
        Phase::Begin => turn.begin(),
        Phase::End => turn.end(),
        Phase::Complete => turn.complete(),
        Phase::Instant => turn.instant(),
        Phase::AsyncBegin | Phase::AsyncEnd | Phase::AsyncInstant => turn.asynchronous(),
        Phase::Counter => turn.counters(counters),
        Phase::FlowStart | Phase::FlowStep | Phase::FlowEnd => turn.flow(),
        Phase::ThreadState => turn.thread_state(),
        Phase::Metadata => turn.metadata(),
    }
}

/// Its thread, named if the file has a name where others have a number.
fn thread_of(model: &mut Model, event: &Event) -> Utid {
    let pid = event.pid.unwrap_or_default();
    let tid = match event.tid {
        Some(tid) if tid.value != 0 || tid.name.is_some() => tid,
        _ => Number { value: pid.value, name: None },
    };
    let (tables, processes) = model.processes(model.file_machine());
    if let Some(name) = pid.name {
        let upid = processes.process(tables, pid.value);
        processes.name_process(tables, upid, name, ProcessName::System);
    }
    if let Some(name) = tid.name {
        let utid = processes.thread(tables, tid.value);
        processes.name_thread(tables, utid, name, ThreadName::Other);
    }
    processes.thread_of(tables, tid.value, pid.value)
}

struct Turn<'a> {
    model: &'a mut Model,
    event: &'a Event,
    utid: Utid,
}

impl Turn<'_> {
    fn fail(&mut self, stat: Stat) {
        let name = self.event.name.map(ArgValue::Text);
        let args: Vec<_> = name.into_iter().map(|name| ("event_name", name)).collect();
        self.model.log(stat, Some(Where::When(self.event.ts)), &args);
    }

    fn own_track(&mut self) -> TrackId {
        self.model.thread_track(self.model.file_machine(), self.utid)
    }

    fn name(&mut self) -> Option<Str> {
        Some(self.event.name.unwrap_or_else(|| self.model.tables.strings.intern(NO_NAME)))
    }

    /// What a new slice is called.
    fn label(&mut self) -> Label {
        Label { category: self.event.category, name: self.name(), args: self.event.args }
    }

    /// As the file has it.
    fn plain_label(&self) -> Label {
        Label { category: self.event.category, name: self.event.name, args: self.event.args }
    }

    fn begun(&mut self, slice: SliceId, track: TrackId) {
        let Model { tables, flows, args, stats, .. } = &mut *self.model;
        let mut out = ferretto_trace_model::slices::Out { tables, args, stats };
        flows.on_begin(&mut out, track, slice);
    }

    fn begin(&mut self) {
        let track = self.own_track();
        let label = self.label();
        let ts = self.event.ts;
        let (slices, mut out) = self.model.slices();
        let slice = slices.begin(&mut out, ts, track, label);
        if let Some(slice) = slice {
            self.begun(slice, track);
            if self.event.thread_ts.is_some() {
                self.model.tables.slice.thread_ts.set(slice.index(), self.event.thread_ts);
            }
        }
        self.flow_of_slice(slice);
    }

    fn end(&mut self) {
        let track = self.own_track();
        let (ts, label) = (self.event.ts, self.plain_label());
        let (slices, mut out) = self.model.slices();
        let Some(slice) = slices.end(&mut out, ts, track, label) else { return };
        let columns = &mut self.model.tables.slice;
        if let (Some(end), Some(start)) = (self.event.thread_ts, columns.thread_ts.get(slice.index())) {
            columns.thread_dur.set(slice.index(), Some(end.saturating_sub(start)));
        }
    }

    fn complete(&mut self) {
        let Some(dur) = self.event.dur else { return self.fail(Stat::JsonParserFailure) };
        let ts = self.event.ts;
        let mut track = self.own_track();
        let label = self.label();
        let (slices, mut out) = self.model.slices();
        let overlapped = if dur > 0 { slices.overlapped(&mut out, ts, dur, track) } else { None };
        if let Some(other) = overlapped {
            self.log_overlap(other, ts, dur);
            match self.model.row_of_overlapping(self.model.file_machine(), self.utid, ts, dur) {
                Some(other) => track = other,
                None => return,
            }
        }
        let (slices, mut out) = self.model.slices();
        let slice = slices.complete(&mut out, ts, dur, track, label);
        if let Some(slice) = slice {
            self.begun(slice, track);
            let columns = &mut self.model.tables.slice;
            if self.event.thread_ts.is_some() {
                columns.thread_ts.set(slice.index(), self.event.thread_ts);
            }
            if self.event.thread_dur.is_some() {
                columns.thread_dur.set(slice.index(), self.event.thread_dur);
            }
        }
        self.flow_of_slice(slice);
    }

    /// A slice begins within another one, and ends behind it.
    #[cold]
    fn log_overlap(&mut self, other: SliceId, ts: i64, dur: i64) {
        let slices = &self.model.tables.slice;
        let at = other.index();
        let (their_ts, their_dur) = (slices.ts.at(at), slices.dur.at(at));
        let end = their_ts.saturating_add(their_dur).min(ts.saturating_add(dur));
        let names = [("event_name", self.event.name), ("conflicting_slice_name", slices.name.at(at))];
        let phase = self.model.tables.strings.intern("X");
        let mut args = vec![
            ("event_phase", ArgValue::Text(phase)),
            ("overlap_start", ArgValue::Int(ts)),
            ("overlap_end", ArgValue::Int(end)),
            ("conflicting_slice_ts", ArgValue::Int(their_ts)),
            ("conflicting_slice_dur", ArgValue::Int(their_dur)),
        ];
        args.extend(names.into_iter().filter_map(|(key, name)| Some((key, ArgValue::Text(name?)))));
        self.model.log(Stat::SliceSpillOverlappingCompleteEvent, Some(Where::When(ts)), &args);
    }

    fn instant(&mut self) {
        let event = self.event;
        let (track, label) = match event.scope {
            Scope::Global => (self.instants("legacy_chrome_global_instants", &[]), self.plain_label()),
            Scope::Process => {
                let Some(pid) = event.pid else { return self.fail(Stat::JsonParserFailure) };
                let (tables, processes) = self.model.processes(self.model.file_machine());
                let upid = processes.process(tables, pid.value);
                let dimensions = [("upid", ArgValue::Int(upid.0.into()))];
                (self.instants("chrome_process_instant", &dimensions), self.plain_label())
            }
            Scope::Thread if event.tid.is_some() => (self.own_track(), self.label()),
            Scope::Thread | Scope::Unknown => return self.fail(Stat::JsonParserFailure),
        };
        let (slices, mut out) = self.model.slices();
        let Some(slice) = slices.complete(&mut out, event.ts, 0, track, label) else { return };
        self.begun(slice, track);
        if event.scope == Scope::Thread && event.thread_ts.is_some() {
            self.model.tables.slice.thread_ts.set(slice.index(), event.thread_ts);
        }
    }

    fn instants(&mut self, type_: &'static str, dimensions: &[(&'static str, ArgValue)]) -> TrackId {
        let (track, is_new) =
            self.model
                .intern_track(self.model.file_machine(), TrackType::slices(type_, dimensions), |_| None);
        if is_new {
            let chrome = ArgValue::Text(self.model.tables.strings.intern("chrome"));
            self.model.say_of_track(track, &[("source", chrome)]);
        }
        track
    }

    fn asynchronous(&mut self) {
        let event = self.event;
        let (Some(pid), Some(id)) = (event.pid, event.id) else { return self.fail(Stat::JsonParserFailure) };
        let (tables, processes) = self.model.processes(self.model.file_machine());
        let upid = processes.process(tables, pid.value);
        let of_process = event.is_local.then_some(upid);
        let of = OldAsync { id: cookie(event.category, id), of_process, scope: None, upid };
        let letter = match event.phase {
            Phase::AsyncBegin => 'b',
            Phase::AsyncEnd => 'e',
            _ => 'n',
        };
        let Some(track) =
            self.model.row_of_old_async(self.model.file_machine(), of, event.name, Some(letter))
        else {
            return;
        };
        let named = self.label();
        let plain = self.plain_label();
        let (slices, mut out) = self.model.slices();
        let slice = match event.phase {
            Phase::AsyncBegin => slices.begin(&mut out, event.ts, track, named),
            Phase::AsyncEnd => {
                slices.end(&mut out, event.ts, track, plain);
                return;
            }
            _ => slices.complete(&mut out, event.ts, 0, track, plain),
        };
        if let Some(slice) = slice {
            self.begun(slice, track);
        }
        self.flow_of_slice(slice);
    }

    /// Each member of `args` is a counter.
    fn counters(&mut self, counters: &mut Counters) {
        let event = self.event;
        if event.args.is_empty() {
            return self.fail(Stat::JsonParserFailure);
        }
        let args = self.model.args.get(event.args);
        for arg in args {
            let strings = &self.model.tables.strings;
            let value = match arg.value {
                ArgValue::Int(value) => Some(value as f64),
                ArgValue::Real(value) => Some(value),
                ArgValue::Text(text) => strings.get(text).parse().ok(),
                _ => None,
            };
            let key = strings.get(arg.key).strip_prefix("args.").unwrap_or_default();
            let Some(value) = value else {
                self.fail(Stat::JsonParserFailure);
                continue;
            };
            let name = event.name.map_or("", |name| strings.get(name));
            let name = match event.id {
                Some(Id::Text(id)) => format!("{name} id: {} {key}", strings.get(id)),
                _ => format!("{name} {key}"),
            };
            let name = self.model.tables.strings.intern(&name);
            let id = self.model.push_counter(event.ts, TrackId::default(), value);
            counters.values.push((id, self.utid, name));
        }
    }

    /// A flow that a slice tells of.
    fn flow_of_slice(&mut self, slice: Option<SliceId>) {
        let Some(id) = self.event.bind_id else { return };
        let Some(flow) = self.flow_number(id) else { return };
        let (flow_in, flow_out) = (self.event.flow_in, self.event.flow_out);
        if !flow_in && !flow_out {
            return self.fail(Stat::FlowWithoutDirection);
        }
        let Some(slice) = slice else { return };
        let Model { tables, flows, args, stats, .. } = &mut *self.model;
        let mut out = ferretto_trace_model::slices::Out { tables, args, stats };
        match (flow_in, flow_out) {
            (true, true) => flows.step(&mut out, slice, flow),
            (false, true) => flows.begin(&mut out, slice, flow),
            _ => flows.end(&mut out, slice, flow, false),
        }
    }

    /// A flow that is an event of its own, at the slice of its thread that has not ended.
    fn flow(&mut self) {
        let event = self.event;
        let track = self.own_track();
        let Some(number) = event.id.and_then(|id| self.flow_number(id)) else {
            return self.fail(Stat::FlowInvalidId);
        };
        let (slices, _) = self.model.slices();
        let slice = slices.top(track);
        let Model { tables, flows, args, stats, .. } = &mut *self.model;
        let flow = flows.of_old(number, event.category, event.name);
        if event.phase == Phase::FlowEnd && !event.binds_enclosing {
            return flows.end_at_next(track, flow);
        }
        let Some(slice) = slice else { return self.fail(Stat::FlowNoEnclosingSlice) };
        let mut out = ferretto_trace_model::slices::Out { tables, args, stats };
        match event.phase {
            Phase::FlowStart => flows.begin(&mut out, slice, flow),
            Phase::FlowStep => flows.step(&mut out, slice, flow),
            _ => flows.end(&mut out, slice, flow, false),
        }
    }

    /// A text is a number of base 16.
    fn flow_number(&self, id: Id) -> Option<u64> {
        match id {
            Id::Number(number) => Some(number),
            Id::Text(text) => {
                let text = self.model.tables.strings.get(text);
                u64::from_str_radix(text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text), 16)
                    .ok()
            }
        }
    }

    fn thread_state(&mut self) {
        let event = self.event;
        let Some(dur) = event.dur else { return self.fail(Stat::JsonParserFailure) };
        let mut row =
            ThreadStateRow { ts: event.ts, dur, utid: self.utid, state: self.name(), ..Default::default() };
        let mut cpu = None;
        for arg in self.model.args.get(event.args) {
            match (self.model.tables.strings.get(arg.key), arg.value) {
                ("args.cpu", ArgValue::Int(value)) => cpu = u32::try_from(value).ok(),
                ("args.io_wait", ArgValue::Int(value)) => row.io_wait = u32::try_from(value).ok(),
                ("args.blocked_function", ArgValue::Text(text)) => row.blocked_function = Some(text),
                _ => {}
            }
        }
        let is_running = row.state.is_some_and(|state| self.model.tables.strings.get(state) == "Running");
        self.model.tables.thread_state.push(row);
        if let (true, Some(cpu)) = (is_running, cpu) {
            let ucpu = self.model.cpus.get(self.model.file_machine(), cpu);
            let row = SchedRow { ts: event.ts, dur, utid: self.utid, ucpu, ..SchedRow::default() };
            self.model.tables.sched.push(row);
        }
    }

    fn metadata(&mut self) {
        let event = self.event;
        let Some(what) = event.name.map(|name| self.model.tables.strings.get(name).to_owned()) else {
            return;
        };
        let pid = event.pid.unwrap_or_default().value;
        for arg in self.model.args.get(event.args) {
            let key = self.model.tables.strings.get(arg.key).to_owned();
            match (what.as_str(), key.as_str(), arg.value) {
                ("thread_name", "args.name", ArgValue::Text(name)) => {
                    let (tables, processes) = self.model.processes(self.model.file_machine());
                    processes.name_thread(tables, self.utid, name, ThreadName::Other);
                }
                ("process_name", "args.name", ArgValue::Text(name)) => {
                    let (tables, processes) = self.model.processes(self.model.file_machine());
                    let upid = processes.process(tables, pid);
                    processes.name_process(tables, upid, name, ProcessName::System);
                }
                ("process_sort_index", "args.sort_index", value @ (ArgValue::Int(_) | ArgValue::Real(_))) => {
                    let (tables, processes) = self.model.processes(self.model.file_machine());
                    let upid = processes.process(tables, pid);
                    processes.add_process_arg(tables, upid, "process_sort_index_hint", whole(value));
                }
                ("thread_sort_index", "args.sort_index", value @ (ArgValue::Int(_) | ArgValue::Real(_))) => {
                    let (tables, processes) = self.model.processes(self.model.file_machine());
                    processes.add_thread_arg(tables, self.utid, "thread_sort_index_hint", whole(value));
                }
                ("thread_name" | "process_name", "args.name", _)
                | ("process_sort_index" | "thread_sort_index", "args.sort_index", _) => {
                    self.fail(Stat::JsonParserFailure);
                }
                _ => {}
            }
        }
    }
}

/// Of the process, or of the thread if that has none.
fn counter_track(model: &mut Model, utid: Utid, name: Str) -> TrackId {
    let named = ("name", ArgValue::Text(name));
    match model.tables.thread.upid.get(utid.index()) {
        Some(upid) => {
            let dimensions = [("upid", ArgValue::Int(upid.0.into())), named];
            model.track(model.file_machine(), TrackType::counter("json_counter", &dimensions), |_| name)
        }
        None => {
            let dimensions = [("utid", ArgValue::Int(utid.0.into())), named];
            model.track(
                model.file_machine(),
                TrackType::counter("json_counter_thread_fallback", &dimensions),
                |_| name,
            )
        }
    }
}

fn whole(value: ArgValue) -> ArgValue {
    match value {
        ArgValue::Real(value) => ArgValue::Int(value as i64),
        other => other,
    }
}

/// A number that stands for a category and an id: a hash of both.
fn cookie(category: Option<Str>, id: Id) -> i64 {
    let (kind, id) = match id {
        Id::Text(text) => (1, text.index() as u64),
        Id::Number(number) => (2, number),
    };
    let category = category.map_or(0, |category| category.index() as u64 + 1);
    let hash = [category, kind, id].iter().fold(fnv1a(b""), |hash, part| fnv1a_on(hash, &part.to_le_bytes()));
    hash.cast_signed()
}
