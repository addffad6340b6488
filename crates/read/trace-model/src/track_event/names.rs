//! The name and the categories of an event (upstream: track_event_event_importer.h).

use ferretto_protos::fields::{interned_data, track_event as field};
use ferretto_trace_read::fields::{Fields, Value};
use ferretto_trace_tables::{Str, Strings};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::fields::EventFields;
use crate::sequence::Generation;

/// Categories that one event names. Ours: it bounds what a hostile one costs.
const MAX_CATEGORIES: usize = 256;

/// A name and categories: a place among those of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelId(pub u32);

/// All pairs of categories and name.
#[derive(Debug)]
pub struct Labels {
    all: Vec<(Option<Str>, Option<Str>)>,
    ids: HashMap<(Option<Str>, Option<Str>), u32, RandomState>,
    /// What was found by numbers lately.
    recent: Vec<Recent>,
}

/// A category and a name by their numbers in a generation of a sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// 1 more than it; 0 is an empty place.
    writer: u32,
    category: u64,
    name: u64,
    label: u32,
}

/// Places for what was found lately. Ours: programs have some hundreds of trace points, and this fits into the processor's cache.
const RECENT: usize = 1024;

impl Default for Labels {
    fn default() -> Self {
        let mut labels =
            Self { all: Vec::new(), ids: HashMap::default(), recent: vec![Recent::default(); RECENT] };
        labels.intern(None, None);
        labels
    }
}

impl Labels {
    /// The place of a pair.
    #[inline]
    pub fn intern(&mut self, category: Option<Str>, name: Option<Str>) -> LabelId {
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        LabelId(*self.ids.entry((category, name)).or_insert_with(|| {
            self.all.push((category, name));
            next
        }))
    }

    /// What was found by these numbers, if it was lately. (What a number stands for does not change within a generation.)
    #[inline]
    pub(super) fn recent(&self, writer: u32, category: u64, name: u64) -> Option<LabelId> {
        let recent = self.recent.get(place_of(writer, category, name))?;
        let is_it = (recent.writer, recent.category, recent.name) == (writer.wrapping_add(1), category, name);
        is_it.then_some(LabelId(recent.label))
    }

    pub(super) fn remember(&mut self, writer: u32, category: u64, name: u64, label: LabelId) {
        if let Some(recent) = self.recent.get_mut(place_of(writer, category, name)) {
            *recent = Recent { writer: writer.wrapping_add(1), category, name, label: label.0 };
        }
    }

    /// The pair: categories, name.
    #[inline]
    #[must_use]
    pub fn get(&self, label: LabelId) -> (Option<Str>, Option<Str>) {
        self.all.get(label.0 as usize).copied().unwrap_or_default()
    }
}

#[inline]
fn place_of(writer: u32, category: u64, name: u64) -> usize {
    let mixed = name.wrapping_mul(17) ^ category.wrapping_mul(257) ^ u64::from(writer).wrapping_mul(31);
    mixed as usize % RECENT
}

/// A text behind a number, or that it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Known(Option<Str>),
    /// The number has no text, so far.
    Missing,
}

/// The name. A number wins over a text, also if nothing is behind it.
#[inline]
pub(super) fn name(fields: &EventFields<'_>, iid: u64, state: &Generation, strings: &mut Strings) -> Found {
    match (iid, fields.name) {
        (0, Some(name)) => Found::Known(Some(strings.intern_bytes(name))),
        (0, None) => Found::Known(None),
        (iid, _) => match state.text(interned_data::EVENT_NAMES, iid) {
            Some(name) => Found::Known(Some(name)),
            None => Found::Missing,
        },
    }
}

/// The categories, joined by commas.
#[inline]
pub(super) fn category(fields: &EventFields<'_>, state: &Generation, strings: &mut Strings) -> Found {
    match (fields.categories.count, fields.categories.iid, fields.categories.text) {
        (0, ..) => Found::Known(None),
        (1, Some(iid), _) => match state.text(interned_data::EVENT_CATEGORIES, iid) {
            Some(name) => Found::Known(Some(name)),
            None => Found::Missing,
        },
        (1, None, Some(text)) => Found::Known(Some(strings.intern_bytes(text))),
        _ => joined(fields, state, strings),
    }
}

/// Those by number first.
fn joined(fields: &EventFields<'_>, state: &Generation, strings: &mut Strings) -> Found {
    let (mut by_number, mut by_text) = (String::new(), String::new());
    let mut is_missing = false;
    for part in Fields::new(fields.message).whole().take(MAX_CATEGORIES) {
        let (to, text) = match (part.number, part.value) {
            (field::CATEGORY_IIDS, Value::Varint(iid)) => {
                let Some(name) = state.text(interned_data::EVENT_CATEGORIES, iid) else {
                    is_missing = true;
                    continue;
                };
                (&mut by_number, strings.get(name).to_owned())
            }
            (field::CATEGORIES, Value::Bytes(name)) => {
                (&mut by_text, String::from_utf8_lossy(name).into_owned())
            }
            _ => continue,
        };
        if !to.is_empty() {
            to.push(',');
        }
        to.push_str(&text);
    }
    if is_missing {
        return Found::Missing;
    }
    if !by_number.is_empty() && !by_text.is_empty() {
        by_number.push(',');
    }
    by_number.push_str(&by_text);
    Found::Known((!by_number.is_empty()).then(|| strings.intern(&by_number)))
}

/// The categories in the event's turn, when all that was ever interned is there.
pub(super) fn category_in_turn(
    fields: &EventFields<'_>,
    state: &Generation,
    strings: &mut Strings,
) -> Option<Str> {
    match category(fields, state, strings) {
        Found::Known(category) => category,
        Found::Missing if fields.categories.count == 1 => {
            let iid = fields.categories.iid.unwrap_or(0);
            Some(strings.intern(&format!("unknown({iid})")))
        }
        Found::Missing => {
            let known: Vec<String> = Fields::new(fields.message)
                .whole()
                .take(MAX_CATEGORIES)
                .filter(|part| part.number == field::CATEGORY_IIDS)
                .filter_map(|part| state.text(interned_data::EVENT_CATEGORIES, part.value.as_u64()?))
                .map(|name| strings.get(name).to_owned())
                .chain(
                    super::fields::repeated(fields.message, field::CATEGORIES)
                        .filter_map(|value| Some(String::from_utf8_lossy(value.as_bytes()?).into_owned())),
                )
                .collect();
            let joined = known.join(",");
            (!joined.is_empty()).then(|| strings.intern(&joined))
        }
    }
}
