//! Which tracks there are: each one that something tells apart is a row.

use ferretto_trace_tables::tables::{Tables, TrackRow};
use ferretto_trace_tables::{MachineId, Str, Strings, TrackId, Upid, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::args::{Arg, ArgList, ArgLists, ArgValue};

/// What tells tracks of one type apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dimensions {
    /// Of a thread.
    pub utid: Option<Utid>,
    /// Of a process.
    pub upid: Option<Upid>,
    /// Of a processor.
    pub cpu: Option<u32>,
    /// By a number: the uuid of a descriptor, an interrupt's.
    pub number: Option<i64>,
    /// By a text: the name of a counter, of a device.
    pub text: Option<Str>,
    /// By another text.
    pub text2: Option<Str>,
}

/// What tracks of a type are: what they hold, and what tells them apart.
#[derive(Clone, Copy, Debug)]
pub struct Blueprint {
    /// `slice`, `counter` or `state`.
    pub event_type: &'static str,
    /// By a word that stays, such as `thread_execution`.
    pub type_: &'static str,
    /// What tells them apart, in upstream's order.
    pub dimensions: &'static [Dimension],
    /// The unit of a counter.
    pub unit: Option<&'static str>,
}

/// One of the things that tell tracks of a type apart.
#[derive(Clone, Copy, Debug)]
pub enum Dimension {
    /// [`Dimensions::utid`].
    Utid,
    /// [`Dimensions::upid`].
    Upid,
    /// [`Dimensions::cpu`].
    Cpu,
    /// [`Dimensions::number`], and what it is called.
    Number(&'static str),
    /// [`Dimensions::text`], and what it is called.
    Text(&'static str),
    /// [`Dimensions::text2`], and what it is called.
    Text2(&'static str),
}

impl Blueprint {
    /// Of slices.
    #[must_use]
    pub const fn slice(type_: &'static str, dimensions: &'static [Dimension]) -> Self {
        Self { event_type: "slice", type_, dimensions, unit: None }
    }

    /// Of counters without a unit.
    #[must_use]
    pub const fn counter(type_: &'static str, dimensions: &'static [Dimension]) -> Self {
        Self { event_type: "counter", type_, dimensions, unit: None }
    }

    /// The same with a unit.
    #[must_use]
    pub const fn of_unit(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }
}

/// Everything that a track is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrackKey {
    /// `slice`, `counter` or `state`.
    pub event_type: &'static str,
    /// By a word that stays, such as `thread_execution`.
    pub type_: &'static str,
    /// The machine.
    pub machine: MachineId,
    /// What tells it apart.
    pub dimensions: Dimensions,
}

/// All tracks that were met.
#[derive(Debug, Default)]
pub struct Tracks {
    rows: HashMap<TrackKey, TrackId, RandomState>,
    /// Those of [`counters`](crate::counters), by type, machine and dimensions.
    pub(crate) of_dimensions: HashMap<(&'static str, MachineId, ArgList), TrackId, RandomState>,
}

impl Tracks {
    /// The track of a key, or a new one of this name.
    pub fn get(&mut self, tables: &mut Tables, key: TrackKey, name: Option<Str>) -> TrackId {
        if let Some(id) = self.rows.get(&key) {
            return *id;
        }
        let id = add(tables, key, name);
        self.rows.insert(key, id);
        id
    }

    /// The track of this blueprint and of what tells it apart, or a new one; `name` is asked for its name then.
    pub fn intern(
        &mut self,
        (tables, args): (&mut Tables, &mut ArgLists),
        blueprint: &Blueprint,
        machine: MachineId,
        dimensions: Dimensions,
        name: impl FnOnce(&mut Strings) -> Option<Str>,
    ) -> TrackId {
        let key = TrackKey { event_type: blueprint.event_type, type_: blueprint.type_, machine, dimensions };
        if let Some(id) = self.rows.get(&key) {
            return *id;
        }
        let name = name(&mut tables.strings);
        let id = add_of(tables, args, blueprint, key, name);
        self.rows.insert(key, id);
        id
    }
}

/// A track like no other, with the arguments that say what tells it apart.
pub fn add_of(
    tables: &mut Tables,
    args: &mut ArgLists,
    blueprint: &Blueprint,
    key: TrackKey,
    name: Option<Str>,
) -> TrackId {
    let id = add(tables, key, name);
    let of = key.dimensions;
    let mut list = Vec::with_capacity(blueprint.dimensions.len());
    for dimension in blueprint.dimensions {
        let int = |value: Option<i64>| value.map(ArgValue::Int);
        let (name, value) = match *dimension {
            Dimension::Utid => ("utid", int(of.utid.map(|utid| i64::from(utid.0)))),
            Dimension::Upid => ("upid", int(of.upid.map(|upid| i64::from(upid.0)))),
            Dimension::Cpu => ("cpu", int(of.cpu.map(i64::from))),
            Dimension::Number(name) => (name, int(of.number)),
            Dimension::Text(name) => (name, of.text.map(ArgValue::Text)),
            Dimension::Text2(name) => (name, of.text2.map(ArgValue::Text)),
        };
        let key = tables.strings.intern(name);
        list.extend(value.map(|value| Arg { flat_key: key, key, value }));
    }
    let list = args.intern(&list);
    let set = args.write(list, tables);
    tables.track.dimension_arg_set_id.set(id.index(), set);
    if let Some(unit) = blueprint.unit {
        let unit = tables.strings.intern(unit);
        if let Some(cell) = tables.track.counter_unit.get_mut(id.index()) {
            *cell = Some(unit);
        }
    }
    id
}

/// A track like no other, whatever tells it apart.
pub fn add(tables: &mut Tables, key: TrackKey, name: Option<Str>) -> TrackId {
    let row = TrackRow {
        name,
        type_: Some(tables.strings.intern(key.type_)),
        event_type: Some(tables.strings.intern(key.event_type)),
        machine_id: Some(key.machine),
        utid: key.dimensions.utid,
        upid: key.dimensions.upid,
        cpu: key.dimensions.cpu,
        ..TrackRow::default()
    };
    TrackId(tables.track.push(row))
}
