//! What trace points say is what a recording holds.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use ferretto::{CounterTrack, Unit};
use ferretto_protos::TrackEventConfig;

use support::{MAX_CLOCK_ERROR_NS, Recording, only, turn};

fn on_thread(name: &str, work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.to_owned()).spawn(work).unwrap().join().unwrap();
}

#[test]
fn events_of_every_kind_arrive_in_order() {
    static BYTES: CounterTrack = CounterTrack::new("heap").with_unit(Unit::Bytes);
    static ODD: CounterTrack = CounterTrack::new("odd").with_unit(Unit::Named("bananas"));
    let _turn = turn();
    let recording = Recording::of("kinds");
    on_thread("alpha", || {
        let owned = String::from("owned");
        let _slice = ferretto::slice!("kinds.a", "outer", number = -3, big = u64::MAX, truth = true);
        {
            let _slice = ferretto::slice!(
                "kinds.b",
                format!("inner {}", 1),
                text = "text",
                "spaced name" = owned,
                real = 0.5_f32
            );
            ferretto::instant!("kinds.a", "moment");
        }
        ferretto::begin!("kinds.a", "by hand");
        ferretto::end!("kinds.a", late = 1_u8);
        ferretto::counter!("kinds.c", BYTES, 4096);
        ferretto::counter!("kinds.c", BYTES, 8192_u64);
        ferretto::counter!("kinds.c", ODD, -1);
        ferretto::counter!("kinds.c", "load", 0.25);
        drop(owned);
    });
    let trace = recording.stop();
    assert_eq!(
        trace.texts(),
        [
            "alpha: begin kinds.a/outer number=-3 big=18446744073709551615u truth=true",
            "alpha: begin kinds.b/dynamic inner 1 text=\"text\" spaced name=\"owned\" real=0.5",
            "alpha: instant kinds.a/moment",
            "alpha: end",
            "alpha: begin kinds.a/by hand",
            "alpha: end late=1u",
            "alpha: end",
            "heap unit 3: counter kinds.c 4096",
            "heap unit 3: counter kinds.c 8192",
            "load: counter kinds.c 0.25",
            "odd in bananas: counter kinds.c -1",
        ]
    );
    assert_eq!(trace.processes[0].0, i64::from(std::process::id()));
    assert!(trace.processes[0].1.contains("track_events"), "{:?}", trace.processes);
}

#[test]
fn a_session_gets_the_categories_it_asks_for() {
    ferretto::categories! {
        static CATEGORIES = {
            PLAIN = "pick.plain";
            DESCRIBED = "pick.described", "With a description";
            SLOW = "pick.slow", "Off unless asked for", ["slow"];
        }
    }
    let _turn = turn();
    assert_eq!(CATEGORIES.len(), 3);
    let emit = || {
        ferretto::instant!(PLAIN, "plain");
        ferretto::instant!(DESCRIBED, "described");
        ferretto::instant!(SLOW, "slow");
        ferretto::instant!("pick.slow", "slow by name");
    };
    let names = |texts: &[&str]| -> Vec<String> { texts.iter().map(|&text| text.to_owned()).collect() };
    let all =
        names(&["pick.plain/plain", "pick.described/described", "pick.slow/slow", "pick.slow/slow by name"]);
    let off = vec!["*".to_owned()];
    let cases = [
        (
            TrackEventConfig {
                enabled_categories: names(&["pick*"]),
                disabled_categories: off.clone(),
                ..Default::default()
            },
            &all[..2],
        ),
        (
            TrackEventConfig {
                enabled_tags: names(&["slow"]),
                disabled_categories: off.clone(),
                ..Default::default()
            },
            &all[2..],
        ),
        (
            TrackEventConfig {
                enabled_categories: names(&["pick.plain"]),
                disabled_categories: off,
                ..Default::default()
            },
            &all[..1],
        ),
    ];
    for (config, expected) in cases {
        // Known before the session starts, as in a program that runs for a while.
        emit();
        let recording = Recording::start(config);
        on_thread("chooser", emit);
        let texts = recording.stop().texts();
        let found: Vec<_> =
            texts.iter().map(|text| text.strip_prefix("chooser: instant ").unwrap()).collect();
        assert_eq!(found, expected);
    }
}

mod elsewhere {
    ferretto::categories! {
        pub(crate) static ALL = {
            HERE = "path.here";
        }
    }
}

#[test]
fn a_category_can_be_given_by_its_path() {
    let _turn = turn();
    let recording = Recording::of("path");
    on_thread("walker", || {
        let _slice = ferretto::slice!(elsewhere::HERE, "slice", argument = 1);
        ferretto::begin!(elsewhere::HERE, "by hand");
        ferretto::end!(elsewhere::HERE);
        ferretto::instant!(elsewhere::HERE, "instant");
        ferretto::counter!(elsewhere::HERE, "count", 1);
        assert!(ferretto::enabled!(elsewhere::HERE));
    });
    assert_eq!(elsewhere::ALL.len(), 1);
    assert_eq!(recording.stop().events.len(), 6);
}

#[test]
fn arguments_and_names_are_not_evaluated_while_nobody_records() {
    let _turn = turn();
    let mut evaluated = 0;
    let mut count = || {
        evaluated += 1;
        "text".to_owned()
    };
    ferretto::instant!("idle", count(), argument = count());
    let _slice = ferretto::slice!("idle", count(), argument = count());
    ferretto::counter!("idle", "counter", count().len());
    assert!(!ferretto::enabled!("idle"));
    assert_eq!(evaluated, 0);
}

#[test]
fn concurrent_sessions_each_get_their_events() {
    let _turn = turn();
    let both = Recording::of("many");
    ferretto::instant!("many.a", "first");
    let late = Recording::of("many.b");
    ferretto::instant!("many.a", "second");
    ferretto::instant!("many.b", "third");
    let late = late.stop().events;
    ferretto::instant!("many.b", "fourth");
    let both = both.stop().events;
    let texts = |events: &[support::TraceEvent]| -> Vec<String> {
        events.iter().map(|event| event.text.clone()).collect()
    };
    assert_eq!(texts(&late), ["instant many.b/third"]);
    let all =
        ["instant many.a/first", "instant many.a/second", "instant many.b/third", "instant many.b/fourth"];
    assert_eq!(texts(&both), all);
}

#[test]
fn timestamps_are_those_of_the_boot_clock() {
    let now = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let _turn = turn();
    let unit = |config: TrackEventConfig, unit_ns: u64| {
        let recording = Recording::start(config);
        let mut bounds = Vec::new();
        for _ in 0..5 {
            let before = now();
            ferretto::instant!("time", "tick");
            // The clock of events is compared with the kernel's once a second.
            bounds.push((before - MAX_CLOCK_ERROR_NS) / unit_ns * unit_ns..=now() + MAX_CLOCK_ERROR_NS);
            // The first ones have the kernel's time, the others that of the time stamp counter, if that is used.
            thread::sleep(Duration::from_millis(10));
        }
        let trace = recording.stop();
        assert_eq!(trace.events.len(), 5);
        for (event, bounds) in trace.events.iter().zip(bounds) {
            assert!(bounds.contains(&event.timestamp_ns), "{} not in {bounds:?}", event.timestamp_ns);
        }
    };
    unit(only("time"), 1);
    unit(TrackEventConfig { disable_incremental_timestamps: Some(true), ..only("time") }, 1);
    unit(TrackEventConfig { timestamp_unit_multiplier: Some(1000), ..only("time") }, 1000);
}

#[test]
fn a_session_can_leave_out_arguments_and_dynamic_names() {
    let _turn = turn();
    let config = TrackEventConfig {
        filter_debug_annotations: Some(true),
        filter_dynamic_event_names: Some(true),
        ..only("filter")
    };
    let recording = Recording::start(config);
    on_thread("filtered", || {
        ferretto::instant!("filter", String::from("secret"), password = "123");
        ferretto::instant!("filter", "public");
    });
    assert_eq!(
        recording.stop().texts(),
        ["filtered: instant filter/dynamic FILTERED", "filtered: instant filter/public"]
    );
}

#[test]
fn a_flush_finds_what_an_idle_thread_holds() {
    let _turn = turn();
    let mut recording = Recording::of("held");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let idle = thread::Builder::new().name("idler".to_owned()).spawn(move || {
        ferretto::instant!("held", "before");
        let _ = stopped.recv();
    });
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        recording.flush();
        thread::sleep(Duration::from_millis(20));
        if until.saturating_duration_since(Instant::now()) < Duration::from_millis(800) {
            break;
        }
    }
    let texts = recording.stop().texts();
    stop.send(()).unwrap();
    idle.unwrap().join().unwrap();
    assert_eq!(texts, ["idler: instant held/before"]);
}

#[test]
fn events_after_a_loss_can_be_read() {
    let _turn = turn();
    let recording = Recording::of("flood");
    // More than the shared memory holds, faster than the service may take it.
    let threads: Vec<_> = (0..2)
        .map(|_| {
            thread::spawn(|| {
                for number in 0..30_000 {
                    ferretto::instant!(
                        "flood",
                        "wave",
                        number = number,
                        text = "some text to make it longer"
                    );
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let trace = recording.stop();
    assert!(!trace.events.is_empty());
    // The reader has checked that each packet refers to what is known. Every loss made its sequence start again.
    assert!(trace.clears > trace.losses, "{} starts, {} losses", trace.clears, trace.losses);
    if trace.losses == 0 {
        assert_eq!(trace.events.len(), 60_000);
    }
}

#[test]
fn categories_are_listed_with_their_descriptions() {
    ferretto::categories! {
        static LISTED = {
            ONE = "listed.one", "The first", ["tag"];
        }
    }
    let _turn = turn();
    let mut consumer =
        ferretto_consumer::Consumer::over(support::host().connect_consumer().unwrap()).unwrap();
    assert!(!ONE.is_enabled());
    assert_eq!(LISTED[0].name(), "listed.one");
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let state = consumer.query_service_state(false).unwrap();
        let found = state.data_sources.iter().any(|source| {
            let bytes = source.ds_descriptor.clone().unwrap_or_default();
            let descriptor =
                <ferretto_protos::DataSourceDescriptor as prost::Message>::decode(bytes).unwrap();
            let categories = descriptor.track_event_descriptor.unwrap_or_default().available_categories;
            categories.iter().any(|category| {
                category.name() == "listed.one"
                    && category.description() == "The first"
                    && category.tags == ["tag"]
            })
        });
        if found {
            return;
        }
        assert!(Instant::now() < until, "the category is not listed");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_end_of_a_program_can_wait_for_its_data() {
    let _turn = turn();
    let recording = Recording::of("last");
    ferretto::instant!("last", "words");
    assert!(ferretto::flush(Duration::from_secs(10)));
    assert_eq!(recording.stop().events.len(), 1);
}
