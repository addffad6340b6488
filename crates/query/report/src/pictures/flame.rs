//! A flame graph in a page: the outermost frames at the top, and what they called below. `ferretto convert --to svg` makes one that zooms.

use std::fmt::Write as _;

use ferretto_convert::flame::{Bar, FlameGraph};
use ferretto_convert::stacks::Of;

use super::WIDTH;
use crate::names::{cut, escaped, printable};
use crate::units::{bytes, count, share, time};

/// Half a unit: narrower bars are not seen.
const NARROWEST: f64 = 0.5;
/// Bars of a picture, the widest: what a browser draws at once.
const MAX_BARS: usize = 4000;
/// Levels of a picture.
const MAX_DEPTH: usize = 60;
const BAR_HEIGHT: usize = 17;
/// How wide a letter is, about.
const LETTER_WIDTH: f64 = 6.6;

pub(super) fn draw(graph: &FlameGraph) -> String {
    let mut bars: Vec<&Bar> =
        graph.bars.iter().filter(|bar| bar.width * WIDTH >= NARROWEST && bar.depth < MAX_DEPTH).collect();
    bars.sort_by(|a, b| b.width.total_cmp(&a.width));
    bars.truncate(MAX_BARS);
    let depth = bars.iter().map(|bar| bar.depth + 1).max().unwrap_or(0);
    let mut out = format!(
        "<svg class=\"wide flame\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Flame graph\">",
        depth * BAR_HEIGHT
    );
    for bar in bars {
        draw_bar(bar, graph, &mut out);
    }
    out.push_str("</svg>");
    out
}

fn draw_bar(bar: &Bar, graph: &FlameGraph, out: &mut String) {
    let (x, width, y) = (bar.x * WIDTH, bar.width * WIDTH, bar.depth * BAR_HEIGHT);
    let value = match graph.of {
        Of::Heap => bytes(bar.value),
        Of::Slices => time(bar.value),
        Of::Samples | Of::Profile => count(bar.value),
    };
    let name = printable(&bar.name);
    let _ = write!(
        out,
        "<g><title>{}: {value}, {}</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{}\" fill=\"{}\"/>",
        escaped(&name),
        share(bar.value as f64 / graph.total.max(1) as f64),
        (width - 0.4).max(0.2),
        BAR_HEIGHT - 1,
        color(&bar.name),
    );
    let letters = ((width - 6.0).max(0.0) / LETTER_WIDTH) as usize;
    if letters >= 3 {
        let _ = write!(
            out,
            "<text x=\"{:.2}\" y=\"{}\">{}</text>",
            x + 3.0,
            y + 12,
            escaped(&cut(&name, letters))
        );
    }
    out.push_str("</g>");
}

/// The same for the same name: warm ones, on which black is read.
fn color(name: &str) -> String {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("hsl({} {}% {}%)", 12 + hash % 44, 70 + hash / 50 % 20, 62 + hash / 7000 % 14)
}
