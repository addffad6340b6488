//! Arguments: lists of keys and values, each list once.
//!
//! A list is made when its event arrives, and shared by all events that have the same one. Written into the table `args` it is a *set*,
//! whose number is that of its first row (upstream: args_tracker.cc, global_args_tracker.h).

use std::hash::BuildHasher;

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
#[derive(Debug)]
pub struct ArgLists {
    args: Vec<Arg>,
    /// Where each list ends in `args`.
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: RandomState,
    /// The set in the table, of lists that were written.
    sets: Vec<Option<ArgSetId>>,
    /// The key whose first value stays.
    first_stays: Option<Str>,
    /// What becomes of values when they are written.
    pub translations: Translations,
    /// Slices whose arguments wait for them.
    pub later: Vec<(SliceId, ArgList)>,
}

impl Default for ArgLists {
    fn default() -> Self {
        Self {
            args: Vec::new(),
            ends: vec![0],
            table: HashTable::new(),
            hasher: RandomState::default(),
            sets: vec![None],
            first_stays: None,
            translations: Translations::default(),
            later: Vec::new(),
        }
    }
}

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
        let hash = hash(&self.hasher, args);
        if let Some(found) = self.table.find(hash, |list| same(self.at(*list), args)) {
            return ArgList(*found);
        }
        let Ok(list) = u32::try_from(self.ends.len()) else { return ArgList::EMPTY };
        self.args.extend_from_slice(args);
        self.ends.push(self.args.len());
        self.sets.push(None);
        let rehash = |list: &u32| hash_of(&self.hasher, &self.args, &self.ends, *list);
        self.table.insert_unique(hash, list, rehash);
        ArgList(list)
    }

    /// Of this key the first value counts (upstream: `kSkipIfExists`, for the thread that wrote the begin of a slice).
    pub fn keep_first(&mut self, key: Str) {
        self.first_stays = Some(key);
    }

    /// The arguments of a list.
    #[must_use]
    pub fn get(&self, list: ArgList) -> &[Arg] {
        self.at(list.0)
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
        let joined = [self.get(list), &[arg]].concat();
        self.intern(&joined)
    }

    /// Whether some of a list's values are names in disguise: such a list is written when everything is known.
    #[inline]
    #[must_use]
    pub fn is_to_translate(&self, list: ArgList) -> bool {
        self.translations.may_concern() && self.translations.concern(self.get(list))
    }

    /// Writes a list into the table `args`, if it is not there; returns the set's number.
    pub fn write(&mut self, list: ArgList, tables: &mut Tables) -> Option<ArgSetId> {
        if list.is_empty() {
            return None;
        }
        if let Some(set) = self.sets.get(list.0 as usize).copied().flatten() {
            return Some(set);
        }
        let set = ArgSetId(u32::try_from(tables.args.len()).unwrap_or(u32::MAX));
        let args = slice_of(&self.args, &self.ends, list.0);
        let translated = self.translations.translate(args, &mut tables.strings);
        for arg in translated.as_deref().unwrap_or(args) {
            let row = row_of(arg, set, tables);
            tables.args.push(row);
        }
        if let Some(written) = self.sets.get_mut(list.0 as usize) {
            *written = Some(set);
        }
        Some(set)
    }

    fn at(&self, list: u32) -> &[Arg] {
        slice_of(&self.args, &self.ends, list)
    }
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

/// Above so many, duplicates are looked for with a table.
const FEW: usize = 16;

fn has_duplicates(args: &[Arg]) -> bool {
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

fn slice_of<'a>(args: &'a [Arg], ends: &[usize], list: u32) -> &'a [Arg] {
    let list = list as usize;
    let start = list.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    ends.get(list).and_then(|end| args.get(start..*end)).unwrap_or_default()
}

fn hash(hasher: &RandomState, args: &[Arg]) -> u64 {
    use std::hash::Hasher;
    let mut state = hasher.build_hasher();
    for arg in args {
        let (kind, bits) = arg.value.key();
        state.write_u64(arg.key.index() as u64 ^ u64::from(kind) << 56);
        state.write_u64(bits);
    }
    state.finish()
}

fn hash_of(hasher: &RandomState, args: &[Arg], ends: &[usize], list: u32) -> u64 {
    hash(hasher, slice_of(args, ends, list))
}

fn same(a: &[Arg], b: &[Arg]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a.key == b.key && a.flat_key == b.flat_key && a.value.key() == b.value.key())
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
