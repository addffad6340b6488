//! An event as a line.

use std::fmt::{self, Write};

use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{ArgSetId, Upid, Utid};

use crate::args::{Arg, ArgValue, args_of};
use crate::formats;

/// What stands above the events, by which other programs know the text.
pub const HEAD: &str = "# tracer: nop\n#\n#           TASK-PID    TGID   CPU#  ||||   TIMESTAMP  FUNCTION\n";

/// `ucpu` is a machine's number times this, and that of the processor.
const CPUS_OF_A_MACHINE: u32 = 4096;
/// What the kernel calls a thread whose name it does not know.
const UNKNOWN: &str = "<unknown>";
/// The argument that says where memory may be taken from.
const GFP_FLAGS: &str = "gfp_flags";
/// What the kernel says if no flag is set.
const NO_GFP_FLAGS: &str = "GFP_NOWAIT";

/// Writes a row of `ftrace_event` without the end of the line. Whether there is such a row, and it has a name.
///
/// # Errors
///
/// Those of `out`.
pub fn write_event(tables: &Tables, row: usize, out: &mut impl Write) -> Result<bool, fmt::Error> {
    let events = &tables.ftrace_event;
    if row >= events.len() {
        return Ok(false);
    }
    let Some(name) = events.name.at(row) else { return Ok(false) };
    write_task(tables, events.utid.get(row), out)?;
    let ts = events.ts.at(row);
    // The kernel rounds down to microseconds.
    write!(
        out,
        " [{:03}] {} {}.{:06}: ",
        events.ucpu.at(row).0 % CPUS_OF_A_MACHINE,
        flags(events.common_flags.at(row)),
        ts / 1_000_000_000,
        ts % 1_000_000_000 / 1000
    )?;
    write_words(tables, tables.strings.get(name), events.arg_set_id.get(row), out)?;
    Ok(true)
}

fn write_task(tables: &Tables, utid: Option<Utid>, out: &mut impl Write) -> fmt::Result {
    let Some(utid) = utid else { return write!(out, "{UNKNOWN:>16}-{:<5} (-----)", 0) };
    let tid = tables.thread.tid.get(utid.index()).copied().unwrap_or(0);
    let name = tables.thread.name.get(utid.index()).copied().flatten().map(|name| tables.strings.get(name));
    let name = match (tid, name) {
        (0, _) => "<idle>",
        (_, Some(name)) if !name.is_empty() => name,
        _ => UNKNOWN,
    };
    write!(out, "{:>16}-{tid:<5} ", one_line(name))?;
    let pid = |upid: Upid| tables.process.pid.get(upid.index()).copied().unwrap_or(0);
    match tables.thread.upid.get(utid.index()).map(pid) {
        Some(pid) if tid != 0 && pid != 0 => write!(out, "({pid:>5})"),
        _ => out.write_str("(-----)"),
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

fn write_words(tables: &Tables, name: &str, set: Option<ArgSetId>, out: &mut impl Write) -> fmt::Result {
    let args: Vec<Arg<'_>> = set.map(|set| args_of(tables, set).collect()).unwrap_or_default();
    if name == "print" {
        let text =
            args.iter().find(|arg| arg.key == "buf").map(|arg| arg.value.to_text()).unwrap_or_default();
        return write!(out, "tracing_mark_write: {}", one_line(&text).trim_end());
    }
    let mut words = String::new();
    if formats::print(name, &args, &mut words) {
        return write!(out, "{name}: {}", one_line(&words));
    }
    write!(out, "{name}:")?;
    args.iter().try_for_each(|arg| match (arg.key, arg.value) {
        (GFP_FLAGS, ArgValue::Int(0) | ArgValue::Uint(0)) => write!(out, " {GFP_FLAGS}={NO_GFP_FLAGS}"),
        (key, value) => write!(out, " {key}={}", one_line(&value.to_text())),
    })
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

    /// An event of thread 7 with these arguments, as a line.
    fn line(comm: &str, name: &str, args: &[(&str, Result<i64, &str>)]) -> String {
        let mut tables = Tables::default();
        let strings = &mut tables.strings;
        for (key, value) in args {
            let kind = if value.is_ok() { "uint" } else { "string" };
            let row = ArgRow {
                key: Some(strings.intern(key)),
                value_type: Some(strings.intern(kind)),
                int_value: value.ok(),
                string_value: value.err().map(|text| strings.intern(text)),
                ..ArgRow::default()
            };
            tables.args.push(row);
        }
        let comm = (!comm.is_empty()).then(|| strings.intern(comm));
        tables.thread.push(ThreadRow { tid: 7, name: comm, ..ThreadRow::default() });
        let event = FtraceEventRow {
            ts: 1_234_567_890,
            utid: Some(Utid(0)),
            common_flags: 1,
            ucpu: Ucpu(4097),
            ..FtraceEventRow::default()
        };
        let name = Some(strings.intern(name));
        tables.ftrace_event.push(FtraceEventRow { name, arg_set_id: Some(ArgSetId(0)), ..event });
        let mut out = String::new();
        assert!(write_event(&tables, 0, &mut out).unwrap());
        assert!(!write_event(&tables, 1, &mut String::new()).unwrap());
        out
    }

    #[test]
    fn events_have_the_kernels_words() {
        let args = [
            ("prev_comm", Err("sh")),
            ("prev_pid", Ok(7)),
            ("prev_prio", Ok(120)),
            ("prev_state", Ok(1)),
            ("next_comm", Err("swapper/1")),
            ("next_pid", Ok(0)),
            ("next_prio", Ok(120)),
        ];
        assert_eq!(
            line("sh", "sched_switch", &args),
            "              sh-7     (-----) [001] d... 1.234567: sched_switch: prev_comm=sh prev_pid=7 prev_prio=120 \
             prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120"
        );
    }

    #[test]
    fn others_have_their_arguments() {
        assert_eq!(
            line("", "kmalloc", &[("bytes_req", Ok(16)), ("gfp_flags", Ok(0)), ("ptr", Ok(-32))]),
            "       <unknown>-7     (-----) [001] d... 1.234567: kmalloc: bytes_req=16 gfp_flags=GFP_NOWAIT ptr=18446744073709551584"
        );
    }
}
