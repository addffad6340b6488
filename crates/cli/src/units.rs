//! Durations and sizes as people type and read them.
//!
//! Two readers of durations: `parse_time_ms` and `parse_size_kb` take exactly what upstream's light flags take
//! (upstream: src/perfetto_cmd/config.cc), `parse_duration` is for our own flags and also knows fractions.

use std::time::Duration;

/// Milliseconds of `10s`, `250ms`, `5m`, `1h`. Empty and `0` are zero; otherwise the unit is mandatory.
pub(crate) fn parse_time_ms(text: &str) -> Option<u64> {
    let (value, unit) = match text {
        "" | "0" => return Some(0),
        _ => split_value_and_unit(text)?,
    };
    let scale = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    value.checked_mul(scale)
}

/// Kibibytes of `32mb`, `4k`, `1g`. Both spellings are 1024-based; empty and `0` are zero.
pub(crate) fn parse_size_kb(text: &str) -> Option<u64> {
    let (value, unit) = match text {
        "" | "0" => return Some(0),
        _ => split_value_and_unit(text)?,
    };
    let scale = match unit {
        "kb" | "k" => 1,
        "mb" | "m" => 1 << 10,
        "gb" | "g" => 1 << 20,
        _ => return None,
    };
    value.checked_mul(scale)
}

fn split_value_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (value, unit) = text.split_at(digits);
    Some((value.parse().ok()?, unit))
}

/// The longest recording that the service accepts: seven days (upstream: tracing_service_impl.cc).
const MAX_DURATION: Duration = Duration::from_secs(7 * 24 * 3600);

/// A duration for `-t`: `5s`, `1.5s`, `250ms`, `2m`, `1h`; a bare number is seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let number_len = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, unit) = text.split_at(number_len);
    let scale = match unit.trim() {
        "ms" => 0.001,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("unknown unit '{other}'; use ms, s, m or h, as in 250ms, 5s, 2m")),
    };
    let value: f64 = number.parse().map_err(|_| "expected a number and a unit, as in 5s".to_owned())?;
    let seconds = value * scale;
    if seconds < 0.001 {
        return Err("the shortest recording is 1ms; leave -t out to record until Ctrl-C".to_owned());
    }
    if seconds > MAX_DURATION.as_secs_f64() {
        return Err("the longest recording is 7 days; leave -t out to record until Ctrl-C".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// `512 bytes`, `3.4 MB`, `1.2 GB`: decimal multiples, three significant digits, as disks and `ls --si` count.
pub(crate) fn bytes(count: u64) -> String {
    const STEPS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    for (step, unit) in STEPS {
        if count >= step {
            return scaled(count as f64 / step as f64, unit);
        }
    }
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}

/// Buffer sizes are powers of two: `64 MiB`, `512 KiB`.
pub(crate) fn kib(count: u64) -> String {
    match count {
        c if c >= 1 << 20 && c % (1 << 20) == 0 => format!("{} GiB", c >> 20),
        c if c >= 1 << 10 => format!("{} MiB", trim_zero(c as f64 / 1024.0)),
        c => format!("{c} KiB"),
    }
}

fn trim_zero(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn scaled(value: f64, unit: &str) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0} {unit}"),
        v if v >= 10.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    }
}

/// `123,456`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 thread`, `2,000 threads`.
pub(crate) fn counted(value: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", count(value), if value == 1 { singular } else { plural })
}

/// `250 ms`, `5.0 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn duration(value: Duration) -> String {
    let seconds = value.as_secs();
    match seconds {
        0 => format!("{} ms", value.as_millis()),
        1..=59 => format!("{:.1} s", value.as_secs_f64()),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// `12 ns`, `3.45 ms`, `5.00 s`, `3 min 20 s`: three significant digits.
pub(crate) fn nanoseconds(value: u64) -> String {
    const STEPS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    if value >= 60 * 1_000_000_000 {
        return duration(Duration::from_nanos(value));
    }
    let step = STEPS.iter().find(|(step, _)| value >= *step);
    step.map_or_else(|| format!("{value} ns"), |(step, unit)| scaled(value as f64 / *step as f64, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The cases of upstream's config_unittest.cc.
    #[test]
    fn light_times_are_read_as_upstream_reads_them() {
        let cases: [(&str, Option<u64>); 15] = [
            ("", Some(0)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("2ms", Some(2)),
            ("100s", Some(100_000)),
            ("2m", Some(120_000)),
            ("2h", Some(7_200_000)),
            ("2s ", None),
            ("2ly", None),
            ("2", None),
            ("s", None),
            ("-2s", None),
            ("1.5s", None),
            ("bad", None),
            ("99999999999999999999s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_time_ms(text), expected, "{text:?}");
        }
    }

    #[test]
    fn light_sizes_are_read_as_upstream_reads_them() {
        let cases: [(&str, Option<u64>); 13] = [
            ("", Some(0)),
            ("0", Some(0)),
            ("0k", Some(0)),
            ("2kb", Some(2)),
            ("2k", Some(2)),
            ("2mb", Some(2048)),
            ("2m", Some(2048)),
            ("2gb", Some(2 << 20)),
            ("2g", Some(2 << 20)),
            ("2mb ", None),
            ("2light-years", None),
            ("2", None),
            ("mb", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_size_kb(text), expected, "{text:?}");
        }
    }

    #[test]
    fn durations_of_our_own_flags() {
        for (text, ms) in
            [("5s", 5000), ("1.5s", 1500), ("250ms", 250), ("2m", 120_000), ("1h", 3_600_000), ("7", 7000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text:?}");
        }
        for text in ["", "s", "5 parsecs", "0s", "-1s", "1e3s", "8000h", "1.2.3s", "5x"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn figures_for_people() {
        assert_eq!(
            [bytes(0), bytes(1), bytes(999), bytes(1000)],
            ["0 bytes", "1 byte", "999 bytes", "1.00 kB"]
        );
        assert_eq!([bytes(12_345_678), bytes(987_654_321)], ["12.3 MB", "988 MB"]);
        assert_eq!(
            [kib(512), kib(1536), kib(65536), kib(1 << 20)],
            ["512 KiB", "1.5 MiB", "64 MiB", "1 GiB"]
        );
        assert_eq!([count(0), count(999), count(1000), count(1234567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([counted(1, "cat", "cats"), counted(2, "cat", "cats")], ["1 cat", "2 cats"]);
        let times = [12, 3_450_000, 5_000_000_000, 200_000_000_000].map(nanoseconds);
        assert_eq!(times, ["12 ns", "3.45 ms", "5.00 s", "3 min 20 s"]);
        let times = [0.25, 5.0, 200.0, 7500.0].map(|s| duration(Duration::from_secs_f64(s)));
        assert_eq!(times, ["250 ms", "5.0 s", "3 min 20 s", "2 h 5 min"]);
    }
}
