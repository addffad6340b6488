//! OpenTelemetry's protocol (OTLP): slices as spans, instants as records of logs, flows as links, processes as resources.
//!
//! The messages are those of github.com/open-telemetry/opentelemetry-proto (trace/v1, logs/v1, common/v1, resource/v1), whose field numbers
//! are below. `traces.pb` is a `TracesData`, `logs.pb` a `LogsData`; both have the bytes of the requests that an exporter sends.
//!
//! A trace id stands for what began together: each outermost slice, with all within it, is a trace of its own. Ids are made from the numbers
//! of rows and the trace's uuid, so that the same file gives the same ids.

use std::collections::BTreeMap;

use ferretto_protozero::Message;
use ferretto_protozero::fnv::fnv1a;
use ferretto_trace_tables::table::Table;
use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{SliceId, Upid, Value};

use crate::args::{self, ArgValue};
use crate::owners::{self, Owner, process_name, thread_name};
use crate::wall_clock::WallClock;
use crate::{Error, Folder, Form, Format, Options, Source};

/// OpenTelemetry's protocol.
pub const FORMAT: Format = Format {
    name: "otlp",
    doc: "spans and logs for OpenTelemetry, as protobuf",
    extension: "pb",
    is_binary: true,
    form: Form::Files(write),
};

/// Field numbers of `Span`.
mod span {
    pub(super) const TRACE_ID: u32 = 1;
    pub(super) const SPAN_ID: u32 = 2;
    pub(super) const PARENT_SPAN_ID: u32 = 4;
    pub(super) const NAME: u32 = 5;
    pub(super) const KIND: u32 = 6;
    pub(super) const START_TIME_UNIX_NANO: u32 = 7;
    pub(super) const END_TIME_UNIX_NANO: u32 = 8;
    pub(super) const ATTRIBUTES: u32 = 9;
    pub(super) const LINKS: u32 = 13;
    /// `SPAN_KIND_INTERNAL`.
    pub(super) const INTERNAL: u64 = 1;
}

/// Field numbers of `LogRecord`.
mod record {
    pub(super) const TIME_UNIX_NANO: u32 = 1;
    pub(super) const SEVERITY_NUMBER: u32 = 2;
    pub(super) const BODY: u32 = 5;
    pub(super) const ATTRIBUTES: u32 = 6;
    pub(super) const TRACE_ID: u32 = 9;
    pub(super) const SPAN_ID: u32 = 10;
    pub(super) const OBSERVED_TIME_UNIX_NANO: u32 = 11;
    /// `SEVERITY_NUMBER_INFO`.
    pub(super) const INFO: u64 = 9;
}

/// What `ResourceSpans`, `ScopeSpans` and their sisters for logs have in common.
mod group {
    pub(super) const RESOURCE_OR_SCOPE: u32 = 1;
    pub(super) const ITEMS: u32 = 2;
}

fn write(source: &Source<'_>, _: &Options, folder: &mut dyn Folder) -> Result<(), Error> {
    let writer = Writer::new(source.tables);
    let (mut spans, mut logs) = (Groups::new(), Groups::new());
    for row in 0..source.tables.slice.len() {
        let resource = writer.resource_of(row);
        match source.tables.slice.dur.at(row) {
            0 => logs.entry(resource).or_default().push(writer.record(row)),
            _ => spans.entry(resource).or_default().push(writer.span(row)),
        }
    }
    if spans.is_empty() && logs.is_empty() {
        return Err(Error::Nothing(
            "there are no slices in the trace, and this format has nothing else".to_owned(),
        ));
    }
    if !spans.is_empty() {
        writer.write_groups(&spans, &mut *folder.create("traces.pb")?)?;
    }
    if !logs.is_empty() {
        writer.write_groups(&logs, &mut *folder.create("logs.pb")?)?;
    }
    Ok(())
}

/// Encoded spans or records, by process.
type Groups = BTreeMap<Option<Upid>, Vec<Vec<u8>>>;

struct Writer<'a> {
    tables: &'a Tables,
    clock: WallClock,
    /// The trace's uuid, or what stands for it.
    seed: u64,
    end_ns: i64,
    /// The outermost slice of each, which is before it.
    roots: Vec<u32>,
    /// Slices from which something led to this one.
    links: BTreeMap<SliceId, Vec<SliceId>>,
}

impl<'a> Writer<'a> {
    fn new(tables: &'a Tables) -> Self {
        let slices = &tables.slice;
        let mut roots: Vec<u32> = Vec::with_capacity(slices.len());
        for row in 0..slices.len() {
            let parent = slices.parent_id.get(row).and_then(|parent| roots.get(parent.index()).copied());
            roots.push(parent.unwrap_or(row as u32));
        }
        let mut links: BTreeMap<SliceId, Vec<SliceId>> = BTreeMap::new();
        for row in 0..tables.flow.len() {
            links.entry(tables.flow.slice_in.at(row)).or_default().push(tables.flow.slice_out.at(row));
        }
        let ends = (0..slices.len()).map(|row| slices.ts.at(row).saturating_add(slices.dur.at(row).max(0)));
        Self {
            tables,
            clock: WallClock::of(tables),
            seed: seed(tables),
            end_ns: ends.max().unwrap_or(0),
            roots,
            links,
        }
    }

    fn resource_of(&self, slice: usize) -> Option<Upid> {
        match Owner::of(self.tables, self.tables.slice.track_id.at(slice)) {
            Owner::Thread(utid) => self.tables.thread.upid.get(utid.index()),
            Owner::Process(upid) => Some(upid),
            Owner::Cpu(_) | Owner::Trace => None,
        }
    }

    fn trace_id(&self, slice: usize) -> [u8; 16] {
        let root = self.roots.get(slice).copied().unwrap_or(0);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.seed.to_be_bytes());
        id[8..].copy_from_slice(&(u64::from(root) + 1).to_be_bytes());
        id
    }

    /// None is all zeros, which would be no id.
    fn span_id(&self, slice: usize) -> [u8; 8] {
        (self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ (slice as u64 + 1))
            .max(1)
            .to_be_bytes()
    }

    fn span(&self, row: usize) -> Vec<u8> {
        let slices = &self.tables.slice;
        let (ts, dur) = (slices.ts.at(row), slices.dur.at(row));
        // What had no end in the trace is taken to have lasted to the trace's.
        let end = if dur < 0 { self.end_ns.max(ts) } else { ts.saturating_add(dur) };
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        message.bytes(span::TRACE_ID, &self.trace_id(row));
        message.bytes(span::SPAN_ID, &self.span_id(row));
        if let Some(parent) = slices.parent_id.get(row) {
            message.bytes(span::PARENT_SPAN_ID, &self.span_id(parent.index()));
        }
        message.bytes(span::NAME, self.name(row).as_bytes());
        message.varint(span::KIND, span::INTERNAL);
        message.fixed64(span::START_TIME_UNIX_NANO, self.clock.at(ts).cast_unsigned());
        message.fixed64(span::END_TIME_UNIX_NANO, self.clock.at(end).cast_unsigned());
        for attribute in self.attributes(row) {
            message.bytes(span::ATTRIBUTES, &attribute);
        }
        if dur < 0 {
            message.bytes(span::ATTRIBUTES, &attribute("perfetto.unfinished", ArgValue::Bool(true)));
        }
        for from in self.links.get(&SliceId(row as u32)).into_iter().flatten() {
            message.bytes(span::LINKS, &self.link(from.index()));
        }
        drop(message);
        bytes
    }

    fn link(&self, to: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        message.bytes(1, &self.trace_id(to));
        message.bytes(2, &self.span_id(to));
        drop(message);
        bytes
    }

    fn record(&self, row: usize) -> Vec<u8> {
        let slices = &self.tables.slice;
        let time = self.clock.at(slices.ts.at(row)).cast_unsigned();
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        message.fixed64(record::TIME_UNIX_NANO, time);
        message.fixed64(record::OBSERVED_TIME_UNIX_NANO, time);
        message.varint(record::SEVERITY_NUMBER, record::INFO);
        message.bytes(record::BODY, &any_value(ArgValue::Text(self.name(row))));
        for attribute in self.attributes(row) {
            message.bytes(record::ATTRIBUTES, &attribute);
        }
        if let Some(parent) = slices.parent_id.get(row) {
            message.bytes(record::TRACE_ID, &self.trace_id(row));
            message.bytes(record::SPAN_ID, &self.span_id(parent.index()));
        }
        drop(message);
        bytes
    }

    fn name(&self, row: usize) -> &'a str {
        self.tables.slice.name.at(row).map_or("(no name)", |name| self.tables.strings.get(name))
    }

    /// Thread, categories and arguments.
    fn attributes(&self, row: usize) -> Vec<Vec<u8>> {
        let slices = &self.tables.slice;
        let mut all = Vec::new();
        let track = slices.track_id.at(row);
        if let Owner::Thread(utid) = Owner::of(self.tables, track) {
            all.push(attribute("thread.id", ArgValue::Int(owners::tid(self.tables, utid))));
            all.push(attribute("thread.name", ArgValue::Text(&thread_name(self.tables, utid))));
        }
        if let Some(name) = self.tables.track.name.get(track.index()).copied().flatten() {
            all.push(attribute("perfetto.track", ArgValue::Text(self.tables.strings.get(name))));
        }
        if let Some(category) = slices.category.at(row) {
            all.push(attribute("perfetto.category", ArgValue::Text(self.tables.strings.get(category))));
        }
        if let Some(set) = slices.arg_set_id.get(row) {
            let args = args::args_of(self.tables, set);
            all.extend(
                args.map(|arg| attribute(arg.key.strip_prefix("debug.").unwrap_or(arg.key), arg.value)),
            );
        }
        all
    }

    fn write_groups(&self, groups: &Groups, out: &mut crate::Out<'_>) -> Result<(), Error> {
        for (process, items) in groups {
            let mut scope = Vec::new();
            Message::new(&mut scope).bytes(1, b"ferretto");
            let mut scoped = Vec::new();
            let mut message = Message::new(&mut scoped);
            message.bytes(group::RESOURCE_OR_SCOPE, &scope);
            items.iter().for_each(|item| message.bytes(group::ITEMS, item));
            drop(message);
            let mut of_resource = Vec::new();
            let mut message = Message::new(&mut of_resource);
            message.bytes(group::RESOURCE_OR_SCOPE, &self.resource(*process));
            message.bytes(group::ITEMS, &scoped);
            drop(message);
            let mut whole = Vec::new();
            Message::new(&mut whole).bytes(1, &of_resource);
            out.write_all(&whole)?;
        }
        Ok(())
    }

    fn resource(&self, process: Option<Upid>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        match process {
            Some(upid) => {
                let name = process_name(self.tables, upid);
                message.bytes(1, &attribute("service.name", ArgValue::Text(&name)));
                message.bytes(1, &attribute("process.pid", ArgValue::Int(owners::pid(self.tables, upid))));
                if let Some(line) = self.tables.process.cmdline.get(upid.index()).copied().flatten() {
                    message.bytes(
                        1,
                        &attribute("process.command_line", ArgValue::Text(self.tables.strings.get(line))),
                    );
                }
            }
            None => message.bytes(1, &attribute("service.name", ArgValue::Text("unknown_service"))),
        }
        if !self.clock.is_known() {
            message.bytes(
                1,
                &attribute("perfetto.clock", ArgValue::Text("the trace's, for no wall clock is known")),
            );
        }
        drop(message);
        bytes
    }
}

/// Eight bytes of the trace's uuid. Traces without one share a number.
fn seed(tables: &Tables) -> u64 {
    let rows = 0..tables.metadata.len();
    let is_uuid =
        |row: &usize| tables.metadata.name[*row].is_some_and(|name| tables.strings.get(name) == "trace_uuid");
    let uuid = rows.filter(is_uuid).map(|row| tables.metadata.cell("str_value", row)).next();
    let text = match uuid {
        Some(Value::Str(text)) => tables.strings.get(text).to_owned(),
        _ => String::new(),
    };
    // 0 would be no id.
    fnv1a(text.as_bytes()).max(1)
}

/// `KeyValue`.
fn attribute(key: &str, value: ArgValue<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.bytes(1, key.as_bytes());
    message.bytes(2, &any_value(value));
    drop(message);
    bytes
}

/// `AnyValue`.
fn any_value(value: ArgValue<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    match value {
        ArgValue::Bool(value) => message.varint(2, u64::from(value)),
        ArgValue::Int(value) => message.varint(3, value.cast_unsigned()),
        ArgValue::Uint(value) if i64::try_from(value).is_ok() => message.varint(3, value),
        // `double` has the wire type of fixed64.
        ArgValue::Real(value) => message.fixed64(4, value.to_bits()),
        other => message.bytes(1, other.to_text().as_bytes()),
    }
    drop(message);
    bytes
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::read::{Fields, Value as Field};

    use super::*;
    use crate::testing::{files, small};

    /// All messages at a path of field numbers.
    fn at<'a>(message: &'a [u8], path: &[u32]) -> Vec<&'a [u8]> {
        path.iter().fold(vec![message], |found, number| {
            let inner = found.into_iter().flat_map(|message| Fields::new(message).map(Result::unwrap));
            inner.filter(|field| field.number == *number).filter_map(|field| field.value.as_bytes()).collect()
        })
    }

    fn number(message: &[u8], field: u32) -> Option<u64> {
        Fields::new(message)
            .map(Result::unwrap)
            .find(|part| part.number == field)
            .and_then(|part| part.value.as_u64())
    }

    #[test]
    fn slices_are_spans_and_instants_are_records() {
        let tables = small();
        let files = files(FORMAT, &tables);
        let spans = at(&files["traces.pb"], &[1, 2, 2]);
        let names: Vec<_> =
            spans.iter().map(|span| String::from_utf8(at(span, &[5])[0].to_vec()).unwrap()).collect();
        assert_eq!(names, ["outer", "inner", "request", "endless"]);
        let (outer, inner) = (spans[0], spans[1]);
        assert_eq!(at(inner, &[span::PARENT_SPAN_ID]), at(outer, &[span::SPAN_ID]));
        assert_eq!(at(inner, &[span::TRACE_ID]), at(outer, &[span::TRACE_ID]));
        assert_ne!(at(spans[2], &[span::TRACE_ID]), at(outer, &[span::TRACE_ID]));
        // The wall showed 1,000,000 at 1,000.
        assert_eq!(number(outer, span::START_TIME_UNIX_NANO), Some(1_000_000));
        assert_eq!(number(outer, span::END_TIME_UNIX_NANO), Some(1_005_000));
        assert_eq!(at(spans[2], &[span::LINKS, 2]), at(inner, &[span::SPAN_ID]));
        let records = at(&files["logs.pb"], &[1, 2, 2]);
        assert_eq!(at(records[0], &[record::BODY, 1]), [b"tick"]);
        assert_eq!(at(records[0], &[record::SPAN_ID]), at(outer, &[span::SPAN_ID]));
    }

    #[test]
    fn numbers_keep_their_types() {
        let field = |value| {
            let bytes = any_value(value);
            let field = Fields::new(&bytes).next().unwrap().unwrap();
            (field.number, matches!(field.value, Field::Bytes(_)))
        };
        assert_eq!(field(ArgValue::Int(-1)), (3, false));
        assert_eq!(field(ArgValue::Uint(u64::MAX)), (1, true));
        assert_eq!(field(ArgValue::Real(0.5)), (4, false));
        assert_eq!(field(ArgValue::Bool(false)), (2, false));
        assert_eq!(field(ArgValue::Pointer(16)), (1, true));
    }
}
