//! Figures as people read them: three digits and a unit.

/// `850 ns`, `12.3 µs`, `1.23 ms`, `5.00 s`, `3 min 20 s`.
pub(crate) fn time(ns: i64) -> String {
    const MINUTE: f64 = 60e9;
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs() as f64;
    let text = match ns {
        0.0..1e3 => format!("{ns} ns"),
        // Not what would be read as 1000.
        1e3..999.5e3 => three_digits(ns / 1e3, "µs"),
        999.5e3..999.5e6 => three_digits(ns / 1e6, "ms"),
        999.5e6..MINUTE => three_digits(ns / 1e9, "s"),
        _ => {
            let seconds = (ns / 1e9).round() as u64;
            match seconds {
                0..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
                _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
            }
        }
    };
    format!("{sign}{text}")
}

/// A moment: seconds from the begin, to the microsecond.
pub(crate) fn when(ns: i64) -> String {
    format!("{:.6} s", ns as f64 / 1e9)
}

/// `12.3 %`.
pub(crate) fn share(of_one: f64) -> String {
    let percent = of_one * 100.0;
    if percent >= 999.5 { format!("{percent:.0} %") } else { three_digits(percent, "%") }
}

/// `512 B`, `3.40 MB`.
pub(crate) fn bytes(count: i64) -> String {
    if count.unsigned_abs() < 1000 { format!("{count} B") } else { format!("{}B", number(count as f64)) }
}

/// `1,234,567`.
pub(crate) fn count(count: i64) -> String {
    let digits = count.unsigned_abs().to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if count < 0 { format!("-{out}") } else { out }
}

/// `12.3`, `4.56 M`: a number of which nothing is known.
pub(crate) fn number(value: f64) -> String {
    const STEPS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    if !value.is_finite() {
        return "–".to_owned();
    }
    match STEPS.iter().find(|(step, _)| value.abs() >= *step * 0.9995) {
        Some((step, unit)) => three_digits(value / step, unit),
        None if value == value.trunc() => format!("{value}"),
        None => three_digits(value, "").trim_end().to_owned(),
    }
}

fn three_digits(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        0.0..9.995 => 2,
        9.995..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let times =
            [850, 1_000, 12_345, 999_600, 1_234_567, 5_000_000_000, 200_000_000_000, 7_500_000_000_000];
        assert_eq!(
            times.map(time),
            ["850 ns", "1.00 µs", "12.3 µs", "1.00 ms", "1.23 ms", "5.00 s", "3 min 20 s", "2 h 5 min"]
        );
        assert_eq!(time(-1_500), "-1.50 µs");
        assert_eq!(
            [0.0, 0.0123, 0.5, 1.0, 12.0].map(share),
            ["0.00 %", "1.23 %", "50.0 %", "100 %", "1200 %"]
        );
        assert_eq!(
            [0, 999, 1_000, 1_234_567, -5_000].map(count),
            ["0", "999", "1,000", "1,234,567", "-5,000"]
        );
        assert_eq!([512, 3_400_000].map(bytes), ["512 B", "3.40 MB"]);
        assert_eq!(
            [0.0, 7.0, 0.25, 123.4, 999.9, 45_600.0].map(number),
            ["0", "7", "0.25", "123", "1.00 k", "45.6 k"]
        );
        assert_eq!(when(1_234_567_890), "1.234568 s");
    }
}
