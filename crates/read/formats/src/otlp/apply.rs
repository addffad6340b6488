//! Spans to slices, in the order of time; links to flows.

use std::cmp::Reverse;

use ferretto_trace_model::args::{Arg, ArgList, ArgValue};
use ferretto_trace_model::processes::{ProcessName, ThreadName};
use ferretto_trace_model::slices::Label;
use ferretto_trace_model::tracks::TrackType;
use ferretto_trace_read::clocks::REALTIME;
use ferretto_trace_tables::tables::FlowRow;
use ferretto_trace_tables::{SliceId, Str, TrackId, Upid, Utid};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use super::span::{Link, Owner, Span, SpanKey, Spans};
use crate::lanes::{Lanes, Lying, Place};

/// What a service without a name is called: OpenTelemetry's own word.
const UNKNOWN_SERVICE: &str = "unknown_service";
/// Links of one span to what is not in the file. Ours: each makes the span's list of arguments anew.
const MAX_SAID_LINKS: usize = 64;
/// Of a service that does not say its number: above those that Linux gives.
const FIRST_MADE_UP_PID: i64 = 1 << 22;

impl Spans<'_> {
    /// Nothing more comes: spans become rows.
    pub(super) fn finish(mut self) {
        self.use_clock();
        let mut order: Vec<usize> = (0..self.spans.len()).collect();
        // Where two begin at once, the longer one is the outer.
        order.sort_by_key(|at| self.spans.get(*at).map(|span| (span.start, Reverse(span.end))));
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.ts);
        let (tables, processes) = self.model.processes(self.model.file_machine());
        processes.disown_idle(tables);
        let by_key = self.by_key();
        self.say_links_to_nowhere(&by_key);
        let mut turn = Turn {
            processes: self.write_processes(&order),
            spans: self,
            lanes: Lanes::default(),
            threads: HashMap::default(),
            tracks: HashMap::default(),
            places: Vec::new(),
            slices: Vec::new(),
        };
        turn.places.resize(turn.spans.spans.len(), None);
        turn.slices.resize(turn.spans.spans.len(), None);
        let mut events = events.into_iter().peekable();
        for at in order {
            let Some(span) = turn.spans.spans.get(at).copied() else { continue };
            while let Some(event) = events.next_if(|event| event.ts < span.start) {
                turn.instant(event);
            }
            turn.span(at, span, by_key.get(&(span.key.0, span.parent)).copied());
        }
        events.for_each(|event| turn.instant(event));
        turn.flows(&by_key);
    }

    /// The first of those that have one id.
    fn by_key(&self) -> HashMap<SpanKey, usize, RandomState> {
        let mut by_key = HashMap::default();
        for (at, span) in self.spans.iter().enumerate().filter(|(_, span)| span.key.1 != 0) {
            by_key.entry(span.key).or_insert(at);
        }
        by_key
    }

    /// Their times are those of the wall's clock.
    fn use_clock(&mut self) {
        for span in &mut self.spans {
            span.start = self.model.time_of_file(REALTIME, span.start);
            if span.end != i64::MAX {
                span.end = self.model.time_of_file(REALTIME, span.end).max(span.start);
            }
        }
        for event in &mut self.events {
            event.ts = self.model.time_of_file(REALTIME, event.ts);
        }
    }

    /// Links to spans that are not in the file become arguments.
    fn say_links_to_nowhere(&mut self, by_key: &HashMap<SpanKey, usize, RandomState>) {
        let mut said: HashMap<usize, usize, RandomState> = HashMap::default();
        for link in self.links.iter().filter(|link| !by_key.contains_key(&link.to)) {
            let Some(span) = self.spans.get_mut(link.span) else { continue };
            let count = said.entry(link.span).or_default();
            if *count >= MAX_SAID_LINKS {
                continue;
            }
            let (trace, id) = link.to;
            let strings = &mut self.model.tables.strings;
            let args = [("trace_id", format!("{trace:032x}")), ("span_id", format!("{id:016x}"))].map(
                |(name, text)| Arg {
                    flat_key: strings.intern(&format!("otlp.links.{name}")),
                    key: strings.intern(&format!("otlp.links[{count}].{name}")),
                    value: ArgValue::Text(strings.intern(&text)),
                },
            );
            *count += 1;
            let more = self.model.args.intern(&args);
            span.args = self.model.args.join(span.args, more);
        }
    }

    /// A process each resource, in the order of their first spans.
    fn write_processes(&mut self, order: &[usize]) -> Vec<Option<Upid>> {
        let mut upids = vec![None; self.resources.len()];
        let mut taken: HashSet<i64, RandomState> =
            self.resources.iter().filter_map(|resource| resource.pid).collect();
        let mut next = FIRST_MADE_UP_PID;
        for at in order {
            let number = self.spans.get(*at).map_or(usize::MAX, |span| span.owner.resource);
            let (Some(upid), Some(resource)) = (upids.get_mut(number), self.resources.get(number)) else {
                continue;
            };
            if upid.is_some() {
                continue;
            }
            let pid = resource.pid.unwrap_or_else(|| {
                while !taken.insert(next) {
                    next += 1;
                }
                next
            });
            let (tables, processes) = self.model.processes(self.model.file_machine());
            let name = tables.strings.intern(resource.name.as_deref().unwrap_or(UNKNOWN_SERVICE));
            // Of another machine, or another container, the same number is another process.
            let new = processes.start_process(tables, pid, None, None, ThreadName::Other);
            processes.name_process(tables, new, name, ProcessName::System);
            for arg in &resource.args {
                let key = tables.strings.get(arg.key).to_owned();
                processes.add_process_arg(tables, new, &key, arg.value);
            }
            *upid = Some(new);
        }
        upids
    }
}

impl Span {
    fn lying(&self, number: usize, parent: Option<(usize, Place)>) -> Lying {
        Lying { number, start: self.start, end: self.end, parent, nests: self.owner.tid.is_some() }
    }
}

/// Spans, while they become rows.
struct Turn<'a> {
    spans: Spans<'a>,
    processes: Vec<Option<Upid>>,
    threads: HashMap<(usize, i64), Utid, RandomState>,
    lanes: Lanes<Owner>,
    tracks: HashMap<Place, TrackId, RandomState>,
    /// Where each span is.
    places: Vec<Option<(Place, TrackId)>>,
    slices: Vec<Option<SliceId>>,
}

impl Turn<'_> {
    fn span(&mut self, at: usize, span: Span, parent: Option<usize>) {
        let of_parent =
            parent.and_then(|parent| Some((parent, self.places.get(parent).copied().flatten()?.0)));
        let place = self.lanes.place(span.owner, span.lying(at, of_parent));
        let track = self.track(place, &span);
        if let Some(cell) = self.places.get_mut(at) {
            *cell = Some((place, track));
        }
        let label = Label { category: span.category, name: Some(span.name), args: span.args };
        let (slices, mut out) = self.spans.model.slices();
        let slice = match span.end {
            i64::MAX => slices.begin(&mut out, span.start, track, label),
            end => slices.complete(&mut out, span.start, end - span.start, track, label),
        };
        if let Some(cell) = self.slices.get_mut(at) {
            *cell = slice;
        }
    }

    fn instant(&mut self, event: super::span::Event) {
        let Some(span) = self.spans.spans.get(event.span).copied() else { return };
        // One from before its span is on the track that the span would have now.
        let placed = self.places.get(event.span).copied().flatten();
        let track = match placed {
            Some((_, track)) => track,
            None => {
                let at_once = Span { start: event.ts, end: event.ts, ..span };
                let place = self.lanes.place(span.owner, at_once.lying(usize::MAX, None));
                self.track(place, &span)
            }
        };
        let label = Label { category: span.category, name: Some(event.name), args: event.args };
        let (slices, mut out) = self.spans.model.slices();
        slices.complete(&mut out, event.ts, 0, track, label);
    }

    fn track(&mut self, place: Place, span: &Span) -> TrackId {
        if let Some(track) = self.tracks.get(&place) {
            return *track;
        }
        let track = match (span.owner.tid, place.1) {
            (Some(tid), 0) => {
                let utid = self.thread(span, tid);
                self.spans.model.thread_track(self.spans.model.file_machine(), utid)
            }
            (Some(tid), lane) => {
                let utid = self.thread(span, tid);
                self.own_track(("utid", i64::from(utid.0)), &span.owner, lane)
            }
            (None, lane) => {
                let upid = self.processes.get(span.owner.resource).copied().flatten().unwrap_or_default();
                self.own_track(("upid", i64::from(upid.0)), &span.owner, lane)
            }
        };
        self.tracks.insert(place, track);
        track
    }

    /// A track of a scope.
    fn own_track(&mut self, (of, id): (&'static str, i64), owner: &Owner, lane: usize) -> TrackId {
        let dimensions = [
            (of, ArgValue::Int(id)),
            ("scope", ArgValue::of_text(owner.scope)),
            ("lane", ArgValue::Int(i64::try_from(lane).unwrap_or(i64::MAX))),
        ];
        let name = |strings: &mut ferretto_trace_tables::Strings| {
            Some(owner.scope.unwrap_or_else(|| strings.intern("spans")))
        };
        self.spans
            .model
            .intern_track(self.spans.model.file_machine(), TrackType::slices("otlp_span", &dimensions), name)
            .0
    }

    fn thread(&mut self, span: &Span, tid: i64) -> Utid {
        if let Some(utid) = self.threads.get(&(span.owner.resource, tid)) {
            return *utid;
        }
        let upid = self.processes.get(span.owner.resource).copied().flatten().unwrap_or_default();
        let (tables, processes) = self.spans.model.processes(self.spans.model.file_machine());
        let is_main = tables.process.pid.get(upid.index()) == Some(&tid);
        let utid = match is_main {
            true => processes.thread_of(tables, tid, tid),
            false => processes.thread_of_process(tables, tid, upid),
        };
        let name: Option<Str> = span.thread_name;
        if let Some(name) = name {
            processes.name_thread(tables, utid, name, ThreadName::Other);
        }
        self.threads.insert((span.owner.resource, tid), utid);
        utid
    }

    fn flows(self, by_key: &HashMap<SpanKey, usize, RandomState>) {
        let Self { spans, slices, .. } = self;
        let slice_of = |at: usize| slices.get(at).copied().flatten();
        for Link { span, to, args } in &spans.links {
            let from = by_key.get(to).and_then(|at| slice_of(*at));
            let (Some(slice_out), Some(slice_in)) = (from, slice_of(*span)) else { continue };
            let arg_set_id = match *args {
                ArgList::EMPTY => None,
                args => spans.model.args.write(args, &mut spans.model.tables),
            };
            spans.model.tables.flow.push(FlowRow { slice_out, slice_in, trace_id: None, arg_set_id });
        }
    }
}
