//! Which messages of `ftrace/print` a session keeps (upstream: ftrace_print_filter.cc).

use ferretto_protos::ftrace_config::{self, print_filter::rule::Match};

/// Rules in order; the first that matches decides, and a message that none matches is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrintFilter {
    rules: Vec<Rule>,
    /// Where the message is in a record.
    pub(crate) offset: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    allow: bool,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Prefix(Vec<u8>),
    /// `type|pid|prefix…`, as Android's atrace writes.
    Atrace {
        kind: Vec<u8>,
        prefix: Vec<u8>,
    },
}

impl PrintFilter {
    pub(crate) fn new(config: &ftrace_config::PrintFilter, offset: usize) -> Self {
        let rules = config.rules.iter().map(|rule| Rule {
            allow: rule.allow(),
            test: match &rule.r#match {
                Some(Match::AtraceMsg(message)) => Test::Atrace {
                    kind: message.r#type().as_bytes().to_vec(),
                    prefix: message.prefix().as_bytes().to_vec(),
                },
                Some(Match::Prefix(prefix)) => Test::Prefix(prefix.as_bytes().to_vec()),
                None => Test::Prefix(Vec::new()),
            },
        });
        Self { rules: rules.collect(), offset }
    }

    /// Whether a record's message is kept.
    pub(crate) fn keeps(&self, record: &[u8]) -> bool {
        let message = record.get(self.offset..).unwrap_or(&[]);
        self.rules.iter().find(|rule| rule.test.matches(message)).is_none_or(|rule| rule.allow)
    }
}

impl Test {
    fn matches(&self, message: &[u8]) -> bool {
        match self {
            Self::Prefix(prefix) => message.starts_with(prefix),
            Self::Atrace { kind, prefix } => {
                let Some(rest) =
                    message.strip_prefix(kind.as_slice()).and_then(|rest| rest.strip_prefix(b"|"))
                else {
                    return false;
                };
                let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
                rest.get(digits..)
                    .and_then(|rest| rest.strip_prefix(b"|"))
                    .is_some_and(|rest| rest.starts_with(prefix))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_protos::ftrace_config::print_filter::{self, rule};

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rule = |allow, r#match| print_filter::Rule { allow: Some(allow), r#match: Some(r#match) };
        let atrace = rule::AtraceMessage { r#type: Some("B".into()), prefix: Some("keep".into()) };
        let config = ftrace_config::PrintFilter {
            rules: vec![rule(true, Match::AtraceMsg(atrace)), rule(false, Match::Prefix("B|".into()))],
        };
        let filter = PrintFilter::new(&config, 2);
        for (message, kept) in [
            ("B|12|keep me", true),
            ("B|12|drop", false),
            ("B||keep", true),
            ("B|x|keep", false),
            ("other", true),
            ("", true),
        ] {
            assert_eq!(filter.keeps(format!("..{message}").as_bytes()), kept, "{message}");
        }
        assert!(filter.keeps(b""));
    }
}
