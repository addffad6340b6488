//! Which categories a session wants.

/// Tags that are off unless a session names tags of its own (upstream: `track_event_internal.cc`).
const DEFAULT_DISABLED_TAGS: [&str; 2] = ["slow", "debug"];

/// The category part of a session's config: four lists of patterns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    patterns: Vec<(List, String)>,
}

/// A list of patterns, of `TrackEventConfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    EnabledCategories,
    DisabledCategories,
    EnabledTags,
    DisabledTags,
}

/// How exactly a pattern has to say what it means. Exact patterns win over prefixes, prefixes over `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    Exact,
    Prefix,
    Anything,
}

impl Filter {
    /// Appends to a list.
    pub(crate) fn push(&mut self, list: List, pattern: String) {
        self.patterns.push((list, pattern));
    }

    fn list(&self, wanted: List) -> impl Iterator<Item = &str> {
        self.patterns.iter().filter(move |(list, _)| *list == wanted).map(|(_, pattern)| pattern.as_str())
    }

    /// Upstream's order, which is not the one that its config's comments describe: for each precision, names that are enabled, names that
    /// are disabled, tags that are disabled, tags that are enabled; what nobody mentions is enabled.
    pub(crate) fn is_enabled(&self, name: &str, tags: &[&str]) -> bool {
        let says_tags =
            self.patterns.iter().any(|(list, _)| matches!(list, List::EnabledTags | List::DisabledTags));
        for precision in [Precision::Exact, Precision::Prefix, Precision::Anything] {
            let any_name = |list| self.list(list).any(|pattern| matches(precision, pattern, name));
            let any_tag = |pattern: &str| tags.iter().any(|tag| matches(precision, pattern, tag));
            let is_disabled_by_tag = if says_tags {
                self.list(List::DisabledTags).any(any_tag)
            } else {
                DEFAULT_DISABLED_TAGS.into_iter().any(any_tag)
            };
            if any_name(List::EnabledCategories) {
                return true;
            }
            if any_name(List::DisabledCategories) || is_disabled_by_tag {
                return false;
            }
            if self.list(List::EnabledTags).any(any_tag) {
                return true;
            }
        }
        true
    }
}

/// The order of patterns counts within each list.
impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        [List::EnabledCategories, List::DisabledCategories, List::EnabledTags, List::DisabledTags]
            .into_iter()
            .all(|list| self.list(list).eq(other.list(list)))
    }
}

fn matches(precision: Precision, pattern: &str, name: &str) -> bool {
    match (precision, pattern.strip_suffix('*')) {
        (Precision::Exact, None) => pattern == name,
        (Precision::Prefix, Some(prefix)) => !prefix.is_empty() && name.starts_with(prefix),
        (Precision::Anything, Some(prefix)) => prefix.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_equal_if_their_lists_are() {
        let filter = |patterns: &[(List, &str)]| {
            let mut filter = Filter::default();
            patterns.iter().for_each(|(list, pattern)| filter.push(*list, (*pattern).to_owned()));
            filter
        };
        let (on, off) = (List::EnabledCategories, List::DisabledCategories);
        assert_eq!(filter(&[(on, "a"), (off, "*"), (on, "b")]), filter(&[(on, "a"), (on, "b"), (off, "*")]));
        assert_ne!(filter(&[(on, "a"), (on, "b")]), filter(&[(on, "b"), (on, "a")]));
        assert_ne!(filter(&[(on, "a")]), filter(&[(off, "a")]));
    }

    #[test]
    fn categories_are_matched_in_upstreams_order() {
        // enabled names | disabled names | enabled tags | disabled tags, then name, tags, wanted
        let cases = [
            ("", "", "", "", "net", "", true),
            ("", "", "", "", "net", "slow", false),
            ("", "", "", "", "net", "debug", false),
            ("", "*", "", "", "net", "", false),
            ("net", "*", "", "", "net", "", true),
            ("net", "*", "", "", "network", "", false),
            ("net*", "*", "", "", "network", "", true),
            ("net*", "network", "", "", "network", "", false),
            ("*", "net*", "", "", "network", "", false),
            ("*", "*", "", "", "net", "", true),
            ("net", "net", "", "", "net", "", true),
            ("*", "", "", "", "net", "slow", false),
            ("net", "", "", "", "net", "slow", true),
            ("", "*", "slow", "", "net", "slow", true),
            ("", "", "slow", "", "net", "slow", true),
            ("", "", "other", "", "net", "slow", true),
            ("", "", "", "cheap", "net", "cheap", false),
            ("", "", "cheap", "cheap", "net", "cheap", false),
            ("", "", "", "che*", "net", "cheap", false),
            ("", "net", "cheap", "", "net", "cheap", false),
        ];
        for (enabled, disabled, enabled_tags, disabled_tags, name, tags, wanted) in cases {
            let mut filter = Filter::default();
            for (list, patterns) in [
                (List::EnabledCategories, enabled),
                (List::DisabledCategories, disabled),
                (List::EnabledTags, enabled_tags),
                (List::DisabledTags, disabled_tags),
            ] {
                patterns.split_whitespace().for_each(|pattern| filter.push(list, pattern.to_owned()));
            }
            let tags: Vec<&str> = tags.split_whitespace().collect();
            assert_eq!(filter.is_enabled(name, &tags), wanted, "{filter:?} {name} {tags:?}");
        }
    }
}
