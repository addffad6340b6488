//! What the counters of `linux.perf` are called, and their units (upstream: perf_sample_tracker.cc). Names are those of the tool `perf`.

use crate::wire;
use ferretto_protos::fields::perf_events::{raw_event, timebase, tracepoint};
use ferretto_protos::fields::{follower_event, perf_sample_defaults as defaults};
use ferretto_trace_tables::Str;
use ferretto_trace_tables::tables::Tables;

/// `PerfEvents.Counter`, by number: name and unit.
const COUNTERS: [(&str, &str); 21] = [
    ("unknown", "count"),
    ("cpu-clock", "ns"),
    ("page-faults", "count"),
    ("task-clock", "ns"),
    ("context-switches", "count"),
    ("cpu-migrations", "count"),
    ("minor-faults", "count"),
    ("major-faults", "count"),
    ("alignment-faults", "count"),
    ("emulation-faults", "count"),
    ("cpu-cycles", "cycles"),
    ("instructions", "instructions"),
    ("cache-references", "count"),
    ("cache-misses", "count"),
    ("branch-instructions", "count"),
    ("branch-misses", "count"),
    ("bus-cycles", "cycles"),
    ("stalled-cycles-frontend", "count"),
    ("stalled-cycles-backend", "count"),
    ("ref-cycles", "cycles"),
    ("dummy", "count"),
];

/// A counter.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// Its name.
    pub name: Str,
    /// What it counts, if that is known.
    pub unit: Option<Str>,
}

/// Counters that one stream reads together. Ours: the kernel reads at most some dozens of a processor's at once.
const MAX_FOLLOWERS: usize = 1024;

/// The counters of a stream, the one that is sampled by first. A recorder that says nothing is an old one, with a timer.
#[must_use]
pub fn of_stream(said: Option<&[u8]>, tables: &mut Tables) -> Vec<Counter> {
    let Some(said) = said else {
        let (name, unit) = COUNTERS[1];
        return vec![Counter { name: tables.strings.intern(name), unit: Some(tables.strings.intern(unit)) }];
    };
    let first = wire::bytes(said, defaults::TIMEBASE).unwrap_or_default();
    let followers = wire::all_bytes(said, defaults::FOLLOWERS).take(MAX_FOLLOWERS);
    std::iter::once(read(first, &TIMEBASE, tables))
        .chain(followers.map(|it| read(it, &FOLLOWER, tables)))
        .collect()
}

/// The same fields have other numbers in `Timebase` and in `FollowerEvent`.
struct Numbers {
    name: u32,
    counter: u32,
    tracepoint: u32,
    raw_event: u32,
    modifiers: u32,
}

const TIMEBASE: Numbers = Numbers {
    name: timebase::NAME,
    counter: timebase::COUNTER,
    tracepoint: timebase::TRACEPOINT,
    raw_event: timebase::RAW_EVENT,
    modifiers: timebase::MODIFIERS,
};

const FOLLOWER: Numbers = Numbers {
    name: follower_event::NAME,
    counter: follower_event::COUNTER,
    tracepoint: follower_event::TRACEPOINT,
    raw_event: follower_event::RAW_EVENT,
    modifiers: follower_event::MODIFIERS,
};

fn read(message: &[u8], numbers: &Numbers, tables: &mut Tables) -> Counter {
    let (mut said, mut counter, mut tracepoint, mut raw) = (None, None, None, None);
    let mut modifiers = String::new();
    for field in wire::fields(message) {
        let (bytes, number) = (field.value.as_bytes(), field.value.as_u64());
        if field.number == numbers.name {
            said = bytes.filter(|name| !name.is_empty());
        } else if field.number == numbers.counter {
            counter = number;
        } else if field.number == numbers.tracepoint {
            tracepoint = bytes;
        } else if field.number == numbers.raw_event {
            raw = bytes;
        } else if field.number == numbers.modifiers {
            modifiers.extend(wire::numbers_of(field.value).filter_map(modifier).take(MAX_FOLLOWERS));
        }
    }
    let known = counter.map(|number| {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        COUNTERS.get(index).copied().unwrap_or(COUNTERS[0])
    });
    let mut name = match (said, known, tracepoint, raw) {
        (Some(said), ..) => String::from_utf8_lossy(said).into_owned(),
        (None, Some((name, _)), ..) => name.to_owned(),
        (None, None, Some(point), _) => {
            let name = wire::bytes(point, tracepoint::NAME).unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        }
        (None, None, None, Some(raw)) => raw_name(raw),
        (None, None, None, None) => "unknown".to_owned(),
    };
    if !modifiers.is_empty() {
        name = format!("{name}:{modifiers}");
    }
    let unit = known.map(|(_, unit)| unit).or(tracepoint.map(|_| "count"));
    Counter { name: tables.strings.intern(&name), unit: unit.map(|unit| tables.strings.intern(unit)) }
}

fn raw_name(message: &[u8]) -> String {
    let number = |field| wire::number(message, field).unwrap_or(0);
    format!(
        "raw.{:#x}.{:#x}.{:#x}.{:#x}",
        number(raw_event::TYPE) as u32,
        number(raw_event::CONFIG),
        number(raw_event::CONFIG1),
        number(raw_event::CONFIG2)
    )
}

fn modifier(number: u64) -> Option<char> {
    match number {
        1 => Some('u'),
        2 => Some('k'),
        3 => Some('h'),
        _ => None,
    }
}
