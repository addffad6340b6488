//! What is seen while a recording runs: one line on a terminal, nothing elsewhere but the first and the last words.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::units::{bytes, count, duration};

/// How often the figures change: fast enough to look alive, slow enough to read.
pub(crate) const REFRESH: Duration = Duration::from_millis(250);
/// The span over which packets a second are averaged, in refreshes.
const RATE_SPAN: usize = 8;

/// The progress line.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
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
}

impl Progress {
    /// Starts the clock. `quiet`, or a stderr that is no terminal, shows nothing.
    pub(crate) fn start(total: Option<Duration>, quiet: bool) -> Self {
        let visible = !quiet && std::io::stderr().is_terminal();
        let bar = visible.then(|| bar(total));
        Self { bar, started: Instant::now(), total, rate: Rate::default() }
    }

    /// How long it has been going on.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn update(&mut self, figures: Figures) {
        let Some(bar) = &self.bar else { return };
        let elapsed = self.started.elapsed();
        self.rate.add(elapsed, figures.packets);
        bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        bar.set_message(line(elapsed, self.total, figures, self.rate.per_second()));
    }

    /// Shows what takes time after the recording itself.
    pub(crate) fn say(&self, words: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(words.to_owned());
        }
    }

    /// Removes the line.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: Option<Duration>) -> ProgressBar {
    let total_ms = total.map(|total| u64::try_from(total.as_millis()).unwrap_or(u64::MAX));
    let template = if total.is_some() { "{bar:24} {msg}" } else { "{spinner} {msg}" };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(total_ms, ProgressDrawTarget::stderr()).with_style(style)
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
        let figures = Figures { bytes: 1_500_000, packets: 0, losses: 0 };
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
