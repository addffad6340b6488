//! The first line of a sample, as `perf script` prints it (upstream: perf_text_sample_line_parser.cc).
//!
//! What is printed can be chosen, so the line is searched for what looks like a time, and what is before it read from its end.

/// The first line of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The thread's name.
    pub name: String,
    /// The process, if it is said.
    pub pid: Option<i64>,
    /// The thread.
    pub tid: i64,
    /// When, in nanoseconds.
    pub ts: i64,
}

/// Colons of a line that are looked at. Ours: times come early; behind them a line may be anything.
const MAX_COLONS: usize = 64;

impl Head {
    /// Reads it, if it is one.
    #[must_use]
    pub fn read(line: &[u8]) -> Option<Self> {
        let colons = line.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
        colons.take(MAX_COLONS).find_map(|colon| Self::before(line.get(..colon)?))
    }

    fn before(line: &[u8]) -> Option<Self> {
        let (before, time) = time_at_end(line)?;
        // Seconds as upstream reads them, through a floating-point number.
        let seconds: f64 = std::str::from_utf8(time).ok()?.parse().ok()?;
        let ts = (seconds * 1000.0 * 1000.0 * 1000.0) as i64;
        let before = String::from_utf8_lossy(before);
        let mut words: Vec<&str> = before.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
        let mut last = words.pop()?;
        if let Some(cpu) = last.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            cpu.parse::<u32>().ok()?;
            last = words.pop()?;
        }
        let numbers: Vec<&str> = last.split('/').filter(|number| !number.is_empty()).collect();
        let number = |text: &str| text.parse::<u32>().ok().map(i64::from);
        let (pid, tid) = match numbers.as_slice() {
            [tid] => (None, number(tid)?),
            [pid, tid] => (Some(number(pid)?), number(tid)?),
            _ => return None,
        };
        Some(Self { name: words.join(" "), pid, tid, ts })
    }
}

/// `SECONDS.MICROSECONDS` behind a blank, and what is before it.
fn time_at_end(line: &[u8]) -> Option<(&[u8], &[u8])> {
    const FRACTION: usize = 6;
    let dot = line.len().checked_sub(FRACTION + 1)?;
    let (whole, fraction) = line.split_at_checked(dot)?;
    let is_fraction = fraction.first() == Some(&b'.') && fraction.iter().skip(1).all(u8::is_ascii_digit);
    let blank = whole.iter().rposition(|byte| *byte == b' ')?;
    let is_whole = whole.iter().skip(blank + 1).all(u8::is_ascii_digit);
    (is_fraction && is_whole && line.len() > FRACTION + 1).then(|| line.split_at(blank + 1))
}

/// Whether the first line of a file is one of a sample.
#[must_use]
pub fn is_perf_text(head: &[u8]) -> bool {
    let end = head.iter().position(|byte| *byte == b'\n');
    end.and_then(|end| head.get(..end)).is_some_and(|line| Head::read(line).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_of_samples() {
        let head = |name: &str, pid, tid, ts| Some(Head { name: name.to_owned(), pid, tid, ts });
        for (line, expected) in [
            ("prog 31 303057.417513:          1 cycles:P: ", head("prog", None, 31, 303_057_417_513_000)),
            ("a b c  30/31 [002] 1.000001: cycles:", head("a b c", Some(30), 31, 1_000_000_999)),
            ("\tx\t7 2.500000: 1 cpu-clock:", head("x", None, 7, 2_500_000_000)),
            ("std::io 5 1.500000:", head("std::io", None, 5, 1_500_000_000)),
            ("[000] 1.000000:", None),
            ("prog x 1.000000:", None),
            ("prog 31 1.00000:", None),
            ("prog 31 1.000000", None),
            ("", None),
        ] {
            assert_eq!(Head::read(line.as_bytes()), expected, "{line}");
        }
    }
}
