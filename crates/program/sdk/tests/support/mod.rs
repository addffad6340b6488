//! Records this process through a service in this process, and reads track events as a trace's reader does.
#![allow(dead_code, reason = "each test program uses a part of it")]

#[path = "fields.rs"]
mod fields;
#[path = "host.rs"]
mod own_host;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ferretto_consumer::{Consumer, Event, Observe};
use ferretto_protos::fields::{
    clock_snapshot, counter_descriptor, debug_annotation, event_name, interned_data, process_descriptor,
    thread_descriptor, trace_packet, trace_packet_defaults, track_descriptor, track_event,
};
use ferretto_protos::trace_config::{BufferConfig, DataSource};
use ferretto_protos::{DataSourceConfig, TraceConfig, TrackEventConfig};
use ferretto_traced::in_process::Host;
use fields::{all_bytes, bytes, float, int, text};
use own_host::host_with;
pub(crate) use own_host::turn;
use prost::Message;

const TIMEOUT: Duration = Duration::from_secs(10);
/// What SPECIFICATION.md says.
pub(crate) const MAX_CLOCK_ERROR_NS: u64 = 1000;

pub(crate) fn host() -> &'static Host {
    host_with(0)
}

/// A recording under way.
pub(crate) struct Recording {
    consumer: Consumer,
}

impl Recording {
    /// Starts, and waits until the data source has.
    pub(crate) fn start(config: TrackEventConfig) -> Self {
        Self::start_on(host(), config)
    }

    /// The same, on a service of the test's own.
    pub(crate) fn start_on(host: &Host, config: TrackEventConfig) -> Self {
        let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
        // The producer's registration may be on its way.
        let until = Instant::now() + TIMEOUT;
        while consumer.query_service_state(false).unwrap().data_sources.is_empty() {
            assert!(Instant::now() < until, "the producer has not registered");
            std::thread::sleep(Duration::from_millis(2));
        }
        consumer.observe(Observe::ALL_DATA_SOURCES_STARTED).unwrap();
        consumer.enable_tracing(trace_config(config), None).unwrap();
        loop {
            match consumer.poll(Some(TIMEOUT)) {
                Some(Event::Observed(events)) if events.all_data_sources_started() => {
                    return Self { consumer };
                }
                Some(Event::TracingDisabled { error }) => panic!("refused: {error:?}"),
                None => panic!("the data source did not start"),
                _ => {}
            }
        }
    }

    /// All categories that start with this prefix.
    pub(crate) fn of(prefix: &str) -> Self {
        Self::start(only(prefix))
    }

    /// Flushes without stopping.
    pub(crate) fn flush(&mut self) {
        self.consumer.flush(TIMEOUT, 0).unwrap();
    }

    /// Stops and reads.
    pub(crate) fn stop(self) -> Trace {
        let mut trace = Trace::default();
        self.stop_and_read(|packet| trace.read(packet));
        trace
    }

    /// Stops and reads packets as they are.
    pub(crate) fn stop_and_read(mut self, mut read: impl FnMut(&[u8])) {
        self.consumer.disable().unwrap();
        while !matches!(
            self.consumer.poll(Some(TIMEOUT)).expect("the session ends"),
            Event::TracingDisabled { .. }
        ) {}
        self.consumer
            .read_buffers(|packet| {
                read(packet);
                Ok(())
            })
            .unwrap();
    }
}

/// A filter for the categories of one test.
pub(crate) fn only(prefix: &str) -> TrackEventConfig {
    TrackEventConfig {
        enabled_categories: vec![format!("{prefix}*")],
        disabled_categories: vec!["*".to_owned()],
        ..Default::default()
    }
}

fn trace_config(config: TrackEventConfig) -> Vec<u8> {
    let config = DataSourceConfig {
        name: Some("track_event".to_owned()),
        track_event_config: Some(config),
        ..Default::default()
    };
    let config = TraceConfig {
        buffers: vec![BufferConfig { size_kb: Some(32 * 1024), ..Default::default() }],
        data_sources: vec![DataSource { config: Some(config), ..Default::default() }],
        ..Default::default()
    };
    config.encode_to_vec()
}

/// Track events, as text.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// In the order in which each sequence was written.
    pub(crate) events: Vec<TraceEvent>,
    /// Names of tracks by uuid.
    tracks: HashMap<u64, String>,
    pub(crate) processes: Vec<(i64, String)>,
    /// Packets that said that something was lost before.
    pub(crate) losses: usize,
    /// Packets that started incremental state.
    pub(crate) clears: usize,
    sequences: HashMap<u64, Sequence>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TraceEvent {
    pub(crate) timestamp_ns: u64,
    pub(crate) track: String,
    /// Kind, category/name, arguments or value.
    pub(crate) text: String,
}

#[derive(Debug, Default)]
struct Sequence {
    is_valid: bool,
    clock: u64,
    /// Units of `clock`, if that is the incremental one.
    unit_ns: u64,
    default_clock: u64,
    default_track: u64,
    texts: HashMap<(u32, u64), String>,
}

impl Trace {
    /// The events of all tracks, in the order of each, and tracks by name.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut events: Vec<&TraceEvent> = self.events.iter().collect();
        events.sort_by(|left, right| left.track.cmp(&right.track));
        events.iter().map(|event| format!("{}: {}", event.track, event.text)).collect()
    }

    pub(crate) fn read(&mut self, packet: &[u8]) {
        let sequence = int(packet, trace_packet::TRUSTED_PACKET_SEQUENCE_ID).unwrap();
        let flags = int(packet, trace_packet::SEQUENCE_FLAGS).unwrap_or(0);
        let mut state = self.sequences.remove(&sequence).unwrap_or_default();
        if int(packet, trace_packet::PREVIOUS_PACKET_DROPPED).is_some_and(|reasons| reasons != 0) {
            self.losses += usize::from(int(packet, trace_packet::FIRST_PACKET_ON_SEQUENCE).is_none());
            state.is_valid = false;
        }
        if flags & 1 != 0 {
            self.clears += 1;
            state = Sequence { is_valid: true, ..Sequence::default() };
        }
        // What needs state that was lost is to be skipped by readers; this crate does not write such packets.
        assert!(flags & 2 == 0 || state.is_valid, "a packet refers to what was lost");
        self.read_state(packet, &mut state);
        if let Some(descriptor) = bytes(packet, trace_packet::TRACK_DESCRIPTOR) {
            self.read_descriptor(descriptor);
        }
        if flags & 3 != 0 {
            let timestamp_ns = state.timestamp(packet);
            if let Some(event) = bytes(packet, trace_packet::TRACK_EVENT) {
                self.read_event(event, timestamp_ns, &state);
            }
        }
        self.sequences.insert(sequence, state);
    }

    fn read_state(&mut self, packet: &[u8], state: &mut Sequence) {
        if let Some(defaults) = bytes(packet, trace_packet::TRACE_PACKET_DEFAULTS) {
            state.default_clock = int(defaults, trace_packet_defaults::TIMESTAMP_CLOCK_ID).unwrap();
            let event = bytes(defaults, trace_packet_defaults::TRACK_EVENT_DEFAULTS).unwrap();
            state.default_track = int(event, track_event::TRACK_UUID).unwrap();
        }
        if let Some(snapshot) = bytes(packet, trace_packet::CLOCK_SNAPSHOT) {
            let clocks = all_bytes(snapshot, clock_snapshot::CLOCKS);
            if let [boot, incremental] = clocks.as_slice() {
                assert_eq!(int(boot, clock_snapshot::clock::CLOCK_ID), Some(6));
                assert_eq!(int(incremental, clock_snapshot::clock::CLOCK_ID), Some(64));
                state.unit_ns = int(incremental, clock_snapshot::clock::UNIT_MULTIPLIER_NS).unwrap_or(1);
                state.clock = int(incremental, clock_snapshot::clock::TIMESTAMP).unwrap();
                // The boot clock as the kernel shows it, and as the clock of events does.
                let kernel = int(boot, clock_snapshot::clock::TIMESTAMP).unwrap();
                assert!(kernel.abs_diff(state.clock * state.unit_ns) <= MAX_CLOCK_ERROR_NS);
            }
        }
        if let Some(data) = bytes(packet, trace_packet::INTERNED_DATA) {
            for field in [
                interned_data::EVENT_CATEGORIES,
                interned_data::EVENT_NAMES,
                interned_data::DEBUG_ANNOTATION_NAMES,
            ] {
                for entry in all_bytes(data, field) {
                    let number = int(entry, event_name::IID).unwrap();
                    assert_ne!(number, 0);
                    let known = state.texts.insert((field, number), text(entry, event_name::NAME).unwrap());
                    assert_eq!(known, None, "a text is said once");
                }
            }
        }
    }

    fn read_descriptor(&mut self, descriptor: &[u8]) {
        let uuid = int(descriptor, track_descriptor::UUID).unwrap();
        let name = if let Some(thread) = bytes(descriptor, track_descriptor::THREAD) {
            assert_eq!(int(thread, thread_descriptor::PID), Some(std::process::id().into()));
            text(thread, thread_descriptor::THREAD_NAME).unwrap()
        } else if let Some(process) = bytes(descriptor, track_descriptor::PROCESS) {
            let pid = int(process, process_descriptor::PID).unwrap() as i64;
            self.processes.push((pid, text(process, process_descriptor::CMDLINE).unwrap()));
            "process".to_owned()
        } else {
            let counter = bytes(descriptor, track_descriptor::COUNTER).unwrap();
            let unit = int(counter, counter_descriptor::UNIT).map(|unit| format!(" unit {unit}"));
            let unit_name = text(counter, counter_descriptor::UNIT_NAME).map(|name| format!(" in {name}"));
            let name = text(descriptor, track_descriptor::STATIC_NAME).unwrap();
            name + &unit.or(unit_name).unwrap_or_default()
        };
        self.tracks.insert(uuid, name);
    }

    fn read_event(&mut self, event: &[u8], timestamp_ns: u64, state: &Sequence) {
        let kind =
            ["?", "begin", "end", "instant", "counter"][int(event, track_event::TYPE).unwrap() as usize];
        let interned = |field, number| state.texts[&(field, number)].clone();
        let mut line = kind.to_owned();
        if let Some(number) = int(event, track_event::CATEGORY_IIDS) {
            line += &format!(" {}", interned(interned_data::EVENT_CATEGORIES, number));
        }
        if let Some(number) = int(event, track_event::NAME_IID) {
            line += &format!("/{}", interned(interned_data::EVENT_NAMES, number));
        }
        if let Some(name) = text(event, track_event::NAME) {
            line += &format!("/dynamic {name}");
        }
        if let Some(value) = int(event, track_event::COUNTER_VALUE) {
            line += &format!(" {}", value as i64);
        }
        if let Some(value) = float(event, track_event::DOUBLE_COUNTER_VALUE) {
            line += &format!(" {value:?}");
        }
        for argument in all_bytes(event, track_event::DEBUG_ANNOTATIONS) {
            let number = int(argument, debug_annotation::NAME_IID).unwrap();
            line += &format!(
                " {}={}",
                interned(interned_data::DEBUG_ANNOTATION_NAMES, number),
                argument_value(argument)
            );
        }
        let uuid = int(event, track_event::TRACK_UUID).unwrap_or(state.default_track);
        let track = self.tracks.get(&uuid).cloned().expect("the track was described before");
        self.events.push(TraceEvent { timestamp_ns, track, text: line });
    }
}

impl Sequence {
    fn timestamp(&mut self, packet: &[u8]) -> u64 {
        let timestamp = int(packet, trace_packet::TIMESTAMP).unwrap();
        match int(packet, trace_packet::TIMESTAMP_CLOCK_ID).unwrap_or(self.default_clock) {
            6 => timestamp,
            64 => {
                self.clock += timestamp;
                self.clock * self.unit_ns
            }
            clock => panic!("unknown clock {clock}"),
        }
    }
}

fn argument_value(argument: &[u8]) -> String {
    let signed = int(argument, debug_annotation::INT_VALUE).map(|value| (value as i64).to_string());
    let unsigned = int(argument, debug_annotation::UINT_VALUE).map(|value| format!("{value}u"));
    let truth = int(argument, debug_annotation::BOOL_VALUE).map(|value| (value != 0).to_string());
    let real = float(argument, debug_annotation::DOUBLE_VALUE).map(|value| format!("{value:?}"));
    let string = text(argument, debug_annotation::STRING_VALUE).map(|value| format!("{value:?}"));
    signed.or(unsigned).or(truth).or(real).or(string).expect("an argument has a value")
}
