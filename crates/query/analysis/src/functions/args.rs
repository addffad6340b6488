//! `extract_arg(arg_set_id, key)`: a value out of `args`.
//!
//! In SQLite its type is that of each row's value. Here a column has one type, so it is that of all values of the key in the trace: integers,
//! doubles if some are, texts if some are no numbers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::Array;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use ferretto_trace_tables::{Column, Str, Table, Tables, Value};

use crate::functions::of_tables::{array, text};
use crate::functions::of_trace::Asked;
use crate::functions::text::{ints, texts};

pub(crate) struct ExtractArg {
    tables: Arc<Tables>,
    signature: Signature,
    /// The types of keys that were asked for.
    types: Mutex<HashMap<String, DataType>>,
    asked: Asked,
}

impl ExtractArg {
    pub(crate) fn new(tables: Arc<Tables>, asked: Asked) -> Self {
        Self { tables, signature: Signature::any(2, Volatility::Immutable), types: Mutex::default(), asked }
    }

    fn type_of(&self, key: &str) -> DataType {
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        types
            .entry(key.to_owned())
            .or_insert_with(|| self.asked.type_of(key, Args::of(&self.tables).type_of(key)))
            .clone()
    }
}

impl std::fmt::Debug for ExtractArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExtractArg")
    }
}

impl PartialEq for ExtractArg {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tables, &other.tables)
    }
}

impl Eq for ExtractArg {}

impl std::hash::Hash for ExtractArg {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.tables).hash(state);
    }
}

impl ScalarUDFImpl for ExtractArg {
    fn name(&self) -> &str {
        "extract_arg"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.asked.set();
        let key = args.scalar_arguments.get(1).copied().flatten().and_then(text);
        let data_type = key.map_or(DataType::Utf8View, |key| self.type_of(key));
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type().clone();
        crate::functions::invoke(&args, |arrays| {
            let [sets, keys] = arrays else { return Ok(arrow::array::new_null_array(&data_type, 1)) };
            let (sets, keys) = (ints(sets)?, texts(keys)?);
            let found = Args::of(&self.tables);
            let mut last: Option<(&str, Option<Str>)> = None;
            let values = (0..sets.len()).map(|row| {
                if sets.is_null(row) || keys.is_null(row) {
                    return Value::Null;
                }
                let key = keys.value(row);
                let number = match last {
                    Some((text, number)) if text == key => number,
                    _ => self.tables.strings.find(key),
                };
                last = Some((key, number));
                number.map_or(Value::Null, |number| found.value(sets.value(row), number))
            });
            Ok(array(&self.tables, &data_type, values))
        })
    }
}

/// The columns of `args`.
struct Args<'a> {
    tables: &'a Tables,
    columns: Vec<Column<'a>>,
}

impl<'a> Args<'a> {
    fn of(tables: &'a Tables) -> Self {
        Self { tables, columns: tables.args.columns() }
    }

    fn cell(&self, name: &str, row: usize) -> Value {
        self.columns
            .iter()
            .find(|column| column.name == name)
            .map_or(Value::Null, |column| column.data.get(row))
    }

    fn cells(&self, row: usize) -> Value {
        let cells = ["int_value", "string_value", "real_value"].map(|name| self.cell(name, row));
        cells.into_iter().find(|value| *value != Value::Null).unwrap_or(Value::Null)
    }

    /// A set's number is that of its first row.
    fn value(&self, set: i64, key: Str) -> Value {
        let Ok(first) = usize::try_from(set) else { return Value::Null };
        let rows = (first..self.tables.args.len())
            .take_while(|row| self.cell("arg_set_id", *row) == Value::Int(set));
        let mut rows = rows.filter(|row| self.cell("key", *row) == Value::Str(key));
        rows.next().map_or(Value::Null, |row| self.cells(row))
    }

    /// The type of a key's values, if it has any.
    fn type_of(&self, key: &str) -> Option<DataType> {
        let key = self.tables.strings.find(key)?;
        let mut found = DataType::Null;
        for row in (0..self.tables.args.len()).filter(|row| self.cell("key", *row) == Value::Str(key)) {
            found = match (self.cells(row), &found) {
                (Value::Str(_), _) => return Some(DataType::Utf8View),
                (Value::Real(_), _) => DataType::Float64,
                (Value::Int(_), DataType::Null) => DataType::Int64,
                _ => found,
            };
        }
        (found != DataType::Null).then_some(found)
    }
}
