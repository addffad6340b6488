//! What is comparable in a recording: keys and values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use ferretto_protos::fields::trace_packet as field;
use ferretto_protos::text;
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_read::{Batch, End, Reader};

use crate::case::Case;
use crate::differences::Difference;
use crate::producer::Told;

/// Packets of the service have this sequence id.
const SERVICE_SEQUENCE: u64 = 1;
const TRACE_PACKET: &str = "perfetto.protos.TracePacket";
const DATA_SOURCE_CONFIG: &str = "perfetto.protos.DataSourceConfig";

/// Fields that stand beside the data of a packet.
const BESIDE_DATA: [&str; 10] = [
    "timestamp",
    "timestamp_clock_id",
    "trusted_uid",
    "trusted_packet_sequence_id",
    "trusted_pid",
    "machine_id",
    "previous_packet_dropped",
    "sequence_flags",
    "incremental_state_cleared",
    "first_packet_on_sequence",
];
/// Besides, in packets with track events.
const BESIDE_TRACK_EVENTS: [&str; 2] = ["interned_data", "trace_packet_defaults"];

/// Ends of paths whose values are never the same twice; that they are there is compared.
const VOLATILE: [&str; 12] = [
    "timestamp",
    "trace_uuid_msb",
    "trace_uuid_lsb",
    "trace_uuid.msb",
    "trace_uuid.lsb",
    "tracing_service_version",
    "system_info.system_ram_bytes",
    "tracing_service_version_code",
    "read_tracing_buffers_completed",
    "trigger.trusted_producer_uid",
    "clone_snapshot_trigger.trusted_producer_uid",
    "boot_timestamp",
];
/// Versions have it in different places, so where it is is a key of its own.
const MARKER: &str = "synchronization_marker";
/// The value of a key that a recording does not have.
const NOTHING: &str = "-";
const IGNORED: &str = "*";
/// The two halves of an id that a config of the corpus sets.
const CHOSEN: [&str; 2] = ["4242", "2424"];

/// Keys and values of a recording.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    values: BTreeMap<String, String>,
    /// Kinds of packets in the order of each trace.
    orders: BTreeMap<String, Vec<String>>,
    remarks: String,
}

/// Of those who may have written a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pids {
    pub(crate) own: u32,
    pub(crate) client: Option<u32>,
}

/// What a sequence holds.
#[derive(Debug, Default)]
struct Sequence {
    trusted: BTreeSet<String>,
    kinds: BTreeMap<String, usize>,
    /// `seq_value` of test packets, in order.
    numbers: Vec<u64>,
    /// Sequence flags, marks of the first packet and of losses, each with the packet's place.
    flags: BTreeMap<String, Vec<u64>>,
    packets: u64,
}

impl Digest {
    pub(crate) fn set(&mut self, key: String, value: impl ToString) {
        self.values.insert(key, value.to_string());
    }

    fn count(&mut self, key: String) {
        let value = self.values.entry(key).or_insert_with(|| "0".to_owned());
        let count: u64 = value.parse().expect("a count");
        *value = (count + 1).to_string();
    }

    /// Something to show to a person, not to compare.
    pub(crate) fn remark(&mut self, text: &str) {
        let errors = text.lines().filter(|line| line.contains("rror"));
        self.remarks.extend(errors.map(|line| format!("{line}\n")));
    }

    /// What a producer was told.
    pub(crate) fn told(&mut self, name: &str, told: &Told) {
        self.set(format!("{name}.told"), told.order.join(", "));
        self.set(format!("{name}.flushes"), told.flushes);
        self.set(format!("{name}.flush_flags"), format!("{:?}", told.flush_flags));
        self.set(format!("{name}.clears"), told.clears);
        for (index, config) in told.setups.iter().enumerate() {
            for (path, value) in fields(DATA_SOURCE_CONFIG, config) {
                self.set(format!("{name}.setup {index}.{path}"), value);
            }
        }
    }

    /// The packets of a trace.
    pub(crate) fn trace(&mut self, name: &str, bytes: &[u8], pids: Pids) {
        let mut sequences: BTreeMap<u64, Sequence> = BTreeMap::new();
        let (mut order, mut seen) = (Vec::new(), BTreeMap::<String, usize>::new());
        for packet in packets(bytes) {
            let paths = fields(TRACE_PACKET, &packet);
            let kind = kind(&paths);
            self.count(format!("{name}.packets.{kind}"));
            if order.last() != Some(&kind) {
                order.push(kind.clone());
            }
            let sequence = number(&packet, field::TRUSTED_PACKET_SEQUENCE_ID);
            if sequence == Some(SERVICE_SEQUENCE) || sequence.is_none() {
                let index = seen.entry(kind.clone()).or_default();
                // Repeated packets of a kind say the same again.
                if *index == 0 {
                    self.own_packet(name, &kind, &paths);
                }
                *index += 1;
            } else {
                sequences.entry(sequence.unwrap_or_default()).or_default().add(&packet, &kind, &paths, pids);
            }
        }
        for (id, sequence) in sequences {
            sequence.digest(|what, value| self.set(format!("{name}.sequence {id}.{what}"), value));
        }
        let is_marker = |kind: &String| kind == MARKER;
        if let Some(marker) = order.iter().position(is_marker) {
            self.set(format!("{name}.before the marker"), order[..marker].join(" "));
        }
        order.retain(|kind| !is_marker(kind));
        self.orders.insert(format!("{name}.order"), order);
    }

    fn own_packet(&mut self, name: &str, kind: &str, paths: &[(String, String)]) {
        for (path, value) in paths {
            let is_volatile = VOLATILE.iter().any(|end| path.ends_with(end));
            let value = if is_volatile && !CHOSEN.contains(&value.as_str()) { "set" } else { value };
            self.set(format!("{name}.{kind}: {path}"), value);
        }
    }
}

impl Sequence {
    fn add(&mut self, packet: &[u8], kind: &str, paths: &[(String, String)], pids: Pids) {
        let who = match number(packet, field::TRUSTED_PID) {
            None => "no pid".to_owned(),
            Some(pid) if pid == u64::from(pids.own) => "the producer".to_owned(),
            Some(pid) if pids.client.is_some_and(|client| pid == u64::from(client)) => {
                "the client".to_owned()
            }
            Some(_) => "another pid".to_owned(),
        };
        self.trusted.insert(format!("{who} {:?}", number(packet, field::TRUSTED_UID)));
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        let value = |wanted: &str| paths.iter().find(|(path, _)| path == wanted).map(|(_, value)| value);
        if let Some(number) = value("for_testing.seq_value") {
            self.numbers.push(number.parse().expect("a number"));
        }
        for flag in ["sequence_flags", "first_packet_on_sequence", "previous_packet_dropped", "machine_id"] {
            if let Some(value) = value(flag) {
                self.flags.entry(format!("{flag} {value}")).or_default().push(self.packets);
            }
        }
        self.packets += 1;
    }

    fn digest(self, mut set: impl FnMut(&str, String)) {
        set("from", format!("{:?}", self.trusted));
        for (kind, count) in self.kinds {
            set(&kind, count.to_string());
        }
        set("numbers", ranges(&self.numbers));
        for (flag, places) in self.flags {
            set(&flag, ranges(&places));
        }
    }
}

/// What differs, without what depends on time.
pub(crate) fn differences(case: &Case, upstream: &Digest, ours: &Digest) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut missing: Vec<String> = Vec::new();
    let mut compare = |key: &str, upstream: String, ours: String| {
        if upstream == ours
            || [&upstream, &ours].contains(&&IGNORED.to_owned())
            || missing.iter().any(|above| is_inside(key, above))
        {
            return;
        }
        if upstream == NOTHING || ours == NOTHING {
            missing.push(key.to_owned());
        }
        differences.push(Difference { case: case.name.clone(), key: key.to_owned(), upstream, ours });
    };
    // A message comes before what is in it.
    for key in upstream.values.keys().chain(ours.values.keys()).collect::<BTreeSet<_>>() {
        let [upstream, ours] = [upstream, ours].map(|digest| {
            let is_there = kind_of(key).is_none_or(|packets| digest.values.contains_key(&packets));
            comparable(case, key, digest.values.get(key), is_there)
        });
        compare(key, upstream, ours);
    }
    for key in upstream.orders.keys().chain(ours.orders.keys()).collect::<BTreeSet<_>>() {
        if !case.is_loose(key) {
            let [upstream, ours] = [(upstream, ours), (ours, upstream)].map(|pair| order(case, key, pair));
            compare(key, upstream, ours);
        }
    }
    differences
}

/// The kinds of packets of a trace, without those that the other trace has not as often: those are differences already.
fn order(case: &Case, key: &str, (of, other): (&Digest, &Digest)) -> String {
    let trace = key.trim_end_matches("order");
    let mut kinds: Vec<&str> = of.orders.get(key).into_iter().flatten().map(String::as_str).collect();
    kinds.retain(|kind| {
        let count = format!("{trace}packets.{kind}");
        of.values.get(&count) == other.values.get(&count)
            && !case.is_loose(&count)
            && !case.is_ignored(&count)
    });
    kinds.dedup();
    kinds.join(" ")
}

/// Whether a key belongs to a message of this key.
fn is_inside(key: &str, message: &str) -> bool {
    key.strip_prefix(message).is_some_and(|rest| rest.starts_with('.'))
}

/// For a field of one of the service's packets, the key of how many of these packets there are.
fn kind_of(key: &str) -> Option<String> {
    let (packet, _) = key.split_once(": ")?;
    let (trace, kind) = packet.split_once('.')?;
    Some(format!("{trace}.packets.{kind}"))
}

fn comparable(case: &Case, key: &str, value: Option<&String>, is_there: bool) -> String {
    match value {
        // Of a packet that is not there its fields are no difference.
        _ if !is_there || case.is_ignored(key) => IGNORED.to_owned(),
        None if case.is_loose(key) => "0".to_owned(),
        None => NOTHING.to_owned(),
        Some(value) if case.is_loose(key) => {
            if value == "0" {
                "0".to_owned()
            } else {
                "some".to_owned()
            }
        }
        Some(value) => value.clone(),
    }
}

/// For people.
pub(crate) fn side_by_side(upstream: &Digest, ours: &Digest) -> String {
    let mut out = format!("upstream says:\n{}ours says:\n{}", upstream.remarks, ours.remarks);
    let none = "-".to_owned();
    for key in upstream.values.keys().chain(ours.values.keys()).collect::<BTreeSet<_>>() {
        let [upstream, ours] = [upstream, ours].map(|digest| digest.values.get(key).unwrap_or(&none));
        let mark = if upstream == ours { ' ' } else { '*' };
        let _ = writeln!(out, "{mark} {key} = {upstream} | {ours}");
    }
    for (key, order) in &upstream.orders {
        let _ = writeln!(out, "  {key}\n    {}\n    {}", order.join(" "), ours.orders[key].join(" "));
    }
    out
}

/// The packets of a trace, also those in compressed ones.
fn packets(trace: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let end =
        Reader::new(trace).for_each(|packet, _| packets.push(packet.to_vec())).expect("it is in memory");
    let whole = End { bytes: trace.len() as u64, packets: packets.len() as u64, ..End::default() };
    assert_eq!(end, whole, "the trace is damaged");
    // Nobody compresses twice.
    assert!(packets.iter().all(|packet| Batch::of(packet).is_none()));
    packets
}

fn number(packet: &[u8], wanted: u32) -> Option<u64> {
    // The last one counts.
    Fields::new(packet).filter_map(Result::ok).filter(|found| found.number == wanted).last().and_then(
        |found| match found.value {
            Value::Varint(number) => Some(number),
            _ => None,
        },
    )
}

/// What a packet is: its data fields, and of the service's events which.
fn kind(paths: &[(String, String)]) -> String {
    let mut kinds = BTreeSet::new();
    for (path, _) in paths {
        let mut names = path.split('.');
        let name = names.next().unwrap_or_default().split('[').next().unwrap_or_default();
        match name {
            "service_event" => names.next().is_some_and(|event| kinds.insert(event.to_owned())),
            name if BESIDE_DATA.contains(&name) || BESIDE_TRACK_EVENTS.contains(&name) => false,
            name => kinds.insert(name.to_owned()),
        };
    }
    kinds.into_iter().collect::<Vec<_>>().join("+")
}

/// A message as paths and values: `buffers.size_kb`, `buffers[1].size_kb`.
fn fields(message: &str, bytes: &[u8]) -> Vec<(String, String)> {
    let text = text::format(message, bytes).expect("a message");
    let (mut out, mut open) = (Vec::new(), vec![(String::new(), BTreeMap::<&str, usize>::new())]);
    for line in text.lines().map(str::trim_start) {
        if line == "}" {
            open.pop();
            continue;
        }
        let (name, value) = match line.strip_suffix(" {") {
            Some(name) => (name, None),
            None => line.split_once(": ").map(|(name, value)| (name, Some(value))).expect("a field"),
        };
        let (above, seen) = open.last_mut().expect("balanced braces");
        let index = seen.entry(name).or_default();
        let dot = if above.is_empty() { "" } else { "." };
        let path = match *index {
            0 => format!("{above}{dot}{name}"),
            index => format!("{above}{dot}{name}[{index}]"),
        };
        *index += 1;
        match value {
            Some(value) => out.push((path, value.to_owned())),
            None => {
                // That an empty message is there is said, too.
                out.push((path.clone(), "{}".to_owned()));
                open.push((path, BTreeMap::new()));
            }
        }
    }
    out
}

/// `0-9 12`.
fn ranges(numbers: &[u64]) -> String {
    let mut out = String::new();
    let mut rest = numbers.iter().peekable();
    while let Some(&first) = rest.next() {
        let mut last = first;
        while let Some(next) = rest.next_if(|next| **next == last + 1) {
            last = *next;
        }
        let space = if out.is_empty() { "" } else { " " };
        let _: fmt::Result = match first == last {
            true => write!(out, "{space}{first}"),
            false => write!(out, "{space}{first}-{last}"),
        };
    }
    out
}

#[test]
fn messages_become_paths() {
    let config =
        ferretto_interop::config("buffers { size_kb: 1 } buffers {} buffers { size_kb: 2 } duration_ms: 3");
    let fields = fields(text::TRACE_CONFIG, &config);
    let expected = [
        ("buffers", "{}"),
        ("buffers.size_kb", "1"),
        ("buffers[1]", "{}"),
        ("buffers[2]", "{}"),
        ("buffers[2].size_kb", "2"),
        ("duration_ms", "3"),
    ];
    assert_eq!(fields, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
    assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2 5 7-8");
}
