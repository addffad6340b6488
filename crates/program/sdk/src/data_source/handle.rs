//! A data source's registration, and what sessions ask of it.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ferretto_protos::DataSourceDescriptor;
use ferretto_protozero::fnv::fnv1a;
use prost::Message;

use super::context::TraceContext;
use super::instance::Instance;
use super::thread::{self, Sequence, Sequences};
use super::{DataSource, FlushFlags, SetupArgs};
use crate::clock::Clock;
use crate::runtime::{self, Ack, AddError, Held, MAX_SOURCES, Setup, Source, Stage, TOO_MANY_SESSIONS};
use crate::track_event::category::MAX_INSTANCES;
use crate::track_event::event::{exclusively_in, quietly};

/// Beside the bits of instances: this is a child process, which is to become a producer as soon as something is to be traced.
const REVIVES: u32 = 1 << 31;

/// A data source of the program, in a `static`. See [`DataSource`].
pub struct DataSourceHandle<T: DataSource> {
    /// Bit `i`: the session in slot `i` records.
    enabled: AtomicU32,
    /// Counts what threads have to look at.
    changes: AtomicU32,
    /// Among the sources of the process; 0 before it is registered.
    number: AtomicU32,
    state: Mutex<State<T>>,
}

struct State<T> {
    registration: Option<Registration<T>>,
    /// The descriptor says more than services know.
    has_news: bool,
    slots: [Slot<T>; MAX_INSTANCES],
}

struct Registration<T> {
    descriptor: DataSourceDescriptor,
    factory: Factory<T>,
}

type Factory<T> = Arc<dyn Fn() -> T + Send + Sync>;

struct Slot<T> {
    instance: Option<Arc<Instance<T>>>,
    /// Flushes asked for so far.
    flushes: u32,
    /// How often the incremental state was to be cleared.
    clears: u32,
}

/// A data source was not registered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// Its handle is one of a registered source.
    AlreadyRegistered {
        /// Under this name.
        name: String,
    },
    /// It has no name.
    WithoutName,
    /// Another one has its name.
    NameTaken {
        /// The name.
        name: String,
    },
    /// There are too many.
    TooMany,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRegistered { name } => write!(
                f,
                "the data source is registered already as {name:?}; a static DataSourceHandle is one data source"
            ),
            Self::WithoutName => {
                f.write_str("the data source's descriptor has no name, by which sessions could ask for it")
            }
            Self::NameTaken { name } => {
                write!(
                    f,
                    "there is a data source {name:?} already, and names are how sessions tell them apart"
                )
            }
            Self::TooMany => {
                write!(f, "a program has {MAX_SOURCES} data sources at most, track events among them")
            }
        }
    }
}

impl Error for RegisterError {}

impl<T: DataSource> DataSourceHandle<T> {
    /// A data source that is not registered: nobody knows it.
    pub const fn new() -> Self {
        const { assert!(REVIVES >> MAX_INSTANCES != 0) };
        Self {
            enabled: AtomicU32::new(0),
            changes: AtomicU32::new(0),
            number: AtomicU32::new(0),
            state: Mutex::new(State {
                registration: None,
                has_news: false,
                slots: [const { Slot { instance: None, flushes: 0, clears: 0 } }; MAX_INSTANCES],
            }),
        }
    }

    /// Offers it to sessions, for good. It does not matter whether [`init`](crate::init) comes before or after that.
    ///
    /// The descriptor needs a name; what follows from `T` and is not said is filled in.
    ///
    /// # Errors
    ///
    /// If it is registered already, its name is taken, or there are 32 others.
    pub fn register(&'static self, descriptor: DataSourceDescriptor) -> Result<(), RegisterError>
    where
        T: Default,
    {
        self.register_with(descriptor, T::default)
    }

    /// As [`register`](Self::register), with something that makes an object for each session, on the thread `ferretto`.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn register_with(
        &'static self,
        descriptor: DataSourceDescriptor,
        factory: impl Fn() -> T + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        quietly(|| self.register_quietly(descriptor, Arc::new(factory)))?;
        runtime::announce_news();
        runtime::settle();
        Ok(())
    }

    /// Changes what services say about it. Its name stays. `false` if it is not registered.
    pub fn update(&'static self, descriptor: DataSourceDescriptor) -> bool {
        let is_known = quietly(|| {
            let mut state = self.state();
            let Some(registration) = &mut state.registration else {
                return false;
            };
            let name = registration.descriptor.name.take();
            registration.descriptor = complete::<T>(DataSourceDescriptor { name, ..descriptor });
            state.has_news = true;
            true
        });
        runtime::announce_news();
        is_known
    }

    /// Whether any session records it now. One relaxed load.
    #[inline(always)]
    pub fn is_enabled(&'static self) -> bool {
        // One test for "not enabled", as nothing else happens most of the time.
        self.enabled.load(Ordering::Relaxed) != 0 && self.instances() != 0
    }

    /// The sessions that record it, one bit each.
    fn instances(&'static self) -> u32 {
        // Relaxed: whoever sees a session a moment late loses data of that moment, nothing else.
        let enabled = self.enabled.load(Ordering::Relaxed);
        if enabled & REVIVES == 0 {
            return enabled;
        }
        self.enabled.fetch_and(!REVIVES, Ordering::Relaxed);
        runtime::revive();
        enabled & !REVIVES
    }

    /// Calls `write` for each session that records this source now. Costs one relaxed load if there is none.
    ///
    /// Takes no lock and allocates nothing, but for the first call of a thread in a session, when a chunk of memory is full, and in what
    /// `write` does. Within `write`, which should be brief, all other trace points of the thread do nothing; and so does this, within
    /// another `write` or in the last moments of a thread.
    #[inline(always)]
    pub fn trace(&'static self, mut write: impl FnMut(&mut TraceContext<'_, T>)) {
        if crate::__is_compiled_in!() && self.enabled.load(Ordering::Relaxed) != 0 {
            self.trace_enabled(&mut write);
        }
    }

    #[inline(never)]
    fn trace_enabled(&'static self, write: &mut dyn FnMut(&mut TraceContext<'_, T>)) {
        let enabled = self.instances();
        // Whoever sees a session's bit sees the session, too: pairs with the release in `start`.
        fence(Ordering::Acquire);
        let number = self.number.load(Ordering::Relaxed) as usize;
        exclusively_in(|thread| {
            let clock = thread.clock();
            thread::with(number, |sequences| self.trace_in(enabled, sequences, clock, write));
        });
    }

    fn trace_in(
        &'static self,
        enabled: u32,
        sequences: &mut Sequences<T>,
        clock: &mut Clock,
        write: &mut dyn FnMut(&mut TraceContext<'_, T>),
    ) {
        // Acquire: what changes after that is seen the next time.
        let changes = self.changes.load(Ordering::Acquire);
        if std::mem::replace(&mut sequences.changes, changes) != changes {
            self.catch_up(sequences);
        }
        let Sequences { slots, scratch, .. } = sequences;
        let mut rest = enabled;
        while rest != 0 {
            let instance_index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let sequence = match slots.get_mut(instance_index) {
                Some(Some(sequence)) => sequence,
                _ => match self.add_sequence(slots, instance_index) {
                    Some(new) => new,
                    None => continue,
                },
            };
            write(&mut TraceContext { sequence, scratch, clock, instance_index });
        }
    }

    /// Does what sessions asked for, and drops the writers of those that ended.
    #[cold]
    fn catch_up(&self, sequences: &mut Sequences<T>) {
        let state = self.state();
        let mut ended = Vec::new();
        for (place, slot) in sequences.slots.iter_mut().zip(&state.slots) {
            let Some(sequence) = place else {
                continue;
            };
            let id = slot.instance.as_ref().map(|instance| instance.id);
            if id != Some(sequence.instance.id) || sequence.writer.is_null() {
                ended.extend(place.take());
                continue;
            }
            if std::mem::replace(&mut sequence.flushes, slot.flushes) != slot.flushes {
                sequence.writer.flush();
            }
            if std::mem::replace(&mut sequence.clears, slot.clears) != slot.clears {
                sequence.incremental = None;
            }
        }
        // What users keep there may have a destructor that comes back here.
        drop(state);
        drop(ended);
    }

    /// The first of this thread for this session.
    #[cold]
    fn add_sequence<'a>(
        &self,
        slots: &'a mut Vec<Option<Sequence<T>>>,
        slot: usize,
    ) -> Option<&'a mut Sequence<T>> {
        let new = self.new_sequence(slot)?;
        if slots.len() <= slot {
            slots.resize_with(slot + 1, || None);
        }
        Some(slots.get_mut(slot)?.insert(new))
    }

    fn new_sequence(&self, slot: usize) -> Option<Sequence<T>> {
        let (instance, flushes, clears) = {
            let state = self.state();
            let slot = state.slots.get(slot)?;
            (Arc::clone(slot.instance.as_ref()?), slot.flushes, slot.clears)
        };
        Some(Sequence {
            writer: instance.create_writer(),
            instance,
            incremental: None,
            thread_state: T::ThreadState::default(),
            drop_count: 0,
            flushes,
            clears,
        })
    }

    fn register_quietly(
        &'static self,
        descriptor: DataSourceDescriptor,
        factory: Factory<T>,
    ) -> Result<(), RegisterError> {
        let name = descriptor.name().to_owned();
        if name.is_empty() {
            return Err(RegisterError::WithoutName);
        }
        {
            let mut state = self.state();
            if let Some(known) = &state.registration {
                let name = known.descriptor.name().to_owned();
                return Err(RegisterError::AlreadyRegistered { name });
            }
            state.registration = Some(Registration { descriptor: complete::<T>(descriptor), factory });
            state.has_news = true;
        }
        // Without the lock, which this takes again.
        match runtime::add_source(self) {
            Ok(number) => {
                // Below `MAX_SOURCES`.
                self.number.store(number as u32, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                self.state().registration = None;
                Err(match error {
                    AddError::TooMany => RegisterError::TooMany,
                    AddError::NameTaken => RegisterError::NameTaken { name },
                })
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instance(&self, slot: usize) -> Option<Arc<Instance<T>>> {
        self.state().slots.get(slot)?.instance.clone()
    }

    fn change(&self, slot: usize, change: impl FnOnce(&mut Slot<T>)) {
        if let Some(slot) = self.state().slots.get_mut(slot) {
            change(slot);
            self.announce();
        }
    }

    /// Has threads look at the slots.
    fn announce(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Calls the object of a session.
    fn call<R>(&self, slot: usize, stage: &mut Stage<'_>, callback: impl FnOnce(&mut T) -> R) -> Option<R> {
        let instance = self.instance(slot)?;
        // Nobody holds it on this thread: callbacks come one at a time.
        stage.call(|| instance.lock().map(|mut value| callback(&mut value))).flatten()
    }
}

impl<T: DataSource> Source for DataSourceHandle<T> {
    fn name(&self) -> String {
        let state = self.state();
        state.registration.as_ref().map_or("", |registration| registration.descriptor.name()).to_owned()
    }

    fn descriptor(&self) -> Bytes {
        let state = self.state();
        state
            .registration
            .as_ref()
            .map(|registration| registration.descriptor.encode_to_vec().into())
            .unwrap_or_default()
    }

    fn take_news(&self) -> bool {
        std::mem::take(&mut self.state().has_news)
    }

    fn setup(&self, setup: &Setup, stage: &mut Stage<'_>) -> Result<usize, String> {
        let (slot, factory) = {
            let state = self.state();
            let is_alone = state.slots.iter().all(|slot| slot.instance.is_none());
            let free = state.slots.iter().position(|slot| slot.instance.is_none());
            let free = free.filter(|_| is_alone || T::MULTIPLE_INSTANCES);
            let (Some(slot), Some(registration)) = (free, &state.registration) else {
                return Err(TOO_MANY_SESSIONS.to_owned());
            };
            (slot, Arc::clone(&registration.factory))
        };
        let args = SetupArgs { config: &setup.config, instance_index: slot, backend: setup.backend };
        let value = stage.call(|| {
            let mut value = factory();
            value.on_setup(&args);
            value
        });
        let value = value.ok_or("its callback has panicked")?;
        let policy = match T::POLICY_FROM_CONFIG {
            true => setup.config.exhausted_policy(T::EXHAUSTED_POLICY),
            false => T::EXHAUSTED_POLICY,
        };
        let instance = Instance::new(value, Arc::clone(&setup.arbiter), setup.target_buffer(), policy);
        // The background thread alone gives slots out.
        self.change(slot, |slot| slot.instance = Some(Arc::new(instance)));
        Ok(slot)
    }

    fn start(&self, slot: usize, ack: Ack, stage: &mut Stage<'_>) {
        // Release: whoever sees the bit is to see the session behind it.
        self.enabled.fetch_or(1 << slot, Ordering::Release);
        self.call(slot, stage, |value| value.on_start(ack));
    }

    fn stop(&self, slot: usize, ack: Ack, stage: &mut Stage<'_>) {
        self.call(slot, stage, |value| value.on_stop(ack));
    }

    fn stopped(&self, slot: usize, stage: &mut Stage<'_>) {
        self.enabled.fetch_and(!(1 << slot), Ordering::Relaxed);
        let instance = {
            let mut state = self.state();
            let instance = state.slots.get_mut(slot).and_then(|slot| slot.instance.take());
            self.announce();
            instance
        };
        if let Some(instance) = &instance {
            instance.end_waits();
        }
        // The user's destructor, if no thread still holds it.
        stage.call(|| drop(instance));
    }

    fn flush(&self, slot: usize, flags: u64, ack: Ack, stage: &mut Stage<'_>) {
        self.change(slot, |slot| slot.flushes = slot.flushes.wrapping_add(1));
        self.call(slot, stage, |value| value.on_flush(FlushFlags(flags), ack));
    }

    fn clear_incremental_state(&self, slot: usize, stage: &mut Stage<'_>) {
        if self.call(slot, stage, T::will_clear_incremental_state) == Some(true) {
            self.change(slot, |slot| slot.clears = slot.clears.wrapping_add(1));
        }
    }

    fn flush_thread(&self, slot: usize) {
        thread::flush(self.number.load(Ordering::Relaxed) as usize, slot);
    }

    fn lock_for_fork(&'static self) -> Box<dyn Held> {
        Box::new(self.state())
    }

    fn forked(&self, revives: bool) {
        let mut state = self.state();
        state.has_news = true;
        for slot in &mut state.slots {
            std::mem::forget(slot.instance.take());
        }
        self.enabled.store(if revives { REVIVES } else { 0 }, Ordering::Relaxed);
        self.announce();
    }
}

impl<T: DataSource> Default for DataSourceHandle<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: DataSource> fmt::Debug for DataSourceHandle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DataSourceHandle").field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

/// With what follows from the type.
fn complete<T: DataSource>(descriptor: DataSourceDescriptor) -> DataSourceDescriptor {
    DataSourceDescriptor {
        id: descriptor.id.or_else(|| Some(fnv1a(descriptor.name().as_bytes()))),
        // The answers of callbacks.
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        handles_incremental_state_clear: Some(T::CLEARS_INCREMENTAL_STATE),
        no_flush: Some(T::NO_FLUSH),
        ..descriptor
    }
}
