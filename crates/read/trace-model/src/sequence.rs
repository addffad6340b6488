//! What a sequence of packets has said before.
//!
//! Texts and stacks are written once and then named by numbers (`iid`), and defaults are said once. Both are of a *generation*: they hold
//! until a packet says that they were cleared, or that packets before it are missing (upstream: packet_sequence_state_generation.h,
//! proto_trace_reader.cc).
//!
//! Memory: what was interned, in sum not more than the trace itself.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use ferretto_protos::fields::{interned_data, trace_packet_defaults};
use ferretto_trace_read::fields::{Fields, Value};
use ferretto_trace_read::{Change, Continuity, Head, Place};
use ferretto_trace_tables::{Str, Strings};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::args::ArgValue;
use crate::import_logs::Where;
use crate::model::Model;
use crate::profiles::Kept;
use crate::stats::Stat;
use crate::trace_stats::Losses;
use crate::track_event::WriterId;
use crate::track_event::running::{Running, ThreadCell};

/// How often what a sequence has interned is copied because numbers were given anew after a loss. Ours: it bounds what a hostile trace costs;
/// losses are few.
const MAX_GIVEN_ANEW: u32 = 64;

/// What a number stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Interned {
    /// A text: names, categories, paths, build ids in their bytes.
    Text(Str),
    /// Any other message, as it was written.
    Message(Rc<[u8]>),
}

/// The field number in `InternedData`, and the number.
type Key = (u32, u64);

/// What holds between two clearings.
#[derive(Debug, Default)]
pub struct Generation {
    interned: RefCell<HashMap<Key, Interned, RandomState>>,
    defaults: Defaults,
    /// What profiles have found behind numbers; other defaults and lost packets do not change it.
    pub profiles: Rc<RefCell<Kept>>,
    /// The thread that its events are of; later generations begin with the same.
    pub thread: Rc<ThreadCell>,
    /// Something of it was lost, and it is kept all the same: what numbers stand for may be of before.
    pub is_doubtful: bool,
    /// The number of this generation among those that have written events of programs.
    pub writer: Cell<Option<WriterId>>,
}

/// `TracePacketDefaults`.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// The clock of timestamps that name none.
    pub clock_id: Option<u32>,
    /// All of the message, if one was said.
    pub message: Option<Rc<[u8]>>,
    /// `track_event_defaults.track_uuid`.
    pub track_uuid: Option<u64>,
}

impl Generation {
    /// The text behind a number.
    #[must_use]
    pub fn text(&self, field: u32, iid: u64) -> Option<Str> {
        match self.interned.borrow().get(&(field, iid)) {
            Some(Interned::Text(text)) => Some(*text),
            _ => None,
        }
    }

    /// The message behind a number.
    #[must_use]
    pub fn message(&self, field: u32, iid: u64) -> Option<Rc<[u8]>> {
        match self.interned.borrow().get(&(field, iid)) {
            Some(Interned::Message(message)) => Some(message.clone()),
            _ => None,
        }
    }

    /// What holds where a packet says nothing.
    #[must_use]
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// All that is interned.
    pub fn interned(&self) -> Ref<'_, HashMap<Key, Interned, RandomState>> {
        self.interned.borrow()
    }
}

/// A sequence, in the order of the file.
#[derive(Debug, Default)]
pub struct Sequence {
    generation: Rc<Generation>,
    continuity: Continuity,
    /// Has been met.
    pub has_begun: bool,
    /// What was lost of it.
    pub losses: Losses,
    /// Its first packet is in the trace.
    pub has_first_packet: bool,
    /// What events of programs count on from.
    pub running: Running,
    /// How often numbers were given anew after a loss.
    given_anew: u32,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can be read.
    Readable,
    /// It relies on what is missing.
    Unreadable,
}

impl Sequence {
    /// What holds now.
    #[must_use]
    pub fn generation(&self) -> &Rc<Generation> {
        &self.generation
    }

    /// Takes note of a packet's flags, defaults and interned data, in this order.
    #[inline]
    pub fn arrive(&mut self, head: &Head<'_>, model: &mut Model, place: Place) {
        self.has_begun = true;
        self.has_first_packet |= head.is_first_on_sequence;
        if !head.is_on_sequence {
            return log_what_needs_a_sequence(head, model, place);
        }
        match self.continuity.arrive(head) {
            Change::Cleared => self.clear(),
            Change::Lost => {
                let kept = model.keeps_lost.then(|| self.generation.defaults.clone());
                self.renew(kept.unwrap_or_default());
                self.running = Running::default();
            }
            Change::None => {}
        }
        if let Some(defaults) = head.defaults {
            self.renew(Defaults::of(defaults));
        }
        if let Some(interned) = head.interned_data {
            if self.continuity.is_valid() {
                self.intern(interned, &mut model.tables.strings);
            } else if model.keeps_lost {
                self.intern_anew(interned, &mut model.tables.strings);
            } else {
                self.log_skipped(Stat::InternedDataSkippedIncrementalStateInvalid, head, model, place);
            }
        }
    }

    /// Whether a packet that has arrived can be read.
    #[inline]
    pub fn judge(&mut self, head: &Head<'_>, model: &mut Model, place: Place) -> Verdict {
        if !head.needs_state() {
            return Verdict::Readable;
        }
        self.losses.needed = self.losses.needed.saturating_add(1);
        if self.continuity.can_read(head) {
            return Verdict::Readable;
        }
        // Without its defaults nobody knows by which clock it says its time.
        if model.keeps_lost && (head.clock_id.is_some() || self.generation.defaults.message.is_some()) {
            self.doubt();
            model.stats.add(Stat::PacketsKeptAfterLoss, Some(i64::from(head.sequence_id)), 1);
            return Verdict::Readable;
        }
        self.losses.skipped = self.losses.skipped.saturating_add(1);
        self.log_skipped(Stat::PacketSkippedSeqNeedsIncrementalStateInvalid, head, model, place);
        Verdict::Unreadable
    }

    #[cold]
    fn log_skipped(&self, stat: Stat, head: &Head<'_>, model: &mut Model, place: Place) {
        let args = [("packet_sequence_id", ArgValue::Uint(u64::from(head.sequence_id)))];
        model.log(stat, Some(Where::At(place)), &args);
    }

    fn clear(&mut self) {
        let thread = self.next_thread();
        self.generation = Rc::new(Generation { thread, ..Generation::default() });
        self.running = Running::default();
    }

    /// What is read from now on, up to where the sequence begins anew, may rely on what was lost.
    fn doubt(&mut self) {
        if self.generation.is_doubtful {
            return;
        }
        self.renew(self.generation.defaults.clone());
        if let Some(generation) = Rc::get_mut(&mut self.generation) {
            generation.is_doubtful = true;
        }
    }

    /// After a loss the last one counts, for a number may have been given anew meanwhile. What came before keeps what it knew.
    fn intern_anew(&mut self, data: &[u8], strings: &mut Strings) {
        let entries: Vec<_> = Fields::new(data)
            .whole()
            .filter_map(|field| {
                let (iid, value) = read_entry(field.number, field.value.as_bytes()?, strings)?;
                Some(((field.number, iid), value))
            })
            .collect();
        let interned = self.generation.interned.borrow();
        let is_other = |(key, value): &(Key, Interned)| interned.get(key).is_some_and(|old| old != value);
        let has_others = entries.iter().any(is_other);
        drop(interned);
        if has_others && self.given_anew < MAX_GIVEN_ANEW {
            self.given_anew += 1;
            self.renew(self.generation.defaults.clone());
        }
        self.generation.interned.borrow_mut().extend(entries);
    }

    /// A generation with other defaults, and what was interned before.
    fn renew(&mut self, defaults: Defaults) {
        let profiles = self.generation.profiles.clone();
        let thread = self.next_thread();
        let interned = match Rc::get_mut(&mut self.generation) {
            Some(mine) => std::mem::take(&mut mine.interned),
            None => self.generation.interned.clone(),
        };
        let is_doubtful = self.generation.is_doubtful;
        self.generation = Rc::new(Generation {
            interned,
            defaults,
            profiles,
            thread,
            is_doubtful,
            writer: Cell::default(),
        });
    }

    /// A generation's own, for it may be told another.
    fn next_thread(&self) -> Rc<ThreadCell> {
        Rc::new(ThreadCell::new(self.generation.thread.get()))
    }

    /// Nothing of what was interned is missing.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.continuity.is_valid()
    }

    fn intern(&mut self, data: &[u8], strings: &mut Strings) {
        let mut interned = self.generation.interned.borrow_mut();
        for field in Fields::new(data).whole() {
            let Value::Bytes(entry) = field.value else { continue };
            let Some((iid, value)) = read_entry(field.number, entry, strings) else { continue };
            // The first one stays (upstream: packet_sequence_state_generation.cc).
            interned.entry((field.number, iid)).or_insert(value);
        }
    }
}

/// A packet of no sequence can neither clear nor intern anything.
fn log_what_needs_a_sequence(head: &Head<'_>, model: &mut Model, place: Place) {
    let log = |model: &mut Model, stat| model.log(stat, Some(Where::At(place)), &[]);
    if head.clears_state() {
        log(model, Stat::IncrementalStateClearedMissingSequenceId);
    } else if head.previous_packet_dropped != 0 {
        log(model, Stat::PreviousPacketDroppedMissingSequenceId);
    }
    if head.defaults.is_some() {
        log(model, Stat::TracePacketDefaultsMissingSequenceId);
    }
    if head.interned_data.is_some() {
        log(model, Stat::InternedDataMissingSequenceId);
    }
}

/// Entries are a number in field 1 and, where they are texts, the text in field 2.
fn read_entry(field: u32, entry: &[u8], strings: &mut Strings) -> Option<(u64, Interned)> {
    let mut iid = None;
    let mut text = &b""[..];
    for part in Fields::new(entry).whole() {
        match (part.number, part.value) {
            (1, value) => iid = value.as_u64(),
            (2, Value::Bytes(bytes)) => text = bytes,
            _ => {}
        }
    }
    let value = match is_text(field) {
        true => Interned::Text(strings.intern_bytes(text)),
        false => Interned::Message(entry.into()),
    };
    Some((iid?, value))
}

fn is_text(field: u32) -> bool {
    use interned_data as name;
    matches!(
        field,
        name::EVENT_CATEGORIES
            | name::EVENT_NAMES
            | name::DEBUG_ANNOTATION_NAMES
            | name::DEBUG_ANNOTATION_VALUE_TYPE_NAMES
            | name::DEBUG_ANNOTATION_STRING_VALUES
            | name::CORRELATION_ID_STR
            | name::MAPPING_PATHS
            | name::SOURCE_PATHS
            | name::FUNCTION_NAMES
            | name::LOG_MESSAGE_BODY
            | name::KERNEL_SYMBOLS
    )
}

impl Defaults {
    fn of(message: &[u8]) -> Self {
        let mut defaults = Self { message: Some(message.into()), ..Self::default() };
        for field in Fields::new(message).whole() {
            match (field.number, field.value) {
                (trace_packet_defaults::TIMESTAMP_CLOCK_ID, value) => {
                    defaults.clock_id = value.as_u64().and_then(|id| u32::try_from(id).ok());
                }
                (trace_packet_defaults::TRACK_EVENT_DEFAULTS, Value::Bytes(event)) => {
                    let mut fields = Fields::new(event).whole();
                    let is_uuid =
                        |number| number == ferretto_protos::fields::track_event_defaults::TRACK_UUID;
                    defaults.track_uuid =
                        fields.find(|field| is_uuid(field.number)).and_then(|field| field.value.as_u64());
                }
                _ => {}
            }
        }
        defaults
    }
}
