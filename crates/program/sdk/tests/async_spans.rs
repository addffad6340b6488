//! Spans of asynchronous tasks have their own beginnings and ends in the trace, whatever threads they are polled on.

#[path = "support/slices.rs"]
mod slices;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread;

use ferretto::{AsyncSpan, Category, Instrument};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use slices::{MAX_CLOCK_ERROR_NS, Recording, Slice, Slices, turn};

static SPANS: Category = Category::new("async.spans");

fn record() -> Recording {
    Recording::start(r#"enabled_categories: "async*" disabled_categories: "*""#)
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An executor without mercy: each poll may be on another thread, and tasks are polled in any order.
struct Executor {
    workers: Vec<(Sender<Task>, Receiver<Option<Task>>)>,
}

impl Executor {
    fn new(threads: usize) -> Self {
        Self { workers: (0..threads).map(|_| worker()).collect() }
    }

    /// Polls tasks until all are done. Of the random numbers, each says which task is next, and where; after them, tasks take turns.
    fn run(&self, mut tasks: Vec<Task>, random: &[usize]) {
        let mut random = random.iter();
        let mut turn = 0;
        while !tasks.is_empty() {
            turn += 1;
            let number = random.next().copied().unwrap_or(turn);
            let task = tasks.swap_remove(number % tasks.len());
            let (sender, receiver) = &self.workers[number / 7 % self.workers.len()];
            sender.send(task).unwrap();
            tasks.extend(receiver.recv().unwrap());
        }
    }
}

fn worker() -> (Sender<Task>, Receiver<Option<Task>>) {
    let (sender, tasks) = channel::<Task>();
    let (results, receiver) = channel();
    thread::spawn(move || {
        let mut context = Context::from_waker(Waker::noop());
        for mut task in tasks {
            let is_ready = task.as_mut().poll(&mut context).is_ready();
            let _ = results.send((!is_ready).then_some(task));
        }
    });
    (sender, receiver)
}

/// Ready the second time.
async fn step() {
    let mut was_polled = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut was_polled, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// All at once, as `join!` does.
async fn join(mut futures: Vec<Task>) {
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn moment(what: &str, name: &str) {
    ferretto::instant!(SPANS, format!("{what} {name}"));
}

/// What a task does.
#[derive(Debug, Clone)]
enum Work {
    Step,
    /// Spans one after another.
    Children(Vec<Self>),
    /// Spans at once.
    Join(Vec<Self>),
    /// Spans of which only the first is waited for: the others are dropped.
    Race(Vec<Self>),
    /// A span of a task of its own.
    Spawn(Box<Self>),
}

fn work() -> impl Strategy<Value = Work> {
    let many = |work| proptest::collection::vec(work, 1..4);
    Just(Work::Step).prop_recursive(4, 24, 3, move |inner| {
        prop_oneof![
            many(inner.clone()).prop_map(Work::Children),
            many(inner.clone()).prop_map(Work::Join),
            many(inner.clone()).prop_map(Work::Race),
            inner.prop_map(|work| Work::Spawn(Box::new(work))),
        ]
    })
}

/// A span that says in instants when it must have begun and ended: `before`, `begun`, `ending`, `after`.
fn span_of(name: String, work: Work, spawner: Sender<Task>) -> Task {
    Box::pin(async move {
        moment("before", &name);
        let after = name.clone();
        inside(name.clone(), work, spawner).instrument(ferretto::span!(SPANS, &name)).await;
        moment("after", &after);
    })
}

async fn inside(name: String, work: Work, spawner: Sender<Task>) {
    moment("begun", &name);
    step().await;
    let child = |(index, work)| span_of(format!("{name}.{index}"), work, spawner.clone());
    match work {
        Work::Step => step().await,
        Work::Children(works) => {
            for future in works.into_iter().enumerate().map(child) {
                future.await;
            }
        }
        Work::Join(works) => join(works.into_iter().enumerate().map(child).collect()).await,
        Work::Race(works) => {
            let mut futures: Vec<Task> = works.into_iter().enumerate().map(child).collect();
            std::future::poll_fn(|context| {
                let is_done = futures.iter_mut().any(|future| future.as_mut().poll(context).is_ready());
                if is_done { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        Work::Spawn(work) => spawner.send(child((0, *work))).unwrap(),
    }
    step().await;
    moment("ending", &name);
}

#[test]
fn every_span_of_random_tasks_on_random_threads_is_found_with_its_own_times() {
    let _turn = turn();
    let executor = Executor::new(4);
    let strategy =
        (proptest::collection::vec(work(), 1..4), proptest::collection::vec(0..10_000_usize, 0..300));
    TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() })
        .run(&strategy, |(works, random)| {
            let recording = record();
            let (spawner, spawned) = channel();
            let mut tasks: Vec<Task> = works
                .into_iter()
                .enumerate()
                .map(|(index, work)| span_of(format!("s{index}"), work, spawner.clone()))
                .collect();
            while !tasks.is_empty() {
                executor.run(tasks, &random);
                tasks = spawned.try_iter().collect();
            }
            check(&recording.stop());
            Ok(())
        })
        .unwrap();
}

/// Each span's slices follow one another without a gap, from its beginning to its end.
fn check(trace: &Slices) {
    assert_eq!(trace.stray_ends, 0);
    let begun: Vec<&str> =
        trace.instants.iter().filter_map(|instant| instant.name.strip_prefix("begun ")).collect();
    for name in &begun {
        let parts = trace.named(name);
        let at = |what: &str| trace.instants.iter().find(|one| one.name == format!("{what} {name}"));
        let (first, last) = (parts[0].begin_ns, parts[parts.len() - 1].end_ns.expect("it has an end"));
        // Both clocks may be off.
        let tolerance_ns = 2 * MAX_CLOCK_ERROR_NS;
        let before = |instant: Option<&Slice>, ns: u64| {
            assert!(
                instant.is_none_or(|instant| instant.begin_ns <= ns + tolerance_ns),
                "{name}: {parts:#?}"
            );
        };
        let after = |instant: Option<&Slice>, ns: u64| {
            assert!(
                instant.is_none_or(|instant| instant.begin_ns + tolerance_ns >= ns),
                "{name}: {parts:#?}"
            );
        };
        before(at("before"), first);
        after(at("begun"), first);
        before(at("ending"), last);
        after(at("after"), last);
        for pair in parts.windows(2) {
            assert!(pair[1].begin_ns.wrapping_sub(pair[0].end_ns.unwrap()) <= tolerance_ns, "{parts:#?}");
            assert!(pair[0].flows.iter().any(|flow| pair[1].flows.contains(flow)), "parts are joined");
        }
        assert!(parts.iter().all(|part| part.track_name == "tasks"));
    }
    // And there are no others.
    assert!(trace.slices.iter().all(|slice| begun.contains(&slice.name.as_str())));
}

fn run(task: impl Future<Output = ()> + Send + 'static) {
    Executor::new(2).run(vec![Box::pin(task)], &[]);
}

fn poll_once(task: Pin<&mut impl Future>) -> bool {
    task.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn requests_at_once_overlap_and_what_they_wait_for_nests() {
    let _turn = turn();
    let recording = record();
    let request = |name: &'static str| -> Task {
        Box::pin(
            async {
                step().await;
                step()
                    .instrument(ferretto::span!(SPANS, "query", table = "users", ports = vec![80, 443]))
                    .await;
            }
            .instrument(ferretto::span!(SPANS, name, id = 7)),
        )
    };
    Executor::new(2).run(vec![request("a"), request("b")], &[]);
    let trace = recording.stop();
    let (a, b) = (trace.only("a"), trace.only("b"));
    assert_ne!(a.track, b.track);
    assert!(a.begin_ns < b.end_ns.unwrap() && b.begin_ns < a.end_ns.unwrap());
    assert_eq!((a.category.as_str(), a.arguments.as_slice()), ("async.spans", &["id=7".to_owned()][..]));
    let queries = trace.named("query");
    assert_eq!(queries.len(), 2);
    for request in [a, b] {
        let query = queries.iter().find(|query| query.track == request.track).unwrap();
        assert_eq!((query.depth, query.parent.as_deref()), (1, Some(request.name.as_str())));
        assert_eq!(query.arguments, ["table=users", "ports=80+443"]);
    }
}

#[test]
fn children_at_once_have_arrows_from_their_parent() {
    let _turn = turn();
    let recording = record();
    let child = |name: &'static str| -> Task { Box::pin(step().instrument(ferretto::span!(SPANS, name))) };
    run(async move { join(vec![child("first"), child("second")]).await }
        .instrument(ferretto::span!(SPANS, "parent")));
    let trace = recording.stop();
    let (parent, first, second) = (trace.only("parent"), trace.only("first"), trace.only("second"));
    assert_eq!((first.track, first.depth), (parent.track, 1));
    assert_ne!(second.track, parent.track);
    assert!(parent.flows.iter().any(|flow| second.flows.contains(flow)));
    assert!(!parent.flows.iter().any(|flow| first.flows.contains(flow)), "it is where it belongs already");
}

#[test]
fn a_spawned_span_has_an_arrow_from_where_it_was_created() {
    let _turn = turn();
    let recording = record();
    let (spawner, spawned) = channel::<Task>();
    run(async move {
        spawner.send(Box::pin(step().instrument(ferretto::span!(SPANS, "spawned")))).unwrap();
    }
    .instrument(ferretto::span!(SPANS, "creator")));
    spawned.recv().map(run).unwrap();
    let trace = recording.stop();
    let (creator, spawned) = (trace.only("creator"), trace.only("spawned"));
    assert_eq!(spawned.parent, None);
    assert!(creator.flows.iter().any(|flow| spawned.flows.contains(flow)));
}

#[test]
fn a_dropped_future_ends_its_span_and_those_within() {
    let _turn = turn();
    let recording = record();
    {
        let work = async {
            step().await;
            std::future::pending::<()>().instrument(ferretto::span!(SPANS, "inner")).await;
        };
        let mut outer = pin!(work.instrument(ferretto::span!(SPANS, "outer")));
        assert!(!poll_once(outer.as_mut()));
        assert!(!poll_once(outer.as_mut()));
    }
    // Never polled, and therefore never begun.
    drop(step().instrument(ferretto::span!(SPANS, "never")));
    let trace = recording.stop();
    let (outer, inner) = (trace.only("outer"), trace.only("inner"));
    assert_eq!((inner.track, inner.depth), (outer.track, 1));
    assert!(inner.end_ns.unwrap() < outer.end_ns.unwrap());
    assert!(trace.named("never").is_empty());
}

#[test]
fn a_span_ends_when_its_future_is_done_even_if_that_is_kept() {
    let _turn = turn();
    let recording = record();
    let mut kept = pin!(std::future::ready(()).instrument(ferretto::span!(SPANS, "done")));
    assert!(poll_once(kept.as_mut()));
    moment("after", "done");
    let trace = recording.stop();
    assert!(trace.only("done").end_ns.unwrap() <= trace.instant("after done").begin_ns + MAX_CLOCK_ERROR_NS);
}

#[test]
fn a_scope_without_a_future_is_a_parent_too() {
    let _turn = turn();
    let recording = record();
    let job = ferretto::span!(SPANS, "job");
    job.in_scope(|| drop(ferretto::span!(SPANS, "not begun")));
    let part = job.in_scope(|| {
        let part = ferretto::span!(SPANS, "part");
        part.in_scope(|| ());
        part
    });
    thread::spawn(move || part.end_with(&[("rows", ferretto::Value::Int(3))])).join().unwrap();
    job.end();
    let trace = recording.stop();
    assert_eq!(trace.only("part").parent.as_deref(), Some("job"));
    assert_eq!(trace.only("part").arguments, ["rows=3"]);
    assert!(trace.named("not begun").is_empty());
}

#[test]
fn sessions_get_the_spans_that_begin_in_them() {
    let _turn = turn();
    let unseen = ferretto::span!(SPANS, "unseen");
    assert!(!unseen.is_enabled());
    let first = record();
    let before = ferretto::span!(SPANS, "before");
    before.in_scope(|| ());
    // Another session, in the middle of it.
    let second = record();
    let within = before.in_scope(|| {
        let within = ferretto::span!(SPANS, "within");
        within.in_scope(|| ());
        within
    });
    drop((unseen, within, before));
    let (first, second) = (first.stop(), second.stop());
    assert_eq!((first.stray_ends, second.stray_ends), (0, 0), "no end without a beginning");
    assert_eq!(first.only("within").parent.as_deref(), Some("before"));
    assert_eq!(second.only("within").parent, None);
    assert!(second.named("before").is_empty() && first.named("unseen").is_empty());

    // Its place is taken by another one, which must not get the end.
    let third = record();
    let open = ferretto::span!(SPANS, "open");
    open.in_scope(|| ());
    let third = third.stop();
    let fourth = record();
    drop(open);
    let fourth = fourth.stop();
    assert_eq!((third.only("open").end_ns, third.stray_ends), (None, 0));
    assert_eq!((fourth.slices.len(), fourth.stray_ends), (0, 0));
}

#[test]
fn lanes_are_told_about_once_and_used_again() {
    let _turn = turn();
    let recording = record();
    for _ in 0..200 {
        let span = ferretto::span!(SPANS, "short");
        span.in_scope(|| ferretto::span!(SPANS, "nested").in_scope(|| ()));
    }
    let trace = recording.stop();
    assert_eq!((trace.named("short").len(), trace.named("nested").len()), (200, 200));
    assert_eq!(trace.tracks["tasks"], 1);
}

#[test]
fn polls_are_slices_of_threads_if_a_session_wants_them() {
    let _turn = turn();
    let recording = Recording::start(
        r#"enabled_categories: "async*" enabled_categories: "ferretto.poll" disabled_categories: "*""#,
    );
    run(async {
        step().await;
        step().await;
    }
    .instrument(ferretto::span!(SPANS, "task")));
    let trace = recording.stop();
    let slices = trace.named("task");
    let polls: Vec<_> = slices.iter().filter(|slice| slice.category == "ferretto.poll").collect();
    assert_eq!((slices.len(), polls.len()), (4, 3));
    assert!(polls.iter().all(|poll| poll.track_name != "tasks" && poll.flows == slices[0].flows));
}

#[test]
fn no_span_costs_nothing() {
    let span = AsyncSpan::none();
    assert!(!span.is_enabled() && span.flow().is_none());
    assert_eq!(span.in_scope(|| 1), 1);
}
