//! Which tracks there are: each one that something tells apart is a row.
//!
//! A track of a type is told apart from others of it by its *dimensions*, names and values which also stand in the table `args`. One of the
//! dimensions `utid`, `upid` and `cpu` is a column, too, and `cpu` names a processor (upstream: track_tracker.cc, tracks_common.h).

use ferretto_trace_tables::tables::{Tables, TrackRow};
use ferretto_trace_tables::{MachineId, Str, Strings, TrackId, Upid, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::args::{Arg, ArgList, ArgLists, ArgValue};
use crate::model::Model;

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

/// What a track is.
#[derive(Clone, Copy, Debug)]
pub struct TrackType<'a> {
    /// `slice`, `counter` or `state`.
    pub event_type: &'static str,
    /// By a word that stays, such as `meminfo`.
    pub type_: &'static str,
    /// What tells it apart from others of its type.
    pub dimensions: &'a [(&'static str, ArgValue)],
    /// The unit of a counter.
    pub unit: Option<&'static str>,
}

impl<'a> TrackType<'a> {
    /// A counter without a unit.
    #[must_use]
    pub const fn counter(type_: &'static str, dimensions: &'a [(&'static str, ArgValue)]) -> Self {
        Self { event_type: "counter", type_, dimensions, unit: None }
    }

    /// The same in a unit.
    #[must_use]
    pub const fn in_unit(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }

    /// A track of slices.
    #[must_use]
    pub const fn slices(type_: &'static str, dimensions: &'a [(&'static str, ArgValue)]) -> Self {
        Self { event_type: "slice", type_, dimensions, unit: None }
    }

    /// A track of states.
    #[must_use]
    pub const fn states(type_: &'static str, dimensions: &'a [(&'static str, ArgValue)]) -> Self {
        Self { event_type: "state", type_, dimensions, unit: None }
    }
}

/// All tracks that were met.
#[derive(Debug, Default)]
pub struct Tracks {
    /// A shorter way to those of blueprints.
    rows: HashMap<TrackKey, TrackId, RandomState>,
    /// By type, machine and dimensions.
    of_dimensions: HashMap<(&'static str, MachineId, ArgList), TrackId, RandomState>,
}

impl Tracks {
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
        let list = dimension_list(tables, args, blueprint, dimensions);
        let known = self.of_dimensions.get(&(blueprint.type_, machine, list)).copied();
        let id = known.unwrap_or_else(|| {
            let name = name(&mut tables.strings);
            add_of(tables, args, (blueprint, list), key, name)
        });
        self.of_dimensions.insert((blueprint.type_, machine, list), id);
        self.rows.insert(key, id);
        id
    }
}

/// What tells a track apart, as arguments.
fn dimension_list(
    tables: &mut Tables,
    args: &mut ArgLists,
    blueprint: &Blueprint,
    of: Dimensions,
) -> ArgList {
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
    args.intern(&list)
}

/// A new track of a blueprint.
fn add_of(
    tables: &mut Tables,
    args: &mut ArgLists,
    (blueprint, dimensions): (&Blueprint, ArgList),
    key: TrackKey,
    name: Option<Str>,
) -> TrackId {
    let id = add(tables, key, name);
    let set = args.write(dimensions, tables);
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

impl Model {
    /// The track of a type, or a new one, which `name` names. Whether it is new.
    pub fn intern_track(
        &mut self,
        machine: MachineId,
        track: TrackType<'_>,
        name: impl FnOnce(&mut Strings) -> Option<Str>,
    ) -> (TrackId, bool) {
        let dimensions = self.arg_list(track.dimensions);
        let key = (track.type_, machine, dimensions);
        if let Some(id) = self.tracks.of_dimensions.get(&key) {
            return (*id, false);
        }
        let name = name(&mut self.tables.strings);
        let id = self.add_track(machine, track, dimensions, name);
        self.tracks.of_dimensions.insert(key, id);
        (id, true)
    }

    /// A list of arguments with plain keys.
    pub fn arg_list(&mut self, args: &[(&'static str, ArgValue)]) -> ArgList {
        let strings = &mut self.tables.strings;
        let arg = |(key, value): &(&str, ArgValue)| {
            let key = strings.intern(key);
            Arg { flat_key: key, key, value: *value }
        };
        let args: Vec<Arg> = args.iter().map(arg).collect();
        self.args.intern(&args)
    }

    /// A new track of a type, whatever tells it apart: `dimensions` are the track's.
    pub fn add_track(
        &mut self,
        machine: MachineId,
        track: TrackType<'_>,
        dimensions: ArgList,
        name: Option<Str>,
    ) -> TrackId {
        let mut row = TrackRow {
            name,
            type_: Some(self.tables.strings.intern(track.type_)),
            event_type: Some(self.tables.strings.intern(track.event_type)),
            counter_unit: track.unit.map(|unit| self.tables.strings.intern(unit)),
            machine_id: Some(machine),
            dimension_arg_set_id: self.args.write(dimensions, &mut self.tables),
            ..TrackRow::default()
        };
        for (name, value) in track.dimensions {
            let ArgValue::Int(value) = value else { continue };
            let Ok(value) = u32::try_from(*value) else { continue };
            match *name {
                "utid" => row.utid = Some(Utid(value)),
                "upid" => row.upid = Some(Upid(value)),
                "cpu" => {
                    row.cpu = Some(value);
                    self.cpus.get(machine, value);
                }
                _ => {}
            }
        }
        TrackId(self.tables.track.push(row))
    }

    /// What its source says of a track.
    pub fn say_of_track(&mut self, track: TrackId, said: &[(&'static str, ArgValue)]) {
        let list = self.arg_list(said);
        let set = self.args.write(list, &mut self.tables);
        self.tables.track.source_arg_set_id.set(track.index(), set);
    }

    /// The main track of a thread: what it does and what the system says of it.
    pub fn thread_track(&mut self, machine: MachineId, utid: Utid) -> TrackId {
        let dimensions = [("utid", ArgValue::Int(utid.0.into()))];
        self.intern_track(machine, TrackType::slices("thread_execution", &dimensions), |_| None).0
    }
}
