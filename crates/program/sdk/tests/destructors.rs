//! Trace points in destructors, in those of thread-local values among them.

mod session;

use std::cell::RefCell;
use std::thread;

use ferretto::protos::trace_packet::Data;
use ferretto::protos::{DataSourceDescriptor, fields};
use ferretto::{Connector, DataSource, DataSourceHandle};
use ferretto_consumer::Consumer;
use ferretto_traced::in_process::{Host, HostOptions};
use session::{Session, TIMEOUT, config, texts};

#[derive(Default)]
struct Source;

impl DataSource for Source {
    type IncrementalState = ();
    /// Its own destructor traces.
    type ThreadState = Option<Traced>;
}

static SOURCE: DataSourceHandle<Source> = DataSourceHandle::new();

/// Traces when it is dropped.
#[derive(Debug)]
struct Traced(&'static str);

impl Drop for Traced {
    fn drop(&mut self) {
        say(self.0);
    }
}

fn say(text: &str) {
    ferretto::instant!("destructors", "said", text = text);
    SOURCE.trace(|ctx| ctx.new_packet().nested(fields::trace_packet::FOR_TESTING).string(1, text));
}

thread_local! {
    static EARLY: RefCell<Option<Traced>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<Traced>> = const { RefCell::new(None) };
}

#[test]
fn destructors_can_trace_and_those_that_come_too_late_do_nothing() {
    let host = Host::spawn(HostOptions::default()).unwrap();
    let stream = host.connect_producer().unwrap();
    ferretto::builder("test").connector(Connector::Stream(stream)).init().unwrap();
    SOURCE.register(DataSourceDescriptor { name: Some("destructors".into()), ..Default::default() }).unwrap();
    let consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    let session = Session::start(consumer, &config(&["track_event", "destructors"]));
    for _ in 0..20 {
        thread::spawn(|| {
            // Before the library has state of this thread, and after it.
            EARLY.with(|value| *value.borrow_mut() = Some(Traced("in a thread-local destructor")));
            let local = Traced("in a destructor");
            SOURCE.trace(|ctx| {
                if ctx.thread_state().is_none() {
                    *ctx.thread_state() = Some(Traced("in the library's own end"));
                }
            });
            drop(local);
            LATE.with(|value| *value.borrow_mut() = Some(Traced("in a thread-local destructor")));
            let unwound = thread::Builder::new().spawn(|| {
                let _local = Traced("in a panic");
                std::panic::resume_unwind(Box::new("expected by the test"));
            });
            assert!(unwound.unwrap().join().is_err());
        })
        .join()
        .unwrap();
    }
    assert!(ferretto::flush(TIMEOUT));
    let packets = session.stop();
    let count = |text: &str| texts(&packets).iter().filter(|said| **said == text).count();
    assert_eq!((count("in a destructor"), count("in a panic")), (20, 20));
    // One of the two is dropped before the library's state of the thread is, the other after it.
    assert_eq!(count("in a thread-local destructor"), 20);
    assert_eq!(count("in the library's own end"), 0);
    let events = packets.iter().filter(|packet| matches!(packet.data, Some(Data::TrackEvent(_)))).count();
    assert_eq!(events, 60);
}
