//! A program whose allocator has trace points: neither a deadlock nor events without end.

#![allow(unsafe_code, reason = "an allocator is unsafe by nature")]

mod session;

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ferretto::protos::trace_packet::Data;
use ferretto::protos::{DataSourceDescriptor, TracePacket, fields};
use ferretto::{Category, Connector, CounterTrack, DataSource, DataSourceHandle, Unit};
use ferretto_consumer::Consumer;
use ferretto_traced::in_process::{Host, HostOptions};
use session::{Session, TIMEOUT, config, texts};

struct Traced;

static BYTES: AtomicU64 = AtomicU64::new(0);
static IN_USE: CounterTrack = CounterTrack::new("in use").with_unit(Unit::Bytes);

// SAFETY: all is done by the system's allocator.
// JUSTIFICATION: there is no other way to make an allocator.
unsafe impl GlobalAlloc for Traced {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        ferretto::instant!("allocator", "alloc", bytes = layout.size());
        ferretto::counter!("allocator", IN_USE, bytes);
        SOURCE.trace(|ctx| {
            // Within a trace point: an allocation in an allocation.
            *ctx.incremental_state() = vec![0; 10];
            ctx.new_packet().nested(fields::trace_packet::FOR_TESTING).string(1, "alloc");
        });
        // SAFETY: as for this function.
        // JUSTIFICATION: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        ferretto::instant!("allocator", "dealloc", bytes = layout.size());
        // SAFETY: as for this function.
        // JUSTIFICATION: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Traced = Traced;

#[derive(Default)]
struct Source;

impl DataSource for Source {
    type IncrementalState = Vec<u8>;
    type ThreadState = Vec<u8>;
}

static SOURCE: DataSourceHandle<Source> = DataSourceHandle::new();

fn track_events(packets: &[TracePacket]) -> usize {
    packets.iter().filter(|packet| matches!(packet.data, Some(Data::TrackEvent(_)))).count()
}

#[test]
fn an_allocator_can_be_traced() {
    for _ in 0..2 {
        let host = Host::spawn(HostOptions::default()).unwrap();
        let stream = host.connect_producer().unwrap();
        ferretto::builder("test").connector(Connector::Stream(stream)).init().unwrap();
        let _ =
            SOURCE.register(DataSourceDescriptor { name: Some("allocator".into()), ..Default::default() });
        for _ in 0..3 {
            let consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
            let mut session = Session::start(consumer, &config(&["track_event", "allocator"]));
            work();
            session.flush();
            assert!(ferretto::flush(TIMEOUT));
            let packets = session.stop();
            assert!(
                track_events(&packets) > 1000 && texts(&packets).len() > 100,
                "{}",
                track_events(&packets)
            );
        }
        assert!(ferretto::shutdown());
    }
}

/// Threads that allocate, name new categories, and end.
fn work() {
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            thread::spawn(move || {
                for round in 0..200 {
                    black_box(vec![0_u8; 1 + round]);
                    let category = Category::dynamic(&format!("allocator.{thread}.{round}"));
                    ferretto::instant!((category), format!("named {round}"), text = "x".repeat(round));
                    ferretto::now();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
