//! Spans under the executors that programs use.

#[path = "support/slices.rs"]
mod slices;

use std::time::Duration;

use async_executor::Executor;
use ferretto::{Category, Instrument};

use slices::{Recording, Slices, turn};

static REQUESTS: Category = Category::new("executors");
const COUNT: usize = 50;

fn record() -> Recording {
    Recording::start(r#"enabled_categories: "executors*" disabled_categories: "*""#)
}

/// Each request has a span with two queries in it, one after the other, and ran in parallel with others.
fn check(trace: &Slices) {
    assert_eq!(trace.stray_ends, 0);
    let requests = trace.named("request");
    assert_eq!((requests.len(), trace.named("query").len()), (COUNT, 2 * COUNT));
    for request in &requests {
        let within = |slice: &&&slices::Slice| {
            slice.track == request.track
                && request.begin_ns < slice.begin_ns
                && slice.end_ns.unwrap() < request.end_ns.unwrap()
        };
        let queries = trace.named("query");
        let queries: Vec<_> = queries.iter().filter(within).collect();
        assert_eq!(queries.len(), 2, "{request:#?}");
        assert!(queries.iter().all(|query| query.parent.as_deref() == Some("request")));
        assert!(queries[0].end_ns.unwrap() < queries[1].begin_ns);
    }
    let overlaps = requests.windows(2).filter(|pair| pair[1].begin_ns < pair[0].end_ns.unwrap());
    assert!(overlaps.count() > 0, "requests run at once");
}

#[test]
fn tokio_with_several_threads() {
    let _turn = turn();
    let recording = record();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap();
    async fn query() {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tokio::task::yield_now().await;
    }
    runtime.block_on(async {
        let request = |id: usize| {
            async {
                query().instrument(ferretto::span!(REQUESTS, "query", number = 1)).await;
                query().instrument(ferretto::span!(REQUESTS, "query", number = 2)).await;
            }
            .instrument(ferretto::span!(REQUESTS, "request", id))
        };
        let tasks: Vec<_> = (0..COUNT).map(|id| tokio::spawn(request(id))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    check(&recording.stop());
}

#[test]
fn tokio_joins_and_times_out() {
    let _turn = turn();
    let recording = record();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let sleep = |ms| tokio::time::sleep(Duration::from_millis(ms));
    runtime.block_on(
        async {
            tokio::join!(
                sleep(2).instrument(ferretto::span!(REQUESTS, "left")),
                sleep(4).instrument(ferretto::span!(REQUESTS, "right")),
            );
            let late = sleep(60_000).instrument(ferretto::span!(REQUESTS, "late"));
            assert!(tokio::time::timeout(Duration::from_millis(2), late).await.is_err());
        }
        .instrument(ferretto::span!(REQUESTS, "all")),
    );
    let trace = recording.stop();
    let (all, left, right, late) =
        (trace.only("all"), trace.only("left"), trace.only("right"), trace.only("late"));
    assert_eq!([left, late].map(|slice| slice.parent.as_deref()), [Some("all"); 2]);
    assert_ne!(right.track, all.track);
    assert!(right.begin_ns < left.end_ns.unwrap());
    assert!(late.end_ns < all.end_ns, "it ended when it was given up");
}

#[test]
fn the_executor_of_smol_and_async_std() {
    let _turn = turn();
    let recording = record();
    let executor = Executor::new();
    async fn query() {
        let mut polls = 0;
        std::future::poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            std::thread::yield_now();
            if polls > 3 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
    let tasks: Vec<_> = (0..COUNT)
        .map(|id| {
            let request = async {
                query().instrument(ferretto::span!(REQUESTS, "query", number = 1)).await;
                query().instrument(ferretto::span!(REQUESTS, "query", number = 2)).await;
            };
            executor.spawn(request.instrument(ferretto::span!(REQUESTS, "request", id)))
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while tasks.iter().any(|task| !task.is_finished()) {
                    executor.try_tick();
                }
            });
        }
    });
    drop(tasks);
    check(&recording.stop());
}
