//! A flame graph as a picture: each stack a bar on that of who called it, as wide as what it has cost. A browser shows a bar's name and cost
//! when the pointer is on it, zooms into it by a click, and searches with Ctrl-F's own dialogue of the picture.
//!
//! What its bars are [`crate::flame`] says.

use crate::flame::{Bar, FlameGraph};
use crate::{Error, Form, Format, Options, Out, Source};

/// A flame graph.
pub const FORMAT: Format = Format {
    name: "svg",
    doc: "a flame graph, of samples or else of slices",
    extension: "svg",
    is_binary: false,
    form: Form::Trace(write),
};

const WIDTH: f64 = 1200.0;
const BAR_HEIGHT: usize = 16;
const HEAD_HEIGHT: usize = 40;
/// How wide a letter is, about.
const LETTER_WIDTH: f64 = 7.0;

/// Zoom: the bar that is clicked becomes as wide as the picture, and all others in proportion.
const SCRIPT: &str = "
const bars=[...document.querySelectorAll('g.bar')],W=1200;
function fit(x,w){for(const g of bars){const bx=+g.dataset.x,bw=+g.dataset.w,nx=(bx-x)*W/w,nw=bw*W/w,r=g.children[1],t=g.children[2];
 const on=bx+bw>x+1e-6&&bx<x+w-1e-6;g.style.display=on?'':'none';if(!on)continue;
 const l=Math.max(0,nx),e=Math.min(W,nx+nw);r.setAttribute('x',l);r.setAttribute('width',Math.max(0,e-l-.3));
 const n=Math.floor((e-l-6)/7),s=g.dataset.n;t.setAttribute('x',l+3);t.textContent=n<3?'':s.length<=n?s:s.slice(0,n-1)+'\\u2026';}}
for(const g of bars)g.onclick=()=>fit(+g.dataset.x,+g.dataset.w);
document.getElementById('reset').onclick=()=>fit(0,W);
document.getElementById('search').onclick=()=>{const q=prompt('Search for (a regular expression)');const re=q&&new RegExp(q);
 for(const g of bars)g.children[1].style.fill=re&&re.test(g.dataset.n)?'#c050e0':'';};
";

fn write(source: &Source<'_>, options: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    let graph = FlameGraph::of(source.tables, options.stacks_of)?;
    let height = HEAD_HEIGHT + (graph.depth + 1) * BAR_HEIGHT + BAR_HEIGHT;
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"12\">\n\
         <style>g.bar{{cursor:pointer}}g.bar:hover rect{{stroke:#000}}text{{pointer-events:none}}a,.button{{cursor:pointer;pointer-events:all}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"600\" y=\"18\" text-anchor=\"middle\" font-size=\"15\">{}: {} {}</text>\n\
         <text id=\"reset\" class=\"button\" x=\"6\" y=\"18\" fill=\"#666\">all</text>\n\
         <text id=\"search\" class=\"button\" x=\"1194\" y=\"18\" text-anchor=\"end\" fill=\"#666\">search</text>",
        graph.of.name(),
        graph.total,
        graph.of.unit(),
    )?;
    for bar in &graph.bars {
        write_bar(bar, &graph, height, out)?;
    }
    writeln!(out, "<script><![CDATA[{SCRIPT}]]></script>\n</svg>")?;
    Ok(())
}

fn write_bar(bar: &Bar, graph: &FlameGraph, height: usize, out: &mut Out<'_>) -> Result<(), Error> {
    let name = bar.name.as_str();
    let width = bar.width * WIDTH;
    let x = bar.x * WIDTH;
    let y = height - BAR_HEIGHT * (bar.depth + 2);
    let letters = ((width - 6.0) / LETTER_WIDTH) as usize;
    let label: String = match letters {
        0..3 => String::new(),
        _ if name.chars().count() <= letters => name.to_owned(),
        _ => name.chars().take(letters - 1).chain(['…']).collect(),
    };
    let percent = bar.value as f64 * 100.0 / graph.total.max(1) as f64;
    writeln!(
        out,
        "<g class=\"bar\" data-x=\"{x:.4}\" data-w=\"{w:.4}\" data-n=\"{name}\"><title>{name} ({value} {unit}, {percent:.2}%)</title>\
         <rect x=\"{x:.2}\" y=\"{y}\" width=\"{shown:.2}\" height=\"{h}\" rx=\"1\" fill=\"{color}\"/>\
         <text x=\"{tx:.2}\" y=\"{ty}\">{label}</text></g>",
        w = width,
        name = escaped(name),
        value = bar.value,
        unit = graph.of.unit(),
        shown = (width - 0.3).max(0.1),
        h = BAR_HEIGHT - 1,
        color = color(name),
        tx = x + 3.0,
        ty = y + 12,
        label = escaped(&label),
    )?;
    Ok(())
}

/// The same for the same name: warm ones.
fn color(name: &str) -> String {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("rgb({},{},{})", 205 + hash % 50, 90 + hash / 50 % 140, hash / 7000 % 60)
}

/// For XML. What it cannot hold is a blank.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{small, written};

    #[test]
    fn bars_are_as_wide_as_their_cost() {
        let text = String::from_utf8(written(FORMAT, &small()).unwrap()).unwrap();
        let bars: Vec<&str> = text.lines().filter(|line| line.starts_with("<g")).collect();
        assert_eq!(bars.len(), 6);
        let bar = |name: &str| bars.iter().find(|bar| bar.contains(&format!("data-n=\"{name}\""))).unwrap();
        assert!(bar("outer").contains("(5000 nanoseconds, 90.91%)"), "{}", bar("outer"));
        assert!(bar("app").contains("data-x=\"0.0000\" data-w=\"1200.0000\""));
    }

    #[test]
    fn names_do_not_leave_their_place() {
        assert_eq!(escaped("a<b>&\"\u{1}"), "a&lt;b&gt;&amp;&quot; ");
    }
}
