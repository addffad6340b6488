//! Triggers: what producers call out for sessions to start, stop or be cloned.

mod world;

use std::sync::atomic::Ordering;

use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::observable_events::{CloneTriggerHit, Type};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{self as protos, CloneSessionRequest, TracePacket, Trigger};
use ferretto_service::{ConsumerCall, ConsumerConn, FileHandle, ProducerCall, ProducerConn, limits};
use prost::Message;
use world::{Introduction, World, config, named, packet, payloads};

/// The user that activates triggers.
const UID: u32 = 42;
const DAY_MS: u64 = 24 * 3600 * 1000;

/// A world with one producer, `app`, that has the data source, and one consumer that wants it.
struct Lab {
    world: World,
    app: ProducerConn,
    consumer: ConsumerConn,
}

impl Lab {
    /// `triggers` is what stands in `trigger_config`.
    fn new(triggers: &str) -> Self {
        let mut world = World::default();
        let app = world.introduce(&Introduction { uid: UID, ..named("app") });
        world.register(app, "data");
        let consumer = world.consumer(1000);
        let mut lab = Self { world, app, consumer };
        lab.world.enable(consumer, &with(triggers));
        lab
    }

    fn call_out(&mut self, names: &[&str]) {
        call_out(&mut self.world, self.app, names);
    }

    fn state(&mut self) -> String {
        self.world.query(self.consumer).tracing_sessions[0].state().to_owned()
    }

    /// Lets time pass; the producer answers flushes at once.
    fn pass_ms(&mut self, ms: u64) {
        for _ in 0..ms {
            self.world.advance_ms(1);
            self.world.acknowledge_flushes(self.app);
        }
    }

    fn observe(&mut self) {
        let kinds = vec![Type::CloneTriggerHit as i32];
        let request = protos::ObserveEventsRequest { events_to_observe: kinds };
        self.world.ask(self.consumer, ConsumerCall::ObserveEvents(request));
    }

    /// What the consumer was told since the last look.
    fn hits(&mut self) -> Vec<CloneTriggerHit> {
        let replies = &mut self.world.consumers.get_mut(&self.consumer).unwrap().replies;
        let bodies = replies.remove("ObserveEvents").unwrap_or_default().into_iter().flatten();
        let events = bodies.map(|body| protos::ObserveEventsResponse::decode(body).unwrap().events.unwrap());
        events.filter_map(|events| events.clone_trigger_hit).collect()
    }

    /// What another consumer reads of a clone that it takes.
    fn clone_as(&mut self, request: CloneSessionRequest) -> Vec<TracePacket> {
        let selector = Some(Selector::SessionId(1));
        let other = self.world.consumer(1000);
        let call = ConsumerCall::CloneSession(CloneSessionRequest { selector, ..request });
        self.world.ask(other, call);
        self.world.acknowledge_flushes(self.app);
        let response: protos::CloneSessionResponse = self.world.answer(other, "CloneSession");
        assert!(response.success(), "{response:?}");
        let packets = self.world.read(other);
        self.world.hang_up(other);
        packets
    }
}

fn with(triggers: &str) -> String {
    config(&format!("trigger_config {{ {triggers} }}"))
}

fn call_out(world: &mut World, producer: ProducerConn, names: &[&str]) {
    let trigger_names = names.iter().map(|name| (*name).to_owned()).collect();
    world.call(producer, ProducerCall::ActivateTriggers(protos::ActivateTriggersRequest { trigger_names }));
}

fn triggers(packets: &[TracePacket]) -> Vec<Trigger> {
    let trigger = |packet: &TracePacket| match &packet.data {
        Some(Data::Trigger(trigger)) => Some(trigger.clone()),
        _ => None,
    };
    packets.iter().filter_map(trigger).collect()
}

fn names(packets: &[TracePacket]) -> Vec<String> {
    triggers(packets).iter().map(|trigger| trigger.trigger_name().to_owned()).collect()
}

#[test]
fn a_session_that_starts_by_a_trigger_waits_and_then_lasts_for_its_delay() {
    let mut lab = Lab::new(
        "trigger_mode: START_TRACING trigger_timeout_ms: 1000 triggers { name: \"go\" stop_delay_ms: 50 }",
    );
    assert_eq!(lab.world.command_names(lab.app), ["setup_tracing", "setup"]);
    lab.call_out(&["other"]);
    assert_eq!(lab.state(), "CONFIGURED");
    assert_eq!(lab.world.read(lab.consumer), []);
    lab.pass_ms(999);
    lab.call_out(&["other", "go", "go"]);
    assert_eq!(lab.world.command_names(lab.app), ["start"]);
    lab.world.emit(lab.app, 1, 0, 1, &[&packet("after")]);
    lab.pass_ms(49);
    assert_eq!(lab.world.ended(lab.consumer), None, "the time-out counts no longer");
    lab.pass_ms(2);
    assert_eq!(lab.world.ended(lab.consumer).as_deref(), Some(""));
    let packets = lab.world.read(lab.consumer);
    assert_eq!((payloads(&packets), names(&packets)), (vec!["after".to_owned()], vec!["go".to_owned(); 2]));
}

#[test]
fn a_session_that_stops_by_a_trigger_has_what_came_before() {
    let mut lab = Lab::new(
        "trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 \
         triggers { name: \"a\" stop_delay_ms: 20 } triggers { name: \"b\" stop_delay_ms: 30000 }",
    );
    assert_eq!(lab.world.command_names(lab.app), ["setup_tracing", "setup", "start"]);
    lab.world.emit(lab.app, 1, 0, 1, &[&packet("before")]);
    lab.pass_ms(985);
    assert_eq!(lab.world.read(lab.consumer), [], "nothing before a trigger");
    let at_ns = lab.world.now.clocks.boottime;
    lab.call_out(&["a", "unknown"]);
    lab.pass_ms(10);
    // Only the first one decides when it ends: not the second, and not the time-out.
    lab.call_out(&["b"]);
    lab.pass_ms(9);
    assert_eq!(lab.world.ended(lab.consumer), None);
    lab.pass_ms(2);
    assert_eq!(lab.world.ended(lab.consumer).as_deref(), Some(""));
    let packets = lab.world.read(lab.consumer);
    assert_eq!(payloads(&packets), ["before"]);
    let expected = |name: &str, delay| Trigger {
        trigger_name: Some(name.to_owned()),
        producer_name: Some("app".to_owned()),
        trusted_producer_uid: Some(UID as i32),
        stop_delay_ms: Some(delay),
    };
    assert_eq!(triggers(&packets), [expected("a", 20), expected("b", 30_000)]);
    let first = packets.iter().find(|packet| matches!(packet.data, Some(Data::Trigger(_)))).unwrap();
    assert_eq!((first.timestamp(), first.timestamp_clock_id()), (at_ns, 6));
}

#[test]
fn without_a_trigger_there_is_no_trace() {
    for mode in ["START_TRACING", "STOP_TRACING", "CLONE_SNAPSHOT"] {
        let mut lab =
            Lab::new(&format!("trigger_mode: {mode} trigger_timeout_ms: 100 triggers {{ name: \"a\" }}"));
        lab.world.emit(lab.app, 1, 0, 1, &[&packet("x")]);
        lab.pass_ms(99);
        assert_eq!(lab.world.ended(lab.consumer), None, "{mode}");
        lab.pass_ms(2);
        assert_eq!(lab.world.ended(lab.consumer).as_deref(), Some(""), "{mode}");
        assert_eq!(lab.world.read(lab.consumer), [], "{mode}");
    }
}

#[test]
fn a_file_stays_empty_until_the_trigger() {
    for (trigger, expected) in [(None, None), (Some("go"), Some(vec!["go".to_owned()]))] {
        let mut lab = Lab::new("");
        lab.world.free(lab.consumer);
        let triggers =
            "trigger_mode: START_TRACING trigger_timeout_ms: 500 triggers { name: \"go\" stop_delay_ms: 5 }";
        let file = FileHandle(3);
        lab.world.enable_into(
            lab.consumer,
            &(with(triggers) + "write_into_file: true file_write_period_ms: 100"),
            file,
        );
        lab.pass_ms(300);
        assert!(lab.world.files[&file].bytes.is_empty());
        lab.call_out(trigger.as_slice());
        lab.pass_ms(300);
        assert!(lab.world.files[&file].closed);
        let packets = lab.world.file_packets(file);
        assert_eq!((!packets.is_empty()).then(|| names(&packets)), expected);
    }
}

#[test]
fn each_trigger_is_written_once_and_later_ones_later() {
    let mut lab = Lab::new(
        "trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 \
         triggers { name: \"a\" stop_delay_ms: 100 } triggers { name: \"b\" }",
    );
    lab.call_out(&["a"]);
    assert_eq!(names(&lab.world.read(lab.consumer)), ["a"]);
    assert_eq!(names(&lab.world.read(lab.consumer)), [] as [&str; 0]);
    lab.call_out(&["b", "a"]);
    lab.pass_ms(110);
    assert_eq!(names(&lab.world.read(lab.consumer)), ["b", "a"]);
}

#[test]
fn a_snapshot_is_announced_after_its_delay_and_the_session_goes_on() {
    let mut lab = Lab::new(
        "trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 1000 \
         triggers { name: \"slow\" stop_delay_ms: 10 } triggers { name: \"now\" }",
    );
    lab.observe();
    lab.world.emit(lab.app, 1, 0, 1, &[&packet("x")]);
    let at_ns = lab.world.now.clocks.boottime;
    lab.call_out(&["slow", "now"]);
    assert_eq!(lab.hits(), []);
    lab.pass_ms(1);
    let hit = |name: &str, delay| CloneTriggerHit {
        tracing_session_id: Some(1),
        trigger_name: Some(name.to_owned()),
        producer_name: Some("app".to_owned()),
        producer_uid: Some(UID),
        boot_time_ns: Some(at_ns),
        trigger_delay_ms: Some(delay),
    };
    assert_eq!(lab.hits(), [hit("now", 0)]);
    lab.pass_ms(10);
    assert_eq!(lab.hits(), [hit("slow", 10)]);
    assert_eq!(lab.world.read(lab.consumer), [], "it is read through clones only");
    assert_eq!(lab.state(), "STARTED");
    // Several at one time are announced one by one.
    lab.call_out(&["now", "now", "now"]);
    lab.pass_ms(1);
    assert_eq!(lab.hits().len(), 3);
}

#[test]
fn stop_sessions_become_snapshot_sessions_on_request() {
    let mut lab = Lab::new(
        "trigger_mode: STOP_TRACING use_clone_snapshot_if_available: true trigger_timeout_ms: 1000 triggers { name: \"a\" }",
    );
    lab.observe();
    lab.call_out(&["a"]);
    lab.pass_ms(2);
    assert_eq!((lab.hits().len(), lab.state().as_str()), (1, "STARTED"));
}

#[test]
fn a_clone_names_its_trigger_and_has_those_since_the_last_one() {
    let mut lab = Lab::new(
        "trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 1000 triggers { name: \"a\" } triggers { name: \"b\" }",
    );
    lab.world.emit(lab.app, 1, 0, 1, &[&packet("x")]);
    for name in ["a", "b"] {
        lab.call_out(&[name]);
        let request = CloneSessionRequest {
            clone_trigger_name: Some(name.to_owned()),
            clone_trigger_producer_name: Some("app".to_owned()),
            clone_trigger_trusted_producer_uid: Some(UID as i32),
            clone_trigger_boot_time_ns: Some(77),
            clone_trigger_delay_ms: Some(5),
            ..Default::default()
        };
        let packets = lab.clone_as(request);
        assert_eq!((payloads(&packets), names(&packets)), (vec!["x".to_owned()], vec![name.to_owned()]));
        let cloned_for = packets.iter().find_map(|packet| match &packet.data {
            Some(Data::CloneSnapshotTrigger(trigger)) => Some((packet.timestamp(), trigger.clone())),
            _ => None,
        });
        let expected = Trigger {
            trigger_name: Some(name.to_owned()),
            producer_name: Some("app".to_owned()),
            trusted_producer_uid: Some(UID as i32),
            stop_delay_ms: Some(5),
        };
        assert_eq!(cloned_for, Some((77, expected)));
    }
}

#[test]
fn a_clone_of_another_kind_of_session_takes_nothing_from_it() {
    let mut lab = Lab::new(
        "trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 triggers { name: \"a\" stop_delay_ms: 50 }",
    );
    // The clone of a session that still waits can be read.
    assert!(!lab.clone_as(CloneSessionRequest::default()).is_empty());
    lab.call_out(&["a"]);
    assert_eq!(names(&lab.clone_as(CloneSessionRequest::default())), ["a"]);
    lab.pass_ms(60);
    assert_eq!(names(&lab.world.read(lab.consumer)), ["a"]);
}

#[test]
fn triggers_are_taken_from_the_producers_that_they_name() {
    let cases = [("", true), ("app", true), ("ap", false), ("[a-z]+", true), ("x|app", true), ("App", false)];
    for (pattern, counts) in cases {
        let mut lab = Lab::new(&format!(
            "trigger_mode: START_TRACING trigger_timeout_ms: 9 triggers {{ name: \"a\" producer_name_regex: \"{pattern}\" }}",
        ));
        lab.call_out(&["a"]);
        assert_eq!(lab.state(), if counts { "STARTED" } else { "CONFIGURED" }, "{pattern:?}");
    }
}

#[test]
fn triggers_are_skipped_by_chance() {
    let half = u64::MAX / 2;
    // Skip probability, the random number, whether the trigger counts.
    let cases = [
        ("0", 0, true),
        ("0.25", half, true),
        ("0.5", half + 10_000, true),
        ("0.75", half, false),
        ("1", u64::MAX - 1, false),
        ("5", u64::MAX - 1, false),
        ("-1", 0, true),
        ("nan", 0, true),
    ];
    for (probability, random, counts) in cases {
        let mut lab = Lab::new(&format!(
            "trigger_mode: START_TRACING trigger_timeout_ms: 9 triggers {{ name: \"a\" skip_probability: {probability} }}",
        ));
        lab.world.random.store(random, Ordering::Relaxed);
        lab.call_out(&["a"]);
        assert_eq!(lab.state(), if counts { "STARTED" } else { "CONFIGURED" }, "{probability} {random}");
    }
}

#[test]
fn a_trigger_counts_so_often_a_day_whatever_the_session_of_its_user() {
    let snapshots = "trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 604800000 \
                     triggers { name: \"a\" max_per_24_h: 2 } triggers { name: \"b\" max_per_24_h: 2 }";
    let mut lab = Lab::new(snapshots);
    lab.observe();
    let hits = |lab: &mut Lab, name: &str| {
        lab.call_out(&[name]);
        lab.pass_ms(1);
        lab.hits().len()
    };
    assert_eq!(hits(&mut lab, "a"), 1);
    lab.world.advance_ms(DAY_MS / 2);
    lab.world.free(lab.consumer);
    lab.world.enable(lab.consumer, &with(snapshots));
    assert_eq!([hits(&mut lab, "a"), hits(&mut lab, "a"), hits(&mut lab, "b")], [1, 0, 1]);
    // The first one is a day old, the second one half a day.
    lab.world.advance_ms(DAY_MS / 2 + 1);
    assert_eq!([hits(&mut lab, "a"), hits(&mut lab, "a")], [1, 0]);
}

#[test]
fn what_counts_for_a_neighbours_session_does_not_count_against_ones_own() {
    let once = |more: &str| {
        with(&format!(
            "trigger_mode: START_TRACING trigger_timeout_ms: 1000 triggers {{ name: \"a\" max_per_24_h: 1 {more} }}"
        ))
    };
    let mut world = World::default();
    let app = world.producer("app");
    let [honest, neighbour, again] = [1000, 2000, 1000].map(|uid| world.consumer(uid));
    world.enable(honest, &once("producer_name_regex: \"app\""));
    world.enable(neighbour, &once(""));
    let shouter = world.producer("shouter");
    call_out(&mut world, shouter, &["a"]);
    call_out(&mut world, app, &["a", "a"]);
    world.advance_ms(0);
    let callers = |packets: &[TracePacket]| {
        triggers(packets).iter().map(|trigger| trigger.producer_name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(callers(&world.read(neighbour)), ["shouter"]);
    assert_eq!(callers(&world.read(honest)), ["app"]);
    // One's own do count.
    world.enable(again, &once(""));
    call_out(&mut world, app, &["a"]);
    assert_eq!(callers(&world.read(again)), [""; 0]);
}

#[test]
fn all_sessions_that_listen_are_triggered() {
    let mut lab = Lab::new(
        "trigger_mode: START_TRACING trigger_timeout_ms: 100 triggers { name: \"a\" stop_delay_ms: 10 }",
    );
    let second = lab.world.consumer(2);
    let limited = "trigger_mode: STOP_TRACING trigger_timeout_ms: 100 triggers { name: \"a\" max_per_24_h: 1 stop_delay_ms: 20 }";
    lab.world.enable(second, &with(limited));
    // A producer without any data source will do.
    let caller = lab.world.producer("caller");
    call_out(&mut lab.world, caller, &["a"]);
    lab.pass_ms(12);
    assert_eq!(lab.world.ended(lab.consumer).as_deref(), Some(""));
    assert_eq!(lab.world.ended(second), None);
    lab.pass_ms(12);
    assert_eq!(lab.world.ended(second).as_deref(), Some(""));
    for consumer in [lab.consumer, second] {
        assert_eq!(triggers(&lab.world.read(consumer))[0].producer_name(), "caller");
    }
}

#[test]
fn start_tracing_starts_a_session_before_its_trigger() {
    let mut lab = Lab::new(
        "trigger_mode: START_TRACING trigger_timeout_ms: 100 triggers { name: \"a\" stop_delay_ms: 10 }",
    );
    lab.world.ask(lab.consumer, ConsumerCall::StartTracing(Default::default()));
    lab.call_out(&["a"]);
    lab.pass_ms(200);
    assert_eq!(lab.state(), "STARTED", "neither the trigger nor the time-out ends it");
    lab.world.disable(lab.consumer);
    assert_eq!(names(&lab.world.read(lab.consumer)), ["a"]);
}

#[test]
fn a_trigger_stops_a_session_that_nobody_has_started() {
    let mut lab = Lab::new("");
    lab.world.free(lab.consumer);
    let stop =
        "trigger_mode: STOP_TRACING trigger_timeout_ms: 100 triggers { name: \"a\" stop_delay_ms: 10 }";
    lab.world.enable(lab.consumer, &(with(stop) + "deferred_start: true"));
    lab.call_out(&["a"]);
    lab.pass_ms(12);
    assert_eq!(lab.world.ended(lab.consumer).as_deref(), Some(""));
}

#[test]
fn a_detached_session_is_freed_when_its_trigger_ends_it() {
    let mut lab = Lab::new("trigger_mode: STOP_TRACING trigger_timeout_ms: 100 triggers { name: \"a\" }");
    lab.world.ask(lab.consumer, ConsumerCall::Detach(protos::DetachRequest { key: Some("k".to_owned()) }));
    lab.world.hang_up(lab.consumer);
    lab.call_out(&["a"]);
    lab.pass_ms(2);
    assert_eq!(lab.world.service.session_count(), 0);
}

#[test]
fn what_is_received_is_bounded() {
    let mut lab = Lab::new(
        "trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 1000 triggers { name: \"a\" stop_delay_ms: 9 }",
    );
    lab.observe();
    let many = vec!["a"; 2 * limits::MAX_TRIGGERS_PER_REQUEST];
    lab.call_out(&many);
    lab.call_out(&["a"]);
    // They are looked at in steps.
    lab.world.advance_ms(0);
    let packets = lab.clone_as(CloneSessionRequest::default());
    assert_eq!(names(&packets).len(), limits::MAX_RECEIVED_TRIGGERS);
    lab.pass_ms(20);
    assert_eq!(lab.hits().len(), limits::MAX_PENDING_SNAPSHOTS);
    lab.world.free(lab.consumer);
    assert_eq!(lab.world.service.next_timeout_ns(&lab.world.now), None);
}

#[test]
fn what_is_received_takes_little_however_long_the_names_are() {
    let name = "n".repeat(limits::MAX_NAME_BYTES);
    let mut lab = Lab::new(&format!(
        "trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 triggers {{ name: \"{name}\" stop_delay_ms: 9 }}"
    ));
    let shouter = lab.world.producer(&"p".repeat(4096));
    // As many as fit into a frame.
    for _ in 0..8 {
        call_out(&mut lab.world, shouter, &vec![name.as_str(); 200]);
    }
    lab.world.advance_ms(0);
    let received = triggers(&lab.world.read(lab.consumer));
    let bytes: usize = received.iter().map(Message::encoded_len).sum();
    assert_eq!(received.len(), limits::MAX_RECEIVED_TRIGGERS);
    assert!(bytes < 1_200_000, "{bytes}");
    let long = format!(
        "{} triggers {{ name: \"a\" }} triggers {{ name: \"{name}n\" }}",
        "trigger_mode: STOP_TRACING trigger_timeout_ms: 9"
    );
    let consumer = lab.world.consumer(1000);
    lab.world.enable(consumer, &with(&long));
    let expected =
        format!("trigger_config.triggers[1].name has {} bytes; {} is the most", name.len() + 1, name.len());
    assert_eq!(lab.world.ended(consumer), Some(expected));
}

#[test]
fn wrong_triggers_are_refused_with_reasons_in_upstreams_order() {
    let start = "trigger_mode: START_TRACING trigger_timeout_ms: 9";
    let stop = "trigger_mode: STOP_TRACING trigger_timeout_ms: 9";
    let cases = [
        (
            "trigger_mode: START_TRACING",
            "bugreport_filename: \"/\" duration_ms: 1",
            "trigger_timeout_ms is 0",
        ),
        ("trigger_mode: STOP_TRACING trigger_timeout_ms: 604800001", "", "trigger_timeout_ms is 604800001"),
        (
            "trigger_mode: STOP_TRACING trigger_timeout_ms: 86400001",
            "enable_extra_guardrails: true",
            "86400000 ms",
        ),
        ("trigger_timeout_ms: 9 use_clone_snapshot_if_available: true", "", "trigger_mode is UNSPECIFIED"),
        (
            "trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 9 use_clone_snapshot_if_available: true",
            "duration_ms: 1",
            "trigger_mode is CLONE_SNAPSHOT",
        ),
        ("triggers { name: \"a\" }", "", "1 trigger(s) and no trigger_mode"),
        (start, "duration_ms: 5 bugreport_filename: \"/\"", "duration_ms is 5"),
        (stop, "bugreport_filename: \"/\" write_into_file: true", "bugreport_filename"),
        (
            stop,
            "write_into_file: true enable_extra_guardrails: true deferred_start: true",
            "write_into_file cannot",
        ),
        (
            "trigger_mode: START_TRACING trigger_timeout_ms: 9 triggers { name: \"a\" } triggers { name: \"a\" }",
            "enable_extra_guardrails: true deferred_start: true",
            "two triggers are named \"a\"",
        ),
        (
            "trigger_mode: STOP_TRACING trigger_timeout_ms: 9 triggers { name: \"a\" producer_name_regex: \"(\" }",
            "",
            "trigger \"a\": producer_name_regex \"(\" is no valid regular expression",
        ),
    ];
    for (triggers, more, expected) in cases {
        let mut lab = Lab::new("");
        lab.world.free(lab.consumer);
        lab.world.enable(lab.consumer, &format!("{} {more}", with(triggers)));
        let error = lab.world.ended(lab.consumer).unwrap_or_else(|| panic!("accepted: {triggers} {more}"));
        assert!(error.contains(expected), "{triggers} {more}: {error:?} lacks {expected:?}");
    }
}

#[test]
fn unknown_modes_are_refused() {
    // 3 was an early form of snapshots.
    for mode in [3, 5, -1] {
        let mut lab = Lab::new("");
        lab.world.free(lab.consumer);
        let triggers = protos::trace_config::TriggerConfig {
            trigger_mode: Some(mode),
            trigger_timeout_ms: Some(9),
            ..Default::default()
        };
        let config = protos::TraceConfig { trigger_config: Some(triggers), ..Default::default() };
        lab.world.enable_raw(lab.consumer, config.encode_to_vec().into(), None);
        let error = lab.world.ended(lab.consumer).expect("refused");
        assert!(error.contains(&format!("trigger_mode {mode} is unknown")), "{error}");
    }
}

#[test]
fn an_empty_trigger_config_means_nothing() {
    let mut lab = Lab::new("trigger_timeout_ms: 5");
    assert_eq!(lab.state(), "STARTED");
    lab.pass_ms(10);
    assert_eq!(lab.state(), "STARTED");
    assert!(!lab.world.read(lab.consumer).is_empty());
}

#[test]
fn consumers_can_see_that_snapshots_are_announced() {
    let mut lab = Lab::new("");
    lab.world.ask(lab.consumer, ConsumerCall::QueryCapabilities(Default::default()));
    let response: protos::QueryCapabilitiesResponse = lab.world.answer(lab.consumer, "QueryCapabilities");
    let events = response.capabilities.unwrap().observable_events;
    assert!(events.contains(&(Type::CloneTriggerHit as i32)));
}

#[test]
fn many_triggers_are_looked_at_in_steps_and_in_their_order() {
    let mut world = World::with_step_cost(std::num::NonZeroUsize::new(1));
    let app = world.producer("app");
    let consumer = world.consumer(1000);
    let triggers =
        ["a", "b", "c"].map(|name| format!("triggers {{ name: \"{name}\" stop_delay_ms: 1000 }} ")).concat();
    world.enable(consumer, &with(&format!("trigger_mode: STOP_TRACING trigger_timeout_ms: 9000 {triggers}")));
    world.advance_ms(0);
    call_out(&mut world, app, &["a", "unknown", "b"]);
    assert!(world.service.has_work());
    call_out(&mut world, app, &["c", "a"]);
    // They count, though who called them out is gone.
    world.disconnect(app);
    world.advance_ms(0);
    assert!(!world.service.has_work());
    world.advance_ms(2000);
    let packets = world.read(consumer);
    let names = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::Trigger(trigger)) => Some(trigger.trigger_name().to_owned()),
        _ => None,
    });
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c", "a"]);
}

#[test]
fn a_consumer_that_has_not_read_is_told_of_as_many_triggers_as_are_kept() {
    let mut lab =
        Lab::new("trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 1000 triggers { name: \"now\" }");
    lab.observe();
    lab.world.service.hold_events(lab.consumer);
    lab.call_out(&["now"; 3 * limits::MAX_PENDING_SNAPSHOTS]);
    lab.pass_ms(1);
    assert_eq!(lab.hits().len(), limits::MAX_PENDING_SNAPSHOTS);
    // It has read all: from now on it is told at once, of as many as there are.
    for _ in 0..3 {
        lab.call_out(&["now"; 10]);
        lab.pass_ms(1);
        assert_eq!(lab.hits().len(), 10);
    }
}
