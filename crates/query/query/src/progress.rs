//! One line on a terminal when something takes long, and nothing elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// What is quicker shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the line changes.
const REFRESH: Duration = Duration::from_millis(250);

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    is_visible: bool,
    started: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    pub(crate) fn start(quiet: bool) -> Self {
        let is_visible = !quiet && std::io::stderr().is_terminal();
        Self { is_visible, started: Instant::now(), drawn: None }
    }

    /// Shows what `words` gives, if it is time to.
    pub(crate) fn show(&mut self, words: impl FnOnce() -> String) {
        let now = Instant::now();
        let is_time = match self.drawn {
            None => now.duration_since(self.started) >= PATIENCE,
            Some(drawn) => now.duration_since(drawn) >= REFRESH,
        };
        if self.is_visible && is_time {
            self.drawn = Some(now);
            draw(&words());
        }
    }
}

impl Drop for Progress {
    /// Removes the line.
    fn drop(&mut self) {
        if self.drawn.is_some() {
            draw("");
        }
    }
}

fn draw(words: &str) {
    let mut stderr = std::io::stderr();
    // A terminal that is gone is no reason to stop.
    let _ = write!(stderr, "\r\x1b[2K{words}").and_then(|()| stderr.flush());
}

/// `of` parts in hundred, or nothing if there is no whole.
pub(crate) fn percent(done: u64, all: u64) -> String {
    match all {
        0 => String::new(),
        all => format!(" {} %", u128::from(done.min(all)) * 100 / u128::from(all)),
    }
}

/// A size as people read it.
pub(crate) fn megabytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.2} MB", bytes as f64 / 1e6),
        _ => format!("{:.0} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([percent(1, 3), percent(7, 3), percent(1, 0)], [" 33 %", " 100 %", ""]);
        assert_eq!(
            [megabytes(999), megabytes(1_234_567), megabytes(12_345_678)],
            ["999 bytes", "1.23 MB", "12 MB"]
        );
    }
}
