//! A clone for which there is not enough memory. The limit is the whole process's, so this file has one test.
#![cfg(target_os = "linux")]

mod world;

use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::{CloneSessionRequest, CloneSessionResponse};
use ferretto_service::{ConsumerCall, ConsumerConn};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use world::{World, packet};

const SMALL: u16 = 1;
const LARGE: u16 = 2;

/// Packets of 30 kB, so that a copy of the large buffer takes much more than [`ROOM_BYTES`].
const LARGE_PACKETS: u32 = 1600;
/// For all that a clone takes besides the large buffer.
const ROOM_BYTES: u64 = 16 * 1024 * 1024;

const CONFIG: &str = "
    buffers { size_kb: 128 transfer_on_clone: true }
    buffers { size_kb: 65536 }
    data_sources { config { name: 'data' target_buffer: 0 } }
    data_sources { config { name: 'data' target_buffer: 1 } }
    producers { producer_name: 'p' shm_size_kb: 1024 page_size_kb: 32 }";

/// Runs something while this process can take no more address space than this, beyond what it has.
fn with_room<T>(bytes: u64, run: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::As);
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    let taken = pages * rustix::param::page_size() as u64;
    setrlimit(Resource::As, Rlimit { current: Some(taken + bytes), ..before }).unwrap();
    let result = run();
    setrlimit(Resource::As, before).unwrap();
    result
}

fn clone(world: &mut World) -> (ConsumerConn, CloneSessionResponse) {
    let other = world.consumer(1000);
    let request = CloneSessionRequest { selector: Some(Selector::SessionId(1)), ..Default::default() };
    world.ask(other, ConsumerCall::CloneSession(request));
    for producer in world.producers.keys().copied().collect::<Vec<_>>() {
        world.acknowledge_flushes(producer);
    }
    world.advance_ms(0);
    let response = world.answer(other, "CloneSession");
    (other, response)
}

#[test]
fn a_clone_that_fails_halfway_leaves_nothing_and_takes_nothing() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, CONFIG);
    world.emit(producer, 1, 0, SMALL, &[&packet("small")]);
    let large = packet(&"x".repeat(30_000));
    for chunk in 0..LARGE_PACKETS {
        world.emit(producer, 2, chunk, LARGE, &[&large]);
    }
    let (_, refused) = with_room(ROOM_BYTES, || clone(&mut world));
    assert!(refused.error().contains("no memory"), "{refused:?}");
    let stats = world.stats(consumer);
    assert_eq!((stats.tracing_sessions(), stats.total_buffers()), (1, 2));
    // What was to be transferred is still there.
    let (other, response) = clone(&mut world);
    assert!(response.success(), "{response:?}");
    let payloads = world.read_payloads(other);
    assert_eq!(payloads.len(), 1 + LARGE_PACKETS as usize);
    assert!(payloads.contains(&"small".to_owned()));
}
