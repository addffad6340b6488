//! Events that have no message of their own (upstream: generic_ftrace_tracker.cc, ftrace_parser.cc).
//!
//! Old recorders write their fields with names, by the message `generic`. New ones give each such event a number above all others, and
//! describe its fields once.
//!
//! An event whose fields are named by a convention is *for a track*: it has a slice (`track_event_type`, `slice_name`) or a counter's value
//! (`counter_value`), on a track that is told apart by the event, `track_name` and one field `scope_…`; without that by its thread.

use ferretto_protos::ftrace::FieldKind;
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_tables::{MachineId, Str, Strings, TrackId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::KernelEvent;
use super::apply::At;
use super::raw::value_of;
use super::windows::Window;
use crate::args::{Arg, ArgValue};
use crate::counters::TrackType;
use crate::model::Model;
use crate::stats::{Stat, Stats};

/// The numbers of events that are described in the trace begin here.
pub(super) const FIRST_NUMBER: u32 = 65536;
/// `FtraceEvent.generic`.
pub(super) const LEGACY_NUMBER: u32 = 327;
/// Fields of higher numbers are not taken. Upstream's.
const MAX_FIELDS: u32 = 32;
/// Events that are described. Ours; a kernel has some thousands.
const MAX_EVENTS: usize = 1 << 16;

/// `GenericFtraceEvent`, its `Field`, and what is read of `google.protobuf.DescriptorProto` and `FieldDescriptorProto`.
mod legacy {
    pub(super) const EVENT_NAME: u32 = 1;
    pub(super) const FIELD: u32 = 2;
    pub(super) const FIELD_NAME: u32 = 1;
    pub(super) const STR_VALUE: u32 = 3;
    pub(super) const INT_VALUE: u32 = 4;
    pub(super) const UINT_VALUE: u32 = 5;
}
mod descriptor {
    pub(super) const NAME: u32 = 1;
    pub(super) const FIELD: u32 = 2;
    pub(super) const FIELD_NAME: u32 = 1;
    pub(super) const FIELD_NUMBER: u32 = 3;
    pub(super) const FIELD_TYPE: u32 = 5;
}

/// Events that the trace describes, of one machine.
#[derive(Debug, Default)]
pub(crate) struct Generic {
    events: HashMap<u32, Event, RandomState>,
}

#[derive(Clone, Debug)]
struct Event {
    name: Option<Str>,
    fields: Vec<Field>,
    track: Option<ForTrack>,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    number: u32,
    name: Option<Str>,
    kind: Option<FieldKind>,
}

/// Which fields say what.
#[derive(Clone, Copy, Debug)]
struct ForTrack {
    what: What,
    track_name: Option<u32>,
    scope: Scope,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Slice { kind: u32, name: u32 },
    Counter { value: u32 },
}

#[derive(Clone, Copy, Debug)]
enum Scope {
    Thread,
    Process(u32),
    Cpu(u32),
    Custom(u32),
}

impl Generic {
    /// An event is described. The first description counts.
    pub(super) fn add(&mut self, number: u32, message: &[u8], strings: &mut Strings, stats: &mut Stats) {
        if self.events.contains_key(&number) || self.events.len() >= MAX_EVENTS {
            return;
        }
        match Event::of(message, strings) {
            Some(event) => {
                self.events.insert(number, event);
            }
            None => stats.count(Stat::FtraceGenericDescriptorErrors),
        }
    }
}

impl Generic {
    /// The arguments of an event that is described.
    pub(super) fn args(&self, number: u32, message: &[u8], strings: &mut Strings, list: &mut Vec<Arg>) {
        if let Some(event) = self.events.get(&number) {
            event.args(message, strings, list);
        }
    }
}

impl Event {
    fn of(message: &[u8], strings: &mut Strings) -> Option<Self> {
        let mut event = Self { name: None, fields: Vec::new(), track: None };
        for part in Fields::new(message).map_while(Result::ok) {
            match (part.number, part.value) {
                (descriptor::NAME, Value::Bytes(name)) => event.name = Some(strings.intern_bytes(name)),
                (descriptor::FIELD, Value::Bytes(field)) => event.add(Field::of(field, strings)?),
                _ => {}
            }
        }
        event.track = event.for_track(strings);
        Some(event)
    }

    fn add(&mut self, field: Field) {
        match self.fields.iter_mut().find(|its| its.number == field.number) {
            Some(its) => *its = field,
            None => self.fields.push(field),
        }
    }

    /// Reads its arguments; returns how many fields are not described.
    fn args(&self, message: &[u8], strings: &mut Strings, list: &mut Vec<Arg>) -> u32 {
        let mut unknown = 0;
        for part in Fields::new(message).map_while(Result::ok) {
            let Some(Field { name: Some(key), kind: Some(kind), .. }) = self.get(part.number).copied() else {
                unknown += 1;
                continue;
            };
            let value = value_of(kind, part.value, strings);
            list.extend(value.map(|value| Arg { flat_key: key, key, value }));
        }
        unknown
    }

    fn get(&self, number: u32) -> Option<&Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    fn for_track(&self, strings: &Strings) -> Option<ForTrack> {
        let (mut kind, mut slice_name, mut value, mut track_name) = (None, None, None, None);
        let mut scope = Scope::Thread;
        let mut fields: Vec<&Field> = self.fields.iter().filter(|field| field.number != 0).collect();
        fields.sort_by_key(|field| field.number);
        for field in fields {
            let is_number = matches!(
                field.kind,
                Some(FieldKind::Int32 | FieldKind::Int64 | FieldKind::Uint32 | FieldKind::Uint64)
            );
            let is_text = field.kind == Some(FieldKind::String);
            let number = field.number;
            match field.name.map(|name| strings.get(name)).unwrap_or_default() {
                "track_event_type" if is_number => kind = Some(number),
                "slice_name" if is_text => slice_name = Some(number),
                "track_name" if is_text => track_name = Some(number),
                "counter_value" if is_number => value = Some(number),
                "scope_tgid" if is_number => scope = Scope::Process(number),
                "scope_cpu" if is_number => scope = Scope::Cpu(number),
                name if is_number && name.starts_with("scope_") => scope = Scope::Custom(number),
                _ => {}
            }
        }
        let what = match (kind, slice_name, value) {
            (Some(kind), Some(name), _) => What::Slice { kind, name },
            (_, _, Some(value)) => What::Counter { value },
            _ => return None,
        };
        Some(ForTrack { what, track_name, scope })
    }
}

impl Field {
    /// Nothing if the description is none that is taken.
    fn of(message: &[u8], strings: &mut Strings) -> Option<Self> {
        let (mut number, mut name, mut kind) = (0, None, 0);
        for part in Fields::new(message).map_while(Result::ok) {
            match (part.number, part.value) {
                (descriptor::FIELD_NAME, Value::Bytes(text)) => name = Some(strings.intern_bytes(text)),
                (descriptor::FIELD_NUMBER, value) => number = value.as_u64()? as u32,
                (descriptor::FIELD_TYPE, value) => kind = value.as_u64()?,
                _ => {}
            }
        }
        (number < MAX_FIELDS && kind <= 18).then_some(Self { number, name, kind: kind_of(kind) })
    }
}

/// `FieldDescriptorProto.Type`; messages and groups are nothing here.
fn kind_of(number: u64) -> Option<FieldKind> {
    Some(match number {
        1 => FieldKind::Double,
        2 => FieldKind::Float,
        3 => FieldKind::Int64,
        4 => FieldKind::Uint64,
        5 => FieldKind::Int32,
        6 => FieldKind::Fixed64,
        7 => FieldKind::Fixed32,
        8 => FieldKind::Bool,
        9 => FieldKind::String,
        12 => FieldKind::Bytes,
        13 => FieldKind::Uint32,
        14 => FieldKind::Enum,
        15 => FieldKind::Sfixed32,
        16 => FieldKind::Sfixed64,
        17 => FieldKind::Sint32,
        18 => FieldKind::Sint64,
        _ => return None,
    })
}

fn find<'a>(message: &'a [u8], number: u32) -> Option<Value<'a>> {
    Fields::new(message).map_while(Result::ok).find(|part| part.number == number).map(|part| part.value)
}

impl Model {
    /// The trace describes an event.
    pub(super) fn add_generic(&mut self, machine: MachineId, number: u32, message: &[u8]) {
        let mut generic = std::mem::take(&mut self.kernel(machine).generic);
        generic.add(number, message, &mut self.tables.strings, &mut self.stats);
        self.kernel(machine).generic = generic;
    }

    /// An event that writes the names of its fields.
    pub(super) fn legacy_generic(&mut self, at: At<'_>, event: KernelEvent, message: &[u8]) {
        let name = match find(message, legacy::EVENT_NAME) {
            Some(Value::Bytes(name)) => Some(self.tables.strings.intern_bytes(name)),
            _ => None,
        };
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let id = self.raw_row_of(at.ts, at.cpu, utid, name);
        self.args_of_row(id, at.cpu, event, |model, list| {
            legacy_args(message, &mut model.tables.strings, list);
        });
    }

    /// An event that the trace describes.
    pub(super) fn generic(&mut self, at: At<'_>, event: KernelEvent, message: &[u8], window: Window) {
        let generic = std::mem::take(&mut self.kernel(at.cpu.machine).generic);
        match generic.events.get(&event.field) {
            Some(described) => self.described(at, event, described, message, window),
            None => self.stats.count(Stat::FtraceGenericDescriptorErrors),
        }
        self.kernel(at.cpu.machine).generic = generic;
    }

    fn described(
        &mut self,
        at: At<'_>,
        event: KernelEvent,
        described: &Event,
        message: &[u8],
        window: Window,
    ) {
        if window == Window::Within
            && let Some(track) = described.track
            && self.for_track(at, described, track, message).is_none()
        {
            self.stats.count(Stat::KernelTrackeventFormatError);
        }
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let id = self.raw_row_of(at.ts, at.cpu, utid, described.name);
        self.args_of_row(id, at.cpu, event, |model, list| {
            for _ in 0..described.args(message, &mut model.tables.strings, list) {
                model.stats.count(Stat::FtraceGenericDescriptorErrors);
            }
        });
    }

    /// Nothing if a field is missing or says what is none.
    fn for_track(&mut self, at: At<'_>, event: &Event, track: ForTrack, message: &[u8]) -> Option<()> {
        let strings = &mut self.tables.strings;
        let mut text = |number| match find(message, number)? {
            Value::Bytes(text) => Some(strings.intern_bytes(text)),
            _ => None,
        };
        let track_name = match track.track_name {
            Some(number) => Some(text(number)?),
            None => event.name,
        };
        let slice = match track.what {
            What::Slice { name, .. } => text(name),
            What::Counter { .. } => None,
        };
        let number = |number| find(message, number)?.as_u64().map(|value| value as i64);
        let is_counter = matches!(track.what, What::Counter { .. });
        let row = self.scope_track(at, track.scope, is_counter, (event.name, track_name), number)?;
        match track.what {
            What::Counter { value } => {
                let value = number(value)? as f64;
                self.push_counter(at.ts, row, value);
            }
            What::Slice { kind, .. } => {
                slice?;
                match number(kind)? as u8 {
                    b'B' => {
                        self.begin_slice(at.ts, row, None, slice, &[]);
                    }
                    b'E' => {
                        self.end_slice(at.ts, row, None, None, &[]);
                    }
                    b'I' => {
                        self.instant(at.ts, row, None, slice, &[]);
                    }
                    _ => return None,
                }
            }
        }
        Some(())
    }

    fn scope_track(
        &mut self,
        at: At<'_>,
        scope: Scope,
        is_counter: bool,
        (event, name): (Option<Str>, Option<Str>),
        number: impl Fn(u32) -> Option<i64>,
    ) -> Option<TrackId> {
        let machine: MachineId = at.cpu.machine;
        let type_ = |slice, counter| if is_counter { counter } else { slice };
        let int = |value: u32| ArgValue::Int(value.into());
        let (type_, who) = match scope {
            Scope::Thread => (
                type_("kernel_trackevent_thread_slice", "kernel_trackevent_thread_counter"),
                ("utid", int(self.kernel_thread(machine, at.tid).0)),
            ),
            Scope::Process(field) => {
                let pid = number(field)?;
                let (tables, processes) = self.processes(machine);
                (
                    type_("kernel_trackevent_process_slice", "kernel_trackevent_process_counter"),
                    ("upid", int(processes.process(tables, pid).0)),
                )
            }
            Scope::Cpu(field) => (
                type_("kernel_trackevent_cpu_slice", "kernel_trackevent_cpu_counter"),
                ("cpu", int(number(field)? as u32)),
            ),
            Scope::Custom(field) => (
                type_("kernel_trackevent_custom_slice", "kernel_trackevent_custom_counter"),
                ("scope", ArgValue::Int(number(field)?)),
            ),
        };
        let text = |text: Option<Str>| text.map_or(ArgValue::NoText, ArgValue::Text);
        let dimensions = [who, ("tracepoint", text(event)), ("name", text(name))];
        let track = match is_counter {
            true => TrackType::counter(type_, &dimensions),
            false => TrackType::slices(type_, &dimensions),
        };
        Some(self.track(machine, track, |strings| name.unwrap_or_else(|| strings.intern(""))))
    }
}

/// The arguments of an event that writes the names of its fields.
pub(super) fn legacy_args(message: &[u8], strings: &mut Strings, list: &mut Vec<Arg>) {
    for part in Fields::new(message).map_while(Result::ok) {
        if let (legacy::FIELD, Value::Bytes(field)) = (part.number, part.value) {
            list.extend(legacy_field(field, strings));
        }
    }
}

fn legacy_field(message: &[u8], strings: &mut Strings) -> Option<Arg> {
    let (mut key, mut text, mut int, mut uint) = (None, None, None, None);
    for part in Fields::new(message).map_while(Result::ok) {
        match (part.number, part.value) {
            (legacy::FIELD_NAME, Value::Bytes(name)) => key = Some(strings.intern_bytes(name)),
            (legacy::STR_VALUE, Value::Bytes(value)) => text = Some(strings.intern_bytes(value)),
            (legacy::INT_VALUE, value) => int = value.as_u64(),
            (legacy::UINT_VALUE, value) => uint = value.as_u64(),
            _ => {}
        }
    }
    let key = key?;
    let value = match (int.or(uint), text) {
        (Some(number), _) => ArgValue::Int(number as i64),
        (None, Some(text)) => ArgValue::Text(text),
        (None, None) => return None,
    };
    Some(Arg { flat_key: key, key, value })
}
