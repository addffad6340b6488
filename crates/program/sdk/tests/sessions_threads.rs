//! Sessions start a thread only if futures or callbacks need one. A program of its own, as it looks at all threads.

use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use ferretto::TracingSession;

/// Far more than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(30);

fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let comm =
        |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.unwrap().path().join("comm"));
    // A thread may have ended meanwhile.
    tasks.filter_map(|task| comm(task).ok()).filter(|comm| comm.trim_end() == name).count()
}

#[test]
fn blocking_calls_need_no_thread_and_futures_of_all_sessions_one() {
    let mut session = TracingSession::in_process().unwrap().start().unwrap();
    session.flush(Duration::ZERO).unwrap();
    session.stats().unwrap();
    session.stop().unwrap().into_vec().unwrap();
    wait_for_thread("ferretto-servic");
    assert_eq!(threads("ferretto-sessio"), 0);

    // Nobody ends them.
    let mut sessions = [(); 2].map(|()| TracingSession::in_process().unwrap().start().unwrap());
    let mut futures = sessions.each_mut().map(|session| Box::pin(session.wait_async(None)));
    for future in &mut futures {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    // A thread has its name a moment after it was started.
    wait_for_thread("ferretto-sessio");
    assert_eq!(threads("ferretto-sessio"), 1);
    assert_eq!(threads("ferretto-servic"), 1);
}

fn wait_for_thread(name: &str) {
    let until = Instant::now() + TIMEOUT;
    while threads(name) == 0 {
        assert!(Instant::now() < until, "there is no thread {name}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
