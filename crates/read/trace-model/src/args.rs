//! Arguments: lists of keys and values, each list once.
//!
//! A list is made when its event arrives, and shared by all events that have the same one. Written into the table `args` it is a *set*,
//! whose number is that of its first row (upstream: args_tracker.cc, global_args_tracker.h).
//!
//! Memory: the different lists, some ten bytes each and five an argument.

use std::hash::BuildHasher;

use ferretto_protozero::varint;
use ferretto_trace_tables::tables::{ArgRow, Tables};
use ferretto_trace_tables::{ArgSetId, SliceId, Str};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::translation::Translations;

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

impl ArgValue {
    /// For equality: numbers by their bits.
    fn key(self) -> (u8, u64) {
        match self {
            Self::Int(value) => (0, value as u64),
            Self::Uint(value) => (1, value),
            Self::Bool(value) => (2, u64::from(value)),
            Self::Real(value) => (3, value.to_bits()),
            Self::Pointer(value) => (4, value),
            Self::Text(value) => (5, value.index() as u64),
            Self::Json(value) => (6, value.index() as u64),
            Self::Null => (7, 0),
            Self::NoText => (8, 0),
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
/// A list is packed: a few bytes an argument, behind the number of its set and how many bytes it is.
#[derive(Debug, Default)]
pub struct ArgLists {
    /// One list after the other. Each begins at a multiple of [`ALIGNMENT`], behind one that nobody has.
    bytes: Vec<u8>,
    /// Where each begins.
    table: HashTable<u32>,
    hasher: RandomState,
    /// The list that is looked for.
    wanted: Vec<u8>,
    /// The key whose first value stays.
    first_stays: Option<Str>,
    /// What becomes of values when they are written.
    pub translations: Translations,
    /// Slices whose arguments wait for them.
    pub later: Vec<(SliceId, ArgList)>,
}

/// A list is named by where it begins, in units of so many bytes: 16 GiB of lists have names.
const ALIGNMENT: usize = 4;
/// Bytes before a list: the number of its set plus 1, and how many it has.
const HEAD_BYTES: usize = 8;

impl ArgLists {
    /// The list of these arguments. Of a key that comes twice the last one counts, at the place of the first.
    pub fn intern(&mut self, args: &[Arg]) -> ArgList {
        if args.is_empty() {
            return ArgList::EMPTY;
        }
        let deduplicated;
        let args = if has_duplicates(args) {
            deduplicated = without_duplicates(args, self.first_stays);
            &deduplicated
        } else {
            args
        };
        pack(args, &mut self.wanted);
        let hash = self.hasher.hash_one(self.wanted.as_slice());
        match self.table.find(hash, |list| packed(&self.bytes, *list) == self.wanted) {
            Some(list) => ArgList(*list),
            None => self.add(hash),
        }
    }

    /// Of this key the first value counts (upstream: `kSkipIfExists`, for the thread that wrote the begin of a slice).
    pub fn keep_first(&mut self, key: Str) {
        self.first_stays = Some(key);
    }

    /// The arguments of a list.
    #[must_use]
    pub fn get(&self, list: ArgList) -> Vec<Arg> {
        args_of(packed(&self.bytes, list.0)).collect()
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
    pub fn write(&mut self, list: ArgList, tables: &mut Tables) -> Option<ArgSetId> {
        if list.is_empty() {
            return None;
        }
        let place = list.0 as usize * ALIGNMENT;
        let written = u32::from_le_bytes(*self.bytes.get(place..)?.first_chunk()?);
        if let Some(set) = written.checked_sub(1) {
            return Some(ArgSetId(set));
        }
        let set = u32::try_from(tables.args.len()).unwrap_or(u32::MAX - 1);
        let args = self.get(list);
        let translated = self.translations.translate(&args, &mut tables.strings);
        for arg in translated.as_deref().unwrap_or(&args) {
            let row = row_of(arg, ArgSetId(set), tables);
            tables.args.push(row);
        }
        *self.bytes.get_mut(place..)?.first_chunk_mut()? = set.saturating_add(1).to_le_bytes();
        Some(ArgSetId(set))
    }

    /// Adds the list that is looked for.
    fn add(&mut self, hash: u64) -> ArgList {
        if self.bytes.is_empty() {
            self.bytes.resize(ALIGNMENT, 0);
        }
        let Ok(list) = u32::try_from(self.bytes.len() / ALIGNMENT) else { return ArgList::EMPTY };
        let Ok(len) = u32::try_from(self.wanted.len()) else { return ArgList::EMPTY };
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(&self.wanted);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let rehash = |list: &u32| self.hasher.hash_one(packed(&self.bytes, *list));
        self.table.insert_unique(hash, list, rehash);
        ArgList(list)
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

/// Packs arguments, in the place of what was there.
fn pack(args: &[Arg], to: &mut Vec<u8>) {
    to.resize(args.len() * MAX_ARG_BYTES + STEP_BYTES, 0);
    let mut at = 0;
    for arg in args {
        arg.pack(to, &mut at);
    }
    to.truncate(at);
}

/// Writes a few bytes, with as many as a step has: whatever comes next is written over those that do not count.
#[inline(always)]
fn put(to: &mut [u8], at: &mut usize, (bytes, len): (u128, usize)) {
    if let Some(place) = to.get_mut(*at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = bytes.to_le_bytes();
    }
    *at += len;
}

impl Arg {
    /// Its kind and whether it has a flat key of its own, its keys, its value.
    #[inline]
    fn pack(&self, to: &mut [u8], at: &mut usize) {
        let (kind, bits) = self.value.key();
        let has_flat_key = self.flat_key != self.key;
        let about = u128::from(kind << 1 | u8::from(has_flat_key));
        // A key has five bytes at most.
        let (key, key_len) = varint::word(self.key.index() as u64);
        put(to, at, (about | key << 8, 1 + key_len));
        if has_flat_key {
            put(to, at, varint::word(self.flat_key.index() as u64));
        }
        match self.value {
            ArgValue::Int(value) => put(to, at, varint::word(varint::zigzag(value))),
            ArgValue::Real(_) => put(to, at, (u128::from(bits), size_of::<u64>())),
            ArgValue::Null | ArgValue::NoText => {}
            _ => put(to, at, varint::word(bits)),
        }
    }

    /// Takes one off the bytes.
    fn unpack(bytes: &mut &[u8]) -> Option<Self> {
        let (about, rest) = bytes.split_first()?;
        *bytes = rest;
        let text = |bytes: &mut &[u8]| Str::from_index(usize::try_from(take_varint(bytes)?).ok()?);
        let key = text(bytes)?;
        let flat_key = if about & 1 != 0 { text(bytes)? } else { key };
        let value = match about >> 1 {
            0 => ArgValue::Int(varint::unzigzag(take_varint(bytes)?)),
            1 => ArgValue::Uint(take_varint(bytes)?),
            2 => ArgValue::Bool(take_varint(bytes)? != 0),
            3 => {
                let (bits, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                ArgValue::Real(f64::from_bits(u64::from_le_bytes(*bits)))
            }
            4 => ArgValue::Pointer(take_varint(bytes)?),
            5 => ArgValue::Text(text(bytes)?),
            6 => ArgValue::Json(text(bytes)?),
            7 => ArgValue::Null,
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

fn row_of(arg: &Arg, set: ArgSetId, tables: &mut Tables) -> ArgRow {
    let row =
        ArgRow { arg_set_id: set, flat_key: Some(arg.flat_key), key: Some(arg.key), ..ArgRow::default() };
    let (value_type, row) = match arg.value {
        ArgValue::Int(value) => ("int", ArgRow { int_value: Some(value), ..row }),
        ArgValue::Uint(value) => ("uint", ArgRow { int_value: Some(value as i64), ..row }),
        ArgValue::Bool(value) => ("bool", ArgRow { int_value: Some(i64::from(value)), ..row }),
        ArgValue::Pointer(value) => ("pointer", ArgRow { int_value: Some(value as i64), ..row }),
        ArgValue::Real(value) => ("real", ArgRow { real_value: Some(value), ..row }),
        ArgValue::Text(value) => ("string", ArgRow { string_value: Some(value), ..row }),
        ArgValue::Json(value) => ("json", ArgRow { string_value: Some(value), ..row }),
        ArgValue::Null => ("null", row),
        ArgValue::NoText => ("string", row),
    };
    ArgRow { value_type: Some(tables.strings.intern(value_type)), ..row }
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
    use ferretto_trace_tables::Value;
    use ferretto_trace_tables::table::Table;

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
}
