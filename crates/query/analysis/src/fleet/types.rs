//! Types of columns that differ from trace to trace.
//!
//! Most are the same in all. But `extract_arg` gives integers in one trace and texts in another, and of what a trace does not have it gives
//! NULLs that have no type. All get the type that the values of all fit into: integers, doubles, texts. It is known for certain only when all
//! traces were read; so one is declared, and if it turns out not to be right, the traces are asked once more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::{Result, exec_err};

use crate::functions::text::{is_text, to_type};

/// What was seen of columns, by their numbers in the part of a query that each trace is asked.
#[derive(Debug)]
pub(crate) struct Seen {
    types: Mutex<Vec<Option<DataType>>>,
    /// Whether values did not fit, and would into another type.
    is_to_repeat: AtomicBool,
}

impl Seen {
    /// Of so many columns.
    pub(crate) fn new(columns: usize) -> Self {
        Self { types: Mutex::new(vec![None; columns]), is_to_repeat: AtomicBool::new(false) }
    }

    /// Whether the traces are to be asked again, with the types of [`Seen::over`]. The answer is given once.
    pub(crate) fn is_to_repeat(&self) -> bool {
        self.is_to_repeat.swap(false, Ordering::Relaxed)
    }

    /// Declared types with those that were seen in their place.
    pub(crate) fn over(&self, declared: &[DataType]) -> Vec<DataType> {
        let seen = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        let type_of = |(declared, seen): (&DataType, &Option<DataType>)| match seen {
            Some(seen) if !is_same(seen, declared) => seen.clone(),
            _ => declared.clone(),
        };
        declared.iter().zip(seen.iter()).map(type_of).collect()
    }

    /// Has seen values of this type; gives the type that fits all so far, if there is one.
    fn see(&self, column: usize, data_type: &DataType) -> Option<DataType> {
        let mut seen = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.get_mut(column)?;
        let all = match seen.as_ref() {
            Some(before) => common(before, data_type)?,
            None => data_type.clone(),
        };
        *seen = Some(all.clone());
        Some(all)
    }

    /// Rows of a trace with the types that were declared. `columns` are the numbers of theirs.
    ///
    /// # Errors
    ///
    /// If values do not fit into them: [`Seen::is_to_repeat`] tells then whether they would into others.
    pub(crate) fn fit(
        &self,
        path: &str,
        columns: &[usize],
        declared: &SchemaRef,
        batch: &RecordBatch,
    ) -> Result<RecordBatch> {
        let each = batch.columns().iter().zip(declared.fields()).zip(columns);
        let fit = |((array, field), column): ((&ArrayRef, &Arc<Field>), &usize)| {
            self.fit_one(path, *column, field, array)
        };
        // All are looked at, also behind one that does not fit.
        let arrays: Vec<Result<ArrayRef>> = each.map(fit).collect();
        let arrays = arrays.into_iter().collect::<Result<Vec<ArrayRef>>>()?;
        if arrays.len() != declared.fields().len() {
            return exec_err!("{path} gives {} columns, not {}", arrays.len(), declared.fields().len());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(declared.clone(), arrays, &options)?)
    }

    fn fit_one(&self, path: &str, column: usize, field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
        let (has, declared) = (array.data_type(), field.data_type());
        if array.null_count() == array.len() {
            return Ok(if has == declared { array.clone() } else { new_null_array(declared, array.len()) });
        }
        match self.see(column, has) {
            Some(all) if is_same(&all, declared) => {
                Ok(if has == declared { array.clone() } else { to_type(array, declared)? })
            }
            all => {
                self.is_to_repeat.fetch_or(all.is_some(), Ordering::Relaxed);
                exec_err!(
                    "the column {} has values of the type {has} in {path}, and {declared} in others: cast it",
                    called(field)
                )
            }
        }
    }
}

/// A column of this number, among others that may have the same name.
pub(crate) fn field(at: usize, name: &str, data_type: &DataType) -> Field {
    Field::new(format!("{at}:{name}"), data_type.clone(), true)
}

/// The name that it has in the query.
fn called(field: &Field) -> &str {
    field.name().split_once(':').map_or("", |(_, name)| name)
}

/// Whether values of both are the same ones, however they are kept.
fn is_same(one: &DataType, other: &DataType) -> bool {
    one == other
        || is_text(one) && is_text(other)
        || one.is_integer() && other.is_integer()
        || one.is_floating() && other.is_floating()
}

/// The type that both fit into.
fn common(one: &DataType, other: &DataType) -> Option<DataType> {
    let is_number = |it: &DataType| it.is_numeric() || *it == DataType::Boolean;
    match (one, other) {
        _ if is_same(one, other) => Some(one.clone()),
        (DataType::Null, it) | (it, DataType::Null) => Some(it.clone()),
        _ if is_text(one) && is_number(other) || is_number(one) && is_text(other) => Some(DataType::Utf8View),
        _ if !is_number(one) || !is_number(other) => None,
        _ if one.is_floating() || other.is_floating() => Some(DataType::Float64),
        _ => Some(DataType::Int64),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray as _, Float64Array, Int64Array, StringViewArray};
    use arrow::datatypes::Schema;

    use super::*;

    fn of(array: impl arrow::array::Array + 'static) -> RecordBatch {
        RecordBatch::try_from_iter([("a", Arc::new(array) as ArrayRef)]).unwrap()
    }

    fn declared(data_type: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![field(0, "a", &data_type)]))
    }

    #[test]
    fn the_type_is_that_which_all_values_fit_into() {
        let seen = Seen::new(1);
        let texts = declared(DataType::Utf8View);
        let fit = |schema: &SchemaRef, batch: &RecordBatch| seen.fit("t", &[0], schema, batch);
        // A trace that has no value has no type.
        let none = of(StringViewArray::from(vec![None::<&str>]));
        assert!(fit(&texts, &none).is_ok());
        assert!(fit(&texts, &of(Int64Array::from(vec![7]))).is_err());
        assert!(seen.is_to_repeat() && !seen.is_to_repeat());
        assert_eq!(seen.over(&[DataType::Utf8View]), [DataType::Int64]);
        let ints = declared(DataType::Int64);
        assert_eq!(fit(&ints, &none).unwrap().column(0).data_type(), &DataType::Int64);
        assert!(fit(&ints, &of(Float64Array::from(vec![0.5]))).is_err());
        assert_eq!(seen.over(&[DataType::Int64]), [DataType::Float64]);
        assert!(fit(&ints, &of(StringViewArray::from(vec!["x"]))).is_err());
        assert_eq!(seen.over(&[DataType::Float64]), [DataType::Utf8View]);
        let batch = fit(&texts, &of(Int64Array::from(vec![7]))).unwrap();
        assert_eq!(batch.column(0).as_string_view().value(0), "7");
    }
}
