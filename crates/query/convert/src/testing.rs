//! A small trace for the tests of formats.

use std::collections::BTreeMap;

use ferretto_import::Imported;
use ferretto_trace_tables::tables::{
    ArgRow, CallsiteRow, ClockSnapshotRow, CounterRow, FlowRow, FrameRow, HeapProfileAllocationRow,
    ProcessRow, SliceRow, SymbolRow, Tables, ThreadRow, TrackRow,
};
use ferretto_trace_tables::{ArgSetId, CallsiteId, FrameId, SliceId, SymbolSetId, TrackId, Upid, Utid};

use crate::{Error, Folder, Form, Format, Options, Out, Source};

/// Slices of a thread (`outer` from 1,000 to 6,000 with `inner` from 2,000 to 4,000 and the instant `tick` at 5,000 in it), `request` and
/// `endless` on a track of the process, a flow from `inner` to `request`, a counter, and a reading of the wall's clock.
pub(crate) fn small() -> Tables {
    let mut tables = Tables::default();
    let strings = &mut tables.strings;
    let mut text = |text: &str| Some(strings.intern(text));
    let slice = text("slice");
    tables.process.push(ProcessRow { pid: 10, name: text("app"), ..ProcessRow::default() });
    let thread = ThreadRow { tid: 10, name: text("main"), upid: Some(Upid(0)), ..ThreadRow::default() };
    tables.thread.push(ThreadRow { is_main_thread: Some(true), ..thread });
    let track = TrackRow { event_type: slice, ..TrackRow::default() };
    tables.track.push(TrackRow { type_: text("thread_execution"), utid: Some(Utid(0)), ..track });
    let of_process = TrackRow { upid: Some(Upid(0)), ..track };
    tables.track.push(TrackRow { type_: text("process_track_event"), name: text("requests"), ..of_process });
    tables.track.push(TrackRow { event_type: text("counter"), name: text("fps"), ..of_process });
    let arg =
        ArgRow { key: text("debug.round"), value_type: text("int"), int_value: Some(7), ..ArgRow::default() };
    tables.args.push(arg);
    let on =
        |track, ts, dur, name| SliceRow { ts, dur, track_id: TrackId(track), name, ..SliceRow::default() };
    tables.slice.push(SliceRow { category: text("app"), ..on(0, 1_000, 5_000, text("outer")) });
    let within = SliceRow { depth: 1, parent_id: Some(SliceId(0)), ..SliceRow::default() };
    let inner = on(0, 2_000, 2_000, text("inner"));
    tables.slice.push(SliceRow {
        depth: 1,
        parent_id: within.parent_id,
        arg_set_id: Some(ArgSetId(0)),
        ..inner
    });
    tables.slice.push(SliceRow { depth: 1, parent_id: within.parent_id, ..on(0, 5_000, 0, text("tick")) });
    tables.slice.push(on(1, 5_500, 500, text("request")));
    tables.slice.push(on(1, 7_000, -1, text("endless")));
    tables.flow.push(FlowRow { slice_out: SliceId(1), slice_in: SliceId(3), ..FlowRow::default() });
    tables.counter.push(CounterRow { ts: 1_500, track_id: TrackId(2), value: 59.5, arg_set_id: None });
    let reading =
        ClockSnapshotRow { ts: 1_000, clock_id: 1, clock_value: 1_000_000, ..ClockSnapshotRow::default() };
    tables.clock_snapshot.push(reading);
    tables
}

/// Two allocations of one function, at two of its lines, in a third one that has no symbols but a name.
pub(crate) fn symbolized() -> Tables {
    let mut tables = Tables::default();
    let strings = &mut tables.strings;
    let mut text = |text: &str| Some(strings.intern(text));
    tables.process.push(ProcessRow { pid: 10, name: text("app"), ..ProcessRow::default() });
    let caller = text("_ZN3std2io5stdio6_print17h0123456789abcdefE");
    tables.frame.push(FrameRow { name: caller, ..FrameRow::default() });
    tables.callsite.push(CallsiteRow { frame_id: FrameId(0), ..CallsiteRow::default() });
    for n in 0..2 {
        let set = SymbolSetId(n * 2);
        let symbol = SymbolRow { symbol_set_id: set, source_file: text("/src/a.c"), ..SymbolRow::default() };
        let inner =
            SymbolRow { name: text("inner"), line_number: Some(4 + n), inlined: Some(true), ..symbol };
        tables.symbol.push(inner);
        tables.symbol.push(SymbolRow { name: text("outer"), line_number: Some(13 + n), ..symbol });
        tables.frame.push(FrameRow { name: text("outer"), symbol_set_id: Some(set), ..FrameRow::default() });
        let (parent_id, frame_id) = (Some(CallsiteId(0)), FrameId(n + 1));
        tables.callsite.push(CallsiteRow { depth: 1, parent_id, frame_id });
        let (callsite_id, size) = (CallsiteId(n + 1), 100 - 50 * i64::from(n));
        let allocated = HeapProfileAllocationRow { upid: Upid(0), callsite_id, ..Default::default() };
        tables.heap_profile_allocation.push(HeapProfileAllocationRow { count: 1, size, ..allocated });
    }
    tables
}

/// What a format of one file makes of a trace.
pub(crate) fn written(format: Format, tables: &Tables) -> Result<Vec<u8>, Error> {
    let Form::Trace(write) = format.form else { panic!("{} is not of one file", format.name) };
    let mut out = Vec::new();
    write(&Source { name: "trace", tables, imported: &Imported::default() }, &Options::default(), &mut out)?;
    Ok(out)
}

/// What a format of several files makes of one.
pub(crate) fn files(format: Format, tables: &Tables) -> BTreeMap<String, Vec<u8>> {
    let Form::Files(write) = format.form else { panic!("{} is of one file", format.name) };
    let mut folder = InMemory::default();
    write(
        &Source { name: "trace", tables, imported: &Imported::default() },
        &Options::default(),
        &mut folder,
    )
    .unwrap();
    folder.0
}

#[derive(Default)]
struct InMemory(BTreeMap<String, Vec<u8>>);

impl Folder for InMemory {
    fn create(&mut self, name: &str) -> Result<Box<Out<'_>>, Error> {
        Ok(Box::new(self.0.entry(name.to_owned()).or_default()))
    }
}
