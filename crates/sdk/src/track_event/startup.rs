//! Startup tracing: what is recorded before a session asks for it.

use std::sync::Arc;
use std::time::Duration;

use crate::track_event::matching::List;
use crate::track_event::wishes::Wishes;

/// How long events wait for a session, if nothing else is said (upstream: `SetupStartupTracing`).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Has track events recorded from the moment of initialisation on, for a session that starts later: see
/// [`Builder::startup_tracing`](crate::Builder::startup_tracing).
///
/// ```
/// use std::time::Duration;
/// use ferretto::StartupConfig;
///
/// let startup = StartupConfig::categories(["net", "db*"]).timeout(Duration::from_secs(30));
/// ferretto::builder("org.example.server").startup_tracing(startup).init()?;
/// ferretto::instant!("net", "the first line of main");
/// # Ok::<(), ferretto::InitError>(())
/// ```
///
/// The session that is to have these events must want the same: its `track_event_config` must have equal `enabled_categories`,
/// `disabled_categories`, `enabled_tags` and `disabled_tags`, in the same order, and the same `filter_debug_annotations` and
/// `filter_dynamic_event_names`. For the example:
///
/// ```text
/// track_event_config {
///   enabled_categories: "net"
///   enabled_categories: "db*"
///   disabled_categories: "*"
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "it is for `Builder::startup_tracing`"]
pub struct StartupConfig {
    pub(crate) wishes: Wishes,
    pub(crate) timeout: Duration,
}

impl StartupConfig {
    /// What a session records that says nothing of categories: all but those that are tagged `slow` or `debug`.
    pub fn new() -> Self {
        Self { wishes: Wishes::default(), timeout: DEFAULT_TIMEOUT }
    }

    /// These categories, with `*` at the end for all that begin so, and no others (`disabled_categories: "*"`).
    pub fn categories<I: IntoIterator<Item: Into<String>>>(names: I) -> Self {
        Self::new().enable_categories(names).disable_categories(["*"])
    }

    /// Adds to `enabled_categories`.
    pub fn enable_categories<I: IntoIterator<Item: Into<String>>>(self, names: I) -> Self {
        self.extend(List::EnabledCategories, names)
    }

    /// Adds to `disabled_categories`.
    pub fn disable_categories<I: IntoIterator<Item: Into<String>>>(self, names: I) -> Self {
        self.extend(List::DisabledCategories, names)
    }

    /// Adds to `enabled_tags`.
    pub fn enable_tags<I: IntoIterator<Item: Into<String>>>(self, tags: I) -> Self {
        self.extend(List::EnabledTags, tags)
    }

    /// Adds to `disabled_tags`.
    pub fn disable_tags<I: IntoIterator<Item: Into<String>>>(self, tags: I) -> Self {
        self.extend(List::DisabledTags, tags)
    }

    /// Leaves arguments out (`filter_debug_annotations`).
    pub fn without_arguments(mut self) -> Self {
        self.wishes.options.without_arguments = true;
        self
    }

    /// Leaves names out that are made at run time (`filter_dynamic_event_names`).
    pub fn without_dynamic_names(mut self) -> Self {
        self.wishes.options.without_dynamic_names = true;
        self
    }

    /// How long events wait for a session: 10 s without this. Then they are dropped, and trace points are off.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn extend<I: IntoIterator<Item: Into<String>>>(mut self, list: List, patterns: I) -> Self {
        patterns
            .into_iter()
            .for_each(|pattern| Arc::make_mut(&mut self.wishes.filter).push(list, pattern.into()));
        self
    }
}

impl Default for StartupConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a session of the second config wants what was recorded by the first (upstream: `CanAdoptStartupSession` of track events).
pub(crate) fn can_adopt(startup: &Wishes, session: &Wishes) -> bool {
    startup.filter == session.filter
        && startup.options.without_arguments == session.options.without_arguments
        && startup.options.without_dynamic_names == session.options.without_dynamic_names
}

#[cfg(test)]
mod tests {
    use ferretto_protos::TrackEventConfig;
    use prost::Message;

    use super::*;

    #[test]
    fn a_session_adopts_what_was_recorded_as_it_wants_it() {
        let startup = StartupConfig::categories(["net", "db*"]).wishes;
        let wishes = |config: &TrackEventConfig| Wishes::decode(&config.encode_to_vec()).unwrap();
        let same = TrackEventConfig {
            enabled_categories: vec!["net".into(), "db*".into()],
            disabled_categories: vec!["*".into()],
            // What changes the form of events only.
            timestamp_unit_multiplier: Some(1000),
            filter_debug_annotations: Some(false),
            ..Default::default()
        };
        assert!(can_adopt(&startup, &wishes(&same)));
        let others = [
            TrackEventConfig::default(),
            TrackEventConfig { enabled_categories: vec!["db*".into(), "net".into()], ..same.clone() },
            TrackEventConfig { disabled_categories: Vec::new(), ..same.clone() },
            TrackEventConfig { enabled_tags: vec!["slow".into()], ..same.clone() },
            TrackEventConfig { disabled_tags: vec!["slow".into()], ..same.clone() },
            TrackEventConfig { filter_debug_annotations: Some(true), ..same.clone() },
            TrackEventConfig { filter_dynamic_event_names: Some(true), ..same.clone() },
        ];
        for other in others {
            assert!(!can_adopt(&startup, &wishes(&other)), "{other:?}");
        }
        assert!(can_adopt(&StartupConfig::new().wishes, &wishes(&TrackEventConfig::default())));
        let all = StartupConfig::new().enable_tags(["slow"]).disable_tags(["debug"]);
        let all = all.without_arguments().without_dynamic_names().wishes;
        assert!(can_adopt(&all, &all.clone()) && !can_adopt(&all, &startup));
    }
}
