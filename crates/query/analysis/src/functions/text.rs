//! Values of any type as one type, as SQLite has them: the text of a number, the number that a text begins with.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringViewArray, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, exec_err};

/// Bytes of texts that one function may make of one batch. What calls functions with what functions make grows with each, and what they make
/// is nobody's yet who counts memory.
const MAX_BYTES: usize = 64 << 20;

/// Texts that a function makes, row by row.
pub(crate) struct Made {
    out: StringViewBuilder,
    bytes: usize,
}

impl Made {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self { out: StringViewBuilder::with_capacity(rows), bytes: 0 }
    }

    /// The next row's.
    pub(crate) fn push(&mut self, text: Option<&str>) -> Result<()> {
        self.may_grow(text.map_or(0, str::len))?;
        self.bytes += text.map_or(0, str::len);
        self.out.append_option(text);
        Ok(())
    }

    /// Whether there may be so many bytes more.
    pub(crate) fn may_grow(&self, bytes: usize) -> Result<()> {
        match bytes > MAX_BYTES.saturating_sub(self.bytes) {
            true => exec_err!("a function makes more than {} MB of texts at once", MAX_BYTES >> 20),
            false => Ok(()),
        }
    }

    pub(crate) fn finish(mut self) -> ArrayRef {
        Arc::new(self.out.finish())
    }
}

/// Whether what a function has made of one batch is not too large to be made more of.
pub(crate) fn check_size(array: &dyn Array) -> Result<()> {
    match array.data_type() {
        DataType::Utf8View => {
            // Many may be the same one.
            let views = array.as_string_view();
            let bytes: usize = views.views().iter().map(|view| *view as u32 as usize).sum();
            Made { out: StringViewBuilder::new(), bytes: 0 }.may_grow(bytes)
        }
        _ => Ok(()),
    }
}

/// As integers; what is none is NULL only if it is NULL.
pub(crate) fn ints(array: &ArrayRef) -> Result<Int64Array> {
    Ok(match array.data_type() {
        DataType::Float64 | DataType::Float32 | DataType::Float16 => {
            let reals = cast(array, &DataType::Float64)?;
            reals.as_primitive::<Float64Type>().iter().map(|value| value.map(real_to_int)).collect()
        }
        it if is_text(it) => texts(array)?.iter().map(|text| text.map(|text| real_or_int(text).1)).collect(),
        _ => cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
    })
}

/// As doubles.
pub(crate) fn reals(array: &ArrayRef) -> Result<Float64Array> {
    Ok(match array.data_type() {
        it if is_text(it) => texts(array)?.iter().map(|text| text.map(|text| real_or_int(text).0)).collect(),
        _ => cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone(),
    })
}

/// As texts.
pub(crate) fn texts(array: &ArrayRef) -> Result<StringViewArray> {
    Ok(match array.data_type() {
        DataType::Utf8View => array.as_string_view().clone(),
        DataType::Float64 | DataType::Float32 | DataType::Float16 => {
            let reals = cast(array, &DataType::Float64)?;
            let mut out = StringViewBuilder::with_capacity(array.len());
            reals
                .as_primitive::<Float64Type>()
                .iter()
                .for_each(|value| out.append_option(value.map(real_text)));
            out.finish()
        }
        DataType::Boolean => {
            let ints = cast(array, &DataType::Int64)?;
            cast(&ints, &DataType::Utf8View)?.as_string_view().clone()
        }
        DataType::Binary => {
            let mut out = StringViewBuilder::with_capacity(array.len());
            let binary = array.as_binary::<i32>();
            binary.iter().for_each(|value| out.append_option(value.map(String::from_utf8_lossy)));
            out.finish()
        }
        _ => cast(array, &DataType::Utf8View)?.as_string_view().clone(),
    })
}

/// As conditions: what is not zero.
pub(crate) fn truths(array: &ArrayRef) -> Result<BooleanArray> {
    Ok(match array.data_type() {
        DataType::Boolean => array.as_boolean().clone(),
        DataType::Int64 => {
            array.as_primitive::<Int64Type>().iter().map(|value| value.map(|value| value != 0)).collect()
        }
        _ => reals(array)?.iter().map(|value| value.map(|value| value != 0.0)).collect(),
    })
}

pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

/// The type that all of these fit into.
pub(crate) fn common_type(types: &[DataType]) -> DataType {
    let mut common = DataType::Null;
    for it in types {
        common = match (it, &common) {
            (DataType::Null, _) => continue,
            (it, _) if is_text(it) => DataType::Utf8View,
            (_, DataType::Utf8View) => DataType::Utf8View,
            (DataType::Float64 | DataType::Float32, _) | (_, DataType::Float64) => DataType::Float64,
            (DataType::Binary, _) => DataType::Binary,
            _ => DataType::Int64,
        };
    }
    common
}

/// As that type.
pub(crate) fn to_type(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(match to {
        DataType::Utf8View => Arc::new(texts(array)?),
        DataType::Float64 => Arc::new(reals(array)?),
        DataType::Int64 => Arc::new(ints(array)?),
        other => cast(array, other)?,
    })
}

fn real_to_int(value: f64) -> i64 {
    // Saturates, as SQLite does; no number is 0.
    value as i64
}

/// The number that a text begins with, both as a double and as an integer; 0 if it begins with none.
fn real_or_int(text: &str) -> (f64, i64) {
    let text = text.trim_ascii_start();
    let bytes = text.as_bytes();
    let at = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let sign = usize::from(matches!(at(0), b'+' | b'-'));
    let whole = sign + digits(sign);
    let mut end = whole;
    if at(end) == b'.' {
        end += 1 + digits(end + 1);
    }
    if end > sign && matches!(at(end), b'e' | b'E') {
        let sign = usize::from(matches!(at(end + 1), b'+' | b'-'));
        let exponent = digits(end + 1 + sign);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    let part = |end: usize| text.get(..end).unwrap_or_default();
    let real: f64 = part(end).parse().unwrap_or(0.0);
    let int = part(whole).parse().unwrap_or_else(|_| if whole > sign { real_to_int(real) } else { 0 });
    (real, int)
}

/// A double as text: 15 digits that count, and always a point (SQLite's `%!.15g`).
pub(crate) fn real_text(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Inf" } else { "-Inf" }.to_owned();
    }
    if value.is_nan() {
        return "NaN".to_owned();
    }
    general(value, 15, true)
}

/// As `%.Ng` has it; with `point`, there always is one.
pub(crate) fn general(value: f64, digits: usize, point: bool) -> String {
    let digits = digits.max(1);
    if value == 0.0 {
        return if point { "0.0" } else { "0" }.to_owned();
    }
    let scientific = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => text,
        };
        if point && !text.contains('.') { format!("{text}.0") } else { text.to_owned() }
    };
    let most = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= most {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(most - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_texts_and_texts_numbers_as_in_sqlite() {
        for (value, text) in [
            (1.0, "1.0"),
            (0.1 + 0.2, "0.3"),
            (1e15, "1.0e+15"),
            (123_456_789_012_345.0, "123456789012345.0"),
            (1.5e-7, "1.5e-07"),
            (-2.25, "-2.25"),
            (0.0, "0.0"),
        ] {
            assert_eq!(real_text(value), text);
        }
        for (text, real, int) in
            [("12abc", 12.0, 12), (" -3.5e2x", -350.0, -3), ("x", 0.0, 0), ("1e", 1.0, 1), (".5", 0.5, 0)]
        {
            assert_eq!(real_or_int(text), (real, int), "{text}");
        }
    }
}
