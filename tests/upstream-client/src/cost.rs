//! What a trace point of upstream's client library costs: the counterpart of `crates/program/sdk/examples/cost.rs`, with the same runs, the
//! same shared memory and the same way to look at the trace.

use std::error::Error;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use perfetto_sdk::tracing_session::TracingSession;
use perfetto_sdk::track_event::{EventContext, TrackEvent, TrackEventDebugArg};
use perfetto_sdk::{
    scoped_track_event, track_event_categories, track_event_category_enabled, track_event_instant,
};

track_event_categories! {
    pub mod categories {
        ( "cost", "What is measured", [] ),
        ( "off", "Nobody records it", [] ),
    }
}
use categories as perfetto_te_ns;

const RUNS: usize = 15;
const REPETITIONS: u64 = 30_000;
const OFF_REPETITIONS: u64 = 10_000_000;
const SHARED_MEMORY_KIB: u32 = 4 * 1024;
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let args =
        ProducerInitArgsBuilder::new().backends(Backends::IN_PROCESS).shmem_size_hint_kb(SHARED_MEMORY_KIB);
    Producer::init(args.build());
    TrackEvent::init();
    categories::register()?;
    let mut session = TracingSession::in_process()?;
    session.setup(&config());
    session.start_blocking();
    while !track_event_category_enabled!("cost") {
        std::thread::sleep(Duration::from_millis(1));
    }
    report("off", &mut session, OFF_REPETITIONS, |number| {
        track_event_instant!("off", "event", |context: &mut EventContext| {
            context.add_debug_arg("number", TrackEventDebugArg::Uint64(number));
        });
    });
    let mut expected = warm_up(&mut session);
    expected += report("instant", &mut session, REPETITIONS, |_| track_event_instant!("cost", "event"));
    expected += 2 * report("span", &mut session, REPETITIONS, |_| {
        scoped_track_event!("cost", "event");
    });
    expected += 2 * report("args2", &mut session, REPETITIONS, |number| {
        scoped_track_event!("cost", "event", |context: &mut EventContext| {
            context.add_debug_arg("number", TrackEventDebugArg::Uint64(number));
            context.add_debug_arg("half", TrackEventDebugArg::Uint64(number / 2));
        });
    });
    session.flush_blocking(TIMEOUT);
    session.stop_blocking();
    let found = events_in_trace(&mut session);
    if found != expected {
        return Err(format!("the trace holds {found} of {expected} events: the figures mean nothing").into());
    }
    Ok(())
}

/// Fills the shared memory once.
fn warm_up(session: &mut TracingSession) -> u64 {
    const ROUNDS: u64 = 12;
    for _ in 0..ROUNDS {
        (0..REPETITIONS).for_each(|_| track_event_instant!("cost", "event"));
        session.flush_blocking(TIMEOUT);
    }
    ROUNDS * REPETITIONS
}

fn report(name: &str, session: &mut TracingSession, repetitions: u64, mut work: impl FnMut(u64)) -> u64 {
    let mut runs: Vec<f64> = (0..=RUNS)
        .map(|_| {
            session.flush_blocking(TIMEOUT);
            let start = Instant::now();
            (0..repetitions).for_each(|number| work(black_box(number)));
            start.elapsed().as_secs_f64() * 1e9 / repetitions as f64
        })
        .skip(1)
        .collect();
    runs.sort_by(f64::total_cmp);
    println!("{name} {:.2}", runs[RUNS / 2]);
    repetitions * (RUNS as u64 + 1)
}

/// `TraceConfig`: `buffers { size_kb }`, `data_sources { config { name track_event_config { … } } }`.
fn config() -> Vec<u8> {
    let buffer = [varint(1 << 3), varint(512 * 1024)].concat();
    let categories = [bytes(1, b"*"), bytes(2, b"cost")].concat();
    let source = [bytes(1, b"track_event"), bytes(113, &categories)].concat();
    [bytes(1, &buffer), bytes(2, &bytes(1, &source))].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn events_in_trace(session: &mut TracingSession) -> u64 {
    let trace = Arc::new(Mutex::new(Vec::new()));
    let sink = trace.clone();
    session.read_trace_blocking(move |bytes, _| sink.lock().unwrap().extend_from_slice(bytes));
    let trace = trace.lock().unwrap();
    let mut rest = trace.as_slice();
    let mut events = 0;
    while let Some((_, packet)) = next_field(&mut rest) {
        let mut packet = packet;
        events += u64::from(std::iter::from_fn(|| next_field(&mut packet)).any(|(field, _)| field == 11));
    }
    events
}

/// The number of a message's next field, and its bytes if it has a length.
fn next_field<'a>(message: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let tag = next_varint(message)?;
    let len = match tag & 7 {
        0 => {
            next_varint(message)?;
            0
        }
        1 => 8,
        2 => next_varint(message)? as usize,
        _ => 4,
    };
    let (value, rest) = message.split_at_checked(len)?;
    *message = rest;
    Some((tag >> 3, value))
}

fn next_varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}
