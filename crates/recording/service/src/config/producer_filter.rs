//! Which producers a data source is wanted from.

use std::collections::{HashMap, HashSet};

use ferretto_protos::trace_config;
use regex_lite::{Regex, RegexBuilder};

use super::ConfigError;
use super::machine_filter::MachineFilter;
use crate::limits;

/// Which producers may take part: those with one of the names, or whose whole name one of the expressions matches; all if there is neither.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProducerFilter {
    names: HashSet<Box<str>>,
    /// By what stands in the config.
    patterns: Vec<(Box<str>, Regex)>,
}

/// The expressions of a config that were compiled: many data sources may have the same ones.
#[derive(Debug, Default)]
pub(super) struct Expressions(HashMap<Box<str>, Regex>);

/// What the filters of a session have together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FilterSizes {
    names: usize,
    name_bytes: usize,
    patterns: usize,
}

impl ProducerFilter {
    pub(super) fn lets_everyone_pass(&self) -> bool {
        self.names.is_empty() && self.patterns.is_empty()
    }

    pub(crate) fn matches(&self, producer: &str) -> bool {
        self.lets_everyone_pass()
            || self.names.contains(producer)
            || self.patterns.iter().any(|(_, pattern)| pattern.is_match(producer))
    }

    /// What a match takes, in microseconds or so.
    pub(crate) fn cost(&self, producer: &str) -> usize {
        1 + self.patterns.len() * pattern_cost(producer)
    }

    fn has_pattern(&self, pattern: &str) -> bool {
        self.patterns.iter().any(|(known, _)| **known == *pattern)
    }

    pub(super) fn is_widened_by(&self, source: &trace_config::DataSource) -> bool {
        source.producer_name_filter.iter().any(|name| !self.names.contains(name.as_str()))
            || source.producer_name_regex_filter.iter().any(|pattern| !self.has_pattern(pattern))
    }

    /// Takes over what a data source of a config says.
    pub(super) fn add(
        &mut self,
        source_name: &str,
        source: &trace_config::DataSource,
        expressions: &mut Expressions,
    ) -> Result<(), ConfigError> {
        let error = |BadPattern { pattern, reason }: BadPattern| ConfigError::Regex {
            source_name: source_name.to_owned(),
            pattern,
            reason,
        };
        let patterns = &source.producer_name_regex_filter;
        let new = patterns.iter().filter(|pattern| !self.has_pattern(pattern)).count();
        if self.patterns.len() + new > limits::MAX_REGEXES {
            return Err(ConfigError::TooManyRegexes {
                of: format!("data source {source_name:?}: producer_name_regex_filter"),
                max: limits::MAX_REGEXES,
            });
        }
        for pattern in patterns {
            if !self.has_pattern(pattern) {
                self.patterns.push((pattern.as_str().into(), expressions.compile(pattern).map_err(error)?));
            }
        }
        self.names.extend(source.producer_name_filter.iter().map(|name| name.as_str().into()));
        Ok(())
    }
}

/// What it takes to try an expression on a producer's name, likewise.
pub(crate) fn pattern_cost(producer: &str) -> usize {
    /// For an expression that is as large as it may be, and a name that is as long.
    const PATTERN_COST: usize = 500;
    1 + producer.len() * PATTERN_COST / limits::MAX_NAME_BYTES
}

impl Expressions {
    fn compile(&mut self, pattern: &str) -> Result<Regex, BadPattern> {
        if let Some(known) = self.0.get(pattern) {
            return Ok(known.clone());
        }
        let regex = full_match(pattern)?;
        self.0.insert(pattern.into(), regex.clone());
        Ok(regex)
    }
}

impl FilterSizes {
    pub(super) fn of(filter: &ProducerFilter) -> Self {
        Self {
            names: filter.names.len(),
            name_bytes: filter.names.iter().map(|name| name.len()).sum(),
            patterns: filter.patterns.len(),
        }
    }

    /// As it stands in a config.
    pub(super) fn add_wire(&mut self, source: &trace_config::DataSource) {
        let names = source.producer_name_filter.iter().chain(&source.machine_name_filter);
        self.add_names(names.map(String::len));
        self.patterns += source.producer_name_regex_filter.len();
    }

    pub(super) fn add_filter(&mut self, filter: &ProducerFilter, machines: &MachineFilter) {
        self.grow(Self::default(), Self::of(filter));
        self.add_names(machines.names().iter().map(String::len));
    }

    fn add_names(&mut self, lengths: impl Iterator<Item = usize>) {
        for len in lengths {
            self.names += 1;
            self.name_bytes += len;
        }
    }

    /// One of the filters has become larger.
    pub(super) fn grow(&mut self, before: Self, after: Self) {
        self.names += after.names - before.names;
        self.name_bytes += after.name_bytes - before.name_bytes;
        self.patterns += after.patterns - before.patterns;
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.patterns > limits::MAX_REGEXES_PER_CONFIG {
            let of = "data_sources: producer_name_regex_filter".to_owned();
            return Err(ConfigError::TooManyRegexes { of, max: limits::MAX_REGEXES_PER_CONFIG });
        }
        if self.names > limits::MAX_FILTER_NAMES || self.name_bytes > limits::MAX_FILTER_NAME_BYTES {
            return Err(ConfigError::TooManyNames);
        }
        Ok(())
    }
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
