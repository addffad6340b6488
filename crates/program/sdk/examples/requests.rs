//! A server without a network, for looking at traces: requests wait in a queue for one of three threads, and for a lock that they share.
//!
//!     cargo run --release -p ferretto --example requests [SECONDS]
//!
//! Recorded beside something that wants the CPUs, it shows who waited for whom. `docs/analysis.md` asks about it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ferretto::{Flow, Unit};

ferretto::categories! {
    static CATEGORIES = { WEB = "web", "Requests"; }
}

const PATHS: [&str; 4] = ["/", "/search", "/cart", "/search"];
const WORKERS: u32 = 3;

#[derive(Default)]
struct Server {
    queue: Mutex<VecDeque<Request>>,
    has_more: Condvar,
    /// What all requests write to.
    log: Mutex<Vec<u64>>,
}

struct Request {
    id: u64,
    path: &'static str,
}

fn main() -> Result<(), ferretto::InitError> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5.0);
    ferretto::builder("ferretto.requests").categories(CATEGORIES).init()?;
    let server = Server::default();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    thread::scope(|scope| {
        for number in 0..WORKERS {
            let work = || work(&server, end);
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn_scoped(scope, work)
                .expect("a thread");
        }
        accept(&server, end);
    });
    ferretto::flush(Duration::from_secs(1));
    Ok(())
}

fn accept(server: &Server, end: Instant) {
    for id in 0.. {
        if Instant::now() > end {
            break;
        }
        let path = PATHS.get(id as usize % PATHS.len()).copied().unwrap_or("/");
        {
            let _slice = ferretto::slice!(WEB, "accept", flow: Flow::named("request", id), id, path);
            let mut queue = server.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.push_back(Request { id, path });
            ferretto::counter!(WEB, "queue", queue.len() as u64, unit: Unit::Count);
        }
        server.has_more.notify_one();
        thread::sleep(Duration::from_millis(4));
    }
    server.has_more.notify_all();
}

fn work(server: &Server, end: Instant) {
    while Instant::now() < end {
        let queue = server.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let waited =
            server.has_more.wait_timeout_while(queue, Duration::from_millis(100), |queue| queue.is_empty());
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let Some(request) = queue.pop_front() else { continue };
        ferretto::counter!(WEB, "queue", queue.len() as u64, unit: Unit::Count);
        drop(queue);
        answer(server, &request);
    }
}

fn answer(server: &Server, request: &Request) {
    let flow = Flow::named("request", request.id);
    let _slice = ferretto::slice!(WEB, "request", flow_end: flow, id = request.id, path = request.path);
    compute("parse", 200);
    if request.path == "/search" {
        compute("search", 2_000);
    } else {
        query();
    }
    let _slice = ferretto::slice!(WEB, "log");
    let mut log = server.log.lock().unwrap_or_else(PoisonError::into_inner);
    log.push(request.id);
    // Others wait meanwhile.
    thread::sleep(Duration::from_micros(300));
}

/// Work for a CPU, of about so many microseconds.
fn compute(what: &'static str, micros: u64) {
    let _slice = ferretto::slice!(WEB, what);
    let mut sum = 0u64;
    for n in 0..micros * 400 {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(n));
    }
}

/// Somebody else does it.
fn query() {
    let _slice = ferretto::slice!(WEB, "query");
    thread::sleep(Duration::from_millis(3));
}
