//! Turns the words of a text into numbers, within the range of the field they are for.

/// An integer as the text format writes it: decimal, `0x` hexadecimal or `0` octal.
pub fn integer(word: &str, negative: bool) -> Option<i128> {
    let (digits, radix) = if let Some(hex) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        (hex, 16)
    } else if word.len() > 1 && word.starts_with('0') {
        (&word[1..], 8)
    } else {
        (word, 10)
    };
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    // 64-bit values and their neighbours fit; more is out of every field's range anyway.
    let value = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -value } else { value })
}

/// A floating-point number: digits with an optional `f`, or `inf`, `infinity`, `nan`.
pub fn float(word: &str, negative: bool) -> Option<f64> {
    let lower = word.to_ascii_lowercase();
    let value = match lower.as_str() {
        "inf" | "infinity" => f64::INFINITY,
        "nan" => f64::NAN,
        _ if !lower.starts_with(|c: char| c.is_ascii_digit()) => return None,
        _ => match integer(word, false) {
            #[allow(clippy::cast_precision_loss)]
            // A float field takes the nearest value, as in every language.
            Some(value) => value as f64,
            None => lower.strip_suffix('f').unwrap_or(&lower).parse().ok()?,
        },
    };
    Some(if negative { -value } else { value })
}

/// A boolean in any of the spellings of the text format.
pub fn boolean(word: &str) -> Option<bool> {
    match word {
        "true" | "True" | "t" | "1" => Some(true),
        "false" | "False" | "f" | "0" => Some(false),
        _ => None,
    }
}
