//! The text of a query as words, each with its place, and statements as runs of words.

use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::error::Error;
use crate::sql::dialect::{Perfetto, is_glob};

/// Bytes of a text: what a person or a program writes has less. Words take fifty times as much while they are read.
const MAX_BYTES: usize = 2 << 20;
/// How many brackets may lie within each other: for each of some kinds planners go through all that lies within once more.
const MAX_BRACKETS: usize = 200;
/// And how many queries: each is planned once more for what stands around it.
const MAX_QUERIES: usize = 64;
/// Bytes of a name: whoever looks for one that is like it compares each letter with each.
const MAX_NAME_BYTES: usize = 1000;
/// Characters between places whose bytes are known.
const STRIDE: usize = 64;
/// How deep expressions and queries may lie within each other, chains such as `a + b + c + …` counted by their length: what reads them
/// recurses. The stacks that it is done on ([`crate::runtime`]) are made for this.
const MAX_DEPTH: usize = 1500;

/// A query's text.
#[derive(Debug)]
pub(crate) struct Text<'a> {
    text: &'a str,
    /// Where each line begins: its byte, and its character.
    lines: Vec<(usize, usize)>,
    /// The byte of each [`STRIDE`]th character.
    marks: Vec<usize>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let (mut lines, mut marks) = (vec![(0, 0)], Vec::new());
        // One that is too long is not looked at.
        for (number, (at, it)) in text.char_indices().take(MAX_BYTES).enumerate() {
            if number % STRIDE == 0 {
                marks.push(at);
            }
            if it == '\n' {
                lines.push((at + 1, number + 1));
            }
        }
        Self { text, lines, marks }
    }

    /// Its words, without blanks and comments.
    pub(crate) fn words(&self) -> Result<Vec<TokenWithSpan>, Error> {
        if self.text.len() > MAX_BYTES {
            return Err(Error::plain(format!("the query's text has more than {} MB", MAX_BYTES >> 20)));
        }
        let mut words = Vec::new();
        let mut tokenizer = Tokenizer::new(&Perfetto, self.text);
        if let Err(error) = tokenizer.tokenize_with_location_into_buf(&mut words) {
            return Err(Error::at(self, error.location, error.message));
        }
        for word in &mut words {
            // Numbers to the base of 16; bytes are written x'0a'.
            if let Token::HexStringLiteral(digits) = &word.token
                && self.between(word.span.start, word.span.end).starts_with('0')
                && let Ok(value) = u64::from_str_radix(digits, 16)
            {
                word.token = Token::Number((value as i64).to_string(), false);
            }
        }
        if let Some(word) = words.iter().find(|word| is_long_name(&word.token)) {
            let message = format!("a name has more than {MAX_NAME_BYTES} bytes");
            return Err(Error::at(self, word.span.start, message));
        }
        words.retain(|word| !matches!(word.token, Token::Whitespace(_) | Token::EOF));
        Ok(words)
    }

    /// The bytes from one place to another.
    pub(crate) fn between(&self, start: Location, end: Location) -> &'a str {
        self.text.get(self.offset(start)..self.offset(end)).unwrap_or_default()
    }

    /// All from a place on.
    fn from(&self, start: Location) -> &'a str {
        self.text.get(self.offset(start)..).unwrap_or_default()
    }

    /// The line of a place.
    pub(crate) fn line(&self, place: Location) -> &'a str {
        let from = self.line_start(place);
        self.text.get(from..).and_then(|rest| rest.lines().next()).unwrap_or_default()
    }

    fn offset(&self, place: Location) -> usize {
        let Some((_, first)) = self.line_of(place) else { return self.text.len() };
        let before = usize::try_from(place.column).unwrap_or(usize::MAX).saturating_sub(1);
        let number = first.saturating_add(before);
        let from = self.marks.get(number / STRIDE).copied().unwrap_or(self.text.len());
        let rest = self.text.get(from..).unwrap_or_default();
        from + rest.char_indices().nth(number % STRIDE).map_or(rest.len(), |(at, _)| at)
    }

    fn line_start(&self, place: Location) -> usize {
        self.line_of(place).map_or(self.text.len(), |(at, _)| at)
    }

    fn line_of(&self, place: Location) -> Option<(usize, usize)> {
        let line = usize::try_from(place.line).unwrap_or(usize::MAX).saturating_sub(1);
        self.lines.get(line).copied()
    }
}

fn is_long_name(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.value.len() > MAX_NAME_BYTES)
}

/// Runs of words between semicolons; empty ones left out.
pub(crate) fn statements(words: Vec<TokenWithSpan>) -> Vec<Vec<TokenWithSpan>> {
    let mut statements = vec![Vec::new()];
    for word in words {
        match (&word.token, statements.last_mut()) {
            (Token::SemiColon, _) => statements.push(Vec::new()),
            (_, Some(statement)) => statement.push(word),
            (_, None) => {}
        }
    }
    statements.retain(|statement| !statement.is_empty());
    statements
}

/// What lies behind each other in a parenthesis.
#[derive(Clone, Copy, Default)]
struct Chain {
    /// Operators since the last comma.
    operators: usize,
    /// Queries that `UNION` and its like join.
    queries: usize,
    /// Whether a query begins behind its bracket.
    is_query: bool,
}

/// The statements of a text that end with semicolons, and what stands behind the last one.
pub(crate) fn split(sql: &str) -> (Vec<&str>, &str) {
    let text = Text::new(sql);
    // What cannot be read yet may be a text that has no end yet.
    let Ok(words) = text.words() else { return (Vec::new(), sql) };
    let mut whole = Vec::new();
    let mut first = None;
    for word in &words {
        match (&word.token, first) {
            (Token::SemiColon, Some(start)) => {
                whole.push(text.between(start, word.span.start));
                first = None;
            }
            (Token::SemiColon, None) => {}
            (_, None) => first = Some(word.span.start),
            _ => {}
        }
    }
    (whole, first.map_or("", |start| text.from(start)))
}

/// Whether the statement is no deeper than what reads it can bear; else the place where it becomes so.
pub(crate) fn check_depth(words: &[TokenWithSpan]) -> Result<(), Location> {
    let mut open = vec![Chain::default()];
    let (mut depth, mut queries) = (0, 0);
    for (at, word) in words.iter().enumerate() {
        let Some(chain) = open.last_mut() else { return Ok(()) };
        match &word.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let is_query = words.get(at + 1).is_some_and(|next| begins_query(&next.token));
                open.push(Chain { is_query, ..Chain::default() });
                depth += 1;
                queries += usize::from(is_query);
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                let chain = open.pop().unwrap_or_default();
                // One that closes nothing is found by what reads the words.
                if open.is_empty() {
                    return Ok(());
                }
                depth -= chain.operators + chain.queries + 1;
                queries -= usize::from(chain.is_query);
            }
            Token::Comma => depth -= std::mem::take(&mut chain.operators),
            token if is_set_operator(token) => {
                depth -= std::mem::take(&mut chain.operators);
                chain.queries += 1;
                depth += 1;
            }
            token if binds(token) => {
                chain.operators += 1;
                depth += 1;
            }
            _ => {}
        }
        if depth > MAX_DEPTH || open.len() > MAX_BRACKETS || queries > MAX_QUERIES {
            return Err(word.span.start);
        }
    }
    Ok(())
}

fn begins_query(token: &Token) -> bool {
    use sqlparser::keywords::Keyword as K;
    matches!(token, Token::Word(word) if word.quote_style.is_none()
        && matches!(word.keyword, K::SELECT | K::WITH | K::VALUES))
}

fn is_set_operator(token: &Token) -> bool {
    use sqlparser::keywords::Keyword as K;
    matches!(token, Token::Word(word) if word.quote_style.is_none()
        && matches!(word.keyword, K::UNION | K::EXCEPT | K::INTERSECT))
}

/// Whether it makes of two things one, or of one another.
fn binds(token: &Token) -> bool {
    use sqlparser::keywords::Keyword as K;
    match token {
        Token::Word(word) if word.quote_style.is_none() => {
            is_glob(token)
                || matches!(
                    word.keyword,
                    K::AND
                        | K::OR
                        | K::XOR
                        | K::NOT
                        | K::JOIN
                        | K::CASE
                        | K::IN
                        | K::BETWEEN
                        | K::LIKE
                        | K::ILIKE
                        | K::SIMILAR
                        | K::REGEXP
                        | K::RLIKE
                        | K::MATCH
                        | K::MEMBER
                        | K::COLLATE
                        | K::IS
                        | K::NOTNULL
                        | K::AT
                        | K::DIV
                        | K::OVERLAPS
                        | K::OPERATOR
                        | K::INTERVAL
                        | K::EXPLAIN
                        | K::PRIOR
                        | K::SELECT
                        | K::VALUES
                )
        }
        // Whatever else is no value and stands between none: each sign is an operator of some dialect.
        Token::Word(_)
        | Token::Number(..)
        | Token::Char(_)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::NationalStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::Placeholder(_)
        | Token::Period
        | Token::SemiColon => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let of = Text::new(text);
        let parts = statements(of.words().unwrap());
        let part = |words: &Vec<TokenWithSpan>| {
            of.between(words.first().unwrap().span.start, words.last().unwrap().span.end).to_owned()
        };
        parts.iter().map(part).collect()
    }

    #[test]
    fn statements_end_with_semicolons_that_stand_in_no_text_and_no_comment() {
        assert_eq!(
            split("select ';' -- ; \n as a; /* ; */ ;\n  select 'ü', \"x;\";"),
            ["select ';' -- ; \n as a", "select 'ü', \"x;\""]
        );
        assert!(split(" ; -- nothing\n").is_empty());
    }

    #[test]
    fn statements_that_are_whole_are_told_from_what_is_not_yet() {
        assert_eq!(
            super::split("select ';'; ; select 2;\nsel -- ;"),
            (vec!["select ';'", "select 2"], "sel -- ;")
        );
        assert_eq!(super::split("select 'a;"), (vec![], "select 'a;"));
        assert_eq!(super::split(" -- nothing\n"), (vec![], ""));
    }

    #[test]
    fn what_is_too_deep_is_found_before_it_is_read() {
        let depth_of = |text: &str| check_depth(&Text::new(text).words().unwrap());
        let sum = |n: usize| format!("select 1{}", " + 1".repeat(n));
        assert!(depth_of(&sum(MAX_DEPTH - 1)).is_ok());
        assert!(depth_of(&sum(MAX_DEPTH)).is_err());
        assert!(depth_of(&format!("select {}1{}", "(".repeat(2000), ")".repeat(2000))).is_err());
        assert!(depth_of(&format!("select {}", vec!["1 + 1"; 5000].join(", "))).is_ok());
        assert!(depth_of("select 1) + 2)").is_ok());
        for chain in [" glob 1", " collate nocase", "::int", " notnull", " ->> 1", " union select 1, 2"] {
            assert!(depth_of(&format!("select 1{}", chain.repeat(MAX_DEPTH))).is_err(), "{chain}");
        }
    }

    #[test]
    fn places_are_found_in_long_lines_and_between_letters_of_many_bytes() {
        let line = "é".repeat(100);
        let sql = format!("a {line}\n{line} {line} x, y");
        let text = Text::new(&sql);
        let words = text.words().unwrap();
        let found: Vec<&str> =
            words.iter().map(|word| text.between(word.span.start, word.span.end)).collect();
        assert_eq!(found, ["a", &line, &line, &line, "x", ",", "y"]);
    }
}
