//! What is asked of a flame graph: words, each with a number of others behind it.

use datafusion::common::{Result, exec_err, plan_err};
use regex::{Regex, RegexBuilder};

/// Filters of one kind: each has a bit of 64.
const MAX_FILTERS: usize = 61;

/// From where a flame graph is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// From the roots down.
    TopDown,
    /// From each frame that has a value of its own up.
    BottomUp,
    /// From frames that match, both ways.
    Pivot,
    /// From frames that match down.
    FromFrame,
}

/// What becomes of a column of frames that become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Sum,
    /// The first one, and how many there are if there are others.
    OneOrSummary,
    Concat,
}

/// What is asked.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) view: View,
    pub(crate) view_pattern: Option<Regex>,
    /// Only stacks in which each of these matches a frame.
    pub(crate) show_stack: Vec<Regex>,
    /// No stacks in which one of these does.
    pub(crate) hide_stack: Vec<Regex>,
    /// No frames that match; what they have is their parents'.
    pub(crate) hide_frame: Vec<Regex>,
    /// Columns that make frames the same, beside the name.
    pub(crate) groups: Vec<String>,
    /// Columns of values, the one that the picture is of first.
    pub(crate) values: Vec<String>,
    aggregates: Vec<(String, Aggregate)>,
}

impl Config {
    /// Reads the words.
    pub(crate) fn read(args: &[String]) -> Result<Self> {
        let mut config = Self {
            view: View::TopDown,
            view_pattern: None,
            show_stack: Vec::new(),
            hide_stack: Vec::new(),
            hide_frame: Vec::new(),
            groups: Vec::new(),
            values: Vec::new(),
            aggregates: Vec::new(),
        };
        let mut rest = args;
        while let [word, more @ ..] = rest {
            rest = config.take(word, more)?;
        }
        if config.values.is_empty() {
            return plan_err!("flamegraph: at least one value column is required");
        }
        if config.show_stack.len() > MAX_FILTERS {
            return plan_err!("flamegraph: too many SHOW_STACK filters");
        }
        match (config.view, &config.view_pattern) {
            (View::Pivot | View::FromFrame, None) => plan_err!("flamegraph: this view wants a view_pattern"),
            (View::TopDown | View::BottomUp, Some(_)) => {
                plan_err!("flamegraph: this view has no view_pattern")
            }
            _ => Ok(config),
        }
    }

    /// Takes what belongs to a word, and gives the words behind it.
    fn take<'a>(&mut self, word: &str, args: &'a [String]) -> Result<&'a [String]> {
        let unknown =
            |what: &str, value: &str| plan_err!("flamegraph_config: {what}: unknown value '{value}'");
        match (word, args) {
            ("view", [view, rest @ ..]) => {
                self.view = match view.as_str() {
                    "TOP_DOWN" => View::TopDown,
                    "BOTTOM_UP" => View::BottomUp,
                    "PIVOT" => View::Pivot,
                    "FROM_FRAME" => View::FromFrame,
                    other => return unknown("view", other),
                };
                Ok(rest)
            }
            ("view_pattern", [pattern, flags, rest @ ..]) => {
                self.view_pattern = Some(regex(pattern, flags)?);
                Ok(rest)
            }
            ("filter", [kind, pattern, flags, rest @ ..]) => {
                let filters = match kind.as_str() {
                    "SHOW_STACK" => &mut self.show_stack,
                    "HIDE_STACK" => &mut self.hide_stack,
                    "HIDE_FRAME" => &mut self.hide_frame,
                    other => return unknown("filter", other),
                };
                filters.push(regex(pattern, flags)?);
                Ok(rest)
            }
            ("grouping", [name, rest @ ..]) => {
                self.groups.push(name.to_lowercase());
                Ok(rest)
            }
            ("value", [name, rest @ ..]) => {
                self.values.push(name.to_lowercase());
                Ok(rest)
            }
            ("aggregate", [kind, from, to, rest @ ..]) => {
                let aggregate = match kind.as_str() {
                    "SUM" => Aggregate::Sum,
                    "ONE_OR_SUMMARY" => Aggregate::OneOrSummary,
                    "CONCAT_WITH_COMMA" => Aggregate::Concat,
                    other => return unknown("aggregate", other),
                };
                if from != to {
                    return plan_err!("flamegraph: aggregate output must match its source column");
                }
                self.aggregates.push((from.to_lowercase(), aggregate));
                Ok(rest)
            }
            _ => plan_err!("flamegraph_config: {word} is not known, or lacks what belongs to it"),
        }
    }

    /// What becomes of a column.
    pub(crate) fn aggregate_of(&self, name: &str) -> Option<Aggregate> {
        self.aggregates.iter().find(|(it, _)| it == name).map(|(_, aggregate)| *aggregate)
    }
}

fn regex(pattern: &str, flags: &str) -> Result<Regex> {
    if !matches!(flags, "" | "i") {
        return plan_err!("flamegraph_config: unknown regex flags '{flags}'");
    }
    match RegexBuilder::new(pattern).case_insensitive(flags == "i").build() {
        Ok(regex) => Ok(regex),
        Err(error) => exec_err!("flamegraph: {error}"),
    }
}
