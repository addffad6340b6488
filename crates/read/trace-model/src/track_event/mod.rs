//! Events of programs: what their tracks are, and what happens on them.
//!
//! Most events are small and plain: what they say is resolved when they arrive, and sixteen bytes wait for their turn. Those that say more, or
//! whose meaning depends on what comes later, are kept whole and read in their turn.
//!
//! | module | what it does |
//! |---|---|
//! | [`descriptor`] | what programs say of their tracks |
//! | [`resolve`] | whose a track is, and which row |
//! | [`arrive`] | an event out of its packet, in the order of the file |
//! | `usual` | the same for what most events say, quickly |
//! | `fields` | its fields |
//! | [`names`] | its name and categories |
//! | [`running`] | times and counters that are differences |
//! | [`apply`] | a plain event in its turn |
//! | `whole` | one that was kept whole |
//! | [`legacy`] | the old phases |
//! | `said` | its arguments |
//! | [`annotation`] | arguments out of debug annotations |
//! | `json` | arguments out of JSON |
//! | [`reflect`] | arguments out of any message that a descriptor is known of |
//! | `chrome`, `chrome_people` | the messages of Chrome; its kinds of processes and threads |
//! | `people` | descriptors of threads and processes in their turn: names |

pub mod annotation;
pub mod apply;
pub mod arrive;
mod chrome;
mod chrome_people;
pub mod descriptor;
mod fields;
mod json;
pub mod legacy;
pub mod names;
mod people;
pub mod reflect;
pub mod resolve;
pub mod running;
pub(crate) mod said;
pub(crate) mod usual;
mod whole;

pub(crate) use said::base64;

use std::rc::Rc;

use ferretto_trace_tables::MachineId;

use crate::args::ArgList;
use crate::order::waits;
use crate::sequence::Generation;
use descriptor::TrackRef;
use names::LabelId;
use running::ThreadCell;

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A slice begins.
    Begin(Said),
    /// A slice ends.
    End(Said),
    /// Something happens at once.
    Instant(Said),
    /// A counter has a value.
    Counter(f64),
    /// More, or something else: the number of the event among `Waiting::whole`.
    Whole(u32),
}

/// What is said of a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said {
    /// Its name and categories.
    pub label: LabelId,
    /// Its arguments.
    pub args: ArgList,
}

/// An event that waits for its turn. Small: a trace has millions.
#[derive(Clone, Copy, Debug)]
pub struct TrackEvent {
    /// Its track.
    track: TrackRef,
    /// Who wrote it, and which [`Kind`] it is in the upper three bits.
    writer_and_kind: u32,
    /// What of `Kind`.
    data: [u32; 2],
}

const KIND_SHIFT: u32 = 29;

impl TrackEvent {
    fn new(track: TrackRef, writer: WriterId, kind: Kind) -> Self {
        let said = |said: Said| [said.label.0, said.args.number()];
        let (tag, data) = match kind {
            Kind::Begin(it) => (0, said(it)),
            Kind::End(it) => (1, said(it)),
            Kind::Instant(it) => (2, said(it)),
            Kind::Counter(value) => {
                let bits = value.to_bits();
                (3, [bits as u32, (bits >> 32) as u32])
            }
            Kind::Whole(index) => (4, [index, 0]),
        };
        Self { track, writer_and_kind: writer.0 | tag << KIND_SHIFT, data }
    }

    #[inline]
    fn kind(&self) -> Kind {
        let [first, second] = self.data;
        let said = Said { label: LabelId(first), args: ArgList::from_number(second) };
        match self.writer_and_kind >> KIND_SHIFT {
            0 => Kind::Begin(said),
            1 => Kind::End(said),
            2 => Kind::Instant(said),
            3 => Kind::Counter(f64::from_bits(u64::from(first) | u64::from(second) << 32)),
            _ => Kind::Whole(first),
        }
    }

    #[inline]
    fn writer(&self) -> WriterId {
        WriterId(self.writer_and_kind & WriterId::MAX)
    }
}

waits! {
    TrackEvent {
        track: u32 = |it| it.track.0,
        // What is the same of neighbours stands above what is not.
        writer_and_kind: u32 = |it| it.writer_and_kind.rotate_left(u32::BITS - KIND_SHIFT),
        first: u32 = |it| it.data[0],
        // Most have no arguments, those that have come with numbers that are near.
        second: Option<u32> = |it| Some(it.data[1]).filter(|number| *number != 0),
    } => Self {
        track: TrackRef(track),
        writer_and_kind: writer_and_kind.rotate_right(u32::BITS - KIND_SHIFT),
        data: [first, second.unwrap_or(0)],
    }
}

/// Who wrote an event: a generation of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterId(u32);

impl WriterId {
    /// Further ones are taken for the last. Ours: it leaves room for [`Kind`].
    const MAX: u32 = (1 << KIND_SHIFT) - 1;

    /// It may be several.
    pub(crate) fn is_last(self) -> bool {
        self.0 == Self::MAX
    }
}

/// What of a generation of a sequence its events need in their turn.
#[derive(Clone, Debug)]
struct Writer {
    /// The thread that it is of, if one was ever named. It may be named anew.
    thread: Rc<ThreadCell>,
    /// The first packet of the sequence is in the trace.
    has_first_packet: bool,
}

/// What events wait for their turn with.
#[derive(Debug, Default)]
pub struct Waiting {
    writers: Vec<Writer>,
    /// Events that were kept whole, each until its turn.
    whole: Vec<Option<Box<WholeEvent>>>,
}

/// An event that is read in its turn.
#[derive(Debug)]
struct WholeEvent {
    message: Box<[u8]>,
    state: Rc<Generation>,
    machine: MachineId,
    thread_ts: Option<i64>,
    instructions: Option<i64>,
    counter: f64,
    extra_counters: Vec<f64>,
}
