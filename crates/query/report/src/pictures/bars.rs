//! How many there are of each kind: a histogram.

use std::fmt::Write as _;

use super::WIDTH;
use crate::names::escaped;
use crate::units::count;

/// What is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) bars: Vec<(String, i64)>,
}

const HEIGHT: f64 = 130.0;
const ABOVE: f64 = 16.0;
const BELOW: f64 = 20.0;
/// Wider ones look like walls.
const MAX_BAR: f64 = 80.0;

pub(super) fn draw(bars: &Bars) -> String {
    let mut out = format!(
        "<svg class=\"wide\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
        HEIGHT + ABOVE + BELOW,
        escaped(&bars.title)
    );
    let most = bars.bars.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1) as f64;
    let width = (WIDTH / bars.bars.len().max(1) as f64).min(MAX_BAR);
    for (at, (label, n)) in bars.bars.iter().enumerate() {
        let x = at as f64 * width;
        // What there is is seen.
        let height = if *n > 0 { (*n as f64 / most * HEIGHT).max(1.0) } else { 0.0 };
        let y = ABOVE + HEIGHT - height;
        let middle = x + width / 2.0;
        let begin = label
            .split(" to ")
            .next()
            .unwrap_or(label)
            .trim_start_matches("less than ")
            .trim_end_matches(" or more");
        let sign = if label.starts_with("less") { "<" } else { "" };
        let _ = write!(
            out,
            "<g><title>{label}: {n}</title><rect class=\"bar\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>\
             <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{n}</text>\
             <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{begin}</text></g>",
            x + 1.0,
            width - 2.0,
            y - 4.0,
            ABOVE + HEIGHT + BELOW - 5.0,
            label = escaped(label),
            n = count(*n),
            begin = escaped(&format!("{sign}{begin}")),
        );
    }
    let _ = write!(out, "<path class=\"axis\" d=\"M0 {y}H{WIDTH}\"/></svg>", y = ABOVE + HEIGHT);
    out
}
