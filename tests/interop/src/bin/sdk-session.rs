//! Records itself, by sessions from code, through whatever service listens on the system's sockets: the counterpart of a `perfetto`
//! command line.
//!
//! Usage: `sdk-session EVENTS FOLDER`: writes `FOLDER/blocking`, `FOLDER/awaited`, `FOLDER/copy` and `FOLDER/by-service`, each with
//! `EVENTS` instants.

#![forbid(unsafe_code)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use ferretto::TracingSession;
use ferretto::tracing_session::SessionSetup;

const TIMEOUT: Duration = Duration::from_secs(30);

ferretto::categories! {
    static CATEGORIES = { OWN = "ferretto.session", "Events of a program that records itself"; }
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: sdk-session EVENTS FOLDER";
    let mut args = std::env::args().skip(1);
    let events: u64 = args.next().ok_or(usage)?.parse()?;
    let folder = PathBuf::from(args.next().ok_or(usage)?);
    ferretto::builder("ferretto.session").categories(CATEGORIES).init()?;
    blocking(events, &folder)?;
    block_on(awaited(events, &folder))?;
    by_service(events, &folder)?;
    refused()
}

fn setup() -> Result<SessionSetup, Box<dyn Error>> {
    Ok(TracingSession::system()?.categories(["ferretto.session"]).timeout(TIMEOUT))
}

/// Reads half of the events while it records; a copy has the other half.
fn blocking(events: u64, folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut session = setup()?.start()?;
    trace(events / 2);
    session.flush(TIMEOUT)?;
    let mut trace_so_far = session.read()?.into_vec()?;
    trace(events - events / 2);
    trace_so_far.extend(session.stop()?.into_vec()?);
    std::fs::write(folder.join("blocking"), trace_so_far)?;
    Ok(())
}

async fn awaited(events: u64, folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut session = setup()?.start_async().await?;
    trace(events);
    session.flush_async(TIMEOUT).await?;
    session.clone_trace_async().await?.save(folder.join("copy"))?;
    if session.stats_async().await?.buffer_stats.is_empty() || session.id()?.is_none() {
        return Err("the service says nothing about the session".into());
    }
    session.stop_async().await?.save(folder.join("awaited"))?;
    Ok(())
}

fn by_service(events: u64, folder: &Path) -> Result<(), Box<dyn Error>> {
    let (started, log) = channel();
    let ended = started.clone();
    let setup = setup()?.write_into_file(folder.join("by-service"))?;
    let setup = setup.on_start(move || started.send("start").expect("somebody listens"));
    let setup = setup.on_stop(move || ended.send("stop").expect("somebody listens"));
    let session = setup.start()?;
    trace(events);
    let _trace = session.stop()?;
    for expected in ["start", "stop"] {
        if log.recv_timeout(TIMEOUT)? != expected {
            return Err(format!("the callback for {expected} was not called in its turn").into());
        }
    }
    Ok(())
}

fn refused() -> Result<(), Box<dyn Error>> {
    let session = TracingSession::system()?.buffer_size_kb(0).start();
    match session {
        Err(error) => {
            println!("{error}");
            Ok(())
        }
        Ok(_) => Err("a buffer without a size is accepted".into()),
    }
}

fn trace(events: u64) {
    for number in 0..events {
        ferretto::instant!(OWN, "own event", number = number);
    }
}

/// No runtime is needed.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        std::thread::park();
    }
}
