//! More threads than there are ids for writers, in a session that nobody reads until it ends. A program of its own, for the ids are the process's.

use std::collections::HashSet;

use ferretto::protos::{Trace, debug_annotation, trace_packet};
use ferretto::{Backends, TracingSession};
use prost::Message;

/// A writer's id is used again after 32,767 others.
const THREADS: u64 = 34_000;
const AT_ONCE: u64 = 8;

#[test]
fn each_threads_event_is_in_the_trace() {
    ferretto::builder("test").backends(Backends::IN_PROCESS).init().unwrap();
    let session = TracingSession::in_process().unwrap().buffer_size_kb(64 * 1024).start().unwrap();
    for first in (0..THREADS).step_by(AT_ONCE as usize) {
        std::thread::scope(|scope| {
            for number in first..first + AT_ONCE {
                scope.spawn(move || ferretto::instant!("many", "one", number));
            }
        });
    }
    let trace = Trace::decode(&*session.stop().unwrap().into_vec().unwrap()).unwrap();
    let events = trace.packet.iter().filter_map(|packet| match &packet.data {
        Some(trace_packet::Data::TrackEvent(event)) => event.debug_annotations.first(),
        _ => None,
    });
    let numbers: HashSet<u64> = events
        .filter_map(|argument| match argument.value {
            Some(debug_annotation::Value::UintValue(number)) => Some(number),
            _ => None,
        })
        .collect();
    assert_eq!(numbers.len() as u64, THREADS);
}
