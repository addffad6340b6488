//! Categories: what a trace point belongs to, and whether anybody wants it now.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::matching::Filter;

/// The state of a category that the registry does not know yet. Not zero, so that the one test for "enabled" finds it.
const UNREGISTERED: u32 = 1 << 31;

/// Concurrent sessions that can record track events: one bit each (upstream: `kMaxDataSourceInstances`).
pub(crate) const MAX_INSTANCES: usize = 8;

/// A group of trace points that sessions switch on and off together.
///
/// Declared with [`categories!`](crate::categories), or by using its name in a trace point. Declarations of the same name are one
/// category to sessions.
#[derive(Debug)]
pub struct Category {
    name: &'static str,
    description: &'static str,
    tags: &'static [&'static str],
    /// Bit `i`: the session in slot `i` wants it. Changed by the registry only.
    enabled: AtomicU32,
}

impl Category {
    /// A category of this name. It must live in a `static`.
    pub const fn new(name: &'static str) -> Self {
        Self { name, description: "", tags: &[], enabled: AtomicU32::new(UNREGISTERED) }
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

    #[cold]
    #[inline(never)]
    fn register(&'static self) -> u32 {
        let enabled = registry().add(self);
        crate::runtime::categories_changed();
        enabled
    }
}

/// All categories of the process.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    categories: Vec<&'static Category>,
    filters: [Option<Filter>; MAX_INSTANCES],
    /// Changes that the service has not been told.
    has_news: bool,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    categories: Vec::new(),
    filters: [const { None }; MAX_INSTANCES],
    has_news: false,
});

pub(crate) fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.categories.push(category);
        // Of the same name there may be others, which have got their tags only now.
        self.update(|other| other.name == category.name);
        category.enabled.load(Ordering::Relaxed)
    }

    /// Switches the categories that a session wants on, or all of its bits off.
    pub(crate) fn set_filter(&mut self, instance: usize, filter: Option<Filter>) {
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

    /// One category of each name, the one with most to say, in the order of their names; and whether there is news since the last time.
    pub(crate) fn take_news(&mut self) -> Option<Vec<&'static Category>> {
        std::mem::take(&mut self.has_news).then(|| self.distinct())
    }

    pub(crate) fn distinct(&self) -> Vec<&'static Category> {
        let mut all = self.categories.clone();
        all.sort_by_key(|category| {
            (category.name, category.description.is_empty(), category.tags.is_empty())
        });
        all.dedup_by_key(|category| category.name);
        all
    }

    fn instances_of(&self, category: &Category) -> u32 {
        let wants = |filter: &Option<Filter>| {
            filter.as_ref().is_some_and(|filter| filter.is_enabled(category.name, self.tags_of(category)))
        };
        (0_u32..).zip(&self.filters).filter(|(_, filter)| wants(filter)).map(|(bit, _)| 1 << bit).sum()
    }

    /// A trace point that only names its category belongs to the declaration with the tags.
    fn tags_of(&self, category: &Category) -> &'static [&'static str] {
        let declared =
            self.categories.iter().find(|other| other.name == category.name && !other.tags.is_empty());
        declared.map_or(category.tags, |other| other.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let news = registry.take_news().unwrap();
        assert_eq!(news.len(), 1);
        assert_eq!(news[0].description(), "said once");
        assert!(registry.take_news().is_none());

        // `slow` is off by default, for the trace point that only knows the name too.
        registry.set_filter(3, Some(Filter::default()));
        assert_eq!((BARE.instances(), FULL.instances()), (0, 0));
        registry.set_filter(3, Some(Filter { enabled_tags: vec!["slow".into()], ..Default::default() }));
        assert_eq!((BARE.instances(), FULL.instances()), (8, 8));
    }
}
