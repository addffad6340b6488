//! What the trace needs to know of a place in the program where spans or events come from.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ferretto::{ArgumentName, Category, ConstantArgument, Location, TracePoint};
use tracing_core::{Level, Metadata};

/// The first argument of all.
static LEVELS: [ConstantArgument; 5] = [
    ConstantArgument::new("level", "TRACE"),
    ConstantArgument::new("level", "DEBUG"),
    ConstantArgument::new("level", "INFO"),
    ConstantArgument::new("level", "WARN"),
    ConstantArgument::new("level", "ERROR"),
];
/// The field that is an event's text.
const MESSAGE: &str = "message";
/// Places that a thread remembers, a power of two: more than a busy loop has.
const REMEMBERED: usize = 64;

/// A place. There is one for each in the program, for ever: its number is bounded by the program's code.
#[derive(Debug)]
pub(crate) struct Callsite {
    pub(crate) category: &'static Category,
    pub(crate) name: &'static str,
    /// For spans.
    pub(crate) begin: TracePoint,
    pub(crate) end: TracePoint,
    /// For events.
    pub(crate) instant: TracePoint,
    /// The place among the fields of the one that is an event's text.
    pub(crate) message: Option<usize>,
}

/// Those that have been seen, and categories by target and level.
#[derive(Debug, Default)]
struct Known {
    callsites: HashMap<usize, &'static Callsite>,
    categories: HashMap<(&'static str, Level), &'static Category>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

thread_local! {
    /// The last ones, by their addresses.
    static RECENT: [Cell<Option<(usize, &'static Callsite)>>; REMEMBERED] = const { [const { Cell::new(None) }; REMEMBERED] };
}

impl Callsite {
    /// The place that this is said about.
    #[inline]
    pub(crate) fn of(metadata: &'static Metadata<'static>) -> &'static Self {
        let address = std::ptr::from_ref(metadata).addr();
        remembered(address, || Some(Self::look_up(address, metadata)))
            .unwrap_or_else(|| Self::look_up(address, metadata))
    }

    /// As [`of`](Self::of), if it has been seen. What is not made by the macros may have an address that changes: such have none.
    pub(crate) fn known(metadata: &Metadata<'_>) -> Option<&'static Self> {
        let address = std::ptr::from_ref(metadata).addr();
        remembered(address, || {
            let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            known.as_ref()?.callsites.get(&address).copied()
        })
    }

    #[cold]
    fn look_up(address: usize, metadata: &'static Metadata<'static>) -> &'static Self {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_with(Known::default);
        if let Some(callsite) = known.callsites.get(&address) {
            return callsite;
        }
        let key = (metadata.target(), *metadata.level());
        let category =
            *known.categories.entry(key).or_insert_with(|| Box::leak(Box::new(category(metadata))));
        let callsite = Box::leak(Box::new(Self::new(metadata, category)));
        known.callsites.insert(address, callsite);
        callsite
    }

    fn new(metadata: &'static Metadata<'static>, category: &'static Category) -> Self {
        let names = metadata.fields().iter().map(|field| ArgumentName::new(field.name()));
        let names: &'static [ArgumentName] = Vec::leak(names.collect());
        let [trace, debug, info, warn, error] = &LEVELS;
        let level = match *metadata.level() {
            Level::TRACE => trace,
            Level::DEBUG => debug,
            Level::INFO => info,
            Level::WARN => warn,
            Level::ERROR => error,
        };
        let location = location(metadata);
        let place = |point: TracePoint| match location {
            Some(location) => point.with_location(location),
            None => point,
        };
        let begin = TracePoint::begin(category, Some(metadata.name()), names).with_constant(level);
        let instant = TracePoint::instant(category, None, names).with_constant(level);
        Self {
            category,
            name: metadata.name(),
            begin: place(begin),
            end: TracePoint::end(category, &[]),
            instant: place(instant),
            message: metadata.fields().iter().position(|field| field.name() == MESSAGE),
        }
    }
}

/// What this thread found at this address before, else what is found now. `None` at the end of a thread, too.
#[inline]
fn remembered(address: usize, find: impl FnOnce() -> Option<&'static Callsite>) -> Option<&'static Callsite> {
    // The low bits are the same for all; the next ones differ among neighbours.
    let slot = (address >> 4 ^ address >> 10) % REMEMBERED;
    let recent = RECENT.try_with(|recent| {
        let place = recent.get(slot)?;
        match place.get() {
            Some((known, callsite)) if known == address => Some(callsite),
            _ => {
                let callsite = find()?;
                place.set(Some((address, callsite)));
                Some(callsite)
            }
        }
    });
    recent.ok().flatten()
}

fn category(metadata: &'static Metadata<'static>) -> Category {
    let tags: &'static [&'static str] = match *metadata.level() {
        Level::ERROR => &["error"],
        Level::WARN => &["warn"],
        Level::INFO => &["info"],
        Level::DEBUG => &["debug"],
        // Sessions leave out what is slow unless they are asked for it.
        _ => &["trace", "slow"],
    };
    Category::new(metadata.target()).with_tags(tags)
}

fn location(metadata: &'static Metadata<'static>) -> Option<&'static Location> {
    let location =
        Location::new(metadata.file()?, metadata.module_path().unwrap_or_default(), metadata.line()?);
    Some(Box::leak(Box::new(location)))
}
