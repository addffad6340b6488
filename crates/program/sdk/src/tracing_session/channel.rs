//! A connection to a service that its session, futures and callbacks share.
//!
//! What is done with it is written once, as futures over [`Channel::wait`]. [`block_on`] drives one on the caller's thread, and then no
//! other thread is needed. Awaited by somebody else, or with a callback, it is driven by the thread of [`driver`](super::driver).

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferretto_consumer::{Answer, CallError, CallId, Consumer, Event, ReadSummary};
use ferretto_producer::log;
use ferretto_protos::observable_events::CloneTriggerHit;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::Shutdown;

use super::driver;
use super::error::SessionError;

/// Triggers that were hit and not yet told to a callback. A callback that takes so long that more wait loses the oldest.
const MAX_TRIGGER_HITS: usize = 64;

/// The connection. Its descriptors outlive what is done with it on other threads.
#[derive(Debug)]
pub(crate) struct Channel {
    state: Mutex<State>,
    /// The process that records: a forked child must not touch what it inherits.
    process: u32,
    /// A copy, to poll without the lock.
    socket: OwnedFd,
    /// Becomes readable when a future that a caller drives should be looked at.
    caller: Arc<CallerWaker>,
}

/// What is known of the session.
#[derive(Debug)]
pub(crate) struct State {
    consumer: Consumer,
    /// Calls that somebody waits for.
    answers: HashMap<CallId, Option<Result<Answer, CallError>>>,
    reading: Option<Reading>,
    /// All data sources have started.
    pub(crate) started: bool,
    /// The session has ended; why, if not because it was meant to.
    pub(crate) ended: Option<Result<(), Ended>>,
    /// Triggers that want a copy of this session.
    pub(crate) trigger_hits: Vec<CloneTriggerHit>,
    waiters: Vec<Waiter>,
    driven_by_caller: bool,
    closed: bool,
}

/// Why a session ended.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    Failed(String),
    Disconnected(String),
}

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    deadline: Option<Instant>,
}

/// A read of the buffers that is under way.
#[derive(Debug)]
struct Reading {
    call: CallId,
    packets: Vec<Bytes>,
    end: Option<Result<ReadSummary, CallError>>,
    /// Nobody wants what comes.
    abandoned: bool,
}

/// Until when something is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Option<Instant>,
    after: Duration,
}

impl Deadline {
    pub(crate) fn after(after: Duration) -> Self {
        Self { at: Instant::now().checked_add(after), after }
    }

    pub(crate) const NEVER: Self = Self { at: None, after: Duration::MAX };

    pub(crate) fn is_over(&self) -> bool {
        self.at.is_some_and(|at| at <= Instant::now())
    }

    pub(crate) fn error(&self, what: &'static str) -> SessionError {
        SessionError::TimedOut { what, after: self.after }
    }
}

impl Ended {
    pub(crate) fn error(&self) -> SessionError {
        match self {
            Self::Failed(error) => SessionError::Failed(error.clone()),
            Self::Disconnected(reason) => SessionError::Disconnected(reason.clone()),
        }
    }
}

impl Channel {
    pub(crate) fn new(consumer: Consumer) -> Result<Arc<Self>, SessionError> {
        let system = |what| move |source| SessionError::System { what, source };
        let socket = consumer.fd().try_clone_to_owned().map_err(system("copy a descriptor"))?;
        let caller = CallerWaker::new().map_err(system("make an eventfd"))?;
        let state = State {
            consumer,
            answers: HashMap::new(),
            reading: None,
            started: false,
            ended: None,
            trigger_hits: Vec::new(),
            waiters: Vec::new(),
            driven_by_caller: false,
            closed: false,
        };
        let process = std::process::id();
        Ok(Arc::new(Self { state: Mutex::new(state), process, socket, caller: Arc::new(caller) }))
    }

    /// Ends the connection and with it the session. What still waits for it gets [`SessionError::Dropped`].
    pub(crate) fn close(&self) {
        let wakers = {
            let Ok(mut state) = self.lock() else {
                return;
            };
            state.closed = true;
            // The copies of the descriptor may live on for a moment; the service is to see the end now.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
            state.take_wakers()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Does something with the consumer that does not wait.
    ///
    /// # Errors
    ///
    /// [`SessionError::Forked`], or what `f` says.
    pub(crate) fn with_consumer<T>(
        &self,
        f: impl FnOnce(&mut Consumer) -> Result<T, CallError>,
    ) -> Result<T, SessionError> {
        Ok(f(&mut self.lock()?.consumer)?)
    }

    /// # Errors
    ///
    /// [`SessionError::Forked`]: a child process has neither the connection nor the lock, which a thread may hold that is not there.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, State>, SessionError> {
        if std::process::id() != self.process {
            return Err(SessionError::Forked);
        }
        // No code under the lock leaves the state half changed.
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Receives what has come and tells those who wait.
    pub(crate) fn receive(&self) {
        let wakers = self.lock().map_or_else(|_| Vec::new(), |mut state| state.absorb());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Has those who wait look again, because of something that is not in the state.
    pub(crate) fn look_again(&self) {
        let wakers = self.lock().map_or_else(|_| Vec::new(), |mut state| state.take_wakers());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// What the driver is to poll for, and until when; `None` if nobody waits, or if nothing can be taken in.
    pub(crate) fn interest(&self) -> Option<(PollFlags, Option<Instant>)> {
        let state = self.lock().ok()?;
        let waits = !state.waiters.is_empty() && !state.driven_by_caller && state.takes_events();
        waits.then(|| (state.poll_flags(), state.next_deadline()))
    }

    pub(crate) fn socket(&self) -> impl AsFd + '_ {
        &self.socket
    }

    /// Wakes those whose time is over.
    pub(crate) fn expire(&self) {
        let now = Instant::now();
        let over: Vec<Waiter> = {
            let Ok(mut state) = self.lock() else {
                return;
            };
            let is_over = |waiter: &mut Waiter| waiter.deadline.is_some_and(|at| at <= now);
            state.waiters.extract_if(.., is_over).collect()
        };
        over.into_iter().for_each(|waiter| waiter.waker.wake());
    }
}

/// Waiting.
impl Channel {
    /// Waits until `ready` finds what it looks for in the state, which it is asked for after each change.
    ///
    /// # Errors
    ///
    /// If that takes too long, or the session is dropped.
    pub(crate) async fn wait<T>(
        self: &Arc<Self>,
        what: &'static str,
        deadline: Deadline,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, SessionError> {
        std::future::poll_fn(move |context| self.poll(what, deadline, &mut ready, context)).await
    }

    fn poll<T>(
        self: &Arc<Self>,
        what: &'static str,
        deadline: Deadline,
        ready: &mut impl FnMut(&mut State) -> Option<T>,
        context: &Context<'_>,
    ) -> Poll<Result<T, SessionError>> {
        let mut state = match self.lock() {
            Ok(state) => state,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let wakers = state.absorb();
        let result = match ready(&mut state) {
            Some(found) => Poll::Ready(Ok(found)),
            None if state.closed => Poll::Ready(Err(SessionError::Dropped)),
            None if deadline.is_over() => Poll::Ready(Err(deadline.error(what))),
            None => Poll::Pending,
        };
        if result.is_pending() {
            state.add_waiter(context.waker(), deadline.at);
        }
        let needs_driver = !state.waiters.is_empty() && !state.driven_by_caller;
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        if needs_driver && let Err(error) = driver::watch(self) {
            return Poll::Ready(Err(error));
        }
        result
    }

    /// Makes a call and waits for its answer.
    pub(crate) async fn call(
        self: &Arc<Self>,
        what: &'static str,
        deadline: Deadline,
        begin: impl FnOnce(&mut Consumer) -> Result<CallId, CallError>,
    ) -> Result<Answer, SessionError> {
        let call = {
            let mut state = self.lock()?;
            let call = begin(&mut state.consumer)?;
            state.answers.insert(call, None);
            AwaitedCall { channel: self, call }
        };
        let answer = self.wait(what, deadline, |state| state.answers.get_mut(&call.call)?.take()).await?;
        Ok(answer?)
    }

    /// Begins to read the buffers, once a read that is under way has ended.
    pub(crate) async fn begin_read(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> Result<ReadGuard<'_>, SessionError> {
        self.wait("the end of another read", deadline, |state| state.reading.is_none().then_some(())).await?;
        let mut state = self.lock()?;
        let call = state.consumer.begin_read_buffers()?;
        state.reading = Some(Reading { call, packets: Vec::new(), end: None, abandoned: false });
        drop(state);
        Ok(ReadGuard { channel: self, ended: false })
    }
}

/// Somebody waits for the answer to this call, until this is dropped.
struct AwaitedCall<'a> {
    channel: &'a Channel,
    call: CallId,
}

impl Drop for AwaitedCall<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.channel.lock() {
            state.answers.remove(&self.call);
        }
    }
}

/// A read under way. Dropping it early loses what was not read.
#[derive(Debug)]
pub(crate) struct ReadGuard<'a> {
    channel: &'a Arc<Channel>,
    ended: bool,
}

impl ReadGuard<'_> {
    /// The next packets, or, at the end, the summary.
    pub(crate) async fn next(
        &mut self,
        silence: Duration,
    ) -> Result<Result<Vec<Bytes>, ReadSummary>, SessionError> {
        let take = |state: &mut State| {
            let reading = state.reading.as_mut()?;
            if !reading.packets.is_empty() {
                return Some(Ok(Ok(std::mem::take(&mut reading.packets))));
            }
            let end = reading.end.take()?;
            state.reading = None;
            Some(end.map(Err))
        };
        let next = self.channel.wait("reading the next packet", Deadline::after(silence), take).await?;
        self.ended = !matches!(next, Ok(Ok(_)));
        Ok(next?)
    }
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let Ok(mut state) = self.channel.lock() else {
            return;
        };
        if let Some(reading) = &mut state.reading {
            reading.abandoned = true;
            reading.packets.clear();
        }
        if state.reading.as_ref().is_some_and(|reading| reading.end.is_some()) {
            state.reading = None;
        }
    }
}

impl State {
    /// Packets that nobody has taken hold up what comes after them: so memory is bounded, and the service waits.
    fn takes_events(&self) -> bool {
        self.reading.as_ref().is_none_or(|reading| reading.abandoned || reading.packets.is_empty())
    }

    /// Takes in what has come; whom to wake because of that.
    fn absorb(&mut self) -> Vec<Waker> {
        self.consumer.handle_ready();
        let mut changed = false;
        while self.takes_events() {
            let Some(event) = self.consumer.next_event() else { break };
            changed = true;
            self.handle(event);
        }
        if changed { self.take_wakers() } else { Vec::new() }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Connected => {}
            Event::TracingDisabled { error } => {
                self.end(error.map_or(Ok(()), |error| Err(Ended::Failed(error))));
            }
            Event::Disconnected { reason } => self.end(Err(Ended::Disconnected(reason))),
            Event::Observed(events) => {
                self.started |= events.all_data_sources_started();
                let room = MAX_TRIGGER_HITS.saturating_sub(self.trigger_hits.len());
                self.trigger_hits.extend(events.clone_trigger_hit.into_iter().take(room));
            }
            Event::Packets { call, packets } => {
                if let Some(reading) = self.reading.as_mut().filter(|reading| reading.call == call)
                    && !reading.abandoned
                {
                    reading.packets = packets;
                }
            }
            Event::Answer { call, answer } => self.handle_answer(call, answer),
        }
    }

    fn handle_answer(&mut self, call: CallId, answer: Result<Answer, CallError>) {
        match self.reading.as_mut().filter(|reading| reading.call == call) {
            Some(reading) if reading.abandoned => self.reading = None,
            Some(reading) => {
                reading.end = Some(answer.map(|answer| match answer {
                    Answer::Read(summary) => summary,
                    _ => ReadSummary::default(),
                }));
            }
            None => {
                if let Some(place) = self.answers.get_mut(&call) {
                    *place = Some(answer);
                }
            }
        }
    }

    /// The first reason stays.
    fn end(&mut self, why: Result<(), Ended>) {
        self.ended.get_or_insert(why);
    }

    fn add_waiter(&mut self, waker: &Waker, deadline: Option<Instant>) {
        match self.waiters.iter_mut().find(|waiter| waiter.waker.will_wake(waker)) {
            Some(waiter) => waiter.deadline = deadline,
            None => self.waiters.push(Waiter { waker: waker.clone(), deadline }),
        }
    }

    fn take_wakers(&mut self) -> Vec<Waker> {
        self.waiters.drain(..).map(|waiter| waiter.waker).collect()
    }

    fn poll_flags(&self) -> PollFlags {
        if self.consumer.wants_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.waiters.iter().filter_map(|waiter| waiter.deadline).min()
    }
}

/// Wakes a thread in [`block_on`].
#[derive(Debug)]
struct CallerWaker(OwnedFd);

impl CallerWaker {
    fn new() -> std::io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }
}

impl Wake for CallerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It is readable already if this fails.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// Runs a future that waits for this channel on the calling thread. Only one thread at a time: who calls has the channel's owner by `&mut`
/// or by value, as two would take each other's wake-ups.
pub(crate) fn block_on<T>(channel: &Arc<Channel>, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(channel.caller.clone());
    let mut context = Context::from_waker(&waker);
    let _driving = Driving::new(channel);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        channel.wait_as_caller();
    }
}

impl Channel {
    /// Waits until the future is worth another look.
    fn wait_as_caller(&self) {
        // In a child process there is nothing to wait for: the next look says so.
        let Ok((flags, deadline)) = self.lock().map(|state| (state.poll_flags(), state.next_deadline()))
        else {
            return;
        };
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [PollFd::new(&self.socket, flags), PollFd::new(&self.caller.0, PollFlags::IN)];
        // A signal or a failure shows in the next look.
        let _ = poll(&mut fds, timeout.as_ref());
        let _ = rustix::io::read(&self.caller.0, &mut [0; 8]);
    }
}

/// While it lives, the caller's thread receives.
struct Driving<'a>(&'a Arc<Channel>);

impl<'a> Driving<'a> {
    fn new(channel: &'a Arc<Channel>) -> Self {
        if let Ok(mut state) = channel.lock() {
            state.driven_by_caller = true;
        }
        Self(channel)
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        let Ok(mut state) = self.0.lock() else {
            return;
        };
        state.driven_by_caller = false;
        let caller = Waker::from(self.0.caller.clone());
        state.waiters.retain(|waiter| !waiter.waker.will_wake(&caller));
        let others_wait = !state.waiters.is_empty();
        drop(state);
        if others_wait && let Err(error) = driver::watch(self.0) {
            log::error(format_args!("callbacks of a tracing session will not be called: {error}"));
        }
    }
}
