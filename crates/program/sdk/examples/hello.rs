//! Traces for a few seconds: slices on several threads, instants, counters, arguments.
//!
//! Record it while it runs: `ferretto record` with the data source `track_event`. `hello [SECONDS]`, 5 without.

use std::thread;
use std::time::{Duration, Instant};

use ferretto::{CounterTrack, Unit};

ferretto::categories! {
    /// What this example traces.
    static CATEGORIES = {
        WORK = "hello.work", "Units of work on the worker threads";
        STATE = "hello.state", "What the main thread sees";
        DETAIL = "hello.detail", "Every step; off unless asked for", ["slow"];
    }
}

static DONE: CounterTrack = CounterTrack::new("units done").with_unit(Unit::Count);

fn main() -> Result<(), ferretto::InitError> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5.0);
    ferretto::builder("ferretto.hello").categories(CATEGORIES).init()?;

    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let workers: Vec<_> = (0..3)
        .map(|number| {
            let name = format!("worker-{number}");
            thread::Builder::new().name(name).spawn(move || work(number, end)).expect("a thread")
        })
        .collect();
    watch(end);
    for worker in workers {
        worker.join().expect("workers do not panic");
    }
    ferretto::flush(Duration::from_secs(1));
    Ok(())
}

fn work(worker: u32, end: Instant) {
    let mut unit = 0_u64;
    while Instant::now() < end {
        let _slice =
            ferretto::slice!(WORK, "unit", worker = worker, unit = unit, even = unit.is_multiple_of(2));
        step("read", 300);
        step("compute", 700);
        ferretto::instant!(WORK, format!("finished {unit}"), progress = 0.5, text = "with a text");
        unit += 1;
        thread::sleep(Duration::from_millis(2));
    }
}

fn step(name: &'static str, micros: u64) {
    ferretto::begin!(WORK, name);
    ferretto::instant!(DETAIL, "in a step", micros = micros);
    thread::sleep(Duration::from_micros(micros));
    ferretto::end!(WORK, micros = micros);
}

fn watch(end: Instant) {
    let start = Instant::now();
    let mut rounds = 0;
    while Instant::now() < end {
        ferretto::counter!(STATE, DONE, rounds);
        ferretto::counter!(STATE, "seconds", start.elapsed().as_secs_f64());
        ferretto::instant!("hello.undeclared", "round", round = rounds);
        rounds += 1;
        thread::sleep(Duration::from_millis(10));
    }
}
