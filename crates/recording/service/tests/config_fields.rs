//! What single fields of a trace config do, where no other test shows it (docs/trace-config.md lists them all).

mod world;

use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::concurrent_session_event::State;
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{self as protos, ConcurrentSessionEvent, TracePacket};
use ferretto_service::{Boost, ConsumerCall, ConsumerConn, FileHandle, ProducerCall};
use world::{CREATED_FILE, World, config, only_setup, packet};

fn refused(world: &mut World, consumer: ConsumerConn, text: &str) -> String {
    world.enable(consumer, text);
    world.ended(consumer).unwrap_or_else(|| panic!("accepted: {text}"))
}

fn accepted(world: &mut World, uid: u32, text: &str) -> ConsumerConn {
    let consumer = world.consumer(uid);
    world.enable(consumer, text);
    assert_eq!(world.ended(consumer), None, "{text}");
    consumer
}

#[test]
fn the_config_stands_in_the_trace_as_it_came() {
    let mut world = World::default();
    let text = "trace_attributes { attribute { key: \"build\" string_value: \"x1\" } attribute { key: \"n\" long_value: 4 } } \
                statsd_metadata { triggering_config_id: 7 }";
    let mut raw = world::config_bytes(&config(text)).to_vec();
    // Field 99999, which no schema knows.
    prost::encoding::uint64::encode(99_999, &5, &mut raw);
    let consumer = world.consumer(1000);
    world.enable_raw(consumer, raw.clone().into(), None);
    let configs = world.read(consumer).into_iter().filter_map(|packet| match packet.data {
        Some(Data::TraceConfig(config)) => Some(config),
        _ => None,
    });
    assert_eq!(configs.collect::<Vec<_>>(), [raw]);
}

#[test]
fn fields_without_a_meaning_here_are_accepted() {
    let fields = [
        "statsd_metadata { triggering_alert_id: 1 triggering_config_uid: 2 triggering_config_id: 3 triggering_subscription_id: 4 }",
        "notify_traceur: true",
        "allow_user_build_tracing: true",
        "incident_report_config { destination_package: \"p\" destination_class: \"c\" privacy_level: 1 skip_incidentd: true }",
        "statsd_logging: STATSD_LOGGING_ENABLED",
        "android_report_config { reporter_service_package: \"p\" reporter_service_class: \"c\" skip_report: true }",
        "guardrail_overrides { max_upload_per_day_bytes: 1 }",
        "persist_trace_across_reboots: true",
        "builtin_data_sources { disable_extension_descriptors: true }",
        "cmd_trace_start_delay { min_delay_ms: 1 max_delay_ms: 2 }",
        "activate_triggers: \"t\"",
    ];
    for field in fields {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = accepted(&mut world, 1000, &config(field));
        world.emit(producer, 1, 0, 1, &[&packet("x")]);
        assert_eq!(world.read_payloads(consumer), ["x"], "{field}");
    }
}

#[test]
fn guardrails_for_buffers_can_be_raised_and_not_lowered() {
    let text = |size_kb: u32, max_kb: u32| {
        format!(
            "enable_extra_guardrails: true buffers {{ size_kb: {size_kb} }} \
             guardrail_overrides {{ max_tracing_buffer_size_kb: {max_kb} }}"
        )
    };
    for (size_kb, max_kb, is_refused) in
        [(131_072, 4, false), (131_076, 4, true), (131_076, 131_076, false), (131_080, 131_076, true)]
    {
        let mut world = World::default();
        let consumer = world.consumer(1000);
        world.enable(consumer, &text(size_kb, max_kb));
        assert_eq!(world.ended(consumer).is_some(), is_refused, "{size_kb} {max_kb}");
    }
}

#[test]
fn files_are_written_every_five_seconds_or_as_asked_but_not_too_often() {
    for (period, expected_ms) in
        [("", 5000), ("file_write_period_ms: 700", 700), ("file_write_period_ms: 1", 100)]
    {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        let file = FileHandle(1);
        let text = format!("write_into_file: true write_flush_mode: WRITE_FLUSH_DISABLED {period}");
        world.enable_into(consumer, &config(&text), file);
        // From one write to the next.
        world.advance_ms(expected_ms);
        world.emit(producer, 1, 0, 1, &[&packet("x")]);
        let before = world.files[&file].bytes.len();
        let to_next = expected_ms - world.now.clocks.realtime / 1_000_000 % expected_ms;
        world.advance_ms(to_next - 1);
        assert_eq!(world.files[&file].bytes.len(), before, "{period}");
        world.advance_ms(1);
        assert!(world.files[&file].bytes.len() > before, "{period}");
    }
}

#[test]
fn files_are_synced_if_asked() {
    for (mode, expected) in
        [("", 0), ("fflush_post_write: FFLUSH_DISABLED", 0), ("fflush_post_write: FFLUSH_ENABLED", 3)]
    {
        let mut world = World::default();
        let consumer = world.consumer(1000);
        let text = format!("write_into_file: true file_write_period_ms: 1000 {mode}");
        world.enable_into(consumer, &config(&text), FileHandle(1));
        world.advance_ms(3000);
        assert_eq!(world.files[&FileHandle(1)].syncs, expected, "{mode}");
    }
}

#[test]
fn time_outs_have_defaults() {
    let mut world = World::default();
    let producer = world.producer("p");
    let descriptor = protos::DataSourceDescriptor {
        name: Some("data".to_owned()),
        will_notify_on_stop: Some(true),
        ..Default::default()
    };
    world.register_as(producer, descriptor);
    let consumer = accepted(&mut world, 1000, &config(""));
    world.flush(consumer, 0);
    world.advance_ms(4999);
    assert_eq!(world.reply(consumer, "Flush"), None);
    world.advance_ms(1);
    assert_eq!(world.reply(consumer, "Flush"), Some(None));
    world.disable(consumer);
    world.advance_ms(4999);
    assert_eq!(world.ended(consumer), None);
    world.advance_ms(1);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
}

/// The machine sleeps.
fn suspend_ms(world: &mut World, ms: u64) {
    world.now.clocks.boottime += ms * 1_000_000;
    world.now.clocks.realtime += ms * 1_000_000;
    world.service.handle_timeout(&world.now);
    world.run();
}

#[test]
fn a_duration_counts_suspended_time_if_asked() {
    for (clock, ends) in [("", false), ("prefer_suspend_clock_for_duration: true", true)] {
        let mut world = World::default();
        let consumer = accepted(&mut world, 1000, &config(&format!("duration_ms: 1000 {clock}")));
        let deadline = world.now.clocks.boottime + 1_000_000_000;
        assert_eq!(world.service.next_boottime_deadline_ns(), ends.then_some(deadline));
        suspend_ms(&mut world, 2000);
        assert_eq!(world.ended(consumer).is_some(), ends, "{clock}");
    }
}

fn count(packets: &[TracePacket], is_kind: impl Fn(&Data) -> bool) -> usize {
    packets.iter().filter(|packet| packet.data.as_ref().is_some_and(&is_kind)).count()
}

#[test]
fn snapshots_count_suspended_time_if_asked() {
    for (clock, markers) in [("", 0), ("prefer_suspend_clock_for_snapshot: true", 1)] {
        let mut world = World::default();
        let text = format!("builtin_data_sources {{ snapshot_interval_ms: 60000 {clock} }}");
        let consumer = accepted(&mut world, 1000, &config(&text));
        world.read(consumer);
        suspend_ms(&mut world, 120_000);
        let is_marker = |data: &Data| matches!(data, Data::SynchronizationMarker(_));
        assert_eq!(count(&world.read(consumer), is_marker), markers, "{clock}");
    }
}

#[test]
fn snapshots_come_every_ten_seconds_or_as_asked() {
    for (interval, expected) in
        [("", 6), ("snapshot_interval_ms: 20000", 3), ("snapshot_interval_ms: 1", 600)]
    {
        let mut world = World::default();
        let text = format!("builtin_data_sources {{ {interval} }}");
        let consumer = accepted(&mut world, 1000, &config(&text));
        world.read(consumer);
        let mut markers = 0;
        for _ in 0..1200 {
            world.advance_ms(50);
            markers += count(&world.read(consumer), |data| matches!(data, Data::SynchronizationMarker(_)));
        }
        assert_eq!(markers, expected, "{interval}");
    }
}

#[test]
fn snapshots_name_the_primary_clock_and_hold_the_time_stamp_counter() {
    for (clock, expected) in [("", 6), ("primary_trace_clock: BUILTIN_CLOCK_MONOTONIC", 3)] {
        let mut world = World::default();
        world.now.clocks.tsc = Some(77);
        let text = format!("builtin_data_sources {{ {clock} }}");
        let consumer = accepted(&mut world, 1000, &config(&text));
        let snapshots = world.read(consumer).into_iter().filter_map(|packet| match packet.data {
            Some(Data::ClockSnapshot(snapshot)) => Some(snapshot),
            _ => None,
        });
        let snapshot = snapshots.last().unwrap();
        assert_eq!(snapshot.primary_trace_clock, Some(expected));
        let ids: Vec<u32> = snapshot.clocks.iter().map(|clock| clock.clock_id()).collect();
        assert_eq!(ids, [6, 2, 4, 1, 3, 5, 9]);
        assert_eq!(snapshot.clocks[6].timestamp(), 77);
    }
}

#[test]
fn histograms_can_be_left_out() {
    for (more, has_histograms) in [("", true), ("disable_chunk_usage_histograms: true", false)] {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = accepted(&mut world, 1000, &config(&format!("builtin_data_sources {{ {more} }}")));
        world.emit(producer, 1, 0, 1, &[&packet("x")]);
        let stats = world.stats(consumer);
        assert_eq!(!stats.writer_stats.is_empty(), has_histograms, "{more}");
        assert_eq!(!stats.chunk_payload_histogram_def.is_empty(), has_histograms, "{more}");
    }
}

fn concurrent(packets: &[TracePacket]) -> Vec<(u64, ConcurrentSessionEvent)> {
    let events = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::ConcurrentSessionEvent(event)) => Some((packet.timestamp(), event.clone())),
        _ => None,
    });
    events.collect()
}

fn states(packets: &[TracePacket]) -> Vec<(u64, State)> {
    concurrent(packets).iter().map(|(_, event)| (event.session_id(), event.state())).collect()
}

#[test]
fn a_trace_tells_of_other_sessions_if_asked() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let first = accepted(&mut world, 1000, &config("unique_session_name: \"first\""));
    let since = world.now.clocks.boottime;
    world.advance_ms(100);
    let watching = accepted(
        &mut world,
        1000,
        &config("builtin_data_sources { enable_concurrent_session_events: true }"),
    );
    let late = accepted(&mut world, 0, &config("deferred_start: true"));
    let found = concurrent(&world.read(watching));
    let event = ConcurrentSessionEvent {
        state: Some(State::Started as i32),
        session_name: Some("first".to_owned()),
        session_id: Some(1),
        consumer_uid: Some(1000),
        num_data_sources: Some(1),
    };
    assert_eq!(found[0], (since, event));
    assert_eq!((found[1].1.session_id(), found[1].1.state()), (3, State::Configured));
    assert_eq!(found.len(), 2);

    world.ask(late, ConsumerCall::StartTracing(Default::default()));
    world.free(first);
    world.acknowledge_flushes(producer);
    assert_eq!(states(&world.read(watching)), [(3, State::Started), (1, State::Disabled)]);
    assert_eq!(states(&world.read(late)), [], "it did not ask");
}

/// What they are called may say what others are looking for.
#[test]
fn a_trace_does_not_tell_what_sessions_of_others_are_called() {
    let mut world = World::default();
    let asked = config("builtin_data_sources { enable_concurrent_session_events: true }");
    accepted(&mut world, 1000, &config("unique_session_name: \"before\""));
    let (neighbour, root) = (accepted(&mut world, 1001, &asked), accepted(&mut world, 0, &asked));
    accepted(&mut world, 1000, &config("unique_session_name: \"after\""));
    let told = |packets: &[TracePacket]| -> Vec<(String, Option<i32>)> {
        let of_user = |event: &ConcurrentSessionEvent| matches!(event.session_id(), 1 | 4);
        let events = concurrent(packets).into_iter().map(|(_, event)| event).filter(of_user);
        events.map(|event| (event.session_name().to_owned(), event.consumer_uid)).collect()
    };
    let at_neighbours = told(&world.read(neighbour));
    assert!(at_neighbours.len() >= 2, "they are there");
    assert!(at_neighbours.iter().all(|event| *event == (String::new(), None)), "{at_neighbours:?}");
    assert!(told(&world.read(root)).contains(&("after".to_owned(), Some(1000))), "root sees all");
}

/// Thousands of events are kept.
#[test]
fn a_trace_does_not_tell_all_of_a_long_name() {
    let mut world = World::default();
    let asked = config("builtin_data_sources { enable_concurrent_session_events: true }");
    let watching = accepted(&mut world, 1000, &asked);
    accepted(&mut world, 1000, &config(&format!("unique_session_name: \"{}\"", "n".repeat(100_000))));
    let lengths: Vec<usize> =
        concurrent(&world.read(watching)).iter().map(|(_, event)| event.session_name().len()).collect();
    assert_eq!(lengths, [ferretto_service::limits::MAX_NAME_BYTES; 2]);
}

#[test]
fn events_of_other_sessions_are_bounded() {
    let mut world = World::default();
    let watching =
        accepted(&mut world, 1, &config("builtin_data_sources { enable_concurrent_session_events: true }"));
    let other = world.consumer(2);
    // Configured, started, disabled: three events a session.
    for _ in 0..1400 {
        world.enable(other, &config(""));
        world.free(other);
    }
    assert_eq!(states(&world.read(watching)).len(), 4096);
    world.enable(other, &config(""));
    assert_eq!(states(&world.read(watching)).len(), 2);
}

#[test]
fn the_service_is_scheduled_as_the_session_that_wants_most() {
    let mut world = World::default();
    let boost = |policy: &str, priority: u32| {
        config(&format!("priority_boost {{ policy: {policy} priority: {priority} }}"))
    };
    let low = accepted(&mut world, 0, &boost("POLICY_SCHED_OTHER", 20));
    assert_eq!(world.scheduling(), Some(Boost::Other(20)));
    let high = accepted(&mut world, 0, &boost("POLICY_SCHED_FIFO", 1));
    assert_eq!(world.scheduling(), Some(Boost::Fifo(1)));
    let higher = accepted(&mut world, 0, &boost("POLICY_SCHED_FIFO", 99));
    let lower = accepted(&mut world, 0, &boost("POLICY_SCHED_OTHER", 0));
    assert_eq!(world.scheduling(), Some(Boost::Fifo(99)));
    world.free(higher);
    assert_eq!(world.scheduling(), Some(Boost::Fifo(1)));
    world.hang_up(high);
    assert_eq!(world.scheduling(), Some(Boost::Other(20)));
    world.free(low);
    world.free(lower);
    assert_eq!(world.scheduling(), None);
}

/// Else a neighbour has a thread of root's run before everybody.
#[test]
fn a_boost_is_for_root_and_the_services_own_user() {
    let boost = "priority_boost { policy: POLICY_SCHED_FIFO priority: 99 }";
    let of_source =
        format!("buffers {{ size_kb: 4 }} data_sources {{ config {{ name: \"data\" {boost} }} }}");
    for text in [config(boost), of_source] {
        let mut world = World::default();
        let user = world.consumer(1000);
        let error = refused(&mut world, user, &text);
        assert!(error.contains("priority_boost may only be used by root"), "{error}");
        assert_eq!(world.scheduling(), None);
        for uid in [0, world::SERVICE_UID] {
            accepted(&mut world, uid, &text);
        }
    }
}

/// Neither under its name nor as the best for a bug report.
#[test]
fn a_neighbours_session_does_not_stand_in_the_way_of_ones_own() {
    let mut world = World::default();
    let named = |score: u32, uid: u32| {
        config(&format!(
            "unique_session_name: \"n\" bugreport_score: {score} trace_uuid_msb: 1 trace_uuid_lsb: {uid}"
        ))
    };
    for (uid, score) in [(1001, 9), (1000, 1), (0, 2)] {
        accepted(&mut world, uid, &named(score, uid));
    }
    for uid in [1000, 0] {
        for selector in [Selector::UniqueSessionName("n".to_owned()), Selector::SessionId(u64::MAX)] {
            let consumer = world.consumer(uid);
            let request = protos::CloneSessionRequest { selector: Some(selector), ..Default::default() };
            world.ask(consumer, ConsumerCall::CloneSession(request));
            let response: protos::CloneSessionResponse = world.answer(consumer, "CloneSession");
            assert!(response.success(), "{}", response.error());
            assert_eq!(response.uuid_lsb(), i64::from(uid), "somebody else's");
        }
    }
}

#[test]
fn a_boost_that_is_wrong_or_not_granted_is_refused() {
    let cases = [
        ("policy: POLICY_SCHED_OTHER priority: 21", "priority 0 to 20"),
        ("policy: POLICY_SCHED_FIFO priority: 100", "priority 1 to 99"),
        ("policy: POLICY_SCHED_FIFO", "priority 1 to 99"),
        ("priority: 1", "needs policy"),
    ];
    let mut world = World::default();
    let consumer = world.consumer(0);
    for (text, expected) in cases {
        let error = refused(&mut world, consumer, &config(&format!("priority_boost {{ {text} }}")));
        assert!(error.contains(expected), "{text}: {error}");
    }
    world.refuse_scheduling();
    let text = "priority_boost { policy: POLICY_SCHED_OTHER priority: 1 }";
    assert!(refused(&mut world, consumer, &config(text)).contains("CAP_SYS_NICE"));
    assert_eq!(world.service.session_count(), 0);
    // A file that cannot be made takes the boost along.
    let mut world = World::default();
    let consumer = world.consumer(0);
    let text = format!("write_into_file: true output_path: \"/missing/x\" {text}");
    assert!(refused(&mut world, consumer, &config(&text)).contains("no such directory"));
    assert_eq!(world.scheduling(), None);
}

#[test]
fn a_refused_config_leaves_no_file_behind() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    let text =
        "write_into_file: true output_path: \"/x\" buffers { size_kb: 4194303 } buffers { size_kb: 0 }";
    refused(&mut world, consumer, text);
    assert!(!world.files.contains_key(&CREATED_FILE));
    assert_eq!(world.created_files(), 0);
}

#[test]
fn discarding_buffers_keep_what_came_first() {
    for (policy, first_is_kept) in
        [("", false), ("fill_policy: RING_BUFFER", false), ("fill_policy: DISCARD", true)]
    {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let text =
            format!("buffers {{ size_kb: 4 {policy} }} data_sources {{ config {{ name: \"data\" }} }}");
        let consumer = accepted(&mut world, 1000, &text);
        for chunk in 0..10 {
            world.emit(producer, 1, chunk, 1, &[&packet(&format!("{chunk:0>1000}"))]);
        }
        let payloads = world.read_payloads(consumer);
        assert_eq!(payloads.iter().any(|payload| payload.ends_with("00")), first_is_kept, "{policy}");
        assert_eq!(payloads.iter().any(|payload| payload.ends_with("09")), !first_is_kept, "{policy}");
    }
}

fn compactions(stats: &protos::TraceStats) -> Vec<(u64, u64)> {
    let counts = stats.buffer_stats.iter();
    counts.map(|buffer| (buffer.compactions(), buffer.compactions_skipped())).collect()
}

#[test]
fn buffers_are_compacted_after_each_complete_read_if_asked() {
    for (asked_for, each) in [("", 0), ("experimental_trace_buffer_v2_compaction: true", 1)] {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let buffers = "buffers { size_kb: 64 } buffers { size_kb: 64 fill_policy: DISCARD }";
        let consumer = accepted(&mut world, 1000, &config(&format!("{buffers} {asked_for}")));
        for round in 0..3u32 {
            // More than a ring holds, in all, and than one reply takes.
            let texts: Vec<String> = (0..50).map(|number| format!("{round} {number:0>3000}")).collect();
            for (number, text) in (0..).zip(&texts) {
                world.emit(producer, 1, round * 50 + number, 1, &[&packet(text)]);
            }
            let read = world.read_payloads(consumer);
            assert!(!read.is_empty() && texts.ends_with(&read), "{asked_for:?}");
            let times = u64::from(round + 1) * each;
            // Of a buffer that keeps what came first nothing is given back.
            let expected = [(times, 0), (times, 0), (0, 0)];
            assert_eq!(compactions(&world.stats(consumer)), expected, "{asked_for:?}");
        }
    }
}

#[test]
fn buffers_are_compacted_after_each_write_but_the_last() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    let more =
        "write_into_file: true file_write_period_ms: 1000 experimental_trace_buffer_v2_compaction: true";
    world.enable_into(consumer, &config(more), FileHandle(1));
    for round in 0..3 {
        world.emit(producer, 1, round, 1, &[&packet(&round.to_string())]);
        world.advance_ms(1000);
    }
    world.emit(producer, 1, 3, 1, &[&packet("3")]);
    world.disable(consumer);
    let packets = world.file_packets(FileHandle(1));
    assert_eq!(world::payloads(&packets), ["0", "1", "2", "3"]);
    let stats = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::TraceStats(stats)) => Some(compactions(stats)),
        _ => None,
    });
    assert_eq!(stats.last(), Some(vec![(3, 0)]));
    assert_eq!(compactions(&world.stats(consumer)), [(3, 0)]);
}

#[test]
fn unknown_policies_and_modes_of_buffers_are_refused() {
    // Values that no schema knows, in the fields 4 and 8 of a buffer.
    for (field, expected) in [(4u32, "fill_policy 9"), (8, "experimental_mode 9")] {
        let mut buffer = vec![0x08, 4];
        prost::encoding::uint32::encode(field, &9, &mut buffer);
        let mut raw = Vec::new();
        prost::encoding::bytes::encode(1, &buffer, &mut raw);
        let mut world = World::default();
        let consumer = world.consumer(1000);
        world.enable_raw(consumer, raw.into(), None);
        assert!(world.ended(consumer).unwrap().contains(expected), "{expected}");
    }
    for mode in ["MODE_UNSPECIFIED", "TRACE_BUFFER_V2"] {
        accepted(&mut World::default(), 1000, &format!("buffers {{ size_kb: 4 experimental_mode: {mode} }}"));
    }
}

#[test]
fn a_data_source_names_its_buffer_or_counts_it() {
    let cases = [
        ("", 1),
        ("target_buffer: 1", 2),
        ("target_buffer_name: \"b\"", 2),
        ("target_buffer: 0 target_buffer_name: \"b\"", 2),
        ("target_buffer: 1 target_buffer_name: \"b\"", 2),
    ];
    for (target, expected) in cases {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let text = format!(
            "buffers {{ size_kb: 4 name: \"a\" }} buffers {{ size_kb: 4 name: \"b\" }} \
             data_sources {{ config {{ name: \"data\" {target} }} }}"
        );
        accepted(&mut world, 1000, &text);
        let (_, found) = only_setup(&world.commands(producer));
        assert_eq!(found.target_buffer(), expected, "{target}");
    }
}

#[test]
fn the_services_fields_are_what_the_session_says() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let text = "buffers { size_kb: 4 } duration_ms: 1234 enable_extra_guardrails: true data_source_stop_timeout_ms: 77 \
                prefer_suspend_clock_for_duration: true data_sources { config { name: \"data\" trace_duration_ms: 1 \
                enable_extra_guardrails: false stop_timeout_ms: 1 prefer_suspend_clock_for_duration: false \
                tracing_session_id: 99 session_initiator: SESSION_INITIATOR_TRUSTED_SYSTEM \
                buffer_exhausted_policy: BUFFER_EXHAUSTED_DROP legacy_config: \"l\" for_testing { seed: 5 } \
                interceptor_config { name: \"i\" } priority_boost { policy: POLICY_SCHED_OTHER priority: 3 } } }";
    accepted(&mut world, world::SERVICE_UID, text);
    let (_, found) = only_setup(&world.commands(producer));
    assert_eq!(found.trace_duration_ms(), 1234);
    assert!(found.enable_extra_guardrails() && found.prefer_suspend_clock_for_duration());
    assert_eq!(
        (found.stop_timeout_ms(), found.tracing_session_id(), found.session_initiator),
        (77, 1, Some(0))
    );
    // The rest is the producer's to read.
    assert_eq!((found.buffer_exhausted_policy, found.legacy_config()), (Some(1), "l"));
    assert_eq!(found.for_testing.unwrap().seed(), 5);
    assert_eq!(found.interceptor_config.unwrap().name(), "i");
    assert_eq!(found.priority_boost.unwrap().priority(), 3);
    assert_eq!(world.scheduling(), None, "a data source's boost is its producer's");
}

#[test]
fn the_second_transports_knobs_are_checked() {
    let cases = [
        (
            "use_v2_probability_percent: 100 drain_occupancy_percent: -1 chunk_size_options { size_bytes: 256 }",
            None,
        ),
        ("use_v2_probability_percent: 101", Some("use_v2_probability_percent")),
        ("drain_occupancy_percent: 101", Some("drain_occupancy_percent")),
        ("drain_occupancy_percent: -2", Some("drain_occupancy_percent")),
        ("chunk_size_options { size_bytes: 255 }", Some("size_bytes")),
        ("chunk_size_options { size_bytes: 258 }", Some("size_bytes")),
        ("chunk_size_options { size_bytes: 65540 }", Some("size_bytes")),
    ];
    for (knobs, expected) in cases {
        let mut world = World::default();
        let consumer = world.consumer(1000);
        let text = format!(
            "buffers {{ size_kb: 4 }} data_sources {{ config {{ name: \"data\" experimental_tracing_v2 {{ {knobs} }} }} }}"
        );
        world.enable(consumer, &text);
        let error = world.ended(consumer);
        assert_eq!(error.is_some(), expected.is_some(), "{knobs}");
        assert!(expected.is_none_or(|expected| error.unwrap().contains(expected)), "{knobs}");
    }
}

#[test]
fn a_bugreport_takes_the_session_with_the_highest_score() {
    let mut world = World::default();
    accepted(&mut world, 1000, &config("unique_session_name: \"none\""));
    let clone = |world: &mut World| {
        let consumer = world.consumer(1000);
        let request = protos::CloneSessionRequest {
            selector: Some(Selector::SessionId(u64::MAX)),
            ..Default::default()
        };
        world.ask(consumer, ConsumerCall::CloneSession(request));
        let response: protos::CloneSessionResponse = world.answer(consumer, "CloneSession");
        let configs = world.read(consumer).into_iter().filter_map(|packet| match packet.data {
            Some(Data::TraceConfig(config)) => Some(config),
            _ => None,
        });
        let name = configs.last().map(|raw| {
            let config = <protos::TraceConfig as prost::Message>::decode(raw).unwrap();
            config.unique_session_name().to_owned()
        });
        world.hang_up(consumer);
        response.success().then(|| name.unwrap())
    };
    assert_eq!(clone(&mut world), None, "a score of 0 is none");
    for (name, score) in [("low", 3), ("high", 9), ("as high", 9), ("negative", -5)] {
        let text = format!(
            "unique_session_name: \"{name}\" bugreport_score: {score} bugreport_filename: \"f.pftrace\""
        );
        let uid = if score < 0 { 1001 } else { 1000 };
        accepted(&mut world, uid, &config(&text));
    }
    assert_eq!(clone(&mut world).as_deref(), Some("high"));
    let over = accepted(&mut world, 0, &config("unique_session_name: \"over\" bugreport_score: 99"));
    world.disable(over);
    assert_eq!(clone(&mut world).as_deref(), Some("high"), "one that is over has no news");
    let viewer = world.consumer(1000);
    let sessions = world.query(viewer).tracing_sessions;
    let high = sessions.iter().find(|session| session.unique_session_name() == "high").unwrap();
    assert_eq!((high.bugreport_score(), high.bugreport_filename()), (9, "f.pftrace"));
}

#[test]
fn a_data_source_can_be_described_anew() {
    let mut world = World::default();
    let producer = world.producer("p");
    let descriptor = |id: u64, stops: bool| protos::DataSourceDescriptor {
        name: Some("data".to_owned()),
        id: Some(id),
        will_notify_on_stop: Some(stops),
        ..Default::default()
    };
    world.register_as(producer, descriptor(1, false));
    for (id, stops_late) in [(2, false), (1, true)] {
        // Only the one of the same name and id is changed.
        let raw = prost::Message::encode_to_vec(&descriptor(id, true));
        let request = protos::UpdateDataSourceRequest { data_source_descriptor: Some(raw.into()) };
        world.call(producer, ProducerCall::UpdateDataSource(request));
        let consumer = accepted(&mut world, 1000, &config(""));
        world.disable(consumer);
        assert_eq!(world.ended(consumer).is_none(), stops_late, "{id}");
        world.free(consumer);
    }
}
