//! Partitions: rows that have the same values in some columns, by numbers.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, plan_err};

use crate::functions::text::{common_type, to_type};
use crate::operators::whole::column;

/// Names between commas, perhaps in parentheses: `(a, b)`.
pub(crate) fn names(list: &str) -> Vec<String> {
    let list = list.trim().trim_start_matches('(').trim_end_matches(')');
    list.split(',')
        .map(|name| name.trim().trim_matches('"').to_lowercase())
        .filter(|name| !name.is_empty())
        .collect()
}

/// The columns of these names, each of the type that all inputs' columns of this name fit into.
pub(crate) fn fields(names: &[String], inputs: &[SchemaRef]) -> Result<Vec<Field>> {
    let field = |name: &String| {
        let mut types = Vec::new();
        for schema in inputs {
            match schema.field_with_name(name) {
                Ok(field) => types.push(field.data_type().clone()),
                Err(_) => return plan_err!("there is no column {name} to partition by"),
            }
        }
        Ok(Field::new(name, common_type(&types), true))
    };
    names.iter().map(field).collect()
}

/// Numbers of partitions.
pub(crate) struct Keys {
    fields: Vec<Field>,
    converter: RowConverter,
    numbers: HashMap<OwnedRow, usize>,
}

impl Keys {
    /// By these columns.
    pub(crate) fn by(fields: Vec<Field>) -> Result<Self> {
        let sorts = fields.iter().map(|field| SortField::new(key_type(field.data_type()))).collect();
        Ok(Self { fields, converter: RowConverter::new(sorts)?, numbers: HashMap::new() })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        if self.fields.is_empty() { 1 } else { self.numbers.len() }
    }

    /// The partition of each row; NULL is a value here.
    pub(crate) fn of(&mut self, batch: &RecordBatch) -> Result<Vec<Option<usize>>> {
        if self.fields.is_empty() {
            return Ok(vec![Some(0); batch.num_rows()]);
        }
        let array = |field: &Field| to_type(column(batch, field.name())?, &key_type(field.data_type()));
        let arrays: Vec<ArrayRef> = self.fields.iter().map(array).collect::<Result<_>>()?;
        let rows = self.converter.convert_columns(&arrays)?;
        let mut out = Vec::with_capacity(batch.num_rows());
        for row in rows.iter() {
            let next = self.numbers.len();
            out.push(Some(*self.numbers.entry(row.owned()).or_insert(next)));
        }
        Ok(out)
    }

    /// The values of these partitions, a column each.
    pub(crate) fn values(&self, parts: &[usize]) -> Result<Vec<ArrayRef>> {
        if self.fields.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows: Vec<Option<&OwnedRow>> = vec![None; self.numbers.len()];
        for (row, number) in &self.numbers {
            if let Some(place) = rows.get_mut(*number) {
                *place = Some(row);
            }
        }
        let of = |part: &usize| rows.get(*part).copied().flatten().map(OwnedRow::row);
        let arrays = self.converter.convert_rows(parts.iter().filter_map(of))?;
        let as_field = |(array, field): (ArrayRef, &Field)| to_type(&array, field.data_type());
        arrays.into_iter().zip(&self.fields).map(as_field).collect()
    }

    /// Partitions in the order of their values.
    pub(crate) fn order(&self) -> Vec<usize> {
        if self.fields.is_empty() {
            return vec![0];
        }
        let mut rows: Vec<(&OwnedRow, usize)> =
            self.numbers.iter().map(|(row, number)| (row, *number)).collect();
        rows.sort();
        let mut places = vec![0; rows.len()];
        for (place, (_, number)) in rows.into_iter().enumerate() {
            places.iter_mut().skip(number).take(1).for_each(|it| *it = place);
        }
        places
    }
}

/// Columns of nothing but NULL are compared as integers.
fn key_type(data_type: &DataType) -> DataType {
    if data_type.is_null() { DataType::Int64 } else { data_type.clone() }
}

/// Places of rows, sorted by partition and then as said; rows without a partition are left out.
pub(crate) fn sorted<K: Ord>(parts: &[Option<usize>], key: impl Fn(usize) -> K) -> Vec<(usize, usize)> {
    let rows = parts.iter().enumerate().filter_map(|(row, part)| Some(((*part)?, row)));
    let mut rows: Vec<(usize, usize)> = rows.collect();
    rows.sort_by_key(|(part, row)| (*part, key(*row)));
    rows
}

/// An array behind a pointer, as columns are.
pub(crate) fn boxed(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}
