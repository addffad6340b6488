//! The kernel's events: bundles of them out of packets, and what each does in its turn.
//!
//! A bundle has the events of one processor. When it arrives its bytes are kept, or where they can be read again. Where its events are in order, and their clock is the trace's,
//! they wait there; otherwise each event becomes a few numbers that wait in that processor's queue: its time, whose it is, which it is, and
//! where in the bundle its fields lie. Scheduling may come in a compact form
//! instead, column by column, and has queues of its own then. In its turn an event becomes a row of `ftrace_event`, and most do more.
//!
//! | module | what it does |
//! |---|---|
//! | [`bundle`] | a bundle arrives: its clock, its events, since when it is whole |
//! | [`compact`] | scheduling in its compact form |
//! | [`windows`] | which events are too early, and when the trace is whole on all processors |
//! | [`raw`] | the rows of `ftrace_event`, and the arguments of events by their numbers |
//! | [`kept`] | arguments that are made when they are asked for |
//! | [`payload`], [`numbers`] | the fields of an event, and their numbers |
//! | [`apply`] | which event does what |
//! | [`comms`] | the kernel's names of threads |
//! | [`tasks`] | threads and processes that begin, end and are renamed |
//! | [`generic`] | events that have no message of their own, and those that say which track they are for |
//! | [`on_tracks`] | slices and values of counters, for the modules below |
//! | [`interrupts`], [`threads`], [`counters`], [`memory`], [`net`], [`power`], [`files`], [`storage`], [`drm`] | what other events do |
//! | [`own_time`] | events of devices that say themselves when it was |
//! | [`syscalls`] | calls into the kernel, by name |
//! | [`atrace`] | what programs write into `trace_marker` |
//! | [`text`] | all of these, where a text says them |
//! | [`statistics`] | what the kernel and the recorder counted |
//!
//! Memory: the bytes of the bundles, unless these can be read again, some ten bytes an event that waits outside of them, and its rows. Nothing is
//! allocated for an event alone.

pub mod apply;
pub mod atrace;
pub mod bundle;
pub mod comms;
pub mod compact;
pub mod counters;
pub mod drm;
pub mod files;
pub mod generic;
pub mod interrupts;
pub mod kept;
pub mod memory;
pub mod net;
pub mod numbers;
pub mod on_tracks;
pub mod own_time;
pub mod payload;
pub mod power;
pub mod raw;
pub mod statistics;
pub mod storage;
pub mod syscalls;
pub mod tasks;
pub mod text;
pub mod threads;
pub mod windows;

use std::rc::Rc;
use std::sync::Arc;

use ferretto_trace_tables::store::{Place, Store};
use ferretto_trace_tables::{MachineId, Str};
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::again::Keep;
use crate::generic_kernel::GenericKernel;
use crate::order::waits;
use crate::sched::Running;
use crate::sequence::Generation;

/// A processor of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The machine.
    pub machine: MachineId,
    /// Its number there, below [`MAX_CPUS`].
    pub cpu: u32,
}

/// Numbers of processors are below this. Upstream's; nobody has recorded a machine with more.
pub const MAX_CPUS: u32 = 1024;

/// The queues of a processor.
#[derive(Clone, Copy, Debug)]
enum QueueKind {
    Events,
    Switches,
    Wakings,
}

/// An event that waits.
#[derive(Clone, Copy, Debug)]
pub struct KernelEvent {
    /// The number of its bundle.
    pub bundle: u32,
    /// Where its fields begin there.
    pub at: u32,
    /// How many bytes they are.
    pub len: u32,
    /// The field number of its message in `FtraceEvent`: which event it is.
    pub field: u32,
    /// The thread that it happened in.
    pub tid: Option<u32>,
}

waits! {
    KernelEvent {
        bundle: u32,
        at: u32,
        len: u32,
        field: u32,
        tid: Option<u32>,
    }
}

/// A switch in its compact form, which leaves out what the last one of the processor said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Switch {
    /// What the last thread did then, as the kernel says it.
    pub prev_state: i64,
    /// The thread that runs now.
    pub next_pid: i32,
    /// Its priority.
    pub next_prio: i32,
    /// Its name.
    pub next_comm: Option<Str>,
}

waits! {
    Switch {
        prev_state: i64,
        next_pid: i32,
        next_prio: i32,
        next_comm: Option<Str>,
    }
}

/// A wake-up in its compact form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waking {
    /// Who is woken.
    pub pid: i32,
    /// Where it is to run.
    pub target_cpu: u16,
    /// Its priority.
    pub prio: u16,
    /// The kernel's flags: interrupts, preemption.
    pub common_flags: u16,
    /// Its name.
    pub comm: Option<Str>,
}

waits! {
    Waking {
        pid: i32,
        target_cpu: u16,
        prio: u16,
        common_flags: u16,
        comm: Option<Str>,
    }
}

/// The bytes of a bundle, and what its sequence had interned.
#[derive(Debug)]
pub struct Bundle {
    /// `FtraceEventBundle`. Events that wait in it have it, too.
    pub(crate) bytes: Arc<Keep>,
    /// The names of the kernel's functions.
    pub state: Rc<Generation>,
}

impl Bundle {
    /// The fields of an event.
    #[must_use]
    pub fn payload(&self, event: &KernelEvent) -> &[u8] {
        let (at, len) = (event.at as usize, event.len as usize);
        self.bytes.get().get(at..at.saturating_add(len)).unwrap_or_default()
    }
}

/// What is known of a machine's kernel.
#[derive(Debug, Default)]
pub struct Kernel {
    /// Its version, by `uname`.
    pub version: Option<(u32, u32)>,
    /// Its kind of processors, by `uname`.
    pub arch: Option<Str>,
    /// By kind: processors of lower numbers have a queue.
    made_queues: [u32; 3],
    /// Which events are too early.
    pub windows: windows::Windows,
    /// By processor: what runs.
    pub(crate) running: Vec<Running>,
    /// The `ftrace_timestamp` of the last pair of times that a bundle brought.
    last_clock_pair: Option<u64>,
    /// Sequences that have said what could not be set up.
    told_errors: HashSet<u32, RandomState>,
    pub(crate) generic: generic::Generic,
    /// Its tasks, if it is not Linux.
    pub(crate) not_linux: GenericKernel,
    syscalls: syscalls::Syscalls,
    memory: memory::Memory,
    own_times: own_time::OwnTimes,
    net: net::Net,
    power: power::Power,
    drm: drm::Drm,
    i2c_transfers: threads::I2cTransfers,
    cma_migrations: threads::CmaMigrations,
}

/// What is kept of all bundles.
#[derive(Debug, Default)]
pub struct Bundles {
    all: Vec<Waiting>,
    /// Those before this one lie in the store if they can.
    moved: usize,
    store: Option<Arc<dyn Store>>,
}

/// A bundle, while events of it wait.
#[derive(Debug)]
struct Waiting {
    bundle: Where,
    /// So many.
    events: u32,
}

#[derive(Debug)]
enum Where {
    /// No event of it waits.
    Gone,
    Here(Rc<Bundle>),
    /// In the store: so many bytes.
    There(Place, usize, Rc<Generation>),
}

impl Bundles {
    /// The bundle of a number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Rc<Bundle>> {
        match &self.all.get(number as usize)?.bundle {
            Where::Here(bundle) => Some(bundle),
            Where::Gone | Where::There(..) => None,
        }
    }

    /// All that waits lies in the store. Called again, also what has come since.
    pub(crate) fn move_to(&mut self, store: &Arc<dyn Store>) {
        for waiting in self.all.iter_mut().skip(self.moved) {
            let Where::Here(bundle) = &waiting.bundle else { continue };
            if Arc::strong_count(&bundle.bytes) > 1 || !bundle.bytes.are_here() {
                // Events wait in it, or it is in no memory: it stays.
                continue;
            }
            let words: Vec<u64> = bundle.bytes.get().chunks(WORD_BYTES).map(word).collect();
            if let Some(place) = store.put(&words) {
                waiting.bundle = Where::There(place, bundle.bytes.len(), bundle.state.clone());
            }
        }
        self.moved = self.all.len();
        self.store = Some(store.clone());
    }

    /// Whether bundles lie in a store.
    fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// The number that the next bundle has.
    fn next(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// Keeps a bundle of which so many events wait.
    fn push(&mut self, bundle: Bundle, events: usize) {
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        let bundle = if events > 0 { Where::Here(Rc::new(bundle)) } else { Where::Gone };
        self.all.push(Waiting { bundle, events });
    }

    /// The bundle of an event whose turn it is. With the last of them it goes, unless it is to be `kept`.
    #[inline]
    fn take_turn(&mut self, number: u32, kept: bool) -> Option<Rc<Bundle>> {
        let waiting = self.all.get_mut(number as usize)?;
        waiting.events = waiting.events.saturating_sub(1);
        if let Where::There(place, len, state) = &waiting.bundle {
            let bundle = from_store(self.store.as_ref()?, *place, *len, state.clone());
            waiting.bundle = Where::Here(Rc::new(bundle));
        }
        match (&waiting.bundle, waiting.events == 0 && !kept) {
            (Where::Here(_), true) => match std::mem::replace(&mut waiting.bundle, Where::Gone) {
                Where::Here(bundle) => Some(bundle),
                _ => None,
            },
            (Where::Here(bundle), false) => Some(bundle.clone()),
            _ => None,
        }
    }

    /// Bytes of memory that it holds.
    fn memory_bytes(&self) -> usize {
        let bytes = |waiting: &Waiting| match &waiting.bundle {
            Where::Here(bundle) if bundle.bytes.are_here() => bundle.bytes.len(),
            Where::Here(_) => 0,
            Where::Gone | Where::There(..) => 0,
        };
        self.all.iter().map(bytes).sum::<usize>() + self.all.capacity() * size_of::<Waiting>()
    }
}

const WORD_BYTES: usize = size_of::<u64>();

/// Up to eight bytes as a word.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_BYTES];
    word.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
    u64::from_le_bytes(word)
}

#[cold]
fn from_store(store: &Arc<dyn Store>, place: Place, len: usize, state: Rc<Generation>) -> Bundle {
    let words = store.get(place);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(len).collect();
    Bundle { bytes: Arc::new(Keep::new(&bytes, None)), state }
}
