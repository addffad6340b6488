//! Functions that look something up in the trace's tables.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use ferretto_trace_tables::{Table, Tables, Value};

use crate::functions::of_trace::Asked;

/// What such a function does: with the arguments, to an array of this type.
type Run = fn(&Tables, &[ArrayRef], &DataType) -> Result<ArrayRef>;

/// Such a function.
pub(crate) struct OfTables {
    name: &'static str,
    tables: Arc<Tables>,
    signature: Signature,
    returns: Returns,
    run: Run,
    asked: Asked,
}

/// The type of what it gives.
#[derive(Clone, Copy)]
pub(crate) enum Returns {
    Always(&'static DataType),
    /// That of all values that a text has in the trace: the argument's place, and what finds it.
    Of(usize, fn(&Tables, &str) -> DataType),
}

impl OfTables {
    /// One of so many arguments.
    pub(crate) fn new(
        tables: &Arc<Tables>,
        name: &'static str,
        count: usize,
        returns: Returns,
        run: Run,
    ) -> Self {
        let signature = Signature::any(count, Volatility::Immutable);
        Self { name, tables: tables.clone(), signature, returns, run, asked: Asked::default() }
    }

    /// It tells whether its type was asked of the trace.
    pub(crate) fn telling(self, asked: &Asked) -> Self {
        Self { asked: asked.clone(), ..self }
    }
}

impl std::fmt::Debug for OfTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for OfTables {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.tables, &other.tables)
    }
}

impl Eq for OfTables {}

impl std::hash::Hash for OfTables {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for OfTables {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.returns {
            Returns::Always(data_type) => data_type.clone(),
            Returns::Of(..) => DataType::Utf8View,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let data_type = match self.returns {
            Returns::Always(data_type) => data_type.clone(),
            Returns::Of(place, find) => {
                self.asked.set();
                let key = args.scalar_arguments.get(place).copied().flatten().and_then(text);
                key.map_or(DataType::Utf8View, |key| find(&self.tables, key))
            }
        };
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type().clone();
        crate::functions::invoke(&args, |arrays| (self.run)(&self.tables, arrays, &data_type))
    }
}

/// The text that a constant is.
pub(crate) fn text(key: &ScalarValue) -> Option<&str> {
    match key {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            text.as_deref()
        }
        _ => None,
    }
}

/// Values as an array of one type: those of another are NULL, but for integers among doubles, and whatever among texts.
pub(crate) fn array(tables: &Tables, data_type: &DataType, values: impl Iterator<Item = Value>) -> ArrayRef {
    match data_type {
        DataType::Int64 => Arc::new(
            values
                .map(|value| match value {
                    Value::Int(value) => Some(value),
                    _ => None,
                })
                .collect::<Int64Array>(),
        ),
        DataType::Float64 => Arc::new(
            values
                .map(|value| match value {
                    Value::Int(value) => Some(value as f64),
                    Value::Real(value) => Some(value),
                    _ => None,
                })
                .collect::<Float64Array>(),
        ),
        _ => {
            let mut out = StringViewBuilder::new();
            values.for_each(|value| match value {
                Value::Int(value) => out.append_value(value.to_string()),
                Value::Real(value) => out.append_value(crate::functions::text::real_text(value)),
                Value::Str(text) => out.append_value(tables.strings.get(text)),
                Value::Bool(value) => out.append_value(if value { "1" } else { "0" }),
                Value::Null => out.append_null(),
            });
            Arc::new(out.finish())
        }
    }
}

/// A cell of a table, by the column's name.
pub(crate) fn cell(table: &dyn Table, name: &str, row: usize) -> Value {
    table.columns().iter().find(|column| column.name == name).map_or(Value::Null, |it| it.data.get(row))
}

/// Whether a row's arguments are there at all.
pub(crate) fn are_set(arrays: &[ArrayRef], row: usize) -> bool {
    arrays.iter().all(|array| !array.is_null(row))
}
