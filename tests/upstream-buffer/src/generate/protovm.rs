//! Random scripts for ProtoVM: a schema, a program that mostly fits it, and packets that mostly do, too.

use std::fmt::{self, Display, Formatter};

use super::screen::screen;
use super::wire::{self, Field, Value, encode};
use super::{Odds, hex};
use crate::rng::Rng;
use crate::shrink::{self, simpler_numbers};

/// An operation of the script language in `crates/recording/protovm/tests/script/mod.rs`.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Vm { memory_limit: usize, program: Vec<u8>, state: Option<Vec<u8>> },
    Apply(Vec<u8>),
    State,
    Memory,
    Clone,
}

impl Display for Operation {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vm { memory_limit, program, state } => {
                write!(to, "vm {memory_limit} {}", hex(program))?;
                state.iter().try_for_each(|state| write!(to, " {}", hex(state)))
            }
            Self::Apply(packet) => write!(to, "apply {}", hex(packet)),
            Self::State => write!(to, "state"),
            Self::Memory => write!(to, "memory"),
            Self::Clone => write!(to, "clone"),
        }
    }
}

impl shrink::Operation for Operation {
    fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Vm { memory_limit, program, state } => {
                let mut simpler = Vec::new();
                if state.is_some() {
                    simpler.push(Self::Vm {
                        memory_limit: *memory_limit,
                        program: program.clone(),
                        state: None,
                    });
                }
                simpler.extend(wire::simpler(program).into_iter().map(|program| Self::Vm {
                    memory_limit: *memory_limit,
                    program,
                    state: state.clone(),
                }));
                simpler.extend(state.iter().flat_map(|state| wire::simpler(state)).map(|state| Self::Vm {
                    memory_limit: *memory_limit,
                    program: program.clone(),
                    state: Some(state),
                }));
                simpler.extend(simpler_numbers(*memory_limit as u64, 0).into_iter().map(|limit| Self::Vm {
                    memory_limit: limit as usize,
                    program: program.clone(),
                    state: state.clone(),
                }));
                simpler
            }
            Self::Apply(packet) => wire::simpler(packet).into_iter().map(Self::Apply).collect(),
            Self::State | Self::Memory | Self::Clone => Vec::new(),
        }
    }

    /// Upstream reads through a null pointer when it encodes a state that a program has set to a number alone (rw_proto.cc,
    /// `RwProto::Serialize`). For ours that is an empty state.
    fn is_dangerous(&self) -> bool {
        matches!(self, Self::State | Self::Clone)
    }

    /// A VM comes first, and its program is one that both run alike (see [`screen`]).
    fn repaired(script: Vec<Self>) -> Vec<Self> {
        let mut is_there = false;
        let mut repaired = script;
        repaired.retain(|operation| {
            if let Self::Vm { program, .. } = operation {
                is_there = screen(program).is_none();
            }
            is_there
        });
        repaired
    }
}

/// The largest number of a field that upstream reads is 2^24 - 1.
const FIELD_IDS: [u32; 12] = [1, 2, 3, 4, 5, 15, 16, 300, 1 << 20, (1 << 24) - 1, 1 << 24, (1 << 29) - 1];

/// Numbers for keys, indexes and values, among them those at which something changes.
const NUMBERS: [u64; 14] =
    [0, 0, 1, 1, 2, 3, 4, 7, 127, 300, u32::MAX as u64, 1 << 32, (1 << 32) + 1, u64::MAX];

/// The types of messages; the first is that of packets and the state.
struct Schema(Vec<Vec<FieldType>>);

#[derive(Debug, Clone, Copy)]
struct FieldType {
    id: u32,
    kind: FieldKind,
    repeated: bool,
}

#[derive(Debug, Clone, Copy)]
enum FieldKind {
    Varint,
    Fixed32,
    Fixed64,
    Bytes,
    /// Of the type with this index.
    Message(usize),
}

impl FieldKind {
    const fn is_number(self) -> bool {
        matches!(self, Self::Varint | Self::Fixed32 | Self::Fixed64)
    }
}

impl Schema {
    fn any(rng: &mut Rng) -> Self {
        let num_types = 1 + rng.below(3);
        let types = (0..num_types).map(|_| {
            let num_fields = 1 + rng.below(5);
            let mut fields: Vec<FieldType> =
                (0..num_fields).map(|_| FieldType::any(rng, num_types)).collect();
            fields.sort_by_key(|field| field.id);
            fields.dedup_by_key(|field| field.id);
            fields
        });
        Self(types.collect())
    }

    fn pick(&self, rng: &mut Rng, message: usize) -> FieldType {
        rng.pick(&self.0[message])
    }
}

impl FieldType {
    fn any(rng: &mut Rng, num_types: usize) -> Self {
        let kind = match rng.below(8) {
            0..2 => FieldKind::Varint,
            2 => FieldKind::Fixed32,
            3 => FieldKind::Fixed64,
            4 => FieldKind::Bytes,
            _ => FieldKind::Message(rng.below(num_types)),
        };
        let common = !rng.one_in(4);
        let id = if common { 1 + rng.below(5) as u32 } else { rng.pick(&FIELD_IDS) };
        Self { id, kind, repeated: rng.one_in(2) }
    }
}

/// A random script.
pub(crate) fn script(rng: &mut Rng) -> Vec<Operation> {
    let schema = Schema::any(rng);
    let mut script = Vec::new();
    for _ in 0..1 + rng.below(2) {
        push_vm(rng, &schema, &mut script);
    }
    <Operation as shrink::Operation>::repaired(script)
}

fn push_vm(rng: &mut Rng, schema: &Schema, script: &mut Vec<Operation>) {
    let (damaged, misfit) = (Odds::any(rng), Odds::any(rng));
    let ample = rng.one_in(2);
    let memory_limit = if ample { 1 << 20 } else { rng.pick(&[0, 1, 100, 200, 400, 1000, 3000, 1 << 16]) };
    let tame = rng.one_in(2);
    let mut programmer =
        Programmer { rng, schema, tame, misfit: if tame { Odds(0) } else { misfit }, left: 40 };
    let mut program = programmer.program();
    if damaged.come_up(rng) && rng.one_in(2) {
        damage(rng, &mut program);
    }
    let state = rng.one_in(3).then(|| message(rng, schema, 0, 4));
    script.push(Operation::Vm { memory_limit, program, state });
    for _ in 0..rng.pick(&[1, 3, 10, 30]) {
        let mut packet = message(rng, schema, 0, 5);
        if damaged.come_up(rng) {
            damage(rng, &mut packet);
        }
        script.push(Operation::Apply(packet));
        if rng.one_in(3) {
            script.push(Operation::State);
        }
        if rng.one_in(2) {
            script.push(Operation::Memory);
        }
    }
    script.push(Operation::State);
    if rng.one_in(8) {
        script.extend([Operation::Clone, Operation::State, Operation::Memory, Operation::Apply(vec![8, 1])]);
        script.push(Operation::State);
    }
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(bytes.len() + 1);
        match rng.below(4) {
            0 => bytes.truncate(at),
            1 => {
                let inserted = rng.bytes(4);
                bytes.splice(at..at, inserted);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = if rng.one_in(2) { rng.next() as u8 } else { *byte ^ 1 << rng.below(8) };
                }
            }
        }
    }
}

/// A message of a type, at most `depth` levels deep.
fn message(rng: &mut Rng, schema: &Schema, message_type: usize, depth: usize) -> Vec<u8> {
    let mut fields = Vec::new();
    for field in &schema.0[message_type] {
        let count = if field.repeated { rng.below(4) } else { usize::from(!rng.one_in(3)) };
        for _ in 0..count {
            // Now and then, another type's value, or another number.
            let kind = if rng.one_in(30) { schema.pick(rng, message_type).kind } else { field.kind };
            let id = if rng.one_in(40) { rng.pick(&FIELD_IDS) } else { field.id };
            fields.push(Field { id, value: value(rng, schema, kind, depth) });
        }
    }
    if rng.one_in(6) && fields.len() > 1 {
        let (one, other) = (rng.below(fields.len()), rng.below(fields.len()));
        fields.swap(one, other);
    }
    encode(&fields)
}

fn value(rng: &mut Rng, schema: &Schema, kind: FieldKind, depth: usize) -> Value {
    match kind {
        FieldKind::Varint => Value::Varint(rng.pick(&NUMBERS)),
        FieldKind::Fixed32 => Value::Fixed32((rng.pick(&NUMBERS) as u32).to_le_bytes()),
        FieldKind::Fixed64 => Value::Fixed64(rng.pick(&NUMBERS).to_le_bytes()),
        FieldKind::Message(inner) if depth > 0 => Value::Bytes(message(rng, schema, inner, depth - 1)),
        FieldKind::Bytes | FieldKind::Message(_) => {
            let most = rng.pick(&[0, 1, 4, 40]);
            Value::Bytes(rng.bytes(most))
        }
    }
}

/// Writes programs.
struct Programmer<'a> {
    rng: &'a mut Rng,
    schema: &'a Schema,
    /// Writes what a compiler might: most such programs run to their end.
    tame: bool,
    /// How often an instruction does not fit where it stands.
    misfit: Odds,
    /// Instructions that may still be written.
    left: usize,
}

/// What the cursors point at: a message of a type, or something else.
#[derive(Clone, Copy)]
struct Place {
    src: Option<usize>,
    dst: Option<usize>,
}

/// `VmCursorEnum`.
const SRC: u64 = 1;
const DST: u64 = 2;

/// Nested deeper, programs abort or fail early more often than not.
const MAX_NESTING: usize = 6;

impl Programmer<'_> {
    fn program(&mut self) -> Vec<u8> {
        let mut fields = Vec::new();
        if self.rng.one_in(4) {
            fields.push(number(1, 1)); // the version
        }
        fields.extend(self.instructions(2, Place { src: Some(0), dst: Some(0) }, 0));
        encode(&fields)
    }

    /// A few instructions, as fields with this number.
    fn instructions(&mut self, id: u32, place: Place, depth: usize) -> Vec<Field> {
        let count = 1 + self.rng.below(3);
        (0..count).map_while(|_| self.instruction(place, depth).map(|body| bytes(id, body))).collect()
    }

    fn instruction(&mut self, place: Place, depth: usize) -> Option<Vec<u8>> {
        self.left = self.left.checked_sub(1)?;
        let mut fields = match self.rng.below(12) {
            _ if depth >= MAX_NESTING => vec![bytes(3, self.two_flags())],
            _ if self.tame => self.tame_operation(place, depth),
            0..4 => self.select(place, depth),
            4..6 => self.upsert(place, depth),
            6 => {
                let register = self.register();
                let cursor = self.cursor();
                vec![bytes(2, encode(&[cursor.into_iter().collect(), vec![register]].concat()))]
            }
            7 | 8 => vec![bytes(3, self.two_flags())],
            9 => vec![bytes(4, Vec::new())],
            10 => vec![bytes(5, Vec::new())],
            _ => self.odd_operation(),
        };
        if self.rng.one_in(2) {
            let level = if self.tame { 1 } else { self.rng.pick(&[1, 1, 1, 2, 3, 0, 9]) };
            fields.push(number(6, level));
        }
        if self.rng.one_in(5) && depth < MAX_NESTING {
            fields.extend(self.instructions(7, place, depth + 1));
        }
        Some(encode(&fields))
    }

    fn tame_operation(&mut self, place: Place, depth: usize) -> Vec<Field> {
        match self.rng.below(12) {
            0..5 if place.src.is_some() && place.src == place.dst => self.descend(place, depth),
            5..8 if place.src.is_some() => self.upsert(place, depth),
            8 => self.select(place, depth),
            9 => vec![bytes(4, Vec::new())],
            10 if depth > 0 && self.rng.one_in(3) => vec![bytes(5, Vec::new())],
            _ if place.src.is_some() => vec![bytes(3, self.two_flags())],
            _ => vec![bytes(4, Vec::new())],
        }
    }

    /// Moves both cursors into the same field, element by element if it is repeated.
    fn descend(&mut self, place: Place, depth: usize) -> Vec<Field> {
        let Some(message) = place.src else { return Vec::new() };
        let field = self.schema.pick(self.rng, message);
        let inner = match field.kind {
            FieldKind::Message(inner) => Some(inner),
            _ => None,
        };
        let mut from = vec![number(1, field.id.into())];
        let mut to = vec![number(1, DST), bytes(2, encode(&from))];
        if field.repeated {
            from.push(number(5, 1));
            if self.rng.one_in(2) {
                to.push(bytes(2, encode(&[number(2, self.rng.pick(&[0, 0, 0, 1]))])));
            }
        }
        to.push(number(3, 1));
        let mut entered = vec![bytes(1, encode(&to))];
        entered.extend(self.instructions(7, Place { src: inner, dst: inner }, depth + 2));
        vec![bytes(1, encode(&[bytes(2, encode(&from))])), bytes(7, encode(&entered))]
    }

    /// What no compiler writes: no operation, two, or one with the wrong wire type.
    fn odd_operation(&mut self) -> Vec<Field> {
        let operations = (0..self.rng.below(3)).map(|_| {
            let id = 1 + self.rng.below(5) as u32;
            if self.rng.one_in(2) { bytes(id, Vec::new()) } else { number(id, self.rng.pick(&NUMBERS)) }
        });
        operations.collect()
    }

    /// `skip_submessages` and `del_if_src_empty`.
    fn two_flags(&mut self) -> Vec<u8> {
        let mut fields = Vec::new();
        for id in [1, 2] {
            if self.rng.one_in(4) {
                fields.push(number(id, self.rng.pick(&[1, 1, 0, 2])));
            }
        }
        encode(&fields)
    }

    fn register(&mut self) -> Field {
        let most = self.rng.pick(&[0, 1, 1, 2, 31, 32, 256]);
        number(2, most)
    }

    fn cursor(&mut self) -> Option<Field> {
        let cursor = self.rng.pick(&[
            SRC,
            SRC,
            DST,
            DST,
            DST,
            if self.tame { SRC } else { 0 },
            if self.tame { DST } else { 3 },
        ]);
        (cursor != 0 || self.rng.one_in(3)).then(|| number(1, cursor))
    }

    fn select(&mut self, place: Place, depth: usize) -> Vec<Field> {
        let cursor = self.cursor();
        let selects_src = cursor.as_ref().is_none_or(|cursor| cursor.value == Value::Varint(SRC));
        let mut fields: Vec<Field> = cursor.into_iter().collect();
        let mut at = if selects_src { place.src } else { place.dst };
        for _ in 0..self.rng.pick(&[0, 1, 1, 1, 2, 2, 3]) {
            fields.extend(self.step(&mut at));
        }
        if self.rng.one_in(if selects_src { 30 } else { 2 }) {
            fields.push(number(3, 1));
        }
        let place = if selects_src { Place { src: at, ..place } } else { Place { dst: at, ..place } };
        let mut select = vec![bytes(1, encode(&fields))];
        select.extend(self.instructions(7, place, depth + 1));
        select
    }

    /// One step of a path: a field, perhaps with what picks one of its elements.
    fn step(&mut self, at: &mut Option<usize>) -> Vec<Field> {
        let fits = !self.misfit.come_up(self.rng);
        let field = at.filter(|_| fits).map(|message| self.schema.pick(self.rng, message));
        let id = field.map_or_else(|| self.rng.pick(&FIELD_IDS), |field| field.id);
        *at = match field.map(|field| field.kind) {
            Some(FieldKind::Message(inner)) => Some(inner),
            _ => None,
        };
        let repeated = field.is_some_and(|field| field.repeated) ^ (!self.tame && self.rng.one_in(12));
        let mut component = vec![number(1, id.into())];
        let mut fields = Vec::new();
        let (ways, indexes) = if self.tame { (3, &NUMBERS[..3]) } else { (4, &NUMBERS[..]) };
        match self.rng.below(if repeated { ways } else { 1 }) {
            0 => fields.push(bytes(2, encode(&component))),
            1 => {
                component.push(number(5, self.rng.pick(&[1, 1, 1, 0])));
                fields.push(bytes(2, encode(&component)));
            }
            2 => {
                fields.push(bytes(2, encode(&component)));
                fields.push(bytes(2, encode(&[number(2, self.rng.pick(indexes))])));
            }
            _ => {
                fields.push(bytes(2, encode(&component)));
                fields.push(bytes(2, self.key(*at)));
            }
        }
        if self.misfit.come_up(self.rng) && self.rng.one_in(8) {
            fields.push(bytes(2, self.rng.bytes(4)));
        }
        fields
    }

    /// The component that picks an entry by its key.
    fn key(&mut self, entry: Option<usize>) -> Vec<u8> {
        let id = entry.map_or(1, |entry| self.schema.pick(self.rng, entry).id);
        let mut fields = vec![number(3, id.into())];
        if !self.rng.one_in(20) {
            fields.push(number(6, self.rng.pick(&[0, 1, 1, 2, 31, 32])));
        }
        encode(&fields)
    }

    /// A field of the entry that can be a key, if there is one.
    fn key_field(&mut self, entry: usize) -> FieldType {
        let numbers = self.schema.0[entry].iter().find(|field| !field.repeated && field.kind.is_number());
        numbers.filter(|_| self.tame).copied().unwrap_or_else(|| self.schema.pick(self.rng, entry))
    }

    /// What programs are for: for each element of a field of the source, load its key, find or make the entry with the same
    /// key in the destination, and merge.
    fn upsert(&mut self, place: Place, depth: usize) -> Vec<Field> {
        let Some((message, field, entry)) = place.src.and_then(|message| {
            let field = self.schema.pick(self.rng, message);
            match field.kind {
                FieldKind::Message(entry) => Some((message, field, entry)),
                _ => None,
            }
        }) else {
            return self.select(place, depth);
        };
        let key = self.key_field(entry);
        let register = self.rng.pick(&[0, 1]);
        let same_type = self.tame || place.dst == Some(message) || self.rng.one_in(2);
        let dst_id = if same_type { field.id } else { self.rng.pick(&FIELD_IDS) };

        let load = encode(&[
            bytes(1, encode(&[bytes(2, encode(&[number(1, key.id.into())]))])),
            bytes(7, encode(&[bytes(2, encode(&[number(2, register)]))])),
        ]);
        let by_key = encode(&[number(3, key.id.into()), number(6, register)]);
        let enter = encode(&[
            number(1, DST),
            bytes(2, encode(&[number(1, dst_id.into())])),
            bytes(2, by_key),
            number(3, 1),
        ]);
        let mut entered = vec![bytes(1, enter)];
        entered.extend(self.instructions(7, Place { src: Some(entry), dst: Some(entry) }, depth + 1));

        let each = encode(&[bytes(2, encode(&[number(1, field.id.into()), number(5, 1)]))]);
        vec![bytes(1, each), bytes(7, load), bytes(7, encode(&entered))]
    }
}

fn number(id: u32, value: u64) -> Field {
    Field { id, value: Value::Varint(value) }
}

fn bytes(id: u32, body: Vec<u8>) -> Field {
    Field { id, value: Value::Bytes(body) }
}
