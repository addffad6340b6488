//! Numbers of sets of arguments as files have them, and the order in which `args` has them there.
//!
//! In memory a set's number is that of its first row, as the sets came. Two thirds of a trace of kernel events are numbers of sets and what
//! is in them, and that order hides what they have in common. So files have sets with the same keys together, by what they say, and count
//! them without gaps: numbers are small, columns of `args` repeat or grow, and what an event's kind and thread say of its set is in the
//! higher bytes of the number. That is a tenth of such a folder, and more than half of `args`.

use ferretto_trace_tables::Tables;
use ferretto_trace_tables::column::Cell;

/// Arguments of a set that it is put into order by: more are seldom of the same keys and differ only then.
const VALUES: usize = 4;

/// Which number each set has in files, and which row of `args` comes when.
///
/// Memory: eight bytes a row of `args`, and 24 for each set while it is made.
#[derive(Debug, Default)]
pub struct ArgSets {
    /// Of the set that each row of `args` is of, by that row's number.
    pub(crate) numbers: Vec<u32>,
    /// The numbers of the rows, in their order.
    pub(crate) rows: Vec<u32>,
}

/// What a set is put into order by. Numbers of half the width tell nearly all sets apart, and what they do not costs bytes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Likeness {
    keys: u32,
    values: [u32; VALUES],
    first_row: u32,
}

impl ArgSets {
    /// Those of a trace. Where tables lie in a file, in which one row here and one there would be a block each, sets keep their order.
    #[must_use]
    pub fn of(tables: &Tables) -> Self {
        let mut sets = sets(tables);
        if !tables.are_elsewhere() {
            sets.sort_unstable();
        }
        Self::in_order(tables, &sets)
    }

    fn in_order(tables: &Tables, sets: &[Likeness]) -> Self {
        let len = tables.args.len();
        // Where each set ends, by the row in which it begins.
        let mut numbers = vec![0; len];
        let mut firsts: Vec<u32> = sets.iter().map(|set| set.first_row).collect();
        firsts.sort_unstable();
        let ends = firsts.iter().skip(1).copied().chain(u32::try_from(len));
        for (first, end) in firsts.iter().zip(ends) {
            if let Some(number) = numbers.get_mut(*first as usize) {
                *number = end;
            }
        }
        let mut rows = Vec::with_capacity(len);
        for (number, set) in (0..).zip(sets) {
            let end = numbers.get(set.first_row as usize).copied().unwrap_or(0);
            rows.extend(set.first_row..end);
            if let Some(of_set) = numbers.get_mut(set.first_row as usize..end as usize) {
                of_set.fill(number);
            }
        }
        Self { numbers, rows }
    }
}

/// All sets, in the order of their rows.
fn sets(tables: &Tables) -> Vec<Likeness> {
    let args = &tables.args;
    let mut sets: Vec<Likeness> = Vec::new();
    let mut last = None;
    let mut at = 0;
    let cells = args.arg_set_id.iter().zip(args.key.iter()).zip(args.string_value.iter());
    for (row, ((set, key), text)) in (0u32..).zip(cells) {
        if last != Some(set) {
            sets.push(Likeness { keys: 0, values: [0; VALUES], first_row: row });
            (last, at) = (Some(set), 0);
        }
        let Some(like) = sets.last_mut() else { continue };
        like.keys = mixed(like.keys, key.bits().unwrap_or(u64::MAX));
        if let Some(value) = like.values.get_mut(at) {
            let number = || args.int_value.get(row as usize).map_or(0, |number| number as u32);
            *value = text.bits().map_or_else(number, |text| text as u32);
        }
        at += 1;
    }
    sets
}

/// Which keys there are: sets of others may have the same number, and lie among them then.
fn mixed(keys: u32, key: u64) -> u32 {
    (keys.rotate_left(5) ^ (key as u32)).wrapping_mul(0x9e37_79b9).wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::tables::{ArgRow, SliceRow};
    use ferretto_trace_tables::{ArgSetId, Value};

    use super::*;
    use crate::{Catalog, Relation};

    /// Sets of one or two arguments, and a slice for each.
    fn tables(sets: &[&[(&str, i64)]]) -> Tables {
        let mut tables = Tables::default();
        for set in sets {
            let arg_set_id = ArgSetId(u32::try_from(tables.args.len()).unwrap());
            for (key, value) in *set {
                let key = Some(tables.strings.intern(key));
                tables.args.push(ArgRow {
                    arg_set_id,
                    key,
                    flat_key: key,
                    int_value: Some(*value),
                    ..ArgRow::default()
                });
            }
            tables.slice.push(SliceRow { arg_set_id: Some(arg_set_id), ..SliceRow::default() });
        }
        tables.slice.push(SliceRow::default());
        tables
    }

    fn numbers(relation: &Relation<'_>, name: &str) -> Vec<Option<i64>> {
        let column = relation.columns().iter().find(|column| column.name == name).unwrap();
        let cell = |row| match relation.cell(column, row) {
            Value::Int(number) => Some(number),
            _ => None,
        };
        (0..relation.len()).map(cell).collect()
    }

    #[test]
    fn sets_of_the_same_keys_lie_together_by_what_they_say_and_are_counted() {
        let tables = tables(&[
            &[("a", 2), ("b", 1)],
            &[("c", 7)],
            &[("a", 1), ("b", 3)],
            &[("c", 5)],
            &[("a", 1), ("b", 2)],
        ]);
        let arg_sets = ArgSets::of(&tables);
        let catalog = Catalog::new(&tables).with_arg_sets(&arg_sets);
        let args = catalog.find("args").unwrap();
        let (ids, sets) = (numbers(&args, "id"), numbers(&args, "arg_set_id"));
        assert_eq!(ids, (0..8).map(Some).collect::<Vec<_>>());
        assert!(sets.is_sorted() && sets.last() == Some(&Some(4)), "{sets:?}");
        // Either kind may be first.
        let values: Vec<i64> = numbers(&args, "int_value").into_iter().flatten().collect();
        let (of_c, of_a) = (&[5, 7][..], &[1, 2, 1, 3, 2, 1][..]);
        assert!(values == [of_c, of_a].concat() || values == [of_a, of_c].concat(), "{values:?}");
    }

    #[test]
    fn whoever_names_a_set_names_the_same_arguments() {
        let tables = tables(&[&[("a", 2)], &[("c", 7), ("a", 9)], &[("a", 1)]]);
        let arg_sets = ArgSets::of(&tables);
        let catalog = Catalog::new(&tables).with_arg_sets(&arg_sets);
        let (slices, args) = (catalog.find("slice").unwrap(), catalog.find("args").unwrap());
        let (sets, values) = (numbers(&args, "arg_set_id"), numbers(&args, "int_value"));
        let of_slice = |set: Option<i64>| {
            let of_set = sets.iter().zip(&values).filter(|(of, _)| set.is_some() && **of == set);
            of_set.filter_map(|(_, value)| *value).collect::<Vec<_>>()
        };
        let all: Vec<_> = numbers(&slices, "arg_set_id").into_iter().map(of_slice).collect();
        assert_eq!(all, [vec![2], vec![7, 9], vec![1], vec![]]);
    }
}
