//! The programs' own log, on the standard error: one line an event, whatever is in it, and no flood of them.
//!
//! Lines tell of clients, who choose their names and how often there is something to tell: names cannot end a line or steer a terminal,
//! and beyond some lines a second the log only counts. Nor does anybody wait for whoever should read it.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ferretto_ipc::address::environment;
use ferretto_printable::is_unseen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Bytes of a line: longer ones are cut.
const MAX_LINE_BYTES: usize = 2048;

/// Lines that may come at once, and those a second after that. A machine that is well writes a few a minute.
const BURST_LINES: f64 = 200.0;
const LINES_PER_SECOND: f64 = 20.0;

/// Shows what is at least as important as `default`. `FERRETTO_LOG=debug`, or a filter such as `ferretto_service=trace`, shows more, and
/// all of it that is read.
pub(crate) fn to_stderr(default: &str) {
    let asked = environment("FERRETTO_LOG").map(|filter| filter.to_string_lossy().into_owned());
    // A level or targets with levels: no patterns, whose engine would be a quarter of the binary.
    let filter = asked.as_deref().unwrap_or(default).parse::<Targets>().unwrap_or_else(|error| {
        eprintln!("FERRETTO_LOG is not understood ({error}); expected a level or target=level,…");
        Targets::new().with_default(LevelFilter::WARN)
    });
    let allowance = Allowance { is_bounded: asked.is_none(), ..Allowance::new(Instant::now()) };
    let log = Log { allowance: Mutex::new(allowance) };
    let layer = tracing_subscriber::fmt::layer().with_writer(log).with_ansi(false);
    // A second call keeps the first log.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}

/// Where lines go.
struct Log {
    allowance: Mutex<Allowance>,
}

/// How many lines may come now.
#[derive(Debug)]
struct Allowance {
    lines: f64,
    /// Not where somebody has asked for all of them.
    is_bounded: bool,
    last: Instant,
    left_out: u64,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { lines: BURST_LINES, is_bounded: true, last: now, left_out: 0 }
    }

    /// Takes one line, if it can be written now, and says how many were left out before it; or counts it among those.
    fn take(&mut self, now: Instant, can_write: impl FnOnce() -> bool) -> Option<u64> {
        let seconds = now.saturating_duration_since(self.last).as_secs_f64();
        self.lines = BURST_LINES.min(self.lines + seconds * LINES_PER_SECOND);
        self.last = now;
        // After a flood a few at a time, so that not each line comes with a word about others.
        let enough = if self.left_out == 0 { 1.0 } else { LINES_PER_SECOND };
        if self.is_bounded && self.lines < enough || !can_write() {
            self.left_out += 1;
            return None;
        }
        self.lines = (self.lines - 1.0).max(0.0);
        Some(std::mem::take(&mut self.left_out))
    }
}

/// The writer of one event, which comes in one piece.
struct Line<'a>(&'a Log);

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut lines = Vec::new();
        // Until it is written: the room that there is now is for one.
        let mut allowance = self.0.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        match allowance.take(Instant::now(), || takes_a_line(io::stderr())) {
            Some(0) => {}
            Some(left_out) => {
                writeln!(lines, "{left_out} lines were left out: there were too many, or nobody took them")?
            }
            None => return Ok(event.len()),
        }
        push_line(&mut lines, event);
        io::stderr().lock().write_all(&lines)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether writing a line or two does not wait: a pipe that can be written to at all has room for a page.
fn takes_a_line(to: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&to, PollFlags::OUT)];
    let now = Timespec::default();
    matches!(poll(&mut fds, Some(&now)), Ok(1..)) && fds[0].revents().contains(PollFlags::OUT)
}

/// Adds what an event says as one line.
fn push_line(lines: &mut Vec<u8>, event: &[u8]) {
    let text = String::from_utf8_lossy(event.strip_suffix(b"\n").unwrap_or(event));
    let start = lines.len();
    for character in text.chars() {
        if lines.len() - start > MAX_LINE_BYTES {
            lines.extend_from_slice("…".as_bytes());
            break;
        }
        match is_unseen(character) {
            true => lines.extend(character.escape_default().map(|escaped| escaped as u8)),
            false => lines.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn line(event: &str) -> String {
        let mut lines = Vec::new();
        push_line(&mut lines, event.as_bytes());
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn an_event_is_one_line_of_what_can_be_seen() {
        assert_eq!(line("a producer: größe\n"), "a producer: größe\n");
        assert_eq!(line("x\n2026 ERROR all is lost\n"), "x\\n2026 ERROR all is lost\n");
        assert_eq!(line("\x1b[2Jx\t\u{202e}y\0"), "\\u{1b}[2Jx\\t\\u{202e}y\\u{0}\n");
        let long = line(&"é".repeat(5000));
        assert!(long.len() < MAX_LINE_BYTES + 16 && long.ends_with("é…\n"), "{}", long.len());
    }

    #[test]
    fn a_flood_is_counted_and_said_when_it_is_over() {
        let mut now = Instant::now();
        let mut allowance = Allowance::new(now);
        let shown = (0..10_000).filter(|_| allowance.take(now, || true).is_some()).count();
        assert_eq!(shown, 200);
        now += Duration::from_millis(500);
        assert_eq!(allowance.take(now, || true), None, "not for a line or two");
        now += Duration::from_secs(1);
        assert_eq!(allowance.take(now, || true), Some(9801));
        assert_eq!(allowance.take(now, || true), Some(0));
        now += Duration::from_secs(3600);
        assert_eq!((0..10_000).filter(|_| allowance.take(now, || true).is_some()).count(), 200);
    }

    #[test]
    fn who_asks_for_all_lines_gets_them() {
        let now = Instant::now();
        let mut allowance = Allowance { is_bounded: false, ..Allowance::new(now) };
        assert_eq!((0..10_000).filter(|_| allowance.take(now, || true) == Some(0)).count(), 10_000);
        assert_eq!(allowance.take(now, || false), None);
        assert_eq!(allowance.take(now, || true), Some(1));
    }

    #[test]
    fn nobody_waits_for_a_reader() {
        let (reader, mut writer) = io::pipe().unwrap();
        let line = [b'x'; MAX_LINE_BYTES];
        for is_bounded in [true, false] {
            let mut allowance = Allowance { is_bounded, ..Allowance::new(Instant::now()) };
            let mut written = 0;
            while allowance.take(Instant::now(), || takes_a_line(&writer)).is_some() {
                writer.write_all(&line).unwrap();
                written += 1;
            }
            assert!((10..200).contains(&written), "{written} lines of a full pipe");
            assert_eq!(allowance.left_out, 1);
            io::Read::read_exact(&mut &reader, &mut vec![0; written * line.len()]).unwrap();
        }
    }
}
