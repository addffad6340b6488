//! The thread that receives for sessions whose futures somebody else awaits, and that runs callbacks.
//!
//! There is one for all sessions of the process. It starts when it is first needed, and ends when it has been idle for a while: programs
//! that only make blocking calls never have it.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use ferretto_producer::log;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::channel::Channel;
use super::error::SessionError;
use crate::runtime::Held;

/// How long the thread stays without work: an `await` a second should not start a thread a second.
const IDLE_TIME: Duration = Duration::from_secs(10);

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

/// The thread's work.
struct Driver {
    /// The process that the thread runs in: a forked child has none.
    pid: u32,
    wake: Arc<OwnedFd>,
    watched: Vec<Arc<Channel>>,
    ready: Vec<Arc<Task>>,
}

/// A callback with what it waits for.
struct Task(Mutex<Option<BoxedFuture>>);

/// Has the thread receive for a channel as long as somebody waits for it.
pub(super) fn watch(channel: &Arc<Channel>) -> Result<(), SessionError> {
    with_driver(|driver| {
        if !driver.watched.iter().any(|known| Arc::ptr_eq(known, channel)) {
            driver.watched.push(channel.clone());
        }
    })
}

/// Runs a future to its end on the thread.
pub(super) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<(), SessionError> {
    let task = Arc::new(Task(Mutex::new(Some(Box::pin(future)))));
    with_driver(|driver| driver.ready.push(task))
}

fn with_driver(change: impl FnOnce(&mut Driver)) -> Result<(), SessionError> {
    let mut place = lock();
    let pid = std::process::id();
    if place.as_ref().is_none_or(|driver| driver.pid != pid) {
        *place = Some(start(pid)?);
    }
    if let Some(driver) = place.as_mut() {
        change(driver);
        // It is readable already if this fails.
        let _ = rustix::io::write(&*driver.wake, &1u64.to_ne_bytes());
    }
    Ok(())
}

fn start(pid: u32) -> Result<Driver, SessionError> {
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let wake =
        wake.map_err(|error| SessionError::System { what: "make an eventfd", source: error.into() })?;
    let wake = Arc::new(wake);
    let woken = wake.clone();
    std::thread::Builder::new()
        .name("ferretto-session".to_owned())
        .spawn(move || run(&woken))
        .map_err(|source| SessionError::System { what: "start the sessions' thread", source })?;
    Ok(Driver { pid, wake, watched: Vec::new(), ready: Vec::new() })
}

fn lock() -> MutexGuard<'static, Option<Driver>> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps others out while the process forks.
pub(crate) fn lock_for_fork() -> Box<dyn Held> {
    Box::new(lock())
}

fn run(wake: &OwnedFd) {
    let mut idle_since = None;
    loop {
        let (tasks, channels) = {
            let mut place = lock();
            let Some(driver) = place.as_mut() else { return };
            let is_idle = driver.ready.is_empty() && driver.watched.is_empty();
            let idle = idle_since.get_or_insert_with(Instant::now);
            if !is_idle {
                idle_since = None;
            } else if idle.elapsed() >= IDLE_TIME {
                *place = None;
                return;
            }
            (std::mem::take(&mut driver.ready), driver.watched.clone())
        };
        if tasks.is_empty() {
            serve(wake, channels);
        }
        tasks.into_iter().for_each(Task::poll);
    }
}

/// Waits for the channels, and receives.
fn serve(wake: &OwnedFd, channels: Vec<Arc<Channel>>) {
    let mut watched = Vec::new();
    for channel in channels {
        match channel.interest() {
            Some((flags, deadline)) => watched.push((channel, flags, deadline)),
            None => unwatch(&channel),
        }
    }
    let deadline = watched.iter().filter_map(|(_, _, deadline)| *deadline).min();
    let left = deadline.map_or(IDLE_TIME, |at| at.saturating_duration_since(Instant::now()));
    let sockets: Vec<_> = watched.iter().map(|(channel, flags, _)| (channel.socket(), *flags)).collect();
    let mut fds = vec![PollFd::new(wake, PollFlags::IN)];
    fds.extend(sockets.iter().map(|(socket, flags)| PollFd::new(socket, *flags)));
    // A signal or a failure shows in the next turn.
    let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
    let ready: Vec<bool> = fds.iter().skip(1).map(|fd| !fd.revents().is_empty()).collect();
    let _ = rustix::io::read(wake, &mut [0; 8]);
    for ((channel, ..), is_ready) in watched.iter().zip(ready) {
        if is_ready {
            channel.receive();
        }
        channel.expire();
    }
}

/// Nobody waits for it now. Whoever begins to after this look watches it again, and whoever began just before is seen here.
fn unwatch(channel: &Arc<Channel>) {
    let mut place = lock();
    if let Some(driver) = place.as_mut()
        && channel.interest().is_none()
    {
        driver.watched.retain(|known| !Arc::ptr_eq(known, channel));
    }
}

impl Task {
    fn poll(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(future) = place.as_mut() else { return };
        let poll = || future.as_mut().poll(&mut Context::from_waker(&waker));
        let result = catch_unwind(AssertUnwindSafe(poll));
        if let Err(panic) = &result {
            let text = panic.downcast_ref::<&str>().copied().unwrap_or("no text");
            log::error(format_args!("a callback of a tracing session panicked: {text}"));
        }
        if !matches!(result, Ok(Poll::Pending)) {
            *place = None;
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if let Err(error) = with_driver(|driver| driver.ready.push(self)) {
            log::error(format_args!("a callback of a tracing session will not be called: {error}"));
        }
    }
}
