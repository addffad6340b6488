//! Pictures, each drawn as SVG that stands in a page: texts and lines have the page's colours, so that they are seen in the light and in the dark.

mod areas;
mod bars;
mod chart;
mod flame;

use ferretto_convert::flame::FlameGraph;

pub(crate) use self::areas::Areas;
pub(crate) use self::bars::Bars;
pub(crate) use self::chart::Chart;

/// Units of all pictures' widths; a page makes them as wide as it is.
const WIDTH: f64 = 1000.0;

/// A picture that is still to be drawn.
#[derive(Clone, Debug)]
pub(crate) enum Picture {
    /// Parts of a whole over time.
    Areas(Areas),
    /// How many there are of each kind.
    Bars(Bars),
    /// A value over time.
    Chart(Chart),
    /// Stacks and what they have cost.
    Flame(FlameGraph),
}

impl Picture {
    /// Its SVG. All texts in it are escaped.
    pub(crate) fn draw(&self) -> String {
        match self {
            Self::Areas(areas) => areas::draw(areas),
            Self::Bars(bars) => bars::draw(bars),
            Self::Chart(chart) => chart::draw(chart),
            Self::Flame(graph) => flame::draw(graph),
        }
    }
}

/// Colours that are told apart, in the light and in the dark; the last one is that of all others.
const COLORS: [&str; 10] = [
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#9c755f",
    "#8f9399",
];

fn color(at: usize, all: usize) -> &'static str {
    let [colors @ .., others] = &COLORS;
    if at + 1 == all && all > colors.len() { others } else { colors.get(at).unwrap_or(others) }
}

/// Moments for the axis of a time: four to eight round ones.
fn ticks(span_ns: i64) -> Vec<i64> {
    let span = span_ns.max(1);
    let mut step = 1i64;
    let mut factors = [2, 5, 10].iter().cycle();
    let mut power = 1i64;
    while span / step > 8 {
        let factor = *factors.next().unwrap_or(&10);
        step = power.saturating_mul(factor);
        if factor == 10 {
            power = power.saturating_mul(10);
        }
    }
    (0..=span / step).map(|at| at * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(1_000), [0, 200, 400, 600, 800, 1000]);
        assert_eq!(ticks(8), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert!((4..=9).contains(&ticks(7_654_321_000).len()));
        assert!(ticks(i64::MAX).len() <= 9);
    }
}
