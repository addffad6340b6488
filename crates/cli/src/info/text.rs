//! What is known of a trace on one screen, of a hundred columns. What the trace does not say is left out.
//!
//! All texts are the trace's, and hostile: each goes through `printable`, and is cut.

use std::fmt::Write as _;

use ferretto_printable::printable;
use ferretto_protos::TraceStats;
use ferretto_protos::ftrace::KNOWN_EVENTS;
use ferretto_protos::text::descriptor_pool;
use ferretto_protos::trace_stats::BufferStats;
use ferretto_trace_info::Report;
use ferretto_trace_info::machine::Machine;
use ferretto_trace_info::names::Weight;
use ferretto_trace_info::report::{Ran, Row, Slice, Table, Who};
use ferretto_trace_read::container::Container;

use super::Told;
use crate::losses::listed;
use crate::record::output::date_time;
use crate::record::plan::{Buffer, Plan};
use crate::units::{bytes, count, counted, duration, kib, nanoseconds};

/// The widest line.
const WIDTH: usize = 100;
/// What stands before the facts.
const LABEL: usize = 10;
/// A name in a table.
const NAME: usize = 50;

/// All of it, with so many rows of each table; ends in a newline.
pub(super) fn render(told: &Told, rows: usize) -> String {
    let mut out = String::new();
    headline(&mut out, told);
    fact(&mut out, "Recorded", &recorded(&told.report));
    let machines = &told.report.machines;
    for of in machines {
        fact(&mut out, "Machine", &machine(of, machines.len() > 1));
    }
    config(&mut out, told);
    sizes(&mut out, &told.report, rows);
    busy(&mut out, &told.report, rows);
    slices(&mut out, &told.report, rows);
    ends(&mut out, told);
    for line in told.verdict.render().lines() {
        out.push_str(&wrapped(line, if line.starts_with("  - ") { 4 } else { 0 }));
    }
    out
}

/// What a trace is packed into, in a word.
pub(super) fn container(container: Container) -> Option<&'static str> {
    match container {
        Container::None => None,
        Container::Gzip => Some("gzip"),
        Container::Zstd => Some("zstd"),
        Container::Zip => Some("zip"),
    }
}

/// The name of a packet's data.
pub(super) fn kind(number: u32) -> String {
    let packet = descriptor_pool().get_message_by_name("perfetto.protos.TracePacket");
    let field = packet.and_then(|packet| packet.get_field(number));
    match (number, field) {
        (0, _) => "(nothing but the state of a sequence)".to_owned(),
        (_, Some(field)) => field.name().to_owned(),
        (number, None) => format!("(field {number})"),
    }
}

/// The name of an event of the kernel.
pub(super) fn kernel_event(number: u32) -> String {
    match KNOWN_EVENTS.iter().find(|event| event.field_id == number) {
        Some(event) => event.name.to_owned(),
        None if number == 0 => "(others)".to_owned(),
        None => format!("(event {number})"),
    }
}

fn headline(out: &mut String, told: &Told) {
    let report = &told.report;
    let packed = container(told.container).map_or(String::new(), |packed| format!(" of {packed}"));
    let size = told.file_bytes.unwrap_or(report.end.bytes);
    let mut facts = vec![format!("{}{packed}", bytes(size))];
    if told.container != Container::None || report.packed_packets > 0 {
        facts.push(format!("{} unpacked", bytes(report.unpacked_bytes)));
    }
    facts.push(counted(report.tally.packets, "packet", "packets"));
    facts.push(counted(report.sequences, "sequence", "sequences"));
    let what = if report.is_clone { "a snapshot of a trace" } else { "a trace" };
    let _ = writeln!(out, "{}: {what}, {}", printable(&told.name), facts.join(", "));
}

fn fact(out: &mut String, label: &str, text: &str) {
    if !text.is_empty() {
        out.push_str(&wrapped(&format!("{label:LABEL$}{text}"), LABEL));
    }
}

fn recorded(report: &Report) -> String {
    let Some(span) = report.span else { return String::new() };
    let minutes = report.machines.iter().find(|machine| machine.id == 0).and_then(|of| of.timezone_minutes);
    let long = u64::try_from(span.end_ns.saturating_sub(span.begin_ns)).unwrap_or(0);
    let long = format!("{} from the first event to the last", nanoseconds(long));
    let Some(wall_ns) = span.wall_ns.filter(|wall_ns| *wall_ns > 0) else { return long };
    let seconds = u64::try_from(wall_ns / 1_000_000_000).unwrap_or(0);
    let there = minutes.filter(|minutes| *minutes != 0).map(|minutes| {
        let local = seconds.saturating_add_signed(i64::from(minutes) * 60);
        let time = date_time(local);
        format!(" ({} there)", time.split(' ').next_back().unwrap_or_default())
    });
    format!("{} UTC{}, {long}", date_time(seconds), there.unwrap_or_default())
}

fn machine(machine: &Machine, is_one_of_several: bool) -> String {
    let mut name = String::new();
    if is_one_of_several || !machine.name.is_empty() {
        let _ = match machine.name.is_empty() {
            true if machine.id == 0 => write!(name, "the service's: "),
            true => write!(name, "{}: ", machine.id),
            false => write!(name, "{}: ", cut(&machine.name, NAME)),
        };
    }
    let system = [&machine.system, &machine.release, &machine.architecture];
    let system: Vec<String> =
        system.into_iter().filter(|text| !text.is_empty()).map(|text| cut(text, NAME)).collect();
    let mut facts = vec![system.join(" ")];
    if !machine.android_build.is_empty() {
        facts.push(cut(&machine.android_build, NAME));
    }
    if machine.cpus > 0 {
        facts.push(counted(machine.cpus, "CPU", "CPUs"));
    }
    if machine.memory_bytes > 0 {
        facts.push(format!("{} of memory", bytes(machine.memory_bytes)));
    }
    if !machine.service.is_empty() {
        facts.push(format!("recorded by {}", cut(&machine.service, NAME)));
    }
    facts.retain(|fact| !fact.is_empty());
    match facts.is_empty() {
        true => String::new(),
        false => format!("{name}{}", facts.join(", ")),
    }
}

fn config(out: &mut String, told: &Told) {
    let (plan, report) = (&told.plan, &told.report);
    if report.config.is_none() {
        return;
    }
    let mut facts = Vec::new();
    if let Some(time) = plan.duration {
        facts.push(format!("for {}", duration(time)));
    }
    if plan.write_into_file {
        facts.push("written into the file while it was recorded".to_owned());
    }
    if plan.max_file_bytes > 0 {
        facts.push(format!("up to {}", bytes(plan.max_file_bytes)));
    }
    if !plan.triggers.is_empty() {
        facts.push(format!("on the triggers {}", listed(&plan.triggers)));
    }
    let facts = if facts.is_empty() { String::new() } else { format!("; {}", facts.join(", ")) };
    let sources = match plan.sources.is_empty() {
        true => "no data sources".to_owned(),
        false => plan.sources.iter().map(|name| cut(name, NAME)).take(20).collect::<Vec<_>>().join(", "),
    };
    fact(out, "Config", &format!("{sources}{facts}"));
    let stats = report.tally.stats.as_ref();
    // So many are on a screen; a config may have a hundred.
    for (index, buffer) in plan.buffers.iter().enumerate().take(10) {
        let stats = stats.and_then(|stats: &TraceStats| stats.buffer_stats.get(index));
        fact(out, "Buffer", &of_buffer(index, buffer, stats, plan));
    }
    if let Some(more @ 1..) = plan.buffers.len().checked_sub(10) {
        fact(out, "", &format!("and {}", counted(more as u64, "more buffer", "more buffers")));
    }
}

fn of_buffer(index: usize, buffer: &Buffer, stats: Option<&BufferStats>, plan: &Plan) -> String {
    let mut text = format!("{index}");
    if !buffer.name.is_empty() {
        let _ = write!(text, " \"{}\"", cut(&buffer.name, NAME));
    }
    let policy = if buffer.discard { "keeps the oldest" } else { "a ring" };
    let _ = write!(text, ", {}, {policy}", kib(buffer.size_kb));
    if let Some(stats) = stats {
        let _ = write!(text, ": {}", fullness(buffer, stats, plan));
    }
    if !buffer.sources.is_empty() {
        let _ = write!(text, "; for {}", listed(&buffer.sources));
    }
    text
}

fn fullness(buffer: &Buffer, stats: &BufferStats, plan: &Plan) -> String {
    let written = stats.bytes_written();
    let size = match stats.buffer_size() {
        0 => buffer.size_kb.saturating_mul(1024),
        size => size,
    };
    match () {
        () if written == 0 => "empty".to_owned(),
        () if stats.bytes_overwritten() > 0 => {
            format!("{} went in, {} of it overwritten", bytes(written), bytes(stats.bytes_overwritten()))
        }
        () if plan.write_into_file && !buffer.discard => format!("{} went through", bytes(written)),
        () => format!("{} went in, {} full", bytes(written), percent(written.min(size), size)),
    }
}

fn sizes(out: &mut String, report: &Report, rows: usize) {
    let total = report.unpacked_bytes;
    let mut kinds = Table {
        rows: report
            .kinds
            .rows
            .iter()
            .map(|row| Row { what: kind(row.what), weight: row.weight, more: () })
            .collect(),
        others: report.kinds.others,
        others_weight: report.kinds.others_weight,
    };
    if report.interned.count > 0 {
        let what = "interned_data (names and stacks beside the data)".to_owned();
        kinds.rows.push(Row { what, weight: report.interned, more: () });
        kinds.rows.sort_by_key(|row| std::cmp::Reverse(row.weight.bytes));
    }
    table(out, "What fills it: packets", &kinds, total, rows, Clone::clone);
    if report.writers.rows.len() + report.writers.others > 1 {
        table(out, "Packets by the process that wrote them", &report.writers, total, rows, process);
    }
    let named = |name: &Option<String>| name.clone().unwrap_or_else(|| "(without)".to_owned());
    table(out, "Track events by category", &report.categories, total, rows, named);
    table(out, "Track events by name", &report.events, total, rows, named);
    table(out, "Kernel events", &report.kernel, total, rows, |number| kernel_event(*number));
}

/// Rows with their share of all bytes.
fn table<K: Clone, M: Clone>(
    out: &mut String,
    heading: &str,
    table: &Table<K, M>,
    total: u64,
    rows: usize,
    name: impl Fn(&K) -> String,
) {
    let mut table = table.clone();
    table.keep(rows);
    if table.total().count == 0 {
        return;
    }
    let _ = writeln!(out, "{heading:52}{:>12}{:>9}{:>15}", "bytes", "share", "count");
    let mut row = |name: &str, weight: &Weight| {
        let (size, share) = (bytes(weight.bytes), percent(weight.bytes, total));
        let _ = writeln!(
            out,
            "  {}{size:>12}{share:>9}{:>15}",
            padded(&cut(name, NAME - 1), NAME),
            count(weight.count)
        );
    };
    table.rows.iter().for_each(|of| row(&name(&of.what), &of.weight));
    if table.others > 0 {
        let others = counted(table.others as u64, "other", "others");
        row(&format!("({others})"), &table.others_weight);
    }
}

fn busy(out: &mut String, report: &Report, rows: usize) {
    let span = report.span.map_or(0, |span| span.end_ns.saturating_sub(span.begin_ns));
    let span = u64::try_from(span).unwrap_or(0);
    let mut list = |heading: &str, ran: &[Ran], name: &dyn Fn(&Who) -> String| {
        if ran.is_empty() {
            return;
        }
        let _ = writeln!(out, "{heading:52}{:>12}{:>9}", "CPU time", "of a CPU");
        for Ran { who, ns } in ran.iter().take(rows) {
            let (time, share) = (nanoseconds(*ns), percent(*ns, span));
            let _ = writeln!(out, "  {}{time:>12}{share:>9}", padded(&cut(&name(who), NAME - 1), NAME));
        }
    };
    list("Busiest processes", &report.processes, &process);
    list("Busiest threads", &report.threads, &thread);
}

fn slices(out: &mut String, report: &Report, rows: usize) {
    let mut frequent: Vec<_> = report.events.rows.iter().filter(|row| row.more.slices > 0).collect();
    frequent.sort_by_key(|row| std::cmp::Reverse(row.more.slices));
    if frequent.is_empty() {
        return;
    }
    let _ = writeln!(out, "{:52}{:>12}{:>12}{:>12}", "Most frequent slices", "count", "in sum", "longest");
    for row in frequent.iter().take(rows) {
        let name = row.what.as_deref().unwrap_or("(without a name)");
        let _ = writeln!(
            out,
            "  {}{:>12}{:>12}{:>12}",
            padded(&cut(name, NAME - 1), NAME),
            count(row.more.slices),
            nanoseconds(row.more.total_ns),
            nanoseconds(row.more.longest_ns)
        );
    }
    let begin_ns = report.span.map_or(0, |span| span.begin_ns);
    let _ = writeln!(out, "{:41}{:>12}{:>13}  on", "Longest slices", "length", "from");
    for slice in report.longest.iter().take(rows) {
        let name = slice.name.as_deref().unwrap_or("(without a name)");
        let after = u64::try_from(slice.begin_ns.saturating_sub(begin_ns)).unwrap_or(0);
        let _ = writeln!(
            out,
            "  {}{:>12}{:>13}  {}",
            padded(&cut(name, 38), 39),
            nanoseconds(slice.ns),
            format!("+{}", nanoseconds(after)),
            cut(&place(slice), WIDTH - 68)
        );
    }
}

fn ends(out: &mut String, told: &Told) {
    let (report, incomplete) = (&told.report, &told.report.incomplete);
    let slices = [
        (incomplete.open, "had not ended when the trace did"),
        (incomplete.stray_ends, "ended without a beginning before it"),
        (incomplete.left_out, "were one too many to be followed"),
    ];
    let said: Vec<String> = slices
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", counted(count, "slice", "slices")))
        .collect();
    fact(out, "Slices", &said.join(", "));
    if report.missing_switches > 0 {
        let missing =
            counted(report.missing_switches, "switch between threads is", "switches between threads are");
        fact(
            out,
            "Switches",
            &format!("{missing} not there, as those around them say: who ran meanwhile is not known"),
        );
    }
    if let Some(trouble) = &told.trouble {
        fact(out, "Cut off", &format!("it cannot be unpacked beyond {}: {trouble}", bytes(report.end.bytes)));
    }
    if let Some(at) = report.end.torn_at {
        let what = format!("the last packet is torn at offset {at}; what stands before it was read");
        fact(out, "Torn", &what);
    }
    if let Some(at) = report.end.broken_at {
        fact(out, "Broken", &format!("what begins at offset {at} is no trace; it was not read on"));
    }
    if let Some(place) = report.end.first_broken_batch {
        let batches = counted(report.end.broken_batches, "batch", "batches");
        fact(out, "Broken", &format!("{batches} of compressed packets, the first at {place}"));
    }
}

fn process(who: &Who) -> String {
    let machine = of_machine(who);
    match (&who.process, who.pid) {
        (Some(name), Some(pid)) => format!("{} {pid}{machine}", shortened(name, NAME - 14)),
        (None, Some(pid)) => format!("process {pid}{machine}"),
        (_, None) => "(unknown)".to_owned(),
    }
}

fn thread(who: &Who) -> String {
    let thread = who.thread.clone().unwrap_or_else(|| "thread".to_owned());
    let tid = who.tid.map_or(String::new(), |tid| format!(" {tid}"));
    match (&who.process, who.pid == who.tid) {
        (Some(process), false) => format!("{thread}{tid} of {}", program(process)),
        _ => format!("{thread}{tid}{}", of_machine(who)),
    }
}

fn of_machine(who: &Who) -> String {
    if who.machine > 0 { format!(" of machine {}", who.machine) } else { String::new() }
}

/// The thread, or the track and its process.
fn place(slice: &Slice) -> String {
    match (&slice.who, &slice.track) {
        (who, None) if who.tid.is_some() => thread(who),
        (Who { process: Some(process), .. }, Some(track)) => format!("{track} of {}", program(process)),
        (who, None) if who.pid.is_some() => process(who),
        (_, Some(track)) => track.clone(),
        _ => String::new(),
    }
}

/// A path's last name.
fn program(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The end of a path says more than its beginning.
fn shortened(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(length + 1 - width).collect();
    format!("…{tail}")
}

/// Fit to be shown, in so many columns.
fn cut(text: &str, width: usize) -> String {
    let shown = printable(text);
    match shown.chars().count() <= width {
        true => shown.into_owned(),
        false => shown.chars().take(width - 1).chain(['…']).collect(),
    }
}

fn padded(text: &str, width: usize) -> String {
    let length = text.chars().count();
    format!("{text}{}", " ".repeat(width.saturating_sub(length)))
}

fn percent(part: u64, whole: u64) -> String {
    match (part as f64 * 100.0 / whole.max(1) as f64, part) {
        (_, 0) => "0 %".to_owned(),
        (share, _) if share < 0.05 => "<0.1 %".to_owned(),
        (share, _) if share < 99.95 => format!("{share:.1} %"),
        (share, _) => format!("{share:.0} %"),
    }
}

/// In lines of at most [`WIDTH`] columns where there are blanks, those after the first set in. Ends in a newline.
fn wrapped(line: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut rest = line;
    // A break within what is set in would be none.
    let (mut width, mut first) = (WIDTH, indent);
    loop {
        let end = rest.char_indices().nth(width).map(|(at, _)| at);
        let at = end.and_then(|end| rest.get(..end)?.rfind(' ').filter(|at| *at > first));
        let Some(at) = at else {
            let _ = writeln!(out, "{rest}");
            return out;
        };
        let (line, after) = rest.split_at(at);
        let _ = writeln!(out, "{line}");
        let _ = write!(out, "{:indent$}", "");
        rest = after.trim_start();
        (width, first) = (WIDTH - indent, 0);
    }
}

/// Whether all of it fits.
#[cfg(test)]
pub(super) fn is_narrow(text: &str) -> bool {
    text.lines().all(|line| line.chars().count() <= WIDTH)
}
