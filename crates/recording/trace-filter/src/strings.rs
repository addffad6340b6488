//! The rules for strings (upstream: string_filter.cc, the comments of `TraceConfig.TraceFilter`).
//!
//! They work like a firewall's: one after another, until one that matches ends it. Strings are bytes, and so the regular expressions
//! see them: `.` is any byte but the end of a line, `\w` and `\d` are ASCII.

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};
use regex_syntax::ast::parse::Parser;

/// Rules of a filter. Each may be tried on each string.
pub const MAX_RULES: usize = 512;

/// Bytes of a regular expression, and of the prefix beside it.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// Bytes of all regular expressions of a filter: it bounds the time that it takes to read them.
pub const MAX_ALL_PATTERNS_BYTES: usize = 64 * 1024;

/// The greatest semantic type that a rule can be for; fields may have greater ones, and get all rules (upstream: `kLimit`).
pub const MAX_RULE_SEMANTIC_TYPE: u32 = 127;

/// What a regular expression may take once it is compiled, and all of a filter's: it bounds the time that a byte of a string costs, and
/// that of compiling, which is done at once. Those of Android's filters take one or two kilobytes each.
const MAX_COMPILED_BYTES: usize = 8 * 1024;
const MAX_ALL_COMPILED_BYTES: usize = 256 * 1024;
/// How large one is is found out by trying, from here on.
const MIN_COMPILED_BYTES: usize = 512;

/// Longer strings are not matched, and overwritten if there are rules for them: of a string and a rule there is one step.
pub const MAX_STRING_BYTES: usize = 8 * 1024;

/// What the states that are found while matching may take; when they are full, they are forgotten.
const MAX_CACHE_BYTES: usize = 64 * 1024;

/// What a search costs beside the bytes that it is in: as much as so many of them.
const SEARCH_BYTES: usize = 16;

/// Stands where a group matched, cut off or followed by dashes so that the length stays.
const REDACTED: &[u8] = b"P60REDACTED";
const PADDING: u8 = b'-';

/// What a rule does with a string that it matches. All but the last match the whole string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Overwrites what the groups matched, and ends.
    #[default]
    MatchRedactGroups,
    /// The same, if the payload of an atrace message has the rule's prefix.
    AtraceMatchRedactGroups,
    /// Ends: the string stays.
    MatchBreak,
    /// The same, if the payload of an atrace message has the rule's prefix.
    AtraceMatchBreak,
    /// If the payload of an atrace message has the rule's prefix: overwrites the groups of all matches, wherever they are in the string,
    /// and ends if there was one.
    AtraceRepeatedSearchRedactGroups,
}

impl Policy {
    /// By its number in `TraceConfig.TraceFilter.StringFilterPolicy`.
    #[must_use]
    pub const fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::MatchRedactGroups,
            2 => Self::AtraceMatchRedactGroups,
            3 => Self::MatchBreak,
            4 => Self::AtraceMatchBreak,
            5 => Self::AtraceRepeatedSearchRedactGroups,
            _ => return None,
        })
    }

    const fn is_for_atrace(self) -> bool {
        matches!(
            self,
            Self::AtraceMatchRedactGroups | Self::AtraceMatchBreak | Self::AtraceRepeatedSearchRedactGroups
        )
    }

    const fn redacts(self) -> bool {
        !matches!(self, Self::MatchBreak | Self::AtraceMatchBreak)
    }
}

/// A rule, as a config gives it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rule<'a> {
    /// What to do.
    pub policy: Policy,
    /// A regular expression in the syntax of the crate `regex`: no look-around, no back-references.
    pub pattern: &'a str,
    /// What the payload of an atrace message must begin with, for the policies that say so: `x` of `B|123|x`.
    pub atrace_payload_starts_with: &'a str,
    /// A later rule of the same name takes the place of an earlier one; empty for none.
    pub name: &'a str,
    /// The semantic types of strings that it is for. None means type 0: strings without one.
    pub semantic_types: &'a [u32],
}

/// Why a rule is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RuleError {
    #[error("a filter has at most {MAX_RULES} rules for strings")]
    TooMany,
    #[error("a pattern has {len} bytes; {MAX_PATTERN_BYTES} are the most")]
    TooLong { len: usize },
    #[error("the pattern {pattern:?} is no regular expression, or too large a one: {reason}")]
    Pattern { pattern: String, reason: String },
    #[error("the patterns have {len} bytes together; {MAX_ALL_PATTERNS_BYTES} are the most")]
    AllTooLong { len: usize },
    #[error(
        "the patterns take {len} bytes together once they are compiled; {MAX_ALL_COMPILED_BYTES} are the most"
    )]
    AllTooLarge { len: usize },
    #[error("semantic type {semantic_type} is above {MAX_RULE_SEMANTIC_TYPE}")]
    SemanticType { semantic_type: u32 },
}

/// The rules of a filter, in the order in which they are tried.
#[derive(Debug, Clone, Default)]
pub struct StringFilter {
    rules: Vec<Compiled>,
    /// Of all rules that were ever added, also of those whose place others have taken: each took its time to be read.
    pattern_bytes: usize,
    compiled_bytes: usize,
}

#[derive(Debug, Clone)]
struct Compiled {
    policy: Policy,
    regex: Regex,
    /// About what it takes.
    compiled_bytes: usize,
    prefix: Box<[u8]>,
    name: String,
    /// A bit for each semantic type.
    semantic_types: u128,
}

impl StringFilter {
    /// Adds a rule at the end, or in the place of the one that has its name.
    ///
    /// # Errors
    /// When it is no rule, or one too many: those whose place others take count, too.
    pub fn add(&mut self, rule: &Rule<'_>) -> Result<(), RuleError> {
        let is_namesake = |known: &Compiled| !rule.name.is_empty() && known.name == rule.name;
        let namesake = self.rules.iter().position(is_namesake);
        if namesake.is_none() && self.rules.len() >= MAX_RULES {
            return Err(RuleError::TooMany);
        }
        let len = self.pattern_bytes + rule.pattern.len();
        if len > MAX_ALL_PATTERNS_BYTES {
            return Err(RuleError::AllTooLong { len });
        }
        let compiled = Compiled::new(rule)?;
        self.pattern_bytes = len;
        self.compiled_bytes += compiled.compiled_bytes;
        if self.compiled_bytes > MAX_ALL_COMPILED_BYTES {
            return Err(RuleError::AllTooLarge { len: self.compiled_bytes });
        }
        match namesake.and_then(|index| self.rules.get_mut(index)) {
            Some(known) => *known = compiled,
            None => self.rules.push(compiled),
        }
        Ok(())
    }

    /// Overwrites what the rules say; never changes the length. Says if a rule that redacts has matched.
    pub fn redact(&self, text: &mut [u8], semantic_type: u32) -> bool {
        let (original, mut place) = (text.to_vec(), Place::default());
        let redacted = self.redact_from(&mut place, &original, text, semantic_type, &mut u64::MAX.clone());
        redacted == Redacted::Yes
    }

    /// The same, from this place on, until what may be spent is: bytes of strings times bytes of compiled rules that are tried on them.
    /// `text` begins as a copy of the original. One search is never interrupted.
    pub(crate) fn redact_from(
        &self,
        place: &mut Place,
        original: &[u8],
        text: &mut [u8],
        semantic_type: u32,
        may_spend: &mut u64,
    ) -> Redacted {
        if original.is_empty() || self.rules.is_empty() {
            return Redacted::No;
        }
        let payload = atrace_payload(original);
        let rules = self.rules.iter().enumerate().skip(place.rule);
        for (index, rule) in rules.filter(|(_, rule)| rule.is_for(semantic_type)) {
            if original.len() > MAX_STRING_BYTES {
                overwrite(text);
                return Redacted::Yes;
            }
            let has_prefix =
                payload.is_some_and(|at| original.get(at..).is_some_and(|it| it.starts_with(&rule.prefix)));
            if rule.policy.is_for_atrace() && !has_prefix {
                continue;
            }
            if place.rule != index {
                *place = Place { rule: index, within: WithinRule::Before };
            }
            match rule.try_on(&mut place.within, original, text, may_spend) {
                None => return Redacted::ToBeContinued,
                Some(false) => {}
                Some(true) if rule.policy.redacts() => return Redacted::Yes,
                Some(true) => return Redacted::No,
            }
        }
        Redacted::No
    }
}

/// What has become of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redacted {
    Yes,
    No,
    /// From the place on that it has come to.
    ToBeContinued,
}

/// How far the rules have come with a string.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    rule: usize,
    within: WithinRule,
}

#[derive(Debug, Clone, Copy, Default)]
enum WithinRule {
    #[default]
    Before,
    /// The whole string matches; what its groups do is still to be seen.
    Matches,
    /// The last match of a repeated search ended here.
    Behind(usize),
}

impl Compiled {
    fn new(rule: &Rule<'_>) -> Result<Self, RuleError> {
        let len = rule.pattern.len().max(rule.atrace_payload_starts_with.len());
        if len > MAX_PATTERN_BYTES {
            return Err(RuleError::TooLong { len });
        }
        let (regex, compiled_bytes) = match rule.policy {
            Policy::AtraceRepeatedSearchRedactGroups => compile(rule.pattern, rule)?,
            _ => {
                // By itself first: what is wrong by itself could be right within the frame.
                Parser::new().parse(rule.pattern).map_err(|error| rule.is_wrong(&error))?;
                compile(&format!(r"\A(?:{})\z", rule.pattern), rule)?
            }
        };
        Ok(Self {
            policy: rule.policy,
            regex,
            compiled_bytes,
            prefix: rule.atrace_payload_starts_with.as_bytes().into(),
            name: rule.name.to_owned(),
            semantic_types: mask(rule.semantic_types)?,
        })
    }

    /// Types beyond the mask get all rules: rather one too many than one too few.
    const fn is_for(&self, semantic_type: u32) -> bool {
        semantic_type > MAX_RULE_SEMANTIC_TYPE || self.semantic_types >> semantic_type & 1 == 1
    }

    /// Whether it matches, and all is overwritten that is to be; nothing if it is to be gone on with when more may be spent.
    fn try_on(
        &self,
        within: &mut WithinRule,
        original: &[u8],
        text: &mut [u8],
        may_spend: &mut u64,
    ) -> Option<bool> {
        if self.policy == Policy::AtraceRepeatedSearchRedactGroups {
            return self.redact_all(within, original, text, may_spend);
        }
        // To see that it does not match, as most strings do not, costs less than to see where.
        if matches!(within, WithinRule::Before) {
            self.pay_for(original.len(), may_spend)?;
            if !self.regex.is_match(original) {
                return Some(false);
            }
            *within = WithinRule::Matches;
        }
        if self.policy.redacts() {
            self.pay_for(original.len(), may_spend)?;
            let mut groups = self.regex.capture_locations();
            if self.regex.captures_read(&mut groups, original).is_some() {
                overwrite_groups(&groups, text);
            }
        }
        Some(true)
    }

    /// The groups of all matches. What one of them costs is bounded by what is left of the string, also if it is one letter: an
    /// expression may want to see the end before it knows.
    fn redact_all(
        &self,
        within: &mut WithinRule,
        original: &[u8],
        text: &mut [u8],
        may_spend: &mut u64,
    ) -> Option<bool> {
        let mut groups = self.regex.capture_locations();
        loop {
            let last_end = match *within {
                WithinRule::Behind(end) => Some(end),
                WithinRule::Before | WithinRule::Matches => None,
            };
            let start = last_end.unwrap_or(0);
            self.pay_for(original.len() - start, may_spend)?;
            let mut found = self.regex.captures_read_at(&mut groups, original, start);
            // An empty match where the last one ended is none, as with the iterators of `regex`.
            if last_end.is_some() && found.is_some_and(|found| found.is_empty() && found.end() == start) {
                if start == original.len() {
                    return Some(true);
                }
                // What is left over is paid for by the next one.
                let _ = self.pay_for(original.len() - start, may_spend);
                found = self.regex.captures_read_at(&mut groups, original, start + 1);
            }
            let Some(found) = found else { return Some(last_end.is_some()) };
            overwrite_groups(&groups, text);
            *within = WithinRule::Behind(found.end());
        }
    }

    /// Takes the price of a search in so many bytes, if there is anything left to spend.
    fn pay_for(&self, bytes: usize, may_spend: &mut u64) -> Option<()> {
        if *may_spend == 0 {
            return None;
        }
        let cost = (bytes + SEARCH_BYTES) as u64 * self.compiled_bytes as u64;
        *may_spend = may_spend.saturating_sub(cost);
        Some(())
    }
}

/// Compiles with as little room as it takes. Says how much that is, to the next power of two.
fn compile(pattern: &str, rule: &Rule<'_>) -> Result<(Regex, usize), RuleError> {
    let mut room = MIN_COMPILED_BYTES;
    loop {
        let mut builder = RegexBuilder::new(pattern);
        builder.unicode(false).size_limit(room).dfa_size_limit(MAX_CACHE_BYTES);
        match builder.build() {
            Ok(regex) => return Ok((regex, room)),
            Err(regex::Error::CompiledTooBig(_)) if room < MAX_COMPILED_BYTES => room *= 2,
            Err(error) => return Err(rule.is_wrong(&error)),
        }
    }
}

impl Rule<'_> {
    fn is_wrong(&self, reason: &impl ToString) -> RuleError {
        RuleError::Pattern { pattern: self.pattern.to_owned(), reason: reason.to_string() }
    }
}

fn mask(semantic_types: &[u32]) -> Result<u128, RuleError> {
    if semantic_types.is_empty() {
        return Ok(1);
    }
    let bit = |&semantic_type: &u32| match semantic_type {
        0..=MAX_RULE_SEMANTIC_TYPE => Ok(1u128 << semantic_type),
        _ => Err(RuleError::SemanticType { semantic_type }),
    };
    semantic_types.iter().try_fold(0, |mask, semantic_type| Ok(mask | bit(semantic_type)?))
}

/// Outer groups before those within them: the latter are overwritten last.
fn overwrite_groups(groups: &CaptureLocations, text: &mut [u8]) {
    for (start, end) in (1..groups.len()).filter_map(|index| groups.get(index)) {
        if let Some(group) = text.get_mut(start..end) {
            overwrite(group);
        }
    }
}

fn overwrite(group: &mut [u8]) {
    let mark = REDACTED.iter().copied().chain(std::iter::repeat(PADDING));
    group.iter_mut().zip(mark).for_each(|(byte, mark)| *byte = mark);
}

/// Where the payload of an atrace message begins: after the bar that follows the process id, as in `B|123|payload`.
fn atrace_payload(text: &[u8]) -> Option<usize> {
    /// The first bar is passed over unseen: before it stands one letter. Messages of type `E` have no payload.
    const EARLIEST_SECOND_BAR: usize = 2;
    if text.first() == Some(&b'E') {
        return None;
    }
    let bar = text.get(EARLIEST_SECOND_BAR..)?.iter().position(|byte| *byte == b'|')?;
    Some(EARLIEST_SECOND_BAR + bar + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &[Rule<'_>], semantic_type: u32, text: &[u8], expected: &[u8]) {
        let mut filter = StringFilter::default();
        rules.iter().for_each(|rule| filter.add(rule).unwrap());
        let mut redacted = text.to_vec();
        let has_matched = filter.redact(&mut redacted, semantic_type);
        let show = String::from_utf8_lossy;
        assert_eq!(redacted, expected, "{} became {}", show(text), show(&redacted));
        assert!(has_matched || redacted == text);
    }

    fn check_one(policy: Policy, pattern: &str, prefix: &str, text: &str, expected: &str) {
        let rule = Rule { policy, pattern, atrace_payload_starts_with: prefix, ..Rule::default() };
        check(&[rule], 0, text.as_bytes(), expected.as_bytes());
    }

    #[test]
    fn groups_are_overwritten_in_their_length() {
        let check =
            |pattern, text, expected| check_one(Policy::MatchRedactGroups, pattern, "", text, expected);
        check("user=(.*)", "user=me", "user=P6");
        check("user=(.*)", "user=exactly11ch", "user=P60REDACTED");
        check("user=(.*)", "user=somebody-else", "user=P60REDACTED--");
        check("(a)(b)?", "a", "P");
        check("(a(b))", "ab", "PP");
        check("abc", "abc", "abc");
        check("b", "abc", "abc");
        check("a|ab", "ab", "ab");
        check("(a|ab)", "ab", "P6");
        check("", "abc", "abc");
        check("(.*)", "", "");
        check("(.*)", "two\nlines", "two\nlines");
        check("(?s)(.*)", "two\nlines", "P60REDACT");
    }

    #[test]
    fn strings_need_not_be_text() {
        let rule = Rule { pattern: "a(.*)b", ..Rule::default() };
        check(&[rule], 0, b"a\xff\x00\xc3b", b"aP60b");
        let rule = Rule { pattern: "a(\u{e9})b", ..Rule::default() };
        check(&[rule], 0, "a\u{e9}b".as_bytes(), b"aP6b");
    }

    #[test]
    fn atrace_policies_look_at_the_payload() {
        let check = |prefix, text, expected| {
            check_one(Policy::AtraceMatchRedactGroups, r"B\|\d+\|\w+ (.*)", prefix, text, expected);
        };
        check("work", "B|12|work for me", "B|12|work P60RED");
        check("", "B|12|work for me", "B|12|work P60RED");
        check("play", "B|12|work for me", "B|12|work for me");
        check("work for me and you", "B|12|work for me", "B|12|work for me");
        for text in ["E|12|(secret)", "B|", "B", "B|12"] {
            check_one(Policy::AtraceMatchRedactGroups, "(.*)", "", text, text);
        }
        check_one(Policy::AtraceMatchRedactGroups, "(.*)", "", "B||", "P60");
    }

    #[test]
    fn a_repeated_search_finds_all() {
        let check = |pattern, text, expected| {
            check_one(Policy::AtraceRepeatedSearchRedactGroups, pattern, "", text, expected);
        };
        check(r"\d=(\w+)", "B|1|1=ab 2=cd", "B|1|1=P6 2=P6");
        check("x*(y?)", "B|1|aya", "B|1|aPa");
        check("z(z)", "B|1|aya", "B|1|aya");
        check(r"\d=(\w+)", "no bars 1=ab", "no bars 1=ab");
    }

    #[test]
    fn the_first_rule_that_ends_it_ends_it() {
        let rule =
            |policy, pattern| Rule { policy, pattern, atrace_payload_starts_with: "p", ..Rule::default() };
        let redact_b = rule(Policy::MatchRedactGroups, "(b.*)");
        let redact_all = rule(Policy::MatchRedactGroups, "(.*)");
        let keep_bc = rule(Policy::MatchBreak, "bc");
        let keep_atrace = rule(Policy::AtraceMatchBreak, ".*");
        check(&[keep_bc, redact_b, redact_all], 0, b"bc", b"bc");
        check(&[redact_b, keep_bc], 0, b"bc", b"P6");
        check(&[keep_bc, redact_b], 0, b"xx", b"xx");
        check(&[keep_atrace, redact_all], 0, b"B|1|p", b"B|1|p");
        check(&[keep_atrace, redact_all], 0, b"B|1|q", b"P60RE");
        // It matches, has no groups, and still ends it.
        check(&[rule(Policy::MatchRedactGroups, "bc"), redact_all], 0, b"bc", b"bc");
        check(&[rule(Policy::AtraceRepeatedSearchRedactGroups, "p"), redact_all], 0, b"B|1|p", b"B|1|p");
    }

    #[test]
    fn a_later_rule_takes_the_place_of_its_namesake() {
        let rule = |name, pattern| Rule { name, pattern, ..Rule::default() };
        let rules = [
            rule("one", "a(.)"),
            rule("two", "(a).*"),
            rule("", "b(.)"),
            rule("", "(b.)"),
            rule("one", "(a.)"),
        ];
        check(&rules, 0, b"ax", b"P6");
        check(&rules, 0, b"axx", b"Pxx");
        check(&rules, 0, b"bx", b"bP");
    }

    #[test]
    fn rules_are_for_semantic_types() {
        let rule = |semantic_types| Rule { pattern: "(.*)", semantic_types, ..Rule::default() };
        for (types, semantic_type, matches) in [
            (&[][..], 0, true),
            (&[], 1, false),
            (&[1], 0, false),
            (&[1, 127], 1, true),
            (&[1, 127], 127, true),
            (&[1], 128, true),
            (&[], 65_533, true),
        ] {
            let expected: &[u8] = if matches { b"P6" } else { b"ab" };
            check(&[rule(types)], semantic_type, b"ab", expected);
        }
    }

    #[test]
    fn rules_that_cannot_be_are_refused() {
        let add = |rule: Rule<'_>| StringFilter::default().add(&rule).unwrap_err();
        for pattern in
            ["(", "a)(?:b", r"(a)\1", "(?=a)", "(?x)a # comment", r"\p{Greek}", "((a{1000}){1000}){1000}"]
        {
            let error = add(Rule { pattern, ..Rule::default() });
            assert!(matches!(error, RuleError::Pattern { .. }), "{pattern}: {error}");
        }
        let long = "a".repeat(MAX_PATTERN_BYTES + 1);
        let expected = RuleError::TooLong { len: long.len() };
        assert_eq!(add(Rule { pattern: &long, ..Rule::default() }), expected);
        assert_eq!(add(Rule { atrace_payload_starts_with: &long, ..Rule::default() }), expected);
        let error = add(Rule { semantic_types: &[128], ..Rule::default() });
        assert_eq!(error, RuleError::SemanticType { semantic_type: 128 });
        let mut filter = StringFilter::default();
        for _ in 0..MAX_RULES {
            filter.add(&Rule::default()).unwrap();
        }
        assert_eq!(filter.add(&Rule::default()), Err(RuleError::TooMany));
    }

    #[test]
    fn rules_are_bounded_in_sum() {
        let fill = |pattern: &str, name: fn(usize) -> String| {
            let mut filter = StringFilter::default();
            let add = |index| filter.add(&Rule { pattern, name: &name(index), ..Rule::default() });
            (0..MAX_RULES).map(add).take_while(Result::is_ok).count()
        };
        // A kilobyte of text, and a little that is large once it is compiled.
        assert_eq!(fill(&"(?:)".repeat(256), |_| String::new()), MAX_ALL_PATTERNS_BYTES / 1024);
        let large = "(?:a{50}b|c){3}";
        let mut room = StringFilter::default();
        room.add(&Rule { pattern: large, ..Rule::default() }).unwrap();
        let each = room.rules[0].compiled_bytes;
        assert!((4096..=MAX_COMPILED_BYTES).contains(&each), "{each}");
        assert_eq!(fill(large, |_| String::new()), MAX_ALL_COMPILED_BYTES / each);
        // Whose place is taken has been compiled nevertheless.
        assert_eq!(fill(large, |_| "one".to_owned()), MAX_ALL_COMPILED_BYTES / each);
    }

    /// What is left of a string after each step of the least that can be spent, and the last word on it.
    fn in_steps(rule: &Rule<'_>, original: &[u8], step: u64) -> (usize, Vec<u8>) {
        let mut filter = StringFilter::default();
        filter.add(rule).unwrap();
        let (mut place, mut text) = (Place::default(), original.to_vec());
        let mut redact = || filter.redact_from(&mut place, original, &mut text, 0, &mut step.clone());
        let steps =
            std::iter::repeat_with(&mut redact).take_while(|redacted| *redacted == Redacted::ToBeContinued);
        let count = steps.count();
        (count, text)
    }

    #[test]
    fn each_match_of_a_repeated_search_is_paid_for_by_what_is_left_of_the_string() {
        // Whether a letter matches is known at the end of the string only.
        let policy = Policy::AtraceRepeatedSearchRedactGroups;
        let rule = Rule { policy, pattern: ".*[^A-Z]|([A-Z])", ..Rule::default() };
        let (short, long) = ([b"B|1|", &[b'A'; 500][..]].concat(), [b"B|1|", &[b'A'; 2000][..]].concat());
        let step = 8 << 20;
        let (steps_of_short, redacted) = in_steps(&rule, &short, step);
        assert_eq!(redacted, [b"B|1|", &[b'P'; 500][..]].concat());
        let (steps_of_long, _) = in_steps(&rule, &long, step);
        assert!(steps_of_short >= 10, "{steps_of_short}");
        assert!(steps_of_long >= 12 * steps_of_short, "{steps_of_long}, {steps_of_short}");
    }

    #[test]
    fn a_search_that_is_interrupted_finds_what_one_at_once_does() {
        let policy = Policy::AtraceRepeatedSearchRedactGroups;
        let text = b"B|1|ab 12 abc\nx y aya 2=cd";
        for pattern in [
            r"\b(\w)",
            r"(?m)^(\w)",
            r"(\w+)",
            "x*(y?)",
            "()",
            "(a(b))|(c)",
            r"\d=(\w+)",
            "nothing",
            r"\B(.)\B",
        ] {
            let rule = Rule { policy, pattern, ..Rule::default() };
            let mut filter = StringFilter::default();
            filter.add(&rule).unwrap();
            // As the iterator of `regex` finds them.
            let mut expected = text.to_vec();
            for found in filter.rules[0].regex.captures_iter(text) {
                found.iter().skip(1).flatten().for_each(|group| overwrite(&mut expected[group.range()]));
            }
            let (steps, redacted) = in_steps(&rule, text, 1);
            assert_eq!(redacted, expected, "{pattern}: {:?}", String::from_utf8_lossy(&redacted));
            assert!(steps > 0 || expected == text, "{pattern}");
        }
    }

    #[test]
    fn long_strings_are_overwritten_if_there_is_a_rule_for_them() {
        let rule = Rule { pattern: "nothing", semantic_types: &[1], ..Rule::default() };
        let long = vec![b'x'; MAX_STRING_BYTES + 1];
        check(&[rule], 0, &long, &long);
        let mut expected = long.clone();
        overwrite(&mut expected);
        check(&[rule], 1, &long, &expected);
        let shorter = &long[1..];
        check(&[rule], 1, shorter, shorter);
    }
}
