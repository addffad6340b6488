//! The lines at the end of `ferretto profile`.

use std::fmt::Write as _;

use ferretto_printable::printable;
use ferretto_profile::Summary;

use crate::units::counted;

/// Threads that are listed.
const THREADS: usize = 5;
/// Characters of a function's name.
const NAME_CHARS: usize = 100;

/// What was sampled, in words; each line ends.
pub(crate) fn render(summary: &Summary, functions: usize) -> String {
    let samples = counted(summary.samples, "sample", "samples");
    let mut text = format!("\nProfile: {samples}, {}.\n", summary.sampled);
    text.push_str(&doubts(summary));
    if summary.samples == 0 {
        text.push_str("There was nothing to sample: less of a processor was used than the time between two, or no such event happened.\n");
        return text;
    }
    let share = |count: u64| format!("{:5.1} %", 100.0 * count as f64 / summary.samples as f64);
    let _ = writeln!(text, "\n   self    total  function");
    for (name, counts) in summary.hottest(|counts| counts.own, functions) {
        let _ = writeln!(text, "{}  {}  {}", share(counts.own), share(counts.total), shown(name));
    }
    let _ = writeln!(text, "\n  total     self  with all that it calls");
    for (name, counts) in summary.hottest(|counts| counts.total, functions) {
        let _ = writeln!(text, "{}  {}  {}", share(counts.total), share(counts.own), shown(name));
    }
    let _ = writeln!(text, "\n  share  thread");
    for (name, samples, threads) in summary.busiest_threads(THREADS) {
        let several = if threads > 1 { format!(" ({threads} of that name)") } else { String::new() };
        let _ = writeln!(text, "{}  {}{several}", share(samples), shown(name));
    }
    text
}

/// What may be missing.
fn doubts(summary: &Summary) -> String {
    let mut text = String::new();
    if summary.incomplete > 0 {
        let share = 100.0 * summary.incomplete as f64 / summary.samples.max(1) as f64;
        let copied = summary.stack_bytes / 1000;
        let _ = writeln!(
            text,
            "Of {share:.1} % the outer frames are missing: of a deep stack {copied} kB are there, and some code does not say how to go on."
        );
    }
    if !summary.with_kernel && summary.samples > 0 {
        text.push_str(
            "Time in the kernel is not in it: that needs root, or perf_event_paranoid of 1 or less.\n",
        );
    }
    text
}

fn shown(name: &str) -> String {
    let name = printable(name).to_string();
    match name.char_indices().nth(NAME_CHARS) {
        Some((at, _)) => format!("{}…", name.get(..at).unwrap_or_default()),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_come_first_and_what_is_missing_is_said() {
        let mut summary = Summary::default();
        summary.sampled = "999 a second of a processor's time".to_owned();
        summary.with_kernel = true;
        for _ in 0..3 {
            summary.count((1, 1), &["main", "hot"], true);
        }
        summary.count((1, 2), &["cold"], false);
        summary.name_thread(1, b"prog");
        let text = render(&summary, 2);
        for part in [
            "Profile: 4 samples, 999 a second",
            "Of 25.0 % the outer frames are missing",
            " 75.0 %   75.0 %  hot\n 25.0 %   25.0 %  cold\n",
            " 75.0 %  prog\n 25.0 %  ?\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(!text.contains("kernel is not"));
        assert!(render(&Summary::default(), 2).contains("less of a processor"));
    }
}
