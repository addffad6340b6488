//! Texts and numbers as JSON has them (RFC 8259).

use std::io::{self, Write};

/// Writes a text with its quotes.
///
/// # Errors
///
/// If `out` has one.
pub fn string(text: &str, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    out.write_all(b"\"")?;
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (index, byte) in bytes.iter().enumerate() {
        if *byte >= 0x20 && !matches!(byte, b'"' | b'\\') {
            continue;
        }
        out.write_all(bytes.get(plain..index).unwrap_or_default())?;
        plain = index + 1;
        match byte {
            b'"' => out.write_all(b"\\\"")?,
            b'\\' => out.write_all(b"\\\\")?,
            b'\n' => out.write_all(b"\\n")?,
            b'\r' => out.write_all(b"\\r")?,
            b'\t' => out.write_all(b"\\t")?,
            other => write!(out, "\\u{other:04x}")?,
        }
    }
    out.write_all(bytes.get(plain..).unwrap_or_default())?;
    out.write_all(b"\"")
}

/// Writes a floating-point number; `null` if it is none that JSON has.
///
/// # Errors
///
/// If `out` has one.
pub fn real(value: f64, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    if value.is_finite() { write!(out, "{value:?}") } else { out.write_all(b"null") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_cannot_hold_is_written_otherwise() {
        for (text, expected) in [
            ("", r#""""#),
            ("größe", r#""größe""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\r\t\u{1}\u{7f}", "\"\\n\\r\\t\\u0001\u{7f}\""),
            ("\"", r#""\"""#),
        ] {
            let mut out = Vec::new();
            string(text, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        for (value, expected) in
            [(1.0, "1.0"), (-0.5, "-0.5"), (1e300, "1e300"), (f64::NAN, "null"), (f64::INFINITY, "null")]
        {
            let mut out = Vec::new();
            real(value, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
