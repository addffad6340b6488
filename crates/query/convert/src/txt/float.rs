//! Floating-point numbers as protobuf's own printers write them (protobuf: `SimpleDtoa`, `SimpleFtoa`): `%.15g` if that is read back as the
//! same number, `%.17g` if not; of narrow ones `%.6g`, then `%.9g`.

/// A `double`.
pub(super) fn double(value: f64) -> String {
    if let Some(word) = word(value) {
        return word.to_owned();
    }
    let short = general(value, 15);
    if short.parse() == Ok(value) { short } else { general(value, 17) }
}

/// A `float`.
pub(super) fn float(value: f32) -> String {
    if let Some(word) = word(value.into()) {
        return word.to_owned();
    }
    let short = general(value.into(), 6);
    if short.parse() == Ok(value) { short } else { general(value.into(), 9) }
}

fn word(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("nan"),
        f64::INFINITY => Some("inf"),
        f64::NEG_INFINITY => Some("-inf"),
        _ => None,
    }
}

/// C's `%.{digits}g`.
fn general(value: f64, digits: usize) -> String {
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (59.94, "59.94"),
            (1e6, "1000000"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-5, "1e-05"),
            (-2.5e-300, "-2.5e-300"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(double(value), text);
        }
        for (value, text) in
            [(0.1, "0.1"), (1e6, "1e+06"), (16_777_217.0, "16777216"), (1.0 / 3.0, "0.333333343")]
        {
            assert_eq!(float(value), text);
        }
    }
}
