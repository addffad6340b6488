//! CPUs in use over time: areas on each other, one of each process.

use std::fmt::Write as _;

use super::{WIDTH, color, ticks};
use crate::names::{cut, escaped};
use crate::units::time;

/// What is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Areas {
    pub(crate) title: String,
    pub(crate) span_ns: i64,
    pub(crate) bin_ns: f64,
    pub(crate) cpus: i64,
    /// Names, and nanoseconds in equal parts of the time; the first lies below all others.
    pub(crate) series: Vec<(String, Vec<f64>)>,
}

const HEIGHT: f64 = 220.0;
const LEFT: f64 = 30.0;
const BOTTOM: f64 = 20.0;

pub(super) fn draw(areas: &Areas) -> String {
    let mut out = format!(
        "<svg class=\"wide\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
        HEIGHT + BOTTOM + 6.0,
        escaped(&areas.title)
    );
    axes(areas, &mut out);
    let bins = areas.series.iter().map(|(_, bins)| bins.len()).max().unwrap_or(0);
    let mut below = vec![0.0; bins];
    for (at, (name, ran)) in areas.series.iter().enumerate() {
        let above: Vec<f64> =
            below.iter().zip(ran).map(|(below, ran)| below + ran / areas.bin_ns.max(1.0)).collect();
        let total: f64 = ran.iter().sum();
        let _ = write!(
            out,
            "<path fill=\"{}\" d=\"{}\"><title>{}: {}</title></path>",
            color(at, areas.series.len()),
            outline(areas, &below, &above),
            escaped(name),
            time(total as i64)
        );
        below = above;
    }
    out.push_str("</svg>");
    legend(areas, &mut out);
    out
}

fn y(areas: &Areas, cpus: f64) -> f64 {
    4.0 + HEIGHT * (1.0 - cpus / areas.cpus.max(1) as f64)
}

fn x(bin: usize, bins: usize) -> f64 {
    LEFT + (WIDTH - LEFT) * bin as f64 / bins.max(1) as f64
}

/// In steps: within a part nobody knows.
fn outline(areas: &Areas, below: &[f64], above: &[f64]) -> String {
    let bins = above.len();
    let mut path = String::new();
    for (bin, value) in above.iter().enumerate() {
        let letter = if bin == 0 { 'M' } else { 'L' };
        let y = y(areas, *value);
        let _ = write!(path, "{letter}{:.1} {y:.1}H{:.1}", x(bin, bins), x(bin + 1, bins));
    }
    for (bin, value) in below.iter().enumerate().rev() {
        let y = y(areas, *value);
        let _ = write!(path, "V{y:.1}H{:.1}", x(bin, bins));
    }
    path.push('Z');
    path
}

fn axes(areas: &Areas, out: &mut String) {
    let cpus = areas.cpus.max(1);
    let step = (cpus / 4).max(1);
    for at in (0..=cpus).step_by(usize::try_from(step).unwrap_or(1)) {
        let y = y(areas, at as f64);
        let _ = write!(
            out,
            "<path class=\"rule\" d=\"M{LEFT} {y:.1}H{WIDTH}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{at}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    for tick in ticks(areas.span_ns) {
        let x = LEFT + (WIDTH - LEFT) * tick as f64 / areas.span_ns.max(1) as f64;
        let anchor = if x > WIDTH - 20.0 { "end" } else { "middle" };
        let label = if tick == 0 { "0 s".to_owned() } else { time(tick) };
        let _ = write!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
            HEIGHT + BOTTOM
        );
    }
}

fn legend(areas: &Areas, out: &mut String) {
    out.push_str("<p class=\"legend\">");
    for (at, (name, _)) in areas.series.iter().enumerate() {
        let color = color(at, areas.series.len());
        let _ = write!(out, "<span><i style=\"background:{color}\"></i>{}</span> ", escaped(&cut(name, 40)));
    }
    out.push_str("</p>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_stand_on_each_other_and_names_are_escaped() {
        let series = vec![("<b>".to_owned(), vec![5.0, 10.0]), ("b".to_owned(), vec![5.0, 0.0])];
        let areas = Areas { title: "t".to_owned(), span_ns: 20, bin_ns: 10.0, cpus: 1, series };
        let svg = draw(&areas);
        assert!(svg.contains("<title>&lt;b&gt;: 15 ns</title>") && !svg.contains("<b>"), "{svg}");
        // The first is half of a CPU, then all of it; the second fills the first half.
        assert!(svg.contains("d=\"M30.0 114.0H515.0L515.0 4.0H1000.0V224.0H515.0V224.0H30.0Z\""), "{svg}");
        assert!(svg.contains("d=\"M30.0 4.0H515.0L515.0 4.0H1000.0V4.0H515.0V114.0H30.0Z\""), "{svg}");
    }
}
