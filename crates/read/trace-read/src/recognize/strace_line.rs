//! A line of `strace` (upstream: plugins/strace).

const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_US: i64 = 1_000;
/// A run of more digits at a line's begin is its time, one of less a thread's number: seconds have 10 until the year 2286, and Linux's numbers
/// 7. Upstream's.
const MAX_TID_DIGITS: usize = 9;

/// A line, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The thread, if it is said.
    pub tid: Option<u32>,
    /// When, in nanoseconds since 1970.
    pub ts: i64,
    /// The call.
    pub call: &'a str,
    /// What it was called with.
    pub args: &'a str,
    /// What came of it, if it is over.
    pub result: Option<&'a str>,
    /// How much of the call it is.
    pub kind: Kind,
}

/// What a line says of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of it.
    Whole,
    /// Its begin.
    Unfinished,
    /// Its end.
    Resumed,
    /// It goes on, and is interrupted again.
    ResumedAndUnfinished,
}

/// Why a line is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLine {
    /// A signal, an end, or anything else.
    Other,
    /// Its time has no day.
    TimeOfDay,
}

/// Whether the first line of a file is such a line.
#[must_use]
pub fn is_strace(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    std::str::from_utf8(line).is_ok_and(|line| Line::read(line).is_ok())
}

impl<'a> Line<'a> {
    /// Takes a line apart.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn read(line: &'a str) -> Result<Self, NoLine> {
        let line = line.trim();
        // A signal, or the end of a process.
        if line.is_empty() || line.starts_with(['-', '+']) {
            return Err(NoLine::Other);
        }
        let (tid, line) = take_tid(line)?;
        let (time, line) = line.split_once(' ').ok_or(NoLine::Other)?;
        if time.contains(':') {
            return Err(NoLine::TimeOfDay);
        }
        let ts = time_of(time).ok_or(NoLine::Other)?;
        let line = line.trim();
        let (call, rest, is_resumed) = match line.strip_prefix("<... ") {
            Some(resumed) => {
                let (call, rest) = resumed.split_once(" resumed>").ok_or(NoLine::Other)?;
                (call, rest.trim(), true)
            }
            None => {
                let (call, rest) = line.split_once('(').ok_or(NoLine::Other)?;
                (call, rest, false)
            }
        };
        let line = Self { tid, ts, call, args: "", result: None, kind: Kind::Whole };
        if let Some((args, _)) = rest.split_once("<unfinished ...>") {
            let kind = if is_resumed { Kind::ResumedAndUnfinished } else { Kind::Unfinished };
            return Ok(Self { args: args.trim().trim_end_matches(','), kind, ..line });
        }
        let (args, result) = split_result(rest).ok_or(NoLine::Other)?;
        let kind = if is_resumed { Kind::Resumed } else { Kind::Whole };
        Ok(Self { args, result: Some(result), kind, ..line })
    }
}

fn take_tid(line: &str) -> Result<(Option<u32>, &str), NoLine> {
    let Some((first, rest)) = line.split_once(' ') else { return Ok((None, line)) };
    let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || first.len() > MAX_TID_DIGITS {
        return Ok((None, line));
    }
    Ok((Some(first.parse().map_err(|_| NoLine::Other)?), rest.trim()))
}

/// Seconds since 1970, and microseconds behind a point, however many digits these have.
fn time_of(text: &str) -> Option<i64> {
    let (seconds, micros) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = seconds.parse().ok().filter(|seconds| *seconds >= 0)?;
    let micros = match micros {
        "" => 0,
        micros => micros.parse().ok().filter(|micros| (0..1_000_000).contains(micros))?,
    };
    seconds.checked_mul(NS_PER_S)?.checked_add(micros * NS_PER_US)
}

/// Arguments and result, between which are `)`, blanks and `=`: the result may have brackets, too. What is resumed may have only the result.
fn split_result(rest: &str) -> Option<(&str, &str)> {
    for (at, _) in rest.match_indices(')') {
        let behind = rest.get(at + 1..)?.trim_start();
        if let Some(result) = behind.strip_prefix('=') {
            return Some((rest.get(..at)?.trim(), result.trim()));
        }
    }
    Some(("", rest.split_once('=')?.1.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let line = |text| {
            Line::read(text).map(|line| (line.tid, line.ts, line.call, line.args, line.result, line.kind))
        };
        assert_eq!(
            line("7 1.000002 open(\"a(b) = c\") = -1 ENOENT (No such file)"),
            Ok((
                Some(7),
                1_000_002_000,
                "open",
                "\"a(b",
                Some("c\") = -1 ENOENT (No such file)"),
                Kind::Whole
            )),
            "the first bracket before a `=` ends the arguments, as upstream has it",
        );
        assert_eq!(
            line("1700000000 close(2)        = 0"),
            Ok((None, 1_700_000_000 * NS_PER_S, "close", "2", Some("0"), Kind::Whole)),
        );
        assert_eq!(line("1 12:00:01 read(1) = 2"), Err(NoLine::TimeOfDay));
        for none in
            ["--- SIGCHLD ---", "+++ exited with 0 +++", "", "7 x read(", "7 1.5 read", "7 -1 a() = 0"]
        {
            assert_eq!(line(none), Err(NoLine::Other), "{none}");
        }
        for text in ["9223372036.9", "99999999999", "1.1000000", "1.-1"] {
            assert_eq!(time_of(text).is_some(), text == "9223372036.9", "{text}");
        }
    }
}
