//! Sessions awaited by a runtime that moves tasks between threads.

use std::time::Duration;

use ferretto::protos::Trace;
use ferretto::tracing_session::SessionError;
use ferretto::{Backends, TracingSession};
use prost::Message;

fn count(trace: &[u8], text: &str) -> usize {
    let trace = Trace::decode(trace).unwrap();
    let mentions = |packet: &Vec<u8>| packet.windows(text.len()).any(|part| part == text.as_bytes());
    trace.packet.iter().map(Message::encode_to_vec).filter(mentions).count()
}

async fn record(number: usize) -> Result<Vec<u8>, SessionError> {
    let mut session = TracingSession::in_process()?.categories(["task"]).start_async().await?;
    let event = || ferretto::instant!("task", "event", text = &*format!("mark {number}."));
    event();
    session.flush_async(Duration::ZERO).await?;
    let mut trace = session.read()?.into_vec_async().await?;
    tokio::task::yield_now().await;
    event();
    trace.extend(session.stop_async().await?.read()?.into_vec_async().await?);
    Ok(trace)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_record_side_by_side() {
    ferretto::builder("test").backends(Backends::IN_PROCESS).init().unwrap();
    for _ in 0..10 {
        let tasks = [0, 1, 2, 3].map(|number| tokio::spawn(record(number)));
        for (number, task) in tasks.into_iter().enumerate() {
            let trace = task.await.unwrap().unwrap();
            assert_eq!(count(&trace, &format!("mark {number}.")), 2);
        }
    }
}

#[tokio::test]
async fn a_wait_that_is_given_up_does_no_harm() {
    let mut session = TracingSession::in_process().unwrap().start_async().await.unwrap();
    for _ in 0..3 {
        let wait = tokio::time::timeout(Duration::from_millis(5), session.wait_async(None));
        assert!(wait.await.is_err(), "nobody ends it");
        session.stats_async().await.unwrap();
    }
    assert!(!session.stop_async().await.unwrap().into_vec().unwrap().is_empty());
}
