//! A value over time.

use std::fmt::Write as _;

use super::ticks;
use crate::names::{cut, escaped};
use crate::units::time;

/// What is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// Its lowest and its highest value in words.
    pub(crate) lowest: String,
    pub(crate) highest: String,
    pub(crate) span_ns: i64,
    /// In equal parts of the time.
    pub(crate) course: Vec<f64>,
}

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 90.0;
const HEAD: f64 = 20.0;

pub(super) fn draw(chart: &Chart) -> String {
    let (title, below) = (escaped(&cut(&chart.title, 46)), HEAD + HEIGHT);
    let mut out = format!(
        "<svg class=\"half\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\
         <text class=\"title\" x=\"0\" y=\"12\">{title}</text>\
         <text x=\"{WIDTH}\" y=\"12\" text-anchor=\"end\">{} to {}</text>\
         <path class=\"rule\" d=\"M0 {HEAD}H{WIDTH}\"/><path class=\"axis\" d=\"M0 {below}H{WIDTH}\"/>",
        escaped(&chart.lowest),
        escaped(&chart.highest),
        height = below + 20.0,
    );
    let line = line(&chart.course);
    let _ = write!(out, "<path class=\"under\" d=\"{line}V{below}H0Z\"/><path class=\"line\" d=\"{line}\"/>");
    for tick in ticks(chart.span_ns).into_iter().step_by(2) {
        let x = WIDTH * tick as f64 / chart.span_ns.max(1) as f64;
        let anchor = if x < 20.0 {
            "start"
        } else if x > WIDTH - 20.0 {
            "end"
        } else {
            "middle"
        };
        let label = if tick == 0 { "0 s".to_owned() } else { time(tick) };
        let _ = write!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
            below + 15.0
        );
    }
    out.push_str("</svg>");
    out
}

/// From the lowest to the highest; what does not change lies in the middle.
fn line(course: &[f64]) -> String {
    let lowest = course.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = course.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = highest - lowest;
    let mut path = String::new();
    for (at, value) in course.iter().enumerate() {
        let part = if range > 0.0 { (value - lowest) / range } else { 0.5 };
        let y = HEAD + 4.0 + (HEIGHT - 6.0) * (1.0 - part);
        let (from, to) = (at as f64, (at + 1) as f64);
        let unit = WIDTH / course.len().max(1) as f64;
        let letter = if at == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{:.1} {y:.1}H{:.1}", from * unit, to * unit);
    }
    path
}
