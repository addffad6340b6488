//! Arguments: lists of keys and values, each list once.
//!
//! A list is made when its event arrives, and shared by all events that have the same one. Written into the table `args` it is a *set*,
//! whose number is that of its first row (upstream: args_tracker.cc, global_args_tracker.h).
//!
//! Memory: the different lists, some ten bytes each and five an argument.

use std::hash::BuildHasher;
use std::sync::Arc;

use ferretto_protozero::varint;
use ferretto_trace_tables::tables::{ArgRow, ArgTable, Tables};
use ferretto_trace_tables::{ArgSetId, Helper, SliceId, Store, Str, Strings};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::translation::Translations;
pub(crate) use beside::Slot;
use beside::{Beside, Shared, What};

mod beside;

/// A value of an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArgValue {
    /// A signed number.
    Int(i64),
    /// An unsigned one.
    Uint(u64),
    /// Yes or no.
    Bool(bool),
    /// A floating-point number.
    Real(f64),
    /// An address.
    Pointer(u64),
    /// A text.
    Text(Str),
    /// A text that was not said.
    NoText,
    /// A piece of JSON.
    Json(Str),
    /// Nothing, said as such.
    Null,
}

// The kinds of values in packed lists: those up to `JSON` are varints, of the last two there is no value.
const INT: u8 = 0;
const UINT: u8 = 1;
const BOOL: u8 = 2;
const POINTER: u8 = 3;
const TEXT: u8 = 4;
const JSON: u8 = 5;
const REAL: u8 = 6;
const NULL: u8 = 7;
const NO_TEXT: u8 = 8;
const KINDS: usize = 9;

/// By kind: what the table calls it.
const NAMES: [&str; KINDS] = ["int", "uint", "bool", "pointer", "string", "json", "real", "null", "string"];

impl ArgValue {
    /// For equality: numbers by their bits.
    #[inline]
    fn key(self) -> (u8, u64) {
        match self {
            Self::Int(value) => (INT, value as u64),
            Self::Uint(value) => (UINT, value),
            Self::Bool(value) => (BOOL, u64::from(value)),
            Self::Pointer(value) => (POINTER, value),
            Self::Text(value) => (TEXT, value.index() as u64),
            Self::Json(value) => (JSON, value.index() as u64),
            Self::Real(value) => (REAL, value.to_bits()),
            Self::Null => (NULL, 0),
            Self::NoText => (NO_TEXT, 0),
        }
    }

    /// A text that may not be known.
    #[must_use]
    pub fn of_text(text: Option<Str>) -> Self {
        text.map_or(Self::NoText, Self::Text)
    }
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arg {
    /// The key without the numbers in arrays.
    pub flat_key: Str,
    /// The key.
    pub key: Str,
    /// Its value.
    pub value: ArgValue,
}

/// A list of an [`ArgLists`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArgList(u32);

impl ArgList {
    /// The list with nothing in it.
    pub const EMPTY: Self = Self(0);

    /// Whether it is that.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its number among the lists.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The list of a number.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// All lists of arguments, each once.
///
/// Where a helper works beside, it has the lists and the table, and writes what rows say in the order in which they have said it; rows learn
/// the number of their set some hundred rows later. Whoever needs a list at once has it at once.
#[derive(Debug, Default)]
pub struct ArgLists {
    /// Without a helper.
    sets: Sets,
    beside: Option<Beside>,
    /// The arguments that are made for a row.
    made: Vec<Arg>,
    /// The key whose first value stays.
    first_stays: Option<Str>,
    /// What becomes of values when they are written.
    pub translations: Translations,
    /// Slices whose arguments wait for them.
    pub later: Vec<(SliceId, ArgList)>,
}

/// A row that has arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowOf {
    Slice(SliceId),
    /// A row of `ftrace_event`.
    Event(u32),
}

impl RowOf {
    #[inline]
    fn set(self, set: ArgSetId, tables: &mut Tables) {
        match self {
            Self::Slice(id) => tables.slice.arg_set_id.set(id.index(), Some(set)),
            Self::Event(row) => tables.ftrace_event.arg_set_id.set(row as usize, Some(set)),
        }
    }
}

impl ArgLists {
    /// The list of these arguments. Of a key that comes twice the last one counts, at the place of the first.
    #[inline]
    pub fn intern(&mut self, args: &[Arg]) -> ArgList {
        if args.is_empty() {
            return ArgList::EMPTY;
        }
        let first_stays = self.first_stays;
        self.with_sets(|sets| sets.intern(args, first_stays))
    }

    /// The list of the arguments that `fill` packs: so many at most, of different keys.
    #[inline]
    pub(crate) fn intern_packed(&mut self, most: usize, fill: impl FnOnce(&mut Packer<'_>)) -> ArgList {
        self.with_sets(|sets| sets.intern_packed(most, fill))
    }

    /// Of this key the first value counts (upstream: `kSkipIfExists`, for the thread that wrote the begin of a slice).
    pub fn keep_first(&mut self, key: Str) {
        self.first_stays = Some(key);
    }

    /// The arguments of a list.
    #[must_use]
    pub fn get(&self, list: ArgList) -> Vec<Arg> {
        match &self.beside {
            None => self.sets.get(list).collect(),
            Some(beside) => beside.shared.lock().sets.get(list).collect(),
        }
    }

    /// One list after another, as one.
    pub fn join(&mut self, first: ArgList, second: ArgList) -> ArgList {
        if second.is_empty() || first == second {
            return first;
        }
        if first.is_empty() {
            return second;
        }
        let joined = [self.get(first), self.get(second)].concat();
        self.intern(&joined)
    }

    /// A list and one more.
    pub fn with(&mut self, list: ArgList, arg: Arg) -> ArgList {
        let mut joined = self.get(list);
        joined.push(arg);
        self.intern(&joined)
    }

    /// Whether some of a list's values are names in disguise: such a list is written when everything is known.
    #[inline]
    #[must_use]
    pub fn is_to_translate(&self, list: ArgList) -> bool {
        self.translations.may_concern() && self.translations.concern(&self.get(list))
    }

    /// Writes a list into the table `args`, if it is not there; returns the set's number.
    #[inline]
    pub fn write(&mut self, list: ArgList, tables: &mut Tables) -> Option<ArgSetId> {
        if list.is_empty() {
            return None;
        }
        let Self { sets, beside, translations, .. } = self;
        let Some(beside) = beside else {
            return sets.write(list, &mut tables.args, &mut tables.strings, translations);
        };
        beside.catch_up(tables);
        let mut shared = beside.shared.lock();
        let Shared { sets, rows, .. } = &mut *shared;
        sets.write(list, rows, &mut tables.strings, translations)
    }

    /// The same for a row, which has the number at once or later.
    #[inline]
    pub(crate) fn write_for(&mut self, row: RowOf, list: ArgList, tables: &mut Tables) {
        if list.is_empty() {
            return;
        }
        match &mut self.beside {
            Some(beside) if !self.translations.may_concern() => {
                beside.add(row, What::List(list), tables);
            }
            _ => {
                if let Some(set) = self.write(list, tables) {
                    row.set(set, tables);
                }
            }
        }
    }

    /// The same for arguments of which no list is needed.
    #[inline]
    pub(crate) fn write_args_for(&mut self, row: RowOf, args: &[Arg], tables: &mut Tables) {
        match &mut self.beside {
            Some(beside) if !self.translations.may_concern() && !args.is_empty() => {
                beside.add_args(row, (args, None), self.first_stays, tables);
            }
            _ => {
                let list = self.intern(args);
                self.write_for(row, list, tables);
            }
        }
    }

    /// Whether rows may say that their arguments are those of a slot.
    #[inline]
    pub(crate) fn has_slots(&self) -> bool {
        self.beside.is_some() && !self.translations.may_concern()
    }

    /// The same for arguments of a row of `ftrace_event` that come again, where there are slots: what was said last by this one is `known` to be
    /// the same, or `make` says it. Returns the number that the slot has come to have, if it has.
    pub(crate) fn write_slot_for(
        &mut self,
        row: u32,
        (slot, is_known): (Slot, bool),
        tables: &mut Tables,
        make: impl FnOnce(&mut Vec<Arg>),
    ) -> Option<ArgSetId> {
        let beside = self.beside.as_mut()?;
        if !is_known {
            self.made.clear();
            make(&mut self.made);
            beside.begin_slot(slot, row);
            beside.add_args(RowOf::Event(row), (&self.made, Some(slot)), self.first_stays, tables);
            return None;
        }
        let set = beside.set_of_slot(slot);
        match set {
            Some(set) => RowOf::Event(row).set(set, tables),
            None => beside.add(RowOf::Event(row), What::Remembered(slot), tables),
        }
        set
    }

    /// A helper writes beside from now on, until [`end_helper`](Self::end_helper).
    pub(crate) fn set_helper(&mut self, helper: &Arc<dyn Helper>, tables: &mut Tables) {
        // The helper does not know the texts.
        self.sets.types.know_all(&mut tables.strings);
        let (sets, rows) = (std::mem::take(&mut self.sets), std::mem::take(&mut tables.args));
        let shared = Shared { sets, rows, remembered: Vec::new() };
        self.beside = Some(Beside::new(shared, helper.clone()));
    }

    /// Blocks of the table lie in the store from now on, if a helper has it.
    pub(crate) fn move_to(&mut self, store: &Arc<dyn Store>) {
        if let Some(beside) = &self.beside {
            beside.shared.lock().rows.move_to(store);
        }
    }

    /// All rows have their arguments, and the table is where it belongs. The helper goes.
    pub(crate) fn end_helper(&mut self, tables: &mut Tables) {
        if let Some(mut beside) = self.beside.take() {
            beside.catch_up(tables);
            let mut shared = beside.shared.lock();
            self.sets = std::mem::take(&mut shared.sets);
            tables.args = std::mem::take(&mut shared.rows);
        }
    }

    #[inline]
    fn with_sets<R>(&mut self, f: impl FnOnce(&mut Sets) -> R) -> R {
        match &self.beside {
            None => f(&mut self.sets),
            Some(beside) => f(&mut beside.shared.lock().sets),
        }
    }
}

/// The lists, and which of them are sets.
///
/// A list is packed: a few bytes an argument, behind the number of its set and how many bytes it is.
#[derive(Debug, Default)]
struct Sets {
    /// One list after the other. Each begins at a multiple of [`ALIGNMENT`], behind one that nobody has.
    bytes: Vec<u8>,
    /// Where each begins.
    table: HashTable<u32>,
    hasher: RandomState,
    /// The list that is looked for, and whatever else there was.
    wanted: Vec<u8>,
    /// The list that is written.
    written: Vec<Arg>,
    /// What kinds of values are called.
    types: Types,
}

/// A list is named by where it begins, in units of so many bytes: 16 GiB of lists have names.
const ALIGNMENT: usize = 4;
/// Bytes before a list: the number of its set plus 1, and how many it has.
const HEAD_BYTES: usize = 8;

impl Sets {
    fn intern(&mut self, args: &[Arg], first_stays: Option<Str>) -> ArgList {
        let deduplicated;
        let args = if has_duplicates(args) {
            deduplicated = without_duplicates(args, first_stays);
            &deduplicated
        } else {
            args
        };
        self.intern_packed(args.len(), |packer| args.iter().for_each(|arg| packer.put_arg(arg)))
    }

    #[inline]
    fn intern_packed(&mut self, most: usize, fill: impl FnOnce(&mut Packer<'_>)) -> ArgList {
        let room = most * MAX_ARG_BYTES + STEP_BYTES;
        if self.wanted.len() < room {
            self.wanted.resize(room, 0);
        }
        let mut packer = Packer { to: &mut self.wanted, at: 0 };
        fill(&mut packer);
        let len = packer.at;
        let wanted = self.wanted.get(..len).unwrap_or_default();
        if wanted.is_empty() {
            return ArgList::EMPTY;
        }
        let hash = self.hasher.hash_one(wanted);
        match self.table.find(hash, |list| packed(&self.bytes, *list) == wanted) {
            Some(list) => ArgList(*list),
            None => self.add(len, hash),
        }
    }

    fn get(&self, list: ArgList) -> impl Iterator<Item = Arg> {
        args_of(packed(&self.bytes, list.0))
    }

    /// The number of a list's set, if it is one.
    #[inline]
    fn written(&self, list: ArgList) -> Option<ArgSetId> {
        let written = self.bytes.get(list.0 as usize * ALIGNMENT..)?.first_chunk()?;
        u32::from_le_bytes(*written).checked_sub(1).map(ArgSetId)
    }

    fn write(
        &mut self,
        list: ArgList,
        rows: &mut ArgTable,
        strings: &mut Strings,
        translations: &Translations,
    ) -> Option<ArgSetId> {
        if let Some(set) = self.written(list) {
            return Some(set);
        }
        let mut args = std::mem::take(&mut self.written);
        args.clear();
        args.extend(self.get(list));
        let translated = translations.translate(&args, strings);
        let rows_of = translated.as_deref().unwrap_or(&args);
        rows_of.iter().for_each(|arg| self.types.know(arg, strings));
        let set = self.push(list, rows_of, rows);
        self.written = args;
        set
    }

    /// Writes a list whose kinds of values are known.
    fn write_plain(&mut self, list: ArgList, rows: &mut ArgTable) -> Option<ArgSetId> {
        if list.is_empty() {
            return None;
        }
        if let Some(set) = self.written(list) {
            return Some(set);
        }
        let mut args = std::mem::take(&mut self.written);
        args.clear();
        args.extend(self.get(list));
        let set = self.push(list, &args, rows);
        self.written = args;
        set
    }

    fn push(&mut self, list: ArgList, args: &[Arg], rows: &mut ArgTable) -> Option<ArgSetId> {
        let set = u32::try_from(rows.len()).unwrap_or(u32::MAX - 1);
        for arg in args {
            rows.push(row_of(arg, ArgSetId(set), &self.types));
        }
        let place = list.0 as usize * ALIGNMENT;
        *self.bytes.get_mut(place..)?.first_chunk_mut()? = set.saturating_add(1).to_le_bytes();
        Some(ArgSetId(set))
    }

    /// Adds the list that is looked for.
    fn add(&mut self, len: usize, hash: u64) -> ArgList {
        let wanted = self.wanted.get(..len).unwrap_or_default();
        if self.bytes.is_empty() {
            self.bytes.resize(ALIGNMENT, 0);
        }
        let Ok(list) = u32::try_from(self.bytes.len() / ALIGNMENT) else { return ArgList::EMPTY };
        let Ok(len) = u32::try_from(len) else { return ArgList::EMPTY };
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(wanted);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let rehash = |list: &u32| self.hasher.hash_one(packed(&self.bytes, *list));
        self.table.insert_unique(hash, list, rehash);
        ArgList(list)
    }
}

/// By kind of values: what it is called.
#[derive(Clone, Copy, Debug, Default)]
struct Types([Option<Str>; KINDS]);

impl Types {
    /// All kinds have their names.
    fn know_all(&mut self, strings: &mut Strings) {
        for (known, name) in self.0.iter_mut().zip(NAMES) {
            known.get_or_insert_with(|| strings.intern(name));
        }
    }

    /// The kind of an argument's value has its name.
    #[inline]
    fn know(&mut self, arg: &Arg, strings: &mut Strings) {
        let (kind, _) = arg.value.key();
        if let Some(known) = self.0.get_mut(usize::from(kind))
            && known.is_none()
        {
            let name = NAMES.get(usize::from(kind)).copied().unwrap_or_default();
            *known = Some(strings.intern(name));
        }
    }
}

/// The bytes of a list.
fn packed(bytes: &[u8], list: u32) -> &[u8] {
    let list = bytes.get(list as usize * ALIGNMENT..).unwrap_or_default();
    let len = list.get(4..).and_then(|rest| rest.first_chunk()).map_or(0, |len| u32::from_le_bytes(*len));
    let args = list.get(HEAD_BYTES..).unwrap_or_default();
    args.get(..len as usize).unwrap_or_default()
}

/// The most bytes of an argument: what it is, two keys, a value.
const MAX_ARG_BYTES: usize = 1 + 2 * 5 + varint::MAX_SIZE;
/// Bytes that are written at once, whether or not they count.
const STEP_BYTES: usize = size_of::<u128>();

/// Numbers below this have five bytes at most as varints.
const SHORT_LIMIT: u64 = 1 << 35;

/// A key of so many bytes has room in a word beside such a number.
const SHORT_KEY: usize = size_of::<u64>() - 5;

/// A number below [`SHORT_LIMIT`] as a varint, and its bytes.
#[inline(always)]
fn short_word(value: u64) -> (u64, usize) {
    if value < 0x80 {
        return (value, 1);
    }
    let (word, len) = varint::word(value);
    (word as u64, len)
}

/// Packs arguments.
pub(crate) struct Packer<'a> {
    /// With room for all of them.
    to: &'a mut [u8],
    at: usize,
}

/// A key that is its own flat key, as lists have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedKey {
    /// Above a byte for what the value is.
    word: u64,
    len: usize,
}

impl PackedKey {
    #[inline]
    pub(crate) fn of(key: Str) -> Self {
        // It has five bytes at most.
        let (word, len) = short_word(key.index() as u64);
        Self { word: word << 8, len: 1 + len }
    }
}

impl Packer<'_> {
    /// Packs an argument.
    #[inline(always)]
    pub(crate) fn put(&mut self, key: PackedKey, value: ArgValue) {
        let (kind, bits) = value.key();
        self.put_kind(key, kind, bits, None);
    }

    #[inline]
    fn put_arg(&mut self, arg: &Arg) {
        let (kind, bits) = arg.value.key();
        let flat_key = Some(arg.flat_key).filter(|flat_key| *flat_key != arg.key);
        self.put_kind(PackedKey::of(arg.key), kind, bits, flat_key);
    }

    /// What the value is and whether there is a flat key, the keys, the value.
    #[inline(always)]
    fn put_kind(&mut self, key: PackedKey, kind: u8, bits: u64, flat_key: Option<Str>) {
        let about = key.word | u64::from(kind << 1 | u8::from(flat_key.is_some()));
        let bits = if kind == INT { varint::zigzag(bits as i64) } else { bits };
        if flat_key.is_none() && bits < SHORT_LIMIT && kind < REAL {
            let (value, len) = short_word(bits);
            if key.len <= SHORT_KEY {
                return self.short_step(about | value << (8 * key.len), key.len + len);
            }
            return self.step((u128::from(about) | u128::from(value) << (8 * key.len), key.len + len));
        }
        self.step((u128::from(about), key.len));
        if let Some(flat_key) = flat_key {
            self.step(varint::word(flat_key.index() as u64));
        }
        match kind {
            REAL => self.step((u128::from(bits), size_of::<u64>())),
            NULL.. => {}
            _ => self.step(varint::word(bits)),
        }
    }

    /// The same as [`step`](Self::step) for what fits into a word.
    #[inline(always)]
    fn short_step(&mut self, bytes: u64, len: usize) {
        if let Some(place) = self.to.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut()) {
            *place = bytes.to_le_bytes();
            self.at += len;
        }
    }

    /// Writes a few bytes, with as many as a step has: whatever comes next is written over those that do not count.
    #[inline(always)]
    fn step(&mut self, (bytes, len): (u128, usize)) {
        if let Some(place) = self.to.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut()) {
            *place = bytes.to_le_bytes();
            self.at += len;
        }
    }
}

impl Arg {
    /// Takes one off the bytes.
    fn unpack(bytes: &mut &[u8]) -> Option<Self> {
        let (about, rest) = bytes.split_first()?;
        *bytes = rest;
        let text = |bytes: &mut &[u8]| Str::from_index(usize::try_from(take_varint(bytes)?).ok()?);
        let key = text(bytes)?;
        let flat_key = if about & 1 != 0 { text(bytes)? } else { key };
        let value = match about >> 1 {
            INT => ArgValue::Int(varint::unzigzag(take_varint(bytes)?)),
            UINT => ArgValue::Uint(take_varint(bytes)?),
            BOOL => ArgValue::Bool(take_varint(bytes)? != 0),
            POINTER => ArgValue::Pointer(take_varint(bytes)?),
            TEXT => ArgValue::Text(text(bytes)?),
            JSON => ArgValue::Json(text(bytes)?),
            REAL => {
                let (bits, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                ArgValue::Real(f64::from_bits(u64::from_le_bytes(*bits)))
            }
            NULL => ArgValue::Null,
            _ => ArgValue::NoText,
        };
        Some(Self { flat_key, key, value })
    }
}

fn args_of(mut bytes: &[u8]) -> impl Iterator<Item = Arg> {
    std::iter::from_fn(move || Arg::unpack(&mut bytes))
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let (value, len) = varint::decode(bytes)?;
    *bytes = bytes.get(len..)?;
    Some(value)
}

fn row_of(arg: &Arg, set: ArgSetId, types: &Types) -> ArgRow {
    let (kind, _) = arg.value.key();
    let row = ArgRow {
        arg_set_id: set,
        flat_key: Some(arg.flat_key),
        key: Some(arg.key),
        value_type: types.0.get(usize::from(kind)).copied().flatten(),
        ..ArgRow::default()
    };
    match arg.value {
        ArgValue::Int(value) => ArgRow { int_value: Some(value), ..row },
        ArgValue::Uint(value) | ArgValue::Pointer(value) => ArgRow { int_value: Some(value as i64), ..row },
        ArgValue::Bool(value) => ArgRow { int_value: Some(i64::from(value)), ..row },
        ArgValue::Real(value) => ArgRow { real_value: Some(value), ..row },
        ArgValue::Text(value) | ArgValue::Json(value) => ArgRow { string_value: Some(value), ..row },
        ArgValue::Null | ArgValue::NoText => row,
    }
}

/// Above so many, duplicates are looked for by sorting.
const FEW: usize = 16;

fn has_duplicates(args: &[Arg]) -> bool {
    // Different numbers modulo 64 are different keys: those of one event mostly are.
    let mut seen = 0u64;
    let may_be_twice = args.iter().any(|arg| {
        let bit = 1u64 << (arg.key.index() % 64);
        let was_seen = seen & bit != 0;
        seen |= bit;
        was_seen
    });
    if !may_be_twice {
        return false;
    }
    if args.len() <= FEW {
        return args
            .iter()
            .enumerate()
            .any(|(at, arg)| args.iter().take(at).any(|other| other.key == arg.key));
    }
    let mut keys: Vec<Str> = args.iter().map(|arg| arg.key).collect();
    keys.sort_unstable();
    keys.windows(2).any(|two| matches!(two, [a, b] if a == b))
}

fn without_duplicates(args: &[Arg], first_stays: Option<Str>) -> Vec<Arg> {
    let mut places = hashbrown::HashMap::<Str, usize, RandomState>::default();
    let mut out: Vec<Arg> = Vec::with_capacity(args.len());
    for arg in args {
        match places.get(&arg.key).and_then(|at| out.get_mut(*at)) {
            Some(_) if first_stays == Some(arg.key) => {}
            Some(there) => *there = *arg,
            None => {
                places.insert(arg.key, out.len());
                out.push(*arg);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::helper::Job;
    use ferretto_trace_tables::tables::FtraceEventRow;
    use ferretto_trace_tables::{Column, Table, Value};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_lists_are_one_set_and_the_last_of_equal_keys_counts() {
        let mut tables = Tables::default();
        let mut lists = ArgLists::default();
        let mut arg = |key: &str, value| {
            let key = tables.strings.intern(key);
            Arg { flat_key: key, key, value }
        };
        let (a1, a2, b) =
            (arg("a", ArgValue::Int(1)), arg("a", ArgValue::Int(2)), arg("b", ArgValue::Real(0.5)));
        let first = lists.intern(&[a1, b]);
        let second = lists.intern(&[a2, b]);
        assert_eq!(lists.intern(&[a2, b, a1]), first);
        assert_eq!(lists.join(ArgList::EMPTY, first), first);
        assert_eq!(lists.intern(&[]), ArgList::EMPTY);
        let sets: Vec<_> = [second, first, second, ArgList::EMPTY]
            .into_iter()
            .map(|list| lists.write(list, &mut tables))
            .collect();
        assert_eq!(sets, [Some(ArgSetId(0)), Some(ArgSetId(2)), Some(ArgSetId(0)), None]);
        assert_eq!(tables.args.len(), 4);
        assert_eq!(tables.args.cell("int_value", 0), Value::Int(2));
        assert_eq!(tables.args.cell("real_value", 3), Value::Real(0.5));
    }

    /// What a helper does with jobs.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Kind {
        Refuses,
        /// Takes them, and does nothing.
        Keeps,
        Works,
    }

    #[derive(Debug)]
    struct OfKind(Kind);

    impl Helper for OfKind {
        fn help(&self, job: Job) -> Result<(), Job> {
            match self.0 {
                Kind::Refuses => return Err(job),
                Kind::Keeps => {}
                Kind::Works => _ = std::thread::spawn(job),
            }
            Ok(())
        }
    }

    /// Rows whose arguments are written in all ways.
    fn written(helper: Option<Kind>) -> Vec<String> {
        let mut tables = Tables::default();
        let mut lists = ArgLists::default();
        let keys = ["a", "b", "c"].map(|key| tables.strings.intern(key));
        if let Some(kind) = helper {
            lists.set_helper(&(Arc::new(OfKind(kind)) as Arc<dyn Helper>), &mut tables);
        }
        for row in 0..20_000u32 {
            tables.ftrace_event.push(FtraceEventRow::default());
            let number = row.wrapping_mul(2_654_435_761) >> 20;
            let args = keys.map(|key| Arg { flat_key: key, key, value: ArgValue::Int(number.into()) });
            let args = args.get(..number as usize % 4).unwrap();
            let of = RowOf::Event(row);
            if number % 5 > 0 {
                lists.write_args_for(of, args, &mut tables);
                continue;
            }
            let list = lists.intern(args);
            if number % 97 == 0 {
                let set = lists.write(list, &mut tables);
                tables.ftrace_event.arg_set_id.set(row as usize, set);
            } else {
                lists.write_for(of, list, &mut tables);
            }
        }
        lists.end_helper(&mut tables);
        let rows = [&tables.ftrace_event as &dyn Table, &tables.args];
        let cells =
            rows.into_iter().flat_map(|table| table.columns().into_iter().map(|it| (it, table.len())));
        let text = |value| match value {
            Value::Str(text) => tables.strings.get(text).to_owned(),
            value => format!("{value:?}"),
        };
        let cell = |(column, len): (Column<'_>, usize)| {
            (0..len).map(|row| text(column.data.get(row))).collect::<Vec<_>>()
        };
        cells.flat_map(cell).collect()
    }

    #[test]
    fn sets_are_the_same_whoever_writes_them() {
        let alone = written(None);
        assert!(alone.len() > 100_000);
        for kind in [Kind::Refuses, Kind::Keeps, Kind::Works] {
            assert!(written(Some(kind)) == alone, "{kind:?}");
        }
    }

    fn any_value() -> impl Strategy<Value = ArgValue> {
        let bits = (any::<u64>(), 0u32..64).prop_map(|(bits, shift)| bits >> shift);
        let text = bits.prop_map(|bits| Str::from_index((bits >> 33) as usize).unwrap());
        let bits = (any::<u64>(), 0u32..64).prop_map(|(bits, shift)| bits >> shift);
        prop_oneof![
            bits.prop_map(|bits| ArgValue::Int(varint::unzigzag(bits))),
            any::<u64>().prop_map(|bits| ArgValue::Uint(bits >> (bits % 64))),
            any::<bool>().prop_map(ArgValue::Bool),
            any::<f64>().prop_filter("it is equal to itself", |it| !it.is_nan()).prop_map(ArgValue::Real),
            any::<u64>().prop_map(|bits| ArgValue::Pointer(bits >> (bits % 64))),
            text.prop_map(ArgValue::Text),
            Just(ArgValue::Json(Str::from_index(3).unwrap())),
            Just(ArgValue::Null),
            Just(ArgValue::NoText),
        ]
    }

    proptest! {
        #[test]
        fn the_arguments_of_a_list_are_those_that_were_given(
            values in proptest::collection::vec((any_value(), 0usize..1 << 31, 0usize..3), 0..20),
        ) {
            // Different keys, some of them with a flat key of their own.
            let args: Vec<Arg> = values.into_iter().enumerate().map(|(at, (value, key, flat))| {
                let key = key / 32 * 32 + at;
                let flat_key = Str::from_index(key + flat / 2).unwrap();
                Arg { flat_key, key: Str::from_index(key).unwrap(), value }
            }).collect();
            let mut lists = ArgLists::default();
            let list = lists.intern(&args);
            prop_assert_eq!(lists.get(list), args.clone());
            prop_assert_eq!(lists.intern(&args), list);
        }

        #[test]
        fn of_equal_keys_the_last_counts_at_the_place_of_the_first(
            keys in proptest::collection::vec(prop_oneof![0usize..8, (0usize..8).prop_map(|it| it * 64)], 0..40),
        ) {
            let arg = |(at, key): (usize, &usize)| {
                let key = Str::from_index(*key).unwrap();
                Arg { flat_key: key, key, value: ArgValue::Int(at as i64) }
            };
            let args: Vec<Arg> = keys.iter().enumerate().map(arg).collect();
            let mut expected: Vec<Arg> = Vec::new();
            for arg in &args {
                match expected.iter_mut().find(|it| it.key == arg.key) {
                    Some(there) => *there = *arg,
                    None => expected.push(*arg),
                }
            }
            let mut lists = ArgLists::default();
            let list = lists.intern(&args);
            prop_assert_eq!(lists.get(list), expected);
        }
    }
}
