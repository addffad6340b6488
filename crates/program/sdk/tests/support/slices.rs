//! Records this process, and finds slices as Trace Processor does: by track, in the order of time, each end for the innermost.
#![allow(dead_code)] // Each test uses a part.

#[path = "fields.rs"]
mod fields;
#[path = "host.rs"]
mod own_host;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ferretto_consumer::{Consumer, Event, Observe};
use ferretto_protos::fields::{
    clock_snapshot, debug_annotation, event_name, interned_data, source_location, thread_descriptor,
    trace_packet, trace_packet_defaults, track_descriptor, track_event,
};
use ferretto_protos::text::parse_trace_config;
use ferretto_trace_read::Head;
use ferretto_traced::in_process::Host;
use fields::{all_bytes, bytes, fixed, float, int, text};
use own_host::host_with;
pub(crate) use own_host::turn;

const TIMEOUT: Duration = Duration::from_secs(30);
/// What SPECIFICATION.md says of the clock of events.
pub(crate) const MAX_CLOCK_ERROR_NS: u64 = 1000;

/// Memory for thousands of events at once.
pub(crate) fn host() -> &'static Host {
    host_with(4 * 1024 * 1024)
}

/// A recording under way.
pub(crate) struct Recording(Consumer);

impl Recording {
    /// Starts, and waits until the data source has. Records the categories that a `track_event_config` selects.
    pub(crate) fn start(track_event_config: &str) -> Self {
        let mut consumer = Consumer::over(host().connect_consumer().unwrap()).unwrap();
        let config = format!(
            "buffers {{ size_kb: 65536 }} data_sources {{ config {{ name: \"track_event\"
             track_event_config {{ {track_event_config} }} }} }}"
        );
        // The producer's registration may be on its way.
        let until = Instant::now() + TIMEOUT;
        while consumer.query_service_state(false).unwrap().data_sources.is_empty() {
            assert!(Instant::now() < until, "the producer has not registered");
            std::thread::sleep(Duration::from_millis(2));
        }
        consumer.observe(Observe::ALL_DATA_SOURCES_STARTED).unwrap();
        consumer.enable_tracing(parse_trace_config(&config).unwrap(), None).unwrap();
        loop {
            match consumer.poll(Some(TIMEOUT)) {
                Some(Event::Observed(events)) if events.all_data_sources_started() => return Self(consumer),
                None | Some(Event::TracingDisabled { .. }) => panic!("the session did not start"),
                _ => {}
            }
        }
    }

    pub(crate) fn stop(mut self) -> Slices {
        ferretto::flush(TIMEOUT);
        self.0.disable().unwrap();
        while !matches!(self.0.poll(Some(TIMEOUT)).expect("the session ends"), Event::TracingDisabled { .. })
        {
        }
        let mut reader = Reader::default();
        self.0
            .read_buffers(|packet| {
                reader.read(packet);
                Ok(())
            })
            .unwrap();
        Slices::of(reader)
    }
}

/// What a trace holds.
#[derive(Debug)]
pub(crate) struct Slices {
    pub(crate) slices: Vec<Slice>,
    pub(crate) instants: Vec<Slice>,
    /// Ends without a beginning.
    pub(crate) stray_ends: usize,
    /// Names of all tracks that were described, and how many there were of each.
    pub(crate) tracks: HashMap<String, usize>,
}

/// A slice, or an instant.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) track: u64,
    pub(crate) track_name: String,
    pub(crate) depth: usize,
    /// The slice around it.
    pub(crate) parent: Option<String>,
    pub(crate) begin_ns: u64,
    /// `None`: open at the end of the trace.
    pub(crate) end_ns: Option<u64>,
    /// Of its beginning, and then of its end.
    pub(crate) arguments: Vec<String>,
    pub(crate) flows: Vec<u64>,
    pub(crate) location: Option<String>,
}

impl Slices {
    /// Those of this name, in the order of time.
    pub(crate) fn named(&self, name: &str) -> Vec<&Slice> {
        let mut found: Vec<&Slice> = self.slices.iter().filter(|slice| slice.name == name).collect();
        found.sort_by_key(|slice| slice.begin_ns);
        found
    }

    /// The one of this name.
    pub(crate) fn only(&self, name: &str) -> &Slice {
        let found = self.named(name);
        assert_eq!(found.len(), 1, "{name}: {found:#?}");
        found[0]
    }

    pub(crate) fn instant(&self, name: &str) -> &Slice {
        self.instants
            .iter()
            .find(|instant| instant.name == name)
            .unwrap_or_else(|| panic!("no instant {name}"))
    }

    fn of(reader: Reader) -> Self {
        let mut events = reader.events;
        // Of equal times the first in the trace is the first, as in Trace Processor.
        events.sort_by_key(|event| event.slice.begin_ns);
        let mut found =
            Self { slices: Vec::new(), instants: Vec::new(), stray_ends: 0, tracks: HashMap::new() };
        let mut stacks: HashMap<u64, Vec<Slice>> = HashMap::new();
        for Packet { kind, mut slice } in events {
            slice.track_name = reader.tracks.get(&slice.track).cloned().expect("the track is described");
            let stack = stacks.entry(slice.track).or_default();
            slice.depth = stack.len();
            slice.parent = stack.last().map(|parent| parent.name.clone());
            match (kind, stack.pop()) {
                (1, top) => {
                    stack.extend(top);
                    stack.push(slice);
                }
                (2, Some(mut top)) => {
                    top.end_ns = Some(slice.begin_ns);
                    top.arguments.extend(slice.arguments);
                    top.flows.extend(slice.flows);
                    found.slices.push(top);
                }
                (2, None) => found.stray_ends += 1,
                (_, top) => {
                    stack.extend(top);
                    found.instants.push(slice);
                }
            }
        }
        found.slices.extend(stacks.into_values().flatten());
        for name in reader.tracks.into_values() {
            *found.tracks.entry(name).or_default() += 1;
        }
        found
    }
}

struct Packet {
    kind: u64,
    slice: Slice,
}

#[derive(Default)]
struct Reader {
    events: Vec<Packet>,
    tracks: HashMap<u64, String>,
    sequences: HashMap<u32, Sequence>,
}

#[derive(Default)]
struct Sequence {
    clock: u64,
    default_track: u64,
    texts: HashMap<(u32, u64), String>,
}

impl Reader {
    fn read(&mut self, packet: &[u8]) {
        let head = Head::of(packet).unwrap();
        assert!(head.sequence_id != 0);
        let state = self.sequences.entry(head.sequence_id).or_default();
        if head.clears_state() {
            *state = Sequence::default();
        }
        state.read(&head);
        if let Some((trace_packet::TRACK_DESCRIPTOR, descriptor)) = head.data {
            let uuid = int(descriptor, track_descriptor::UUID).unwrap();
            let thread = bytes(descriptor, track_descriptor::THREAD);
            let thread = thread.and_then(|thread| text(thread, thread_descriptor::THREAD_NAME));
            let name = [track_descriptor::NAME, track_descriptor::STATIC_NAME]
                .iter()
                .find_map(|field| text(descriptor, *field));
            self.tracks.insert(uuid, thread.or(name).unwrap_or_else(|| "process".to_owned()));
        }
        if let Some(timestamp) = head.timestamp
            && (head.clears_state() || head.needs_state())
        {
            let begin_ns = state.timestamp(&head, timestamp);
            if let Some((trace_packet::TRACK_EVENT, event)) = head.data {
                self.events.push(state.event(event, begin_ns));
            }
        }
    }
}

impl Sequence {
    fn read(&mut self, head: &Head<'_>) {
        if let Some(defaults) = head.defaults {
            let event = bytes(defaults, trace_packet_defaults::TRACK_EVENT_DEFAULTS).unwrap();
            self.default_track = int(event, track_event::TRACK_UUID).unwrap();
        }
        if let Some((trace_packet::CLOCK_SNAPSHOT, snapshot)) = head.data {
            for clock in all_bytes(snapshot, clock_snapshot::CLOCKS) {
                if int(clock, clock_snapshot::clock::CLOCK_ID) == Some(64) {
                    self.clock = int(clock, clock_snapshot::clock::TIMESTAMP).unwrap();
                }
            }
        }
        let Some(data) = head.interned_data else { return };
        for field in [
            interned_data::EVENT_CATEGORIES,
            interned_data::EVENT_NAMES,
            interned_data::DEBUG_ANNOTATION_NAMES,
        ] {
            for entry in all_bytes(data, field) {
                let number = int(entry, event_name::IID).unwrap();
                self.texts.insert((field, number), text(entry, event_name::NAME).unwrap());
            }
        }
        for entry in all_bytes(data, interned_data::SOURCE_LOCATIONS) {
            let file = text(entry, source_location::FILE_NAME).unwrap();
            let line = int(entry, source_location::LINE_NUMBER).unwrap();
            let number = int(entry, source_location::IID).unwrap();
            self.texts.insert((interned_data::SOURCE_LOCATIONS, number), format!("{file}:{line}"));
        }
    }

    fn timestamp(&mut self, head: &Head<'_>, timestamp: u64) -> u64 {
        if head.clock_id.is_some() {
            return timestamp;
        }
        self.clock += timestamp;
        self.clock
    }

    fn event(&self, event: &[u8], begin_ns: u64) -> Packet {
        let interned =
            |field, number: Option<u64>| number.and_then(|number| self.texts.get(&(field, number)).cloned());
        let name = interned(interned_data::EVENT_NAMES, int(event, track_event::NAME_IID));
        let category = interned(interned_data::EVENT_CATEGORIES, int(event, track_event::CATEGORY_IIDS));
        let arguments = all_bytes(event, track_event::DEBUG_ANNOTATIONS).into_iter().map(|argument| {
            let name =
                interned(interned_data::DEBUG_ANNOTATION_NAMES, int(argument, debug_annotation::NAME_IID));
            let name = name.or(text(argument, debug_annotation::NAME)).unwrap();
            format!("{name}={}", value(argument))
        });
        let slice = Slice {
            name: text(event, track_event::NAME).or(name).unwrap_or_default(),
            category: category.unwrap_or_default(),
            track: int(event, track_event::TRACK_UUID).unwrap_or(self.default_track),
            track_name: String::new(),
            depth: 0,
            parent: None,
            begin_ns,
            end_ns: None,
            arguments: arguments.collect(),
            flows: fixed(event, track_event::FLOW_IDS)
                .chain(fixed(event, track_event::TERMINATING_FLOW_IDS))
                .collect(),
            location: interned(interned_data::SOURCE_LOCATIONS, int(event, track_event::SOURCE_LOCATION_IID)),
        };
        Packet { kind: int(event, track_event::TYPE).unwrap(), slice }
    }
}

fn value(argument: &[u8]) -> String {
    let signed = int(argument, debug_annotation::INT_VALUE).map(|value| (value as i64).to_string());
    let unsigned = int(argument, debug_annotation::UINT_VALUE).map(|value| value.to_string());
    let truth = int(argument, debug_annotation::BOOL_VALUE).map(|value| (value != 0).to_string());
    let real = float(argument, debug_annotation::DOUBLE_VALUE).map(|value| value.to_string());
    let list = all_bytes(argument, debug_annotation::ARRAY_VALUES);
    let list = (!list.is_empty()).then(|| list.into_iter().map(value).collect::<Vec<_>>().join("+"));
    signed
        .or(unsigned)
        .or(truth)
        .or(real)
        .or(text(argument, debug_annotation::STRING_VALUE))
        .or(list)
        .expect("an argument has a value")
}
