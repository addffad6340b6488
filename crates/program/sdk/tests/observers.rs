//! Observers hear of each session, and what they trace is in it.

mod session;

use std::sync::{Arc, Mutex};

use ferretto::protos::trace_packet::Data;
use ferretto::{Connector, SessionObserver, SetupArgs};
use ferretto_consumer::Consumer;
use ferretto_traced::in_process::{Host, HostOptions};
use session::{Session, clearing, config, wait_until};

#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<String>>>);

impl Noting {
    fn note(&self, call: String) {
        self.0.lock().unwrap().push(call);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl SessionObserver for Noting {
    fn on_setup(&self, args: &SetupArgs<'_>) {
        ferretto::instant!("observers", "in on_setup");
        self.note(format!("setup {} {}", args.instance_index, args.config.name()));
    }

    fn on_start(&self, instance_index: usize) {
        ferretto::instant!("observers", "in on_start");
        self.note(format!("start {instance_index}"));
    }

    fn on_stop(&self, instance_index: usize) {
        ferretto::instant!("observers", "in on_stop");
        self.note(format!("stop {instance_index}"));
    }

    fn will_clear_incremental_state(&self, instance_index: usize) {
        self.note(format!("clear {instance_index}"));
    }
}

#[test]
fn observers_hear_of_sessions_until_they_are_removed() {
    let host = Host::spawn(HostOptions::default()).unwrap();
    let consumer = || Consumer::over(host.connect_consumer().unwrap()).unwrap();
    let stream = host.connect_producer().unwrap();
    ferretto::builder("test").connector(Connector::Stream(stream)).init().unwrap();
    let noting = Noting::default();
    let observing = ferretto::observe_sessions(noting.clone());
    let first = Session::start(consumer(), &config(&["track_event"]));
    assert_eq!(noting.take(), ["setup 0 track_event", "start 0"]);
    let second = Session::start(consumer(), &clearing(&["track_event"], 20));
    wait_until("the clear", || noting.0.lock().unwrap().len() > 2);
    assert_eq!(noting.take()[..3], ["setup 1 track_event", "start 1", "clear 1"]);
    second.stop();
    assert_eq!(noting.take().last().unwrap(), "stop 1");
    let packets = first.stop();
    assert_eq!(noting.take(), ["stop 0"]);
    let names = packets.iter().filter_map(|packet| packet.interned_data.as_ref());
    let names: Vec<&str> = names.flat_map(|data| data.event_names.iter().map(|name| name.name())).collect();
    assert_eq!(names, ["in on_start", "in on_setup", "in on_stop"]);
    // Its own start and stop, and the setup, the start and the stop of the other.
    let events = packets.iter().filter(|packet| matches!(packet.data, Some(Data::TrackEvent(_))));
    assert_eq!(events.count(), 5);

    drop(observing);
    Session::start(consumer(), &config(&["track_event"])).stop();
    assert_eq!(noting.take(), [""; 0]);
    ferretto::observe_sessions(noting.clone()).forever();
    Session::start(consumer(), &config(&["track_event"])).stop();
    assert_eq!(noting.take().len(), 3);
    assert!(ferretto::shutdown());
}
