//! What a session is to record, before it starts.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ferretto_consumer::{Answer, CallError, Observe};
use ferretto_protos::observable_events::CloneTriggerHit;
use ferretto_protos::trace_config::buffer_config::FillPolicy;
use ferretto_protos::{
    DataSourceConfig, TraceConfig, TracingServiceCapabilities, TracingServiceState, TrackEventConfig,
};
use prost::Message;

use super::callbacks::Callbacks;
use super::channel::{Channel, Deadline, block_on};
use super::config::{Finished, Parts};
use super::copy::{CloneOf, CloneOptions, clone_session};
use super::error::{ConfigError, SessionError};
use super::file::TraceFile;
use super::own_producer::wait_for_registration;
use super::place::Place;
use super::session::{About, Connection, Storage, TracingSession};
use super::trace::RecordedTrace;
use super::triggers;

/// How long the service may take for an answer, unless the caller says otherwise. It answers in milliseconds; data sources that start
/// or stop slowly take seconds.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A session that is being described. [`start`](Self::start) starts it.
///
/// It is connected to its service already. The common case is one buffer, a ring, and the track events of all programs; the methods for
/// that and [`config`](Self::config) exclude each other.
#[derive(Debug)]
#[must_use = "nothing is recorded before `start`"]
pub struct SessionSetup {
    connection: Connection,
    place: Place,
    parts: Parts,
    target: Target,
    callbacks: Callbacks,
    timeout: Duration,
}

/// Where the trace goes.
#[derive(Debug)]
enum Target {
    Memory,
    File(TraceFile),
    Descriptor(OwnedFd),
}

impl SessionSetup {
    pub(super) fn new(place: Place) -> Result<Self, SessionError> {
        Ok(Self {
            connection: Connection(Channel::new(place.connect()?)?),
            place,
            parts: Parts::default(),
            target: Target::Memory,
            callbacks: Callbacks::default(),
            timeout: DEFAULT_TIMEOUT,
        })
    }
}

/// What to record: the common case.
impl SessionSetup {
    /// Only track events of these categories: names, or beginnings of names that end with `*`. Without this, all but those that are
    /// tagged `slow` or `debug`.
    pub fn categories<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        let config = self.parts.track_events("categories");
        config.enabled_categories.extend(patterns.into_iter().map(Into::into));
        if !config.disabled_categories.iter().any(|pattern| pattern == "*") {
            config.disabled_categories.push("*".to_owned());
        }
        self
    }

    /// No track events of these categories, although they match a pattern of [`categories`](Self::categories) that says less.
    pub fn without_categories<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        let config = self.parts.track_events("without_categories");
        config.disabled_categories.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// What track events are wanted, and how, in full.
    pub fn track_events(mut self, config: TrackEventConfig) -> Self {
        *self.parts.track_events("track_events") = config;
        self
    }

    /// The size of the buffer in KiB (32 MiB without).
    pub fn buffer_size_kb(mut self, size_kb: u32) -> Self {
        self.parts.buffer("buffer_size_kb").size_kb = Some(size_kb);
        self
    }

    /// Keeps the beginning of the trace when the buffer is full. Without this the buffer is a ring: the newest is kept, as a flight
    /// recorder does.
    pub fn discard_when_full(mut self) -> Self {
        self.parts.buffer("discard_when_full").fill_policy = Some(FillPolicy::Discard.into());
        self
    }

    /// One more data source, such as `linux.ftrace` or one of the program's own.
    pub fn data_source(mut self, config: DataSourceConfig) -> Self {
        self.parts.add_data_source(config);
        self
    }
}

/// What to record: everything.
impl SessionSetup {
    /// This config, as it is.
    pub fn config(self, config: &TraceConfig) -> Self {
        self.config_bytes(config.encode_to_vec())
    }

    /// This serialised `TraceConfig`. Fields that this version has not heard of go to the service, too.
    pub fn config_bytes(mut self, config: impl Into<Bytes>) -> Self {
        self.parts.set_whole(config.into());
        self
    }

    /// This config in protobuf's text format, as for `ferretto record -c`.
    ///
    /// # Errors
    ///
    /// The first mistake, with its line and column.
    #[cfg(feature = "config-text")]
    pub fn config_text(self, config: &str) -> Result<Self, SessionError> {
        let config = ferretto_protos::text::parse_trace_config(config).map_err(ConfigError::Text)?;
        Ok(self.config_bytes(config))
    }

    /// Ends the session by itself after this time.
    pub fn duration(mut self, duration: Duration) -> Self {
        let duration_ms = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        self.parts.appended.duration_ms = Some(duration_ms);
        self
    }

    /// The name that the session has among those of its service, to be copied by. Made up if neither this nor the config has one.
    pub fn unique_name(mut self, name: impl Into<String>) -> Self {
        self.parts.appended.unique_session_name = Some(name.into());
        self
    }

    /// Has the service write the trace into a file while it records, so that it may be longer than the buffer. The file has a temporary
    /// name beside this one until the session has been stopped.
    ///
    /// # Errors
    ///
    /// If no file can be made there.
    pub fn write_into_file(self, path: impl AsRef<Path>) -> Result<Self, SessionError> {
        let file = TraceFile::create(path.as_ref())?;
        Ok(self.with_target(Target::File(file)))
    }

    /// As [`write_into_file`](Self::write_into_file), for an open file or the writing end of a pipe.
    pub fn write_into(self, file: impl Into<OwnedFd>) -> Self {
        self.with_target(Target::Descriptor(file.into()))
    }

    fn with_target(mut self, target: Target) -> Self {
        self.parts.write_into_file();
        self.target = target;
        self
    }

    /// How long any answer of the service may take (10 s without).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Being told. Callbacks are called one after the other on a thread of this library, which one that waits holds up.
impl SessionSetup {
    /// Calls this when all data sources have started.
    pub fn on_start(mut self, callback: impl FnOnce() + Send + 'static) -> Self {
        self.callbacks.on_start.push(Box::new(callback));
        self
    }

    /// Calls this when the session has ended, for whatever reason; not if it is dropped.
    pub fn on_stop(mut self, callback: impl FnOnce() + Send + 'static) -> Self {
        self.callbacks.on_stop.push(Box::new(callback));
        self
    }

    /// Calls this if the session ends because it failed, or because the service is gone; before [`on_stop`](Self::on_stop).
    pub fn on_error(mut self, callback: impl FnOnce(SessionError) + Send + 'static) -> Self {
        self.callbacks.on_error.push(Box::new(callback));
        self
    }

    /// Calls this each time a trigger of a config with `CLONE_SNAPSHOT` wants the session copied.
    pub fn on_clone_trigger(mut self, callback: impl FnMut(&CloneTriggerHit) + Send + 'static) -> Self {
        self.callbacks.on_clone_trigger.push(Box::new(callback));
        self
    }
}

/// Starting.
impl SessionSetup {
    /// Starts the session and waits until all data sources have started: trace points of this process are on then, if they are to be
    /// recorded, those of other processes where their data source tells when it has started. A session that a trigger starts, or whose
    /// config has `deferred_start`, is only set up.
    ///
    /// # Errors
    ///
    /// If the service refuses the config, or a data source does not start in time.
    pub fn start(self) -> Result<TracingSession, SessionError> {
        let channel = self.connection.0.clone();
        block_on(&channel, self.start_async())
    }

    /// As [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_async(self) -> Result<TracingSession, SessionError> {
        let deadline = Deadline::after(self.timeout);
        let (session, callbacks, finished) = self.enable(false).await?;
        if finished.starts_at_once {
            session.wait_for_start(deadline).await?;
        } else {
            session.wait_for_acceptance(deadline).await?;
        }
        callbacks.install(&session.connection.0)?;
        Ok(session)
    }

    /// As [`start`](Self::start), and calls this with what came of it. Returns at once.
    ///
    /// # Errors
    ///
    /// If the thread for callbacks cannot be started.
    pub fn start_with(
        self,
        callback: impl FnOnce(Result<TracingSession, SessionError>) + Send + 'static,
    ) -> Result<(), SessionError> {
        super::driver::spawn(async move { callback(self.start_async().await) })
    }

    /// Sets the session up, with its buffers, but does not start it: [`TracingSession::start`] does, and takes less time then.
    ///
    /// # Errors
    ///
    /// If the service refuses the config.
    pub fn set_up(self) -> Result<TracingSession, SessionError> {
        let channel = self.connection.0.clone();
        block_on(&channel, self.set_up_async())
    }

    /// As [`set_up`](Self::set_up).
    ///
    /// # Errors
    ///
    /// As [`set_up`](Self::set_up).
    pub async fn set_up_async(self) -> Result<TracingSession, SessionError> {
        let deadline = Deadline::after(self.timeout);
        let (session, callbacks, _) = self.enable(true).await?;
        session.wait_for_acceptance(deadline).await?;
        callbacks.install(&session.connection.0)?;
        Ok(session)
    }

    async fn enable(self, deferred: bool) -> Result<(TracingSession, Callbacks, Finished), SessionError> {
        let channel = self.connection.0.clone();
        wait_for_registration(&channel, &self.place, self.timeout).await?;
        let finished = self.parts.finish(deferred, &new_name())?;
        let (file, storage) = match self.target {
            Target::Memory if finished.in_file && !finished.names_file => {
                return Err(ConfigError::NoFile.into());
            }
            Target::Memory if finished.in_file => (None, Storage::Elsewhere),
            Target::Memory => (None, Storage::Memory),
            Target::File(file) => (Some(file.descriptor()?), Storage::File(file)),
            Target::Descriptor(file) => (Some(file), Storage::Elsewhere),
        };
        let clones = if finished.has_clone_triggers { Observe::CLONE_TRIGGER_HIT } else { Observe::NOTHING };
        channel.with_consumer(|consumer| {
            consumer.observe(Observe::ALL_DATA_SOURCES_STARTED | clones)?;
            consumer.enable_tracing(finished.bytes.clone(), file)
        })?;
        let about = About {
            place: self.place,
            timeout: self.timeout,
            unique_name: finished.unique_name.clone(),
            storage,
        };
        let session = TracingSession { connection: self.connection, about };
        Ok((session, self.callbacks, finished))
    }
}

/// Without a session of one's own.
impl SessionSetup {
    /// Copies another session of the same service: a trace that ends now, while the other goes on.
    ///
    /// # Errors
    ///
    /// If there is no such session of this user.
    pub fn clone_session(
        self,
        which: &CloneOf,
        options: &CloneOptions,
    ) -> Result<RecordedTrace, SessionError> {
        let channel = self.connection.0.clone();
        block_on(&channel, self.clone_session_async(which, options))
    }

    /// As [`clone_session`](Self::clone_session).
    ///
    /// # Errors
    ///
    /// As [`clone_session`](Self::clone_session).
    pub async fn clone_session_async(
        self,
        which: &CloneOf,
        options: &CloneOptions,
    ) -> Result<RecordedTrace, SessionError> {
        clone_session(self.connection, self.place, self.timeout, which, options).await
    }

    /// Takes over a session that [`TracingSession::detach`] has left running.
    ///
    /// # Errors
    ///
    /// If there is none of this user under that key.
    pub fn attach(self, key: &str) -> Result<TracingSession, SessionError> {
        let channel = self.connection.0.clone();
        block_on(&channel, self.attach_async(key))
    }

    async fn attach_async(self, key: &str) -> Result<TracingSession, SessionError> {
        let channel = self.connection.0.clone();
        let deadline = Deadline::after(self.timeout);
        let attached = channel.call("attaching", deadline, |consumer| consumer.begin_attach(key)).await?;
        channel.with_consumer(|consumer| consumer.notify_when_disabled())?;
        let config = match attached {
            Answer::Attached(config) => TraceConfig::decode(config).map_err(ConfigError::Bytes)?,
            _ => TraceConfig::default(),
        };
        // It was started before it was left.
        channel.lock()?.started = true;
        let storage = if config.write_into_file() { Storage::Elsewhere } else { Storage::Memory };
        let about = About {
            place: self.place,
            timeout: self.timeout,
            unique_name: config.unique_session_name().to_owned(),
            storage,
        };
        self.callbacks.install(&channel)?;
        Ok(TracingSession { connection: self.connection, about })
    }

    /// What the service knows: producers, data sources, sessions.
    ///
    /// # Errors
    ///
    /// If the service does not answer.
    pub fn query_service_state(&mut self) -> Result<TracingServiceState, SessionError> {
        block_on(&self.connection.0, self.connection.query_service_state(false, self.timeout))
    }

    /// What the service can do.
    ///
    /// # Errors
    ///
    /// If the service does not answer.
    pub fn query_capabilities(&mut self) -> Result<TracingServiceCapabilities, SessionError> {
        block_on(&self.connection.0, self.connection.query_capabilities(self.timeout))
    }

    /// Activates triggers, as a producer called `ferretto-session`: the recordings that wait for them start, end or are copied. A program
    /// that is initialised may rather call [`activate_triggers`](crate::activate_triggers).
    ///
    /// # Errors
    ///
    /// If the service cannot be reached as a producer: from [`TracingSession::connect`] it cannot.
    pub fn activate_triggers(&self, names: &[&str]) -> Result<(), SessionError> {
        triggers::activate(&self.place, names, self.timeout)
    }
}

impl Connection {
    pub(super) async fn query_service_state(
        &self,
        sessions_only: bool,
        timeout: Duration,
    ) -> Result<TracingServiceState, SessionError> {
        let what = "an answer about the service's state";
        let begin = |c: &mut ferretto_consumer::Consumer| c.begin_query_service_state(sessions_only);
        match self.0.call(what, Deadline::after(timeout), begin).await? {
            Answer::ServiceState(state) => Ok(*state),
            _ => Err(unexpected("QueryServiceState")),
        }
    }

    pub(super) async fn query_capabilities(
        &self,
        timeout: Duration,
    ) -> Result<TracingServiceCapabilities, SessionError> {
        let what = "an answer about what the service can do";
        match self.0.call(what, Deadline::after(timeout), |c| c.begin_query_capabilities()).await? {
            Answer::Capabilities(capabilities) => Ok(capabilities),
            _ => Err(unexpected("QueryCapabilities")),
        }
    }
}

/// An answer to another question: a mistake of this library, told rather than hidden.
pub(super) fn unexpected(method: &'static str) -> SessionError {
    CallError::BadReply { method, what: "it answers another question".to_owned() }.into()
}

/// A name that no other session has.
fn new_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("ferretto-session-{}-{count}-{}", std::process::id(), since.as_nanos())
}
