//! What `tracing` says is in the trace, on the tracks where it happened.

#[path = "../../sdk/tests/support/slices.rs"]
mod slices;

use std::sync::{Arc, Barrier, Mutex, Once};
use std::thread;

use tracing::{Dispatch, Instrument, Level, debug, error, info, info_span, span, trace, warn};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry;

use slices::{Recording, Slices, turn};

/// A layer beside ours that wants everything.
#[derive(Debug, Clone, Default)]
struct Counter(Arc<Mutex<usize>>);

impl<S: tracing::Subscriber> Layer<S> for Counter {
    fn on_event(&self, _event: &tracing::Event<'_>, _context: Context<'_, S>) {
        *self.0.lock().unwrap() += 1;
    }
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| registry().with(ferretto_tracing::layer()).init());
}

fn record(config: &str) -> Recording {
    install();
    Recording::start(config)
}

fn record_all() -> Recording {
    record(r#"enabled_categories: "layer*" disabled_categories: "*""#)
}

fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    thread::Builder::new().name("worker".to_owned()).spawn(work).unwrap().join().unwrap()
}

/// As [`in_thread`], with a layer that shows polls.
fn in_thread_with<T: Send + 'static>(polls: &Dispatch, work: impl FnOnce() -> T + Send + 'static) -> T {
    let polls = polls.clone();
    in_thread(move || tracing::dispatcher::with_default(&polls, work))
}

fn with_polls(has_polls: bool) -> Dispatch {
    Dispatch::new(registry().with(ferretto_tracing::builder().with_polls(has_polls).layer()))
}

fn names(trace: &Slices) -> Vec<&str> {
    let mut names: Vec<&str> = trace.instants.iter().map(|instant| instant.name.as_str()).collect();
    names.sort_unstable();
    names
}

#[test]
fn spans_are_slices_of_the_thread_that_enters_them() {
    let _turn = turn();
    let recording = record_all();
    let created_here =
        info_span!("outer", id = 7, name = "n", flag = true, load = 0.5, shown = %1, dotted.name = ?"x");
    in_thread(move || {
        let _outer = created_here.enter();
        info_span!("inner").in_scope(|| info!(answer = 42, "said {}", "so"));
    });
    let trace = recording.stop();
    let (outer, inner) = (trace.only("outer"), trace.only("inner"));
    assert_eq!((outer.track_name.as_str(), outer.depth), ("worker", 0));
    assert_eq!(outer.category, "layer");
    assert_eq!(
        outer.arguments,
        ["level=INFO", "id=7", "name=n", "flag=true", "load=0.5", "shown=1", "dotted.name=\"x\""]
    );
    assert_eq!(
        (inner.parent.as_deref(), inner.arguments.as_slice()),
        (Some("outer"), &["level=INFO".to_owned()][..])
    );
    let event = trace.instant("said so");
    assert_eq!(
        (event.parent.as_deref(), event.arguments.join(" ")),
        (Some("inner"), "level=INFO answer=42".to_owned())
    );
    for slice in [outer, inner, event] {
        assert!(slice.location.as_ref().unwrap().contains("layer.rs:"), "{slice:?}");
    }
}

#[test]
fn targets_and_levels_choose_what_is_recorded() {
    let _turn = turn();
    let emit = || {
        error!(target: "layer::a", "a error");
        info!(target: "layer::a", "a info");
        debug!(target: "layer::a", "a debug");
        trace!(target: "layer::a", "a trace");
        warn!(target: "layer::b", "b warn");
        debug!(target: "layer::b", "b debug");
    };
    let off = r#"disabled_categories: "*" "#;
    let cases: [(&str, &[&str]); 5] = [
        // What is tagged `debug` or `slow` is off by default.
        (r#"enabled_categories: "layer*""#, &["a error", "a info", "b warn"]),
        (r#"enabled_categories: "layer::a""#, &["a debug", "a error", "a info", "a trace"]),
        (r#"enabled_tags: "debug""#, &["a debug", "b debug"]),
        (r#"enabled_tags: "error" enabled_tags: "warn""#, &["a error", "b warn"]),
        (r#"enabled_categories: "layer::b*" enabled_tags: "debug""#, &["a debug", "b debug", "b warn"]),
    ];
    install();
    emit();
    for (config, expected) in cases {
        let recording = record(&format!("{off}{config}"));
        emit();
        assert_eq!(names(&recording.stop()), expected, "{config}");
        emit();
    }
}

#[test]
fn callsites_are_off_unless_a_session_records_them() {
    let _turn = turn();
    install();
    let is_on = || tracing::enabled!(target: "layer::switch", Level::INFO);
    assert!(!is_on());
    let recording = record_all();
    assert!(is_on());
    recording.stop();
    assert!(!is_on());
}

#[test]
fn callsites_are_off_if_no_other_layer_wants_them_either() {
    let _turn = turn();
    install();
    let errors = filter_fn(|metadata| *metadata.level() == Level::ERROR);
    // Around ours, and within it.
    let subscribers = [
        Dispatch::new(
            registry().with(Counter::default().with_filter(errors.clone())).with(ferretto_tracing::layer()),
        ),
        Dispatch::new(
            registry().with(ferretto_tracing::layer()).with(Counter::default().with_filter(errors.clone())),
        ),
        Dispatch::new(
            registry().with(ferretto_tracing::layer().and_then(Counter::default().with_filter(errors))),
        ),
    ];
    for subscriber in &subscribers {
        tracing::dispatcher::with_default(subscriber, || {
            let is_on = |error| match error {
                true => tracing::enabled!(target: "layer::both", Level::ERROR),
                false => tracing::enabled!(target: "layer::both", Level::INFO),
            };
            assert_eq!((is_on(true), is_on(false)), (true, false));
            let recording = record_all();
            assert_eq!((is_on(true), is_on(false)), (true, true));
            recording.stop();
            assert_eq!((is_on(true), is_on(false)), (true, false));
        });
    }
}

#[test]
fn a_span_that_is_entered_again_has_a_slice_from_its_first_enter_to_its_close() {
    let _turn = turn();
    for has_polls in [true, false] {
        let layer = with_polls(has_polls);
        let recording = record_all();
        tracing::dispatcher::with_default(&layer, || {
            let (first, second) = (info_span!("request", id = 1), info_span!("request", id = 2));
            // Interleaved, and on other threads each time.
            for _ in 0..3 {
                for request in [first.clone(), second.clone()] {
                    in_thread_with(&layer, move || {
                        let _request = request.enter();
                        info_span!("work").in_scope(|| info!("worked"));
                        info!("polled");
                    });
                }
            }
            first.record("id", 1);
        });
        check_requests(&recording.stop(), has_polls);
    }
}

fn check_requests(trace: &Slices, has_polls: bool) {
    let requests = trace.named("request");
    let (tasks, parts): (Vec<&slices::Slice>, Vec<_>) =
        requests.into_iter().partition(|slice| slice.track_name == "tasks");
    let most = if has_polls { 6 } else { 2 };
    assert_eq!((tasks.len(), parts.len(), trace.named("work").len()), (2, most, 6));
    // What happens in a poll is joined with its future, if it is in no slice of it.
    let is_joined = |slice: &slices::Slice| {
        tasks.iter().any(|task| slice.flows.iter().any(|flow| task.flows.contains(flow)))
    };
    for work in trace.named("work") {
        assert_eq!(is_joined(work), work.parent.is_none(), "{work:?}");
    }
    for event in trace.instants.iter().filter(|event| event.name == "polled") {
        assert_eq!(is_joined(event), event.parent.is_none(), "{event:?}");
    }
    assert_ne!(tasks[0].track, tasks[1].track);
    assert!(tasks[1].begin_ns < tasks[0].end_ns.unwrap());
    for (task, id) in tasks.iter().zip(["id=1", "id=2"]) {
        assert!(task.arguments.contains(&id.to_owned()));
        assert!(task.location.is_some());
        let mut own = parts.iter().filter(|part| part.begin_ns >= task.begin_ns && part.end_ns < task.end_ns);
        // It begins with its first part, to the nanosecond but for what clocks differ by.
        assert!(own.next().unwrap().begin_ns - task.begin_ns <= slices::MAX_CLOCK_ERROR_NS);
        let joined = parts.iter().filter(|part| part.flows.iter().any(|flow| task.flows.contains(flow)));
        let expected = if has_polls { 2 } else { 0 };
        assert_eq!(joined.count(), expected, "each but the first part, which begins where it begins");
    }
    assert!(parts.iter().all(|part| part.track_name == "worker" && part.depth == 0));
}

#[test]
fn spans_without_fields_are_known_however_they_are_entered() {
    let _turn = turn();
    let recording = record_all();
    // Not by the thread that made them, or not at once.
    let (elsewhere, later) = (info_span!("elsewhere"), info_span!("later"));
    in_thread({
        let elsewhere = elsewhere.clone();
        move || elsewhere.in_scope(|| ())
    });
    later.in_scope(|| info_span!("inner").in_scope(|| ()));
    let here_first = info_span!("here first");
    here_first.in_scope(|| ());
    in_thread({
        let here_first = here_first.clone();
        move || here_first.in_scope(|| ())
    });
    // Here again, while it is the one that was made last.
    let twice = info_span!("twice");
    twice.in_scope(|| twice.in_scope(|| ()));
    twice.in_scope(|| ());
    // Never.
    drop(info_span!("never"));
    drop((elsewhere, later, here_first, twice));
    let trace = recording.stop();
    let parts = |name| {
        let slices = trace.named(name);
        let tasks = slices.iter().filter(|slice| slice.track_name == "tasks").count();
        (tasks, slices.len() - tasks)
    };
    assert_eq!(parts("elsewhere"), (0, 1));
    assert_eq!(trace.only("elsewhere").track_name, "worker");
    assert_eq!((parts("later"), parts("inner")), ((0, 1), (0, 1)));
    assert_eq!(trace.only("inner").parent.as_deref(), Some("later"));
    assert_eq!(parts("here first"), (1, 1));
    assert_eq!(parts("twice"), (1, 2));
    assert_eq!(parts("never"), (0, 0));
    let of_levels = trace.slices.iter().filter(|slice| slice.arguments == ["level=INFO"]);
    assert_eq!((of_levels.count(), trace.stray_ends), (trace.slices.len(), 0));
}

#[test]
fn threads_may_enter_a_span_at_the_same_moment() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 200;
    let _turn = turn();
    let recording = record_all();
    let layer = with_polls(true);
    let _default = tracing::dispatcher::set_default(&layer);
    let barrier = Barrier::new(THREADS);
    let spans: Vec<_> = (0..ROUNDS)
        .map(|round| match round % 2 {
            0 => info_span!("shared"),
            _ => info_span!("shared", n = tracing::field::Empty),
        })
        .collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, spans, layer) = (&barrier, &spans, &layer);
            scope.spawn(move || {
                let _default = tracing::dispatcher::set_default(layer);
                for span in spans {
                    barrier.wait();
                    span.in_scope(|| info_span!("own").in_scope(|| ()));
                    span.record("n", thread);
                    span.in_scope(|| ());
                }
            });
        }
    });
    drop(spans);
    let trace = recording.stop();
    let shared = trace.named("shared");
    let tasks = shared.iter().filter(|slice| slice.track_name == "tasks").count();
    assert_eq!((tasks, shared.len() - tasks), (ROUNDS, 2 * THREADS * ROUNDS));
    assert_eq!((trace.named("own").len(), trace.stray_ends), (THREADS * ROUNDS, 0));
    assert!(trace.slices.iter().all(|slice| slice.end_ns.is_some()));
    let is_here = |slice: &slices::Slice| slice.location.as_ref().is_some_and(|at| at.contains("layer.rs:"));
    assert!(trace.slices.iter().all(is_here), "each slice has its place in the source");
}

#[test]
fn thousands_of_spans_may_be_open_at_once() {
    const SPANS: usize = 3_000;
    let _turn = turn();
    let recording = record_all();
    in_thread_with(&with_polls(true), || {
        let spans: Vec<_> = (0..SPANS).map(|_| info_span!("many")).collect();
        for _ in 0..2 {
            for span in &spans {
                span.in_scope(|| info_span!("within").in_scope(|| ()));
            }
        }
    });
    let trace = recording.stop();
    let (tasks, parts): (Vec<&slices::Slice>, Vec<_>) =
        trace.named("many").into_iter().partition(|slice| slice.track_name == "tasks");
    assert_eq!((parts.len(), trace.named("within").len(), trace.stray_ends), (2 * SPANS, 2 * SPANS, 0));
    // As many as there are lanes for them.
    assert!(!tasks.is_empty() && tasks.len() <= SPANS, "{}", tasks.len());
}

#[test]
fn futures_nest_among_the_tasks() {
    let _turn = turn();
    let recording = record_all();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
    async fn query() {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
    runtime.block_on(async {
        let tasks: Vec<_> = (0..20)
            .map(|id| {
                tokio::spawn(
                    async {
                        query().await;
                        query().instrument(info_span!("query")).await;
                    }
                    .instrument(info_span!("request", id)),
                )
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let trace = recording.stop();
    let tasks = |name| -> Vec<slices::Slice> {
        trace.named(name).into_iter().filter(|slice| slice.track_name == "tasks").cloned().collect()
    };
    let (requests, queries) = (tasks("request"), tasks("query"));
    assert_eq!((requests.len(), queries.len(), trace.stray_ends), (20, 20, 0));
    // On threads there is the first poll of each alone.
    assert_eq!((trace.named("request").len(), trace.named("query").len()), (40, 40));
    for query in queries {
        assert_eq!(query.parent.as_deref(), Some("request"));
        let request = requests.iter().find(|request| {
            request.track == query.track && request.begin_ns < query.begin_ns && query.end_ns < request.end_ns
        });
        assert!(request.is_some());
    }
}

#[test]
fn fields_that_are_recorded_later_are_in_the_trace() {
    let _turn = turn();
    let recording = record_all();
    let empty = tracing::field::Empty;
    let early = info_span!("early", status = empty);
    early.record("status", "set");
    early.in_scope(|| ());
    let within = info_span!("within", status = empty, kept = 1);
    within.in_scope(|| within.record("status", 200));
    let after = info_span!("after", status = empty);
    after.in_scope(|| ());
    after.record("status", 404);
    drop((early, within, after));
    let trace = recording.stop();
    assert_eq!(trace.only("early").arguments, ["level=INFO", "status=set"]);
    assert_eq!(trace.only("within").arguments, ["level=INFO", "kept=1", "status=200"]);
    // It has no slice on a thread any more, and therefore gets one of its own.
    let after = trace.named("after");
    let task = after.iter().find(|slice| slice.track_name == "tasks").unwrap();
    assert!(task.arguments.contains(&"status=404".to_owned()), "{after:?}");
    assert_eq!(after.len(), 2);
}

#[test]
fn follows_from_is_an_arrow() {
    let _turn = turn();
    let recording = record_all();
    // From one that has not begun, and from one that has.
    let (cause, effect) = (info_span!("cause"), info_span!("effect"));
    effect.follows_from(&cause);
    cause.in_scope(|| ());
    effect.in_scope(|| ());
    let current = info_span!("current");
    let next = current.in_scope(|| {
        let next = info_span!(parent: None, "next");
        next.follows_from(&current);
        next
    });
    next.in_scope(|| ());
    let trace = recording.stop();
    let flows = |slice: &slices::Slice| slice.flows.clone();
    assert_eq!(flows(trace.only("cause")), flows(trace.only("effect")));
    assert_eq!(flows(trace.only("cause")).len(), 1);
    let followed = trace.instant("followed by next");
    assert_eq!((followed.parent.as_deref(), flows(followed)), (Some("current"), flows(trace.only("next"))));
}

#[test]
fn spans_that_are_left_in_another_order_keep_their_own_times() {
    let _turn = turn();
    let recording = record_all();
    in_thread(|| {
        let (left, right) = (info_span!("left").entered(), info_span!("right").entered());
        drop(left);
        info!("between");
        drop(right);
    });
    let trace = recording.stop();
    let between = trace.instant("between");
    assert_eq!(between.parent.as_deref(), Some("right"));
    assert!(trace.only("left").end_ns.unwrap() <= between.begin_ns);
    assert_eq!(trace.named("right").len(), 2);
}

#[test]
fn a_span_of_an_earlier_session_ends_nothing_in_a_later_one() {
    let _turn = turn();
    let earlier = record_all();
    let span = info_span!("earlier").entered();
    let earlier = earlier.stop();
    let later = record_all();
    let within = info_span!("within").entered();
    // In the wrong order.
    drop(span);
    info!("between");
    drop(within);
    assert_eq!(earlier.only("earlier").end_ns, None);
    let later = later.stop();
    assert_eq!(later.instant("between").parent.as_deref(), Some("within"));
    // It is there from the start of the session to its own end.
    let early = later.only("earlier");
    assert!(early.end_ns.unwrap() <= later.instant("between").begin_ns && early.depth == 0);
    assert!(later.slices.iter().all(|slice| slice.end_ns.is_some()));
    assert_eq!(later.stray_ends, 0);
}

#[test]
fn a_span_that_was_open_when_the_session_began_is_there_from_its_start() {
    let _turn = turn();
    install();
    // One thread for each way in which something happens, and one in which nothing does.
    let ways = ["event", "child", "exit", "close", "nothing"];
    let (open, go_on, did, done) = (Barrier::new(6), Barrier::new(6), Barrier::new(6), Barrier::new(6));
    let idle = info_span!("idle", n = 7);
    idle.in_scope(|| ());
    let never = info_span!("never");
    let early = ferretto::now();
    let trace = thread::scope(|scope| {
        for way in ways {
            let (open, go_on, did, done) = (&open, &go_on, &did, &done);
            scope.spawn(move || {
                let outer = info_span!("outer", way).entered();
                let inner = info_span!("inner", way, late = tracing::field::Empty).entered();
                inner.record("late", "set before");
                open.wait();
                go_on.wait();
                match way {
                    "event" => info!("event in it"),
                    "child" => info_span!("child in it").in_scope(|| ()),
                    "exit" => drop(inner.exit()),
                    "close" => drop(inner),
                    _ => {}
                }
                did.wait();
                done.wait();
                drop(outer);
            });
        }
        open.wait();
        let recording = record_all();
        let late = ferretto::now();
        go_on.wait();
        drop((idle, never));
        did.wait();
        let trace = recording.stop();
        done.wait();
        (trace, late)
    });
    let (trace, late) = trace;
    assert_eq!(trace.stray_ends, 0);
    assert!(trace.named("never").is_empty());
    let has_way = |slice: &slices::Slice, way| slice.arguments.contains(&format!("way={way}"));
    for way in ways {
        for (name, depth) in [("outer", 0), ("inner", 1)] {
            let found: Vec<_> = trace.named(name).into_iter().filter(|slice| has_way(slice, way)).collect();
            assert_eq!(found.len(), usize::from(way != "nothing"), "{way}: {found:?}");
            for slice in found {
                assert_eq!(slice.depth, depth);
                assert!((early..=late).contains(&slice.begin_ns), "{slice:?} is not in {early}..={late}");
                assert!(slice.location.is_some());
                let has_ended = name == "inner" && matches!(way, "exit" | "close");
                assert_eq!(slice.end_ns.is_some(), has_ended, "{slice:?}");
                let has_late = slice.arguments.contains(&"late=set before".to_owned());
                assert_eq!(has_late, name == "inner", "{slice:?}");
            }
        }
    }
    assert_eq!(trace.instant("event in it").parent.as_deref(), Some("inner"));
    assert_eq!(trace.only("child in it").parent.as_deref(), Some("inner"));
    let idle = trace.only("idle");
    assert_eq!(
        (idle.track_name.as_str(), idle.arguments.as_slice()),
        ("tasks", &["level=INFO".to_owned(), "n=7".to_owned()][..])
    );
    assert!((early..=late).contains(&idle.begin_ns) && idle.end_ns.is_some_and(|end| end >= late));
}

#[test]
fn spans_that_nobody_records_are_off_if_they_are_not_to_be_known_later() {
    let _turn = turn();
    let layer = Dispatch::new(registry().with(ferretto_tracing::builder().with_open_spans(false).layer()));
    tracing::dispatcher::with_default(&layer, || {
        // Other subscribers of this process have the callsite on.
        let before = info_span!("before").entered();
        let recording = record_all();
        let after = info_span!("after").entered();
        info!("said");
        drop((after, before));
        let trace = recording.stop();
        assert_eq!((trace.named("before").len(), trace.only("after").depth, trace.stray_ends), (0, 0, 0));
    });
    // What sessions leave out by default is off in any case.
    tracing::dispatcher::with_default(&registry_with_layer(), || {
        assert!(!info_span!("open").is_disabled());
        assert!(tracing::debug_span!("open").is_disabled());
    });
}

#[test]
fn each_of_several_sessions_has_what_was_open_once() {
    let _turn = turn();
    install();
    let outer = info_span!("outer").entered();
    let first = record_all();
    info!("one");
    let inner = info_span!("inner", n = 1).entered();
    let second = record_all();
    info!("two");
    drop(inner);
    let (first, second) = (first.stop(), second);
    info!("three");
    drop(outer);
    let second = second.stop();
    assert_eq!((first.only("outer").depth, first.only("inner").depth), (0, 1));
    assert_eq!((second.only("outer").depth, second.only("inner").depth), (0, 1));
    assert_eq!(second.only("inner").begin_ns, second.only("outer").begin_ns);
    assert!(second.only("outer").begin_ns > first.only("inner").begin_ns);
    assert_eq!((names(&first), names(&second)), (vec!["one", "two"], vec!["three", "two"]));
    assert_eq!(second.instant("two").parent.as_deref(), Some("inner"));
    assert_eq!(second.instant("three").parent.as_deref(), Some("outer"));
    assert_eq!((first.stray_ends, second.stray_ends), (0, 0));
}

#[test]
fn a_future_that_goes_on_is_in_each_session() {
    let _turn = turn();
    install();
    let future = info_span!("future", n = 1);
    let poll = || future.in_scope(|| ());
    poll();
    poll();
    let first = record_all();
    poll();
    poll();
    let first = first.stop();
    poll();
    let start = ferretto::now();
    let second = record_all();
    poll();
    let later = info_span!("later");
    later.in_scope(|| ());
    drop(future);
    let second = second.stop();
    for trace in [&first, &second] {
        assert_eq!(trace.only("future").track_name, "tasks");
        assert_eq!(trace.stray_ends, 0);
    }
    assert_eq!(first.only("future").end_ns, None);
    let future = second.only("future");
    assert!(
        future.begin_ns >= start && future.end_ns.is_some() && future.arguments.contains(&"n=1".to_owned())
    );
}

#[test]
fn a_parent_in_another_thread_is_an_arrow() {
    let _turn = turn();
    let recording = record_all();
    let outer = info_span!("outer", n = 1);
    let entered = outer.enter();
    // With fields and without, made here and there, entered at once and later.
    let made_here = [info_span!("made here"), info_span!("made here", n = 2)];
    let parent = outer.clone();
    in_thread(move || {
        made_here.into_iter().for_each(|span| span.in_scope(|| ()));
        info_span!(parent: &parent, "made there").in_scope(|| info_span!("within").in_scope(|| ()));
        info_span!(parent: &parent, "made there", n = 3).in_scope(|| ());
        info_span!(parent: None, "apart").in_scope(|| ());
    });
    info_span!("at home").in_scope(|| info_span!(parent: &outer, "at home").in_scope(|| ()));
    drop(entered);
    drop(outer);
    let trace = recording.stop();
    let outer = trace.only("outer");
    for (name, count) in [("made here", 2), ("made there", 2)] {
        let found = trace.named(name);
        assert_eq!(found.len(), count);
        for child in found {
            assert_eq!((child.track_name.as_str(), child.flows.len()), ("worker", 1), "{child:?}");
            let from: Vec<_> = trace.instants.iter().filter(|other| other.flows == child.flows).collect();
            let [from] = &*from else { panic!("{from:?}") };
            assert_eq!((from.track, from.parent.as_deref()), (outer.track, Some("outer")));
            assert_eq!(from.name, format!("parent of {name}"));
            assert!((outer.begin_ns..child.begin_ns).contains(&from.begin_ns));
        }
    }
    for name in ["within", "apart", "at home"] {
        assert!(trace.named(name).iter().all(|slice| slice.flows.is_empty()), "{name}");
    }
}

#[test]
fn other_layers_see_what_they_want() {
    let _turn = turn();
    let counter = Counter::default();
    let subscriber = registry().with(counter.clone()).with(ferretto_tracing::layer());
    tracing::subscriber::with_default(subscriber, || {
        info!(target: "layer::others", "unrecorded");
        let recording = record_all();
        info!(target: "layer::others", "recorded");
        assert_eq!(names(&recording.stop()), ["recorded"]);
    });
    assert_eq!(*counter.0.lock().unwrap(), 2);
}

#[test]
fn spans_that_only_other_layers_want_are_left_out() {
    let _turn = turn();
    let subscriber = registry().with(Counter::default()).with(ferretto_tracing::layer());
    tracing::subscriber::with_default(subscriber, || {
        let earlier = info_span!(target: "layer::others", "earlier");
        let recording = record(r#"enabled_categories: "layer::wanted" disabled_categories: "*""#);
        for _ in 0..2 {
            earlier.in_scope(|| ());
            let (unwanted, wanted) = (
                info_span!(target: "layer::others", "unwanted"),
                info_span!(target: "layer::wanted", "wanted"),
            );
            unwanted.in_scope(|| wanted.in_scope(|| ()));
            wanted.in_scope(|| unwanted.in_scope(|| unwanted.in_scope(|| ())));
        }
        drop(earlier);
        let trace = recording.stop();
        assert!(trace.slices.iter().all(|slice| slice.name == "wanted"), "{:?}", trace.slices);
        assert_eq!((trace.slices.len(), trace.stray_ends), (4, 0));
    });
}

#[test]
fn spans_of_two_layers_are_told_apart() {
    let _turn = turn();
    let recording = record_all();
    let (one, other) = (registry_with_layer(), registry_with_layer());
    // Both registries number them alike.
    let outer = tracing::dispatcher::with_default(&one, || info_span!("of one"));
    let inner = tracing::dispatcher::with_default(&other, || info_span!("of other", n = 1));
    let outer_again = outer.clone();
    let (outer, inner) = (outer.entered(), inner.entered());
    drop(outer);
    drop(inner);
    outer_again.in_scope(|| ());
    drop(outer_again);
    let trace = recording.stop();
    assert_eq!(trace.stray_ends, 0);
    assert_eq!(trace.named("of one").iter().filter(|slice| slice.track_name == "tasks").count(), 1);
    assert_eq!(trace.named("of other").iter().filter(|slice| slice.track_name == "tasks").count(), 0);
}

fn registry_with_layer() -> Dispatch {
    Dispatch::new(registry().with(ferretto_tracing::layer()))
}

#[test]
fn values_that_log_while_they_are_shown_do_no_harm() {
    struct Talkative;
    impl std::fmt::Display for Talkative {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            info_span!("within display").in_scope(|| info!(n = 1, "shown"));
            f.write_str("talkative")
        }
    }
    let _turn = turn();
    let recording = record_all();
    info!(value = %Talkative, "outside");
    drop(info_span!("span", value = %Talkative).entered());
    let trace = recording.stop();
    assert_eq!(names(&trace), ["outside", "shown", "shown"]);
    assert_eq!(trace.instant("outside").arguments, ["level=INFO", "value=talkative"]);
    assert_eq!(trace.only("span").arguments, ["level=INFO", "value=talkative"]);
}

#[test]
fn what_the_library_itself_says_is_left_out() {
    let _turn = turn();
    let recording = record(r#"enabled_categories: "*""#);
    warn!(target: "ferretto", "own");
    span!(target: "ferretto_producer::client", Level::ERROR, "own span").in_scope(|| ());
    warn!(target: "ferretto_app", "somebody's");
    let trace = recording.stop();
    assert_eq!(names(&trace), ["somebody's"]);
    assert!(trace.slices.is_empty());
}

#[test]
fn a_session_without_arguments_has_no_levels() {
    let _turn = turn();
    let config = r#"enabled_categories: "layer" disabled_categories: "*" filter_debug_annotations: true"#;
    let recording = record(config);
    for n in 0..3 {
        info_span!("bare").in_scope(|| ());
        info_span!("with field", n).in_scope(|| ());
    }
    let trace = recording.stop();
    assert_eq!(trace.slices.len(), 6);
    assert!(trace.slices.iter().all(|slice| slice.arguments.is_empty()), "{:?}", trace.slices);
}

#[test]
fn a_long_message_is_an_argument_too() {
    let _turn = turn();
    let recording = record_all();
    let long = "ä".repeat(300);
    info!("{long}");
    let trace = recording.stop();
    let event = &trace.instants[0];
    assert_eq!(event.name, "ä".repeat(60));
    assert_eq!(event.arguments, ["level=INFO".to_owned(), format!("message={long}")]);
}
