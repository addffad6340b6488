//! Trace points in signal handlers: not supported, and harmless to what the interrupted thread traces.

#![allow(unsafe_code, reason = "signal handlers are unsafe by nature")]

mod session;

use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ferretto::protos::trace_packet::Data;
use ferretto::protos::{DataSourceDescriptor, fields};
use ferretto::{Connector, DataSource, DataSourceHandle};
use ferretto_consumer::Consumer;
use ferretto_traced::in_process::{Host, HostOptions};
use session::{Session, TIMEOUT, config, texts};

unsafe extern "C" {
    fn signal(signal: i32, handler: extern "C" fn(i32)) -> usize;
    fn pthread_kill(thread: std::os::unix::thread::RawPthread, signal: i32) -> i32;
}

const SIGUSR1: i32 = rustix::process::Signal::USR1.as_raw();

#[derive(Default)]
struct Source;

impl DataSource for Source {
    type IncrementalState = ();
    type ThreadState = ();
}

static SOURCE: DataSourceHandle<Source> = DataSourceHandle::new();
static HANDLED: AtomicUsize = AtomicUsize::new(0);

fn say(text: &str) {
    SOURCE.trace(|ctx| ctx.new_packet().nested(fields::trace_packet::FOR_TESTING).string(1, text));
}

extern "C" fn handle(_: i32) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    ferretto::instant!("signals", "handler");
    ferretto::instant!("signals.of the handler", "handler", number = 1);
    say("handler");
}

#[test]
fn a_handler_that_traces_does_no_harm_to_the_thread_that_traces() {
    // Threads inherit the kernel's name of the thread that starts them, which is short here: see `identity::thread_name`.
    thread::Builder::new().name("signals".to_owned()).spawn(interrupt).unwrap().join().unwrap();
}

fn interrupt() {
    const EVENTS: usize = 200_000;
    let host = Host::spawn(HostOptions::default()).unwrap();
    let stream = host.connect_producer().unwrap();
    ferretto::builder("test").connector(Connector::Stream(stream)).init().unwrap();
    SOURCE.register(DataSourceDescriptor { name: Some("signals".into()), ..Default::default() }).unwrap();
    let consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    let session = Session::start(consumer, &config(&["track_event", "signals"]));
    // SAFETY: the handler's type is the one that this function wants.
    // JUSTIFICATION: no safe interface sets a handler that runs in the signal.
    unsafe { signal(SIGUSR1, handle) };
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let interrupted = thread::spawn(|| {
        for number in 0..EVENTS {
            ferretto::instant!("signals", "interrupted", number = number);
            say("interrupted");
            if number % 32 == 0 {
                // Nothing is lost for want of memory: that is not what this is about.
                ferretto::flush(Duration::from_secs(10));
            }
            if IS_OVER.load(Ordering::Relaxed) {
                return number + 1;
            }
        }
        EVENTS
    });
    while HANDLED.load(Ordering::Relaxed) < 4_000 && !interrupted.is_finished() {
        // SAFETY: the thread is not joined yet.
        // JUSTIFICATION: no safe interface sends a signal to one thread.
        unsafe { pthread_kill(interrupted.as_pthread_t(), SIGUSR1) };
        thread::sleep(Duration::from_micros(20));
    }
    IS_OVER.store(true, Ordering::Relaxed);
    let written = interrupted.join().unwrap();
    assert!(HANDLED.load(Ordering::Relaxed) > 0);
    assert!(ferretto::flush(TIMEOUT));
    let packets = session.stop();
    let said = texts(&packets);
    assert_eq!(said.iter().filter(|text| **text == "interrupted").count(), written);
    let of_thread = packets.iter().filter(
        |packet| matches!(&packet.data, Some(Data::TrackEvent(event)) if !event.debug_annotations.is_empty()),
    );
    assert!(of_thread.count() >= written, "each of its {written} events is there");
}
