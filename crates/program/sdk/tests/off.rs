//! With the feature `off` nothing is left of trace points: `cargo test -p ferretto --features off --test off`.

use std::alloc::System;
use std::time::Duration;

use ferretto::{Backends, CounterTrack, DataSource, DataSourceHandle, StateTrack, TracingSession};

#[global_allocator]
static ALLOCATOR: ferretto::heap::Profiled<System> = ferretto::heap::Profiled::new(System);
static ARENA: ferretto::heap::Heap = ferretto::heap::Heap::new("ferretto off: arena");
static COUNTER: CounterTrack = CounterTrack::new("ferretto off: counter");
static STATE: StateTrack = StateTrack::new("ferretto off: state");
static SOURCE: DataSourceHandle<Source> = DataSourceHandle::new();

#[derive(Default)]
struct Source;

impl DataSource for Source {
    type IncrementalState = ();
    type ThreadState = ();
}

fn trace(evaluated: &mut u32) {
    let mut count = || {
        *evaluated += 1;
        "ferretto off: value"
    };
    let _slice = ferretto::slice!("off", "ferretto off: slice", text = count());
    ferretto::instant!("off", "ferretto off: instant", text = %count());
    ferretto::begin!("off", count());
    ferretto::end!("off", text = count());
    ferretto::counter!("off", COUNTER, count().len());
    ferretto::state!("off", STATE, "ferretto off: up", text = count());
    ferretto::log!("off", ferretto::Severity::Info, "ferretto off: log {}", count());
    let span = ferretto::span!("off", "ferretto off: span", text = count());
    assert!(!span.is_enabled());
    assert!(!ferretto::enabled!("off"));
    SOURCE.trace(|_| *evaluated += 1);
    assert!(!ARENA.allocated(1, 1 << 40));
    ARENA.freed(1);
}

#[test]
fn nothing_is_evaluated_and_nothing_is_recorded() {
    let descriptor = ferretto::protos::DataSourceDescriptor {
        name: Some("ferretto.off".to_owned()),
        ..Default::default()
    };
    SOURCE.register(descriptor).unwrap();
    ferretto::builder("off").backends(Backends::IN_PROCESS).init().unwrap();
    let session = TracingSession::in_process().unwrap().categories(["*"]).start().unwrap();
    let mut evaluated = 0;
    trace(&mut evaluated);
    assert!(ferretto::flush(Duration::from_secs(10)));
    let trace = session.stop().unwrap().into_vec().unwrap();
    assert_eq!(evaluated, 0);
    assert!(!contains(&trace, "ferretto off: "));
}

#[test]
fn nothing_of_them_is_in_the_program() {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(contains(&program, "ferretto off: this is found"));
    for name in ["slice", "instant", "span", "log", "up"] {
        // Put together here, so that the whole text is not in the program for this test.
        let text = ["ferretto", " off: ", name].concat();
        assert!(!contains(&program, &text), "{text} is in the program");
    }
    // Backwards, for two texts of this test may lie behind each other.
    let text: String = "deknil si reliforp paeh a".chars().rev().collect();
    assert!(!contains(&program, &text), "its allocator asks for a profiler");
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
