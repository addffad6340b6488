//! Startup tracing: what is recorded before a session asks for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::track_event::category::Registry;
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
/// The session that is to have these events must want the same of this program, in whatever words: of the categories that the program
/// has by then, it must want none that was not recorded, and all of which there are events; and `filter_debug_annotations` and
/// `filter_dynamic_event_names` must be equal. For the example, if the program has the categories `net`, `db.read` and `ui`, this
/// config is as good as one with `"net"` and `"db*"`:
///
/// ```text
/// track_event_config {
///   enabled_categories: "*"
///   disabled_categories: "ui"
/// }
/// ```
///
/// The first session that wants it has it. What a session does not get, and what is dropped in the end, is told to the log, with the
/// reason and how much it is.
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

/// Why a session does not get what was recorded before it. With what it wants, it would not have recorded the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// It is one of another service than that which the recording waits for.
    OtherService,
    /// One wants arguments, or names made at run time, and the other does not.
    OtherContent,
    /// Events of this category were recorded, and it does not want them.
    Unwanted(&'static str),
    /// It wants this category, which was not recorded.
    Unrecorded(&'static str),
}

impl Mismatch {
    /// What there is between a recording and a session, as far as their configs say it (upstream, which compares them word by word:
    /// `CanAdoptStartupSession` of track events).
    pub(crate) fn between(startup: &Wishes, session: &Wishes, registry: &Registry) -> Option<Self> {
        let content =
            |wishes: &Wishes| (wishes.options.without_arguments, wishes.options.without_dynamic_names);
        if content(startup) != content(session) {
            return Some(Self::OtherContent);
        }
        registry.mismatch(&startup.filter, &session.filter)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherService => f.write_str("it is of another service"),
            Self::OtherContent => f.write_str("only one of the two has arguments or names made at run time"),
            Self::Unwanted(category) => write!(f, "it does not want category {category}"),
            Self::Unrecorded(category) => write!(f, "it wants category {category}, which was not recorded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protos::TrackEventConfig;
    use prost::Message;

    use super::*;
    use crate::track_event::category::Category;

    fn config(enabled: &str, disabled: &str) -> TrackEventConfig {
        let list = |patterns: &str| patterns.split_whitespace().map(str::to_owned).collect();
        TrackEventConfig {
            enabled_categories: list(enabled),
            disabled_categories: list(disabled),
            ..Default::default()
        }
    }

    fn wishes(config: &TrackEventConfig) -> Wishes {
        Wishes::decode(&config.encode_to_vec()).unwrap()
    }

    #[test]
    fn a_session_adopts_what_it_would_have_recorded() {
        use Mismatch::{Unrecorded, Unwanted};
        static NET: Category = Category::new("startup.net");
        static DB: Category = Category::new("startup.db");
        static SLOW: Category = Category::new("startup.slow").with_tags(&["slow"]);
        static GROUP: Category = Category::new("startup.a,startup.b");
        let mut registry = Registry::default();
        for category in [&NET, &DB, &SLOW, &GROUP] {
            registry.add(category);
        }
        let (net, db, b) = ("startup.net", "startup.db", "startup.b");
        // Enabled and disabled categories at the start, those with events, those of the session.
        let cases = [
            ("", "", "", "", "", None),
            ("*", "", "net db", "", "", None),
            ("*", "", "net db", "startup.* startup.slow", "*", Some(Unrecorded("startup.slow"))),
            ("*", "", "net db", "startup.*", "*", None),
            ("*", "", "net db a b", "startup.net startup.db startup.a startup.b", "*", None),
            ("startup.net startup.db startup.a startup.b", "*", "net db a b", "*", "", None),
            (
                "startup.db startup.net startup.a",
                "*",
                "net",
                "startup.net startup.db startup.b",
                "*",
                Some(Unrecorded(b)),
            ),
            ("startup.net startup.db", "*", "net", "startup.db startup.net", "*", None),
            ("startup.net startup.db", "*", "net", "startup.net", "*", None),
            ("startup.net startup.db", "*", "net db", "startup.net", "*", Some(Unwanted(db))),
            ("startup.net", "*", "net", "startup.net startup.db", "*", Some(Unrecorded(db))),
            ("startup.net", "*", "", "", "", Some(Unrecorded(db))),
            ("startup.net nowhere", "*", "net", "startup.net elsewhere*", "*", None),
            ("startup.n*", "*", "net", "startup.net", "*", None),
            ("*", "", "net", "", "startup.net", Some(Unwanted(net))),
            ("*", "", "net", "", "startup.db", None),
            // A group is wanted with any of its members.
            ("startup.a startup.b", "*", "a b", "startup.a startup.b", "*", None),
            ("startup.a startup.b", "*", "a b", "startup.net", "*", Some(Unrecorded(net))),
            ("startup.a startup.b", "*", "a b", "", "*", Some(Unwanted(GROUP.name()))),
        ];
        for (enabled, disabled, recorded, wanted, unwanted, mismatch) in cases {
            registry.forget_use();
            for category in registry.distinct() {
                if recorded.split_whitespace().any(|name| category.name() == format!("startup.{name}")) {
                    category.note_use();
                }
            }
            let (startup, session) = (wishes(&config(enabled, disabled)), wishes(&config(wanted, unwanted)));
            let found = Mismatch::between(&startup, &session, &registry);
            assert_eq!(found, mismatch, "{enabled} -{disabled} | {recorded} | {wanted} -{unwanted}");
        }
    }

    #[test]
    fn the_form_of_events_may_be_another_but_not_their_content() {
        let startup = StartupConfig::categories(["net", "db*"]).wishes;
        let same = config("net db*", "*");
        let registry = Registry::default();
        let mismatch = |config: &TrackEventConfig| Mismatch::between(&startup, &wishes(config), &registry);
        assert_eq!(
            mismatch(&TrackEventConfig { timestamp_unit_multiplier: Some(1000), ..same.clone() }),
            None
        );
        assert_eq!(
            mismatch(&TrackEventConfig { filter_debug_annotations: Some(false), ..same.clone() }),
            None
        );
        let others = [
            TrackEventConfig { filter_debug_annotations: Some(true), ..same.clone() },
            TrackEventConfig { filter_dynamic_event_names: Some(true), ..same.clone() },
        ];
        for other in others {
            assert_eq!(mismatch(&other), Some(Mismatch::OtherContent), "{other:?}");
        }
        let bare = StartupConfig::new().without_arguments().without_dynamic_names().wishes;
        assert_eq!(Mismatch::between(&bare, &bare.clone(), &registry), None);
        assert_eq!(Mismatch::between(&bare, &startup, &registry), Some(Mismatch::OtherContent));
    }
}
