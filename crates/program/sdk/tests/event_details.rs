//! What trace points can say beside their names and simple arguments, in the packets that come of it.

mod support;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto::{
    Callstack, Category, ChildOrder, CounterTrack, Flow, Frame, Merge, Nested, ProtoValue, Severity,
    StateTrack, Timestamp, ToValue, Track, Unit, Value, ValueWriter,
};
use ferretto_protos::TrackEventConfig;
use ferretto_protos::fields::trace_packet;
use ferretto_protozero::read::Fields;
use support::{Recording, only, turn};

/// Packets of a recording as text, without those that hold no event, description or clocks.
fn record(config: TrackEventConfig, work: impl FnOnce() + Send + 'static) -> Vec<String> {
    let recording = Recording::start(config);
    std::thread::Builder::new().name("teller".to_owned()).spawn(work).unwrap().join().unwrap();
    let mut packets = Vec::new();
    recording.stop_and_read(|packet| {
        let wanted =
            [trace_packet::TRACK_EVENT, trace_packet::TRACK_DESCRIPTOR, trace_packet::CLOCK_SNAPSHOT];
        let is_wanted = Fields::new(packet).flatten().any(|field| wanted.contains(&field.number));
        if is_wanted {
            let text = ferretto_protos::text::format("perfetto.protos.TracePacket", packet).unwrap();
            packets.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    });
    packets
}

/// The one packet with this text.
fn find<'a>(packets: &'a [String], text: &str) -> &'a str {
    let mut found = packets.iter().filter(|packet| packet.contains(text));
    let packet = found.next().unwrap_or_else(|| panic!("{text} is not in {packets:#?}"));
    assert!(found.next().is_none(), "{text} is there twice: {packets:#?}");
    packet
}

#[track_caller]
fn assert_has(packet: &str, texts: &[&str]) {
    for text in texts {
        assert!(packet.contains(text), "{text} is not in {packet}");
    }
}

#[test]
fn arguments_of_all_types() {
    struct Pair(&'static str, u32);

    impl Nested for Pair {
        fn write(&self, writer: ValueWriter<'_>) {
            let mut table = writer.table();
            table.entry(self.0, &self.1);
            table.entry("nothing", &None::<u32>);
        }
    }

    let _turn = turn();
    let packets = record(only("values"), || {
        let (bytes, peer, missing) = (3_u8, Ipv4Addr::LOCALHOST, None::<i32>);
        let list = vec![vec![1.5], vec![]];
        let table = BTreeMap::from([("b", "2"), ("a", "1")]);
        for _ in 0..2 {
            ferretto::instant!(
                "values",
                "all",
                bytes,
                %peer,
                ?list,
                missing,
                http.status = 200,
                "a text" = 'c',
                there = Some(-1),
                nested = list,
                table = &table,
                pair = Value::Nested(&Pair("x", 7)),
                address = std::ptr::without_provenance::<u8>(255),
                message = ProtoValue { type_name: ".example.Message", bytes: &[8, 1] },
                arguments: &[("found", "at run time".to_value()), ("not", Value::Missing)],
            );
        }
        ferretto::instant!("values", "simple", bytes, missing, last = true);
        ferretto::instant!("values", "simple again", bytes, missing = Some(4), last = true);
    });
    let events: Vec<_> = packets.iter().filter(|packet| packet.contains("array_values")).collect();
    assert_eq!(events.len(), 2);
    for event in events {
        assert_has(
            event,
            &[
                "uint_value: 3",
                r#"string_value: "127.0.0.1""#,
                r#"string_value: "[[1.5], []]""#,
                "int_value: 200",
                r#"string_value: "c""#,
                "int_value: -1",
                "array_values { array_values { double_value: 1.5 } } array_values { }",
                r#"dict_entries { string_value: "1" name: "a" } dict_entries { string_value: "2" name: "b" }"#,
                r#"dict_entries { uint_value: 7 name: "x" } }"#,
                "pointer_value: 255",
                r#"name: "found""#,
                r#"proto_type_name: ".example.Message""#,
            ],
        );
        assert!(!event.contains("nothing") && !event.contains("name: \"not\""));
    }
    let names = find(&packets, "http.status\"");
    assert_has(names, &["\"bytes\"", "\"peer\"", "\"a text\""]);
    assert!(!names.contains("\"missing\""), "a name without a value");
    assert_has(find(&packets, "name: \"missing\""), &["int_value: 4"]);
}

#[test]
fn tracks_are_described_with_their_parents() {
    static GPU: Track =
        Track::named("GPU").child_order(ChildOrder::Explicit).with_description("what it does");
    static QUEUE: Track = Track::named("queue").under(&GPU).rank(-2).merge(Merge::ByKey("key"));
    let _turn = turn();
    let packets = record(only("tracks"), || {
        for _ in 0..2 {
            ferretto::instant!("tracks", "on a child", track: &QUEUE);
        }
        let made = Arc::new(Track::dynamic(format!("made {}", 1)).merge(Merge::Never));
        let below = Track::dynamic("below").under_shared(&made).with_id(3);
        {
            let _slice = ferretto::slice!("tracks", "on what was made", track: &below, x = 1);
        }
        ferretto::instant!("tracks", "of the process", track: &Track::process());
        ferretto::instant!("tracks", "of another thread", track: &Track::thread(4321));
        ferretto::instant!("tracks", "of all", track: &Track::global(77, "all").merge(Merge::ByNumber(5)));
        ferretto::instant!("tracks", "of a thread", track: &Track::named("each").of_each_thread());
    });
    let uuid = |track: &Track| format!("uuid: {}", track.uuid());
    let child = find(&packets, r#"static_name: "queue""#);
    assert_has(
        child,
        &[
            &uuid(&QUEUE),
            &format!("parent_{}", uuid(&GPU)),
            "sibling_order_rank: -2",
            "sibling_merge_behavior: SIBLING_MERGE_BEHAVIOR_BY_SIBLING_MERGE_KEY",
            r#"sibling_merge_key: "key""#,
        ],
    );
    let gpu = find(&packets, r#"static_name: "GPU""#);
    assert_has(gpu, &["child_ordering: EXPLICIT", r#"description: "what it does""#]);
    assert_has(gpu, &[&format!("parent_{}", uuid(&Track::process()))]);
    assert_has(find(&packets, r#" name: "made 1""#), &["SIBLING_MERGE_BEHAVIOR_NONE"]);
    find(&packets, r#" name: "below""#);
    let on_made: Vec<_> = packets.iter().filter(|packet| packet.contains("TYPE_SLICE")).collect();
    let track = on_made[0].split("track_uuid: ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(on_made[0].contains("TYPE_SLICE_BEGIN") && on_made[1].contains("TYPE_SLICE_END"));
    assert_has(on_made[1], &[track]);
    assert_has(find(&packets, "tid: 4321"), &[&uuid(&Track::thread(4321))]);
    let global = find(&packets, r#"static_name: "all""#);
    assert_has(global, &["uuid: 77", "sibling_merge_key_int: 5"]);
    assert!(!global.contains("parent_uuid"));
    find(&packets, r#"static_name: "each""#);
}

#[test]
fn counters_and_states() {
    static PLAIN: CounterTrack = CounterTrack::new("plain")
        .with_unit(Unit::Bytes)
        .with_unit_multiplier(1024)
        .share_axis("memory")
        .with_categories(&["mem"]);
    static STEPS: CounterTrack = CounterTrack::new("steps").incremental();
    static LINK: StateTrack = StateTrack::new("link");
    let _turn = turn();
    let packets = record(only("counts"), || {
        ferretto::counter!("counts", PLAIN, 4);
        ferretto::counter!("counts", "odd", -0.5, unit: Unit::Named("bananas"), at: Timestamp::boot_ns(5));
        for value in [100, 130, 120] {
            ferretto::counter!("counts", STEPS, value);
        }
        ferretto::state!("counts", LINK, "down");
        ferretto::state!("counts", LINK, format!("up {}", 1), speed = 10);
    });
    assert_has(
        find(&packets, r#"static_name: "plain""#),
        &[
            "unit: UNIT_SIZE_BYTES",
            "unit_multiplier: 1024",
            r#"y_axis_share_key: "memory""#,
            r#"categories: "mem""#,
        ],
    );
    assert_has(find(&packets, "double_counter_value: -0.5"), &["timestamp: 5 ", "timestamp_clock_id: 6"]);
    find(&packets, r#"unit_name: "bananas""#);
    assert_has(find(&packets, r#"static_name: "steps""#), &["is_incremental: true"]);
    for difference in [" counter_value: 100 ", " counter_value: 30 ", " counter_value: -10 "] {
        find(&packets, difference);
    }
    assert_has(find(&packets, r#"static_name: "link""#), &["state { }"]);
    let states: Vec<_> = packets.iter().filter(|packet| packet.contains("TYPE_STATE")).collect();
    assert_eq!(states.len(), 2);
    assert_has(states[1], &[r#"name: "up 1""#, "int_value: 10"]);
}

#[test]
fn a_counter_takes_all_numbers() {
    static TRACK: CounterTrack = CounterTrack::new("all numbers");
    let _turn = turn();
    let packets = record(only("numbers"), || {
        let mut load = 0.5;
        ferretto::counter!("numbers", TRACK, -1_i8);
        ferretto::counter!("numbers", TRACK, -2_i16);
        ferretto::counter!("numbers", TRACK, -3_i32);
        ferretto::counter!("numbers", TRACK, -4_i64);
        ferretto::counter!("numbers", TRACK, -5_isize);
        ferretto::counter!("numbers", TRACK, -6_i128);
        ferretto::counter!("numbers", TRACK, 1_u8);
        ferretto::counter!("numbers", TRACK, 2_u16);
        ferretto::counter!("numbers", TRACK, 3_u32);
        ferretto::counter!("numbers", TRACK, 4_u64);
        ferretto::counter!("numbers", TRACK, 5_usize);
        ferretto::counter!("numbers", TRACK, 6_u128);
        ferretto::counter!("numbers", TRACK, u64::MAX);
        ferretto::counter!("numbers", TRACK, 1_u128 << 100);
        ferretto::counter!("numbers", TRACK, 0.25_f32);
        ferretto::counter!("numbers", TRACK, &-0.25_f64);
        ferretto::counter!("numbers", TRACK, &mut load);
    });
    let value = |packet: &String| {
        let (_, behind) = packet.split_once("counter_value: ")?;
        behind.split_whitespace().next()?.parse::<f64>().ok()
    };
    let values: Vec<f64> = packets.iter().filter_map(value).collect();
    let most = i64::MAX as f64;
    let beyond = 2_f64.powi(100);
    let expected = [-1., -2., -3., -4., -5., -6., 1., 2., 3., 4., 5., 6., most, beyond, 0.25, -0.25, 0.5];
    assert_eq!(values, expected);
}

#[test]
fn flows_correlations_places_and_logs() {
    let _turn = turn();
    let packets = record(only("joined"), || {
        let many = [Flow::global(11), Flow::global(12)];
        ferretto::instant!("joined", "a", flow: Flow::global(7), flow: Flow::global(8), flows: &many);
        ferretto::instant!("joined", "b", flow_end: Flow::global(9), flow_ends: &many, correlation: 55_u64);
        let stack = Callstack::new([Frame::new("main"), Frame::new("inner").at("inner.rs", 17)]);
        ferretto::instant!("joined", "c", callstack: &stack, correlation: "order 5");
        for _ in 0..2 {
            ferretto::instant!("joined", "d", location: ferretto::here!(), fields: |event| event.varint(1234, 9));
        }
        let host = "example.org";
        ferretto::log!("joined", Severity::Warn, "no answer from {host}, {} tries", 3);
        ferretto::log!("joined", Severity::Error, "gave up");
    });
    assert_has(find(&packets, "flow_ids: 7 "), &["flow_ids: 8 ", "flow_ids: 11 ", "flow_ids: 12 "]);
    let end = find(&packets, "terminating_flow_ids: 9 ");
    assert_has(end, &["terminating_flow_ids: 12 ", "correlation_id: 55"]);
    assert_has(
        find(&packets, "callstack {"),
        &[
            r#"frames { function_name: "main" } frames { function_name: "inner" source_file: "inner.rs" line_number: 17 }"#,
            r#"correlation_id_str: "order 5""#,
        ],
    );
    let places: Vec<_> = packets.iter().filter(|packet| packet.contains("1234: 9")).collect();
    assert_eq!(places.len(), 2);
    assert_has(places[0], &["source_locations {", "event_details.rs", "source_location_iid"]);
    assert!(!places[1].contains("source_locations") && places[1].contains("source_location_iid"));
    let warning = find(&packets, r#"body: "no answer from example.org, 3 tries""#);
    assert_has(warning, &["prio: PRIO_WARN", "body_iid: 1", "source_location_iid"]);
    assert_has(find(&packets, r#"body: "gave up""#), &["prio: PRIO_ERROR", "body_iid: 2"]);
}

#[test]
fn events_have_the_times_that_they_are_given() {
    static GPU: Category = Category::new("times.gpu");
    let _turn = turn();
    let packets = record(only("times"), || {
        let start = Instant::now();
        ferretto::instant!("times", "now");
        ferretto::begin!("times", "before", at: start, number = 1);
        ferretto::end!("times", at: Timestamp::monotonic_ns(6), number = 2);
        ferretto::snapshot_clocks(&GPU, &[(1000, 77)]);
        ferretto::instant!("times", "elsewhere", at: Timestamp::on_clock(1000, 88));
        ferretto::instant!("times", "day", at: std::time::UNIX_EPOCH + Duration::from_nanos(9));
    });
    assert_has(find(&packets, "int_value: 1"), &["timestamp_clock_id: 6"]);
    assert_has(find(&packets, "int_value: 2"), &["timestamp: 6 ", "timestamp_clock_id: 3"]);
    assert_has(find(&packets, "timestamp: 88 "), &["timestamp_clock_id: 1000"]);
    assert_has(find(&packets, "timestamp: 9 "), &["timestamp_clock_id: 1"]);
    assert_has(find(&packets, "clock_id: 1000 timestamp: 77"), &["clock_snapshot", "clock_id: 6"]);
}

#[test]
fn categories_that_are_found_at_run_time_and_groups() {
    let _turn = turn();
    let config = TrackEventConfig {
        enabled_categories: vec!["found.a".to_owned(), "found.c".to_owned()],
        disabled_categories: vec!["*".to_owned()],
        ..Default::default()
    };
    let packets = record(config, || {
        for name in ["found.a", "found.b"] {
            let category = Category::dynamic(name);
            assert!(std::ptr::eq(category, Category::dynamic(name)));
            let _slice = ferretto::slice!((category), format!("slice of {name}"));
            ferretto::instant!((category), "instant", x = 1);
            assert_eq!(ferretto::enabled!((category)), name == "found.a");
        }
        for _ in 0..2 {
            ferretto::instant!("found.b,found.c", "group of two");
        }
        ferretto::instant!("found.b,found.d", "group of none");
    });
    let events: Vec<_> = packets.iter().filter(|packet| packet.contains("track_event {")).collect();
    assert_eq!(events.len(), 5, "{events:#?}");
    find(&packets, r#"name: "slice of found.a""#);
    let group = find(&packets, r#"name: "group of two""#);
    assert_has(group, &[r#"name: "found.b""#, r#"name: "found.c""#]);
    assert_eq!(events[4].matches("category_iids").count(), 2);
}

#[test]
fn a_session_can_ask_for_the_processor_time() {
    let _turn = turn();
    let config = |period_ns| TrackEventConfig {
        enable_thread_time_sampling: Some(true),
        thread_time_subsampling_ns: period_ns,
        ..only("cpu")
    };
    let work = || (0..3).for_each(|_| ferretto::instant!("cpu", "tick"));
    let packets = record(config(None), work);
    find(&packets, "COUNTER_THREAD_TIME_NS");
    let with_time =
        |packets: &[String]| packets.iter().filter(|packet| packet.contains("extra_counter_values")).count();
    assert_eq!(with_time(&packets), 3);
    assert_eq!(with_time(&record(config(Some(60_000_000_000)), work)), 1);
    assert_eq!(with_time(&record(only("cpu"), work)), 0);
}

#[test]
fn a_value_that_panics_harms_no_other_event() {
    struct Bomb;

    impl std::fmt::Display for Bomb {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("on purpose");
        }
    }

    let _turn = turn();
    let recording = Recording::of("bomb");
    std::thread::spawn(|| {
        ferretto::instant!("bomb", "first");
        let result = catch_unwind(AssertUnwindSafe(|| ferretto::instant!("bomb", "bomb", shrapnel = %Bomb)));
        assert!(result.is_err());
        ferretto::instant!("bomb", "bomb", shrapnel = 1);
    })
    .join()
    .unwrap();
    // The reader checks that nothing refers to what was not said.
    let texts: Vec<_> = recording.stop().events.into_iter().map(|event| event.text).collect();
    assert_eq!(texts, ["instant bomb/first", "instant bomb/bomb shrapnel=1"]);
}

#[test]
fn a_trace_point_inside_of_a_value_is_left_out() {
    struct Chatty;

    impl std::fmt::Display for Chatty {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            ferretto::instant!("inside", "inner");
            f.write_str("outer")
        }
    }

    let _turn = turn();
    let packets = record(only("inside"), || ferretto::instant!("inside", "outer", text = %Chatty));
    find(&packets, r#"string_value: "outer""#);
    assert_eq!(packets.iter().filter(|packet| packet.contains("TYPE_INSTANT")).count(), 1);
}
