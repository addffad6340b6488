//! What is known of a trace, for programs. Names are stable; what the trace does not say is not there.

use ferretto_protos::TraceStats;
use ferretto_trace_info::machine::Machine;
use ferretto_trace_info::names::Weight;
use ferretto_trace_info::report::{Ran, Row, Slice, Spent, Table, Who};

use super::{Told, text};
use crate::json::Json;

/// All that is known, with so many rows of each table.
pub(super) fn of(told: &Told, rows: Option<usize>) -> Json {
    let report = &told.report;
    let rows = rows.unwrap_or(usize::MAX);
    let list = |values: Vec<Json>| Json::List(values.into_iter().take(rows).collect());
    Json::Object(vec![
        ("trace", told.name.as_str().into()),
        ("format", "perfetto".into()),
        ("container", text::container(told.container).into()),
        ("file_bytes", told.file_bytes.into()),
        ("trace_bytes", report.end.bytes.into()),
        ("unpacked_bytes", report.unpacked_bytes.into()),
        ("packets", report.tally.packets.into()),
        ("sequences", report.sequences.into()),
        ("torn_at", report.end.torn_at.into()),
        ("broken_at", report.end.broken_at.into()),
        ("broken_batches", some(report.end.broken_batches)),
        ("unreadable", told.trouble.clone().into()),
        ("begin_ns", report.span.map(|span| span.begin_ns).into()),
        ("end_ns", report.span.map(|span| span.end_ns).into()),
        ("begin_unix_ns", report.span.and_then(|span| span.wall_ns).into()),
        ("machines", Json::List(report.machines.iter().map(machine).collect())),
        ("config", config(told)),
        ("buffers", buffers(told)),
        ("is_clone", if report.is_clone { Json::Bool(true) } else { Json::Null }),
        (
            "packets_by_kind",
            table(&report.kinds, rows, |number| ("kind", text::kind(*number).into()), nothing),
        ),
        ("interned_data", weight("interned_data", &report.interned)),
        ("packets_by_process", table(&report.writers, rows, |of| ("process", who(of)), nothing)),
        (
            "track_events_by_category",
            table(&report.categories, rows, |name| ("category", name.clone().into()), nothing),
        ),
        ("track_events_by_name", table(&report.events, rows, |name| ("name", name.clone().into()), spent)),
        (
            "kernel_events",
            table(&report.kernel, rows, |number| ("event", text::kernel_event(*number).into()), nothing),
        ),
        ("busiest_processes", list(report.processes.iter().map(ran).collect())),
        ("busiest_threads", list(report.threads.iter().map(ran).collect())),
        ("missing_switches", some(report.missing_switches)),
        ("longest_slices", list(report.longest.iter().map(slice).collect())),
        ("slices_without_end", some(report.incomplete.open)),
        ("ends_without_slice", some(report.incomplete.stray_ends)),
        ("slices_left_out", some(report.incomplete.left_out)),
        ("losses", losses(told)),
        ("not_asked", Json::List(told.verdict.unknown.iter().map(|what| what.as_str().into()).collect())),
    ])
}

fn some(count: u64) -> Json {
    (count > 0).then_some(count).into()
}

fn machine(machine: &Machine) -> Json {
    let said = |text: &str| -> Json { (!text.is_empty()).then_some(text).into() };
    Json::Object(vec![
        ("id", machine.id.into()),
        ("name", said(&machine.name)),
        ("system", said(&machine.system)),
        ("release", said(&machine.release)),
        ("version", said(&machine.version)),
        ("architecture", said(&machine.architecture)),
        ("android_build", said(&machine.android_build)),
        ("service", said(&machine.service)),
        ("cpus", some(machine.cpus)),
        ("memory_bytes", some(machine.memory_bytes)),
        ("timezone_minutes", machine.timezone_minutes.into()),
    ])
}

fn config(told: &Told) -> Json {
    if told.report.config.is_none() {
        return Json::Null;
    }
    let plan = &told.plan;
    let texts = |texts: &[String]| Json::List(texts.iter().map(|text| text.as_str().into()).collect());
    let duration_ms = plan.duration.map(|duration| duration.as_millis() as u64);
    Json::Object(vec![
        ("data_sources", texts(&plan.sources)),
        ("duration_ms", duration_ms.into()),
        ("write_into_file", Json::Bool(plan.write_into_file)),
        ("max_file_bytes", some(plan.max_file_bytes)),
        ("triggers", texts(&plan.triggers)),
    ])
}

fn buffers(told: &Told) -> Json {
    let stats = told.report.tally.stats.as_ref();
    let list = told.plan.buffers.iter().enumerate().map(|(index, buffer)| {
        let stats = stats.and_then(|stats: &TraceStats| stats.buffer_stats.get(index));
        Json::Object(vec![
            ("name", (!buffer.name.is_empty()).then_some(buffer.name.as_str()).into()),
            ("size_bytes", buffer.size_kb.saturating_mul(1024).into()),
            ("fill_policy", if buffer.discard { "discard" } else { "ring" }.into()),
            ("data_sources", Json::List(buffer.sources.iter().map(|name| name.as_str().into()).collect())),
            ("written_bytes", stats.map(|stats| stats.bytes_written()).into()),
            ("overwritten_bytes", stats.map(|stats| stats.bytes_overwritten()).into()),
        ])
    });
    Json::List(list.collect())
}

fn weight(name: &'static str, weight: &Weight) -> Json {
    match weight.count {
        0 => Json::Null,
        _ => Json::Object(vec![
            ("kind", name.into()),
            ("count", weight.count.into()),
            ("bytes", weight.bytes.into()),
        ]),
    }
}

fn nothing(_: &()) -> Vec<(&'static str, Json)> {
    Vec::new()
}

fn spent(spent: &Spent) -> Vec<(&'static str, Json)> {
    match spent.slices {
        0 => Vec::new(),
        slices => vec![
            ("slices", slices.into()),
            ("total_ns", spent.total_ns.into()),
            ("longest_ns", spent.longest_ns.into()),
        ],
    }
}

/// Rows, and one without a name for the others.
fn table<K: Clone, M: Clone>(
    table: &Table<K, M>,
    rows: usize,
    what: impl Fn(&K) -> (&'static str, Json),
    more: impl Fn(&M) -> Vec<(&'static str, Json)>,
) -> Json {
    let mut table = table.clone();
    table.keep(rows);
    let counted = |weight: &Weight| [("count", weight.count.into()), ("bytes", weight.bytes.into())];
    let mut list: Vec<Json> = table
        .rows
        .iter()
        .map(|Row { what: key, weight, more: of }| {
            let mut fields = vec![what(key)];
            fields.extend(counted(weight));
            fields.extend(more(of));
            Json::Object(fields)
        })
        .collect();
    if table.others > 0 {
        let mut fields = vec![("others", (table.others as u64).into())];
        fields.extend(counted(&table.others_weight));
        list.push(Json::Object(fields));
    }
    Json::List(list)
}

fn who(who: &Who) -> Json {
    Json::Object(vec![
        ("machine", (who.machine > 0).then_some(who.machine).into()),
        ("pid", who.pid.into()),
        ("tid", who.tid.into()),
        ("process", who.process.clone().into()),
        ("thread", who.thread.clone().into()),
    ])
}

fn ran(ran: &Ran) -> Json {
    Json::Object(vec![("who", who(&ran.who)), ("cpu_ns", ran.ns.into())])
}

fn slice(slice: &Slice) -> Json {
    Json::Object(vec![
        ("name", slice.name.clone().into()),
        ("category", slice.category.clone().into()),
        ("begin_ns", slice.begin_ns.into()),
        ("ns", slice.ns.into()),
        ("who", who(&slice.who)),
        ("track", slice.track.clone().into()),
    ])
}

fn losses(told: &Told) -> Json {
    let list =
        told.verdict.losses.iter().map(|loss| {
            Json::Object(vec![("kind", loss.kind.name().into()), ("what", loss.to_string().into())])
        });
    Json::List(list.collect())
}
