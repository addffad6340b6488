//! Functions of numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Float64Array};
use arrow::compute::kernels::cmp::{gt, lt};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{and, is_not_null, not, nullif};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use crate::functions::conversions::one;
use crate::functions::text::{common_type, ints, is_text, reals, texts, to_type};
use crate::functions::{Returns, Simple, is_whole};

pub(crate) fn all() -> Vec<Simple> {
    vec![
        Simple::new("scalar_min", Returns::Common, |args| extreme(args, false)),
        Simple::new("scalar_max", Returns::Common, |args| extreme(args, true)),
        Simple::new("round", Returns::Real, round),
        Simple::of(1, "ceil", Returns::Whole, |args| whole(args, f64::ceil)),
        Simple::of(1, "ceiling", Returns::Whole, |args| whole(args, f64::ceil)),
        Simple::of(1, "floor", Returns::Whole, |args| whole(args, f64::floor)),
        Simple::of(1, "trunc", Returns::Whole, |args| whole(args, f64::trunc)),
        Simple::of(1, "number_real", Returns::Real, |args| Ok(Arc::new(numbers(one(args)?)?))),
        Simple::of(1, "sign", Returns::Int, |args| {
            let signs = reals(one(args)?)?;
            let sign = |value: f64| {
                if value == 0.0 {
                    0
                } else if value > 0.0 {
                    1
                } else {
                    -1
                }
            };
            Ok(Arc::new(signs.iter().map(|value| value.map(sign)).collect::<arrow::array::Int64Array>()))
        }),
    ]
}

/// The smallest or largest of the arguments; NULL if any is.
fn extreme(args: &[ArrayRef], is_largest: bool) -> Result<ArrayRef> {
    let types: Vec<DataType> = args.iter().map(|array| array.data_type().clone()).collect();
    let common = common_type(&types);
    let mut best = to_type(one(args)?, &common)?;
    for other in args.iter().skip(1) {
        let other = to_type(other, &common)?;
        if common == DataType::Null {
            continue;
        }
        let are_both = and(&is_not_null(&best)?, &is_not_null(&other)?)?;
        let takes_other = if is_largest { gt(&other, &best)? } else { lt(&other, &best)? };
        let takes_other: BooleanArray =
            takes_other.iter().map(|takes| Some(takes.unwrap_or(false))).collect();
        best = nullif(&zip(&takes_other, &other, &best)?, &not(&are_both)?)?;
    }
    Ok(best)
}

/// Doubles; NULL for a text that is not that of a number.
fn numbers(array: &ArrayRef) -> Result<Float64Array> {
    if !is_text(array.data_type()) {
        return reals(array);
    }
    let is_number = |text: &str| {
        text.bytes().any(|byte| byte.is_ascii_digit())
            && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-' | b'e' | b'E'))
    };
    let number = |text: &str| Some(text.trim_ascii()).filter(|text| is_number(text))?.parse().ok();
    Ok(texts(array)?.iter().map(|text| text.and_then(number)).collect())
}

/// Whole numbers stay what they are.
fn whole(args: &[ArrayRef], round: fn(f64) -> f64) -> Result<ArrayRef> {
    let array = one(args)?;
    match is_whole(array.data_type()) {
        true => Ok(Arc::new(ints(array)?)),
        false => Ok(Arc::new(numbers(array)?.iter().map(|it| it.map(round)).collect::<Float64Array>())),
    }
}

/// To so many digits behind the point, halves away from zero.
fn round(args: &[ArrayRef]) -> Result<ArrayRef> {
    let values = reals(one(args)?)?;
    let digits = args.get(1).map(ints).transpose()?;
    let round = |row: usize| {
        let digits = match &digits {
            None => 0,
            Some(digits) if digits.is_null(row) => return None,
            Some(digits) => digits.value(row).clamp(0, 30),
        };
        if values.is_null(row) {
            return None;
        }
        let value = values.value(row);
        let scale = 10f64.powi(i32::try_from(digits).unwrap_or(0));
        let scaled = (value * scale).round() / scale;
        Some(if scaled.is_finite() { scaled } else { value })
    };
    Ok(Arc::new((0..values.len()).map(round).collect::<Float64Array>()))
}
