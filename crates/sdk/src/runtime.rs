//! The thread in the background: keeps the connection and says to sessions what they ask.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ferretto_producer::{InstanceId, ProducerClient, ProducerEvent, ProducerOptions, ProducerWaker};
use ferretto_protos::{DataSourceConfig, DataSourceDescriptor, TrackEventCategory, TrackEventDescriptor};

use crate::InitError;
use crate::category::{Category, registry};
use crate::clock::Calibrator;
use crate::matching::Filter;
use crate::session::{self, Session};

/// The data source's name, for all programs with track events.
const DATA_SOURCE: &str = "track_event";
/// Tells the data source apart when it is updated; any number, always the same.
const DATA_SOURCE_ID: u64 = 0x0066_6572_7265_7474;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// Held while the runtime is started, so that it is started once.
static STARTING: Mutex<()> = Mutex::new(());

/// How the rest of the process reaches the thread.
#[derive(Debug)]
struct Runtime {
    waker: ProducerWaker,
    commands: Mutex<Sender<Command>>,
}

enum Command {
    /// Commit everything and say so.
    Drain {
        timeout: Duration,
        done: Sender<bool>,
    },
    ActivateTriggers(Vec<String>),
}

/// Starts the thread; nothing if it runs already.
pub(crate) fn start(options: ProducerOptions) -> Result<(), InitError> {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if RUNTIME.get().is_some() {
        return Ok(());
    }
    let client = ProducerClient::new(options)?;
    let waker = client.waker();
    let (commands, receiver) = channel();
    let worker = Worker {
        client,
        commands: receiver,
        slots: BTreeMap::new(),
        calibrator: Calibrator::new(),
        calibration: None,
    };
    std::thread::Builder::new()
        .name("ferretto".to_owned())
        .spawn(|| worker.run())
        .map_err(InitError::Thread)?;
    // Nobody else sets it: the lock is held.
    let _ = RUNTIME.set(Runtime { waker, commands: Mutex::new(commands) });
    Ok(())
}

pub(crate) fn is_started() -> bool {
    RUNTIME.get().is_some()
}

/// There are categories that sessions cannot know yet.
pub(crate) fn categories_changed() {
    if let Some(runtime) = RUNTIME.get() {
        runtime.waker.wake();
    }
}

/// Commits what has been handed over and waits until the service has it; `false` if it did not answer in time.
pub(crate) fn drain(timeout: Duration) -> bool {
    let (done, answer) = channel();
    let is_sent = send(Command::Drain { timeout, done });
    // A moment more than the thread itself waits.
    is_sent && answer.recv_timeout(timeout.saturating_add(Duration::from_millis(100))).unwrap_or(false)
}

pub(crate) fn activate_triggers(names: Vec<String>) -> bool {
    send(Command::ActivateTriggers(names))
}

fn send(command: Command) -> bool {
    let Some(runtime) = RUNTIME.get() else {
        return false;
    };
    let is_sent = runtime.commands.lock().unwrap_or_else(PoisonError::into_inner).send(command).is_ok();
    runtime.waker.wake();
    is_sent
}

/// What runs on the thread.
struct Worker {
    client: ProducerClient,
    commands: Receiver<Command>,
    /// Places of the sessions that run.
    slots: BTreeMap<InstanceId, usize>,
    calibrator: Calibrator,
    /// When the clock is to be compared with the kernel's, while a session records.
    calibration: Option<Instant>,
}

impl Worker {
    fn run(mut self) {
        let categories = {
            let mut registry = registry();
            registry.take_news();
            registry.distinct()
        };
        self.client.register_data_source(&descriptor(&categories));
        // An error is one of poll(), which would come again and again.
        while self.client.wait(self.until_calibration(), &[]).is_ok() {
            self.calibrate_if_due();
            self.serve();
        }
    }

    fn until_calibration(&self) -> Option<Duration> {
        self.calibration.map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn calibrate_if_due(&mut self) {
        if self.until_calibration() == Some(Duration::ZERO) {
            let next = self.calibrator.calibrate();
            self.calibration = next.map(|after| Instant::now() + after);
            session::announce_clock();
        }
    }

    fn serve(&mut self) {
        while let Some(event) = self.client.next_event() {
            self.handle(event);
        }
        while let Ok(command) = self.commands.try_recv() {
            self.execute(command);
        }
        let news = registry().take_news();
        if let Some(categories) = news {
            self.client.register_data_source(&descriptor(&categories));
        }
    }

    fn handle(&mut self, event: ProducerEvent) {
        match event {
            ProducerEvent::Start { instance, config, .. } => {
                self.start_session(instance, &config);
                self.client.notify_started(instance);
            }
            ProducerEvent::Stop { instance } => {
                self.stop_session(instance);
                self.client.notify_stopped(instance);
            }
            ProducerEvent::Flush { request_id, instances, .. } => {
                // Threads hand over at their next event. What they hold until then the service copies itself (scraping).
                self.slots_of(&instances).for_each(session::flush);
                self.client.notify_flush_complete(request_id);
            }
            ProducerEvent::ClearIncrementalState { instances } => {
                self.slots_of(&instances).for_each(session::clear_incremental_state);
            }
            _ => {}
        }
    }

    fn start_session(&mut self, instance: InstanceId, config: &DataSourceConfig) {
        let Some(arbiter) = self.client.arbiter() else {
            return;
        };
        let Some(slot) = session::add(Session::new(arbiter, config)) else {
            tracing::warn!("a session gets no track events: too many others record them already");
            return;
        };
        self.slots.insert(instance, slot);
        if self.calibration.is_none() {
            self.calibration = self.calibrator.start().map(|after| Instant::now() + after);
        }
        let filter = Filter::new(&config.track_event_config.clone().unwrap_or_default());
        registry().set_filter(slot, Some(filter));
    }

    fn stop_session(&mut self, instance: InstanceId) {
        if let Some(slot) = self.slots.remove(&instance) {
            registry().set_filter(slot, None);
            session::remove(slot);
        }
        if self.slots.is_empty() {
            self.calibration = None;
        }
    }

    fn slots_of(&self, instances: &[InstanceId]) -> impl Iterator<Item = usize> {
        instances.iter().filter_map(|instance| self.slots.get(instance).copied())
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Drain { timeout, done } => {
                // Whoever asked may have given up.
                let _ = done.send(self.client.drain(timeout));
            }
            Command::ActivateTriggers(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                self.client.activate_triggers(&names);
            }
        }
    }
}

fn descriptor(categories: &[&Category]) -> DataSourceDescriptor {
    let available_categories = categories.iter().map(|category| describe(category)).collect();
    DataSourceDescriptor {
        name: Some(DATA_SOURCE.to_owned()),
        id: Some(DATA_SOURCE_ID),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        handles_incremental_state_clear: Some(true),
        track_event_descriptor: Some(TrackEventDescriptor { available_categories }),
        ..Default::default()
    }
}

fn describe(category: &Category) -> TrackEventCategory {
    let description = category.description();
    TrackEventCategory {
        name: Some(category.name().to_owned()),
        description: (!description.is_empty()).then(|| description.to_owned()),
        tags: category.tags().iter().map(|tag| (*tag).to_owned()).collect(),
    }
}
