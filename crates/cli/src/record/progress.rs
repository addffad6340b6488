//! What is seen while a recording runs: one line on a terminal, nothing elsewhere but the first and the last words.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use crate::units::{bytes, count, duration};

/// How often the figures change: fast enough to look alive, slow enough to read.
pub(crate) const REFRESH: Duration = Duration::from_millis(250);
/// Of a terminal that does not say how wide it is.
const DEFAULT_WIDTH: usize = 79;
/// The length of the bar.
const BAR_CHARS: usize = 24;
/// The span over which packets a second are averaged, in refreshes.
const RATE_SPAN: usize = 8;

/// The progress line. One line drawn anew needs no library, and the one that would do it keeps half a megabyte of mathematics in the
/// memory of every daemon that this binary becomes.
pub(crate) struct Progress {
    is_visible: bool,
    started: Instant,
    total: Option<Duration>,
    rate: Rate,
}

/// The figures of one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Bytes and events lost so far, for whatever cause.
    pub(crate) losses: u64,
    /// Of a flight recorder: bytes of events that it has, and may have.
    pub(crate) ring: Option<(u64, u64)>,
}

impl Progress {
    /// Starts the clock. `quiet`, or a stderr that is no terminal, shows nothing.
    pub(crate) fn start(total: Option<Duration>, quiet: bool) -> Self {
        let is_visible = !quiet && std::io::stderr().is_terminal();
        Self { is_visible, started: Instant::now(), total, rate: Rate::default() }
    }

    /// How long it has been going on.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn update(&mut self, figures: Figures) {
        if !self.is_visible {
            return;
        }
        let elapsed = self.started.elapsed();
        self.rate.add(elapsed, figures.packets);
        let line = line(elapsed, self.total, figures, self.rate.per_second());
        match self.total {
            Some(total) => self.draw(&format!("{} {line}", bar(elapsed, total))),
            None => self.draw(&line),
        }
    }

    /// Shows what takes time after the recording itself.
    pub(crate) fn say(&self, words: &str) {
        self.draw(words);
    }

    /// Removes the line.
    pub(crate) fn finish(&self) {
        self.draw("");
    }

    /// Puts `line`, as much of it as the terminal is wide, in the place of the last one.
    fn draw(&self, line: &str) {
        if !self.is_visible {
            return;
        }
        let mut stderr = std::io::stderr();
        let width = rustix::termios::tcgetwinsize(&stderr).map_or(0, |size| usize::from(size.ws_col));
        let shown: String = line.chars().take(if width > 1 { width - 1 } else { DEFAULT_WIDTH }).collect();
        // A terminal that is gone is no reason to stop recording.
        let _ = write!(stderr, "\r\x1b[2K{shown}").and_then(|()| stderr.flush());
    }
}

fn bar(elapsed: Duration, total: Duration) -> String {
    let part = (elapsed.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0);
    let full = (part * BAR_CHARS as f64) as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR_CHARS.saturating_sub(full)))
}

fn line(elapsed: Duration, total: Option<Duration>, figures: Figures, per_second: u64) -> String {
    let time = match total {
        Some(total) => format!("{} left", duration(total.saturating_sub(elapsed))),
        None => format!("{}, Ctrl-C ends it", duration(elapsed)),
    };
    let losses = match figures.losses {
        0 => "nothing lost".to_owned(),
        n => format!("{} lost", count(n)),
    };
    if let Some((held, size)) = figures.ring {
        return format!("{time} · {} of {} in memory · {losses}", bytes(held), bytes(size));
    }
    format!("{time} · {} · {} packets/s · {losses}", bytes(figures.bytes), count(per_second))
}

/// Packets a second over the last moments.
#[derive(Default)]
struct Rate {
    samples: std::collections::VecDeque<(Duration, u64)>,
}

impl Rate {
    fn add(&mut self, at: Duration, packets: u64) {
        self.samples.push_back((at, packets));
        if self.samples.len() > RATE_SPAN {
            self.samples.pop_front();
        }
    }

    fn per_second(&self) -> u64 {
        let (Some((from, before)), Some((to, after))) = (self.samples.front(), self.samples.back()) else {
            return 0;
        };
        let seconds = to.saturating_sub(*from).as_secs_f64();
        if seconds > 0.0 { (after.saturating_sub(*before) as f64 / seconds) as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_time_bytes_rate_and_losses() {
        let figures = Figures { bytes: 1_500_000, ..Figures::default() };
        let total = Some(Duration::from_secs(5));
        assert_eq!(
            line(Duration::from_secs(2), total, figures, 1234),
            "3.0 s left · 1.50 MB · 1,234 packets/s · nothing lost"
        );
        let figures = Figures { losses: 2, ..figures };
        assert_eq!(
            line(Duration::from_secs(90), None, figures, 0),
            "1 min 30 s, Ctrl-C ends it · 1.50 MB · 0 packets/s · 2 lost"
        );
    }

    #[test]
    fn a_flight_recorder_says_what_it_holds() {
        let figures = Figures { ring: Some((1_500_000, 67_108_864)), ..Figures::default() };
        assert_eq!(
            line(Duration::from_secs(90), None, figures, 0),
            "1 min 30 s, Ctrl-C ends it · 1.50 MB of 67.1 MB in memory · nothing lost"
        );
    }

    #[test]
    fn the_bar_fills_with_time() {
        let full = |ms| bar(Duration::from_millis(ms), Duration::from_secs(4)).matches('█').count();
        assert_eq!([full(0), full(1000), full(3999), full(4000), full(9000)], [0, 6, 23, 24, 24]);
        assert_eq!(bar(Duration::ZERO, Duration::ZERO).chars().count(), BAR_CHARS);
    }

    #[test]
    fn the_rate_is_that_of_the_last_moments() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), 0);
        for tick in 0..100 {
            rate.add(Duration::from_millis(tick * 250), tick * tick);
        }
        let expected = (99 * 99 - 92 * 92) as f64 / (7.0 * 0.25);
        assert_eq!(rate.per_second(), expected as u64);
    }
}
