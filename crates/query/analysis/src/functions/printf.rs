//! `printf(format, …)`, which is also `format`.

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringViewArray};
use datafusion::common::{Result, exec_err};

use crate::functions::conversions::one;
use crate::functions::text::{Made, general, ints, reals, texts};
use crate::functions::{Returns, Simple};

/// Digits behind a point, and characters that something may be made wide by: one row is no page.
const MAX_WIDTH: usize = 10_000;
/// Bytes of a line.
const MAX_LINE_BYTES: usize = 1 << 20;

pub(crate) fn all() -> Vec<Simple> {
    vec![Simple::new("printf", Returns::Text, printf)]
}

/// An argument as everything that a sign may want.
struct Argument {
    texts: StringViewArray,
    ints: Int64Array,
    reals: Float64Array,
}

fn printf(args: &[ArrayRef]) -> Result<ArrayRef> {
    let formats = texts(one(args)?)?;
    let argument = |array: &ArrayRef| -> Result<Argument> {
        Ok(Argument { texts: texts(array)?, ints: ints(array)?, reals: reals(array)? })
    };
    let args = args.iter().skip(1).map(argument).collect::<Result<Vec<_>>>()?;
    let mut made = Made::with_capacity(formats.len());
    for row in 0..formats.len() {
        match formats.is_valid(row) {
            true => made.push(Some(&line(formats.value(row), &args, row)?))?,
            false => made.push(None)?,
        }
    }
    Ok(made.finish())
}

#[derive(Default)]
struct Sign {
    left: bool,
    zeros: bool,
    plus: bool,
    blank: bool,
    commas: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

fn line(format: &str, args: &[Argument], row: usize) -> Result<String> {
    let mut out = String::new();
    let mut args = args.iter();
    let mut rest = format.chars().peekable();
    while let Some(it) = rest.next() {
        if it != '%' {
            out.push(it);
            continue;
        }
        let mut sign = Sign::default();
        while let Some(flag) = rest.next_if(|it| "-0+ ,#!".contains(*it)) {
            match flag {
                '-' => sign.left = true,
                '0' => sign.zeros = true,
                '+' => sign.plus = true,
                ' ' => sign.blank = true,
                ',' => sign.commas = true,
                _ => sign.alternate = true,
            }
        }
        let mut number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            if rest.next_if_eq(&'*').is_some() {
                let value = args.next().map_or(0, |arg| int(arg, row));
                return usize::try_from(value).unwrap_or(0).min(MAX_WIDTH + 1);
            }
            let mut value = 0usize;
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                value = (value * 10 + digit.to_digit(10).map_or(0, |it| it as usize)).min(MAX_WIDTH + 1);
            }
            value
        };
        sign.width = number(&mut rest);
        if rest.next_if_eq(&'.').is_some() {
            sign.precision = Some(number(&mut rest));
        }
        if sign.width.max(sign.precision.unwrap_or(0)) > MAX_WIDTH {
            return exec_err!("printf makes nothing wider than {MAX_WIDTH} characters");
        }
        while rest.next_if(|it| matches!(it, 'l' | 'h' | 'z')).is_some() {}
        let Some(kind) = rest.next() else { break };
        if kind == '%' {
            out.push('%');
            continue;
        }
        let Some(text) = value(kind, &sign, args.next(), row) else { break };
        pad(&mut out, &sign, &text, !matches!(kind, 's' | 'c' | 'q' | 'Q' | 'w' | 'z'));
        if out.len() > MAX_LINE_BYTES {
            return exec_err!("printf makes no more than {MAX_LINE_BYTES} bytes of a row");
        }
    }
    Ok(out)
}

fn int(arg: &Argument, row: usize) -> i64 {
    if arg.ints.is_valid(row) { arg.ints.value(row) } else { 0 }
}

fn value(kind: char, sign: &Sign, arg: Option<&Argument>, row: usize) -> Option<String> {
    let int = arg.map_or(0, |arg| int(arg, row));
    let real = arg.filter(|arg| arg.reals.is_valid(row)).map_or(0.0, |arg| arg.reals.value(row));
    let text = arg.filter(|arg| arg.texts.is_valid(row)).map(|arg| arg.texts.value(row));
    let positive = |text: String| match text.starts_with('-') {
        true => text,
        false if sign.plus => format!("+{text}"),
        false if sign.blank => format!(" {text}"),
        false => text,
    };
    let cut = |text: &str| text.chars().take(sign.precision.unwrap_or(usize::MAX)).collect::<String>();
    let precision = sign.precision.unwrap_or(6);
    Some(match kind {
        'd' | 'i' => positive(if sign.commas { with_commas(&int.to_string()) } else { int.to_string() }),
        'u' => (int as u64).to_string(),
        'x' if sign.alternate => format!("0x{int:x}"),
        'x' => format!("{int:x}"),
        'X' => format!("{int:X}"),
        'o' => format!("{int:o}"),
        'p' => format!("{int:X}"),
        'f' | 'F' => positive(format!("{real:.precision$}")),
        'e' | 'E' => positive(exponential(real, precision, kind)),
        'g' | 'G' => positive(general(real, precision, sign.alternate)),
        's' | 'z' => cut(text.unwrap_or_default()),
        'c' => text.unwrap_or_default().chars().take(1).collect(),
        'q' => cut(text.unwrap_or("(NULL)")).replace('\'', "''"),
        'Q' => text.map_or("NULL".to_owned(), |text| format!("'{}'", cut(text).replace('\'', "''"))),
        'w' => cut(text.unwrap_or("(NULL)")).replace('"', "\"\""),
        _ => return None,
    })
}

fn exponential(value: f64, precision: usize, kind: char) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}{kind}{sign}{digits:0>2}")
}

fn with_commas(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let mut out = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn pad(out: &mut String, sign: &Sign, text: &str, is_number: bool) {
    let missing = sign.width.saturating_sub(text.chars().count());
    if sign.left {
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', missing));
    } else if sign.zeros && is_number {
        let digits = text.trim_start_matches(['-', '+', ' ']);
        out.push_str(text.strip_suffix(digits).unwrap_or_default());
        out.extend(std::iter::repeat_n('0', missing));
        out.push_str(digits);
    } else {
        out.extend(std::iter::repeat_n(' ', missing));
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn numbers_and_texts_are_printed() {
        let array: ArrayRef = Arc::new(StringViewArray::from(vec!["-1234.5"]));
        let args = || {
            [Argument {
                texts: texts(&array).unwrap(),
                ints: ints(&array).unwrap(),
                reals: reals(&array).unwrap(),
            }]
        };
        for (format, text) in [
            ("a %d %%", "a -1234 %"),
            ("%08d|", "-0001234|"),
            ("%-8d|", "-1234   |"),
            ("%,d", "-1,234"),
            ("%.2f", "-1234.50"),
            ("%e", "-1.234500e+03"),
            ("%g", "-1234.5"),
            ("%10s|", "   -1234.5|"),
            ("%.3s", "-12"),
            ("%s %s", "-1234.5 "),
        ] {
            assert_eq!(line(format, &args(), 0).unwrap(), text);
        }
    }
}
