//! The rows of `ftrace_event`, and the arguments of events (upstream: ftrace_parser.cc, ParseTypedFtraceToRaw).
//!
//! What an event's fields are called comes from the table of known events. A trace has millions of events whose arguments nobody asks for:
//! they can be kept back or left out ([`Raw::row_args`]).

use ferretto_protos::fields::interned_data::KERNEL_SYMBOLS;
use ferretto_protos::ftrace::{FieldKind, KNOWN_EVENTS, KnownEvent, known_event};
use ferretto_protozero::varint;
use ferretto_trace_read::fields::{Fields, Value};
use ferretto_trace_tables::tables::{FtraceEventRow, Tables};
use ferretto_trace_tables::{ArgSetId, Str, Strings, Utid};

use super::apply::At;
use super::kept::{Kept, RowArgs};
use super::{Cpu, KernelEvent};
use crate::args::{Arg, ArgLists, ArgValue, PackedKey, Packer, RowOf, Slot};
use crate::model::Model;
use crate::sched::FullSwitch;
use crate::sequence::Generation;
use crate::stats::Stat;

/// Fields of higher numbers are no arguments. Upstream's.
const MAX_FIELDS: u32 = 32;

/// Fields that are the number of a kernel's function.
const FUNCTIONS: [(&str, &str); 9] = [
    ("sched_blocked_reason", "caller"),
    ("workqueue_queue_work", "function"),
    ("workqueue_activate_work", "function"),
    ("workqueue_execute_start", "function"),
    ("workqueue_execute_end", "function"),
    ("funcgraph_entry", "func"),
    ("funcgraph_exit", "func"),
    ("mm_shrink_slab_start", "shrink"),
    ("hrtimer_expire_entry", "function"),
];

/// Messages of `FtraceEvent` that are no events of the kernel, and so not in the table of those: their names, numbers and fields.
type Envelope = (&'static str, u32, &'static [(&'static str, u32, FieldKind)]);
const ENVELOPES: [Envelope; 2] = [
    ("generic", 327, &[("event_name", 1, FieldKind::String)]),
    ("kprobe_event", 542, &[("name", 1, FieldKind::String), ("type", 2, FieldKind::Int32)]),
];

/// What events and their fields are called.
#[derive(Debug)]
pub struct Raw {
    /// What becomes of the arguments of rows.
    pub row_args: RowArgs,
    pub(crate) kept: Kept,
    /// By number of the event.
    events: Vec<Event>,
    /// The highest number that an event has.
    max_number: u32,
    switch: Option<Names>,
    waking: Option<Names>,
    /// What switches and wake-ups have said lately, and the sets of arguments that came of it.
    switches: RecentSets<FullSwitch>,
    wakings: RecentSets<FullWaking>,
    /// The arguments of the event that is read.
    pub(super) list: Vec<Arg>,
    /// `args[0]` and so on.
    call_args: Vec<Str>,
}

/// The fields of `sched_waking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FullWaking {
    pub(crate) comm: Str,
    /// `pid`, `prio`, `success`, `target_cpu`.
    pub(crate) numbers: [u64; 4],
}

impl FullWaking {
    /// Its arguments, in the order of its fields.
    pub(crate) fn values(&self) -> [ArgValue; 5] {
        let [pid, prio, success, target_cpu] = self.numbers.map(|it| ArgValue::Int(it as i64));
        [ArgValue::Text(self.comm), pid, prio, success, target_cpu]
    }
}

/// Sets of arguments by what says them, of those that share a place the last two: the same threads are switched between again and again.
#[derive(Debug)]
struct RecentSets<K> {
    places: Box<[[Option<Recent<K>>; WAYS]]>,
    /// Which way the next one goes that is new.
    way: usize,
}

/// What was met last at its place.
#[derive(Clone, Copy, Debug)]
struct Recent<K> {
    says: K,
    /// Unless a helper has yet to tell it.
    set: Option<ArgSetId>,
}

/// Ours: a busy machine switches between some thousand pairs of threads, and this stays in the processor's second cache.
const RECENT_PLACES: usize = 4096;
/// Those that share a place.
const WAYS: usize = 2;

/// Where the slots of wake-ups begin.
const WAKING_SLOTS: Slot = (RECENT_PLACES * WAYS) as Slot;

impl<K> Default for RecentSets<K> {
    fn default() -> Self {
        Self { places: Box::default(), way: 0 }
    }
}

/// The place for what has this number, which is different for most.
#[inline]
fn place_of(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % RECENT_PLACES
}

impl<K: Copy + Eq> RecentSets<K> {
    /// Where `says` is at a place: its slot, whether it was there, and its set, if that is known. Memory is taken for all places when the first
    /// is asked for.
    #[inline]
    fn meet(&mut self, place: usize, says: &K) -> Option<(usize, bool, &mut Option<ArgSetId>)> {
        if self.places.is_empty() {
            self.places = vec![[None; WAYS]; RECENT_PLACES].into();
        }
        let ways = self.places.get_mut(place)?;
        let is_it = |recent: &Option<Recent<K>>| recent.as_ref().is_some_and(|recent| recent.says == *says);
        let known = ways.iter().position(is_it);
        let way = known.unwrap_or_else(|| {
            self.way = (self.way + 1) % WAYS;
            self.way
        });
        let there = ways.get_mut(way)?;
        if known.is_none() {
            *there = None;
        }
        let recent = there.get_or_insert(Recent { says: *says, set: None });
        Some((place * WAYS + way, known.is_some(), &mut recent.set))
    }
}

#[derive(Clone, Debug, Default)]
enum Event {
    /// Nobody has asked.
    #[default]
    NotAsked,
    Unknown,
    Known(Names),
}

#[derive(Clone, Debug)]
struct Names {
    name: Str,
    /// By their numbers, mostly each at the place of its number less 1.
    fields: Vec<Name>,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    number: u32,
    key: Str,
    packed: PackedKey,
    kind: FieldKind,
    is_function: bool,
}

impl Name {
    fn new(name: &str, number: u32, kind: FieldKind, strings: &mut Strings) -> Self {
        let key = strings.intern(name);
        Self { number, key, packed: PackedKey::of(key), kind, is_function: false }
    }
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            row_args: RowArgs::default(),
            kept: Kept::default(),
            events: Vec::new(),
            max_number: KNOWN_EVENTS.iter().map(|event| event.field_id).max().unwrap_or(0),
            switch: None,
            waking: None,
            switches: RecentSets::default(),
            wakings: RecentSets::default(),
            list: Vec::new(),
            call_args: Vec::new(),
        }
    }
}

impl Names {
    fn of(event: &KnownEvent, strings: &mut Strings) -> Self {
        let field = |field: &ferretto_protos::ftrace::KnownField| Name {
            is_function: FUNCTIONS.contains(&(event.name, field.name)),
            ..Name::new(field.name, field.number, field.kind, strings)
        };
        let fields = event.fields.iter().map(field).collect();
        Self { name: strings.intern(event.name), fields }
    }

    fn of_envelope((name, _, fields): &Envelope, strings: &mut Strings) -> Self {
        let field = |(name, number, kind): &(&str, u32, FieldKind)| Name::new(name, *number, *kind, strings);
        let fields = fields.iter().map(field).collect();
        Self { name: strings.intern(name), fields }
    }

    #[inline]
    fn get(&self, number: u32) -> Option<&Name> {
        let usual = self.fields.get(number.wrapping_sub(1) as usize).filter(|field| field.number == number);
        usual.or_else(|| self.fields.iter().find(|field| field.number == number))
    }
}

impl Raw {
    #[inline]
    fn names(&mut self, number: u32, strings: &mut Strings) -> Option<&Names> {
        if matches!(self.events.get(number as usize), None | Some(Event::NotAsked)) {
            self.ask(number, strings);
        }
        match self.events.get(number as usize) {
            Some(Event::Known(names)) => Some(names),
            _ => None,
        }
    }

    #[cold]
    fn ask(&mut self, number: u32, strings: &mut Strings) {
        if number > self.max_number {
            return;
        }
        let event = KNOWN_EVENTS.iter().find(|event| event.field_id == number);
        let names = match ENVELOPES.iter().find(|(_, its, _)| *its == number) {
            Some(envelope) => Some(Names::of_envelope(envelope, strings)),
            None => event.map(|event| Names::of(event, strings)),
        };
        if self.events.len() <= number as usize {
            self.events.resize(number as usize + 1, Event::NotAsked);
        }
        if let Some(place) = self.events.get_mut(number as usize) {
            *place = names.map_or(Event::Unknown, Event::Known);
        }
    }

    /// Reads the arguments of an event; returns how many functions have no name.
    pub(super) fn args(
        &mut self,
        number: u32,
        message: &[u8],
        state: &Generation,
        strings: &mut Strings,
        list: &mut Vec<Arg>,
    ) -> i64 {
        match self.names(number, strings) {
            Some(names) => read_args(names, message, state, strings, list),
            None => 0,
        }
    }

    /// The key of an argument of a call into the kernel.
    pub(super) fn call_arg_key(&mut self, index: usize, strings: &mut Strings) -> Str {
        while self.call_args.len() <= index {
            let key = strings.intern(&format!("args[{}]", self.call_args.len()));
            self.call_args.push(key);
        }
        self.call_args[index]
    }

    /// The name of `sched_switch`.
    pub(crate) fn switch(&mut self, strings: &mut Strings) -> Str {
        of_kind(&mut self.switch, "sched_switch", strings)
    }

    /// The name of `sched_waking`.
    pub(crate) fn waking(&mut self, strings: &mut Strings) -> Str {
        of_kind(&mut self.waking, "sched_waking", strings)
    }

    /// Arguments of `sched_switch`, all of its fields in their order.
    pub(crate) fn switch_args(&self, values: [ArgValue; 7]) -> impl Iterator<Item = Arg> {
        let fields = self.switch.as_ref().map(|names| names.fields.as_slice()).unwrap_or_default();
        let arg = |(field, value): (&Name, ArgValue)| Arg { flat_key: field.key, key: field.key, value };
        fields.iter().zip(values).map(arg)
    }

    /// Arguments of `sched_waking` in its compact form: `comm`, `pid`, `prio`, `target_cpu`.
    pub(crate) fn waking_args(&self, values: [ArgValue; 4]) -> impl Iterator<Item = Arg> {
        let names = self.waking.as_ref();
        [1, 2, 3, 5].into_iter().zip(values).filter_map(move |(number, value)| {
            let key = names?.get(number)?.key;
            Some(Arg { flat_key: key, key, value })
        })
    }
}

#[inline]
fn of_kind(names: &mut Option<Names>, name: &str, strings: &mut Strings) -> Str {
    match names {
        Some(names) => names.name,
        None => begin_kind(names, name, strings),
    }
}

#[cold]
fn begin_kind(names: &mut Option<Names>, name: &str, strings: &mut Strings) -> Str {
    let number = strings.intern(name);
    *names = known_event(name).map(|event| Names::of(event, strings));
    number
}

impl Model {
    /// Writes the row of an event that has a message of its own.
    pub(super) fn raw_row(&mut self, at: At<'_>, event: KernelEvent, message: &[u8]) {
        if event.field > self.raw.max_number {
            return;
        }
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let name = self.raw.names(event.field, &mut self.tables.strings).map(|names| names.name);
        let id = self.raw_row_of(at.ts, at.cpu, utid, name);
        self.args_of_row(id, at.cpu, event, |model, list| {
            let missing = model.raw.args(event.field, message, at.state, &mut model.tables.strings, list);
            if missing != 0 {
                model.stats.add(Stat::InternedDataTokenizerErrors, None, missing);
            }
        });
    }

    /// Writes the arguments of a row, or keeps where they are. `read` reads them.
    pub(super) fn args_of_row(
        &mut self,
        id: u32,
        cpu: Cpu,
        event: KernelEvent,
        read: impl FnOnce(&mut Self, &mut Vec<Arg>),
    ) {
        match self.raw.row_args {
            RowArgs::Left => {}
            RowArgs::Kept => self.raw.kept.push_event(cpu, event),
            RowArgs::Written => {
                let mut list = std::mem::take(&mut self.raw.list);
                list.clear();
                read(self, &mut list);
                self.row_args(id, &list);
                self.raw.list = list;
            }
        }
    }

    /// Writes a row without arguments; returns its number.
    #[inline]
    pub(crate) fn raw_row_of(&mut self, ts: i64, cpu: Cpu, utid: Utid, name: Option<Str>) -> u32 {
        let ucpu = self.cpus.get(cpu.machine, cpu.cpu);
        let row = FtraceEventRow { ts, name, utid: Some(utid), ucpu, ..FtraceEventRow::default() };
        self.tables.ftrace_event.push(row)
    }

    /// An event of the kernel that another format brings, as it was: a row with its arguments.
    pub fn push_kernel_event(&mut self, ts: i64, cpu: Cpu, utid: Utid, name: Str, flags: u32, args: &[Arg]) {
        let row = self.raw_row_of(ts, cpu, utid, Some(name));
        self.tables.ftrace_event.common_flags.set(row as usize, flags);
        self.row_args(row, args);
    }

    /// Gives a row the arguments that are put into the list.
    #[inline]
    pub(crate) fn list_of_row(&mut self, id: u32, fill: impl FnOnce(&Raw, &mut Vec<Arg>)) {
        let mut list = std::mem::take(&mut self.raw.list);
        list.clear();
        fill(&self.raw, &mut list);
        self.row_args(id, &list);
        self.raw.list = list;
    }

    /// Gives a row the arguments of a switch.
    #[inline]
    pub(crate) fn switch_args_of_row(&mut self, id: u32, switch: &FullSwitch) {
        let number =
            (switch.prev_tid as u64) << 40 ^ (switch.next_tid as u64) << 8 ^ switch.prev_state as u64;
        let place = place_of(number);
        let Self { raw: Raw { switches, switch: names, .. }, args, tables, .. } = self;
        let Some((slot, is_known, set)) = switches.meet(place, switch) else { return };
        if set.is_none() {
            let come_again = ComeAgain { row: id, slot: slot as Slot, is_known, set };
            write_again(come_again, names.as_ref(), &switch.values(), (args, tables));
        } else {
            tables.ftrace_event.arg_set_id.set(id as usize, *set);
        }
    }

    /// Gives a row the arguments of a wake-up.
    #[inline]
    pub(crate) fn waking_args_of_row(&mut self, id: u32, waking: &FullWaking) {
        let [pid, _, _, target_cpu] = waking.numbers;
        let place = place_of(pid << 8 ^ target_cpu);
        let Self { raw: Raw { wakings, waking: names, .. }, args, tables, .. } = self;
        let Some((slot, is_known, set)) = wakings.meet(place, waking) else { return };
        if set.is_none() {
            let come_again = ComeAgain { row: id, slot: WAKING_SLOTS + slot as Slot, is_known, set };
            write_again(come_again, names.as_ref(), &waking.values(), (args, tables));
        } else {
            tables.ftrace_event.arg_set_id.set(id as usize, *set);
        }
    }

    /// Gives a row arguments.
    pub(crate) fn row_args(&mut self, id: u32, args: &[Arg]) {
        self.args.write_args_for(RowOf::Event(id), args, &mut self.tables);
    }
}

/// A row of `ftrace_event` whose arguments may come again.
struct ComeAgain<'a> {
    row: u32,
    slot: Slot,
    /// They are those that the slot had last.
    is_known: bool,
    /// Their set, to be filled in.
    set: &'a mut Option<ArgSetId>,
}

/// Writes the arguments of a row, one for each field of an event.
#[inline(never)]
fn write_again(
    row: ComeAgain<'_>,
    names: Option<&Names>,
    values: &[ArgValue],
    (args, tables): (&mut ArgLists, &mut Tables),
) {
    let fields = names.map(|names| names.fields.as_slice()).unwrap_or_default();
    if args.has_slots() {
        let arg =
            |(field, value): (&Name, &ArgValue)| Arg { flat_key: field.key, key: field.key, value: *value };
        let make = |list: &mut Vec<Arg>| list.extend(fields.iter().zip(values).map(arg));
        *row.set = args.write_slot_for(row.row, (row.slot, row.is_known), tables, make);
        return;
    }
    let fill = |packer: &mut Packer<'_>| {
        fields.iter().zip(values).for_each(|(field, value)| packer.put(field.packed, *value));
    };
    let list = args.intern_packed(values.len(), fill);
    *row.set = args.write(list, tables);
    tables.ftrace_event.arg_set_id.set(row.row as usize, *row.set);
}

fn read_args(
    names: &Names,
    message: &[u8],
    state: &Generation,
    strings: &mut Strings,
    list: &mut Vec<Arg>,
) -> i64 {
    let mut missing = 0;
    for part in Fields::new(message).whole() {
        if part.number >= MAX_FIELDS {
            continue;
        }
        let Some(field) = names.get(part.number) else { continue };
        let function = match field.is_function {
            true => part.value.as_u64().and_then(|number| state.text(KERNEL_SYMBOLS, number)),
            false => None,
        };
        missing += i64::from(field.is_function && function.is_none());
        let value = match function {
            Some(function) => Some(ArgValue::Text(function)),
            None => value_of(field.kind, part.value, strings),
        };
        list.extend(value.map(|value| Arg { flat_key: field.key, key: field.key, value }));
    }
    missing
}

/// A field's value as an argument. What is not of its type is taken as upstream does: as the bits that are there.
pub(super) fn value_of(kind: FieldKind, value: Value<'_>, strings: &mut Strings) -> Option<ArgValue> {
    let bits = value.as_u64().unwrap_or(0);
    Some(match kind {
        FieldKind::Int32
        | FieldKind::Int64
        | FieldKind::Sfixed32
        | FieldKind::Sfixed64
        | FieldKind::Bool
        | FieldKind::Enum => ArgValue::Int(bits as i64),
        FieldKind::Uint32 | FieldKind::Uint64 | FieldKind::Fixed32 | FieldKind::Fixed64 => {
            ArgValue::Uint(bits)
        }
        FieldKind::Sint32 | FieldKind::Sint64 => ArgValue::Int(varint::unzigzag(bits)),
        FieldKind::String | FieldKind::Bytes => match value {
            Value::Bytes(text) => ArgValue::Text(strings.intern_bytes(text)),
            _ => return None,
        },
        FieldKind::Double => ArgValue::Real(f64::from_bits(bits)),
        FieldKind::Float => ArgValue::Real(f64::from(f32::from_bits(bits as u32))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_functions_are_fields_of_known_events() {
        for (event, field) in FUNCTIONS {
            let known = known_event(event).unwrap();
            assert!(known.fields.iter().any(|its| its.name == field), "{event}.{field}");
        }
    }

    #[test]
    fn the_arguments_of_scheduling_have_the_names_of_its_fields() {
        let mut strings = Strings::default();
        let mut raw = Raw::default();
        raw.switch(&mut strings);
        raw.waking(&mut strings);
        let key = |arg: Arg| strings.get(arg.key).to_owned();
        assert_eq!(
            raw.switch_args([ArgValue::Null; 7]).map(key).collect::<Vec<_>>(),
            ["prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid", "next_prio"]
        );
        let of_waking = &raw.waking.as_ref().unwrap().fields;
        let of_waking: Vec<_> = of_waking.iter().map(|it| (strings.get(it.key), it.kind)).collect();
        let int = |name| (name, FieldKind::Int32);
        let ints = ["pid", "prio", "success", "target_cpu"].map(int);
        assert_eq!(of_waking, [&[("comm", FieldKind::String)][..], &ints].concat());
        let of_waking: Vec<_> = raw.waking_args([ArgValue::Null; 4]).map(key).collect();
        assert_eq!(of_waking, ["comm", "pid", "prio", "target_cpu"]);
    }
}
