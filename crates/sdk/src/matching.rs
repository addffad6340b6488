//! Which categories a session wants.

use ferretto_protos::TrackEventConfig;

/// Tags that are off unless a session names tags of its own (upstream: `track_event_internal.cc`).
const DEFAULT_DISABLED_TAGS: [&str; 2] = ["slow", "debug"];

/// The category part of a session's config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) enabled_categories: Vec<String>,
    pub(crate) disabled_categories: Vec<String>,
    pub(crate) enabled_tags: Vec<String>,
    pub(crate) disabled_tags: Vec<String>,
}

/// How exactly a pattern has to say what it means. Exact patterns win over prefixes, prefixes over `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    Exact,
    Prefix,
    Anything,
}

impl Filter {
    pub(crate) fn new(config: &TrackEventConfig) -> Self {
        Self {
            enabled_categories: config.enabled_categories.clone(),
            disabled_categories: config.disabled_categories.clone(),
            enabled_tags: config.enabled_tags.clone(),
            disabled_tags: config.disabled_tags.clone(),
        }
    }

    /// Upstream's order, which is not the one that its config's comments describe: for each precision, names that are enabled, names that
    /// are disabled, tags that are disabled, tags that are enabled; what nobody mentions is enabled.
    pub(crate) fn is_enabled(&self, name: &str, tags: &[&str]) -> bool {
        let says_tags = !self.enabled_tags.is_empty() || !self.disabled_tags.is_empty();
        for precision in [Precision::Exact, Precision::Prefix, Precision::Anything] {
            let any_name =
                |patterns: &[String]| patterns.iter().any(|pattern| matches(precision, pattern, name));
            let any_tag = |pattern: &str| tags.iter().any(|tag| matches(precision, pattern, tag));
            let is_disabled_by_tag = if says_tags {
                self.disabled_tags.iter().any(|pattern| any_tag(pattern))
            } else {
                DEFAULT_DISABLED_TAGS.iter().any(|pattern| any_tag(pattern))
            };
            if any_name(&self.enabled_categories) {
                return true;
            }
            if any_name(&self.disabled_categories) || is_disabled_by_tag {
                return false;
            }
            if self.enabled_tags.iter().any(|pattern| any_tag(pattern)) {
                return true;
            }
        }
        true
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

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
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
            let filter = Filter {
                enabled_categories: list(enabled),
                disabled_categories: list(disabled),
                enabled_tags: list(enabled_tags),
                disabled_tags: list(disabled_tags),
            };
            let tags: Vec<&str> = tags.split_whitespace().collect();
            assert_eq!(filter.is_enabled(name, &tags), wanted, "{filter:?} {name} {tags:?}");
        }
    }
}
