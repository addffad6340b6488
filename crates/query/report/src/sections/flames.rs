//! The heaviest stacks, and their flame graphs.

use ferretto_convert::flame::FlameGraph;
use ferretto_convert::stacks::Of;

use crate::Options;
use crate::document::{Section, Table, Value};
use crate::facts::Facts;
use crate::names::printable;
use crate::pictures::Picture;

const ABSENT: &str = "no samples of call stacks and no profile of memory: record linux.perf or android.heapprofd with upstream's \
                      profilers, or report on a perf.data or a pprof";
/// Frames of a path that are shown: its innermost ones say where time went.
const MAX_FRAMES: usize = 12;

pub(super) fn all(facts: &Facts, options: &Options) -> Vec<Section> {
    let mut sections: Vec<_> = facts.flames.iter().map(|graph| section(graph, options)).collect();
    if !facts.flames.iter().any(|graph| graph.of != Of::Slices) {
        sections.push(Section::absent("samples", "Stacks", ABSENT));
    }
    sections
}

fn section(graph: &FlameGraph, options: &Options) -> Section {
    let (key, title) = match graph.of {
        Of::Samples => ("samples", "Heaviest stacks, by samples"),
        Of::Heap => ("heap", "Heaviest stacks, by memory that was not given back"),
        Of::Profile => ("profile", "Heaviest stacks of the profile"),
        Of::Slices => ("slice_stacks", "Heaviest stacks of slices, by self time"),
    };
    let columns = [("path", title), ("value", value_title(graph.of)), ("share", "share")];
    let mut heaviest: Vec<usize> = (0..graph.bars.len()).collect();
    let own = |bar: usize| graph.bars.get(bar).map_or(0, |bar| bar.own);
    heaviest.sort_by_key(|bar| std::cmp::Reverse(own(*bar)));
    heaviest.retain(|bar| own(*bar) > 0);
    let row = |bar: &usize| {
        let own = own(*bar);
        let value = match graph.of {
            Of::Heap => Value::Bytes(own),
            Of::Slices => Value::Time(own),
            Of::Samples | Of::Profile => Value::Count(own),
        };
        vec![Value::text(path(graph, *bar)), value, Value::Share(own as f64 / graph.total.max(1) as f64)]
    };
    let mut section = Section::of(key, title, Table::first(&columns, &heaviest, options.rows, row));
    if options.has_pictures {
        section.pictures.push(Picture::Flame(graph.clone()));
    }
    section
}

const fn value_title(of: Of) -> &'static str {
    match of {
        Of::Samples => "samples",
        Of::Heap => "bytes",
        Of::Profile => "value",
        Of::Slices => "self",
    }
}

/// The innermost first, with who called it behind: what is cut is the outermost.
fn path(graph: &FlameGraph, bar: usize) -> String {
    let path = graph.path(bar);
    let frames: Vec<_> = path.iter().rev().take(MAX_FRAMES).map(|frame| printable(frame)).collect();
    frames.join(" ← ")
}
