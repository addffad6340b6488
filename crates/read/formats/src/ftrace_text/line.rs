//! A line of ftrace's text (upstream: systrace_line_tokenizer.cc).
//!
//! `COMM-PID [( TGID)] [CPU] [FLAGS] SECONDS.FRACTION: EVENT: ARGUMENTS`
//!
//! A thread's name may have anything in it, so the first dash counts behind which all else fits.

/// A line, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The thread's name.
    pub(super) comm: &'a [u8],
    /// The thread.
    pub(super) tid: u32,
    /// Its process, if the kernel knew it.
    pub(super) tgid: Option<u32>,
    /// The processor.
    pub(super) cpu: u32,
    /// In nanoseconds.
    pub(super) ts: i64,
    /// The event's name.
    pub(super) event: &'a [u8],
    /// Its arguments.
    pub(super) args: &'a [u8],
}

impl<'a> Line<'a> {
    /// Takes it apart, if it is one.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        // Nothing counts behind a zero byte.
        let line = line.split(|byte| *byte == 0).next()?;
        let dashes = line.iter().enumerate().filter(|(_, byte)| **byte == b'-').map(|(at, _)| at);
        dashes.into_iter().find_map(|dash| {
            let (comm, rest) = line.split_at_checked(dash)?;
            Self::behind(comm.trim_ascii(), rest.get(1..)?)
        })
    }

    fn behind(comm: &'a [u8], rest: &'a [u8]) -> Option<Self> {
        let (tid, rest) = digits(rest)?;
        let rest = blanks(rest)?;
        let rest = rest.strip_prefix(b"(").unwrap_or(rest).trim_ascii_start();
        let (tgid, rest) = match digits(rest) {
            Some((tgid, rest)) => (Some(tgid), rest),
            None => (None, rest.trim_prefix_of(b'-')),
        };
        let rest = rest.strip_prefix(b")").unwrap_or(rest);
        let rest =
            rest.split_first().filter(|(first, _)| first.is_ascii_whitespace()).map_or(rest, |it| it.1);
        let (cpu, rest) = digits(rest.strip_prefix(b"[")?)?;
        let rest = rest.strip_prefix(b"]")?.trim_ascii_start();
        let (time, rest) = without_flags(rest).into_iter().find_map(|rest| time(rest?))?;
        let rest = blanks(rest)?;
        let word = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let colon = rest.get(..word)?.iter().rposition(|byte| *byte == b':').filter(|colon| *colon > 0)?;
        Some(Self {
            comm,
            tid: number(tid)?,
            tgid: tgid.and_then(number),
            cpu: number(cpu)?,
            ts: nanoseconds(time)?,
            event: rest.get(..colon)?,
            args: rest.get(colon + 1..)?.trim_ascii(),
        })
    }
}

trait Bytes {
    /// Without all bytes of this kind at its beginning.
    fn trim_prefix_of(&self, byte: u8) -> &Self;
}

impl Bytes for [u8] {
    fn trim_prefix_of(&self, byte: u8) -> &Self {
        let end = self.iter().position(|it| *it != byte).unwrap_or(self.len());
        self.get(end..).unwrap_or_default()
    }
}

/// Digits, at least one, and what is behind them.
fn digits(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(digits, _)| !digits.is_empty())
}

/// What is behind blanks, at least one.
fn blanks(text: &[u8]) -> Option<&[u8]> {
    let rest = text.trim_ascii_start();
    (rest.len() < text.len()).then_some(rest)
}

/// Behind flags, of which there may be four or five, or without any.
fn without_flags(text: &[u8]) -> [Option<&[u8]>; 3] {
    let is_flag = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'.';
    let is_depth = |byte: &u8| matches!(*byte, b'0'..=b'9' | b'a'..=b'f' | b'.');
    let behind = |len: usize| {
        let (flags, rest) = text.split_at_checked(len)?;
        let (first, depths) = flags.split_at_checked(3)?;
        (first.iter().all(is_flag) && depths.iter().all(is_depth)).then(|| rest.trim_ascii_start())
    };
    [behind(5), behind(4), Some(text)]
}

/// `SECONDS.FRACTION:`, and what is behind it.
fn time(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (whole, rest) = digits(text)?;
    let (fraction, rest) = digits(rest.strip_prefix(b".")?)?;
    let time = text.get(..whole.len() + 1 + fraction.len())?;
    Some((time, rest.strip_prefix(b":")?))
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn nanoseconds(time: &[u8]) -> Option<i64> {
    let seconds: f64 = std::str::from_utf8(time).ok()?.parse().ok()?;
    Some((seconds * 1e9) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_kernel() {
        for (line, expected) in [
            ("  bash-77  (   76) [004] ....   1.5: a: b c ", Some(("bash", 77, Some(76), 4, "a", "b c"))),
            ("<idle>-0     [000] ...2     1.5: a: b", Some(("<idle>", 0, None, 0, "a", "b"))),
            ("<idle>-0     [000]  1.5: a: b", Some(("<idle>", 0, None, 0, "a", "b"))),
            ("a-1 (-----) [001] d..2.  1.5: a:", Some(("a", 1, None, 1, "a", ""))),
            ("a-1 9 [001] dNh3 1.5: 0: B|1|x", Some(("a", 1, Some(9), 1, "0", "B|1|x"))),
            ("kworker/1-3:0-12 [001] 1.5: a: b", Some(("kworker/1-3:0", 12, None, 1, "a", "b"))),
            ("x-1 [0] y-2 [001] 1.5: f:g:h i", Some(("x-1 [0] y", 2, None, 1, "f:g", "h i"))),
            ("-1 [001] 1.5: a: b", Some(("", 1, None, 1, "a", "b"))),
            ("a-1 [001] 15: a: b", None),
            ("a-1 [x] 1.5: a: b", None),
            ("a-1 [001] 1.5: a b", None),
            ("a-99999999999 [001] 1.5: a: b", None),
            ("a-1 9  [001] 1.5: a: b", None),
            ("", None),
            ("---", None),
        ] {
            let line = Line::read(line.as_bytes());
            let text = |bytes| std::str::from_utf8(bytes).unwrap();
            let found =
                line.map(|it| (text(it.comm), it.tid, it.tgid, it.cpu, text(it.event), text(it.args)));
            assert_eq!(found, expected, "{line:?}");
            assert!(line.is_none_or(|line| line.ts == 1_500_000_000));
        }
    }
}
