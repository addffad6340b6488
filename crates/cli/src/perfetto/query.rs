//! `--query` and `--query-raw`: what the service knows, for people and for scripts.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use ferretto_consumer::Consumer;
use ferretto_printable::printable;
use ferretto_protos::tracing_service_state::Producer;
use ferretto_protos::{DataSourceDescriptor, TracingServiceState};
use prost::Message;

/// Categories shown without `--long`.
const SHORT_DETAILS_LEN: usize = 40;

/// Asks the service and prints its answer.
pub(crate) fn run(long: bool, raw: bool) -> Result<()> {
    let mut consumer = Consumer::connect_default()?;
    let state = consumer.query_service_state(false)?;
    let mut out = std::io::stdout().lock();
    if raw {
        out.write_all(&state.encode_to_vec())?;
    } else {
        let is_root = rustix::process::geteuid().is_root();
        out.write_all(render(&state, long, is_root).as_bytes())?;
    }
    Ok(out.flush()?)
}

fn render(state: &TracingServiceState, long: bool, is_root: bool) -> String {
    let mut text = String::from("For people to read; scripts use --query-raw.\n\n");
    let _ = writeln!(text, "Service: {}", printable(state.tracing_service_version()));
    let _ = writeln!(
        text,
        "Tracing sessions: {} (started: {})",
        state.num_sessions(),
        state.num_sessions_started()
    );
    producers(&mut text, state);
    data_sources(&mut text, state, long);
    if state.supports_tracing_sessions() {
        sessions(&mut text, state, is_root);
    }
    text
}

fn producers(text: &mut String, state: &TracingServiceState) {
    text.push_str("\n\nPRODUCER PROCESSES CONNECTED:\n\n");
    let machine_column = machine_column(state);
    let mut row = |cells: [&str; 7]| {
        let cells = cells.map(printable);
        let [id, pid, uid, flags, machine, name, sdk] = cells;
        let machine = machine_column(&machine);
        let line = format!("{id:<6} {pid:<8} {uid:<8} {flags:<6} {machine}{name:<42} {sdk}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    row(["ID", "PID", "UID", "FLAGS", "MACHINE", "NAME", "SDK"]);
    row(["==", "===", "===", "=====", "=======", "====", "==="]);
    for producer in &state.producers {
        row([
            &producer.id().to_string(),
            &producer.pid().to_string(),
            &producer.uid().to_string(),
            if producer.frozen() { "F" } else { "" },
            &machine_name(producer),
            producer.name(),
            producer.sdk_version(),
        ]);
    }
}

fn data_sources(text: &mut String, state: &TracingServiceState, long: bool) {
    text.push_str("\n\nDATA SOURCES REGISTERED:\n\n");
    let machine_column = machine_column(state);
    let mut row = |cells: [&str; 4]| {
        let cells = cells.map(printable);
        let [name, producer, machine, details] = cells;
        let machine = machine_column(&machine);
        let _ = writeln!(text, "{}", format!("{name:<40} {producer:<40} {machine}{details}").trim_end());
    };
    row(["NAME", "PRODUCER", "MACHINE", "DETAILS"]);
    row(["====", "========", "=======", "======="]);
    for source in &state.data_sources {
        let bytes = source.ds_descriptor.as_deref().unwrap_or_default();
        let descriptor = DataSourceDescriptor::decode(bytes).unwrap_or_default();
        let id = source.producer_id();
        let producer = state.producers.iter().find(|producer| producer.id() == id);
        let machine = producer.map(machine_name).unwrap_or_default();
        let producer = producer.map_or(format!("({id})"), |producer| format!("{} ({id})", producer.name()));
        row([descriptor.name(), &producer, &machine, &details(&descriptor, long)]);
    }
}

/// The cell of a machine's name; there is none while all producers are on the service's own (upstream: perfetto_cmd.cc).
fn machine_column(state: &TracingServiceState) -> impl Fn(&str) -> String + use<> {
    let has_others = state.producers.iter().any(|producer| producer.machine_id() != 0);
    move |machine| if has_others { format!("{machine:<20} ") } else { String::new() }
}

fn machine_name(producer: &Producer) -> String {
    match (producer.machine_id(), producer.machine_name()) {
        (0, _) => "(host)".to_owned(),
        (id, "") => format!("{id:#x}"),
        (_, name) => name.to_owned(),
    }
}

/// The categories that a program offers.
fn details(descriptor: &DataSourceDescriptor, long: bool) -> String {
    let track_events = descriptor.track_event_descriptor.iter().flat_map(|d| &d.available_categories);
    let names: Vec<&str> = track_events.map(|category| category.name()).collect();
    let all = names.join(",");
    if long || all.chars().count() <= SHORT_DETAILS_LEN {
        return all;
    }
    let short: String = all.chars().take(SHORT_DETAILS_LEN).collect();
    format!("{short}… (--long shows all)")
}

fn sessions(text: &mut String, state: &TracingServiceState, is_root: bool) {
    text.push_str("\n\nTRACING SESSIONS:\n\n");
    let mut row = |cells: [&str; 8]| {
        let cells = cells.map(printable);
        let [id, uid, state, buffers, duration, sources, started, name] = cells;
        let line = format!(
            "{id:<7} {uid:<7} {state:<10} {buffers:<12} {duration:<9} {sources:<4} {started:<8} {name}"
        );
        let _ = writeln!(text, "{}", line.trim_end());
    };
    row(["ID", "UID", "STATE", "BUF (#) KB", "DUR (s)", "#DS", "STARTED", "NAME"]);
    row(["===", "===", "=====", "==========", "=======", "===", "=======", "===="]);
    for session in &state.tracing_sessions {
        let buffers: u64 = session.buffer_size_kb.iter().map(|&kb| u64::from(kb)).sum();
        row([
            &session.id().to_string(),
            &session.consumer_uid().to_string(),
            session.state(),
            &format!("({}) {buffers}", session.buffer_size_kb.len()),
            &(session.duration_ms() / 1000).to_string(),
            &session.num_data_sources().to_string(),
            &time_of_day(session.start_realtime_ns()),
            session.unique_session_name(),
        ]);
    }
    if state.tracing_sessions.len() as i64 != i64::from(state.num_sessions()) && !is_root {
        text.push_str("\nSome sessions belong to other users and are not shown; root sees all.\n");
    }
}

/// `HH:MM:SS` in UTC.
fn time_of_day(realtime_ns: i64) -> String {
    let seconds = realtime_ns.max(0) / 1_000_000_000;
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use ferretto_protos::tracing_service_state::{DataSource, TracingSession};
    use ferretto_protos::{TrackEventCategory, TrackEventDescriptor};

    use super::*;

    fn state() -> TracingServiceState {
        let categories = ["rendering", "network", "io", "loading", "frame scheduling"];
        let category =
            |name: &str| TrackEventCategory { name: Some(name.to_owned()), ..TrackEventCategory::default() };
        let track_events = TrackEventDescriptor { available_categories: categories.map(category).to_vec() };
        let descriptor = DataSourceDescriptor {
            name: Some("track_event".to_owned()),
            track_event_descriptor: Some(track_events),
            ..DataSourceDescriptor::default()
        };
        let source =
            DataSource { ds_descriptor: Some(descriptor.encode_to_vec().into()), producer_id: Some(7) };
        let producer =
            Producer { id: Some(7), name: Some("app".to_owned()), uid: Some(1000), ..Producer::default() };
        let session = TracingSession {
            id: Some(3),
            state: Some("STARTED".to_owned()),
            buffer_size_kb: vec![1024, 512],
            start_realtime_ns: Some(3_723_000_000_000),
            ..TracingSession::default()
        };
        TracingServiceState {
            tracing_service_version: Some("v1".to_owned()),
            producers: vec![producer],
            data_sources: vec![source],
            tracing_sessions: vec![session],
            supports_tracing_sessions: Some(true),
            num_sessions: Some(2),
            ..TracingServiceState::default()
        }
    }

    #[test]
    fn machines_are_shown_when_there_are_several() {
        assert!(!render(&state(), false, false).contains("MACHINE"));
        for (machine_name, shown) in [("guest", "guest"), ("", "0xab")] {
            let mut several = state();
            several.producers.push(Producer {
                id: Some(8),
                name: Some("far".to_owned()),
                machine_id: Some(0xab),
                machine_name: Some(machine_name.to_owned()),
                ..Producer::default()
            });
            let text = render(&several, false, false);
            let line = |of: &str| text.lines().find(|line| line.contains(of)).unwrap().to_owned();
            assert!(line(" far").contains(shown), "{text}");
            assert!(line(" app").contains("(host)") && line("app (7)").contains("(host)"), "{text}");
        }
    }

    #[test]
    fn the_tables_show_who_offers_what() {
        let text = render(&state(), false, false);
        for part in ["Service: v1", "track_event", "app (7)", "…", "(2) 1536", "01:02:03", "root sees all"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("frame scheduling"), "{text}");
        assert!(render(&state(), true, true).contains("frame scheduling"));
        assert!(!render(&state(), true, true).contains("root sees all"));
    }
}
