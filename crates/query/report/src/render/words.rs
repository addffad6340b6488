//! Cells as people read them.

use crate::document::{Unit, Value};
use crate::units::{bytes, count, number, share, time, when};

/// In a line of text.
pub(super) fn words(value: &Value) -> String {
    match value {
        Value::Nothing => String::new(),
        Value::Text(text) => text.clone(),
        Value::Count(n) => count(*n),
        Value::Time(ns) => time(*ns),
        Value::When(ns) => when(*ns),
        Value::Bytes(n) => bytes(*n),
        Value::Share(of_one) => share(*of_one),
        Value::Number(value) => number(*value),
        Value::Course(course) => sparkline(course, SPARKS),
        Value::Both(unit, first, second) => {
            let side = |value: &Option<f64>| value.map_or("–".to_owned(), |value| in_unit(*unit, value));
            format!("{} → {}", side(first), side(second))
        }
        Value::Change(unit, first, second) => change(*unit, *first, *second),
    }
}

fn in_unit(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Time => time(value as i64),
        Unit::Count => count(value as i64),
        Unit::Number => number(value),
    }
}

/// `+1.20 ms (+30.0 %)`, `new`, `gone`.
fn change(unit: Unit, first: Option<f64>, second: Option<f64>) -> String {
    let (first, second) = match (first, second) {
        (Some(first), Some(second)) => (first, second),
        (None, Some(_)) => return "new".to_owned(),
        (Some(_), None) => return "gone".to_owned(),
        (None, None) => return String::new(),
    };
    let by = second - first;
    let sign = |by: f64| if by > 0.0 { "+" } else { "" };
    if by == 0.0 {
        return "none".to_owned();
    }
    let ratio = by / first.abs();
    let ratio = match ratio.is_finite() && ratio.abs() < 100.0 {
        true => format!(" ({}{})", sign(by), signed_share(ratio)),
        false => String::new(),
    };
    format!("{}{}{ratio}", sign(by), in_unit(unit, by))
}

fn signed_share(ratio: f64) -> String {
    let text = share(ratio.abs());
    if ratio < 0.0 { format!("-{text}") } else { text }
}

/// Letters of a course.
const SPARKS: usize = 24;

/// A course in letters of different heights, from its lowest value to its highest.
pub(super) fn sparkline(course: &[f64], letters: usize) -> String {
    let lowest = course.iter().copied().fold(f64::INFINITY, f64::min);
    above(lowest, course, letters)
}

/// Numbers of things in letters as high as there are many, from none on.
pub(super) fn histogram(numbers: &[f64]) -> String {
    above(0.0, numbers, numbers.len())
}

fn above(lowest: f64, course: &[f64], letters: usize) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if course.is_empty() {
        return String::new();
    }
    let range = course.iter().copied().fold(f64::NEG_INFINITY, f64::max) - lowest;
    let letters = letters.min(course.len());
    let of_letter = |at: usize| {
        let part =
            course.get(at * course.len() / letters..(at + 1) * course.len() / letters).unwrap_or_default();
        let mean = part.iter().sum::<f64>() / part.len().max(1) as f64;
        let height = if range > 0.0 { (mean - lowest) / range * 7.99 } else { 0.0 };
        HEIGHTS.get(height as usize).copied().unwrap_or('█')
    };
    (0..letters).map(of_letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_said_with_their_size() {
        let of = |first, second| words(&Value::Change(Unit::Time, first, second));
        assert_eq!(of(Some(1e6), Some(1.5e6)), "+500 µs (+50.0 %)");
        assert_eq!(of(Some(2e6), Some(1e6)), "-1.00 ms (-50.0 %)");
        assert_eq!(
            [of(None, Some(1.0)), of(Some(1.0), None), of(Some(1.0), Some(1.0))],
            ["new", "gone", "none"]
        );
        assert_eq!(of(Some(0.0), Some(5.0)), "+5 ns");
        assert_eq!(words(&Value::Both(Unit::Count, Some(1.0), None)), "1 → –");
    }

    #[test]
    fn courses_are_letters() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[5.0, 5.0, 5.0, 5.0], 2), "▁▁");
        assert_eq!(sparkline(&[], 8), "");
        assert_eq!(histogram(&[4.0, 8.0]), "▄█");
    }
}
