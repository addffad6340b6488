//! Collapsed stacks: a line a stack, its frames joined by `;`, and its value; what flame graph programs take.

use std::io::Write;

use crate::stacks::Stacks;
use crate::{Error, Form, Format, Options, Out, Source};

/// Collapsed stacks.
pub const FORMAT: Format = Format {
    name: "collapsed",
    doc: "stacks a line each, for flame graph programs",
    extension: "collapsed",
    is_binary: false,
    form: Form::Trace(write),
};

fn write(source: &Source<'_>, options: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    let stacks = Stacks::new(source.tables, options.stacks_of)?;
    write_stacks(&stacks, out)?;
    Ok(())
}

/// Stacks that have something for themselves.
pub(crate) fn write_stacks(stacks: &Stacks, out: &mut dyn Write) -> std::io::Result<()> {
    for (index, node) in stacks.nodes.iter().enumerate().filter(|(_, node)| node.value > 0) {
        let frames: Vec<String> = stacks.path(index).into_iter().map(escaped).collect();
        writeln!(out, "{} {}", frames.join(";"), node.value)?;
    }
    Ok(())
}

/// The format has no escapes.
fn escaped(name: &str) -> String {
    name.replace(';', ":").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{small, written};

    #[test]
    fn slices_have_what_those_within_them_have_not() {
        let text = String::from_utf8(written(FORMAT, &small()).unwrap()).unwrap();
        assert_eq!(text, "app;main;outer 3000\napp;main;outer;inner 2000\napp;requests;request 500\n");
    }

    #[test]
    fn a_trace_without_any_is_refused() {
        let error = written(FORMAT, &Default::default()).unwrap_err();
        assert_eq!(error.to_string(), "there are no slices with an end in the trace to make stacks of");
    }
}
