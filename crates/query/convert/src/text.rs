//! The kernel's events as its own text (`trace` of tracefs, as `trace-cmd report` and systrace have it).

use std::io::{self, Write};

use ferretto_trace_tables::tables::Tables;

use crate::{Error, Form, Format, Options, Out, Source};

/// The kernel's own text.
pub const FORMAT: Format = Format {
    name: "text",
    doc: "the kernel's events as its own text, as trace-cmd report has it",
    extension: "txt",
    is_binary: false,
    form: Form::Trace(write),
};

fn write(source: &Source<'_>, _: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    if source.tables.ftrace_event.is_empty() {
        return Err(Error::Nothing(
            "there are no events of the kernel in the trace, and this text has nothing else".to_owned(),
        ));
    }
    write_events(source.tables, out)?;
    Ok(())
}

/// All events, with the head that other programs know the text by.
pub(crate) fn write_events(tables: &Tables, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(ferretto_kernel_text::HEAD.as_bytes())?;
    let mut line = String::new();
    for row in 0..tables.ftrace_event.len() {
        line.clear();
        if ferretto_kernel_text::write_event(tables, row, &mut line).unwrap_or(false) {
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::tables::FtraceEventRow;

    use super::*;
    use crate::testing::{small, written};

    #[test]
    fn each_event_is_a_line_below_the_head() {
        let mut tables = Tables::default();
        let name = Some(tables.strings.intern("sched_waking"));
        tables.ftrace_event.push(FtraceEventRow { name, ..FtraceEventRow::default() });
        let text = String::from_utf8(written(FORMAT, &tables).unwrap()).unwrap();
        assert!(text.starts_with("# tracer: nop\n"));
        assert!(text.lines().last().unwrap().ends_with(" [000] .... 0.000000: sched_waking:"), "{text}");
    }

    #[test]
    fn a_trace_without_events_of_the_kernel_is_refused() {
        assert!(written(FORMAT, &small()).unwrap_err().to_string().contains("no events of the kernel"));
    }
}
