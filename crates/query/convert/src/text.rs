//! The kernel's events as its own text (`trace` of tracefs, as `trace-cmd report` and systrace have it).
//!
//! A line an event: `COMM-PID ( TGID) [CPU] FLAGS SECONDS.MICROS: EVENT: ARGS`. The usual events have the kernel's own words
//! (`print_formats`), others their arguments as `name=value`.

use std::io::{self, Write};

use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{ArgSetId, Utid};

use crate::args::{Arg, args_of};
use crate::owners::{pid, tid};
use crate::{Error, Form, Format, Options, Out, Source, print_formats};

/// The kernel's own text.
pub const FORMAT: Format = Format {
    name: "text",
    doc: "the kernel's events as its own text, as trace-cmd report has it",
    extension: "txt",
    is_binary: false,
    form: Form::Trace(write),
};

const HEAD: &str = "# tracer: nop\n#\n#           TASK-PID     TGID   CPU#  ||||   TIMESTAMP  FUNCTION\n";

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
    out.write_all(HEAD.as_bytes())?;
    let events = &tables.ftrace_event;
    for row in 0..events.len() {
        let Some(name) = events.name.at(row) else { continue };
        write_task(tables, events.utid.get(row), out)?;
        let ts = events.ts.at(row);
        // The kernel rounds down to microseconds.
        write!(
            out,
            " [{:03}] {} {:5}.{:06}: ",
            events.ucpu.at(row).0 % CPUS_OF_A_MACHINE,
            flags(events.common_flags.at(row)),
            ts / 1_000_000_000,
            ts % 1_000_000_000 / 1000
        )?;
        write_event(tables, tables.strings.get(name), events.arg_set_id.get(row), out)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// `ucpu` is a machine's number times this, and that of the processor.
const CPUS_OF_A_MACHINE: u32 = 4096;

fn write_task(tables: &Tables, utid: Option<Utid>, out: &mut dyn Write) -> io::Result<()> {
    let Some(utid) = utid else { return write!(out, "{:>16}-{:<7} (-----)", "<...>", 0) };
    let tid = tid(tables, utid);
    let name = tables.thread.name.get(utid.index()).copied().flatten().map(|name| tables.strings.get(name));
    let name = match (tid, name) {
        (0, _) => "<idle>",
        (_, Some(name)) => name,
        (_, None) => "<...>",
    };
    write!(out, "{:>16}-{tid:<7} ", one_line(name))?;
    match tables.thread.upid.get(utid.index()) {
        Some(upid) if tid != 0 => write!(out, "({:>5})", pid(tables, upid)),
        _ => out.write_all(b"(-----)"),
    }
}

/// `irqs-off need-resched hard/soft-irq preempt-depth`; of them the trace has the kernel's flags.
fn flags(flags: u32) -> String {
    let irqs_off = if flags & 1 != 0 { 'd' } else { '.' };
    let need_resched = if flags & 4 != 0 { 'N' } else { '.' };
    let context = match (flags & 8 != 0, flags & 16 != 0) {
        (true, true) => 'H',
        (true, false) => 'h',
        (false, true) => 's',
        (false, false) => '.',
    };
    format!("{irqs_off}{need_resched}{context}.")
}

fn write_event(tables: &Tables, name: &str, set: Option<ArgSetId>, out: &mut dyn Write) -> io::Result<()> {
    let args: Vec<Arg<'_>> = set.map(|set| args_of(tables, set).collect()).unwrap_or_default();
    if name == "print" {
        let text =
            args.iter().find(|arg| arg.key == "buf").map(|arg| arg.value.to_text()).unwrap_or_default();
        return write!(out, "tracing_mark_write: {}", one_line(&text).trim_end());
    }
    let mut words = String::new();
    if print_formats::print(name, &args, &mut words) {
        return write!(out, "{name}: {}", one_line(&words));
    }
    write!(out, "{name}:")?;
    args.iter().try_for_each(|arg| write!(out, " {}={}", arg.key, one_line(&arg.value.to_text())))
}

/// What would begin another line is a blank.
fn one_line(text: &str) -> String {
    text.trim_end_matches('\n').replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::Ucpu;
    use ferretto_trace_tables::tables::{ArgRow, FtraceEventRow, ThreadRow};

    use super::*;
    use crate::testing::{small, written};

    #[test]
    fn events_have_the_kernels_words() {
        let mut tables = Tables::default();
        let strings = &mut tables.strings;
        let args = [
            ("prev_comm", None, "sh"),
            ("prev_pid", Some(7), ""),
            ("prev_prio", Some(120), ""),
            ("prev_state", Some(1), ""),
            ("next_comm", None, "swapper/1"),
            ("next_pid", Some(0), ""),
            ("next_prio", Some(120), ""),
        ];
        for (key, int_value, text) in args {
            let kind = if int_value.is_some() { "int" } else { "string" };
            let string_value = int_value.is_none().then(|| strings.intern(text));
            let (key, value_type) = (Some(strings.intern(key)), Some(strings.intern(kind)));
            tables.args.push(ArgRow { key, value_type, int_value, string_value, ..ArgRow::default() });
        }
        tables.thread.push(ThreadRow { tid: 7, name: Some(strings.intern("sh")), ..ThreadRow::default() });
        let event = FtraceEventRow {
            ts: 1_234_567_890,
            utid: Some(Utid(0)),
            common_flags: 1,
            ucpu: Ucpu(4097),
            ..FtraceEventRow::default()
        };
        let name = Some(strings.intern("sched_switch"));
        tables.ftrace_event.push(FtraceEventRow { name, arg_set_id: Some(ArgSetId(0)), ..event });
        let text = String::from_utf8(written(FORMAT, &tables).unwrap()).unwrap();
        assert_eq!(
            text.lines().last().unwrap(),
            "              sh-7       (-----) [001] d...     1.234567: sched_switch: prev_comm=sh prev_pid=7 prev_prio=120 \
             prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120"
        );
        assert!(text.starts_with("# tracer: nop\n"));
    }

    #[test]
    fn a_trace_without_events_of_the_kernel_is_refused() {
        assert!(written(FORMAT, &small()).unwrap_err().to_string().contains("no events of the kernel"));
    }
}
