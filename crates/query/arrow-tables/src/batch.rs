//! A relation's rows as batches of Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use ferretto_trace_tables::{Kind, Run, Str};

use crate::relation::{Column, Relation};

/// Rows of a batch: enough that a batch's own cost is none, few enough that its columns stay in a processor's cache.
pub const BATCH_ROWS: usize = 64 << 10;

/// Of a field's metadata, and a schema's: what stands in the column, what the rows are.
pub const DOC: &str = "doc";
/// Of a schema's metadata: the name of the table.
pub const TABLE: &str = "table";

/// Offsets in a dictionary of `Utf8` are of 31 bits.
const MAX_DICTIONARY_BYTES: usize = i32::MAX as usize;

/// Names, types and documentation of a relation's columns.
#[must_use]
pub fn schema(relation: &Relation<'_>) -> SchemaRef {
    let fields: Vec<Field> = relation.columns().iter().map(field).collect();
    let about = [(TABLE, relation.name()), (DOC, relation.doc())];
    let metadata = about.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

fn field(column: &Column<'_>) -> Field {
    let data_type = match column.kind() {
        Kind::Int => DataType::Int64,
        Kind::Real => DataType::Float64,
        Kind::Bool => DataType::Boolean,
        Kind::Text => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    };
    let metadata = HashMap::from([(DOC.to_owned(), column.doc.to_owned())]);
    Field::new(column.name, data_type, column.may_be_null()).with_metadata(metadata)
}

/// The rows of a relation as batches of `rows`, in their order. All batches share each column's dictionary.
///
/// # Errors
///
/// If the different texts of a column are more than 2 GiB.
pub fn batches<'r, 'a>(relation: &'r Relation<'a>, rows: usize) -> Result<Batches<'r, 'a>, ArrowError> {
    let dictionary = |column: &Column<'_>| match column.kind() {
        Kind::Text => Dictionary::of(relation, column).map(Some),
        _ => Ok(None),
    };
    let dictionaries = relation.columns().iter().map(dictionary).collect::<Result<_, _>>()?;
    Ok(Batches { relation, schema: schema(relation), dictionaries, rows: rows.max(1), next: 0 })
}

/// Batches of a relation's rows.
#[derive(Debug)]
pub struct Batches<'r, 'a> {
    relation: &'r Relation<'a>,
    schema: SchemaRef,
    /// Of each column that has one.
    dictionaries: Vec<Option<Dictionary>>,
    rows: usize,
    next: usize,
}

impl Batches<'_, '_> {
    /// The schema of all batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// These rows, wherever the iterator is.
    ///
    /// # Errors
    ///
    /// If Arrow refuses them.
    pub fn batch(&self, rows: std::ops::Range<usize>) -> Result<RecordBatch, ArrowError> {
        let columns = self.relation.columns().iter().zip(&self.dictionaries);
        let arrays =
            columns.map(|(column, dictionary)| self.array(column, dictionary.as_ref(), rows.clone()));
        RecordBatch::try_new(self.schema(), arrays.collect::<Result<_, _>>()?)
    }

    fn array(
        &self,
        column: &Column<'_>,
        dictionary: Option<&Dictionary>,
        rows: std::ops::Range<usize>,
    ) -> Result<ArrayRef, ArrowError> {
        let mut cells = Run::with_room(rows.len());
        self.relation.read(column, rows, &mut cells);
        if let (Kind::Text, Some(dictionary)) = (column.kind(), dictionary) {
            return Ok(Arc::new(dictionary.array(cells)?));
        }
        let (bits, are_there) = cells.into_parts();
        let nulls = are_there.map(NullBuffer::from);
        Ok(match column.kind() {
            Kind::Real => Arc::new(Float64Array::new(bits.into_iter().map(f64::from_bits).collect(), nulls)),
            Kind::Bool => {
                Arc::new(BooleanArray::new(bits.into_iter().map(|bits| bits != 0).collect(), nulls))
            }
            Kind::Int | Kind::Text => {
                Arc::new(Int64Array::new(bits.into_iter().map(u64::cast_signed).collect(), nulls))
            }
        })
    }
}

impl Iterator for Batches<'_, '_> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.relation.len().min(self.next.saturating_add(self.rows));
        let rows = self.next..end;
        self.next = end;
        (!rows.is_empty()).then(|| self.batch(rows))
    }
}

/// The different texts of a column, in the order in which they come. Not all of the trace: who groups by a column looks at each once.
#[derive(Debug)]
struct Dictionary {
    values: ArrayRef,
    /// By the number of a text in the trace's pool; [`NONE`] if the column does not have it.
    keys: Vec<i32>,
}

const NONE: i32 = -1;
/// Rows that are read at once to find the texts.
const DICTIONARY_ROWS: usize = 8 << 10;

impl Dictionary {
    fn of(relation: &Relation<'_>, column: &Column<'_>) -> Result<Self, ArrowError> {
        let mut keys = Vec::new();
        let mut found: Vec<Str> = Vec::new();
        let mut bytes = 0usize;
        let mut cells = Run::default();
        for first in (0..relation.len()).step_by(DICTIONARY_ROWS) {
            cells.clear();
            relation.read(column, first..relation.len().min(first + DICTIONARY_ROWS), &mut cells);
            for text in cells.iter().flatten() {
                if keys.is_empty() {
                    keys.resize(relation.strings().len(), NONE);
                }
                let Some((key, text)) = key(&mut keys, text).filter(|(key, _)| **key == NONE) else {
                    continue;
                };
                *key = i32::try_from(found.len()).map_err(|_| too_large(relation, column))?;
                found.push(text);
                bytes += relation.text(text).len();
            }
        }
        if bytes > MAX_DICTIONARY_BYTES {
            return Err(too_large(relation, column));
        }
        let mut values = StringBuilder::with_capacity(found.len(), bytes);
        found.iter().for_each(|text| values.append_value(relation.text(*text)));
        Ok(Self { values: Arc::new(values.finish()), keys })
    }

    fn array(&self, cells: Run) -> Result<DictionaryArray<Int32Type>, ArrowError> {
        let (texts, are_there) = cells.into_parts();
        let key = |text: u64| usize::try_from(text).ok().and_then(|text| self.keys.get(text).copied());
        // Where nothing stands it is any.
        let keys: Vec<i32> = texts.into_iter().map(|text| key(text).unwrap_or(NONE).max(0)).collect();
        let keys = Int32Array::new(keys.into(), are_there.map(NullBuffer::from));
        DictionaryArray::try_new(keys, self.values.clone())
    }
}

/// The key of a text, which a cell has these bits of.
fn key(keys: &mut [i32], bits: u64) -> Option<(&mut i32, Str)> {
    let index = usize::try_from(bits).ok()?;
    Some((keys.get_mut(index)?, Str::from_index(index)?))
}

fn too_large(relation: &Relation<'_>, column: &Column<'_>) -> ArrowError {
    ArrowError::InvalidArgumentError(format!(
        "the different texts of {}.{} are more than 2 GiB",
        relation.name(),
        column.name
    ))
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Array, StringArray};
    use ferretto_trace_tables::tables::{SliceRow, Tables, ThreadRow};
    use ferretto_trace_tables::{SliceId, TrackId};

    use super::*;
    use crate::Catalog;

    fn tables(slices: u32) -> Tables {
        let mut tables = Tables::default();
        tables.strings.intern("a text that no slice has");
        for n in 0..slices {
            let name = (n % 5 != 0).then(|| tables.strings.intern(&format!("name {}", n % 5)));
            let row = SliceRow {
                ts: i64::from(n) * 10,
                track_id: TrackId(n % 3),
                parent_id: (n % 2 == 1).then_some(SliceId(n / 2)),
                name,
                ..SliceRow::default()
            };
            tables.slice.push(row);
        }
        tables
    }

    #[test]
    fn batches_have_all_rows_in_order_and_share_dictionaries() {
        let tables = tables(100);
        let slices = Catalog::new(&tables).find("slice").unwrap();
        let found: Vec<_> = batches(&slices, 30).unwrap().map(Result::unwrap).collect();
        assert_eq!(found.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [30, 30, 30, 10]);
        let mut row = 0;
        for batch in &found {
            let int = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().clone();
            let (id, ts, parent) = (int("id"), int("ts"), int("parent_id"));
            let name = batch.column_by_name("name").unwrap().as_dictionary::<Int32Type>();
            let names: &StringArray = name.values().as_string();
            assert_eq!(names.iter().flatten().collect::<Vec<_>>(), ["name 1", "name 2", "name 3", "name 4"]);
            for at in 0..batch.num_rows() {
                assert_eq!((id.value(at), ts.value(at)), (row, row * 10));
                assert_eq!(parent.is_valid(at).then(|| parent.value(at)), (row % 2 == 1).then_some(row / 2));
                let text = name.key(at).map(|key| names.value(key).to_owned());
                assert_eq!(text, (row % 5 != 0).then(|| format!("name {}", row % 5)));
                row += 1;
            }
        }
    }

    #[test]
    fn every_relation_of_an_empty_trace_has_a_schema_with_its_documentation_and_no_batches() {
        let tables = Tables::default();
        let catalog = Catalog::new(&tables);
        for name in catalog.names() {
            let relation = catalog.find(name).unwrap();
            let schema = schema(&relation);
            assert_eq!(schema.metadata().get(TABLE).map(String::as_str), Some(name));
            assert!(schema.fields().iter().all(|field| field.metadata().contains_key(DOC)), "{name}");
            assert!(batches(&relation, BATCH_ROWS).unwrap().next().is_none());
        }
    }

    #[test]
    fn yes_and_no_and_gaps() {
        let mut tables = Tables::default();
        for is_main_thread in [None, Some(true), Some(false)] {
            tables.thread.push(ThreadRow { is_main_thread, ..ThreadRow::default() });
        }
        let thread = Catalog::new(&tables).find("thread").unwrap();
        let batch = batches(&thread, BATCH_ROWS).unwrap().next().unwrap().unwrap();
        let column = batch.column_by_name("is_main_thread").unwrap().as_boolean();
        assert_eq!(column.iter().collect::<Vec<_>>(), [None, Some(true), Some(false)]);
    }
}
