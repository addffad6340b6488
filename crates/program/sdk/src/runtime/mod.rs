//! The thread in the background: keeps the connections, and says to data sources what sessions ask of them.
//!
//! | module | what it does |
//! |---|---|
//! | `worker` | the loop: waits, hands events of services and wishes of users on |
//! | `backend` | one service: its connection, its instances, what waits for its answers |
//! | `source` | what a data source is to the runtime, and the list of them |
//! | `ack` | answers of users' callbacks, which may come later |
//! | `inbox` | what other threads ask of this one |
//! | `stage` | when the thread works, and when it waits or calls the user |
//! | `fork` | what happens when the process forks |

mod ack;
mod backend;
mod fork;
mod inbox;
mod left_out;
mod source;
mod stage;
#[cfg(all(test, feature = "in-process"))]
mod tests;
mod worker;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ferretto_producer::ProducerOptions;

pub use ack::Ack;
pub(crate) use fork::{generation, is_forking};
pub(crate) use inbox::Reply;
pub(crate) use source::{AddError, Held, MAX_SOURCES, Setup, Source, TOO_MANY_SESSIONS, add as add_source};
pub(crate) use stage::Stage;

use ferretto_producer::log;
use ferretto_producer::recorder::{has_recorder, tell_recorder};

use crate::backends::Backends;
use crate::builder::{AfterFork, InitError, Plan};
use crate::track_event::event::quietly;
use crate::track_event::source::end_startups;
use crate::track_event::startup::StartupConfig;
use backend::NewBackend;
use inbox::{Command, Inbox};

/// How long a program's start waits for a service to say what sessions want of it. It takes some hundred microseconds, on a machine whose
/// cores are all taken a hundred times as long; a service that is stopped must not stop programs.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(500);
/// The same in a program that a recorder has started: somebody waits for what it traces.
const SETTLE_WITH_RECORDER_TIMEOUT: Duration = Duration::from_secs(1);

static STATE: Mutex<State> = Mutex::new(State::Idle);
/// Set while there is nothing to revive, so that looking costs no lock.
static IS_REVIVED: AtomicBool = AtomicBool::new(true);

thread_local! {
    /// Whether this is the background thread.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// The runtime of this process.
enum State {
    /// Not started, or shut down.
    Idle,
    Running(Runtime),
    /// Its thread comes to an end.
    ShuttingDown,
    /// This is a child process of one in which it ran. It starts again by this plan as soon as something is to be traced.
    Forked(Arc<Plan>),
}

struct Runtime {
    plan: Arc<Plan>,
    inbox: Arc<Inbox>,
    thread: JoinHandle<()>,
    /// The services that it is, or tries to be, a producer of.
    backends: Backends,
}

#[inline(never)]
fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread. If it runs, this adds backends that it does not have.
pub(crate) fn start(
    plan: Arc<Plan>,
    wanted: Backends,
    startup: Option<StartupConfig>,
    options: &mut dyn FnMut(Backends) -> Result<ProducerOptions, InitError>,
) -> Result<(), InitError> {
    // Nothing of this is to be traced: see `event::quietly`.
    quietly(|| start_quietly(plan, wanted, startup, options))
}

fn start_quietly(
    plan: Arc<Plan>,
    wanted: Backends,
    startup: Option<StartupConfig>,
    options: &mut dyn FnMut(Backends) -> Result<ProducerOptions, InitError>,
) -> Result<(), InitError> {
    // Before the state is locked: a thread that forks may hold libc's lock of the handlers while it waits for that.
    fork::watch().map_err(InitError::Fork)?;
    // Without memory for a handler the service copies what is left.
    let _ = ferretto_sys::at_exit(hand_over);
    let mut state = wait_for_end()?;
    let missing = match &*state {
        State::Running(runtime) => wanted.without(runtime.backends),
        _ => wanted,
    };
    if !matches!(*state, State::Running(_)) {
        // Before anything is recorded.
        plan.settings.publish();
    }
    // What was to be recorded ends with its client.
    let made = make_backends(missing, startup, options).inspect_err(|_| end_startups())?;
    if let State::Running(runtime) = &mut *state {
        runtime.backends = runtime.backends | wanted;
        for backend in made {
            // Never refused in this process.
            let _ = runtime.inbox.push(Command::AddBackend(backend));
        }
        return Ok(());
    }
    let runtime = Runtime::spawn(plan, wanted, made).inspect_err(|_| end_startups())?;
    *state = State::Running(runtime);
    Ok(())
}

/// Producers of these services, of which the first one records the startup, if that is wanted.
#[inline(never)]
fn make_backends(
    missing: Backends,
    startup: Option<StartupConfig>,
    options: &mut dyn FnMut(Backends) -> Result<ProducerOptions, InitError>,
) -> Result<Vec<NewBackend>, InitError> {
    let mut made = Vec::new();
    let mut startup = startup;
    for kind in missing.iter() {
        made.push(NewBackend::new(kind, options(kind)?, startup.take())?);
    }
    if startup.is_some() { Err(InitError::StartupTooLate) } else { Ok(made) }
}

/// The state, once it is not about to end.
fn wait_for_end() -> Result<MutexGuard<'static, State>, InitError> {
    loop {
        let state = state();
        if !matches!(*state, State::ShuttingDown) {
            return Ok(state);
        }
        if is_this_thread() {
            return Err(InitError::ShuttingDown);
        }
        drop(state);
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Runtime {
    fn spawn(plan: Arc<Plan>, wanted: Backends, backends: Vec<NewBackend>) -> Result<Self, InitError> {
        let Some(first) = backends.first() else {
            return Err(InitError::NoBackend);
        };
        // Any of them will do: the thread waits for all at once.
        let inbox = Arc::new(Inbox::new(first.waker().clone()));
        fork::watch().map_err(InitError::Fork)?;
        let commands = Arc::clone(&inbox);
        let run = || {
            IS_WORKER.set(true);
            worker::run(backends, commands);
        };
        let thread = std::thread::Builder::new().name("ferretto".to_owned()).spawn(run);
        let thread = thread.map_err(InitError::Thread)?;
        Ok(Self { backends: wanted, plan, inbox, thread })
    }
}

/// Starts again in a child process, where something is to be traced for the first time, if it is to. See [`AfterFork`].
pub(crate) fn revive() {
    if IS_REVIVED.swap(true, Ordering::Relaxed) {
        return;
    }
    let plan = match &*state() {
        State::Forked(plan) if plan.after_fork == AfterFork::Reconnect => Arc::clone(plan),
        _ => return,
    };
    if let Err(error) = plan.start() {
        log::warn(format_args!("this child process is not traced: {error}"));
    } else if has_recorder() {
        // This is a trace point, which waits for nobody else.
        settle();
    }
}

pub(crate) fn is_started() -> bool {
    quietly(|| matches!(&*state(), State::Running(_)))
}

/// The services that this process is, or tries to be, a producer of.
#[cfg(feature = "sessions")]
pub(crate) fn backends() -> Backends {
    quietly(|| match &*state() {
        State::Running(runtime) => runtime.backends,
        _ => Backends::NONE,
    })
}

/// There is more to be told to services: data sources, or what they can do.
pub(crate) fn announce_news() {
    // Without a runtime, or with one that is overrun, they are found later.
    let _ = send(Command::News);
}

/// Commits what has been handed over and waits until the services have it; `false` if one did not answer in time, or there is none.
pub(crate) fn drain(timeout: Duration) -> bool {
    ask(timeout, Command::Drain).unwrap_or(false)
}

/// Waits until sessions that are there record what they want of this process, so that they miss nothing that it traces from now on. Not
/// for long: see [`SETTLE_TIMEOUT`].
pub(crate) fn settle() {
    let plan = quietly(|| match &*state() {
        State::Running(runtime) if !is_this_thread() => Some(Arc::clone(&runtime.plan)),
        _ => None,
    });
    let Some(plan) = plan else {
        return;
    };
    let has_recorder = has_recorder();
    let timeout = if has_recorder { SETTLE_WITH_RECORDER_TIMEOUT } else { SETTLE_TIMEOUT };
    let why = match ask(timeout, Command::Settle) {
        Some(true) => return,
        Some(false) if !has_recorder => return,
        Some(false) => "no tracing service is where it looks, or none that takes it",
        None => "the tracing service did not answer in time",
    };
    log::warn(format_args!("this program may be recorded late or not at all: {why}"));
    if has_recorder {
        tell_recorder(&format!("{} {}: {why}\n", std::process::id(), plan.name()));
    }
}

/// At the end of the program: what was traced is in the services' sockets.
fn hand_over() {
    crate::track_event::event::flush_thread();
    crate::data_source::flush_thread();
    ask(worker::HAND_OVER_TIMEOUT, Command::HandOver);
}

/// Has the background thread do something and say when it is done; `None` if that took too long, or there is no such thread.
fn ask(timeout: Duration, command: fn(Reply) -> Command) -> Option<bool> {
    if is_this_thread() {
        return None;
    }
    quietly(|| {
        let answer = Arc::new(Answered::default());
        let answering = Answering(Arc::clone(&answer));
        // Whoever asked may have given up.
        let refused = send(command(Box::new(move |is_done| answering.0.answer(is_done))));
        refused.is_ok().then(|| answer.wait(timeout))?
    })
}

/// An answer that somebody waits for. A channel does as much, and is 30 KB in each program.
#[derive(Default)]
struct Answered {
    answer: Mutex<Option<bool>>,
    changed: Condvar,
}

/// Who dropped this without a word has not done it.
struct Answering(Arc<Answered>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answer(false);
    }
}

impl Answered {
    /// The first answer counts.
    fn answer(&self, is_done: bool) {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(is_done);
        self.changed.notify_all();
    }

    /// `None` if there was no answer in time.
    fn wait(&self, timeout: Duration) -> Option<bool> {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(answer, timeout, |answer| answer.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// As [`drain`], and says later, on the background thread, whether it was done. Gives the reply back if that will not happen.
pub(crate) fn drain_then(reply: Reply) -> Option<Reply> {
    match send(Command::Drain(reply)) {
        Err(Command::Drain(reply)) => Some(reply),
        _ => None,
    }
}

pub(crate) fn activate_triggers(names: Vec<String>) -> bool {
    send(Command::ActivateTriggers(names)).is_ok()
}

/// Ends all instances and the thread, so that [`start`] can begin anew. `false` if it does not run, or this is its own thread.
pub(crate) fn shut_down() -> bool {
    if is_this_thread() {
        return false;
    }
    let runtime = quietly(|| {
        let mut state = state();
        match std::mem::replace(&mut *state, State::ShuttingDown) {
            State::Running(runtime) => Some(runtime),
            other => {
                *state = other;
                None
            }
        }
    });
    let Some(Runtime { inbox, thread, .. }) = runtime else {
        return false;
    };
    let _ = quietly(|| inbox.push(Command::ShutDown));
    let has_ended = thread.join().is_ok();
    quietly(|| *state() = State::Idle);
    has_ended
}

/// Whether the caller is the background thread, in a callback.
pub(crate) fn is_this_thread() -> bool {
    IS_WORKER.with(Cell::get)
}

/// Gives the command back if there is nobody to do it.
fn send(command: Command) -> Result<(), Command> {
    quietly(|| match &*state() {
        State::Running(runtime) => runtime.inbox.push(command),
        _ => Err(command),
    })
}

#[cfg(test)]
mod handler_tests {
    use super::*;
    use crate::Category;

    /// As when a signal comes while this thread tells the runtime something.
    #[test]
    fn a_category_that_is_new_to_a_handler_does_not_wait_for_the_thread_it_interrupted() {
        static CATEGORY: Category = Category::new("test.of a handler");
        quietly(|| {
            let _held = state();
            assert!(!CATEGORY.is_enabled());
        });
    }
}
