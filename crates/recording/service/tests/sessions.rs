//! The life of sessions: who takes part, in which order, and how they end.

mod world;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use ferretto_protos::get_async_command_response::Cmd;
use ferretto_protos::{self as protos, DataSourceDescriptor};
use ferretto_service::{ConsumerCall, ProducerCall, limits};
use prost::Message;
use world::{SERVICE_UID, World, config, instance, named, only_setup, packet};

fn acknowledging(name: &str) -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(name.to_owned()),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        ..Default::default()
    }
}

fn started(world: &mut World, conn: ferretto_service::ProducerConn, id: u64) {
    let request = protos::NotifyDataSourceStartedRequest { data_source_id: Some(id) };
    world.call(conn, ProducerCall::NotifyDataSourceStarted(request));
}

fn stopped(world: &mut World, conn: ferretto_service::ProducerConn, id: u64) {
    let request = protos::NotifyDataSourceStoppedRequest { data_source_id: Some(id) };
    world.call(conn, ProducerCall::NotifyDataSourceStopped(request));
}

fn observe(world: &mut World, conn: ferretto_service::ConsumerConn) {
    let request = protos::ObserveEventsRequest { events_to_observe: vec![1, 2] };
    world.ask(conn, ConsumerCall::ObserveEvents(request));
}

/// All events since the last look: changes as `producer/source state`, and whether all started.
fn observed(world: &mut World, conn: ferretto_service::ConsumerConn) -> (Vec<String>, bool) {
    let mut changes = Vec::new();
    let mut all_started = false;
    let replies = world.consumers.get_mut(&conn).unwrap().replies.remove("ObserveEvents").unwrap_or_default();
    for body in replies.into_iter().flatten() {
        let events = protos::ObserveEventsResponse::decode(body).unwrap().events.unwrap_or_default();
        all_started |= events.all_data_sources_started();
        changes.extend(events.instance_state_changes.iter().map(|change| {
            let state = if change.state == Some(2) { "started" } else { "stopped" };
            format!("{}/{} {state}", change.producer_name(), change.data_source_name())
        }));
    }
    (changes, all_started)
}

#[test]
fn a_session_sets_up_and_starts_then_stops_and_answers() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config("duration_ms: 1000"));
    assert_eq!(world.command_names(producer), ["setup_tracing", "setup", "start"]);
    assert_eq!(world.ended(consumer), None);
    world.emit(producer, 1, 0, 1, &[&packet("a"), &packet("b")]);
    world.disable(consumer);
    assert_eq!(world.command_names(producer), ["stop"]);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    assert_eq!(world.read_payloads(consumer), ["a", "b"]);
    assert_eq!(world.read_payloads(consumer), [] as [&str; 0]);
}

#[test]
fn all_is_set_up_before_the_first_is_started_however_short_the_steps() {
    let mut world = World::with_step_cost(NonZeroUsize::new(1));
    let producer = world.producer("p");
    for name in ["one", "two", "three"] {
        world.register(producer, name);
    }
    let consumer = world.consumer(1000);
    world.enable(
        consumer,
        r#"buffers { size_kb: 128 }
        data_sources { config { name: "one" } }
        data_sources { producer_name_regex_filter: "p.*" config { name: "two" } }
        data_sources { config { name: "three" } }"#,
    );
    world.advance_ms(0);
    assert_eq!(
        world.command_names(producer),
        ["setup_tracing", "setup", "setup", "setup", "start", "start", "start"]
    );
    world.disable(consumer);
    world.advance_ms(0);
    assert_eq!(world.command_names(producer), ["stop"; 3]);
}

#[test]
fn a_late_data_source_joins_step_by_step() {
    let mut world = World::with_step_cost(NonZeroUsize::new(1));
    let consumer = world.consumer(1000);
    world.enable(
        consumer,
        &config("data_sources { config { name: \"data\" } } data_sources { config { name: \"more\" } }"),
    );
    world.advance_ms(0);
    let (gone, late) = (world.producer("gone"), world.producer("late"));
    world.register(gone, "data");
    assert_eq!(world.command_names(gone), ["setup_tracing", "setup", "start"]);
    assert!(world.service.has_work() && world.service.is_busy(consumer));
    // Others come meanwhile, and one of them goes.
    world.register(late, "more");
    world.register(gone, "more");
    world.register(late, "data");
    assert_eq!(world.command_names(late), [""; 0]);
    world.disconnect(gone);
    world.advance_ms(0);
    assert_eq!(
        world.command_names(late),
        ["setup_tracing", "setup", "start", "setup", "start", "setup", "start"]
    );
    assert!(!world.service.has_work() && !world.service.is_busy(consumer));
    // After that, as at first.
    world.register(late, "data");
    world.advance_ms(0);
    assert_eq!(world.command_names(late), ["setup", "start", "setup", "start"]);
}

#[test]
fn the_service_sets_its_fields_and_unknown_fields_survive() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    // A data source config with field 99999, which no schema knows, and fields that are the service's to set.
    let mut inner = protos::DataSourceConfig {
        name: Some("data".to_owned()),
        target_buffer: Some(1),
        tracing_session_id: Some(77),
        session_initiator: Some(1),
        supports_tracing_v2: Some(true),
        ..Default::default()
    }
    .encode_to_vec();
    prost::encoding::uint64::encode(99_999, &5, &mut inner);
    let mut raw =
        world::config_bytes("buffers { size_kb: 64 } buffers { size_kb: 64 } duration_ms: 5000").to_vec();
    let mut source = Vec::new();
    prost::encoding::bytes::encode(1, &inner, &mut source);
    prost::encoding::bytes::encode(2, &source, &mut raw);
    let consumer = world.consumer(1000);
    world.enable_raw(consumer, raw.into(), None);
    let commands = world.commands(producer);
    let (_, config) = only_setup(&commands);
    assert_eq!(config.target_buffer, Some(2));
    assert_eq!(config.tracing_session_id, Some(1));
    assert_eq!(config.session_initiator, Some(0));
    assert_eq!(config.trace_duration_ms, Some(5000));
    assert_eq!(config.stop_timeout_ms, Some(5000));
    assert_eq!(config.supports_tracing_v2, Some(false));
    let Some(Cmd::StartDataSource(start)) = commands.last() else { panic!("{commands:?}") };
    let mut unknown = Vec::new();
    prost::encoding::uint64::encode(99_999, &5, &mut unknown);
    let sent = start.config.clone().unwrap();
    assert!(sent.windows(unknown.len()).any(|bytes| bytes == unknown));
}

#[test]
fn producer_filters_match_names_exactly_and_patterns_in_full() {
    let cases = [
        ("producer_name_filter: \"p1\"", vec!["p1"]),
        ("producer_name_filter: \"p\"", vec![]),
        ("producer_name_regex_filter: \"p[12]\"", vec!["p1", "p2"]),
        ("producer_name_regex_filter: \"p\"", vec![]),
        ("producer_name_regex_filter: \"p1|x\"", vec!["p1"]),
        ("producer_name_filter: \"q\" producer_name_regex_filter: \".2\"", vec!["p2", "q"]),
        ("machine_name_filter: \"host\"", vec!["p1", "p2", "q"]),
        ("machine_name_filter: \"Linux\"", vec!["p1", "p2", "q"]),
        ("machine_name_filter: \"guest\"", vec![]),
    ];
    for (filter, expected) in cases {
        let mut world = World::default();
        let producers: Vec<_> = ["p1", "p2", "q"].map(|name| (name, world.producer(name))).into();
        for (_, producer) in &producers {
            world.register(*producer, "data");
        }
        let consumer = world.consumer(1000);
        world.enable(
            consumer,
            &format!("buffers {{ size_kb: 4 }} data_sources {{ config {{ name: \"data\" }} {filter} }}"),
        );
        let mut matched = Vec::new();
        for (name, producer) in &producers {
            if !world.command_names(*producer).is_empty() {
                matched.push(*name);
            }
        }
        assert_eq!(matched, expected, "{filter}");
    }
}

#[test]
fn change_trace_config_lets_more_producers_in_and_none_out() {
    let mut world = World::default();
    let (p1, p2) = (world.producer("p1"), world.producer("p2"));
    world.register(p1, "data");
    world.register(p2, "data");
    let consumer = world.consumer(1000);
    let text = |name: &str| {
        format!(
            "buffers {{ size_kb: 4 }} data_sources {{ config {{ name: \"data\" }} producer_name_filter: \"{name}\" }}"
        )
    };
    world.enable(consumer, &text("p1"));
    assert_eq!(world.command_names(p1), ["setup_tracing", "setup", "start"]);
    assert_eq!(world.command_names(p2), [""; 0]);
    let request = protos::ChangeTraceConfigRequest { trace_config: Some(world::config_bytes(&text("p2"))) };
    world.ask(consumer, ConsumerCall::ChangeTraceConfig(request));
    assert_eq!(world.command_names(p1), [""; 0]);
    assert_eq!(world.command_names(p2), ["setup_tracing", "setup", "start"]);
}

#[test]
fn change_trace_config_lets_nobody_into_a_session_that_stops() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    let producers = ["p1", "p2"].map(|name| {
        let producer = world.producer(name);
        let descriptor = DataSourceDescriptor {
            name: Some("data".to_owned()),
            will_notify_on_stop: Some(true),
            ..Default::default()
        };
        world.register_as(producer, descriptor);
        producer
    });
    let text = |name: &str| {
        format!(
            "buffers {{ size_kb: 4 }} data_sources {{ config {{ name: \"data\" }} producer_name_filter: \"{name}\" }}"
        )
    };
    world.enable(consumer, &text("p1"));
    world.disable(consumer);
    let request = protos::ChangeTraceConfigRequest { trace_config: Some(world::config_bytes(&text("p2"))) };
    world.ask(consumer, ConsumerCall::ChangeTraceConfig(request));
    assert_eq!(world.command_names(producers[0]), ["setup_tracing", "setup", "start", "stop"]);
    assert_eq!(world.command_names(producers[1]), [""; 0]);
}

#[test]
fn late_producers_join() {
    for (deferred, expected) in
        [(false, vec!["setup_tracing", "setup", "start"]), (true, vec!["setup_tracing", "setup"])]
    {
        let mut world = World::default();
        let consumer = world.consumer(1000);
        world.enable(consumer, &config(&format!("deferred_start: {deferred}")));
        let producer = world.producer("late");
        world.register(producer, "other");
        assert_eq!(world.command_names(producer), [""; 0]);
        world.register(producer, "data");
        assert_eq!(world.command_names(producer), expected);
        world.disable(consumer);
        world.register(producer, "data");
        assert_eq!(world.command_names(producer), ["stop"]);
    }
}

#[test]
fn deferred_start_waits_for_start_tracing() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config("deferred_start: true duration_ms: 100"));
    assert_eq!(world.command_names(producer), ["setup_tracing", "setup"]);
    world.advance_ms(1000);
    assert_eq!(world.ended(consumer), None);
    world.ask(consumer, ConsumerCall::StartTracing(Default::default()));
    assert_eq!(world.command_names(producer), ["start"]);
    world.advance_ms(100);
    world.acknowledge_flushes(producer);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
}

#[test]
fn the_end_waits_for_stop_acknowledgements_or_their_time_out() {
    for acknowledges in [true, false] {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register_as(producer, acknowledging("data"));
        let consumer = world.consumer(1000);
        world.enable(consumer, &config("data_source_stop_timeout_ms: 700"));
        let (id, _) = only_setup(&world.commands(producer));
        started(&mut world, producer, id);
        world.disable(consumer);
        assert_eq!(world.ended(consumer), None);
        if acknowledges {
            stopped(&mut world, producer, id + 100);
            assert_eq!(world.ended(consumer), None, "somebody else's acknowledgement");
            stopped(&mut world, producer, id);
        } else {
            world.advance_ms(699);
            assert_eq!(world.ended(consumer), None);
            world.advance_ms(1);
        }
        assert_eq!(world.ended(consumer).as_deref(), Some(""));
    }
}

#[test]
fn a_producer_that_dies_does_not_hold_up_the_end() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register_as(producer, acknowledging("data"));
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    world.disable(consumer);
    assert_eq!(world.ended(consumer), None);
    world.disconnect(producer);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
}

#[test]
fn a_duration_ends_with_a_flush() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config("duration_ms: 500"));
    world.commands(producer);
    world.advance_ms(500);
    let commands = world.commands(producer);
    let [Cmd::Flush(flush)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!(flush.flags(), 0x12, "trace stop, by the service");
    world.emit(producer, 1, 0, 1, &[&packet("last words")]);
    world.acknowledge_flush(producer, flush.request_id());
    assert_eq!(world.command_names(producer), ["stop"]);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    assert_eq!(world.read_payloads(consumer), ["last words"]);
    let stats = world.stats(consumer);
    assert_eq!(stats.final_flush_outcome(), protos::trace_stats::FinalFlushOutcome::FinalFlushSucceeded);
}

#[test]
fn all_data_sources_started_is_told_once_all_have() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register_as(producer, acknowledging("data"));
    world.register(producer, "quick");
    let consumer = world.consumer(1000);
    observe(&mut world, consumer);
    world.enable(consumer, &config("data_sources { config { name: \"quick\" } }"));
    assert_eq!(observed(&mut world, consumer), (vec!["p/quick started".to_owned()], false));
    let setup = world.commands(producer);
    let (id, _) = instance(setup.iter().find(|command| matches!(command, Cmd::SetupDataSource(_))).unwrap());
    started(&mut world, producer, id);
    assert_eq!(observed(&mut world, consumer), (vec!["p/data started".to_owned()], true));
    started(&mut world, producer, id);
    assert_eq!(observed(&mut world, consumer), (vec![], false));
}

#[test]
fn who_observes_late_hears_what_happened() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    observe(&mut world, consumer);
    assert_eq!(observed(&mut world, consumer), (vec!["p/data started".to_owned()], true));
    world.call(
        producer,
        ProducerCall::UnregisterDataSource(protos::UnregisterDataSourceRequest {
            data_source_name: Some("data".to_owned()),
        }),
    );
    assert_eq!(observed(&mut world, consumer), (vec!["p/data stopped".to_owned()], false));
}

#[test]
fn a_session_without_matches_has_all_started() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    observe(&mut world, consumer);
    world.enable(consumer, &config(""));
    assert_eq!(observed(&mut world, consumer), (vec![], true));
}

#[test]
fn slow_data_sources_are_named_in_the_trace() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register_as(producer, acknowledging("data"));
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    world.advance_ms(20_000);
    let events = world.read(consumer).into_iter().filter_map(|packet| match packet.data {
        Some(protos::trace_packet::Data::ServiceEvent(event)) => event.event_type,
        _ => None,
    });
    let slow = events.filter_map(|event| match event {
        protos::tracing_service_event::EventType::SlowStartingDataSources(slow) => Some(slow),
        _ => None,
    });
    let slow: Vec<_> = slow.flat_map(|slow| slow.data_source).collect();
    assert_eq!(slow.len(), 1);
    assert_eq!((slow[0].producer_name(), slow[0].data_source_name()), ("p", "data"));
}

#[test]
fn incremental_state_is_cleared_periodically_where_it_is_handled() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "other");
    world.register_as(
        producer,
        DataSourceDescriptor {
            name: Some("data".to_owned()),
            handles_incremental_state_clear: Some(true),
            ..Default::default()
        },
    );
    let consumer = world.consumer(1000);
    world.enable(
        consumer,
        &config(
            "data_sources { config { name: \"other\" } } incremental_state_config { clear_period_ms: 100 }",
        ),
    );
    let commands = world.commands(producer);
    let (id, _) = instance(
        commands
            .iter()
            .find(|command| {
                matches!(command, Cmd::SetupDataSource(_)) && instance(command).1.name() == "data"
            })
            .unwrap(),
    );
    world.advance_ms(350);
    let clears = world.commands(producer);
    assert!(clears.len() >= 3, "{clears:?}");
    for clear in clears {
        let Cmd::ClearIncrementalState(clear) = clear else { panic!("{clear:?}") };
        assert_eq!(clear.data_source_ids, [id]);
    }
}

#[test]
fn a_consumer_that_hangs_up_takes_its_session_along() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    world.commands(producer);
    world.hang_up(consumer);
    assert_eq!(world.command_names(producer), ["stop"]);
    assert_eq!(world.service.session_count(), 0);
}

#[test]
fn a_detached_session_waits_for_its_user() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    world.enable_into(consumer, &config("write_into_file: true"), ferretto_service::FileHandle(1));
    let detach = |key: &str| ConsumerCall::Detach(protos::DetachRequest { key: Some(key.to_owned()) });
    let attach = |key: &str| ConsumerCall::Attach(protos::AttachRequest { key: Some(key.to_owned()) });
    world.ask(consumer, detach("key"));
    assert!(world.reply(consumer, "Detach").unwrap().is_some());
    world.hang_up(consumer);
    assert_eq!(world.service.session_count(), 1);

    let stranger = world.consumer(1001);
    world.ask(stranger, attach("key"));
    assert_eq!(world.reply(stranger, "Attach"), Some(None));
    let again = world.consumer(1000);
    world.ask(again, attach("other key"));
    assert_eq!(world.reply(again, "Attach"), Some(None));
    world.ask(again, attach("key"));
    let response: protos::AttachResponse = world.answer(again, "Attach");
    assert!(!response.trace_config.unwrap().is_empty());
    let wait = protos::EnableTracingRequest { attach_notification_only: Some(true), ..Default::default() };
    world.ask(again, ConsumerCall::EnableTracing(wait));
    assert_eq!(world.ended(again), None);
    world.disable(again);
    assert_eq!(world.ended(again).as_deref(), Some(""));
}

#[test]
fn a_detached_session_without_file_is_freed_at_its_end() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    world.enable(consumer, &config("duration_ms: 100"));
    world.ask(consumer, ConsumerCall::Detach(protos::DetachRequest { key: Some("k".to_owned()) }));
    world.hang_up(consumer);
    world.advance_ms(100);
    assert_eq!(world.service.session_count(), 0);
}

#[test]
fn refused_configs_say_why() {
    let with_source = "buffers { size_kb: 4 name: \"a\" } data_sources { config { name: \"data\"";
    let cases = [
        ("buffers { size_kb: 0 }".to_owned(), "buffers[0].size_kb is 0"),
        ("buffers { size_kb: 4194304 }".to_owned(), "buffers[0].size_kb is 4194304"),
        ("duration_ms: 604800001".to_owned(), "duration_ms is 604800001"),
        (
            "buffers { name: \"a\" size_kb: 4 } buffers { name: \"a\" size_kb: 4 }".to_owned(),
            "two buffers are named \"a\"",
        ),
        (format!("{with_source} target_buffer: 1 }} }}"), "wants target_buffer 1"),
        (format!("{with_source} target_buffer_name: \"b\" }} }}"), "no buffer of the config has this name"),
        (format!("{with_source} }} producer_name_regex_filter: \"(\" }}"), "no valid regular expression"),
        ("write_into_file: true".to_owned(), "got neither"),
        ("output_path: \"/x\"".to_owned(), "write_into_file: true"),
        ("write_into_file: true output_path: \"/x\"".to_owned(), "pass a file descriptor instead"),
        ("bugreport_filename: \"a/b\"".to_owned(), "bugreport_filename"),
        ("enable_extra_guardrails: true deferred_start: true".to_owned(), "deferred_start"),
        ("enable_extra_guardrails: true buffers { size_kb: 5 }".to_owned(), "multiples of 4"),
        ("enable_extra_guardrails: true buffers { size_kb: 200000 }".to_owned(), "200000 KiB"),
        ("enable_extra_guardrails: true duration_ms: 86400001".to_owned(), "86400000 ms"),
        ("exclusive_prio: 1".to_owned(), "root"),
        ("buffers { size_kb: 4 } ".repeat(129), "129 buffers"),
    ];
    for (text, expected) in cases {
        let mut world = World::default();
        let consumer = world.consumer(1000);
        world.enable(consumer, &text);
        let error = world.ended(consumer).unwrap_or_else(|| panic!("accepted: {text}"));
        assert!(error.contains(expected), "{text:.100}: {error:?} lacks {expected:?}");
        assert_eq!(world.service.session_count(), 0);
        // The consumer can try again.
        world.enable(consumer, &config(""));
        assert_eq!(world.ended(consumer), None);
    }
    let mut world = World::default();
    let consumer = world.consumer(1000);
    world.enable_raw(consumer, bytes::Bytes::from_static(&[0xff; 9]), None);
    assert!(world.ended(consumer).unwrap().contains("no valid protobuf"));
}

#[test]
fn configs_for_other_systems_are_accepted() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    world.enable(
        consumer,
        &config("statsd_metadata { triggering_config_id: 1 } notify_traceur: true compression_type: COMPRESSION_TYPE_DEFLATE"),
    );
    assert_eq!(world.ended(consumer), None);
}

#[test]
fn limits_of_sessions_names_and_semaphores_hold() {
    let mut world = World::default();
    let named = config("unique_session_name: \"n\"");
    let (a, b, neighbour) = (world.consumer(1), world.consumer(1), world.consumer(2));
    world.enable(a, &named);
    world.enable(b, &named);
    assert!(world.ended(b).unwrap().contains("unique_session_name"));
    world.enable(neighbour, &named);
    assert_eq!(world.ended(neighbour), None, "each user has own names");
    world.free(neighbour);
    world.enable(a, &named);
    assert!(world.ended(a).unwrap().contains("already"));
    world.free(a);
    world.enable(b, &named);
    assert_eq!(world.ended(b), None);
    world.free(b);

    let semaphore =
        |max: u32| config(&format!("session_semaphores {{ name: \"s\" max_other_session_count: {max} }}"));
    world.enable(a, &semaphore(1));
    world.enable(b, &semaphore(0));
    assert!(world.ended(b).unwrap().contains("semaphore"));
    world.enable(b, &semaphore(1));
    assert_eq!(world.ended(b), None);
    let c = world.consumer(3);
    world.enable(c, &semaphore(5));
    assert!(world.ended(c).unwrap().contains("semaphore"));
    for consumer in [a, b] {
        world.free(consumer);
    }

    for uid in 10..13 {
        for _ in 0..5 {
            let consumer = world.consumer(uid);
            world.enable(consumer, &config(""));
            assert_eq!(world.ended(consumer), None);
        }
    }
    let sixth = world.consumer(10);
    world.enable(sixth, &config(""));
    assert!(world.ended(sixth).unwrap().contains("user 10"));
    let sixteenth = world.consumer(99);
    world.enable(sixteenth, &config(""));
    assert!(world.ended(sixteenth).unwrap().contains("15 concurrent"));
    let root = world.consumer(0);
    world.enable(root, &config(""));
    assert_eq!(world.ended(root), None, "users keep root out");
}

#[test]
fn an_exclusive_session_ends_others_and_keeps_new_ones_out() {
    let mut world = World::default();
    let (user, root) = (world.consumer(1000), world.consumer(0));
    let finished = world.consumer(1001);
    world.enable(finished, &config(""));
    world.disable(finished);
    world.enable(user, &config(""));
    world.enable(root, &config("exclusive_prio: 2"));
    assert!(world.ended(user).unwrap().contains("exclusive_prio 2"));
    assert_eq!(world.ended(root), None);
    assert_eq!(world.service.session_count(), 1, "the others are freed");
    world.enable(user, &config(""));
    assert!(world.ended(user).unwrap().contains("exclusive"));
    let (same, more) = (world.consumer(0), world.consumer(0));
    world.enable(same, &config("exclusive_prio: 2"));
    assert!(world.ended(same).unwrap().contains("higher exclusive_prio"));
    world.enable(more, &config("exclusive_prio: 3"));
    assert!(world.ended(root).unwrap().contains("exclusive_prio 3"));
}

#[test]
fn nobody_attaches_to_a_session_that_only_its_file_keeps() {
    let mut world = World::default();
    let (user, root) = (world.consumer(1000), world.consumer(0));
    world.files_wait = true;
    world.enable_into(user, &config("write_into_file: true"), ferretto_service::FileHandle(1));
    world.ask(user, ConsumerCall::Detach(protos::DetachRequest { key: Some("key".to_owned()) }));
    world.enable(root, &config("exclusive_prio: 1"));
    assert_eq!(world.service.session_count(), 2, "one waits for its file");
    world.ask(user, ConsumerCall::Attach(protos::AttachRequest { key: Some("key".to_owned()) }));
    assert_eq!(world.reply(user, "Attach"), Some(None));
    world.files_wait = false;
    world.run();
    assert_eq!(world.service.session_count(), 1);
}

#[test]
fn traces_with_guardrails_keep_their_distance() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    let text = config("enable_extra_guardrails: true unique_session_name: \"n\" duration_ms: 10");
    world.enable(consumer, &text);
    assert_eq!(world.ended(consumer), None);
    world.free(consumer);
    world.enable(consumer, &text);
    assert!(world.ended(consumer).unwrap().contains("less than 300 s ago"));
    let neighbour = world.consumer(1001);
    world.enable(neighbour, &text);
    assert_eq!(world.ended(neighbour), None, "what others start is nobody's business");
    world.free(neighbour);
    world.advance_ms(301_000);
    world.enable(consumer, &text);
    assert_eq!(world.ended(consumer), None);
}

#[test]
fn lock_down_keeps_other_users_producers_out() {
    let mut world = World::default();
    let consumer = world.consumer(0);
    world.enable(consumer, &config("lockdown_mode: LOCKDOWN_SET"));
    let stranger = world.producer("p");
    assert!(world.producers[&stranger].response.is_none());
    let own = world.introduce(&world::Introduction { uid: 7, ..named("own") });
    assert!(world.producers[&own].response.is_some());
    world.free(consumer);
    world.enable(consumer, &config("lockdown_mode: LOCKDOWN_CLEAR"));
    let stranger = world.producer("p");
    assert!(world.producers[&stranger].response.is_some());
}

/// Else a neighbour keeps everybody's programs out, or lets in what was kept out.
#[test]
fn lock_down_is_for_root_and_the_services_own_user() {
    let mut world = World::default();
    let (root, own, user) = (world.consumer(0), world.consumer(SERVICE_UID), world.consumer(1000));
    let is_open = |world: &mut World| {
        let producer = world.producer("p");
        let is_in = world.producers[&producer].response.is_some();
        world.disconnect(producer);
        is_in
    };
    world.enable(user, &config("lockdown_mode: LOCKDOWN_SET"));
    assert!(world.ended(user).unwrap().contains("lockdown_mode may only be used by root"));
    assert!(is_open(&mut world));
    world.enable(root, &config("lockdown_mode: LOCKDOWN_SET"));
    world.enable(user, &config("lockdown_mode: LOCKDOWN_CLEAR"));
    assert!(!is_open(&mut world));
    world.enable(own, &config("lockdown_mode: LOCKDOWN_CLEAR"));
    assert!(is_open(&mut world));
}

#[test]
fn memory_is_chosen_by_config_then_hint_then_default() {
    const KB: usize = 1024;
    let cases = [
        ("", 0, 0, (256 * KB, 4 * KB)),
        ("", 512, 16, (512 * KB, 16 * KB)),
        (
            "producers { producer_name: \"p\" shm_size_kb: 1024 page_size_kb: 8 }",
            512,
            16,
            (1024 * KB, 8 * KB),
        ),
        (
            "producers { producer_name: \"q\" shm_size_kb: 1024 page_size_kb: 8 }",
            512,
            16,
            (512 * KB, 16 * KB),
        ),
        ("producers { producer_name: \"p\" shm_size_kb: 1024 }", 0, 32, (1024 * KB, 32 * KB)),
        ("producers { producer_name: \"p\" shm_size_kb: 10 page_size_kb: 3 }", 0, 0, (256 * KB, 4 * KB)),
        ("producers { producer_name: \"*\" shm_size_kb: 1024 }", 0, 0, (1024 * KB, 4 * KB)),
        ("producers { producer_name: \"*\" shm_size_kb: 1024 }", 2048, 0, (2048 * KB, 4 * KB)),
        (
            "producers { producer_name: \"*\" shm_size_kb: 1024 } producers { producer_name: \"p\" shm_size_kb: 512 }",
            0,
            0,
            (512 * KB, 4 * KB),
        ),
        ("", 64 * 1024, 0, (32 * 1024 * KB, 4 * KB)),
        ("producers { producer_name: \"p\" shm_size_kb: 40960 }", 0, 0, (40 * 1024 * KB, 4 * KB)),
        ("producers { producer_name: \"p\" shm_size_kb: 1048576 }", 0, 0, (48 * 1024 * KB, 4 * KB)),
    ];
    let as_user = cases.map(|case| (1000, case));
    let large = "producers { producer_name: \"p\" shm_size_kb: 1048576 }";
    let of_others = [0, SERVICE_UID].map(|uid| (uid, (large, 0, 0, (256 * 1024 * KB, 4 * KB))));
    for (uid, (more, size_kb, page_kb, expected)) in as_user.into_iter().chain(of_others) {
        let mut world = World::default();
        let producer = world.introduce(&world::Introduction {
            size_hint: size_kb * 1024,
            page_hint: page_kb * 1024,
            ..named("p")
        });
        world.register(producer, "data");
        let consumer = world.consumer(uid);
        world.enable(consumer, &config(more));
        let found = &world.producers[&producer];
        assert_eq!((found.memory.as_ref().unwrap().len(), found.page_size), expected, "{more} of {uid}");
    }
}

#[test]
fn a_strangers_config_gives_a_producer_more_memory_and_never_less() {
    const KB: usize = 1024;
    let cases = [
        ("shm_size_kb: 4", (512 * KB, 8 * KB)),
        ("shm_size_kb: 4 page_size_kb: 4", (512 * KB, 8 * KB)),
        // So few pages would be full soon.
        ("page_size_kb: 32", (512 * KB, 8 * KB)),
        ("shm_size_kb: 8192 page_size_kb: 32", (8192 * KB, 32 * KB)),
        ("shm_size_kb: 8192", (8192 * KB, 8 * KB)),
        ("shm_size_kb: 8192 page_size_kb: 4", (8192 * KB, 8 * KB)),
        // Nothing that can be.
        ("shm_size_kb: 8190 page_size_kb: 32", (512 * KB, 8 * KB)),
    ];
    let sizes = |asking_uid: u32, more: &str| {
        let mut world = World::default();
        let (size_hint, page_hint) = (512 * 1024, 8 * 1024);
        let producer = world.introduce(&world::Introduction { size_hint, page_hint, ..named("p") });
        world.register(producer, "data");
        let consumer = world.consumer(asking_uid);
        world.enable(consumer, &config(&format!("producers {{ producer_name: \"p\" {more} }}")));
        let found = &world.producers[&producer];
        (found.memory.as_ref().unwrap().len(), found.page_size)
    };
    for (more, expected) in cases {
        assert_eq!(sizes(5, more), expected, "{more}");
    }
    for uid in [0, 1000, SERVICE_UID] {
        assert_eq!(sizes(uid, "shm_size_kb: 8"), (8 * KB, 8 * KB), "{uid}");
    }
}

#[test]
fn memory_that_a_producer_brings_is_used_if_it_fits_the_rules() {
    const KB: usize = 1024;
    for (len, page, used) in
        [(512 * KB, 8 * KB, true), (512 * KB, 64 * KB, false), (12 * KB, 8 * KB, false), (512 * KB, 0, false)]
    {
        let mut world = World::default();
        let producer = world.introduce(&world::Introduction {
            provides: Some(len),
            page_hint: page as u32,
            ..named("p")
        });
        let response = world.producers[&producer].response.unwrap();
        assert_eq!(response.using_shmem_provided_by_producer(), used, "{len} {page}");
        assert_eq!(world.command_names(producer).len(), usize::from(used), "confirmed at once");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        world.enable(consumer, &config(""));
        world.emit(producer, 1, 0, 1, &[&packet("x")]);
        assert_eq!(world.read_payloads(consumer), ["x"]);
    }
}

#[test]
fn the_producers_of_a_user_have_so_much_shared_memory_in_sum() {
    let brings = |world: &mut World, uid| {
        let size = limits::MAX_SHARED_MEMORY_SIZE;
        world.introduce(&world::Introduction { provides: Some(size), page_hint: 4096, uid, ..named("p") })
    };
    let is_used = |world: &World, producer| {
        world.producers[&producer].response.unwrap().using_shmem_provided_by_producer()
    };
    let mut world = World::default();
    const FITTING: usize = limits::MAX_SHARED_MEMORY_PER_USER / limits::MAX_SHARED_MEMORY_SIZE;
    let large: Vec<_> = (0..FITTING).map(|_| brings(&mut world, 21)).collect();
    assert!(large.iter().all(|producer| is_used(&world, *producer)));
    let too_much = brings(&mut world, 21);
    assert!(!is_used(&world, too_much));
    let other = brings(&mut world, 22);
    assert!(is_used(&world, other), "others are in nobody's way");
    let of_root: Vec<_> = (0..=FITTING).map(|_| brings(&mut world, 0)).collect();
    assert!(of_root.iter().all(|producer| is_used(&world, *producer)));

    // It is not left without, and records.
    world.register(too_much, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    let found = &world.producers[&too_much];
    assert_eq!(found.memory.as_ref().unwrap().len(), limits::SHARED_MEMORY_SIZE_AT_LAST);
    world.emit(too_much, 1, 0, 1, &[&packet("x")]);
    assert_eq!(world.read_payloads(consumer), ["x"]);

    [large[0], too_much].into_iter().for_each(|producer| world.disconnect(producer));
    let after = brings(&mut world, 21);
    assert!(is_used(&world, after), "what one had that left is free again");
}

/// Otherwise a stranger's config could use up what the producers of a user may have.
#[test]
fn what_a_stranger_gives_to_a_producer_is_on_the_strangers_account() {
    let mut world = World::default();
    let gives = |world: &mut World, name: &str, kb: usize| {
        let producer = world.introduce(&world::Introduction { uid: 21, ..named(name) });
        world.register(producer, "data");
        let consumer = world.consumer(22);
        let config = config(&format!("producers {{ producer_name: \"{name}\" shm_size_kb: {kb} }}"));
        world.enable(consumer, &config);
        (producer, consumer)
    };
    let len = |world: &World, producer| world.producers[&producer].memory.as_ref().unwrap().len();
    let (large, consumer) = gives(&mut world, "large", 256 * 1024);
    assert_eq!(len(&world, large), limits::MAX_SHARED_MEMORY_SIZE_BY_USERS);
    world.free(consumer);
    let (_second, consumer) = gives(&mut world, "second", 48 * 1024);
    world.free(consumer);
    let (_third, consumer) = gives(&mut world, "third", 32 * 1024);
    world.free(consumer);
    // Nothing is left for another gift.
    let (small, consumer) = gives(&mut world, "small", 1024);
    assert_eq!(len(&world, small), limits::DEFAULT_SHARED_MEMORY_SIZE);
    world.free(consumer);
    let size = limits::MAX_SHARED_MEMORY_SIZE;
    let own = world.introduce(&world::Introduction {
        provides: Some(size),
        page_hint: 4096,
        uid: 21,
        ..named("own")
    });
    assert!(world.producers[&own].response.unwrap().using_shmem_provided_by_producer());
    world.disconnect(large);
    let (again, _) = gives(&mut world, "again", 1024);
    assert_eq!(len(&world, again), 1024 * 1024);
}

/// All that a producer has may be more than fits into a frame.
#[test]
fn a_producer_with_thousands_of_instances_is_told_to_flush_in_several_commands() {
    const TIMES: usize = 256;
    const SOURCES: usize = 20;
    let mut world = World::default();
    let producer = world.producer("p");
    (0..SOURCES).for_each(|_| world.register(producer, "data"));
    let consumer = world.consumer(1000);
    let sources = "data_sources { config { name: 'data' } }".repeat(TIMES);
    world.enable(consumer, &format!("buffers {{ size_kb: 64 }} {sources}"));
    (0..100).for_each(|_| world.advance_ms(0));
    world.commands(producer);
    for _ in 0..2 {
        world.flush(consumer, 1000);
        (0..10).for_each(|_| world.advance_ms(0));
        let flushes: Vec<_> = world
            .commands(producer)
            .into_iter()
            .map(|command| match command {
                Cmd::Flush(flush) => (flush.request_id(), flush.data_source_ids),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(flushes.iter().all(|(_, ids)| ids.len() * 11 < 64 * 1024));
        let ids: BTreeSet<u64> = flushes.iter().flat_map(|(_, ids)| ids).copied().collect();
        assert_eq!((ids.len(), flushes.len()), (SOURCES * TIMES, 3));
        // It has flushed when it has answered the last one.
        for (index, (request, _)) in flushes.iter().enumerate() {
            assert!(world.reply(consumer, "Flush").is_none(), "{index}");
            world.acknowledge_flush(producer, *request);
        }
        world.advance_ms(1);
        assert!(world.reply(consumer, "Flush").is_some_and(|reply| reply.is_some()));
    }
}

/// There may be thousands of producers: they are told one after another, and each once for each flush.
#[test]
fn producers_are_told_to_flush_step_by_step() {
    const PRODUCERS: usize = 50;
    let mut world = World::with_step_cost(NonZeroUsize::new(1));
    let producers: Vec<_> = (0..PRODUCERS).map(|number| world.producer(&format!("p{number}"))).collect();
    let source = DataSourceDescriptor {
        name: Some("data".to_owned()),
        handles_incremental_state_clear: Some(true),
        ..Default::default()
    };
    producers.iter().for_each(|producer| world.register_as(*producer, source.clone()));
    let consumer = world.consumer(1000);
    let periods = "flush_period_ms: 10 flush_timeout_ms: 2 incremental_state_config { clear_period_ms: 10 }";
    world.enable(consumer, &config(periods));
    world.advance_ms(0);
    let told = |world: &mut World| -> Vec<usize> {
        let names = producers.iter().map(|producer| world.command_names(*producer));
        let flushes = |names: Vec<&str>| names.into_iter().filter(|name| *name == "flush").count();
        names.map(flushes).collect()
    };
    told(&mut world);
    world.flush(consumer, 1000);
    let at_once: usize = told(&mut world).iter().sum();
    assert!((1..PRODUCERS).contains(&at_once), "{at_once}");
    assert!(world.service.is_busy(consumer), "what it asks for next comes behind that");
    world.advance_ms(0);
    assert_eq!(told(&mut world), [vec![0; at_once], vec![1; PRODUCERS - at_once]].concat());
    assert!(!world.service.is_busy(consumer) && world.reply(consumer, "Flush").is_none());
    producers.iter().for_each(|producer| world.acknowledge_flush(*producer, 2));
    world.advance_ms(0);
    assert!(world.reply(consumer, "Flush").is_some_and(|reply| reply.is_some()));
    // One that nobody has asked for is over before all are told; the next one is told to all.
    world.advance_ms(25);
    assert!(told(&mut world).iter().all(|count| (1..=2).contains(count)));
}

#[test]
fn a_second_introduction_is_rejected_and_calls_before_the_first_too() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.call(producer, ProducerCall::InitializeConnection(Default::default()));
    assert_eq!(world.producers[&producer].last_reply, Some(None));
    let silent = ferretto_service::ProducerConn(9999);
    world.producers.insert(silent, Default::default());
    world.service.handle_producer_connected(silent, Default::default());
    for call in [
        ProducerCall::Sync(Default::default()),
        ProducerCall::CommitData(Default::default()),
        ProducerCall::GetAsyncCommand(Default::default()),
    ] {
        world.call(silent, call);
        assert_eq!(world.producers[&silent].last_reply, Some(None));
    }
}

#[test]
fn the_service_state_lists_producers_sources_and_own_sessions() {
    let mut world = World::default();
    let producer = world.producer("p");
    for index in 0..3000 {
        world.register(producer, &format!("{index:0>100}"));
    }
    let (mine, other) = (world.consumer(1000), world.consumer(1001));
    world.enable(other, &config(""));
    world.enable(mine, &config("unique_session_name: \"mine\""));
    world.ask(mine, ConsumerCall::QueryServiceState(Default::default()));
    let replies = world.consumers.get_mut(&mine).unwrap().replies.remove("QueryServiceState").unwrap();
    assert!(replies.len() > 1, "it takes several frames");
    let merged =
        replies.into_iter().map(|body| protos::QueryServiceStateResponse::decode(body.unwrap()).unwrap());
    let states: Vec<_> = merged.map(|response| response.service_state.unwrap()).collect();
    let sources: usize = states.iter().map(|state| state.data_sources.len()).sum();
    assert_eq!(sources, limits::MAX_DATA_SOURCES_PER_PRODUCER);
    let sessions = &states[0].tracing_sessions;
    assert_eq!(sessions.len(), 1, "another user's session is not shown");
    assert_eq!((sessions[0].unique_session_name(), sessions[0].state()), ("mine", "STARTED"));
    assert_eq!(states[0].num_sessions, Some(2));
}

#[test]
fn every_consumer_method_answers_without_a_session() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    let calls = [
        ConsumerCall::DisableTracing(Default::default()),
        ConsumerCall::ReadBuffers(Default::default()),
        ConsumerCall::FreeBuffers(Default::default()),
        ConsumerCall::Flush(Default::default()),
        ConsumerCall::StartTracing(Default::default()),
        ConsumerCall::ChangeTraceConfig(Default::default()),
        ConsumerCall::Detach(Default::default()),
        ConsumerCall::Attach(Default::default()),
        ConsumerCall::GetTraceStats(Default::default()),
        ConsumerCall::ObserveEvents(Default::default()),
        ConsumerCall::QueryServiceState(Default::default()),
        ConsumerCall::QueryCapabilities(Default::default()),
        ConsumerCall::SaveTraceForBugreport(Default::default()),
        ConsumerCall::CloneSession(Default::default()),
    ];
    for call in calls {
        let method = call.method();
        world.ask(consumer, call);
        assert!(world.reply(consumer, method).is_some(), "{method} was not answered");
    }
}
