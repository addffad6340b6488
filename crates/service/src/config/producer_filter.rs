//! Which producers a data source is wanted from.

use ferretto_protos::trace_config;
use regex_lite::{Regex, RegexBuilder};

use super::ConfigError;
use crate::limits;

/// Which producers may take part: those with one of the names, or whose whole name one of the expressions matches; all if there is neither.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProducerFilter {
    names: Vec<String>,
    patterns: Vec<Regex>,
}

impl ProducerFilter {
    pub(crate) fn matches(&self, producer: &str) -> bool {
        let everyone = self.names.is_empty() && self.patterns.is_empty();
        everyone
            || self.names.iter().any(|name| name == producer)
            || self.patterns.iter().any(|pattern| pattern.is_match(producer))
    }

    /// What a match takes, in microseconds or so.
    pub(crate) fn cost(&self) -> usize {
        /// For an expression that is as large as it may be, and a name that is as long.
        const PATTERN_COST: usize = 500;
        1 + self.names.len() / 64 + self.patterns.len() * PATTERN_COST
    }

    /// Filters can be widened only: those that match now go on to match. A filter that lets everyone pass stays so.
    pub(super) fn add(&mut self, other: Self) -> bool {
        if self.names.is_empty() && self.patterns.is_empty() {
            return false;
        }
        let before = self.names.len() + self.patterns.len();
        for name in other.names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        for pattern in other.patterns {
            let is_known = self.patterns.iter().any(|known| known.as_str() == pattern.as_str());
            if !is_known && self.patterns.len() < limits::MAX_REGEXES {
                self.patterns.push(pattern);
            }
        }
        before != self.names.len() + self.patterns.len()
    }
}

pub(super) fn parse_filter(
    source_name: &str,
    source: &trace_config::DataSource,
) -> Result<ProducerFilter, ConfigError> {
    let error = |BadPattern { pattern, reason }: BadPattern| ConfigError::Regex {
        source_name: source_name.to_owned(),
        pattern,
        reason,
    };
    let patterns = &source.producer_name_regex_filter;
    if patterns.len() > limits::MAX_REGEXES {
        return Err(ConfigError::TooManyRegexes {
            of: format!("data source {source_name:?}: producer_name_regex_filter"),
            max: limits::MAX_REGEXES,
        });
    }
    let patterns = patterns.iter().map(|pattern| full_match(pattern).map_err(error));
    Ok(ProducerFilter {
        names: source.producer_name_filter.clone(),
        patterns: patterns.collect::<Result<_, _>>()?,
    })
}

/// As much of an expression as an error shows.
const SHOWN_CHARS: usize = 200;

/// No regular expression, and why.
pub(super) struct BadPattern {
    /// Its beginning, if it is long.
    pub(super) pattern: String,
    pub(super) reason: String,
}

/// An expression that a whole name has to match.
pub(super) fn full_match(pattern: &str) -> Result<Regex, BadPattern> {
    let error = |reason: String| BadPattern { pattern: pattern.chars().take(SHOWN_CHARS).collect(), reason };
    if pattern.len() > limits::MAX_REGEX_BYTES {
        return Err(error(format!("it is longer than {} bytes", limits::MAX_REGEX_BYTES)));
    }
    let mut builder = RegexBuilder::new(&format!("^(?:{pattern})$"));
    builder.size_limit(limits::MAX_REGEX_COMPILED_BYTES);
    builder.build().map_err(|reason| error(reason.to_string()))
}
