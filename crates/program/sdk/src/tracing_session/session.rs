//! A session that has been started, or set up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ferretto_consumer::{Answer, flush_flags};
use ferretto_protos::{TraceConfig, TraceStats, TracingServiceCapabilities, TracingServiceState};
use prost::Message;

use super::channel::{Channel, Deadline, Ended, State, block_on};
use super::copy::{CloneOf, CloneOptions, clone_session};
use super::driver;
use super::error::SessionError;
use super::file::TraceFile;
use super::place::Place;
use super::setup::{SessionSetup, unexpected};
use super::trace::{ReadTrace, RecordedTrace};
use super::triggers;

/// On top of a flush's own time-out, for the answer to come back.
const FLUSH_SLACK: Duration = Duration::from_secs(5);

/// What flushes of this library say of themselves.
const FLUSH_FLAGS: u64 = flush_flags::REASON_EXPLICIT | flush_flags::INITIATOR_CONSUMER_SDK;

/// A recording. Dropping it ends it, and what was not read or written to a file is gone.
///
/// Methods wait on the calling thread, at most as long as [`SessionSetup::timeout`] says, and need no other; those named `…_async` are
/// for any executor, and those named `…_with` call back. Futures and callbacks are driven by a thread called `ferretto-session`, one for
/// all sessions, which starts with the first of them.
///
/// A callback of a data source must not start or stop a session of its own program: they wait for each other until the time is over. A
/// child process after `fork` must not use its parent's sessions.
#[derive(Debug)]
#[must_use = "a session ends when it is dropped"]
pub struct TracingSession {
    pub(super) connection: Connection,
    pub(super) about: About,
}

/// Closes the channel at the end of its owner.
#[derive(Debug)]
pub(crate) struct Connection(pub(crate) Arc<Channel>);

/// What does not change in a session.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) place: Place,
    pub(crate) timeout: Duration,
    pub(crate) unique_name: String,
    pub(crate) storage: Storage,
}

/// Where the trace is.
#[derive(Debug)]
pub(crate) enum Storage {
    Memory,
    /// In a file of ours, which gets its name at the end.
    File(TraceFile),
    /// In a file that somebody else has named.
    Elsewhere,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Where to record.
impl TracingSession {
    /// A session of the service in this process, which is started if it does not run: no daemon and no socket with a name is needed. It
    /// records this process, if it was [initialised](crate::init) with the backend for that.
    ///
    /// # Errors
    ///
    /// If the service's thread or its descriptors cannot be made.
    #[cfg(feature = "in-process")]
    pub fn in_process() -> Result<SessionSetup, SessionError> {
        SessionSetup::new(Place::InProcess)
    }

    /// A session of the system's service: where `PERFETTO_CONSUMER_SOCK_NAME` says, or at the default socket.
    ///
    /// # Errors
    ///
    /// If no service is there, or this user may not record.
    pub fn system() -> Result<SessionSetup, SessionError> {
        SessionSetup::new(Place::System)
    }

    /// A session of the service whose consumers' socket has this address: a path, `@abstract`, `host:port` or `vsock://CID:PORT`.
    ///
    /// # Errors
    ///
    /// If the address is wrong or no service is there.
    pub fn connect(address: &str) -> Result<SessionSetup, SessionError> {
        SessionSetup::new(Place::parse(address)?)
    }
}

/// Starting and stopping.
impl TracingSession {
    /// Starts a session that was only [set up](SessionSetup::set_up), and waits until all data sources have started.
    ///
    /// # Errors
    ///
    /// If a data source does not start in time, or the session has ended.
    pub fn start(&mut self) -> Result<(), SessionError> {
        block_on(&self.connection.0.clone(), self.start_async())
    }

    /// As [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_async(&mut self) -> Result<(), SessionError> {
        let deadline = Deadline::after(self.about.timeout);
        if !self.connection.0.lock()?.started {
            self.connection.0.call("the start", deadline, |consumer| consumer.begin_start()).await?;
        }
        self.wait_for_start(deadline).await
    }

    pub(super) async fn wait_for_start(&self, deadline: Deadline) -> Result<(), SessionError> {
        let look = |state: &mut State| match &state.ended {
            Some(Err(why)) => Some(Err(why.clone())),
            Some(Ok(())) => Some(Ok(())),
            None => state.started.then_some(Ok(())),
        };
        self.connection
            .0
            .wait("the start of all data sources", deadline, look)
            .await?
            .map_err(|why| refused(&why))
    }

    /// Waits until the service has answered something that was asked after the config was sent: a refusal comes before.
    pub(super) async fn wait_for_acceptance(&self, deadline: Deadline) -> Result<(), SessionError> {
        let channel = &self.connection.0;
        let answered =
            channel.call("an answer to the config", deadline, |consumer| consumer.begin_stats()).await;
        match (&channel.lock()?.ended, answered) {
            (Some(Err(why)), _) => Err(refused(why)),
            // Services of some age know no statistics; that is no matter here.
            (_, Ok(_) | Err(SessionError::Call(_))) => Ok(()),
            (_, Err(error)) => Err(error),
        }
    }

    /// Whether the session has ended: by its duration, by a trigger, by the service's end; and for a child process of the one that made
    /// it, which does not have it.
    pub fn has_ended(&self) -> bool {
        self.connection.0.receive();
        self.connection.0.lock().map_or(true, |state| state.ended.is_some())
    }

    /// Waits until the session ends by itself. `timeout` is for this alone; without one it waits as long as it takes.
    ///
    /// # Errors
    ///
    /// If it has not ended in time, or has failed.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<(), SessionError> {
        block_on(&self.connection.0.clone(), self.wait_async(timeout))
    }

    /// As [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn wait_async(&mut self, timeout: Option<Duration>) -> Result<(), SessionError> {
        self.wait_for_end(timeout.map_or(Deadline::NEVER, Deadline::after)).await
    }

    async fn wait_for_end(&self, deadline: Deadline) -> Result<(), SessionError> {
        let ended = self.connection.0.wait("the end of the session", deadline, |state| state.ended.clone());
        ended.await?.map_err(|why| why.error())
    }

    /// Stops the session, and waits until the last data is in its buffers.
    ///
    /// # Errors
    ///
    /// If that takes too long, or the session has failed before.
    pub fn stop(self) -> Result<RecordedTrace, SessionError> {
        block_on(&self.connection.0.clone(), self.stop_async())
    }

    /// As [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    pub async fn stop_async(self) -> Result<RecordedTrace, SessionError> {
        let deadline = Deadline::after(self.about.timeout);
        if !self.has_ended() {
            self.connection.0.call("the stop", deadline, |consumer| consumer.begin_disable()).await?;
        }
        self.wait_for_end(deadline).await?;
        RecordedTrace::new(self.connection, self.about)
    }

    /// As [`stop`](Self::stop), and calls this with what came of it. Returns at once.
    ///
    /// # Errors
    ///
    /// If the thread for callbacks cannot be started.
    pub fn stop_with(
        self,
        callback: impl FnOnce(Result<RecordedTrace, SessionError>) + Send + 'static,
    ) -> Result<(), SessionError> {
        driver::spawn(async move { callback(self.stop_async().await) })
    }
}

/// While it records.
impl TracingSession {
    /// Has all data sources hand over what they hold, at most for `timeout` (zero: the service's default, 5 s).
    ///
    /// # Errors
    ///
    /// If one did not in time. The others have.
    pub fn flush(&mut self, timeout: Duration) -> Result<(), SessionError> {
        block_on(&self.connection.0.clone(), self.flush_async(timeout))
    }

    /// As [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub async fn flush_async(&mut self, timeout: Duration) -> Result<(), SessionError> {
        flush(&self.connection.0, timeout, self.about.timeout).await
    }

    /// As [`flush`](Self::flush), and calls this with what came of it. Returns at once.
    ///
    /// # Errors
    ///
    /// If the thread for callbacks cannot be started.
    pub fn flush_with(
        &mut self,
        timeout: Duration,
        callback: impl FnOnce(Result<(), SessionError>) + Send + 'static,
    ) -> Result<(), SessionError> {
        let (channel, answer) = (self.connection.0.clone(), self.about.timeout);
        driver::spawn(async move { callback(flush(&channel, timeout, answer).await) })
    }

    /// Reads what has been recorded so far. It is gone from the buffers then: the trace is the sum of all reads. What data sources still
    /// hold comes with the next one; [`flush`](Self::flush) first to have it in this.
    ///
    /// # Errors
    ///
    /// If the service writes the trace into a file.
    pub fn read(&mut self) -> Result<ReadTrace<'_>, SessionError> {
        ReadTrace::new(&self.connection, &self.about)
    }

    /// Copies the session: a trace that ends now, while this one goes on with all it has.
    ///
    /// # Errors
    ///
    /// If the service cannot copy it.
    pub fn clone_trace(&self) -> Result<RecordedTrace, SessionError> {
        let copy = SessionSetup::new(self.about.place.clone())?.timeout(self.about.timeout);
        copy.clone_session(&CloneOf::Name(self.about.unique_name.clone()), &CloneOptions::default())
    }

    /// As [`clone_trace`](Self::clone_trace). Connecting to the service, which takes no time worth mention, is not asynchronous.
    ///
    /// # Errors
    ///
    /// As [`clone_trace`](Self::clone_trace).
    pub async fn clone_trace_async(&self) -> Result<RecordedTrace, SessionError> {
        let connection = Connection(Channel::new(self.about.place.connect()?)?);
        let which = CloneOf::Name(self.about.unique_name.clone());
        let place = self.about.place.clone();
        clone_session(connection, place, self.about.timeout, &which, &CloneOptions::default()).await
    }

    /// Changes the running session's config. Services honour additions to `producer_name_filter` and
    /// `producer_name_regex_filter` of data sources, and nothing else.
    ///
    /// # Errors
    ///
    /// If the service refuses it.
    pub fn change_config(&mut self, config: &TraceConfig) -> Result<(), SessionError> {
        self.change_config_bytes(config.encode_to_vec())
    }

    /// As [`change_config`](Self::change_config), with a serialised `TraceConfig`.
    ///
    /// # Errors
    ///
    /// As [`change_config`](Self::change_config).
    pub fn change_config_bytes(&mut self, config: impl Into<Bytes>) -> Result<(), SessionError> {
        let (config, deadline) = (config.into(), Deadline::after(self.about.timeout));
        let begin = |consumer: &mut ferretto_consumer::Consumer| consumer.begin_change_trace_config(config);
        let channel = &self.connection.0;
        block_on(channel, channel.call("the change of the config", deadline, begin)).map(|_| ())
    }

    /// The session's statistics: what its buffers took, what was lost and why.
    ///
    /// # Errors
    ///
    /// If the service does not answer.
    pub fn stats(&mut self) -> Result<TraceStats, SessionError> {
        block_on(&self.connection.0.clone(), self.stats_async())
    }

    /// As [`stats`](Self::stats).
    ///
    /// # Errors
    ///
    /// As [`stats`](Self::stats).
    pub async fn stats_async(&mut self) -> Result<TraceStats, SessionError> {
        self.connection.stats(self.about.timeout).await
    }

    /// What the service knows: producers, data sources, sessions.
    ///
    /// # Errors
    ///
    /// If the service does not answer.
    pub fn query_service_state(&mut self) -> Result<TracingServiceState, SessionError> {
        block_on(&self.connection.0.clone(), self.query_service_state_async())
    }

    /// As [`query_service_state`](Self::query_service_state).
    ///
    /// # Errors
    ///
    /// As [`query_service_state`](Self::query_service_state).
    pub async fn query_service_state_async(&mut self) -> Result<TracingServiceState, SessionError> {
        self.connection.query_service_state(false, self.about.timeout).await
    }

    /// What the service can do.
    ///
    /// # Errors
    ///
    /// If the service does not answer.
    pub fn query_capabilities(&mut self) -> Result<TracingServiceCapabilities, SessionError> {
        block_on(&self.connection.0, self.connection.query_capabilities(self.about.timeout))
    }

    /// The session's name among those of its service: the config's, or one that was made up. Others can copy it by that.
    pub fn unique_name(&self) -> &str {
        &self.about.unique_name
    }

    /// The session's number in its service; `None` if the service does not list it.
    ///
    /// # Errors
    ///
    /// If the service does not answer.
    pub fn id(&mut self) -> Result<Option<u64>, SessionError> {
        let state =
            block_on(&self.connection.0, self.connection.query_service_state(true, self.about.timeout))?;
        let own = |name: &str| !name.is_empty() && name == self.about.unique_name;
        let session = state.tracing_sessions.iter().find(|session| own(session.unique_session_name()));
        Ok(session.map(|session| session.id()))
    }

    /// Activates triggers; see [`SessionSetup::activate_triggers`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn activate_triggers(&mut self, names: &[&str]) -> Result<(), SessionError> {
        triggers::activate(&self.about.place, names, self.about.timeout)
    }

    /// Leaves the session running without an owner, until somebody [attaches](SessionSetup::attach) to it by this key. Services want
    /// such a session to write into a file.
    ///
    /// # Errors
    ///
    /// If the key is in use, or the file was given by its name: nobody could give it that at the end, so pass it with
    /// [`SessionSetup::write_into`].
    pub fn detach(self, key: &str) -> Result<(), SessionError> {
        if let Storage::File(file) = &self.about.storage {
            return Err(SessionError::DetachedFile { path: file.path().to_owned() });
        }
        let deadline = Deadline::after(self.about.timeout);
        let channel = &self.connection.0;
        block_on(channel, channel.call("detaching", deadline, |consumer| consumer.begin_detach(key)))
            .map(|_| ())
    }
}

impl Connection {
    pub(super) async fn stats(&self, timeout: Duration) -> Result<TraceStats, SessionError> {
        match self.0.call("the statistics", Deadline::after(timeout), |c| c.begin_stats()).await? {
            Answer::Stats(stats) => Ok(*stats),
            _ => Err(unexpected("GetTraceStats")),
        }
    }
}

async fn flush(channel: &Arc<Channel>, timeout: Duration, answer: Duration) -> Result<(), SessionError> {
    let deadline = Deadline::after(timeout.saturating_add(FLUSH_SLACK).max(answer));
    channel
        .call("the flush", deadline, |consumer| consumer.begin_flush(timeout, FLUSH_FLAGS))
        .await
        .map(|_| ())
}

/// A session that failed before it had started was refused.
fn refused(why: &Ended) -> SessionError {
    match why {
        Ended::Failed(error) => SessionError::Refused(error.clone()),
        Ended::Disconnected(_) => why.error(),
    }
}
