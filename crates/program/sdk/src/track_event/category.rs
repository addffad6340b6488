//! Categories: what a trace point belongs to, and whether anybody wants it now.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::runtime::{self, Held};
use crate::track_event::event::{exclusively, quietly};
use crate::track_event::matching::Filter;
use crate::track_event::numbers::numbers;
use crate::track_event::startup::Mismatch;

/// The state of a category that the registry does not know yet. Not zero, so that the one test for "enabled" finds it.
const UNREGISTERED: u32 = 1 << 31;

/// Concurrent sessions that can record a data source: all bits of a mask but the one above (upstream: `kMaxDataSourceInstances`, 8). More
/// than a service lets strangers have of one source, so that they do not take all.
pub(crate) const MAX_INSTANCES: usize = 31;
const _: () = assert!(MAX_INSTANCES < u32::BITS as usize);

/// Categories that can be made at run time: they are never taken back. What comes after belongs to [`TOO_MANY`].
const MAX_DYNAMIC: usize = 4096;
/// Stands for categories of which there are too many.
static TOO_MANY: Category = Category::new("too many categories");
/// Stands between the members of a group.
const GROUP_SEPARATOR: char = ',';

/// A group of trace points that sessions switch on and off together.
///
/// Declared with [`categories!`](crate::categories), or by using its name in a trace point. Declarations of the same name are one
/// category to sessions.
///
/// A name like `"net,slow"` is a group: the trace point is on if a session wants one of its members, and belongs to all.
#[derive(Debug)]
pub struct Category {
    name: &'static str,
    description: &'static str,
    tags: &'static [&'static str],
    /// Bit `i`: the session in slot `i` wants it. Changed by the registry only.
    enabled: AtomicU32,
    /// Of its name in traces; 0 before its first use.
    number: AtomicU16,
    /// Whether an event of it was written since recordings that wait for a session began.
    is_used: AtomicBool,
    /// If it is a group.
    members: OnceLock<Vec<&'static Self>>,
}

impl Category {
    /// A category of this name. It must live in a `static`.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            description: "",
            tags: &[],
            enabled: AtomicU32::new(UNREGISTERED),
            number: AtomicU16::new(0),
            is_used: AtomicBool::new(false),
            members: OnceLock::new(),
        }
    }

    /// The category of a name that is known at run time only; the same for the same name. There can be 4,096 of them: later names share
    /// one. In macros it stands in parentheses:
    ///
    /// ```
    /// let plugin = ferretto::Category::dynamic(&format!("plugin.{}", "blur"));
    /// ferretto::instant!((plugin), "loaded");
    /// ```
    pub fn dynamic(name: &str) -> &'static Self {
        quietly(|| registry().dynamic(name))
    }

    /// With a description, for the lists that people choose from.
    #[must_use]
    pub const fn with_description(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// With tags. Sessions can select by tag; what is tagged `slow` or `debug` is off unless they ask for it.
    #[must_use]
    pub const fn with_tags(mut self, tags: &'static [&'static str]) -> Self {
        self.tags = tags;
        self
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its description, or an empty text.
    pub fn description(&self) -> &'static str {
        self.description
    }

    /// Its tags.
    pub fn tags(&self) -> &'static [&'static str] {
        self.tags
    }

    /// Whether any session wants it. One relaxed load, but for the first time.
    #[inline(always)]
    pub fn is_enabled(&'static self) -> bool {
        // One test for "not enabled", as nothing else happens most of the time.
        self.enabled.load(Ordering::Relaxed) != 0 && self.instances() != 0
    }

    /// The sessions that want it, one bit each.
    #[inline(always)]
    pub(crate) fn instances(&'static self) -> u32 {
        // Relaxed: a trace point that sees a session a moment late loses an event of that moment, nothing else.
        let enabled = self.enabled.load(Ordering::Relaxed);
        if enabled & UNREGISTERED == 0 { enabled } else { self.register() }
    }

    /// Whether its name stands for several categories.
    pub(crate) fn is_group(&self) -> bool {
        self.name.contains(GROUP_SEPARATOR)
    }

    /// The categories that its name stands for: itself, or the members of a group.
    pub(crate) fn members(&'static self) -> impl Iterator<Item = &'static Self> {
        let members = self.members.get();
        members.is_none().then_some(self).into_iter().chain(members.into_iter().flatten().copied())
    }

    /// The number of its name; 0 if there are none left.
    pub(crate) fn number(&self) -> u16 {
        match self.number.load(Ordering::Relaxed) {
            0 => {
                let number = numbers().category(self.name);
                self.number.store(number, Ordering::Relaxed);
                number
            }
            number => number,
        }
    }

    /// There is an event of it, in some sequence.
    pub(crate) fn note_use(&self) {
        // Not stored again and again, as other threads look at what is beside it.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn register(&'static self) -> u32 {
        // The thread that forks holds the registry. From within tracing: the allocator of whoever holds it may have come here.
        if runtime::is_forking() {
            return 0;
        }
        if exclusively(|| registry().add(self)).is_none() {
            // A signal's handler, say, that interrupted this thread at the runtime, whose lock it holds. Another time.
            return 0;
        }
        runtime::revive();
        runtime::announce_news();
        // After both: a child process may be recorded only now.
        self.enabled.load(Ordering::Relaxed) & !UNREGISTERED
    }
}

/// Called when a session has begun or ended to record categories.
static WATCHERS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());
/// One for each layer that connects another crate's trace points is plenty.
const MAX_WATCHERS: usize = 16;

/// Has a function called, on the tracing thread, whenever a session has begun or ended to record categories: for switches of one's own
/// that follow [`Category::is_enabled`]. A function is called once however often it is given; there can be 16 of them, and `false` says
/// that there are as many already.
pub fn on_categories_change(callback: fn()) -> bool {
    let mut watchers = watchers();
    let is_known = watchers.iter().any(|known| std::ptr::fn_addr_eq(*known, callback));
    if !is_known && watchers.len() < MAX_WATCHERS {
        watchers.push(callback);
        return true;
    }
    is_known
}

/// Calls those who want to know. No lock is held: they may ask anything.
pub(crate) fn announce_change() {
    let watchers = watchers().clone();
    watchers.into_iter().for_each(|callback| callback());
}

fn watchers() -> MutexGuard<'static, Vec<fn()>> {
    WATCHERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All categories of the process.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    categories: Vec<&'static Category>,
    /// Those that were made at run time, by their names.
    dynamic: Vec<&'static Category>,
    filters: [Option<Arc<Filter>>; MAX_INSTANCES],
    /// Changes that the service has not been told.
    has_news: bool,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    categories: Vec::new(),
    dynamic: Vec::new(),
    filters: [const { None }; MAX_INSTANCES],
    has_news: false,
});

#[inline(never)]
pub(crate) fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn lock_watchers_for_fork() -> Box<dyn Held> {
    Box::new(watchers())
}

pub(crate) fn lock_for_fork() -> Box<dyn Held> {
    Box::new(registry())
}

impl Registry {
    /// Adds a category, unless it is there; the sessions that want it.
    pub(crate) fn add(&mut self, category: &'static Category) -> u32 {
        let known = category.enabled.load(Ordering::Relaxed);
        if known & UNREGISTERED == 0 {
            return known;
        }
        self.has_news |= !self.categories.iter().any(|other| other.name == category.name);
        self.has_news |= !category.description.is_empty() || !category.tags.is_empty();
        // In a child process all are added again.
        if !self.categories.iter().any(|other| std::ptr::eq(*other, category)) {
            self.categories.push(category);
        }
        if category.is_group() {
            let mut members: Vec<&'static Category> = Vec::new();
            for member in category.name.split(GROUP_SEPARATOR) {
                members.push(self.dynamic(member.trim_ascii()));
            }
            for member in &members {
                self.add(member);
            }
            // Nobody else sets it: this is the only registry, and its lock is held.
            let _ = category.members.set(members);
        }
        // Of the same name there may be others, which have got their tags only now.
        self.update(|other| other.name == category.name);
        category.enabled.load(Ordering::Relaxed)
    }

    fn dynamic(&mut self, name: &str) -> &'static Category {
        let place = match self.dynamic.binary_search_by(|known| known.name.cmp(name)) {
            Ok(place) => return self.dynamic.get(place).copied().unwrap_or(&TOO_MANY),
            Err(_) if self.dynamic.len() >= MAX_DYNAMIC => return &TOO_MANY,
            Err(place) => place,
        };
        let name: &'static str = name.to_owned().leak();
        let category: &'static Category = Box::leak(Box::new(Category::new(name)));
        self.dynamic.insert(place, category);
        category
    }

    /// Switches the categories that a session wants on, or all of its bits off.
    pub(crate) fn set_filter(&mut self, instance: usize, filter: Option<Arc<Filter>>) {
        if let Some(place) = self.filters.get_mut(instance) {
            *place = filter;
        }
        self.update(|_| true);
    }

    fn update(&self, which: impl Fn(&Category) -> bool) {
        for category in self.categories.iter().filter(|category| which(category)) {
            // Release: whoever sees the bit is to see the session behind it.
            category.enabled.store(self.instances_of(category), Ordering::Release);
        }
    }

    /// In a child process: nobody wants anything. With `revives`, the first trace point that is reached registers its category again.
    pub(crate) fn forget_sessions(&mut self, revives: bool) {
        for filter in &mut self.filters {
            std::mem::forget(filter.take());
        }
        for category in &self.categories {
            category.enabled.store(if revives { UNREGISTERED } else { 0 }, Ordering::Relaxed);
        }
    }

    /// Whether there is something to tell since the last time.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// One category of each name, the one with most to say, in the order of their names.
    pub(crate) fn distinct(&self) -> Vec<&'static Category> {
        let says = |category: &Category| (!category.description.is_empty(), !category.tags.is_empty());
        let mut all: Vec<&'static Category> = Vec::new();
        for category in self.categories.iter().filter(|category| !category.is_group()) {
            match all.binary_search_by(|known| known.name.cmp(category.name)) {
                Err(place) => all.insert(place, category),
                Ok(place) => {
                    if let Some(known) = all.get_mut(place).filter(|known| says(known) < says(category)) {
                        *known = category;
                    }
                }
            }
        }
        all
    }

    /// Begins anew to note which categories there are events of.
    pub(crate) fn forget_use(&self) {
        self.categories.iter().for_each(|category| category.is_used.store(false, Ordering::Relaxed));
    }

    /// Where two filters differ for this process: what it does not have, or has no events of that only the first one wants, counts for
    /// neither.
    pub(crate) fn mismatch(&self, recorded: &Filter, wanted: &Filter) -> Option<Mismatch> {
        self.categories.iter().find_map(|category| {
            match (self.wants(recorded, category), self.wants(wanted, category)) {
                (false, true) => Some(Mismatch::Unrecorded(category.name)),
                (true, false) => {
                    let is_used = category.members().all(|member| member.is_used.load(Ordering::Relaxed));
                    is_used.then_some(Mismatch::Unwanted(category.name))
                }
                _ => None,
            }
        })
    }

    fn instances_of(&self, category: &Category) -> u32 {
        let wants =
            |filter: &Option<Arc<Filter>>| filter.as_ref().is_some_and(|filter| self.wants(filter, category));
        (0_u32..).zip(&self.filters).filter(|(_, filter)| wants(filter)).map(|(bit, _)| 1 << bit).sum()
    }

    #[inline(never)]
    fn wants(&self, filter: &Filter, category: &Category) -> bool {
        // What is no group is the only member of one.
        category.name.split(GROUP_SEPARATOR).any(|member| {
            let member = if category.is_group() { member.trim_ascii() } else { member };
            filter.is_enabled(member, self.tags_of(member, category.tags))
        })
    }

    /// A trace point that only names its category belongs to the declaration with the tags. One that has tags keeps them.
    fn tags_of(&self, name: &str, otherwise: &'static [&'static str]) -> &'static [&'static str] {
        if !otherwise.is_empty() {
            return otherwise;
        }
        let declared = self.categories.iter().find(|other| other.name == name && !other.tags.is_empty());
        declared.map_or(otherwise, |other| other.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track_event::matching::List;

    #[test]
    fn a_category_costs_one_load_after_its_first_use() {
        static ONCE: Category = Category::new("test.once");
        assert_eq!(ONCE.enabled.load(Ordering::Relaxed), UNREGISTERED);
        assert!(!ONCE.is_enabled());
        assert_eq!(ONCE.enabled.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn declarations_of_one_name_are_one_category() {
        static BARE: Category = Category::new("test.same");
        static FULL: Category = Category::new("test.same").with_description("said once").with_tags(&["slow"]);
        let mut registry = Registry::default();
        registry.add(&BARE);
        registry.add(&FULL);
        assert!(registry.take_news());
        let news = registry.distinct();
        assert_eq!(news.len(), 1);
        assert_eq!(news[0].description(), "said once");
        assert!(!registry.take_news());

        // `slow` is off by default, for the trace point that only knows the name too.
        registry.set_filter(3, Some(Arc::default()));
        assert_eq!((BARE.instances(), FULL.instances()), (0, 0));
        let mut slow = Filter::default();
        slow.push(List::EnabledTags, "slow".to_owned());
        registry.set_filter(3, Some(Arc::new(slow)));
        assert_eq!((BARE.instances(), FULL.instances()), (8, 8));
    }
}
