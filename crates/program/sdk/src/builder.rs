//! Initialisation, and what can be chosen for it.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use ferretto_producer::recorder::has_recorder;
use ferretto_producer::{Connector, ExhaustedPolicy, ProducerError, ProducerOptions, SharedMemorySource};

use crate::backends::Backends;
use crate::runtime::{self, Held};
use crate::track_event::category::{Category, registry};
use crate::track_event::event::quietly;
use crate::track_event::startup::StartupConfig;

/// Tracing could not be initialised. The program can go on: trace points do nothing.
///
/// Its debug form is its text, as that is what `unwrap` and `expect` show.
#[non_exhaustive]
pub enum InitError {
    /// The connection's resources could not be made, or the environment names no usable socket.
    Producer(ProducerError),
    /// No thread could be started.
    Thread(io::Error),
    /// The process cannot be watched for forks.
    Fork(io::Error),
    /// No backend was chosen.
    NoBackend,
    /// The service in this process was chosen in a program that was built without it.
    WithoutInProcess,
    /// The service in this process could not be started.
    #[cfg(feature = "in-process")]
    InProcess(ferretto_traced::daemon::Error),
    /// Called from a callback of a data source while [`shutdown`](crate::shutdown) waits for it.
    ShuttingDown,
    /// Startup tracing was asked for when tracing was initialised already.
    StartupTooLate,
}

impl fmt::Debug for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Producer(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "cannot start the tracing thread: {error}"),
            Self::Fork(error) => write!(f, "cannot register the handlers of fork(): {error}"),
            Self::NoBackend => f.write_str(
                "there is no backend to initialise: choose Backends::SYSTEM, Backends::IN_PROCESS or both",
            ),
            Self::WithoutInProcess => f.write_str(
                "Backends::IN_PROCESS was chosen, but this program is built without it: enable the feature `in-process` of \
                 `ferretto`",
            ),
            #[cfg(feature = "in-process")]
            Self::InProcess(error) => write!(f, "cannot start the tracing service of this process: {error}"),
            Self::StartupTooLate => f.write_str(
                "cannot trace the startup: tracing was initialised before; ask for it in the first call",
            ),
            Self::ShuttingDown => f.write_str(
                "tracing is being shut down, and this callback is waited for: initialise after it",
            ),
        }
    }
}

impl Error for InitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Producer(error) => error.source(),
            Self::Thread(error) | Self::Fork(error) => Some(error),
            #[cfg(feature = "in-process")]
            Self::InProcess(error) => Some(error),
            Self::NoBackend | Self::WithoutInProcess | Self::ShuttingDown | Self::StartupTooLate => None,
        }
    }
}

impl From<ProducerError> for InitError {
    fn from(error: ProducerError) -> Self {
        Self::Producer(error)
    }
}

#[cfg(feature = "in-process")]
impl From<ferretto_traced::daemon::Error> for InitError {
    fn from(error: ferretto_traced::daemon::Error) -> Self {
        Self::InProcess(error)
    }
}

/// Makes this process a producer of the system's tracing service, under this name.
///
/// Starts a thread called `ferretto`. A second call does nothing, except that it adds [backends](Builder::backends) that are not there
/// yet. Without a service this succeeds, too: the thread connects when one appears, and again when it was lost.
///
/// With a service there it returns when the service has said what sessions want, which takes some hundred microseconds, so that they miss
/// nothing of this program: after half a second it goes on without, and after a second in what `ferretto record -- PROGRAM` has
/// started. What was traced when the program ends by itself is handed over at its end; when it dies, the service copies it.
///
/// # Errors
///
/// If the thread or its descriptors cannot be made, or `PERFETTO_PRODUCER_SOCK_NAME` names no address.
pub fn init(name: &str) -> Result<(), InitError> {
    builder(name).init()
}

/// What services give at most. Two million events in a burst fit, and memory that nobody has written to costs nothing.
const DEFAULT_SHARED_MEMORY_BYTES: u32 = 32 * 1024 * 1024;

/// As [`init`], with choices.
///
/// ```
/// ferretto::categories! {
///     static CATEGORIES = {
///         NET = "net", "Requests over the network";
///     }
/// }
/// ferretto::builder("org.example.server").categories(CATEGORIES).init()?;
/// # ferretto::instant!(NET, "here");
/// # Ok::<(), ferretto::InitError>(())
/// ```
pub fn builder(name: &str) -> Builder {
    Builder {
        connector: Connector::Default,
        startup: None,
        plan: Plan {
            backends: Backends::SYSTEM,
            after_fork: if has_recorder() { AfterFork::Reconnect } else { AfterFork::Silent },
            options: Options {
                name: name.to_owned(),
                shm_size_hint_bytes: DEFAULT_SHARED_MEMORY_BYTES,
                page_size_hint_bytes: 0,
                shared_memory: SharedMemorySource::Service,
                batch_commits_duration: Duration::ZERO,
            },
            address: Some(Connector::Default),
            settings: Settings::DEFAULT,
        },
    }
}

/// What a child process does that was made by `fork()` in a program that is traced. The parent is not touched by either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterFork {
    /// Nothing, until it calls [`init`] itself. For children that soon run another program.
    #[default]
    Silent,
    /// It becomes a producer of its own as soon as it reaches a trace point, by the choices of its parent. For servers with processes as
    /// workers. A service of the parent's own process is not the child's: it gets one of its own.
    ///
    /// A [`Connector::Stream`] connects once, so that such a child is silent.
    Reconnect,
}

/// Choices for [`init`](Builder::init).
#[derive(Debug)]
#[must_use = "nothing is initialised before `init`"]
pub struct Builder {
    connector: Connector,
    startup: Option<StartupConfig>,
    plan: Plan,
}

/// All that is needed to initialise, and to do it again.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) backends: Backends,
    pub(crate) after_fork: AfterFork,
    pub(crate) settings: Settings,
    options: Options,
    /// Where the system's service is; `None` if there was one connection only.
    address: Option<Connector>,
}

#[derive(Debug)]
struct Options {
    name: String,
    shm_size_hint_bytes: u32,
    page_size_hint_bytes: u32,
    shared_memory: SharedMemorySource,
    batch_commits_duration: Duration,
}

/// What sequences want to know.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) track_event_policy: ExhaustedPolicy,
    pub(crate) process_uuid: Option<u64>,
    pub(crate) process_name: Option<String>,
    pub(crate) disallow_merging_with_system_tracks: bool,
}

static SETTINGS: Mutex<Settings> = Mutex::new(Settings::DEFAULT);

impl Settings {
    const DEFAULT: Self = Self {
        track_event_policy: ExhaustedPolicy::Drop,
        process_uuid: None,
        process_name: None,
        disallow_merging_with_system_tracks: false,
    };

    pub(crate) fn publish(&self) {
        *settings() = self.clone();
    }
}

/// Those of the last initialisation.
#[inline(never)]
pub(crate) fn settings() -> MutexGuard<'static, Settings> {
    SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn lock_settings_for_fork() -> Box<dyn Held> {
    Box::new(settings())
}

impl Builder {
    /// Makes categories known from the start, so that they are listed before their first trace point was reached.
    pub fn categories(self, categories: &[&'static Category]) -> Self {
        quietly(|| {
            let mut registry = registry();
            for category in categories {
                registry.add(category);
            }
        });
        self
    }

    /// Which services this program is a producer of: [`Backends::SYSTEM`] without this.
    ///
    /// ```
    /// # #[cfg(feature = "in-process")] {
    /// use ferretto::Backends;
    /// ferretto::builder("org.example.server").backends(Backends::SYSTEM | Backends::IN_PROCESS).init()?;
    /// # }
    /// # Ok::<(), ferretto::InitError>(())
    /// ```
    pub fn backends(mut self, backends: Backends) -> Self {
        self.plan.backends = backends;
        self
    }

    /// Connects elsewhere than to the system's service, as [`Backends::SYSTEM`].
    pub fn connector(mut self, connector: Connector) -> Self {
        self.plan.address = match &connector {
            Connector::Default => Some(Connector::Default),
            Connector::Address(address) => Some(Connector::Address(address.clone())),
            Connector::Stream(_) => None,
        };
        self.connector = connector;
        self
    }

    /// The wish for the size of the memory shared with the service, in bytes (32 MiB without, the most that a service gives). It is a
    /// bound: what is not needed while the service is behind takes no memory.
    pub fn shared_memory_size(mut self, bytes: u32) -> Self {
        self.plan.options.shm_size_hint_bytes = bytes;
        self
    }

    /// The wish for the size of its pages, in bytes: 4096 (without), 8192, 16384 or 32768. A thread that traces holds a page for each
    /// session.
    pub fn page_size(mut self, bytes: u32) -> Self {
        self.plan.options.page_size_hint_bytes = bytes;
        self
    }

    /// Has this process allocate the shared memory when it connects, rather than the service when the first session starts.
    pub fn allocate_shared_memory(mut self) -> Self {
        self.plan.options.shared_memory = SharedMemorySource::Producer;
        self
    }

    /// Lets finished memory wait for more, so that fewer messages go to the service.
    pub fn batch_commits_for(mut self, duration: Duration) -> Self {
        self.plan.options.batch_commits_duration = duration;
        self
    }

    /// Records track events from the end of [`init`](Self::init) on, for a session that starts later and would have recorded the same: see
    /// [`StartupConfig`]. They wait in memory that this process makes for it, of the [size](Self::shared_memory_size) wished for, of which
    /// they may fill three quarters; later ones are lost, and that is said in the trace. A session that wants something else, or one in
    /// this process beside the system's service, does not get them. A child process made by `fork()` does not trace its startup.
    pub fn startup_tracing(mut self, startup: StartupConfig) -> Self {
        self.startup = Some(startup);
        self
    }

    /// What track events do when the shared memory is full, in sessions that do not say it themselves: [`ExhaustedPolicy::Drop`] without
    /// this.
    pub fn track_event_policy(mut self, policy: ExhaustedPolicy) -> Self {
        self.plan.settings.track_event_policy = policy;
        self
    }

    /// The uuid of this process's track, as long as it lives: the first initialisation decides. Without this it is made of the process's id
    /// and the time of its start, as it is in children of a fork.
    pub fn process_uuid(mut self, uuid: u64) -> Self {
        self.plan.settings.process_uuid = Some(uuid);
        self
    }

    /// The name of this process in traces. Without this it is the first word of its command line.
    pub fn process_name(mut self, name: &str) -> Self {
        self.plan.settings.process_name = Some(name.to_owned());
        self
    }

    /// Has the trace viewer show this program's tracks beside those that the kernel's data has of its process and its threads, rather
    /// than as one with them: for ids that are not the kernel's, as in a container.
    pub fn disallow_merging_with_system_tracks(mut self) -> Self {
        self.plan.settings.disallow_merging_with_system_tracks = true;
        self
    }

    /// What a child process does: [`AfterFork::Silent`] without this; [`AfterFork::Reconnect`] in what `ferretto record -- PROGRAM` has
    /// started, where somebody waits for all of it.
    pub fn after_fork(mut self, what: AfterFork) -> Self {
        self.plan.after_fork = what;
        self
    }

    /// Initialises. See [`crate::init`].
    ///
    /// # Errors
    ///
    /// As [`crate::init`]; and if a chosen backend is not to be had.
    pub fn init(self) -> Result<(), InitError> {
        let Self { connector, startup, plan } = self;
        let backends = plan.backends;
        Arc::new(plan).start_over(backends, connector, startup)?;
        if backends.contains(Backends::SYSTEM) {
            runtime::settle();
        }
        Ok(())
    }
}

impl Plan {
    /// Once more, by the same choices.
    pub(crate) fn start(self: Arc<Self>) -> Result<(), InitError> {
        let connector = self.address().unwrap_or_default();
        let backends =
            if self.address.is_some() { self.backends } else { self.backends.without(Backends::SYSTEM) };
        self.start_over(backends, connector, None)
    }

    /// The producer's.
    pub(crate) fn name(&self) -> &str {
        &self.options.name
    }

    pub(crate) fn can_start_again(&self) -> bool {
        self.address.is_some() || self.backends.contains(Backends::IN_PROCESS)
    }

    fn start_over(
        self: Arc<Self>,
        backends: Backends,
        connector: Connector,
        startup: Option<StartupConfig>,
    ) -> Result<(), InitError> {
        let plan = Arc::clone(&self);
        let mut connector = Some(connector);
        runtime::start(plan, backends, startup, &mut |backend| {
            let connector = match backend {
                Backends::IN_PROCESS => connect_in_process()?,
                _ => connector.take().unwrap_or_default(),
            };
            Ok(self.options.connect(connector))
        })
    }

    fn address(&self) -> Option<Connector> {
        match self.address.as_ref()? {
            Connector::Address(address) => Some(Connector::Address(address.clone())),
            _ => Some(Connector::Default),
        }
    }
}

impl Options {
    fn connect(&self, connector: Connector) -> ProducerOptions {
        ProducerOptions {
            connector,
            shm_size_hint_bytes: self.shm_size_hint_bytes,
            page_size_hint_bytes: self.page_size_hint_bytes,
            shared_memory: self.shared_memory,
            batch_commits_duration: self.batch_commits_duration,
            ..ProducerOptions::new(self.name.clone())
        }
    }
}

#[cfg(feature = "in-process")]
fn connect_in_process() -> Result<Connector, InitError> {
    Ok(Connector::Stream(crate::in_process::host()?.connect_producer()?))
}

#[cfg(not(feature = "in-process"))]
fn connect_in_process() -> Result<Connector, InitError> {
    Err(InitError::WithoutInProcess)
}
