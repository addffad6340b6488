//! Conversions that never fail, and what a value is.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::functions::text::{ints, reals, texts, truths};
use crate::functions::{Returns, Simple};

pub(crate) fn all() -> Vec<Simple> {
    vec![
        Simple::of(1, "cast_int", Returns::Int, |args| Ok(Arc::new(ints(one(args)?)?))),
        Simple::of(1, "cast_real", Returns::Real, |args| Ok(Arc::new(reals(one(args)?)?))),
        Simple::of(1, "cast_text", Returns::Text, |args| Ok(Arc::new(texts(one(args)?)?))),
        Simple::of(1, "cast_blob", Returns::Blob, |args| {
            let text: ArrayRef = Arc::new(texts(one(args)?)?);
            Ok(cast(&text, &DataType::Binary)?)
        }),
        Simple::of(1, "truth", Returns::Truth, |args| Ok(Arc::new(truths(one(args)?)?))),
        Simple::of(1, "typeof", Returns::Text, |args| Ok(Arc::new(type_of(one(args)?)))),
    ]
}

/// The first argument.
pub(crate) fn one(args: &[ArrayRef]) -> datafusion::common::Result<&ArrayRef> {
    args.first().ok_or_else(|| datafusion::error::DataFusionError::Plan("it wants an argument".to_owned()))
}

fn type_of(array: &ArrayRef) -> StringViewArray {
    let name = match array.data_type() {
        DataType::Null => "null",
        DataType::Float64 | DataType::Float32 | DataType::Float16 => "real",
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => "blob",
        it if crate::functions::text::is_text(it) => "text",
        _ => "integer",
    };
    let mut out = StringViewBuilder::with_capacity(array.len());
    (0..array.len()).for_each(|row| out.append_value(if array.is_null(row) { "null" } else { name }));
    out.finish()
}
